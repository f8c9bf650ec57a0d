/// ml_test.cc: trees, maps and what text becomes before it is counted, on values that can be
/// counted by hand; that numbers of trees which name nothing are refused.
#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

TensorPtr Strings(std::vector<std::string> v) {
  auto t = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{int64_t(v.size())});
  t->mutable_strings() = std::move(v);
  return t;
}
TensorPtr Int32s(const std::vector<double>& v) { return T(DType::kI32, {int64_t(v.size())}, v); }

/// Two trees over two features: x0 <= 1 ? (x1 <= 0 ? 1 : 2) : 4, where NaN of x0 is <=; and 8.
AttrDict TwoTrees() {
  return {{"targets", int64_t{1}},
          {"roots", Int32s({0, -4})},
          {"features", Int32s({0, 1})},
          {"splits", F32({1, 0})},
          {"nan_true", T(DType::kU8, {2}, {1, 0})},
          {"true_children", Int32s({1, -1})},
          {"false_children", Int32s({-3, -2})},
          {"leaf_starts", Int32s({0, 1, 2, 3, 4})},
          {"leaf_targets", Int32s({0, 0, 0, 0})},
          {"leaf_weights", F32({1, 2, 4, 8})}};
}
AttrDict With(AttrDict attrs, const char* name, AttrValue v) {
  attrs[name] = std::move(v);
  return attrs;
}
const double kNan = std::nan("");

}  // namespace

TEST_CASE("rows go down every tree, and a NaN where its node sends it") {
  const TensorPtr x = T(DType::kF32, {6, 2}, {1, 0, 1, 0.5, 2, 0, kNan, -1, kNan, kNan, 0, kNan});
  const auto run = [&](const char* aggregate) {
    return Values(*RunOp("weft::TreeEnsemble", {x}, With(TwoTrees(), "aggregate", aggregate))[0]);
  };
  using V = std::vector<double>;
  CHECK(run("SUM") == V{9, 10, 12, 9, 10, 10});
  CHECK(run("AVERAGE") == V{4.5, 5, 6, 4.5, 5, 5});
  CHECK(run("MIN") == V{1, 2, 4, 1, 2, 2});
  CHECK(run("MAX") == V{8, 8, 8, 8, 8, 8});
  CHECK(RunOp("weft::TreeEnsemble", {T(DType::kF32, {0, 2}, {})}, TwoTrees())[0]->dims() ==
        std::vector<int64_t>{0, 1});
}

TEST_CASE("a target that no leaf has a weight for is 0, whatever the aggregate") {
  const TensorPtr x = T(DType::kF32, {1, 2}, {1, 0});
  for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"}) {
    const AttrDict attrs = With(With(TwoTrees(), "targets", int64_t{2}), "aggregate", aggregate);
    CHECK(RunOp("weft::TreeEnsemble", {x}, attrs)[0]->at(1) == 0);
  }
}

TEST_CASE("numbers that name nothing, lists of other lengths and cycles are refused") {
  const TensorPtr x = T(DType::kF32, {1, 2}, {1, 0});
  const auto code = [&](const char* name, const TensorPtr& v) {
    return CodeOf([&] { RunOp("weft::TreeEnsemble", {x}, With(TwoTrees(), name, v)); });
  };
  CHECK_NOTHROW(RunOp("weft::TreeEnsemble", {x}, TwoTrees()));
  for (const auto& [name, v] : std::vector<std::pair<const char*, TensorPtr>>{
           {"roots", Int32s({2})},
           {"roots", Int32s({-5})},
           {"true_children", Int32s({0, -1})},   // itself
           {"false_children", Int32s({-3, 0})},  // back to the root
           {"true_children", Int32s({2, -1})},
           {"true_children", Int32s({1, -6})},
           {"features", Int32s({0, -1})},
           {"features", Int32s({0})},
           {"splits", F64({1, 0})},
           {"splits", F32({1})},
           {"nan_true", Int32s({0, 1})},
           {"leaf_starts", Int32s({0, 2, 1, 3, 4})},
           {"leaf_starts", Int32s({0, 1, 2, 3, 5})},
           {"leaf_targets", Int32s({0, 0, 0, 1})},
           {"leaf_weights", F32({1, 2, 4})}}) {
    CAPTURE(name);
    CHECK(code(name, v) == ErrorCode::kBadAttribute);
  }
  CHECK(code("features", Int32s({0, 2})) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("weft::TreeEnsemble", {x}, With(TwoTrees(), "aggregate", "MEDIAN"));
        }) == ErrorCode::kBadAttribute);
}

