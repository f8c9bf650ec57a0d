/// sym_z3_test.cc: an SMT solver proves the rewrite rules, class by class, on random instances.
///
/// Every expression is built twice in step: by SymInt, which rewrites it, and as a formula that
/// says what was written. The solver is asked for values of the symbols where the formula has a
/// value and the canonical form another one. Rules with constant divisors are proved over all
/// integers; those that multiply or divide by symbols are non-linear and are proved for all extents
/// up to 7, in bit-vectors wide enough that nothing wraps.
#include <doctest/doctest.h>
#include <z3++.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "weft/support/error.h"
#include "weft/sym/sym.h"

namespace weft {
namespace {

constexpr unsigned kWidth = 16;

/// Integer formulas, unbounded or as bit-vectors.
struct Theory {
  z3::context context;
  bool bounded = false;

  z3::expr Const(int64_t v) { return bounded ? context.bv_val(v, kWidth) : context.int_val(v); }
  z3::expr Symbol(const std::string& name) {
    return bounded ? context.bv_const(name.c_str(), kWidth) : context.int_const(name.c_str());
  }
  z3::expr Domain(const std::string& name) {
    const z3::expr s = Symbol(name);
    return bounded ? z3::ule(s, Const(7)) : s >= 0;
  }
  /// Modulo with the sign of the divisor, from the solver's own definition of it.
  z3::expr Mod(const z3::expr& p, const z3::expr& q) {
    if (bounded) return z3::smod(p, q);
    return z3::ite(q > 0, z3::mod(p, q), -z3::mod(-p, -q));
  }
  z3::expr Floor(const z3::expr& p, const z3::expr& q) {
    if (bounded) return (p - Mod(p, q)) / q;
    return z3::ite(q > 0, p / q, (-p) / (-q));
  }
  z3::expr Bcast(const z3::expr& a, const z3::expr& b) { return z3::ite(a == Const(1), b, a); }

  z3::expr Apply(char op, const z3::expr& a, const z3::expr& b) {
    switch (op) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      case '/':
        return Floor(a, b);
      case '%':
        return Mod(a, b);
      case 'm':
        return z3::ite(a <= b, a, b);
      case 'M':
        return z3::ite(a <= b, b, a);
      default:
        return Bcast(a, b);
    }
  }
};

struct Both {
  SymInt sym;
  z3::expr formula;
  z3::expr defined;
};

class Prover {
 public:
  explicit Prover(bool bounded, uint64_t seed) : rng(seed) { theory_.bounded = bounded; }

