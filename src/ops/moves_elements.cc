/// moves_elements.cc: which operators never look at the elements that they move, and so run on
/// dtypes that kernels do not compute with: strings, complex numbers, 8-bit floats, 2- and 4-bit
/// numbers (core/op/host_eval.h says how).
#include "ops/util/host_util.h"

namespace weft::ops {

#define WEFT_MOVES_ELEMENTS(Name) \
  WEFT_REGISTER_OP(Name).set_attr<TMovesElements>("TMovesElements", true)

WEFT_MOVES_ELEMENTS(Concat);
WEFT_MOVES_ELEMENTS(DepthToSpace);
WEFT_MOVES_ELEMENTS(Expand);
WEFT_MOVES_ELEMENTS(Flatten);
WEFT_MOVES_ELEMENTS(Gather);
WEFT_MOVES_ELEMENTS(GatherElements);
WEFT_MOVES_ELEMENTS(GatherND);
WEFT_MOVES_ELEMENTS(Identity);
WEFT_MOVES_ELEMENTS(OneHot);
WEFT_MOVES_ELEMENTS(Pad);
WEFT_MOVES_ELEMENTS(Reshape);
WEFT_MOVES_ELEMENTS(Shape);
WEFT_MOVES_ELEMENTS(Size);
WEFT_MOVES_ELEMENTS(Slice);
WEFT_MOVES_ELEMENTS(SpaceToDepth);
WEFT_MOVES_ELEMENTS(Split);
WEFT_MOVES_ELEMENTS(Squeeze);
WEFT_MOVES_ELEMENTS(Tile);
WEFT_MOVES_ELEMENTS(Transpose);
WEFT_MOVES_ELEMENTS(Trilu);
WEFT_MOVES_ELEMENTS(Unsqueeze);
WEFT_MOVES_ELEMENTS(Where);

}  // namespace weft::ops
