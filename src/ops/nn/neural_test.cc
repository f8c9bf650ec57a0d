/// neural_test.cc: products, convolution, pooling, normalization, reductions and gathers against
/// plain loops and finite differences.
#include <algorithm>
#include <limits>
#include <tuple>

#include "ops/util/op_test_util.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/op/host_eval.h"

namespace weft::ops {
namespace {

TensorPtr Ramp(std::vector<int64_t> dims, double phase = 0.3) {
  auto t = std::make_shared<Tensor>(DType::kF64, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set(i, std::sin(1.7 * double(i) + phase) + 0.05 * double(i % 5));
  return t;
}
TensorPtr I64(std::vector<int64_t> v) { return Tensor::Ints(v); }
TensorPtr I64(std::vector<int64_t> dims, std::vector<int64_t> v) {
  return Tensor::Reshaped(Tensor::Ints(v), std::move(dims));
}
void CheckNear(const Tensor& got, const std::vector<double>& want) {
  REQUIRE(got.num_elements() == int64_t(want.size()));
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(got.at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-9));
}
constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("MatMul and Gemm") {
  const TensorPtr a = Ramp({2, 1, 2, 3}), b = Ramp({4, 3, 2}, 1);
  const TensorPtr y = RunOp("MatMul", {a, b})[0];
  REQUIRE(y->dims() == std::vector<int64_t>{2, 4, 2, 2});
  std::vector<double> want;
  for (int p = 0; p < 2; ++p)
    for (int q = 0; q < 4; ++q)
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
          double s = 0;
          for (int k = 0; k < 3; ++k) s += a->at((p * 2 + i) * 3 + k) * b->at((q * 3 + k) * 2 + j);
          want.push_back(s);
        }
  CheckNear(*y, want);
  CHECK(RunOp("MatMul", {Ramp({3}), Ramp({3})})[0]->dims().empty());
  CHECK(RunOp("MatMul", {Ramp({3}), Ramp({2, 3, 4})})[0]->dims() == std::vector<int64_t>{2, 4});
  CHECK(RunOp("MatMul", {Ramp({2, 3, 4}), Ramp({4})})[0]->dims() == std::vector<int64_t>{2, 3});
  CHECK(RunOp("MatMul", {Ramp({2, 0}), Ramp({0, 2})})[0]->at(3) == 0);
  CheckGradient("MatMul", {a, b});
  CheckGradient("MatMul", {Ramp({3}), Ramp({3}, 1)});
  CheckGradient("MatMul", {Ramp({3}), Ramp({2, 3, 2}, 1)});
  CheckGradient("MatMul", {Ramp({2, 3, 2}), Ramp({2}, 1)});
  CheckGradient("MatMul", {Ramp({2, 2, 3}), Ramp({3, 2}, 1)});
  CheckGradient("weft::MatMulGrad", {Ramp({2, 4}), Ramp({3, 4}), I64({2, 3})}, {{"of", 0}});
  CheckGradient("weft::MatMulGrad", {Ramp({2, 2, 4}), Ramp({2, 2, 3}), I64({3, 4})}, {{"of", 1}});
  CHECK(CodeOf([&] {
          RunOp("MatMul", {Ramp({2, 3}), Ramp({2, 3})});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { RunOp("MatMul", {Ramp({}), Ramp({2})}); }) == ErrorCode::kShapeMismatch);

  const TensorPtr c =
      RunOp("Gemm", {T(DType::kF64, {1, 2}, {2, 3}), T(DType::kF64, {2, 1}, {5, 7}), F64({10})},
            {{"alpha", 0.5}, {"beta", 2.0}})[0];
  CHECK(c->at(0) == doctest::Approx(0.5 * 31 + 20));
  for (int ta : {0, 1})
    for (int tb : {0, 1})
      CheckGradient(
          "Gemm",
          {ta ? Ramp({3, 2}) : Ramp({2, 3}), tb ? Ramp({4, 3}, 1) : Ramp({3, 4}, 1), Ramp({4}, 2)},
          {{"transA", ta}, {"transB", tb}, {"alpha", 0.7}, {"beta", 0.3}});
  CHECK(CodeOf([&] { RunOp("Gemm", {Ramp({2, 3}), Ramp({4, 3})}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("TransposedMatMul") {
  // Heads stored [batch, time, head, feature].
  const TensorPtr q = Ramp({2, 3, 2, 4}), k = Ramp({2, 5, 2, 4}, 1);
  const AttrDict heads{{"a_perm", Ints{0, 2, 1, 3}}, {"b_perm", Ints{0, 2, 3, 1}}};
  const TensorPtr y = RunOp("weft::TransposedMatMul", {q, k}, heads)[0];
  REQUIRE(y->dims() == std::vector<int64_t>{2, 2, 3, 5});
  std::vector<double> want;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 5; ++j) {
          double s = 0;
          for (int d = 0; d < 4; ++d)
            s += q->at(((b * 3 + i) * 2 + h) * 4 + d) * k->at(((b * 5 + j) * 2 + h) * 4 + d);
          want.push_back(s);
        }
  CheckNear(*y, want);
  CheckGradient("weft::TransposedMatMul", {q, k}, heads);
  CheckGradient("weft::TransposedMatMul", {Ramp({2, 3, 2}), Ramp({3, 2}, 1)},
                {{"a_perm", Ints{2, 0, 1}}, {"b_perm", Ints{0, 1}}});
  CheckGradient("weft::TransposedMatMul", {Ramp({3, 2}), Ramp({3}, 1)}, {{"a_perm", Ints{1, 0}}});
  CHECK(RunOp("weft::TransposedMatMul", {Ramp({3, 2}), Ramp({3})}, {{"a_perm", Ints{1, 0}}})[0]
            ->dims() == std::vector<int64_t>{2});
  const auto error = [](const AttrDict& attrs) {
    return CodeOf([&] { RunOp("weft::TransposedMatMul", {Ramp({2, 3}), Ramp({4, 3})}, attrs); });
  };
  CHECK(error({}) == ErrorCode::kShapeMismatch);
  CHECK(error({{"b_perm", Ints{1, 0, 2}}}) == ErrorCode::kShapeMismatch);
  CHECK(error({{"b_perm", Ints{1, 1}}}) == ErrorCode::kBadAttribute);
  CHECK(error({{"b_perm", Ints{1, 0}}}) == ErrorCode(0));
}

TEST_CASE("MatMulGrad lowers to products under FSimplify") {
  for (const auto& [of, dy, other, shape] :
       std::vector<std::tuple<int, std::string, std::string, std::string>>{
           {0, "f32[2, 5]", "f32[3, 5]", "[2, 3]"},
           {1, "f32[7, 2, 5]", "f32[7, 2, 3]", "[3, 5]"},
           {0, "f32[4, 2, 5]", "f32[4, 3, 5]", "[1, 2, 3]"}}) {
    const Op& op = *Op::Get("weft::MatMulGrad");
    const std::string dims =
        "i64[" + std::to_string(std::count(shape.begin(), shape.end(), ',') + 1) + "] = " + shape;
    Graph g = Inferred(GraphOfRow(op, {dy, other, dims}, "of = " + std::to_string(of)));
    TestRewriteContext ctx(g);
    const NodeEntry y = g.outputs[0];
    const auto simpler = Op::GetAttr<FSimplify>("FSimplify")[&op](ctx, y.node);
    REQUIRE(simpler.size() == 1);
    Graph h = g;
    h.outputs = std::vector<NodeEntry>{h.at(simpler[0])};
    h = Inferred(std::move(h));
    const RandomInputs in = MakeRandomInputs(g, 5);
    const TensorPtr want = Reference().Eval(g, in.tensors)[0],
                    got = Reference().Eval(h, in.tensors)[0];
    CHECK(CompareTensors(*got, *want) <= 1);
  }
}

TEST_CASE("Conv in two dimensions, grouped, strided, padded, dilated") {
  const TensorPtr x = Ramp({2, 4, 5, 4}), w = Ramp({6, 2, 2, 3}, 1), bias = Ramp({6}, 2);
  const AttrDict attrs{
      {"group", 2}, {"strides", Ints{2, 1}}, {"dilations", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}};
  const TensorPtr y = RunOp("Conv", {x, w, bias}, attrs)[0];
  const int64_t oh = (5 + 3 - 3) / 2 + 1, ow = 4 + 1 - 3 + 1;
  REQUIRE(y->dims() == std::vector<int64_t>{2, 6, oh, ow});
  std::vector<double> want;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t m = 0; m < 6; ++m)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double s = bias->at(m);
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t p = 0; p < 2; ++p)
              for (int64_t q = 0; q < 3; ++q) {
                const int64_t r = i * 2 - 1 + p * 2, k = j + q;
                if (r < 0 || r >= 5 || k < 0 || k >= 4) continue;
                s += x->at(((n * 4 + m / 3 * 2 + c) * 5 + r) * 4 + k) *
                     w->at(((m * 2 + c) * 2 + p) * 3 + q);
              }
          want.push_back(s);
        }
  CheckNear(*y, want);
  CHECK(RunOp("Conv", {Ramp({1, 1, 6, 5}), Ramp({2, 1, 3, 2})},
              {{"auto_pad", "SAME_LOWER"}, {"strides", Ints{2, 2}}})[0]
            ->dims() == std::vector<int64_t>{1, 2, 3, 3});
  CHECK(CodeOf([&] { RunOp("Conv", {x, Ramp({6, 3, 2, 2})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { RunOp("Conv", {x, Ramp({6, 4, 9, 9})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("Conv", {x, w}, {{"group", 2}, {"strides", Ints{0, 1}}});
        }) == ErrorCode::kBadAttribute);
}

TEST_CASE("gradients of Conv, first and second order") {
  const AttrDict attrs{
      {"group", 2}, {"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{1, 2}}};
  CheckGradient("Conv", {Ramp({2, 4, 5}), Ramp({4, 2, 2}, 1), Ramp({4}, 2)}, attrs);
  const int64_t o = (5 + 3 - 3) / 2 + 1;
  CheckGradient("weft::ConvGradData", {Ramp({1, 4, o}), Ramp({4, 2, 2}, 1), I64({1, 4, 5})}, attrs);
  CheckGradient("weft::ConvGradWeight", {Ramp({1, 4, o}), Ramp({1, 4, 5}, 1), I64({4, 2, 2})},
                attrs);
  CheckGradient("weft::ChannelSum", {Ramp({2, 3, 2})});
}

TEST_CASE("pooling") {
  const TensorPtr x = T(DType::kF64, {1, 1, 5}, {1, 3, 3, -2, 5});
  const AttrDict half{{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", 1}};
  const Tensors max = RunOp("MaxPool", {x}, half);
  CheckNear(*max[0], {3, 3, 5});
  CheckNear(*max[1], {1, 2, 4});
  CheckNear(*RunOp("AveragePool", {x}, half)[0], {2, 0.5, 5});
  const AttrDict padded{{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}};
  CheckNear(*RunOp("AveragePool", {x}, padded)[0], {2, 7.0 / 3, 4.0 / 3, 2, 1.5});
  AttrDict counted = padded;
  counted["count_include_pad"] = 1;
  CheckNear(*RunOp("AveragePool", {x}, counted)[0], {4.0 / 3, 7.0 / 3, 4.0 / 3, 2, 1});
  CheckNear(*RunOp("GlobalMaxPool", {x})[0], {5});
  CheckNear(*RunOp("GlobalAveragePool", {x})[0], {2});
  const TensorPtr z = Ramp({1, 2, 5, 4});
  const AttrDict two{
      {"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}};
  CheckGradient("MaxPool", {z}, two);
  CheckGradient("AveragePool", {z}, two);
  CheckGradient("AveragePool", {Ramp({1, 1, 5})}, half);
  CheckGradient("GlobalMaxPool", {z});
  CheckGradient("GlobalAveragePool", {z});
  // A tie: all to the first.
  CheckNear(*GradientOf("MaxPool", {T(DType::kF64, {1, 1, 2}, {4, 4})}, {{"kernel_shape", Ints{2}}},
                        T(DType::kF64, {1, 1, 1}, {1}))[0],
            {1, 0});
  CHECK(CodeOf([&] {
          RunOp("MaxPool", {x}, {{"kernel_shape", Ints{6}}});
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("normalization") {
  const TensorPtr x = Ramp({2, 3, 4}), scale = Ramp({4}, 1), bias = Ramp({4}, 2);
  const TensorPtr y = RunOp("LayerNormalization", {x, scale, bias})[0];
  std::vector<double> want, softmax;
  for (int r = 0; r < 6; ++r) {
    double mean = 0, var = 0, sum = 0;
    for (int i = 0; i < 4; ++i) mean += x->at(r * 4 + i) / 4;
    for (int i = 0; i < 4; ++i) var += std::pow(x->at(r * 4 + i) - mean, 2) / 4;
    for (int i = 0; i < 4; ++i) sum += std::exp(x->at(r * 4 + i));
    for (int i = 0; i < 4; ++i)
      want.push_back((x->at(r * 4 + i) - mean) / std::sqrt(var + 1e-5) * scale->at(i) +
                     bias->at(i));
    for (int i = 0; i < 4; ++i) softmax.push_back(std::exp(x->at(r * 4 + i)) / sum);
  }
  CheckNear(*y, want);
  CheckNear(*RunOp("Softmax", {x})[0], softmax);
  CheckGradient("LayerNormalization", {x, scale, bias});
  CheckGradient("LayerNormalization", {x, Ramp({3, 4}, 1)}, {{"axis", 1}});
  CheckGradient("RMSNormalization", {x, scale});
  CheckGradient("RMSNormalization", {x, Ramp({3, 4}, 1)}, {{"axis", -2}});
  CheckGradient("BatchNormalization",
                {x, Ramp({3}, 1), Ramp({3}, 2), Ramp({3}, 3), F64({0.5, 2, 1})});
  for (int axis : {-1, 1}) {
    CheckGradient("Softmax", {x}, {{"axis", axis}});
    CheckGradient("LogSoftmax", {x}, {{"axis", axis}});
  }
  CHECK(RunOp("Softmax", {F32({1000, 1000})})[0]->at(0) == 0.5);
  CHECK(RunOp("LogSoftmax", {F32({-1000, 0})})[0]->at(0) == -1000);
  CHECK(CodeOf([&] { RunOp("Softmax", {x}, {{"axis", 3}}); }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { RunOp("LayerNormalization", {x, Ramp({3})}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("reductions") {
  const TensorPtr x = T(DType::kF64, {2, 3}, {1, -2, 3, 0.5, 4, 3});
  const auto over = [&](const std::string& op, std::vector<int64_t> axes) {
    return Values(*RunOp(op, {x, I64(axes)}, {{"keepdims", 0}})[0]);
  };
  CHECK(over("ReduceSum", {1}) == std::vector<double>{2, 7.5});
  CHECK(over("ReduceMean", {-1})[1] == doctest::Approx(2.5));
  CHECK(over("ReduceMax", {0}) == std::vector<double>{1, 4, 3});
  CHECK(over("ReduceMin", {0, 1}) == std::vector<double>{-2});
  CHECK(over("ReduceProd", {1}) == std::vector<double>{-6, 6});
  CHECK(over("ReduceSumSquare", {1})[0] == 14);
  CHECK(over("ReduceL1", {1})[0] == 6);
  CHECK(over("ReduceL2", {1})[0] == doctest::Approx(std::sqrt(14.0)));
  CHECK(over("ReduceLogSum", {1})[1] == doctest::Approx(std::log(7.5)));
  CHECK(over("ReduceLogSumExp", {1})[0] ==
        doctest::Approx(std::log(std::exp(1) + std::exp(-2) + std::exp(3))));
  CHECK(RunOp("ReduceLogSumExp", {F64({-kInf, -kInf})})[0]->at(0) == -kInf);
  CHECK(RunOp("ReduceSum", {x}, {{"noop_with_empty_axes", 1}})[0]->Equals(*x));
  const TensorPtr none = T(DType::kF64, {2, 0}, {});
  const auto empty = [&](const std::string& op) { return RunOp(op, {none, I64({1})})[0]->at(0); };
  CHECK(empty("ReduceSum") == 0);
  CHECK(empty("ReduceProd") == 1);
  CHECK(empty("ReduceMax") == -kInf);
  CHECK(empty("ReduceMin") == kInf);
  CHECK(std::isnan(empty("ReduceMean")));
  const TensorPtr p = T(DType::kF64, {2, 3}, {1, 2, 3, 0.5, 4, 2.5});
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
        "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    for (int keep : {0, 1}) {
      CheckGradient(op, {p, I64({1})}, {{"keepdims", keep}});
      CheckGradient(op, {p}, {{"keepdims", keep}});
      CheckGradient(op, {p}, {{"keepdims", keep}, {"noop_with_empty_axes", 1}});
    }
  }
  CheckNear(*GradientOf("ReduceMax", {F64({2, 2, 1})}, {}, F64({1}))[0], {0.5, 0.5, 0});
  CheckNear(*GradientOf("ReduceProd", {F64({0, 2, 3})}, {}, F64({1}))[0], {6, 0, 0});
  CheckNear(*GradientOf("ReduceProd", {F64({0, 2, 0})}, {}, F64({1}))[0], {0, 0, 0});
  CHECK(CodeOf([&] { RunOp("ReduceSum", {x, I64({2})}); }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { RunOp("ReduceSum", {x, I64({0, -2})}); }) == ErrorCode::kBadAttribute);
}

TEST_CASE("ArgMax, ArgMin, CumSum") {
  const TensorPtr x = T(DType::kF64, {2, 3}, {5, 1, 5, 0, 0, -1});
  CHECK(Values(*RunOp("ArgMax", {x}, {{"axis", 1}, {"keepdims", 0}})[0]) ==
        std::vector<double>{0, 0});
  CHECK(Values(*RunOp("ArgMax", {x}, {{"axis", 1}, {"select_last_index", 1}})[0]) ==
        std::vector<double>{2, 1});
  CHECK(Values(*RunOp("ArgMin", {x}, {{"axis", -1}})[0]) == std::vector<double>{1, 2});
  const TensorPtr v = F64({1, 2, 4});
  const TensorPtr axis = I64({}, {0});
  CHECK(Values(*RunOp("CumSum", {v, axis})[0]) == std::vector<double>{1, 3, 7});
  CHECK(Values(*RunOp("CumSum", {v, axis}, {{"exclusive", 1}})[0]) == std::vector<double>{0, 1, 3});
  CHECK(Values(*RunOp("CumSum", {v, axis}, {{"reverse", 1}})[0]) == std::vector<double>{7, 6, 4});
  CheckGradient("CumSum", {v, axis}, {{"exclusive", 1}});
}

TEST_CASE("gathers") {
  const TensorPtr x = T(DType::kF64, {3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(Values(*RunOp("Gather", {x, I64({-1, 0})})[0]) == std::vector<double>{5, 6, 1, 2});
  CHECK(Values(*RunOp("Gather", {x, I64({}, {1})}, {{"axis", 1}})[0]) ==
        std::vector<double>{2, 4, 6});
  CHECK(Values(*RunOp("GatherElements", {x, I64({2, 2}, {0, 2, -1, 0})})[0]) ==
        std::vector<double>{1, 6, 5, 2});
  CHECK(Values(*RunOp("GatherND", {x, I64({2, 2}, {0, 1, -1, 0})})[0]) ==
        std::vector<double>{2, 5});
  CHECK(Values(*RunOp("GatherND", {x, I64({3, 1}, {0, 1, 0})}, {{"batch_dims", 1}})[0]) ==
        std::vector<double>{1, 4, 5});
  CheckGradient("Gather", {x, I64({1, -1, 1})});
  CheckGradient("Gather", {x, I64({2, 2}, {1, -1, 1, 0})}, {{"axis", 1}});
  CheckGradient("GatherElements", {x, I64({2, 2}, {0, 2, -1, 0})});
  CheckGradient("GatherElements", {x, I64({2, 1}, {1, 1})});
  CheckGradient("GatherND", {x, I64({3, 2}, {0, 1, -1, 0, 0, 1})});
  CheckGradient("GatherND", {x, I64({3, 1}, {0, 1, 0})}, {{"batch_dims", 1}});
  CHECK(CodeOf([&] { RunOp("Gather", {x, I64({3})}); }) == ErrorCode::kIndexRange);
  CHECK(CodeOf([&] { RunOp("Gather", {x, I64({-4})}); }) == ErrorCode::kIndexRange);
  CHECK(CodeOf([&] { RunOp("Gather", {x, I64({0})}, {{"axis", 2}}); }) == ErrorCode::kBadAttribute);
}

TEST_CASE("examples of every op run in f16 and close to f64") {
  for (const Op* op : Op::List()) {
    if (op->name == "Split" || !Op::GetAttr<FCodeGen>("FCodeGen").count(op)) continue;
    if (op->name == "weft::Expression") continue;  // an attribute says which dtypes it takes
    for (const OpExample& row : op->examples) {
      const auto with = [&row](const char* dtype) {
        std::vector<std::string> inputs = row.inputs;
        for (std::string& i : inputs)
          if (i.rfind("f32[", 0) == 0) i = dtype + i.substr(3);
        return inputs;
      };
      CAPTURE(op->name);
      CAPTURE(row.attrs);
      Graph narrow, wide;
      try {
        narrow = Inferred(GraphOfRow(*op, with("f16"), row.attrs));
        wide = Inferred(GraphOfRow(*op, with("f64"), row.attrs));
      } catch (const UserError& e) {
        CHECK(e.code() == ErrorCode::kTypeMismatch);  // the op takes no f16
        continue;
      }
      const RandomInputs in = MakeRandomInputs(narrow, 11);
      Tensors same;
      for (const TensorPtr& t : in.tensors)
        same.push_back(t->dtype() == DType::kF16 ? T(DType::kF64, t->dims(), Values(*t)) : t);
      const Tensors got = Reference().Eval(narrow, in.tensors), want = Reference().Eval(wide, same);
      for (size_t k = 0; k < got.size(); ++k) {
        if (got[k]->dtype() != DType::kF16 || want[k]->dtype() != DType::kF64) continue;
        const TensorPtr rounded = T(DType::kF16, want[k]->dims(), Values(*want[k]));
        CHECK(CompareTensors(*got[k], *rounded, 1e-2, 1e-2) <= 1);
      }
    }
  }
}

TEST_CASE(
    "weft::Fused takes its shapes from the body while its inputs are those the body was made for") {
  const Shape shape = Shape::Parse("[n, 4]");
  Graph body;
  const NodeEntry p(body.AddInput("p", DType::kF32, shape));
  body.outputs =
      std::vector<NodeEntry>{ApplyOp("Softmax", {p}), ApplyOp("ReduceSum", {p}, {{"keepdims", 0}})};
  body = Inferred(std::move(body));
  const auto infer = [&](const Shape& given) {
    Graph g;
    const NodeEntry x(g.AddInput("x", DType::kF32, given));
    const NodePtr n =
        g.AddNode("weft::Fused", {x}, {{"body", std::make_shared<const Graph>(body)}});
    REQUIRE(n->num_outputs() == 2);
    g.outputs = std::vector<NodeEntry>{{n, 0}, {n, 1}};
    return Inferred(std::move(g));
  };
  const Graph known = infer(shape), other = infer(Shape::Parse("[m, 4]"));
  CHECK(known.GetAttr<ShapeMap>("shape")[known.outputs[0]].ToString() == "[n, 4]");
  CHECK(known.GetAttr<ShapeMap>("shape")[known.outputs[1]].ToString() == "[]");
  CHECK(!other.GetAttr<ShapeMap>("shape")[other.outputs[0]].has_rank());
  CHECK(other.GetAttr<TypeMap>("dtype")[other.outputs[0]] == Type(DType::kF32));
}

TEST_CASE("examples of every op: inference agrees with execution") {
  for (const Op* op : Op::List()) {
    const bool runs = Op::GetAttr<FCodeGen>("FCodeGen").count(op) ||
                      Op::GetAttr<FHostEval>("FHostEval").count(op);
    if (op->name == "Split" || !runs) continue;
    for (const OpExample& row : op->examples) {
      CAPTURE(op->name);
      CAPTURE(row.attrs);
      Graph g = GraphOfRow(*op, row.inputs, row.attrs);
      Graph inferred = Inferred(g);
      const RandomInputs in = MakeRandomInputs(inferred, 3);
      const Tensors results = Reference().Eval(inferred, in.tensors);
      const ShapeMap& shapes = inferred.GetAttr<ShapeMap>("shape");
      const TypeMap& types = inferred.GetAttr<TypeMap>("dtype");
      for (size_t k = 0; k < results.size(); ++k) {
        const Shape& s = shapes[inferred.outputs[k]];
        CHECK(types[inferred.outputs[k]].dtype == results[k]->dtype());
        REQUIRE(s.has_rank());
        REQUIRE(s.rank() == results[k]->rank());
        for (int d = 0; d < s.rank(); ++d) {
          CAPTURE(s.ToString());
          if (s[d].known() && s[d].Symbols().empty())
            CHECK(s[d].value() == results[k]->dims()[size_t(d)]);
          else if (s[d].known()) {
            bool bound = true;
            for (SymInt v : s[d].Symbols()) bound = bound && in.bindings.count(v.symbol_name());
            if (bound) CHECK(Evaluate(s[d], in.bindings) == results[k]->dims()[size_t(d)]);
          }
        }
      }
    }
  }
}

}  // namespace weft::ops
