/// element_moves.cc: a box of points is cut in two where a comparison changes along one of its
/// axes, along a line where it changes along two, and an axis becomes two where a division by a
/// period goes through it, until every expression is affine.
///
///   y[i] = i < 3 ? a[i] : b[i - 3]   [0, 5)   ->  [0, 3): a[0 + i],  [3, 5): b[0 + i]
///   y[i] = a[i / 2]                  [0, 10)  ->  5 x 2: a[j] at y[2 j + k]
///   y[i, j] = i <= j ? a[i, j] : 0   n x n    ->  below j - i: 0,  the others: a[i, j]
#include "element_moves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "weft/sym/symbols.h"

namespace weft::cpu {
namespace {

/// Boxes of a kernel, and operations of its expressions, beyond which its code is run instead.
constexpr size_t kMaxBoxes = 128, kMaxSteps = 1000;
constexpr int kMaxAxes = 12;
static_assert(kMaxAxes <= kMaxCopyDims);
/// Numbers beyond this are not looked at: their products stay in 64 bits.
constexpr int64_t kMaxNumber = int64_t{1} << 40;

/// What makes an expression affine: `at` > 0 cuts the axis there, `period` > 0 takes it apart, and
/// a line from `row_axis` cuts each of its indices elsewhere.
struct Cut {
  int axis = -1;
  int64_t at = 0, period = 0;
  int row_axis = -1;
  Slant line{};
};

struct Value {
  enum Kind : uint8_t { kUnknown, kAffine, kBool, kLoad, kBits };
  Kind kind = kUnknown;
  bool truth = false;
  int buffer = -1;
  uint64_t bits = 0;
  int64_t constant = 0;
  std::array<int64_t, kMaxAxes> by{};  ///< elements an axis
  Cut cut;                             ///< of what is unknown; axis -1: nothing helps
};

struct Axis {
  int loop;
  int64_t extent, step;
};
struct Box {
  std::vector<int64_t> first;  ///< a loop
  std::vector<Axis> axes;
  int row_axis = -1, column_axis = -1;  ///< of the line; -1: there is none
  Slant line{};
};

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Value Unknown(Cut cut = {}) {
  Value v;
  v.cut = cut;
  return v;
}
/// What is no position where one is needed: unknown, with the cut that makes it one.
Value Refused(const Value& v) { return v.kind == Value::kUnknown ? v : Unknown(); }
Value Number(int64_t n) {
  Value v;
  if (n > kMaxNumber || n < -kMaxNumber) return v;
  v.kind = Value::kAffine;
  v.constant = n;
  return v;
}
Value Truth(bool b) {
  Value v;
  v.kind = Value::kBool;
  v.truth = b;
  return v;
}

/// The arithmetic of affine values over one box.
class BoxArithmetic {
 public:
  explicit BoxArithmetic(const Box& box) : box_(box) {}

