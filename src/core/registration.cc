/// registration.cc: how registration statements take effect. They run during static initialisation, where a throw would
/// end the process, so errors are kept and thrown by the first look-up; while a plugin loads they are staged.
#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "registry_lock.h"
#include "weft/core/op.h"
#include "weft/core/staging.h"
#include "weft/support/check.h"

namespace weft {
namespace {

std::mutex& KeptMutex() {
  static std::mutex* m = new std::mutex;
  return *m;
}
std::atomic<bool> g_kept{false};  // a quick look before the lock
std::exception_ptr& Kept() {
  static std::exception_ptr* e = new std::exception_ptr;
  return *e;
}
thread_local StagingScope* t_staging = nullptr;

}  // namespace

std::shared_mutex& RegistryMutex() {
  static std::shared_mutex* m = new std::shared_mutex;
  return *m;
}

void KeepRegistrationError(std::exception_ptr error) {
  std::lock_guard lock(KeptMutex());
  if (!Kept()) Kept() = error;
  g_kept.store(true);
}

void CheckRegistrations() {
  if (!g_kept.load(std::memory_order_relaxed)) return;
  std::exception_ptr error;
  {
    std::lock_guard lock(KeptMutex());
    std::swap(error, Kept());
    g_kept.store(false);
  }
  if (error) std::rethrow_exception(error);
}

void CommitRegistration(std::function<void()> commit) {
  if (t_staging) {
    t_staging->staged_.push_back(std::move(commit));
    return;
  }
  try {
    commit();
  } catch (...) {
    KeepRegistrationError(std::current_exception());
  }
}

StagingScope::StagingScope() : outer_(t_staging) { t_staging = this; }
StagingScope::~StagingScope() { Close(); }
void StagingScope::Close() {
  if (open_) t_staging = outer_;
  open_ = false;
}
void StagingScope::CommitAll() {
  Close();
  for (const auto& commit : staged_) commit();
  staged_.clear();
}

}  // namespace weft
