/// expr.cc: the class Expr: what the functions of operators compute with.
#include <cmath>

#include "../arrays.h"
#include "../errors.h"
#include "define.h"
#include "weft/codegen/expr/math.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {

Expr ToExpr(nb::handle object) {
  Expr e;
  if (nb::try_cast(object, e) && e) return e;
  if (PyBool_Check(object.ptr())) return Expr::Bool(object.ptr() == Py_True);
  const bool is_number = PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr()) ||
                         (nb::hasattr(object, "__float__") && !nb::hasattr(object, "__len__"));
  if (!is_number)
    ThrowError(ErrorCode::kTypeMismatch,
               "a " + TypeNameOf(object) + " is not an expression or a number", "",
               "the function of an operator computes with weft.expr; numpy is for FCompute");
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (PyIndex_Check(object.ptr()) && !PyFloat_Check(object.ptr()) && std::abs(value) > kExact)
    ThrowError(ErrorCode::kTypeMismatch,
               "the number " + nb::cast<std::string>(nb::str(object)) + " has too many digits", "",
               "give its dtype: weft.expr.constant(number, 'i64')");
  return Expr::Literal(value);
}

namespace {

/// Named in errors of dtypes that do not fit.
template <class F>
Expr Made(F&& make) {
  try {
    return make();
  } catch (Error& e) {
    if (e.code() == ErrorCode::kTypeMismatch && e.hint().empty())
      e.SetHint("operands have one dtype; weft.expr.cast(x, 'f32') makes another");
    throw;
  }
}

bool IsOperand(nb::handle object) {
  return nb::isinstance<Expr>(object) || PyFloat_Check(object.ptr()) ||
         PyLong_Check(object.ptr()) || nb::hasattr(object, "__float__");
}

DType DTypeOf(const Expr& e) { return e->dtype(); }
bool IsFloatExpr(const Expr& e) { return IsFloat(DTypeOf(e)); }

/// As Python's: towards minus infinity.
Expr FloorDivide(const Expr& a, const Expr& b) {
  if (IsFloatExpr(a) && IsFloatExpr(b)) return Expr::Unary(UnOp::kFloor, a / b);
  return Expr::Binary(BinOp::kFloorDiv, a, b);
}
/// With the sign of the divisor.
Expr Modulo(const Expr& a, const Expr& b) {
  if (IsFloatExpr(a) && IsFloatExpr(b)) return a - Expr::Unary(UnOp::kFloor, a / b) * b;
  return Expr::Binary(BinOp::kFloorMod, a, b);
}
Expr Power(const Expr& x, const Expr& e) {
  if (e->kind() == ExprKind::kConst) {
    if (e->is_const(1)) return x;
    if (e->is_const(2)) return x * x;
    if (e->is_const(3)) return x * x * x;
  }
  return Expr::Call(CallOp::kPow, {x, e});
}

using Binary = Expr (*)(const Expr&, const Expr&);
template <BinOp op>
Expr BinaryOf(const Expr& a, const Expr& b) {
  return Expr::Binary(op, a, b);
}

/// Literals beside an expression take its dtype, before what is done depends on dtypes.
Expr ApplyBinary(Binary f, Expr a, Expr b) {
  return Made([&] {
    const bool whole = a->is_literal() ? !IsFloatExpr(b) : b->is_literal() && !IsFloatExpr(a);
    if (whole && a->is_literal() != b->is_literal()) {
      Expr& literal = a->is_literal() ? a : b;
      const DType t = DTypeOf(a->is_literal() ? b : a);
      const double v = literal->const_value();
      WEFT_CHECK(v == std::trunc(v) && t != DType::kBool, kTypeMismatch,
                 "the number {} beside an expression of {}", v, DTypeName(t));
      literal = Expr::ConstInt(t, int64_t(v));
      WEFT_CHECK(literal->const_value() == v, kTypeMismatch, "the number {} is beyond {}", v,
                 DTypeName(t));
    }
    return f(a, b);
  });
}

void BindOperator(nb::class_<Expr>& c, const char* forward, const char* reversed, Binary f) {
  const std::string sig = "(self, other: ExprLike, /) -> Expr";
  c.def(
      forward,
      [f](const Expr& a, nb::handle b) {
        return IsOperand(b) ? nb::cast(ApplyBinary(f, a, ToExpr(b)))
                            : nb::borrow(Py_NotImplemented);
      },
      nb::sig(("def " + std::string(forward) + sig).c_str()));
  if (!reversed) return;
  c.def(
      reversed,
      [f](const Expr& a, nb::handle b) {
        return IsOperand(b) ? nb::cast(ApplyBinary(f, ToExpr(b), a))
                            : nb::borrow(Py_NotImplemented);
      },
      nb::sig(("def " + std::string(reversed) + sig).c_str()));
}

struct NamedUnary {
  const char* name;
  UnOp op;
};
constexpr NamedUnary kUnary[] = {
    {"abs", UnOp::kAbs},     {"floor", UnOp::kFloor}, {"ceil", UnOp::kCeil},
    {"round", UnOp::kRound}, {"trunc", UnOp::kTrunc}, {"sqrt", UnOp::kSqrt},
    {"isnan", UnOp::kIsNan}, {"isinf", UnOp::kIsInf}, {"logical_not", UnOp::kNot},
};
struct NamedBinary {
  const char* name;
  Binary f;
};
constexpr NamedBinary kBinary[] = {
    {"minimum", BinaryOf<BinOp::kMin>},
    {"maximum", BinaryOf<BinOp::kMax>},
    {"fmod", BinaryOf<BinOp::kMod>},
    {"equal", BinaryOf<BinOp::kEq>},
    {"not_equal", BinaryOf<BinOp::kNe>},
    {"logical_and", BinaryOf<BinOp::kAnd>},
    {"logical_or", BinaryOf<BinOp::kOr>},
    {"logical_xor", BinaryOf<BinOp::kXor>},
    {"pow", Power},
};

/// A function by its name: of one expression, or of two.
Expr CallByName(const std::string& name, const nb::args& arguments) {
  Exprs given;
  for (const nb::handle a : arguments) given.push_back(ToExpr(a));
  return Made([&]() -> Expr {
    if (given.size() == 1) {
      const bool number = given[0]->is_literal();
      WEFT_CHECK(!number, kTypeMismatch, "{} of a number: the module math has that", name);
      for (const NamedUnary& row : kUnary)
        if (name == row.name) return Expr::Unary(row.op, given[0]);
      for (const MathFunction& row : MathFunctions())
        if (name == row.name) return Expr::Call(row.op, given);
    } else if (given.size() == 2) {
      for (const NamedBinary& row : kBinary)
        if (name == row.name) return ApplyBinary(row.f, given[0], given[1]);
    }
    WEFT_THROW(kUsage, "there is no function '{}' of {} expressions", name, given.size());
  });
}

Expr Constant(nb::handle value, nb::handle dtype) {
  const DType t = ToDType(dtype);
  WEFT_CHECK(IsComputable(t), kTypeMismatch, "a constant of {}", DTypeName(t));
  if (IsFloat(t)) {
    const double v = PyFloat_AsDouble(value.ptr());
    if (v == -1 && PyErr_Occurred()) throw nb::python_error();
    return Expr::Const(t, v);
  }
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  uint64_t bits = 0;
  if (t == DType::kU64) {
    bits = PyLong_AsUnsignedLongLong(whole.ptr());
  } else {
    bits = uint64_t(PyLong_AsLongLong(whole.ptr()));
  }
  if (PyErr_Occurred()) throw nb::python_error();
  const Expr made = Expr::ConstInt(t, int64_t(bits));
  WEFT_CHECK(t == DType::kU64 || made->const_int() == int64_t(bits), kTypeMismatch,
             "the number {} is beyond {}", int64_t(bits), DTypeName(t));
  return made;
}

}  // namespace

