/// limited_child.cc: fork, setrlimit, a pipe for the answer.
#include "limited_child.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft::safety {
namespace {

double CpuSeconds(const rusage& u) {
  return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}
double OwnCpuSeconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return CpuSeconds(u);
}

int64_t AddressBytes() {
  long pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return int64_t{pages} * sysconf(_SC_PAGESIZE);
}

void WriteAll(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += size_t(n);
  }
}

[[noreturn]] void Child(int fd, const ChildLimits& limits, const std::function<void()>& prepare,
                        const std::function<std::string()>& body) {
  prepare();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const double before = OwnCpuSeconds();
  const auto cpu = rlim_t(before + limits.cpu_seconds + 1);
  const rlimit seconds{cpu, cpu + 1};
  setrlimit(RLIMIT_CPU, &seconds);
  if (limits.address_bytes > 0) {
    const auto bytes = rlim_t(AddressBytes() + limits.address_bytes);
    const rlimit space{bytes, bytes};
    setrlimit(RLIMIT_AS, &space);
  }
  const std::string text = body();
  char head[64];
  std::snprintf(head, sizeof head, "%.6f\n", OwnCpuSeconds() - before);
  WriteAll(fd, head + text);
  close(fd);
  _exit(0);
}

}  // namespace

ChildReport RunLimited(const ChildLimits& limits, const std::function<void()>& prepare,
                       const std::function<std::string()>& body) {
  ChildReport report;
  int ends[2];
  if (pipe(ends) != 0) {
    report.died = true;
    report.how = std::string("no pipe: ") + std::strerror(errno);
    return report;
  }
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    Child(ends[1], limits, prepare, body);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, size_t(n));
  }
  close(ends[0]);
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  report.died = pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (report.died)
    report.how = pid < 0               ? "no process"
                 : WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                       : "exit code " + std::to_string(WEXITSTATUS(status));
  const size_t line = text.find('\n');
  if (line != std::string::npos) {
    report.cpu_seconds = std::atof(text.c_str());
    report.text = text.substr(line + 1);
  }
  return report;
}

}  // namespace weft::safety
