/// pieces.cc: a tensor that is put together from very many others (Concat) as form multi: one
/// copy a piece, all in one launch.
///   before  out[i] = i < 3 ? b0[i] : i < 6 ? b1[i - 3] : ..
///   after   part 0: out[0 + k] = b0[k];  part 1: out[3 + k] = b1[k];  ..
/// As one kernel its text and the comparisons of every element grow with the number of pieces: 1000
/// of them take NVRTC 8 s.
#include "pieces.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

/// [begin, end) of the axis is the whole of an input.
struct Piece {
  SymInt begin, end;
  int input = 0;
};

/// Is it a conjunction of what the selections on the way have decided? `decided`: sorted.
bool Implied(const Expr& guard, const std::vector<const ExprNode*>& decided) {
  std::vector<Expr> work{guard};
  while (!work.empty()) {
    const Expr e = work.back();
    work.pop_back();
    if (std::find(decided.begin(), decided.end(), e.get()) != decided.end()) continue;
    if (e->kind() != ExprKind::kBinary || e->bin_op() != BinOp::kAnd) return false;
    work.push_back(e->operand(0));
    work.push_back(e->operand(1));
  }
  return true;
}

/// The axis of Lt(Index(axis), bound), and the bound; -1 where `e` is none.
int ComparedAxis(const Expr& e, SymInt* bound) {
  if (e->kind() != ExprKind::kBinary || e->bin_op() != BinOp::kLt ||
      e->operand(0)->kind() != ExprKind::kIndex)
    return -1;
  const Expr& b = e->operand(1);
  if (b->kind() == ExprKind::kConst)
    *bound = b->const_int();
  else if (b->kind() == ExprKind::kDim)
    *bound = b->dim();
  else
    return -1;
  return e->operand(0)->index();
}

class PieceFinder {
 public:
  explicit PieceFinder(const ComputeSpec& spec) : spec_(spec) {}
  int axis() const { return axis_; }

  /// In order along the axis; none where the output is something else.
  std::vector<Piece> Run() {
    std::vector<Piece> pieces;
    if (spec_.values.size() != 1 || spec_.values[0]->kind() != ExprKind::kSelect) return {};
    SymInt unused;
    axis_ = ComparedAxis(spec_.values[0]->operand(0), &unused);
    if (axis_ < 0) return {};
    struct Open {
      Expr value;
      SymInt begin, end;
      std::vector<Expr> decided;
    };
    std::vector<Open> work{{spec_.values[0], 0, spec_.outputs[0].dims[size_t(axis_)], {}}};
    while (!work.empty()) {
      Open open = std::move(work.back());
      work.pop_back();
      if (open.value->kind() != ExprKind::kSelect) {
        if (!AddPiece(open.value, open.begin, open.end, open.decided, &pieces)) return {};
        continue;
      }
      const Expr& condition = open.value->operand(0);
      SymInt bound;
      // A tree that is not balanced would take time by its depth for every piece.
      if (ComparedAxis(condition, &bound) != axis_ || open.decided.size() > kMaxDepth) return {};
      Open left{open.value->operand(1), open.begin, bound, open.decided};
      left.decided.push_back(condition);
      open.decided.push_back(Not(condition));
      work.push_back({open.value->operand(2), bound, open.end, std::move(open.decided)});
      work.push_back(std::move(left));
    }
    return pieces;
  }

 private:
  static constexpr size_t kMaxDepth = 64;

