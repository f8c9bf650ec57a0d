/// attr_value.h: what a value in Graph::attrs is. Private to core.
#pragma once

#include <any>
#include <memory>
#include <string>

#include "weft/core/graph/graph_attr.h"

namespace weft {

/// The registered type of the value; null where there is none, also for a value of another C++ type
/// under a registered name: programs for NNVM set such, and they are opaque.
inline const AttrType* AttrTypeOf(const std::string& name, const std::shared_ptr<std::any>& value) {
  const AttrType* t = FindAttrType(name);
  return t && value && t->type == value->type() ? t : nullptr;
}

/// The value, for this graph alone to change.
inline std::any& OwnValue(std::shared_ptr<std::any>& value) {
  if (value.use_count() > 1) value = std::make_shared<std::any>(*value);
  return *value;
}

}  // namespace weft
