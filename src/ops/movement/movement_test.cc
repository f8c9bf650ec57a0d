/// movement_test.cc: shapes, values, results and gradients of the movement ops, against symbolic
/// cases worked by hand and plain loops.
#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

Tensors OneOp(const std::string& op, const Tensors& x, AttrDict attrs = {}) {
  return RunOp(op, x, std::move(attrs));
}
TensorPtr Iota(std::vector<int64_t> dims, DType t = DType::kF64) {
  auto out = std::make_shared<Tensor>(t, std::move(dims));
  for (int64_t i = 0; i < out->num_elements(); ++i)
    out->set(i, double(i) * 0.5 + 0.25 * double(i % 3));
  return out;
}
TensorPtr I64(std::vector<int64_t> v) { return Tensor::Ints(v); }
TensorPtr I64(std::vector<int64_t> dims, std::vector<int64_t> v) {
  return Tensor::Reshaped(Tensor::Ints(v), std::move(dims));
}

/// A graph under construction, and the inferred shape of one of its entries.
struct Builder {
  Graph g;
  NodeEntry Input(const std::string& shape, DType t = DType::kF32) {
    return NodeEntry(g.AddInput("x" + std::to_string(g.inputs().size()), t, Shape::Parse(shape)));
  }
  NodeEntry Const(const std::vector<int64_t>& v) { return g.AddConstant(Tensor::Ints(v)); }
  NodeEntry Scalar(int64_t v) { return g.AddConstant(Tensor::Scalar(DType::kI64, double(v))); }
  std::string ShapeOf(const NodeEntry& e) {
    g.outputs = std::vector<NodeEntry>{e};
    g = Inferred(std::move(g));
    return g.GetAttr<ShapeMap>("shape")[g.outputs[0]].ToString();
  }
};

}  // namespace

