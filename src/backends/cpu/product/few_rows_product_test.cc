/// few_rows_product_test.cc: a few rows times a constant matrix, by every instruction set of this
/// machine and as MatMul and Gemm ask for them, against sums in double precision.
#include "few_rows_product.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "backends/cpu/util/call_test_util.h"
#include "backends/cpu/util/threads.h"

namespace weft::cpu {
namespace {

/// Element [k, j] of a matrix that lies transposed or not.
double At(const Tensor& b, int64_t k, int64_t j, bool transposed) {
  const int64_t columns = b.dims().back();
  return b.at(transposed ? j * columns + k : k * columns + j);
}

std::vector<double> Sums(const Tensor& a, const Tensor& b, bool transposed) {
  const int64_t depth = a.dims().back(), rows = a.num_elements() / depth,
                columns = b.num_elements() / depth;
  const auto *x = a.data_as<float>(), *matrix = b.data_as<float>();
  std::vector<double> y;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += double(x[i * depth + k]) * matrix[transposed ? j * depth + k : k * columns + j];
      y.push_back(sum);
    }
  return y;
}

bool IsOfFewRows(const LibraryCall& call) {
  return call.description().find("few rows, packed") != std::string::npos;
}

struct Extents {
  int64_t depth, columns;
};
/// Around whole vectors, panels and blocks of rows, for one thread and for more.
constexpr Extents kExtents[] = {{1, 2},    {3, 15},   {7, 16},   {5, 17},   {64, 31},  {13, 32},
                                {2, 33},   {40, 47},  {9, 48},   {129, 49}, {31, 64},  {200, 63},
                                {97, 65},  {64, 112}, {33, 113}, {128, 95}, {257, 96}, {70, 530},
                                {300, 97}, {20, 801}, {513, 144}};

TEST_CASE("every instruction set: all numbers of rows, odd extents, what is added") {
  int kernels = 0;
  for (; const FewRowsKernel* kernel = FewRowsKernelNumber(kernels); ++kernels)
    for (const Extents& e : kExtents)
      for (const bool transposed : {false, true}) {
        const std::string name = kernel->name;
        CAPTURE(name);
        CAPTURE(e.depth);
        CAPTURE(e.columns);
        const auto b =
            RandomTensor(transposed ? Ns{e.columns, e.depth} : Ns{e.depth, e.columns}, 2);
        const FewRowsProduct product(b, e.depth, e.columns, transposed ? 1 : e.columns,
                                     transposed ? e.depth : 1);
        for (int64_t rows = 1; rows <= kMostFewRows; ++rows) {
          CAPTURE(rows);
          const auto a = RandomTensor({rows, e.depth}, 1), row = RandomTensor({e.columns}, 3),
                     addend = RandomTensor({rows, e.columns}, 4);
          const std::vector<double> sums = Sums(*a, *b, transposed);
          // Rows of x that are not next to each other, with something between them.
          const int64_t x_step = e.depth + 3;
          std::vector<float> x(size_t(rows * x_step), NAN);
          for (int64_t i = 0; i < rows; ++i)
            std::copy_n(a->data_as<float>() + i * e.depth, e.depth, x.data() + i * x_step);
          for (int added = 0; added < 4; ++added) {
            std::vector<double> want = sums;
            for (size_t i = 0; i < want.size(); ++i)
              want[i] += (added & 1 ? row->at(int64_t(i) % e.columns) : 0) +
                         (added & 2 ? addend->at(int64_t(i)) : 0);
            // The addend lies where the result goes; what is around that stays.
            constexpr float kStays = 0x1.2345p99f;
            std::vector<float> y(want.size() + 128, kStays);
            for (size_t i = 0; i < want.size(); ++i) y[64 + i] = addend->data_as<float>()[i];
            product.Run(rows, x.data(), x_step, added & 1 ? row->data_as<float>() : nullptr,
                        added & 2 ? y.data() + 64 : nullptr, y.data() + 64, *kernel);
            auto got = std::make_shared<Tensor>(DType::kF32, Ns{rows, e.columns});
            std::copy_n(y.data() + 64, want.size(), got->mutable_data_as<float>());
            CHECK(Difference(*got, want) < 1e-5);
            const auto stays = [](float f) { return f == kStays; };
            CHECK(std::all_of(y.begin(), y.begin() + 64, stays));
            CHECK(std::all_of(y.end() - 64, y.end(), stays));
          }
        }
      }
  CHECK(kernels >= 1);
  CHECK(FewRowsKernelNumber(-1) == nullptr);
}

TEST_CASE("bits are the same for every number of threads, and in both directions") {
  for (const Extents& e : {Extents{70, 530}, {513, 1000}, {2000, 130}})
    for (const int64_t rows : {1, 3, 8}) {
      const auto a = RandomTensor({rows, e.depth}, 1), b = RandomTensor({e.depth, e.columns}, 2);
      const FewRowsProduct product(b, e.depth, e.columns, e.columns, 1);
      std::vector<float> first;
      for (const int threads : {1, 2, 3, 7, 2, 64}) {
        CAPTURE(threads);
        const ScopedThreads team(threads);
        std::vector<float> y(size_t(rows * e.columns), NAN);
        product.Run(rows, a->data_as<float>(), e.depth, nullptr, nullptr, y.data());
        if (first.empty()) first = y;
        CHECK(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)) == 0);
      }
    }
}

