/// places.cc: sets of places, and what links pair.
#include "places.h"

namespace hsimd {

bool Mask::Has(int level, int64_t place) const {
  if (size_t(level) >= levels.size()) return true;
  const std::vector<uint64_t>& bits = levels[size_t(level)];
  if (bits.empty()) return true;
  return size_t(place / 64) < bits.size() && (bits[size_t(place / 64)] >> (place % 64) & 1);
}

PlaceSet MakePlaceSet(std::vector<uint64_t> bits) {
  PlaceSet set;
  set.bits = std::move(bits);
  for (size_t w = 0; w < set.bits.size(); ++w) {
    for (uint64_t left = set.bits[w]; left; left &= left - 1) {
      const int64_t place = int64_t(w) * 64 + __builtin_ctzll(left);
      ++set.size;
      if (!set.runs.empty() && set.runs.back().second == place)
        ++set.runs.back().second;
      else
        set.runs.emplace_back(place, place + 1);
    }
  }
  return set;
}

PlaceSet PlacesIn(const Mask& mask, int level, const Machine& machine) {
  // From the root down: the places of a level whose ancestors are all in the mask. A level below
  // with an empty set leaves none, so sets above follow from the mask's own levels.
  std::vector<uint64_t> places = {1};
  for (int l = 1; l < int(machine.levels.size()); ++l) {
    bool any = false;
    for (int64_t p = 0; p < machine.levels[size_t(l)].count && !any; ++p) any = mask.Has(l, p);
    if (!any) places = {0};
  }
  if (!mask.Has(0, 0)) places = {0};
  int64_t above = 1;
  for (int l = 1; l <= level; ++l) {
    const int64_t count = machine.levels[size_t(l)].count;
    std::vector<uint64_t> next(size_t((above * count + 63) / 64), 0);
    for (int64_t a = 0; a < above; ++a) {
      if (!(places[size_t(a / 64)] >> (a % 64) & 1)) continue;
      for (int64_t p = 0; p < count; ++p) {
        if (!mask.Has(l, p)) continue;
        const int64_t place = a * count + p;
        next[size_t(place / 64)] |= uint64_t{1} << (place % 64);
      }
    }
    places = std::move(next);
    above *= count;
  }
  return MakePlaceSet(std::move(places));
}

int64_t AncestorOf(int64_t place, int place_level, int level, const Machine& machine) {
  for (int l = place_level; l > level; --l) place /= machine.levels[size_t(l)].count;
  return place;
}

int64_t DigitOf(int64_t place, int place_level, int level, const Machine& machine) {
  return AncestorOf(place, place_level, level, machine) % machine.levels[size_t(level)].count;
}

int64_t OffsetOf(int64_t child, const Unit& unit, const UnitOp& op, const Machine& machine) {
  int64_t offset = 0;
  for (const int l : op.indexed)
    offset = offset * machine.levels[size_t(l)].count + DigitOf(child, unit.child, l, machine);
  return offset;
}

int64_t RingSource(int64_t place, const Unit& unit, const UnitOp& op, const Machine& machine) {
  const int64_t count = machine.levels[size_t(unit.child)].count;
  const int64_t digit = place % count;
  return place - digit + (digit + op.shift + count) % count;
}

}  // namespace hsimd
