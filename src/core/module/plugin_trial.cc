/// plugin_trial.cc: a fork that loads a plugin, so that one that aborts, crashes, throws from a
/// static initialiser or hangs takes a child with it. (An exception that leaves a static
/// initialiser in dlopen cannot be recovered from in the process itself: the dynamic loader keeps
/// its lock.) The child reports through a file in memory and leaves by _exit: no destructor, no
/// flush of what the parent had buffered.
#include "plugin_trial.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <shared_mutex>
#include <thread>

#include "core/op/registry_lock.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr size_t kTail = 400;  // of what the child wrote, shown

/// A file in memory that both processes have.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {
    WEFT_CHECK(fd_ >= 0, kPlugin, "no child process can be watched: {}", std::strerror(errno));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }
  std::string Content() const {
    std::string out;
    char buffer[4096];
    for (off_t at = 0;;) {
      const ssize_t n = pread(fd_, buffer, sizeof buffer, at);
      if (n <= 0) return out;
      out.append(buffer, size_t(n));
      at += n;
    }
  }
  void Append(const std::string& text) const {
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = write(fd_, text.data() + done, text.size() - done);
      if (n <= 0) return;
      done += size_t(n);
    }
  }

 private:
  int fd_;
};

/// Strings with their lengths in front, one after the other.
class Writer {
 public:
  Writer& Add(const std::string& s) {
    text_ += std::to_string(s.size()) + ":" + s;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  bool AtEnd() const { return at_ >= text_.size(); }
  std::string Next() {
    const size_t colon = text_.find(':', at_);
    WEFT_ICHECK(colon != std::string::npos, "a child's report is cut off");
    const size_t size = std::stoul(text_.substr(at_, colon - at_));
    std::string s = text_.substr(colon + 1, size);
    at_ = colon + 1 + size;
    return s;
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

[[noreturn]] void RunChild(const MemoryFile& report, const MemoryFile& log,
                           const std::function<PluginInfo()>& load) {
  // No other thread holds the registries: the parent had them locked. The lock itself names a
  // thread of the parent.
  new (&RegistryMutex()) std::shared_mutex;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing waits for it any more
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(log.fd(), 1);
  dup2(log.fd(), 2);
  for (int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGINT}) signal(s, SIG_DFL);
  Writer out;
  try {
    const PluginInfo p = load();
    out.Add("ok").Add(p.name).Add(p.version).Add(p.doc).Add(p.path).Add(p.tier);
    out.Add(std::to_string(p.api));
    for (const RegisteredItem& i : p.items) out.Add(i.kind).Add(i.name);
  } catch (const Error& e) {
    out = Writer();
    out.Add("error").Add(std::to_string(int(e.code())));
    out.Add(e.message()).Add(e.place()).Add(e.hint());
  } catch (...) {
    out = Writer();
    out.Add("error").Add(std::to_string(int(ErrorCode::kOutOfMemory))).Add("out of memory");
    out.Add("").Add("");
  }
  report.Append(out.text());
  _exit(0);
}

/// Waits; gives the wait status, or nothing when time was up and the child was killed.
bool Wait(pid_t child, double seconds, int* status) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  auto pause = std::chrono::microseconds(200);
  while (true) {
    const pid_t got = waitpid(child, status, WNOHANG);
    if (got == child) return true;
    if (got < 0 && errno != EINTR) {  // somebody else collected it: its report tells
      *status = 0;
      return true;
    }
    if (Clock::now() >= end) {
      kill(child, SIGKILL);
      while (waitpid(child, status, 0) < 0 && errno == EINTR) {
      }
      return false;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
}

std::string Tail(const MemoryFile& log) {
  std::string text = log.Content();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.size() > kTail) text = "..." + text.substr(text.size() - kTail);
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.empty() ? text : "; it wrote: " + text;
}

}  // namespace

PluginInfo RunPluginTrial(const std::string& path, double seconds,
                          const std::function<PluginInfo()>& load) {
  const MemoryFile report("weft-plugin-report"), log("weft-plugin-log");
  RegistryMutex().lock();  // so that the child finds whole registries
  const pid_t child = fork();
  if (child == 0) RunChild(report, log, load);
  RegistryMutex().unlock();
  WEFT_CHECK(child >= 0, kPlugin, "plugin '{}' cannot be tried in a child process: {}", path,
             std::strerror(errno));
  int status = 0;
  if (!Wait(child, seconds, &status))
    ThrowError(
        ErrorCode::kPlugin,
        fmt::format("plugin '{}' did not start within {} s in the child process that tried it{}",
                    path, seconds, Tail(log)),
        "", "its entry or a static initialiser waits for something");
  const std::string text = report.Content();
  if (WIFSIGNALED(status))
    ThrowError(ErrorCode::kPlugin,
               fmt::format("plugin '{}' ended the child process that tried it by signal {} ({}){}",
                           path, WTERMSIG(status), strsignal(WTERMSIG(status)), Tail(log)),
               "", "its entry or a static initialiser crashes or aborts");
  if (text.empty())
    ThrowError(ErrorCode::kPlugin,
               fmt::format("plugin '{}' ended the child process that tried it with exit code {}{}",
                           path, WEXITSTATUS(status), Tail(log)),
               "", "its entry or a static initialiser calls exit");
  Reader in(text);
  if (in.Next() != "ok") {
    const auto code = ErrorCode(std::stoi(in.Next()));
    const std::string message = in.Next(), place = in.Next(), hint = in.Next();
    ThrowError(code, message, place, hint);
  }
  PluginInfo p;
  p.name = in.Next();
  p.version = in.Next();
  p.doc = in.Next();
  p.path = in.Next();
  p.tier = in.Next();
  p.api = uint32_t(std::stoul(in.Next()));
  while (!in.AtEnd()) {
    RegisteredItem item;
    item.kind = in.Next();
    item.name = in.Next();
    p.items.push_back(std::move(item));
  }
  return p;
}

}  // namespace weft