TEST_CASE("one matrix is packed once for all numbers of rows") {
  const auto b = RandomTensor({60, 200}, 2);
  const FewRowsProduct one(b, 60, 200, 200, 1), other(b, 60, 200, 200, 1);
  CHECK(one.packed() == other.packed());
  CHECK(one.packed().second == 60 * 208 * int64_t{sizeof(float)});
}

TEST_CASE("MatMul: one to nine rows, in any number of axes") {
  for (const Extents& e : {Extents{33, 70}, {64, 768}, {300, 129}, {5, 3}})
    for (int64_t rows = 1; rows <= kMostFewRows + 1; ++rows) {
      CAPTURE(rows);
      CAPTURE(e.columns);
      const auto b = RandomTensor({e.depth, e.columns}, 2);
      for (const Ns& front : std::vector<Ns>{{rows}, {1, rows}, {rows, 1}, {1, rows, 1}}) {
        Ns dims = front, result = front;
        dims.push_back(e.depth);
        result.push_back(e.columns);
        const auto a = RandomTensor(dims, 1);
        const Case c("MatMul", {a, b}, {}, result, {false, true});
        const auto call = c.Make();
        REQUIRE(call);
        CHECK(IsOfFewRows(*call) == (rows <= kMostFewRows));
        CHECK(Difference(*c.Run(*call), Sums(*a, *b, false)) < 1e-5);
      }
    }
}

TEST_CASE("weft::TransposedMatMul: a constant that is read transposed, rows that are not dense") {
  for (const Extents& e : {Extents{33, 70}, {300, 129}})
    for (int64_t rows = 1; rows <= kMostFewRows; ++rows)
      for (const bool columns_first : {false, true}) {
        CAPTURE(rows);
        const auto a = RandomTensor({rows, e.depth}, 1), b = RandomTensor({e.columns, e.depth}, 2);
        auto turned = std::make_shared<Tensor>(DType::kF32, Ns{e.depth, rows});
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t k = 0; k < e.depth; ++k)
            turned->mutable_data_as<float>()[k * rows + i] = a->data_as<float>()[i * e.depth + k];
        const Case c("weft::TransposedMatMul", {columns_first ? turned : a, b},
                     {{"a_perm", columns_first ? Ints{1, 0} : Ints{0, 1}}, {"b_perm", Ints{1, 0}}},
                     {rows, e.columns}, {false, true});
        const auto call = c.Make();
        REQUIRE(call);
        CHECK(IsOfFewRows(*call));
        CHECK(Difference(*c.Run(*call), Sums(*a, *b, true)) < 1e-5);
      }
}

