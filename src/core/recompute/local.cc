/// local.cc: plans of recomputation by local search over sets of copies.
///
/// From no copies, the peak is lowered to one target after another: at its first step a value that
/// is carried over it is made again in front of its next reader, with those of its operands that
/// would have to be carried for that alone. Which one: least cost for the bytes that it takes off
/// the steps above the target. At each target, copies that the budget has room without are taken
/// away, copies move to where their operands are alive anyway, and are exchanged for cheaper ones.
/// Other starts: segments, of which only what crosses their borders is kept (Chen et al., 2016).
///   cost: bounded by `work`; linear in the graph for each target where that is small
#include <algorithm>
#include <cmath>
#include <map>

#include "bundles.h"
#include "weft/support/request.h"

namespace weft::recompute {
namespace {

struct Candidate {
  int at = 0, value = 0;
  bool deep = false;  ///< with its operands
  double score = 0, weight = 0;
};

/// How the bytes are valued that a copy takes off.
enum class Weigh { kPeak, kArea };

class LocalSearch {
 public:
  LocalSearch(const Steps& steps, int64_t work)
      : s_(steps),
        b_(steps),
        budget_(steps.steps.size() < 3000 ? work : work * 2 / 3),
        marked_(steps.steps.size(), 0) {}

  std::vector<Found> Run();

 private:
  bool Out(int64_t limit) const { return b_.work() >= limit; }
  void Record();
  void Load(const Copies& want);
  void Toggle(int at, int step) {
    b_.Toggle(at, step);
    journal_.push_back({at, step});
    if (++toggles_ % 256 == 0) RequestScope::Poll();
  }
  void UndoTo(size_t mark) {
    for (; journal_.size() > mark; journal_.pop_back())
      b_.Toggle(journal_.back().at, journal_.back().step);
  }
  void Clean(int at, int step);
  void CleanBefore(int value, int at);
  /// Operands of the maker of `value` that are not there at `at`, and had to be carried to it.
  bool There(int value, int at) const;
  bool Closure(const Candidate& c);
  bool Weight(const Candidate& c, int peak_at, Weigh weigh, double* weight, double* cost);
  void Apply(const Candidate& c);
  std::vector<Candidate> Candidates(int peak_at, Weigh weigh);
  void CountExcess(int64_t target);
  double Excess(int begin, int end) const {
    return begin < end ? excess_[size_t(end)] - excess_[size_t(begin)] : 0;
  }

  bool Down(int64_t target, Weigh weigh, int most_accepts, int64_t limit, bool record);
  bool Up(int64_t target, int64_t limit);
  void Exchange(int64_t target, Weigh weigh, int64_t limit);
  void Descend(Weigh weigh, int64_t limit);
  void Segments(int64_t limit);
  void Polish(int64_t limit);

