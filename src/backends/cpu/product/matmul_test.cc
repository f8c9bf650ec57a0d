/// matmul_test.cc: MatMul, weft::TransposedMatMul and Gemm against loops in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/plan/epilogue.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

/// Operands of MatMul with their batch axes made equal in number; vectors as matrices.
Ns Padded(Ns d, bool left, size_t rank) {
  if (d.size() == 1) d.insert(left ? d.begin() : d.end(), 1);
  d.insert(d.begin(), rank - d.size(), 1);
  return d;
}

TEST_CASE("matmul broadcasts as numpy does") {
  struct Pair {
    Ns a, b, y;
  };
  const std::vector<Pair> pairs{
      {{3, 4}, {4, 5}, {3, 5}},
      {{1, 7}, {7, 1}, {1, 1}},
      {{64, 100}, {100, 33}, {64, 33}},
      {{4}, {4, 5}, {5}},
      {{3, 4}, {4}, {3}},
      {{6}, {6}, {}},
      {{2, 3, 4}, {4, 5}, {2, 3, 5}},
      {{2, 3, 4}, {4}, {2, 3}},
      {{4}, {2, 4, 5}, {2, 5}},
      {{2, 3, 4}, {2, 4, 5}, {2, 3, 5}},
      {{2, 1, 3, 4}, {1, 5, 4, 6}, {2, 5, 3, 6}},
      {{7, 2, 3, 4}, {2, 4, 6}, {7, 2, 3, 6}},
      {{3, 4}, {2, 2, 4, 6}, {2, 2, 3, 6}},
      {{2, 3, 1, 5, 4}, {3, 2, 4, 3}, {2, 3, 2, 5, 3}},
      {{2, 1, 3, 4}, {1, 1, 4, 5}, {2, 1, 3, 5}},
  };
  for (const Pair& p : pairs)
    for (const bool constant : {false, true}) {
      const auto a = RandomTensor(p.a, 1), b = RandomTensor(p.b, 2);
      const auto y = Case("MatMul", {a, b}, {}, p.y, {false, constant}).Run();
      REQUIRE(y != nullptr);
      const size_t rank = std::max({p.a.size(), p.b.size(), size_t(2)});
      const Ns ad = Padded(p.a, true, rank), bd = Padded(p.b, false, rank);
      Ns yd(rank);
      for (size_t k = 0; k + 2 < rank; ++k) yd[k] = std::max(ad[k], bd[k]);
      yd[rank - 2] = ad[rank - 2];
      yd[rank - 1] = bd[rank - 1];
      std::vector<double> want;
      Ns at(rank, 0);
      do {
        double sum = 0;
        for (int64_t k = 0; k < ad[rank - 1]; ++k) {
          Ns ai(rank), bi(rank);
          for (size_t d = 0; d < rank; ++d) {
            ai[d] = ad[d] == 1 ? 0 : at[d];
            bi[d] = bd[d] == 1 ? 0 : at[d];
          }
          ai[rank - 1] = bi[rank - 2] = k;
          sum += a->at(Flat(ai, ad)) * b->at(Flat(bi, bd));
        }
        want.push_back(sum);
      } while (Next(&at, yd));
      CHECK(Difference(*y, want) < 1e-5);
    }
}

TEST_CASE("gemm: every combination of factors, transposes and shapes of C") {
  const int64_t m = 6, n = 9, k = 7;
  int cases = 0;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const double alpha : {1.0, 0.5, -2.0})
        for (const double beta : {1.0, 0.0, 3.0})
          for (const Ns& cd : std::vector<Ns>{{-1}, {}, {1}, {n}, {1, n}, {m, 1}, {m, n}, {1, 1}})
            for (const bool constant : {false, true}) {
              const bool has_c = cd != Ns{-1};
              const auto a = RandomTensor(ta ? Ns{k, m} : Ns{m, k}, 1),
                         b = RandomTensor(tb ? Ns{n, k} : Ns{k, n}, 2);
              const auto c = has_c ? RandomTensor(cd, 3) : nullptr;
              std::vector<TensorPtr> in{a, b};
              if (has_c) in.push_back(c);
              const AttrDict attrs{
                  {"alpha", alpha}, {"beta", beta}, {"transA", int(ta)}, {"transB", int(tb)}};
              const auto y = Case("Gemm", in, attrs, {m, n}, {false, constant, constant}).Run();
              REQUIRE(y != nullptr);
              std::vector<double> want;
              for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) {
                  double sum = 0;
                  for (int64_t q = 0; q < k; ++q)
                    sum += a->at(ta ? q * m + i : i * k + q) * b->at(tb ? j * k + q : q * n + j);
                  double add = 0;
                  if (has_c) {
                    const int64_t rows = cd.size() == 2 ? cd[0] : 1,
                                  columns = cd.empty() ? 1 : cd.back();
                    add = c->at((rows == 1 ? 0 : i) * columns + (columns == 1 ? 0 : j));
                  }
                  want.push_back(alpha * sum + beta * add);
                }
              CHECK(Difference(*y, want) < 1e-5);
              ++cases;
            }
  CHECK(cases == 576);
}

