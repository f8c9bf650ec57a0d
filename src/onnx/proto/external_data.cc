/// external_data.cc: see external_data.h.
#include "external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "proto.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

// O_NONBLOCK: opening a FIFO must not hang
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Pieces of a relative path; throws on what no honest exporter writes.
std::vector<std::string> CheckedPieces(const std::string& location) {
  const auto refuse = [&](const char* why) {
    ThrowError(
        ErrorCode::kInvalidModel,
        fmt::format("external data location {} {}", Printable(location), why), {},
        "a location is a path below the folder of the model, without '..' and without links");
  };
  if (location.empty()) refuse("is empty");
  if (location.find('\0') != std::string::npos) refuse("holds a NUL byte");
  if (location.front() == '/') refuse("is absolute");
  if (location.size() > 4096) refuse("is too long");
  std::vector<std::string> pieces;
  for (std::string& piece : Split(location, '/')) {
    if (piece.empty() || piece == ".") continue;
    if (piece == "..") refuse("leaves the folder of the model");
    pieces.push_back(std::move(piece));
  }
  if (pieces.empty()) refuse("names no file");
  return pieces;
}

/// openat2 with no way out of the folder; -1 and errno on failure.
int OpenBeneath(int directory, const std::string& location) {
  struct open_how how;
  std::memset(&how, 0, sizeof(how));
  how.flags = uint64_t(kOpenFlags) | O_NOFOLLOW;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return int(syscall(SYS_openat2, directory, location.c_str(), &how, sizeof(how)));
}

/// The same by hand: one folder at a time, no piece may be a link.
int OpenByWalk(int directory, const std::vector<std::string>& pieces) {
  int at = dup(directory);
  for (size_t i = 0; i < pieces.size() && at >= 0; ++i) {
    const bool last = i + 1 == pieces.size();
    const int next = openat(at, pieces[i].c_str(),
                            (last ? kOpenFlags : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW);
    const int error = errno;
    close(at);
    errno = error;
    at = next;
  }
  return at;
}

}  // namespace

ExternalFiles::ExternalFiles(std::string directory) : directory_(std::move(directory)) {}
ExternalFiles::~ExternalFiles() {
  for (auto& [location, file] : files_) {
    if (file.fd >= 0) close(file.fd);
  }
  if (directory_fd_ >= 0) close(directory_fd_);
}

ExternalFiles::File& ExternalFiles::Open(const std::string& location) {
  const auto found = files_.find(location);
  if (found != files_.end()) return found->second;
  WEFT_CHECK(!directory_.empty(), kUnsupported,
             "external data ({}) in a model that was not read from a file", Printable(location));
  const std::vector<std::string> pieces = CheckedPieces(location);
  WEFT_CHECK(files_.size() < 512, kLimit, "external data in more than 512 files");
  if (directory_fd_ < 0) {
    directory_fd_ = open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    WEFT_CHECK(directory_fd_ >= 0, kIo, "cannot open the folder '{}': {}", directory_,
               std::strerror(errno));
  }
  int fd = OpenBeneath(directory_fd_, location);
  // EPERM: sandboxes that predate the call answer with it.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = OpenByWalk(directory_fd_, pieces);
  if (fd < 0) {
    const int error = errno;
    WEFT_CHECK(error != ELOOP && error != EXDEV, kInvalidModel,
               "external data {} is reached through a link", Printable(location));
    WEFT_THROW(kIo, "cannot open external data {}: {}", Printable(location), std::strerror(error));
  }
  File file;
  file.fd = fd;
  struct stat info;
  const bool ok = fstat(fd, &info) == 0;
  const char* fault = !ok                      ? "cannot be examined"
                      : !S_ISREG(info.st_mode) ? "is not a regular file"
                      : info.st_nlink != 1     ? "has more than one name (a hard link)"
                                               : nullptr;
  if (fault) {
    close(fd);
    WEFT_THROW(kInvalidModel, "external data {} {}", Printable(location), fault);
  }
  file.size = int64_t{info.st_size};
  return files_.emplace(location, file).first->second;
}

void ExternalFiles::Check(const std::string& location, int64_t offset, int64_t length,
                          int64_t bytes) {
  const File& file = Open(location);
  WEFT_CHECK(offset >= 0 && (length >= 0 || length == -1), kInvalidModel,
             "external data {} has offset {} and length {}", Printable(location), offset, length);
  WEFT_CHECK(length == -1 || length == bytes, kInvalidModel,
             "external data {} has length {}, the tensor needs {} bytes", Printable(location),
             length, bytes);
  WEFT_CHECK(offset <= file.size && bytes <= file.size - offset, kInvalidModel,
             "external data {} has {} bytes, the tensor needs {} at offset {}", Printable(location),
             file.size, bytes, offset);
}

std::shared_ptr<std::string> ExternalFiles::Read(const std::string& location, int64_t offset,
                                                 int64_t bytes) {
  auto& region = regions_[{location, offset, bytes}];
  if (region) return region;
  File& file = Open(location);
  // Regions that overlap would let a small file fill the memory.
  file.bytes_read += bytes;
  WEFT_CHECK(file.bytes_read <= file.size, kInvalidModel, "tensors overlap in external data {}",
             Printable(location));
  auto data = std::make_shared<std::string>();
  try {
    data->resize(size_t(bytes));
  } catch (const std::exception&) {
    WEFT_THROW(kOutOfMemory, "no memory for {} of external data", FormatBytes(bytes));
  }
  // pread, not a mapping: a file that shrinks meanwhile gives an error and no signal.
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n =
        pread(file.fd, data->data() + done, size_t(bytes - done), off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    WEFT_CHECK(n > 0, kIo, "cannot read external data {}: {}", Printable(location),
               n < 0 ? std::strerror(errno) : "the file became shorter");
    done += n;
  }
  region = std::move(data);
  return region;
}

}  // namespace weft::onnx_import
