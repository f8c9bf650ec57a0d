/// saved_program_test.cc: `.weftx` files: equal results after loading, no compiler needed,
/// and every damage detected.
#include "weft/runtime/saved/saved_program.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/onnx/import.h"
#include "weft/support/file.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// Soft-max of a product with a constant, over symbolic rows, and its extents.
Graph SampleGraph() {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({SymInt::Symbol("n"), SymInt(24)})));
  std::vector<double> values;
  for (int i = 0; i < 24 * 40; ++i) values.push_back(((i * 37) % 101 - 50) / 64.0);
  const NodeEntry w = ConstantLike(x, Tensor::FromDoubles(DType::kF32, {24, 40}, values));
  const NodeEntry y =
      ApplyOp("Softmax", {ApplyOp("Relu", {ApplyOp("MatMul", {x, w})})}, {{"axis", -1}});
  g.outputs = std::vector<NodeEntry>{y, ApplyOp("Shape", {y})};
  return g;
}

void CheckSame(const std::shared_ptr<const Program>& a, const std::shared_ptr<const Program>& b,
               const SymBindings& bind) {
  const auto inputs = RandomProgramInputs(*a, 11, bind);
  const auto want = Session(a).Run(inputs), got = Session(b).Run(inputs);
  REQUIRE(want.size() == got.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(want[i]->Equals(*got[i]));
}

TEST_CASE("a saved program gives the same bits, for every extent, with the same steps") {
  const TempFolder dir;
  const auto program = Compile(SampleGraph());
  SaveProgram(*program, dir / "a.weftx");
  const auto loaded = LoadProgram(dir / "a.weftx");
  CHECK(loaded->stats().kernels == program->stats().kernels);
  CHECK(loaded->stats().library_calls == program->stats().library_calls);
  CHECK(loaded->stats().interpreted == 0);
  REQUIRE(loaded->inputs().size() == 1);
  CHECK(loaded->inputs()[0].name == "x");
  CHECK(loaded->inputs()[0].shape.ToString() == program->inputs()[0].shape.ToString());
  for (int64_t n : {1, 3, 64}) CheckSame(program, loaded, {{"n", n}});
  // Saving what was loaded changes nothing.
  SaveProgram(*loaded, dir / "b.weftx");
  CHECK(ReadFile(dir / "a.weftx") == ReadFile(dir / "b.weftx"));
}

TEST_CASE("loading compiles nothing, and a file without usable code is compiled again") {
  const TempFolder dir;
  const auto program = Compile(SampleGraph());
  SaveProgram(*program, dir / "a.weftx");
  KernelCache::Process().ClearMemory();
  const auto loaded = LoadProgram(dir / "a.weftx");
  for (const PassRecord& r : loaded->stats().passes) CHECK(r.name != "RTCGen");
  WriteFileAtomic(dir / "other.weftx", PackProgram(program->graph(), "cpu", "cpu:no-such-machine"));
  const auto other = LoadProgram(dir / "other.weftx");
  CHECK(other->stats().interpreted == 0);
  CheckSame(program, other, {{"n", 5}});
}

TEST_CASE("bytes in memory may begin anywhere; constants lie as kernels may read them") {
  const auto program = Compile(SampleGraph());
  const std::string bytes = PackProgram(program->graph(), "cpu", "cpu:x");
  for (const size_t shift : {1, 8, 16}) {
    const auto room = std::make_shared<std::string>(shift, ' ');
    *room += bytes;
    const auto loaded = LoadProgramFromMemory(room->data() + shift, bytes.size(), room, "<bytes>");
    for (NodePtr n : loaded->graph().TopoOrder())
      if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n)))
        CHECK(reinterpret_cast<uintptr_t>(t->data()) % alignof(std::max_align_t) == 0);
    CheckSame(program, loaded, {{"n", 3}});
  }
}

TEST_CASE("a program may be loaded for the reference backend") {
  const TempFolder dir;
  const auto program = Compile(SampleGraph());
  SaveProgram(*program, dir / "a.weftx");
  LoadOptions ref;
  ref.backend = "ref";
  const auto loaded = LoadProgram(dir / "a.weftx", ref);
  const auto inputs = RandomProgramInputs(*program, 3, {{"n", 4}});
  CHECK(Difference(Session(program).Run(inputs), Session(loaded).Run(inputs)) <= 1);
}

TEST_CASE("strings survive, and kernels for a machine that is not there are kept") {
  const TempFolder dir;
  Graph g = FromText(
      "graph (%x: f32[2]) -> (%y, %s) {\n  %y = Relu(%x) : f32[2]\n"
      "  %s = Constant() {value = tensor str[20] [\"a\", \"b\\n\", \"\", \"d\", \"e\", \"f\", "
      "\"g\", "
      "\"h\", \"i\", \"j\", \"k\", \"l\", \"m\", \"n\", \"o\", \"p\", \"q\", \"r\", \"s\", \"t\"]} "
      ": "
      "str[20]\n}");
  CompileOptions ref;
  ref.backend = "ref";
  const auto program = Compile(g, ref);
  SaveProgram(*program, dir / "s.weftx");
  CheckSame(program, LoadProgram(dir / "s.weftx"), {});
}

TEST_CASE("every flipped byte and every cut is found") {
  const auto program = Compile(SampleGraph());
  const std::string whole = PackProgram(program->graph(), "cpu", "cpu:x");
  auto load = [](const std::string& bytes) {
    return Catch([&] { LoadProgramFromMemory(bytes.data(), bytes.size(), nullptr, "m.weftx"); });
  };
  for (size_t at = 0; at < whole.size(); at += at < 400 ? 1 : 97) {
    std::string bad = whole;
    bad[at] = char(bad[at] ^ 0x20);
    const auto error = load(bad);
    REQUIRE_MESSAGE(error, "byte ", at);
    CHECK(error->code == ErrorCode::kInvalidModel);
    CHECK(error->says("m.weftx"));
  }
  for (size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 131)
    CHECK(load(whole.substr(0, size)));
  std::string newer = whole;
  newer[7] = 3;
  CHECK(load(newer)->says("format 3"));
}

TEST_CASE("no such file, a folder, a file over the limit") {
  const TempFolder dir;
  CHECK(Catch([&] { LoadProgram(dir / "none.weftx"); })->code == ErrorCode::kIo);
  CHECK(Catch([&] { LoadProgram(dir / ""); })->code == ErrorCode::kIo);
  WriteFileAtomic(dir / "big.weftx", std::string(1000, 'x'));
  LoadOptions small;
  small.limits.file_bytes = 999;
  CHECK(Catch([&] { LoadProgram(dir / "big.weftx", small); })->code == ErrorCode::kLimit);
}

TEST_CASE("Magika: saved, loaded, equal") {
  const char* data = std::getenv("WEFT_DATA_DIR");
  REQUIRE(data);
  const TempFolder dir;
  const auto program = Compile(ImportOnnx(JoinPath(data, "magika/model.onnx")));
  SaveProgram(*program, dir / "m.weftx");
  const auto loaded = LoadProgram(dir / "m.weftx");
  CHECK(loaded->stats().kernels == program->stats().kernels);
  CHECK(loaded->stats().host_steps == program->stats().host_steps);
  SymBindings bind;
  for (SymInt s : program->inputs()[0].shape[0].Symbols()) bind[s.symbol_name()] = 3;
  CheckSame(program, loaded, bind);
}

}  // namespace
