/// staging.h: registrations take effect whole or not at all.
///
/// Every registry (operators, passes, graph attributes, rewrite rules, backends, kernel compilers)
/// is guarded by one lock and written inside a `RegistryTransaction`: what a registration changes
/// it can take back (`OnRollback`), and says (`NoteRegistration`). A plugin's static initialisers
/// run inside dlopen, before any check can: a `StagingScope` holds back what they register, and
/// commits all of it in one transaction or drops it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// One thing that a module registered.
struct RegisteredItem {
  /// "op", "op attributes", "op group", "pass", "graph attribute",
  /// "rule", "backend", "kernel compiler"
  std::string kind;
  std::string name;
  friend bool operator==(const RegisteredItem& a, const RegisteredItem& b) {
    return a.kind == b.kind && a.name == b.name;
  }
};

/// Shared access to all registries; no registration happens meanwhile. Free inside a transaction
/// of the same thread.
class WEFT_API RegistryRead {
 public:
  RegistryRead();
  ~RegistryRead();
  RegistryRead(const RegistryRead&) = delete;
  RegistryRead& operator=(const RegistryRead&) = delete;

 private:
  bool locked_;
};

/// Runs `body` with all registries locked. Where it throws, everything it registered is taken back,
/// last first. Inside another transaction of the same thread it is a part of that one. Throws
/// kApiMisuse while a StagingScope is open.
WEFT_API void RegistryTransaction(const std::function<void()>& body);
/// Counts the begins and ends of transactions: odd while one runs. What was derived from the
/// registries at an even revision holds as long as the revision is the same.
WEFT_API uint64_t RegistryRevision();
/// What is derived from the registries, made anew when they have changed.
template <class T>
class DerivedFromRegistries {
 public:
  template <class Make>
  std::shared_ptr<const T> Get(Make&& make) {
    const uint64_t revision = RegistryRevision();
    {
      std::lock_guard lock(mutex_);
      if (made_ && made_at_ == revision) return made_;
    }
    std::shared_ptr<const T> fresh = make();
    std::lock_guard lock(mutex_);
    // Inside a transaction what is registered may be taken back.
    if (revision % 2 == 0 && revision == RegistryRevision()) made_ = fresh, made_at_ = revision;
    return fresh;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const T> made_;
  uint64_t made_at_ = 0;
};
/// Inside a transaction: how to take back the change that comes next. `undo` must not throw.
WEFT_API void OnRollback(std::function<void()> undo);
/// Inside a transaction: what it registered, for the list of a plugin.
WEFT_API void NoteRegistration(std::string kind, std::string name);
/// Inside the commit of a StagingScope: the name of its module; else `otherwise`.
WEFT_API std::string RegisteringModule(const std::string& otherwise);

/// Commits a registration statement: in a transaction, keeping what it throws for the first look-up
/// that follows; or stages it while a StagingScope is open on this thread.
WEFT_API void CommitRegistration(std::function<void()> commit);

/// For a program that runs: the registration statements that `statements` makes on this thread, in
/// order, all or nothing; throws the first error, which a static initialiser could only keep.
/// `module` (where it is not empty) replaces the module that they name. Returns what was
/// registered.
WEFT_API std::vector<RegisteredItem> RegisterNow(const std::function<void()>& statements,
                                                 const std::string& module = {});

class WEFT_API StagingScope {
 public:
  StagingScope();
  ~StagingScope();
  /// From now on registrations of this thread are not staged here.
  void Close();
  /// Commits what was staged, in order, all or nothing; throws the first error. `module`
  /// (where it is not empty) replaces the module that the statements name. Returns what
  /// was registered, in order.
  std::vector<RegisteredItem> CommitAll(const std::string& module = {});
  size_t size() const { return staged_.size(); }
  StagingScope(const StagingScope&) = delete;
  StagingScope& operator=(const StagingScope&) = delete;

 private:
  friend void CommitRegistration(std::function<void()> commit);
  std::vector<std::function<void()>> staged_;
  StagingScope* outer_;
  bool open_ = true;
};

}  // namespace weft