  Both C(int64_t v) { return {v, theory_.Const(v), theory_.context.bool_val(true)}; }
  Both S(const char* name) {
    return {SymInt::Symbol(name), theory_.Symbol(name), theory_.context.bool_val(true)};
  }
  /// A random constant.
  Both K(int64_t lo, int64_t hi) { return C(Pick(lo, hi)); }
  int64_t Pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng() % static_cast<uint64_t>(hi - lo + 1));
  }

  Both Op(char op, const Both& a, const Both& b) {
    z3::expr defined = a.defined && b.defined;
    if (op == '/' || op == '%' || op == 'c' || op == 'e')
      defined = defined && b.formula != theory_.Const(0);
    switch (op) {
      case '+':
        return {a.sym + b.sym, theory_.Apply(op, a.formula, b.formula), defined};
      case '-':
        return {a.sym - b.sym, theory_.Apply(op, a.formula, b.formula), defined};
      case '*':
        return {a.sym * b.sym, theory_.Apply(op, a.formula, b.formula), defined};
      case '/':
        return {FloorDiv(a.sym, b.sym), theory_.Apply(op, a.formula, b.formula), defined};
      case '%':
        return {weft::Mod(a.sym, b.sym), theory_.Apply(op, a.formula, b.formula), defined};
      case 'm':
        return {Min(a.sym, b.sym), theory_.Apply(op, a.formula, b.formula), defined};
      case 'M':
        return {Max(a.sym, b.sym), theory_.Apply(op, a.formula, b.formula), defined};
      case 'c':
        return {CeilDiv(a.sym, b.sym), -theory_.Floor(-a.formula, b.formula), defined};
      case 'e':
        defined = defined && theory_.Mod(a.formula, b.formula) == theory_.Const(0);
        return {ExactDiv(a.sym, b.sym), theory_.Floor(a.formula, b.formula), defined};
      default:
        defined = defined && (a.formula == b.formula || a.formula == theory_.Const(1) ||
                              b.formula == theory_.Const(1));
        return {weft::Bcast(a.sym, b.sym), theory_.Bcast(a.formula, b.formula), defined};
    }
  }

  void Prove(const Both& e) {
    struct Translate : SymVisitor {
      explicit Translate(Theory& t) : theory(t) {}
      void Const(int64_t v) override { stack.push_back(theory.Const(v)); }
      void Sym(SymInt s) override { stack.push_back(theory.Symbol(s.symbol_name())); }
      void Op(char op) override {
        const z3::expr b = stack.back();
        stack.pop_back();
        const z3::expr a = stack.back();
        stack.pop_back();
        stack.push_back(theory.Apply(op, a, b));
      }
      Theory& theory;
      std::vector<z3::expr> stack;
    } canonical(theory_);
    VisitPostfix(e.sym, canonical);
    z3::solver solver(theory_.context);
    z3::params params(theory_.context);
    params.set("timeout", 4000u);
    solver.set(params);
    for (const char* name : {"a", "b", "h", "w"}) solver.add(theory_.Domain(name));
    solver.add(e.defined && e.formula != canonical.stack[0]);
    const z3::check_result result = solver.check();
    if (result == z3::sat) {
      FAIL_CHECK("not equal to " << e.sym.ToString() << ":\n"
                                 << e.formula << "\nat " << solver.get_model());
    }
    ++(result == z3::unsat ? proved : undecided);
  }

  std::mt19937_64 rng;
  int proved = 0, undecided = 0;

 private:
  Theory theory_;
};

using Make = std::function<Both(Prover&)>;

Both operator+(const Both& a, const Both& b) {
  return {a.sym + b.sym, a.formula + b.formula, a.defined && b.defined};
}
Both operator-(const Both& a, const Both& b) {
  return {a.sym - b.sym, a.formula - b.formula, a.defined && b.defined};
}
Both operator*(const Both& a, const Both& b) {
  return {a.sym * b.sym, a.formula * b.formula, a.defined && b.defined};
}

struct Rule {
  const char* name;
  Make make;
};

void ProveAll(const std::vector<Rule>& rules, bool bounded, int instances) {
  for (const Rule& rule : rules) {
    Prover prover(bounded, 17);
    for (int i = 0; i < instances; ++i) {
      try {
        prover.Prove(rule.make(prover));
      } catch (const UserError&) {
        // The instance has no value at all (constant extents that do not broadcast).
      }
    }
    const std::string name = rule.name;
    CHECK_MESSAGE(prover.proved > 0, name);
    CHECK_MESSAGE(prover.undecided == 0,
                  name << ": " << prover.undecided << " of " << instances << " undecided");
  }
}

