/// exact.cc: the cheapest plans of small problems, by A*.
///
/// A state is how many first runs are done, and which values are held. Values are let go only when
/// there is no room, and then no more of them than needed: any plan can be told that way, since
/// who lets go earlier might as well have waited. So of two states as far on, one that holds more
/// for no more cost is as good. What is not held and will be read has to run again, and so have
/// operands of that: the least that is left to pay. The frontier starts at the peak of no
/// recomputation; each plan then asks for one that is lower.
///   source: Checkmate (Jain et al., 2020) has the same plans, but at most one copy of a node
///   between two first runs
#include <algorithm>
#include <functional>
#include <queue>

#include "steps.h"
#include "weft/support/request.h"

namespace weft::recompute {
namespace {

using Set = uint64_t;

class ExactSearch {
 public:
  ExactSearch(const Steps& s, int64_t work) : s_(s), work_(work), count_(int(s.steps.size())) {
    for (const Step& step : s.steps) {
      in_.push_back(Of(step.inputs));
      out_.push_back(Of(step.outputs));
      made_.push_back(Bytes(out_.back()));
    }
    for (size_t v = 0; v < s.bytes.size(); ++v)
      if (s.keep[v]) kept_ |= Set{1} << v;
    // What first runs will read.
    ahead_.assign(size_t(count_) + 1, kept_);
    for (int t = count_; t-- > 0;) ahead_[size_t(t)] = ahead_[size_t(t) + 1] | in_[size_t(t)];
    made_by_.assign(size_t(count_) + 1, 0);
    for (int t = 0; t < count_; ++t)
      made_by_[size_t(t) + 1] = made_by_[size_t(t)] | out_[size_t(t)];
    // What may still be read once the first `t` have run.
    useful_.assign(size_t(count_) + 1, kept_);
    for (int t = 0; t <= count_; ++t)
      for (int k = count_; k-- > 0;)
        if (k >= t || (s.steps[size_t(k)].again && (out_[size_t(k)] & useful_[size_t(t)])))
          useful_[size_t(t)] |= in_[size_t(k)];
  }

  /// The cheapest plan of at most `budget` bytes, the first that is found; that there is none is
  /// known where `whole`.
  bool Below(int64_t budget, Found* found, bool* whole);

 private:
  struct State {
    Set held;
    int64_t cost, least;  ///< so far; of the whole, at least
    int done, parent, run;
  };
  static Set Of(const std::vector<int>& values) {
    Set set = 0;
    for (int v : values) set |= Set{1} << v;
    return set;
  }
  int64_t Bytes(Set set) const {
    int64_t bytes = 0;
    for (; set; set &= set - 1) bytes += s_.bytes[size_t(__builtin_ctzll(set))];
    return bytes;
  }
  /// Of what has to run again from here on, at least; -1: there is no way on.
  int64_t Ahead(Set held, int done) const;
  void Push(Set held, int64_t cost, int done, int parent, int run);
  void Run(int at, int step);
  void LetGo(const std::vector<int>& may, size_t next, int64_t need, Set gone);

