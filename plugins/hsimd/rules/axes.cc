/// axes.cc: reductions, axes taken apart by divisors, classes of axes, and which of them have to
/// stay in a place.
#include "axes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <unordered_map>

#include "weft/codegen/expr/math.h"
#include "weft/core/graph/accessors.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

using weft::BinOp;
using weft::DType;
using weft::ExprKind;
using weft::ExprNode;
using weft::UnOp;

std::optional<Affine> AffineOf(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kConst:
      return Affine{e->const_int(), {}};
    case ExprKind::kIndex:
      return Affine{0, {{e->index(), 1}}};
    case ExprKind::kDim: {
      if (!e->dim().is_const()) return std::nullopt;
      return Affine{e->dim().value(), {}};
    }
    case ExprKind::kCast:
      return weft::IsInt(e->dtype()) && weft::IsInt(e->operand(0)->dtype())
                 ? AffineOf(e->operand(0))
                 : std::nullopt;
    case ExprKind::kUnary:
      if (e->un_op() == UnOp::kNeg) {
        auto a = AffineOf(e->operand(0));
        if (!a) return a;
        a->constant = -a->constant;
        for (auto& [axis, c] : a->terms) c = -c;
        return a;
      }
      return std::nullopt;
    case ExprKind::kBinary: {
      const BinOp op = e->bin_op();
      if (op != BinOp::kAdd && op != BinOp::kSub && op != BinOp::kMul) return std::nullopt;
      auto a = AffineOf(e->operand(0)), b = AffineOf(e->operand(1));
      if (!a || !b) return std::nullopt;
      if (op == BinOp::kMul) {
        if (!a->terms.empty()) std::swap(a, b);
        if (!a->terms.empty()) return std::nullopt;
        b->constant *= a->constant;
        for (auto& [axis, c] : b->terms) c *= a->constant;
        if (a->constant == 0) b->terms.clear();
        return b;
      }
      const int64_t sign = op == BinOp::kAdd ? 1 : -1;
      a->constant += sign * b->constant;
      for (const auto& [axis, c] : b->terms)
        if ((a->terms[axis] += sign * c) == 0) a->terms.erase(axis);
      return a;
    }
    default:
      return std::nullopt;
  }
}

bool IsIndexOnly(const Expr& e) {
  for (const ExprNode* n : weft::PostOrder({e}))
    if (n->kind() == ExprKind::kLoad || n->kind() == ExprKind::kVariable ||
        n->kind() == ExprKind::kReduce || n->kind() == ExprKind::kPhilox)
      return false;
  return true;
}

