// Emission: bodies, reductions and matrix tiles executed word by word, against plain loops.
#include "emit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "../tests/direct_run.h"
#include "../tests/place_blocks.h"
#include "weft/support/error.h"

namespace hsimd {
namespace {

struct Bench {
  Machine machine;
  TileProgram tiles;
  DirectRun run;
  std::mt19937 random{7};

  explicit Bench(const std::string& name) : machine(FindMachine(name)), run(machine) {
    tiles.machine = machine.name;
  }
  int Value(const std::string& name, const std::string& memory, int64_t base, int64_t words) {
    TileValue v;
    v.name = name;
    v.memory = machine.MemoryNamed(memory);
    v.base = base;
    v.words = words;
    return tiles.AddValue(v);
  }
  void Scratch(const std::string& memory, int64_t base, int64_t words) {
    tiles.scratch.push_back({machine.MemoryNamed(memory), base, words});
  }
  float& At(int value, int64_t place, int64_t word) {
    const TileValue& v = tiles.values[size_t(value)];
    return run.Float(v.memory, place, v.base + word);
  }
  void Fill(int value) {
    std::uniform_real_distribution<float> d(-1, 1);
    for (int64_t p = 0; p < machine.PlacesOf(machine.pe()); ++p)
      for (int64_t w = 0; w < tiles.values[size_t(value)].words; ++w) At(value, p, w) = d(random);
  }
  int64_t Execute() {
    const std::string text = PrintTiles(tiles, machine);
    CHECK(PrintTiles(ParseTiles(text, machine, "text"), machine) == text);
    const Program program = PlaceBlocks(tiles, machine, EmitTiles(tiles, machine));
    run.Run(program.instructions);
    return run.cycles();
  }
};

TEST_CASE("a body of several steps runs one operation a cycle where ports allow it") {
  Bench b("tree64");
  const int x = b.Value("x", "LM0", 10, 200), y = b.Value("y", "LM1", 0, 200);
  const int z = b.Value("z", "LM0", 300, 200);
  b.Scratch("R0", 0, 512);
  b.Scratch("R1", 0, 512);
  b.Scratch("LM1", 1000, 200);
  b.Fill(x);
  b.Fill(y);
  VectorOp op;
  op.counts = {20, 10};
  op.inputs = {{x, 0, {10, 1}}, {y, 0, {10, 1}}};
  const auto in = BodyOperand::Input;
  const auto step = BodyOperand::Step;
  op.steps = {{AluOp::kFMul, {in(0), in(0)}},
              {AluOp::kFAdd, {step(0), in(1)}},
              {AluOp::kFLess, {step(1), BodyOperand::Constant(0)}},
              {AluOp::kSelect, {step(2), step(0), step(1)}}};
  op.results = {{step(3), {z, 0, {10, 1}}, std::nullopt, false}};
  b.tiles.ops.push_back(op);
  const int64_t cycles = b.Execute();
  for (int64_t p = 0; p < 64; ++p)
    for (int64_t w = 0; w < 200; ++w) {
      const float a = b.At(x, p, w), c = a * a + b.At(y, p, w);
      CHECK(b.At(z, p, w) == (c < 0 ? a * a : c));
    }
  // Four steps, and two copies: of x beside itself, and for the three operands of select.
  CHECK(cycles <= 6 * 200 + 60);
}

TEST_CASE("results are combined along loops, few points in partial sums") {
  for (const char* name : {"tree64"})
    for (int64_t kept : {1, 3, 40})
      for (int64_t reduced : {1, 2, 7, 33}) {
        CAPTURE(name);
        CAPTURE(kept);
        CAPTURE(reduced);
        Bench b(name);
        const int64_t n = kept * reduced;
        const int x = b.Value("x", "LM0", 0, n);
        const int s = b.Value("s", "LM1", 0, kept);
        b.Scratch("R0", 0, 256);
        b.Scratch("R1", 0, 256);
        b.Fill(x);
        b.Fill(s);
        std::vector<float> before;
        for (int64_t k = 0; k < kept; ++k) before.push_back(b.At(s, 1, k));
        VectorOp op;
        op.counts = {reduced, kept};
        op.inputs = {{x, 0, {1, reduced}}};
        op.steps = {{AluOp::kFMul, {BodyOperand::Input(0), BodyOperand::Input(0)}}};
        op.results = {{BodyOperand::Step(0), {s, 0, {0, 1}}, AluOp::kFAdd, reduced % 2 == 1}};
        b.tiles.ops.push_back(op);
        b.Execute();
        for (int64_t k = 0; k < kept; ++k) {
          double sum = reduced % 2 == 1 ? double(before[size_t(k)]) : 0;
          for (int64_t r = 0; r < reduced; ++r)
            sum += std::pow(double(b.At(x, 1, k * reduced + r)), 2);
          CHECK(b.At(s, 1, k) == doctest::Approx(sum).epsilon(1e-5));
        }
      }
}

TEST_CASE("products of tiles: sums in two banks, more to come onto them, windows as x") {
  for (const bool onto : {false, true}) {
    Bench b("tree64");
    const int64_t rows = 3, inner = 5, columns = 70;
    const int a = b.Value("a", "LM1", 0, rows * inner * 4);
    const int x = b.Value("x", "LM0", 0, inner * columns);
    const int y = b.Value("y", "LM1", 500, rows * columns);
    b.Scratch("R1", 0, 128);
    b.Fill(a);
    b.Fill(x);
    b.Fill(y);
    std::vector<float> before;
    for (int64_t w = 0; w < rows * columns; ++w)
      for (int64_t p = 0; p < 64; ++p) before.push_back(onto ? b.At(y, p, w) : 0);
    MatrixOp op;
    op.rows = {rows};
    op.inner = {inner};
    op.columns = {columns};
    op.a = {a, 0, {inner * 4, 4, 0}};
    op.x = {x, 0, {0, columns, 1}};
    op.y = {y, 0, {columns, 0, 1}};
    op.onto = onto;
    b.tiles.ops.push_back(op);
    b.Execute();
    for (int64_t p = 0; p < 64; p += 7)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          double sum = double(before[size_t((r * columns + c) * 64 + p)]);
          for (int64_t k = 0; k < inner; ++k)
            for (int64_t j = 0; j < 4; ++j)
              sum += double(b.At(a, p, (r * inner + k) * 4 + j)) *
                     double(b.At(x, p / 4 * 4 + j, k * columns + c));
          CHECK(b.At(y, p, r * columns + c) == doctest::Approx(sum).epsilon(1e-4));
        }
  }
}

TEST_CASE("what is wrong in a tile program is told") {
  const Machine machine = FindMachine("tree64");
  const auto fails = [&](const std::string& body) {
    const std::string head =
        "l2 1\nmachine tree64\nscratch R0[0:64]\nvalue x input f32 LM0[0:16]\n"
        "value y output f32 LM1[0:16]\n";
    try {
      const TileProgram p = ParseTiles(head + body, machine, "t.l2");
      EmitTiles(p, machine);
    } catch (const weft::Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK(fails("vector (16)\n  in x[0; 1]\n  out y[0; 1] $0\n") == "nothing");
  CHECK(fails("vector (17)\n  in x[0; 1]\n  out y[0; 1] $0\n").find("words 0 to 16 of value 'x'") !=
        std::string::npos);
  CHECK(fails("vector (4, 4)\n  in x[0; 4, 1]\n  out y[0; 1, 0] $0\n").find("without combining") !=
        std::string::npos);
  CHECK(fails("vector (4)\n  in z[0; 1]\n").find("no value 'z'") != std::string::npos);
  CHECK(fails("vector (4)\n  frob $0\n").find("frob") != std::string::npos);
  CHECK(fails("vector (4)\n  in x[0; 1\n").find("t.l2:7:") != std::string::npos);
  CHECK(fails("vector (4)\n  in x[0; 1]\n  fadd $0\n  out y[0; 1] %0\n").find("it takes 2") !=
        std::string::npos);
  CHECK(fails("value x input f32 LM0[0:16]\n").find("named 'x'") != std::string::npos);
  CHECK(fails("value q input f32 LM0[0:9999]\n").find("beyond the 4096 words") !=
        std::string::npos);
}

}  // namespace
}  // namespace hsimd
