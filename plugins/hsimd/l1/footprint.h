/// footprint.h: which words an instruction touches, and which ports it takes, relative to its
/// start. Private to merging.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "program.h"

namespace hsimd {

/// Sets of places of one level, each once: products of sets of places within a parent.
class PlaceTable {
 public:
  explicit PlaceTable(const Machine& machine);
  /// The places of `level` that a mask leaves; moved on by `shift` within their parent.
  int Of(const Mask& mask, int level, int shift = 0);
  bool Meet(int a, int b) const;
  bool Within(int a, int b) const;  ///< all of a in b
  /// Words from the first that belongs to the places below `parent`, of a link whose parent's words
  /// are told apart along `indexed`.
  std::vector<int64_t> OffsetsOf(const Mask& mask, const std::vector<int>& indexed) const;

 private:
  using Set = std::vector<std::vector<uint64_t>>;  ///< by level, normal form: empty is all
  std::vector<uint64_t> Normal(const Mask& mask, int level) const;
  int Intern(Set set);

  const Machine& machine_;
  std::vector<Set> sets_;
  std::map<Set, int> numbers_;
  std::vector<std::vector<char>> meet_, within_;
};

/// Words memory[base + strides + offset] of every element, in the places of a set.
struct Touch {
  int memory = 0, places = 0;
  Stream stream;
  std::vector<int64_t> offsets{0};
};

/// `each` accesses to ports of a memory by every element, `after` cycles behind its issue.
struct PortUse {
  int memory = 0, places = 0;
  bool write = false;
  int each = 1;
  int64_t after = 0;
};

struct Footprint {
  std::vector<Touch> reads, writes;
  std::vector<PortUse> ports;
  int64_t held = 0;      ///< cycles for which the slot is held
  int64_t finished = 0;  ///< first cycle in which nothing is under way; the slot may be held longer
};

Footprint FootprintOf(const Machine& machine, const Instruction& instruction, PlaceTable* places);

/// Calls visit(address) for element `digits` of a touch.
template <class Visit>
void VisitWords(const Touch& touch, const std::array<int64_t, 3>& digits, const Visit& visit) {
  const int64_t at = touch.stream.base + digits[0] * touch.stream.stride[0] +
                     digits[1] * touch.stream.stride[1] + digits[2] * touch.stream.stride[2];
  for (int64_t offset : touch.offsets) visit(at + offset);
}

}  // namespace hsimd
