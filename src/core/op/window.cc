/// window.cc: the arithmetic of sliding windows (weft/core/op/window.h).
#include "weft/core/op/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

using Dims = std::vector<int64_t>;

/// The padding on both sides that `total` is split into.
void SplitPadding(const WindowAttrs& attrs, SymInt total, SymWindow* w) {
  const SymInt small = FloorDiv(total, 2), large = total - small;
  const bool upper = attrs.auto_pad == "SAME_UPPER";
  w->begin.push_back(upper ? small : large);
  w->end.push_back(upper ? large : small);
}

SymInt AtLeast0(SymInt e, const Facts* facts) {
  if (!e.known()) return e;
  if (facts && facts->LessEqual(e, 0) == Proof::kYes) return 0;
  return facts && facts->LessEqual(0, e) == Proof::kYes ? e : Max(e, 0);
}
SymInt Least(SymInt a, SymInt b, const Facts* facts) {
  if (!a.known() || !b.known()) return SymInt();
  if (facts && facts->LessEqual(a, b) == Proof::kYes) return a;
  return facts && facts->LessEqual(b, a) == Proof::kYes ? b : Min(a, b);
}

/// `values` are so many, `least` where absent and nowhere less. What is wrong with them.
std::optional<std::string> Complete(Dims* values, size_t size, int64_t least, size_t rank,
                                    const char* what) {
  if (values->empty()) values->assign(size, least);
  if (values->size() != size)
    return fmt::format("{} {} for {} spatial axes", values->size(), what, rank);
  for (int64_t v : *values)
    if (v < least)
      return fmt::format("{} must be {}, got {}", what, least > 0 ? "positive" : "0 or more", v);
  return std::nullopt;
}

std::vector<SymInt> Symbolic(const Dims& dims) { return {dims.begin(), dims.end()}; }

std::optional<WindowShape> Fixed(const SymWindow& w, Dims in, Dims out) {
  WindowShape s{std::move(in), {}, std::move(out), w.strides, w.dilations, {}, {}};
  for (size_t k = 0; k < s.in.size(); ++k) {
    s.kernel.push_back(w.kernel[k].value());
    s.begin.push_back(w.begin[k].value());
    s.end.push_back(w.end[k].value());
  }
  return s;
}

/// The attributes of `n` for windows over so many axes as all of the lists have.
std::optional<WindowAttrs> AttrsFor(const NodePtr& n, const Dims& in, const Dims& kernel,
                                    const Dims& out) {
  WindowAttrs attrs = WindowAttrsOf(n);
  if (in.empty() || kernel.size() != in.size() || out.size() != in.size() ||
      CompleteWindowAttrs(&attrs, in.size()))
    return std::nullopt;
  return attrs;
}

}  // namespace

WindowAttrs WindowAttrsOf(const NodePtr& n) {
  WindowAttrs attrs;
  const auto ints = [&](const char* name) {
    return n->has_attr(name) ? Dims(n->attr<Ints>(name)) : Dims();
  };
  if (n->has_attr("auto_pad")) attrs.auto_pad = n->attr<std::string>("auto_pad");
  attrs.strides = ints("strides");
  attrs.dilations = ints("dilations");
  attrs.pads = ints("pads");
  attrs.ceil_mode = n->has_attr("ceil_mode") && n->attr<int64_t>("ceil_mode") != 0;
  attrs.output_padding = ints("output_padding");
  attrs.output_shape = ints("output_shape");
  return attrs;
}

std::optional<std::string> CompleteWindowAttrs(WindowAttrs* attrs, size_t rank) {
  if (attrs->auto_pad.empty()) attrs->auto_pad = "NOTSET";
  const std::string& mode = attrs->auto_pad;
  if (!attrs->is_same() && mode != "NOTSET" && mode != "VALID")
    return fmt::format("auto_pad '{}'", mode);
  if (mode != "NOTSET") attrs->pads.clear();
  auto fault = Complete(&attrs->strides, rank, 1, rank, "strides");
  if (!fault) fault = Complete(&attrs->dilations, rank, 1, rank, "dilations");
  if (!fault) fault = Complete(&attrs->output_padding, rank, 0, rank, "output_padding");
  if (!fault) fault = Complete(&attrs->pads, 2 * rank, 0, rank, "pads");
  if (fault) return fault;
  // Some exporters write the batch and the channels too.
  Dims* shape = &attrs->output_shape;
  if (shape->size() == rank + 2) shape->erase(shape->begin(), shape->begin() + 2);
  if (!shape->empty() && shape->size() != rank)
    return fmt::format("output_shape of length {} for {} spatial axes", shape->size(), rank);
  for (size_t k = 0; k < rank; ++k)
    if (attrs->output_padding[k] >= std::max(attrs->strides[k], attrs->dilations[k]))
      return fmt::format("output_padding {} is not less than stride {} or dilation {}",
                         attrs->output_padding[k], attrs->strides[k], attrs->dilations[k]);
  return std::nullopt;
}