/// perm as Transpose takes it; what it makes of extents.
Ns Permuted(const Ns& dims, const Ints& perm) {
  Ns out;
  for (int64_t p : perm) out.push_back(dims[size_t(p)]);
  return out;
}
/// Rows of a product of operands that are read in other orders of axes, in double precision.
std::vector<double> TransposedOracle(const Tensor& a, const Ints& a_perm, const Tensor& b,
                                     const Ints& b_perm, const Ns& y) {
  const size_t rank = y.size();
  const auto at = [&](const Tensor& x, const Ints& perm, const Ns& place) {
    Ns from(perm.size());
    const size_t lead = rank - perm.size();
    for (size_t k = 0; k < perm.size(); ++k) {
      const auto axis = size_t(perm[k]);
      from[axis] = x.dims()[axis] == 1 ? 0 : place[lead + k];
    }
    return x.at(Flat(from, x.dims()));
  };
  const int64_t depth = a.dims()[size_t(a_perm.back())];
  std::vector<double> want;
  Ns place(rank, 0);
  do {
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      Ns ap = place, bp = place;
      ap[rank - 1] = bp[rank - 2] = k;
      sum += at(a, a_perm, ap) * at(b, b_perm, bp);
    }
    want.push_back(sum);
  } while (Next(&place, y));
  return want;
}

TEST_CASE("operands in other orders of axes equal sums") {
  std::mt19937 random(5);
  const int64_t extents[] = {1, 2, 3, 7, 16, 33, 64};
  int vectors = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const size_t batch = random() % 4;
    const auto extent = [&] { return extents[random() % (batch > 2 ? 4 : 7)]; };
    const int64_t m = random() % 3 ? extent() : 1, k = extent(), n = random() % 5 ? extent() : 1;
    Ns a, b, y;
    for (size_t j = 0; j < batch; ++j) {
      const int64_t d = int64_t(random() % 4) + 1;
      a.push_back(random() % 5 ? d : 1);
      b.push_back(random() % 5 ? d : 1);
      y.push_back(std::max(a.back(), b.back()));
    }
    if (random() % 5 == 0) b.clear(), y = a;
    a.insert(a.end(), {m, k});
    b.insert(b.end(), {k, n});
    y.insert(y.end(), {m, n});
    const auto operand = [&](const Ns& dims, uint32_t seed, Ints* perm) {
      for (size_t q = 0; q < dims.size(); ++q) perm->push_back(int64_t(q));
      std::shuffle(perm->begin(), perm->end(), random);
      Ns source(dims.size());
      for (size_t q = 0; q < dims.size(); ++q) source[size_t((*perm)[q])] = dims[q];
      return RandomTensor(source, seed);
    };
    Ints a_perm, b_perm;
    const auto at = operand(a, 1, &a_perm), bt = operand(b, 2, &b_perm);
    REQUIRE(Permuted(at->dims(), a_perm) == a);
    const std::vector<double> want = TransposedOracle(*at, a_perm, *bt, b_perm, y);
    for (const bool constant : {false, true}) {
      const Case c("weft::TransposedMatMul", {at, bt}, {{"a_perm", a_perm}, {"b_perm", b_perm}}, y,
                   {false, constant});
      const auto call = c.Make();
      REQUIRE(call != nullptr);
      vectors += call->description().find("vector") != std::string::npos;
      CHECK(Difference(*c.Run(*call), want) < 1e-5);
    }
  }
  CHECK(vectors > 20);
}

