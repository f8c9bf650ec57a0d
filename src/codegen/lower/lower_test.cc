#include "weft/codegen/lower/lower.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "weft/codegen/interp/interpreter.h"
#include "weft/support/error.h"

namespace weft {
namespace {

SymInt S(const char* name) { return SymInt::Symbol(name); }
TensorSpec F(std::vector<SymInt> dims) { return {DType::kF32, std::move(dims)}; }
Expr I(int k) { return Expr::Index(k); }
Indices Is(int rank) {
  Indices at;
  for (int i = 0; i < rank; ++i) at.push_back(I(i));
  return at;
}
Expr X(int k, Indices at) { return Expr::Load(k, DType::kF32, std::move(at)); }

/// Runs a kernel the slow way, straight from the definition in kernel.h: a tree walk at every
/// point.
class Walker {
 public:
  Walker(const Kernel& k, const std::vector<TensorPtr>& inputs, const std::vector<int64_t>& symbols)
      : k_(k), inputs_(inputs) {
    for (size_t i = 0; i < symbols.size(); ++i) bind_[KernelSymbol(int(i)).ToString()] = symbols[i];
  }
  std::vector<std::vector<double>> Run() {
    std::vector<std::vector<double>> out;
    for (size_t b = size_t(k_.num_inputs); b < k_.buffers.size(); ++b)
      out.emplace_back(size_t(Evaluate(k_.buffers[b].num_elements, bind_)), std::nan(""));
    for (const KernelStore& s : k_.stores) {
      const size_t loops = s.per_row ? size_t(k_.num_outer) : k_.dims.size();
      Each(loops, [&] {
        out[size_t(s.buffer - k_.num_inputs)].at(size_t(Eval(s.offset))) = Eval(s.value);
      });
    }
    return out;
  }

 private:
  void Each(size_t loops, const std::function<void()>& f, size_t k = 0) {
    if (k == 0) at_.assign(k_.dims.size(), 0);
    if (k == loops) return f();
    const int64_t n = Evaluate(k_.dims[k], bind_);
    for (int64_t i = 0; i < n; ++i) {
      at_[k] = i;
      Each(loops, f, k + 1);
    }
  }
  double Eval(const Expr& e) {
    const auto o = [&](int i) { return Eval(e->operand(i)); };
    switch (e->kind()) {
      case ExprKind::kConst:
        return e->const_value();
      case ExprKind::kDim:
        return double(Evaluate(e->dim(), bind_));
      case ExprKind::kIndex:
        return double(at_[size_t(e->index())]);
      case ExprKind::kReduceVar:
        return double(vars_.at(size_t(e->level())).at(size_t(e->index())));
      case ExprKind::kLoad: {
        if (e->has_guard() && Eval(e->operands().back()) == 0) return 0;
        const auto i = int64_t(o(0));
        REQUIRE(i >= 0);
        REQUIRE(i < inputs_[size_t(e->buffer())]->num_elements());
        return inputs_[size_t(e->buffer())]->at(i);
      }
      case ExprKind::kUnary:
        if (e->un_op() == UnOp::kNeg) return -o(0);
        if (e->un_op() == UnOp::kSqrt) return std::sqrt(o(0));
        return o(0) == 0;
      case ExprKind::kBinary: {
        const double a = o(0), b = o(1);
        switch (e->bin_op()) {
          case BinOp::kAdd:
            return a + b;
          case BinOp::kSub:
            return a - b;
          case BinOp::kMul:
            return a * b;
          case BinOp::kDiv:
            return a / b;
          case BinOp::kFloorDiv:
            return std::floor(a / b);
          case BinOp::kFloorMod:
            return a - b * std::floor(a / b);
          case BinOp::kMin:
            return std::min(a, b);
          case BinOp::kMax:
            return std::max(a, b);
          case BinOp::kAnd:
            return a != 0 && b != 0;
          case BinOp::kOr:
            return a != 0 || b != 0;
          case BinOp::kLt:
            return a < b;
          case BinOp::kLe:
            return a <= b;
          case BinOp::kGe:
            return a >= b;
          case BinOp::kGt:
            return a > b;
          case BinOp::kEq:
            return a == b;
          default:
            return a != b;
        }
      }
      case ExprKind::kSelect:
        return o(0) != 0 ? o(1) : o(2);
      case ExprKind::kCast:
        return o(0);
      case ExprKind::kCall:
        return e->call() == CallOp::kExp ? std::exp(o(0)) : std::log(o(0));
      case ExprKind::kReduce: {
        if (vars_.size() <= size_t(e->level())) vars_.resize(size_t(e->level()) + 1);
        std::vector<int64_t> n;
        for (SymInt x : e->extents()) n.push_back(Evaluate(x, bind_));
        double acc = e->reduce_op() == ReduceOp::kMax ? -INFINITY : 0;
        std::vector<int64_t> at(n.size(), 0);
        for (int64_t p = 0; p < CheckedProduct(n); ++p) {
          int64_t rest = p;
          for (size_t k = n.size(); k-- > 0; rest /= n[k]) at[k] = rest % n[k];
          vars_[size_t(e->level())] = at;
          const double v = o(0);
          acc = e->reduce_op() == ReduceOp::kMax ? std::max(acc, v) : acc + v;
        }
        return acc;
      }
      default:
        REQUIRE(false);
        return 0;
    }
  }
  static int64_t CheckedProduct(const std::vector<int64_t>& n) { return NumElements(n); }

