/// scratch.cc: registration of the attribute `scratch`: "4096".
#include "weft/core/plan/scratch.h"

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {

WEFT_REGISTER_GRAPH_ATTR(scratch, kDerived, ScratchMap)
    .describe("bytes that a node takes while it runs, beside tensors")
    .text([](int64_t bytes) { return std::to_string(bytes); },
          [](const std::string& text) {
            const auto bytes = TryParseInt64(text);
            WEFT_CHECK(bytes && *bytes >= 0, kSyntax, "'{}' is not a number of bytes", text);
            return *bytes;
          });

}  // namespace weft
