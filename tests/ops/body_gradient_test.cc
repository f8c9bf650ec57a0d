/// body_gradient_test.cc: gradients through If, Scan, Loop and the recurrent operators, with
/// symbolic extents: shapes, both backends, Simplify, and what text and ONNX make of such a graph.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/runtime/pipelines.h"

namespace weft {
namespace {

using namespace e2e;

struct Row {
  const char* name;
  const char* text;
  std::vector<int64_t> trips = {0};  ///< values of a scalar integer or bool among the inputs
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"If",
       R"(graph (%c: bool[], %x: f32[n, 3], %w: f32[3]) -> (%y) {
        %y = If(%c, %x, %w) {
          num_captures = 2,
          then_branch = graph (%x: f32[n, 3], %w: f32[3]) -> (%y) { %y = Mul(%x, %w) },
          else_branch = graph (%x: f32[n, 3], %w: f32[3]) -> (%y) { %y = Tanh(%x) }
        }
      })",
       {0, 1}},
      {"Scan", R"(graph (%h: f32[n, 3], %x: f32[t, n, 3], %w: f32[3, 3]) -> (%h2, %y) {
        %h2, %y = Scan(%h, %x, %w) {
          num_scan_inputs = 1, num_captures = 1,
          body = graph (%h: f32[n, 3], %x: f32[n, 3], %w: f32[3, 3]) -> (%n, %n) {
            %p = MatMul(%h, %w)
            %s = Add(%p, %x)
            %n = Tanh(%s)
          }
        }
      })"},
      {"Loop",
       R"(graph (%m: i64[], %h: f32[n, 3], %w: f32[3, 3]) -> (%h2, %y) {
        %h2, %y = Loop(%m, _, %h, %w) {
          num_captures = 1,
          body = graph (%i: i64[], %c: bool[], %h: f32[n, 3], %w: f32[3, 3]) -> (%c, %n, %p) {
            %p = MatMul(%h, %w)
            %n = Sin(%p)
          }
        }
      })",
       {0, 1, 4}},
      {"LSTM", R"(graph (%x: f32[t, n, 2], %w: f32[2, 12, 2], %r: f32[2, 12, 3], %b: f32[2, 24],
                         %h: f32[2, n, 3], %p: f32[2, 9]) -> (%y, %yh, %yc) {
        %y, %yh, %yc = LSTM(%x, %w, %r, %b, _, %h, _, %p) {direction = "bidirectional"}
      })"},
      {"GRU", R"(graph (%x: f32[n, t, 2], %w: f32[1, 9, 2], %r: f32[1, 9, 3]) -> (%y, %yh) {
        %y, %yh = GRU(%x, %w, %r) {direction = "reverse", layout = 1}
      })"},
      {"RNN", R"(graph (%x: f32[t, n, 2], %w: f32[1, 3, 2], %r: f32[1, 3, 3]) -> (%y, %yh) {
        %y, %yh = RNN(%x, %w, %r) {clip = 0.75}
      })"},
  };
  return rows;
}

/// The results, and the gradients of a loss over them with respect to the float inputs.
Graph Differentiated(const Row& row) {
  Graph g = ApplyPasses(FromText(row.text), "InferType,InferShape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  std::vector<NodeEntry> ys = g.outputs, xs, squares;
  for (const NodeEntry& y : ys) squares.push_back(y * y);
  for (const NodePtr& n : g.inputs())
    if (IsFloat(types[NodeEntry(n)].dtype)) xs.emplace_back(n);
  const std::vector<NodeEntry> grads = Gradients(g, squares, xs);
  ys.insert(ys.end(), grads.begin(), grads.end());
  g.outputs = ys;
  return g;
}

/// Inputs and results by the interpreter in double precision.
Reference ReferenceFor(const Graph& g, int64_t trips, const SymBindings& bind) {
  Reference r;
  r.inputs = MakeRandomInputs(g, 5, bind).tensors;
  for (TensorPtr& t : r.inputs)
    if (!IsFloat(t->dtype())) {
      auto number = std::make_shared<Tensor>(t->dtype(), t->dims());
      number->set_int(0, trips);
      t = number;
    }
  EvalOptions options;
  options.typed = false;
  r.outputs = GetEvaluator()->Eval(g, r.inputs, options);
  return r;
}

}  // namespace

TEST_CASE("gradients of bodies: symbolic shapes are those of the operands") {
  for (const Row& row : Rows()) {
    CAPTURE(std::string(row.name));
    Graph g = Differentiated(row);
    const size_t results = g.outputs.size();
    g = ApplyPasses(std::move(g), "InferType,InferShape");
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    size_t k = results;
    for (size_t i = g.inputs().size(); i-- > 0;) {
      const NodePtr x = g.inputs()[i];
      if (!IsFloat(g.GetAttr<TypeMap>("dtype")[NodeEntry(x)].dtype)) continue;
      CHECK(shapes[g.outputs[--k]].ToString() == shapes[NodeEntry(x)].ToString());
    }
  }
}

