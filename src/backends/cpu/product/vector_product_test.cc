/// vector_product_test.cc: vectors times matrices, as MatMul and Gemm ask for them, against
/// sums in double precision.
#include "vector_product.h"

#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"
#include "few_rows_kernel.h"

namespace weft::cpu {
namespace {

/// Element [i, j] of batch b of a matrix, transposed or not; a batch of 1 serves all.
double At(const Tensor& t, int64_t b, int64_t i, int64_t j, bool transposed) {
  const Ns& d = t.dims();
  const int64_t rows = d[d.size() - 2], columns = d.back(), batch = d.size() == 3 ? d[0] : 1;
  return t.at((b % batch * rows + (transposed ? j : i)) * columns + (transposed ? i : j));
}

struct Setup {
  int64_t batch_a, batch_b, m, k, n;
};
const Setup kSetups[] = {{1, 1, 1, 13, 7},   {1, 1, 5, 33, 1},     {1, 1, 1, 1, 1},
                         {1, 1, 1, 70, 530}, {1, 1, 131, 100, 1},  {3, 3, 1, 17, 21},
                         {2, 2, 9, 64, 1},   {1, 4, 1, 19, 33},    {4, 1, 1, 19, 33},
                         {1, 4, 6, 5, 1},    {1, 1, 1, 300, 2100}, {1, 1, 600, 80, 1},
                         {1, 1, 1, 700, 801}};

TEST_CASE("MatMul of a vector and a matrix equals sums") {
  for (const Setup& s : kSetups)
    for (const bool constant : {false, true}) {
      CAPTURE(s.k);
      const auto a = RandomTensor({s.batch_a, s.m, s.k}, 1),
                 b = RandomTensor({s.batch_b, s.k, s.n}, 2);
      const int64_t batch = std::max(s.batch_a, s.batch_b);
      std::vector<double> want;
      for (int64_t q = 0; q < batch; ++q)
        for (int64_t i = 0; i < s.m; ++i)
          for (int64_t j = 0; j < s.n; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < s.k; ++k)
              sum += At(*a, q, i, k, false) * At(*b, q, k, j, false);
            want.push_back(sum);
          }
      const Case c("MatMul", {a, b}, {}, {batch, s.m, s.n}, {false, constant});
      const auto call = c.Make();
      REQUIRE(call);
      CHECK(Difference(*c.Run(*call), want) < 1e-5);
      // A constant right side is packed instead, unless it is the vector; so is one that all rows
      // of a batch share.
      if (VectorProduct::Possible() && !constant && s.batch_a <= s.batch_b)
        CHECK(call->description().find("vector") != std::string::npos);
      // A batch of left sides is so many rows.
      const bool kept = constant && s.n > 1 && s.batch_b == 1 && s.batch_a * s.m <= kMostFewRows;
      CHECK((call->description().find("few rows, packed") != std::string::npos) == kept);
      // A constant right side of more rows is packed by oneDNN, and one of a batch.
      if (constant && s.n > 1 && !kept)
        CHECK(call->description().find("vector") == std::string::npos);
    }
}

TEST_CASE("Gemm of a vector and a matrix equals sums") {
  for (const Setup& s : kSetups)
    for (int which = 0; which < 16; ++which) {
      if (s.batch_a != 1 || s.batch_b != 1) continue;
      const bool ta = which & 1, tb = which & 2, factors = which & 4, column = which & 8;
      CAPTURE(s.k);
      CAPTURE(which);
      const auto a = RandomTensor(ta ? Ns{s.k, s.m} : Ns{s.m, s.k}, 1),
                 b = RandomTensor(tb ? Ns{s.n, s.k} : Ns{s.k, s.n}, 2),
                 c = RandomTensor(column ? Ns{s.m, 1} : Ns{s.n}, 3);
      const double alpha = factors ? 0.5 : 1, beta = factors ? -2 : 1;
      std::vector<double> want;
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < s.k; ++k) sum += At(*a, 0, i, k, ta) * At(*b, 0, k, j, tb);
          want.push_back(alpha * sum + beta * c->at(column ? i : j));
        }
      const AttrDict attrs{
          {"transA", int64_t{ta}}, {"transB", int64_t{tb}}, {"alpha", alpha}, {"beta", beta}};
      const auto y = Case("Gemm", {a, b, c}, attrs, {s.m, s.n}).Run();
      REQUIRE(y);
      CHECK(Difference(*y, want) < 1e-5);
    }
}

TEST_CASE("a row that lies where the result is written is added all the same") {
  for (const Ns& b_dims : {Ns{1200, 2}, Ns{12, 70}})
    for (const bool constant : {false, true}) {
      const auto a = RandomTensor({1, b_dims[0]}, 1), b = RandomTensor(b_dims, 2),
                 row = RandomTensor({1, b_dims[1]}, 3);
      Case c("MatMul", {a, b}, {}, {1, b_dims[1]}, {false, constant});
      CallStep step;
      step.node =
          c.graph.AddNode("Add", {NodeEntry(c.request.node),
                                  NodeEntry(c.graph.AddInput("row", DType::kF32, row->shape()))});
      step.operand = 2;
      step.operand_dims = row->dims();
      step.operand_type = DType::kF32;
      c.request.epilogue.push_back(step);
      const auto call = c.Make();
      REQUIRE(call);
      std::vector<double> want;
      for (int64_t j = 0; j < b_dims[1]; ++j) {
        want.push_back(row->at(j));
        for (int64_t k = 0; k < b_dims[0]; ++k) want.back() += a->at(k) * At(*b, 0, k, j, false);
      }
      const void* in[] = {a->data(), b->data(), row->data()};
      void* out = row->mutable_data();
      const size_t bytes = size_t(CheckedRoundUp(call->scratch_bytes() + 64, 64));
      std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
      call->Run(in, &out, scratch.get());
      CHECK(Difference(*row, want) < 1e-5);
    }
}

TEST_CASE("an infinite element spoils only its own column") {
  const auto a = RandomTensor({1, 5}, 1), b = RandomTensor({5, 3}, 2);
  b->mutable_data_as<float>()[4 * 3 + 1] = INFINITY;
  const auto y = Case("MatMul", {a, b}, {}, {1, 3}).Run();
  REQUIRE(y);
  CHECK(std::isfinite(y->at(0)));
  CHECK(std::isinf(y->at(1)));
  CHECK(std::isfinite(y->at(2)));
}

}  // namespace
}  // namespace weft::cpu