SymWindow ResolveWindow(const WindowAttrs& attrs, const std::vector<SymInt>& in,
                        const std::vector<SymInt>& kernel, const Facts* facts) {
  SymWindow w{in, kernel, {}, attrs.strides, attrs.dilations, {}, {}, {}};
  const size_t rank = kernel.size();
  for (size_t k = 0; k < rank; ++k) {
    const SymInt reach = w.reach(k), stride = w.strides[k];
    if (attrs.is_same()) {
      const SymInt out = CeilDiv(in[k], stride);
      SplitPadding(attrs, AtLeast0((out - 1) * stride + reach - in[k], facts), &w);
      w.out.push_back(out);
      continue;
    }
    const int64_t begin = attrs.pads[k], end = attrs.pads[k + rank];
    w.begin.push_back(begin);
    w.end.push_back(end);
    const SymInt room = in[k] + begin + end - reach;
    w.room.push_back(attrs.ceil_mode ? room + stride - 1 : room);
    w.out.push_back(attrs.ceil_mode
                        ? Least(CeilDiv(room, stride) + 1, CeilDiv(in[k] + begin, stride), facts)
                        : FloorDiv(room, stride) + 1);
  }
  return w;
}

SymWindow ResolveTransposedWindow(const WindowAttrs& attrs, const std::vector<SymInt>& out,
                                  const std::vector<SymInt>& kernel, const Facts* facts) {
  SymWindow w{{}, kernel, out, attrs.strides, attrs.dilations, {}, {}, {}};
  const size_t rank = kernel.size();
  for (size_t k = 0; k < rank; ++k) {
    const SymInt full = (out[k] - 1) * w.strides[k] + attrs.output_padding[k] + w.reach(k);
    if (attrs.output_shape.empty() && !attrs.is_same()) {
      w.begin.push_back(attrs.pads[k]);
      w.end.push_back(attrs.pads[k + rank]);
      w.in.push_back(full - attrs.pads[k] - attrs.pads[k + rank]);
      continue;
    }
    const SymInt in =
        attrs.output_shape.empty() ? out[k] * w.strides[k] : SymInt(attrs.output_shape[k]);
    SplitPadding(attrs, AtLeast0(full - in, facts), &w);
    w.in.push_back(in);
  }
  return w;
}

bool WindowShape::hangs_over() const {
  return std::any_of(overhang.begin(), overhang.end(), [](int64_t e) { return e > 0; });
}

bool WindowShape::may_miss() const {
  for (size_t k = 0; k < rank(); ++k)
    if (begin[k] >= reach(k) || end[k] >= reach(k) || (begin[k] > 0 && in[k] < dilations[k]))
      return true;
  return false;
}

std::optional<WindowShape> WindowShapeOf(const NodePtr& n, Dims in, Dims kernel, Dims out) {
  const auto attrs = AttrsFor(n, in, kernel, out);
  if (!attrs) return std::nullopt;
  const SymWindow w = ResolveWindow(*attrs, Symbolic(in), Symbolic(kernel), nullptr);
  auto s = Fixed(w, std::move(in), std::move(out));
  for (size_t k = 0; k < s->rank(); ++k) {
    s->overhang.push_back(std::max<int64_t>(0, s->covered(k) - s->in[k] - s->begin[k] - s->end[k]));
    s->end[k] += s->overhang[k];
  }
  return s;
}

std::optional<WindowShape> TransposedWindowShapeOf(const NodePtr& n, Dims x, Dims kernel, Dims y) {
  const auto attrs = AttrsFor(n, y, kernel, x);
  if (!attrs) return std::nullopt;
  const SymWindow w = ResolveTransposedWindow(*attrs, Symbolic(x), Symbolic(kernel), nullptr);
  auto s = Fixed(w, std::move(y), std::move(x));
  for (size_t k = 0; k < s->rank(); ++k) s->end[k] = s->covered(k) - s->begin[k] - s->in[k];
  return s;
}

}  // namespace weft
