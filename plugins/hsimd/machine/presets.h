/// presets.h: the texts of the built-in machines, machine/presets/*.json; CMake compiles them in.
#pragma once

#include <string_view>
#include <vector>

namespace hsimd {

struct Preset {
  const char* name;
  std::string_view json;
};
const std::vector<Preset>& Presets();

}  // namespace hsimd