  Value IndexOf(int loop) const {
    Value v = Number(box_.first[size_t(loop)]);
    for (size_t k = 0; k < box_.axes.size(); ++k)
      if (box_.axes[k].loop == loop) v.by[k] = box_.axes[k].step;
    return v;
  }
  Value Add(const Value& a, const Value& b, int64_t factor) const {
    Value v = Number(a.constant + factor * b.constant);
    if (v.kind != Value::kAffine) return v;
    for (size_t k = 0; k < box_.axes.size(); ++k) v.by[k] = a.by[k] + factor * b.by[k];
    return Bounded(v);
  }
  Value Multiply(const Value& a, const Value& b) const {
    if (!IsNumber(a)) return IsNumber(b) ? Multiply(b, a) : Unknown();
    Value v;
    v.kind = Value::kAffine;
    if (__builtin_mul_overflow(a.constant, b.constant, &v.constant)) return Unknown();
    for (size_t k = 0; k < box_.axes.size(); ++k)
      if (__builtin_mul_overflow(a.constant, b.by[k], &v.by[k])) return Unknown();
    return Bounded(v);
  }
  Value Divide(const Value& x, const Value& divisor, bool remainder) const {
    if (!IsNumber(divisor) || divisor.constant <= 0) return Unknown();
    const int64_t c = divisor.constant;
    // What c divides leaves the quotient affine; the rest must stay within one period.
    Value quotient = Number(FloorDivide(x.constant, c));
    Value rest = Number(x.constant - c * quotient.constant);
    for (size_t k = 0; k < box_.axes.size(); ++k)
      (x.by[k] % c == 0 ? quotient.by[k] : rest.by[k]) = x.by[k] % c == 0 ? x.by[k] / c : x.by[k];
    const auto [lo, hi] = RangeOf(rest);
    const int64_t period = FloorDivide(lo, c);
    if (period != FloorDivide(hi, c)) return Unknown(CutAtPeriod(rest, c));
    quotient.constant += period;
    return remainder ? Add(x, quotient, -c) : quotient;
  }
  Value Compare(BinOp op, const Value& a, const Value& b) const {
    const Value d = Add(a, b, -1);
    if (d.kind != Value::kAffine) return d;
    const auto [lo, hi] = RangeBesideLine(d);
    switch (op) {
      case BinOp::kLt:
        return Decide(d, hi < 0, lo >= 0, 0);
      case BinOp::kGe:
        return Decide(d, lo >= 0, hi < 0, 0);
      case BinOp::kLe:
        return Decide(d, hi <= 0, lo > 0, 1);
      case BinOp::kGt:
        return Decide(d, lo > 0, hi <= 0, 1);
      case BinOp::kEq:
      case BinOp::kNe: {
        const bool equal = lo == 0 && hi == 0, differ = lo > 0 || hi < 0;
        const bool is_eq = op == BinOp::kEq;
        return Decide(d, is_eq ? equal : differ, is_eq ? differ : equal, lo < 0 ? 0 : 1);
      }
      default:
        return Unknown();
    }
  }
  Value Least(const Value& a, const Value& b, bool greatest) const {
    const Value less = Compare(BinOp::kLe, a, b);
    if (less.kind != Value::kBool) return less;
    return less.truth != greatest ? a : b;
  }

