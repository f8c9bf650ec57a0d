/// few_rows.cc: one to a few rows times a constant matrix, as a token of a language model has them,
/// beside a loop that only reads as many bytes: what a product costs at least. Both sides run in
/// turns, ROUNDS times over matrices of 256 MB in all, as in a model whose weights lie in memory
/// (COLD 0: one matrix, which stays in the caches if it fits); a time is the least of all runs.
///
///   build/bin/bench_few_rows [ROUNDS [COLD [THREADS [WORD [STORED]]]]]
///
/// Without them: 20, 1, all, every name, f32.
/// WORD is part of the names that are wanted, as "768x3072". STORED i8 or i4: the matrix is
/// integers with a scale for each 32 of a column, and what is read beside it is as many bytes.
///
/// On a machine that does other things, run it with GOMP_SPINCOUNT=1000, as the weft command does.
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/program/program.h"
#include "weft/support/aligned_memory.h"
#include "weft/support/timer.h"

namespace {

using namespace weft;

struct Case {
  const char* name;
  int64_t k, n;
  bool transposed;
};
constexpr Case kCases[] = {
    {"768x768", 768, 768, false},       {"768x3072", 768, 3072, false},
    {"2048x5632", 2048, 5632, false},   {"3072x768", 3072, 768, false},
    {"768x50257", 768, 50257, false},   {"768x50257 T", 768, 50257, true},
    {"896x4864", 896, 4864, false},     {"4864x896", 4864, 896, false},
    {"2048x2048", 2048, 2048, false},   {"4096x4096", 4096, 4096, false},
    {"4096x11008", 4096, 11008, false},
};

/// Of f32, or of integers of `bits` bits with their scales.
struct Storage {
  int64_t bits = 32;
  int64_t BytesOf(const Case& c) const {
    const int64_t scales = bits == 32 ? 0 : (c.k + kBlock - 1) / kBlock * c.n;
    return c.k * c.n * bits / 8 + scales * int64_t{sizeof(float)};
  }
  static constexpr int64_t kBlock = 32;
};

std::shared_ptr<Tensor> Filled(const std::vector<int64_t>& dims, unsigned seed) {
  auto t = std::make_shared<Tensor>(DType::kF32, dims);
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t->mutable_data_as<float>()[i] = float(int(seed >> 8) % 2001 - 1000) * 1e-3f;
  }
  return t;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WEFT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WEFT_CLONES
#endif
WEFT_CLONES uint64_t ReadAll(const uint64_t* from, int64_t n) {
  uint64_t all[32] = {};
  for (int64_t i = 0; i + 32 <= n; i += 32)
    for (int j = 0; j < 32; ++j) all[j] ^= from[i + j];
  for (int j = 1; j < 32; ++j) all[0] ^= all[j];
  return all[0];
}

/// Memory that is read by all threads, a part each.
class Reading {
 public:
  explicit Reading(int64_t bytes) : memory_(AllocateAligned(bytes)), words_(bytes / 8) {
    std::fill_n(static_cast<uint64_t*>(memory_.get()), words_, uint64_t{1});
  }
  void Run(int threads) const {
    const auto* from = static_cast<const uint64_t*>(memory_.get());
    const int64_t part = words_ / threads / 32 * 32;
    uint64_t all = 0;
#pragma omp parallel for num_threads(threads) reduction(^ : all)
    for (int i = 0; i < threads; ++i) all ^= ReadAll(from + i * part, part);
    sink_ = all;
  }

