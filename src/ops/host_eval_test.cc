/// host_eval_test.cc: operators that run on the host, against values of the standard's definitions
/// worked out by hand, against each other, and against finite differences.
#include <cmath>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

TensorPtr I64s(std::vector<int64_t> dims, const std::vector<double>& v) {
  return T(DType::kI64, std::move(dims), v);
}
TensorPtr Strs(std::vector<int64_t> dims, std::vector<std::string> v) {
  auto t = std::make_shared<Tensor>(DType::kString, std::move(dims));
  t->mutable_strings() = std::move(v);
  return t;
}
GraphPtr Body(const std::string& text) {
  return std::make_shared<const Graph>(ParseGraph("weft 1\n" + text));
}

}  // namespace

TEST_CASE("casts to 8-bit floats saturate, or say that there is no such number") {
  const TensorPtr x = F32({1, 448, 464, 465, 1e6, -1e6, HUGE_VAL, NAN, 0.001});
  const TensorPtr sat = RunOp("Cast", {x}, {{"to", DType::kF8E4M3FN}})[0];
  CHECK(sat->at(1) == 448);
  CHECK(sat->at(3) == 448);
  CHECK(sat->at(4) == 448);
  CHECK(sat->at(5) == -448);
  CHECK(sat->at(6) == 448);
  CHECK(std::isnan(sat->at(7)));
  const TensorPtr hard =
      RunOp("Cast", {x}, {{"to", DType::kF8E4M3FN}, {"saturate", int64_t{0}}})[0];
  CHECK(hard->at(1) == 448);
  CHECK(hard->at(2) == 448);  // the tie goes to the even neighbour
  CHECK(std::isnan(hard->at(3)));
  CHECK(std::isnan(hard->at(4)));
  const TensorPtr ieee = RunOp("Cast", {x}, {{"to", DType::kF8E5M2}, {"saturate", int64_t{0}}})[0];
  CHECK(std::isinf(ieee->at(4)));
  CHECK(ieee->at(5) == -HUGE_VAL);
  // Every code of the dtype survives the way through f32.
  auto codes = std::make_shared<Tensor>(DType::kF8E5M2, std::vector<int64_t>{256});
  for (int i = 0; i < 256; ++i) codes->mutable_data_as<uint8_t>()[i] = uint8_t(i);
  const TensorPtr wide = RunOp("Cast", {codes}, {{"to", DType::kF32}})[0];
  const TensorPtr back =
      RunOp("Cast", {wide}, {{"to", DType::kF8E5M2}, {"saturate", int64_t{0}}})[0];
  for (int64_t i = 0; i < 256; ++i)
    CHECK((back->at(i) == codes->at(i) || (std::isnan(back->at(i)) && std::isnan(codes->at(i)))));
}

TEST_CASE("far beyond the largest 8-bit float is that float") {
  for (const double v : {1e10, 3e38})
    CHECK(RunOp("Cast", {F32({v})}, {{"to", DType::kF8E5M2}})[0]->at(0) == 57344);
  CHECK(RunOp("Cast", {F32({-3e38})}, {{"to", DType::kF4E2M1}})[0]->at(0) == -6);
}

TEST_CASE("casts of 4-bit integers and of strings") {
  const TensorPtr four = RunOp("Cast", {I64s({5}, {-9, -8, 7, 8, 100})}, {{"to", DType::kI4}})[0];
  CHECK(Values(*four) == std::vector<double>{7, -8, 7, -8, 4});
  const TensorPtr numbers =
      RunOp("Cast", {Strs({3}, {"2.5", "-INF", "NaN"})}, {{"to", DType::kF32}})[0];
  CHECK(numbers->at(0) == 2.5);
  CHECK(numbers->at(1) == -HUGE_VAL);
  CHECK(std::isnan(numbers->at(2)));
  CHECK(RunOp("Cast", {F32({0.1, 3})}, {{"to", DType::kString}})[0]->strings() ==
        std::vector<std::string>{"0.1", "3"});
  CHECK(CodeOf([] {
          RunOp("Cast", {Strs({1}, {"two"})}, {{"to", DType::kF32}});
        }) == ErrorCode::kBadInput);
}