TEST_CASE("symbolic extents: the micro-cases") {
  Builder b;
  SUBCASE("Concat of [m] and [n]") {
    CHECK(b.ShapeOf(ApplyOp("Concat", {b.Input("[m]"), b.Input("[n]")}, {{"axis", 0}})) ==
          "[m + n]");
  }
  SUBCASE("reshape(-1, 6) and back") {
    const NodeEntry x = b.Input("[a, b, 2, 3]");
    const NodeEntry flat = ApplyOp("Reshape", {x, b.Const({-1, 6})});
    const NodeEntry a = ApplyOp("Shape", {x}, {{"start", 0}, {"end", 1}});
    const NodeEntry shape = ApplyOp("Concat", {a, b.Const({-1, 6})}, {{"axis", 0}});
    CHECK(b.ShapeOf(ApplyOp("Reshape", {flat, shape})) == "[a, b, 6]");
  }
  SUBCASE("x[-3:]") {
    CHECK(b.ShapeOf(ApplyOp("Slice", {b.Input("[h]"), b.Const({-3}), b.Const({INT64_MAX})})) ==
          Shape({Min(SymInt(3), SymInt::Symbol("h"))}).ToString());
  }
  SUBCASE("x[:-1]") {
    CHECK(b.ShapeOf(ApplyOp("Slice", {b.Input("[h]"), b.Const({0}), b.Const({-1})})) ==
          Shape({Max(SymInt::Symbol("h") - 1, SymInt(0))}).ToString());
  }
  SUBCASE("x[::-1]") {
    CHECK(b.ShapeOf(ApplyOp("Slice", {b.Input("[h]"), b.Const({-1}), b.Const({INT64_MIN}),
                                      b.Const({0}), b.Const({-1})})) == "[h]");
  }
  SUBCASE("Reshape to ReduceProd(Shape)") {
    const NodeEntry x = b.Input("[a, b, 2]");
    const NodeEntry n = ApplyOp("ReduceProd", {ApplyOp("Shape", {x})}, {{"keepdims", 1}});
    CHECK(b.ShapeOf(ApplyOp("Reshape", {x, n})) ==
          Shape({SymInt::Symbol("a") * SymInt::Symbol("b") * 2}).ToString());
  }
  SUBCASE("Expand by Where(Equal(shape, -1), 1, shape)") {
    const NodeEntry x = b.Input("[n, 1]");
    const NodeEntry shape =
        ApplyOp("Concat", {ApplyOp("Shape", {x}, {{"end", 1}}), b.Const({-1})}, {{"axis", 0}});
    const NodeEntry fixed =
        ApplyOp("Where", {ApplyOp("Equal", {shape, b.Const({-1})}), b.Const({1}), shape});
    CHECK(b.ShapeOf(ApplyOp("Expand", {x, fixed})) == "[n, 1]");
  }
  SUBCASE("Range over an extent") {
    const NodeEntry n = ApplyOp("Squeeze", {ApplyOp("Shape", {b.Input("[n]")})});
    CHECK(b.ShapeOf(ApplyOp("Range", {b.Scalar(0), n, b.Scalar(1)})) == "[n]");
  }
  SUBCASE("h / 2 * 2 through Shape, Div, Mul") {
    const NodeEntry h = ApplyOp("Shape", {b.Input("[h]")});
    const NodeEntry even = ApplyOp("Mul", {ApplyOp("Div", {h, b.Const({2})}), b.Const({2})});
    CHECK(b.ShapeOf(ApplyOp("ConstantOfShape", {even})) ==
          Shape({FloorDiv(SymInt::Symbol("h"), 2) * 2}).ToString());
  }
  SUBCASE("Pad by (7 - h % 7) % 7") {
    const NodeEntry x = b.Input("[h]");
    const NodeEntry r = ApplyOp(
        "Mod",
        {ApplyOp("Sub", {b.Const({7}), ApplyOp("Mod", {ApplyOp("Shape", {x}), b.Const({7})})}),
         b.Const({7})});
    const NodeEntry pads = ApplyOp("Concat", {b.Const({0}), r}, {{"axis", 0}});
    const SymInt h = SymInt::Symbol("h");
    CHECK(b.ShapeOf(ApplyOp("Pad", {x, pads})) ==
          Shape({h + Mod(SymInt(7) - Mod(h, 7), 7)}).ToString());
  }
  SUBCASE("a [0, -1] with an unknown extent") {
    CHECK(b.ShapeOf(ApplyOp("Reshape", {b.Input("[?, 4, 3]"), b.Const({0, -1})})) == "[?, 12]");
  }
  SUBCASE("Split of 2h in two") {
    CHECK(b.ShapeOf(NodeEntry(ApplyOp("Split", {b.Input("[2*h]")}, {{"num_outputs", 2}}).node,
                              1)) == "[h]");
  }
  SUBCASE("Gather of an extent, Tile, Flatten, Transpose") {
    const NodeEntry x = b.Input("[n, 3, 4]");
    const NodeEntry d = ApplyOp("Gather", {ApplyOp("Shape", {x}), b.Const({0, -1})});
    CHECK(b.ShapeOf(ApplyOp("Tile", {ApplyOp("Transpose", {ApplyOp("Flatten", {x})}), d})) ==
          "[12*n, 4*n]");
  }
}

TEST_CASE("inferred slices equal numpy's for all small bounds") {
  for (int64_t d : {0, 1, 4}) {
    for (int64_t s = -6; s <= 6; ++s) {
      for (int64_t e = -6; e <= 6; ++e) {
        for (int64_t step : {1, 2, -1, -3}) {
          // The semantics of ONNX, spelled out.
          std::vector<int64_t> taken;
          if (d > 0) {
            int64_t a = s < 0 ? s + d : s, z = e < 0 ? e + d : e;
            a = std::min(std::max<int64_t>(a, 0), step > 0 ? d : d - 1);
            z = step > 0 ? std::min(std::max<int64_t>(z, 0), d)
                         : std::min(std::max<int64_t>(z, -1), d - 1);
            for (int64_t i = a; step > 0 ? i < z : i > z; i += step) taken.push_back(i);
          }
          Graph g;
          const NodeEntry x(g.AddInput("x", DType::kI64, Shape({SymInt::Symbol("h")})));
          const NodeEntry y =
              ApplyOp("Slice", {x, g.AddConstant(I64({s})), g.AddConstant(I64({e})),
                                g.AddConstant(I64({0})), g.AddConstant(I64({step}))});
          g.outputs = std::vector<NodeEntry>{y};
          Graph inferred = Inferred(g);
          const Shape shape = inferred.GetAttr<ShapeMap>("shape")[inferred.outputs[0]];
          CAPTURE(d);
          CAPTURE(s);
          CAPTURE(e);
          CAPTURE(step);
          CAPTURE(shape.ToString());
          REQUIRE(shape.fully_known());
          REQUIRE(Evaluate(shape[0], {{"h", d}}) == int64_t(taken.size()));
          if (d != 4) continue;
          const TensorPtr got = Reference().Eval(g, {I64({10, 11, 12, 13})})[0];
          REQUIRE(got->num_elements() == int64_t(taken.size()));
          for (size_t i = 0; i < taken.size(); ++i)
            REQUIRE(got->at_int(int64_t(i)) == 10 + taken[i]);
        }
      }
    }
  }
}

