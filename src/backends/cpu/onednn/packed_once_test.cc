/// packed_once_test.cc: weights of a program in a file are held packed and not beside that as they
/// are; results are those of the program that was saved, whatever has been given back, is shared,
/// or fails.
#ifdef WEFT_HAVE_ONEDNN

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include "backends/cpu/util/call_test_util.h"
#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/backend/packing_call.h"
#include "weft/runtime/program/weights.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/mapped_file.h"

namespace weft::cpu {
namespace {

using Programs = std::shared_ptr<const Program>;

/// Convolutions by more than one algorithm, and products of one row and of many. The first two
/// weights are so small that they are copied from the file; an element-wise step reads `plain`.
Graph Network() {
  Graph g;
  const auto weight = [&](const std::string& name, const Ns& dims, uint32_t seed) {
    return NodeEntry(g.AddParam(name, RandomTensor(dims, seed)));
  };
  const SymInt n = SymInt::Symbol("N");
  NodeEntry x(g.AddInput("x", DType::kF32, Shape({n, SymInt(16), SymInt(14), SymInt(14)})));
  const AttrDict same{{"pads", Ints({1, 1, 1, 1})}};
  x = ApplyOp("Relu", {ApplyOp("Conv", {x, weight("w0", {32, 16, 3, 3}, 1)}, same)});
  x = ApplyOp("Relu", {ApplyOp("Conv", {x, weight("w1", {48, 32, 1, 1}, 2)})});
  x = ApplyOp("Relu", {ApplyOp("Conv", {x, weight("w2", {128, 48, 3, 3}, 3)}, same)});
  x = ApplyOp("Mul", {x, weight("plain", {128, 14, 14}, 6)});
  x = ApplyOp("Flatten", {ApplyOp("GlobalAveragePool", {x})});
  x = ApplyOp("Relu", {ApplyOp("MatMul", {x, weight("w3", {128, 512}, 4)})});
  x = ApplyOp("Gemm", {x, weight("w4", {96, 512}, 5)}, {{"transB", 1}});
  g.outputs = std::vector<NodeEntry>{x};
  return g;
}
constexpr int64_t kPlainBytes = 4 * 128 * 14 * 14,
                  kPackedBytes = 4 * (128 * 48 * 9 + 128 * 512 + 96 * 512);  // of those mapped

/// Pages that come with the first and with the last one of a constant that is looked at.
constexpr int64_t kAround = 32;

Programs Compiled() {
  CompileOptions options;
  options.backend = "cpu";
  options.threads = 2;
  return Compile(Network(), options);
}

struct Saved {
  Saved() { SaveProgram(*Compiled(), path); }
  Programs Load() const {
    LoadOptions options;
    options.backend = "cpu";
    options.threads = 2;
    return LoadProgram(path, options);
  }
  const e2e::TempFolder folder;
  const std::string path = folder / "p.weftx";
};

TensorPtr Rows(int64_t n, uint32_t seed = 9) { return RandomTensor({n, 16, 14, 14}, seed); }

/// The same to the bit.
void CheckSame(const TensorPtr& got, const TensorPtr& want) {
  REQUIRE(got->dims() == want->dims());
  CHECK(std::memcmp(got->data(), want->data(), size_t(got->num_bytes())) == 0);
}

/// Whole pages of its mapped constants that this process has mapped in, as /proc/self/pagemap tells
/// (-1 where it does not), and how many there are.
std::pair<int64_t, int64_t> PagesOf(const Program& p, bool packed) {
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  std::FILE* f = std::fopen("/proc/self/pagemap", "rb");
  if (!f) return {-1, 1000};
  int64_t held = 0, all = 0;
  for (const NodePtr n : p.graph().TopoOrder()) {
    const TensorPtr t = Graph::ConstantOf(NodeEntry(n));
    if (!t || t->num_bytes() < 65536 || (t->num_bytes() == kPlainBytes) == packed) continue;
    const auto first = reinterpret_cast<uintptr_t>(t->data());
    for (uintptr_t at = (first + page - 1) / page; at < (first + uintptr_t(t->num_bytes())) / page;
         ++at) {
      uint64_t entry = 0;
      REQUIRE(std::fseek(f, long(at * 8), SEEK_SET) == 0);
      REQUIRE(std::fread(&entry, 8, 1, f) == 1);
      held += int64_t(entry >> 63);
      ++all;
    }
  }
  std::fclose(f);
  return {held, all};
}

TEST_CASE("packed weights are not held besides; bits are the same for all dimensions") {
  const Saved saved;
  const Programs whole = Compiled(), program = saved.Load();
  CHECK(PagesOf(*program, true).first <= kAround);  // hashed, and given back
  Session expected(whole), session(program);
  for (const int64_t n : {1, 3, 16, 2, 1, 40, 3}) {
    CheckSame(session.Run({Rows(n)})[0], expected.Run({Rows(n)})[0]);
    const auto [held, all] = PagesOf(*program, true);
    CHECK(all > 100);
    CHECK(held <= kAround);
  }
  const auto [held, all] = PagesOf(*program, false);
  CHECK(held != 0);
  CHECK(all > 0);
  const WeightBytes own = WeightsOf(*whole), mapped = WeightsOf(*program);
  CHECK(mapped.packed == own.packed);
  CHECK(mapped.packed > kPackedBytes);
  CHECK(mapped.constants >= kPlainBytes);
  CHECK(mapped.constants < kPlainBytes + 32768);
  CHECK(own.constants >= mapped.constants + kPackedBytes);
}

TEST_CASE("programs of one file share what is packed, as long as one of them is there") {
  const Saved saved;
  // Where the calls of a program of one row keep their weights.
  const auto packed = [](const Programs& program) {
    Session session(program);
    session.Run({Rows(1)});
    return WeightsOf(*program).packed;
  };
  Programs a = saved.Load(), b = saved.Load();
  const TensorPtr want = Session(Compiled()).Run({Rows(2)})[0];
  const int64_t bytes = packed(a);
  CHECK(packed(b) == bytes);
  CheckSame(Session(a).Run({Rows(2)})[0], want);
  a.reset();
  CheckSame(Session(b).Run({Rows(2)})[0], want);
  Programs c = saved.Load();
  b.reset();
  CheckSame(Session(c).Run({Rows(2)})[0], want);
  c.reset();
  CheckSame(Session(saved.Load()).Run({Rows(2)})[0], want);
}

TEST_CASE("a call says what it looks at, and where it keeps the rest") {
  const Saved saved;
  size_t size = 0;
  const auto file = MapFile(saved.path, int64_t{1} << 30, &size),
             again = MapFile(saved.path, int64_t{1} << 30, &size);
  const auto call = [&](const std::shared_ptr<void>& map, size_t at, int64_t rows) {
    const auto w = std::make_shared<const Tensor>(DType::kF32, Ns{64, 64},
                                                  static_cast<char*>(map.get()) + at, map);
    // Bytes of the file are any numbers; the call is not run.
    return Case("MatMul", {RandomTensor({rows, 64}, 1), w}, {}, {rows, 64}, {false, true}).Make();
  };
  const auto packed = [](const std::unique_ptr<LibraryCall>& made) {
    const auto* packs = dynamic_cast<const PackingCall*>(made.get());
    REQUIRE(packs);
    CHECK(packs->reads(0));
    CHECK(!packs->reads(1));
    std::map<const void*, int64_t> bytes;
    packs->AddPacked(&bytes);
    REQUIRE(bytes.size() == 1);
    CHECK(bytes.begin()->second >= 4 * 64 * 64);
    return bytes.begin()->first;
  };
  for (const int64_t rows : {1, 40}) {
    CAPTURE(rows);
    const auto a = call(file, 64, rows), b = call(again, 64, rows), c = call(file, 128, rows);
    CHECK(packed(a) == packed(b));
    CHECK(packed(a) != packed(c));
  }
  // What is no constant is looked at.
  const auto made =
      Case("MatMul", {RandomTensor({40, 64}, 1), RandomTensor({64, 64}, 2)}, {}, {40, 64}).Make();
  CHECK(dynamic_cast<const PackingCall*>(made.get())->reads(1));
}

TEST_CASE("NaN comes through calls whose weights were given back") {
  const Saved saved;
  auto x = RandomTensor({2, 16, 14, 14}, 4);
  x->set(100, NAN);
  x->set(3300, INFINITY);
  const auto got = Session(saved.Load()).Run({x})[0], want = Session(Compiled()).Run({x})[0];
  CheckSame(got, want);
  CHECK(std::isnan(got->at(0)));
}

TEST_CASE("a program whose weights were given back is saved whole, its file gone or not") {
  const Saved saved;
  const Programs program = saved.Load();
  const auto want = Session(program).Run({Rows(5)})[0];
  const std::string other = saved.folder / "q.weftx";
  REQUIRE(unlink(saved.path.c_str()) == 0);
  SaveProgram(*program, other);
  LoadOptions options;
  options.backend = "cpu";
  options.threads = 2;
  CheckSame(Session(LoadProgram(other, options)).Run({Rows(5)})[0], want);
  CheckSame(Session(program).Run({Rows(5)})[0], want);
  CheckSame(Session(program).Run({Rows(7)})[0], Session(Compiled()).Run({Rows(7)})[0]);
}

TEST_CASE("sessions of programs of one file at once") {
  const Saved saved;
  const Programs programs[] = {saved.Load(), saved.Load()};
  Session expected(Compiled());
  std::vector<TensorPtr> want, got(8);
  for (size_t i = 0; i < got.size(); ++i)
    want.push_back(expected.Run({Rows(int64_t(1 + i % 4), uint32_t(i))})[0]);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      Session session(programs[i % 2]);
      for (int k = 0; k < 3; ++k) got[i] = session.Run({Rows(int64_t(1 + i % 4), uint32_t(i))})[0];
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < got.size(); ++i) CheckSame(got[i], want[i]);
}

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