TEST_CASE("gradients of bodies: both backends, Simplify, text and ONNX give the same") {
  for (const Row& row : Rows()) {
    CAPTURE(std::string(row.name));
    const Graph g = Differentiated(row);
    const Graph simple = ApplyPasses(g, "InferType,InferShape,Simplify");
    const Graph reread = ParseGraph(PrintGraph(g));
    const Graph imported = ImportOnnxBytes(ExportOnnxBytes(g));
    std::vector<std::shared_ptr<const Program>> programs{CompileFor(g, "ref")};
    if (HasCpu()) programs.push_back(CompileFor(g, "cpu"));
    for (const int64_t trips : row.trips) {
      for (const SymBindings& bind :
           {SymBindings{{"n", 2}, {"t", 3}}, {{"n", 1}, {"t", 1}}, {{"n", 2}, {"t", 0}}}) {
        CAPTURE(trips);
        const Reference want = ReferenceFor(g, trips, bind);
        for (const auto& program : programs)
          CHECK(Difference(Session(program).Run(want.inputs), want.outputs, 1e-4, 1e-5) <= 1);
        for (const Graph* other : {&simple, &reread, &imported})
          CHECK(Difference(GetEvaluator()->Eval(*other, want.inputs), want.outputs, 1e-4, 1e-5) <=
                1);
      }
    }
  }
}

TEST_CASE("gradients of bodies: what carries none has none, and a run is stacked once") {
  // The counter and the flag are integers; `s` comes from nothing that is asked for.
  Graph g = FromText(R"(graph (%x: f32[4, 2], %k: i64[], %s: f32[2], %w: f32[2]) -> (%s2, %k2, %y) {
    %s2, %k2, %y = Scan(%s, %k, %x, %w) {
      num_scan_inputs = 1, num_captures = 1,
      body = graph (%s: f32[2], %k: i64[], %x: f32[2], %w: f32[2]) -> (%n, %j, %s) {
        %n = Mul(%s, %x)
        %j = Add(%k, %k)
      }
    }
  })");
  const auto count = [&g] {
    int scans = 0;
    for (NodeId id = 0; id < g.id_bound(); ++id) scans += g.node(id) && IsOp(g.node(id), "Scan");
    return scans;
  };
  const std::vector<NodePtr> in = g.inputs();
  const NodeEntry loss = g.outputs[0] * g.outputs[0];
  const auto dx = Gradients(g, {loss}, {NodeEntry(in[0]), NodeEntry(in[3])});
  // It gives its states itself: the run backwards is all that is added.
  CHECK(count() == 2);
  CHECK(IsOp(dx[0].node, "Scan"));
  CHECK_FALSE(IsOp(dx[1].node, "Scan"));
  CHECK(dx[0].node->num_outputs() == 2);
  const NodePtr back = dx[0].node;
  CHECK(back->attr<int64_t>("num_scan_inputs") == 2);
  CHECK(back->attr<int64_t>("num_captures") == 0);
  // And once more: the run backwards gives no states itself.
  Gradients(g, {dx[0]}, {NodeEntry(in[0]), NodeEntry(in[2])});
  CHECK(count() <= 5);
}

TEST_CASE("gradients of bodies: products are kept, and element-wise operators computed again") {
  // Of %n what its gradient reads is itself; of %e, which two read, the operand of both.
  Graph g = FromText(R"(graph (%h: f32[2, 3], %x: f32[5, 2, 3], %w: f32[3, 3]) -> (%h2, %y) {
    %h2, %y = Scan(%h, %x, %w) {
      num_scan_inputs = 1, num_captures = 1,
      body = graph (%h: f32[2, 3], %x: f32[2, 3], %w: f32[3, 3]) -> (%n, %q) {
        %p = MatMul(%h, %w)
        %s = Add(%p, %x)
        %n = Tanh(%s)
        %r = MatMul(%n, %w)
        %e = Mul(%r, %x)
        %a = Sin(%e)
        %b = Exp(%e)
        %q = Mul(%a, %b)
      }
    }
  })");
  const std::vector<NodePtr> in = g.inputs();
  const NodePtr back = Gradients(g, {g.outputs[1]}, {NodeEntry(in[0])})[0].node;
  REQUIRE(IsOp(back, "Scan"));
  const Graph& body = *back->attr<GraphPtr>("body");
  for (const NodePtr& n : body.TopoOrder()) {
    CHECK_FALSE(IsOp(n, "MatMul"));
    CHECK_FALSE(IsOp(n, "Tanh"));
  }
  // The states are not read, but for the sums that give the gradient of %w.
  CHECK(back->attr<int64_t>("num_scan_inputs") == 5);
}

TEST_CASE(
    "gradients of bodies: a program of a loop and its gradient has two loops, as a file too") {
  if (!HasCpu()) return;
  for (const Row& row : Rows()) {
    const std::string name = row.name;
    CAPTURE(name);
    if (name == "If") continue;
    const Graph made = Differentiated(row);
    const std::string file =
        ExportOnnxBytes(ApplyPasses(made, "Simplify,FoldConstants,Simplify"), {});
    for (const bool read : {false, true}) {
      CAPTURE(read);
      const Graph g =
          ApplyPasses(read ? ImportOnnxBytes(file) : made, StandardPipeline({PipelineEnd::kGraph}));
      int loops = 0;
      for (const NodePtr& n : g.TopoOrder()) loops += IsOp(n, "Scan") || IsOp(n, "Loop");
      CHECK(loops == (name == "LSTM" ? 4 : 2));  // it goes both ways
    }
  }
}

