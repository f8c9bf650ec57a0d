// Older operator sets: the form after lifting, and where meanings changed also the values.
#include "lift.h"

#include <cmath>

#include "onnx/proto/onnx_test_util.h"
#include "weft/core/op/op.h"

namespace weft::onnx_import {
namespace {

Record RecordOf(std::string op, int64_t version, std::vector<std::string> inputs, AttrDict attrs,
                std::vector<std::string> outputs = {"y"}) {
  Record r;
  r.op = std::move(op);
  r.version = version;
  r.inputs = std::move(inputs);
  r.outputs = std::move(outputs);
  r.attrs = std::move(attrs);
  return r;
}

struct Lifted {
  Record node;
  std::vector<Record> before, after;
  /// The constant behind input i.
  TensorPtr Constant(size_t i) const {
    for (const Record& b : before) {
      if (b.op == "Constant" && b.outputs[0] == node.inputs.at(i))
        return b.attrs.at("value").get<TensorPtr>();
    }
    return nullptr;
  }
  std::vector<int64_t> Ints(size_t i) const {
    const TensorPtr t = Constant(i);
    REQUIRE(t);
    std::vector<int64_t> v;
    for (int64_t k = 0; k < t->num_elements(); ++k) v.push_back(t->at_int(k));
    return v;
  }
};

Lifted LiftOf(Record r, DType dtype = DType::kF32) {
  Lift lift(&r, [=](const std::string&) { return dtype; });
  LiftToNewest(&lift);
  return {r, lift.before, lift.after};
}
using V = std::vector<int64_t>;

TEST_CASE("axes, split, slice, pad, top-k: attributes become inputs") {
  for (const char* op : {"Squeeze", "Unsqueeze", "ReduceSum"}) {
    const Lifted l = LiftOf(RecordOf(op, 12, {"x"}, {{"axes", Ints{0, 2}}}));
    CHECK(l.Ints(1) == V{0, 2});
    CHECK(!l.node.attrs.count("axes"));
    CHECK(LiftOf(RecordOf(op, 13, {"x", "a"}, {})).before.empty());
  }
  for (const char* op : {"ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp"}) {
    CHECK(LiftOf(RecordOf(op, 17, {"x"}, {{"axes", Ints{-1}}})).Ints(1) == V{-1});
    CHECK(LiftOf(RecordOf(op, 17, {"x"}, {})).node.inputs.size() == 1);
  }
  const Lifted split = LiftOf(RecordOf("Split", 11, {"x"}, {{"split", Ints{1, 3}}}, {"a", "b"}));
  CHECK(split.Ints(1) == V{1, 3});
  CHECK(split.node.attrs.at("num_outputs").get<int64_t>() == 2);
  CHECK_THROWS_AS(LiftOf(RecordOf("Split", 18, {"x"}, {{"num_outputs", 3}}, {"a", "b"})),
                  UserError);
  const Lifted slice = LiftOf(
      RecordOf("Slice", 9, {"x"}, {{"axes", Ints{1}}, {"starts", Ints{0}}, {"ends", Ints{5}}}));
  CHECK(slice.Ints(1) == V{0});
  CHECK(slice.Ints(2) == V{5});
  CHECK(slice.Ints(3) == V{1});
  const Lifted pad = LiftOf(
      RecordOf("Pad", 10, {"x"}, {{"pads", Ints{1, 1}}, {"value", 2.5}, {"mode", "constant"}}),
      DType::kF64);
  CHECK(pad.Ints(1) == V{1, 1});
  CHECK(pad.Constant(2)->dtype() == DType::kF64);
  CHECK(pad.Constant(2)->at(0) == 2.5);
  CHECK(LiftOf(RecordOf("TopK", 9, {"x"}, {{"k", 4}}, {"v", "i"})).Ints(1) == V{4});
}

TEST_CASE("clip, dropout, batch normalisation, resampling") {
  const Lifted clip = LiftOf(RecordOf("Clip", 10, {"x"}, {{"max", 6.0}}), DType::kF16);
  REQUIRE(clip.node.inputs.size() == 3);
  CHECK(clip.node.inputs[1].empty());
  CHECK(clip.Constant(2)->dtype() == DType::kF16);
  const Lifted unknown = LiftOf(RecordOf("Clip", 6, {"x"}, {{"min", 0.0}}), DType::kUnknown);
  CHECK(unknown.before.back().op == "CastLike");
  CHECK(LiftOf(RecordOf("Dropout", 7, {"x"}, {{"ratio", 0.25}})).Constant(1)->at(0) == 0.25);
  const Lifted inference =
      LiftOf(RecordOf("BatchNormalization", 7, {"x", "s", "b", "m", "v"}, {{"spatial", 1}}));
  CHECK(!inference.node.attrs.count("spatial"));
  CHECK(!inference.node.attrs.count("training_mode"));
  const Lifted training = LiftOf(RecordOf("BatchNormalization", 9, {"x", "s", "b", "m", "v"}, {},
                                          {"y", "m2", "v2", "sm", "sv"}));
  CHECK(training.node.attrs.at("training_mode").get<int64_t>() == 1);
  CHECK(training.node.outputs.size() == 3);
  CHECK_THROWS_AS(
      LiftOf(RecordOf("BatchNormalization", 7, {"x", "s", "b", "m", "v"}, {{"spatial", 0}})),
      UserError);
  const Lifted up =
      LiftOf(RecordOf("Upsample", 7, {"x"}, {{"scales", Floats{1, 1, 2, 2}}, {"mode", "nearest"}}));
  CHECK(up.node.op == "Resize");
  CHECK(up.Constant(2)->at(3) == 2);
  CHECK(up.node.attrs.at("coordinate_transformation_mode").get<std::string>() == "asymmetric");
  const Lifted resize = LiftOf(RecordOf("Resize", 11, {"x", "roi", "s", "sizes"}, {}));
  CHECK(resize.node.inputs == std::vector<std::string>{"x", "", "", "sizes"});
  CHECK(LiftOf(RecordOf("Scatter", 10, {"x", "i", "u"}, {})).node.op == "ScatterElements");
  CHECK(LiftOf(RecordOf("GroupNormalization", 18, {"x", "s", "b"}, {{"num_groups", 2}}))
            .before.size() > 6);
}

TEST_CASE(
    "Resize of 10 and Upsample read the element below where they grow, above where they shrink") {
  // The numbers of ONNX Runtime; the first row is the standard's own test of Resize-10.
  const auto resized = [](const std::string& op, const std::string& scales, Floats x, int opset) {
    const std::string n = std::to_string(x.size());
    const Graph g = ImportText("g (float[1, 1, 1, " + n +
                                   "] x) => (float[a, b, c, d] y) <float[4] s = " + scales +
                                   "> { y = " + op + "(x, s) }",
                               opset);
    const std::vector<TensorPtr> y = GetEvaluator()->Eval(
        g, {Tensor::FromDoubles(DType::kF32, {1, 1, 1, int64_t(x.size())}, x)}, {});
    Floats out;
    for (int64_t i = 0; i < y[0]->num_elements(); ++i) out.push_back(y[0]->at(i));
    return out;
  };
  const std::string nearest = "Resize<mode = \"nearest\">", linear = "Resize<mode = \"linear\">";
  CHECK(resized(nearest, "{1.0, 1.0, 1.0, 0.6}", {1, 2, 3, 4}, 10) == Floats{1, 3});
  CHECK(resized(nearest, "{1.0, 1.0, 1.0, 0.3}", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10) ==
        Floats{0, 4, 7});
  CHECK(resized(nearest, "{1.0, 1.0, 1.0, 1.5}", {1, 2, 3, 4}, 10) == Floats{1, 1, 2, 3, 3, 4});
  CHECK(resized(nearest, "{1.0, 1.0, 2.0, 0.6}", {1, 2, 3, 4}, 10) == Floats{1, 3, 1, 3});
  CHECK(resized(linear, "{1.0, 1.0, 1.0, 0.5}", {1, 2, 3, 4}, 10) == Floats{1, 3});
  CHECK(resized("Upsample<mode = \"nearest\">", "{1.0, 1.0, 2.0, 2.5}", {1, 2}, 9) ==
        Floats{1, 1, 1, 2, 2, 1, 1, 1, 2, 2});
  // Scales that only a run knows.
  const Graph fed = ImportText(
      "g (float[1, 4] x, float[2] s) => (float[a, b] y) { y = Resize<mode = \"nearest\">(x, s) }",
      10);
  const std::vector<TensorPtr> y =
      GetEvaluator()->Eval(fed,
                           {Tensor::FromDoubles(DType::kF32, {1, 4}, {1, 2, 3, 4}),
                            Tensor::FromDoubles(DType::kF32, {2}, {2, 0.6})},
                           {});
  CHECK(y[0]->dims() == std::vector<int64_t>{2, 2});
  for (int64_t i = 0; i < 4; ++i) CHECK(y[0]->at(i) == (i % 2 ? 3 : 1));
}

TEST_CASE("broadcasting of before 7") {
  const auto lifted = [](AttrDict attrs, int rank_a, int rank_b) {
    Record r = RecordOf("Add", 6, {"a", "b"}, std::move(attrs));
    Lift lift(
        &r, [](const std::string&) { return DType::kF32; },
        [=](const std::string& v) {
          const int rank = v == "a" ? rank_a : rank_b;
          return rank < 0 ? Shape() : Shape::OfRank(rank);
        });
    LiftToNewest(&lift);
    return Lifted{r, lift.before, lift.after};
  };
  CHECK(lifted({{"broadcast", 1}}, 4, 1).before.empty());
  CHECK(lifted({{"broadcast", 1}, {"axis", 3}}, 4, 1).before.empty());
  const Lifted channel = lifted({{"broadcast", 1}, {"axis", 1}}, 4, 1);
  REQUIRE(channel.before.size() == 2);
  CHECK(channel.before[1].op == "Unsqueeze");
  CHECK(channel.before[0].attrs.at("value").get<TensorPtr>()->num_elements() == 2);
  CHECK_THROWS_AS(lifted({{"broadcast", 1}, {"axis", 1}}, -1, 1), UserError);
  CHECK_THROWS_AS(lifted({{"broadcast", 1}, {"axis", 4}}, 4, 1), UserError);
}

TEST_CASE("constants of every form") {
  CHECK(LiftOf(RecordOf("Constant", 13, {}, {{"value_int", 3}}))
            .node.attrs.at("value")
            .get<TensorPtr>()
            ->rank() == 0);
  CHECK(LiftOf(RecordOf("Constant", 13, {}, {{"value_floats", Floats{1, 2}}}))
            .node.attrs.at("value")
            .get<TensorPtr>()
            ->dtype() == DType::kF32);
  CHECK(LiftOf(RecordOf("Constant", 13, {}, {{"value_strings", Strings{"a"}}}))
            .node.attrs.at("value")
            .get<TensorPtr>()
            ->strings()[0] == "a");
  CHECK_THROWS_AS(LiftOf(RecordOf("Constant", 13, {}, {})), UserError);
}

TEST_CASE("softmax before 13 runs over all axes from the given one") {
  const Lifted last = LiftOf(RecordOf("Softmax", 11, {"x"}, {{"axis", -1}}));
  CHECK(last.before.empty());
  const Lifted l = LiftOf(RecordOf("LogSoftmax", 9, {"x"}, {}));
  REQUIRE(l.before.size() == 2);
  CHECK(l.before[1].op == "Flatten");
  CHECK(l.before[1].attrs.at("axis").get<int64_t>() == 1);
  REQUIRE(l.after.size() == 1);
  CHECK(l.after[0].op == "Reshape");
  CHECK(l.after[0].outputs[0] == "y");

  if (!Op::Find("Softmax") || !GetEvaluator()) return;
  const Graph g = ImportText("g (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax(x) }", 9);
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {2, 2, 2}, {0, 1, 2, 3, 4, 4, 4, 4});
  const TensorPtr y = GetEvaluator()->Eval(g, {x})[0];
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += std::exp(i);
  for (int i = 0; i < 4; ++i) CHECK(y->at(i) == doctest::Approx(std::exp(i) / sum));
  CHECK(y->at(5) == doctest::Approx(0.25));
  CHECK(y->dims() == std::vector<int64_t>{2, 2, 2});
}

TEST_CASE("lifted values keep the model's names") {
  const Graph g = ImportText(
      R"(g (float[3, 4] x) => (float[3, 4] y) { t = Clip<min = 0.0, max = 2.0>(x)  y = Softmax<axis = 0>(t) })",
      8, [] {
        ImportOptions o;
        o.allow_unsupported = true;  // Softmax may be in another build of the operators
        return o;
      }());
  CHECK(g.OutputName(0) == "y");
  CHECK(g.outputs.size() == 1);
}

/// What the graph gives for the operands, in f64.
std::vector<double> ValuesOf(const Graph& g, const std::vector<TensorPtr>& operands) {
  const TensorPtr y = GetEvaluator()->Eval(g, operands, {})[0];
  std::vector<double> out;
  for (int64_t i = 0; i < y->num_elements(); ++i) out.push_back(y->at(i));
  return out;
}
TensorPtr F32(std::vector<int64_t> dims, const std::vector<double>& values) {
  return Tensor::FromDoubles(DType::kF32, std::move(dims), values);
}

TEST_CASE("operator sets before 6: shapes, dtypes and pads as attributes") {
  const TensorPtr x = F32({2, 2}, {1, -2, 3, -4});
  CHECK(
      ValuesOf(ImportText("g (float[2, 2] x) => (float[4] y) { y = Reshape<shape = [-1]>(x) }", 4),
               {x}) == std::vector<double>{1, -2, 3, -4});
  CHECK(ErrorOf(GraphOf("g (float[2, 2] x) => (float[4] y) { y = Reshape(x) }", 4)).code() ==
        ErrorCode::kBadAttribute);
  const Graph cast =
      ImportText("g (float[2, 2] x) => (int32[2, 2] y) { y = Cast<to = \"INT32\">(x) }", 1);
  CHECK(GetEvaluator()->Eval(cast, {x}, {})[0]->dtype() == DType::kI32);
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (int32[2] y) { y = Cast<to = \"INT33\">(x) }", 1))
            .code() == ErrorCode::kBadAttribute);
  CHECK(ValuesOf(
            ImportText(
                "g (float[2] x) => (float[4] y) { y = Pad<paddings = [1, 1], value = 7.0>(x) }", 1),
            {F32({2}, {1, 2})}) == std::vector<double>{7, 1, 2, 7});
  // The axis of a Concat was 1 where nothing was said.
  CHECK(ValuesOf(ImportText("g (float[2, 2] x) => (float[2, 4] y) { y = Concat(x, x) }", 3), {x}) ==
        std::vector<double>{1, -2, 1, -2, 3, -4, 3, -4});
  CHECK(ErrorOf(GraphOf("g (float[2, 2] x) => (float[2, 4] y) { y = Concat(x, x) }", 4)).code() ==
        ErrorCode::kBadAttribute);
}

