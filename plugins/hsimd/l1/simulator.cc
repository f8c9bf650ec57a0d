/// simulator.cc: the clock, and what the elements of each kind of unit do.
///
/// Instructions that overlap.h finds in nobody's way run all their elements up to the next start at
/// once, with a check for words that nothing has written. The others run in windows of cycles: as
/// long as no two of them touch a word that one of them writes, each runs its elements of the
/// window at once; where they may, windows shrink to one cycle, within which order does not matter:
/// two elements of one cycle that share a written word are a hazard. After a hazard the run is
/// repeated cycle by cycle, so that the hazard told is the first by cycle and then by instruction.
#include "simulator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <map>

#include "../machine/alu_ops.h"
#include "bank.h"
#include "check.h"
#include "matrix_unit.h"
#include "overlap.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

constexpr int64_t kLargestWindow = 256;
/// Cycles that no window spans; times the largest rate it stays in 64 bits.
constexpr int64_t kFar = int64_t{1} << 40;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Words that an element reads or writes: address .. address + n - 1 in a set of places.
struct Touch {
  Bank* bank;
  int stream;  ///< 0: the target; 1 + s: source s
  int set;
  int64_t offset, n;
};
struct PortUse {
  Bank* bank;
  int stream, set, reads, writes;
};

/// An instruction that is under way.
struct Active {
  const Instruction* i = nullptr;
  int64_t index = 0;
  const LinkPlan* plan = nullptr;
  UnitKind kind{};
  Rate rate;
  int64_t latency = 1, n = 0;
  AluLanes lanes = nullptr;  ///< of the ALU, and of reductions
  std::array<Bank*, 4> banks{};
  std::array<std::array<int64_t, 3>, 4> strides{};
  std::vector<Touch> reads, writes;
  std::vector<PortUse> ports;
  std::array<std::vector<uint32_t>, 3> immediates;  ///< rows of one word

  uint8_t overlaps = 0;  ///< Overlaps::words: hazards of words are looked for by element
  bool counts_ports = false;
  int64_t row_chunk = 1;  ///< rows in an immediate

  // Where it is.
  int64_t k = 0, issue = 0;
  std::array<int64_t, 3> digits{};
  std::array<int64_t, 4> address{};

  bool done() const { return k == n; }
  int64_t left_in_row() const { return i->count[2] - digits[2]; }
  /// By elements, no further than to the end of the row of the last counter.
  void AdvanceBy(int64_t m) {
    k += m;
    issue = i->start + (rate.elements == 1 ? k * rate.cycles : rate.StartOf(k));
    digits[2] += m;
    for (size_t s = 0; s < 4; ++s) address[s] += m * strides[s][2];
    for (size_t c = 2; c > 0 && digits[c] == i->count[c]; --c) {
      digits[c] = 0;
      ++digits[c - 1];
      for (size_t s = 0; s < 4; ++s) address[s] += strides[s][c - 1] - strides[s][c] * i->count[c];
    }
  }
  /// The first element that issues in a cycle >= `cycle`.
  int64_t ElementAt(int64_t cycle) const {
    if (cycle - i->start > kFar) return n;
    if (rate.cycles == 1) return std::min(n, (cycle - i->start) * rate.elements);
    return std::min(n, ((cycle - i->start) * rate.elements + rate.cycles - 1) / rate.cycles);
  }
};

/// What an ALU does, or a reduction with two words; null for others.
AluLanes LanesOfOp(const Unit& unit, const UnitOp& op) {
  if (unit.kind == UnitKind::kAlu) return LanesOf(*AluOpNamed(op.name));
  if (op.reduce.empty()) return nullptr;
  const std::string name = op.reduce[0] == 'i' ? op.reduce : "f" + op.reduce;
  return LanesOf(name == "fsum" ? AluOp::kFAdd : name == "isum" ? AluOp::kIAdd : *AluOpNamed(name));
}