std::optional<int64_t> EvalIndex(const Expr& e, const std::vector<int64_t>& at) {
  std::vector<int64_t> v;
  std::unordered_map<const ExprNode*, int64_t> known;
  for (const ExprNode* n : weft::PostOrder({e})) {
    const auto in = [&](int i) { return known.at(n->operand(i).get()); };
    const bool integral = weft::IsInt(n->dtype()) || n->dtype() == DType::kBool;
    if (!integral) return std::nullopt;
    int64_t r = 0;
    switch (n->kind()) {
      case ExprKind::kConst:
        r = n->const_int();
        break;
      case ExprKind::kDim:
        if (!n->dim().is_const()) return std::nullopt;
        r = n->dim().value();
        break;
      case ExprKind::kIndex:
        if (size_t(n->index()) >= at.size()) return std::nullopt;
        r = at[size_t(n->index())];
        break;
      case ExprKind::kCast:
        r = n->dtype() == DType::kBool ? in(0) != 0 : in(0);
        break;
      case ExprKind::kSelect:
        r = in(0) ? in(1) : in(2);
        break;
      case ExprKind::kUnary:
        if (n->un_op() == UnOp::kNeg)
          r = -in(0);
        else if (n->un_op() == UnOp::kNot)
          r = !in(0);
        else if (n->un_op() == UnOp::kAbs)
          r = std::abs(in(0));
        else if (n->un_op() == UnOp::kUnlikely)
          r = in(0);
        else
          return std::nullopt;
        break;
      case ExprKind::kBinary: {
        const int64_t a = in(0), b = in(1);
        switch (n->bin_op()) {
          case BinOp::kAdd:
            r = a + b;
            break;
          case BinOp::kSub:
            r = a - b;
            break;
          case BinOp::kMul:
            r = a * b;
            break;
          case BinOp::kDiv:
            r = b ? a / b : 0;
            break;
          case BinOp::kMod:
            r = b ? a % b : 0;
            break;
          case BinOp::kFloorDiv:
            r = b ? weft::FloorDivide(a, b) : 0;
            break;
          case BinOp::kFloorMod:
            r = b ? weft::FloorModulo(a, b) : 0;
            break;
          case BinOp::kMin:
            r = std::min(a, b);
            break;
          case BinOp::kMax:
            r = std::max(a, b);
            break;
          case BinOp::kAnd:
            r = a & b;
            break;
          case BinOp::kOr:
            r = a | b;
            break;
          case BinOp::kXor:
            r = a ^ b;
            break;
          case BinOp::kLt:
            r = a < b;
            break;
          case BinOp::kLe:
            r = a <= b;
            break;
          case BinOp::kGt:
            r = a > b;
            break;
          case BinOp::kGe:
            r = a >= b;
            break;
          case BinOp::kEq:
            r = a == b;
            break;
          case BinOp::kNe:
            r = a != b;
            break;
          default:
            return std::nullopt;
        }
        break;
      }
      default:
        return std::nullopt;
    }
    known[n] = r;
  }
  return known.at(e.get());
}

std::vector<int> AxesOf(const Expr& e) {
  std::set<int> axes;
  for (const ExprNode* n : weft::PostOrder({e}))
    if (n->kind() == ExprKind::kIndex) axes.insert(n->index());
  return {axes.begin(), axes.end()};
}

std::vector<Expr> IndexConditions(const Expr& root) {
  std::vector<Expr> found;
  std::set<const ExprNode*> seen;
  std::vector<Expr> stack{root};
  while (!stack.empty()) {
    const Expr e = stack.back();
    stack.pop_back();
    if (!seen.insert(e.get()).second) continue;
    if (e->kind() == ExprKind::kLoad) {
      if (e->has_guard()) stack.push_back(e->operands().back());
      continue;
    }
    const bool integral = weft::IsInt(e->dtype()) || e->dtype() == DType::kBool;
    if (integral && IsIndexOnly(e)) {
      const size_t axes = AxesOf(e).size();
      const bool compares = e->kind() == ExprKind::kBinary && e->dtype() == DType::kBool &&
                            e->operand(0)->dtype() != DType::kBool;
      if (axes == 0) continue;
      if (axes == 1 || compares) {
        found.push_back(e);
        continue;
      }
    }
    for (const Expr& o : e->operands()) stack.push_back(o);
  }
  return found;
}

