#include "weft/codegen/expr/expr.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <cmath>
#include <limits>
#include <thread>

#include "expr_pool.h"
#include "weft/support/error.h"

namespace weft {
namespace {

Expr X(int buffer, Indices at) { return Expr::Load(buffer, DType::kF32, std::move(at)); }
SymInt N() { return SymInt::Symbol("n"); }

/// Runs f on a thread with a stack of 256 KiB: whatever recurses over a deep expression dies there.
void OnSmallStack(void (*f)()) {
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 256 << 10);
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, &attr,
              [](void* p) -> void* {
                reinterpret_cast<void (*)()>(p)();
                return nullptr;
              },
              reinterpret_cast<void*>(f)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attr);
}

TEST_CASE("equal expressions are one node") {
  const Expr i = Expr::Index(0);
  CHECK(X(0, {i}) + X(1, {i}) == X(1, {i}) + X(0, {i}));
  CHECK(X(0, {i}) - X(1, {i}) != X(1, {i}) - X(0, {i}));
  CHECK(X(0, {i}) != X(0, {Expr::Index(1)}));
  CHECK(Expr::Const(DType::kF32, 0.0) != Expr::Const(DType::kF32, -0.0));
  CHECK(Expr::Literal(1) != Expr::Const(DType::kF32, 1));
}

TEST_CASE("nodes die with their last handle") {
  const int64_t before = ExprPool::LiveNodes();
  {
    Expr e = Expr::Variable("lives_briefly");
    for (int k = 0; k < 100; ++k) e = e + X(k, {Expr::Index(77)});
    CHECK(ExprPool::LiveNodes() >= before + 200);
  }
  CHECK(ExprPool::LiveNodes() == before);
}

TEST_CASE("literals take the dtype of the other operand") {
  const Expr h = Expr::Load(0, DType::kF64, {Expr::Index(0)});
  CHECK((h * 0.1)->operand(1)->bits() == Expr::Const(DType::kF64, 0.1)->bits());
  CHECK((Expr::Literal(2) * 0.5)->is_literal());
  const Expr i = Expr::Index(0);
  CHECK((i + 3.0)->operand(1) == Expr::Int(3));
  CHECK_THROWS_AS(i * 0.5, Error);
  CHECK_THROWS_AS(h + X(0, {i}), Error);
  CHECK(Expr::Select(Lt(i, Expr::Int(3)), Expr::Literal(1), h)->dtype() == DType::kF64);
}

TEST_CASE("identities hold for every value") {
  const Expr x = X(0, {Expr::Index(0)}), i = Expr::Index(0);
  CHECK(x * 1.0 == x);
  CHECK(x / 1.0 == x);
  CHECK(x - 0.0 == x);
  CHECK(x + 0.0 != x);                            // -0 + 0 is 0
  CHECK(x * 0.0 != Expr::Const(DType::kF32, 0));  // NaN, inf, -0
  CHECK(x - x != Expr::Const(DType::kF32, 0));
  CHECK(i + 0.0 == i);
  CHECK(i * 0.0 == Expr::Int(0));
  CHECK((i + 2.0) + 3.0 == i + 5.0);
  CHECK((x + 2.0) + 3.0 != x + 5.0);
  CHECK(Eq(x, x) != Expr::Bool(true));
  CHECK(Eq(i, i) == Expr::Bool(true));
  CHECK(Not(Lt(x, x * 2.0))->kind() == ExprKind::kUnary);  // not x >= 2x: NaN
  CHECK(Not(Eq(x, x * 2.0)) == Ne(x, x * 2.0));
}

TEST_CASE("casts that lose nothing vanish, others stay") {
  const auto load = [](DType t) { return Expr::Load(0, t, {Expr::Index(0)}); };
  const Expr x = load(DType::kF32), h = load(DType::kF16), i = load(DType::kI32),
             b = load(DType::kU8);
  CHECK(Expr::Cast(DType::kF32, Expr::Cast(DType::kF64, x)) == x);
  CHECK(Expr::Cast(DType::kF16, Expr::Cast(DType::kF32, h)) == h);
  CHECK(Expr::Cast(DType::kF32, Expr::Cast(DType::kF16, x)) != x);
  CHECK(Expr::Cast(DType::kI32, Expr::Cast(DType::kI64, i)) == i);
  // Through f64 an i32 that does not fit i8 saturates; cast at once it would wrap.
  CHECK(Expr::Cast(DType::kI8, Expr::Cast(DType::kF64, i)) != Expr::Cast(DType::kI8, i));
  CHECK(Expr::Cast(DType::kF32, Expr::Cast(DType::kI32, b)) == Expr::Cast(DType::kF32, b));
  // The rounding of an f16 sum is the author's; it stays.
  CHECK(Expr::Cast(DType::kF16, h + h) != h + h);
}