TEST_CASE("movement ops move the right elements") {
  const TensorPtr x = Iota({2, 3, 4});
  const auto at = [&](int64_t i, int64_t j, int64_t k) { return x->at((i * 3 + j) * 4 + k); };
  SUBCASE("Transpose") {
    const TensorPtr y = OneOp("Transpose", {x}, {{"perm", Ints{2, 0, 1}}})[0];
    REQUIRE(y->dims() == std::vector<int64_t>{4, 2, 3});
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t k = 0; k < 4; ++k) CHECK(y->at((k * 2 + i) * 3 + j) == at(i, j, k));
  }
  SUBCASE("Reshape, Flatten, Squeeze, Unsqueeze keep the order") {
    for (const TensorPtr& y :
         {OneOp("Reshape", {x, I64({4, -1, 2})})[0], OneOp("Flatten", {x}, {{"axis", 2}})[0],
          OneOp("Unsqueeze", {x, I64({0, -2})})[0], OneOp("Squeeze", {Iota({1, 24, 1})})[0]}) {
      REQUIRE(y->num_elements() == 24);
      for (int64_t i = 0; i < 24; ++i) CHECK(y->at(i) == x->at(i));
    }
  }
  SUBCASE("Concat and Split") {
    const TensorPtr y = OneOp("Concat", {x, Iota({2, 1, 4}), Iota({2, 0, 4})}, {{"axis", 1}})[0];
    REQUIRE(y->dims() == std::vector<int64_t>{2, 4, 4});
    CHECK(y->at(16 + 4) == at(1, 1, 0));
    CHECK(y->at(12) == 0);
    const Tensors parts = OneOp("Split", {x, I64({1, 3})}, {{"axis", -1}, {"num_outputs", 2}});
    CHECK(parts[1]->dims() == std::vector<int64_t>{2, 3, 3});
    CHECK(parts[1]->at(4) == at(0, 1, 2));
    CHECK(OneOp("Split", {Iota({5})}, {{"num_outputs", 2}})[1]->dims() == std::vector<int64_t>{2});
  }
  SUBCASE("Expand and Tile") {
    CHECK(Values(*OneOp("Expand", {T(DType::kF64, {2, 1}, {1, 2}), I64({1, 2})})[0]) ==
          std::vector<double>{1, 1, 2, 2});
    CHECK(Values(*OneOp("Tile", {T(DType::kF64, {2}, {1, 2}), I64({2})})[0]) ==
          std::vector<double>{1, 2, 1, 2});
  }
  SUBCASE("Pad") {
    const TensorPtr v = F64({1, 2, 3, 4});
    const auto pad = [&](const char* mode) {
      return Values(*OneOp("Pad", {v, I64({2, 1})}, {{"mode", mode}})[0]);
    };
    CHECK(pad("constant") == std::vector<double>{0, 0, 1, 2, 3, 4, 0});
    CHECK(pad("edge") == std::vector<double>{1, 1, 1, 2, 3, 4, 4});
    CHECK(pad("reflect") == std::vector<double>{3, 2, 1, 2, 3, 4, 3});
    CHECK(pad("wrap") == std::vector<double>{3, 4, 1, 2, 3, 4, 1});
    CHECK(Values(*OneOp("Pad", {v, I64({-1, 1}), Scalar64(9)})[0]) ==
          std::vector<double>{2, 3, 4, 9});
  }
  SUBCASE("DepthToSpace is undone by SpaceToDepth") {
    const TensorPtr d = Iota({1, 8, 2, 3});
    const TensorPtr y = OneOp("DepthToSpace", {d}, {{"blocksize", 2}})[0];
    CHECK(y->dims() == std::vector<int64_t>{1, 2, 4, 6});
    CHECK(OneOp("SpaceToDepth", {y}, {{"blocksize", 2}})[0]->Equals(*d));
    CHECK(OneOp("DepthToSpace", {d}, {{"blocksize", 2}, {"mode", "CRD"}})[0]->at(1) == d->at(6));
  }
  SUBCASE("Shape, Size, Trilu, EyeLike, OneHot, Range") {
    CHECK(Values(*OneOp("Shape", {x}, {{"start", -2}})[0]) == std::vector<double>{3, 4});
    CHECK(OneOp("Size", {x})[0]->at(0) == 24);
    CHECK(Values(*OneOp("Trilu", {T(DType::kF64, {2, 2}, {1, 2, 3, 4})})[0]) ==
          std::vector<double>{1, 2, 0, 4});
    CHECK(Values(*OneOp("Trilu", {T(DType::kF64, {2, 2}, {1, 2, 3, 4}), I64({}, {-1})},
                        {{"upper", 0}})[0]) == std::vector<double>{0, 0, 3, 0});
    CHECK(Values(*OneOp("EyeLike", {T(DType::kF64, {2, 3}, {1, 2, 3, 4, 5, 6})}, {{"k", 1}})[0]) ==
          std::vector<double>{0, 1, 0, 0, 0, 1});
    CHECK(Values(*OneOp("OneHot", {I64({1, -1}), I64({}, {3}), F64({0, 5})})[0]) ==
          std::vector<double>{0, 5, 0, 0, 0, 5});
  }
}

