#include "weft/codegen/expr/expr_text.h"

#include <doctest/doctest.h>

#include "weft/codegen/expr/math.h"
#include "weft/support/error.h"

namespace weft {
namespace {

void CheckSame(const Exprs& e) {
  const auto text = PrintExprs(e);
  REQUIRE(text);
  CAPTURE(*text);
  const Exprs again = ParseExprs(*text);
  REQUIRE(again.size() == e.size());
  for (size_t k = 0; k < e.size(); ++k) CHECK(again[k] == e[k]);
}

TEST_CASE("text of expressions reads back as the same nodes") {
  const Expr x = Expr::Slot(0, DType::kF32), y = Expr::Slot(1, DType::kF32);
  const Expr i = Expr::Slot(2, DType::kI32), h = Expr::Slot(3, DType::kF16);
  CheckSame({x});
  CheckSame({x * y + 0.1, x * y, x});
  for (int op = 0; op <= int(BinOp::kMax); ++op)
    CheckSame({Expr::Binary(BinOp(op), i, Expr::ConstInt(DType::kI32, 7))});
  for (int op = 0; op <= int(BinOp::kNe); ++op) {
    const bool integer = op >= int(BinOp::kAnd) && op <= int(BinOp::kShr);
    if (integer || op == int(BinOp::kFloorDiv) || op == int(BinOp::kFloorMod))
      CheckSame({Expr::Binary(BinOp(op), i, i + 1.0)});
    else
      CheckSame({Expr::Binary(BinOp(op), x, y)});
  }
  const Expr less = Lt(x, y);
  for (int op = 0; op <= int(UnOp::kUnlikely); ++op) {
    const bool logical = UnOp(op) == UnOp::kNot || UnOp(op) == UnOp::kUnlikely;
    CheckSame({Expr::Unary(UnOp(op), logical ? less : UnOp(op) == UnOp::kBitNot ? i : x)});
  }
  for (const MathFunction& f : MathFunctions())
    CheckSame({Expr::Call(f.op, f.op == CallOp::kPow ? Exprs{x, y} : Exprs{x})});
  CheckSame({Expr::Select(less, Expr::Cast(DType::kF32, h), x), Expr::Bitcast(DType::kI32, x)});
  CheckSame({Expr::Fma(x, y, x), Expr::Cast(DType::kF16, x)});
  CheckSame({Expr::Philox(Expr::Slot(0, DType::kU64), Expr::Slot(1, DType::kU64))});
  CheckSame({Expr::Const(DType::kF32, -0.0), Expr::Const(DType::kF64, 0.1), Expr::Literal(0.1)});
}

TEST_CASE("what is not made of numbers alone has no text") {
  CHECK(!PrintExprs({Expr::Index(0)}));
  CHECK(!PrintExprs({Expr::Load(0, DType::kF32, {Expr::Index(0)})}));
  CHECK(!PrintExprs({Expr::Variable("v") + 1.0}));
  CHECK(!PrintExprs({Expr::Dim(SymInt::Symbol("n"))}));
}

TEST_CASE("text that is no expression is refused") {
  for (const char* text : {"",
                           "x",
                           "x 0",
                           "x 0 f32",
                           "x 0 f33; = 0",
                           "x -1 f32; = 0",
                           "x 99999999 f32; = 0",
                           "x 0 f32; = 1",
                           "x 0 f32; add 0 1; = 0",
                           "x 0 f32; add 0; = 0",
                           "x 0 f32; call nothing 0; = 0",
                           "c f32 xyz; = 0",
                           "c string 0; = 0",
                           "x 0 f32 = 0",
                           "x 0 f32; frobnicate 0; = 0",
                           "x 0 f32; cast f8e5m2 0; = 0",
                           "x 0 f32; x 1 f64; add 0 1; = 2",
                           "x 0 f32; not 0; = 1",
                           "x 0 f16; call exp 0; = 1",
                           "x 0 f32; bitcast i64 0; = 1",
                           "x 0 f32; philox 0 0; = 1",
                           "x 0 f32; select 0 0 0; = 1",
                           "x 0 f16; fma 0 0 0; = 1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(ParseExprs(text), UserError);
  }
}

}  // namespace
}  // namespace weft
