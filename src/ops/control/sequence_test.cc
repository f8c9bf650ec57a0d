/// sequence_test.cc: sequences and optionals, each operator on values that can be counted by hand,
/// inside of bodies, and gone where their making is seen.
#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

constexpr Type kSequence(TypeKind::kSequence, DType::kF32);
constexpr Type kOptional(TypeKind::kOptional, DType::kF32);

TensorPtr Position(int64_t i) { return Tensor::Scalar(DType::kI64, double(i)); }
TensorPtr List(const Tensors& t) { return Tensor::List(kSequence, t); }
std::vector<std::vector<double>> Elements(const Tensor& list) {
  std::vector<std::vector<double>> out;
  for (const TensorPtr& t : list.elements()) out.push_back(Values(*t));
  return out;
}
using Rows = std::vector<std::vector<double>>;

}  // namespace

TEST_CASE("a sequence is made, read, extended and shortened by position") {
  const TensorPtr a = F32({1, 2}), b = F32({3}), c = F32({4});
  const TensorPtr s = RunOp("SequenceConstruct", {a, b})[0];
  CHECK(s->type() == kSequence);
  CHECK(Elements(*s) == Rows{{1, 2}, {3}});
  CHECK(RunOp("SequenceEmpty", {}, {{"dtype", DType::kI64}})[0]->type() ==
        Type(TypeKind::kSequence, DType::kI64));
  CHECK(Values(*RunOp("SequenceAt", {s, Position(-2)})[0]) == std::vector<double>{1, 2});
  CHECK(Elements(*RunOp("SequenceInsert", {s, c})[0]) == Rows{{1, 2}, {3}, {4}});
  CHECK(Elements(*RunOp("SequenceInsert", {s, c, Position(-1)})[0]) == Rows{{1, 2}, {4}, {3}});
  CHECK(Elements(*RunOp("SequenceInsert", {s, c, Position(2)})[0]) == Rows{{1, 2}, {3}, {4}});
  CHECK(Elements(*RunOp("SequenceErase", {s})[0]) == Rows{{1, 2}});
  CHECK(Elements(*RunOp("SequenceErase", {s, Position(0)})[0]) == Rows{{3}});
  CHECK(RunOp("SequenceLength", {s})[0]->at_int(0) == 2);
  CHECK(Elements(*s) == Rows{{1, 2}, {3}});  // it is what it was
}

