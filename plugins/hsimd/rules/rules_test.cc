// Rules: what each of them makes of operators, executed word by word, against Weft's evaluator.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "../l1/simulator.h"
#include "../l2/emit.h"
#include "../tests/bring_in.h"
#include "../tests/direct_run.h"
#include "../tests/place_blocks.h"
#include "rule.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using weft::DType;
using weft::Graph;
using weft::NodePtr;
using weft::TensorPtr;

/// A graph of one node with its shapes.
Graph OneNode(const std::string& body) {
  Graph g = weft::ParseGraph("weft 1\n" + body);
  return weft::ApplyPasses(std::move(g), {"InferShape"});
}

NodePtr TheNode(const Graph& g) { return g.outputs[0].node; }

struct Harness {
  const Machine& machine;
  const Graph& graph;
  NodePtr node = TheNode(graph);
  std::vector<TensorPtr> inputs, want;

  Harness(const Machine& m, const Graph& g, uint64_t seed) : machine(m), graph(g) {
    inputs = weft::MakeRandomInputs(graph, seed).tensors;
    want = weft::GetEvaluator()->Eval(graph, inputs);
  }

  static uint32_t Word(const weft::Tensor& t, int64_t i) {
    switch (t.dtype()) {
      case DType::kF32: {
        uint32_t w;
        std::memcpy(&w, t.data_as<float>() + i, 4);
        return w;
      }
      case DType::kBool:
        return t.data_as<uint8_t>()[i] != 0;
      default:
        return uint32_t(int32_t(t.at_int(i)));
    }
  }

  /// Calls f(place, address, element number) for every word of the layout that holds an element.
  template <class F>
  void EachWord(const Layout& layout, const F& f) const {
    const int64_t pes = machine.PlacesOf(machine.pe()), words = Words(layout);
    for (int64_t p = 0; p < pes; ++p) {
      Place place;
      int64_t rest = p;
      for (int l = machine.pe(); l > 0; --l) {
        place[machine.levels[size_t(l)].name] = rest % machine.levels[size_t(l)].count;
        rest /= machine.levels[size_t(l)].count;
      }
      for (int64_t w = 0; w < words; ++w) {
        place[kAddress] = w;
        const auto index = IndexAt(layout, place);
        if (!index) continue;
        int64_t element = 0;
        for (size_t d = 0; d < index->size(); ++d)
          element = element * layout.shape[d] + (*index)[d];
        f(p, w, element);
      }
    }
  }

  static bool IsNan(uint32_t w) { return (w & 0x7fffffff) > 0x7f800000; }

  struct Outcome {
    int64_t cycles = 0;
    double error = 0;  ///< largest, relative to 1 and the value
  };

  /// The same program behind loads of its operands, holes as NaN, on the simulator: no hazards, and
  /// the same words.
  std::map<int, std::vector<uint32_t>> simulated;  ///< by result: words by place
  void Simulate(const TileProgram& tiles, const LayoutCandidate& candidate,
                const LowerRequest& request) {
    const int64_t pes = machine.PlacesOf(machine.pe());
    int dram = -1;
    for (size_t m = 0; m < machine.memories.size(); ++m)
      if (machine.memories[m].off_chip) dram = int(m);
    std::vector<uint32_t> data;
    std::vector<Block> blocks(1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t base = int64_t(data.size()), words = Words(candidate.inputs[i]);
      data.resize(data.size() + size_t(words * pes), 0x7fc00000);
      EachWord(candidate.inputs[i], [&](int64_t p, int64_t w, int64_t e) {
        data[size_t(base + w * pes + p)] = Word(*inputs[i], e);
      });
      for (Instruction& in :
           BringIn(machine, request.inputs[i].memory, request.inputs[i].base, words, base))
        blocks[0].instructions.push_back(std::move(in));
    }
    for (Block& block : EmitTiles(tiles, machine)) blocks.push_back(std::move(block));
    Program program = PlaceBlocks(tiles, machine, blocks);
    program.segments.push_back({"data", dram, 0, int64_t(data.size()), false});
    const int64_t predicted = PredictCycles(program, machine);
    Simulator simulator(machine, program);
    simulator.SetWords(dram, 0, data.data(), int64_t(data.size()));
    const Execution execution = simulator.Run();
    CHECK(execution.cycles == predicted);
    simulated.clear();
    for (size_t k = 0; k < want.size(); ++k) {
      std::vector<uint32_t>& words = simulated[int(k)];
      words.resize(size_t(Words(candidate.outputs[k]) * pes), 0x7fc00001);
      EachWord(candidate.outputs[k], [&](int64_t p, int64_t w, int64_t) {
        if (const auto v =
                simulator.WordAt(request.outputs[k].memory, p, request.outputs[k].base + w))
          words[size_t(w * pes + p)] = *v;
      });
    }
  }

