/// support_test.cc: errors, hashes, checked arithmetic, text, limits, log, files, libraries,
/// caches and loops.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/code_of.h"
#include "tests/support/temp_folder.h"
#include "weft/support/aligned_memory.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/file_reader.h"
#include "weft/support/hash.h"
#include "weft/support/limits.h"
#include "weft/support/log.h"
#include "weft/support/parallel_for.h"
#include "weft/support/request.h"
#include "weft/support/shared_library.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

TEST_CASE("error: classes, places, text and JSON") {
  CHECK(ErrorCodeName(ErrorCode::kInvalidModel) == "WEFT-E0301");
  CHECK_THROWS_AS(WEFT_THROW(kUsage, "x"), UserError);
  CHECK_THROWS_AS(WEFT_THROW(kOutOfMemory, "x"), DeviceError);
  CHECK_THROWS_AS(WEFT_THROW(kDevice, "x"), DeviceError);
  CHECK_THROWS_AS(WEFT_ICHECK(1 + 1 == 3), InternalError);
  CHECK_THROWS_AS(WEFT_ICHECK(false, "n is {}", 3), InternalError);
  CHECK_NOTHROW(WEFT_CHECK(true, kUsage, "x"));
  try {
    ThrowError(ErrorCode::kShapeMismatch, "expected rank 2, got 3", "node %3 'c'", "transpose it");
  } catch (Error& e) {
    e.AddPlace("pass Fusion");
    e.AddPlace("");
    CHECK(e.place() == "pass Fusion > node %3 'c'");
    CHECK(
        std::string(e.what()) ==
        "error[WEFT-E0305] pass Fusion > node %3 'c': expected rank 2, got 3 (hint: transpose it)");
    CHECK(ToJson(e) ==
          "{\"code\": \"WEFT-E0305\", \"kind\": \"UserError\", \"place\": \"pass Fusion > node %3 "
          "'c'\", "
          "\"message\": \"expected rank 2, got 3\", \"hint\": \"transpose it\"}");
  }
  CHECK(std::string(UserError(ErrorCode::kIo, "gone").what()) == "error[WEFT-E0201] gone");
  CHECK(ToJson(UserError(ErrorCode::kIo, "a\"b\\c\n\x01\x1b[0m"))
            .find("a\\\"b\\\\c\\n\\u0001\\u001b[0m") != std::string::npos);
}

TEST_CASE("error: exit codes follow the command line tool's table") {
  const std::pair<ErrorCode, int> table[] = {
      {ErrorCode::kCheckFailed, 1}, {ErrorCode::kUsage, 2},       {ErrorCode::kUnknownPass, 2},
      {ErrorCode::kDependency, 2},  {ErrorCode::kApiMisuse, 2},   {ErrorCode::kDuplicate, 2},
      {ErrorCode::kUnsupported, 3}, {ErrorCode::kUnknownOp, 3},   {ErrorCode::kMissingOpAttr, 3},
      {ErrorCode::kBadBinding, 4},  {ErrorCode::kIo, 4},          {ErrorCode::kInvalidModel, 4},
      {ErrorCode::kLimit, 5},       {ErrorCode::kOutOfMemory, 5}, {ErrorCode::kCancelled, 5},
      {ErrorCode::kDevice, 5},      {ErrorCode::kInternal, 70},
  };
  for (const std::pair<ErrorCode, int>& row : table) {
    CHECK_MESSAGE(ExitCode(row.first) == row.second, ErrorCodeName(row.first));
  }
}