  const Steps& s_;
  Bundles b_;
  int64_t budget_, toggles_ = 0;
  std::vector<Copy> journal_;
  Copy tabu_{-1, -1};
  std::vector<int> again_, marked_;
  int mark_ = 0;
  std::vector<double> excess_;
  std::vector<int64_t> live_;
  std::vector<int64_t> targets_;
  std::map<int64_t, Found> best_;  ///< by peak; costs fall as peaks rise
};

void LocalSearch::Record() {
  const int64_t peak = b_.peak(), cost = b_.cost();
  const auto next = best_.upper_bound(peak);
  if (next != best_.begin() && std::prev(next)->second.cost <= cost) return;
  for (auto it = best_.lower_bound(peak); it != best_.end() && it->second.cost >= cost;)
    it = best_.erase(it);
  best_[peak] = Found{peak, cost, b_.copies(), {}};
  b_.AddWork(int64_t(s_.steps.size()) / 8);
}

void LocalSearch::Load(const Copies& want) {
  const Copies have = b_.copies();
  Copies differ;
  std::set_symmetric_difference(have.begin(), have.end(), want.begin(), want.end(),
                                std::back_inserter(differ));
  b_.ToggleAll(differ);
  journal_.clear();
  RequestScope::Poll();
}

/// Takes a copy away that nothing reads, and then those that only it read.
void LocalSearch::Clean(int at, int step) {
  if (!b_.Has(at, step) || !b_.Useless(at, step)) return;
  std::vector<Copy> open{{at, step}};
  while (!open.empty()) {
    const Copy c = open.back();
    open.pop_back();
    if (!b_.Has(c.at, c.step) || !b_.Useless(c.at, c.step)) continue;
    Toggle(c.at, c.step);
    for (int v : s_.steps[size_t(c.step)].inputs) {
      // The instance that was read: made here, or where it was last made before.
      const auto& touches = b_.touches(v);
      for (size_t k = b_.FindTouch(v, c.at + 1); k-- > 0;)
        if (touches[k].made) {
          open.push_back({touches[k].at, s_.maker[size_t(v)]});
          break;
        }
    }
  }
}

/// The copy whose instance of `value` was carried to `at` may have no reader any more.
void LocalSearch::CleanBefore(int value, int at) {
  const auto& touches = b_.touches(value);
  for (size_t k = b_.FindTouch(value, at); k-- > 0;)
    if (touches[k].made) {
      if (touches[k].at != s_.maker[size_t(value)]) Clean(touches[k].at, s_.maker[size_t(value)]);
      return;
    }
}

bool LocalSearch::There(int value, int at) const {
  const auto& touches = b_.touches(value);
  const size_t k = b_.FindTouch(value, at);
  return k < touches.size() && (touches[k].at == at || !touches[k].made);
}

/// Into `again_`: steps that have to run again at `c.at` to make the value, if (where deep) nothing
/// is carried there for them but what cannot run again. False where they are too many.
bool LocalSearch::Closure(const Candidate& c) {
  constexpr size_t kMost = 512;
  ++mark_;
  again_.assign(1, s_.maker[size_t(c.value)]);
  marked_[size_t(again_[0])] = mark_;
  if (!c.deep) return true;
  int64_t work = 0;
  for (size_t k = 0; k < again_.size(); ++k)
    for (int w : s_.steps[size_t(again_[k])].inputs) {
      const int maker = s_.maker[size_t(w)];
      ++work;
      if (!s_.steps[size_t(maker)].MayRunAt(c.at) || s_.bytes[size_t(w)] == 0 ||
          marked_[size_t(maker)] == mark_ || There(w, c.at))
        continue;
      marked_[size_t(maker)] = mark_;
      again_.push_back(maker);
      if (again_.size() > kMost) return false;
    }
  b_.AddWork(work);
  return true;
}

void LocalSearch::Apply(const Candidate& c) {
  if (!Closure(c)) return;
  const std::vector<int> steps = again_;
  for (int step : steps)
    if (!b_.Has(c.at, step)) Toggle(c.at, step);
  for (int step : steps)
    for (int v : s_.steps[size_t(step)].outputs) CleanBefore(v, c.at);
}

void LocalSearch::CountExcess(int64_t target) {
  b_.tree().Fill(&live_);
  excess_.assign(live_.size() + 1, 0);
  for (size_t t = 0; t < live_.size(); ++t)
    excess_[t + 1] = excess_[t] + (live_[t] > target ? 1 : 0);
  b_.AddWork(int64_t(live_.size()));
}

/// False where the copy takes nothing off the peak.
bool LocalSearch::Weight(const Candidate& c, int peak_at, Weigh weigh, double* weight,
                         double* cost) {
  double gain = 0, area = 0;
  *cost = 0;
  const auto carried = [&](int v, int from, int to, int sign) {
    const double bytes = double(s_.bytes[size_t(v)]) * sign;
    if (from < peak_at && peak_at < to) gain += bytes;
    if (from == peak_at || to == peak_at) gain += bytes / 16;  // within the bundle: perhaps
    area += bytes * Excess(from + 1, to);
  };
  if (!Closure(c)) return false;
  for (int step : again_) {
    const Step& s = s_.steps[size_t(step)];
    *cost += double(s.cost);
    for (int w : s.inputs) {
      if (marked_[size_t(s_.maker[size_t(w)])] == mark_ || There(w, c.at)) continue;
      const size_t k = b_.FindTouch(w, c.at);
      carried(w, b_.touches(w)[k - 1].at, c.at, -1);
    }
  }
  const auto& touches = b_.touches(c.value);
  const size_t k = b_.FindTouch(c.value, c.at);
  carried(c.value, touches[k - 1].at, c.at, +1);
  if (gain <= 0) return false;
  *weight = weigh == Weigh::kPeak ? gain : area;
  return *weight > 0;
}

std::vector<Candidate> LocalSearch::Candidates(int p, Weigh weigh) {
  std::vector<Candidate> all;
  const auto consider = [&](int at, int v) {
    const int maker = s_.maker[size_t(v)];
    if (maker >= at || at > s_.steps[size_t(maker)].until || Copy{at, maker} == tabu_) return;
    double weight = 0, cost = 0;
    Candidate c{at, v, false, 0, 0};
    if (Weight(c, p, weigh, &weight, &cost)) {
      c.score = (cost + 1e-6) / weight, c.weight = weight;
      all.push_back(c);
    }
    bool missing = false;
    for (int w : s_.steps[size_t(maker)].inputs)
      missing = missing || (!There(w, at) && s_.steps[size_t(s_.maker[size_t(w)])].MayRunAt(at));
    if (!missing) return;
    c.deep = true;
    if (Weight(c, p, weigh, &weight, &cost)) {
      c.score = (cost + 1e-6) / weight, c.weight = weight;
      all.push_back(c);
    }
  };
  for (size_t v = 0; v < s_.bytes.size(); ++v) {
    if (s_.bytes[v] == 0 || !s_.steps[size_t(s_.maker[v])].again || s_.maker[v] > p) continue;
    const auto& touches = b_.touches(int(v));
    const size_t k = b_.FindTouch(int(v), p);
    if (k == touches.size()) continue;
    if (touches[k].at > p) {
      if (!touches[k].made) consider(touches[k].at, int(v));
      continue;
    }
    if (!touches[k].made) consider(p, int(v));
    if (k + 1 < touches.size() && !touches[k + 1].made) consider(touches[k + 1].at, int(v));
  }
  b_.AddWork(int64_t(s_.bytes.size()) / 2 + 8 * int64_t(all.size()));
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  return all;
}

/// Lowers the peak to `target`; false where nothing more lowers it (or the work is done).
bool LocalSearch::Down(int64_t target, Weigh weigh, int most_accepts, int64_t limit, bool record) {
  const bool small = s_.steps.size() < 3000;
  int64_t noted = b_.peak();
  for (int accepts = 0; b_.peak() > target;) {
    if (Out(limit) || accepts >= most_accepts) return false;
    const int p = b_.peak_at();
    CountExcess(target);
    const std::vector<Candidate> all = Candidates(p, weigh);
    const int64_t high = b_.peak();
    bool any = false;
    if (small) {
      // The best of the first few, tried.
      constexpr size_t kTried = 6;
      size_t tried = 0;
      double best = -1;
      const Candidate* chosen = nullptr;
      for (const Candidate& c : all) {
        if (tried == kTried || Out(limit)) break;
        if (best >= 0 && c.score > 2 * best) break;
        const size_t mark = journal_.size();
        const int64_t cost = b_.cost();
        Apply(c);
        const int64_t after = b_.tree().At(p);
        if (b_.peak() <= high && after < high) {
          ++tried;
          const double weight = weigh == Weigh::kPeak ? double(high - after) : c.weight;
          const double score = (double(b_.cost() - cost) + 1e-6) / weight;
          if (!chosen || score < best) best = score, chosen = &c;
        }
        UndoTo(mark);
      }
      if (chosen) Apply(*chosen), any = true, ++accepts;
    } else {
      for (const Candidate& c : all) {
        if (Out(limit) || b_.tree().At(p) <= target) break;
        const auto& touches = b_.touches(c.value);
        const size_t k = b_.FindTouch(c.value, c.at);
        if (k == touches.size() || touches[k].at != c.at || touches[k].made) continue;
        const size_t mark = journal_.size();
        const int64_t before = b_.tree().At(p);
        Apply(c);
        if (b_.peak() <= high && b_.tree().At(p) < before)
          any = true, ++accepts;
        else
          UndoTo(mark);
      }
    }
    if (!any) return false;
    if (record && b_.peak() < noted - noted / (small ? 128 : 24)) Record(), noted = b_.peak();
  }
  return true;
}

/// Takes copies away for which there is room.
bool LocalSearch::Up(int64_t target, int64_t limit) {
  bool any = false;
  for (int pass = 0; pass < 3; ++pass) {
    Copies copies = b_.copies();
    std::stable_sort(copies.begin(), copies.end(), [&](const Copy& a, const Copy& b) {
      return s_.steps[size_t(a.step)].cost > s_.steps[size_t(b.step)].cost;
    });
    bool changed = false;
    for (const Copy& c : copies) {
      if (Out(limit)) return any;
      if (!b_.Has(c.at, c.step)) continue;
      const size_t mark = journal_.size();
      Toggle(c.at, c.step);
      for (int v : s_.steps[size_t(c.step)].inputs) CleanBefore(v, c.at + 1);
      if (b_.peak() <= target)
        changed = any = true;
      else
        UndoTo(mark);
    }
    if (!changed) break;
  }
  return any;
}

/// Moves and swaps of copies at an unchanged budget.
void LocalSearch::Exchange(int64_t target, Weigh weigh, int64_t limit) {
  for (int pass = 0; pass < 4; ++pass) {
    Copies copies = b_.copies();
    std::stable_sort(copies.begin(), copies.end(), [&](const Copy& a, const Copy& b) {
      return s_.steps[size_t(a.step)].cost > s_.steps[size_t(b.step)].cost;
    });
    bool changed = false;
    for (const Copy& c : copies) {
      if (Out(limit)) return;
      if (!b_.Has(c.at, c.step)) continue;
      const int64_t cost = b_.cost();
      const Step& s = s_.steps[size_t(c.step)];
      // To where an operand that is made again for it was there before.
      bool moved = false;
      for (int w : s.inputs) {
        if (moved || !b_.Has(c.at, s_.maker[size_t(w)])) continue;
        const auto& touches = b_.touches(w);
        const size_t k = b_.FindTouch(w, c.at);
        if (k == 0 || k >= touches.size()) continue;
        const int to = touches[k - 1].at;
        if (to <= c.step || b_.Has(to, c.step)) continue;
        const size_t mark = journal_.size();
        Toggle(c.at, c.step);
        Toggle(to, c.step);
        for (int v : s.inputs) CleanBefore(v, c.at + 1);
        if (b_.peak() <= target && b_.cost() < cost)
          moved = changed = true;
        else
          UndoTo(mark);
      }
      if (moved) continue;
      const size_t mark = journal_.size();
      Toggle(c.at, c.step);
      for (int v : s.inputs) CleanBefore(v, c.at + 1);
      tabu_ = c;
      const bool met = b_.peak() <= target || Down(target, weigh, 8, limit, false);
      tabu_ = {-1, -1};
      if (met && b_.cost() >= cost && b_.cost() < cost + s.cost) Up(target, limit);
      if (met && b_.cost() < cost)
        changed = true;
      else
        UndoTo(mark);
    }
    if (!changed) break;
  }
}

void LocalSearch::Descend(Weigh weigh, int64_t limit) {
  size_t left = targets_.size();
  for (int64_t target : targets_) {
    --left;
    if (b_.peak() <= target) continue;
    const bool met = Down(target, weigh, INT32_MAX, limit, true);
    const int64_t reached = met ? target : b_.peak();
    Record();
    // What is left is shared by the targets that are left.
    const int64_t share = b_.work() + (limit - b_.work()) / int64_t(2 * (left + 1));
    Up(reached, share);
    Exchange(reached, weigh, share);
    Record();
    journal_.clear();
    if (!met) {
      // Once more from where the exchange has led.
      if (Out(limit) || !Down(target, weigh, INT32_MAX, limit, true)) break;
      Record();
    }
  }
}

/// Borders every so many bytes in front of the peak; what crosses none is made again, a segment at
/// a time, where the first of it is read behind the peak.
void LocalSearch::Segments(int64_t limit) {
  Load({});
  const int turn = b_.peak_at(), steps = int(s_.steps.size());
  const int64_t high = b_.peak();
  // All counts as they are, before work is spent on any: the best is about the square root.
  const int most = std::max(128, int(4 * std::sqrt(double(steps))));
  std::vector<Copies> loaded;
  for (int parts = 2; parts <= most && !Out(limit); parts += std::max(1, parts / 5)) {
    // Border at equal shares of the bytes that are read behind the turn.
    std::vector<int> segment(size_t(steps), 0);
    int64_t sum = 0, far = 0;
    const auto is_far = [&](int v) {
      const auto& readers = s_.readers[size_t(v)];
      return s_.maker[size_t(v)] <= turn && !readers.empty() && readers.back() > turn;
    };
    for (size_t v = 0; v < s_.bytes.size(); ++v)
      if (is_far(int(v))) far += s_.bytes[v];
    if (far == 0) return;
    for (int t = 0; t <= turn; ++t) {
      segment[size_t(t)] = int(std::min<double>(parts - 1, double(sum) / double(far) * parts));
      for (int v : s_.steps[size_t(t)].outputs)
        if (is_far(v)) sum += s_.bytes[size_t(v)];
    }
    // Kept: read in front of the turn by another segment, or not to be made again.
    Copies copies;
    std::vector<int> first(size_t(parts), steps);
    std::vector<std::vector<int>> inner(static_cast<size_t>(parts));
    for (int t = 0; t <= turn; ++t) {
      const Step& s = s_.steps[size_t(t)];
      if (!s.again) continue;
      bool crosses = false;
      int behind = steps;
      for (int v : s.outputs)
        for (int r : s_.readers[size_t(v)]) {
          if (r <= turn)
            crosses = crosses || segment[size_t(r)] != segment[size_t(t)];
          else
            behind = std::min(behind, r);
        }
      if (crosses || s.outputs.empty()) continue;
      if (segment[size_t(t)] == parts - 1) continue;
      inner[size_t(segment[size_t(t)])].push_back(t);
      first[size_t(segment[size_t(t)])] = std::min(first[size_t(segment[size_t(t)])], behind);
    }
    for (int k = 0; k < parts; ++k)
      if (first[size_t(k)] < steps)
        for (int t : inner[size_t(k)])
          if (s_.steps[size_t(t)].MayRunAt(first[size_t(k)]))
            copies.push_back({first[size_t(k)], t});
    std::sort(copies.begin(), copies.end());
    Load(copies);
    for (size_t k = copies.size(); k-- > 0;) Clean(copies[k].at, copies[k].step);
    journal_.clear();
    Record();
    if (b_.peak() < high) loaded.push_back(b_.copies());
  }
  for (size_t k = 0; k < loaded.size() && !Out(limit); ++k) {
    Load(loaded[k]);
    Up(b_.peak(), b_.work() + (limit - b_.work()) / int64_t(loaded.size() - k));
    Record();
    journal_.clear();
  }
}

/// The exchanges again, from the best plan below each target, whoever found it.
void LocalSearch::Polish(int64_t limit) {
  for (Weigh weigh : {Weigh::kArea, Weigh::kPeak}) {
    size_t left = 2 * targets_.size() * (weigh == Weigh::kArea ? 2 : 1);
    for (int64_t target : targets_) {
      --left;
      auto it = best_.upper_bound(target);
      if (Out(limit) || it == best_.begin()) continue;
      --it;
      Load(it->second.copies);
      const int64_t share = b_.work() + (limit - b_.work()) / int64_t(left + 1) * 2;
      Up(target, share);
      Exchange(target, weigh, share);
      Record();
      journal_.clear();
    }
  }
}

std::vector<Found> LocalSearch::Run() {
  Record();
  const int64_t high = b_.peak();
  int64_t floor = 0;
  for (const Step& s : s_.steps) {
    int64_t bytes = s.scratch;
    for (int v : s.inputs) bytes += s_.bytes[size_t(v)];
    floor = std::max(floor, bytes);
  }
  // Fewer where there is much to do for each.
  const double ratio = s_.steps.size() < 3000 ? 0.965 : s_.steps.size() < 30000 ? 0.9 : 0.8;
  for (double t = double(high) * ratio; t > double(floor) && t > 1; t *= ratio)
    targets_.push_back(int64_t(t));
  for (double share : {1.0 / 2, 1.0 / 2.5, 1.0 / 3, 1.0 / 4})
    if (double(high) * share > double(floor)) targets_.push_back(int64_t(double(high) * share));
  targets_.push_back(floor);
  std::sort(targets_.rbegin(), targets_.rend());
  targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
  // Segments come first where single copies would take too long to get far.
  const bool large = s_.steps.size() > 20000, segments_first = s_.steps.size() >= 3000;
  if (segments_first) {
    Segments(budget_ * (large ? 60 : 30) / 100);
    Load({});
  }
  Descend(Weigh::kArea, budget_ * (large ? 100 : segments_first ? 45 : 30) / 100);
  if (!large) {
    Load({});
    Descend(Weigh::kPeak, budget_ * (segments_first ? 60 : 50) / 100);
  }
  if (!segments_first) Segments(budget_ * 60 / 100);
  // From the lowest segments on down.
  if (!large) {
    Load(best_.begin()->second.copies);
    Descend(Weigh::kPeak, budget_ * 70 / 100);
    Polish(budget_);
  }
  std::vector<Found> found;
  for (auto it = best_.rbegin(); it != best_.rend(); ++it) found.push_back(std::move(it->second));
  return found;
}

}  // namespace

std::vector<Found> LocalFrontier(const Steps& steps, int64_t work) {
  return LocalSearch(steps, work).Run();
}

}  // namespace weft::recompute
