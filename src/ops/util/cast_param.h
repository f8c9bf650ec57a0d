/// cast_param.h: attributes of the casts, which have code for kernels (cast.cc) and for the host
/// (cast_host.cc).
#pragma once

#include <string>

#include "weft/core/op/op_param.h"

namespace weft::ops {

struct CastParam : OpParam<CastParam> {
  DTypeField to;
  int64_t saturate;
  std::string round_mode;
  WEFT_OP_PARAM(CastParam) {
    WEFT_FIELD(to).describe("dtype of the result");
    WEFT_FIELD(saturate).set_default(1).set_range(0, 1).describe(
        "8-bit float results: 1 clamps to the largest value, 0 gives NaN or inf");
    WEFT_FIELD(round_mode)
        .set_default("up")
        .describe("f8e8m0 results: \"up\", \"down\" or \"nearest\"");
  }
};

struct CastLikeParam : OpParam<CastLikeParam> {
  int64_t saturate;
  std::string round_mode;
  WEFT_OP_PARAM(CastLikeParam) {
    WEFT_FIELD(saturate).set_default(1).set_range(0, 1).describe("as of Cast");
    WEFT_FIELD(round_mode).set_default("up").describe("as of Cast");
  }
};

struct BitCastParam : OpParam<BitCastParam> {
  DTypeField to;
  WEFT_OP_PARAM(BitCastParam) { WEFT_FIELD(to).describe("dtype of the result, of the width of x"); }
};

}  // namespace weft::ops