TEST_CASE("hash: the digest is fixed, and follows boundaries") {
  // From a separate implementation of the definition in hash.h. A change here is a change of every
  // cache key.
  CHECK(Hasher().Finish().ToHex() == "47bd1f8a89f7759b2c5f8c918f080c94");
  CHECK(Hasher().Add(1).Add(2).Add(3).Finish().ToHex() == "d2263ba8494ea4dfed1bde62997615e3");
  CHECK(Hasher().Add("weft").Finish().ToHex() == "9e8f915d0bc0b557f48f6d011adc74c7");
  CHECK(HashBytes("0123456789", 10).ToHex() == "ba725a77ffbea1a19dc937c966605cd0");
  CHECK(Hasher().Add("ab").Add("c").Finish() != Hasher().Add("a").Add("bc").Finish());
  CHECK(Hasher().Add(0).Finish() != Hasher().Finish());
  CHECK(Hasher().Add(0.0).Finish() != Hasher().Add(-0.0).Finish());
  CHECK(Hasher(1).Finish() != Hasher(2).Finish());
  CHECK(Hasher().Add(-1).Finish() == Hasher().Add(int64_t{-1}).Finish());
  std::set<uint64_t> seen;
  for (int i = 0; i < 20000; ++i) seen.insert(Hasher().Add(i).Finish64());
  for (int bit = 0; bit < 64; ++bit)
    seen.insert(Hasher().Add(uint64_t{1} << bit).Add(bit).Finish64());
  CHECK(seen.size() == 20064);
  // Every input bit reaches about half of the output bits.
  for (int bit = 0; bit < 64; ++bit) {
    const Hash128 x = Hasher().Add(uint64_t{12345}).Finish(),
                  y = Hasher().Add(uint64_t{12345} ^ (uint64_t{1} << bit)).Finish();
    const int flips = __builtin_popcountll(x.hi ^ y.hi) + __builtin_popcountll(x.lo ^ y.lo);
    CHECK(flips > 36);
    CHECK(flips < 92);
  }
}

TEST_CASE("aligned memory: every block is on a line and can be written to its end") {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{65}, (int64_t{2} << 20) - 1,
                              int64_t{2} << 20, (int64_t{5} << 20) + 7}) {
    CAPTURE(bytes);
    const std::shared_ptr<void> block = AllocateAligned(bytes);
    REQUIRE(block);
    CHECK(reinterpret_cast<uintptr_t>(block.get()) % 64 == 0);
    auto* const at = static_cast<unsigned char*>(block.get());
    std::memset(at, 0x5a, size_t(bytes));
    CHECK((bytes == 0 || (at[0] == 0x5a && at[bytes - 1] == 0x5a)));
  }
}

TEST_CASE("checked: overflow throws, rounding goes down") {
  CHECK(CheckedAdd(INT64_MAX, 0) == INT64_MAX);
  CHECK(CodeOf([] { CheckedAdd(INT64_MAX, 1); }) == ErrorCode::kOverflow);
  CHECK(CodeOf([] { CheckedSub(INT64_MIN, 1); }) == ErrorCode::kOverflow);
  CHECK(CodeOf([] { CheckedMul(int64_t{1} << 32, int64_t{1} << 31); }) == ErrorCode::kOverflow);
  CHECK(CheckedProduct(std::vector<int64_t>{}) == 1);
  CHECK(CheckedProduct(std::vector<int64_t>{INT64_MAX, INT64_MAX, 0}) == 0);
  CHECK(CheckedRoundUp(65, 64) == 128);
  CHECK(CheckedRoundUp(64, 64) == 64);
  CHECK(CodeOf([] { CheckedRoundUp(INT64_MAX, 64); }) == ErrorCode::kOverflow);
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = -4; b <= 4; ++b) {
      if (b == 0) continue;
      CHECK(FloorDivide(a, b) ==
            static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b))));
      CHECK(FloorDivide(a, b) * b + FloorModulo(a, b) == a);
    }
  }
  CHECK(CodeOf([] { FloorDivide(INT64_MIN, -1); }) == ErrorCode::kOverflow);
  CHECK(FloorModulo(INT64_MIN, -1) == 0);
}