TEST_CASE("constants fold as a device computes") {
  const auto f = [](double v) { return Expr::Const(DType::kF32, v); };
  const auto i32 = [](int64_t v) { return Expr::ConstInt(DType::kI32, v); };
  CHECK((f(0.1) + f(0.2))->const_value() == double(0.1f + 0.2f));
  CHECK(Expr::Binary(BinOp::kDiv, i32(7), i32(0)) == i32(0));
  CHECK(Expr::Binary(BinOp::kMod, i32(-7), i32(3)) == i32(-1));
  CHECK(Expr::Binary(BinOp::kFloorDiv, i32(-7), i32(3)) == i32(-3));
  CHECK(Expr::Binary(BinOp::kFloorMod, i32(-7), i32(3)) == i32(2));
  CHECK(Expr::Binary(BinOp::kDiv, i32(INT32_MIN), i32(-1)) == i32(INT32_MIN));
  CHECK(i32(INT32_MAX) + i32(1) == i32(INT32_MIN));
  CHECK(Expr::Binary(BinOp::kShl, i32(1), i32(32)) == i32(0));
  CHECK(Expr::Cast(DType::kU8, f(300)) == Expr::ConstInt(DType::kU8, 255));
  CHECK(Expr::Cast(DType::kI32, f(NAN)) == i32(0));
  CHECK(std::isnan(Min(f(NAN), f(1))->const_value()));
  CHECK(Expr::Unary(UnOp::kRound, f(2.5)) == f(2));
  CHECK(Expr::Cast(DType::kF32, Expr::Int((int64_t{1} << 54) + (int64_t{1} << 30) + 1)) ==
        f(float((int64_t{1} << 54) + (int64_t{1} << 30) + 1)));
  CHECK(Expr::Dim(N()) * Expr::Int(4) == Expr::Dim(N() * 4));
}

TEST_CASE("alpha-equivalent reductions are one node") {
  const Expr i = Expr::Index(0);
  const auto sum = [&](const Expr& row) {
    return Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& r) { return X(0, {row, r[0]}); });
  };
  const Expr a = sum(i);
  CHECK(a == sum(i));
  CHECK(a->level() == 0);
  CHECK(a->reduce_depth() == 1);
  CHECK_FALSE(a->is_invariant());
  CHECK(sum(Expr::Int(3))->is_invariant());

  // The same inner reduction at any depth is the same node.
  const Expr outer =
      Expr::Reduce(ReduceOp::kMax, {SymInt(5)}, [&](const Indices& r) { return a * X(1, {r[0]}); });
  CHECK(outer->level() == 1);
  bool found = false;
  for (const ExprNode* n : PostOrder({outer})) found |= n == a.get();
  CHECK(found);
  const Expr nested = Expr::Reduce(ReduceOp::kMax, {SymInt(5)}, [&](const Indices& r) {
    return Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& q) {
      return X(0, {r[0], q[0]});
    });
  });
  CHECK(nested->is_invariant());
  CHECK(nested ==
        Expr::Reduce(ReduceOp::kMax, {SymInt(5)}, [&](const Indices& r) { return sum(r[0]); }));
  // Operand order of a commutative operation may not depend on the names of variables in the
  // making.
  const auto twisted = [&](bool swap) {
    return Expr::Reduce(ReduceOp::kSum, {N(), SymInt(3)}, [&](const Indices& r) {
      return swap ? X(0, {r[1]}) * X(0, {r[0]}) : X(0, {r[0]}) * X(0, {r[1]});
    });
  };
  CHECK(twisted(false) == twisted(true));
}

TEST_CASE("reductions over one or no element") {
  const auto body = [&](const Indices& r) { return X(0, {r[0], r[1]}); };
  const Expr one = Expr::Reduce(ReduceOp::kSum, {SymInt(1), SymInt(1)}, body);
  CHECK(one == X(0, {Expr::Int(0), Expr::Int(0)}));
  CHECK(Expr::Reduce(ReduceOp::kSum, {SymInt(1), N()}, body) ==
        Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& r) {
          return X(0, {Expr::Int(0), r[0]});
        }));
  CHECK(Expr::Reduce(ReduceOp::kMax, {N(), SymInt(0)}, body) ==
        Expr::Const(DType::kF32, -INFINITY));
  CHECK(Expr::Reduce(ReduceOp::kArgMax, {SymInt(1), SymInt(1)}, body) == Expr::Int(0));
}

