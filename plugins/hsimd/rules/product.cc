/// product.cc: sums of products of two loads on the matrix unit.
///
/// The operand whose rows are dealt out over the PEs is A; the other, whose contraction is, is x.
/// An axis of both (a batch) is walked over. Reads of x under a condition (windows with padding) go
/// to a copy of x with zeros around it first, so that every tap is one more block of the contraction.
#include <algorithm>
#include <set>

#include "../l2/emit.h"
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
bool ReadsOnPe(const Buffer& buffer, const std::vector<Affine>& at, int axis, const Machine& machine) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d].pure() != axis) continue;
    for (const Digit& digit : buffer.dims[d])
      if (digit.level == machine.levels.back().name) return true;
  }
  return false;
}

}  // namespace

/// A copy of what a guarded load reads, with zeros where the guard is false. False where the guard is
/// not "inside the operand".
bool Lowering::Pad(const Expr& load, const ReducePart& part, Buffer* buffer,
                   std::vector<Affine>* at) {
  const Buffer from = *buffer;
  const Expr& guard = load->operands().back();
  // The guard says that every shifted index is inside.
  std::vector<int64_t> low(at->size(), 0), high = from.sizes;
  std::set<int> axes;
  for (size_t d = 0; d < at->size(); ++d) {
    const Affine& a = (*at)[d];
    if (a.pure() >= 0 && points_.extent(a.pure()) == from.sizes[d]) continue;
    int64_t least = a.constant, most = a.constant;
    for (const auto& [axis, c] : a.terms) {
      axes.insert(axis);
      (c < 0 ? least : most) += c * (points_.extent(axis) - 1);
    }
    low[d] = std::min<int64_t>(0, least);
    high[d] = std::max(from.sizes[d], most + 1);
  }
  const std::vector<int> guard_axes = AxesOf(guard);
  for (int axis : guard_axes) axes.insert(axis);
  const std::vector<int> walked(axes.begin(), axes.end());
  int64_t turns = 1;
  for (int axis : walked) {
    turns *= points_.extent(axis);
    if (turns > 2'000'000) return false;
  }
  // Dimensions are independent, so that it is enough to look at pairs of axes of one index; a guard
  // of few axes is looked at whole.
  std::vector<int64_t> position(parts_.extents.size(), 0);
  for (int64_t turn = 0; turn < turns; ++turn) {
    int64_t rest = turn;
    for (size_t i = walked.size(); i-- > 0;) {
      position[size_t(walked[i])] = rest % points_.extent(walked[i]);
      rest /= points_.extent(walked[i]);
    }
    bool inside = true;
    for (size_t d = 0; d < at->size(); ++d) {
      if (low[d] == 0 && high[d] == from.sizes[d]) continue;
      int64_t index = (*at)[d].constant;
      for (const auto& [axis, c] : (*at)[d].terms) index += c * position[size_t(axis)];
      inside &= index >= 0 && index < from.sizes[d];
    }
    const auto says = EvalIndex(guard, position);
    if (!says || (*says != 0) != inside) return false;
  }
  (void)part;

  Buffer to = from;
  to.offset = 0;
  int64_t words = 1;
  std::vector<int64_t> counts, to_strides, from_strides;
  int64_t to_offset = 0;
  for (size_t d = to.dims.size(); d-- > 0;) {
    const int64_t size = high[d] - low[d];
    if (size != from.sizes[d]) {
      // Shifted, so in one place, with even addresses.
      int64_t step = 1;
      for (const Digit& digit : from.dims[d])
        if (digit.size > 1) step = digit.stride;
      counts.push_back(from.sizes[d]);
      from_strides.push_back(step);
      to_strides.push_back(words);
      to_offset += -low[d] * words;
      to.dims[d] = {{size, kAddress, words}};
      words *= size;
      (*at)[d].constant -= low[d];
      to.sizes[d] = size;
      continue;
    }
    for (size_t i = to.dims[d].size(); i-- > 0;) {
      Digit& digit = to.dims[d][i];
      if (digit.level != kAddress) continue;
      counts.push_back(digit.size);
      from_strides.push_back(digit.stride);
      to_strides.push_back(words);
      digit.stride = words;
      words *= digit.size;
    }
  }
  std::reverse(counts.begin(), counts.end());
  std::reverse(from_strides.begin(), from_strides.end());
  std::reverse(to_strides.begin(), to_strides.end());
  to.value = TakeScratch("padded", words, weft::DType::kF32);
  VectorOp zero;
  zero.note = note_;
  zero.counts = {words};
  zero.results = {{BodyOperand::Constant(0), {to.value, 0, {1}}, std::nullopt, false}};
  tiles_.ops.emplace_back(std::move(zero));
  VectorOp copy;
  copy.note = note_;
  copy.counts = counts;
  copy.inputs = {{from.value, from.offset, from_strides}};
  copy.results = {{BodyOperand::Input(0), {to.value, to_offset, to_strides}, std::nullopt, false}};
  tiles_.ops.emplace_back(std::move(copy));
  *buffer = to;
  return true;
}

bool Lowering::TryMatrix(const ReducePart& part, const Buffer& target) {
  const bool has_unit =
      std::any_of(machine_.units.begin(), machine_.units.end(),
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
  if (crossed < 0 || ReadsOnPe(a_buffer, a_at, crossed, machine_)) return false;
  if (a->has_guard()) return false;
  if (x->has_guard() && !Pad(x, part, &x_buffer, &x_at)) return false;

  // A comes from where the matrix unit's loader reads.
  const TileValue a_value = tiles_.values[size_t(a_buffer.value)];
  if (!MatrixTakesFrom(machine_, a_value.memory)) {
    int memory = -1;
    for (const ScratchRange& range : scratch_)
      if (range.words >= a_value.words && MatrixTakesFrom(machine_, range.memory)) memory = range.memory;
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

  Box box;
  const auto add = [&](const std::vector<int>& axes) {
    const Box whole = points_.Whole(axes);
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
  TileStream as = points_.StreamOf(a_buffer, a_at, box, loops, {}, "the left operand", crossed, &a_word);
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
    (has(rows, axis) ? op.rows : has(columns, axis) ? op.columns : op.inner).push_back(loops[l].count);
    op.a.strides.push_back(as.strides[l]);
    op.x.strides.push_back(xs.strides[l]);
    op.y.strides.push_back(ys.strides[l]);
  }
  std::vector<int64_t> at(batch.size(), 0);
  while (true) {
    op.a.offset = as.offset;
    op.x.offset = xs.offset;
    op.y.offset = ys.offset;
    for (size_t i = 0; i < at.size(); ++i) {
      op.a.offset += at[i] * batch_a[i];
      op.x.offset += at[i] * batch_x[i];
      op.y.offset += at[i] * batch_y[i];
    }
    tiles_.ops.emplace_back(op);
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == batch[i - 1]) at[--i] = 0;
    if (i == 0) break;
  }
  return true;
}

}  // namespace hsimd
