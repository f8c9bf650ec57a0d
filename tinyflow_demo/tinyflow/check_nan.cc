/// check_nan.cc: fetches every result at once and looks at them in topological order.
#include "tinyflow/check_nan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace tf {
namespace {

struct Content {
  bool nan = false, infinite = false;
  double largest = 0;  ///< magnitude of the finite ones
  bool finite() const { return !nan && !infinite; }
  const char* text() const { return nan ? "a NaN" : "an infinity"; }
};

Content Look(const weft::Tensor& value) {
  Content content;
  if (!weft::IsFloat(value.dtype())) return content;
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    const double v = std::abs(value.at(i));
    if (std::isfinite(v))
      content.largest = std::max(content.largest, v);
    else
      (std::isnan(v) ? content.nan : content.infinite) = true;
  }
  return content;
}

std::string Named(const weft::NodePtr& n) {
  std::string text = n->Describe();
  if (n->attrs.name.empty() && n->origin() && !n->origin()->empty())
    text += " for '" + weft::Join(*n->origin(), "', '") + "'";
  return text;
}

}  // namespace

bool has_nan(const weft::Tensor& value) { return !Look(value).finite(); }

std::string find_first_nan(Session* session, const Tensor& fetch, const Feeds& feeds) {
  std::vector<Tensor> fetches;
  std::map<std::pair<weft::NodeId, uint32_t>, Content> content;
  for (const auto& [tensor, value] : feeds) {
    const Content fed = content[{tensor.entry().node->id(), 0}] = Look(*value);
    if (!fed.finite()) return fmt::format("input '{}' holds {}", tensor.name(), fed.text());
  }
  weft::DFSVisit({fetch.entry()}, [&](const weft::NodePtr& n) {
    if (n->is_variable() ? !weft::IsState(n)
                         : weft::HasEffect(n) || weft::IsOp(n, weft::builtin::kGroup))
      return;
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      fetches.emplace_back(fetch.graph(), weft::NodeEntry(n, k), DType::kUnknown);
  });
  if (fetches.empty()) return {};
  const std::vector<Array> values = session->run(fetches, feeds);
  for (size_t i = 0; i < fetches.size(); ++i) {
    const weft::NodeEntry& e = fetches[i].entry();
    content[{e.node->id(), e.index}] = Look(*values[i]);
  }
  for (const Tensor& t : fetches) {
    const weft::NodeEntry& e = t.entry();
    const Content made = content[{e.node->id(), e.index}];
    if (made.finite()) continue;
    if (e.node->is_variable()) return fmt::format("variable '{}' holds {}", t.name(), made.text());
    bool finite_operands = true;
    double largest = 0;
    for (const weft::NodeEntry& in : e.node->inputs) {
      if (!in) continue;
      const Content& operand = content[{in.node->id(), in.index}];
      finite_operands = finite_operands && operand.finite();
      largest = std::max(largest, operand.largest);
    }
    if (finite_operands)
      return fmt::format("{} made {} of numbers up to {:.3g}", Named(e.node), made.text(), largest);
  }
  return {};
}

}  // namespace tf
