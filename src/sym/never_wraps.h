/// never_wraps.h: NeverWraps for data of 32 bits.
#pragma once

#include "weft/sym/sym.h"

namespace weft::sym {

/// As NeverWraps, of 32 bits: with every size, and every product of sizes, up to 2^12, no part of e leaves them.
bool NeverWraps32(SymInt e);

}  // namespace weft::sym
