/// window_body.cc: windows in bodies in ONNX's operators (window_body.h).
#include "window_body.h"

#include <algorithm>

#include "weft/support/check.h"

namespace weft::ops {

std::vector<int64_t> ConstantWindow::pads() const {
  std::vector<int64_t> out = begin;
  out.insert(out.end(), end.begin(), end.end());
  return out;
}

std::vector<int64_t> ConstantSpatial(const Shape& s, const char* what) {
  std::vector<int64_t> out;
  WEFT_CHECK(s.has_rank() && s.rank() >= 2, kUnsupported, "the shape of {} is unknown", what);
  for (int k = 2; k < s.rank(); ++k) {
    WEFT_CHECK(s[k].known() && s[k].is_const(), kUnsupported,
               "its form in ONNX's operators needs constant spatial dimensions, {} is {}", what,
               s.ToString());
    out.push_back(s[k].value());
  }
  return out;
}

ConstantWindow MakeConstantWindow(const NodePtr& n, const WindowAttrs& attrs, const Shape& x,
                                  const std::vector<int64_t>& kernel, const Shape& y) {
  const std::vector<int64_t> in = ConstantSpatial(x, "x"), out = ConstantSpatial(y, "y");
  WEFT_CHECK(in.size() == kernel.size() && out.size() == kernel.size(), kUnsupported,
             "the ranks of its window and its operands differ");
  const Window w = MakeWindow(n, attrs, std::vector<SymInt>(in.begin(), in.end()),
                              std::vector<SymInt>(kernel.begin(), kernel.end()), nullptr);
  const auto constants = [](const std::vector<SymInt>& v) {
    std::vector<int64_t> values;
    for (const SymInt& e : v) values.push_back(e.value());
    return values;
  };
  return {in, kernel, out, w.strides, w.dilations, constants(w.begin), constants(w.end)};
}

std::string TransposedConvText(const ConstantWindow& w, int64_t group, const std::string& result,
                               const std::string& operands) {
  std::vector<int64_t> pads = w.begin, more;
  for (size_t k = 0; k < w.rank(); ++k) {
    const int64_t end = (w.out[k] - 1) * w.strides[k] + w.reach(k) - w.begin[k] - w.in[k];
    pads.push_back(std::max<int64_t>(end, 0));
    more.push_back(std::max<int64_t>(-end, 0));
  }
  return fmt::format(
      "{} = ConvTranspose<group = {}, strides = {}, dilations = {}, pads = {}, output_padding = "
      "{}>({})",
      result, group, ListText(w.strides), ListText(w.dilations), ListText(pads), ListText(more),
      operands);
}

}  // namespace weft::ops
