/// matmul_test.cc: MatMul and Gemm against loops in double precision.
#include <doctest/doctest.h>

#include "backends/cpu/call_test_util.h"

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
  for (const DType t : {DType::kF16, DType::kBF16, DType::kF64, DType::kI32}) {
    Case c("MatMul", {RandomTensor({2, 2}, 1), RandomTensor({2, 2}, 1)}, {}, {2, 2});
    c.request.input_types.assign(2, t);
    c.request.output_types = {t};
    CHECK(c.Make() == nullptr);
  }
}

}  // namespace
}  // namespace weft::cpu
