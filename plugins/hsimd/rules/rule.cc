/// rule.cc: which rule an operator has, and the one way in which axes are dealt out.
#include "rule.h"

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace hsimd {

std::vector<LayoutCandidate> LayoutCandidates(const weft::Graph& graph, const weft::NodePtr& node,
                                              const Machine& machine) {
  static const weft::OpMap<FLayoutRule>& rules =
      weft::Op::GetAttr<FLayoutRule>("FLayoutRule.hsimd");
  const FLayoutRule* rule = rules.find(node->op());
  std::vector<LayoutCandidate> found =
      rule ? (*rule)(graph, node, machine) : GeneralCandidates(graph, node, machine);
  WEFT_CHECK(!found.empty(), kUnsupported, "{}: no layout of its operands suits machine '{}'",
             node->Describe(), machine.name);
  return found;
}

TileProgram LowerNode(const LowerRequest& request) {
  static const weft::OpMap<FLowerHsimd>& lowerings = weft::Op::GetAttr<FLowerHsimd>("FLowerHsimd");
  const FLowerHsimd* lower = lowerings.find(request.node->op());
  return lower ? (*lower)(request) : LowerGeneral(request);
}

bool IsView(const weft::NodePtr& node) {
  static const auto& view = weft::Op::GetAttr<weft::TIsView>("TIsView");
  const bool* is = node->is_variable() ? nullptr : view.find(node->op());
  return is && *is;
}

Layout SplitLayout(const std::vector<int64_t>& shape, const Machine& machine,
                   const std::vector<std::vector<bool>>& levels,
                   const std::vector<int64_t>& multiple) {
  Layout layout;
  layout.shape = shape;
  layout.axes.resize(shape.size());
  int64_t words = 1;
  const int pe = machine.pe();
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto over = [&](int level) {
      return axis < levels.size() && size_t(level) < levels[axis].size() &&
             levels[axis][size_t(level)] && machine.levels[size_t(level)].count > 1;
    };
    int64_t places = 1;
    for (int l = 0; l <= pe; ++l)
      if (over(l)) places *= machine.levels[size_t(l)].count;
    int64_t local = (shape[axis] + places - 1) / places;
    if (axis < multiple.size() && multiple[axis] > 1)
      local = (local + multiple[axis] - 1) / multiple[axis] * multiple[axis];
    std::vector<Digit>& digits = layout.axes[axis];
    for (int l = 0; l < pe; ++l)
      if (over(l))
        digits.push_back({machine.levels[size_t(l)].count, machine.levels[size_t(l)].name, 1});
    if (local > 1 || places == 1) digits.push_back({local, kAddress, words});
    if (over(pe))
      digits.push_back({machine.levels[size_t(pe)].count, machine.levels[size_t(pe)].name, 1});
    words *= local;
  }
  return layout;
}

}  // namespace hsimd
