/// registration.cc: how registration statements take effect: the lock of all registries,
/// transactions with a journal of how to take back what was done, and staging. Statements run
/// during static initialisation, where a throw would end the process, so errors are kept and thrown
/// by the first look-up; while a plugin loads they are staged.
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "registry_lock.h"
#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"

namespace weft {
namespace {

std::mutex& KeptMutex() {
  static std::mutex* m = new std::mutex;
  return *m;
}
std::atomic<bool> g_kept{false};  // a quick look before the lock
/// Most errors that are kept word for word.
constexpr size_t kMaxKept = 20;
struct KeptErrors {
  std::vector<std::exception_ptr> first;
  size_t more = 0;
};
KeptErrors& Kept() {
  static KeptErrors* e = new KeptErrors;
  return *e;
}

/// All of them as one error, of the code of the first.
[[noreturn]] void ThrowAll(const KeptErrors& kept) {
  std::optional<ErrorCode> code;
  std::string text;
  for (const std::exception_ptr& error : kept.first) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (!code) code = e.code();
      text += "\n  " + e.message() + (e.hint().empty() ? "" : " (" + e.hint() + ")");
    } catch (const std::exception& e) {
      text += std::string("\n  ") + e.what();
    }
  }
  if (kept.more > 0) text += fmt::format("\n  and {} more", kept.more);
  ThrowError(code.value_or(ErrorCode::kInternal),
             fmt::format("{} registrations failed:{}", kept.first.size() + kept.more, text));
}

/// What a transaction did so far.
struct Journal {
  std::vector<std::function<void()>> undo;
  std::vector<RegisteredItem> items;
  std::string module;
};
thread_local StagingScope* t_staging = nullptr;
thread_local Journal* t_journal = nullptr;

std::atomic<uint64_t> g_revision{0};

void RunTransaction(Journal* journal, const std::function<void()>& body) {
  std::unique_lock lock(RegistryMutex());
  struct Revise {
    Revise() { ++g_revision; }
    ~Revise() { ++g_revision; }
  } revise;
  t_journal = journal;
  try {
    body();
  } catch (...) {
    for (auto it = journal->undo.rbegin(); it != journal->undo.rend(); ++it) (*it)();
    t_journal = nullptr;
    throw;
  }
  t_journal = nullptr;
}

}  // namespace

std::shared_mutex& RegistryMutex() {
  static std::shared_mutex* m = new std::shared_mutex;
  return *m;
}
uint64_t RegistryRevision() { return g_revision; }
bool InRegistryTransaction() { return t_journal != nullptr; }

RegistryRead::RegistryRead() : locked_(t_journal == nullptr) {
  if (locked_) RegistryMutex().lock_shared();
}
RegistryRead::~RegistryRead() {
  if (locked_) RegistryMutex().unlock_shared();
}

void RegistryTransaction(const std::function<void()>& body) {
  if (t_journal) return body();
  WEFT_CHECK(
      !t_staging, kApiMisuse,
      "while a plugin starts, registrations are staged: use the registration macros instead of "
      "Commit()");
  Journal journal;
  RunTransaction(&journal, body);
}
void OnRollback(std::function<void()> undo) {
  WEFT_ICHECK(t_journal, "a registry is changed outside of a transaction");
  t_journal->undo.push_back(std::move(undo));
}
void NoteRegistration(std::string kind, std::string name) {
  if (!t_journal) return;
  RegisteredItem item{std::move(kind), std::move(name)};
  for (const RegisteredItem& known : t_journal->items)
    if (known == item) return;  // an operator opened in several statements is one operator
  t_journal->items.push_back(std::move(item));
}
std::string RegisteringModule(const std::string& otherwise) {
  return t_journal && !t_journal->module.empty() ? t_journal->module : otherwise;
}

void KeepRegistrationError(std::exception_ptr error) {
  std::lock_guard lock(KeptMutex());
  KeptErrors& kept = Kept();
  if (kept.first.size() < kMaxKept)
    kept.first.push_back(std::move(error));
  else
    ++kept.more;
  g_kept.store(true);
}

void CheckRegistrations() {
  if (!g_kept.load(std::memory_order_relaxed)) return;
  KeptErrors kept;
  {
    std::lock_guard lock(KeptMutex());
    std::swap(kept, Kept());
    g_kept.store(false);
  }
  if (kept.first.size() == 1) std::rethrow_exception(kept.first[0]);
  if (!kept.first.empty()) ThrowAll(kept);
}

void CommitRegistration(std::function<void()> commit) {
  if (t_staging) {
    t_staging->staged_.push_back(std::move(commit));
    return;
  }
  try {
    RegistryTransaction(commit);
  } catch (...) {
    KeepRegistrationError(std::current_exception());
  }
}

std::vector<RegisteredItem> RegisterNow(const std::function<void()>& statements,
                                        const std::string& module) {
  StagingScope scope;
  statements();
  return scope.CommitAll(module);
}

StagingScope::StagingScope() : outer_(t_staging) { t_staging = this; }
StagingScope::~StagingScope() { Close(); }
void StagingScope::Close() {
  if (open_) t_staging = outer_;
  open_ = false;
}
std::vector<RegisteredItem> StagingScope::CommitAll(const std::string& module) {
  Close();
  WEFT_ICHECK(!t_journal, "staged registrations are committed inside a transaction");
  Journal journal;
  journal.module = module;
  RunTransaction(&journal, [&] {
    for (const auto& commit : staged_) commit();
  });
  staged_.clear();
  return std::move(journal.items);
}

}  // namespace weft
