/// footprint.cc: words and ports of the five kinds of units.
#include "footprint.h"

#include <algorithm>

#include "check.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {
namespace {

bool Has(const std::vector<uint64_t>& set, int64_t place) {
  return set.empty() || (set[size_t(place / 64)] >> (place % 64) & 1) != 0;
}

}  // namespace

PlaceTable::PlaceTable(const Machine& machine) : machine_(machine) {}

std::vector<uint64_t> PlaceTable::Normal(const Mask& mask, int level) const {
  if (size_t(level) >= mask.levels.size()) return {};
  const std::vector<uint64_t>& set = mask.levels[size_t(level)];
  const int64_t count = machine_.levels[size_t(level)].count;
  bool all = true;
  for (int64_t p = 0; p < count && all; ++p) all = Has(set, p);
  return all ? std::vector<uint64_t>{} : set;
}

int PlaceTable::Intern(Set set) {
  while (!set.empty() && set.back().empty()) set.pop_back();
  const auto [it, is_new] = numbers_.emplace(set, int(sets_.size()));
  if (!is_new) return it->second;
  sets_.push_back(set);
  const auto level = [](const Set& s, size_t l) {
    return l < s.size() ? s[l] : std::vector<uint64_t>{};
  };
  const auto fill = [&](int a, int b, char* meet, char* within) {
    const Set &x = sets_[size_t(a)], &y = sets_[size_t(b)];
    *meet = *within = 1;
    for (size_t l = 0; l < std::max(x.size(), y.size()); ++l) {
      const std::vector<uint64_t> p = level(x, l), q = level(y, l);
      bool common = false, inside = true;
      for (int64_t k = 0; k < machine_.levels[l].count; ++k) {
        common = common || (Has(p, k) && Has(q, k));
        inside = inside && (!Has(p, k) || Has(q, k));
      }
      if (!common) *meet = 0;
      if (!inside) *within = 0;
    }
  };
  const size_t n = sets_.size();
  for (auto& row : meet_) row.push_back(0);
  for (auto& row : within_) row.push_back(0);
  meet_.emplace_back(n, 0);
  within_.emplace_back(n, 0);
  for (size_t k = 0; k < n; ++k) {
    fill(int(n - 1), int(k), &meet_[n - 1][k], &within_[n - 1][k]);
    fill(int(k), int(n - 1), &meet_[k][n - 1], &within_[k][n - 1]);
  }
  return it->second;
}

int PlaceTable::Of(const Mask& mask, int level, int shift) {
  Set set;
  for (int l = 0; l <= level; ++l) set.push_back(Normal(mask, l));
  if (shift != 0 && !set.back().empty()) {
    const int64_t count = machine_.levels[size_t(level)].count;
    std::vector<uint64_t> moved(set.back().size(), 0);
    for (int64_t p = 0; p < count; ++p) {
      const int64_t to = weft::FloorModulo(p + shift, count);
      if (Has(set.back(), p)) moved[size_t(to / 64)] |= uint64_t{1} << (to % 64);
    }
    set.back() = moved;
  }
  return Intern(std::move(set));
}

bool PlaceTable::Meet(int a, int b) const { return meet_[size_t(a)][size_t(b)] != 0; }
bool PlaceTable::Within(int a, int b) const { return within_[size_t(a)][size_t(b)] != 0; }

std::vector<int64_t> PlaceTable::OffsetsOf(const Mask& mask,
                                           const std::vector<int>& indexed) const {
  std::vector<int64_t> offsets{0};
  std::vector<int> levels = indexed;
  std::sort(levels.rbegin(), levels.rend());
  int64_t scale = 1;
  for (int l : levels) {
    const std::vector<uint64_t> set = Normal(mask, l);
    std::vector<int64_t> more;
    for (int64_t p = 0; p < machine_.levels[size_t(l)].count; ++p)
      if (Has(set, p))
        for (int64_t offset : offsets) more.push_back(offset + p * scale);
    offsets = std::move(more);
    scale *= machine_.levels[size_t(l)].count;
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

Footprint FootprintOf(const Machine& machine, const Instruction& in, PlaceTable* places) {
  WEFT_ICHECK(in.unit >= 0 && size_t(in.unit) < machine.units.size(), "unit {}", in.unit);
  const Unit& unit = machine.units[size_t(in.unit)];
  WEFT_ICHECK(in.op >= 0 && size_t(in.op) < unit.ops.size(), "operation {} of {}", in.op,
              unit.name);
  WEFT_ICHECK(in.count[0] > 0 && in.count[1] > 0 && in.count[2] > 0 && in.start >= 0,
              "{}: counts and start", in.note);
  const UnitOp& op = unit.ops[size_t(in.op)];
  Footprint out;
  const int64_t n = in.elements();
  out.held = CyclesHeld(in, machine);
  out.finished = op.rate.StartOf(n - 1) + op.latency;

  // A place set and the words beside the first of an operand.
  const bool link = unit.kind == UnitKind::kDown || unit.kind == UnitKind::kUp;
  const auto touch = [&](const Stream& stream, bool write) {
    WEFT_ICHECK(stream.memory >= 0 && size_t(stream.memory) < machine.memories.size(),
                "{}: memory {}", in.note, stream.memory);
    const Memory& memory = machine.memories[size_t(stream.memory)];
    Touch t{stream.memory, 0, stream, {0}};
    const bool above = link && write == (unit.kind == UnitKind::kUp);
    const int shift = unit.kind == UnitKind::kRing && !write ? op.shift : 0;
    t.places = places->Of(in.mask, memory.level, shift);
    if (above) t.offsets = places->OffsetsOf(in.mask, op.indexed);
    WEFT_ICHECK(!t.offsets.empty(), "{}: the mask leaves no place", in.note);
    // A word that belongs to places outside the mask is not touched.
    const auto [least, most] = AddressRange(stream, in.count);
    const int64_t low = weft::CheckedAdd(least, t.offsets.front());
    const int64_t high = weft::CheckedAdd(most, t.offsets.back());
    WEFT_ICHECK(low >= 0 && high < memory.words, "{}: {}[{}..{}] of {} words", in.note, memory.name,
                low, high, memory.words);
    return t;
  };
  for (size_t s = 0; s < in.sources.size(); ++s) {
    const Stream& stream = in.sources[s];
    if (stream.memory < 0) continue;
    Touch t = touch(stream, false);
    int each = 1;
    if (unit.kind == UnitKind::kMatrix && s == 0) {
      each = int(machine.levels.back().count);
      t.offsets.clear();
      for (int j = 0; j < each; ++j) t.offsets.push_back(j);
    }
    if (!ReadBefore(in, unit.kind, s)) out.ports.push_back({t.memory, t.places, false, each, 0});
    out.reads.push_back(std::move(t));
  }
  out.writes.push_back(touch(in.target, true));
  out.ports.push_back({in.target.memory, out.writes[0].places, true, 1, op.latency - 1});
  return out;
}

}  // namespace hsimd