TEST_CASE("Gemm: factors, transposes and every shape of C, one to nine rows") {
  const int64_t depth = 45, columns = 77;
  for (int64_t rows = 1; rows <= kMostFewRows + 1; ++rows)
    for (int which = 0; which < 8; ++which)
      for (const Ns& c_dims :
           std::vector<Ns>{{-1}, {}, {columns}, {1, columns}, {rows, 1}, {rows, columns}}) {
        const bool ta = which & 1, tb = which & 2, factors = which & 4, has_c = c_dims != Ns{-1};
        CAPTURE(rows);
        CAPTURE(which);
        const auto a = RandomTensor(ta ? Ns{depth, rows} : Ns{rows, depth}, 1),
                   b = RandomTensor(tb ? Ns{columns, depth} : Ns{depth, columns}, 2);
        const auto c = has_c ? RandomTensor(c_dims, 3) : nullptr;
        const double alpha = factors ? 0.5 : 1, beta = factors ? -2 : 1;
        std::vector<double> want;
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < depth; ++k)
              sum += a->at(ta ? k * rows + i : i * depth + k) * At(*b, k, j, tb);
            double add = 0;
            if (has_c) {
              const int64_t high = c_dims.size() == 2 ? c_dims[0] : 1,
                            wide = c_dims.empty() ? 1 : c_dims.back();
              add = c->at((high == 1 ? 0 : i) * wide + (wide == 1 ? 0 : j));
            }
            want.push_back(alpha * sum + beta * add);
          }
        std::vector<TensorPtr> in{a, b};
        if (has_c) in.push_back(c);
        const Case g("Gemm", in,
                     {{"transA", int(ta)}, {"transB", int(tb)}, {"alpha", alpha}, {"beta", beta}},
                     {rows, columns}, {false, true});
        const auto call = g.Make();
        REQUIRE(call);
        CHECK(IsOfFewRows(*call) == (rows <= kMostFewRows));
        CHECK(Difference(*g.Run(*call), want) < 1e-5);
      }
}

TEST_CASE("a large matrix of few columns is oneDNN's") {
  CHECK(FewRowsProduct::Fits(8, 4096, 127));
  CHECK(!FewRowsProduct::Fits(8, 4200, 127));
  CHECK(FewRowsProduct::Fits(8, 4200, 128));
  CHECK(!FewRowsProduct::Fits(9, 16, 128));
  CHECK(!FewRowsProduct::Fits(1, 16, 1));
}

TEST_CASE("numbers below the normal range count as zero in packed weights") {
  // Beside a weight that is large enough; what they would add is far below its rounding.
  for (const float largest : {1.f, 0x1p-110f})
    for (const int64_t rows : {1, 5}) {
      const auto a = std::make_shared<Tensor>(DType::kF32, Ns{rows, 2}),
                 b = std::make_shared<Tensor>(DType::kF32, Ns{2, 3});
      for (int64_t i = 0; i < rows; ++i) {
        a->mutable_data_as<float>()[2 * i] = 0;
        a->mutable_data_as<float>()[2 * i + 1] = 0x1p100f;
      }
      for (int j = 0; j < 3; ++j) b->mutable_data_as<float>()[j] = largest;
      b->mutable_data_as<float>()[4] = 0x1p-140f;
      const auto y = Case("MatMul", {a, b}, {}, {rows, 3}, {false, true}).Run();
      REQUIRE(y);
      for (int64_t i = 0; i < rows; ++i) {
        CHECK(y->at(3 * i) == 0);
        CHECK(y->at(3 * i + 1) == (largest == 1 ? 0 : 0x1p-40));
      }
    }
}

TEST_CASE("NaN and infinities spoil their own row or column only, NaN survives what follows") {
  const int64_t rows = 5, depth = 150, columns = 60;
  const auto a = RandomTensor({rows, depth}, 1), b = RandomTensor({depth, columns}, 2);
  a->mutable_data_as<float>()[2 * depth + 149] = NAN;
  b->mutable_data_as<float>()[7 * columns + 59] = INFINITY;
  b->mutable_data_as<float>()[130 * columns + 3] = -INFINITY;
  Case c("MatMul", {a, b}, {}, {rows, columns}, {false, true});
  CallStep step;
  step.node = c.graph.AddNode("Relu", {NodeEntry(c.request.node)});
  c.request.epilogue.push_back(step);
  const auto call = c.Make();
  REQUIRE(call);
  CHECK(IsOfFewRows(*call));
  const std::vector<double> sums = Sums(*a, *b, false);
  const auto y = c.Run(*call);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double got = y->at(int64_t(i)), want = std::isnan(sums[i]) ? NAN : std::max(0., sums[i]);
    CAPTURE(i);
    CHECK(std::isnan(got) == std::isnan(want));
    if (!std::isnan(want)) CHECK((got == want || std::abs(got - want) < 1e-4));
    if (i / columns != 2 && i % columns != 59 && i % columns != 3) CHECK(std::isfinite(got));
  }
}

