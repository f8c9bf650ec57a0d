/// select_test.cc: operators that choose and order elements, against their definitions in the
/// interpreter, which share no code with them: to the last bit.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace weft::cpu {
namespace {

using Dims = std::vector<int64_t>;

std::string TypeText(const Tensor& t) {
  std::string text = std::string(DTypeName(t.dtype())) + "[";
  for (size_t i = 0; i < t.dims().size(); ++i)
    text += (i ? ", " : "") + std::to_string(t.dims()[i]);
  return text + "]";
}

/// One node on these operands, in a program of the library and by its definition.
void CheckEqual(const std::string& op, const std::string& params, const std::vector<TensorPtr>& in,
                int outputs = 1) {
  std::string text = "weft 1\ngraph (", args, results;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string name = "%x" + std::to_string(i);
    text += (i ? ", " : "") + name + ": " + TypeText(*in[i]);
    args += (i ? ", " : "") + name;
  }
  for (int i = 0; i < outputs; ++i) results += (i ? ", %y" : "%y") + std::to_string(i);
  text +=
      ") -> (" + results + ") {\n " + results + " = " + op + "(" + args + ") {" + params + "}\n}\n";
  CAPTURE(text);
  const auto program = Compile(ParseGraph(text));
  CHECK(program->stats().library_calls == 1);
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  const std::vector<TensorPtr> want = GetEvaluator()->Eval(ParseGraph(text), in);
  for (int run = 0; run < 2; ++run) {
    const std::vector<TensorPtr> got = session.Run(in);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i]->dims() == want[i]->dims());
      CHECK_MESSAGE(got[i]->Equals(*want[i]), "output " << i);
    }
  }
}

/// Small numbers, so that many are equal; `zeros`: the share of zeros. Floats have both zeros, both
/// infinities and NaN of both signs among them.
TensorPtr Values(DType t, const Dims& dims, double zeros, uint32_t seed, int span = 9) {
  auto x = std::make_shared<Tensor>(t, dims);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return int(random() % uint32_t(n)); };
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    const bool zero = below(1000) < int(zeros * 1000);
    if (!IsFloat(t)) {
      const bool is_signed =
          t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
      x->set_int(i, zero                ? 0
                    : t == DType::kBool ? 1
                                        : below(span) + 1 - (is_signed ? span / 2 : 0));
      if (!zero && span > 100 && below(50) == 0)
        x->set_int(i, below(2) ? INT64_MAX : t == DType::kU64 ? -1 : INT64_MIN);
      continue;
    }
    const int kind = below(60);
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN};
    x->set(i, zero ? special[below(2)] : kind < 6 ? special[kind] : (below(span) - span / 2) / 4.0);
  }
  return x;
}
TensorPtr Scalar64(int64_t v) { return Tensor::Ints({v}); }

const DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                        DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
                        DType::kU8,  DType::kU16, DType::kU32, DType::kU64};

TEST_CASE("NonZero: all types, shapes whose rows end within words, densities") {
  for (const DType t : kTypes)
    for (const double zeros : {0.0, 0.5, 0.97})
      CheckEqual("NonZero", "", {Values(t, {3, 70}, zeros, 1)});
  for (const Dims& dims : {Dims{},
                           {0},
                           {1},
                           {63},
                           {64},
                           {65},
                           {200},
                           {3, 5},
                           {7, 64},
                           {5, 63},
                           {100, 1},
                           {2, 3, 4},
                           {4, 1, 100},
                           {0, 3},
                           {3, 0, 2},
                           {5, 7, 2, 3}})
    for (const double zeros : {0.0, 0.3, 0.9, 1.0}) {
      CheckEqual("NonZero", "", {Values(DType::kBool, dims, zeros, 2)});
      CheckEqual("NonZero", "", {Values(DType::kF32, dims, zeros, 3)});
    }
  for (const double zeros : {0.02, 0.5, 0.999})  // several pieces
    CheckEqual("NonZero", "", {Values(DType::kI32, {431, 613}, zeros, 4)});
}

