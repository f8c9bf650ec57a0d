/// order_lists.cc: see order_lists.h.
#include "order_lists.h"

#include <queue>
#include <set>
#include <utility>

#include "weft/support/request.h"

namespace weft::order {
namespace {

/// What is ready, and what an order that is being made does to it.
class Ready {
 public:
  Ready(const Instance& in) : state(in), in_(in), missing_(in.n), untouched_(in.bytes.size(), 0) {
    for (uint32_t v = 0; v < in.n; ++v) missing_[v] = uint32_t(in.preds[v].size());
    for (uint32_t b = 0; b < in.bytes.size(); ++b)
      for (const uint32_t t : in.touchers[b]) untouched_[b] ^= t;
    ran_.assign(in.n, 0);
  }
  bool IsReady(uint32_t v) const { return missing_[v] == 0 && !ran_[v]; }
  /// `changed(u)` for nodes that became ready, or ready ones whose effect changed.
  template <class Changed>
  void Run(uint32_t v, const Effect& e, const Changed& changed) {
    state.Run(v, e);
    ran_[v] = 1;
    for (const uint32_t b : in_.touches[v]) {
      untouched_[b] ^= v;
      const auto touchers = in_.touchers[b];
      if (state.done(b) == 1) {
        for (const uint32_t t : touchers)
          if (IsReady(t)) changed(t);
      } else if (state.done(b) + 1 == touchers.size()) {
        if (const uint32_t last = untouched_[b]; IsReady(last)) changed(last);
      }
    }
    for (const uint32_t s : in_.succs[v])
      if (--missing_[s] == 0) changed(s);
  }

  // Trying: what is run is taken back before anything else is.
  void TryRun(uint32_t v, const Effect& e, std::vector<uint32_t>* made_ready) {
    state.Run(v, e);
    for (const uint32_t s : in_.succs[v])
      if (--missing_[s] == 0) made_ready->push_back(s);
  }
  void Undo(uint32_t v, const Effect& e) {
    state.Undo(v, e);
    for (const uint32_t s : in_.succs[v]) ++missing_[s];
  }

  Followed state;

 private:
  const Instance& in_;
  std::vector<uint32_t> missing_;    // predecessors that have not run
  std::vector<uint32_t> untouched_;  // of a block: nodes that have not touched it, by exclusive or
  std::vector<char> ran_;
};

class Puller {
 public:
  Puller(const Instance& in, const Sequence& order, int64_t limit)
      : in_(in), order_(order), position_(PositionsOf(order)), ready_(in), limit_(limit) {
    need_.assign(in.n, -1);
  }

  Sequence Run() {
    for (const uint32_t v : order_)
      if (ready_.IsReady(v)) Changed(v);
    while (out_.size() < in_.n) {
      if (out_.size() % 1024 == 0) RequestScope::Poll();
      if (!check_.empty()) {
        const uint32_t v = check_.back();
        check_.pop_back();
        if (ready_.IsReady(v)) Consider(v);
        continue;
      }
      if (!waiting_.empty()) {
        const auto [need, at] = *waiting_.begin();
        if (ready_.state.live() + need <= limit_) {
          waiting_.erase(waiting_.begin());
          need_[order_[at]] = -1;
          Consider(order_[at]);
          continue;
        }
      }
      while (!ready_.IsReady(order_[queue_.top()])) queue_.pop();
      const uint32_t v = order_[queue_.top()];
      Take(v, ready_.state.Of(v));
    }
    return std::move(out_);
  }

 private:
  void Changed(uint32_t v) {
    queue_.push(position_[v]);
    check_.push_back(v);
  }
  void Take(uint32_t v, const Effect& e) {
    limit_ = std::max(limit_, ready_.state.live() + e.need);
    Forget(v);
    out_.push_back(v);
    const size_t from = check_.size();
    ready_.Run(v, e, [this](uint32_t u) { Changed(u); });
    // The last of the stack is looked at first: that of the given order.
    std::sort(check_.begin() + std::ptrdiff_t(from), check_.end(),
              [this](uint32_t a, uint32_t b) { return position_[a] > position_[b]; });
  }
  void Forget(uint32_t v) {
    if (need_[v] >= 0) waiting_.erase({need_[v], position_[v]});
    need_[v] = -1;
  }
  void Consider(uint32_t v) {
    Forget(v);
    const Effect e = ready_.state.Of(v);
    if (e.net > 0) return ConsiderChain(v, e);
    if (ready_.state.live() + e.need <= limit_) return Take(v, e);
    need_[v] = e.need;
    waiting_.insert({e.need, position_[v]});
  }
  /// The node and those that become ready by it, one after the other, until they leave no more
  /// bytes than there were.
  void ConsiderChain(uint32_t first, const Effect& effect) {
    constexpr size_t kLongest = 12;
    chain_.clear();
    const int64_t live = ready_.state.live();
    uint32_t v = first;
    Effect e = effect;
    bool pays = false;
    while (ready_.state.live() + e.need <= limit_) {
      made_ready_.clear();
      ready_.TryRun(v, e, &made_ready_);
      chain_.emplace_back(v, e);
      pays = ready_.state.live() <= live;
      if (pays || made_ready_.empty() || chain_.size() == kLongest) break;
      bool found = false;
      for (const uint32_t u : made_ready_) {
        const Effect of = ready_.state.Of(u);
        if (found && std::pair(of.net, position_[u]) >= std::pair(e.net, position_[v])) continue;
        found = true;
        v = u;
        e = of;
      }
    }
    for (size_t k = chain_.size(); k-- > 0;) ready_.Undo(chain_[k].first, chain_[k].second);
    if (!pays) return;
    const auto chain = chain_;
    for (const auto& [u, of] : chain) Take(u, of);
  }

