/// kernel_cache_test.cc: the kernel cache when things go wrong: damage, processes that are killed
/// while they write, folders that cannot be used, too little room. What it holds is never wrong,
/// and nothing fails because of it.
#include "weft/codegen/compiler/kernel_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/support/file.h"
#include "weft/support/log.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr const char* kTarget = "test:none";

/// A scratch folder, and the cache's environment as the test wants it; both as before at the end.
class Scene {
 public:
  Scene() {
    std::string name = (fs::temp_directory_path() / "weft_cache_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path_ = name;
    for (const char* v : {"WEFT_CACHE", "WEFT_CACHE_DIR", "WEFT_CACHE_BYTES", "XDG_CACHE_HOME"}) {
      const char* old = std::getenv(v);
      saved_.emplace_back(v, old ? old : "");
      if (!old) saved_.back().second = std::nullopt;
      unsetenv(v);
    }
    Set("WEFT_CACHE_DIR", path_.string());
    sink_ = SetLogSink([this](LogLevel level, const char*, int, std::string_view) {
      warnings += level >= LogLevel::kWarning;
      errors += level >= LogLevel::kError;
    });
  }
  ~Scene() {
    SetLogSink(sink_);
    for (const auto& [name, value] : saved_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    std::error_code ignored;
    fs::permissions(folder(), fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }
  void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  std::string folder() const { return (path_ / "kernels").string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  int warnings = 0, errors = 0;

 private:
  fs::path path_;
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
  LogSink sink_;
};

/// x + i: another kernel for every i.
std::shared_ptr<Kernel> MakeKernel(int i) {
  auto k = std::make_shared<Kernel>();
  k->buffers = {{DType::kF32, false, 4}, {DType::kF32, true, 4}};
  k->num_inputs = 1;
  k->dims = {SymInt(4)};
  k->num_outer = 1;
  k->vector_loop = 0;
  const Expr at = Expr::Index(0);
  k->stores = {
      {1, at, Expr::Load(0, DType::kF32, {at}) + Expr::Const(DType::kF32, double(i)), false}};
  k->Finish();
  return k;
}

/// The machine code of kernel i: bytes that tell whose they are.
std::string Code(int i, size_t bytes) {
  std::string out(bytes, '\0');
  std::minstd_rand random(uint32_t(i + 1));
  for (char& c : out) c = char(random());
  return out;
}
CompiledKernelPtr Compiled(int i, size_t bytes) {
  auto c = std::make_shared<CompiledKernel>();
  c->target = kTarget;
  c->binary = Code(i, bytes);
  return c;
}

/// The only entry of the folder.
std::string OnlyFile(const std::string& folder) {
  const auto all = ListKernelCache(folder, false);
  REQUIRE(all.size() == 1);
  return JoinPath(folder, all[0].file);
}
void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// A cache that cannot use its folder still does what it is there for within the process.
void WorksInMemory(KernelCache& cache) {
  const auto kernel = MakeKernel(1);
  cache.Find(*kernel, kTarget);
  cache.Store(*kernel, Compiled(1, 40));
  const CompiledKernelPtr found = cache.Find(*kernel, kTarget);
  REQUIRE(found);
  CHECK(found->binary == Code(1, 40));
  CHECK(!cache.Find(*kernel, "test:other"));
}

TEST_CASE("kernel cache: every flipped byte is noticed, and the entry is made again") {
  Scene scene;
  KernelCache cache;
  const auto kernel = MakeKernel(1);
  std::minstd_rand random(7);
  for (const size_t bytes : {size_t{24}, size_t{100'000}}) {
    cache.Store(*kernel, Compiled(1, bytes));
    const std::string file = OnlyFile(scene.folder()), whole = ReadFile(file);
    const bool small = whole.size() < 2000;
    const size_t tries = small ? whole.size() : 500;
    for (size_t i = 0; i < tries; ++i) {
      const size_t at = small ? i : random() % whole.size();
      std::string bad = whole;
      bad[at] = char(bad[at] ^ (1 + random() % 255));
      Write(file, bad);
      cache.ClearMemory();
      scene.warnings = 0;
      INFO("byte ", at);
      CHECK(!cache.Find(*kernel, kTarget));
      CHECK(scene.warnings == 1);
      if (i % 16 == 0) {
        CHECK(ListKernelCache(scene.folder(), true).at(0).damage != "");
        cache.Store(*kernel, Compiled(1, bytes));
        CHECK(ReadFile(file) == whole);
        cache.ClearMemory();
        const auto again = cache.Find(*kernel, kTarget);
        REQUIRE(again);
        CHECK(again->binary == Code(1, bytes));
      }
    }
    for (const size_t cut :
         {size_t{0}, size_t{1}, size_t{39}, whole.size() / 2, whole.size() - 1}) {
      Write(file, whole.substr(0, cut));
      cache.ClearMemory();
      CHECK(!cache.Find(*kernel, kTarget));
    }
    Write(file, whole + "x");
    cache.ClearMemory();
    CHECK(!cache.Find(*kernel, kTarget));
  }
  // A sound entry under the name of another.
  cache.Store(*kernel, Compiled(1, 24));
  const std::string file = OnlyFile(scene.folder());
  fs::rename(file, JoinPath(scene.folder(), std::string(32, 'a') + ".wk"));
  CHECK(ListKernelCache(scene.folder(), true).at(0).damage.find("another kernel") !=
        std::string::npos);
  CHECK(scene.errors == 0);
}

TEST_CASE("kernel cache: kernels that were compiled together share one file") {
  Scene scene;
  constexpr int kKernels = 20;
  constexpr size_t kBytes = 300'000;
  std::vector<KernelPtr> kernels;
  CompiledKernels made;
  for (int i = 0; i < kKernels + 2; ++i) {
    kernels.push_back(MakeKernel(i));
    // The last one has code of its own, the one before did not compile.
    made.push_back(Compiled(i < kKernels ? 5 : 6, i == kKernels ? 0 : kBytes));
  }
  KernelCache cache;
  cache.Store(kernels, made);
  const auto all = ListKernelCache(scene.folder(), true);
  CHECK(all.size() == kKernels + 2);  // references, what they refer to, the single one
  int64_t bytes = 0;
  std::string shared;
  for (const CacheEntry& e : all) {
    CHECK(e.damage == "");
    CHECK(e.target == kTarget);
    bytes += e.bytes;
    const std::string content = ReadFile(JoinPath(scene.folder(), e.file));
    if (content.find("\nbinary ") != std::string::npos && e.bytes > int64_t(kBytes))
      shared = JoinPath(scene.folder(), e.file);
  }
  CHECK(bytes < int64_t(2 * kBytes + 20'000));
  REQUIRE(shared != "");
  const auto check = [&](KernelCache& c, bool there) {
    for (int i = 0; i < kKernels; ++i) {
      const CompiledKernelPtr found = c.Find(*kernels[size_t(i)], kTarget);
      REQUIRE((found != nullptr) == there);
      if (found) CHECK(found->binary == Code(5, kBytes));
    }
    CHECK(!c.Find(*kernels[kKernels], kTarget));
    const CompiledKernelPtr own = c.Find(*kernels[kKernels + 1], kTarget);
    REQUIRE(own);
    CHECK(own->binary == Code(6, kBytes));
  };
  check(cache, true);
  cache.ClearMemory();
  check(cache, true);
  KernelCache other;  // as another process has it
  check(other, true);
  CHECK(scene.warnings == 0);
  // What they share is damaged, or gone: all are compiled again.
  const std::string whole = ReadFile(shared);
  std::string bad = whole;
  bad[bad.size() / 2] = char(bad[bad.size() / 2] ^ 1);
  for (const std::string& content : {bad, whole.substr(0, 1000), std::string()}) {
    Write(shared, content);
    if (content.empty()) fs::remove(shared);
    KernelCache fresh;
    check(fresh, false);
    fresh.Store(kernels, made);
    CHECK(ReadFile(shared) == whole);
    KernelCache again;
    check(again, true);
  }
  // Who uses a kernel uses what it shares; unused for long, that goes, without a
  // word, and comes again.
  const timespec old[2] = {{time(nullptr) - 86400, 0}, {time(nullptr) - 86400, 0}};
  const auto age = [&] { REQUIRE(utimensat(AT_FDCWD, shared.c_str(), old, 0) == 0); };
  scene.warnings = 0;
  age();
  CHECK(KernelCache().Find(*kernels[3], kTarget));
  CHECK(PruneKernelCache(scene.folder(), -1, 3600).removed == 0);
  age();
  CHECK(PruneKernelCache(scene.folder(), -1, 3600).removed == 1);
  {
    KernelCache fresh;
    check(fresh, false);
    fresh.Store(kernels, made);
    KernelCache again;
    check(again, true);
  }
  // Entries with a binary each, as they were before kernels shared them: they are read, and
  // make room for references.
  for (int i = 0; i < kKernels; ++i) KernelCache().Store(*kernels[size_t(i)], made[size_t(i)]);
  fs::remove(shared);
  {
    KernelCache fresh;
    check(fresh, true);
    fresh.Store(kernels, made);
    KernelCache again;
    check(again, true);
  }
  int64_t now = 0;
  for (const CacheEntry& e : ListKernelCache(scene.folder(), true)) now += e.bytes;
  CHECK(now == bytes);
  CHECK(scene.warnings == 0);
  // A file that names another binary than it is asked for: a binary of the right
  // form with other content.
  const std::string wrong = JoinPath(scene.folder(), std::string(32, 'a') + ".wk");
  fs::rename(shared, wrong);
  CHECK(!KernelCache().Find(*kernels[0], kTarget));
  CHECK(scene.errors == 0);
}

/// Stores and looks up until it is killed; ends with 9 when it is given a wrong kernel.
[[noreturn]] void Hammer(uint32_t seed) {
  SetLogLevel(LogLevel::kOff);
  KernelCache cache;
  std::minstd_rand random(seed);
  while (true) {
    const int i = int(random() % 12);
    const size_t bytes = size_t(i) * 7000 + 10;
    const auto kernel = MakeKernel(i);
    if (random() % 4 == 0) {
      // Kernels 12 to 17 share their code.
      constexpr size_t kShared = 50'000;
      std::vector<KernelPtr> together;
      CompiledKernels made;
      for (int k = 12; k < 18; ++k) {
        together.push_back(MakeKernel(k));
        made.push_back(Compiled(12, kShared));
      }
      if (random() % 4 == 0) cache.Store(together, made);
      cache.ClearMemory();
      const auto found = cache.Find(*together[random() % 6], kTarget);
      if (found && found->binary != Code(12, kShared)) _exit(9);
    } else if (random() % 2 == 0) {
      cache.Store(*kernel, Compiled(i, bytes));
    } else {
      cache.ClearMemory();
      const auto found = cache.Find(*kernel, kTarget);
      if (found && found->binary != Code(i, bytes)) _exit(9);
    }
  }
}

TEST_CASE("kernel cache: processes that are killed at any instant leave no damage") {
  Scene scene;
  scene.Set("WEFT_CACHE_BYTES", "300K");  // so that they also remove each other's entries
  std::minstd_rand random(11);
  std::vector<pid_t> children;
  uint32_t seed = 1;
  auto start = [&] {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) Hammer(seed);
    ++seed;
    return child;
  };
  for (int i = 0; i < 4; ++i) children.push_back(start());
  int entries = 0;
  for (int kill_number = 0; kill_number < 100; ++kill_number) {
    usleep(uint32_t(5'000 + random() % 40'000));
    pid_t& child = children[random() % children.size()];
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));  // an exit would mean that it was given a wrong kernel
    for (const CacheEntry& e : ListKernelCache(scene.folder(), true)) {
      ++entries;
      // An entry that another process replaced or removed while it was read is not
      // there to be damaged.
      if (!e.damage.empty() && FileExists(JoinPath(scene.folder(), e.file))) {
        const std::string now = ReadFile(JoinPath(scene.folder(), e.file));
        CHECK(KernelEntryDamage(now, e.file) == "");
      }
    }
    child = start();
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  CHECK(entries > 100);
  for (const CacheEntry& e : ListKernelCache(scene.folder(), true)) CHECK(e.damage == "");
  // What killed writers left behind goes after an hour.
  const timespec old[2] = {{time(nullptr) - 7200, 0}, {time(nullptr) - 7200, 0}};
  const std::string stale = JoinPath(scene.folder(), std::string(32, 'b') + ".wk.tmp.1.2");
  Write(stale, "half");
  CHECK(utimensat(AT_FDCWD, stale.c_str(), old, 0) == 0);
  PruneKernelCache(scene.folder(), -1);
  CHECK(!FileExists(stale));
}

TEST_CASE("kernel cache: the folder stays below its bound, and the longest unused go") {
  Scene scene;
  scene.Set("WEFT_CACHE_BYTES", "1M");
  KernelCache cache;
  const auto kept = MakeKernel(1000);
  cache.Store(*kept, Compiled(1000, 1000));
  int64_t largest = 0;
  for (int i = 0; i < 100; ++i) {
    cache.Store(*MakeKernel(i), Compiled(i, 50'000));
    cache.ClearMemory();
    CHECK(cache.Find(*kept, kTarget));  // in use all the time
    int64_t bytes = 0;
    for (const CacheEntry& e : ListKernelCache(scene.folder(), false)) bytes += e.bytes;
    largest = std::max(largest, bytes);
  }
  CHECK(largest > 900 << 10);
  CHECK(largest < (1 << 20) + (1 << 20) / 16 + 60'000);
  cache.ClearMemory();
  CHECK(cache.Find(*MakeKernel(99), kTarget));
  CHECK(!cache.Find(*MakeKernel(0), kTarget));
  scene.Set("WEFT_CACHE_BYTES", "12Q");
  CHECK(KernelCacheBound() == int64_t{1} << 30);
  CHECK(scene.warnings == 1);
}

TEST_CASE("kernel cache: pruned and cleared, other files stay") {
  Scene scene;
  KernelCache cache;
  for (int i = 0; i < 6; ++i) cache.Store(*MakeKernel(i), Compiled(i, 1000));
  Write(JoinPath(scene.folder(), "notes.txt"), "mine");
  Write(JoinPath(scene.folder(), "0123.wk"), "mine");
  auto all = ListKernelCache(scene.folder(), true);
  REQUIRE(all.size() == 6);
  CHECK(all[0].target == kTarget);
  // Ages from 0 to 5 days, by name.
  const time_t now = time(nullptr);
  int64_t bytes = 0;
  for (size_t i = 0; i < 6; ++i) {
    const time_t used = now - time_t(i) * 86400 - 60;
    const timespec times[2] = {{used, 0}, {used, 0}};
    REQUIRE(utimensat(AT_FDCWD, JoinPath(scene.folder(), all[i].file).c_str(), times, 0) == 0);
    bytes += all[i].bytes;
  }
  CacheChange change = PruneKernelCache(scene.folder(), -1, 4 * 86400);
  CHECK(change.removed == 2);
  CHECK(change.kept == 4);
  CHECK(change.removed_bytes + change.kept_bytes == bytes);
  change = PruneKernelCache(scene.folder(), 2 * all[0].bytes + 5);
  CHECK(change.removed == 2);
  const auto left = ListKernelCache(scene.folder(), false);
  REQUIRE(left.size() == 2);
  CHECK(left[0].file == all[0].file);
  CHECK(left[1].file == all[1].file);
  CHECK(ClearKernelCache(scene.folder()).removed == 2);
  CHECK(FileExists(JoinPath(scene.folder(), "notes.txt")));
  CHECK(FileExists(JoinPath(scene.folder(), "0123.wk")));
  CHECK(ListKernelCache(scene / "none", true).empty());
}

TEST_CASE("kernel cache: folders that cannot be used, or only so") {
  Scene scene;
  SUBCASE("missing, and again while in use") {
    scene.Set("WEFT_CACHE_DIR", scene / "a/b/c");
    KernelCache cache;
    WorksInMemory(cache);
    CHECK(ListKernelCache(scene / "a/b/c/kernels", true).size() == 1);
    struct stat s {};
    REQUIRE(stat((scene / "a/b/c/kernels").c_str(), &s) == 0);
    CHECK((s.st_mode & 0777) == 0700);
    fs::remove_all(scene / "a");
    WorksInMemory(cache);
    CHECK(ListKernelCache(scene / "a/b/c/kernels", true).size() == 1);
    CHECK(scene.warnings == 0);
  }
  SUBCASE("a file where the folder should be") {
    Write(scene / "file", "x");
    scene.Set("WEFT_CACHE_DIR", scene / "file");
    KernelCache cache;
    WorksInMemory(cache);
    CHECK(ReadFile(scene / "file") == "x");
    CHECK(scene.warnings <= 1);
  }
  SUBCASE("a folder where an entry should be") {
    KernelCache cache;
    WorksInMemory(cache);
    const std::string file = OnlyFile(scene.folder());
    fs::remove(file);
    fs::create_directory(file);
    cache.ClearMemory();
    WorksInMemory(cache);
    CHECK(fs::is_directory(file));
  }
  SUBCASE("read-only, and full") {
    // In a child: rights do not stop root, so it becomes nobody; a bound on file sizes
    // is the full disk.
    for (const bool full : {false, true}) {
      fs::permissions(scene / "", fs::perms::all);
      fs::create_directories(scene.folder());
      fs::permissions(scene.folder(), full ? fs::perms::all : fs::perms(0555));
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        if (full) {
          signal(SIGXFSZ, SIG_IGN);
          const rlimit none{16, 16};
          setrlimit(RLIMIT_FSIZE, &none);
        } else if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
          _exit(0);
        }
        KernelCache cache;
        const auto kernel = MakeKernel(3);
        cache.Store(*kernel, Compiled(3, 500));
        const auto found = cache.Find(*kernel, kTarget);
        const bool fine = found && found->binary == Code(3, 500) && scene.errors == 0;
        _exit(fine ? 0 : 9);
      }
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      CHECK(status == 0);
      CHECK(fs::is_empty(scene.folder()));  // no part of an entry either
    }
  }
  SUBCASE("the default folder: a link of ours is followed, what others may write to is not used") {
    unsetenv("WEFT_CACHE_DIR");
    scene.Set("XDG_CACHE_HOME", scene / "xdg");
    fs::create_directories(scene / "xdg");
    fs::create_directories(scene / "elsewhere");
    fs::permissions(scene / "elsewhere", fs::perms::owner_all);
    fs::create_directory_symlink(scene / "elsewhere", scene / "xdg/weft");
    {
      KernelCache cache;
      CHECK(cache.why_off() == "");
      WorksInMemory(cache);
      CHECK(ListKernelCache(scene / "elsewhere/kernels", true).size() == 1);
    }
    fs::permissions(scene / "elsewhere/kernels", fs::perms::all);
    {
      KernelCache cache;
      CHECK(cache.directory() == "");
      CHECK(cache.why_off().find("only they can write") != std::string::npos);
      WorksInMemory(cache);
    }
    fs::permissions(scene / "elsewhere/kernels", fs::perms::owner_all);
    if (geteuid() == 0) {
      REQUIRE(chown((scene / "elsewhere/kernels").c_str(), 65534, 65534) == 0);
      KernelCache cache;
      CHECK(cache.directory() == "");
      WorksInMemory(cache);
    }
    fs::remove(scene / "xdg/weft");
    fs::create_directory_symlink(scene / "nowhere", scene / "xdg/weft");
    KernelCache cache;
    CHECK(cache.directory() == "");
    WorksInMemory(cache);
    CHECK(scene.warnings == 0);
  }
}

}  // namespace
}  // namespace weft
