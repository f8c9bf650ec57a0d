/// product.cc: sums of products of two loads on the matrix unit.
///
/// The operand whose rows are dealt out over the PEs is A; the other, whose contraction is, is x.
/// An axis of both (a batch) is walked over. Reads of x under a condition (windows with padding) go
/// to a copy of x with zeros around it first, so that every tap is one more block of the
/// contraction.
#include <algorithm>
#include <set>

#include "../l2/emit.h"
#include "../l2/next_index.h"
#include "lowering.h"
#include "weft/support/check.h"

namespace hsimd {

namespace {

bool OnPe(const Points& points, const Machine& machine, int axis) {
  const std::vector<int> levels = points.LevelsOf(axis);
  return std::count(levels.begin(), levels.end(), machine.pe()) > 0;
}

std::vector<Affine> IndicesOf(const Expr& load) {
  std::vector<Affine> at;
  for (int d = 0; d < load->num_indices(); ++d) at.push_back(*AffineOf(load->operand(d)));
  return at;
}

/// Whether some dimension of the buffer that is read along `axis` is over the PEs.
bool ReadsOnPe(const Buffer& buffer, const std::vector<Affine>& at, int axis,
               const Machine& machine) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d].pure() != axis) continue;
    for (const Digit& digit : buffer.dims[d])
      if (digit.level == machine.levels.back().name) return true;
  }
  return false;
}

}  // namespace

/// A copy of what a load reads, with zeros beyond the operand. `shifted`: an axis whose taps are
/// dealt out over the PEs, -1: none; PE j then has a copy that is shifted by j of its taps. False
/// where the load is guarded by anything but "inside the operand".
bool Lowering::Pad(const Expr& load, int shifted, Buffer* buffer, std::vector<Affine>* at) {
  const Buffer from = *buffer;
  const int64_t fan = machine_.levels.back().count;
  const size_t rank = at->size();
  std::vector<int64_t> low(rank, 0), high = from.sizes, shift(rank, 0);
  std::vector<bool> copied(rank, false);  // dimensions in one place that are read shifted
  std::set<int> axes;
  for (size_t d = 0; d < rank; ++d) {
    const Affine& a = (*at)[d];
    if (a.pure() >= 0 && points_.extent(a.pure()) == from.sizes[d]) continue;
    copied[d] = true;
    int64_t least = a.constant, most = a.constant;
    for (const auto& [axis, c] : a.terms) {
      axes.insert(axis);
      int64_t last = points_.extent(axis) - 1;
      if (axis == shifted) {
        shift[d] = c;
        last = last / fan * fan;
      }
      (c < 0 ? least : most) += c * last;
    }
    low[d] = std::min<int64_t>(0, least);
    high[d] = std::max(from.sizes[d], most + 1);
  }
  if (load->has_guard()) {
    const Expr& guard = load->operands().back();
    for (int axis : AxesOf(guard)) axes.insert(axis);
    const std::vector<int> walked(axes.begin(), axes.end());
    int64_t turns = 1;
    for (int axis : walked) {
      turns *= points_.extent(axis);
      if (turns > 2'000'000) return false;
    }
    std::vector<int64_t> position(parts_.extents.size(), 0);
    for (int64_t turn = 0; turn < turns; ++turn) {
      int64_t rest = turn;
      for (size_t i = walked.size(); i-- > 0;) {
        position[size_t(walked[i])] = rest % points_.extent(walked[i]);
        rest /= points_.extent(walked[i]);
      }
      bool inside = true;
      for (size_t d = 0; d < rank; ++d) {
        if (!copied[d]) continue;
        int64_t index = (*at)[d].constant;
        for (const auto& [axis, c] : (*at)[d].terms) index += c * position[size_t(axis)];
        inside &= index >= 0 && index < from.sizes[d];
      }
      const auto says = EvalIndex(guard, position);
      if (!says || (*says != 0) != inside) return false;
    }
  }

  Buffer to = from;
  to.offset = 0;
  int64_t words = 1;
  struct CopyLoop {
    int64_t count, from, to;
    size_t dim;  ///< of the buffer where it is a copied one
    bool copied;
  };
  std::vector<CopyLoop> loops;
  for (size_t d = rank; d-- > 0;) {
    if (copied[d]) {
      // In one place, with even addresses.
      int64_t step = 0;
      for (const Digit& digit : from.dims[d]) {
        WEFT_CHECK(digit.size == 1 || digit.level == kAddress, kUnsupported,
                   "{}: a dimension that is read shifted is dealt out", note_);
        if (digit.size > 1) step = digit.stride;
      }
      loops.push_back({from.sizes[d], step, words, d, true});
      to.dims[d] = {{high[d] - low[d], kAddress, words}};
      to.sizes[d] = high[d] - low[d];
      (*at)[d].constant -= low[d];
      words *= high[d] - low[d];
      continue;
    }
    for (size_t i = to.dims[d].size(); i-- > 0;) {
      Digit& digit = to.dims[d][i];
      if (digit.level != kAddress) continue;
      loops.push_back({digit.size, digit.stride, words, d, false});
      digit.stride = words;
      words *= digit.size;
    }
  }
  to.value = TakeScratch("padded", words, weft::DType::kF32);
  VectorOp zero;
  zero.note = note_;
  zero.counts = {words};
  zero.results = {{BodyOperand::Constant(0), {to.value, 0, {1}}, std::nullopt, false}};
  tiles_.ops.emplace_back(std::move(zero));
  for (int64_t j = 0; j < (shifted < 0 ? 1 : fan); ++j) {
    VectorOp copy;
    copy.note = note_;
    TileStream source{from.value, from.offset, {}}, target{to.value, 0, {}};
    bool empty = false;
    for (size_t l = loops.size(); l-- > 0;) {
      const CopyLoop& loop = loops[l];
      int64_t first = 0, last = loop.count;
      if (loop.copied) {
        // Element i goes to i - low - j * shift, where that is in the copy.
        const int64_t by = low[loop.dim] + j * shift[loop.dim];
        first = std::max<int64_t>(0, by);
        last = std::min(loop.count, by + high[loop.dim] - low[loop.dim]);
        source.offset += first * loop.from;
        target.offset += (first - by) * loop.to;
      }
      empty |= last <= first;
      copy.counts.push_back(last - first);
      source.strides.push_back(loop.from);
      target.strides.push_back(loop.to);
    }
    if (empty) continue;
    copy.inputs = {source};
    copy.results = {{BodyOperand::Input(0), target, std::nullopt, false}};
    if (shifted >= 0) {
      copy.mask.levels.resize(machine_.levels.size());
      copy.mask.levels.back().assign(size_t((fan + 63) / 64), 0);
      copy.mask.levels.back()[size_t(j / 64)] = uint64_t{1} << (j % 64);
    }
    tiles_.ops.emplace_back(std::move(copy));
  }
  *buffer = to;
  return true;
}

