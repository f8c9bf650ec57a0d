/// attr_hash.h: a hash of what a node is besides its operands.
#pragma once

#include <string>
#include <string_view>

#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"
#include "weft/support/hash.h"

namespace weft {

/// Of the operator and its attributes, but for graphs among them: nodes that are equal have equal
/// hashes. It writes attributes as text: keep it.
inline uint64_t HashOfAttrs(const NodePtr& n) {
  Hasher h;
  h.Add(std::string_view(n->op()->name));
  for (const auto& [name, value] : n->attrs.dict) {
    h.Add(std::string_view(name));
    if (value.is<TensorPtr>())
      h.Add(value.get<TensorPtr>()->ContentHash());
    else if (!value.is<GraphPtr>())
      h.Add(std::string_view(std::string(value)));
  }
  return h.Finish().lo;
}

}  // namespace weft
