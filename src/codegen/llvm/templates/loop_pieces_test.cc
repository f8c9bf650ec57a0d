/// loop_pieces_test.cc: kernels whose loops fall into pieces, against the oracle;
/// and which loops do.
#include "codegen/llvm/compiler/test_kernels.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }
Expr N(int64_t v) { return Expr::Int(v); }

/// The one of tensors side by side along `axis` that position `at` lies in.
Expr Pick(const std::vector<DType>& types, const std::vector<int64_t>& widths, size_t first,
          size_t last, int axis, int rank, const Expr& guard) {
  const auto begin = [&](size_t i) {
    int64_t sum = 0;
    for (size_t k = 0; k < i; ++k) sum += widths[k];
    return sum;
  };
  if (last - first == 1) {
    Indices at;
    for (int k = 0; k < rank; ++k) at.push_back(k == axis ? I(k) - N(begin(first)) : I(k));
    return Expr::Load(int(first), types[first], at, guard);
  }
  const size_t middle = (first + last) / 2;
  const Expr left = Lt(I(axis), N(begin(middle)));
  return Expr::Select(left, Pick(types, widths, first, middle, axis, rank, And(guard, left)),
                      Pick(types, widths, middle, last, axis, rank, And(guard, Not(left))));
}

/// Concat of `widths` along `axis` of `dims` (whose extent there does not matter), then `then`.
KernelPtr Concat(DType t, std::vector<SymInt> dims, int axis, const std::vector<int64_t>& widths,
                 const std::function<Expr(const Expr&)>& then = {}) {
  std::vector<TensorSpec> in;
  int64_t sum = 0;
  for (int64_t w : widths) {
    dims[size_t(axis)] = w;
    in.push_back({t, dims});
    sum += w;
  }
  dims[size_t(axis)] = sum;
  const Expr y = Pick(std::vector<DType>(widths.size(), t), widths, 0, widths.size(), axis,
                      int(dims.size()), Expr::Bool(true));
  return Lower(in, {{t, dims}}, {then ? then(y) : y});
}

/// Nothing chooses between inputs: neither vectors nor addresses.
bool InPieces(const KernelPtr& k) {
  const std::string source = Compiler(0).Source(*k);
  return source.find("select <") == std::string::npos && source.find("@block") == std::string::npos;
}

TEST_CASE("pieces: a concatenation along the lanes, all types, widths, random parts of rows") {
  const auto twice = [](const Expr& y) { return y + y; };
  for (DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kI8, DType::kI64})
    for (const std::vector<int64_t>& widths :
         {std::vector<int64_t>{32, 32}, {64, 32, 32, 32}, {7, 33, 1, 100, 15}, {16, 1, 16, 9}}) {
      const KernelPtr k = Concat(t, {9, 0}, 1, widths, twice);
      CHECK(InPieces(k));
      CheckKernel(k, RandomInputs(*k, {}, 51));
    }
}

TEST_CASE("pieces: a concatenation around the lanes, numbers and symbols inside") {
  const SymInt n = SymInt::Symbol("n");
  for (const std::vector<int64_t>& widths :
       {std::vector<int64_t>{1, 1}, {3, 1, 4, 1, 5}, {2, 2, 2, 2, 2, 2, 2}}) {
    const KernelPtr k = Concat(DType::kF32, {2, 0, 40}, 1, widths);
    CHECK(InPieces(k));
    CheckKernel(k, RandomInputs(*k, {}, 52));
    const KernelPtr s = Concat(DType::kF32, {n, 0, n}, 1, widths);
    for (int64_t length : {0, 1, 5, 70}) CheckKernel(s, RandomInputs(*s, {length}, 53), {length});
  }
}

TEST_CASE("pieces: what is read once a row is read in its piece alone") {
  // Each input has one number a row: behind the last row of an input nothing may be read.
  const std::vector<int64_t> widths{3, 5, 2};
  std::vector<TensorSpec> in;
  for (int64_t w : widths) in.push_back({DType::kF32, {w}});
  in.push_back({DType::kF32, {10, 50}});
  const Expr row = Pick(std::vector<DType>(3, DType::kF32), widths, 0, 3, 0, 1, Expr::Bool(true));
  const KernelPtr k =
      Lower(in, {{DType::kF32, {10, 50}}}, {row * Expr::Load(3, DType::kF32, {I(0), I(1)})});
  CHECK(InPieces(k));
  CheckKernel(k, RandomInputs(*k, {}, 54));
}

TEST_CASE("pieces: all comparisons, both signs, on the very border") {
  const auto kernel = [](const Expr& condition) {
    return Lower({{DType::kF32, {4, 64}}, {DType::kF32, {4, 64}}}, {{DType::kF32, {4, 64}}},
                 {Expr::Select(condition, Expr::Load(0, DType::kF32, {I(0), I(1)}, condition),
                               Expr::Load(1, DType::kF32, {I(0), I(1)}, Not(condition)))});
  };
  const auto binary = [](BinOp op, const Expr& a, const Expr& b) { return Expr::Binary(op, a, b); };
  const Expr j = I(1);
  const Expr rows[] = {binary(BinOp::kLt, j, N(20)),         binary(BinOp::kLe, j, N(20)),
                       binary(BinOp::kGt, j, N(20)),         binary(BinOp::kGe, j, N(20)),
                       binary(BinOp::kLt, N(20), j),         binary(BinOp::kLe, N(20), j),
                       binary(BinOp::kGt, N(63) - j, N(20)), binary(BinOp::kGe, N(63) - j, N(20))};
  for (const Expr& condition : rows) {
    const KernelPtr k = kernel(condition);
    CHECK(InPieces(k));
    CheckKernel(k, RandomInputs(*k, {}, 55));
  }
}

