/// control_flow_test.cc: If, Loop and Scan with and without draws in their bodies. A body with a
/// random operator is random: nothing merges or folds it, and each run draws anew.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=1000 weft_tests -tc='random control flow*'
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_control_flow.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/support/check.h"

namespace weft::e2e {
namespace {

/// What two runs of one session give, on every engine, for `check(first, second)`.
template <class Check>
void RunTwice(const std::string& text, const std::vector<TensorPtr>& inputs, Check check) {
  const Graph g = FromText(text);
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    Session session(CompileWith(g, engine));
    const auto first = session.Run(inputs), second = session.Run(inputs);
    check(first, second);
  }
}
/// Every output is drawn by itself, and anew in the second run.
void CheckIndependent(const std::string& text, const std::vector<TensorPtr>& inputs) {
  RunTwice(text, inputs, [](const auto& first, const auto& second) {
    std::vector<TensorPtr> all = first;
    all.insert(all.end(), second.begin(), second.end());
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t k = 0; k < i; ++k) {
        CAPTURE(i);
        CAPTURE(k);
        CHECK_FALSE(all[i]->Equals(*all[k]));
      }
  });
}

const TensorPtr kYes = Tensor::Scalar(DType::kBool, 1);
TensorPtr Filled(std::vector<int64_t> dims, double v) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, v);
  return t;
}

}  // namespace

TEST_CASE("draws in the branch of a constant condition are new in every run") {
  CheckIndependent(R"(graph () -> (%y) {
      %c = Constant() {value = tensor bool[] [true]}
      %y = If(%c) {
        then_branch = graph () -> (%u) { %u = RandomUniform() {shape = [16]} },
        else_branch = graph () -> (%u) { %u = RandomNormal() {shape = [16]} }
      }
    })",
                   {});
}

TEST_CASE("equal control flow on equal operands draws by itself") {
  const std::string branches = R"({num_captures = 1,
        then_branch = graph (%x: f32[16]) -> (%u) { %u = RandomUniformLike(%x) },
        else_branch = graph (%x: f32[16]) -> (%u) { %u = RandomNormalLike(%x) }
      })";
  CheckIndependent("graph (%c: bool[], %x: f32[16]) -> (%a, %b) {\n %a = If(%c, %x) " + branches +
                       "\n %b = If(%c, %x) " + branches + "\n}",
                   {kYes, Filled({16}, 1)});
  const std::string scan = R"({num_scan_inputs = 1,
        body = graph (%x: f32[4]) -> (%u) { %u = RandomUniformLike(%x) }
      })";
  CheckIndependent("graph (%x: f32[3, 4]) -> (%a, %b) {\n %a = Scan(%x) " + scan +
                       "\n %b = Scan(%x) " + scan + "\n}",
                   {Filled({3, 4}, 1)});
  const std::string loop = R"({num_captures = 1,
        body = graph (%i: i64[], %c: bool[], %x: f32[4]) -> (%c, %u) { %u = RandomUniformLike(%x) }
      })";
  CheckIndependent("graph (%m: i64[], %x: f32[4]) -> (%a, %b) {\n %a = Loop(%m, _, %x) " + loop +
                       "\n %b = Loop(%m, _, %x) " + loop + "\n}",
                   {Tensor::Scalar(DType::kI64, 3), Filled({4}, 1)});
}

TEST_CASE("a draw two bodies below is a draw") {
  const std::string outer = R"({num_scan_inputs = 1,
        body = graph (%x: f32[8]) -> (%y) {
          %t = Constant() {value = tensor bool[] [true]}
          %y = If(%t, %x) {num_captures = 1,
            then_branch = graph (%x: f32[8]) -> (%u) { %u = RandomUniformLike(%x) },
            else_branch = graph (%x: f32[8]) -> (%x) { }
          }
        }
      })";
  const std::string text = "graph (%x: f32[3, 8]) -> (%a, %b) {\n %a = Scan(%x) " + outer +
                           "\n %b = Scan(%x) " + outer + "\n}";
  CheckIndependent(text, {Filled({3, 8}, 1)});
  const Graph g = FromText(text);
  for (const NodeEntry& e : g.outputs) {
    CHECK(HasEffect(e.node));
    CHECK(DrawsAnew(e.node));
  }
  // A near miss: without the draw they are one node.
  std::string plain = text;
  for (size_t at; (at = plain.find("RandomUniformLike")) != std::string::npos;)
    plain.replace(at, 17, "Neg");
  const Graph same = ApplyPasses(FromText(plain), "Simplify");
  CHECK(IsRepeatable(same.outputs[0].node));
  CHECK(same.outputs[0] == same.outputs[1]);
}

