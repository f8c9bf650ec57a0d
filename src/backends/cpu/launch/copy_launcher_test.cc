/// copy_launcher_test.cc: kernels that only move elements against the definition of the operator,
/// by loops over the points of the result; and what must stay code.
#include "copy_launcher.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>

#include "element_moves.h"
#include "weft/codegen/lower/lower.h"

namespace weft::cpu {
namespace {

using Dims = std::vector<int64_t>;
constexpr int64_t kZero = -1;

std::vector<SymInt> Sizes(const Dims& dims) { return {dims.begin(), dims.end()}; }
Expr Ix(int k) { return Expr::Index(k); }
Expr FloorDivided(const Expr& a, int64_t n) {
  return Expr::Binary(BinOp::kFloorDiv, a, Expr::Int(n));
}
Expr Remainder(const Expr& a, int64_t n) { return Expr::Binary(BinOp::kFloorMod, a, Expr::Int(n)); }

Expr Either(const Expr& first, const Expr& a, const Expr& b) { return Expr::Select(first, a, b); }

/// The code of a kernel that is not to be run.
struct NoCode final : KernelLauncher {
  mutable int runs = 0;
  void Launch(void* const*, const int64_t*) const override { ++runs; }
};

/// Point by point.
void RunSlanted(const ElementMove& m, int width, void* const* buffers) {
  const Slant& line = *m.slant;
  Dims at(m.dims.size(), 0);
  for (bool more = true; more;) {
    const int64_t side = line.constant + line.by_row * at.front() + line.by_column * at.back();
    if ((side < 0) == line.below) {
      int64_t from = m.from_offset, to = m.to_offset;
      for (size_t k = 0; k < at.size(); ++k) {
        from += at[k] * m.dims[k].from_step;
        to += at[k] * m.dims[k].to_step;
      }
      const void* const element = m.from < 0
                                      ? static_cast<const void*>(&m.bits)
                                      : static_cast<const char*>(buffers[m.from]) + from * width;
      std::memcpy(static_cast<char*>(buffers[m.to]) + to * width, element, size_t(width));
    }
    more = false;
    for (size_t k = at.size(); k-- > 0 && !more;) {
      more = ++at[k] < m.dims[k].extent;
      if (!more) at[k] = 0;
    }
  }
}
/// The boxes of a kernel, one after the other.
void RunMoves(const Kernel& kernel, int width, void* const* buffers) {
  const auto finder = MoveFinder::Make(kernel);
  REQUIRE(bool(finder));
  std::vector<ElementMove> moves;
  REQUIRE(finder->Find(nullptr, &moves));
  for (const ElementMove& m : moves) {
    char* const to = static_cast<char*>(buffers[m.to]) + m.to_offset * width;
    if (m.slant) {
      RunSlanted(m, width, buffers);
      continue;
    }
    if (m.from < 0)
      FillStrided(width, m.bits, to, m.dims.data(), int(m.dims.size()));
    else
      CopyStrided(width, static_cast<const char*>(buffers[m.from]) + m.from_offset * width, to,
                  m.dims.data(), int(m.dims.size()));
  }
}

/// Runs `value` over operands of type t and extents `in`, and compares every element of the result
/// with what `want` says: an operand and the place in it, or kZero. So with the launch, where it is
/// one of copies: then the code must not be asked.
void Check(DType t, const std::vector<Dims>& in, const Dims& out, const Expr& value,
           const std::function<std::pair<int, int64_t>(const Dims&)>& want) {
  ComputeSpec spec;
  for (const Dims& d : in) spec.inputs.push_back({t, Sizes(d)});
  spec.outputs = {{t, Sizes(out)}};
  spec.values = {value};
  const LoweredKernel lowered = LowerKernel(spec, Facts());
  const auto code = std::make_shared<NoCode>();
  const auto launcher = WithCopies(*lowered.kernel, code, std::make_shared<Team>(2));
  const auto width = size_t(DTypeBytes(t, 1));
  std::mt19937_64 random(3);
  std::vector<std::vector<uint8_t>> operands;
  for (const Dims& d : in) {
    size_t n = width;
    for (int64_t e : d) n *= size_t(e);
    operands.emplace_back(n);
    for (uint8_t& b : operands.back()) b = uint8_t(random());
  }
  size_t points = 1;
  for (int64_t e : out) points *= size_t(e);
  std::vector<uint8_t> y(points * width + 1, 0x5a);
  std::vector<void*> buffers;
  for (auto& x : operands) buffers.push_back(x.data());
  buffers.push_back(y.data());
  const auto wrong = [&] {
    size_t wrong = 0;
    for (size_t p = 0; p < points; ++p) {
      Dims at(out.size());
      for (size_t k = out.size(), rest = p; k-- > 0;) {
        at[k] = int64_t(rest % size_t(out[k]));
        rest /= size_t(out[k]);
      }
      const auto [operand, place] = want(at);
      const std::vector<uint8_t> zeros(width, 0);
      const uint8_t* element =
          place == kZero ? zeros.data() : operands[size_t(operand)].data() + size_t(place) * width;
      wrong += std::memcmp(element, y.data() + p * width, width) != 0;
    }
    std::fill(y.begin(), y.end() - 1, uint8_t(0x11));
    return wrong;
  };
  RunMoves(*lowered.kernel, int(width), buffers.data());
  CHECK(wrong() == 0);
  if (launcher != code) {
    launcher->Launch(buffers.data(), nullptr);
    CHECK(wrong() == 0);
  }
  CHECK(code->runs == 0);
  CHECK(y.back() == 0x5a);
}

constexpr DType kWidths[] = {DType::kU8, DType::kF16, DType::kF32, DType::kI64};

TEST_CASE("transposed matrices of every width, alone and in batches") {
  const auto check = [](DType t, int64_t rows, int64_t columns) {
    CAPTURE(rows);
    CAPTURE(columns);
    Check(t, {{3, rows, columns}}, {3, columns, rows}, Expr::Load(0, t, {Ix(0), Ix(2), Ix(1)}),
          [&](const Dims& at) { return std::pair(0, (at[0] * rows + at[2]) * columns + at[1]); });
  };
  for (const DType t : kWidths) {
    for (int64_t rows : {2, 3, 17, 300})
      for (int64_t columns : {2, 5, 64, 85}) check(t, rows, columns);
    // Large ones of a batch are boxes of their own, cut along the longer side.
    check(t, 20001, 5);
    check(t, 5, 20001);
  }
}

TEST_CASE("triangles, along every direction, alone, in batches, and behind a shift") {
  for (const DType t : kWidths)
    for (const int64_t batch : {1, 3})
      for (const auto& size : {std::pair<int64_t, int64_t>{7, 9}, {40, 2100}, {2100, 40}})
        for (const int64_t shift : {-5, 0, 3, 3000}) {
          const int64_t rows = size.first, columns = size.second;
          CAPTURE(rows);
          CAPTURE(shift);
          const Expr value = Expr::Load(0, t, {Ix(0), Ix(1), Ix(2)}), none = Expr::Const(t, 0.0);
          const auto check = [&](const Expr& kept, auto is_kept) {
            Check(t, {{batch, rows, columns}}, {batch, rows, columns}, Either(kept, value, none),
                  [&](const Dims& at) {
                    const int64_t place = (at[0] * rows + at[1]) * columns + at[2];
                    return std::pair(0, is_kept(at[1], at[2]) ? place : kZero);
                  });
          };
          const Expr s = Expr::Int(shift), two = Expr::Int(2);
          check(Le(Ix(1) + s, Ix(2)), [&](int64_t i, int64_t j) { return i + shift <= j; });
          check(Lt(Ix(2), Ix(1) + s), [&](int64_t i, int64_t j) { return j < i + shift; });
          check(Lt(s, Ix(1) + two * Ix(2)),
                [&](int64_t i, int64_t j) { return shift < i + 2 * j; });
          check(Le(Ix(1) + Ix(2), s), [&](int64_t i, int64_t j) { return i + j <= shift; });
          // The same line twice, and a cut across it.
          check(And(Le(Ix(2), Ix(1) + s), Not(Lt(Ix(1) + s, Ix(2)))),
                [&](int64_t i, int64_t j) { return j <= i + shift; });
          check(And(Le(Ix(2), Ix(1) + s), Lt(Ix(2), Expr::Int(4))),
                [&](int64_t i, int64_t j) { return j <= i + shift && j < 4; });
        }
}

TEST_CASE("columns side by side") {
  constexpr int kCount = 40;
  for (const DType t : kWidths) {
    const std::function<Expr(int, int)> pick = [&](int lo, int hi) {
      if (hi - lo == 1) return Expr::Load(lo, t, {Ix(0), Ix(1) - Expr::Int(2 * lo)});
      const int mid = (lo + hi) / 2;
      const Expr before = Lt(Ix(1), Expr::Int(2 * mid));
      return Either(before, pick(lo, mid), pick(mid, hi));
    };
    Check(t, std::vector<Dims>(kCount, {301, 2}), {301, 2 * kCount}, pick(0, kCount),
          [](const Dims& at) { return std::pair(int(at[1] / 2), at[0] * 2 + at[1] % 2); });
  }
}

TEST_CASE("a frame of zeros around an image, channels last") {
  for (const DType t : kWidths) {
    const auto inside = [](const Expr& i, int64_t n) {
      return And(Le(Expr::Int(2), i), Lt(i, Expr::Int(2 + n)));
    };
    const Expr value = Expr::Load(0, t, {Ix(0) - Expr::Int(2), Ix(1) - Expr::Int(2), Ix(2)},
                                  And(inside(Ix(0), 20), inside(Ix(1), 31)));
    Check(t, {{20, 31, 3}}, {24, 35, 3}, value, [](const Dims& at) {
      const int64_t i = at[0] - 2, j = at[1] - 2;
      return std::pair(0, i < 0 || i >= 20 || j < 0 || j >= 31 ? kZero : (i * 31 + j) * 3 + at[2]);
    });
  }
}

TEST_CASE("repeated rows and elements") {
  for (const DType t : kWidths) {
    Check(t, {{50, 10}}, {50, 70}, Expr::Load(0, t, {Ix(0), Remainder(Ix(1), 10)}),
          [](const Dims& at) { return std::pair(0, at[0] * 10 + at[1] % 10); });
    Check(t, {{4, 9, 10}}, {4, 18, 30},
          Expr::Load(0, t, {Ix(0), FloorDivided(Ix(1), 2), FloorDivided(Ix(2), 3)}),
          [](const Dims& at) { return std::pair(0, (at[0] * 9 + at[1] / 2) * 10 + at[2] / 3); });
    // Periods that begin within one: columns 1 .. 28 of the same.
    Check(t, {{9, 10}}, {9, 28}, Expr::Load(0, t, {Ix(0), FloorDivided(Ix(1) + Expr::Int(1), 3)}),
          [](const Dims& at) { return std::pair(0, at[0] * 10 + (at[1] + 1) / 3); });
  }
}

TEST_CASE("extents of the run: the code the first time, copies when they come again") {
  const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");
  const Expr x = Expr::Load(0, DType::kU8, {Ix(1), Ix(0)});
  const LoweredKernel lowered =
      LowerKernel({{{DType::kU8, {n, m}}}, {{DType::kU8, {m, n}}}, {x}}, Facts());
  const auto code = std::make_shared<NoCode>();
  const auto launcher = WithCopies(*lowered.kernel, code, std::make_shared<Team>(1));
  for (int64_t rows : {40, 70}) {
    std::vector<uint8_t> from(size_t(rows * 50)), to(from.size());
    for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i * 37);
    int64_t dims[2] = {};
    for (size_t k = 0; k < lowered.symbols.size(); ++k)
      dims[k] = lowered.symbols[k] == n ? rows : 50;
    void* buffers[] = {from.data(), to.data()};
    const int before = code->runs;
    for (int run = 0; run < 3; ++run) launcher->Launch(buffers, dims);
    CHECK(code->runs == before + 1);
    bool same = true;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < 50; ++j)
        same = same && to[size_t(j * rows + i)] == from[size_t(i * 50 + j)];
    CHECK(same);
  }
}

