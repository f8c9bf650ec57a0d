/// timeline.cc: reservation of slots as intervals, of ports cycle by cycle.
#include "timeline.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace hsimd {
namespace {

/// After so many gaps that are too narrow a search goes on behind the last thing that is there.
constexpr int kMostGaps = 64;

}  // namespace

Resources::Resources(const Machine& machine) : machine_(machine) {
  std::map<std::string, int> slots;
  for (const Unit& unit : machine.units)
    slot_of_unit_.push_back(slots.emplace(unit.slot, int(slots.size())).first->second);
  slots_ = int(slots.size());
  const auto port = [this](int capacity) {
    if (capacity == 0) return -1;
    ports_.push_back(capacity);
    return int(ports_.size()) - 1;
  };
  for (const Memory& memory : machine.memories)
    of_memory_.push_back({port(memory.reads), port(memory.writes), port(memory.accesses)});
}

Demand Resources::DemandOf(const Dependences& program, const Group& group) const {
  Demand out;
  out.length = group.finished;
  // Accesses by port, places and cycle; neighbouring cycles with equal ones become a run.
  std::map<std::pair<int, int>, std::map<int64_t, int>> accesses;
  for (const Group::Member& member : group.members) {
    const Instruction& in = program.instructions[size_t(member.instruction)];
    const Footprint& footprint = program.footprints[size_t(member.instruction)];
    const Rate& rate = machine_.units[size_t(in.unit)].ops[size_t(in.op)].rate;
    out.slots.push_back(
        {slot_of_unit_[size_t(in.unit)], member.offset, member.offset + footprint.held});
    const int64_t n = in.elements();
    for (const PortUse& use : footprint.ports) {
      const MemoryPorts& ports = of_memory_[size_t(use.memory)];
      for (int port : {use.write ? ports.writes : ports.reads, ports.accesses}) {
        if (port < 0) continue;
        if (group.members.size() == 1 && rate.cycles == 1 && rate.elements == 1) {
          out.ports.push_back({port, use.places, use.each, use.after, use.after + n});
          continue;
        }
        auto& by_cycle = accesses[{port, use.places}];
        for (int64_t k = 0; k < n; ++k)
          by_cycle[member.offset + rate.StartOf(k) + use.after] += use.each;
      }
    }
  }
  // Two runs of one port would not see each other: they count together.
  std::vector<Demand::PortRun> alone;
  std::swap(alone, out.ports);
  for (const Demand::PortRun& run : alone) {
    int same = 0;
    for (const Demand::PortRun& other : alone)
      same += other.port == run.port && other.places == run.places;
    if (same == 1) {
      out.ports.push_back(run);
      continue;
    }
    auto& by_cycle = accesses[{run.port, run.places}];
    for (int64_t c = run.begin; c < run.end; ++c) by_cycle[c] += run.count;
  }
  for (const auto& [key, by_cycle] : accesses)
    for (const auto& [cycle, count] : by_cycle) {
      Demand::PortRun* last = out.ports.empty() ? nullptr : &out.ports.back();
      if (last != nullptr && last->port == key.first && last->places == key.second &&
          last->count == count && last->end == cycle)
        ++last->end;
      else
        out.ports.push_back({key.first, key.second, count, cycle, cycle + 1});
    }
  return out;
}

std::vector<Demand> Resources::DemandsOf(const Dependences& program) const {
  std::vector<Demand> out;
  out.reserve(program.groups.size());
  for (const Group& group : program.groups) out.push_back(DemandOf(program, group));
  return out;
}

Demand Mirrored(const Demand& demand) {
  Demand out = demand;
  for (auto& run : out.slots) {
    const int64_t begin = demand.length - run.end;
    run.end = demand.length - run.begin;
    run.begin = begin;
  }
  for (auto& run : out.ports) {
    const int64_t begin = demand.length - run.end;
    run.end = demand.length - run.begin;
    run.begin = begin;
  }
  return out;
}

Timeline::Timeline(const Resources& resources, const PlaceTable& places)
    : places_(places), busy_(size_t(resources.slots())) {
  for (int capacity : resources.ports()) ports_.push_back({capacity, {}});
}