TEST_CASE("gradients of bodies: products whose dimensions change are computed again") {
  // Of the first i + 1 rows of %x: what is multiplied has another size in each iteration.
  Graph g = FromText(R"(graph (%m: i64[], %s: f64[], %x: f64[4, 3], %w: f64[3, 2]) -> (%y) {
    %y = Loop(%m, _, %s, %x, %w) {
      num_captures = 2,
      body = graph (%i: i64[], %c: bool[], %s: f64[], %x: f64[4, 3], %w: f64[3, 2]) -> (%c, %n) {
        %zero = Constant() {value = tensor i64[1] [0]}
        %one = Constant() {value = tensor i64[1] [1]}
        %k = Add(%i, %one)
        %v = Slice(%x, %zero, %k, %zero)
        %p = MatMul(%v, %w)
        %t = Tanh(%p)
        %r = ReduceSum(%t) {keepdims = 0}
        %q = Mul(%r, %r)
        %n = Add(%s, %q)
      }
    }
  })");
  g = ApplyPasses(std::move(g), "InferType,InferShape");
  const std::vector<NodePtr> in = g.inputs();
  const std::vector<NodeEntry> dx =
      Gradients(g, {g.outputs[0]}, {NodeEntry(in[2]), NodeEntry(in[3])});
  std::vector<NodeEntry> all = g.outputs;
  all.insert(all.end(), dx.begin(), dx.end());
  g.outputs = all;
  std::vector<TensorPtr> inputs = MakeRandomInputs(g, 3, {}).tensors;
  inputs[0] = Tensor::Scalar(DType::kI64, 3);
  const auto result = [&](size_t input, int64_t element, double step) {
    std::vector<TensorPtr> moved = inputs;
    std::vector<double> x;
    for (int64_t i = 0; i < inputs[input]->num_elements(); ++i)
      x.push_back(inputs[input]->at(i) + (i == element ? step : 0));
    moved[input] = Tensor::FromDoubles(DType::kF64, inputs[input]->dims(), x);
    return GetEvaluator()->Eval(g, moved)[0]->at(0);
  };
  const auto got = GetEvaluator()->Eval(g, inputs);
  constexpr double kStep = 1e-5;
  for (size_t k : {2, 3})
    for (int64_t i = 0; i < inputs[k]->num_elements(); ++i)
      CHECK(got[k - 1]->at(i) ==
            doctest::Approx((result(k, i, kStep) - result(k, i, -kStep)) / (2 * kStep))
                .epsilon(1e-5));
  if (HasCpu()) CHECK(Difference(Session(CompileFor(g, "cpu")).Run(inputs), got, 1e-9, 1e-9) <= 1);
}

TEST_CASE("gradients of bodies: bodies in bodies, each differentiated once") {
  std::string body = "%y = Tanh(%s)";
  for (int depth = 0; depth < 10; ++depth)
    body =
        "%y = Scan(%s, %x) {num_scan_inputs = 1, num_captures = 0, body = graph (%s: f64[2], %r: "
        "f64[2]) -> (%y) { %a = Constant() {value = tensor i64[1] [0]} %x = Unsqueeze(%r, %a) " +
        body + " }}";
  Graph g = FromText("graph (%s: f64[2], %x: f64[1, 2]) -> (%y) { " + body + " }");
  g.outputs = Gradients(g, {g.outputs[0]}, {NodeEntry(g.inputs()[0])});
  const TensorPtr s = Tensor::FromDoubles(DType::kF64, {2}, {0, 0.5});
  const auto dx = GetEvaluator()->Eval(g, {s, Tensor::FromDoubles(DType::kF64, {1, 2}, {0, 0})});
  const double t = std::tanh(0.5);
  CHECK(dx[0]->at(0) == 1);
  CHECK(dx[0]->at(1) == doctest::Approx(1 - t * t));
}

TEST_CASE("gradients of bodies: states of changing extents say so when they run") {
  Graph g = FromText(R"(graph (%x: f32[2]) -> (%y) {
    %n = Constant() {value = tensor i64[] [2]}
    %y = Loop(%n, _, %x) {
      body = graph (%i: i64[], %k: bool[], %v: f32[m]) -> (%k, %w) {
        %e = Exp(%v)
        %w = Concat(%e, %e) {axis = 0}
      }
    }
  })");
  const auto dx = Gradients(g, {g.outputs[0]}, {NodeEntry(g.inputs()[0])});
  g.outputs = dx;
  const auto bad = Catch([&] {
    GetEvaluator()->Eval(g, {Tensor::FromDoubles(DType::kF32, {2}, {0, 1})});
  });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kShapeMismatch);
}

}  // namespace weft