TEST_CASE("pieces: what lies beyond a border is read one way in each") {
  // Backwards before 0, forwards, backwards behind the end; the border itself; the other end.
  const auto beyond = [](int64_t n, int64_t pad, const Expr& before, const Expr& behind) {
    const Expr i = I(1) - N(pad);
    const Expr at = Expr::Select(Lt(i, N(0)), before, Expr::Select(Lt(i, N(n)), i, behind));
    const KernelPtr k = Lower({{DType::kF32, {5, n}}}, {{DType::kF32, {5, n + 2 * pad}}},
                              {Expr::Load(0, DType::kF32, {I(0), at})});
    CHECK(InPieces(k));
    CheckKernel(k, RandomInputs(*k, {}, 57));
  };
  for (int64_t n : {30, 67, 200})
    for (int64_t pad : {1, 3, 17}) {
      CAPTURE(n);
      CAPTURE(pad);
      const Expr i = I(1) - N(pad);
      beyond(n, pad, N(0) - i, N(2 * (n - 1)) - i);
      beyond(n, pad, N(0), N(n - 1));
      beyond(n, pad, i + N(n), i - N(n));
    }
}

TEST_CASE("pieces: long rows of padded bytes need no masks, short ones keep them") {
  const auto padded = [](int64_t n) {
    const Expr i = I(1) - N(24), inside = And(Le(N(0), i), Lt(i, N(n)));
    const KernelPtr k = Lower({{DType::kU8, {7, n}}}, {{DType::kU8, {7, n + 48}}},
                              {Expr::Select(inside, Expr::Load(0, DType::kU8, {I(0), i}, inside),
                                            Expr::Const(DType::kU8, 9))});
    CheckKernel(k, RandomInputs(*k, {}, 58));
    return InPieces(k);
  };
  CHECK(padded(1000));
  CHECK_FALSE(padded(100));
}

TEST_CASE("near misses of pieces: short ones, two loops, symbols, nothing saved") {
  const KernelPtr slim = Concat(DType::kF32, {9, 0}, 1, {3, 4, 5});
  CHECK_FALSE(InPieces(slim));
  CheckKernel(slim, RandomInputs(*slim, {}, 59));
  const KernelPtr many = Concat(DType::kF32, {0, 3, 40}, 0, std::vector<int64_t>(65, 1));
  CHECK_FALSE(InPieces(many));
  CheckKernel(many, RandomInputs(*many, {}, 60));
  const auto kernel = [](const Expr& condition, std::vector<SymInt> dims) {
    return Lower({{DType::kF32, dims}, {DType::kF32, dims}}, {{DType::kF32, dims}},
                 {Expr::Select(condition, Expr::Load(0, DType::kF32, {I(0), I(1)}, condition),
                               Expr::Load(1, DType::kF32, {I(0), I(1)}, Not(condition)))});
  };
  const KernelPtr both = kernel(Lt(I(0) + I(1), N(20)), {30, 40});
  CHECK_FALSE(InPieces(both));
  CheckKernel(both, RandomInputs(*both, {}, 56));
  const SymInt n = SymInt::Symbol("n");
  const KernelPtr symbolic = kernel(Lt(I(1), Expr::Dim(n)), {n, 64});
  CHECK_FALSE(InPieces(symbolic));
  CheckKernel(symbolic, RandomInputs(*symbolic, {40}, 66), {40});
  const Expr inside = Lt(I(1), N(20));
  const KernelPtr padded =
      Lower({{DType::kF32, {30, 20}}}, {{DType::kF32, {30, 64}}},
            {Expr::Select(inside, Expr::Load(0, DType::kF32, {I(0), I(1)}, inside),
                          Expr::Const(DType::kF32, 1))});
  CheckKernel(padded, RandomInputs(*padded, {}, 57));
}

// ---- what all lanes agree not to read ----

TEST_CASE("a window in a padded image reads the padding from a block of its value") {
  for (DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kI8, DType::kF16, DType::kBF16})
    for (const double outside : {0.0, -3.0})
      for (const int64_t channels : {1, 5, 40, 130}) {
        const auto tap = [&](int64_t dy, int64_t dx) {
          const Expr y = I(0) + N(dy), x = I(1) + N(dx);
          const Expr in = And(And(Le(N(0), y), Lt(y, N(6))), And(Le(N(0), x), Lt(x, N(7))));
          return Expr::Select(in, Expr::Load(0, t, {y, x, I(2)}, in), Expr::Const(t, outside));
        };
        const Expr sum = Max(Max(tap(-1, 0), tap(1, 1)), Max(tap(0, 0), tap(0, -2)));
        const KernelPtr k =
            Lower({{t, {6, 7, channels}}}, {{t, {6, 7, channels}}}, {Expr::Cast(t, sum)});
        CheckKernel(k, RandomInputs(*k, {}, 58));
      }
}

}  // namespace
}  // namespace weft::llvmgen