int64_t Timeline::Conflict(const Demand::SlotRun& run, int64_t start, int64_t* work) const {
  const auto& busy = busy_[size_t(run.slot)];
  const int64_t begin = start + run.begin, end = start + run.end;
  auto it = busy.upper_bound(begin);
  if (it != busy.begin() && std::prev(it)->second > begin) --it;
  int64_t at = begin;
  for (int gaps = 0; it != busy.end() && it->first < at + (end - begin); ++it, ++gaps) {
    at = gaps < kMostGaps ? it->second : busy.rbegin()->second;
    *work += 10;
    if (gaps >= kMostGaps) break;
  }
  *work += 20;
  return at - begin;
}

int64_t Timeline::Conflict(const Demand::PortRun& run, int64_t start, int64_t* work) const {
  const Port& port = ports_[size_t(run.port)];
  const int64_t begin = start + run.begin, end = start + run.end;
  int64_t last = -1;
  int met = 0;
  for (const auto& [places, used] : port.used) {
    if (!places_.Meet(places, run.places)) continue;
    ++met;
    const int64_t stop = std::min(end, int64_t(used.size()));
    if (begin >= stop) continue;
    *work += 4 + (stop - begin) / 16;
    if (run.count >= port.capacity) {
      // Any access there is one too many.
      if (port.capacity > 1) {
        for (int64_t c = stop; c-- > std::max(begin, last + 1);)
          if (used[size_t(c)] != 0) {
            last = c;
            break;
          }
        continue;
      }
      const void* hit = memrchr(used.data() + begin, 1, size_t(stop - begin));
      if (hit != nullptr)
        last = std::max(last, int64_t(static_cast<const uint8_t*>(hit) - used.data()));
    }
  }
  if (run.count < port.capacity && met > 0) {
    for (int64_t c = end; c-- > begin && last < 0;) {
      int sum = run.count;
      for (const auto& [places, used] : port.used)
        if (c < int64_t(used.size()) && places_.Meet(places, run.places)) sum += used[size_t(c)];
      *work += met;
      if (sum > port.capacity) last = c;
    }
  }
  return last < 0 ? 0 : last + 1 - begin;
}

int64_t Timeline::FirstFit(const Demand& demand, int64_t earliest, int64_t* work) const {
  int64_t start = earliest;
  while (true) {
    int64_t move = 0;
    for (size_t k = 0; k < demand.slots.size() && move == 0; ++k)
      move = Conflict(demand.slots[k], start, work);
    for (size_t k = 0; k < demand.ports.size() && move == 0; ++k)
      move = Conflict(demand.ports[k], start, work);
    if (move == 0) return start;
    start += move;
  }
}

void Timeline::Take(const Demand& demand, int64_t start) {
  for (const Demand::SlotRun& run : demand.slots) {
    auto& busy = busy_[size_t(run.slot)];
    int64_t begin = start + run.begin, end = start + run.end;
    auto next = busy.lower_bound(begin);
    if (next != busy.end() && next->first == end) {
      end = next->second;
      next = busy.erase(next);
    }
    if (next != busy.begin() && std::prev(next)->second == begin)
      std::prev(next)->second = end;
    else
      busy.emplace_hint(next, begin, end);
  }
  for (const Demand::PortRun& run : demand.ports) {
    auto& used_by = ports_[size_t(run.port)].used;
    auto it = std::find_if(used_by.begin(), used_by.end(),
                           [&run](const auto& entry) { return entry.first == run.places; });
    if (it == used_by.end()) it = used_by.insert(it, {run.places, {}});
    std::vector<uint8_t>& used = it->second;
    const size_t end = size_t(start + run.end);
    if (used.size() < end) used.resize(end + end / 2, 0);
    for (size_t c = size_t(start + run.begin); c < end; ++c) used[c] = uint8_t(used[c] + run.count);
  }
}

void Timeline::Release(const Demand& demand, int64_t start) {
  for (const Demand::SlotRun& run : demand.slots) {
    auto& busy = busy_[size_t(run.slot)];
    const int64_t begin = start + run.begin, end = start + run.end;
    auto it = std::prev(busy.upper_bound(begin));
    const int64_t was_end = it->second;
    if (it->first == begin)
      busy.erase(it);
    else
      it->second = begin;
    if (end < was_end) busy.emplace(end, was_end);
  }
  for (const Demand::PortRun& run : demand.ports)
    for (auto& [places, used] : ports_[size_t(run.port)].used)
      if (places == run.places)
        for (int64_t c = start + run.begin; c < start + run.end; ++c)
          used[size_t(c)] = uint8_t(used[size_t(c)] - run.count);
}

}  // namespace hsimd