TEST_CASE("with a seed a draw in a body is the same in every run") {
  RunTwice(R"(graph (%c: bool[]) -> (%y) {
      %y = If(%c) {
        then_branch = graph () -> (%u) { %u = RandomUniform() {shape = [16], seed = 3.0} },
        else_branch = graph () -> (%u) { %u = RandomNormal() {shape = [16]} }
      }
    })",
           {kYes},
           [](const auto& first, const auto& second) { CHECK(first[0]->Equals(*second[0])); });
}

TEST_CASE("Dropout draws anew wherever it stands") {
  const char* const kInBodies = R"(graph (%c: bool[], %x: f32[64]) -> (%a, %b) {
      %a = If(%c, %x) {num_captures = 1,
        then_branch = graph (%x: f32[64]) -> (%y) {
          %r = Constant() {value = tensor f32[] [0.5]}
          %t = Constant() {value = tensor bool[] [true]}
          %y, %m = Dropout(%x, %r, %t)
        },
        else_branch = graph (%x: f32[64]) -> (%x) { }
      }
      %b = If(%c, %x) {num_captures = 1,
        then_branch = graph (%x: f32[64]) -> (%y) {
          %r = Constant() {value = tensor f32[] [0.5]}
          %t = Constant() {value = tensor bool[] [true]}
          %y, %m = Dropout(%x, %r, %t)
        },
        else_branch = graph (%x: f32[64]) -> (%x) { }
      }
    })";
  CheckIndependent(kInBodies, {kYes, Filled({64}, 1)});
  // Of a constant, with a ratio that is a vector of one element, twice.
  const char* const kOfConstants = R"(graph (%x: f32[64]) -> (%a, %b) {
      %i = Constant() {value = tensor i64[1] [64]}
      %o = Constant() {value = tensor f32[] [1]}
      %e = Expand(%o, %i)
      %r = Constant() {value = tensor f32[1] [0.5]}
      %t = Constant() {value = tensor bool[1] [true]}
      %a, %m = Dropout(%e, %r, %t)
      %d, %k = Dropout(%e, %r, %t)
      %b = Mul(%d, %x)
    })";
  CheckIndependent(kOfConstants, {Filled({64}, 1)});
  // In a fused body, of which there is no kernel then.
  const char* const kFused = R"(graph (%x: f32[64]) -> (%a) {
      %a = weft::Fused(%x) {body = graph (%x: f32[64]) -> (%y) {
        %r = Constant() {value = tensor f32[] [0.5]} : f32[]
        %t = Constant() {value = tensor bool[] [true]} : bool[]
        %y, %m = Dropout(%x, %r, %t) : f32[64], bool[64]
      }} : f32[64]
    })";
  CheckIndependent(kFused, {Filled({64}, 1)});
}

TEST_CASE("pipelines without Simplify draw anew, too") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[64], %r: f32[]) -> (%y, %z) {
      %t = Constant() {value = tensor bool[] [true]}
      %a = Abs(%x)
      %y, %m = Dropout(%a, %r, %t)
      %z, %k = Dropout(%a, %r, %t)
    })");
  Session session(CompileFor(g, "cpu", "FoldConstants,Fusion,CodeGen,RTCGen,Schedule,PlanMemory"));
  const std::vector<TensorPtr> in{Filled({64}, 1), Tensor::Scalar(DType::kF32, 0.5)};
  const auto first = session.Run(in), second = session.Run(in);
  CHECK_FALSE(first[0]->Equals(*first[1]));
  CHECK_FALSE(first[0]->Equals(*second[0]));
}

TEST_CASE("a gradient never draws again what its forward part has drawn") {
  const auto gradient = [](const std::string& body) {
    Graph g =
        ApplyPasses(FromText("graph (%c: bool[], %x: f32[8]) -> (%y) {\n %y = If(%c, %x) "
                             "{num_captures = 1,\n then_branch = graph (%x: f32[8]) -> (%y) "
                             "{ " +
                             body + " },\n else_branch = graph (%x: f32[8]) -> (%x) { }\n }\n}"),
                    "InferType,InferShape");
    const auto grads = Gradients(g, {g.outputs[0]}, {NodeEntry(g.inputs()[1])});
    std::vector<NodeEntry> outputs = g.outputs;
    outputs.push_back(grads[0]);
    g.outputs = outputs;
    return g;
  };
  for (const char* body : {"%r = Constant() {value = tensor f32[] [0.5]} %t = Constant() {value = "
                           "tensor bool[] [true]}\n %y, %m = "
                           "Dropout(%x, %r, %t)",
                           "%u = RandomUniformLike(%x)\n %y = Mul(%x, %u)"}) {
    const auto caught = Catch([&] { gradient(body); });
    REQUIRE(caught.has_value());
    CHECK(caught->code == ErrorCode::kUnsupported);
    CHECK(caught->says("gives another result"));
  }
  // A near miss: the gradient does not read the draw.
  const Graph g = gradient("%u = RandomUniformLike(%x)\n %y = Add(%x, %u)");
  for (const EngineName& engine : Engines())
    CHECK(Session(CompileWith(g, engine)).Run({kYes, Filled({8}, 1)})[1]->at(3) == 1);
}