  const Steps& s_;
  int64_t work_;
  int count_;
  Set kept_ = 0;
  std::vector<Set> in_, out_, useful_, ahead_, made_by_;
  std::vector<int64_t> made_;
  std::vector<State> states_;
  std::vector<std::vector<std::pair<Set, int64_t>>> closed_;
  struct Later {
    const std::vector<State>* states;
    bool operator()(int a, int b) const {
      const State &x = (*states)[size_t(a)], &y = (*states)[size_t(b)];
      if (x.least != y.least) return x.least > y.least;
      if (x.done != y.done) return x.done < y.done;
      return a > b;
    }
  };
  std::priority_queue<int, std::vector<int>, Later> open_{Later{&states_}};
  int64_t budget_ = 0;
  // Of the step that is tried: where it starts, and what it adds.
  int at_ = 0, step_ = 0;
  Set start_ = 0, added_ = 0;
};

int64_t ExactSearch::Ahead(Set held, int done) const {
  Set open = ahead_[size_t(done)] & made_by_[size_t(done)] & ~held, seen = open, runs = 0;
  int64_t cost = 0;
  while (open) {
    const int maker = s_.maker[size_t(__builtin_ctzll(open))];
    open &= open - 1;
    if (runs >> maker & 1) continue;
    const Step& step = s_.steps[size_t(maker)];
    if (!step.MayRunAt(done)) return -1;
    runs |= Set{1} << maker;
    cost += step.cost;
    const Set more = in_[size_t(maker)] & ~held & ~seen;
    seen |= more;
    open |= more;
  }
  return cost;
}

void ExactSearch::Push(Set held, int64_t cost, int done, int parent, int run) {
  held &= useful_[size_t(done)];
  for (const auto& [set, paid] : closed_[size_t(done)])
    if ((set & held) == held && paid <= cost) return;
  work_ -= 8 + int64_t(closed_[size_t(done)].size()) / 4;
  const int64_t ahead = Ahead(held, done);
  if (ahead < 0) return;
  states_.push_back({held, cost, cost + ahead, done, parent, run});
  open_.push(int(states_.size()) - 1);
}

/// Every way to free `need` bytes of `may` (by size, falling) that frees no value for nothing.
void ExactSearch::LetGo(const std::vector<int>& may, size_t next, int64_t need, Set gone) {
  if (need <= 0) {
    // Nothing of it may stay. The smallest was taken last.
    for (Set g = gone; g; g &= g - 1)
      if (s_.bytes[size_t(__builtin_ctzll(g))] <= -need) return;
    const State& from = states_[size_t(at_)];
    const int done = step_ == from.done ? from.done + 1 : from.done;
    const int64_t cost = from.cost + (step_ < from.done ? s_.steps[size_t(step_)].cost : 0);
    Push((start_ & ~gone) | added_, cost, done, at_, step_);
    return;
  }
  if (work_ < 0) return;
  int64_t rest = 0;
  for (size_t k = next; k < may.size(); ++k) rest += s_.bytes[size_t(may[k])];
  for (size_t k = next; k < may.size(); ++k) {
    if (rest < need) return;
    const int64_t bytes = s_.bytes[size_t(may[k])];
    LetGo(may, k + 1, need - bytes, gone | Set{1} << may[k]);
    rest -= bytes;
    --work_;
  }
}

void ExactSearch::Run(int at, int step) {
  const Step& s = s_.steps[size_t(step)];
  const Set held = states_[size_t(at)].held;
  at_ = at, step_ = step;
  const auto attempt = [&](Set start, Set read) {
    start_ = start;
    added_ = out_[size_t(step)];
    const int64_t need = Bytes(start) + made_[size_t(step)] + s.scratch - budget_;
    std::vector<int> may;
    if (need > 0)
      for (Set m = start & ~read; m; m &= m - 1)
        if (const int v = __builtin_ctzll(m); s_.bytes[size_t(v)] > 0) may.push_back(v);
    std::stable_sort(may.begin(), may.end(),
                     [&](int a, int b) { return s_.bytes[size_t(a)] > s_.bytes[size_t(b)]; });
    LetGo(may, 0, need, 0);
    return need > 0;
  };
  if (!attempt(held, in_[size_t(step)])) return;
  // Room has to be made: the results may be written over operands, which are gone then.
  std::vector<std::pair<int, int>> taken;
  Set over = 0, written = 0;
  for (auto [i, o] : s.inplace) {
    if ((over >> i & 1) || (written >> o & 1)) continue;
    over |= Set{1} << i, written |= Set{1} << o;
    attempt(held & ~over, in_[size_t(step)] & ~over);
  }
}

bool ExactSearch::Below(int64_t budget, Found* found, bool* whole) {
  budget_ = budget;
  states_.clear();
  closed_.assign(size_t(count_) + 1, {});
  open_ = decltype(open_){Later{&states_}};
  Push(0, 0, 0, -1, -1);
  *whole = false;
  for (int64_t popped = 0; !open_.empty() && work_ > 0; ++popped) {
    if (popped % 64 == 0) RequestScope::Poll();
    const int at = open_.top();
    open_.pop();
    const State state = states_[size_t(at)];
    auto& closed = closed_[size_t(state.done)];
    bool dominated = false;
    for (const auto& [set, paid] : closed)
      dominated = dominated || ((set & state.held) == state.held && paid <= state.cost);
    work_ -= int64_t(closed.size()) / 4 + 1;
    if (dominated) continue;
    closed.emplace_back(state.held, state.cost);
    if (state.done == count_ && (kept_ & ~state.held) == 0) {
      *whole = true;
      found->cost = state.cost;
      found->peak = budget;
      found->runs.clear();
      for (int k = at; states_[size_t(k)].parent >= 0; k = states_[size_t(k)].parent)
        found->runs.push_back(states_[size_t(k)].run);
      std::reverse(found->runs.begin(), found->runs.end());
      return true;
    }
    if (state.done < count_ && (in_[size_t(state.done)] & ~state.held) == 0) Run(at, state.done);
    for (int k = 0; k < state.done; ++k)
      if (s_.steps[size_t(k)].MayRunAt(state.done) && (in_[size_t(k)] & ~state.held) == 0 &&
          (out_[size_t(k)] & useful_[size_t(state.done)] & ~state.held) != 0)
        Run(at, k);
  }
  *whole = work_ > 0;
  return false;
}

constexpr size_t kMostValues = 62, kMostSteps = 48;

}  // namespace

Frontier ExactFrontier(const Steps& steps, int64_t peak, int64_t work,
                       const std::function<int64_t(const std::vector<int>&)>& peak_of) {
  Frontier out;
  if (steps.bytes.size() > kMostValues || steps.steps.size() > kMostSteps) return out;
  ExactSearch search(steps, work);
  out.whole = true;
  for (int64_t budget = peak - 1; budget >= 0;) {
    Found found;
    bool whole = false;
    if (!search.Below(budget, &found, &whole)) {
      out.whole = out.whole && whole;
      break;
    }
    found.peak = peak_of(found.runs);
    // Views that run again may read more than what they show.
    if (found.peak > budget) found.peak = budget, out.whole = false;
    budget = found.peak - 1;
    // Of equal cost, the lowest.
    if (!out.plans.empty() && out.plans.back().cost == found.cost) out.plans.pop_back();
    out.plans.push_back(std::move(found));
  }
  return out;
}

}  // namespace weft::recompute