TEST_CASE("Compress: single elements, slices, fewer conditions than slices, every axis") {
  for (const DType t : kTypes)
    CheckEqual("Compress", "axis = 1",
               {Values(t, {3, 70}, 0.1, 5), Values(DType::kBool, {70}, 0.5, 6)});
  for (const double zeros : {0.0, 0.2, 0.9, 1.0}) {
    const auto condition = [&](int64_t n) { return Values(DType::kBool, {n}, zeros, uint32_t(n)); };
    for (const int64_t n : {0, 1, 63, 64, 65, 190})
      CheckEqual("Compress", "", {Values(DType::kI16, {10, 19}, 0, 7), condition(n)});
    CheckEqual("Compress", "axis = 0", {Values(DType::kF32, {130, 3, 5}, 0, 8), condition(130)});
    CheckEqual("Compress", "axis = 0", {Values(DType::kF32, {130, 2}, 0, 8), condition(100)});
    CheckEqual("Compress", "axis = 1", {Values(DType::kF64, {3, 65, 5}, 0, 9), condition(65)});
    CheckEqual("Compress", "axis = -1", {Values(DType::kBool, {3, 65}, 0.5, 10), condition(64)});
    CheckEqual("Compress", "axis = 0", {Values(DType::kF32, {2000, 300}, 0, 11), condition(2000)});
    CheckEqual("Compress", "", {Values(DType::kU8, {200000}, 0.5, 12), condition(200000)});
    CheckEqual("Compress", "axis = 1", {Values(DType::kI64, {300, 700}, 0.5, 13), condition(700)});
  }
  CheckEqual("Compress", "axis = 1",
             {Values(DType::kF32, {0, 4}, 0, 1), Values(DType::kBool, {4}, 0, 1)});
  CheckEqual("Compress", "axis = 0",
             {Values(DType::kF32, {4, 0}, 0, 1), Values(DType::kBool, {4}, 0, 1)});
}

TEST_CASE("Unique: elements and slices, few and many that differ, both orders") {
  for (const char* sorted : {"sorted = 1", "sorted = 0"}) {
    const std::string order = sorted;
    for (const DType t : kTypes) {
      CheckEqual("Unique", order, {Values(t, {7, 30}, 0.1, 14)}, 4);
      CheckEqual("Unique", order, {Values(t, {1000}, 0.1, 15, 1 << 20)}, 4);
      CheckEqual("Unique", order + ", axis = 0", {Values(t, {60, 3}, 0.5, 16, 3)}, 4);
    }
    for (const int64_t n : {0, 1, 2, 400})
      CheckEqual("Unique", order, {Values(DType::kF32, {n}, 0.1, 17)}, 4);
    CheckEqual("Unique", order + ", axis = 1", {Values(DType::kI32, {3, 50, 4}, 0.6, 18, 2)}, 4);
    CheckEqual("Unique", order + ", axis = -1", {Values(DType::kF32, {2, 90}, 0.2, 19, 3)}, 4);
    CheckEqual("Unique", order + ", axis = 0", {Values(DType::kF32, {5, 0}, 0, 20)}, 4);
    CheckEqual("Unique", order + ", axis = 1", {Values(DType::kF32, {1, 0}, 0, 21)}, 4);
    // More than the table takes.
    CheckEqual("Unique", order, {Values(DType::kI64, {70000}, 0, 22, 1 << 30)}, 4);
    CheckEqual("Unique", order, {Values(DType::kF32, {70000}, 0, 23, 1 << 20)}, 4);
    CheckEqual("Unique", order + ", axis = 0", {Values(DType::kI16, {70000, 2}, 0, 24, 1 << 14)},
               4);
  }
}

TEST_CASE("Unique: elements whose hashes meet are told apart") {
  // Multiples of 2^52 share their low bits.
  auto x = std::make_shared<Tensor>(DType::kI64, Dims{4096});
  for (int64_t i = 0; i < 4096; ++i) x->set_int(i, int64_t(uint64_t(i * 37 % 4096) << 52));
  CheckEqual("Unique", "", {x}, 4);
}

