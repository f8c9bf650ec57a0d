/// order_beam.h: is there an order of at most so many bytes? A search over down-sets. Private to
/// the core.
#pragma once

#include "order_instance.h"

namespace weft::order {

enum class Answer : uint8_t {
  kFound,    ///< `sequence` is one
  kNone,     ///< proven: there is none
  kUnknown,  ///< states or work were left out
};

struct Decision {
  Answer answer = Answer::kUnknown;
  Sequence sequence;
};

/// Layers of down-sets with equally many nodes, at most `width` of each, those with the fewest
/// bytes alive; a state runs at once what leaves no more bytes than before. `work` falls by the
/// looks at operands and results that it took, at most to a little below 0.
Decision FindOrder(const Instance& in, int64_t limit, uint32_t width, int64_t* work);

}  // namespace weft::order
