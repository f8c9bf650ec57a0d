/// compressed_product_test.cc: rows times matrices of few bits, by every instruction set of this
/// machine, against sums in double precision of what each code means; exhaustively over the codes
/// of every dtype.
#include "compressed_product.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "backends/cpu/util/call_test_util.h"
#include "backends/cpu/util/threads.h"

namespace weft::cpu {
namespace {

constexpr DType kCodes[] = {DType::kI2,         DType::kU2,     DType::kI4,        DType::kU4,
                            DType::kF4E2M1,     DType::kI8,     DType::kU8,        DType::kF8E4M3FN,
                            DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ};

bool IsInteger(DType t) { return !IsLowBit(t) || ValueTypeOf(t) != DType::kF32; }

/// Random codes, of floats those that are numbers.
TensorPtr RandomCodes(DType t, const Ns& dims, uint32_t seed) {
  auto codes = std::make_shared<Tensor>(t, dims);
  std::mt19937 random(seed);
  auto* bytes = static_cast<uint8_t*>(codes->mutable_data());
  for (int64_t i = 0; i < codes->num_bytes(); ++i) bytes[i] = uint8_t(random());
  if (DTypeBits(t) == 8)
    for (int64_t i = 0; i < codes->num_bytes(); ++i)
      while (!std::isfinite(codes->at(i))) bytes[i] = uint8_t(random());
  return codes;
}

enum class Zeros { kNone, kOne, kMany };

struct Problem {
  DType type;
  int64_t depth, columns, block;
  bool transposed;
  Zeros zeros;