  Outcome Run(const LayoutCandidate& candidate) {
    // Operands in turn in the memories that hold most; scratch in all, values after it.
    std::vector<int64_t> next(machine.memories.size(), 0);
    std::vector<ScratchRange> scratch;
    std::vector<int> homes;
    int64_t most = 0;
    for (size_t m = 0; m < machine.memories.size(); ++m) {
      const Memory& memory = machine.memories[m];
      if (memory.off_chip || memory.name == "A") continue;
      const int64_t words = memory.level == machine.pe() ? memory.words / 2 : memory.words;
      scratch.push_back({int(m), 0, words});
      next[m] = words;
      if (memory.level == machine.pe()) most = std::max(most, memory.words);
    }
    for (size_t m = machine.memories.size(); m-- > 0;)
      if (machine.memories[m].level == machine.pe() && machine.memories[m].words == most &&
          machine.memories[m].name != "A")
        homes.push_back(int(m));
    // Results that are results of small memories keep theirs whole.
    for (ScratchRange& r : scratch)
      if (machine.memories[size_t(r.memory)].words < most)
        r.words = machine.memories[size_t(r.memory)].words;
    size_t turn = 0;
    const auto place = [&](const Layout& layout) {
      const int memory = homes[turn++ % homes.size()];
      TilePlace p{memory, next[size_t(memory)], layout};
      next[size_t(memory)] += Words(layout);
      return p;
    };
    LowerRequest request{graph, node, machine, {}, {}, scratch};
    for (const Layout& layout : candidate.inputs) request.inputs.push_back(place(layout));
    for (const Layout& layout : candidate.outputs) request.outputs.push_back(place(layout));
    for (size_t m = 0; m < next.size(); ++m)
      if (next[m] > machine.memories[m].words) return {-1, 0};  // does not fit
    const TileProgram tiles = LowerNode(request);
    const std::string text = PrintTiles(tiles, machine);
    REQUIRE(PrintTiles(ParseTiles(text, machine, "text"), machine) == text);
    const Program program = PlaceBlocks(tiles, machine, EmitTiles(tiles, machine));
    DirectRun run(machine);
    Simulate(tiles, candidate, request);
    for (size_t i = 0; i < inputs.size(); ++i)
      EachWord(candidate.inputs[i], [&](int64_t p, int64_t w, int64_t e) {
        run.At(request.inputs[i].memory, p, request.inputs[i].base + w) = Word(*inputs[i], e);
      });
    run.Run(program.instructions);
    Outcome outcome;
    outcome.cycles = run.cycles();
    for (size_t k = 0; k < want.size(); ++k)
      EachWord(candidate.outputs[k], [&](int64_t p, int64_t w, int64_t e) {
        const uint32_t got = run.At(request.outputs[k].memory, p, request.outputs[k].base + w);
        const uint32_t expected = Word(*want[k], e);
        const uint32_t there = simulated.at(int(k))[size_t(w * machine.PlacesOf(machine.pe()) + p)];
        if (there != got && !(IsNan(there) && IsNan(got))) outcome.error = 2e9;
        if (want[k]->dtype() != DType::kF32) {
          if (got != expected) outcome.error = 1e9;
          return;
        }
        float a, b;
        std::memcpy(&a, &got, 4);
        std::memcpy(&b, &expected, 4);
        if (std::isnan(b) || std::isinf(b)) {
          if (!(std::isnan(a) && std::isnan(b)) && a != b) outcome.error = 1e9;
          return;
        }
        const double error = std::fabs(double(a) - double(b)) / std::max(1.0, std::fabs(double(b)));
        if (!(error <= outcome.error)) outcome.error = error;
      });
    return outcome;
  }
};