TEST_CASE("sym z3: rules with constant divisors, over all integers") {
  const auto linear = [](Prover& p) {
    return p.K(-6, 6) * p.S("a") + p.K(-6, 6) * p.S("b") + p.K(-9, 9);
  };
  const auto divisor = [](Prover& p) {
    return p.C(p.Pick(0, 5) == 0 ? -p.Pick(1, 6) : p.Pick(1, 12));
  };
  const std::vector<Rule> rules = {
      {"(c*a + b)//c", [&](Prover& p) { return p.Op('/', linear(p), divisor(p)); }},
      {"(c*a + b)%c", [&](Prover& p) { return p.Op('%', linear(p), divisor(p)); }},
      {"ceil", [&](Prover& p) { return p.Op('c', linear(p), divisor(p)); }},
      {"(a//b + e)//c",
       [&](Prover& p) {
         return p.Op('/', p.Op('/', linear(p), p.K(2, 6)) + p.K(-3, 3) * p.S("h") + p.K(-4, 4),
                     p.K(2, 6));
       }},
      {"(b%(c*d))%c",
       [&](Prover& p) {
         const int64_t c = p.Pick(2, 5);
         return p.Op('%', p.K(1, 3) * p.Op('%', linear(p), p.C(c * p.Pick(1, 4))) + p.S("h"),
                     p.C(c));
       }},
      {"(g*a + r)//(g*c)",
       [&](Prover& p) {
         const int64_t g = p.Pick(2, 4);
         return p.Op('/', p.C(g) * linear(p) + p.K(-5, 5), p.C(g * p.Pick(2, 4)));
       }},
      {"(g*a + r)%(g*c)",
       [&](Prover& p) {
         const int64_t g = p.Pick(2, 4);
         return p.Op('%', p.C(g) * linear(p) + p.K(-5, 5), p.C(g * p.Pick(2, 4)));
       }},
      {"p - c*(p//c)",
       [&](Prover& p) {
         const Both x = linear(p), c = p.K(2, 7), k = p.K(-3, 3);
         return k * x - k * c * p.Op('/', x, c) + p.S("w");
       }},
      {"c*(p//c) + p%c",
       [&](Prover& p) {
         const Both x = linear(p), c = p.K(2, 7), k = p.K(-3, 3);
         return k * c * p.Op('/', x, c) + k * p.Op('%', x, c);
       }},
      {"p%c - p",
       [&](Prover& p) {
         const Both x = linear(p), c = p.K(2, 7), k = p.K(-3, 3);
         return k * p.Op('%', x, c) - k * (x + c * p.K(-1, 1) * p.S("a")) + p.S("w");
       }},
      {"p + (-p)%c",
       [&](Prover& p) {
         const Both x = linear(p), c = p.K(2, 7), k = p.K(-3, 3);
         return k * x + k * p.Op('%', p.C(0) - x, c) + p.K(0, 1) * p.S("w");
       }},
      {"range of mod",
       [&](Prover& p) {
         return p.Op(p.Pick(0, 1) == 0 ? '/' : '%', p.Op('%', linear(p), p.K(2, 6)), p.K(2, 9));
       }},
      {"min and max",
       [&](Prover& p) {
         const char op = p.Pick(0, 1) == 0 ? 'm' : 'M', other = p.Pick(0, 1) == 0 ? 'm' : 'M';
         const Both x = linear(p), y = linear(p);
         return p.Op(op, p.Op(other, x, p.Op(op, y, p.K(-2, 6))), p.Op(op, x, y + p.K(0, 3)));
       }},
      {"max(a, 0)",
       [&](Prover& p) { return p.Op('M', p.K(0, 4) * p.S("a") + p.K(-1, 2), p.C(0)); }},
      {"broadcast",
       [&](Prover& p) {
         const auto extent = [&] {
           return p.K(0, 2) * p.S(p.Pick(0, 1) == 0 ? "a" : "b") + p.K(0, 3);
         };
         return p.Op('b', p.Op('b', extent(), extent()), p.Op('b', extent(), extent()));
       }},
      {"broadcast of a minimum",
       [&](Prover& p) {
         const Both x = p.S("a") + p.K(0, 2);
         return p.Op('b', x, p.Op('m', x, p.Pick(0, 1) == 0 ? p.K(-1, 3) : p.S("b") + p.K(0, 1)));
       }},
      {"exact division by a constant",
       [&](Prover& p) { return p.Op('e', p.C(6) * linear(p), p.K(1, 6)); }},
  };
  ProveAll(rules, false, 25);
}