 private:
  bool IsNumber(const Value& v) const {
    return v.kind == Value::kAffine &&
           std::all_of(v.by.begin(), v.by.begin() + std::ptrdiff_t(box_.axes.size()),
                       [](int64_t s) { return s == 0; });
  }
  /// Inclusive.
  std::pair<int64_t, int64_t> RangeOf(const Value& v) const {
    int64_t lo = v.constant, hi = v.constant;
    for (size_t k = 0; k < box_.axes.size(); ++k)
      (v.by[k] < 0 ? lo : hi) += v.by[k] * (box_.axes[k].extent - 1);
    return {lo, hi};
  }
  /// The same, where the line of the box bounds v, which runs along it.
  std::pair<int64_t, int64_t> RangeBesideLine(const Value& v) const {
    auto [lo, hi] = RangeOf(v);
    if (box_.row_axis < 0) return {lo, hi};
    const Slant& line = box_.line;
    const auto along = VaryingAxes(v);
    if (along != std::make_pair(box_.row_axis, box_.column_axis)) return {lo, hi};
    const int64_t by_row = v.by[size_t(along.first)], by_column = v.by[size_t(along.second)];
    for (const int64_t sign : {1, -1}) {
      if (by_row != sign * line.by_row || by_column != sign * line.by_column) continue;
      // v = sign * (what is below 0 on the one side) + c
      const int64_t c = v.constant - sign * line.constant;
      if (line.below)
        (sign > 0 ? hi : lo) = sign > 0 ? std::min(hi, c - 1) : std::max(lo, c + 1);
      else
        (sign > 0 ? lo : hi) = sign > 0 ? std::max(lo, c) : std::min(hi, c);
    }
    return {lo, hi};
  }
  /// The two axes that v varies along; -1: there are fewer, or more.
  std::pair<int, int> VaryingAxes(const Value& v) const {
    std::pair<int, int> two{-1, -1};
    for (int k = 0; k < int(box_.axes.size()); ++k) {
      if (v.by[size_t(k)] == 0 || box_.axes[size_t(k)].extent == 1) continue;
      if (two.second >= 0) return {-1, -1};
      (two.first < 0 ? two.first : two.second) = k;
    }
    return two.second < 0 ? std::make_pair(-1, -1) : two;
  }
  /// v, if all that it takes is a number that is looked at.
  Value Bounded(const Value& v) const {
    double most = std::abs(double(v.constant));
    for (size_t k = 0; k < box_.axes.size(); ++k)
      most += std::abs(double(v.by[k])) * double(box_.axes[k].extent);
    return most <= double(kMaxNumber) ? v : Unknown();
  }
  /// The one axis that v varies along; -1: there is none, or another.
  int OnlyAxis(const Value& v) const {
    int only = -1;
    for (int k = 0; k < int(box_.axes.size()); ++k) {
      if (v.by[size_t(k)] == 0) continue;
      if (only >= 0) return -1;
      only = k;
    }
    return only;
  }
  /// The first point of `axis` at which v has come to `level` from the side that it begins on.
  Cut CutAtLevel(const Value& v, int axis, int64_t level) const {
    const int64_t step = v.by[size_t(axis)];
    // Rising: v >= level; falling: v < level.
    const int64_t at = step > 0 ? -FloorDivide(-(level - v.constant), step)
                                : FloorDivide(v.constant - level, -step) + 1;
    if (at <= 0 || at >= box_.axes[size_t(axis)].extent) return {};
    return {axis, at, 0};
  }
  Value Decide(const Value& d, bool yes, bool no, int64_t level) const {
    if (yes || no) return Truth(yes);
    const int axis = OnlyAxis(d);
    return Unknown(axis < 0 ? CutAlongLine(d, level) : CutAtLevel(d, axis, level));
  }
  /// Where d, which varies along two axes, comes to `level`. A box has one line.
  Cut CutAlongLine(const Value& d, int64_t level) const {
    const auto [row, column] = VaryingAxes(d);
    if (row < 0 || box_.row_axis >= 0) return {};
    const Slant line{d.constant - level, d.by[size_t(row)], d.by[size_t(column)], true};
    return {column, 0, 0, row, line};
  }
  Cut CutAtPeriod(const Value& rest, int64_t c) const {
    const int axis = OnlyAxis(rest);
    if (axis < 0) return {};
    const int64_t step = rest.by[size_t(axis)], extent = box_.axes[size_t(axis)].extent;
    const int64_t period = c / std::gcd(step, c);
    const int64_t last = rest.constant + step * (period - 1);
    if (period * std::abs(step) == c && last >= 0 && last < c) {
      if (extent % period == 0) return {axis, 0, period};
      return {axis, extent - extent % period, 0};
    }
    return CutAtLevel(rest, axis, step > 0 ? c : 0);
  }

  const Box& box_;
};

}  // namespace

/// The expressions in the order of evaluation, and the numbers in them.
struct MoveFinder::Steps {
  struct Step {
    const ExprNode* node;
    std::vector<int> operands;  ///< steps
    int number = -1;            ///< of kDim
  };
  struct Store {
    int to, offset, value;  ///< a buffer, steps
  };
  Exprs alive;
  std::vector<Step> steps;
  std::vector<Store> stores;
  size_t loops = 0;
  SymProgram numbers;  ///< extents of the loops, then those of kDim
  size_t num_numbers = 0;