TEST_CASE("Pad cuts before it continues") {
  const TensorPtr x = F64({1, 2, 3, 4});
  const auto pad = [&](const char* mode, int64_t begin, int64_t end) {
    const Tensors in{x, I64({begin, end})};
    CheckGradient("Pad", in, {{"mode", mode}});
    return Values(*OneOp("Pad", in, {{"mode", mode}})[0]);
  };
  CHECK(pad("wrap", 1, -1) == std::vector<double>{3, 1, 2, 3});
  CHECK(pad("wrap", -2, 3) == std::vector<double>{3, 4, 3, 4, 3});
  CHECK(pad("reflect", -1, 5) == std::vector<double>{2, 3, 4, 3, 2, 3, 4, 3});
  CHECK(pad("reflect", 3, -3) == std::vector<double>{1, 1, 1, 1});
  CHECK(pad("edge", 2, -3) == std::vector<double>{1, 1, 1});
  for (const char* mode : {"edge", "reflect", "wrap"}) {
    CHECK(CodeOf([&] {
            OneOp("Pad", {x, I64({-4, 2})}, {{"mode", mode}});
          }) == ErrorCode::kShapeMismatch);
    CHECK(OneOp("Pad", {x, I64({-2, -2})}, {{"mode", mode}})[0]->num_elements() == 0);
  }
  CHECK(Values(*OneOp("Pad", {x, I64({-5, 7}), Scalar64(9)})[0]) == std::vector<double>(6, 9));
}