TEST_CASE("operators that only move elements take dtypes without arithmetic") {
  const TensorPtr s = Strs({2, 3}, {"a", "b", "c", "d", "e", "f"});
  CHECK(RunOp("Transpose", {s})[0]->strings() ==
        std::vector<std::string>{"a", "d", "b", "e", "c", "f"});
  CHECK(RunOp("Gather", {s, I64s({1}, {-1})}, {{"axis", int64_t{1}}})[0]->strings() ==
        std::vector<std::string>{"c", "f"});
  CHECK(RunOp("Pad", {s, I64s({4}, {0, 1, 0, 0})})[0]->strings() ==
        std::vector<std::string>{"", "a", "b", "c", "", "d", "e", "f"});
  const TensorPtr four = T(DType::kI4, {3}, {-8, 1, 7});
  CHECK(Values(*RunOp("Concat", {four, four}, {{"axis", int64_t{0}}})[0]) ==
        std::vector<double>{-8, 1, 7, -8, 1, 7});
  // What computes does not.
  CHECK(CodeOf([&] { RunOp("Add", {four, four}); }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("TopK, Unique, Compress and NonZero") {
  const TensorPtr x = F64({3, 1, 3, NAN, 2});
  const Tensors top = RunOp("TopK", {x, I64s({1}, {3})});
  CHECK(std::isnan(top[0]->at(0)));
  CHECK(Values(*top[1]) == std::vector<double>{3, 0, 2});  // of equal ones the first first
  const Tensors low = RunOp("TopK", {x, I64s({1}, {2})}, {{"largest", int64_t{0}}});
  CHECK(Values(*low[1]) == std::vector<double>{1, 4});
  CHECK(CodeOf([&] { RunOp("TopK", {x, I64s({1}, {6})}); }) == ErrorCode::kShapeMismatch);
  CheckGradient("TopK", {T(DType::kF64, {2, 3}, {1, 5, 2, 7, 3, 4}), I64s({1}, {2})});

  const Tensors u = RunOp("Unique", {I64s({6}, {2, 1, 1, 3, 4, 3})}, {{"sorted", int64_t{0}}});
  CHECK(Values(*u[0]) == std::vector<double>{2, 1, 3, 4});
  CHECK(Values(*u[1]) == std::vector<double>{0, 1, 3, 4});
  CHECK(Values(*u[2]) == std::vector<double>{0, 1, 1, 2, 3, 2});
  CHECK(Values(*u[3]) == std::vector<double>{1, 2, 2, 1});
  CHECK(Values(*RunOp("NonZero", {T(DType::kF32, {2, 2}, {1, 0, 0, 2})})[0]) ==
        std::vector<double>{0, 1, 0, 1});
  CHECK(RunOp("NonZero", {T(DType::kF32, {2, 0}, {})})[0]->dims() == std::vector<int64_t>{2, 0});
  CHECK(Values(*RunOp("Compress",
                      {T(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}), T(DType::kBool, {2}, {0, 1})},
                      {{"axis", int64_t{0}}})[0]) == std::vector<double>{3, 4});
}

TEST_CASE("scattering: the last of equal indices stays, reductions combine all") {
  const TensorPtr x = F64({1, 2, 3, 4}), i = I64s({3}, {1, 1, -1}), u = F64({10, 20, 30});
  const auto scatter = [&](const char* reduction) {
    return Values(*RunOp("ScatterElements", {x, i, u}, {{"reduction", reduction}})[0]);
  };
  CHECK(scatter("none") == std::vector<double>{1, 20, 3, 30});
  CHECK(scatter("add") == std::vector<double>{1, 32, 3, 34});
  CHECK(scatter("mul") == std::vector<double>{1, 400, 3, 120});
  CHECK(scatter("max") == std::vector<double>{1, 20, 3, 30});
  CHECK(scatter("min") == std::vector<double>{1, 2, 3, 4});
  CHECK(CodeOf([&] { scatter("sum"); }) == ErrorCode::kBadAttribute);
  const TensorPtr once = I64s({2}, {3, 0}), two = F64({5, 6});
  for (const char* reduction : {"none", "add"}) {
    CheckGradient("ScatterElements", {x, once, two}, {{"reduction", reduction}});
    CheckGradient("ScatterND", {x, I64s({2, 1}, {3, 0}), two}, {{"reduction", reduction}});
  }
  // Updates that cover a corner of data.
  CHECK(Values(*RunOp("ScatterElements", {T(DType::kF64, {2, 2}, {1, 2, 3, 4}), I64s({1, 1}, {1}),
                                          T(DType::kF64, {1, 1}, {9})})[0]) ==
        std::vector<double>{1, 2, 9, 4});
  CHECK(Values(*RunOp("ScatterElements", {x, I64s({0}, {}), F64({})})[0]) == Values(*x));
}

TEST_CASE("Einsum agrees with MatMul, Transpose and ReduceSum; its gradients with differences") {
  const TensorPtr a = T(DType::kF64, {2, 3}, {1, 2, 3, 4, 5, 6});
  const TensorPtr b = T(DType::kF64, {3, 2}, {7, 8, 9, 10, 11, 12});
  const auto einsum = [](const Tensors& in, const char* equation) {
    return Values(*RunOp("Einsum", in, {{"equation", equation}})[0]);
  };
  CHECK(einsum({a, b}, "ij,jk->ik") == Values(*RunOp("MatMul", {a, b})[0]));
  CHECK(einsum({a, b}, "ij,jk") == Values(*RunOp("MatMul", {a, b})[0]));
  CHECK(einsum({a}, "ij->ji") == Values(*RunOp("Transpose", {a})[0]));
  CHECK(einsum({a}, "i...->...") == std::vector<double>{5, 7, 9});
  CHECK(einsum({T(DType::kF64, {2, 2}, {1, 2, 3, 4})}, "ii->i") == std::vector<double>{1, 4});
  CheckGradient("Einsum", {a, b}, {{"equation", "ij,jk->ik"}});
  CheckGradient("Einsum", {a}, {{"equation", "ij->i"}});
  CheckGradient("Einsum", {a, T(DType::kF64, {1, 3}, {1, 2, 3})}, {{"equation", "...j,...j->..."}});
  CHECK(CodeOf([&] { einsum({a, b}, "ij,ik->jk"); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { einsum({a}, "i1->i"); }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { einsum({a}, "ij->k"); }) == ErrorCode::kBadAttribute);
}

TEST_CASE("operators along an axis: gradients and edges") {
  const TensorPtr x = T(DType::kF64, {2, 3}, {1, -2, 3, 0.5, 5, -6});
  CheckGradient("CumProd", {x, I64s({}, {1})});
  CheckGradient("CumProd", {x, I64s({}, {0})},
                {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}});
  CheckGradient("ReverseSequence", {x, I64s({3}, {2, 1, 2})});
  CHECK(Values(*RunOp("Hardmax", {F64({1, 4, 4})})[0]) == std::vector<double>{0, 1, 0});
}

TEST_CASE("the inverse of a DFT is the signal, one-sided as well") {
  const TensorPtr x = T(DType::kF64, {1, 5, 1}, {1, -2, 3, 0.5, 4});
  const TensorPtr full = RunOp("DFT", {x})[0];
  CHECK(full->dims() == std::vector<int64_t>{1, 5, 2});
  CHECK(full->at(0) == doctest::Approx(6.5));
  const TensorPtr back = RunOp("DFT", {full}, {{"inverse", int64_t{1}}})[0];
  const TensorPtr half = RunOp("DFT", {x}, {{"onesided", int64_t{1}}})[0];
  CHECK(half->dims() == std::vector<int64_t>{1, 3, 2});
  Graph g;
  const NodeEntry in(g.AddInput("x", DType::kF64, Shape::OfInts(half->dims())));
  g.outputs = std::vector<NodeEntry>{ApplyOp("DFT", {in, ScalarLike(in, DType::kI64, 5)},
                                             {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}})};
  const TensorPtr real = Reference().Eval(g, {half})[0];
  REQUIRE(real->dims() == std::vector<int64_t>{1, 5, 1});
  for (int64_t i = 0; i < 5; ++i) {
    CHECK(back->at(2 * i) == doctest::Approx(x->at(i)));
    CHECK(back->at(2 * i + 1) == doctest::Approx(0).scale(1));
    CHECK(real->at(i) == doctest::Approx(x->at(i)));
  }
}

TEST_CASE("quantizing and back is within half a step; products of integers are exact") {
  const TensorPtr x = F32({-1.3, 0, 0.26, 0.74, 200}), scale = T(DType::kF32, {}, {0.5});
  const TensorPtr zero = T(DType::kI8, {}, {3});
  const TensorPtr q = RunOp("QuantizeLinear", {x, scale, zero})[0];
  CHECK(Values(*q) == std::vector<double>{0, 3, 4, 4, 127});
  const TensorPtr y = RunOp("DequantizeLinear", {q, scale, zero})[0];
  for (int64_t i = 0; i < 4; ++i) CHECK(std::fabs(y->at(i) - x->at(i)) <= 0.25 + 1e-6);
  const TensorPtr four = RunOp("QuantizeLinear", {x, scale, T(DType::kI4, {}, {1})})[0];
  CHECK(Values(*four) == std::vector<double>{-2, 1, 2, 2, 7});
  // One scale a block of two.
  const TensorPtr blocked = RunOp(
      "DequantizeLinear", {T(DType::kU8, {1, 4}, {1, 2, 3, 4}), T(DType::kF32, {1, 2}, {1, 10})},
      {{"axis", int64_t{1}}, {"block_size", int64_t{2}}})[0];
  CHECK(Values(*blocked) == std::vector<double>{1, 2, 30, 40});
  const TensorPtr a = T(DType::kU8, {2, 2}, {255, 0, 3, 4}), b = T(DType::kI8, {2, 1}, {-128, 5});
  CHECK(Values(*RunOp("MatMulInteger", {a, b, T(DType::kU8, {}, {3})})[0]) ==
        std::vector<double>{-128. * 252 - 15, 5});
}

TEST_CASE("Det, NonMaxSuppression") {
  CHECK(RunOp("Det", {T(DType::kF64, {3, 3}, {0, 2, 1, 1, 0, 0, 3, 1, 5})})[0]->at(0) ==
        doctest::Approx(-9));
  CHECK(RunOp("Det", {T(DType::kF64, {2, 2}, {1, 2, 2, 4})})[0]->at(0) == 0);
  const TensorPtr boxes = T(DType::kF32, {1, 3, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11});
  const TensorPtr scores = T(DType::kF32, {1, 1, 3}, {0.5, 0.9, 0.7});
  const TensorPtr kept =
      RunOp("NonMaxSuppression", {boxes, scores, I64s({1}, {3}), T(DType::kF32, {1}, {0.5})})[0];
  CHECK(Values(*kept) == std::vector<double>{0, 0, 1, 0, 0, 2});
  CHECK(RunOp("NonMaxSuppression", {boxes, scores})[0]->dims() == std::vector<int64_t>{0, 3});
}

TEST_CASE("a GRU, an LSTM and an RNN of zero weights, and what must not fit") {
  const auto zeros = [](std::vector<int64_t> dims) {
    return std::make_shared<const Tensor>(DType::kF32, std::move(dims));
  };
  const TensorPtr x = T(DType::kF32, {2, 1, 1}, {1, 2});
  const TensorPtr h = T(DType::kF32, {1, 1, 2}, {4, -4});
  // z = sigmoid(0) = 1/2 and the candidate is 0: the state halves with every step.
  const Tensors gru = RunOp("GRU", {x, zeros({1, 6, 1}), zeros({1, 6, 2}), nullptr, nullptr, h});
  CHECK(Values(*gru[1]) == std::vector<double>{1, -1});
  // c' = c / 2, h = tanh(c') / 2.
  const Tensors lstm =
      RunOp("LSTM", {x, zeros({1, 8, 1}), zeros({1, 8, 2}), nullptr, nullptr, nullptr, h});
  CHECK(Values(*lstm[2]) == std::vector<double>{1, -1});
  CHECK(lstm[1]->at(0) == doctest::Approx(std::tanh(1.0) / 2));
  const Tensors rnn = RunOp("RNN", {x, T(DType::kF32, {1, 1, 1}, {1}), zeros({1, 1, 1})});
  CHECK(rnn[0]->at(1) == doctest::Approx(std::tanh(2.0)));
  CHECK(CodeOf([&] {
          RunOp("GRU", {x, zeros({1, 5, 1}), zeros({1, 6, 2})});
        }) == ErrorCode::kShapeMismatch);
  CHECK(
      CodeOf([&] {
        RunOp("RNN", {x, zeros({1, 1, 1}), zeros({1, 1, 1})}, {{"activations", Strings({"Sine"})}});
      }) == ErrorCode::kBadAttribute);
}

TEST_CASE("If, Loop and Scan") {
  const GraphPtr twice = Body("graph @t(%a: f32[2]) -> (%y) {\n  %y = Add(%a, %a) : ?\n}\n");
  const GraphPtr negative = Body("graph @e(%a: f32[2]) -> (%y) {\n  %y = Neg(%a) : ?\n}\n");
  const AttrDict branches{{"then_branch", twice}, {"else_branch", negative}};
  const TensorPtr a = F32({1, 2});
  CHECK(Values(*RunOp("If", {T(DType::kBool, {}, {1}), a}, branches)[0]) ==
        std::vector<double>{2, 4});
  CHECK(Values(*RunOp("If", {T(DType::kBool, {}, {0}), a}, branches)[0]) ==
        std::vector<double>{-1, -2});

  // v doubles until it is 8 or more; every v is kept.
  const GraphPtr body = Body(
      "graph @b(%i: i64[], %c: bool[], %v: f32[], %end: f32[]) -> (%go, %w, %w) {\n"
      "  %w = Add(%v, %v) : ?\n  %go = Less(%w, %end) : ?\n}\n");
  const AttrDict loop{{"body", body}, {"num_captures", int64_t{1}}};
  const TensorPtr one = T(DType::kF32, {}, {1}), end = T(DType::kF32, {}, {8});
  const Tensors free = RunOp("Loop", {nullptr, nullptr, one, end}, loop);
  CHECK(free[0]->at(0) == 8);
  CHECK(Values(*free[1]) == std::vector<double>{2, 4, 8});
  const Tensors bound = RunOp("Loop", {I64s({}, {2}), nullptr, one, end}, loop);
  CHECK(Values(*bound[1]) == std::vector<double>{2, 4});
  const Tensors none = RunOp("Loop", {I64s({}, {0}), nullptr, one, end}, loop);
  CHECK(none[0]->at(0) == 1);
  CHECK(none[1]->dims() == std::vector<int64_t>{0});

  // Running sums.
  const GraphPtr sum =
      Body("graph @s(%s: f32[], %x: f32[]) -> (%t, %t) {\n  %t = Add(%s, %x) : ?\n}\n");
  AttrDict scan{{"body", sum}, {"num_scan_inputs", int64_t{1}}};
  const TensorPtr zero = T(DType::kF32, {}, {0}), xs = F32({1, 2, 3});
  CHECK(Values(*RunOp("Scan", {zero, xs}, scan)[1]) == std::vector<double>{1, 3, 6});
  scan["scan_input_directions"] = Ints({1});
  scan["scan_output_directions"] = Ints({1});
  CHECK(Values(*RunOp("Scan", {zero, xs}, scan)[1]) == std::vector<double>{6, 5, 3});
  CHECK(
      CodeOf([&] {
        RunOp("If", {T(DType::kBool, {}, {1}), a}, {{"then_branch", twice}, {"else_branch", sum}});
      }) == ErrorCode::kArity);
}

TEST_CASE("strings") {
  CHECK(RunOp("StringConcat", {Strs({2, 1}, {"a", "b"}), Strs({2}, {"x", "y"})})[0]->strings() ==
        std::vector<std::string>{"ax", "ay", "bx", "by"});
  const Tensors parts = RunOp("StringSplit", {Strs({2}, {" one  two ", "x"})});
  CHECK(parts[0]->strings() == std::vector<std::string>{"one", "two", "x", ""});
  CHECK(Values(*parts[1]) == std::vector<double>{2, 1});
  const Tensors cut =
      RunOp("StringSplit", {Strs({1}, {"a,,b,c"})}, {{"delimiter", ","}, {"maxsplit", int64_t{2}}});
  CHECK(cut[0]->strings() == std::vector<std::string>{"a", "", "b,c"});
  CHECK(RunOp("StringNormalizer", {Strs({3}, {"the", "Fox", "THE"})},
              {{"case_change_action", "UPPER"}, {"stopwords", Strings({"The"})}})[0]
            ->strings() == std::vector<std::string>{"FOX"});
  CHECK(Values(*RunOp("Equal", {Strs({2}, {"a", "b"}), Strs({}, {"b"})})[0]) ==
        std::vector<double>{0, 1});
}

TEST_CASE("random values: equal for equal seeds, within their bounds") {
  const AttrDict seeded{{"shape", Ints({500})}, {"seed", 3.0}, {"low", -2.0}, {"high", 5.0}};
  const TensorPtr a = RunOp("RandomUniform", {}, seeded)[0],
                  b = RunOp("RandomUniform", {}, seeded)[0];
  CHECK(a->Equals(*b));
  double mean = 0;
  for (int64_t i = 0; i < 500; ++i) {
    CHECK(a->at(i) >= -2);
    CHECK(a->at(i) < 5);
    mean += a->at(i) / 500;
  }
  CHECK(mean == doctest::Approx(1.5).epsilon(0.3));
  const AttrDict free{{"shape", Ints({8})}};
  CHECK(!RunOp("RandomNormal", {}, free)[0]->Equals(*RunOp("RandomNormal", {}, free)[0]));
  const TensorPtr drawn = RunOp("Multinomial", {T(DType::kF32, {1, 3}, {-INFINITY, 0, -INFINITY})},
                                {{"sample_size", int64_t{4}}})[0];
  CHECK(Values(*drawn) == std::vector<double>{1, 1, 1, 1});
}

}  // namespace weft::ops