namespace {

/// Divisors up to which an axis is taken apart: windows and strides are this small.
constexpr int64_t kMostResidues = 16;
/// Positions that are data, among so many, are selected.
constexpr int64_t kMostSelected = 64;

bool Divides(const ExprNode* n) {
  if (n->kind() != ExprKind::kBinary || !weft::IsInt(n->dtype())) return false;
  switch (n->bin_op()) {
    case BinOp::kDiv:
    case BinOp::kMod:
    case BinOp::kFloorDiv:
    case BinOp::kFloorMod:
      return true;
    default:
      return false;
  }
}

/// The least common multiple of what indices of the axis are divided by; 1: of nothing, or of too
/// much.
int64_t DivisorOf(const Expr& e, int axis) {
  int64_t all = 1;
  for (const ExprNode* n : weft::PostOrder({e})) {
    if (!Divides(n) || n->operand(1)->kind() != ExprKind::kConst) continue;
    const auto index = AffineOf(n->operand(0));
    const int64_t by = n->operand(1)->const_int();
    if (!index || by < 2 || !index->terms.count(axis)) continue;
    all = std::lcm(all, by);
    if (all > kMostResidues) return 1;
  }
  return all;
}

/// Division of an affine index whose remainder is the same everywhere as another affine index.
Expr FoldDivision(const Expr& e, const std::vector<int64_t>& extents) {
  if (!Divides(e.get()) || e->operand(1)->kind() != ExprKind::kConst) return e;
  const auto index = AffineOf(e->operand(0));
  const int64_t by = e->operand(1)->const_int();
  if (!index || by < 1) return e;
  const bool floors = e->bin_op() == BinOp::kFloorDiv || e->bin_op() == BinOp::kFloorMod;
  const bool quotient = e->bin_op() == BinOp::kFloorDiv || e->bin_op() == BinOp::kDiv;
  // index = by * whole + rest, and the quotient of the rest does not change.
  int64_t least = index->constant, low = index->constant, high = index->constant;
  Expr whole = Expr::Int(0), rest = Expr::Int(index->constant);
  for (const auto& [axis, c] : index->terms) {
    const int64_t last = extents[size_t(axis)] - 1;
    least += std::min<int64_t>(0, c * last);
    if (c % by == 0) {
      whole = whole + Expr::Int(c / by) * Expr::Index(axis);
      continue;
    }
    (c < 0 ? low : high) += c * last;
    rest = rest + Expr::Int(c) * Expr::Index(axis);
  }
  if (!floors && least < 0) return e;
  const int64_t q = weft::FloorDivide(low, by);
  if (q != weft::FloorDivide(high, by)) return e;
  return quotient ? whole + Expr::Int(q) : rest - Expr::Int(q * by);
}

/// Takes reductions out of expressions, inner ones first.
class Splitter {
 public:
  explicit Splitter(OperatorParts* parts) : parts_(parts) {}

  Expr Split(const Expr& root) {
    // Iterative over the nodes outside reductions; bodies recurse by nesting, which is short.
    std::unordered_map<const ExprNode*, Expr> now;
    std::vector<std::pair<Expr, bool>> stack{{root, false}};
    while (!stack.empty()) {
      auto [e, done] = stack.back();
      stack.pop_back();
      if (now.count(e.get())) continue;
      if (e->kind() == ExprKind::kReduce) {
        now[e.get()] = Reduce(e);
        continue;
      }
      if (!done) {
        stack.emplace_back(e, true);
        for (const Expr& o : e->operands()) stack.emplace_back(o, false);
        continue;
      }
      now[e.get()] = Select(FoldDivision(Remake(e, now), parts_->extents));
    }
    return now.at(root.get());
  }

 private:
  /// A load at a position that is data, where few are possible: the value at the one that it is;
  /// beyond the operand NaN, or what lies last.
  Expr Select(const Expr& load) const {
    if (load->kind() != ExprKind::kLoad || size_t(load->buffer()) >= parts_->input_shapes.size())
      return load;
    for (int d = 0; d < load->num_indices(); ++d) {
      const Expr index = load->operand(d);
      if (AffineOf(index) || IsIndexOnly(index)) continue;
      const int64_t size = parts_->input_shapes[size_t(load->buffer())][size_t(d)];
      WEFT_CHECK(size <= kMostSelected, kUnsupported,
                 "a read at one of {} positions that are data; {} can be selected from", size,
                 kMostSelected);
      std::vector<Expr> at(load->operands().begin(), load->operands().end());
      Expr guard;
      if (load->has_guard()) {
        guard = at.back();
        at.pop_back();
      }
      Expr value;
      for (int64_t k = size; k-- > 0;) {
        at[size_t(d)] = Expr::Int(k);
        const Expr here = Expr::Load(load->buffer(), load->dtype(), at, guard);
        if (!value && load->dtype() == DType::kF32)
          value = Expr::Const(DType::kF32, std::numeric_limits<double>::quiet_NaN());
        value = value ? Expr::Select(weft::Eq(index, Expr::Cast(index->dtype(), Expr::Int(k))),
                                     here, value)
                      : here;
      }
      return value;
    }
    return load;
  }
  static Expr Remake(const Expr& e, const std::unordered_map<const ExprNode*, Expr>& now) {
    std::vector<Expr> o;
    bool same = true;
    for (const Expr& x : e->operands()) {
      o.push_back(now.at(x.get()));
      same &= o.back() == x;
    }
    if (same) return e;
    switch (e->kind()) {
      case ExprKind::kUnary:
        return Expr::Unary(e->un_op(), o[0]);
      case ExprKind::kBinary:
        return Expr::Binary(e->bin_op(), o[0], o[1]);
      case ExprKind::kSelect:
        return Expr::Select(o[0], o[1], o[2]);
      case ExprKind::kCast:
        return Expr::Cast(e->dtype(), o[0]);
      case ExprKind::kBitcast:
        return Expr::Bitcast(e->dtype(), o[0]);
      case ExprKind::kFma:
        return Expr::Fma(o[0], o[1], o[2]);
      case ExprKind::kCall:
        return Expr::Call(e->call(), o);
      case ExprKind::kLoad: {
        Expr guard;
        if (e->has_guard()) {
          guard = o.back();
          o.pop_back();
        }
        return Expr::Load(e->buffer(), e->dtype(), o, guard);
      }
      default:
        WEFT_THROW(kUnsupported, "an expression with random numbers");
    }
  }