TEST_CASE("strings: numbers keep their bits") {
  CHECK(FormatDouble(0.1) == "0.1");
  CHECK(FormatFloat(0.1f) == "0.1");
  CHECK(FormatDouble(3) == "3");
  CHECK(FormatDouble(-0.0) == "-0");
  CHECK(FormatDouble(1e300) == "1e+300");
  CHECK(FormatDouble(INFINITY) == "inf");
  CHECK(FormatDouble(-INFINITY) == "-inf");
  CHECK(std::isnan(*TryParseDouble(FormatDouble(NAN))));
  std::mt19937_64 rng(3);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = rng();
    double d;
    std::memcpy(&d, &bits, 8);
    if (std::isnan(d)) continue;
    const double again = *TryParseDouble(FormatDouble(d));
    CHECK(std::memcmp(&again, &d, 8) == 0);
    float f;
    std::memcpy(&f, &bits, 4);
    if (std::isnan(f)) continue;
    const float f_again = *TryParseFloat(FormatFloat(f));
    CHECK(std::memcmp(&f_again, &f, 4) == 0);
  }
  for (const char* bad : {"", "1x", " 1", "++1", "+", "0x10", "1e", "--1"})
    CHECK_MESSAGE(!TryParseDouble(bad), bad);
  CHECK(TryParseInt64("-9223372036854775808") == INT64_MIN);
  CHECK(TryParseInt64("+7") == 7);
  for (const char* bad : {"", "9223372036854775808", "1.0", "1 ", "+-1", "0x1", "+"})
    CHECK_MESSAGE(!TryParseInt64(bad), bad);
  CHECK(CodeOf([] { ParseInt64("x", "axis"); }) == ErrorCode::kSyntax);
}

TEST_CASE("strings: pieces") {
  CHECK(Split("a,b,,c", ',') == std::vector<std::string>{"a", "b", "", "c"});
  CHECK(Split("", ',') == std::vector<std::string>{""});
  CHECK(Join({"a", "b"}, ", ") == "a, b");
  CHECK(Join({}, ", ").empty());
  CHECK(Trim(" \ta b\n") == "a b");
  CHECK(Trim(" ").empty());
  CHECK(StartsWith("weft", "we"));
  CHECK_FALSE(StartsWith("w", "we"));
  CHECK(EndsWith("a.onnx", ".onnx"));
  CHECK_FALSE(EndsWith("x", ".onnx"));
  CHECK(Quote("a\"\n\x01") == "\"a\\\"\\n\\x01\"");
  CHECK(FormatBytes(12) == "12 B");
  CHECK(FormatBytes(1536) == "1.50 KiB");
}

TEST_CASE("edit distance: near names and no far ones") {
  CHECK(EditDistance("Relu", "relu") == 0);
  CHECK(EditDistance("Rleu", "Relu") == 1);
  CHECK(EditDistance("kitten", "sitting") == 3);
  CHECK(EditDistance("", "abc") == 3);
  const std::vector<std::string> ops = {"Relu", "Elu", "Gelu", "Conv", "ConvTranspose", "Add"};
  CHECK(NearestNames("Rellu", ops).front() == "Relu");
  CHECK(NearestNames("Conv2d", ops).front() == "Conv");
  CHECK(NearestNames("Zzzzzz", ops).empty());
  CHECK(DidYouMean("Rellu", {"Relu", "Add"}) == "did you mean 'Relu'?");
  CHECK(DidYouMean("Qqqq", {"Relu", "Add"}).empty());
}

TEST_CASE("limits: text, checks and deadlines") {
  const Limits d;
  CHECK(d.nodes == 2000000);
  CHECK(Limits::Parse(d.ToString()).ToString() == d.ToString());
  const Limits l = Limits::Parse("nodes=10, source_bytes=2M,deadline_s=0.5");
  CHECK(l.nodes == 10);
  CHECK(l.source_bytes == 2 << 20);
  CHECK(l.deadline_s == 0.5);
  CHECK(Limits::Parse("").depth == 64);
  for (const char* bad : {"nods=1", "nodes", "nodes=-1", "nodes=99999999999T", "deadline_s=x"}) {
    CHECK_MESSAGE(CodeOf([&] { Limits::Parse(bad); }) == ErrorCode::kUsage, bad);
  }
  try {
    Limits::Parse("nods=1");
  } catch (const Error& e) {
    CHECK(e.hint() == "did you mean 'nodes'?");
  }
  CHECK_NOTHROW(Limits::Check("nodes", 5, 5));
  CHECK(CodeOf([] { Limits::Check("nodes", 6, 5); }) == ErrorCode::kLimit);
  CHECK_FALSE(Deadline().passed());
  CHECK_FALSE(Deadline(1e30).passed());
  const Deadline soon(1e-9);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(CodeOf([&] { soon.Check("pass Fusion"); }) == ErrorCode::kLimit);
}

