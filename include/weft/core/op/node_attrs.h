/// node_attrs.h: attributes of operators by their names, with the defaults of the ONNX standard,
/// for whoever computes them by a library or a machine. The structs that declare them live with the
/// operators. Throws kBadAttribute where an attribute is of another type.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

inline int64_t IntAttr(const NodePtr& n, std::string_view name, int64_t otherwise) {
  return n->has_attr(name) ? n->attr<int64_t>(name) : otherwise;
}
inline double FloatAttr(const NodePtr& n, std::string_view name, double otherwise) {
  return n->has_attr(name) ? n->attr<double>(name) : otherwise;
}
/// Empty where it is not set.
inline std::vector<int64_t> IntsAttr(const NodePtr& n, std::string_view name) {
  return n->has_attr(name) ? std::vector<int64_t>(n->attr<Ints>(name)) : std::vector<int64_t>();
}

}  // namespace weft