  /// The position of an extremum among few, by comparing one after another; a NaN is extreme.
  static Expr FirstExtremum(const Expr& e) {
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const weft::SymInt& extent : e->extents()) {
      WEFT_CHECK(extent.is_const(), kUnsupported, "a reduction over a symbolic extent");
      extents.push_back(extent.value());
      count *= extents.back();
    }
    WEFT_CHECK(count >= 1 && count <= 64, kUnsupported, "the position of an extremum among {}",
               count);
    const bool least = e->reduce_op() == weft::ReduceOp::kArgMin;
    Expr best, where;
    for (int64_t i = 0; i < count; ++i) {
      weft::Indices at(extents.size());
      int64_t rest = i;
      for (size_t d = extents.size(); d-- > 0;) {
        at[d] = Expr::Int(rest % extents[d]);
        rest /= extents[d];
      }
      const Expr value = weft::ReduceBody(e, at);
      if (!best) {
        best = value;
        where = Expr::Int(0);
        continue;
      }
      Expr better = least ? weft::Lt(value, best) : weft::Lt(best, value);
      if (value->dtype() == DType::kF32)
        better = weft::Or(better, weft::And(Expr::Unary(UnOp::kIsNan, value),
                                            weft::Not(Expr::Unary(UnOp::kIsNan, best))));
      where = Expr::Select(better, Expr::Int(i), where);
      best = Expr::Select(better, value, best);
    }
    return where;
  }

  Expr Reduce(const Expr& e) {
    if (const auto it = done_.find(e.get()); it != done_.end()) return it->second;
    if (e->reduce_op() == weft::ReduceOp::kArgMin || e->reduce_op() == weft::ReduceOp::kArgMax) {
      keep_.push_back(e);
      return done_[e.get()] = Split(FirstExtremum(e));
    }
    ReducePart part;
    part.op = e->reduce_op();
    part.dtype = e->dtype();
    weft::Indices fresh;
    const int first = int(parts_->extents.size());
    for (size_t i = 0; i < e->extents().size(); ++i) fresh.push_back(Expr::Index(first + int(i)));
    const Expr whole = weft::ReduceBody(e, fresh);
    for (size_t i = 0; i < e->extents().size(); ++i) {
      const weft::SymInt& extent = e->extents()[i];
      WEFT_CHECK(extent.is_const(), kUnsupported, "a reduction over a symbolic extent");
      const auto add = [&](int64_t n) {
        part.reduced.push_back(int(parts_->extents.size()));
        parts_->extents.push_back(n);
        return Expr::Index(part.reduced.back());
      };
      const int64_t by = DivisorOf(whole, first + int(i));
      if (by > 1 && extent.value() % by == 0 && extent.value() > by) {
        const Expr quotient = add(extent.value() / by);
        fresh[i] = quotient * Expr::Int(by) + add(by);
      } else {
        fresh[i] = add(extent.value());
      }
    }
    part.body = Split(weft::ReduceBody(e, fresh));
    for (int axis : AxesOf(part.body))
      if (!std::count(part.reduced.begin(), part.reduced.end(), axis)) part.kept.push_back(axis);
    part.buffer = int(parts_->spec.inputs.size() + parts_->reduces.size());
    weft::Indices at;
    for (int axis : part.kept) at.push_back(Expr::Index(axis));
    Expr value = Expr::Load(part.buffer, part.dtype, at);
    parts_->reduces.push_back(std::move(part));
    keep_.push_back(e);
    done_[e.get()] = value;
    return value;
  }