/// Runs a node under its candidates, at most `most` of them, spread over all; the fewest cycles.
int64_t CheckOn(const Machine& machine, const std::string& body, size_t most = 12,
                double tolerance = 1e-5) {
  CAPTURE(body);
  const Graph graph = OneNode(body);
  Harness harness(machine, graph, 3);
  const std::vector<LayoutCandidate> candidates = LayoutCandidates(graph, TheNode(graph), machine);
  REQUIRE(!candidates.empty());
  CHECK(candidates.size() <= size_t(kMaxCandidates));
  int64_t best = -1;
  const size_t step = std::max<size_t>(1, candidates.size() / most);
  for (size_t c = 0; c < candidates.size(); c += step) {
    CAPTURE(candidates[c].name);
    CAPTURE(PrintLayout(candidates[c].outputs[0]));
    const Harness::Outcome outcome = harness.Run(candidates[c]);
    if (outcome.cycles < 0) continue;
    CHECK(outcome.error <= tolerance);
    if (best < 0 || outcome.cycles < best) best = outcome.cycles;
  }
  CHECK(best > 0);
  return best;
}

int64_t CheckAll(const std::string& machine_name, const std::string& body, size_t most = 12) {
  CAPTURE(machine_name);
  return CheckOn(FindMachine(machine_name), body, most);
}

/// One to three levels, latencies 1 to 8, no matrix unit, links with few modes.
Machine RandomMachine(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return low + int(random() % uint32_t(high - low + 1));
  };
  const int levels = draw(1, 2), latency = draw(1, 8);
  const int a = draw(2, 4), b = draw(2, 4);
  const std::string upper = levels == 2 ? fmt::format(", \"B\": {}", a) : "";
  const std::string all = levels == 2 ? "\"B\", \"PE\"" : "\"PE\"";
  return ParseMachine(fmt::format(R"({{"name": "random", "levels": {{"CHIP": 1{0}, "PE": {1}}},
  "memories": {{
    "DRAM": {{"level": "CHIP", "words": 1048576, "off_chip": true}},
    "PM": {{"level": "CHIP", "words": 16384}},
    "M0": {{"level": "PE", "words": 8192, "accesses": 1}},
    "M1": {{"level": "PE", "words": 8192, "accesses": 1}},
    "R0": {{"level": "PE", "words": {2}, "reads": 1, "writes": 1}},
    "R1": {{"level": "PE", "words": {2}, "reads": 1, "writes": 1}}}},
  "units": {{
    "ALU": {{"kind": "alu", "slot": "ALU", "latency": {3}, "ops": "all"}},
    "DOWN": {{"kind": "down", "slot": "L", "parent": "CHIP", "child": "PE", "sources": ["PM"],
      "targets": ["M0", "M1", "R0", "R1"], "latency": {4}, "ops": {{"distribute": {{"indexed": [{5}]}}}}}},
    "UP": {{"kind": "up", "slot": "L", "parent": "CHIP", "child": "PE", "targets": ["PM"],
      "sources": ["M0", "M1", "R0", "R1"], "latency": {4}, "ops": {{"collect": {{"indexed": [{5}]}}}}}},
    "LOAD": {{"kind": "down", "slot": "D", "parent": "CHIP", "child": "CHIP", "sources": ["DRAM"],
      "targets": ["PM"], "latency": {6}, "ops": ["load"]}},
    "STORE": {{"kind": "up", "slot": "D", "parent": "CHIP", "child": "CHIP", "sources": ["PM"],
      "targets": ["DRAM"], "latency": {6}, "ops": ["store"]}}}}}})",
                                  upper, b, draw(48, 128), latency, draw(1, 4), all, draw(1, 8)),
                      "random");
}

