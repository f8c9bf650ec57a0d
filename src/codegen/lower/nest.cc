/// nest.cc: which loops a kernel has: one per dimension of the outputs (elementwise),
/// or rows and their elements (row).
///
/// Rows. All reductions must be over the same extents R and may depend on nothing but P. An output
/// is *full* (its space is P x R in any order of dimensions) or per row (its space is P). Which
/// dimensions of a full output are R is decided by trying every subsequence of matching extents
/// that no reduction of it depends on; of several the one with the fewest distinct loads wins,
/// because there the reductions read what the outputs read.
#include "nest.h"

#include <algorithm>

#include "index_form.h"
#include "weft/support/check.h"

namespace weft {
namespace {

std::vector<SymInt> SimplifyDims(std::vector<SymInt> dims, const Facts& facts) {
  for (SymInt& d : dims) d = facts.Simplify(d);
  return dims;
}

/// Moves Reduce nodes out of expressions into nest->reductions.
class Extractor {
 public:
  /// `row_first` >= 0: all reductions share the loops from there on (row).
  Extractor(Nest* nest, int row_first, const Facts& facts)
      : nest_(nest), row_first_(row_first), facts_(facts) {}

  /// Null when a reduction does not fit the rows.
  Expr Extract(const Expr& value) {
    Expr out = Replace(value);
    // Bodies found on the way, outer ones first.
    while (done_ < found_.size() && fits_) {
      const Expr reduce = found_[done_];
      Nest::Reduction& r = nest_->reductions[done_++];
      Indices at;
      for (int i = 0; i < r.count; ++i) at.push_back(Expr::Index(r.first + i));
      Expr body = Replace(ReduceBody(reduce, at));
      nest_->reductions[done_ - 1].body = std::move(body);
    }
    return fits_ ? out : Expr();
  }

 private:
  Expr Replace(const Expr& e) {
    return ReplaceReduces(e, [&](const Expr& reduce) {
      int* known = number_.Find(reduce.get());
      const int k = known ? *known : Add(reduce);
      return k < 0 ? Expr() : Expr::Slot(k, reduce->dtype());
    });
  }
  int Add(const Expr& reduce) {
    const int k = int(found_.size());
    Nest::Reduction r{reduce->reduce_op(), row_first_, int(reduce->extents().size()), {}};
    if (row_first_ >= 0) {
      const std::vector<SymInt> row(nest_->loops.begin() + row_first_, nest_->loops.end());
      if (SimplifyDims(reduce->extents(), facts_) != row || DependsOnRow(reduce)) {
        fits_ = false;
        return -1;
      }
    } else {
      r.first = int(nest_->loops.size());
      const int group = nest_->group.empty() ? 1 : nest_->group.back() + 1;
      for (SymInt e : SimplifyDims(reduce->extents(), facts_)) {
        nest_->loops.push_back(e);
        nest_->group.push_back(group);
      }
    }
    number_.Set(reduce.get(), k);
    found_.push_back(reduce);
    nest_->reductions.push_back(std::move(r));
    return k;
  }
  bool DependsOnRow(const Expr& reduce) const {
    for (const ExprNode* n : PostOrder({reduce})) {
      if (n->kind() == ExprKind::kIndex && n->index() >= row_first_) return true;
    }
    return false;
  }

