/// merge.cc: blocks on one timeline. Groups of instructions are placed one after another, each into
/// the earliest gap; what differs between schedules is the order in which they are.
#include "merge.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "dependences.h"
#include "timeline.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

/// A direction of time: demands and distances as they are, or mirrored.
struct Direction {
  std::vector<Demand> demands;
  std::vector<std::vector<std::pair<int, int64_t>>> out, in;  ///< (other group, distance)
};

using Starts = std::vector<int64_t>;

/// xorshift; the standard library's distributions differ between implementations.
class Random {
 public:
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  double Unit() { return double(Next() >> 11) / double(uint64_t{1} << 53); }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

class Merger {
 public:
  Merger(const Machine& machine, const Dependences& program, const PlaceTable& places,
         const MergeEffort& effort)
      : program_(program), places_(places), resources_(machine), effort_(effort) {
    const size_t n = program.groups.size();
    forward_.demands = resources_.DemandsOf(program);
    forward_.out.resize(n);
    forward_.in.resize(n);
    backward_.out.resize(n);
    backward_.in.resize(n);
    for (const Demand& demand : forward_.demands) backward_.demands.push_back(Mirrored(demand));
    for (const Distance& d : program.distances) {
      forward_.out[size_t(d.from)].emplace_back(d.to, d.distance);
      forward_.in[size_t(d.to)].emplace_back(d.from, d.distance);
      const int64_t mirrored = Length(d.from) - Length(d.to) + d.distance;
      backward_.out[size_t(d.to)].emplace_back(d.from, mirrored);
      backward_.in[size_t(d.from)].emplace_back(d.to, mirrored);
    }
    tails_.assign(n, 0);
    for (size_t g = n; g-- > 0;) {
      tails_[g] = Length(int(g));
      for (const auto& [to, distance] : forward_.out[g])
        tails_[g] = std::max(tails_[g], distance + tails_[size_t(to)]);
    }
    bound_ = Bound();
    // The blocks one after another are a schedule too.
    best_.assign(n, 0);
    for (size_t g = 0; g < n; ++g) {
      const Group::Member& member = program.groups[g].members[0];
      best_[g] = program.instructions[size_t(member.instruction)].start - member.offset;
    }
    cycles_ = program.sequence_cycles;
  }

  void Improve() {
    std::vector<double> keys(tails_.begin(), tails_.end());
    const std::vector<double> tails = keys;
    const Starts sequence = best_;
    Try(Place(forward_, keys));
    for (size_t g = 0; g < keys.size(); ++g) keys[g] = -double(sequence[g]);
    Try(Place(forward_, keys));
    work_ = 0;
    Swing();
    if (program_.groups.size() <= size_t(effort_.exact_instructions)) SearchThrough();
    // Orders near that of the best schedule, and near that of the tails.
    Random random;
    for (int round = 0; cycles_ > bound_ && work_ < effort_.work; ++round) {
      const double spread = (0.02 + 0.2 * random.Unit()) * double(cycles_);
      for (size_t g = 0; g < keys.size(); ++g)
        keys[g] =
            (round % 3 == 2 ? tails[g] : -double(best_[g])) + spread * (2 * random.Unit() - 1);
      Try(Place(forward_, keys));
      if (round % 2 == 0) Swing();
    }
  }

  const Starts& starts() const { return best_; }
  int64_t cycles() const { return cycles_; }
  int64_t bound() const { return bound_; }

 private:
  int64_t Length(int group) const { return forward_.demands[size_t(group)].length; }

  int64_t Bound() const {
    int64_t bound = 0;
    Starts heads(tails_.size(), 0);
    // Of a slot: what it holds, between the soonest start and the shortest rest.
    std::vector<int64_t> held(size_t(resources_.slots()), 0);
    std::vector<int64_t> soonest(held.size(), INT64_MAX), rest(held.size(), INT64_MAX);
    for (size_t g = 0; g < heads.size(); ++g) {
      bound = std::max(bound, heads[g] + tails_[g]);
      for (const auto& [to, distance] : forward_.out[g])
        heads[size_t(to)] = std::max(heads[size_t(to)], heads[g] + distance);
      for (const Demand::SlotRun& run : forward_.demands[g].slots) {
        const size_t s = size_t(run.slot);
        held[s] += run.end - run.begin;
        soonest[s] = std::min(soonest[s], heads[g] + run.begin);
        rest[s] = std::min(rest[s], tails_[g] - run.end);
      }
    }
    for (size_t s = 0; s < held.size(); ++s)
      if (held[s] > 0) bound = std::max(bound, soonest[s] + held[s] + rest[s]);
    return bound;
  }

  int64_t EarliestOf(const Direction& direction, int group, const Starts& starts) const {
    int64_t earliest = 0;
    for (const auto& [from, distance] : direction.in[size_t(group)])
      earliest = std::max(earliest, starts[size_t(from)] + distance);
    return earliest;
  }

  /// Places what is ready with the highest key first.
  Starts Place(const Direction& direction, const std::vector<double>& keys) {
    const size_t n = keys.size();
    Timeline timeline(resources_, places_);
    Starts starts(n, 0);
    std::vector<int> waits(n, 0);
    std::priority_queue<std::pair<double, int>> ready;
    const auto make_ready = [&](int g) { ready.emplace(keys[size_t(g)], -g); };
    for (size_t g = 0; g < n; ++g) {
      waits[g] = int(direction.in[g].size());
      if (waits[g] == 0) make_ready(int(g));
    }
    while (!ready.empty()) {
      const int g = -ready.top().second;
      ready.pop();
      const Demand& demand = direction.demands[size_t(g)];
      const int64_t earliest = EarliestOf(direction, g, starts);
      starts[size_t(g)] = timeline.FirstFit(demand, earliest, &work_);
      timeline.Take(demand, starts[size_t(g)]);
      work_ += 50 + 4 * int64_t(direction.in[size_t(g)].size());
      for (const auto& [to, distance] : direction.out[size_t(g)])
        if (--waits[size_t(to)] == 0) make_ready(to);
    }
    return starts;
  }

