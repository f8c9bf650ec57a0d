/// math_f64_huge.cc: the remainder by pi/2 of doubles from 2^50 on.
///
/// x = m 2^e with an integer m of 53 bits, and x 2/pi = m sum_i b_i 2^(e - i) for the bits b_i of
/// 2/pi. Bits of weight 4 and more change nothing but whole turns, and of the others 192 are
/// enough: no double is nearer to a multiple of pi/2 than 2^-62, and what is cut off is below
/// 2^-135. So the product is an integer one, of m and a window of bits that e chooses. Source: M.
/// Payne and R. Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18, 1983.
#include <limits>

#include "math_expand.h"

namespace weft::math {
namespace {

constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Four zeros, then the bits of 2/pi, as many as the largest exponent asks for.
constexpr uint64_t kTwoOverPi[] = {
    0x0a2f9836e4e44152, 0x9fc2757d1f534ddc, 0x0db6295993c43904, 0x1fe5163abdebbc56,
    0x1b7246e3a424dd2e, 0x006492eea09d1921, 0xcfe1deb1cb129a73, 0xee88235f52ebb448,
    0x4e99c7026b45f7e4, 0x13991d639835339f, 0x49c845f8bbdf9283, 0xb1ff897ffde05980,
    0xfef2f118b5a0a6d1, 0xf6d367ecf27cb09b, 0x74f463f669e5fea2, 0xd7527bac7ebe5f17,
    0xb3d0739f78a5292e, 0xa6bfb5fb11f8d5d0, 0x856033046fc7b6ba};

constexpr int kLimbBits = 28;  // a sum of a few products of two limbs stays in 64 bits
constexpr int kLimbs = 7;      // 192 bits and 4 zeros

Expr U64(uint64_t v) { return Expr::ConstInt(DType::kU64, int64_t(v)); }
Expr Low(const Expr& e, int bits) { return BitAnd(e, U64((uint64_t{1} << bits) - 1)); }
Expr ShlBy(const Expr& a, const Expr& n) { return Expr::Binary(BinOp::kShl, a, n); }
Expr ShrBy(const Expr& a, const Expr& n) { return Expr::Binary(BinOp::kShr, a, n); }

/// The 192 bits from bit `first` (u64, 0 to 973) on, the highest word first.
Exprs WindowOf(const Expr& first) {
  Exprs words;
  for (uint64_t w : kTwoOverPi) words.push_back(U64(w));
  // Bit by bit of the number of the first word; four of those that are left matter.
  for (int step = 8; step >= 1; step /= 2) {
    const Expr skip = Expr::Binary(BinOp::kNe, BitAnd(first, U64(uint64_t(step) * 64)), U64(0));
    const size_t rest = size_t(step) + 3;
    for (size_t i = 0; i < rest; ++i) words[i] = Select(skip, words[i + size_t(step)], words[i]);
    words.resize(rest);
  }
  // Shifts by 64 give 0.
  const Expr left = Low(first, 6), right = U64(64) - left;
  for (size_t i = 0; i < 3; ++i)
    words[i] = BitOr(ShlBy(words[i], left), ShrBy(words[i + 1], right));
  words.resize(3);
  return words;
}

/// The words as limbs, the lowest first.
Exprs LimbsOf(const Exprs& w) {
  return {Shl(Low(w[2], 24), 4),
          Low(Shr(w[2], 24), kLimbBits),
          BitOr(Shl(Low(w[1], 16), 12), Shr(w[2], 52)),
          Low(Shr(w[1], 16), kLimbBits),
          BitOr(Shl(Low(w[0], 8), 20), Shr(w[1], 44)),
          Low(Shr(w[0], 8), kLimbBits),
          Shr(w[0], 36)};
}

/// (m1 2^28 + m0) times the limbs, modulo 2^196.
Exprs Multiply(const Expr& m0, const Expr& m1, const Exprs& limbs) {
  Exprs product;
  Expr carry;
  for (size_t k = 0; k < kLimbs; ++k) {
    Expr sum = m0 * limbs[k];
    if (k > 0) sum = sum + m1 * limbs[k - 1] + carry;
    product.push_back(Low(sum, kLimbBits));
    carry = Shr(sum, kLimbBits);
  }
  return product;
}

Expr Scaled(const Expr& u64, double scale) {
  return Expr::Cast(DType::kF64, Expr::Bitcast(DType::kI64, u64)) * scale;
}

}  // namespace

Remainder ReduceHuge(const Expr& x) {
  const Expr a = Abs(x);
  const Expr bits = Expr::Bitcast(DType::kU64, a);
  const Expr m = BitOr(Low(bits, 52), U64(uint64_t{1} << 52));
  // e = exponent - 1075, and bit e - 1 of 2/pi has weight 2.
  const Exprs limbs = LimbsOf(WindowOf(Shr(bits, 52) - U64(1073)));
  const Exprs d = Multiply(Low(m, kLimbBits), Shr(m, kLimbBits), limbs);

  // The highest limb: two bits of the quadrant, then 26 of the fraction, which is
  // rounded to [-1/2, 1/2].
  const Expr top = Expr::Bitcast(DType::kI64, d[6]);
  const Expr q = Shr(top + I64(1 << 25), 26);
  const Expr fraction = top - Shl(q, 26);
  // 53 bits, 53 bits, and 31 of the rest: the first two may cancel but for their last bits.
  const Expr first = Expr::Cast(DType::kF64, Shl(fraction, 28) + Expr::Bitcast(DType::kI64, d[5]));
  const Expr high = first * 0x1p-54;
  const Expr middle = Scaled(BitOr(Shl(d[4], 25), Shr(d[3], 3)), 0x1p-107);
  const Expr last = Scaled(BitOr(Shl(Low(d[3], 3), 28), d[2]), 0x1p-138);
  const Expr f = high + middle;
  const Expr low = (middle - (f - high)) + last;

  const Expr r = f * kHalfPi;
  return {Select(Less(a, kInf), r, kNan), Fma(f, kHalfPi, -r) + Fma(f, kHalfPiLow, low * kHalfPi),
          q};
}

}  // namespace weft::math
