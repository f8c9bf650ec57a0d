/// order_search.cc: SearchOrder. Nodes without bytes are left out (order_instance.h); then, until
/// the lower bound is reached or the work is spent:
///   lists    the given order with what frees bytes pulled forward and what makes them put off, in
///            turns; the ready node that leaves the fewest bytes; depth first by size; near linear
///   layers   down-sets with few bytes alive, under a limit that is halved towards the lower bound,
///            in both directions, wider and wider (order_beam.h): exact where no layer overflows
///   windows  the same for the steps around the highest, by themselves
/// Parts that a single node separates (all others come before it, or after) are searched one by
/// one.
#include "weft/core/plan/order_search.h"

#include <algorithm>
#include <utility>

#include "order_beam.h"
#include "order_lists.h"
#include "weft/support/checked.h"

namespace weft {

using namespace order;  // NOLINT: the parts of this search

namespace {

struct Ordered {
  Sequence sequence;
  int64_t peak = 0;
};

Sequence Reversed(Sequence s) {
  std::reverse(s.begin(), s.end());
  return s;
}

/// Searches one instance for an order below `best`.
class LayerSearch {
 public:
  /// `lower`: proven; `enough`: no need to go below it.
  LayerSearch(const Instance& in, int64_t lower, int64_t enough, int64_t* work)
      : forward_(in), backward_(Reverse(in)), lower_(lower), enough_(enough), work_(work) {}

  /// Improves `best` in place.
  void Run(Ordered* best, uint32_t widest) {
    for (uint32_t width = 8; width <= widest && !Done(*best); width *= 8) Widen(best, width);
  }
  int64_t lower() const { return lower_; }

 private:
  static constexpr uint32_t kSmall = 64;

  bool Done(const Ordered& best) const {
    return best.peak <= std::max(lower_, enough_) || *work_ < 0;
  }
  void Widen(Ordered* best, uint32_t width) {
    int64_t failed = std::max(lower_, enough_) - 1;  // the highest limit without an order
    while (!Done(*best) && best->peak - 1 > failed) {
      const int64_t gap = best->peak - 1 - failed;
      const bool small = gap <= best->peak / 256;
      if (small && forward_.n > kSmall) return;
      // Of a few nodes it is often proven that nothing is left below.
      const int64_t limit = small ? best->peak - 1 : failed + (gap + 1) / 2;
      if (Try(best, limit, width)) continue;
      failed = limit;
    }
  }
  bool Try(Ordered* best, int64_t limit, uint32_t width) {
    for (const Instance* in : {&forward_, &backward_}) {
      if (*work_ < 0) return false;
      Decision d = FindOrder(*in, limit, width, work_);
      if (d.answer == Answer::kNone) {
        lower_ = std::max(lower_, limit + 1);
        return false;
      }
      if (d.answer != Answer::kFound) continue;
      if (in->reversed != forward_.reversed) std::reverse(d.sequence.begin(), d.sequence.end());
      const int64_t peak = ProfileOf(forward_, d.sequence).peak;
      *best = {std::move(d.sequence), peak};
      return true;
    }
    return false;
  }