TEST_CASE("operator sets before 6: Tile along one axis, Split by values, orders of norms") {
  const char* const tile =
      "g (float[2, 1] x) => (float[2, 3] y) <float t = {3.0}, float a = {1.0}> { y = Tile(x, t, a) "
      "}";
  const TensorPtr x = F32({2, 1}, {1, 2});
  CHECK(ValuesOf(ImportText(tile, 5), {x}) == std::vector<double>{1, 1, 1, 2, 2, 2});
  auto beyond = GraphOf(tile, 5);
  beyond.mutable_graph()->mutable_initializer(1)->set_float_data(0, 2);
  CHECK(ErrorOf(beyond).code() == ErrorCode::kBadAttribute);
  CHECK(ValuesOf(ImportText("g (float[3] x) => (float[2] b) <float[2] s = {1.0, 2.0}> "
                            "{ a, b = Split<axis = 0>(x, s) }",
                            1),
                 {F32({3}, {1, 2, 3})}) == std::vector<double>{2, 3});
  const auto norm = [](const char* p) {
    return GraphOf(
        std::string("g (float[1, 1, 2] x) => (float[1, 1, 1] y) { y = GlobalLpPool<p = ") + p +
            ">(x) }",
        1);
  };
  const TensorPtr v = F32({1, 1, 2}, {3, -4});
  CHECK(ValuesOf(ImportOnnxBytes(BytesOf(norm("2.0"))), {v})[0] == doctest::Approx(5));
  CHECK(ValuesOf(ImportOnnxBytes(BytesOf(norm("1.0"))), {v})[0] == doctest::Approx(7));
  CHECK(ErrorOf(norm("1.5")).code() == ErrorCode::kUnsupported);
}