  Nest* nest_;
  const int row_first_;
  const Facts& facts_;
  bool fits_ = true;
  ExprMap<int> number_;
  Exprs found_;
  size_t done_ = 0;
};

/// Loops that the reductions of e depend on, as a bit mask.
uint64_t LoopsOfReductions(const Expr& e) {
  uint64_t mask = 0;
  ReplaceReduces(e, [&](const Expr& reduce) -> Expr {
    for (const ExprNode* n : PostOrder({reduce})) {
      if (n->kind() == ExprKind::kIndex && n->index() < 64) mask |= uint64_t{1} << n->index();
    }
    return {};
  });
  return mask;
}

Indices IndexRange(int first, int count) {
  Indices at;
  for (int i = 0; i < count; ++i) at.push_back(Expr::Index(first + i));
  return at;
}

/// One store of the nest: output k read at `at`.
bool AddStore(Nest* nest, Extractor* extractor, const ComputeSpec& spec, size_t k,
              const Indices& at, bool per_row) {
  Nest::Store store{int(k), Linearize(at, spec.outputs[k].dims),
                    SubstituteIndices(spec.values[k], at), per_row};
  store.value = extractor->Extract(store.value);
  if (!store.value) return false;
  nest->stores.push_back(std::move(store));
  return true;
}

/// The row nest where the dimensions `row_mask` of `full` are R; full dims empty of R (mask 0): all
/// outputs per row.
std::optional<Nest> TryRows(const ComputeSpec& spec, const std::vector<SymInt>& full,
                            uint64_t row_mask, const std::vector<SymInt>& row, const Facts& facts) {
  Nest nest;
  nest.tmpl = KernelTemplate::kRow;
  Indices full_at(full.size());
  std::vector<SymInt> outer;
  for (size_t i = 0; i < full.size(); ++i) {
    if (row_mask >> i & 1) continue;
    full_at[i] = Expr::Index(int(outer.size()));
    outer.push_back(full[i]);
  }
  const int num_outer = int(outer.size());
  int next = num_outer;
  for (size_t i = 0; i < full.size(); ++i) {
    if (row_mask >> i & 1) full_at[i] = Expr::Index(next++);
  }
  nest.loops = outer;
  nest.loops.insert(nest.loops.end(), row.begin(), row.end());
  nest.num_dims = int(nest.loops.size());
  nest.num_outer = num_outer;
  nest.group.assign(nest.loops.size(), 0);
  std::fill(nest.group.begin() + num_outer, nest.group.end(), 1);
  Extractor extractor(&nest, num_outer, facts);
  for (size_t k = 0; k < spec.outputs.size(); ++k) {
    const std::vector<SymInt>& dims = spec.outputs[k].dims;
    const bool is_full = row_mask != 0 && dims == full;
    if (!is_full && dims != outer) return std::nullopt;
    if (!AddStore(&nest, &extractor, spec, k, is_full ? full_at : IndexRange(0, num_outer),
                  !is_full))
      return std::nullopt;
  }
  return nest;
}

size_t DistinctLoads(const Nest& nest) {
  size_t count = 0;
  for (const ExprNode* n : PostOrder(nest.Parts())) count += n->kind() == ExprKind::kLoad;
  return count;
}

}  // namespace

Exprs Nest::Parts() const {
  Exprs parts;
  for (const Store& s : stores) {
    parts.push_back(s.offset);
    parts.push_back(s.value);
  }
  for (const Reduction& r : reductions) parts.push_back(r.body);
  for (const RangeFlag& f : flags) parts.push_back(f.value);
  return parts;
}

/// Equal extents get one handle, and dimensions of extent 1 leave the outputs.
ComputeSpec NormalizeSpec(const ComputeSpec& spec, const Facts& facts) {
  ComputeSpec out = spec;
  for (TensorSpec& t : out.inputs) t.dims = SimplifyDims(std::move(t.dims), facts);
  for (size_t k = 0; k < out.outputs.size(); ++k) {
    std::vector<SymInt> dims;
    Indices at;
    for (SymInt d : SimplifyDims(out.outputs[k].dims, facts)) {
      at.push_back(d.is(1) ? Expr::Int(0) : Expr::Index(int(dims.size())));
      if (!d.is(1)) dims.push_back(d);
    }
    out.values[k] = SubstituteIndices(out.values[k], at);
    out.outputs[k].dims = std::move(dims);
  }
  return out;
}

Nest ElementwiseNest(const ComputeSpec& spec, const Facts& facts) {
  Nest nest;
  size_t finest = 0;
  for (size_t k = 1; k < spec.outputs.size(); ++k) {
    if (spec.outputs[k].dims.size() > spec.outputs[finest].dims.size()) finest = k;
  }
  if (!spec.outputs.empty()) nest.loops = spec.outputs[finest].dims;
  const std::vector<SymInt> space = nest.loops;
  nest.num_dims = nest.num_outer = int(space.size());
  nest.group.assign(space.size(), 0);
  Extractor extractor(&nest, -1, facts);
  const Indices identity = IndexRange(0, nest.num_dims);
  for (size_t k = 0; k < spec.outputs.size(); ++k) {
    const std::vector<SymInt>& dims = spec.outputs[k].dims;
    Indices at = identity;
    if (dims != space) {
      // Another shape of the same elements (a Reshape and what it reshapes).
      WEFT_CHECK(facts.ProvedEqual(Product(dims), Product(space)), kUnsupported,
                 "outputs {} and {} of a kernel differ in space", finest, k);
      at = Delinearize(Linearize(identity, space), dims);
    }
    AddStore(&nest, &extractor, spec, k, at, false);
  }
  return nest;
}

std::optional<Nest> RowNest(const ComputeSpec& spec, const Facts& facts) {
  std::optional<std::vector<SymInt>> row;
  std::vector<uint64_t> used;
  size_t widest = 0;
  for (size_t k = 0; k < spec.values.size(); ++k) {
    if (spec.outputs[k].dims.size() > 60) return std::nullopt;
    if (spec.outputs[k].dims.size() > spec.outputs[widest].dims.size()) widest = k;
    used.push_back(LoopsOfReductions(spec.values[k]));
    ReplaceReduces(spec.values[k], [&](const Expr& reduce) -> Expr {
      if (!row) row = SimplifyDims(reduce->extents(), facts);
      return {};
    });
  }
  if (!row) return std::nullopt;
  // A loop that runs once or never is no row (a Reduce over one element is no Reduce).
  for (SymInt e : *row) {
    if (e.is(0) || e.is(1)) return std::nullopt;
  }
  const std::vector<SymInt>& full = spec.outputs[widest].dims;
  uint64_t taken = 0;
  for (size_t k = 0; k < spec.values.size(); ++k) {
    if (spec.outputs[k].dims == full) taken |= used[k];
  }
  // Subsequences of `full` with the extents of R, the last dimensions first; at most a few by the
  // shapes of real models.
  std::vector<uint64_t> masks;
  if (full.size() >= row->size() && full.size() <= 16) {
    for (uint64_t mask = (uint64_t{1} << full.size()) - 1; mask > 0; --mask) {
      if (mask & taken || size_t(__builtin_popcountll(mask)) != row->size()) continue;
      size_t next = 0;
      bool same = true;
      for (size_t i = 0; i < full.size() && same; ++i) {
        if (mask >> i & 1) same = full[i] == (*row)[next++];
      }
      if (same) masks.push_back(mask);
    }
  }
  std::optional<Nest> best;
  size_t best_loads = 0;
  for (uint64_t mask : masks) {
    std::optional<Nest> nest = TryRows(spec, full, mask, *row, facts);
    if (!nest) continue;
    const size_t loads = DistinctLoads(*nest);
    if (best && loads >= best_loads) continue;
    best = std::move(nest);
    best_loads = loads;
  }
  return best ? best : TryRows(spec, full, 0, *row, facts);
}

bool RowsReadOnce(const Nest& nest, const Facts& facts) {
  // A single row has no other one to share what it reads with.
  const auto rows_end = nest.loops.begin() + nest.num_outer;
  if (std::all_of(nest.loops.begin(), rows_end, [](SymInt e) { return e.is(1); })) return true;
  const auto affine_and_distinct = [&](const ExprNode& load) {
    const IndexForm f = FormOf(load.operand(0));
    std::vector<std::pair<SymInt, SymInt>> steps;  // coefficient, extent - 1
    for (const auto& [atom, c] : f.terms) {
      if (atom->kind() != ExprKind::kIndex || facts.LessEqual(1, c) != Proof::kYes) return false;
      steps.emplace_back(c, nest.loops[atom->index()] - 1);
    }
    if (steps.size() != nest.loops.size()) return false;
    // Distinct points read distinct elements where each step is longer than all shorter ones
    // together can reach.
    std::sort(steps.begin(), steps.end(), [&](const auto& a, const auto& b) {
      if (a.first == b.first) return false;
      return facts.LessEqual(a.first, b.first) == Proof::kYes;
    });
    try {
      SymInt reach = 0;
      for (const auto& [c, last] : steps) {
        if (facts.Less(reach, c) != Proof::kYes) return false;
        reach = reach + c * last;
      }
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOverflow) throw;
      return false;
    }
  };
  for (const Nest::Reduction& r : nest.reductions) {
    bool good = false;
    for (const ExprNode* n : PostOrder({r.body})) {
      if (n->kind() == ExprKind::kLoad && n->num_indices() == 1 && affine_and_distinct(*n))
        good = true;
    }
    if (good) return true;
  }
  return false;
}

}  // namespace weft