TEST_CASE("what computes, reads where data say, or has no few boxes is left to code") {
  const auto finds = [](const std::vector<TensorSpec>& in, const Expr& value) {
    const LoweredKernel lowered = LowerKernel({in, {{DType::kF32, {30, 200}}}, {value}}, Facts());
    const auto finder = MoveFinder::Make(*lowered.kernel);
    std::vector<ElementMove> moves;
    return finder && finder->Find(nullptr, &moves);
  };
  const auto x = [](const Expr& a, const Expr& b) { return Expr::Load(0, DType::kF32, {a, b}); };
  const TensorSpec matrix{DType::kF32, {200, 200}}, rows{DType::kI64, {30}};
  CHECK(finds({matrix}, x(Ix(1), Ix(0))));
  CHECK_FALSE(finds({matrix}, x(Ix(1), Ix(0)) + 1.0));
  CHECK_FALSE(finds({matrix, rows}, x(Expr::Load(1, DType::kI64, {Ix(0)}), Ix(1))));
  // A triangle has one line, what lies between two has no few boxes.
  const Expr below = Le(Ix(0), Ix(1)), zero = Expr::Const(DType::kF32, 0);
  CHECK(finds({matrix}, Expr::Select(below, x(Ix(0), Ix(1)), zero)));
  CHECK_FALSE(finds(
      {matrix}, Expr::Select(And(below, Le(Ix(0) + Ix(1), Expr::Int(99))), x(Ix(0), Ix(1)), zero)));
  // Two periods that do not fit: more boxes than are worth it.
  CHECK_FALSE(finds({matrix}, x(Ix(0), FloorDivided(Ix(1) * Expr::Int(5), 7) * Expr::Int(2))));
}