/// Addresses that the elements [from, to) of an instruction touch in a bank, at most.
struct Footprint {
  const Bank* bank;
  int64_t least, most;
};

}  // namespace

struct Simulator::State {
  State(Machine machine, Program program) : m(std::move(machine)), p(std::move(program)) {}

  Machine m;
  Program p;
  PlaceSets sets;
  std::vector<Bank> banks;
  std::deque<LinkPlan> plans;
  std::vector<int32_t> plan_of;  ///< by instruction
  Overlaps overlaps;
  std::vector<int> slot_of;                     ///< by unit
  std::vector<std::vector<AluLanes>> lanes_of;  ///< by unit and operation
  bool passed = false;                          ///< a run without hazards is behind us
  std::vector<Active> actives;
  std::vector<Active*> running;
  bool in_order = false;
  int64_t window = kLargestWindow;
  Execution result;
  std::vector<int64_t> touched_words, extent_words;  ///< of the run that passed

  void Prepare(int64_t max_bytes);
  void MakeBanks(int64_t max_bytes);
  void MakePlans();
  void Reset();
  std::optional<Hazard> Execute(bool checked, bool ordered);

  void Start(int64_t index);
  void AddTouches(Active* a);
  bool AreIndependent(int64_t until) const;
  int64_t WindowEnd(int64_t now, int64_t next_start);
  template <bool checked>
  void Loop();
  template <bool checked>
  void RunUntil(Active* a, int64_t until);
  void Check(Active* a, int64_t m);
  void CheckByElement(const Active& a, int64_t m);
  void CountPorts(const Active& a, int64_t m);
  void Compute(Active* a, int64_t m);
  void RunAlu(const Active& a, int64_t m);
  void RunMatrix(const Active& a, int64_t m);
  void RunCopies(Active* a, int64_t m);
  void RunReduction(Active* a, int64_t m);
};

void Simulator::State::Prepare(int64_t max_bytes) {
  CheckProgram(p, m);
  MakeBanks(max_bytes);
  MakePlans();
  overlaps = FindOverlaps(p, m);
  std::map<std::string, int> slots;
  for (const Unit& u : m.units) {
    slot_of.push_back(slots.try_emplace(u.slot, int(slots.size())).first->second);
    lanes_of.emplace_back();
    for (const UnitOp& op : u.ops) lanes_of.back().push_back(LanesOfOp(u, op));
  }
  actives.resize(slots.size());
}

void Simulator::State::MakeBanks(int64_t max_bytes) {
  std::vector<int64_t> words(m.memories.size(), 0);
  const auto need = [&](int memory, int64_t n) {
    int64_t& w = words[size_t(memory)];
    w = std::min(std::max(w, n), m.memories[size_t(memory)].words);
  };
  for (const Segment& s : p.segments) need(s.memory, s.base + s.words);
  for (const Instruction& i : p.instructions) {
    const Unit& unit = m.units[size_t(i.unit)];
    // What lies behind the address of an element: words of other places, a row of A.
    const int64_t behind = m.levels.back().count * m.WordsAbove(unit.ops[size_t(i.op)]);
    need(i.target.memory, AddressRange(i.target, i.count).second + behind);
    for (const Stream& s : i.sources) {
      if (s.memory >= 0) need(s.memory, AddressRange(s, i.count).second + behind);
    }
  }
  int64_t latency = 1, bytes = 0;
  for (const Unit& u : m.units) {
    for (const UnitOp& op : u.ops) latency = std::max(latency, op.latency);
  }
  for (size_t k = 0; k < words.size(); ++k) {
    const int64_t more = Bank::BytesFor(m.PlacesOf(m.memories[k].level), words[k]);
    bytes = more > max_bytes - bytes ? max_bytes + 1 : bytes + more;
    WEFT_CHECK(bytes <= max_bytes, kLimit,
               "simulating {} words of {} in every place needs more than {} bytes", words[k],
               m.memories[k].name, max_bytes);
  }
  for (size_t k = 0; k < words.size(); ++k)
    banks.emplace_back(int(k), m.memories[k], m.PlacesOf(m.memories[k].level), words[k],
                       latency + kLargestWindow + 2, &sets);
}