TEST_CASE("operator sets before 6: operators as they are, and the constants of Selu") {
  const TensorPtr x = F32({2}, {-1, 2});
  const auto selu = [&](int opset) {
    return ValuesOf(ImportText("g (float[2] x) => (float[2] y) { y = Selu(x) }", opset), {x});
  };
  CHECK(selu(1)[0] == doctest::Approx(1.0507 * 1.6732 * (std::exp(-1.0) - 1)).epsilon(1e-7));
  CHECK(selu(1)[1] == doctest::Approx(2 * 1.0507).epsilon(1e-7));
  CHECK(selu(6)[1] > selu(1)[1]);
  CHECK(ValuesOf(
            ImportText("g (float[2] x) => (float[2] y) { y = Relu<consumed_inputs = [0]>(x) }", 1),
            {x}) == std::vector<double>{0, 2});
  CHECK(ErrorOf(GraphOf("g (float[2] x) => (float[2] y) { y = Expnd(x, x) }", 5)).code() ==
        ErrorCode::kUnknownOp);
}

TEST_CASE("Scan of operator set 8 runs over a batch") {
  // Sums of what has come so far, and the last one, of two sequences.
  const char* const model =
      R"(g (float[2, 1] z, float[2, 3, 1] x) => (float[2, 1] s, float[2, 3, 1] y) {
      s, y = Scan<num_scan_inputs = 1 DIRECTIONS, body = b (float[1] a, float[1] e) => (float[1] t, float[1] u) {
          t = Add(a, e)  u = Identity(t) }>(LENGTHS, z, x) })";
  const auto with = [&](const std::string& directions, const std::string& lengths) {
    std::string text = model;
    text.replace(text.find("DIRECTIONS"), 10, directions);
    text.replace(text.find("LENGTHS"), 7, lengths);
    return GraphOf(text, 8);
  };
  const std::vector<TensorPtr> in = {F32({2, 1}, {0, 100}), F32({2, 3, 1}, {1, 2, 3, 4, 5, 6})};
  const auto of = [&](const pb::ModelProto& m, size_t output) {
    Graph g = ImportOnnxBytes(BytesOf(m));
    VerifyGraph(g);
    const TensorPtr y = GetEvaluator()->Eval(g, in, {})[output];
    std::vector<double> out;
    for (int64_t i = 0; i < y->num_elements(); ++i) out.push_back(y->at(i));
    return out;
  };
  CHECK(of(with("", "\"\""), 0) == std::vector<double>{6, 115});
  CHECK(of(with("", "\"\""), 1) == std::vector<double>{1, 3, 6, 104, 109, 115});
  CHECK(of(with(", directions = [1]", "\"\""), 1) == std::vector<double>{3, 5, 6, 106, 111, 115});
  auto lengths = with("", "n");
  auto* n = lengths.mutable_graph()->add_input();
  n->set_name("n");
  n->mutable_type()->mutable_tensor_type()->set_elem_type(pb::TensorProto::INT64);
  CHECK(Says(ErrorOf(lengths), "sequence_lens"));
}

}  // namespace
}  // namespace weft::onnx_import
