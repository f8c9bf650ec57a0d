/// timeline.h: which slots and ports are taken in which cycle. Private to merging.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "dependences.h"

namespace hsimd {

/// What a group takes, relative to its start: runs of cycles with the same number of accesses.
struct Demand {
  struct SlotRun {
    int slot = 0;
    int64_t begin = 0, end = 0;
  };
  struct PortRun {
    int port = 0, places = 0, count = 0;
    int64_t begin = 0, end = 0;
  };
  std::vector<SlotRun> slots;
  std::vector<PortRun> ports;
  int64_t length = 0;  ///< nothing of the group is under way from there on
};

/// The slots of a machine, and ports: reads, writes and accesses of each memory that counts them.
class Resources {
 public:
  explicit Resources(const Machine& machine);
  std::vector<Demand> DemandsOf(const Dependences& program) const;
  int slots() const { return slots_; }
  const std::vector<int>& ports() const { return ports_; }  ///< capacities

 private:
  struct MemoryPorts {
    int reads = -1, writes = -1, accesses = -1;
  };
  Demand DemandOf(const Dependences& program, const Group& group) const;

  const Machine& machine_;
  std::vector<int> slot_of_unit_;
  std::vector<MemoryPorts> of_memory_;
  std::vector<int> ports_;
  int slots_ = 0;
};

/// The same demand with time running backwards.
Demand Mirrored(const Demand& demand);

class Timeline {
 public:
  Timeline(const Resources& resources, const PlaceTable& places);
  /// The first cycle >= `earliest` in which the demand fits (of narrow gaps only the first ones are
  /// looked at). Adds what it looked at to *work.
  int64_t FirstFit(const Demand& demand, int64_t earliest, int64_t* work) const;
  void Take(const Demand& demand, int64_t start);
  void Release(const Demand& demand, int64_t start);  ///< exactly what was taken there

 private:
  struct Port {
    int capacity = 1;
    /// By set of places that uses it: accesses by cycle.
    std::vector<std::pair<int, std::vector<uint8_t>>> used;
  };
  /// Cycles by which to move on, 0 where the run fits.
  int64_t Conflict(const Demand::SlotRun& run, int64_t start, int64_t* work) const;
  int64_t Conflict(const Demand::PortRun& run, int64_t start, int64_t* work) const;

  const PlaceTable& places_;
  std::vector<std::map<int64_t, int64_t>> busy_;  ///< by slot: begin to end, merged
  std::vector<Port> ports_;
};

}  // namespace hsimd