void Simulator::State::MakePlans() {
  std::map<std::tuple<int, int, std::vector<std::vector<uint64_t>>>, int32_t> known;
  for (const Instruction& i : p.instructions) {
    const auto [it, is_new] =
        known.try_emplace({i.unit, i.op, i.mask.levels}, int32_t(plans.size()));
    if (is_new) {
      const Unit& unit = m.units[size_t(i.unit)];
      plans.push_back(MakeLinkPlan(m, unit, unit.ops[size_t(i.op)], i.mask, &sets));
    }
    plan_of.push_back(it->second);
  }
}

void Simulator::State::Reset() {
  for (size_t k = 0; k < banks.size(); ++k) banks[k].Reset(m.memories[k].off_chip);
  for (const Segment& s : p.segments) {
    if (!s.is_output) banks[size_t(s.memory)].MarkWritten(s.base, s.base + s.words);
  }
}

void Simulator::State::Start(int64_t index) {
  const Instruction& i = p.instructions[size_t(index)];
  const Unit& unit = m.units[size_t(i.unit)];
  const UnitOp& op = unit.ops[size_t(i.op)];
  Active* a = &actives[size_t(slot_of[size_t(i.unit)])];
  a->i = &i;
  a->index = index;
  a->plan = &plans[size_t(plan_of[size_t(index)])];
  a->kind = unit.kind;
  a->rate = op.rate;
  a->latency = op.latency;
  a->n = i.elements();
  a->k = 0;
  a->issue = i.start;
  a->digits = {0, 0, 0};
  a->lanes = lanes_of[size_t(i.unit)][size_t(i.op)];
  a->overlaps = in_order ? Overlaps::kOwn | Overlaps::kOther : overlaps.words[size_t(index)];
  a->counts_ports = in_order || overlaps.ports[size_t(index)];
  a->row_chunk = std::min<int64_t>(i.count[2], 16);
  const auto bind = [&](size_t at, const Stream& s) {
    a->banks[at] = s.memory < 0 ? nullptr : &banks[size_t(s.memory)];
    a->strides[at] = s.stride;
    a->address[at] = s.base;
  };
  bind(0, i.target);
  for (size_t s = 0; s < 3; ++s) {
    bind(1 + s, s < i.sources.size() ? i.sources[s] : Stream());
    if (s < i.sources.size() && i.sources[s].memory < 0)
      a->immediates[s].assign(size_t(a->banks[0]->places() * a->row_chunk), i.sources[s].immediate);
  }
  AddTouches(a);
  result.busy[size_t(i.unit)] += CyclesHeld(i, m);
  running.push_back(a);
}

void Simulator::State::AddTouches(Active* a) {
  a->reads.clear();
  a->writes.clear();
  a->ports.clear();
  const LinkPlan& plan = *a->plan;
  const bool from_parent = a->kind == UnitKind::kDown, to_parent = a->kind == UnitKind::kUp;
  // The words of a parent: one touch for neighbouring words in the same places.
  const auto parent = [&](int stream, std::vector<Touch>* out) {
    for (const LinkPlan::Offset& o : plan.offsets) {
      if (!out->empty() && out->back().set == o.set &&
          out->back().offset + out->back().n == o.offset)
        ++out->back().n;
      else
        out->push_back({a->banks[size_t(stream)], stream, o.set, o.offset, 1});
    }
  };
  for (size_t s = 0; s < a->i->sources.size(); ++s) {
    Bank* bank = a->banks[1 + s];
    if (!bank) continue;
    const auto stream = int(1 + s);
    if (from_parent) {
      parent(stream, &a->reads);
      a->ports.push_back({bank, stream, plan.source_set, 1, 0});
      continue;
    }
    if (ReadBefore(*a->i, a->kind, s)) continue;
    const bool is_a = a->kind == UnitKind::kMatrix && s == 0;
    const int64_t n = is_a ? m.levels.back().count : 1;
    a->reads.push_back({bank, stream, plan.source_set, 0, n});
    a->ports.push_back({bank, stream, plan.source_set, int(n), 0});
  }
  if (to_parent)
    parent(0, &a->writes);
  else
    a->writes.push_back({a->banks[0], 0, plan.target_set, 0, 1});
  a->ports.push_back({a->banks[0], 0, plan.target_set, 0, 1});
  a->ports.erase(std::remove_if(a->ports.begin(), a->ports.end(),
                                [](const PortUse& u) { return !u.bank->has_ports(); }),
                 a->ports.end());
}

