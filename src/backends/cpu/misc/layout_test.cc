/// layout_test.cc: networks whose tensors lie with their channels last in between give
/// what the reference gives.
#include "weft/core/plan/layout.h"

#include <doctest/doctest.h>

#include <cstring>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

struct Lies {
  int last = 0, reorders = 0;
  int plain = 0;  ///< tensors between nodes that could lie otherwise
};

/// Compares two runs with the reference, and tells how the tensors lie.
Lies CheckAgainstReference(const Graph& g, const std::vector<SymBindings>& all = {{}}) {
  CompileOptions ref, cpu;
  ref.backend = "ref";
  cpu.backend = "cpu";
  const auto want_program = Compile(g, ref), got_program = Compile(g, cpu);
  Session want(want_program), got(got_program);
  for (const SymBindings& bind : all) {
    const auto inputs = RandomProgramInputs(*want_program, 7, bind);
    const auto w = want.Run(inputs);
    for (int run = 0; run < 2; ++run) {
      const auto y = got.Run(inputs);
      REQUIRE(y.size() == w.size());
      for (size_t i = 0; i < y.size(); ++i) CHECK(CompareTensors(*y[i], *w[i]) <= 1);
    }
  }
  CHECK(got_program->stats().interpreted == 0);
  Lies lies;
  const Graph& made = got_program->graph();
  const LayoutMap& layouts = made.GetAttr<LayoutMap>("layout");
  const ShapeMap& shapes = made.GetAttr<ShapeMap>("shape");
  for (const NodePtr& n : made.TopoOrder()) {
    const bool last = layouts[NodeEntry(n)] == Layout::kChannelsLast;
    lies.last += last;
    lies.plain += !last && !n->is_variable() && !Graph::ConstantOf(NodeEntry(n)) &&
                  !made.is_output(n) && !LiesAlikeInAll(shapes[NodeEntry(n)]);
    lies.reorders += IsOp(n, builtin::kReorder);
    for (const NodeEntry& e : made.outputs) CHECK(layouts[e] == Layout::kPlain);
  }
  return lies;
}

NodeEntry Input(Graph* g, const char* name, std::vector<SymInt> dims) {
  return NodeEntry(g->AddInput(name, DType::kF32, Shape(std::move(dims))));
}
NodeEntry Conv(const NodeEntry& x, const Ns& weights, AttrDict attrs = {}, uint32_t seed = 1) {
  const int64_t filters = weights[0];
  // Sums of about 1, so that the comparison is with what the arithmetic is good for.
  const auto w = RandomTensor(weights, seed);
  const float scale = 1 / std::sqrt(float(CheckedProduct(weights) / filters));
  for (int64_t i = 0; i < w->num_elements(); ++i) w->mutable_data_as<float>()[i] *= scale;
  return ApplyOp("Conv",
                 {x, ConstantLike(x, w), ConstantLike(x, RandomTensor({filters}, seed + 1))},
                 std::move(attrs));
}
const AttrDict kSame{{"pads", Ints{1, 1, 1, 1}}};

/// What the machine's oneDNN prefers decides whether there is anything to see.
bool Arranges() {
  Graph g;
  const NodePtr n = Conv(Input(&g, "x", {1, 2, 4, 4}), {2, 2, 1, 1}).node;
  const FLayout* f = Op::GetAttr<FLayout>("FLayout.cpu").find(n->op());
  return f && !(*f)(n, DType::kF32).inputs.empty();
}

TEST_CASE("between convolutions and element-wise kernels nothing is transposed") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {2, 3, 12, 10});
  const NodeEntry a = ApplyOp("Relu", {Conv(x, {16, 3, 3, 3}, kSame)});
  const NodeEntry b = Conv(a, {16, 1, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}, {"group", 16}});
  const NodeEntry c = b * ApplyOp("HardSigmoid", {b});
  const NodeEntry d = Conv(c, {24, 16, 1, 1}, {{"strides", Ints{2, 2}}});
  g.outputs = std::vector<NodeEntry>{ApplyOp("Sigmoid", {d})};
  const Lies lies = CheckAgainstReference(g);
  if (!Arranges()) return;
  CHECK(lies.last >= 3);  // both sides of the product, too
  CHECK(lies.plain == 0);
  CHECK(lies.reorders == 0);
}

