/// simulator.cc: the clock, and what the elements of each kind of unit do.
///
/// Instructions that are under way are advanced in windows of cycles. Where no two of them touch a
/// word that one of them writes, each runs all its elements of the window at once; where they may,
/// windows shrink to one cycle, within which order does not matter: two elements of one cycle that
/// share a written word are a hazard. After a hazard the run is repeated in windows of one cycle, so
/// that the hazard told is the first by cycle and then by instruction.
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
#include "weft/support/check.h"

namespace hsimd {
namespace {

constexpr int64_t kLargestWindow = 256;

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

  // Where it is.
  int64_t k = 0, issue = 0, phase = 0;
  std::array<int64_t, 3> digits{};
  std::array<int64_t, 4> address{};

  bool done() const { return k == n; }
  void Advance() {
    ++k;
    phase += rate.cycles;
    if (phase >= rate.elements) {
      issue += rate.elements == 1 ? phase : phase / rate.elements;
      phase = rate.elements == 1 ? 0 : phase % rate.elements;
    }
    for (int d = 2; d >= 0; --d) {
      const auto c = size_t(d);
      if (++digits[c] < i->count[c]) {
        for (size_t s = 0; s < 4; ++s) address[s] += strides[s][c];
        return;
      }
      digits[c] = 0;
      for (size_t s = 0; s < 4; ++s) address[s] -= strides[s][c] * (i->count[c] - 1);
    }
  }
  /// The first element that issues in a cycle >= `cycle`.
  int64_t ElementAt(int64_t cycle) const {
    const auto reached =
        (static_cast<__int128>(cycle - i->start) * rate.elements + rate.cycles - 1) / rate.cycles;
    return reached > n ? n : int64_t(reached);
  }
};

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
  std::vector<int> slot_of;      ///< by unit
  int num_slots = 0;
  bool passed = false;  ///< a run without hazards is behind us
  std::vector<Active> actives;
  std::vector<Active*> running;
  int64_t window = kLargestWindow;
  Execution result;
  std::vector<int64_t> touched_words, extent_words;  ///< of the run that passed

  void Prepare(int64_t max_bytes);
  void MakeBanks(int64_t max_bytes);
  void MakePlans();
  void Reset();
  std::optional<Hazard> Execute(bool checked, bool in_order);

  void Start(int64_t index);
  void AddTouches(Active* a);
  bool AreIndependent(int64_t until) const;
  template <bool checked>
  void Loop(bool in_order);
  template <bool checked>
  void RunUntil(Active* a, int64_t until);
  void CheckElement(Active* a);
  void RunAlu(Active* a);
  void RunMatrix(Active* a);
  void RunCopies(Active* a);
  void RunReduction(Active* a);
};