TEST_CASE("sym z3: rules with symbolic divisors, for all extents up to 7") {
  const std::vector<Rule> rules = {
      {"(k*q + r)//q",
       [](Prover& p) {
         return p.Op(
             '/', p.K(-2, 2) * p.S("a") * p.S("w") + p.K(-3, 3) * p.S("w") + p.S("b") + p.K(-2, 2),
             p.S("w"));
       }},
      {"(k*q + r)%q",
       [](Prover& p) {
         return p.Op(
             '%', p.K(-2, 2) * p.S("a") * p.S("w") + p.K(-3, 3) * p.S("w") + p.S("b") + p.K(-2, 2),
             p.S("w"));
       }},
      {"sum as divisor",
       [](Prover& p) {
         const Both q = p.S("a") + p.S("b") + p.K(0, 1);
         return p.Op(p.Pick(0, 1) == 0 ? '/' : '%', p.K(1, 3) * q + p.S("h"), q);
       }},
      {"(m*a)//(m*q)",
       [](Prover& p) {
         return p.Op('/', p.K(1, 4) * p.S("a") * (p.S("h") + p.K(-1, 1)),
                     p.K(1, 4) * p.S("a") * p.S("w"));
       }},
      {"(m*a)%(m*q)",
       [](Prover& p) {
         return p.Op('%', p.K(1, 4) * p.S("a") * p.S("h"), p.K(1, 4) * p.S("a") * p.S("w"));
       }},
      {"(a//b)//q",
       [](Prover& p) {
         return p.Op('/', p.Op('/', p.K(1, 3) * p.S("a") - p.K(0, 3), p.S("h")),
                     p.Pick(0, 1) == 0 ? p.S("w") : p.K(2, 5));
       }},
      {"(a%q)//q",
       [](Prover& p) { return p.Op('/', p.Op('%', p.S("a") - p.K(0, 3), p.S("w")), p.S("w")); }},
      {"(a%q)%q",
       [](Prover& p) { return p.Op('%', p.Op('%', p.S("a") - p.K(0, 3), p.S("w")), p.S("w")); }},
      {"p - q*(p//q)",
       [](Prover& p) {
         const Both x = p.S("a") + p.K(-2, 2),
                    k = p.K(-2, 2) * (p.Pick(0, 1) == 0 ? p.S("h") : p.C(1));
         return k * x - k * p.S("w") * p.Op('/', x, p.S("w"));
       }},
      {"q*(p//q) + p%q",
       [](Prover& p) {
         const Both x = p.S("a") + p.K(-2, 2), k = p.K(-2, 2);
         return k * p.S("w") * p.Op('/', x, p.S("w")) + k * p.Op('%', x, p.S("w"));
       }},
      {"p%q - p",
       [](Prover& p) {
         const Both x = p.S("a") + p.K(-2, 2),
                    k = p.K(-2, 2) * (p.Pick(0, 1) == 0 ? p.S("h") : p.C(1));
         return k * p.Op('%', x, p.S("w")) - k * x + p.K(0, 1) * p.S("b");
       }},
      {"negative divisor",
       [](Prover& p) {
         return p.Op(p.Pick(0, 1) == 0 ? '/' : '%', p.S("a") - p.K(0, 2),
                     p.K(-3, -1) * p.S("w") + p.K(-2, 0));
       }},
      {"ceil", [](Prover& p) { return p.Op('c', p.K(-2, 3) * p.S("a") + p.K(-2, 2), p.S("w")); }},
      {"exact division",
       [](Prover& p) {
         const Both q = p.S("w") + p.K(0, 2);
         return p.Op('e', p.K(1, 3) * q * (p.S("a") + p.K(-1, 2)),
                     p.Pick(0, 1) == 0 ? q : p.K(1, 2) * q);
       }},
      {"products",
       [](Prover& p) {
         return (p.S("a") + p.K(-2, 2)) * (p.S("b") - p.S("h")) * (p.S("a") + p.K(-2, 2));
       }},
  };
  ProveAll(rules, true, 16);
}

}  // namespace
}  // namespace weft