  bool AddPiece(const Expr& value, SymInt begin, SymInt end, const std::vector<Expr>& decided,
                std::vector<Piece>* pieces) const {
    const std::vector<SymInt>& out = spec_.outputs[0].dims;
    if (value->kind() != ExprKind::kLoad || value->num_indices() != int(out.size())) return false;
    if (value->has_guard()) {
      std::vector<const ExprNode*> known;
      for (const Expr& e : decided) known.push_back(e.get());
      if (!Implied(value->operands().back(), known)) return false;
    }
    const std::vector<SymInt>& in = spec_.inputs[size_t(value->buffer())].dims;
    for (int d = 0; d < int(out.size()); ++d) {
      const Expr at = Expr::Index(d);
      const bool only = in[size_t(d)].is(1) && value->operand(d)->is_const(0);
      if (!only && value->operand(d) != (d == axis_ ? at - Expr::Dim(begin) : at)) return false;
      if (in[size_t(d)] != (d == axis_ ? end - begin : out[size_t(d)])) return false;
    }
    pieces->push_back({begin, end, value->buffer()});
    return true;
  }

  const ComputeSpec& spec_;
  int axis_ = -1;
};

/// What a copy is told. Symbols are numbered by it.
enum Symbol { kPoints, kBegin, kOutElements, kRun, kOthers };

/// in has runs of kRun elements, which lie kOthers elements apart in out.
///   contiguous  out[kBegin + k] = in[k] for k in [0, kPoints)
///   flat        out[kBegin + k + k / kRun * kOthers] = in[k]
///   else        out[kBegin + j * (kRun + kOthers) + k] = in[j * kRun + k]
///               for j in [0, kPoints), k in [0, kRun)
KernelPtr CopyKernel(DType t, bool contiguous, bool flat) {
  const auto symbol = [](Symbol s) { return KernelSymbol(s); };
  const auto dim = [&](Symbol s) { return Expr::Dim(symbol(s)); };
  auto k = std::make_shared<Kernel>();
  k->buffers = {{t, false, symbol(kPoints)}, {t, true, symbol(kOutElements)}};
  k->num_inputs = 1;
  k->dims = {symbol(kPoints)};
  k->num_symbols = contiguous ? kRun : kOthers + 1;
  Expr from = Expr::Index(0), to = dim(kBegin) + from;
  if (!contiguous && flat) {
    to = to + Expr::Binary(BinOp::kFloorDiv, from, dim(kRun)) * dim(kOthers);
  } else if (!contiguous) {
    const Expr j = Expr::Index(0), at = Expr::Index(1);
    k->buffers[0].num_elements = symbol(kPoints) * symbol(kRun);
    k->dims.push_back(symbol(kRun));
    from = j * dim(kRun) + at;
    to = dim(kBegin) + j * Expr::Dim(symbol(kRun) + symbol(kOthers)) + at;
  }
  k->num_outer = int(k->dims.size());
  k->vector_loop = k->num_outer - 1;
  k->stores = {{1, to, Expr::Load(0, t, {from}), false}};
  k->Finish();
  return k;
}

}  // namespace

std::optional<LoweredKernel> LowerPieces(const ComputeSpec& spec, bool flat) {
  if (spec.inputs.size() <= kMaxKernelTensors) return {};
  PieceFinder finder(spec);
  const std::vector<Piece> pieces = finder.Run();
  if (pieces.size() <= kMaxKernelTensors) return {};
  const std::vector<SymInt>& out = spec.outputs[0].dims;
  const auto axis = size_t(finder.axis());
  const SymInt outer = Product({out.begin(), out.begin() + std::ptrdiff_t(axis)}),
               inner = Product({out.begin() + std::ptrdiff_t(axis) + 1, out.end()});
  const bool contiguous = outer.is(1);
  LoweredKernel lowered;
  lowered.kernel = CopyKernel(spec.outputs[0].dtype, contiguous, flat);
  for (const Piece& p : pieces) {
    const SymInt run = (p.end - p.begin) * inner;
    const int first = int(lowered.symbols.size());
    lowered.parts.push_back({lowered.kernel, {p.input, int(spec.inputs.size())}, first});
    lowered.symbols.insert(lowered.symbols.end(), {flat || contiguous ? outer * run : outer,
                                                   p.begin * inner, Product(out)});
    if (!contiguous) lowered.symbols.insert(lowered.symbols.end(), {run, out[axis] * inner - run});
  }
  return lowered;
}

}  // namespace weft
