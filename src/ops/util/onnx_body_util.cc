/// onnx_body_util.cc: text of bodies in ONNX's operators (onnx_body_util.h).
#include "onnx_body_util.h"

#include <algorithm>

#include "weft/support/check.h"

namespace weft::ops {

std::string ListText(const std::vector<int64_t>& v) {
  return fmt::format("[{}]", fmt::join(v, ", "));
}
std::string IntConstant(const std::string& name, int64_t value) {
  return fmt::format("{} = Constant<value_int = {}>()\n", name, value);
}
std::string IntsConstant(const std::string& name, const std::vector<int64_t>& v) {
  return fmt::format("{} = Constant<value = int64[{}] {{{}}}>()\n", name, v.size(),
                     fmt::join(v, ", "));
}
std::string TransposeLine(const std::string& name, const std::string& from,
                          const std::vector<int64_t>& perm) {
  if (perm.empty()) return fmt::format("{} = Identity({})\n", name, from);
  return fmt::format("{} = Transpose<perm = {}>({})\n", name, ListText(perm), from);
}

std::string SumToText(const std::string& x, const Shape& from, const std::string& shape,
                      const Shape& to) {
  bool decided = from.has_rank() && to.has_rank() && from.rank() >= to.rank();
  std::vector<int64_t> axes;
  for (int k = 0; decided && k < from.rank(); ++k) {
    const int own = k - (from.rank() - to.rank());
    if (own < 0 || to[own].is(1))
      axes.push_back(k);
    else
      decided = to[own].known() && to[own] == from[k];
  }
  if (decided && axes.empty()) return fmt::format("o0 = Identity({})", x);
  if (decided) {
    return IntsConstant("sum_axes", axes) +
           fmt::format("sum_y = ReduceSum<keepdims = 1>({}, sum_axes)\n", x) +
           fmt::format("o0 = Reshape<allowzero = 1>(sum_y, {})", shape);
  }
  return fmt::format(R"(sum_one = Constant<value = int64[1] {{1}}>()
sum_from = Shape({0})
sum_rank = Size(sum_from)
sum_kept = Size({1})
sum_lead = Sub(sum_rank, sum_kept)
sum_leads = Reshape(sum_lead, sum_one)
sum_ones = ConstantOfShape<value = int64[1] {{1}}>(sum_leads)
sum_full = Concat<axis = 0>(sum_ones, {1})
sum_is_one = Equal(sum_full, sum_one)
sum_where = NonZero(sum_is_one)
sum_flat = Constant<value = int64[1] {{-1}}>()
sum_axes = Reshape(sum_where, sum_flat)
sum_y = ReduceSum<keepdims = 1, noop_with_empty_axes = 1>({0}, sum_axes)
o0 = Reshape<allowzero = 1>(sum_y, {1}))",
                     x, shape);
}

std::string ElementNumbers(const std::string& shape) {
  return fmt::format(R"(zero = Constant<value_int = 0>()
one = Constant<value_int = 1>()
flat = Constant<value = int64[1] {{-1}}>()
count1 = ReduceProd<keepdims = 1>({0})
count = Squeeze(count1)
number = Range(zero, count, one)
numbers = Reshape<allowzero = 1>(number, {0})
)",
                     shape);
}
std::string AddAt(const std::string& at, const std::string& shape) {
  return fmt::format(R"(where = Reshape({0}, flat)
what = Reshape(i0, flat)
unit = Constant<value = int64[1] {{1}}>()
start = Constant<value = int64[1] {{0}}>()
room = Add(count1, unit)
empty = ConstantOfShape(room)
zeros = CastLike(empty, i0)
sum = ScatterElements<axis = 0, reduction = "add">(zeros, where, what)
inside = Slice(sum, start, count1)
o0 = Reshape<allowzero = 1>(inside, {1}))",
                     at, shape);
}
std::string MovementAdjoint(const std::string& shape, const std::string& move) {
  return ElementNumbers(shape) + "at = " + move + "\n" + AddAt("at", shape);
}
std::string PlacedText(const std::string& x, const Shape& from, const std::vector<int64_t>& first,
                       const std::string& shape, const Shape& to) {
  const size_t rank = first.size();
  std::vector<int64_t> pads(2 * rank, 0), from_end(rank, 0);
  bool decided = from.has_rank() && to.has_rank();
  for (size_t k = 0; k < rank; ++k) {
    from_end[k] = first[k] < 0;
    if (!decided) continue;
    const SymInt own = from[int(k)], whole = to[int(k)];
    decided = own.known() && whole.known();
    if (decided && own == whole) continue;
    decided = decided && own.is_const() && whole.is_const();
    if (!decided) continue;
    const int64_t room = whole.value() - own.value();
    const int64_t begin = first[k] < 0 ? first[k] + whole.value() : first[k];
    pads[k] = std::min(std::max<int64_t>(begin, 0), room);
    pads[rank + k] = room - pads[k];
  }
  if (decided) return IntsConstant("pads", pads) + fmt::format("o0 = Pad({}, pads)", x);
  return IntsConstant("first", first) + IntsConstant("from_end", from_end) +
         fmt::format(R"(nothing = Constant<value = int64[1] {{0}}>()
extents = Shape({0})
room = Sub({1}, extents)
behind = Mul(from_end, {1})
wished = Add(first, behind)
inside = Max(wished, nothing)
begin = Min(inside, room)
end = Sub(room, begin)
pads = Concat<axis = 0>(begin, end)
o0 = Pad({0}, pads))",
                     x, shape);
}

}  // namespace weft::ops