TEST_CASE("TopK: all types, both ends, equal elements, every axis") {
  for (const DType t : kTypes)
    for (const char* params : {"largest = 1", "largest = 0"}) {
      for (const int64_t k : {0, 1, 3, 40, 90})
        CheckEqual("TopK", params, {Values(t, {3, 90}, 0.1, 25), Scalar64(k)}, 2);
      CheckEqual("TopK", params, {Values(t, {2, 2000}, 0, 26, 1 << 20), Scalar64(50)}, 2);
      CheckEqual("TopK", params, {Values(t, {1, 2000}, 0, 27, 1 << 20), Scalar64(900)}, 2);
      CheckEqual("TopK", params, {Values(t, {1, 700}, 0, 27, 1 << 20), Scalar64(700)}, 2);
      CheckEqual("TopK", std::string(params) + ", axis = 0",
                 {Values(t, {40, 19}, 0.1, 28), Scalar64(4)}, 2);
    }
  for (const int64_t k : {1, 7, 200, 333})
    CheckEqual("TopK", "axis = 1", {Values(DType::kF32, {3, 333, 21}, 0.1, 29), Scalar64(k)}, 2);
  for (const int64_t k : {1, 100, 3000, 40000, 150000})  // one line, in pieces where it pays
    for (const int span : {3, 1 << 20})
      CheckEqual("TopK", "axis = -1", {Values(DType::kF32, {150000}, 0, 30, span), Scalar64(k)}, 2);
  CheckEqual("TopK", "sorted = 0", {Values(DType::kI64, {300, 100}, 0.1, 31, 1000), Scalar64(5)},
             2);
  CheckEqual("TopK", "", {Values(DType::kF32, {0, 4}, 0, 32), Scalar64(2)}, 2);
  CheckEqual("TopK", "", {Values(DType::kF32, {3, 0}, 0, 32), Scalar64(0)}, 2);
}

TEST_CASE("TopK: nothing but NaN, and falling and rising lines") {
  for (const char* params : {"largest = 1", "largest = 0"}) {
    for (const int kind : {0, 1, 2}) {
      auto x = std::make_shared<Tensor>(DType::kF32, Dims{1, 5000});
      for (int64_t i = 0; i < 5000; ++i)
        x->set(i, kind == 0 ? NAN : kind == 1 ? double(i) : double(-i));
      for (const int64_t k : {5, 2000}) CheckEqual("TopK", params, {x, Scalar64(k)}, 2);
    }
  }
}

TensorPtr Boxes(int64_t batch, int64_t n, uint32_t seed, bool odd) {
  auto x = std::make_shared<Tensor>(DType::kF32, Dims{batch, n, 4});
  std::mt19937 random(seed);
  const auto uniform = [&] { return double(random() % 1000) / 1000; };
  for (int64_t i = 0; i < batch * n; ++i) {
    const double y = std::floor(uniform() * 6), x0 = std::floor(uniform() * 6);
    const double v[] = {y + uniform() / 3, x0 + uniform() / 3, y + 1 + uniform() / 3,
                        x0 + 1 + uniform() / 3};
    const bool turned = random() % 5 == 0;  // any two corners name a box
    for (int64_t k = 0; k < 4; ++k) x->set(i * 4 + k, v[turned ? (k + 2) % 4 : k]);
    if (odd && random() % 20 == 0)
      x->set(i * 4 + int64_t(random() % 4), random() % 2 ? NAN : INFINITY);
    if (odd && random() % 20 == 0)
      for (int64_t k = 0; k < 2; ++k) x->set(i * 4 + 2 + k, x->at(i * 4 + k));  // of no extent
  }
  return x;
}