namespace {

/// Numbers drawn so far, of all graphs, and the product of those that stand side by
/// side in two outputs.
struct Moments {
  double sum = 0, squares = 0, products = 0;
  int64_t count = 0, pairs = 0;
};

/// Each number is drawn once: of 2000 with 24 bits hardly two are equal, of a row that
/// is there twice eight.
void CheckDrawn(const fuzz::ControlFlowGraph& g, const std::vector<std::vector<TensorPtr>>& runs,
                Moments* moments) {
  std::multiset<double> seen;
  for (const auto& outputs : runs) {
    const Tensor* last = nullptr;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (g.outputs[i] != fuzz::Drawn::kUniform) continue;
      const Tensor& t = *outputs[i];
      for (int64_t k = 0; k < t.num_elements(); ++k) {
        const double u = t.at(k) - 0.5;
        CHECK(std::fabs(u) <= 0.5);
        seen.insert(u);
        moments->sum += u;
        moments->squares += u * u;
        ++moments->count;
        if (!last || k >= last->num_elements()) continue;
        moments->products += u * (last->at(k) - 0.5);
        ++moments->pairs;
      }
      last = &t;
    }
  }
  size_t distinct = 0;
  for (auto it = seen.begin(); it != seen.end(); it = seen.upper_bound(*it)) ++distinct;
  CHECK(seen.size() - distinct < 8);
}

void CompareEngines(uint64_t first, int64_t count, bool draws) {
  const std::vector<EngineName> engines = Engines();
  Moments moments;
  int64_t nodes = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + uint64_t(count) && failures < 5; ++seed) {
    CAPTURE(seed);
    const fuzz::ControlFlowGraph g = fuzz::MakeControlFlowGraph(seed, draws);
    nodes += int64_t(g.graph.num_nodes());
    std::vector<std::vector<TensorPtr>> want;  // per binding
    for (const EngineName& engine : engines) {
      std::vector<std::vector<TensorPtr>> runs;
      const auto caught = Catch([&] {
        const auto program = CompileWith(g.graph, engine);
        Session session(program);
        const CompileCounts before = CountCompiled();
        for (size_t b = 0; b < g.bindings.size(); ++b)
          runs.push_back(session.Run(Ordered(*program, g.graph, fuzz::MakeInputs(g, b, 0))));
        // Once more, with the first.
        runs.push_back(session.Run(Ordered(*program, g.graph, fuzz::MakeInputs(g, 0, 0))));
        const CompileCounts after = CountCompiled();
        WEFT_CHECK(after.programs == before.programs && after.kernels == before.kernels,
                   kCheckFailed, "the runs compiled {} programs and {} kernels",
                   after.programs - before.programs, after.kernels - before.kernels);
      });
      std::string wrong = caught ? caught->text : "";
      if (!caught && want.empty()) want = runs;
      for (size_t run = 0; wrong.empty() && run < runs.size(); ++run)
        for (size_t i = 0; i < runs[run].size(); ++i)
          if (const std::string why = Compare(*runs[run][i], *want[run][i], 0);
              g.outputs[i] == fuzz::Drawn::kNothing && wrong.empty() && !why.empty())
            wrong = "output " + std::to_string(i) + " of run " + std::to_string(run) + ": " + why;
      if (wrong.empty()) {
        CheckDrawn(g, runs, &moments);
        continue;
      }
      ++failures;
      PrintOptions print;
      print.inline_all = true;
      FAIL_CHECK("seed " << seed << " on " << engine.text() << ": " << wrong << "\n"
                         << PrintGraph(g.graph, print));
      break;
    }
  }
  MESSAGE(count << " graphs from seed " << first << ", " << nodes << " nodes outside of bodies, "
                << moments.count << " numbers drawn");
  if (!draws) return;
  // Five standard errors.
  const double n = double(moments.count), pairs = double(moments.pairs);
  REQUIRE(moments.pairs > 1000);
  CHECK(std::fabs(moments.sum / n) < 5 / std::sqrt(12 * n));
  CHECK(std::fabs(moments.squares / n - 1.0 / 12) < 5 / std::sqrt(180 * n));
  CHECK(std::fabs(moments.products / pairs) < 5 / (12 * std::sqrt(pairs)));
}

}  // namespace

TEST_CASE("random control flow means the same on every backend") {
  CompareEngines(uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1)),
                 FromEnvironment("WEFT_FUZZ_COUNT", 60), false);
}

TEST_CASE("random control flow with draws: independent, new in each run, the rest the same") {
  CompareEngines(uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1)),
                 FromEnvironment("WEFT_FUZZ_COUNT", 60), true);
}

}  // namespace weft::e2e