TEST_CASE("gradients of the movement ops") {
  const TensorPtr x = Iota({2, 3, 4});
  CheckGradient("Transpose", {x}, {{"perm", Ints{2, 0, 1}}});
  CheckGradient("Reshape", {x, I64({4, -1})});
  CheckGradient("Flatten", {x});
  CheckGradient("Unsqueeze", {x, I64({1})});
  CheckGradient("Squeeze", {Iota({2, 1, 3}), I64({1})});
  CheckGradient("Concat", {x, Iota({2, 1, 4})}, {{"axis", 1}});
  CheckGradient("Concat", {F64({1, 2}), F64({3})}, {{"axis", -1}});
  CheckGradient("Split", {Iota({5, 2})}, {{"num_outputs", 2}});
  CheckGradient("Slice", {Iota({5, 4}), I64({-1, 1}), I64({-9, 4}), I64({0, 1}), I64({-2, 1})});
  CheckGradient("Expand", {Iota({3, 1}), I64({2, 1, 4})});
  CheckGradient("Tile", {Iota({2, 3}), I64({2, 1})});
  CheckGradient("Pad", {Iota({2, 3}), I64({1, 0, 0, 2}), Scalar64(2)});
  CheckGradient("Pad", {Iota({4}), I64({-1, 2}), Scalar64(2)});
  for (const char* mode : {"edge", "reflect", "wrap"})
    CheckGradient("Pad", {Iota({4}), I64({2, 1})}, {{"mode", mode}});
  CheckGradient("DepthToSpace", {Iota({1, 4, 2, 1})}, {{"blocksize", 2}});
  CheckGradient("DepthToSpace", {Iota({1, 4, 2, 3})}, {{"blocksize", 2}, {"mode", "CRD"}});
  CheckGradient("SpaceToDepth", {Iota({1, 1, 2, 4})}, {{"blocksize", 2}});
  CheckGradient("Trilu", {Iota({3, 3}), I64({}, {1})});
  CheckGradient("OneHot", {I64({1, -1, 0}), I64({}, {3}), F64({0.5, 2})});
  CheckGradient("weft::SumTo", {Iota({2, 3, 4}), Iota({3, 1})});
  CheckGradient("weft::SumTo", {Iota({2, 3}), Iota({3})});
}

TEST_CASE("movement ops refuse what does not fit") {
  const TensorPtr x = Iota({2, 3});
  CHECK(CodeOf([&] { OneOp("Reshape", {x, I64({4, 2})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { OneOp("Reshape", {x, I64({-1, -1})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { OneOp("Reshape", {x, I64({4, -1})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { OneOp("Squeeze", {x, I64({0})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { OneOp("Unsqueeze", {x, I64({0, 0})}); }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { OneOp("Flatten", {x}, {{"axis", 3}}); }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] {
          OneOp("Transpose", {x}, {{"perm", Ints{0, 0}}});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] {
          OneOp("Concat", {x, Iota({2, 4})}, {{"axis", 0}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { OneOp("Split", {x}, {{"axis", 0}}); }) == ErrorCode::kBadAttribute);
  // What only a run knows is held to its shape.
  const auto code = [](const char* op, const std::vector<std::string>& inputs, const char* attrs) {
    return CodeOf([&] { Inferred(GraphOfRow(*Op::Get(op), inputs, attrs)); });
  };
  CHECK(code("Split", {"f32[6]", "i64[2]"}, "num_outputs = 1") == ErrorCode::kShapeMismatch);
  CHECK(code("Split", {"f32[6]", "i64[2, 1]"}, "num_outputs = 2") == ErrorCode::kShapeMismatch);
  const Graph parts =
      Inferred(GraphOfRow(*Op::Get("Split"), {"f32[6]", "i64[k]"}, "num_outputs = 2"));
  CHECK_NOTHROW(parts.GetAttr<Facts>("facts").CheckHolds({{"k", 2}}));
  CHECK(CodeOf([&] {
          parts.GetAttr<Facts>("facts").CheckHolds({{"k", 3}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(code("Trilu", {"f32[2, 2]", "i64[2, 2]"}, "") == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          OneOp("Slice", {x, I64({0}), I64({1}), I64({0}), I64({0})});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { OneOp("Pad", {x, I64({1, 1})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          OneOp("Pad", {x, I64({1, 1, 0, 0})}, {{"mode", "mirror"}});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { OneOp("Expand", {x, I64({2, 4})}); }) == ErrorCode::kShapeMismatch);
}

}  // namespace weft::ops