TEST_CASE("machines with an ALU alone") {
  std::mt19937 random(11);
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const Machine machine = RandomMachine(random);
    CAPTURE(PrintMachine(machine));
    const int m = 1 + int(random() % 9), k = 1 + int(random() % 9), n = 1 + int(random() % 9);
    CheckOn(machine,
            fmt::format("graph @g(%a: f32[{}, {}], %b: f32[{}, {}]) -> (%y) {{\n"
                        "  %y = MatMul(%a, %b) : ?\n}}\n",
                        m, k, k, n),
            6);
    CheckOn(machine,
            fmt::format(
                "graph @g(%x: f32[{}, {}]) -> (%y) {{\n  %y = Softmax(%x) {{axis = {}}} : ?\n}}\n",
                2 * m, 4 * k, i % 2),
            6);
    CheckOn(machine,
            fmt::format("graph @g(%x: f32[{}, 4, 6, 5], %w: f32[{}, 4, 3, 3]) -> (%y) {{\n"
                        "  %y = Conv(%x, %w) {{pads = [1, 1, 1, 1], strides = [{}, 1]}} : ?\n}}\n",
                        1 + n % 3, m, 1 + i % 2),
            6);
  }
}

TEST_CASE("element-wise bodies from their Expr, with broadcasts") {
  CheckAll("tree64",
           "graph @g(%x: f32[8, 20], %b: f32[20]) -> (%y) {\n  %y = Add(%x, %b) : ?\n}\n");
  CheckAll("tree64", "graph @g(%x: f32[8, 1], %b: f32[20]) -> (%y) {\n  %y = Mul(%x, %b) : ?\n}\n");
  for (const char* op : {"Exp", "Tanh", "Erf", "Sigmoid", "Log", "Relu", "Sqrt", "Abs", "Gelu"}) {
    CAPTURE(op);
    CheckAll("tree64",
             std::string("graph @g(%x: f32[6, 10]) -> (%y) {\n  %y = ") + op + "(%x) : ?\n}\n", 4);
  }
  CheckAll("tree64", "graph @g(%x: f32[30], %z: f32[30]) -> (%y) {\n  %y = Less(%x, %z) : ?\n}\n");
  CheckAll("tree64",
           "graph @g(%c: bool[7, 5], %x: f32[7, 5], %z: f32[5]) -> (%y) {\n  %y = Where(%c, %x, "
           "%z) : ?\n}\n");
  CheckAll("tree64", "graph @g(%x: i32[30], %z: i32[30]) -> (%y) {\n  %y = Mul(%x, %z) : ?\n}\n");
}

TEST_CASE("index maps that are affine") {
  CheckAll("tree64",
           "graph @g(%x: f32[8, 12]) -> (%y) {\n  %y = Transpose(%x) {perm = [1, 0]} : ?\n}\n");
  CheckAll("tree64",
           "graph @g(%x: f32[4, 6], %z: f32[4, 5]) -> (%y) {\n  %y = Concat(%x, %z) {axis = 1} : "
           "?\n}\n");
}

TEST_CASE("reductions over every axis, within a place and across places") {
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMean"})
    for (const char* axes : {"[0]", "[1]", "[2]", "[0, 2]", "[0, 1, 2]"}) {
      CAPTURE(op);
      CAPTURE(axes);
      const std::string n = std::string(axes) == "[0]"      ? "1"
                            : std::string(axes) == "[1]"    ? "1"
                            : std::string(axes) == "[2]"    ? "1"
                            : std::string(axes) == "[0, 2]" ? "2"
                                                            : "3";
      CheckAll(
          "tree64",
          std::string(
              "graph @g(%x: f32[4, 8, 12]) -> (%y) {\n  %a = Constant() {value = tensor i64[") +
              n + "] " + axes + "} : i64[" + n + "]\n  %y = " + op +
              "(%x, %a) {keepdims = 0} : ?\n}\n",
          10);
    }
}

