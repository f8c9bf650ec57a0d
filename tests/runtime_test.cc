/// runtime_test.cc: bindings, unknown shapes, profiles, aliases: what a program must refuse, and what it must not spoil.
#include <doctest/doctest.h>

#include <cstring>

#include "weft/codegen/attr_types.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/text.h"
#include "weft/runtime/program.h"
#include "weft/support/error.h"

namespace {

using namespace weft;

TensorPtr Floats1(std::vector<double> v) {
  return Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, v);
}
std::vector<double> Values(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.num_elements(); ++i) v.push_back(t.at(i));
  return v;
}
ErrorCode CodeOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode(0);
}
Session SessionOf(const char* text, const char* backend = "cpu") {
  CompileOptions options;
  options.backend = backend;
  return Session(Compile(ParseGraph(text), options));
}

TEST_CASE("extents that are no bare symbol are checked on every run, not only on the first") {
  Session s = SessionOf(
      "weft 1\ngraph (%x: f32[n], %y: f32[2*n]) -> (%z) { %z = Concat(%x, %y) {axis = 0} : ? }");
  CHECK(s.Run({Floats1({1, 2}), Floats1({3, 4, 5, 6})})[0]->num_elements() == 6);
  CHECK(CodeOf([&] { s.Run({Floats1({1, 2}), Floats1({7})}); }) == ErrorCode::kBadInput);
  CHECK(Values(*s.Run({Floats1({1}), Floats1({2, 3})})[0]) == std::vector<double>{1, 2, 3});
}

TEST_CASE("facts that compilation relied on are checked for every binding") {
  Graph g = ParseGraph(
      "weft 1\ngraph (%x: f32[n]) -> (%y) {\n"
      "  %a = Constant() {value = tensor i64[1] [0]} : i64[1]\n"
      "  %b = Constant() {value = tensor i64[1] [4]} : i64[1]\n"
      "  %y = Slice(%x, %a, %b) : ?\n}");
  Facts facts;
  facts.SetRange(SymInt::Symbol("n"), {1, 4});
  g.SetAttr("facts", facts);
  Session s(Compile(g));
  CHECK(s.Run({Floats1({1, 2, 3})})[0]->num_elements() == 3);
  CHECK(CodeOf([&] { s.Run({Floats1({1, 2, 3, 4, 5, 6})}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("operands of unknown shape are refused by name, not run as scalars") {
  const char* text = "weft 1\ngraph (%x: f32?) -> (%y) { %y = ReduceSum(%x) {keepdims = 0} : ? }";
  CHECK(CodeOf([&] { SessionOf(text); }) == ErrorCode::kUnsupported);
  Session ref = SessionOf(text, "ref");
  CHECK(Values(*ref.Run({Floats1({1, 2, 3, 4})})[0]) == std::vector<double>{10});
}

TEST_CASE("an input of unknown extent that nobody reads does not stop a run") {
  Session s = SessionOf("weft 1\ngraph (%x: f32[2], %u: f32[?]) -> (%y) { %y = Neg(%x) : ? }");
  CHECK(Values(*s.Run({Floats1({1, 2}), Floats1({9, 9, 9})})[0]) == std::vector<double>{-1, -2});
}

TEST_CASE("a profile that throws leaves nothing behind") {
  Session s = SessionOf(
      "weft 1\ngraph (%x: f32[n], %y: f32[2*n]) -> (%z) { %z = Concat(%x, %y) {axis = 0} : ? }");
  CHECK(CodeOf([&] { s.Profile({Floats1({1}), Floats1({1})}); }) == ErrorCode::kBadInput);
  CHECK(s.Run({Floats1({1}), Floats1({2, 3})})[0]->num_elements() == 3);
  CHECK(s.Profile({Floats1({1}), Floats1({2, 3})}).size() == 1);
}

TEST_CASE("results that are parameters or inputs are the caller's own copies") {
  for (const char* backend : {"cpu", "ref"}) {
    CAPTURE(backend);
    Session s = SessionOf(
        "weft 1\ngraph (%x: f32[2], %w: f32[2] param = [1.0, 2.0]) -> (%w, %x, %s) { %s = Add(%x, "
        "%w) : ? }",
        backend);
    std::vector<std::shared_ptr<Tensor>> out;
    const TensorPtr x = Floats1({10, 20});
    s.RunInto({x}, &out);
    std::memset(out[0]->mutable_data(), 0, 8);
    std::memset(out[1]->mutable_data(), 0, 8);
    CHECK(Values(*x) == std::vector<double>{10, 20});
    CHECK(Values(*s.Run({x})[2]) == std::vector<double>{11, 22});
  }
}

TEST_CASE("a look-up takes the place of a one-hot product only when columns and rows agree") {
  const char* text =
      "weft 1\ngraph (%i: i32[3, 1], %w: f32[5, 2] param = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, "
      "8.0, 9.0, 10.0]) -> (%y) {\n"
      "  %t = Constant() {value = tensor i64[2] [3, 5]} : i64[2]\n"
      "  %e = Expand(%i, %t) : ?\n"
      "  %zero = Constant() {value = tensor i32[1] [0]} : i32[1]\n"
      "  %q = Equal(%e, %zero) : ?\n  %c = Cast(%q) {to = f32} : ?\n  %y = MatMul(%c, %w) : ?\n}";
  auto i = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{3, 1});
  i->set_int(1, 1);
  i->set_int(2, 2);
  CHECK(Values(*SessionOf(text).Run({i})[0]) == std::vector<double>{25, 30, 0, 0, 0, 0});
}

TEST_CASE("a fused graph that is edited gets its bodies back without being fused again") {
  Graph g = ApplyPasses(
      ParseGraph("weft 1\ngraph (%x: f32[4]) -> (%y) { %a = Neg(%x) : ?\n %y = Abs(%a) : ? }"),
      "Fusion");
  g.Touch(g.inputs()[0]);
  g = ApplyPasses(std::move(g), "CodeGen");
  int kernels = 0;
  for (NodePtr n : g.TopoOrder()) kernels += g.GetAttr<KernelMap>("kernel").find(n) != nullptr;
  CHECK(kernels == 1);
}

TEST_CASE("operators that write their inputs are refused, not ignored") {
  Graph g;
  NodeEntry step(g.AddParam("step", Floats1({0})));
  NodeEntry next = step + NodeEntry(g.AddConstant(Floats1({1})));
  g.outputs = {NodeEntry(g.AddNode(builtin::kAssign, {step, next}))};
  for (const char* backend : {"cpu", "ref"}) {
    CompileOptions options;
    options.backend = backend;
    CHECK(CodeOf([&] { Compile(g, options); }) == ErrorCode::kUnsupported);
  }
}

}  // namespace
