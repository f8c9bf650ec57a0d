/// attr_providers.h: who could have put a missing graph attribute there. Graphs know no passes: the
/// registry of passes (core/pass/registry.cc) answers.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// "InferShape, LoadJSON"; empty where no registered pass declares it.
std::string PassesThatProvide(std::string_view attribute);

}  // namespace weft