/// What follows a product: a node, the operand that it adds, and what it makes of a sum.
struct Epilogue {
  std::string name;
  const char* op;
  AttrDict attrs;
  Ns operand;  ///< empty: none
  std::function<double(double sum, double operand)> formula;
};

TEST_CASE("rows, residuals and activations behind few rows, where the residual is the result") {
  const double root = 0.70710678118654752;
  const int64_t depth = 100, columns = 150;
  for (int64_t rows = 1; rows <= kMostFewRows; ++rows) {
    const std::vector<Epilogue> all = {
        {"row", "Add", {}, {columns}, [](double s, double o) { return s + o; }},
        {"residual", "Add", {}, {rows, columns}, [](double s, double o) { return s + o; }},
        {"relu", "Relu", {}, {}, [](double s, double) { return std::max(0., s); }},
        {"gelu", "Gelu", {}, {}, [=](double s, double) { return s / 2 * std::erfc(-s * root); }},
        {"sigmoid", "Sigmoid", {}, {}, [](double s, double) { return 1 / (1 + std::exp(-s)); }},
    };
    // A row, then a residual, then an activation; each of them may be left out.
    for (int which = 1; which < 16; ++which)
      for (const bool in_place : {false, true}) {
        const auto a = RandomTensor({rows, depth}, 1), b = RandomTensor({depth, columns}, 2);
        Case c("MatMul", {a, b}, {}, {rows, columns}, {false, true});
        std::vector<double> want = Sums(*a, *b, false);
        std::vector<TensorPtr> more;
        int residual = -1;
        const auto follow = [&](const Epilogue& e) {
          CallStep step;
          std::vector<NodeEntry> in{NodeEntry(c.request.node)};
          TensorPtr operand;
          if (!e.operand.empty()) {
            operand = RandomTensor(e.operand, uint32_t(5 + more.size()));
            step.operand = int(2 + more.size());
            step.operand_dims = e.operand;
            step.operand_type = DType::kF32;
            more.push_back(operand);
            in.push_back(NodeEntry(c.graph.AddInput(e.name, DType::kF32, operand->shape())));
            if (e.name == "residual") residual = step.operand;
          }
          step.node = c.graph.AddNode(e.op, in, e.attrs);
          c.request.epilogue.push_back(step);
          for (size_t i = 0; i < want.size(); ++i)
            want[i] =
                e.formula(want[i], operand ? operand->at(int64_t(i) % operand->num_elements()) : 0);
        };
        if (which & 1) follow(all[0]);
        if (which & 2) follow(all[1]);
        if (which >> 2) follow(all[size_t(1 + (which >> 2))]);
        CAPTURE(rows);
        CAPTURE(which);
        const auto call = c.Make();
        REQUIRE(call);
        CHECK(IsOfFewRows(*call));
        c.operands.insert(c.operands.end(), more.begin(), more.end());
        if (!in_place || residual < 0) {
          CHECK(Difference(*c.Run(*call), want) < 1e-5);
          continue;
        }
        auto y = std::make_shared<Tensor>(DType::kF32, Ns{rows, columns});
        std::memcpy(y->mutable_data(), c.operands[size_t(residual)]->data(),
                    size_t(y->num_bytes()));
        std::vector<const void*> in;
        for (const TensorPtr& t : c.operands) in.push_back(t->data());
        in[size_t(residual)] = y->data();
        void* out = y->mutable_data();
        const size_t bytes = size_t(CheckedRoundUp(call->scratch_bytes() + 64, 64));
        std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
        call->Run(in.data(), &out, scratch.get());
        CHECK(Difference(*y, want) < 1e-5);
      }
  }
}

}  // namespace
}  // namespace weft::cpu
