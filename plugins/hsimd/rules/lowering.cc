/// lowering.cc: the general rule: parts of an operator as vectors over boxes of points.
#include "lowering.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "../l2/next_index.h"
#include "weft/core/tensor/shape.h"
#include "weft/support/check.h"

namespace hsimd {

using weft::DType;
using weft::ReduceOp;

std::optional<AluOp> CombineOp(ReduceOp op, DType dtype) {
  const bool f = dtype == DType::kF32;
  switch (op) {
    case ReduceOp::kSum:
      return f ? AluOp::kFAdd : AluOp::kIAdd;
    case ReduceOp::kProd:
      return f ? AluOp::kFMul : AluOp::kIMul;
    case ReduceOp::kMin:
      return f ? AluOp::kFMin : AluOp::kIMin;
    case ReduceOp::kMax:
      return f ? AluOp::kFMax : AluOp::kIMax;
    case ReduceOp::kAny:
      return AluOp::kOr;
    case ReduceOp::kAll:
      return AluOp::kAnd;
    default:
      return std::nullopt;
  }
}

uint32_t NeutralWord(ReduceOp op, DType dtype) {
  const bool f = dtype == DType::kF32;
  switch (op) {
    case ReduceOp::kProd:
      return f ? 0x3f800000 : 1;
    case ReduceOp::kMin:
      return f ? 0x7f800000 : 0x7fffffff;
    case ReduceOp::kMax:
      return f ? 0xff800000 : 0x80000000;
    case ReduceOp::kAll:
      return 1;
    default:
      return 0;
  }
}

WordType WordTypeOf(DType dtype) {
  return dtype == DType::kF32    ? WordType::kF32
         : dtype == DType::kBool ? WordType::kBool
                                 : WordType::kI32;
}

namespace {

/// Writes 0 to the words of a value that its layout gives no element, so that they can be read.
void FillHoles(TileProgram& tiles, int value, const Layout& layout, const Machine& machine,
               const std::string& note) {
  const int64_t offset = BufferOf(value, layout).offset;
  for (size_t axis = 0; axis < layout.axes.size(); ++axis) {
    int64_t places = 1;
    const std::vector<Digit>& digits = layout.axes[axis];
    for (const Digit& d : digits) places *= d.size;
    const int64_t size = layout.shape[axis];
    if (places <= size) continue;
    // Strides of the digits in the index, and the counts of the level digits.
    std::vector<int64_t> step(digits.size(), 1);
    for (size_t i = digits.size(); i-- > 1;) step[i - 1] = step[i] * digits[i].size;
    std::vector<size_t> levels, locals;
    for (size_t i = 0; i < digits.size(); ++i)
      (digits[i].level == kAddress ? locals : levels).push_back(i);
    // Local words of the other axes.
    std::vector<int64_t> counts, strides;
    for (size_t other = 0; other < layout.axes.size(); ++other)
      if (other != axis)
        for (const Digit& d : layout.axes[other])
          if (d.level == kAddress && d.size > 1) {
            counts.push_back(d.size);
            strides.push_back(d.stride);
          }
    std::vector<int64_t> at(levels.size(), 0), sizes;
    for (const size_t l : levels) sizes.push_back(digits[l].size);
    do {
      int64_t base = 0;
      for (size_t i = 0; i < levels.size(); ++i) base += at[i] * step[levels[i]];
      // Local digits of one axis: one digit, or several that are walked over.
      std::vector<int64_t> holes;
      int64_t n = 1;
      for (size_t l : locals) n *= digits[l].size;
      for (int64_t k = 0; k < n; ++k) {
        int64_t rest = k, index = base, address = 0;
        for (size_t j = locals.size(); j-- > 0;) {
          const int64_t digit = rest % digits[locals[j]].size;
          rest /= digits[locals[j]].size;
          index += digit * step[locals[j]];
          address += digit * digits[locals[j]].stride;
        }
        if (index >= size) holes.push_back(address);
      }
      // Runs of even distance.
      for (size_t h = 0; h < holes.size();) {
        size_t end = h + 1;
        while (end + 1 < holes.size() && holes[end + 1] - holes[end] == holes[h + 1] - holes[h])
          ++end;
        if (end < holes.size()) ++end;
        VectorOp fill;
        fill.note = note;
        fill.counts = counts;
        TileStream target{value, offset + holes[h], strides};
        fill.counts.push_back(int64_t(end - h));
        target.strides.push_back(end - h > 1 ? holes[h + 1] - holes[h] : 0);
        fill.results = {{BodyOperand::Constant(0), target, std::nullopt, false}};
        for (size_t i = 0; i < levels.size(); ++i) {
          const Digit& d = digits[levels[i]];
          const int level = machine.LevelNamed(d.level);
          fill.mask.levels.resize(machine.levels.size());
          std::vector<uint64_t>& bits = fill.mask.levels[size_t(level)];
          bits.resize(size_t((machine.levels[size_t(level)].count + 63) / 64));
          // Places with this digit, whatever others on the level say.
          for (int64_t p = 0; p < machine.levels[size_t(level)].count; ++p)
            if (p / d.stride % d.size == at[i]) bits[size_t(p / 64)] |= uint64_t{1} << (p % 64);
        }
        tiles.ops.emplace_back(std::move(fill));
        h = end;
      }
    } while (NextIndex(&at, sizes));
  }
}

}  // namespace

Lowering::Lowering(const LowerRequest& request, bool in_results)
    : request_(request),
      machine_(request.machine),
      in_results_(in_results),
      note_(request.node->Describe()),
      parts_(TakeApart(request.graph, request.node)),
      points_(request.machine, parts_.extents),
      scratch_(request.scratch) {
  WEFT_CHECK(request.inputs.size() == parts_.input_shapes.size() &&
                 request.outputs.size() == parts_.output_shapes.size(),
             kInvalidModel, "{}: {} operands and {} results have places, it has {} and {}", note_,
             request.inputs.size(), request.outputs.size(), parts_.input_shapes.size(),
             parts_.output_shapes.size());
  tiles_.machine = machine_.name;
  const auto add = [&](const TilePlace& place, const std::string& name,
                       const std::vector<int64_t>& shape, DType dtype, TileValue::Role role) {
    WEFT_CHECK(place.memory >= 0, kDependency, "{}: {} has no place", note_, name);
    WEFT_CHECK(place.layout.shape == shape, kShapeMismatch, "{}: the layout of {} is {}", note_,
               name, PrintLayout(place.layout));
    WEFT_CHECK(machine_.memories[size_t(place.memory)].level == machine_.pe(), kUnsupported,
               "{}: {} lies in {}, which is not a memory of the PEs", note_, name,
               machine_.memories[size_t(place.memory)].name);
    TileValue v;
    v.name = name;
    v.role = role;
    v.type = WordTypeOf(dtype);
    v.memory = place.memory;
    v.base = place.base;
    v.words = Words(place.layout);
    v.layout = place.layout;
    return BufferOf(tiles_.AddValue(std::move(v)), place.layout);
  };
  for (size_t i = 0; i < request.inputs.size(); ++i)
    buffers_.push_back(parts_.read[i] ? add(request.inputs[i], "in" + std::to_string(i),
                                            parts_.input_shapes[i], parts_.spec.inputs[i].dtype,
                                            TileValue::Role::kInput)
                                      : Buffer());
  outputs_.resize(request.outputs.size());
  for (const ResultPart& part : parts_.results) {
    const size_t i = size_t(part.output);
    if (outputs_[i].value < 0)
      outputs_[i] = add(request.outputs[i], "out" + std::to_string(i), parts_.output_shapes[i],
                        parts_.spec.outputs[i].dtype, TileValue::Role::kOutput);
  }
}

TileProgram Lowering::Run() {
  ChooseDigits();
  for (size_t i = 0; i < request_.inputs.size(); ++i)
    if (parts_.read[i])
      FillHoles(tiles_, buffers_[i].value, request_.inputs[i].layout, machine_, note_);
  for (const ReducePart& part : parts_.reduces) LowerReduce(part);
  LowerResults();
  tiles_.scratch = scratch_;
  return std::move(tiles_);
}

/// Axes of results are dealt out as the results are, those of reductions as the operand that is
/// dealt out most.
void Lowering::ChooseDigits() {
  for (const ResultPart& part : parts_.results)
    for (size_t d = 0; d < part.axes.size(); ++d)
      if (part.at[d].pure() >= 0)
        points_.TakeDigits(part.axes[d], outputs_[size_t(part.output)], int(d));
  for (const ReducePart& part : parts_.reduces)
    for (int axis : part.reduced) {
      int best = -1, dim = -1;
      size_t most = 0;
      for (size_t i = 0; i < parts_.input_axes.size(); ++i)
        for (size_t d = 0; d < parts_.input_axes[i].size(); ++d) {
          const int read = parts_.input_axes[i][d];
          if (read < 0 || parts_.classes[size_t(read)] != parts_.classes[size_t(axis)]) continue;
          size_t levels = 1;
          for (const Digit& digit : buffers_[i].dims[d]) levels += digit.level != kAddress;
          if (levels > most) {
            most = levels;
            best = int(i);
            dim = int(d);
          }
        }
      if (best >= 0) points_.TakeDigits(axis, buffers_[size_t(best)], dim);
      points_.MakeLocal(axis);
    }
  for (size_t axis = 0; axis < parts_.extents.size(); ++axis) points_.MakeLocal(int(axis));
}

int Lowering::TakeFrom(ScratchRange& range, const std::string& name, int64_t words, DType dtype) {
  range.words -= words;
  TileValue v;
  v.name = name + std::to_string(tiles_.values.size());
  v.type = WordTypeOf(dtype);
  v.memory = range.memory;
  v.base = range.base + range.words;
  v.words = words;
  return tiles_.AddValue(std::move(v));
}

int Lowering::TakeScratch(const std::string& name, int64_t words, DType dtype, int memory) {
  // The largest range, so that small ones stay for bodies; from its end.
  ScratchRange* best = nullptr;
  for (ScratchRange& range : scratch_)
    if (machine_.memories[size_t(range.memory)].level == machine_.pe() &&
        (memory < 0 || range.memory == memory) && (!best || range.words > best->words))
      best = &range;
  WEFT_CHECK(best && best->words >= words, kLimit,
             "{}: needs {} words of scratch in {}, {} are left", note_, words,
             memory < 0 ? "a memory of the PEs" : machine_.memories[size_t(memory)].name,
             best ? best->words : 0);
  return TakeFrom(*best, name, words, dtype);
}

Buffer Lowering::NewTemp(const std::string& name, const std::vector<int>& axes, DType dtype) {
  Buffer b;
  int64_t words = 1;
  b.dims.resize(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    for (const AxisDigit& d : points_.digits(axes[i])) {  // least significant first
      if (d.level != kAddress) {
        b.dims[i].insert(b.dims[i].begin(), {d.size, d.level, d.stride});
        continue;
      }
      b.dims[i].insert(b.dims[i].begin(), {d.size, kAddress, words});
      words *= d.size;
    }
  }
  for (int axis : axes) b.sizes.push_back(points_.extent(axis));
  b.value = TakeScratch(name, words, dtype);
  return b;
}

std::vector<Affine> Lowering::Identity(const std::vector<int>& axes) const {
  std::vector<Affine> at;
  for (int axis : axes) at.push_back({0, {{axis, 1}}});
  return at;
}

void Lowering::Fill(const Buffer& buffer, const std::vector<int>& axes, uint32_t word) {
  const PointBox box = points_.Whole(axes);
  const std::vector<Loop> loops = points_.LoopsOf(box);
  VectorOp op;
  op.note = note_;
  for (const Loop& loop : loops) op.counts.push_back(loop.count);
  op.results = {{BodyOperand::Constant(word),
                 points_.StreamOf(buffer, Identity(axes), box, loops, {}, "a result"), std::nullopt,
                 false}};
  tiles_.ops.emplace_back(std::move(op));
}

/// `values` over `kept`, combined over `reduced`: boxes in which conditions on indices are known;
/// axes that conditions mix are taken point by point.
void Lowering::Vectors(const std::vector<Target>& values, const std::vector<int>& kept,
                       const std::vector<int>& reduced, std::optional<ReduceOp> combine,
                       DType dtype) {
  std::vector<Expr> conditions;
  for (const Target& target : values)
    for (const Expr& c : IndexConditions(target.value)) conditions.push_back(c);
  std::set<int> single;
  for (const Expr& c : conditions) {
    const std::vector<int> axes = AxesOf(c);
    if (axes.size() < 2) continue;
    for (int axis : axes)
      if (std::count(reduced.begin(), reduced.end(), axis)) single.insert(axis);
  }
  std::vector<int> looped = kept;
  for (int axis : reduced)
    if (!single.count(axis)) looped.push_back(axis);
  for (int axis : looped)
    for (const Expr& c : conditions) {
      const std::vector<int> axes = AxesOf(c);
      WEFT_CHECK(!std::count(axes.begin(), axes.end(), axis) || points_.is_local(axis),
                 kUnsupported, "{}: a condition looks at an axis that is dealt out over places",
                 note_);
    }

  std::vector<int64_t> at(parts_.extents.size(), 0);
  const std::vector<int> points(single.begin(), single.end());
  int64_t turns = 1;
  for (int axis : points) turns *= points_.extent(axis);
  WEFT_CHECK(turns <= 4096, kUnsupported, "{}: {} points of a window", note_, turns);

  std::vector<VectorOp> ops;
  bool whole = turns == 1;
  for (int64_t turn = 0; turn < turns; ++turn) {
    int64_t rest = turn;
    for (size_t i = points.size(); i-- > 0;) {
      at[size_t(points[i])] = rest % points_.extent(points[i]);
      rest /= points_.extent(points[i]);
    }
    // Where a condition changes along an axis, a box ends.
    std::vector<std::vector<int64_t>> cuts(looped.size());
    for (size_t i = 0; i < looped.size(); ++i) {
      const int axis = looped[i];
      std::set<int64_t> ends{0, points_.extent(axis)};
      for (const Expr& c : conditions) {
        const std::vector<int> axes = AxesOf(c);
        if (!std::count(axes.begin(), axes.end(), axis)) continue;
        for (int other : axes)
          WEFT_CHECK(other == axis || single.count(other), kUnsupported,
                     "{}: a condition over two axes of a result", note_);
        std::vector<int64_t> p = at;
        std::optional<int64_t> last;
        for (int64_t x = 0; x < points_.extent(axis); ++x) {
          p[size_t(axis)] = x;
          const auto v = EvalIndex(c, p);
          WEFT_CHECK(v, kUnsupported, "{}: a condition on an index", note_);
          if (last && *last != *v) ends.insert(x);
          last = v;
        }
      }
      cuts[i].assign(ends.begin(), ends.end());
    }
    std::vector<int64_t> boxes_along;
    for (const auto& ends : cuts) boxes_along.push_back(int64_t(ends.size()) - 1);
    const int64_t boxes = weft::NumElements(boxes_along);
    WEFT_CHECK(boxes * turns <= 4096, kUnsupported,
               "{}: {} boxes of points, in which positions are values", note_, boxes * turns);
    std::vector<size_t> b(looped.size(), 0);
    do {
      PointBox box;
      std::vector<int64_t> position = at;
      for (size_t i = 0; i < looped.size(); ++i) {
        box.axes.push_back(looped[i]);
        box.from.push_back(cuts[i][b[i]]);
        box.to.push_back(cuts[i][b[i] + 1]);
        position[size_t(looped[i])] = cuts[i][b[i]];
        whole &= cuts[i].size() == 2;
      }
      const std::vector<Loop> loops = points_.LoopsOf(box);
      BodyBuilder body(points_, buffers_, box, loops, position);
      std::vector<VectorOp::Result> results;
      for (const Target& target : values) {
        VectorOp::Result r;
        r.from = body.Convert(target.value);
        if (combine) r.combine = CombineOp(*combine, dtype);
        const bool nothing =
            combine && r.from == BodyOperand::Constant(NeutralWord(*combine, dtype));
        r.target = points_.StreamOf(target.buffer, target.at, box, loops, position, "a result");
        if (!nothing || turns == 1) results.push_back(std::move(r));
      }
      VectorOp op = body.Take();
      op.note = note_;
      op.results = std::move(results);
      if (!op.results.empty()) ops.push_back(std::move(op));
    } while (NextIndex(&b, boxes_along));
  }
  if (combine && !whole) {
    for (const Target& target : values) Fill(target.buffer, kept, NeutralWord(*combine, dtype));
    for (VectorOp& op : ops)
      for (VectorOp::Result& r : op.results) r.onto = true;
  }
  for (VectorOp& op : ops) tiles_.ops.emplace_back(std::move(op));
}

int Lowering::ResultFor(const ReducePart& part) const {
  // Where this value is read, and whether always at the point that is computed.
  std::map<int, bool> readers;  // result -> it reads only that
  for (const ResultPart& result : parts_.results) {
    const Buffer& out = outputs_[size_t(result.output)];
    for (const weft::ExprNode* n : weft::PostOrder({result.value})) {
      if (n->kind() != weft::ExprKind::kLoad || n->buffer() != part.buffer) continue;
      bool same = out.sizes.size() == part.kept.size() && result.axes == part.kept &&
                  parts_.spec.outputs[size_t(result.output)].dtype == part.dtype;
      for (int d = 0; same && d < n->num_indices(); ++d) {
        const auto affine = AffineOf(n->operand(d));
        same = affine && affine->pure() == part.kept[size_t(d)] &&
               result.at[size_t(d)].pure() == affine->pure() &&
               out.sizes[size_t(d)] == points_.extent(part.kept[size_t(d)]);
      }
      const auto [it, fresh] = readers.emplace(result.output, same);
      if (!fresh) it->second = it->second && same;
    }
  }
  for (const ResultPart& result : parts_.results) {
    if (held_.count(result.output) || !readers.count(result.output) || !readers[result.output])
      continue;
    // It is the value: whatever else reads it finds it there.
    if (result.value->kind() == weft::ExprKind::kLoad) return result.output;
    if (in_results_ && readers.size() == 1) return result.output;
  }
  return -1;
}

void Lowering::LowerReduce(const ReducePart& part) {
  const auto combine = CombineOp(part.op, part.dtype);
  WEFT_CHECK(combine, kUnsupported, "{}: positions of extrema", note_);
  const int result = ResultFor(part);
  if (result >= 0) held_.insert(result);
  const Buffer target =
      result >= 0 ? outputs_[size_t(result)] : NewTemp("sum", part.kept, part.dtype);
  WEFT_ICHECK(int(buffers_.size()) == part.buffer, "parts out of order");

  std::vector<int> across;
  const bool product = ProductOf(part).has_value();
  for (int axis : part.reduced) {
    int64_t places = 1;
    for (const AxisDigit& d : points_.digits(axis)) places *= d.size;
    WEFT_CHECK(product || points_.is_local(axis) || places == points_.extent(axis), kUnsupported,
               "{}: a reduced axis is dealt out with padding", note_);
    for (int level : points_.LevelsOf(axis)) across.push_back(level);
  }
  if (TryMatrix(part, target)) {
    // The matrix unit has summed over the PEs.
    across.erase(std::remove(across.begin(), across.end(), machine_.pe()), across.end());
  } else {
    Vectors({{part.body, target, Identity(part.kept)}}, part.kept, part.reduced, part.op,
            part.dtype);
  }
  std::sort(across.begin(), across.end(), std::greater<>());
  for (int level : across) Across(target.value, level, part.op, part.dtype);
  buffers_.push_back(target);
}

void Lowering::LowerResults() {
  std::map<std::vector<int>, std::vector<size_t>> groups;  // by axes
  for (size_t k = 0; k < parts_.results.size(); ++k) {
    const ResultPart& part = parts_.results[k];
    const Expr& v = part.value;
    // Written already.
    if (v->kind() == weft::ExprKind::kLoad && size_t(v->buffer()) >= request_.inputs.size() &&
        buffers_[size_t(v->buffer())].value == outputs_[size_t(part.output)].value)
      continue;
    groups[part.axes].push_back(k);
  }
  for (const auto& [kept, members] : groups) {
    std::vector<Target> values;
    for (size_t k : members) {
      const ResultPart& part = parts_.results[k];
      values.push_back({part.value, outputs_[size_t(part.output)], part.at});
    }
    Vectors(values, kept, {}, std::nullopt, DType::kF32);
  }
}

TileProgram LowerGeneral(const LowerRequest& request) {
  try {
    return Lowering(request, false).Run();
  } catch (const weft::UserError& e) {
    if (e.code() != weft::ErrorCode::kLimit) throw;
  }
  // A result is read and written in its memory again then, but scratch is left for others.
  return Lowering(request, true).Run();
}

}  // namespace hsimd
