/// kernel_attr_types.cc: registration of the attributes of kernel_attr_types.h.
#include "weft/codegen/compiler/kernel_attr_types.h"

namespace weft {

WEFT_REGISTER_GRAPH_ATTR(kernel, kDerived, KernelMap)
    .describe("kernel of every weft::Fused node")
    .hidden();

WEFT_REGISTER_GRAPH_ATTR(rtc, kDerived, RtcMap).describe("machine code of every kernel").hidden();

}  // namespace weft
