/// scatter_test.cc: scatters and adjoints of gathers against their definitions in the interpreter.
#include <doctest/doctest.h>

#include <chrono>

#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace weft::cpu {
namespace {

/// A program of one node, compiled for the library, and its definition.
struct Both {
  explicit Both(const std::string& graph) : text("weft 1\n" + graph) {
    program = Compile(ParseGraph(text));
    CHECK_MESSAGE(program->stats().library_calls == 1, text);
    CHECK(program->stats().interpreted == 0);
  }
  std::vector<TensorPtr> Run(const std::vector<TensorPtr>& in) { return Session(program).Run(in); }
  void Check(const std::vector<TensorPtr>& in) {
    const TensorPtr got = Run(in)[0], want = GetEvaluator()->Eval(ParseGraph(text), in)[0];
    REQUIRE(got->dims() == want->dims());
    CHECK_MESSAGE(CompareTensors(*got, *want, -1, -1) <= 1, text);
  }
  std::string text;
  std::shared_ptr<const Program> program;
};

TensorPtr Values(DType t, const std::vector<int64_t>& dims, int seed) {
  auto x = std::make_shared<Tensor>(t, dims);
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    const int64_t v = (i * 37 + seed * 11) % 19 - 9;
    if (t == DType::kBool)
      x->set_int(i, v > 0);
    else if (IsFloat(t))
      x->set(i, double(v) / 4);
    else
      x->set_int(i, v);
  }
  return x;
}
TensorPtr Ints(const std::vector<int64_t>& dims, const std::vector<int64_t>& v,
               DType t = DType::kI64) {
  auto x = std::make_shared<Tensor>(t, dims);
  for (size_t i = 0; i < v.size(); ++i) x->set_int(int64_t(i), v[i]);
  return x;
}

TEST_CASE("ScatterElements: all ways to combine, all types, repeated and negative indices") {
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    for (DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kBool, DType::kI8,
                    DType::kI64, DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
      CAPTURE(reduction);
      const std::string name(DTypeName(t));
      Both rows("graph (%x: " + name + "[4, 3], %i: i64[3, 2], %u: " + name +
                "[3, 2]) -> (%y) {\n %y = ScatterElements(%x, %i, %u) {axis = 0, reduction = \"" +
                reduction + "\"} : ?\n}\n");
      rows.Check({Values(t, {4, 3}, 1), Ints({3, 2}, {0, 3, 0, -1, -4, 2}), Values(t, {3, 2}, 2)});
      Both last("graph (%x: " + name + "[n, 4], %i: i32[m, 3], %u: " + name +
                "[m, 3]) -> (%y) {\n %y = ScatterElements(%x, %i, %u) {axis = -1, reduction = \"" +
                reduction + "\"} : ?\n}\n");
      last.Check({Values(t, {3, 4}, 3), Ints({2, 3}, {1, 1, -1, 0, 2, 2}, DType::kI32),
                  Values(t, {2, 3}, 4)});
    }
  }
}

TEST_CASE("ScatterND: tuples of every length, empty updates") {
  for (const char* reduction : {"none", "add", "max"}) {
    const std::string end = "{reduction = \"" + std::string(reduction) + "\"} : ?\n}\n";
    Both rows(
        "graph (%x: f32[5, 3], %i: i64[m, 1], %u: f32[m, 3]) -> (%y) {\n"
        " %y = ScatterND(%x, %i, %u) " +
        end);
    rows.Check(
        {Values(DType::kF32, {5, 3}, 1), Ints({3, 1}, {4, -5, 4}), Values(DType::kF32, {3, 3}, 2)});
    rows.Check({Values(DType::kF32, {5, 3}, 1), Ints({0, 1}, {}), Values(DType::kF32, {0, 3}, 2)});
    for (int64_t m : {16, 17, 45}) {
      std::vector<int64_t> at;
      for (int64_t i = 0; i < m; ++i) at.push_back(i * i % 10 - 5);
      rows.Check(
          {Values(DType::kF32, {5, 3}, 1), Ints({m, 1}, at), Values(DType::kF32, {m, 3}, 2)});
    }
    Both points(
        "graph (%x: f32[2, 3], %i: i64[2, 2, 2], %u: f32[2, 2]) -> (%y) {\n"
        " %y = ScatterND(%x, %i, %u) " +
        end);
    points.Check({Values(DType::kF32, {2, 3}, 1), Ints({2, 2, 2}, {0, 1, 1, -1, 0, 1, 1, 0}),
                  Values(DType::kF32, {2, 2}, 5)});
  }
}

