/// places.h: sets of places of one level, in the whole machine; masks become such sets once.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program.h"

namespace hsimd {

/// Places p are numbered in the whole machine, those of one parent next to each other.
struct PlaceSet {
  std::vector<uint64_t> bits;                     ///< place p is bit p % 64 of word p / 64
  std::vector<std::pair<int64_t, int64_t>> runs;  ///< [first, end) of neighbouring places
  int64_t size = 0;

  bool Has(int64_t place) const { return bits[size_t(place / 64)] >> (place % 64) & 1; }
};

/// The places of a level that take part; of levels above the mask's, those below which some do.
PlaceSet PlacesIn(const Mask& mask, int level, const Machine& machine);
PlaceSet MakePlaceSet(std::vector<uint64_t> bits);

/// Digit of a place on a level above (or equal) within its parent there.
int64_t DigitOf(int64_t place, int place_level, int level, const Machine& machine);
/// The place of `level` that holds a place of the level `place_level` below it.
int64_t AncestorOf(int64_t place, int place_level, int level, const Machine& machine);
/// Of a link's operation: how far the word of a child lies behind the base address in its parent.
int64_t OffsetOf(int64_t child, const Unit& unit, const UnitOp& op, const Machine& machine);
/// The place whose word a place receives over a ring.
int64_t RingSource(int64_t place, const Unit& unit, const UnitOp& op, const Machine& machine);

}  // namespace hsimd