TEST_CASE("log: quiet by default, one sink, nothing formatted that is off") {
  const LogLevel level = GetLogLevel();
  SetLogLevel(LogLevel::kWarning);
  std::vector<std::string> seen;
  LogSink old = SetLogSink([&](LogLevel l, const char* file, int, std::string_view message) {
    seen.push_back(std::string(LogLevelName(l)) + " " + file + " " + std::string(message));
  });
  int formatted = 0;
  const auto count = [&] { return ++formatted; };
  WEFT_LOG(kInfo, "{}", count());
  WEFT_LOG(kWarning, "{}", count());
  SetLogLevel(LogLevel::kDebug);
  WEFT_LOG(kDebug, "x");
  SetLogLevel(LogLevel::kOff);
  WEFT_LOG(kError, "y");
  CHECK(seen == std::vector<std::string>{"warning support_test.cc 1", "debug support_test.cc x"});
  CHECK(formatted == 1);
  SetLogSink(std::move(old));
  SetLogLevel(level);
}

TEST_CASE("file: whole files, limits, atomic replacement") {
  const e2e::TempFolder folder;
  const std::string dir = folder.path();
  const std::string path = JoinPath(dir, "a.bin");
  const std::string content("x\0y\n", 4);
  WriteFileAtomic(path, content);
  CHECK(ReadFile(path) == content);
  CHECK(CodeOf([&] { ReadFile(path, 3); }) == ErrorCode::kLimit);
  CHECK(ReadFile(path, 4) == content);
  FileReader reader(path, 4);
  char part[8] = {};
  CHECK(reader.size() == 4);
  CHECK(reader.Read(part, 3) == 3);
  CHECK(reader.Read(part + 3, 5) == 1);
  CHECK(std::string(part, 4) == content);
  CHECK(reader.Read(part, 1) == 0);
  CHECK(CodeOf([&] { FileReader f(path, 3); }) == ErrorCode::kLimit);
  CHECK(CodeOf([&] { FileReader f(dir); }) == ErrorCode::kIo);
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  WriteFileAtomic(path, "new");
  CHECK(ReadFile(path) == "new");
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(CodeOf([&] { ReadFile(dir + "/none"); }) == ErrorCode::kIo);
  CHECK(CodeOf([&] { ReadFile(dir); }) == ErrorCode::kIo);
  CHECK(CodeOf([&] { WriteFileAtomic(dir + "/none/x", "y"); }) == ErrorCode::kIo);
  // A target that cannot be replaced keeps its place, and no temporary stays.
  MakeDirectories(dir + "/d/e", true);
  CHECK(CodeOf([&] { WriteFileAtomic(dir + "/d", "y"); }) == ErrorCode::kIo);
  REQUIRE(stat((dir + "/d").c_str(), &status) == 0);
  CHECK(S_ISDIR(status.st_mode));
  CHECK((status.st_mode & 0077) == 0);
  CHECK_NOTHROW(MakeDirectories(dir + "/d/e/"));
  CHECK(CodeOf([&] { MakeDirectories(path + "/x"); }) == ErrorCode::kIo);
  // Writers at once leave one of the contents.
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k)
        WriteFileAtomic(path, std::string(5000, static_cast<char>('a' + i)));
    });
  }
  for (std::thread& t : writers) t.join();
  const std::string last = ReadFile(path);
  CHECK(last == std::string(5000, last[0]));
  CHECK(DirectoryOf("a/b/c") == "a/b");
  CHECK(DirectoryOf("c") == ".");
  CHECK(DirectoryOf("/c") == "/");
  CHECK(BaseName("a/b/c") == "c");
  CHECK(JoinPath("a", "/b") == "/b");
  unlink(path.c_str());
  rmdir((dir + "/d/e").c_str());
  rmdir((dir + "/d").c_str());
  CHECK_MESSAGE(rmdir(dir.c_str()) == 0, "a temporary file was left");
}