TEST_CASE("positions outside of a sequence, and elements of another type, are refused") {
  const TensorPtr s = List({F32({1}), F32({2})}), none = List({});
  for (const int64_t bad : {2, -3}) {
    CHECK(CodeOf([&] { RunOp("SequenceAt", {s, Position(bad)}); }) == ErrorCode::kIndexRange);
    CHECK(CodeOf([&] { RunOp("SequenceErase", {s, Position(bad)}); }) == ErrorCode::kIndexRange);
  }
  CHECK(CodeOf([&] {
          RunOp("SequenceInsert", {s, F32({1}), Position(3)});
        }) == ErrorCode::kIndexRange);
  CHECK(CodeOf([&] { RunOp("SequenceErase", {none}); }) == ErrorCode::kIndexRange);
  CHECK(CodeOf([&] { RunOp("SequenceInsert", {s, F64({1})}); }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] {
          RunOp("SequenceConstruct", {F32({1}), F64({1})});
        }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] { RunOp("SequenceLength", {F32({1})}); }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] { RunOp("Relu", {s}); }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("a tensor is split into a sequence and joined again") {
  const TensorPtr x = T(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const AttrDict columns{{"axis", int64_t{-1}}};
  const TensorPtr ones = RunOp("SplitToSequence", {x}, columns)[0];
  CHECK(Elements(*ones) == Rows{{1, 4}, {2, 5}, {3, 6}});
  CHECK(ones->elements()[0]->dims() == std::vector<int64_t>{2, 1});
  const TensorPtr flat =
      RunOp("SplitToSequence", {x}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}})[0];
  CHECK(flat->elements()[0]->dims() == std::vector<int64_t>{2});
  CHECK(Elements(*RunOp("SplitToSequence", {x, Position(2)}, columns)[0]) ==
        Rows{{1, 2, 4, 5}, {3, 6}});
  CHECK(Elements(*RunOp("SplitToSequence", {x, Tensor::Ints({1, 2})}, columns)[0]) ==
        Rows{{1, 4}, {2, 3, 5, 6}});
  CHECK(RunOp("ConcatFromSequence", {ones}, columns)[0]->Equals(*x));
  const TensorPtr stacked =
      RunOp("ConcatFromSequence", {flat}, {{"axis", int64_t{-1}}, {"new_axis", int64_t{1}}})[0];
  CHECK(stacked->Equals(*x));
  CHECK(CodeOf([&] {
          RunOp("SplitToSequence", {x, Tensor::Ints({1, 1})}, columns);
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("SplitToSequence", {x, Position(0)}, columns);
        }) == ErrorCode::kBadInput);
  CHECK(CodeOf([&] {
          RunOp("ConcatFromSequence", {List({F32({1}), x})}, {{"axis", int64_t{0}}});
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("an optional holds a value or none") {
  const TensorPtr x = F32({1, 2}), s = List({x});
  const TensorPtr some = RunOp("Optional", {x})[0], none = Tensor::List(kOptional, {});
  CHECK(some->type() == kOptional);
  CHECK(RunOp("Optional", {s})[0]->type() == Type(TypeKind::kOptionalSequence, DType::kF32));
  CHECK(RunOp("Optional", {}, {{"type", "f32"}})[0]->Equals(*none));
  CHECK(RunOp("OptionalGetElement", {some})[0]->Equals(*x));
  CHECK(RunOp("OptionalGetElement", {x})[0]->Equals(*x));
  CHECK(RunOp("OptionalHasElement", {some})[0]->at_int(0) == 1);
  CHECK(RunOp("OptionalHasElement", {s})[0]->at_int(0) == 1);
  CHECK(RunOp("OptionalHasElement", {none})[0]->at_int(0) == 0);
  CHECK(RunOp("OptionalHasElement", {})[0]->at_int(0) == 0);
  CHECK(CodeOf([&] { RunOp("OptionalGetElement", {none}); }) == ErrorCode::kBadInput);
  CHECK(CodeOf([&] { RunOp("Optional", {}); }) == ErrorCode::kBadAttribute);
}

TEST_CASE("a sequence whose making is seen disappears; one that is fed stays") {
  const auto ops = [](const std::string& text) {
    const Graph g = ApplyPasses(ParseGraph("weft 1\n" + text), "Simplify");
    std::string names;
    for (const NodePtr& n : g.TopoOrder())
      if (!n->is_variable() && !Graph::ConstantOf(NodeEntry(n))) names += n->op()->name + " ";
    return names;
  };
  CHECK(ops(R"(graph @g(%a: f32[2], %b: f32[2]) -> (%y) {
  %s = SequenceConstruct(%a, %b) : ?
  %i = Constant() {value = tensor i64[] [-1]} : ?
  %e = SequenceAt(%s, %i) : ?
  %y = Relu(%e) : ?
})") == "Relu ");
  CHECK(ops(R"(graph @g(%a: f32[2], %b: f32[3]) -> (%y) {
  %s = SequenceConstruct(%a, %b) : ?
  %y = ConcatFromSequence(%s) {axis = 0} : ?
})") == "Concat ");
  CHECK(ops(R"(graph @g(%s: seq(f32)) -> (%y) {
  %i = Constant() {value = tensor i64[] [0]} : ?
  %e = SequenceAt(%s, %i) : ?
  %y = Relu(%e) : ?
})") == "SequenceAt Relu ");
}

}  // namespace weft::ops
