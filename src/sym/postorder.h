/// postorder.h: iterative walk of expression graphs (included by node.h).
///
/// Definitions of minted symbols nest without limit, so nothing that follows them may recurse.
#pragma once

#include <unordered_set>

namespace weft::sym {

template <class Visit, class Expand>
void VisitPostorder(const Node* root, Visit visit, Expand expand) {
  struct Frame {
    const Node* node;
    const Node* definition;
    size_t next;
  };
  std::vector<Frame> stack;
  std::unordered_set<const Node*> seen;
  const auto push = [&](const Node* n) {
    if (!seen.insert(n).second) return;
    const Node* definition =
        n->kind == Kind::kSymbol ? n->definition.load(std::memory_order_acquire) : nullptr;
    if (definition != nullptr && !expand(n)) definition = nullptr;
    stack.push_back({n, definition, 0});
  };
  push(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    const size_t count = top.definition != nullptr ? 1 : NumChildren(top.node);
    if (top.next < count) {
      const size_t i = top.next++;
      push(top.definition != nullptr ? top.definition : Child(top.node, i));
    } else {
      visit(top.node);
      stack.pop_back();
    }
  }
}

}  // namespace weft::sym