/// True where no running instruction touches, before the cycle, a word that another one writes.
bool Simulator::State::AreIndependent(int64_t until) const {
  constexpr size_t kMost = 16;
  std::array<std::array<Footprint, 4>, kMost> all;
  if (running.size() > kMost) return false;
  size_t r = 0;
  for (const Active* running_one : running) {
    const Active& a = *running_one;
    if (!(a.overlaps & Overlaps::kOther)) continue;
    const std::array<int64_t, 3>& count = a.i->count;
    const int64_t last = std::max(a.k, a.ElementAt(until) - 1);
    const std::array<int64_t, 3> from = a.digits,
                                 to = {last / (count[1] * count[2]), last / count[2] % count[1],
                                       last % count[2]};
    for (size_t s = 0; s < 4; ++s) {
      Footprint& f = all[r][s];
      f.bank = a.banks[s];
      f.least = f.most = s == 0                     ? a.i->target.base
                         : s <= a.i->sources.size() ? a.i->sources[s - 1].base
                                                    : 0;
      bool whole = false;  // a counter further out turns
      for (size_t d = 0; d < 3; ++d) {
        const int64_t lo = whole ? 0 : from[d], hi = whole ? count[d] - 1 : to[d];
        const int64_t x = lo * a.strides[s][d], y = hi * a.strides[s][d];
        f.least += std::min(x, y);
        f.most += std::max(x, y);
        whole |= lo != hi;
      }
      const bool at_parent = a.kind == (s == 0 ? UnitKind::kUp : UnitKind::kDown);
      if (at_parent) f.most += a.plan->reach;
      if (a.kind == UnitKind::kMatrix && s == 1) f.most += m.levels.back().count - 1;
    }
    for (size_t q = 0; q < r; ++q) {
      for (size_t s = 0; s < 4; ++s) {
        for (size_t t = 0; t < 4; ++t) {
          if (s != 0 && t != 0) continue;
          const Footprint &x = all[r][s], &y = all[q][t];
          if (x.bank && x.bank == y.bank && x.least <= y.most && y.least <= x.most) return false;
        }
      }
    }
    ++r;
  }
  return true;
}

void Simulator::State::Check(Active* a, int64_t m) {
  if (a->counts_ports && !a->overlaps) CountPorts(*a, m);
  if (a->overlaps) return CheckByElement(*a, m);
  const Access access{a->index, a->k, a->issue};
  for (const Touch& t : a->reads)
    t.bank->ReadAll(a->address[size_t(t.stream)] + t.offset, a->strides[size_t(t.stream)][2], m,
                    t.n, t.set, access);
  for (const Touch& t : a->writes)
    t.bank->WriteAll(a->address[size_t(t.stream)] + t.offset, a->strides[size_t(t.stream)][2], m,
                     t.n, t.set);
}

