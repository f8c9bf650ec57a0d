/// attr_text.h: attributes of a node from text, as they stand in `.weft` files.
#pragma once

#include <string_view>

#include "weft/core/graph/attr.h"

namespace weft {

/// "axis = -1, perm = [1, 0], mode = \"linear\"", with or without braces. Throws
/// kSyntax with the place.
WEFT_API AttrDict ParseAttrDict(std::string_view text);

}  // namespace weft
