/// file.cc: POSIX file access with checked results.
#include "weft/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "weft/support/atomic_file.h"
#include "weft/support/check.h"
#include "weft/support/file_reader.h"
#include "weft/support/request.h"

namespace weft {
namespace {

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

FileReader::FileReader(const std::string& path, int64_t max_bytes) : path_(path) {
  // O_NONBLOCK: opening a named pipe must not hang; it is refused as not regular below.
  descriptor_ = Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor_ < 0) ThrowIo("open", path, errno);
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) ThrowIo("examine", path, errno);
    WEFT_CHECK(S_ISREG(status.st_mode), kIo, "'{}' is not a regular file", path);
    size_ = int64_t(status.st_size);
    WEFT_CHECK(size_ <= max_bytes, kLimit, "'{}' has {} bytes, more than the limit of {}", path,
               size_, max_bytes);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

FileReader::~FileReader() { close(descriptor_); }

size_t FileReader::Read(void* to, size_t bytes) {
  size_t done = 0;
  constexpr size_t kPiece = size_t{16} << 20;
  while (done < bytes) {
    RequestScope::Poll();
    const size_t piece = std::min(bytes - done, kPiece);
    const ssize_t n =
        Retry([&] { return read(descriptor_, static_cast<char*>(to) + done, piece); });
    if (n < 0) ThrowIo("read", path_, errno);
    if (n == 0) break;
    done += size_t(n);
  }
  return done;
}

std::string ReadFile(const std::string& path, int64_t max_bytes) {
  FileReader file(path, max_bytes);
  std::string content;
  content.resize(size_t(file.size()));
  content.resize(file.Read(content.data(), content.size()));  // it may have shrunk meanwhile
  return content;
}

void WriteFileAtomic(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.Write(content);
  file.Commit();
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

std::string TemporaryFolder() {
  const char* told = std::getenv("TMPDIR");
  return told && *told ? told : "/tmp";
}

std::string JoinPath(const std::string& a, const std::string& b) {
  if (a.empty() || (!b.empty() && b[0] == '/')) return b;
  return a.back() == '/' ? a + b : a + "/" + b;
}

}  // namespace weft