  OperatorParts* parts_;
  std::unordered_map<const ExprNode*, Expr> done_;
  std::vector<Expr> keep_;  ///< nodes whose addresses are keys
};

void CheckTypes(const Expr& e) {
  for (const ExprNode* n : weft::PostOrder({e})) {
    const DType t = n->dtype();
    if (t == DType::kF32 || t == DType::kI32 || t == DType::kU32 || t == DType::kBool ||
        t == DType::kI64)
      continue;
    // Bytes are moved and compared, nothing more.
    const bool compared = n->kind() == ExprKind::kLoad || n->kind() == ExprKind::kCast ||
                          n->kind() == ExprKind::kConst || n->kind() == ExprKind::kSelect;
    if (t == DType::kU8 && compared) continue;
    // Bodies that need more than 32 bits are said by the math function that brings them.
    WEFT_THROW(kUnsupported, "values of type {} do not fit the machine's words of 32 bits",
               weft::DTypeName(t));
  }
}

std::vector<int64_t> Static(const weft::TensorSpec& spec, const char* what) {
  std::vector<int64_t> dims;
  for (const weft::SymInt& d : spec.dims) {
    WEFT_CHECK(d.is_const(), kUnsupported, "an {} with a symbolic extent", what);
    dims.push_back(d.value());
    WEFT_CHECK(dims.back() >= 1, kUnsupported, "an {} without elements", what);
  }
  return dims;
}

}  // namespace

namespace {

/// A result, or one for each remainder of its axes where these are divided. `residues`: the axis
/// that stands for every so many indices of an axis, by that and its extent.
void AddResult(int output, const std::vector<int>& axes, const Expr& value, Splitter& splitter,
               std::map<std::pair<int, int64_t>, int>& residues, OperatorParts* parts) {
  std::vector<int64_t> by;
  int64_t pieces = 1;
  for (const int axis : axes) {
    by.push_back(DivisorOf(value, axis));
    pieces *= by.back();
  }
  WEFT_CHECK(pieces <= kMostResidues, kUnsupported, "{} remainders of the axes of a result",
             pieces);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    ResultPart part;
    part.output = output;
    weft::Indices at(parts->extents.size());
    for (size_t a = 0; a < at.size(); ++a) at[a] = Expr::Index(int(a));
    int64_t left = piece;
    bool empty = false;
    for (size_t d = axes.size(); d-- > 0;) {
      int axis = axes[d];
      const int64_t remainder = left % by[d];
      left /= by[d];
      if (by[d] > 1) {
        const int64_t extent = (parts->extents[size_t(axis)] - remainder + by[d] - 1) / by[d];
        empty |= extent < 1;
        const auto [it, fresh] =
            residues.try_emplace({axis, by[d] << 32 | extent}, int(parts->extents.size()));
        if (fresh) parts->extents.push_back(extent);
        axis = it->second;
        at[size_t(axes[d])] = Expr::Index(axis) * Expr::Int(by[d]) + Expr::Int(remainder);
      }
      part.axes.insert(part.axes.begin(), axis);
      part.at.insert(part.at.begin(), Affine{remainder, {{axis, by[d]}}});
    }
    if (empty) continue;
    part.value = splitter.Split(pieces == 1 ? value : weft::SubstituteIndices(value, at));
    parts->results.push_back(std::move(part));
  }
}

}  // namespace