TEST_CASE("transposed operands in a program: for all extents that are bound, with gradients") {
  const Graph g = ParseGraph(
      "weft 1\ngraph <b, s, t>(%q: f32[b, t, 3, 16], %k: f32[b, s, 3, 16], %v: f32[s, 5], "
      "%w: f32[7, 5], %r: f32[7]) -> (%y, %z) {\n"
      "  %qt = Transpose(%q) {perm = [0, 2, 1, 3]} : ?\n"
      "  %kt = Transpose(%k) {perm = [0, 2, 3, 1]} : ?\n"
      "  %s = MatMul(%qt, %kt) : ?\n  %y = Relu(%s) : ?\n  %e = Exp(%v) : ?\n"
      "  %u = MatMul(%y, %e) : ?\n  %wt = Transpose(%w) : ?\n  %p = MatMul(%u, %wt) : ?\n"
      "  %z = Add(%p, %r) : ?\n}\n");
  for (const bool gradient : {false, true}) {
    Graph h = g;
    if (gradient) {
      std::vector<NodeEntry> xs;
      for (NodePtr x : h.inputs()) xs.push_back(NodeEntry(x));
      const std::vector<NodeEntry> d = Gradients(h, {h.outputs[1]}, xs);
      for (const NodeEntry& e : d) h.outputs.push_back(e);
    }
    CompileOptions ref, fused, plain;
    ref.backend = "ref";
    fused.backend = plain.backend = "cpu";
    plain.fusion = false;
    const auto want = Compile(h, ref), made = Compile(h, fused), parts = Compile(h, plain);
    const auto count = [](const Program& p, const char* op) {
      int found = 0;
      for (NodePtr n : p.graph().TopoOrder()) {
        const std::optional<AnchoredCall> call = AnchoredCallOf(n);
        found += IsOp(call ? call->anchor : n, op);
      }
      return found;
    };
    // Hundreds of terms of both signs add up, in different orders.
    const double tolerance = 1e-4;
    CHECK(count(*made, "weft::TransposedMatMul") >= 2);
    CHECK(count(*parts, "weft::TransposedMatMul") == 0);
    if (!gradient) CHECK(count(*made, "Transpose") == 0);
    for (const auto& [b, s, t] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 5, 7}, {3, 70, 1}, {1, 40, 33}}) {
      const auto inputs = RandomProgramInputs(*want, 7, {{"b", b}, {"s", s}, {"t", t}});
      const auto w = Session(want).Run(inputs), x = Session(made).Run(inputs),
                 y = Session(parts).Run(inputs);
      for (size_t i = 0; i < w.size(); ++i) {
        CAPTURE(i);
        CHECK(CompareTensors(*x[i], *w[i], tolerance, tolerance) <= 1);
        CHECK(CompareTensors(*y[i], *w[i], tolerance, tolerance) <= 1);
      }
    }
    CHECK(made->stats().interpreted == 0);
  }
}

TEST_CASE("products of nothing") {
  const auto zeros =
      Case("MatMul", {RandomTensor({3, 0}, 1), RandomTensor({0, 4}, 1)}, {}, {3, 4}).Run();
  REQUIRE(zeros != nullptr);
  CHECK(Difference(*zeros, std::vector<double>(12, 0)) == 0);
  const auto none =
      Case("MatMul", {RandomTensor({0, 3}, 1), RandomTensor({3, 4}, 1)}, {}, {0, 4}).Run();
  REQUIRE(none != nullptr);
  CHECK(none->num_elements() == 0);
  const auto gemm =
      Case("Gemm", {RandomTensor({3, 0}, 1), RandomTensor({0, 4}, 1)}, {}, {3, 4}).Run();
  REQUIRE(gemm != nullptr);
  CHECK(Difference(*gemm, std::vector<double>(12, 0)) == 0);
}

TEST_CASE("other types are refused") {
  for (const DType t : {DType::kF64, DType::kI32}) {
    Case c("MatMul", {RandomTensor({2, 2}, 1), RandomTensor({2, 2}, 1)}, {}, {2, 2});
    c.request.input_types.assign(2, t);
    c.request.output_types = {t};
    CHECK(c.Make() == nullptr);
  }
}

}  // namespace
}  // namespace weft::cpu
