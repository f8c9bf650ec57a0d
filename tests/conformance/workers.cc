/// workers.cc: a queue in shared memory, one pipe a worker. The parent loads no backend and starts
/// no thread, so it may fork at any time.
#include "workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "weft/core/module/plugin.h"

namespace weft::conformance {
namespace {

using Clock = std::chrono::steady_clock;

struct Worker {
  pid_t pid = -1;
  int fd = -1;
  std::string pending;       ///< bytes of a record that is not whole yet
  int at = -1, backend = 0;  ///< what it is at; -1: nothing
  Clock::time_point heard{};
  bool silent = false;  ///< killed for it
};

/// "B <case> <backend>\n" before a run, "R <case> <backend> <status> <reason>\n" after it.
void Say(int fd, std::string line) {
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(fd, line.data() + done, line.size() - done);
    if (n <= 0) _exit(3);
    done += size_t(n);
  }
}

[[noreturn]] void Work(const std::vector<Case>& cases, const Engines& engines,
                       const std::vector<std::string>& plugins, std::atomic<int>* next, int fd) {
  for (const std::string& p : plugins) LoadPlugin(p);
  for (int i = (*next)++; i < int(cases.size()); i = (*next)++) {
    for (size_t b = 0; b < engines.size(); ++b) {
      Say(fd, fmt::format("B {} {}", i, b));
      const Outcome o = RunCase(cases[size_t(i)], engines[b]);
      Say(fd, fmt::format("R {} {} {} {}", i, b, int(o.status), o.reason));
    }
  }
  // Not exit(): the destructors of the parent's objects are the parent's.
  _exit(0);
}

class Pool {
 public:
  Pool(const std::vector<Case>& cases, const Engines& engines, int timeout_s,
       const std::vector<std::string>& plugins)
      : cases_(cases),
        engines_(engines),
        plugins_(plugins),
        timeout_(timeout_s),
        results_(cases.size(), CaseResult(engines.size(), {Status::kError, "it was not run"})) {
    void* page = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::runtime_error("no shared memory");
    next_ = new (page) std::atomic<int>(0);
  }
  ~Pool() { munmap(next_, sizeof(std::atomic<int>)); }

  std::vector<CaseResult> Run(int workers) {
    for (int i = 0; i < workers; ++i) Start();
    while (!workers_.empty()) Turn();
    return std::move(results_);
  }

 private:
  void Start() {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
      close(ends[0]);
      for (const Worker& w : workers_) close(w.fd);
      Work(cases_, engines_, plugins_, next_, ends[1]);
    }
    close(ends[1]);
    Worker w;
    w.pid = pid;
    w.fd = ends[0];
    w.heard = Clock::now();
    workers_.push_back(w);
  }

  void Turn() {
    std::vector<pollfd> fds;
    for (const Worker& w : workers_) fds.push_back({w.fd, POLLIN, 0});
    poll(fds.data(), fds.size(), 1000);
    const auto now = Clock::now();
    for (size_t i = fds.size(); i-- > 0;) {
      Worker& w = workers_[i];
      if (fds[i].revents != 0) {
        char bytes[4096];
        const ssize_t n = read(w.fd, bytes, sizeof bytes);
        if (n <= 0) {
          End(i);
          continue;
        }
        w.heard = now;
        Take(&w, std::string(bytes, size_t(n)));
      } else if (now - w.heard > std::chrono::seconds(timeout_) && !w.silent) {
        w.silent = true;
        kill(w.pid, SIGKILL);
      }
    }
  }

  void Take(Worker* w, const std::string& bytes) {
    w->pending += bytes;
    for (size_t end; (end = w->pending.find('\n')) != std::string::npos;) {
      const std::string line = w->pending.substr(0, end);
      w->pending.erase(0, end + 1);
      int at = -1, backend = 0, status = 0, length = 0;
      if (std::sscanf(line.c_str(), "B %d %d", &at, &backend) == 2) {
        w->at = at;
        w->backend = backend;
      } else if (std::sscanf(line.c_str(), "R %d %d %d %n", &at, &backend, &status, &length) == 3) {
        results_.at(size_t(at)).at(size_t(backend)) = {Status(status), line.substr(size_t(length))};
        w->at = -1;
      }
    }
  }

  void End(size_t i) {
    const Worker w = workers_[i];
    workers_.erase(workers_.begin() + long(i));
    close(w.fd);
    int state = 0;
    waitpid(w.pid, &state, 0);
    if (w.at < 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0) return;
    const std::string how = w.silent ? fmt::format("no answer within {} s", timeout_)
                            : WIFSIGNALED(state)
                                ? fmt::format("the process died: {}", strsignal(WTERMSIG(state)))
                                : fmt::format("the process ended with {}", WEXITSTATUS(state));
    if (w.at >= 0) results_[size_t(w.at)][size_t(w.backend)] = {Status::kError, how};
    // What the dead worker would have done with this case on the other engines is lost; the rest
    // is still in the queue.
    if (*next_ < int(cases_.size())) Start();
  }

  const std::vector<Case>& cases_;
  const Engines& engines_;
  const std::vector<std::string>& plugins_;
  const int timeout_;
  std::vector<CaseResult> results_;
  std::atomic<int>* next_ = nullptr;
  std::vector<Worker> workers_;
};

}  // namespace

std::vector<CaseResult> RunAll(const std::vector<Case>& cases, const Engines& engines, int workers,
                               int timeout_s, const std::vector<std::string>& plugins) {
  return Pool(cases, engines, timeout_s, plugins).Run(workers);
}

}  // namespace weft::conformance
