/// machine.cc: machines by name, and what can be asked of them.
#include "machine.h"

#include "presets.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

constexpr int64_t kMaxFileBytes = 16 << 20;

template <class Named>
int IndexNamed(const std::vector<Named>& all, std::string_view name) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return int(i);
  }
  return -1;
}

}  // namespace

int64_t Machine::PlacesOf(int level) const {
  int64_t places = 1;
  for (int l = 0; l <= level; ++l) places *= levels[size_t(l)].count;
  return places;
}

int64_t Machine::WordsAbove(const UnitOp& op) const {
  int64_t words = 1;
  for (const int l : op.indexed) words *= levels[size_t(l)].count;
  return words;
}

int Machine::LevelNamed(std::string_view name) const { return IndexNamed(levels, name); }
int Machine::MemoryNamed(std::string_view name) const { return IndexNamed(memories, name); }
int Machine::UnitNamed(std::string_view name) const { return IndexNamed(units, name); }

std::vector<std::string> BuiltInMachines() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  return names;
}

Machine FindMachine(const std::string& name) {
  if (name.find('/') != std::string::npos || weft::EndsWith(name, ".json"))
    return ParseMachine(weft::ReadFile(name, kMaxFileBytes), name);
  for (const Preset& preset : Presets()) {
    if (name == preset.name) return ParseMachine(preset.json, preset.name);
  }
  const std::vector<std::string> names = BuiltInMachines();
  const std::string near = weft::DidYouMean(name, names);
  weft::ThrowError(weft::ErrorCode::kUsage, fmt::format("no machine is named '{}'", name), {},
                   near.empty()
                       ? fmt::format("built in are {}; a file is named by a path, ./{}.json",
                                     weft::Join(names, ", "), name)
                       : near);
}

}  // namespace hsimd