TEST_CASE("numbers too large for positions are no values") {
  // Every index is below 2^41: y = x. Left to code, the comparison not being looked at.
  const Expr below = Lt(Ix(0), Expr::Int(int64_t{1} << 41));
  const Expr value =
      Expr::Select(below, Expr::Load(0, DType::kF32, {Ix(0), Ix(1)}), Expr::Const(DType::kF32, 0));
  // Facts would decide it: so the extents come with the run.
  const SymInt n = SymInt::Symbol("n");
  const LoweredKernel lowered =
      LowerKernel({{{DType::kF32, {n, 4}}}, {{DType::kF32, {n, 4}}}, {value}}, Facts());
  const auto finder = MoveFinder::Make(*lowered.kernel);
  if (!finder) return;
  const int64_t rows = 30;
  std::vector<ElementMove> moves;
  if (!finder->Find(&rows, &moves)) return;
  for (const ElementMove& m : moves) CHECK(m.from == 0);
}

TEST_CASE("results over operands that another result is copied from as well are left to code") {
  const auto x = [](int buffer) { return Expr::Load(buffer, DType::kF32, {Ix(0), Ix(1)}); };
  const Expr left = Lt(Ix(1), Expr::Int(4));
  const TensorSpec matrix{DType::kF32, {64, 8}};
  const LoweredKernel lowered =
      LowerKernel({{matrix, matrix},
                   {matrix, matrix},
                   {Expr::Select(left, x(0), x(1)), Expr::Select(left, x(1), x(0))}},
                  Facts());
  const auto code = std::make_shared<NoCode>();
  const auto launcher = WithCopies(*lowered.kernel, code, std::make_shared<Team>(1));
  REQUIRE(launcher.get() != code.get());
  std::vector<float> a(512), b(512), p(512), q(512);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i), b[i] = -float(i);
  void* apart[] = {a.data(), b.data(), p.data(), q.data()};
  launcher->Launch(apart, nullptr);
  CHECK(code->runs == 0);
  size_t wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool first = i % 8 < 4;
    wrong += p[i] != (first ? a[i] : b[i]) || q[i] != (first ? b[i] : a[i]);
  }
  CHECK(wrong == 0);
  void* in_place[] = {a.data(), b.data(), a.data(), b.data()};
  launcher->Launch(in_place, nullptr);
  CHECK(code->runs == 1);
}

TEST_CASE("long runs are left to code: its stores go past the caches") {
  const auto copies = [](int64_t columns) {
    const Expr value = Expr::Load(0, DType::kF32, {Ix(0), Ix(1) + Expr::Int(1)});
    const LoweredKernel lowered = LowerKernel(
        {{{DType::kF32, {3000, columns + 1}}}, {{DType::kF32, {3000, columns}}}, {value}}, Facts());
    const auto code = std::make_shared<NoCode>();
    return WithCopies(*lowered.kernel, code, std::make_shared<Team>(1)) != code;
  };
  CHECK(copies(10));
  CHECK_FALSE(copies(1000));
}

}  // namespace
}  // namespace weft::cpu