TEST_CASE("coupled probabilities of pairs that agree are those of the classes") {
  // r_ij = p_i / (p_i + p_j) holds for p alone, up to the bound of the iteration.
  const std::vector<double> p{0.5, 0.3, 0.2};
  const TensorPtr pairs = T(DType::kF32, {1, 3}, {0.5 / 0.8, 0.5 / 0.7, 0.3 / 0.5});
  const auto got = Values(*RunOp("weft::PairwiseCoupling", {pairs}, {{"classes", 3}})[0]);
  for (size_t i = 0; i < 3; ++i) CHECK(got[i] == doctest::Approx(p[i]).epsilon(0.02));
  CHECK(got[0] + got[1] + got[2] == doctest::Approx(1));
  CHECK(CodeOf([&] {
          RunOp("weft::PairwiseCoupling", {pairs}, {{"classes", 4}});
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("rows become maps, and maps tensors") {
  const TensorPtr x = T(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const AttrDict labels{{"classlabels_strings", weft::Strings{"b", "a"}}};
  const TensorPtr maps = RunOp("ai.onnx.ml::ZipMap", {x}, labels)[0];
  CHECK(maps->type() == Type(TypeKind::kMapSequence, DType::kF32, DType::kString));
  REQUIRE(maps->elements().size() == 2);
  CHECK(maps->elements()[1]->Equals(*Tensor::Map(Strings({"b", "a"}), F32({3, 4}))));
  CHECK(!maps->elements()[1]->Equals(*Tensor::Map(Strings({"b", "c"}), F32({3, 4}))));
  CHECK(CodeOf([&] {
          RunOp("ai.onnx.ml::ZipMap", {x}, {{"classlabels_int64s", Ints{1, 2, 3}}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { RunOp("ai.onnx.ml::ZipMap", {x}); }) == ErrorCode::kBadAttribute);

  const TensorPtr map = Tensor::Map(Tensor::Ints({7, 2}), F32({1.5, 2}));
  CHECK(Values(*RunOp("ai.onnx.ml::CastMap", {map})[0]) == std::vector<double>{2, 1.5});
  CHECK(Values(*RunOp(
            "ai.onnx.ml::CastMap", {map},
            {{"map_form", "SPARSE"}, {"max_map", int64_t{8}}, {"cast_to", "TO_INT64"}})[0]) ==
        std::vector<double>{0, 0, 2, 0, 0, 0, 0, 1});
  CHECK(CodeOf([&] {
          RunOp("ai.onnx.ml::CastMap", {map}, {{"map_form", "SPARSE"}, {"max_map", int64_t{7}}});
        }) == ErrorCode::kIndexRange);
  CHECK(Values(*RunOp("ai.onnx.ml::DictVectorizer", {map},
                      {{"int64_vocabulary", Ints{2, 3, 7}}})[0]) == std::vector<double>{2, 0, 1.5});
  CHECK(CodeOf([&] {
          RunOp("ai.onnx.ml::DictVectorizer", {map}, {{"string_vocabulary", weft::Strings{"a"}}});
        }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] {
          RunOp("ai.onnx.ml::DictVectorizer", {x}, {{"int64_vocabulary", Ints{2}}});
        }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("a map has a value for each key, and keys that can be ones") {
  CHECK(CodeOf([] { Tensor::Map(Tensor::Ints({1}), F32({1, 2})); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([] { Tensor::Map(F32({1}), F32({1})); }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("strings become tokens, by what they are or by what is between them") {
  const TensorPtr x = Strings({"a cat, a dog", ""});
  const auto rows = [&](AttrDict attrs) {
    attrs["pad_value"] = "#";
    return RunOp("weft::Tokenizer", {x}, attrs)[0]->strings();
  };
  using S = std::vector<std::string>;
  CHECK(rows({{"mark", 0}, {"mincharnum", 1}, {"tokenexp", "[a-z]+"}}) ==
        S{"a", "cat", "a", "dog", "#", "#", "#", "#"});
  CHECK(rows({{"mark", 1}, {"mincharnum", 2}, {"separators", weft::Strings{",", " "}}}) ==
        S{"\x02", "cat", "dog", "\x03", "\x02", "\x03", "#", "#"});
  CHECK(
      RunOp(
          "weft::Tokenizer", {Strings({"\xc3\xa9t"})},
          {{"mark", 0}, {"mincharnum", 1}, {"pad_value", ""}, {"separators", weft::Strings{""}}})[0]
          ->strings() == S{"\xc3\xa9", "t"});
  CHECK(CodeOf([&] { rows({{"mark", 0}, {"mincharnum", 1}}); }) == ErrorCode::kBadAttribute);
}

TEST_CASE("hashes are those that MurmurHash3's author gives") {
  const auto hash = [](const std::string& s, int64_t seed) {
    return uint32_t(RunOp("weft::MurmurHash3", {Strings({s})}, {{"seed", seed}})[0]->at_int(0));
  };
  CHECK(hash("", 0) == 0);
  CHECK(hash("", 1) == 0x514e28b7u);
  CHECK(hash("test", 0) == 0xba6bd213u);
  CHECK(hash("Hello, world!", 0) == 0xc0363e43u);
}

}  // namespace weft::ops