TEST_CASE("products of any sizes") {
  CheckAll("tree64",
           "graph @g(%a: f32[16, 16], %b: f32[16, 16]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
  CheckAll("tree64",
           "graph @g(%a: f32[7, 13], %b: f32[13, 5]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
  CheckAll(
      "tree64",
      "graph @g(%a: f32[3, 9, 6], %b: f32[3, 6, 10]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
  CheckAll("tree64",
           "graph @g(%a: f32[12, 9], %b: f32[20, 9], %c: f32[20]) -> (%y) {\n"
           "  %y = Gemm(%a, %b, %c) {transB = 1} : ?\n}\n");
  // toy4's ALU cannot read two words at once.
  const Machine toy = FindMachine("toy4");
  const Graph g =
      OneNode("graph @g(%a: f32[4, 3], %b: f32[3, 2]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
  Harness harness(toy, g, 1);
  CHECK_THROWS_AS(harness.Run(LayoutCandidates(g, TheNode(g), toy)[0]), weft::Error);
}

TEST_CASE("a convolution of one channel has its taps on the matrix unit") {
  for (const char* pads : {"[0, 0, 0, 0]", "[2, 2, 2, 2]"})
    CheckAll("tree64",
             std::string("graph @g(%x: f32[4, 1, 10, 10], %w: f32[8, 1, 5, 5]) -> (%y) {\n"
                         "  %y = Conv(%x, %w) {pads = ") +
                 pads + "} : ?\n}\n",
             8);
  const Machine machine = FindMachine("tree64");
  const Graph g = OneNode(
      "graph @g(%x: f32[16, 1, 28, 28], %w: f32[8, 1, 5, 5]) -> (%y) {\n  %y = Conv(%x, %w) : "
      "?\n}\n");
  Harness harness(machine, g, 1);
  const LayoutCandidate best = LayoutCandidates(g, TheNode(g), machine)[0];
  CAPTURE(best.name);
  const Harness::Outcome outcome = harness.Run(best);
  CHECK(outcome.error <= 1e-5);
  // One image and 8 rows a matrix unit: 5 rows of taps in blocks of 4 and 1, 24 x 24 points.
  const int64_t products = 2 * 5 * 2 * 24 * 24;
  MESSAGE(best.name << ": " << outcome.cycles << " cycles, " << products << " of them products");
  CHECK(outcome.cycles < 2 * products);
}

TEST_CASE("convolutions and pooling") {
  CheckAll("tree64",
           "graph @g(%x: f32[2, 8, 7, 7], %w: f32[8, 8, 3, 3]) -> (%y) {\n"
           "  %y = Conv(%x, %w) {pads = [1, 1, 1, 1]} : ?\n}\n",
           8);
  CheckAll("tree64",
           "graph @g(%x: f32[2, 4, 9, 9], %w: f32[8, 4, 3, 3], %b: f32[8]) -> (%y) {\n"
           "  %y = Conv(%x, %w, %b) {pads = [1, 1, 1, 1], strides = [2, 2]} : ?\n}\n",
           8);
  CheckAll("tree64",
           "graph @g(%x: f32[2, 8, 8, 8]) -> (%y) {\n"
           "  %y, %i = MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 2]} : ?, ?\n}\n",
           8);
  CheckAll("tree64",
           "graph @g(%x: f32[2, 8, 8, 8]) -> (%y, %i) {\n"
           "  %y, %i = weft::MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 2]} : ?, ?\n}\n",
           6);
  CheckAll("tree64",
           "graph @g(%x: f32[2, 8, 7, 7]) -> (%y) {\n"
           "  %y = AveragePool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]} "
           ": ?\n}\n",
           8);
}

}  // namespace
}  // namespace hsimd
