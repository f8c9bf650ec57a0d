/// lower.cc: from a ComputeSpec to a finished Kernel.
///
///   NormalizeSpec -> RowNest / ElementwiseNest -> FlattenNest -> SplitLoops -> CollapseLoops
///                 -> symbols, reductions, Kernel::Finish
#include "weft/codegen/lower/lower.h"

#include <algorithm>

#include "index_form.h"
#include "nest.h"
#include "weft/support/check.h"
#include "weft/sym/symbols.h"

namespace weft {

namespace {

/// Element counts of the tensors and of the loops that run together.
std::vector<SymInt> SizesOf(const Nest& nest, const ComputeSpec& spec) {
  std::vector<SymInt> sizes;
  const auto add = [&](const std::vector<SymInt>& dims) {
    try {
      sizes.push_back(Product(dims));
    } catch (const Error& error) {
      // Extents beyond 64 bits beside one of 0: nothing is that large.
      if (error.code() != ErrorCode::kOverflow) throw;
    }
  };
  for (const TensorSpec& t : spec.inputs) add(t.dims);
  for (const TensorSpec& t : spec.outputs) add(t.dims);
  const std::vector<SymInt> points(nest.loops.begin(), nest.loops.begin() + nest.num_dims);
  add(points);
  for (const Nest::Reduction& r : nest.reductions) {
    if (r.first < nest.num_dims) continue;
    std::vector<SymInt> both = points;
    both.insert(both.end(), nest.loops.begin() + r.first, nest.loops.begin() + r.first + r.count);
    add(both);
  }
  return sizes;
}

}  // namespace

void FlattenNest(Nest* nest, const ComputeSpec& spec, const Facts& facts) {
  AddRangeFlags(nest, spec);
  const std::vector<SymInt> sizes = SizesOf(*nest, spec);
  IndexSimplifier simplifier(nest->loops, facts, sizes), offsets(nest->loops, facts, sizes);
  const auto at_load = [&](const Expr& load) {
    Indices at(load->operands().begin(), load->operands().begin() + load->num_indices());
    WEFT_ICHECK(load->buffer() < int(spec.inputs.size()), "load of input {} of {}", load->buffer(),
                spec.inputs.size());
    const std::vector<SymInt>& dims = spec.inputs[load->buffer()].dims;
    Expr guard = load->has_guard() ? load->operands().back() : Expr();
    KeepInside(&at, dims, nest->num_dims - 1, &guard);
    return Expr::Load(load->buffer(), load->dtype(), {offsets.Run(Linearize(at, dims))}, guard);
  };
  for (Nest::Store& s : nest->stores) {
    s.offset = simplifier.Run(s.offset);
    s.value = simplifier.Run(s.value, at_load);
  }
  for (Nest::Reduction& r : nest->reductions) r.body = simplifier.Run(r.body, at_load);
  for (Nest::RangeFlag& f : nest->flags) f.value = simplifier.Run(f.value, at_load);
  DropFalseFlags(nest);
}

void CollapseLoops(Nest* nest, const Facts& facts) {
  const int n = int(nest->loops.size());
  // merge[k]: loop k continues in loop k + 1.
  std::vector<char> merge(size_t(std::max(0, n)), 0);
  for (int k = 0; k + 1 < n; ++k) merge[k] = nest->group[k] == nest->group[k + 1];
  Exprs index;
  for (int k = 0; k < n; ++k) index.push_back(Expr::Index(k));
  VisitForms(nest->Parts(), [&](const Expr&, const IndexForm& f) {
    std::vector<SymInt> c(size_t(n), 0);
    for (const auto& [atom, coefficient] : f.terms) {
      if (atom->kind() == ExprKind::kIndex) c[atom->index()] = coefficient;
    }
    for (int k = 0; k + 1 < n; ++k) {
      if (!merge[k] || (c[k].is(0) && c[k + 1].is(0))) continue;
      try {
        const SymInt step = c[k + 1] * nest->loops[k + 1];
        merge[k] = c[k] == step || facts.ProvedEqual(c[k], step);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kOverflow) throw;
        merge[k] = 0;
      }
    }
  });
  // A run of merged loops steps through every sum like its last loop: the others become 0.
  Indices at(static_cast<size_t>(n));
  std::vector<SymInt> loops;
  std::vector<int> group, renumbered(size_t(n) + 1, 0);
  SymInt extent = 1;
  for (int k = 0; k < n; ++k) {
    renumbered[k] = int(loops.size());
    extent = extent * nest->loops[k];
    if (merge[k]) {
      at[k] = Expr::Int(0);
      continue;
    }
    at[k] = Expr::Index(int(loops.size()));
    loops.push_back(extent);
    group.push_back(nest->group[k]);
    extent = 1;
  }
  renumbered[n] = int(loops.size());
  for (Nest::Store& s : nest->stores) {
    s.offset = SubstituteIndices(s.offset, at);
    s.value = SubstituteIndices(s.value, at);
  }
  for (Nest::Reduction& r : nest->reductions) {
    r.body = SubstituteIndices(r.body, at);
    const int end = renumbered[r.first + r.count];
    r.first = renumbered[r.first];
    r.count = end - r.first;
  }
  for (Nest::RangeFlag& f : nest->flags) f.value = SubstituteIndices(f.value, at);
  nest->num_dims = renumbered[nest->num_dims];
  nest->num_outer = renumbered[nest->num_outer];
  nest->loops = std::move(loops);
  nest->group = std::move(group);
}

