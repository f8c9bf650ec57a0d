/// sample_inputs_test.cc: dimensions and values for models that nobody gives any, against what the
/// operators' definitions allow.
#include "weft/runtime/inputs/sample_inputs.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using Values = std::map<std::string, int64_t>;

Graph Model(const std::string& text) { return ParseGraph("weft 1\n" + text); }
ChosenDims Choose(const std::string& text, const SymBindings& given = {},
                  const InputDims& dims = {}, const DimWishes& wishes = {}) {
  return ChooseDims(Model(text), given, dims, wishes);
}
Values Sorted(const ChosenDims& dims) { return {dims.bindings.begin(), dims.bindings.end()}; }

/// The values of one input.
std::vector<int64_t> ValuesOf(const std::string& text, size_t input, const SymBindings& bind = {},
                              uint64_t seed = 1) {
  const Graph g = Model(text);
  const TensorPtr t = SampleInputs(g, seed, ChooseDims(g, bind).bindings)[input];
  std::vector<int64_t> out;
  for (int64_t i = 0; i < t->num_elements(); ++i) out.push_back(int64_t(t->at(i)));
  return out;
}
bool Within(const std::vector<int64_t>& values, int64_t low, int64_t high) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t v) { return low <= v && v <= high; });
}

}  // namespace

TEST_CASE("dimensions: presets by the words of a name") {
  CHECK(
      Sorted(Choose("graph (%x: f32[batch_size, c, height, W]) -> (%y) {\n  %y = Relu(%x)\n}\n")) ==
      Values{{"batch_size", 1}, {"c", 3}, {"height", 224}, {"W", 224}});
  CHECK(Sorted(Choose("graph (%i: i64[N, encoderSequenceLength], %j: i64[N, target_len]) -> (%y, "
                      "%z) {\n  %y = Neg(%i)\n  %z = Neg(%j)\n}\n")) ==
        Values{{"N", 1}, {"encoderSequenceLength", 128}, {"target_len", 128}});
  // A word inside another one is none.
  CHECK(Sorted(Choose("graph (%x: f32[4, batches]) -> (%y) {\n  %y = Relu(%x)\n}\n")) ==
        Values{{"batches", 128}});
}

TEST_CASE("dimensions: presets by the place in an input") {
  CHECK(Sorted(Choose("graph (%x: f32[x_d0, 3, x_d2, x_d3]) -> (%y) {\n  %y = Relu(%x)\n}\n")) ==
        Values{{"x_d0", 1}, {"x_d2", 224}, {"x_d3", 224}});
  CHECK(Sorted(Choose("graph (%x: u8[x_d0, x_d1, 3]) -> (%y) {\n  %y = Identity(%x)\n}\n")) ==
        Values{{"x_d0", 224}, {"x_d1", 224}});
  CHECK(Sorted(Choose("graph (%x: i64[x_d0, x_d1]) -> (%y) {\n  %y = Neg(%x)\n}\n")) ==
        Values{{"x_d0", 1}, {"x_d1", 128}});
  // A recurrent state, and many channels: no images.
  CHECK(Sorted(Choose("graph (%x: f32[2, x_d1, 64]) -> (%y) {\n  %y = Relu(%x)\n}\n")) ==
        Values{{"x_d1", 128}});
  CHECK(Sorted(Choose("graph (%x: f32[x_d0, 64, x_d2, 64]) -> (%y) {\n  %y = Relu(%x)\n}\n")) ==
        Values{{"x_d0", 1}, {"x_d2", 128}});
}

TEST_CASE("dimensions: what is given stays, and --bind-all binds the rest") {
  const std::string model =
      "graph (%x: f32[batch, 3, height, width]) -> (%y) {\n  %y = Relu(%x)\n}\n";
  const ChosenDims some = Choose(model, {{"height", 64}});
  CHECK(Sorted(some) == Values{{"batch", 1}, {"height", 64}, {"width", 224}});
  CHECK(some.chosen == std::vector<std::string>{"batch", "width"});
  DimWishes wishes;
  wishes.every = 7;
  CHECK(Sorted(Choose(model, {{"height", 64}}, {}, wishes)) ==
        Values{{"batch", 7}, {"height", 64}, {"width", 7}});
  DimWishes small;
  small.presets = {{"batch", 2}};
  CHECK(Sorted(Choose(model, {}, {}, small)).at("batch") == 2);
  CHECK(Choose("graph (%x: f32[3]) -> (%y) {\n  %y = Relu(%x)\n}\n").chosen.empty());
}

