/// op_signature_test.cc: formulas of types and shapes: what they infer, what they refuse.
/// The contexts are small ones of their own; that inference calls the functions rightly is
/// tested where passes are.
#include "weft/core/op/op_signature.h"

#include <doctest/doctest.h>

#include "weft/core/graph/graph.h"
#include "weft/support/error.h"

namespace weft {
namespace {

struct Types final : InferTypeContext {
  NodePtr n = Node::Create();
  std::vector<Type> ins, outs;
  Types(std::vector<Type> i, size_t o) : ins(std::move(i)), outs(o) {}
  const NodePtr& node() const override { return n; }
  int num_inputs() const override { return int(ins.size()); }
  int num_outputs() const override { return int(outs.size()); }
  bool has_input(int) const override { return true; }
  Type in(int i) const override { return ins[size_t(i)]; }
  void set_out(int i, Type t) override { outs[size_t(i)] = t; }
  void set_in(int i, Type t) override { ins[size_t(i)] = t; }
};

struct Shapes final : InferShapeContext {
  NodePtr n = Node::Create();
  std::vector<Shape> ins, outs;
  std::vector<bool> present;
  std::string reason;
  Facts f;
  Shapes(const std::vector<std::string>& texts, size_t o) : outs(o) {
    for (const std::string& t : texts) {
      present.push_back(t != "_");
      ins.push_back(t == "_" ? Shape() : Shape::Parse(t));
    }
  }
  const NodePtr& node() const override { return n; }
  int num_inputs() const override { return int(ins.size()); }
  int num_outputs() const override { return int(outs.size()); }
  bool has_input(int i) const override { return present[size_t(i)]; }
  const Shape& in(int i) const override { return ins[size_t(i)]; }
  Type in_type(int) const override { return {}; }
  Type out_type(int) const override { return {}; }
  SymTensorPtr in_value(int) override { return nullptr; }
  TensorPtr in_constant(int) override { return nullptr; }
  void set_out(int i, Shape s) override { outs[size_t(i)] = std::move(s); }
  void set_out_value(int, SymTensor) override {}
  Facts& facts() override { return f; }
  SymInt unbacked(int k) override { return SymInt::Unbacked(k); }
  void explain(int, std::string r) override { reason = std::move(r); }
};

std::string Infer(const char* signature, const std::vector<std::string>& in) {
  Shapes s(in, 1);
  OpSignature(signature).shapes()(s);
  return s.outs[0].ToString();
}
void Refuses(const char* signature, const char* says) {
  INFO(signature);
  CHECK_THROWS_WITH_AS(OpSignature{signature}, doctest::Contains(says), UserError);
}

TEST_CASE("shapes by a formula") {
  CHECK(Infer("T[...] -> T[...]", {"[2, n, 3]"}) == "[2, n, 3]");
  CHECK(Infer("T[...] -> T[...]", {"[]"}) == "[]");
  CHECK(Infer("T[...] -> T[...]", {"?"}) == "?");
  CHECK(Infer("T[n, k], T[k, m] -> T[n, m]", {"[a, 4]", "[4, b]"}) == "[a, b]");
  CHECK(Infer("T[..., n, k], T[..., k, m] -> T[..., n, m]", {"[s, 2, 3]", "[s, 3, 5]"}) ==
        "[s, 2, 5]");
  CHECK(Infer("T[n] -> i64[2*n + 1]", {"[h]"}) == "[2*h + 1]");
  CHECK(Infer("T[n, m] -> T[max(n, m), n//2]", {"[8, w]"}) == "[max(8, w), 4]");
  CHECK(Infer("T[n] -> T[3, n]", {"[?]"}) == "[3, ?]");
  CHECK(Infer("T[n, n] -> T[n]", {"[?, 4]"}) == "[4]");
  CHECK(Infer("T[...], T[...] -> T[...]", {"[?, 3]", "[a, ?]"}) == "[a, 3]");
  CHECK(Infer("T[n], U[n] -> T[n]", {"_", "[7]"}) == "[7]");
  CHECK(Infer("T, T[n] -> T[n]", {"[1, 2, 3]", "[q]"}) == "[q]");
  CHECK(Infer(" T [ n ] -> T [ n ] ", {"[6]"}) == "[6]");
}

TEST_CASE("what a formula demands of extents is checked, or remembered where it cannot be") {
  CHECK_THROWS_WITH_AS(Infer("T[n, k], T[k, m] -> T[n, m]", {"[2, 3]", "[4, 5]"}),
                       doctest::Contains("dimension 0 of input 1 is 4, expected 3"), UserError);
  CHECK_THROWS_AS(Infer("T[4] -> T[4]", {"[5]"}), UserError);
  CHECK_THROWS_AS(Infer("T[n] -> T[n]", {"[2, 3]"}), UserError);
  CHECK_THROWS_AS(Infer("T[..., n, m] -> T[m]", {"[3]"}), UserError);
  CHECK_THROWS_AS(Infer("T[..., n], T[..., n] -> T[..., n]", {"[2, 5]", "[3, 5]"}), UserError);
  CHECK_THROWS_AS(Infer("T[..., n], T[..., n] -> T[..., n]", {"[2, 2, 5]", "[2, 5]"}), UserError);
  Shapes s({"[a, b]", "[c, 4]"}, 1);
  OpSignature("T[n, k], T[k, m] -> T[n, m]").shapes()(s);
  CHECK(s.outs[0].ToString() == "[a, 4]");
  CHECK(s.f.ProvedEqual(SymInt::Symbol("b"), SymInt::Symbol("c")));
  Shapes t({"[a]"}, 1);
  OpSignature("T[4] -> T[4]").shapes()(t);
  CHECK(t.f.ProvedEqual(SymInt::Symbol("a"), 4));
}

TEST_CASE("a result of which the formula does not say the shape is explained") {
  Shapes s({"[2]"}, 1);
  OpSignature("T[n] -> T").shapes()(s);
  CHECK(!s.outs[0].has_rank());
  CHECK(s.reason.find("T[n] -> T") != std::string::npos);
}

TEST_CASE("types by a formula") {
  Types t({DType::kF32, DType::kF32, DType::kI64}, 3);
  OpSignature("T, T, i64 -> T, bool, i64").types()(t);
  CHECK(t.outs[0] == Type(DType::kF32));
  CHECK(t.outs[1] == Type(DType::kBool));
  Types unknown({Type(), Type()}, 1);
  OpSignature("T, T -> T").types()(unknown);
  CHECK(!unknown.outs[0].known());
  Types half({Type(), DType::kF64}, 1);
  OpSignature("T, T -> T").types()(half);
  CHECK(half.outs[0] == Type(DType::kF64));
  Types differ({DType::kF32, DType::kF64}, 1);
  CHECK_THROWS_WITH_AS(OpSignature("T, T -> T").types()(differ),
                       doctest::Contains("input 1 has the type f64"), UserError);
  Types wrong({DType::kF32}, 1);
  CHECK_THROWS_AS(OpSignature("i64 -> i64").types()(wrong), UserError);
}

TEST_CASE("formulas that say nothing sensible are refused, with the reason") {
  Refuses("T[n]", "has no '->'");
  Refuses("T[n] ->", "has no output");
  Refuses("T[n] -> U[n]", "the type 'U' behind the arrow only");
  Refuses("T[n] -> T[m]", "the dimension 'm' behind the arrow only");
  Refuses("T[n] -> T[..., n]", "'...' behind the arrow only");
  Refuses("T[n, ...] -> T[n]", "not the first");
  Refuses("T[..., ...] -> T[...]", "not the first");
  Refuses("T[n+1] -> T[n]", "a number or a name");
  Refuses("T[n] -> T[n +]", "does not parse");
  Refuses("T[n -> T[n]", "open bracket");
  Refuses("T]n[ -> T", "bracket too many");
  Refuses("float[n] -> T[n]", "a dtype or a capital letter");
  Refuses("T[n]x -> T[n]", "behind the bracket");
  Refuses("T[n],, -> T[n]", "a dtype or a capital letter");
  Refuses("T[-1] -> T[1]", "negative");
  CHECK(OpSignature("-> f32[3]").num_inputs() == 0);
}

}  // namespace
}  // namespace weft