OperatorParts TakeApart(const weft::Graph& graph, const weft::NodePtr& node) {
  OperatorParts parts;
  std::string why;
  std::optional<weft::ComputeSpec> spec = weft::TryExpand(graph, node, &why);
  WEFT_CHECK(spec, kUnsupported, "{}: {}", node->Describe(), why);
  parts.spec = std::move(*spec);
  for (const weft::TensorSpec& t : parts.spec.inputs)
    parts.input_shapes.push_back(Static(t, "operand"));
  for (const weft::TensorSpec& t : parts.spec.outputs)
    parts.output_shapes.push_back(Static(t, "result"));

  // Results share axes where their shapes agree from the left; each has its own otherwise.
  Splitter splitter(&parts);
  std::vector<std::vector<int>> spaces;
  std::map<std::vector<int64_t>, std::vector<int>> of_shape;
  std::map<std::pair<int, int64_t>, int> residues;
  for (const std::vector<int64_t>& shape : parts.output_shapes) {
    std::vector<int>& axes = of_shape[shape];
    if (axes.empty())
      for (int64_t d : shape) {
        axes.push_back(int(parts.extents.size()));
        parts.extents.push_back(d);
      }
    spaces.push_back(axes);
  }
  for (size_t k = 0; k < parts.spec.values.size(); ++k) {
    // What nobody reads needs no code: the positions that a MaxPool could give.
    if (!weft::IsRead(graph, weft::NodeEntry(node, uint32_t(k)))) continue;
    weft::Indices at;
    for (int axis : spaces[k]) at.push_back(Expr::Index(axis));
    std::vector<weft::SymInt> dims;
    for (int64_t d : parts.output_shapes[k]) dims.emplace_back(d);
    Expr value = weft::SimplifyIndex(parts.spec.values[k], dims, weft::Facts());
    value = weft::SubstituteIndices(weft::ExpandMath(value), at);
    CheckTypes(value);
    AddResult(int(k), spaces[k], value, splitter, residues, &parts);
  }

  // Classes: axes that read one dimension of one operand as they are.
  const size_t n = parts.extents.size();
  parts.local.assign(n, false);
  parts.classes.resize(n);
  std::iota(parts.classes.begin(), parts.classes.end(), 0);
  const auto root = [&](int a) {
    while (parts.classes[size_t(a)] != a) a = parts.classes[size_t(a)];
    return a;
  };
  const auto unite = [&](int a, int b) {
    a = root(a);
    b = root(b);
    parts.classes[size_t(std::max(a, b))] = std::min(a, b);
  };
  for (const std::vector<int64_t>& shape : parts.input_shapes)
    parts.input_axes.emplace_back(shape.size(), -1);
  parts.read.assign(parts.input_shapes.size(), false);
  std::set<std::pair<size_t, int>> shifted;
  const auto look = [&](const Expr& e) {
    for (const ExprNode* node_at : weft::PostOrder({e})) {
      if (node_at->kind() == ExprKind::kLoad) {
        const size_t buffer = size_t(node_at->buffer());
        if (buffer < parts.read.size()) parts.read[buffer] = true;
        for (int d = 0; d < node_at->num_indices(); ++d) {
          const auto affine = AffineOf(node_at->operand(d));
          WEFT_CHECK(affine, kUnsupported, "{}: an index that is not affine", node->Describe());
          const int64_t size =
              buffer < parts.input_shapes.size()
                  ? parts.input_shapes[buffer][size_t(d)]
                  : parts.extents[size_t(
                        parts.reduces[buffer - parts.input_shapes.size()].kept[size_t(d)])];
          const int pure = affine->pure();
          if (pure >= 0 && parts.extents[size_t(pure)] == size) {
            if (buffer >= parts.input_shapes.size()) {
              unite(pure, parts.reduces[buffer - parts.input_shapes.size()].kept[size_t(d)]);
              continue;
            }
            int& axis = parts.input_axes[buffer][size_t(d)];
            if (axis >= 0) unite(axis, pure);
            axis = pure;
          } else {
            for (const auto& [axis, c] : affine->terms) parts.local[size_t(axis)] = true;
            // A dimension that is read at one place only, or shifted, lies in every place whole.
            if (size > 1) shifted.emplace(buffer, d);
          }
        }
      }
    }
    for (const Expr& condition : IndexConditions(e))
      for (int axis : AxesOf(condition)) parts.local[size_t(axis)] = true;
  };
  for (const ReducePart& part : parts.reduces) look(part.body);
  for (const ResultPart& part : parts.results) {
    look(part.value);
    // Every so many indices of a dimension lie in one place.
    for (const Affine& at : part.at)
      if (at.pure() < 0)
        for (const auto& [axis, c] : at.terms) parts.local[size_t(axis)] = true;
  }
  for (const auto& [buffer, d] : shifted) {
    const size_t inputs = parts.input_shapes.size();
    const int axis = buffer < inputs ? parts.input_axes[buffer][size_t(d)]
                                     : parts.reduces[buffer - inputs].kept[size_t(d)];
    if (axis >= 0) parts.local[size_t(axis)] = true;
  }
  for (size_t a = 0; a < n; ++a) parts.classes[a] = root(int(a));
  // One axis of a class that must stay holds the others.
  for (size_t a = 0; a < n; ++a)
    if (parts.local[a]) parts.local[size_t(parts.classes[a])] = true;
  for (size_t a = 0; a < n; ++a)
    if (parts.local[size_t(parts.classes[a])]) parts.local[a] = true;
  return parts;
}

