/// digits.h: what the algebra's sources share about the digits of an axis (private to layout/).
#pragma once

#include "layout.h"

namespace hsimd {

/// An enumeration of elements, or of places of one level, is refused above this many.
inline constexpr int64_t kMostEnumerated = int64_t{1} << 20;

/// Without digits that are always 0 and with the first no larger than the size needs.
std::vector<Digit> Trimmed(const std::vector<Digit>& digits, int64_t size);
/// Trimmed, with neighbours that continue each other merged: one list per map.
std::vector<Digit> Merged(const std::vector<Digit>& digits, int64_t size);
/// What one step of each digit counts in the index, in the digits' order.
std::vector<int64_t> WeightsOf(const std::vector<Digit>& digits);
/// Largest sum of digit x stride on a level over the indices below size (digits trimmed).
int64_t LargestOn(const std::string& level, const std::vector<Digit>& digits, int64_t size);
/// Levels that `from` names and `to` does not: there all elements of `to` lie in place 0, said by a
/// copy of size 1, since a level that nothing names would replicate.
void Pin(const Layout& from, Layout& to);
/// digit x stride of index `i`, added into the place.
void AddPlace(const std::vector<Digit>& digits, int64_t i, Place& place);

}  // namespace hsimd