  CompressedWeight Make(uint32_t seed) const {
    CompressedWeight w;
    w.depth = depth;
    w.columns = columns;
    w.block = block;
    w.transposed = transposed;
    const int64_t blocks = (depth + block - 1) / block;
    const Ns dims = transposed ? Ns{columns, blocks} : Ns{blocks, columns};
    w.codes = RandomCodes(type, transposed ? Ns{columns, depth} : Ns{depth, columns}, seed);
    w.scale = RandomTensor(dims, seed + 1);  // negative ones among them
    if (zeros == Zeros::kMany) w.zero = RandomCodes(type, dims, seed + 2);
    if (zeros == Zeros::kOne) {
      const double one = RandomCodes(type, {4}, seed + 2)->at(1);
      w.zero = Tensor::FromDoubles(type, dims, std::vector<double>(size_t(blocks * columns), one));
    }
    return w;
  }
};

double WeightAt(const CompressedWeight& w, int64_t k, int64_t j) {
  const int64_t blocks = (w.depth + w.block - 1) / w.block, b = k / w.block;
  const int64_t at = w.transposed ? j * blocks + b : b * w.columns + j;
  const double q = w.codes->at(w.transposed ? j * w.depth + k : k * w.columns + j);
  return (q - (w.zero ? w.zero->at(at) : 0)) * w.scale->at(at);
}

/// Largest difference, relative to the sum of the absolute values of the terms.
double Worst(const CompressedWeight& w, int64_t rows, const float* x, int64_t x_step,
             const float* row, const float* addend, const float* y) {
  double worst = 0;
  for (int64_t j = 0; j < w.columns; ++j) {
    std::vector<double> column;
    for (int64_t k = 0; k < w.depth; ++k) column.push_back(WeightAt(w, k, j));
    for (int64_t i = 0; i < rows; ++i) {
      double sum = (row ? row[j] : 0) + (addend ? addend[i * w.columns + j] : 0), size = 1;
      for (int64_t k = 0; k < w.depth; ++k) {
        sum += x[i * x_step + k] * column[size_t(k)];
        size += std::abs(x[i * x_step + k] * column[size_t(k)]);
      }
      const double d = std::abs(y[i * w.columns + j] - sum) / size;
      worst = std::isnan(d) ? INFINITY : std::max(worst, d);
    }
  }
  return worst;
}

void CheckProduct(const Problem& p, int64_t rows, int added, const CompressedKernel& kernel) {
  CAPTURE(std::string(kernel.name));
  CAPTURE(DTypeName(p.type));
  CAPTURE(p.depth);
  CAPTURE(p.columns);
  CAPTURE(p.block);
  CAPTURE(rows);
  CAPTURE(int(p.zeros));
  const CompressedWeight w = p.Make(uint32_t(p.depth * 7 + rows));
  const CompressedProduct product(w);
  // Rows of x are apart, and nothing between them counts.
  const int64_t x_step = p.depth + 3;
  std::vector<float> x(size_t(rows * x_step), NAN);
  const auto a = RandomTensor({rows, p.depth}, 3), row = RandomTensor({p.columns}, 4),
             addend = RandomTensor({rows, p.columns}, 5);
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(a->data_as<float>() + i * p.depth, p.depth, x.data() + i * x_step);
  constexpr float kStays = 0x1.2345p99f;
  const size_t n = size_t(rows * p.columns);
  std::vector<float> y(n + 128, kStays), scratch(size_t(product.scratch_floats(rows)) + 1, NAN);
  std::copy_n(addend->data_as<float>(), n, y.data() + 64);
  const float* const plus = added & 1 ? row->data_as<float>() : nullptr;
  product.Run(rows, x.data(), x_step, plus, added & 2 ? y.data() + 64 : nullptr, y.data() + 64,
              scratch.data(), kernel);
  CHECK(Worst(w, rows, x.data(), x_step, plus, added & 2 ? addend->data_as<float>() : nullptr,
              y.data() + 64) < 1e-6);
  const auto stays = [](float f) { return f == kStays; };
  CHECK(std::all_of(y.begin(), y.begin() + 64, stays));
  CHECK(std::all_of(y.end() - 64, y.end(), stays));
}

TEST_CASE("every code of every dtype has its value, on every instruction set") {
  for (int i = 0; const CompressedKernel* kernel = CompressedKernelNumber(i); ++i)
    for (const DType t : kCodes) {
      // Column j is code j, depth 1: y = x (code - zero) scale.
      const int64_t codes = int64_t{1} << DTypeBits(t);
      CompressedWeight w;
      w.depth = 1;
      w.columns = codes;
      w.block = 16;
      auto all = std::make_shared<Tensor>(t, Ns{1, codes});
      auto* bytes = static_cast<uint8_t*>(all->mutable_data());
      const int per_byte = 8 / DTypeBits(t);
      std::memset(bytes, 0, size_t(all->num_bytes()));
      for (int64_t c = 0; c < codes; ++c)
        bytes[c / per_byte] = uint8_t(bytes[c / per_byte] | c << (c % per_byte * DTypeBits(t)));
      w.codes = all;
      w.scale = Tensor::FromDoubles(DType::kF32, {1, codes}, std::vector<double>(size_t(codes), 2));
      for (const bool numbers : {false, true}) {
        // Once with NaN and infinities among them, once without: floats have a form for each.
        if (numbers) {
          auto only = std::make_shared<Tensor>(t, Ns{1, codes});
          std::memcpy(only->mutable_data(), all->data(), size_t(all->num_bytes()));
          for (int64_t c = 0; DTypeBits(t) == 8 && c < codes; ++c)
            if (!std::isfinite(only->at(c))) static_cast<uint8_t*>(only->mutable_data())[c] = 1;
          w.codes = only;
        }
        const CompressedProduct product(w);
        for (const int64_t rows : {1, 2, 9, 97}) {
          const std::vector<float> x(size_t(rows), 0.5f);
          std::vector<float> y(size_t(rows * codes), 7.f),
              scratch(size_t(product.scratch_floats(rows)) + 1);
          product.Run(rows, x.data(), 1, nullptr, nullptr, y.data(), scratch.data(), *kernel);
          for (int64_t c = 0; c < rows * codes; ++c) {
            const double want = w.codes->at(c % codes);
            CAPTURE(std::string(kernel->name));
            CAPTURE(DTypeName(t));
            CAPTURE(c);
            if (std::isnan(want))
              CHECK(std::isnan(y[size_t(c)]));
            else
              CHECK(double(y[size_t(c)]) == want);
          }
        }
      }
    }
}

TEST_CASE("every dtype, zero and number of rows, odd extents and blocks") {
  std::mt19937 random(1);
  const auto any = [&](std::vector<int64_t> of) { return of[random() % of.size()]; };
  for (int i = 0; const CompressedKernel* kernel = CompressedKernelNumber(i); ++i)
    for (const DType t : kCodes)
      for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 19, 100})
        for (int turn = 0; turn < 6; ++turn) {
          const Zeros zeros = IsInteger(t) ? Zeros(turn % 3) : Zeros::kNone;
          CheckProduct({t, any({1, 3, 8, 16, 31, 64, 100, 129, 320}),
                        any({1, 2, 15, 16, 17, 48, 63, 64, 65, 97, 130}),
                        any({1, 2, 5, 8, 16, 24, 32, 64, 128, 256, 1000}), turn % 2 == 0, zeros},
                       rows, int(random() % 4), *kernel);
        }
}