  const Instance& in_;
  const Sequence& order_;
  const Sequence position_;
  Ready ready_;
  int64_t limit_;
  Sequence out_;
  std::vector<uint32_t> check_;  // ready, not looked at since something changed
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> queue_;  // by position
  std::set<std::pair<int64_t, uint32_t>> waiting_;  // would free bytes, but needs too much before
  std::vector<int64_t> need_;                       // as in waiting_, by node; -1: not there
  std::vector<std::pair<uint32_t, Effect>> chain_;
  std::vector<uint32_t> made_ready_;
};

}  // namespace

Sequence PositionsOf(const Sequence& order) {
  Sequence position(order.size());
  for (size_t k = 0; k < order.size(); ++k) position[order[k]] = uint32_t(k);
  return position;
}

Sequence Pulled(const Instance& in, const Sequence& order, int64_t limit) {
  return Puller(in, order, limit).Run();
}

Sequence Greedy(const Instance& in, const Sequence& order) {
  const Sequence position = PositionsOf(order);
  Ready ready(in);
  std::set<std::pair<int64_t, uint32_t>> best;  // net, position
  std::vector<int64_t> net(in.n, INT64_MIN);
  const auto changed = [&](uint32_t v) {
    if (net[v] != INT64_MIN) best.erase({net[v], position[v]});
    net[v] = ready.state.Of(v).net;
    best.insert({net[v], position[v]});
  };
  for (uint32_t v = 0; v < in.n; ++v)
    if (ready.IsReady(v)) changed(v);
  Sequence out;
  while (!best.empty()) {
    const uint32_t v = order[best.begin()->second];
    best.erase(best.begin());
    out.push_back(v);
    ready.Run(v, ready.state.Of(v), changed);
  }
  return out;
}

Sequence DepthFirst(const Instance& in, const Sequence& order) {
  // As if no operand had another reader: `peak` of all that leads to a node, `left` behind it.
  std::vector<int64_t> peak(in.n, 0), left(in.n, 0);
  std::vector<std::vector<uint32_t>> preds(in.n);
  std::vector<char> touched(in.bytes.size(), 0);
  for (const uint32_t v : order) {
    int64_t reads = 0, writes = 0;
    for (const uint32_t b : in.touches[v])
      (std::exchange(touched[b], 1) ? reads : writes) += in.bytes[b];
    left[v] = writes;
    preds[v].assign(in.preds[v].begin(), in.preds[v].end());
    std::stable_sort(preds[v].begin(), preds[v].end(),
                     [&](uint32_t a, uint32_t b) { return peak[a] - left[a] > peak[b] - left[b]; });
    int64_t held = 0;
    for (const uint32_t p : preds[v]) {
      peak[v] = std::max(peak[v], held + peak[p]);
      held += left[p];
    }
    peak[v] = std::max(peak[v], std::max(held, reads) + writes + in.scratch[v]);
  }
  Sequence out;
  std::vector<char> ran(in.n, 0);
  std::vector<std::pair<uint32_t, size_t>> stack;
  for (const uint32_t sink : order) {
    if (in.succs[sink].size() > 0) continue;
    stack.emplace_back(sink, 0);
    while (!stack.empty()) {
      auto& [v, next] = stack.back();
      if (next < preds[v].size()) {
        if (const uint32_t p = preds[v][next++]; !ran[p]) stack.emplace_back(p, 0);
        continue;
      }
      const uint32_t now = v;
      stack.pop_back();
      if (std::exchange(ran[now], 1)) continue;
      out.push_back(now);
    }
  }
  return out;
}

}  // namespace weft::order
