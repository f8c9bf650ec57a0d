/// mapped_file_test.cc: pages that were given back are read again, and only those of mapped files
/// are given back.
#include "weft/support/mapped_file.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "weft/support/error.h"
#include "weft/support/file.h"

namespace weft {
namespace {

/// How many of the pages of [p, p + bytes), whole ones, this process has mapped in, as
/// /proc/self/pagemap tells; -1 where it does not. Those of files the system may take at any time.
int64_t PagesHeld(const void* p, size_t bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  std::FILE* f = std::fopen("/proc/self/pagemap", "rb");
  if (!f) return -1;
  int64_t held = 0;
  for (size_t i = 0; i < bytes / page; ++i) {
    uint64_t entry = 0;
    REQUIRE(std::fseek(f, long((reinterpret_cast<uintptr_t>(p) / page + i) * 8), SEEK_SET) == 0);
    REQUIRE(std::fread(&entry, 8, 1, f) == 1);
    held += int64_t(entry >> 63);
  }
  std::fclose(f);
  return held;
}

struct File {
  explicit File(size_t size) {
    for (size_t i = 0; i < size; ++i) content.push_back(char(i * 7 + i / 4096));
    WriteFileAtomic(path, content);
  }
  ~File() { unlink(path.c_str()); }
  std::string content;
  const std::string path = "/tmp/weft_mapped_file_test_" + std::to_string(getpid());
};

TEST_CASE("pages of a mapped file are given back, and are there again") {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), n = 20 * page + 100;
  const File file(n);
  size_t size = 0;
  const auto map = MapFile(file.path, int64_t{1} << 30, &size);
  REQUIRE(size == n);
  const char* bytes = static_cast<const char*>(map.get());
  const auto same = [&] { return std::memcmp(bytes, file.content.data(), n) == 0; };
  CHECK(same());
  CHECK(PagesHeld(bytes, 20 * page) != 0);
  // From the middle of page 2 to that of page 17: those in between.
  CHECK(ReleaseMapped(bytes + 2 * page + 5, int64_t(15 * page)));
  CHECK(PagesHeld(bytes + 3 * page, 14 * page) <= 0);
  CHECK(PagesHeld(bytes, 3 * page) != 0);
  CHECK(PagesHeld(bytes + 17 * page, 3 * page) != 0);
  CHECK(same());
  CHECK(ReleaseMapped(bytes, int64_t(n)));
  CHECK(PagesHeld(bytes, 20 * page) <= 0);
  CHECK(same());
  CHECK(ReleaseMapped(bytes + 10, 20));  // no whole page
  CHECK(ReleaseMapped(bytes + n, 0));
}

TEST_CASE("memory that is no mapped file is left alone") {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), n = 3 * page;
  const File file(n);
  void* own = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(own != MAP_FAILED);
  std::memset(own, 5, n);
  CHECK(!ReleaseMapped(own, int64_t(n)));
  CHECK(MappedName(own, int64_t(n)).empty());
  CHECK(static_cast<const char*>(own)[n - 1] == 5);
  size_t size = 0;
  auto map = MapFile(file.path, int64_t{1} << 30, &size);
  const char* bytes = static_cast<const char*>(map.get());
  CHECK(!ReleaseMapped(bytes, int64_t(n + 1)));
  CHECK(!ReleaseMapped(bytes - 1, 10));
  CHECK(!ReleaseMapped(bytes, -1));
  CHECK(ReleaseMapped(bytes, int64_t(n)));
  // Not any more when the mapping is gone.
  map.reset();
  CHECK(!ReleaseMapped(bytes, int64_t(n)));
  munmap(own, n);
}

TEST_CASE("bytes of one file have one name, of another or another place another one") {
  const File file(10000);
  size_t size = 0;
  const auto a = MapFile(file.path, int64_t{1} << 30, &size),
             b = MapFile(file.path, int64_t{1} << 30, &size);
  const auto at = [](const std::shared_ptr<void>& map, size_t n) {
    return static_cast<const char*>(map.get()) + n;
  };
  CHECK(!MappedName(at(a, 8), 100).empty());
  CHECK(MappedName(at(a, 8), 100) == MappedName(at(b, 8), 100));
  CHECK(MappedName(at(a, 8), 100) != MappedName(at(a, 12), 100));
  WriteFileAtomic(file.path, file.content);  // another file in its place
  const auto c = MapFile(file.path, int64_t{1} << 30, &size);
  CHECK(MappedName(at(a, 8), 100) != MappedName(at(c, 8), 100));
  CHECK_THROWS_AS(MapFile(file.path, 9999, &size), Error);
  CHECK_THROWS_AS(MapFile("/nowhere", 1, &size), Error);
  WriteFileAtomic(file.path, "");
  CHECK_THROWS_AS(MapFile(file.path, 1, &size), Error);
}

TEST_CASE("a file without a name holds its pieces, and gives its pages back") {
  const std::string a(100000, 'a'), b = "bc";
  std::vector<const char*> at;
  const auto map = MapUnnamed({a, b, {}}, &at);
  REQUIRE(at.size() == 3);
  for (const char* p : at) CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
  const auto same = [&] {
    return std::memcmp(at[0], a.data(), a.size()) == 0 && std::memcmp(at[1], "bc", 2) == 0;
  };
  CHECK(same());
  CHECK(ReleaseMapped(at[0], int64_t(a.size())));
  CHECK(PagesHeld(at[0], a.size()) <= 0);
  CHECK(same());
  UnnamedFile file;
  CHECK_THROWS_AS(file.Map(), Error);
  for (int k = 0; k < 3; ++k) file.Write(a);
  file.Write("bc");
  CHECK(file.size() == 3 * 100000 + 2);
  const auto written = file.Map();
  CHECK(std::string(static_cast<const char*>(written.get()), size_t(file.size())) == a + a + a + b);
  CHECK(bool(MapUnnamed({}, &at)));
  CHECK(at.empty());

  const char* const told = std::getenv("TMPDIR");
  const std::string before = told ? told : "";
  setenv("TMPDIR", "/nowhere", 1);
  CHECK_THROWS_AS(MapUnnamed({a}, &at), Error);
  told ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
}

}  // namespace
}  // namespace weft