TEST_CASE("substitution does not capture") {
  // sum over r of x[i, r] at i := argmax over q of y[q]: two reductions whose variables both start
  // as (0, 0).
  const Expr arg =
      Expr::Reduce(ReduceOp::kArgMax, {SymInt(7)}, [](const Indices& q) { return X(1, {q[0]}); });
  const Expr sum = Expr::Reduce(ReduceOp::kSum, {N()}, [](const Indices& r) {
    return X(0, {Expr::Index(0), r[0]});
  });
  const Expr got = SubstituteIndices(sum, {arg});
  CHECK(got == Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& r) {
          return X(0, {arg, r[0]});
        }));
  CHECK(got->level() == 1);
  // Back to an index: the level falls again.
  const Expr back = RewriteExpr(got, [&](const Expr& e) {
    return e->kind() == ExprKind::kLoad && e->buffer() == 1 ? Expr::Const(DType::kF32, 2) : Expr();
  });
  CHECK(back->level() == 1);  // argmax of a constant is still a reduction
  // A substitution made while a reduction is open.
  const Expr open = Expr::Reduce(ReduceOp::kMax, {SymInt(4)},
                                 [&](const Indices& r) { return SubstituteIndices(sum, {r[0]}); });
  CHECK(open == Expr::Reduce(ReduceOp::kMax, {SymInt(4)}, [&](const Indices& p) {
          return Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& q) {
            return X(0, {p[0], q[0]});
          });
        }));
  // Bodies of nested reductions, put back with the bound variable of another.
  const Expr body = ReduceBody(open, {Expr::Index(3)});
  CHECK(body == SubstituteIndices(sum, {Expr::Index(3)}));
  // A raw variable of an outer reduction must not be bound by an inner one of the same number.
  const Expr raw = open->operand(0)->operand(0)->operand(0);  // ReduceVar(1, 0)
  REQUIRE(raw->kind() == ExprKind::kReduceVar);
  const Expr kept = Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& r) {
    return Expr::Reduce(ReduceOp::kSum, {N()}, [&](const Indices& q) {
      return X(0, {raw, r[0] + q[0]});
    });
  });
  bool bound = false;
  for (const ExprNode* n : PostOrder({kept}))
    bound |= n->kind() == ExprKind::kReduce && n->level() == raw->level();
  CHECK_FALSE(bound);
}

TEST_CASE("rewrite is linear in distinct nodes") {
  Expr e = X(0, {Expr::Index(0)});
  for (int k = 0; k < 200; ++k) e = e * e + 1.0;  // 2^200 paths
  int calls = 0;
  const Expr moved = RewriteExpr(e, [&](const Expr& leaf) {
    ++calls;
    return leaf->kind() == ExprKind::kIndex ? Expr::Index(1) : Expr();
  });
  CHECK(calls == 2);
  CHECK(moved == SubstituteIndices(e, {Expr::Index(1)}));
  CHECK(SubstituteIndices(e, {Expr::Index(0)}) == e);
}

TEST_CASE("chains of 100000 nodes need no stack") {
  OnSmallStack([] {
    Expr e = X(0, {Expr::Index(0)});
    for (int k = 0; k < 100000; ++k) e = e * X(1, {Expr::Index(0)}) + 1.0;
    CHECK(PostOrder({e}).size() > 200000);
    const Expr moved = SubstituteIndices(e, {Expr::Index(1)});
    CHECK(moved != e);
    CHECK(e->CodeGen().size() > 1000000);
  });
}

TEST_CASE("threads agree on nodes that die all the time") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 3000; ++k) {
        const Expr a = X(k % 7, {Expr::Index(k % 3)}) * 2.0;
        const Expr b = X(k % 7, {Expr::Index(k % 3)}) * 2.0;
        if (a != b) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("text of 2016") {
  const Expr a = Expr::Variable("a"), b = Expr::Variable("b");
  CHECK((a + b)->CodeGen() == "(a + b)");
  CHECK((a * 1e-8)->CodeGen() == "(a * 1e-08f)");
  CHECK((a + 2.0)->CodeGen() == "(a + 2.0f)");
  CHECK(Expr::Call(CallOp::kExp, {a})->CodeGen() == "expf(a)");
  CHECK(Expr::Call(CallOp::kExp, {Expr::Variable("d", DType::kF64)})->CodeGen() == "exp(d)");
  CHECK(Expr::Select(Lt(a, b), a, b)->CodeGen() == "((a < b) ? a : b)");
  CHECK(Expr::Literal(0.5)->CodeGen() == "0.5f");
  CHECK(Expr::Unary(UnOp::kSqrt, a)->CodeGen() == "sqrtf(a)");
  CHECK((-a)->CodeGen() == "(-a)");
}

}  // namespace
}  // namespace weft