TEST_CASE("NonMaxSuppression: overlaps, equal scores, thresholds, many boxes") {
  for (const char* params : {"", "center_point_box = 1"})
    for (const bool odd : {false, true})
      for (const auto& [batch, classes, n, most] : {std::tuple{1, 1, 1, 5},
                                                    {2, 3, 40, 7},
                                                    {1, 2, 300, 1000},
                                                    {1, 5, 3000, 30},
                                                    {3, 1, 17, 0},
                                                    {1, 1, 0, 4},
                                                    {0, 2, 3, 4}}) {
        // Few values: many scores are equal.
        auto scores = std::make_shared<Tensor>(DType::kF32, Dims{batch, classes, n});
        std::mt19937 random(33);
        for (int64_t i = 0; i < scores->num_elements(); ++i)
          scores->set(i, double(random() % 40) / 20 - (random() % 2 ? 0.5 : 0.0));
        const TensorPtr boxes = Boxes(batch, n, 34, odd), limit = Scalar64(most);
        for (const double overlap : {0.0, 0.3, 0.9}) {
          const TensorPtr iou = Tensor::FromDoubles(DType::kF32, {}, {overlap});
          CheckEqual("NonMaxSuppression", params, {boxes, scores, limit, iou});
          CheckEqual("NonMaxSuppression", params,
                     {boxes, scores, limit, iou, Tensor::FromDoubles(DType::kF32, {1}, {0.6})});
        }
        CheckEqual("NonMaxSuppression", params, {boxes, scores, limit});
        CheckEqual("NonMaxSuppression", params, {boxes, scores});
      }
}

TEST_CASE("what a routine refuses is told as by the interpreter") {
  const auto code = [](const std::string& graph, const std::vector<TensorPtr>& in) {
    const Graph g = ParseGraph("weft 1\n" + graph);
    std::vector<ErrorCode> codes;
    for (const char* backend : {"cpu", "ref"}) {
      CompileOptions options;
      options.backend = backend;
      try {
        Session(Compile(g, options)).Run(in);
        FAIL_CHECK("ran on " << backend);
      } catch (const Error& e) {
        codes.push_back(e.code());
        CHECK(std::string(e.what()).find("(op ") + std::string(e.what()).find("y") != 0);
      }
    }
    return codes;
  };
  const auto same = [&](const std::string& graph, const std::vector<TensorPtr>& in,
                        ErrorCode want) {
    for (const ErrorCode c : code(graph, in)) CHECK(c == want);
  };
  same("graph (%x: f32[n], %c: bool[m]) -> (%y) {\n %y = Compress(%x, %c) {axis = 0}\n}\n",
       {Values(DType::kF32, {3}, 0, 1), Values(DType::kBool, {4}, 0, 1)},
       ErrorCode::kShapeMismatch);
  same(
      "graph (%x: f32[a, b, 4], %c: f32[a, c, d], %k: i64[]) -> (%y) {\n %y = "
      "NonMaxSuppression(%x, %c, %k)\n}\n",
      {Boxes(1, 3, 1, false), Values(DType::kF32, {1, 1, 4}, 0, 1),
       Tensor::FromDoubles(DType::kI64, {}, {3})},
      ErrorCode::kShapeMismatch);
}

TEST_CASE("results that are held are not written by the next run") {
  const auto program = Compile(ParseGraph(R"(weft 1
graph (%x: f32[n]) -> (%i, %y) {
 %i = NonZero(%x)
 %p = Squeeze(%i)
 %y = Gather(%x, %p)
}
)"));
  Session session(program);
  const TensorPtr a = Tensor::FromDoubles(DType::kF32, {4}, {0, 2, 0, 3}),
                  b = Tensor::FromDoubles(DType::kF32, {4}, {5, 0, 6, 0});
  const std::vector<TensorPtr> first = session.Run({a}), second = session.Run({b});
  CHECK(first[0]->at_int(0) == 1);
  CHECK(first[0]->at_int(1) == 3);
  CHECK(first[1]->at(1) == 3);
  CHECK(second[0]->at_int(0) == 0);
  CHECK(second[1]->at(0) == 5);
}

}  // namespace
}  // namespace weft::cpu
