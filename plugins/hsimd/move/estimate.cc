/// estimate.cc: elements over rates, link by link.
#include "estimate.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace hsimd {

namespace {

/// A digit of an element's index: what one step of it adds to the index, and how many.
struct Weighed {
  size_t axis = 0;
  int64_t weight = 1, size = 1, stride = 1;
  bool operator<(const Weighed& o) const {
    return std::tie(axis, weight, size, stride) < std::tie(o.axis, o.weight, o.size, o.stride);
  }
  bool operator==(const Weighed& o) const { return !(*this < o) && !(o < *this); }
};

/// What a layout says of each level, and of the address behind them.
struct Spread {
  std::vector<std::vector<Weighed>> on;  ///< by level; the last one: the address
  std::vector<int64_t> places;           ///< of a level that differ
  int64_t words = 1;                     ///< elements in a place of the last level
};

Spread SpreadOf(const Machine& machine, const TensorAt& tensor) {
  const size_t levels = machine.levels.size();
  Spread s;
  s.on.resize(levels + 1);
  s.places.assign(levels, 1);
  for (size_t a = 0; a < tensor.layout.axes.size(); ++a) {
    const std::vector<Digit>& digits = tensor.layout.axes[a];
    int64_t weight = 1, places = 1;
    for (size_t d = digits.size(); d-- > 0;) {
      const Digit& digit = digits[d];
      // What no element reaches is not there.
      const int64_t size = std::min(digit.size, (tensor.layout.shape[a] - 1) / weight + 1);
      if (size > 1) {
        const int level = digit.level == kAddress ? -1 : machine.LevelNamed(digit.level);
        std::vector<Weighed>& on = s.on[level < 0 ? levels : size_t(level)];
        // Steps that go on where the ones before end are one digit.
        if (!on.empty() && on.back().axis == a && on.back().weight * on.back().size == weight &&
            on.back().stride * on.back().size == digit.stride)
          on.back().size *= size;
        else
          on.push_back({a, weight, size, digit.stride});
        if (level >= 0) {
          s.places[size_t(level)] *= size;
          places *= size;
        }
      }
      weight *= digit.size;
    }
    s.words *= (tensor.layout.shape[a] - 1) / places + 1;
  }
  for (std::vector<Weighed>& on : s.on) std::sort(on.begin(), on.end());
  return s;
}

/// Elements that the places below one place of a level have together.
int64_t ElementsBelow(const Spread& s, int level) {
  int64_t n = s.words;
  for (size_t l = size_t(level) + 1; l < s.places.size(); ++l) n *= s.places[l];
  return n;
}

struct Cost {
  int64_t issue = INT64_MAX, latency = 0;
};

/// Links between a level and the one above that has a memory, in one direction. `level`: 0 for the
/// link to memories off the chip.
Cost LinkCost(const Machine& machine, UnitKind kind, int child, const Spread& spread) {
  Cost best;
  for (const Unit& unit : machine.units) {
    if (unit.kind != kind || unit.child != child || (child > 0 && unit.parent >= child)) continue;
    for (const UnitOp& op : unit.ops) {
      if (!op.reduce.empty()) continue;
      int64_t passes = 1;
      for (int l = unit.parent + 1; l <= child; ++l) {
        const bool indexed = std::count(op.indexed.begin(), op.indexed.end(), l) > 0;
        const int64_t places = spread.places[size_t(l)];
        // Copies come up from one of them; under a mask every mode takes one place.
        if (kind == UnitKind::kUp ? !indexed : indexed != (places > 1)) passes *= std::max<int64_t>(
            1, indexed ? machine.levels[size_t(l)].count : places);
      }
      const int64_t n = ElementsBelow(spread, child) * passes;
      const int64_t issue = (n * op.rate.cycles + op.rate.elements - 1) / op.rate.elements;
      if (issue < best.issue) best = {issue, op.latency};
    }
  }
  return best;
}

/// The level above `child` to which its links lead; -1: none.
int AboveOf(const Machine& machine, int child) {
  int above = -1;
  for (const Unit& unit : machine.units)
    if (unit.kind == UnitKind::kDown && unit.child == child && unit.parent < child)
      above = std::max(above, unit.parent);
  return above;
}

}  // namespace

int64_t EstimateMove(const Machine& machine, const TensorAt& from, const TensorAt& to) {
  const Memory& source = machine.memories[size_t(from.memory)];
  const Memory& target = machine.memories[size_t(to.memory)];
  const Spread a = SpreadOf(machine, from), b = SpreadOf(machine, to);
  const size_t levels = machine.levels.size();
  int64_t slowest = 0, sum = 0, latency = 0;
  bool open = false;
  const auto add = [&](const Cost& cost) {
    open = open || cost.issue == INT64_MAX;
    if (open) return;
    slowest = std::max(slowest, cost.issue);
    sum += cost.issue;
    latency += cost.latency;
  };
  // The first level on which elements change their place: they pass through the level above it.
  int moved = int(levels);
  for (int l = int(levels) - 1; l >= 0; --l)
    if (a.on[size_t(l)] != b.on[size_t(l)]) moved = l;
  const bool near = !source.off_chip && !target.off_chip;
  if (near && source.level == target.level && moved == int(levels)) {
    if (from.memory == to.memory && a.on[levels] == b.on[levels]) return 0;
    // Each word is read and written; a memory with one access a cycle takes them in turn.
    const bool one = from.memory == to.memory && source.accesses == 1;
    return (one ? 2 : 1) * b.words + 8;
  }
  if (source.off_chip) add(LinkCost(machine, UnitKind::kDown, 0, b));
  if (target.off_chip) add(LinkCost(machine, UnitKind::kUp, 0, a));
  const int top = near ? moved - 1 : 0;
  const auto climb = [&](UnitKind kind, int level, const Spread& spread) {
    for (int child = level; child > top;) {
      const int above = AboveOf(machine, child);
      if (above < 0) {
        open = true;
        return;
      }
      add(LinkCost(machine, kind, child, spread));
      child = above;
    }
  };
  if (!source.off_chip) climb(UnitKind::kUp, source.level, a);
  if (!target.off_chip) climb(UnitKind::kDown, target.level, b);
  if (open) return INT64_MAX;
  // Links work side by side as far as words come in the order in which they go on.
  return slowest + (sum - slowest) / 2 + latency;
}

}  // namespace hsimd