void BindExpr(nb::module_& m) {
  nb::class_<Expr> c(m, "Expr",
                     "One number of an operand, and what is computed from it: what the function of "
                     "an operator gets and gives. Arithmetic and comparisons make others, as the "
                     "functions of weft.expr do; operands have one dtype, numbers take it.");
  c.def_prop_ro(
       "dtype", [](const Expr& e) { return std::string(DTypeName(e->dtype())); },
       "'f32', 'bool' ...")
      .def("__neg__", [](const Expr& e) { return Made([&] { return -e; }); })
      .def("__pos__", [](const Expr& e) { return e; })
      .def("__abs__",
           [](const Expr& e) { return Made([&] { return Expr::Unary(UnOp::kAbs, e); }); })
      .def("__invert__",
           [](const Expr& e) {
             return Made([&] {
               return Expr::Unary(e->dtype() == DType::kBool ? UnOp::kNot : UnOp::kBitNot, e);
             });
           })
      .def("__hash__", [](const Expr& e) { return std::hash<const void*>()(e.get()); })
      .def(
          "__bool__",
          [](const Expr&) -> bool {
            ThrowError(ErrorCode::kTypeMismatch, "an expression has no value before a kernel runs",
                       "", "choose by weft.expr.where, which is part of the kernel");
          },
          nb::sig("def __bool__(self) -> typing.NoReturn"))
      .def("__repr__", [](const Expr& e) {
        return "<Expr " + std::string(DTypeName(e->dtype())) + ": " + e->CodeGen() + ">";
      });
  BindOperator(c, "__add__", "__radd__", BinaryOf<BinOp::kAdd>);
  BindOperator(c, "__sub__", "__rsub__", BinaryOf<BinOp::kSub>);
  BindOperator(c, "__mul__", "__rmul__", BinaryOf<BinOp::kMul>);
  BindOperator(c, "__truediv__", "__rtruediv__", BinaryOf<BinOp::kDiv>);
  BindOperator(c, "__floordiv__", "__rfloordiv__", FloorDivide);
  BindOperator(c, "__mod__", "__rmod__", Modulo);
  BindOperator(c, "__pow__", "__rpow__", Power);
  BindOperator(c, "__and__", "__rand__", BinaryOf<BinOp::kAnd>);
  BindOperator(c, "__or__", "__ror__", BinaryOf<BinOp::kOr>);
  BindOperator(c, "__xor__", "__rxor__", BinaryOf<BinOp::kXor>);
  BindOperator(c, "__lshift__", "__rlshift__", BinaryOf<BinOp::kShl>);
  BindOperator(c, "__rshift__", "__rrshift__", BinaryOf<BinOp::kShr>);
  BindOperator(c, "__lt__", nullptr, BinaryOf<BinOp::kLt>);
  BindOperator(c, "__le__", nullptr, BinaryOf<BinOp::kLe>);
  BindOperator(c, "__gt__", nullptr, BinaryOf<BinOp::kGt>);
  BindOperator(c, "__ge__", nullptr, BinaryOf<BinOp::kGe>);
  // Any: a bool is what Python expects of these.
  c.def(
       "__eq__",
       [](const Expr& a, nb::handle b) {
         return IsOperand(b) ? nb::cast(ApplyBinary(BinaryOf<BinOp::kEq>, a, ToExpr(b)))
                             : nb::borrow(Py_NotImplemented);
       },
       nb::sig("def __eq__(self, other: object, /) -> typing.Any"))
      .def(
          "__ne__",
          [](const Expr& a, nb::handle b) {
            return IsOperand(b) ? nb::cast(ApplyBinary(BinaryOf<BinOp::kNe>, a, ToExpr(b)))
                                : nb::borrow(Py_NotImplemented);
          },
          nb::sig("def __ne__(self, other: object, /) -> typing.Any"));
  // numpy's scalars on the left leave the operation to the expression.
  c.attr("__array_ufunc__") = nb::none();
  m.def("_expr_call", CallByName,
        nb::sig("def _expr_call(name: str, /, *arguments: ExprLike) -> Expr"));
  m.def(
      "_expr_where",
      [](nb::handle condition, nb::handle a, nb::handle b) {
        const Expr c = ToExpr(condition), x = ToExpr(a), y = ToExpr(b);
        return Made([&] { return Expr::Select(c, x, y); });
      },
      nb::sig("def _expr_where(condition: ExprLike, a: ExprLike, b: ExprLike, /) -> Expr"));
  m.def(
      "_expr_cast",
      [](nb::handle x, nb::handle dtype) {
        const Expr e = ToExpr(x);
        const DType t = ToDType(dtype);
        return Made([&] { return Expr::Cast(t, e); });
      },
      nb::sig("def _expr_cast(x: ExprLike, dtype: DTypeLike, /) -> Expr"));
  m.def("_expr_constant", Constant,
        nb::sig("def _expr_constant(value: int | float, dtype: DTypeLike, /) -> Expr"));
}

}  // namespace weft::python
