/// best_variant.h: of a routine that is compiled for several instruction sets, the variant for this
/// processor.
#pragma once

namespace weft::cpu {

/// `number(i)`: variant i, the plain one first; null where the processor lacks what it needs, or
/// there are no more. The last before a null one.
template <class Routines>
const Routines& BestVariant(const Routines* (*number)(int)) {
  int i = 0;
  while (number(i + 1)) ++i;
  return *number(i);
}

}  // namespace weft::cpu