  const Kernel& k_;
  const std::vector<TensorPtr>& inputs_;
  SymBindings bind_;
  std::vector<int64_t> at_;
  std::vector<std::vector<int64_t>> vars_;
};

/// Lowers, and compares what the kernel computes with the interpreter.
KernelPtr Lower(const ComputeSpec& spec, const SymBindings& bind = {},
                const Facts& facts = Facts()) {
  const LoweredKernel lowered = LowerKernel(spec, facts);
  std::vector<TensorPtr> inputs;
  for (const TensorSpec& t : spec.inputs) {
    std::vector<int64_t> dims;
    for (SymInt d : t.dims) dims.push_back(Evaluate(d, bind));
    std::vector<double> v(size_t(NumElements(dims)));
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = double((i * 37 + inputs.size() * 11) % 101) / 25 - 2;
    inputs.push_back(Tensor::FromDoubles(t.dtype, dims, v));
  }
  std::vector<int64_t> symbols;
  for (SymInt s : lowered.symbols) symbols.push_back(Evaluate(s, bind));
  const auto got = Walker(*lowered.kernel, inputs, symbols).Run();
  const auto want = Interpret(spec, inputs, bind, InterpretMode::kDouble);
  for (size_t k = 0; k < want.size(); ++k) {
    REQUIRE(int64_t(got[k].size()) == want[k]->num_elements());
    for (size_t i = 0; i < got[k].size(); ++i)
      CHECK(got[k][i] == doctest::Approx(want[k]->at(int64_t(i))).epsilon(1e-5));
  }
  return lowered.kernel;
}
std::vector<int64_t> Dims(const KernelPtr& k) {
  std::vector<int64_t> d;
  for (SymInt s : k->dims) d.push_back(s.value());
  return d;
}
using Ns = std::vector<int64_t>;
size_t CountLoads(const KernelPtr& k) {
  Exprs roots;
  for (const KernelStore& s : k->stores) roots.push_back(s.value);
  const auto order = PostOrder(roots);
  return size_t(std::count_if(order.begin(), order.end(),
                              [](const ExprNode* n) { return n->kind() == ExprKind::kLoad; }));
}

Expr Softmax(const Indices& at, int axis, SymInt extent) {
  const auto x = [&](const Expr& r) {
    Indices i = at;
    i[size_t(axis)] = r;
    return X(0, i);
  };
  const Expr max =
      Expr::Reduce(ReduceOp::kMax, {extent}, [&](const Indices& r) { return x(r[0]); });
  const auto e = [&](const Expr& r) { return Expr::Call(CallOp::kExp, {x(r) - max}); };
  return e(at[size_t(axis)]) /
         Expr::Reduce(ReduceOp::kSum, {extent}, [&](const Indices& r) { return e(r[0]); });
}

TEST_CASE("an element-wise chain is one contiguous loop") {
  const std::vector<SymInt> d{2, 3, 4};
  const KernelPtr k =
      Lower({{F(d), F(d), F(d)}, {F(d)}, {X(0, Is(3)) * X(1, Is(3)) + X(2, Is(3))}});
  CHECK(k->tmpl == KernelTemplate::kElementwise);
  CHECK(Dims(k) == Ns{24});
  CHECK(k->stores[0].offset == I(0));
  CHECK(k->vector_loop == 0);
  CHECK(k->small_index);
}

TEST_CASE("a bias keeps its own loop") {
  const KernelPtr k = Lower({{F({2, 3, 5}), F({5})}, {F({2, 3, 5})}, {X(0, Is(3)) + X(1, {I(2)})}});
  CHECK(Dims(k) == Ns{6, 5});
  const KernelPtr c = Lower({{F({2, 3, 5, 7}), F({3, 1, 1})},
                             {F({2, 3, 5, 7})},
                             {X(0, Is(4)) + X(1, {I(1), Expr::Int(0), Expr::Int(0)})}});
  CHECK(Dims(c) == Ns{2, 3, 35});
}

TEST_CASE("scalars and empty tensors") {
  const KernelPtr k = Lower({{F({})}, {F({})}, {X(0, {}) * 2.0}});
  CHECK(k->dims.empty());
  CHECK(k->vector_loop == -1);
  Lower({{F({0, 4})}, {F({0, 4})}, {X(0, Is(2)) * 2.0}});
  Lower({{F({1, 1})}, {F({1, 1, 1})}, {X(0, {Expr::Int(0), Expr::Int(0)})}});
}

TEST_CASE("soft-max is one row kernel") {
  const KernelPtr k = Lower({{F({3, 4, 6})}, {F({3, 4, 6})}, {Softmax(Is(3), 2, 6)}});
  CHECK(k->tmpl == KernelTemplate::kRow);
  CHECK(Dims(k) == Ns{12, 6});
  CHECK(k->num_outer == 1);
  CHECK(k->vector_loop == 1);
  // Over the middle axis rows are strided and lanes go along P.
  const KernelPtr m = Lower({{F({3, 4, 6})}, {F({3, 4, 6})}, {Softmax(Is(3), 1, 4)}});
  CHECK(m->tmpl == KernelTemplate::kRow);
  CHECK(Dims(m) == Ns{3, 6, 4});
  CHECK(m->num_outer == 2);
  CHECK(m->vector_loop == 1);
  // Square: which dimension is the row follows from what the reductions depend on.
  for (int axis : {0, 1}) {
    const KernelPtr q = Lower({{F({4, 4})}, {F({4, 4})}, {Softmax(Is(2), axis, 4)}});
    CHECK(q->tmpl == KernelTemplate::kRow);
    CHECK(q->vector_loop == (axis == 1 ? 1 : 0));
  }
}

TEST_CASE("equal kernels have equal names, whatever the graph calls its sizes") {
  const auto make = [](SymInt b, SymInt n) {
    return ComputeSpec{{F({b, n})}, {F({b, n})}, {Softmax(Is(2), 1, n)}};
  };
  const LoweredKernel a = LowerKernel(make(S("batch"), S("len")), Facts()),
                      b = LowerKernel(make(S("x"), S("a")), Facts());
  CHECK(a.kernel->CanonicalText() == b.kernel->CanonicalText());
  CHECK(a.kernel->Name() == b.kernel->Name());
  CHECK(a.symbols.size() == 2);
  CHECK(a.symbols[0] == S("batch"));
  CHECK_FALSE(a.kernel->small_index);
  Facts bounded;
  bounded.SetRange(S("batch"), {1, 1000});
  bounded.SetRange(S("len"), {1, 1000});
  CHECK(LowerKernel(make(S("batch"), S("len")), bounded).kernel->small_index);
  CHECK(LowerKernel({{F({4, 8})}, {F({4, 8})}, {Softmax(Is(2), 1, 8)}}, Facts()).kernel->Name() !=
        a.kernel->Name());
}

TEST_CASE("layer normalisation: two reductions, three outputs") {
  const Expr i = I(0);
  const auto x = [&](const Expr& r) { return X(0, {i, r}); };
  const auto sum = [&](const std::function<Expr(const Expr&)>& f) {
    return Expr::Reduce(ReduceOp::kSum, {SymInt(8)}, [&](const Indices& r) { return f(r[0]); });
  };
  const Expr mean = sum(x) / 8.0;
  const Expr var = sum([&](const Expr& r) { return (x(r) - mean) * (x(r) - mean); }) / 8.0;
  const Expr y = (x(I(1)) - mean) / Expr::Unary(UnOp::kSqrt, var + 1e-5) * X(1, {I(1)});
  const KernelPtr k = Lower({{F({5, 8}), F({8})}, {F({5, 8}), F({5}), F({5, 1})}, {y, mean, var}});
  CHECK(k->tmpl == KernelTemplate::kRow);
  CHECK(Dims(k) == Ns{5, 8});
  CHECK_FALSE(k->stores[0].per_row);
  CHECK(k->stores[1].per_row);
  CHECK(k->stores[2].per_row);
}

TEST_CASE("plain reductions") {
  const auto sum = [](std::vector<SymInt> extents, const std::function<Expr(const Indices&)>& f) {
    return Expr::Reduce(ReduceOp::kSum, extents, f);
  };
  // Over the middle axis, kept.
  const KernelPtr m = Lower({{F({3, 5, 4})}, {F({3, 1, 4})}, {sum({5}, [](const Indices& r) {
                               return X(0, {I(0), r[0], I(2)});
                             })}});
  CHECK(m->tmpl == KernelTemplate::kRow);
  CHECK(Dims(m) == Ns{3, 4, 5});
  CHECK(m->vector_loop == 1);
  CHECK(m->stores[0].per_row);
  // Over the last two axes: one row loop, one bound variable.
  const KernelPtr t = Lower({{F({3, 5, 4})}, {F({3})}, {sum({5, 4}, [](const Indices& r) {
                               return X(0, {I(0), r[0], r[1]});
                             })}});
  CHECK(Dims(t) == Ns{3, 20});
  CHECK(t->stores[0].value->extents().size() == 1);
  // Over everything.
  const KernelPtr a =
      Lower({{F({3, 4})}, {F({})}, {sum({3, 4}, [](const Indices& r) { return X(0, r); })}});
  CHECK(a->tmpl == KernelTemplate::kRow);
  CHECK(a->num_outer == 0);
  CHECK(Dims(a) == Ns{12});
  // Batch statistics: outer and inner axes.
  const KernelPtr b = Lower({{F({3, 4, 5})}, {F({4})}, {sum({3, 5}, [](const Indices& r) {
                               return X(0, {r[0], I(0), r[1]});
                             })}});
  CHECK(Dims(b) == Ns{4, 3, 5});
  // The element-wise result beside its own row sum: the reduction reads what the output reads.
  for (int axis : {0, 1}) {
    const auto y = [&](const Expr& r, const Expr& p) {
      return axis == 1 ? X(0, {p, r}) * 3.0 : X(0, {r, p}) * 3.0;
    };
    const KernelPtr s =
        Lower({{F({4, 4})},
               {F({4, 4}), F({4})},
               {X(0, Is(2)) * 3.0, sum({4}, [&](const Indices& r) { return y(r[0], I(0)); })}});
    CHECK(s->tmpl == KernelTemplate::kRow);
    CHECK(s->stores[1].per_row);
    CHECK(s->num_outer == 1);
    // Full store of axis 0 rows: offset r * 4 + p.
    CHECK(AffineCoefficient(s->stores[0].offset, 1) == Expr::Int(axis == 1 ? 1 : 4));
  }
}

TEST_CASE("contractions and windows stay inside the point") {
  const Expr mm = Expr::Reduce(ReduceOp::kSum, {SymInt(5)}, [](const Indices& r) {
    return X(0, {I(0), r[0]}) * X(1, {r[0], I(1)});
  });
  const KernelPtr k = Lower({{F({4, 5}), F({5, 6})}, {F({4, 6})}, {mm}});
  CHECK(k->tmpl == KernelTemplate::kElementwise);
  CHECK(Dims(k) == Ns{4, 6});
  // Matrix times vector reads the matrix once: rows.
  const Expr mv = Expr::Reduce(ReduceOp::kSum, {SymInt(5)}, [](const Indices& r) {
    return X(0, {I(0), r[0]}) * X(1, {r[0]});
  });
  CHECK(Lower({{F({4, 5}), F({5})}, {F({4})}, {mv}})->tmpl == KernelTemplate::kRow);
  const Expr window = Expr::Reduce(ReduceOp::kMax, {SymInt(3)}, [](const Indices& r) {
    return X(0, {I(0), I(1) + r[0]});
  });
  CHECK(Lower({{F({2, 8})}, {F({2, 6})}, {window}})->tmpl == KernelTemplate::kElementwise);
  // Reductions over different extents do not share a row.
  const auto sum = [](int64_t n, int buffer) {
    return Expr::Reduce(ReduceOp::kSum, {SymInt(n)}, [&](const Indices& r) {
      return X(buffer, {I(0), r[0]});
    });
  };
  CHECK(Lower({{F({4, 5}), F({4, 6})}, {F({4})}, {sum(5, 0) + sum(6, 1)}})->tmpl ==
        KernelTemplate::kElementwise);
  // A soft-max of a matmul: the inner reduction depends on the outer one's variable.
  const auto dot = [](const Expr& j) {
    return Expr::Reduce(ReduceOp::kSum, {SymInt(3)}, [&](const Indices& r) {
      return X(0, {I(0), r[0]}) * X(1, {r[0], j});
    });
  };
  const Expr nested = dot(I(1)) / Expr::Reduce(ReduceOp::kSum, {SymInt(6)},
                                               [&](const Indices& r) { return dot(r[0]); });
  CHECK(Lower({{F({4, 3}), F({3, 6})}, {F({4, 6})}, {nested}})->tmpl ==
        KernelTemplate::kElementwise);
}

TEST_CASE("transpose, slice and concat") {
  const KernelPtr t = Lower({{F({3, 4, 5})}, {F({5, 3, 4})}, {X(0, {I(1), I(2), I(0)})}});
  CHECK(Dims(t) == Ns{5, 12});  // the two dimensions that stay neighbours merge
  const KernelPtr s = Lower({{F({6, 8})}, {F({3, 8})}, {X(0, {I(0) * 2.0 + 1.0, I(1)})}});
  CHECK(Dims(s) == Ns{3, 8});
  CHECK(Dims(Lower({{F({6, 8})}, {F({3, 8})}, {X(0, {I(0) + 2.0, I(1)})}})) == Ns{24});
  // Concat of x[:, 1:3] and y along axis 1.
  const Expr left = Lt(I(1), Expr::Int(2));
  const Expr cat = Expr::Select(left, Expr::Load(0, DType::kF32, {I(0), I(1) + 1.0}, left),
                                Expr::Load(1, DType::kF32, {I(0), I(1) - 2.0}, Not(left)));
  Lower({{F({3, 4}), F({3, 5})}, {F({3, 7})}, {cat}});
}

TEST_CASE("reshapes vanish") {
  // [b, 2048, 64] read as [b, 512, 256] is one contiguous loop, b symbolic.
  const SymInt b = S("b");
  const std::vector<SymInt> from{b, 2048, 64}, to{b, 512, 256};
  const LoweredKernel k = LowerKernel(
      {{F(from)}, {F(to)}, {X(0, Delinearize(Linearize(Is(3), to), from)) * 2.0}}, Facts());
  REQUIRE(k.kernel->dims.size() == 1);
  CHECK(k.kernel->dims[0] == KernelSymbol(0) * 131072);
  CHECK(k.kernel->stores[0].value == X(0, {I(0)}) * 2.0);
  // Split heads: reshape [b, t, h*64] -> [b, t, h, 64], transpose to [b, h, t, 64].
  const std::vector<SymInt> flat{2, 3, 20}, heads{2, 3, 4, 5};
  const Expr v = X(0, Delinearize(Linearize({I(0), I(2), I(1), I(3)}, heads), flat));
  const KernelPtr h = Lower({{F(flat)}, {F({2, 4, 3, 5})}, {v}});
  CHECK(Dims(h) == Ns{2, 4, 3, 5});
  for (const ExprNode* n : PostOrder({h->stores[0].value})) {
    if (n->kind() == ExprKind::kBinary)
      CHECK((n->bin_op() == BinOp::kAdd || n->bin_op() == BinOp::kMul));
  }
  // Uneven reshapes stay right even where they stay divisions.
  const std::vector<SymInt> a{6, 4}, c{3, 8};
  Lower({{F(a)}, {F(c)}, {X(0, Delinearize(Linearize(Is(2), c), a))}});
  const std::vector<SymInt> d{4, 6};
  CHECK(Dims(Lower({{F(a)}, {F(d)}, {X(0, Delinearize(Linearize(Is(2), d), a))}})) == Ns{24});
  // A transposed view keeps its divisions where they are needed.
  Lower({{F({6, 4})}, {F({3, 8})}, {X(0, [&] {
           const Indices t = Delinearize(Linearize(Is(2), c), {4, 6});
           return Indices{t[1], t[0]};
         }())}});
}

TEST_CASE("extents of any size are numbers to a kernel, and nothing else is") {
  // A sum that needs hundreds of nodes, and one that a symbol stands for already.
  SymInt large = 0, hidden = 1;
  for (int i = 0; i < 40; ++i) large = large + FloorDiv(S("n") + i, i + 2);
  for (int i = 0; i < 40; ++i) hidden = hidden * (S("n") + S("m") + i);
  const SymInt few = S("n") + S("m");
  for (const SymInt e : {large, hidden, large * few + hidden}) {
    const LoweredKernel k =
        LowerKernel({{F({e, few})}, {F({e, few})}, {Softmax(Is(2), 1, few)}}, Facts());
    CHECK(k.symbols.size() == size_t(k.kernel->num_symbols));
    for (SymInt d : k.kernel->dims)
      for (SymInt s : d.Symbols()) CHECK(ExtentNumber(s, k.kernel->num_symbols) >= 0);
    CHECK(k.kernel->dims[0].size() <= 32);
  }
  CHECK_THROWS_AS(ExtentNumber(S("d0"), 1), InternalError);
  CHECK_THROWS_AS(ExtentNumber(KernelSymbol(1), 1), InternalError);
}

TEST_CASE("outputs without a common space are parts of one launch") {
  const SymInt n = S("n"), m = S("m");
  const ComputeSpec spec{{F({n, m})},
                         {F({n, m}), F({m})},
                         {X(0, Is(2)), X(0, {Expr::Int(0), I(0)}) * X(0, {Expr::Int(0), I(0)})}};
  CHECK_THROWS_AS(LowerKernel(spec, Facts()), UserError);
  const LoweredKernel apart = LowerSpaces(spec, {2}, {}, Facts());
  REQUIRE(apart.parts.size() == 2);
  CHECK(apart.parts[0].operands == std::vector<int>{0, 1});
  CHECK(apart.parts[1].operands == std::vector<int>{0, 2});
  // Where one is written over what the other reads, no order of parts is right.
  CHECK_THROWS_AS(LowerSpaces(spec, {2}, {{0, 0}}, Facts()), UserError);
}

TEST_CASE("symbolic extents") {
  const SymInt n = S("n"), m = S("m");
  const KernelPtr k =
      Lower({{F({n, m}), F({m})}, {F({n, m})}, {X(0, Is(2)) * X(1, {I(1)})}}, {{"n", 3}, {"m", 5}});
  CHECK(k->dims.size() == 2);
  CHECK(k->num_symbols == 2);
  Lower({{F({n, m})}, {F({n, m})}, {Softmax(Is(2), 1, m)}}, {{"n", 3}, {"m", 5}});
  Lower({{F({n, m})}, {F({n, m})}, {Softmax(Is(2), 0, n)}}, {{"n", 3}, {"m", 5}});
  // Operands that may broadcast at run time.
  const SymInt both = Bcast(n, m);
  const Expr v = X(0, {BroadcastIndex(n, both, I(0))}) + X(1, {BroadcastIndex(m, both, I(0))});
  Lower({{F({n}), F({m})}, {F({both})}, {v}}, {{"n", 1}, {"m", 4}});
  Lower({{F({n}), F({m})}, {F({both})}, {v}}, {{"n", 4}, {"m", 4}});
  // Known not to be 1: no select is left. n == m: one symbol.
  Facts facts;
  REQUIRE(facts.AddEqual(n, m));
  const LoweredKernel same =
      LowerKernel({{F({n}), F({m})}, {F({n})}, {X(0, {I(0)}) + X(1, {I(0)})}}, facts);
  CHECK(same.kernel->num_symbols == 1);
}

TEST_CASE("two outputs of two shapes") {
  const std::vector<SymInt> d{4, 6};
  const Expr y = X(0, Is(2)) + 1.0;
  const KernelPtr k =
      Lower({{F(d)}, {F(d), F({24})}, {y, SubstituteIndices(y * 2.0, Delinearize(I(0), d))}});
  CHECK(Dims(k) == Ns{24});
  CHECK(CountLoads(k) == 1);
  CHECK_THROWS_AS(LowerKernel({{F(d)}, {F(d), F({5})}, {y, X(0, {Expr::Int(0), I(0)})}}, Facts()),
                  UserError);
}

TEST_CASE("a period of a loop becomes a loop") {
  const auto mod = [](const Expr& e, const Expr& d) {
    return Expr::Binary(BinOp::kFloorMod, e, d);
  };
  const auto div = [](const Expr& e, const Expr& d) {
    return Expr::Binary(BinOp::kFloorDiv, e, d);
  };
  // Tile along the last axis: whole runs of x.
  const KernelPtr tile =
      Lower({{F({3, 16})}, {F({3, 64})}, {X(0, {I(0), mod(I(1), Expr::Int(16))})}});
  CHECK(Dims(tile) == Ns{3, 4, 16});
  CHECK(AffineCoefficient(tile->stores[0].value->operand(0), 2) == Expr::Int(1));
  // Along the first one: what is repeated is one run. Along both, and beside what is not repeated.
  CHECK(Dims(Lower({{F({3, 5})}, {F({6, 5})}, {X(0, {mod(I(0), Expr::Int(3)), I(1)})}})) ==
        Ns{2, 15});
  CHECK(Dims(Lower({{F({3, 16}), F({6, 32})},
                    {F({6, 32})},
                    {X(0, {mod(I(0), Expr::Int(3)), mod(I(1), Expr::Int(16))}) + X(1, Is(2))}})) ==
        Ns{2, 3, 2, 16});
  // Heads side by side: quotient and remainder of one period.
  CHECK(Dims(Lower({{F({3, 4, 16})},
                    {F({4, 48})},
                    {X(0, {div(I(1), Expr::Int(16)), I(0), mod(I(1), Expr::Int(16))})}})) ==
        Ns{4, 3, 16});
  // Extents of the run, of 0 as well.
  const SymInt n = S("n"), r = S("r");
  const ComputeSpec any{{F({2, n})}, {F({2, n * r})}, {X(0, {I(0), mod(I(1), Expr::Dim(n))})}};
  CHECK(Lower(any, {{"n", 5}, {"r", 3}})->dims.size() == 3);
  Lower(any, {{"n", 0}, {"r", 3}});
  Lower(any, {{"n", 5}, {"r", 0}});
  // A reduction inside a point.
  CHECK(Dims(Lower({{F({3, 16, 2})},
                    {F({3, 32})},
                    {Expr::Reduce(ReduceOp::kSum, {SymInt(2)}, [&](const Indices& k) {
                      return X(0, {I(0), mod(I(1), Expr::Int(16)), k[0]});
                    })}})) == Ns{3, 2, 16});

  // Not: short runs in the lanes, a period that does not divide, a quotient before the lanes.
  CHECK(Dims(Lower({{F({3, 4})}, {F({3, 64})}, {X(0, {I(0), mod(I(1), Expr::Int(4))})}})) ==
        Ns{3, 64});
  CHECK(Dims(Lower({{F({3, 16})}, {F({3, 60})}, {X(0, {I(0), mod(I(1), Expr::Int(16))})}})) ==
        Ns{3, 60});
  CHECK(Dims(Lower({{F({3, 4, 5})},
                    {F({12, 5})},
                    {X(0, {mod(I(0), Expr::Int(3)), div(I(0), Expr::Int(3)), I(1)})}})) ==
        Ns{12, 5});
}

/// One output [6, 4] over x [6, 8] and i [4].
KernelPtr Chosen(const std::function<Expr(const Expr&)>& index) {
  ComputeSpec spec;
  spec.inputs = {F({6, 8}), {DType::kI64, {4}}};
  spec.outputs = {F({6, 4})};
  spec.values = {X(0, {I(0), index(Expr::Load(1, DType::kI64, {I(1)}))})};
  return LowerKernel(spec, Facts()).kernel;
}

TEST_CASE("a range flag is there where an index may leave its axis, and nowhere else") {
  const KernelPtr unproved = Chosen([](const Expr& i) { return i; });
  REQUIRE(unproved->has_flag());
  CHECK(unproved->buffers.size() == 4);
  CHECK(unproved->buffers.back().dtype == DType::kBool);
  CHECK(unproved->buffers.back().num_elements.is(1));
  CHECK(unproved->CanonicalText().find("\nflag 3 ") != std::string::npos);
  // Proved: a remainder by the extent, and every index that loops bound.
  CHECK(!Chosen([](const Expr& i) {
           return Expr::Binary(BinOp::kFloorMod, i, Expr::Int(8));
         })->has_flag());
  CHECK(!Chosen([](const Expr&) { return I(1) * Expr::Int(2); })->has_flag());
  // A remainder that is one too large is not.
  CHECK(Chosen([](const Expr& i) {
          return Expr::Binary(BinOp::kFloorMod, i, Expr::Int(9));
        })->has_flag());
}

}  // namespace
}  // namespace weft