TEST_CASE("large products on a team, bits the same for every number of threads") {
  for (const int64_t rows : {1, 8, 40, 110})
    for (const DType t : {DType::kI4, DType::kU8, DType::kF8E5M2}) {
      const CompressedWeight w =
          Problem{t, 600, 530, 32, true, IsInteger(t) ? Zeros::kMany : Zeros::kNone}.Make(3);
      const CompressedProduct product(w);
      const auto a = RandomTensor({rows, w.depth}, 1);
      std::vector<float> first;
      for (const int threads : {1, 2, 3, 7, 2, 64}) {
        CAPTURE(threads);
        const ScopedThreads team(threads);
        std::vector<float> y(size_t(rows * w.columns), NAN),
            scratch(size_t(product.scratch_floats(rows)) + 1);
        product.Run(rows, a->data_as<float>(), w.depth, nullptr, nullptr, y.data(), scratch.data());
        if (first.empty()) {
          first = y;
          CHECK(Worst(w, rows, a->data_as<float>(), w.depth, nullptr, nullptr, y.data()) < 1e-6);
        }
        CHECK(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)) == 0);
      }
    }
}

TEST_CASE("many rows by few columns are shared by rows") {
  const CompressedWeight w = Problem{DType::kI4, 700, 20, 64, false, Zeros::kNone}.Make(3);
  const CompressedProduct product(w);
  const auto a = RandomTensor({130, w.depth}, 1);
  const ScopedThreads team(3);
  std::vector<float> y(size_t(130 * w.columns), NAN),
      scratch(size_t(product.scratch_floats(130)) + 1);
  product.Run(130, a->data_as<float>(), w.depth, nullptr, nullptr, y.data(), scratch.data());
  CHECK(Worst(w, 130, a->data_as<float>(), w.depth, nullptr, nullptr, y.data()) < 1e-6);
}

TEST_CASE("a weight is packed once, in the bits that it has") {
  const CompressedWeight w = Problem{DType::kU4, 64, 160, 32, true, Zeros::kMany}.Make(1);
  const CompressedProduct one(w), other(w);
  CHECK(one.packed() == other.packed());
  // Half a byte a number, four bytes a scale, one a zero.
  CHECK(one.packed().second == 64 * 160 / 2 + 2 * 160 * 5);
}

TEST_CASE("infinities and NaN of x spoil their own row only") {
  const CompressedWeight w = Problem{DType::kI4, 70, 40, 16, false, Zeros::kMany}.Make(1);
  const CompressedProduct product(w);
  for (const float bad : {INFINITY, NAN})
    for (const int64_t rows : {3, 12, 120}) {
      const auto a = RandomTensor({rows, w.depth}, 1);
      a->mutable_data_as<float>()[w.depth + 69] = bad;
      std::vector<float> y(size_t(rows * w.columns), 0),
          scratch(size_t(product.scratch_floats(rows)) + 1);
      product.Run(rows, a->data_as<float>(), w.depth, nullptr, nullptr, y.data(), scratch.data());
      for (int64_t i = 0; i < rows * w.columns; ++i) {
        CAPTURE(i);
        CHECK(std::isfinite(y[size_t(i)]) == (i / w.columns != 1));
      }
    }
}

TEST_CASE("what is not taken: wide numbers, scales that are not finite, zeros of floats") {
  CHECK(!CompressedProduct::Takes(DType::kI16));
  CHECK(!CompressedProduct::Takes(DType::kF16));
  CHECK(!CompressedProduct::Takes(DType::kF8E8M0));
  CompressedWeight w = Problem{DType::kI8, 16, 8, 16, false, Zeros::kNone}.Make(1);
  CHECK(CompressedProduct::Takes(w));
  for (const double bad : {double(INFINITY), double(NAN), 0x1p120}) {
    w.scale = Tensor::FromDoubles(DType::kF32, {1, 8}, {1, 1, 1, bad, 1, 1, 1, 1});
    CHECK(!CompressedProduct::Takes(w));
  }
  w = Problem{DType::kF8E5M2, 16, 8, 16, false, Zeros::kNone}.Make(1);
  w.zero = Tensor::FromDoubles(DType::kF8E5M2, {1, 8}, std::vector<double>(8, 0));
  CHECK(CompressedProduct::Takes(w));
  w.zero = Tensor::FromDoubles(DType::kF8E5M2, {1, 8}, std::vector<double>(8, 1));
  CHECK(!CompressedProduct::Takes(w));
}

}  // namespace
}  // namespace weft::cpu