namespace {

/// An expression of more nodes than this is one number to a kernel: what printers make
/// of it stays small.
constexpr uint32_t kMaxExtentSize = 32;
/// Terms of the product of all loops, which printers multiply out.
constexpr uint32_t kMaxProductTerms = 64;

/// What a kernel is told of the graph's extents: symbols, and whole expressions where they are
/// large, as $0, $1 ... in the order in which `Use` meets them.
class SymbolTable {
 public:
  explicit SymbolTable(const Facts& facts) : facts_(facts) {}

  SymInt Use(SymInt e) {
    if (Known(e) != symbols_.end() || IsLarge(e)) return NumberOf(e);
    for (SymInt s : e.Symbols()) NumberOf(s);
    return Substitute(e, [&](SymInt s) { return KernelSymbol(int(Known(s) - symbols_.begin())); });
  }
  /// The loops of a kernel: those with the most terms are one number each until the product
  /// of all is small.
  void NameLoops(const std::vector<SymInt>& loops) {
    const auto terms = [this](SymInt e) {
      return IsLarge(e) || e.is_symbol() ? 1 : (e.size() + 1) / 2;
    };
    std::vector<SymInt> sorted = loops;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](SymInt a, SymInt b) { return terms(a) > terms(b); });
    uint64_t product = 1;
    for (auto it = sorted.rbegin(); it != sorted.rend(); ++it) {
      product *= terms(*it);
      if (product > kMaxProductTerms && IsSize(*it)) NumberOf(*it);
      product = std::min<uint64_t>(product, kMaxProductTerms);
    }
  }
  const std::vector<SymInt>& symbols() const { return symbols_; }

 private:
  std::vector<SymInt>::const_iterator Known(SymInt e) const {
    return std::find(symbols_.begin(), symbols_.end(), e);
  }
  /// Extents of a kernel are never negative.
  bool IsSize(SymInt e) const { return !e.is_const() && facts_.RangeOf(e).lo >= 0; }
  bool IsLarge(SymInt e) const { return e.size() > kMaxExtentSize && IsSize(e); }
  SymInt NumberOf(SymInt e) {
    auto it = Known(e);
    if (it == symbols_.end()) it = symbols_.insert(symbols_.end(), e);
    return KernelSymbol(int(it - symbols_.begin()));
  }

  const Facts& facts_;
  std::vector<SymInt> symbols_;
};

bool FitsInt32(SymInt lo, SymInt hi, const Facts& facts) {
  return facts.RangeOf(lo).lo >= INT32_MIN && facts.RangeOf(hi).hi <= INT32_MAX;
}

/// Every sum, extent and size stays within int32 for all bindings the facts allow.
bool SmallIndex(const Nest& nest, const std::vector<KernelBuffer>& buffers, const Facts& facts) {
  try {
    for (const KernelBuffer& b : buffers) {
      if (!FitsInt32(0, b.num_elements, facts)) return false;
    }
    const std::vector<SymInt> dims(nest.loops.begin(), nest.loops.begin() + nest.num_dims);
    if (!FitsInt32(0, Product(dims), facts)) return false;
    for (const Nest::Reduction& r : nest.reductions) {
      const std::vector<SymInt> own(nest.loops.begin() + r.first,
                                    nest.loops.begin() + r.first + r.count);
      if (!FitsInt32(0, Product(own), facts)) return false;
    }
    IndexSimplifier simplifier(nest.loops, facts);
    bool small = true;
    VisitForms(nest.Parts(), [&](const Expr&, const IndexForm& f) {
      if (!small) return;
      const auto b = simplifier.BoundsOf(f);
      small = b && FitsInt32(b->lo, b->hi, facts);
    });
    return small;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
    return false;
  }
}

