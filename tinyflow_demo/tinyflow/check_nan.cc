/// check_nan.cc: fetches every result at once and looks at them in topological order.
#include "tinyflow/check_nan.h"

#include <cmath>
#include <map>

#include "weft/core/builtin_ops.h"
#include "weft/core/effects.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace tf {
namespace {

enum class Content { kFinite, kInfinite, kNaN };

Content Look(const weft::Tensor& value) {
  if (!weft::IsFloat(value.dtype())) return Content::kFinite;
  Content worst = Content::kFinite;
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    const double v = value.at(i);
    if (std::isnan(v)) return Content::kNaN;
    if (std::isinf(v)) worst = Content::kInfinite;
  }
  return worst;
}

std::string Named(const weft::NodePtr& n) {
  std::string text = n->Describe();
  if (n->attrs.name.empty() && n->origin() && !n->origin()->empty())
    text += " for '" + weft::Join(*n->origin(), "', '") + "'";
  return text;
}

}  // namespace

bool has_nan(const weft::Tensor& value) { return Look(value) != Content::kFinite; }

std::string find_first_nan(Session* session, const Tensor& fetch, const Feeds& feeds) {
  std::vector<Tensor> fetches;
  std::map<std::pair<weft::NodeId, uint32_t>, Content> content;
  for (const auto& [tensor, value] : feeds) {
    content[{tensor.entry().node->id(), 0}] = Look(*value);
    if (has_nan(*value)) return "input '" + tensor.name() + "' holds a NaN or an infinity";
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
    if (made == Content::kFinite) continue;
    const char* what = made == Content::kNaN ? "a NaN" : "an infinity";
    if (e.node->is_variable()) return fmt::format("variable '{}' holds {}", t.name(), what);
    bool finite_operands = true;
    for (const weft::NodeEntry& in : e.node->inputs)
      finite_operands =
          finite_operands && (!in || content[{in.node->id(), in.index}] == Content::kFinite);
    if (finite_operands) return fmt::format("{} made {}", Named(e.node), what);
  }
  return {};
}

}  // namespace tf