TEST_CASE("dimensions: a preset moves to what the model demands") {
  // A window of 300 needs 300 elements; one of 5 is content with 224.
  const auto pool = [](int k) {
    return "graph (%x: f32[n, 3, h, w]) -> (%y) {\n  %y, %i = MaxPool(%x) {kernel_shape = [" +
           std::to_string(k) + ", 1]}\n}\n";
  };
  CHECK(Sorted(Choose(pool(300))) == Values{{"n", 1}, {"h", 300}, {"w", 224}});
  CHECK(Sorted(Choose(pool(5))) == Values{{"n", 1}, {"h", 224}, {"w", 224}});
  DimWishes small;
  small.presets = {{"h", 1}, {"w", 1}};
  CHECK(Sorted(Choose(pool(5), {}, {}, small)) == Values{{"n", 1}, {"h", 5}, {"w", 1}});
  // 2 n elements become 14.
  CHECK(Sorted(Choose("graph (%x: f32[n, 2]) -> (%y) {\n"
                      "  %s = Constant() {value = tensor i64[2] [7, 2]}\n"
                      "  %y = Reshape(%x, %s)\n}\n")) == Values{{"n", 7}});
}

TEST_CASE("dimensions: sums of others are found") {
  const std::string model =
      "graph (%q: f32[batch, seq, 8], %past: f32[batch, past_seq, 8], %m: f32[batch, total, 1]) -> "
      "(%y) {\n  %k = Concat(%past, %q) {axis = 1}\n  %y = Add(%k, %m)\n}\n";
  CHECK(Sorted(Choose(model)) ==
        Values{{"batch", 1}, {"past_seq", 127}, {"seq", 1}, {"total", 128}});
  for (const int64_t seq : {3, 10}) {
    const ChosenDims d = Choose(model, {{"seq", seq}});
    CHECK(d.failure.empty());
    CHECK(d.bindings.at("total") == d.bindings.at("past_seq") + seq);
  }
  const ChosenDims wide = Choose(model, {{"total", 50}});
  CHECK(wide.failure.empty());
  CHECK(wide.bindings.at("past_seq") + wide.bindings.at("seq") == 50);
  // Without a past a sequence is one.
  CHECK(Sorted(Choose("graph (%q: f32[batch, seq, 8]) -> (%y) {\n  %y = Relu(%q)\n}\n")) ==
        Values{{"batch", 1}, {"seq", 128}});
}

TEST_CASE("dimensions: what only a run tells is found by running") {
  // The pad comes from values, and a window of 200 follows; the state has one row for each of x.
  const std::string model =
      "graph (%x: f32[x_d0, x_d1], %s: f32[2, s_d1, 4], %p: i64[4]) -> (%y, %z) {\n"
      "  %q = Mul(%p, %p)\n  %r = Sub(%q, %p)\n  %l = Pad(%x, %r)\n"
      "  %u = Constant() {value = tensor i64[1] [1]}\n  %w = Unsqueeze(%l, %u)\n"
      "  %y, %i = MaxPool(%w) {kernel_shape = [200]}\n"
      "  %v = Constant() {value = tensor i64[1] [2]}\n  %o = Unsqueeze(%x, %v)\n"
      "  %m = Transpose(%o) {perm = [2, 0, 1]}\n  %k = ReduceMax(%m, %v)\n  %z = Add(%s, %k)\n}\n";
  const ChosenDims d = Choose(model);
  CHECK(d.failure.empty());
  CHECK(d.bindings.at("x_d1") >= 200);
  CHECK((d.bindings.at("s_d1") == d.bindings.at("x_d0") || d.bindings.at("x_d0") == 1));
}

/// An If of which one branch wants a window of `then` elements, the other one of `other`.
std::string Branches(int then, int other) {
  const auto branch = [](const std::string& name, int window) {
    return name + " = graph (%x: f32?) -> (%y) {\n    %y, %i = MaxPool(%x) {kernel_shape = [" +
           std::to_string(window) + "]}\n  }";
  };
  return "graph (%c: bool[], %x: f32[1, 1, len]) -> (%y) {\n  %y = If(%c, %x) {num_captures = 1, " +
         branch("then_branch", then) + ", " + branch("else_branch", other) + "}\n}\n";
}

TEST_CASE("dimensions: both branches of an If fit where they can") {
  CHECK(Choose(Branches(2, 3)).bindings.at("len") == 128);
  for (const auto& [then, other] : {std::pair(200, 3), std::pair(3, 200)}) {
    const ChosenDims d = Choose(Branches(then, other));
    CHECK(d.failure.empty());
    CHECK(d.bindings.at("len") >= 200);
  }
  // What is given stays, although one branch does not fit.
  const ChosenDims d = Choose(Branches(200, 3), {{"len", 8}});
  CHECK(d.failure.empty());
  CHECK(d.bindings.at("len") == 8);
  CHECK(Choose(Branches(1 << 20, 3)).bindings.at("len") == 128);  // out of reach
}