  int64_t CyclesOf(const Starts& starts) const {
    int64_t cycles = 0;
    for (size_t g = 0; g < starts.size(); ++g)
      cycles = std::max(cycles, starts[g] + Length(int(g)));
    return cycles;
  }

  bool Try(const Starts& starts) {
    const int64_t cycles = CyclesOf(starts);
    if (cycles >= cycles_) return false;
    cycles_ = cycles;
    best_ = starts;
    return true;
  }

  /// From behind as late as can be, latest first; then from the front as early as can be.
  void Swing() {
    for (bool better = true; better && cycles_ > bound_ && work_ < effort_.work;) {
      std::vector<double> keys;
      for (size_t g = 0; g < best_.size(); ++g) keys.push_back(double(best_[g] + Length(int(g))));
      const Starts mirrored = Place(backward_, keys);
      const int64_t cycles = CyclesOf(mirrored);
      for (size_t g = 0; g < keys.size(); ++g)
        keys[g] = -double(cycles - (mirrored[g] + Length(int(g))));
      better = Try(Place(forward_, keys));
    }
  }

  /// All orders, by branch and bound.
  void SearchThrough() {
    const int n = int(best_.size());
    Timeline timeline(resources_, places_);
    Starts starts(best_.size(), 0);
    std::vector<int> waits(best_.size(), 0);
    for (int g = 0; g < n; ++g) waits[size_t(g)] = int(forward_.in[size_t(g)].size());
    std::vector<char> placed(best_.size(), 0);
    const int64_t most = work_ + effort_.work / 2;
    const std::function<void(int)> search = [&](int done) {
      if (done == n) {
        Try(starts);
        return;
      }
      // Longest tail first: good schedules soon.
      std::vector<std::pair<int64_t, int>> ready;
      for (int g = 0; g < n; ++g)
        if (placed[size_t(g)] == 0 && waits[size_t(g)] == 0)
          ready.emplace_back(-tails_[size_t(g)], g);
      std::sort(ready.begin(), ready.end());
      for (const auto& [tail, g] : ready) {
        if (cycles_ <= bound_ || work_ > most) return;
        const Demand& demand = forward_.demands[size_t(g)];
        const int64_t at = timeline.FirstFit(demand, EarliestOf(forward_, g, starts), &work_);
        work_ += 50;
        if (at - tail >= cycles_) continue;
        starts[size_t(g)] = at;
        placed[size_t(g)] = 1;
        timeline.Take(demand, at);
        for (const auto& edge : forward_.out[size_t(g)]) --waits[size_t(edge.first)];
        search(done + 1);
        for (const auto& edge : forward_.out[size_t(g)]) ++waits[size_t(edge.first)];
        timeline.Release(demand, at);
        placed[size_t(g)] = 0;
      }
    };
    search(0);
  }

  const Dependences& program_;
  const PlaceTable& places_;
  Resources resources_;
  const MergeEffort& effort_;
  Direction forward_, backward_;
  std::vector<int64_t> tails_;
  Starts best_;
  int64_t cycles_ = 0, bound_ = 0, work_ = 0;
};

MergedProgram WithStarts(const Dependences& program, const Starts& starts) {
  MergedProgram out;
  out.instructions = program.instructions;
  for (size_t g = 0; g < starts.size(); ++g)
    for (const Group::Member& member : program.groups[g].members)
      out.instructions[size_t(member.instruction)].start = starts[g] + member.offset;
  std::stable_sort(out.instructions.begin(), out.instructions.end(),
                   [](const Instruction& a, const Instruction& b) { return a.start < b.start; });
  return out;
}

}  // namespace

MergedProgram SequenceBlocks(const Machine& machine, const std::vector<Block>& blocks) {
  PlaceTable places(machine);
  MergedProgram out;
  int64_t begin = 0;
  for (const Block& block : blocks) {
    int64_t end = begin;
    for (const Instruction& instruction : block.instructions) {
      const Footprint footprint = FootprintOf(machine, instruction, &places);
      out.instructions.push_back(instruction);
      out.instructions.back().start += begin;
      const int64_t start = out.instructions.back().start;
      end = std::max(end, start + std::max(footprint.finished, footprint.held));
      out.cycles = std::max(out.cycles, start + footprint.finished);
    }
    begin = end;
  }
  std::stable_sort(out.instructions.begin(), out.instructions.end(),
                   [](const Instruction& a, const Instruction& b) { return a.start < b.start; });
  out.sequence_cycles = out.cycles;
  return out;
}

MergedProgram MergeBlocks(const Machine& machine, const std::vector<Block>& blocks,
                          const MergeEffort& effort) {
  PlaceTable places(machine);
  const Dependences program = FindDependences(machine, blocks, &places);
  Merger merger(machine, program, places, effort);
  merger.Improve();
  MergedProgram out = WithStarts(program, merger.starts());
  out.cycles = merger.cycles();
  out.sequence_cycles = program.sequence_cycles;
  out.bound_cycles = std::min(merger.bound(), merger.cycles());
  return out;
}

}  // namespace hsimd
