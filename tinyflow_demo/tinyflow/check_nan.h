/// check_nan.h: which operator made the first number that is none.
#pragma once

#include <string>

#include "tinyflow/session.h"

namespace tf {

/// Runs everything that `fetch` depends on, but for assignments, and looks at every result. Names
/// the first operator, in the order of the graph, that makes a NaN or an infinity out of finite
/// operands; names a variable or an input that holds one before. Empty where all is finite.
std::string find_first_nan(Session* session, const Tensor& fetch, const Feeds& feeds);

/// Any NaN or infinity in a tensor of floats.
bool has_nan(const weft::Tensor& value);

}  // namespace tf
