/// external_data.cc: see external_data.h.
#include "external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "proto.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

// O_NONBLOCK: opening a FIFO must not hang
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

constexpr const char* kTrustHint = "the limit external_links=1 takes it, for models that you trust";

/// Pieces of a relative path; throws on what no honest exporter writes.
std::vector<std::string> CheckedPieces(const std::string& location) {
  const auto refuse = [&](const char* why) {
    ThrowError(ErrorCode::kInvalidModel,
               fmt::format("external data location {} {}", Printable(location), why), {},
               "a location is a path below the folder of the model, without '..'");
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

/// Opened behind no link: ELOOP, EXDEV or ENOTDIR where there is one.
int OpenWithoutLinks(int directory, const std::string& location,
                     const std::vector<std::string>& pieces) {
  const int fd = OpenBeneath(directory, location);
  // EPERM: sandboxes that predate the call answer with it.
  return fd < 0 && (errno == ENOSYS || errno == EPERM) ? OpenByWalk(directory, pieces) : fd;
}

/// The path behind all links; empty, with errno, where there is none.
std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : std::string();
}

int OpenFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  WEFT_CHECK(fd >= 0, kIo, "cannot open the folder '{}': {}", path, std::strerror(errno));
  return fd;
}

}  // namespace

ExternalFiles::ExternalFiles(std::string directory, std::string model, bool follow_links)
    : directory_(std::move(directory)), model_(std::move(model)), follow_links_(follow_links) {}
ExternalFiles::~ExternalFiles() {
  for (auto& [inode, file] : files_) {
    if (file.fd >= 0) close(file.fd);
  }
  if (directory_fd_ >= 0) close(directory_fd_);
}

/// -1 and errno on failure. What the links lead to is opened without any: they may change
/// meanwhile.
int ExternalFiles::OpenBehindLinks(const std::string& location) {
  const std::string path = RealPath(directory_ + "/" + location);
  if (path.empty()) return -1;
  for (const std::string& folder : {RealPath(directory_), DirectoryOf(RealPath(model_))}) {
    if (folder.empty() || !StartsWith(path, folder + "/")) continue;
    const std::string rest = path.substr(folder.size() + 1);
    const int at = OpenFolder(folder);
    const int fd = OpenWithoutLinks(at, rest, CheckedPieces(rest));
    const int error = errno;
    close(at);
    errno = error;
    return fd;
  }
  if (follow_links_) return open(path.c_str(), kOpenFlags | O_NOFOLLOW);
  ThrowError(ErrorCode::kInvalidModel,
             fmt::format("external data {} is a link to {}, outside of the model's folder",
                         Printable(location), Printable(path)),
             {}, kTrustHint);
}

ExternalFiles::File* ExternalFiles::Open(const std::string& location) {
  const auto found = by_location_.find(location);
  if (found != by_location_.end()) return found->second;
  WEFT_CHECK(!directory_.empty(), kUnsupported,
             "external data ({}) in a model that was not read from a file", Printable(location));
  const std::vector<std::string> pieces = CheckedPieces(location);
  WEFT_CHECK(by_location_.size() < 512, kLimit, "external data in more than 512 files");
  if (directory_fd_ < 0) directory_fd_ = OpenFolder(directory_);
  int fd = OpenWithoutLinks(directory_fd_, location, pieces);
  if (fd < 0 && (errno == ELOOP || errno == EXDEV || errno == ENOTDIR))
    fd = OpenBehindLinks(location);
  if (fd < 0) {
    const int error = errno;
    ThrowError(
        ErrorCode::kIo,
        fmt::format("cannot open external data {}: {}", Printable(location), std::strerror(error)),
        {}, error == ENOENT ? "put the file beside the model, or run with --random-weights" : "");
  }
  struct stat info;
  const bool ok = fstat(fd, &info) == 0;
  const bool linked = ok && info.st_nlink != 1 && !follow_links_;
  const char* fault = !ok                      ? "cannot be examined"
                      : !S_ISREG(info.st_mode) ? "is not a regular file"
                      : linked                 ? "has more than one name (a hard link)"
                                               : nullptr;
  if (fault) {
    close(fd);
    ThrowError(ErrorCode::kInvalidModel,
               fmt::format("external data {} {}", Printable(location), fault), {},
               linked ? kTrustHint : "");
  }
  // Two locations may be one file.
  const auto [it, fresh] =
      files_.try_emplace({uint64_t{info.st_dev}, uint64_t{info.st_ino}}, File{fd, info.st_size});
  if (!fresh) close(fd);
  return by_location_[location] = &it->second;
}

void ExternalFiles::Check(const std::string& location, int64_t offset, int64_t length,
                          int64_t bytes) {
  const File& file = *Open(location);
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
  File& file = *Open(location);
  auto& region = regions_[{&file, offset, bytes}];
  if (region) return region;
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
  constexpr int64_t kPiece = int64_t{16} << 20;
  for (int64_t done = 0; done < bytes;) {
    RequestScope::Poll();
    const ssize_t n = pread(file.fd, data->data() + done, size_t(std::min(bytes - done, kPiece)),
                            off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    WEFT_CHECK(n > 0, kIo, "cannot read external data {}: {}", Printable(location),
               n < 0 ? std::strerror(errno) : "the file became shorter");
    done += n;
  }
  region = std::move(data);
  return region;
}

}  // namespace weft::onnx_import