/// Loads and stores that step through memory by anything but 0 or 1 along `loop`.
int StridedAccesses(const Nest& nest, int loop) {
  int count = 0;
  const auto strided = [&](const Expr& offset) {
    const Expr c = AffineCoefficient(offset, loop);
    return !c || !(c->kind() == ExprKind::kConst && c->const_int() >= 0 && c->const_int() <= 1);
  };
  for (const Nest::Store& s : nest.stores) count += strided(s.offset);
  for (const ExprNode* n : PostOrder(nest.Parts())) {
    if (n->kind() == ExprKind::kLoad) count += strided(n->operand(0));
  }
  return count;
}

int ChooseVectorLoop(const Nest& nest) {
  const int last = nest.num_dims - 1, last_outer = nest.num_outer - 1;
  switch (nest.tmpl) {
    case KernelTemplate::kElementwise:
      break;
    case KernelTemplate::kRow:
      if (last_outer >= 0 && StridedAccesses(nest, last) > StridedAccesses(nest, last_outer))
        return last_outer;
      break;
  }
  return last;
}

/// Puts Reduce nodes back for the slots.
class Rebuilder {
 public:
  Rebuilder(const Nest& nest, SymbolTable* symbols) : symbols_(symbols) {
    reduces_.resize(nest.reductions.size());
    for (int k : DependencyOrder(nest)) {
      const Nest::Reduction& r = nest.reductions[k];
      const Expr body = Fill(r.body);
      std::vector<SymInt> extents;
      for (int i = 0; i < r.count; ++i) extents.push_back(symbols->Use(nest.loops[r.first + i]));
      reduces_[k] = Expr::Reduce(r.op, extents, [&](const Indices& variables) {
        return RewriteExpr(body, [&](const Expr& e) -> Expr {
          if (e->kind() != ExprKind::kIndex || e->index() < r.first ||
              e->index() >= r.first + r.count)
            return {};
          return variables[e->index() - r.first];
        });
      });
    }
  }
  Expr Fill(const Expr& e) {
    return RewriteExpr(e, [&](const Expr& x) -> Expr {
      if (x->kind() == ExprKind::kDim) return Expr::Dim(symbols_->Use(x->dim()));
      if (x->slot() >= 0) return reduces_.at(size_t(x->slot()));
      return {};
    });
  }

 private:
  SymbolTable* symbols_;
  Exprs reduces_;
};

Nest ChooseNest(const ComputeSpec& spec, const Facts& facts) {
  if (std::optional<Nest> nest = RowNest(spec, facts)) {
    FlattenNest(&*nest, spec, facts);
    const bool any_full = std::any_of(nest->stores.begin(), nest->stores.end(),
                                      [](const auto& s) { return !s.per_row; });
    if (any_full || RowsReadOnce(*nest, facts)) return *std::move(nest);
  }
  Nest nest = ElementwiseNest(spec, facts);
  FlattenNest(&nest, spec, facts);
  return nest;
}

}  // namespace

LoweredKernel LowerKernel(const ComputeSpec& original, const Facts& facts) {
  WEFT_ICHECK(original.values.size() == original.outputs.size(), "{} values for {} outputs",
              original.values.size(), original.outputs.size());
  const ComputeSpec spec = NormalizeSpec(original, facts);
  Nest nest = ChooseNest(spec, facts);
  SplitLoops(&nest, facts, SizesOf(nest, spec));
  CollapseLoops(&nest, facts);

  auto kernel = std::make_shared<Kernel>();
  kernel->num_inputs = int(spec.inputs.size());
  for (const TensorSpec& t : spec.inputs)
    kernel->buffers.push_back({t.dtype, false, Product(t.dims)});
  for (const TensorSpec& t : spec.outputs)
    kernel->buffers.push_back({t.dtype, true, Product(t.dims)});
  kernel->small_index = SmallIndex(nest, kernel->buffers, facts);
  nest.vector_loop = ChooseVectorLoop(nest);
  static_cast<KernelForm&>(*kernel) = nest;

  SymbolTable symbols(facts);
  symbols.NameLoops(nest.loops);
  for (int k = 0; k < nest.num_dims; ++k) kernel->dims.push_back(symbols.Use(nest.loops[k]));
  for (KernelBuffer& b : kernel->buffers) b.num_elements = symbols.Use(b.num_elements);
  Rebuilder rebuilder(nest, &symbols);
  for (const Nest::Store& s : nest.stores)
    kernel->stores.push_back({kernel->num_inputs + s.output, rebuilder.Fill(s.offset),
                              rebuilder.Fill(s.value), s.per_row});
  for (const Nest::RangeFlag& f : nest.flags)
    kernel->stores.push_back({int(kernel->buffers.size()), Expr::Int(0), rebuilder.Fill(f.value),
                              f.per_row, /*flag=*/true});
  if (!nest.flags.empty()) kernel->buffers.push_back({DType::kBool, true, 1});
  kernel->num_symbols = int(symbols.symbols().size());
  kernel->Finish();
  return {kernel, symbols.symbols()};
}

}  // namespace weft