  const Instance& forward_;
  const Instance backward_;
  int64_t lower_;
  const int64_t enough_;
  int64_t* work_;
};

/// Positions behind nodes that all earlier ones come before and all later ones after; 0 and the end
/// as well.
std::vector<size_t> CutsOf(const Instance& in, const Sequence& order) {
  const Sequence position = PositionsOf(order);
  const size_t n = order.size();
  std::vector<size_t> needed(n, 0);  // of all from here on: the first predecessor of each
  size_t least = n;
  for (size_t k = n; k-- > 0;) {
    needed[k] = least;
    size_t last = 0;
    bool any = false;
    for (const uint32_t p : in.preds[order[k]])
      last = std::max<size_t>(last, position[p]), any = true;
    least = std::min(least, any ? last : 0);
    if (!any && k > 0) least = 0;
  }
  std::vector<size_t> cuts = {0};
  size_t reach = 0;  // of all up to here: the farthest first reader
  for (size_t k = 0; k < n; ++k) {
    if (k > 0 && reach <= k && needed[k] >= k && k + 1 < n) cuts.push_back(k + 1);
    size_t first = n;
    for (const uint32_t s : in.succs[order[k]]) first = std::min<size_t>(first, position[s]);
    reach = std::max(reach, first);
  }
  if (cuts.back() != n) cuts.push_back(n);
  return cuts;
}

class OrderSearch {
 public:
  OrderSearch(const MemoryProblem& problem, const OrderEffort& effort)
      : problem_(problem), effort_(effort), reduced_(Reduce(problem)), in_(reduced_.instance) {
    work_ =
        effort.work > 0 ? effort.work : 100'000 + 10'000 * int64_t{std::min<uint32_t>(in_.n, 3000)};
  }

  OrderPlan Run() {
    OrderPlan plan;
    plan.order = GivenOrder(problem_);
    plan.peak = UseOf(problem_, plan.order).peak;
    given_ = plan.peak;
    best_.sequence.resize(in_.n);
    for (uint32_t v = 0; v < in_.n; ++v) best_.sequence[v] = v;
    best_.peak = ProfileOf(in_, best_.sequence).peak;
    lower_ = LowerBound(in_);
    enough_ = std::max(lower_, effort_.enough);
    if (plan.peak <= effort_.enough) {
      plan.lower_bound = std::min(in_.exact ? lower_ : LargestStep(problem_), plan.peak);
      return plan;
    }
    if (best_.peak < plan.peak) found_.push_back(best_.sequence);  // allocators are late in it
    if (best_.peak > enough_) {
      Lists();
      Parts();
      Windows();
    }
    plan.lower_bound = in_.exact ? lower_ : LargestStep(problem_);
    for (auto it = found_.rbegin(); it != found_.rend(); ++it) Offer(*it, &plan);
    plan.lower_bound = std::min(plan.lower_bound, plan.peak);
    return plan;
  }

 private:
  bool Done() const { return best_.peak <= enough_; }
  void Found(Sequence sequence) {
    const int64_t peak = ProfileOf(in_, sequence).peak;
    if (peak < best_.peak) Better({std::move(sequence), peak});
  }
  void Better(Ordered ordered) {
    best_ = std::move(ordered);
    found_.push_back(best_.sequence);
    constexpr size_t kMost = 3;
    if (found_.size() > kMost) found_.erase(found_.begin());
  }
  /// What UseOf says counts; it differs where results are written over larger operands.
  void Offer(const Sequence& sequence, OrderPlan* plan) {
    MemoryOrder order = Complete(problem_, reduced_, sequence);
    const int64_t peak = UseOf(problem_, order).peak;
    if (peak < plan->peak) {
      if (plan->peak < given_) plan->others.insert(plan->others.begin(), std::move(plan->order));
      plan->order = std::move(order);
      plan->peak = peak;
    } else if (peak < given_) {
      plan->others.push_back(std::move(order));
    }
  }

  void Lists() {
    const Instance backward = Reverse(in_);
    const auto improve = [&](Sequence sequence) {
      const int turns = in_.n > 20'000 ? 2 : 6;
      int64_t peak = INT64_MAX;
      for (int turn = 0; turn < turns && !Done(); ++turn) {
        sequence = turn % 2 == 0 ? Pulled(in_, sequence, enough_)
                                 : Reversed(Pulled(backward, Reversed(sequence), enough_));
        const int64_t now = ProfileOf(in_, sequence).peak;
        if (now < best_.peak) Better({sequence, now});
        if (turn > 0 && now >= peak) return;
        peak = now;
      }
    };
    const Sequence given = best_.sequence;
    improve(given);
    if (Done()) return;
    Sequence depth = DepthFirst(in_, given);
    Found(depth);
    improve(std::move(depth));
    if (Done()) return;
    Found(Greedy(in_, given));
    if (!Done()) Found(Reversed(Greedy(backward, Reversed(given))));
  }