namespace {

void UsePort(const Active& a, const PortUse& u, int64_t e, const Access& access) {
  u.bank->UsePorts(u.writes ? access.cycle + a.latency - 1 : access.cycle, u.reads, u.writes,
                   a.address[size_t(u.stream)] + e * a.strides[size_t(u.stream)][2], u.set, access);
}

/// Calls f(element, its access) for m elements from where the instruction is.
template <class F>
void ForElements(const Active& a, int64_t m, F f) {
  int64_t issue = a.issue, phase = a.k * a.rate.cycles % a.rate.elements;
  for (int64_t e = 0; e < m; ++e) {
    f(e, Access{a.index, a.k + e, issue});
    phase += a.rate.cycles;
    if (phase < a.rate.elements) continue;
    issue += a.rate.elements == 1 ? phase : phase / a.rate.elements;
    phase = a.rate.elements == 1 ? 0 : phase % a.rate.elements;
  }
}

}  // namespace

void Simulator::State::CheckByElement(const Active& a, int64_t m) {
  ForElements(a, m, [&](int64_t e, const Access& access) {
    const auto address = [&](const Touch& t) {
      return a.address[size_t(t.stream)] + e * a.strides[size_t(t.stream)][2] + t.offset;
    };
    for (const Touch& t : a.reads) {
      for (int64_t w = 0; w < t.n; ++w) t.bank->CheckRead(address(t) + w, t.set, access);
    }
    for (const Touch& t : a.writes) {
      for (int64_t w = 0; w < t.n; ++w) t.bank->CheckWrite(address(t) + w, t.set, access);
    }
    for (const Touch& t : a.reads) {
      for (int64_t w = 0; w < t.n; ++w) t.bank->NoteRead(address(t) + w, t.set, access);
    }
    for (const Touch& t : a.writes) {
      for (int64_t w = 0; w < t.n; ++w)
        t.bank->NoteWrite(address(t) + w, t.set, access, access.cycle + a.latency);
    }
    for (const PortUse& u : a.ports) {
      if (a.counts_ports) UsePort(a, u, e, access);
    }
  });
}

void Simulator::State::CountPorts(const Active& a, int64_t m) {
  ForElements(a, m, [&](int64_t e, const Access& access) {
    for (const PortUse& u : a.ports) UsePort(a, u, e, access);
  });
}

void Simulator::State::RunAlu(const Active& a, int64_t m) {
  const std::vector<std::pair<int64_t, int64_t>>& runs = sets.At(a.plan->target_set).runs;
  const int64_t places = a.banks[0]->places();
  std::array<const uint32_t*, 3> rows{};
  std::array<int64_t, 3> steps{};
  bool together = a.overlaps == 0 && a.strides[0][2] == 1 && runs.size() == 1 &&
                  runs[0].second - runs[0].first == places;
  for (size_t s = 0; s < a.i->sources.size(); ++s) {
    const bool immediate = a.banks[1 + s] == nullptr;
    rows[s] = immediate ? a.immediates[s].data() : a.banks[1 + s]->Row(a.address[1 + s]);
    steps[s] = immediate ? 0 : a.strides[1 + s][2] * places;
    together &= immediate || a.strides[1 + s][2] == 1;
  }
  uint32_t* target = a.banks[0]->Row(a.address[0]);
  const int64_t target_step = a.strides[0][2] * places;
  // Neighbouring rows of all places are one row.
  const int64_t chunk = together ? a.row_chunk : 1;
  for (int64_t e = 0; e < m; e += chunk) {
    const int64_t rows_now = std::min(chunk, m - e);
    for (const std::pair<int64_t, int64_t>& run : runs) {
      const auto at = [&](size_t s) {
        return rows[s] ? rows[s] + e * steps[s] + run.first : nullptr;
      };
      a.lanes((run.second - run.first) * rows_now, at(0), at(1), at(2),
              target + e * target_step + run.first);
    }
  }
}