TEST_CASE("shared library: open, look up, reasons") {
  const SharedLibrary m = SharedLibrary::TryOpenAny({"libno_such_thing.so.9", "libm.so.6"});
  REQUIRE(m.is_open());
  CHECK(m.GetFunction<double(double)>("cos")(0.0) == 1.0);
  CHECK(m.Find("no_such_symbol") == nullptr);
  CHECK(CodeOf([&] { m.Get("no_such_symbol"); }) == ErrorCode::kDevice);
  std::string reason;
  CHECK_FALSE(SharedLibrary::TryOpen("libno_such_thing.so.9", &reason).is_open());
  CHECK(reason.find("libno_such_thing") != std::string::npos);
  CHECK(CodeOf([] { SharedLibrary::Open("/no/such/lib.so"); }) == ErrorCode::kIo);
  CHECK(CodeOf([] { SharedLibrary::Open("libno_such_thing.so.9"); }) == ErrorCode::kDevice);
  CHECK(SharedLibrary().Find("cos") == nullptr);
  CHECK_FALSE(CurrentLibraryPath().empty());
}

TEST_CASE("bounded cache: who goes when there is no room") {
  const auto left = [](Evict evict) {
    BoundedCache<int, std::string> cache(3, evict);
    for (const int k : {1, 2, 3}) cache.Put(k, std::to_string(k));
    CHECK(cache.full());
    CHECK(*cache.Find(1) == "1");
    CHECK(cache.Put(2, "two") == "two");  // no new entry: nothing goes
    CHECK(cache.size() == 3);
    cache.Put(4, "4");
    std::string keys;
    for (const int k : {1, 2, 3, 4})
      if (cache.Find(k)) keys += std::to_string(k);
    return keys;
  };
  CHECK(left(Evict::kOldest) == "234");
  CHECK(left(Evict::kLeastRecent) == "124");
  CHECK(left(Evict::kAll) == "4");
  BoundedCache<int, int> one(1);
  for (int k = 0; k < 5; ++k) CHECK(one.Put(k, 10 * k) == 10 * k);
  CHECK(one.size() == 1);
  CHECK(!one.Find(3));
  CHECK(*one.Find(4) == 40);
}

TEST_CASE("bounded cache: values are made once, stay where they are, and go with their entry") {
  BoundedCache<std::string, std::shared_ptr<int>> cache(2);
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  const std::shared_ptr<int>& first = cache.GetOrMake("a", make);
  const std::weak_ptr<int> watched = first;
  CHECK(*cache.GetOrMake("a", make) == 1);
  cache.GetOrMake("b", make);
  CHECK(*first == 1);
  // What cannot be made leaves all as it was.
  const auto fail = []() -> std::shared_ptr<int> { WEFT_THROW(kUsage, "no"); };
  CHECK_THROWS_AS(cache.GetOrMake("c", fail), UserError);
  CHECK(cache.Find("a"));
  CHECK(!cache.Find("c"));
  CHECK(*cache.GetOrMake("c", make) == 3);
  CHECK(watched.expired());
  CHECK(!cache.Find("a"));
}

TEST_CASE("bounded cache: moved, it keeps its order; what it was moved from begins anew") {
  BoundedCache<int, std::unique_ptr<int>> cache(2, Evict::kLeastRecent);
  cache.Put(1, std::make_unique<int>(1));
  const int* const two = cache.Put(2, std::make_unique<int>(2)).get();
  cache.Find(1);
  BoundedCache<int, std::unique_ptr<int>> other = std::move(cache);
  cache.clear();
  CHECK(!cache.full());
  cache.Put(7, std::make_unique<int>(7));
  CHECK(cache.size() == 1);
  CHECK(other.Find(2)->get() == two);
  other.Put(3, std::make_unique<int>(3));
  CHECK(!other.Find(1));
  CHECK(other.Find(2));
  CHECK(other.Find(3));
}

