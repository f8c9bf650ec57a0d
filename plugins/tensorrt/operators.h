/// operators.h: which nodes TensorRT takes.
#pragma once

#include <string>

#include "weft/plugin.h"

namespace weft_tensorrt {

/// Empty: the node may be part of a region.
std::string WhyNot(const WeftGraph* graph, const WeftNode* node);

}  // namespace weft_tensorrt
