/// atomic_file.cc: see atomic_file.h.
#include "weft/support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "weft/support/check.h"

namespace weft {
namespace {

/// Retries what a signal interrupts.
template <class Call>
auto Retry(Call call) {
  auto r = call();
  while (r < 0 && errno == EINTR) r = call();
  return r;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, bool flush) : path_(std::move(path)), flush_(flush) {
  // A device, a pipe: what is there takes the bytes, and is not replaced by a file.
  struct stat there {};
  if (stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) {
    fd_ = Retry([&] { return open(path_.c_str(), O_WRONLY | O_CLOEXEC); });
    if (fd_ < 0) Fail("open");
    return;
  }
  // Created exclusively under a name no other process or thread uses, with the mode that the umask
  // allows.
  static std::atomic<uint32_t> counter{0};
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.tmp.{}.{}", path_, getpid(), counter.fetch_add(1));
    fd_ = Retry([&] {
      return open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    });
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) {
    WEFT_THROW(kIo, "cannot create a temporary for '{}': {}", path_, std::strerror(errno));
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::Fail(const char* action) {
  WEFT_THROW(kIo, "cannot {} '{}': {}", action, path_, std::strerror(errno));
}

void AtomicFile::Write(std::string_view bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = Retry([&] { return write(fd_, bytes.data() + done, bytes.size() - done); });
    if (n < 0) Fail("write");
    done += static_cast<size_t>(n);
  }
}

void AtomicFile::Commit() {
  if (temporary_.empty()) {
    const int closed = close(fd_);
    fd_ = -1;
    if (closed != 0) Fail("close");
    return;
  }
  struct stat old {};
  if (stat(path_.c_str(), &old) == 0 && fchmod(fd_, old.st_mode & 0777) != 0)
    Fail("set the mode of");
  if (flush_ && Retry([&] { return fsync(fd_); }) != 0) Fail("flush");
  const int closed = close(fd_);
  fd_ = -1;
  if (closed != 0) Fail("close");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) Fail("replace");
  temporary_.clear();
}

}  // namespace weft
