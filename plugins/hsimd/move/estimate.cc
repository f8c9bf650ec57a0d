/// estimate.cc: elements over rates, link by link.
#include "estimate.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hsimd {

namespace {

/// How much longer a move takes in pieces than at once: 3 to 6 on tree64 (estimate_test.cc).
constexpr int64_t kPieces = 4;

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
  const std::string* slot = nullptr;
};

/// Links between a level and the one above that has a memory, in one direction. `level`: 0 for the
/// link to memories off the chip. `serial`: levels whose places are served one after another.
Cost LinkCost(const Machine& machine, UnitKind kind, int child, const Spread& spread,
              const std::vector<bool>& serial = {}) {
  Cost best;
  for (const Unit& unit : machine.units) {
    if (unit.kind != kind || unit.child != child || (child > 0 && unit.parent >= child)) continue;
    for (const UnitOp& op : unit.ops) {
      if (!op.reduce.empty()) continue;
      int64_t passes = 1;
      for (int l = unit.parent + 1; l <= child; ++l) {
        const bool indexed = std::count(op.indexed.begin(), op.indexed.end(), l) > 0;
        const int64_t places = spread.places[size_t(l)];
        if (!serial.empty() && serial[size_t(l)])
          passes *= places;
        else if (kind == UnitKind::kUp ? !indexed : indexed != (places > 1))
          // Copies come up from one of them; under a mask every mode takes one place.
          passes *= std::max<int64_t>(1, indexed ? machine.levels[size_t(l)].count : places);
      }
      const int64_t n = ElementsBelow(spread, child) * passes;
      const int64_t issue = (n * op.rate.cycles + op.rate.elements - 1) / op.rate.elements;
      if (issue < best.issue) best = {issue, op.latency, &unit.slot};
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

/// Links of a way: those of one slot follow each other, others work side by side.
class WayCost {
 public:
  void Add(const Cost& cost) {
    if (cost.issue == INT64_MAX) {
      open_ = true;
      return;
    }
    latency_ += cost.latency;
    for (auto& [slot, issue] : slots_)
      if (*slot == *cost.slot) {
        issue += cost.issue;
        return;
      }
    slots_.emplace_back(cost.slot, cost.issue);
  }
  void Fail() { open_ = true; }
  int64_t cycles() const {
    if (open_) return INT64_MAX;
    int64_t slowest = 0;
    for (const auto& [slot, issue] : slots_) slowest = std::max(slowest, issue);
    return slowest + latency_;
  }

 private:
  std::vector<std::pair<const std::string*, int64_t>> slots_;
  int64_t latency_ = 0;
  bool open_ = false;
};

/// Whether the digits of both divide each other along every axis: runs move together then.
bool RadicesFit(const Spread& a, const Spread& b, size_t axes) {
  std::vector<std::vector<int64_t>> borders(axes);
  for (const Spread* s : {&a, &b})
    for (const std::vector<Weighed>& on : s->on)
      for (const Weighed& w : on) borders[w.axis].push_back(w.weight);
  for (std::vector<int64_t>& all : borders) {
    std::sort(all.begin(), all.end());
    for (size_t k = 1; k < all.size(); ++k)
      if (all[k] % all[k - 1] != 0) return false;
  }
  return true;
}

}  // namespace

int64_t EstimateMove(const Machine& machine, const TensorAt& from, const TensorAt& to) {
  const Memory& source = machine.memories[size_t(from.memory)];
  const Memory& target = machine.memories[size_t(to.memory)];
  const Spread a = SpreadOf(machine, from), b = SpreadOf(machine, to);
  const size_t levels = machine.levels.size();
  // The first level on which elements change their place: they pass through one above it.
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
  const auto climb = [&](WayCost& way, UnitKind kind, int level, int top, const Spread& spread,
                         const std::vector<bool>& serial) {
    for (int child = level; child > top;) {
      const int above = AboveOf(machine, child);
      if (above < 0) return way.Fail();
      way.Add(LinkCost(machine, kind, child, spread, above <= top ? serial : std::vector<bool>()));
      child = above;
    }
  };
  int64_t best = INT64_MAX;
  for (int top = near ? moved - 1 : 0; top >= 0; --top) {
    // Where words come from and go to other places below the turning point, they lie there in one
    // of both orders: the other link serves place by place.
    std::vector<bool> turned(levels, false);
    bool turns = false;
    if (near)
      for (size_t l = size_t(top) + 1; l < levels; ++l) {
        turned[l] = a.on[l] != b.on[l] && !a.on[l].empty() && !b.on[l].empty();
        turns = turns || turned[l];
      }
    for (const bool down : {true, false}) {
      WayCost way;
      if (source.off_chip) way.Add(LinkCost(machine, UnitKind::kDown, 0, b));
      if (target.off_chip) way.Add(LinkCost(machine, UnitKind::kUp, 0, a));
      if (!source.off_chip)
        climb(way, UnitKind::kUp, source.level, top, a, down ? std::vector<bool>() : turned);
      if (!target.off_chip)
        climb(way, UnitKind::kDown, target.level, top, b, down ? turned : std::vector<bool>());
      best = std::min(best, way.cycles());
      if (!turns) break;
    }
  }
  if (best == INT64_MAX) return best;
  const int64_t elements = from.layout.elements();
  // Runs move one by one, side by side in few places.
  if (!RadicesFit(a, b, from.layout.axes.size())) best += elements / machine.levels.back().count;
  // What has no room above goes in pieces, which wait for each other.
  for (const Memory& memory : machine.memories)
    if (memory.level == 0 && !memory.off_chip && elements > memory.words) best *= kPieces;
  return best;
}

}  // namespace hsimd
