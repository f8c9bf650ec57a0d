/// tree.h: ways through memories, hop by hop, with a layout chosen in each (private to move/).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "hop.h"

namespace hsimd {

/// Spare words of each memory, given out from the front of its largest range.
class SpareSpace {
 public:
  SpareSpace(const Machine& machine, const std::vector<SpareWords>& spare);
  int64_t words(int memory) const;  ///< still free
  /// First address, -1 if there are not so many words.
  int64_t Take(int memory, int64_t words);
  bool has(int memory) const { return ranges_.count(memory) > 0; }
  const std::vector<SpareWords>& all() const { return all_; }

 private:
  std::map<int, SpareWords> ranges_;
  std::vector<SpareWords> all_;
};

/// Hops and the tensor's layout after each.
struct Way {
  std::vector<Hop> hops;
  std::vector<TensorAt> stops;  ///< hops + 1: from, .., to; bases of those between not yet set
  int64_t cycles = 0;           ///< HopCycles of all hops
};

/// Paths of memories from one to another over links and copies, up and then down, the shortest
/// first, that reach level `top` or one above; those in between must have spare words.
std::vector<std::vector<int>> PathsOf(const Machine& machine, int from, int to, int top,
                                      const SpareSpace& spare);

/// The cheapest way over one path: source's order of words up to one stop, target's from there on.
/// nullopt where the path does not lead there or it needs over `most` boxes.
std::optional<Way> CheapestWay(const Machine& machine, const TensorAt& from, const TensorAt& to,
                               const std::vector<int>& path, int64_t most);

}  // namespace hsimd