  /// Layers over the whole, part by part where it has parts.
  void Parts() {
    if (Done()) return;
    const Sequence order = best_.sequence;
    const std::vector<size_t> cuts = CutsOf(in_, order);
    const Sequence position = PositionsOf(order);
    const Profile profile = ProfileOf(in_, order);
    // Each part cannot go below its own bound; nor need it go below the highest of all.
    struct Part {
      size_t begin, end;
      int64_t peak;
    };
    std::vector<Part> parts;
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      Part p{cuts[k], cuts[k + 1], 0};
      for (size_t s = p.begin; s < p.end; ++s) p.peak = std::max(p.peak, profile.during[s]);
      parts.push_back(p);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.peak > b.peak; });
    Sequence improved = order;
    int64_t lower = 0;
    constexpr size_t kMostNodes = 3000;
    for (const Part& p : parts) {
      if (p.peak <= enough_ || p.peak <= lower) break;
      if (p.end - p.begin > kMostNodes || work_ < 0) continue;
      const Instance part = WindowOf(in_, order, position, profile.before[p.begin], p.begin, p.end);
      Ordered best;
      for (uint32_t v = 0; v < part.n; ++v) best.sequence.push_back(v);
      best.peak = p.peak;
      LayerSearch search(part, LowerBound(part), std::max(lower, enough_), &work_);
      search.Run(&best, part.n <= 64 ? 1u << 15 : part.n <= 256 ? 4096 : 512);
      lower = std::max(lower, search.lower());
      for (uint32_t v = 0; v < part.n; ++v)
        improved[p.begin + v] = order[p.begin + best.sequence[v]];
    }
    lower_ = std::max(lower_, lower);
    enough_ = std::max(lower_, enough_);
    Found(std::move(improved));
  }

  void Windows() {
    for (const size_t size : {48, 160, 480}) {
      if (size >= in_.n) return;
      for (int round = 0; round < 64 && work_ > 0 && !Done(); ++round)
        if (!ImproveWindow(size)) break;
    }
  }
  bool ImproveWindow(size_t size) {
    const Profile profile = ProfileOf(in_, best_.sequence);
    const size_t begin = profile.at > size / 2 ? profile.at - size / 2 : 0;
    const size_t end = std::min<size_t>(begin + size, in_.n);
    const Instance window = WindowOf(in_, best_.sequence, PositionsOf(best_.sequence),
                                     profile.before[begin], begin, end);
    Ordered best;
    for (uint32_t v = 0; v < window.n; ++v) best.sequence.push_back(v);
    best.peak = profile.peak;
    int64_t share = std::min(work_, 400'000 + int64_t(size) * 10'000);
    work_ -= share;
    LayerSearch search(window, window.base, enough_, &share);
    search.Run(&best, size <= 64 ? 4096 : 512);
    work_ += share;
    if (best.peak >= profile.peak) return false;
    Sequence improved = best_.sequence;
    for (uint32_t v = 0; v < window.n; ++v)
      improved[begin + v] = best_.sequence[begin + best.sequence[v]];
    const int64_t peak = ProfileOf(in_, improved).peak;
    // The same peak somewhere else: one place less.
    best_.sequence = improved;
    if (peak < best_.peak) Better({std::move(improved), peak});
    return true;
  }

  const MemoryProblem& problem_;
  const OrderEffort effort_;
  const Reduced reduced_;
  const Instance& in_;
  int64_t work_ = 0, given_ = 0, lower_ = 0, enough_ = 0;
  Ordered best_;
  std::vector<Sequence> found_;  // better and better
};

}  // namespace

OrderPlan SearchOrder(const MemoryProblem& problem, const OrderEffort& effort) {
  return OrderSearch(problem, effort).Run();
}

}  // namespace weft
