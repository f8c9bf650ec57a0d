/// division_report.h: `weft inspect --delegate`: what of a model delegates get.
#pragma once

#include "command_line.h"

namespace weft::tool {

/// Prints every region with its nodes, the bytes that cross its borders, what its delegate thinks
/// that it takes, and what it takes. Returns the exit code.
/// Where choices are named: what each takes by costs, and what it did take (TimeDivisions).
int InspectDivision(const ModelArgs& model, const InputArgs& inputs, const DelegateArgs& delegates,
                    const std::vector<std::string>& choices);

}  // namespace weft::tool