TEST_CASE("adjoints of gathers") {
  for (const char* axis : {"0", "1", "-1"}) {
    const bool first = axis[0] == '0';
    Both gather("graph (%y: f32[" + std::string(first ? "2, 2, 3" : "4, 2, 2") +
                "], %i: i64[2, 2]) -> (%x) {\n"
                " %s = Constant() {value = tensor i64[2] [4, 3]} : i64[2]\n"
                " %x = weft::GatherGrad(%y, %s, %i) {axis = " +
                axis + "} : ?\n}\n");
    gather.Check({Values(DType::kF32,
                         first ? std::vector<int64_t>{2, 2, 3} : std::vector<int64_t>{4, 2, 2}, 3),
                  Ints({2, 2}, {0, -1, 2, 0})});
  }
  Both elements(
      "graph (%y: f16[2, 2], %i: i64[2, 2]) -> (%x) {\n"
      " %s = Constant() {value = tensor i64[2] [3, 2]} : i64[2]\n"
      " %x = weft::GatherElementsGrad(%y, %s, %i) : ?\n}\n");
  elements.Check({Values(DType::kF16, {2, 2}, 3), Ints({2, 2}, {0, 2, -3, -1})});
  Both tuples(
      "graph (%y: f64[2, 2, 2], %i: i64[2, 2, 1]) -> (%x) {\n"
      " %s = Constant() {value = tensor i64[3] [2, 3, 2]} : i64[3]\n"
      " %x = weft::GatherNDGrad(%y, %s, %i) {batch_dims = 1} : ?\n}\n");
  tuples.Check({Values(DType::kF64, {2, 2, 2}, 3), Ints({2, 2, 1}, {0, 2, 1, -2})});
}

TEST_CASE("an index outside the axis ends the run and names the node") {
  Both elements(
      "graph (%x: f32[4], %i: i64[2], %u: f32[2]) -> (%y) {\n"
      " %y = ScatterElements(%x, %i, %u) : ?\n}\n");
  for (int64_t bad : {int64_t{4}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
    try {
      elements.Run({Values(DType::kF32, {4}, 1), Ints({2}, {0, bad}), Values(DType::kF32, {2}, 1)});
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kIndexRange);
      CHECK(std::string(e.what()).find("ScatterElements") != std::string::npos);
    }
  }
  elements.Check({Values(DType::kF32, {4}, 1), Ints({2}, {3, -4}), Values(DType::kF32, {2}, 1)});
}

TEST_CASE("a million updates are no matter of minutes") {
  constexpr int64_t kMany = 1000000;
  Both nd(
      "graph (%x: f32[n], %i: i64[m, 1], %u: f32[m]) -> (%y) {\n"
      " %y = ScatterND(%x, %i, %u) {reduction = \"add\"} : ?\n}\n");
  auto i = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{kMany, 1});
  auto u = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{kMany});
  for (int64_t k = 0; k < kMany; ++k) {
    i->mutable_data_as<int64_t>()[k] = k * 7 % (kMany / 2);
    u->mutable_data_as<float>()[k] = 1;
  }
  const auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{kMany});
  const TensorPtr y = nd.Run({x, i, u})[0];
  CHECK(y->at(0) == 2);
  CHECK(y->at(kMany / 2 - 1) == 2);
  CHECK(y->at(kMany - 1) == 0);
}

}  // namespace
}  // namespace weft::cpu