void Simulator::State::RunMatrix(const Active& a, int64_t m) {
  const int64_t group = this->m.levels.back().count, places = a.banks[1]->places();
  const auto row = [&](size_t s, int64_t e) {
    return a.banks[s]->Row(a.address[s] + e * a.strides[s][2]);
  };
  for (int64_t e = 0; e < m; ++e) {
    for (const auto& [first, end] : sets.At(a.plan->target_set).runs)
      MultiplyGroups(group, row(1, e), places, row(2, e), a.banks[3] ? row(3, e) : nullptr,
                     row(0, e), first, end);
  }
}

void Simulator::State::RunCopies(Active* a, int64_t m) {
  const size_t near_at = a->kind == UnitKind::kUp ? 1 : 0, far_at = 1 - near_at;
  uint32_t* near = a->banks[near_at]->Row(a->address[near_at]);
  uint32_t* far = a->banks[far_at]->Row(a->address[far_at]);
  const int64_t near_step = a->strides[near_at][2] * a->banks[near_at]->places();
  const int64_t far_step = a->strides[far_at][2] * a->banks[far_at]->places();
  if (a->kind == UnitKind::kRing && a->banks[0] == a->banks[1]) {
    // The words of a row move at once: a place may receive from one that receives as well.
    std::vector<uint32_t>& row = a->immediates[0];
    for (int64_t e = 0; e < m; ++e) {
      row.assign(far + e * far_step, far + e * far_step + a->banks[1]->places());
      for (const PairRun& r : a->plan->runs) {
        for (int64_t k = 0; k < r.n; ++k)
          near[e * near_step + r.near_first + k] = row[size_t(r.far_base + k * r.far_step)];
      }
    }
    return;
  }
  const bool up = a->kind == UnitKind::kUp;
  for (const PairRun& r : a->plan->runs) {
    uint32_t* x = near + r.near_first;
    uint32_t* y = far + r.far_base;
    if (r.n == 1 && near_step == 1 && far_step == 1 && a->overlaps == 0) {
      std::memcpy(up ? y : x, up ? x : y, size_t(m) * sizeof(uint32_t));
      continue;
    }
    for (int64_t e = 0; e < m; ++e, x += near_step, y += far_step) {
      if (up) {
        for (int64_t k = 0; k < r.n; ++k) y[k * r.far_step] = x[k];
      } else if (r.far_step == 0) {
        std::fill_n(x, r.n, *y);
      } else if (r.far_step == 1) {
        for (int64_t k = 0; k < r.n; ++k) x[k] = y[k];
      } else {
        for (int64_t k = 0; k < r.n; ++k) x[k] = y[k * r.far_step];
      }
    }
  }
}

void Simulator::State::RunReduction(Active* a, int64_t m) {
  const std::vector<int64_t>&far = a->plan->far, &members = a->plan->members;
  std::vector<uint32_t>&sums = a->immediates[0], &next = a->immediates[1];
  const size_t n = far.size();
  sums.resize(n);
  next.resize(n);
  for (int64_t e = 0; e < m; ++e) {
    const uint32_t* near = a->banks[1]->Row(a->address[1] + e * a->strides[1][2]);
    uint32_t* target = a->banks[0]->Row(a->address[0] + e * a->strides[0][2]);
    for (size_t d = 0; d < n; ++d) sums[d] = near[members[d]];
    for (size_t k = n; k < members.size(); k += n) {
      for (size_t d = 0; d < n; ++d) next[d] = near[members[k + d]];
      a->lanes(int64_t(n), sums.data(), next.data(), nullptr, sums.data());
    }
    for (size_t d = 0; d < n; ++d) target[far[d]] = sums[d];
  }
}

void Simulator::State::Compute(Active* a, int64_t m) {
  switch (a->kind) {
    case UnitKind::kAlu:
      return RunAlu(*a, m);
    case UnitKind::kMatrix:
      return RunMatrix(*a, m);
    default:
      return a->plan->far.empty() ? RunCopies(a, m) : RunReduction(a, m);
  }
}