TEST_CASE("a residual in place, read again; a reader that wants it plain gets a reordered one") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {1, 8, 9, 7});
  const NodeEntry a = ApplyOp("Relu", {Conv(x, {8, 8, 3, 3}, kSame, 1)});
  const NodeEntry b = ApplyOp("Relu", {Conv(a, {8, 8, 3, 3}, kSame, 3)});
  const NodeEntry c = ApplyOp("Relu", {Conv(b, {8, 8, 3, 3}, kSame, 5) + a});
  const NodeEntry d = ApplyOp("Relu", {Conv(c, {8, 8, 3, 3}, kSame, 7) + c});
  const NodeEntry mean = ApplyOp("ReduceMean", {d, IntsLike(x, {2, 3})}, {{"keepdims", 1}});
  g.outputs = std::vector<NodeEntry>{mean, d * mean, d};
  const Lies lies = CheckAgainstReference(g);
  if (!Arranges()) return;
  CHECK(lies.last >= 3);
  CHECK(lies.plain == 0);
}

TEST_CASE("squeeze and excite: mean, product with one value a channel, channels last throughout") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {2, 4, 6, 6});
  const NodeEntry a = ApplyOp("Relu", {Conv(x, {16, 4, 3, 3}, kSame)});
  const NodeEntry s = ApplyOp("Sigmoid", {Conv(ApplyOp("GlobalAveragePool", {a}), {16, 16, 1, 1})});
  g.outputs =
      std::vector<NodeEntry>{Conv(ApplyOp("Relu", {Conv(a * s, {8, 16, 1, 1})}), {4, 8, 1, 1})};
  const Lies lies = CheckAgainstReference(g);
  if (Arranges()) CHECK(lies.reorders == 0);
}

TEST_CASE("a constant is reordered when the program is made") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {2, 8, 6, 5});
  const NodeEntry a =
      Conv(x, {8, 8, 3, 3}, kSame, 1) + ConstantLike(x, RandomTensor({2, 8, 6, 5}, 3));
  g.outputs = std::vector<NodeEntry>{Conv(a, {8, 8, 1, 1}, {}, 5)};
  const Lies lies = CheckAgainstReference(g);
  if (!Arranges()) return;
  CHECK(lies.plain == 0);
  CHECK(lies.reorders == 1);
  CompileOptions options;
  options.backend = "cpu";
  CHECK(Compile(g, options)->stats().library_calls == 2);  // the convolutions
}

TEST_CASE("reorders of elements of every width") {
  for (DType t : {DType::kBool, DType::kF16, DType::kI32, DType::kF64})
    for (const Ns& dims : {Ns{2, 40, 7, 11}, Ns{3, 2, 5}, Ns{1, 70, 100}, Ns{2, 3, 4, 5, 6},
                           Ns{2, 1, 5, 5}, Ns{4, 0, 2}, Ns{6, 7}})
      for (const Layout from : {Layout::kPlain, Layout::kChannelsLast}) {
        const Layout to = from == Layout::kPlain ? Layout::kChannelsLast : Layout::kPlain;
        auto x = std::make_shared<Tensor>(t, dims);
        for (int64_t i = 0; i < x->num_bytes(); ++i)
          static_cast<uint8_t*>(x->mutable_data())[i] = uint8_t(i * 31 + i / 253);
        Case c("weft::Reorder", {x}, {}, dims);
        c.request.output_types = {t};
        c.request.input_layouts = {from};
        c.request.output_layouts = {to};
        const auto call = c.Make();
        REQUIRE(call);
        Tensor got(t, dims), want(t, dims);
        const void* in[] = {x->data()};
        void* out[] = {got.mutable_data()};
        call->Run(in, out, nullptr);
        CopyLayout(t, dims, x->data(), want.mutable_data(), from, to);
        CHECK(std::memcmp(got.data(), want.data(), size_t(got.num_bytes())) == 0);
      }
}