std::optional<ProductPart> ProductOf(const ReducePart& part) {
  if (part.op != weft::ReduceOp::kSum || part.dtype != DType::kF32) return std::nullopt;
  Expr e = part.body;
  // A window with padding: inside ? a * b : 0, each load guarded by `inside`.
  Expr inside;
  if (e->kind() == ExprKind::kSelect && e->operand(2)->is_const(0) && IsIndexOnly(e->operand(0))) {
    inside = e->operand(0);
    e = e->operand(1);
  }
  if (e->kind() != ExprKind::kBinary || e->bin_op() != BinOp::kMul) return std::nullopt;
  ProductPart p;
  p.a = e->operand(0);
  p.b = e->operand(1);
  if (p.a->kind() != ExprKind::kLoad || p.b->kind() != ExprKind::kLoad) return std::nullopt;
  if (inside) {
    // The operand that is read as it is is inside anyway; the zeros of the other are enough.
    const auto guarded = [&](const Expr& load) {
      return load->has_guard() && load->operands().back() == inside;
    };
    const auto plain = [](const Expr& load) {
      for (int d = 0; d < load->num_indices(); ++d) {
        const auto affine = AffineOf(load->operand(d));
        if (!affine || (affine->pure() < 0 && !affine->terms.empty())) return false;
      }
      return true;
    };
    if (!guarded(p.a) || !guarded(p.b) || plain(p.a) == plain(p.b)) return std::nullopt;
    Expr& whole = plain(p.a) ? p.a : p.b;
    weft::Indices at(whole->operands().begin(), whole->operands().end() - 1);
    whole = Expr::Load(whole->buffer(), whole->dtype(), at);
  }
  const std::vector<int> in_a = AxesOf(p.a), in_b = AxesOf(p.b);
  const auto has = [](const std::vector<int>& v, int axis) {
    return std::find(v.begin(), v.end(), axis) != v.end();
  };
  for (int axis : part.kept) {
    if (has(in_a, axis) && has(in_b, axis))
      p.both.push_back(axis);
    else
      (has(in_a, axis) ? p.only_a : p.only_b).push_back(axis);
  }
  for (int axis : part.reduced) {
    if (!has(in_a, axis) || !has(in_b, axis)) return std::nullopt;
    p.inner.push_back(axis);
  }
  return p;
}

}  // namespace hsimd