void Simulator::State::Prepare(int64_t max_bytes) {
  CheckProgram(p, m);
  MakeBanks(max_bytes);
  MakePlans();
  std::map<std::string, int> slots;
  for (const Unit& u : m.units)
    slot_of.push_back(slots.try_emplace(u.slot, int(slots.size())).first->second);
  num_slots = int(slots.size());
  actives.resize(size_t(num_slots));
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
    int64_t behind = m.levels.back().count;
    for (const int l : unit.ops[size_t(i.op)].indexed) behind *= m.levels[size_t(l)].count;
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
  a->k = a->phase = 0;
  a->issue = i.start;
  a->digits = {0, 0, 0};
  const auto bind = [&](size_t at, const Stream& s) {
    a->banks[at] = s.memory < 0 ? nullptr : &banks[size_t(s.memory)];
    a->strides[at] = s.stride;
    a->address[at] = s.base;
  };
  bind(0, i.target);
  for (size_t s = 0; s < 3; ++s) {
    bind(1 + s, s < i.sources.size() ? i.sources[s] : Stream());
    if (s < i.sources.size() && i.sources[s].memory < 0)
      a->immediates[s].assign(size_t(a->banks[0]->places()), i.sources[s].immediate);
  }
  if (unit.kind == UnitKind::kAlu) {
    a->lanes = LanesOf(*AluOpNamed(op.name));
  } else if (!op.reduce.empty()) {
    const std::string name = op.reduce[0] == 'i' ? op.reduce : "f" + op.reduce;
    a->lanes = LanesOf(name == "fsum"   ? AluOp::kFAdd
                       : name == "fmax" ? AluOp::kFMax
                       : name == "fmin" ? AluOp::kFMin
                       : name == "isum" ? AluOp::kIAdd
                       : name == "imax" ? AluOp::kIMax
                                        : AluOp::kIMin);
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
  const auto same = [](const Stream& x, const Stream& y) {
    return x.memory == y.memory && x.base == y.base && x.stride == y.stride;
  };
  const std::vector<Stream>& sources = a->i->sources;
  for (size_t s = 0; s < sources.size(); ++s) {
    Bank* bank = a->banks[1 + s];
    if (!bank) continue;
    const auto stream = int(1 + s);
    if (from_parent) {
      parent(stream, &a->reads);
      a->ports.push_back({bank, stream, plan.source_set, 1, 0});
      continue;
    }
    const bool is_a = a->kind == UnitKind::kMatrix && s == 0;
    const int64_t n = is_a ? m.levels.back().count : 1;
    // Equal streams are one read.
    bool seen = false;
    for (size_t before = a->kind == UnitKind::kMatrix ? 1 : 0; before < s && !is_a; ++before)
      seen |= same(sources[before], sources[s]);
    if (seen) continue;
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
  for (size_t r = 0; r < running.size(); ++r) {
    const Active& a = *running[r];
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
  }
  return true;
}

void Simulator::State::CheckElement(Active* a) {
  const Access access{a->index, a->k, a->issue};
  const auto address = [&](const Touch& t) { return a->address[size_t(t.stream)] + t.offset; };
  for (const Touch& t : a->reads) {
    for (int64_t w = 0; w < t.n; ++w) t.bank->CheckRead(address(t) + w, t.set, access);
  }
  for (const Touch& t : a->writes) {
    for (int64_t w = 0; w < t.n; ++w) t.bank->CheckWrite(address(t) + w, t.set, access);
  }
  for (const Touch& t : a->reads) {
    for (int64_t w = 0; w < t.n; ++w) t.bank->NoteRead(address(t) + w, t.set, access);
  }
  for (const Touch& t : a->writes) {
    for (int64_t w = 0; w < t.n; ++w)
      t.bank->NoteWrite(address(t) + w, t.set, access, a->issue + a->latency);
  }
  for (const PortUse& u : a->ports)
    u.bank->UsePorts(u.writes ? a->issue + a->latency - 1 : a->issue, u.reads, u.writes,
                     a->address[size_t(u.stream)], u.set, access);
}

void Simulator::State::RunAlu(Active* a) {
  std::array<const uint32_t*, 3> rows{};
  for (size_t s = 0; s < 3; ++s) {
    if (a->banks[1 + s])
      rows[s] = a->banks[1 + s]->Row(a->address[1 + s]);
    else if (s < a->i->sources.size())
      rows[s] = a->immediates[s].data();
  }
  uint32_t* target = a->banks[0]->Row(a->address[0]);
  for (const auto& [first, end] : sets.At(a->plan->target_set).runs)
    a->lanes(end - first, rows[0] + first, rows[1] ? rows[1] + first : nullptr,
             rows[2] ? rows[2] + first : nullptr, target + first);
}

void Simulator::State::RunMatrix(Active* a) {
  const auto group = m.levels.back().count;
  const uint32_t* acc = a->banks[3] ? a->banks[3]->Row(a->address[3]) : nullptr;
  for (const auto& [first, end] : sets.At(a->plan->target_set).runs)
    MultiplyGroups(group, a->banks[1]->Row(a->address[1]), a->banks[1]->places(),
                   a->banks[2]->Row(a->address[2]), acc, a->banks[0]->Row(a->address[0]), first,
                   end);
}

void Simulator::State::RunCopies(Active* a) {
  const bool up = a->kind == UnitKind::kUp;
  // The ring's words move at once: a place may receive from one that receives as well.
  uint32_t* near = a->banks[up ? 1 : 0]->Row(a->address[up ? 1 : 0]);
  uint32_t* far = a->banks[up ? 0 : 1]->Row(a->address[up ? 0 : 1]);
  std::vector<uint32_t>& row = a->immediates[0];
  if (a->kind == UnitKind::kRing && near == far) {
    row.assign(far, far + a->banks[0]->places());
    far = row.data();
  }
  for (const PairRun& r : a->plan->runs) {
    uint32_t* x = near + r.near_first;
    uint32_t* y = far + r.far_base;
    if (up) {
      for (int64_t k = 0; k < r.n; ++k) y[k * r.far_step] = x[k];
    } else if (r.far_step == 1 && r.n > 1) {
      std::memmove(x, y, size_t(r.n) * sizeof(uint32_t));
    } else {
      for (int64_t k = 0; k < r.n; ++k) x[k] = y[k * r.far_step];
    }
  }
}

void Simulator::State::RunReduction(Active* a) {
  const std::vector<int64_t>&far = a->plan->far, &members = a->plan->members;
  const uint32_t* near = a->banks[1]->Row(a->address[1]);
  uint32_t* target = a->banks[0]->Row(a->address[0]);
  std::vector<uint32_t>&sums = a->immediates[0], &next = a->immediates[1];
  const size_t n = far.size();
  sums.resize(n);
  next.resize(n);
  for (size_t d = 0; d < n; ++d) sums[d] = near[members[d]];
  for (size_t k = n; k < members.size(); k += n) {
    for (size_t d = 0; d < n; ++d) next[d] = near[members[k + d]];
    a->lanes(int64_t(n), sums.data(), next.data(), nullptr, sums.data());
  }
  for (size_t d = 0; d < n; ++d) target[far[d]] = sums[d];
}

template <bool checked>
void Simulator::State::RunUntil(Active* a, int64_t until) {
  const auto run = [&](auto element) {
    do {
      if (checked) CheckElement(a);
      element(a);
      a->Advance();
    } while (!a->done() && a->issue < until);
  };
  switch (a->kind) {
    case UnitKind::kAlu:
      return run([this](Active* x) { RunAlu(x); });
    case UnitKind::kMatrix:
      return run([this](Active* x) { RunMatrix(x); });
    default:
      if (!a->plan->far.empty()) return run([this](Active* x) { RunReduction(x); });
      return run([this](Active* x) { RunCopies(x); });
  }
}

template <bool checked>
void Simulator::State::Loop(bool in_order) {
  size_t next = 0;
  const size_t n = p.instructions.size();
  while (next < n || !running.empty()) {
    int64_t now = next < n ? p.instructions[next].start : std::numeric_limits<int64_t>::max();
    for (const Active* a : running) now = std::min(now, a->issue);
    for (; next < n && p.instructions[next].start == now; ++next) Start(int64_t(next));
    int64_t until = now + 1;
    if (!in_order) {
      const int64_t start =
          next < n ? p.instructions[next].start : std::numeric_limits<int64_t>::max();
      if (running.size() == 1) {
        until = start;
      } else if (window > 1) {
        until = std::min(start, now + window);
        const bool wide = AreIndependent(until);
        window = wide ? std::min(kLargestWindow, window * 2) : window / 4;
        if (!wide) until = now + 1;
      }
      if (window <= 1) window = 2;  // looks again in the next cycle
    }
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

std::optional<Hazard> Simulator::State::Execute(bool checked, bool in_order) {
  running.clear();
  window = kLargestWindow;
  result = {};
  result.busy.assign(m.units.size(), 0);
  if (checked) Reset();
  try {
    if (checked)
      Loop<true>(in_order);
    else
      Loop<false>(in_order);
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
      s.touched_words.push_back(b.touched());
      s.extent_words.push_back(b.extent());
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