TEST_CASE("extents that change from run to run; one and three spatial axes") {
  const SymInt n = SymInt::Symbol("n"), w = SymInt::Symbol("w");
  Graph g;
  const NodeEntry x = Input(&g, "x", {n, 3, 8, w});
  const NodeEntry a = ApplyOp("Relu", {Conv(x, {16, 3, 3, 3}, {{"auto_pad", "SAME_UPPER"}})});
  const NodeEntry b = ApplyOp(
      "Relu", {Conv(a, {16, 8, 3, 3},
                    {{"group", 2}, {"dilations", Ints{2, 2}}, {"pads", Ints{2, 2, 2, 2}}})});
  g.outputs = std::vector<NodeEntry>{Conv(b, {5, 16, 3, 2}, {{"auto_pad", "SAME_LOWER"}})};
  CheckAgainstReference(
      g, {{{"n", 1}, {"w", 8}}, {{"n", 3}, {"w", 17}}, {{"n", 1}, {"w", 1}}, {{"n", 0}, {"w", 8}}});
  for (const Ns& tail : {Ns{11}, Ns{4, 5, 6}}) {
    Graph line;
    Ns k1{6, 2}, k2{4, 6};
    std::vector<SymInt> dims{2, 2};
    for (int64_t d : tail) dims.push_back(d), k1.push_back(3), k2.push_back(1);
    const NodeEntry y = Input(&line, "x", dims);
    line.outputs = std::vector<NodeEntry>{Conv(ApplyOp("Tanh", {Conv(y, k1)}), k2)};
    const Lies lies = CheckAgainstReference(line);
    if (Arranges()) CHECK(lies.plain == 0);
  }
}

TEST_CASE("a product by position lies as its operands do; an image and a view stay plain") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {1, 3, 8, 8});
  const NodeEntry a = Conv(x, {4, 3, 3, 3}, kSame);
  const NodeEntry shifted = a * ConstantLike(x, RandomTensor({8}, 9));  // along the last axis
  g.outputs = std::vector<NodeEntry>{
      ApplyOp("Reshape", {Conv(shifted, {4, 4, 1, 1}), IntsLike(x, {4, 64})})};
  const Lies lies = CheckAgainstReference(g);
  CHECK(lies.last == (Arranges() ? 2 : 0));
  CHECK(lies.reorders == 0);
}

TEST_CASE("chosen again, the layouts stay") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {1, 8, 9, 7});
  const NodeEntry a = ApplyOp("Relu", {Conv(x, {8, 8, 3, 3}, kSame, 1)});
  const NodeEntry b = ApplyOp("Relu", {Conv(a, {8, 8, 3, 3}, kSame, 3) + a});
  g.outputs = std::vector<NodeEntry>{ApplyOp("ReduceMean", {b, IntsLike(x, {2, 3})})};
  for (const char* pipeline : {"Fusion,Layout", "Fusion,Layout,CodeGen", "Fusion,CodeGen,Layout"}) {
    CAPTURE(pipeline);
    const Graph once = ApplyPasses(g, pipeline);
    const Graph twice = ApplyPasses(once, "Layout");
    CHECK(once.num_nodes() == twice.num_nodes());
    const LayoutMap &p = once.GetAttr<LayoutMap>("layout"), &q = twice.GetAttr<LayoutMap>("layout");
    for (const NodePtr& n : once.TopoOrder()) CHECK(p[NodeEntry(n)] == q[NodeEntry(twice.at(n))]);
  }
}

}  // namespace
}  // namespace weft::cpu
