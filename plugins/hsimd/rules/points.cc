/// points.cc: loops of boxes and the streams of buffers over them.
#include "points.h"

#include <algorithm>

#include "weft/support/check.h"

namespace hsimd {

namespace {

/// Digits that say together what one says are one. Padding stays.
std::vector<Digit> JoinDigits(const std::vector<Digit>& digits) {
  std::vector<Digit> out;
  for (const Digit& d : digits) {
    if (d.size == 1) continue;
    Digit* last = out.empty() ? nullptr : &out.back();
    if (last && last->level == d.level && last->stride == d.stride * d.size)
      *last = {last->size * d.size, d.level, d.stride};
    else
      out.push_back(d);
  }
  return out;
}

}  // namespace

Buffer BufferOf(int value, const Layout& layout) {
  Buffer b;
  b.value = value;
  for (const std::vector<Digit>& axis : layout.axes) b.dims.push_back(JoinDigits(axis));
  b.sizes = layout.shape;
  for (const auto& [level, by] : layout.offset) {
    WEFT_CHECK(level == kAddress, kUnsupported, "a layout with an offset on {}: {}", level,
               PrintLayout(layout));
    b.offset = by;
  }
  for (const std::vector<Digit>& axis : layout.axes)
    for (const Digit& d : axis)
      WEFT_CHECK(d.level != kTime && d.level != kWide, kUnsupported, "a layout with {}: {}",
                 d.level, PrintLayout(layout));
  return b;
}

void Points::TakeDigits(int axis, const Buffer& buffer, int dim) {
  std::vector<AxisDigit>& digits = digits_[size_t(axis)];
  if (!digits.empty()) return;
  int64_t value = 1;
  for (size_t i = buffer.dims[size_t(dim)].size(); i-- > 0;) {
    const Digit& d = buffer.dims[size_t(dim)][i];
    if (d.size == 1) continue;
    digits.push_back({d.size, d.level, d.level == kAddress ? 0 : d.stride, value});
    value *= d.size;
  }
  // One local digit needs no padding.
  if (digits.size() == 1 && digits[0].level == kAddress) digits[0].size = extents_[size_t(axis)];
  if (digits.empty()) digits.push_back({1, kAddress, 0, 1});
}

void Points::MakeLocal(int axis) {
  if (!known(axis)) digits_[size_t(axis)] = {{extents_[size_t(axis)], kAddress, 0, 1}};
}

void Points::ShiftOverPes(int axis) {
  const Level& pe = machine_.levels.back();
  digits_[size_t(axis)] = {
      {pe.count, pe.name, 1, 1},
      {(extents_[size_t(axis)] + pe.count - 1) / pe.count, kAddress, 0, pe.count}};
  shifted_ = axis;
}

bool Points::is_local(int axis) const {
  const std::vector<AxisDigit>& d = digits_[size_t(axis)];
  return d.size() == 1 && d[0].level == kAddress;
}

std::vector<int> Points::LevelsOf(int axis) const {
  std::vector<int> levels;
  for (const AxisDigit& d : digits_[size_t(axis)])
    if (d.level != kAddress) levels.push_back(machine_.LevelNamed(d.level));
  std::sort(levels.begin(), levels.end());
  return levels;
}

PointBox Points::Whole(const std::vector<int>& axes) const {
  PointBox box;
  for (int axis : axes) {
    box.axes.push_back(axis);
    box.from.push_back(0);
    box.to.push_back(extents_[size_t(axis)]);
  }
  return box;
}

std::vector<Loop> Points::LoopsOf(const PointBox& box) const {
  std::vector<Loop> loops;
  for (size_t i = 0; i < box.axes.size(); ++i) {
    const int axis = box.axes[i];
    if (is_local(axis)) {
      loops.push_back({axis, box.to[i] - box.from[i], 1});
      continue;
    }
    for (size_t j = digits_[size_t(axis)].size(); j-- > 0;) {
      const AxisDigit& d = digits_[size_t(axis)][j];
      if (d.level == kAddress) loops.push_back({axis, d.size, d.value});
    }
  }
  return loops;
}

TileStream Points::StreamOf(const Buffer& buffer, const std::vector<Affine>& at,
                            const PointBox& box, const std::vector<Loop>& loops,
                            const std::vector<int64_t>& fixed, const std::string& what, int crossed,
                            int64_t* crossed_stride) const {
  TileStream stream;
  stream.value = buffer.value;
  stream.offset = buffer.offset;
  stream.strides.assign(loops.size(), 0);
  const auto in_box = [&](int axis) {
    return size_t(std::find(box.axes.begin(), box.axes.end(), axis) - box.axes.begin());
  };
  const auto refuse = [&](const std::string& why) {
    WEFT_THROW(kUnsupported, "{}: its layout does not fit the operator's: {}", what, why);
  };
  for (size_t d = 0; d < at.size(); ++d) {
    const std::vector<Digit>& digits = buffer.dims[d];
    const int pure = at[d].pure();
    if (pure >= 0 && !is_local(pure)) {
      WEFT_CHECK(extents_[size_t(pure)] == buffer.sizes[d], kUnsupported,
                 "{}: dimension {} is read along an axis of another size", what, d);
      if (in_box(pure) == box.axes.size()) refuse("a dealt out axis is asked for at one point");
      // From the least significant digit on.
      const std::vector<AxisDigit>& mine = digits_[size_t(pure)];
      size_t o = digits.size();
      Digit left;
      const auto next = [&] {
        while (left.size == 1 && o > 0) left = digits[--o];
      };
      for (size_t j = 0; j < mine.size(); ++j) {
        if (mine[j].size == 1) continue;
        next();
        const bool top = j + 1 == mine.size();
        if (mine[j].level != kAddress) {
          const bool cross = pure == crossed && left.level == kAddress &&
                             machine_.LevelNamed(mine[j].level) == machine_.pe();
          if (!cross) {
            if (left.level != mine[j].level || left.size != mine[j].size ||
                left.stride != mine[j].stride)
              refuse("dimension " + std::to_string(d) + " is not dealt out alike");
            left = Digit{};
            continue;
          }
          if (left.size % mine[j].size != 0) refuse("blocks of the contraction are cut");
          *crossed_stride = left.stride;
          left = {left.size / mine[j].size, kAddress, left.stride * mine[j].size};
          continue;
        }
        if (left.level != kAddress) refuse("dimension " + std::to_string(d) + " is dealt out");
        if (left.size % mine[j].size != 0 && !(top && left.size >= mine[j].size))
          refuse("its digits have other sizes");
        for (size_t l = 0; l < loops.size(); ++l)
          if (loops[l].axis == pure && loops[l].value == mine[j].value)
            stream.strides[l] += left.stride;
        left = {std::max<int64_t>(1, left.size / mine[j].size), kAddress,
                left.stride * mine[j].size};
      }
      // What is left over is padding.
      continue;
    }
    // An affine index over axes in one place.
    bool reads_one = at[d].terms.empty() && buffer.sizes[d] == 1;
    std::vector<Digit> own;
    for (const Digit& digit : digits)
      if (digit.size > 1) own.push_back(digit);
    if (reads_one) continue;
    if (own.empty()) own.push_back({1, kAddress, 0});
    for (const Digit& digit : own)
      if (digit.level != kAddress) refuse("dimension " + std::to_string(d) + " is dealt out");
    for (size_t i = own.size(); i-- > 1;)
      if (own[i - 1].stride != own[i].stride * own[i].size) refuse("its addresses are not even");
    const int64_t step = own.back().stride;
    stream.offset += at[d].constant * step;
    for (const auto& [axis, coefficient] : at[d].terms) {
      const size_t b = in_box(axis);
      if (b == box.axes.size()) {
        stream.offset += coefficient * fixed[size_t(axis)] * step;
        continue;
      }
      if (!is_local(axis) && axis != shifted_) refuse("a shifted axis is dealt out");
      stream.offset += coefficient * box.from[b] * step;
      for (size_t l = 0; l < loops.size(); ++l)
        if (loops[l].axis == axis) stream.strides[l] += coefficient * loops[l].value * step;
    }
  }
  return stream;
}

}  // namespace hsimd