/// An axis of the contraction that A has in whole blocks in one place and x reads shifted; -1.
int Lowering::ShiftableAxis(const ProductPart& product, const Expr& a, const Expr& x) const {
  const std::vector<Affine> a_at = IndicesOf(a), x_at = IndicesOf(x);
  const Buffer& a_buffer = buffers_[size_t(a->buffer())];
  const int64_t fan = machine_.levels.back().count;
  for (size_t i = product.inner.size(); i-- > 0;) {
    const int axis = product.inner[i];
    if (!points_.is_local(axis) || points_.extent(axis) < 2) continue;
    bool blocks = false, shifted = false;
    for (size_t d = 0; d < a_at.size(); ++d)
      if (a_at[d].pure() == axis && a_buffer.dims[d].size() == 1)
        blocks = a_buffer.dims[d][0].level == kAddress && a_buffer.dims[d][0].size % fan == 0;
    for (const Affine& index : x_at) {
      if (!index.terms.count(axis)) continue;
      shifted = index.pure() < 0 && index.terms.at(axis) > 0;
    }
    if (blocks && shifted) return axis;
  }
  return -1;
}

bool Lowering::TryMatrix(const ReducePart& part, const Buffer& target) {
  const bool has_unit = std::any_of(machine_.units.begin(), machine_.units.end(),
                                    [](const Unit& u) { return u.kind == UnitKind::kMatrix; });
  const auto product = ProductOf(part);
  if (!has_unit || !product) return false;
  Expr a = product->a, x = product->b;
  std::vector<int> rows = product->only_a, columns = product->only_b;
  const auto on_pe = [&](int axis) { return OnPe(points_, machine_, axis); };
  if (std::none_of(rows.begin(), rows.end(), on_pe)) {
    std::swap(a, x);
    std::swap(rows, columns);
  }
  if (std::none_of(rows.begin(), rows.end(), on_pe)) return false;
  Buffer a_buffer = buffers_[size_t(a->buffer())], x_buffer = buffers_[size_t(x->buffer())];
  std::vector<Affine> a_at = IndicesOf(a), x_at = IndicesOf(x);
  int crossed = -1;
  for (int axis : product->inner)
    if (ReadsOnPe(x_buffer, x_at, axis, machine_)) crossed = axis;
  if (a->has_guard()) return false;
  if (crossed < 0) {
    crossed = ShiftableAxis(*product, a, x);
    if (crossed < 0 || !Pad(x, crossed, &x_buffer, &x_at)) return false;
    points_.ShiftOverPes(crossed);
  } else {
    if (ReadsOnPe(a_buffer, a_at, crossed, machine_)) return false;
    if (x->has_guard() && !Pad(x, -1, &x_buffer, &x_at)) return false;
  }

  // A comes from where the matrix unit's loader reads.
  const TileValue a_value = tiles_.values[size_t(a_buffer.value)];
  if (!MatrixTakesFrom(machine_, a_value.memory)) {
    int memory = -1;
    for (const ScratchRange& range : scratch_)
      if (range.words >= a_value.words && MatrixTakesFrom(machine_, range.memory))
        memory = range.memory;
    if (memory < 0) return false;
    const int copied = TakeScratch("a", a_value.words, weft::DType::kF32, memory);
    VectorOp copy;
    copy.note = note_;
    copy.counts = {a_value.words};
    copy.inputs = {{a_buffer.value, 0, {1}}};
    copy.results = {{BodyOperand::Input(0), {copied, 0, {1}}, std::nullopt, false}};
    tiles_.ops.emplace_back(std::move(copy));
    a_buffer.value = copied;
  }

  PointBox box;
  const auto add = [&](const std::vector<int>& axes) {
    const PointBox whole = points_.Whole(axes);
    box.axes.insert(box.axes.end(), whole.axes.begin(), whole.axes.end());
    box.from.insert(box.from.end(), whole.from.begin(), whole.from.end());
    box.to.insert(box.to.end(), whole.to.begin(), whole.to.end());
  };
  add(rows);
  add(product->inner);
  add(columns);
  add(product->both);
  const std::vector<Loop> loops = points_.LoopsOf(box);
  int64_t a_word = 0;
  TileStream as =
      points_.StreamOf(a_buffer, a_at, box, loops, {}, "the left operand", crossed, &a_word);
  TileStream xs = points_.StreamOf(x_buffer, x_at, box, loops, {}, "the right operand");
  TileStream ys = points_.StreamOf(target, Identity(part.kept), box, loops, {}, "the result");
  if (a_word == 0) return false;

  MatrixOp op;
  op.note = note_;
  op.a_word = a_word;
  op.a.value = as.value;
  op.x.value = xs.value;
  op.y.value = ys.value;
  std::vector<int64_t> batch, batch_a, batch_x, batch_y;
  const auto has = [](const std::vector<int>& v, int axis) {
    return std::find(v.begin(), v.end(), axis) != v.end();
  };
  for (size_t l = 0; l < loops.size(); ++l) {
    const int axis = loops[l].axis;
    if (has(product->both, axis)) {
      batch.push_back(loops[l].count);
      batch_a.push_back(as.strides[l]);
      batch_x.push_back(xs.strides[l]);
      batch_y.push_back(ys.strides[l]);
      continue;
    }
    (has(rows, axis)      ? op.rows
     : has(columns, axis) ? op.columns
                          : op.inner)
        .push_back(loops[l].count);
    op.a.strides.push_back(as.strides[l]);
    op.x.strides.push_back(xs.strides[l]);
    op.y.strides.push_back(ys.strides[l]);
  }
  std::vector<int64_t> at(batch.size(), 0);
  do {
    op.a.offset = as.offset;
    op.x.offset = xs.offset;
    op.y.offset = ys.offset;
    for (size_t i = 0; i < at.size(); ++i) {
      op.a.offset += at[i] * batch_a[i];
      op.x.offset += at[i] * batch_x[i];
      op.y.offset += at[i] * batch_y[i];
    }
    tiles_.ops.emplace_back(op);
  } while (NextIndex(&at, batch));
  return true;
}

}  // namespace hsimd