TEST_CASE("dimensions: where none fits, the first try is told") {
  const ChosenDims d = Choose(
      "graph (%x: f32[n, 3, h, w]) -> (%y) {\n"
      "  %y, %i = MaxPool(%x) {kernel_shape = [9, 9]}\n}\n",
      {{"h", 4}});
  CHECK(d.failure.find("h") != std::string::npos);
  CHECK(d.bindings.at("h") == 4);
}

TEST_CASE("values: an index lies in the axis that it selects from") {
  const std::string table =
      "  %t = Constant() {value = tensor f32[5, 2] [0.0, 1.0, 2.0, 3.0, 4.0, "
      "5.0, 6.0, 7.0, 8.0, 9.0]}\n";
  const auto direct = ValuesOf(
      "graph (%i: i64[1, seq]) -> (%y) {\n" + table + "  %y = Gather(%t, %i) {axis = 0}\n}\n", 0);
  CHECK(direct.size() == 128);
  CHECK(Within(direct, 0, 4));
  CHECK(*std::max_element(direct.begin(), direct.end()) == 4);
  CHECK(Within(ValuesOf("graph (%i: i32[1, seq]) -> (%y) {\n" + table +
                            "  %s = Constant() {value = tensor i64[1] [-1]}\n"
                            "  %c = Cast(%i) {to = i64}\n  %r = Reshape(%c, %s)\n"
                            "  %y = Gather(%t, %r) {axis = 1}\n}\n",
                        0),
               0, 1));
  // The least of two axes; and one that only a body selects from.
  CHECK(
      Within(ValuesOf("graph (%i: i64[1, seq]) -> (%y, %z) {\n" + table +
                          "  %y = Gather(%t, %i) {axis = 0}\n  %z = Gather(%t, %i) {axis = 1}\n}\n",
                      0),
             0, 1));
  const std::string branch =
      "graph (%t: f32[5, 2], %i: i64[9]) -> (%y) { %y = Gather(%t, %i) {axis = 0} }";
  CHECK(Within(ValuesOf("graph (%c: bool[], %i: i64[9]) -> (%y) {\n" + table +
                            "  %y = If(%c, %t, %i) {else_branch = " + branch +
                            ", num_captures = 2, then_branch = " + branch + "}\n}\n",
                        1),
               0, 4));
  CHECK(Within(ValuesOf("graph (%i: i64[64]) -> (%y) {\n"
                        "  %d = Constant() {value = tensor i64[] [3]}\n"
                        "  %v = Constant() {value = tensor f32[2] [0.0, 1.0]}\n"
                        "  %y = OneHot(%i, %d, %v)\n}\n",
                        0),
               0, 2));
  // What only the dimensions decide says nothing of the values.
  CHECK(!Within(ValuesOf("graph (%i: i64[64], %x: f32[4]) -> (%y) {\n  %s = Shape(%i)\n"
                         "  %y = Expand(%i, %s)\n}\n",
                         0),
                0, 4));
  // No index: anything.
  CHECK(!Within(ValuesOf("graph (%i: i64[64]) -> (%y) {\n  %y = Neg(%i)\n}\n", 0), 0, 4));
}

TEST_CASE("values: masks, what is compared, shapes, lengths, counts, positions") {
  CHECK(Within(ValuesOf("graph (%attention_mask: i64[1, seq]) -> (%y) {\n"
                        "  %y = Cast(%attention_mask) {to = f32}\n}\n",
                        0),
               1, 1));
  const std::string rate =
      "graph (%sr: i64[]) -> (%y) {\n  %c = Constant() {value = tensor i64[] [16000]}\n"
      "  %y = Equal(%sr, %c)\n}\n";
  CHECK(ValuesOf(rate, 0) == std::vector<int64_t>{16000});
  // Of many constants each may be meant, as in an encoding by comparison.
  const auto kinds = ValuesOf(
      "graph (%ids: i64[64, 1]) -> (%y) {\n"
      "  %c = Constant() {value = tensor i64[1, 4] [7, 8, 9, 10]}\n  %y = Equal(%ids, %c)\n}\n",
      0);
  CHECK(Within(kinds, 7, 10));
  CHECK(*std::max_element(kinds.begin(), kinds.end()) == 10);
  // Many elements may be compared with padding.
  CHECK(ValuesOf("graph (%ids: i64[64]) -> (%y) {\n  %c = Constant() {value = tensor i64[] [1]}\n"
                 "  %y = Equal(%ids, %c)\n}\n",
                 0) != std::vector<int64_t>(64, 1));
  CHECK(ValuesOf("graph (%x: f32[2, 6], %s: i64[3]) -> (%y) {\n  %y = Reshape(%x, %s)\n}\n", 1) ==
        std::vector<int64_t>{1, 2, 6});
  CHECK(ValuesOf("graph (%x: f32[2, 40], %lengths: i32[2]) -> (%y, %z) {\n  %y = Relu(%x)\n"
                 "  %z = Neg(%lengths)\n}\n",
                 1) == std::vector<int64_t>{40, 40});
  CHECK(ValuesOf("graph (%x: f32[4, 6], %k: i64[1]) -> (%y, %i) {\n  %y, %i = TopK(%x, %k)\n}\n",
                 1) == std::vector<int64_t>{1});
  CHECK(ValuesOf("graph (%position_ids: i64[2, 3]) -> (%y) {\n"
                 "  %y = Cast(%position_ids) {to = f32}\n}\n",
                 0) == std::vector<int64_t>{0, 1, 2, 0, 1, 2});
}