TEST_CASE("parallel for: every piece once, on as many threads as there are pieces for") {
  for (const int threads : {-1, 0, 1, 2, 7}) {
    for (const size_t count : {0, 1, 2, 5, 100}) {
      std::vector<std::atomic<int>> runs(count);
      std::mutex mutex;
      std::set<std::thread::id> team;
      ParallelFor(count, threads, [&](size_t i) {
        ++runs[i];
        std::lock_guard lock(mutex);
        team.insert(std::this_thread::get_id());
      });
      for (const auto& n : runs) CHECK(n == 1);
      CHECK(team.size() <= std::min(count, size_t(std::max(threads, 1))));
    }
  }
}

TEST_CASE("parallel for: what the first piece throws, when the others have run") {
  for (const int threads : {1, 4}) {
    std::atomic<int> runs{0};
    const auto body = [&](size_t i) {
      ++runs;
      WEFT_CHECK(i % 3 != 2, kUsage, "piece {}", i);
    };
    std::string what;
    try {
      ParallelFor(20, threads, body);
    } catch (const UserError& e) {
      what = e.message();
    }
    CHECK(what == "piece 2");
    CHECK(runs == 20);
  }
}

TEST_CASE("parallel for: the scopes of a request hold on all threads") {
  Limits limits;
  CancelToken cancel;
  const RequestScope scope(limits, &cancel);
  std::atomic<int> ended{0};
  cancel.Cancel();
  const auto body = [&](size_t) {
    try {
      RequestScope::Poll();
    } catch (const Error&) {
      ++ended;
    }
  };
  ParallelFor(12, 4, body);
  CHECK(ended == 12);
}

TEST_CASE("poll callback: in time, nested, not from within itself, gone with its object") {
  const auto spin = [](int milliseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < end) RequestScope::Poll();
  };
  CHECK_FALSE(PollCallback::IsOpen());
  int outer = 0, inner = 0;
  {
    const PollCallback first(
        [&] {
          ++outer;
          spin(15);
        },
        0.005);
    CHECK(PollCallback::IsOpen());
    spin(60);
    CHECK(outer > 0);
    CHECK(outer < 12);
    {
      const PollCallback second([&] { ++inner; }, 0.0);
      const int before = outer;
      spin(40);
      CHECK(inner > 0);
      CHECK(outer > before);
    }
    std::thread([&] { CHECK_FALSE(PollCallback::IsOpen()); }).join();
  }
  CHECK_FALSE(PollCallback::IsOpen());
  const int last = inner;
  spin(10);
  CHECK(inner == last);
}

TEST_CASE("poll callback: what it throws goes through, of any type, and ends a parallel loop") {
  struct Interrupt {
    int number;
  };
  int calls = 0;
  const PollCallback watch(
      [&] {
        if (++calls == 2) throw Interrupt{7};
      },
      0.002);
  std::atomic<int> begun{0}, cancelled{0};
  int caught = 0;
  try {
    // Pieces that end only when they are told to.
    ParallelFor(100, 3, [&](size_t) {
      ++begun;
      try {
        while (true) {
          RequestScope::Poll();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      } catch (const Error& e) {
        cancelled += e.code() == ErrorCode::kCancelled;
        throw;
      }
    });
  } catch (const Interrupt& i) {
    caught = i.number;
  }
  CHECK(caught == 7);
  CHECK(calls == 2);
  CHECK(begun <= 3);
  CHECK(cancelled == begun);
  // Nothing of it is left.
  std::atomic<int> sum{0};
  ParallelFor(10, 3, [&](size_t i) { sum += int(i); });
  CHECK(sum == 45);
  CHECK(RequestScope::Current() == nullptr);
}

TEST_CASE("timer: goes forward") {
  double total = 0;
  {
    const ScopedTimer timer(&total);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(total >= 0.002);
}

}  // namespace
}  // namespace weft
