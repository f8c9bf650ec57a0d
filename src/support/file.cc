/// file.cc: POSIX file access with checked results.
#include "weft/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "weft/support/check.h"

namespace weft {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Close() {
    const int r = fd_ >= 0 ? close(fd_) : 0;
    fd_ = -1;
    return r;
  }

 private:
  int fd_;
};

[[noreturn]] void ThrowIo(const char* action, const std::string& path, int error) {
  WEFT_THROW(kIo, "cannot {} '{}': {}", action, path, std::strerror(error));
}

/// Retries what a signal interrupts.
template <class Call>
auto Retry(Call call) {
  auto r = call();
  while (r < 0 && errno == EINTR) r = call();
  return r;
}

}  // namespace

std::string ReadFile(const std::string& path, int64_t max_bytes) {
  // O_NONBLOCK: opening a named pipe must not hang; it is refused as not regular below.
  Descriptor file(Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (file.get() < 0) ThrowIo("open", path, errno);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) ThrowIo("examine", path, errno);
  WEFT_CHECK(S_ISREG(status.st_mode), kIo, "'{}' is not a regular file", path);
  WEFT_CHECK(status.st_size <= max_bytes, kLimit, "'{}' has {} bytes, more than the limit of {}",
             path, static_cast<int64_t>(status.st_size), max_bytes);
  std::string content;
  content.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n =
        Retry([&] { return read(file.get(), content.data() + done, content.size() - done); });
    if (n < 0) ThrowIo("read", path, errno);
    if (n == 0) break;  // it shrank meanwhile
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

void WriteFileAtomic(const std::string& path, std::string_view content) {
  // Created exclusively under a name no other process or thread uses, with the mode that the umask
  // allows.
  static std::atomic<uint32_t> counter{0};
  std::string temporary;
  int fd = -1;
  for (int attempt = 0; attempt < 100 && fd < 0; ++attempt) {
    temporary = fmt::format("{}.tmp.{}.{}", path, getpid(), counter.fetch_add(1));
    fd = Retry([&] {
      return open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    });
    if (fd < 0 && errno != EEXIST) break;
  }
  Descriptor file(fd);
  if (fd < 0) ThrowIo("create a temporary for", path, errno);
  const auto fail = [&](const char* action) {
    const int error = errno;
    unlink(temporary.c_str());
    ThrowIo(action, path, error);
  };
  for (size_t done = 0; done < content.size();) {
    const ssize_t n =
        Retry([&] { return write(file.get(), content.data() + done, content.size() - done); });
    if (n < 0) fail("write");
    done += static_cast<size_t>(n);
  }
  struct stat old {};
  if (stat(path.c_str(), &old) == 0 && fchmod(file.get(), old.st_mode & 0777) != 0)
    fail("set the mode of");
  if (Retry([&] { return fsync(file.get()); }) != 0) fail("flush");
  if (file.Close() != 0) fail("close");
  if (rename(temporary.c_str(), path.c_str()) != 0) fail("replace");
}

bool FileExists(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

void MakeDirectories(const std::string& path, bool is_private) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (part.back() == '/') continue;
    if (mkdir(part.c_str(), is_private ? 0700 : 0777) == 0) continue;
    const int error = errno;
    struct stat status {};
    if (stat(part.c_str(), &status) != 0) ThrowIo("make the folder", part, error);
    WEFT_CHECK(S_ISDIR(status.st_mode), kIo, "cannot make the folder '{}': '{}' is a file", path,
               part);
  }
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string JoinPath(const std::string& a, const std::string& b) {
  if (a.empty() || (!b.empty() && b[0] == '/')) return b;
  return a.back() == '/' ? a + b : a + "/" + b;
}

}  // namespace weft