template <bool checked>
void Simulator::State::RunUntil(Active* a, int64_t until) {
  const int64_t end = a->ElementAt(until);
  while (a->k < end) {
    // Elements that may depend on each other are run one by one.
    const int64_t most = a->overlaps & Overlaps::kOwn ? 1 : a->left_in_row();
    const int64_t m = std::min(most, end - a->k);
    if (checked) Check(a, m);
    Compute(a, m);
    a->AdvanceBy(m);
  }
}

/// Until when the running instructions may each run on their own.
int64_t Simulator::State::WindowEnd(int64_t now, int64_t next_start) {
  if (in_order) return now + 1;
  bool words = false, ports = false;
  for (const Active* a : running) {
    words |= (a->overlaps & Overlaps::kOther) != 0;
    ports |= a->counts_ports;
  }
  if (running.size() == 1 || (!words && !ports)) return next_start;
  if (!words) return std::min(next_start, now + kLargestWindow);
  const int64_t until = std::min(next_start, now + window);
  const bool wide = AreIndependent(until);
  window = wide ? std::min(kLargestWindow, window * 2) : std::max<int64_t>(2, window / 4);
  return wide ? until : now + 1;
}

template <bool checked>
void Simulator::State::Loop() {
  size_t next = 0;
  const size_t n = p.instructions.size();
  while (next < n || !running.empty()) {
    int64_t now = next < n ? p.instructions[next].start : kNever;
    for (const Active* a : running) now = std::min(now, a->issue);
    for (; next < n && p.instructions[next].start == now; ++next) Start(int64_t(next));
    const int64_t until = WindowEnd(now, next < n ? p.instructions[next].start : kNever);
    for (Active* a : running) {
      if (a->issue < until) RunUntil<checked>(a, until);
    }
    running.erase(std::remove_if(running.begin(), running.end(),
                                 [&](const Active* a) {
                                   if (!a->done()) return false;
                                   const int64_t last = a->i->start + a->rate.StartOf(a->n - 1);
                                   result.cycles = std::max(result.cycles, last + a->latency);
                                   return true;
                                 }),
                  running.end());
  }
}

std::optional<Hazard> Simulator::State::Execute(bool checked, bool ordered) {
  running.clear();
  in_order = ordered;
  window = kLargestWindow;
  result = {};
  result.busy.assign(m.units.size(), 0);
  if (checked) Reset();
  try {
    if (checked)
      Loop<true>();
    else
      Loop<false>();
  } catch (const Hazard& hazard) {
    return hazard;
  }
  return {};
}