TEST_CASE("values: tuples of indices, regions of a batch, scales") {
  const std::string gather =
      "graph (%x: i32[5, 2], %i: i64[40, 2]) -> (%y) {\n  %y = GatherND(%x, %i)\n}\n";
  CHECK(Within(ValuesOf(gather, 1), -2, 1));
  const std::string align =
      "graph (%x: f32[2, 1, 4, 4], %r: f32[9, 4], %b: i64[9]) -> (%y) {\n"
      "  %y = RoiAlign(%x, %r, %b)\n}\n";
  CHECK(Within(ValuesOf(align, 2), 0, 1));
  const Graph resize =
      Model("graph (%x: f32[2, 2], %s: f32[2]) -> (%y) {\n  %y = Resize(%x, _, %s)\n}\n");
  for (uint64_t seed = 1; seed < 9; ++seed) {
    const TensorPtr scales = SampleInputs(resize, seed, {})[1];
    CHECK(scales->at(0) > 0);
    CHECK(scales->at(1) > 0);
  }
}

TEST_CASE("values: texts") {
  const Graph g = Model(
      "graph (%x: str[3], %i: f32[2]) -> (%y, %z) {\n  %y = Identity(%x)\n"
      "  %z = Neg(%i)\n}\n");
  const std::vector<TensorPtr> in = SampleInputs(g, 1, {});
  REQUIRE(in[0]->dtype() == DType::kString);
  for (const std::string& s : in[0]->strings()) CHECK(!s.empty());
  CHECK(in[1]->dtype() == DType::kF32);
}

TEST_CASE("values: sequences and optionals hold random tensors") {
  const Graph g = Model(
      "graph (%s: seq(f32), %t: seq(str), %o: opt(i64), %p: opt(seq(f32)), %x: f32[2]) -> "
      "(%a, %b, %c, %d, %e) {\n  %a = Identity(%s)\n  %b = Identity(%t)\n  %c = Identity(%o)\n"
      "  %d = Identity(%p)\n  %e = Neg(%x)\n}\n");
  const std::vector<TensorPtr> in = SampleInputs(g, 1, {}), again = SampleInputs(g, 2, {});
  REQUIRE(in[0]->elements().size() == 3);
  for (const TensorPtr& t : in[0]->elements()) CHECK(t->dims() == std::vector<int64_t>{2, 3});
  CHECK(!in[0]->elements()[0]->Equals(*in[0]->elements()[1]));
  CHECK(!in[0]->elements()[0]->Equals(*again[0]->elements()[0]));
  REQUIRE(in[1]->elements().size() == 3);
  for (const std::string& s : in[1]->elements()[0]->strings()) CHECK(!s.empty());
  REQUIRE(in[2]->elements().size() == 1);
  CHECK(in[2]->elements()[0]->dtype() == DType::kI64);
  REQUIRE(in[3]->elements().size() == 1);
  CHECK(in[3]->elements()[0]->elements().size() == 3);
  CHECK(in[4]->is_tensor());
}

TEST_CASE("values: a function of the seed, and of the dimensions that are given for an input") {
  const Graph g = Model("graph (%x: f32?) -> (%y) {\n  %y = Relu(%x)\n}\n");
  const InputDims dims = {{"x", {2, 3}}};
  const TensorPtr a = SampleInputs(g, 1, {}, dims)[0];
  CHECK(a->dims() == std::vector<int64_t>{2, 3});
  CHECK(a->Equals(*SampleInputs(g, 1, {}, dims)[0]));
  CHECK(!a->Equals(*SampleInputs(g, 2, {}, dims)[0]));
}

}  // namespace weft