 private:
  std::shared_ptr<void> memory_;
  int64_t words_;
  mutable volatile uint64_t sink_ = 0;
};

/// A matrix as it is stored, and its scales (null: of f32).
struct Matrix {
  TensorPtr codes, scales;
};
Matrix MatrixOf(const Case& c, const Storage& storage) {
  const std::vector<int64_t> dims = c.transposed ? std::vector{c.n, c.k} : std::vector{c.k, c.n};
  if (storage.bits == 32) return {Filled(dims, 7), nullptr};
  auto codes = std::make_shared<Tensor>(storage.bits == 8 ? DType::kI8 : DType::kI4, dims);
  auto* bytes = static_cast<uint8_t*>(codes->mutable_data());
  for (int64_t i = 0; i < codes->num_bytes(); ++i) bytes[i] = uint8_t(i * 37 + i / 251);
  std::vector<int64_t> blocks = dims;
  int64_t& summed = blocks[c.transposed ? 1 : 0];
  summed = (summed + Storage::kBlock - 1) / Storage::kBlock;
  return {codes, Filled(blocks, 9)};
}

/// y = x w, w constant.
class Product {
 public:
  Product(const Case& c, int64_t rows, int threads, const Matrix& matrix) {
    Graph g;
    NodeEntry w = g.AddConstant(matrix.codes);
    if (matrix.scales)
      w = ApplyOp("DequantizeLinear", {w, g.AddConstant(matrix.scales)},
                  {{"axis", int64_t(c.transposed)}, {"block_size", Storage::kBlock}});
    const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({rows, c.k})));
    AttrDict attrs;
    if (c.transposed) attrs["transB"] = int64_t{1};
    g.outputs = std::vector<NodeEntry>{ApplyOp(c.transposed ? "Gemm" : "MatMul", {x, w}, attrs)};
    CompileOptions options;
    options.backend = "cpu";
    options.threads = threads;
    session_ = std::make_unique<Session>(Compile(g, options));
    inputs_ = {Filled({rows, c.k}, 3)};
    session_->RunInto(inputs_, &outputs_);
  }
  void Run() { session_->RunInto(inputs_, &outputs_); }

 private:
  std::unique_ptr<Session> session_;
  std::vector<TensorPtr> inputs_;
  std::vector<std::shared_ptr<Tensor>> outputs_;
};

double Seconds(const std::function<void()>& work) {
  const Timer timer;
  work();
  return timer.seconds();
}

void Measure(int rounds, bool cold, int threads, const std::string& word, const Storage& storage) {
  constexpr int64_t kCold = int64_t{256} << 20;
  constexpr int64_t kRows[] = {1, 2, 4, 8};
  std::printf("%d threads, %s, %d bits; GB/s of the matrix: read, then by rows (of read)\n",
              threads, cold ? "from memory" : "one matrix", int(storage.bits));
  for (const Case& c : kCases) {
    if (std::string(c.name).find(word) == std::string::npos) continue;
    const int64_t copies = cold ? std::max<int64_t>(1, kCold / storage.BytesOf(c)) : 1;
    std::vector<Matrix> weights;
    std::vector<Reading> readings;
    for (int64_t i = 0; i < copies; ++i) {
      weights.push_back(MatrixOf(c, storage));
      readings.emplace_back(storage.BytesOf(c));
    }
    double read = 1e9;
    std::vector<double> least;
    for (const int64_t rows : kRows) {
      std::vector<Product> products;
      for (const Matrix& w : weights) products.emplace_back(c, rows, threads, w);
      // A round goes over all copies, each sort by itself: a product finds what a product left.
      double run = 1e9;
      for (int i = 0; i < rounds; ++i) {
        for (const Reading& r : readings) read = std::min(read, Seconds([&] { r.Run(threads); }));
        for (Product& p : products) run = std::min(run, Seconds([&] { p.Run(); }));
      }
      least.push_back(run);
    }
    const double gigabytes = double(storage.BytesOf(c)) * 1e-9;
    std::printf("%-14s %6.1f  ", c.name, gigabytes / read);
    for (size_t i = 0; i < least.size(); ++i)
      std::printf("  %d: %6.1f (%.2f)", int(kRows[i]), gigabytes / least[i], read / least[i]);
    std::printf("\n");
    std::fflush(stdout);
  }
}

int AllThreads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const std::string stored = argc > 5 ? argv[5] : "f32";
  try {
    Measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 20, argc <= 2 || std::atoi(argv[2]) != 0,
            argc > 3 && std::atoi(argv[3]) > 0 ? std::atoi(argv[3]) : AllThreads(),
            argc > 4 ? argv[4] : "",
            {stored == "i8"   ? 8
             : stored == "i4" ? 4
                              : 32});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