Simulator::Simulator(Machine machine, Program program, int64_t max_bytes)
    : state_(std::make_unique<State>(std::move(machine), std::move(program))) {
  state_->Prepare(max_bytes);
  state_->Reset();
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

const Machine& Simulator::machine() const { return state_->m; }
const Program& Simulator::program() const { return state_->p; }

namespace {

void CheckOffChip(const Machine& m, int memory, int64_t base, int64_t n) {
  WEFT_CHECK(memory >= 0 && memory < int(m.memories.size()) && m.memories[size_t(memory)].off_chip,
             kApiMisuse, "memory {} is not off the chip", memory);
  WEFT_CHECK(base >= 0 && n >= 0 && base <= m.memories[size_t(memory)].words - n, kApiMisuse,
             "{} words from {} are beyond the {} words of {}", n, base,
             m.memories[size_t(memory)].words, m.memories[size_t(memory)].name);
}

}  // namespace

void Simulator::SetWords(int memory, int64_t base, const uint32_t* words, int64_t n) {
  CheckOffChip(state_->m, memory, base, n);
  Bank& bank = state_->banks[size_t(memory)];
  if (base + n > bank.words()) bank.Grow(base + n);
  if (n > 0) std::memcpy(bank.Row(base), words, size_t(n) * sizeof(uint32_t));
  bank.MarkWritten(base, base + n);
}

void Simulator::GetWords(int memory, int64_t base, uint32_t* words, int64_t n) const {
  CheckOffChip(state_->m, memory, base, n);
  Bank& bank = state_->banks[size_t(memory)];
  const int64_t have = std::clamp<int64_t>(bank.words() - base, 0, n);
  if (have > 0) std::memcpy(words, bank.Row(base), size_t(have) * sizeof(uint32_t));
  std::fill(words + have, words + n, 0);
}

std::optional<Hazard> Simulator::TryRun(Execution* execution) {
  State& s = *state_;
  // What a run with a hazard has changed off the chip is put back.
  std::vector<Bank::Saved> before;
  const auto off_chip = [&](const auto& f) {
    for (size_t k = 0; k < s.banks.size(); ++k) {
      if (s.m.memories[k].off_chip) f(&s.banks[k]);
    }
  };
  const auto restore = [&] {
    size_t k = 0;
    off_chip([&](Bank* bank) { bank->Restore(before[k++]); });
  };
  if (!s.passed) off_chip([&](Bank* bank) { before.push_back(bank->Save()); });
  std::optional<Hazard> hazard = s.Execute(!s.passed, false);
  if (hazard) {
    restore();
    hazard = s.Execute(true, true);
    WEFT_ICHECK(hazard.has_value(), "a hazard is gone when instructions run in order");
    restore();
    return hazard;
  }
  if (!s.passed) {
    for (const Bank& b : s.banks) {
      const auto [words, end] = b.CountTouched();
      s.touched_words.push_back(words);
      s.extent_words.push_back(end);
    }
    s.passed = true;
  }
  if (execution) {
    *execution = s.result;
    execution->touched_words = s.touched_words;
    execution->extent_words = s.extent_words;
  }
  return {};
}

Execution Simulator::Run() {
  Execution execution;
  if (const std::optional<Hazard> hazard = TryRun(&execution))
    weft::ThrowError(weft::ErrorCode::kInvalidModel, Describe(*hazard, program(), machine()));
  return execution;
}

std::optional<uint32_t> Simulator::WordAt(int memory, int64_t place, int64_t word) const {
  Bank& bank = state_->banks[size_t(memory)];
  if (place < 0 || place >= bank.places() || word < 0 || word >= bank.words() ||
      !bank.IsWritten(place, word))
    return {};
  return bank.Row(word)[place];
}

std::string Describe(const Hazard& h, const Program& program, const Machine& machine) {
  const Memory& memory = machine.memories[size_t(h.memory)];
  const Instruction& i = program.instructions[size_t(h.instruction)];
  const std::string who = fmt::format("cycle {}: {}, element {}", h.cycle,
                                      NameOf(program, h.instruction, machine), h.element);
  const std::string word = fmt::format("{}[{}] in {} {}", memory.name, h.word,
                                       machine.levels[size_t(memory.level)].name, h.place);
  const std::string other = h.other < 0                ? ""
                            : h.other == h.instruction ? "itself"
                                                       : NameOf(program, h.other, machine);
  const std::string note = i.note.empty() ? "" : fmt::format(" [{}]", i.note);
  switch (h.kind) {
    case HazardKind::kUnderWay:
      return fmt::format("{}, touches {} while {} does and a write is under way{}", who, word,
                         other, note);
    case HazardKind::kNeverWritten:
      return fmt::format("{}, reads {}, which nothing has written{}", who, word, note);
    default:
      break;
  }
  const bool read = h.kind == HazardKind::kReadPort, write = h.kind == HazardKind::kWritePort;
  return fmt::format("{}, needs {} for {}, which has {} a cycle{}{}", who,
                     read    ? "a read port"
                     : write ? "a write port"
                             : "an access",
                     word,
                     read    ? memory.reads
                     : write ? memory.writes
                             : memory.accesses,
                     other.empty() ? "" : ", beside " + other, note);
}

}  // namespace hsimd