  bool Add(const Kernel& kernel);
  Value Evaluate(const Step& s, const Box& box, const std::vector<Value>& values,
                 const std::vector<int64_t>& numbers) const;
  Value Combine(const ExprNode& n, const BoxArithmetic& math, const Value& a, const Value& b) const;
  static ElementMove MoveOf(const Box& box, const Store& store, const Value& to, const Value& from);
};

namespace {

bool IsWhole(const ExprNode& n) { return n.dtype() == DType::kI64 || n.dtype() == DType::kBool; }

/// An operation that BoxArithmetic knows, over positions and truths.
bool IsOfIndices(const ExprNode& n) {
  switch (n.kind()) {
    case ExprKind::kConst:
    case ExprKind::kDim:
    case ExprKind::kIndex:
      return IsWhole(n);
    case ExprKind::kUnary:
      return IsWhole(n) && (n.un_op() == UnOp::kNot || n.un_op() == UnOp::kNeg);
    case ExprKind::kBinary:
      return IsWhole(n) && std::all_of(n.operands().begin(), n.operands().end(),
                                       [](const Expr& o) { return IsWhole(*o); });
    case ExprKind::kSelect:
      return IsWhole(n);
    default:
      return false;
  }
}

/// `value` is one of loads and numbers of type t, chosen by positions that depend on no data.
bool OnlyMoves(const Expr& value, DType t) {
  std::vector<const ExprNode*> chosen{value.get()}, indices;
  std::unordered_set<const ExprNode*> seen;
  while (!chosen.empty()) {
    const ExprNode* n = chosen.back();
    chosen.pop_back();
    if (!seen.insert(n).second) continue;
    if (n->dtype() != t) return false;
    if (n->kind() == ExprKind::kLoad) {
      for (const Expr& o : n->operands()) indices.push_back(o.get());
    } else if (n->kind() == ExprKind::kSelect) {
      indices.push_back(n->operand(0).get());
      chosen.push_back(n->operand(1).get());
      chosen.push_back(n->operand(2).get());
    } else if (n->kind() != ExprKind::kConst) {
      return false;
    }
  }
  std::unordered_set<const ExprNode*> known;
  while (!indices.empty()) {
    const ExprNode* n = indices.back();
    indices.pop_back();
    if (!known.insert(n).second) continue;
    if (!IsOfIndices(*n)) return false;
    for (const Expr& o : n->operands()) indices.push_back(o.get());
  }
  return true;
}

}  // namespace

bool MoveFinder::Steps::Add(const Kernel& kernel) {
  loops = kernel.dims.size();
  if (kernel.has_rows() || loops > size_t{kMaxAxes}) return false;
  std::vector<SymInt> symbols;
  for (int i = 0; i < kernel.num_symbols; ++i) symbols.push_back(KernelSymbol(i));
  numbers = SymProgram(symbols);
  for (const SymInt d : kernel.dims) numbers.Add(d);
  num_numbers = loops;
  for (const KernelStore& s : kernel.stores) {
    const DType t = kernel.buffers[size_t(s.buffer)].dtype;
    const int64_t bits = DTypeBits(t);
    if (s.flag || (bits != 8 && bits != 16 && bits != 32 && bits != 64) || !OnlyMoves(s.value, t))
      return false;
    alive.push_back(s.offset);
    alive.push_back(s.value);
  }
  std::unordered_map<const ExprNode*, int> at;
  for (const ExprNode* n : PostOrder(alive)) {
    if (steps.size() == kMaxSteps) return false;
    Step step{n, {}, -1};
    for (const Expr& o : n->operands()) step.operands.push_back(at.at(o.get()));
    if (n->kind() == ExprKind::kDim) {
      numbers.Add(n->dim());
      step.number = int(num_numbers++);
    }
    at.emplace(n, int(steps.size()));
    steps.push_back(std::move(step));
  }
  for (const KernelStore& s : kernel.stores)
    stores.push_back({s.buffer, at.at(s.offset.get()), at.at(s.value.get())});
  return true;
}

Value MoveFinder::Steps::Combine(const ExprNode& n, const BoxArithmetic& math, const Value& a,
                                 const Value& b) const {
  const BinOp op = n.bin_op();
  if (n.dtype() == DType::kBool && a.kind == Value::kBool && b.kind == Value::kBool) {
    if (op == BinOp::kAnd) return Truth(a.truth && b.truth);
    if (op == BinOp::kOr) return Truth(a.truth || b.truth);
    if (op == BinOp::kXor || op == BinOp::kNe) return Truth(a.truth != b.truth);
    return Unknown();
  }
  if (op == BinOp::kAnd || op == BinOp::kOr) {
    // One side may decide.
    for (const Value* v : {&a, &b})
      if (v->kind == Value::kBool && v->truth == (op == BinOp::kOr)) return *v;
  }
  if (a.kind != Value::kAffine) return Refused(a.kind == Value::kUnknown ? a : b);
  if (b.kind != Value::kAffine) return Refused(b);
  switch (op) {
    case BinOp::kAdd:
      return math.Add(a, b, 1);
    case BinOp::kSub:
      return math.Add(a, b, -1);
    case BinOp::kMul:
      return math.Multiply(a, b);
    case BinOp::kFloorDiv:
      return math.Divide(a, b, false);
    case BinOp::kFloorMod:
      return math.Divide(a, b, true);
    case BinOp::kMin:
      return math.Least(a, b, false);
    case BinOp::kMax:
      return math.Least(a, b, true);
    default:
      return math.Compare(op, a, b);
  }
}

Value MoveFinder::Steps::Evaluate(const Step& s, const Box& box, const std::vector<Value>& values,
                                  const std::vector<int64_t>& known) const {
  const ExprNode& n = *s.node;
  const BoxArithmetic math(box);
  const auto operand = [&](size_t i) -> const Value& { return values[size_t(s.operands[i])]; };
  switch (n.kind()) {
    case ExprKind::kConst: {
      // Bits for what stores it, a number for what computes with it.
      Value v = n.dtype() == DType::kI64    ? Number(n.const_int())
                : n.dtype() == DType::kBool ? Truth(n.const_int() != 0)
                                            : Value();
      if (v.kind == Value::kUnknown) v.kind = Value::kBits;
      v.bits = n.bits();
      return v;
    }
    case ExprKind::kDim:
      return Number(known[size_t(s.number)]);
    case ExprKind::kIndex:
      return math.IndexOf(n.index());
    case ExprKind::kUnary: {
      const Value& a = operand(0);
      if (n.un_op() == UnOp::kNot && a.kind == Value::kBool) return Truth(!a.truth);
      if (n.un_op() == UnOp::kNeg && a.kind == Value::kAffine) return math.Add(Number(0), a, -1);
      return Refused(a);
    }
    case ExprKind::kBinary:
      return Combine(n, math, operand(0), operand(1));
    case ExprKind::kSelect: {
      const Value& condition = operand(0);
      if (condition.kind != Value::kBool) return Refused(condition);
      return operand(condition.truth ? 1 : 2);
    }
    case ExprKind::kLoad: {
      if (n.has_guard()) {
        const Value& guard = operand(1);
        if (guard.kind != Value::kBool) return Refused(guard);
        if (!guard.truth) {
          Value zero;
          zero.kind = Value::kBits;
          return zero;
        }
      }
      Value v = operand(0);
      if (v.kind != Value::kAffine) return Refused(v);
      v.kind = Value::kLoad;
      v.buffer = n.buffer();
      return v;
    }
    default:
      return Unknown();
  }
}

ElementMove MoveFinder::Steps::MoveOf(const Box& box, const Store& store, const Value& to,
                                      const Value& from) {
  ElementMove m;
  m.to = store.to;
  m.to_offset = to.constant;
  m.from = from.kind == Value::kLoad ? from.buffer : -1;
  m.bits = from.bits;
  if (m.from >= 0) m.from_offset = from.constant;
  const auto dim = [&](size_t k) {
    return CopyDim{box.axes[k].extent, m.from >= 0 ? from.by[k] : 0, to.by[k]};
  };
  for (int k = 0; k < int(box.axes.size()); ++k)
    if (box.axes[size_t(k)].extent > 1 &&
        (box.row_axis < 0 || (k != box.row_axis && k != box.column_axis)))
      m.dims.push_back(dim(size_t(k)));
  NormalizeCopy(&m.dims);
  if (box.row_axis >= 0) {
    m.dims.insert(m.dims.begin(), dim(size_t(box.row_axis)));
    m.dims.push_back(dim(size_t(box.column_axis)));
    m.slant = box.line;
  }
  return m;
}

bool MoveFinder::Find(const int64_t* dims, std::vector<ElementMove>* moves) const {
  const Steps& s = *steps_;
  std::vector<int64_t> known(std::max<size_t>(s.num_numbers, 1));
  s.numbers.Run(dims, known.data());
  Box all;
  all.first.assign(s.loops, 0);
  for (size_t k = 0; k < s.loops; ++k) {
    if (known[k] <= 0) return true;
    if (known[k] > kMaxNumber) return false;
    all.axes.push_back({int(k), known[k], 1});
  }
  std::vector<Box> work{std::move(all)};
  std::vector<Value> values(s.steps.size());
  size_t looked = 0;
  while (!work.empty()) {
    Box box = std::move(work.back());
    work.pop_back();
    if (++looked > 4 * kMaxBoxes) return false;
    for (size_t i = 0; i < s.steps.size(); ++i)
      values[i] = s.Evaluate(s.steps[i], box, values, known);
    const Value* unknown = nullptr;
    for (const Steps::Store& store : s.stores) {
      for (const int step : {store.offset, store.value})
        if (values[size_t(step)].kind == Value::kUnknown) unknown = &values[size_t(step)];
    }
    if (!unknown) {
      for (const Steps::Store& store : s.stores) {
        if (moves->size() == kMaxBoxes || values[size_t(store.offset)].kind != Value::kAffine)
          return false;
        moves->push_back(
            Steps::MoveOf(box, store, values[size_t(store.offset)], values[size_t(store.value)]));
      }
      continue;
    }
    const Cut cut = unknown->cut;
    if (cut.axis < 0) return false;
    const auto k = size_t(cut.axis);
    if (cut.row_axis >= 0) {
      box.row_axis = cut.row_axis;
      box.column_axis = cut.axis;
      box.line = cut.line;
      work.push_back(box);
      box.line.below = false;
      work.push_back(std::move(box));
      continue;
    }
    if (cut.period > 0) {
      if (box.axes.size() == size_t{kMaxAxes} || box.row_axis >= 0) return false;
      Axis inner = box.axes[k];
      box.axes[k].extent /= cut.period;
      box.axes[k].step *= cut.period;
      inner.extent = cut.period;
      box.axes.insert(box.axes.begin() + std::ptrdiff_t(k) + 1, inner);
      work.push_back(std::move(box));
      continue;
    }
    Box behind = box;
    behind.first[size_t(box.axes[k].loop)] += cut.at * box.axes[k].step;
    behind.axes[k].extent -= cut.at;
    if (cut.axis == box.row_axis) behind.line.constant += cut.at * box.line.by_row;
    if (cut.axis == box.column_axis) behind.line.constant += cut.at * box.line.by_column;
    box.axes[k].extent = cut.at;
    work.push_back(std::move(behind));
    work.push_back(std::move(box));
  }
  return true;
}

std::pair<int64_t, int64_t> Slant::RangeOf(int64_t i, int64_t extent) const {
  const int64_t level = -(constant + by_row * i);  // below: by_column j < level
  if (by_column > 0) {
    const int64_t end = std::clamp<int64_t>(-FloorDivide(-level, by_column), 0, extent);
    return below ? std::make_pair(int64_t{0}, end) : std::make_pair(end, extent);
  }
  const int64_t begin = std::clamp<int64_t>(FloorDivide(-level, -by_column) + 1, 0, extent);
  return below ? std::make_pair(begin, extent) : std::make_pair(int64_t{0}, begin);
}

MoveFinder::MoveFinder(std::unique_ptr<Steps> steps) : steps_(std::move(steps)) {}
MoveFinder::~MoveFinder() = default;

std::unique_ptr<MoveFinder> MoveFinder::Make(const Kernel& kernel) {
  auto steps = std::make_unique<Steps>();
  if (!steps->Add(kernel)) return nullptr;
  return std::unique_ptr<MoveFinder>(new MoveFinder(std::move(steps)));
}

}  // namespace weft::cpu
