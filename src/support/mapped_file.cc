/// mapped_file.cc: see weft/support/mapped_file.h. Which addresses are whose is kept in a table:
/// giving back pages of any other memory would destroy what is in them.
#include "weft/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft {
namespace {

struct Mapping {
  size_t size = 0;
  std::string file;
};
struct Mappings {
  std::mutex mutex;
  std::map<const char*, Mapping> by_begin;
  /// Null unless all of the bytes are in it; the address of `data` in it.
  const Mapping* Find(const char* data, int64_t bytes, size_t* at) const {
    auto it = by_begin.upper_bound(data);
    if (it == by_begin.begin() || bytes < 0) return nullptr;
    --it;
    *at = size_t(data - it->first);
    const Mapping& m = it->second;
    return *at <= m.size && size_t(bytes) <= m.size - *at ? &m : nullptr;
  }
};
Mappings& All() {
  static auto* const all = new Mappings;  // programs may go after static objects have gone
  return *all;
}

struct Closer {
  int fd;
  ~Closer() { close(fd); }
};

/// All of a file that is not empty.
std::shared_ptr<void> Map(int fd, const std::string& path) {
  struct stat status {};
  WEFT_CHECK(fstat(fd, &status) == 0, kIo, "cannot read '{}': {}", path, std::strerror(errno));
  const auto size = size_t(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  WEFT_CHECK(data != MAP_FAILED, kIo, "cannot map '{}': {}", path, std::strerror(errno));
  std::shared_ptr<void> map(data, [size](void* p) {
    // Together: the addresses may be another's as soon as they are free.
    const std::lock_guard lock(All().mutex);
    All().by_begin.erase(static_cast<const char*>(p));
    munmap(p, size);
  });
  const std::lock_guard lock(All().mutex);
  All().by_begin[static_cast<const char*>(data)] = {
      size, fmt::format("{}.{}.{}.{}.{}", status.st_dev, status.st_ino, status.st_size,
                        status.st_mtim.tv_sec, status.st_mtim.tv_nsec)};
  return map;
}

/// An open file that no folder names.
int MakeUnnamed(const std::string& folder) {
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {  // not every file system has them
    std::string name = folder + "/weft_XXXXXX";
    fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) unlink(name.c_str());
  }
  WEFT_CHECK(fd >= 0, kIo, "cannot make a temporary file in '{}': {}", folder,
             std::strerror(errno));
  return fd;
}

}  // namespace

std::shared_ptr<void> MapFile(const std::string& path, int64_t max_bytes, size_t* size) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  WEFT_CHECK(fd >= 0, kIo, "cannot open '{}': {}", path, std::strerror(errno));
  const Closer closer{fd};
  struct stat status {};
  WEFT_CHECK(fstat(fd, &status) == 0 && S_ISREG(status.st_mode), kIo, "'{}' is not a regular file",
             path);
  WEFT_CHECK(int64_t(status.st_size) <= max_bytes, kLimit,
             "'{}' has {} bytes, more than the limit of {}", path, int64_t(status.st_size),
             max_bytes);
  *size = size_t(status.st_size);
  WEFT_CHECK(*size > 0, kInvalidModel, "'{}' is empty", path);
  return Map(fd, path);
}

UnnamedFile::UnnamedFile() : folder_(TemporaryFolder()), fd_(MakeUnnamed(folder_)) {}
UnnamedFile::~UnnamedFile() { close(fd_); }

void UnnamedFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    WEFT_CHECK(n >= 0 || errno == EINTR, kIo, "cannot write a temporary file in '{}': {}", folder_,
               std::strerror(errno));
    if (n <= 0) continue;
    size_ += n;
    bytes.remove_prefix(size_t(n));
  }
}

std::shared_ptr<void> UnnamedFile::Map() const {
  WEFT_CHECK(size_ > 0, kInvalidModel, "nothing was written to a temporary file in '{}'", folder_);
  return weft::Map(fd_, folder_);
}

std::shared_ptr<void> MapUnnamed(const std::vector<std::string_view>& pieces,
                                 std::vector<const char*>* places) {
  constexpr int64_t kAlign = 64;
  UnnamedFile file;
  std::vector<int64_t> begins;
  for (const std::string_view piece : pieces) {
    file.Write(std::string(size_t((kAlign - file.size() % kAlign) % kAlign), '\0'));
    begins.push_back(file.size());
    file.Write(piece);
  }
  file.Write(std::string_view("", 1));  // what is mapped is not empty
  const std::shared_ptr<void> map = file.Map();
  places->clear();
  for (const int64_t begin : begins) places->push_back(static_cast<const char*>(map.get()) + begin);
  return map;
}

bool ReleaseMapped(const void* data, int64_t bytes) {
  static const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const std::lock_guard lock(All().mutex);
  size_t at = 0;
  if (!All().Find(static_cast<const char*>(data), bytes, &at)) return false;
  const uintptr_t first = reinterpret_cast<uintptr_t>(data),
                  begin = (first + page - 1) / page * page,
                  end = (first + uintptr_t(bytes)) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  return true;
}

std::string MappedName(const void* data, int64_t bytes) {
  const std::lock_guard lock(All().mutex);
  size_t at = 0;
  const Mapping* m = All().Find(static_cast<const char*>(data), bytes, &at);
  return m ? fmt::format("{}:{}", m->file, at) : std::string();
}

}  // namespace weft
