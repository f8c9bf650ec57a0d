/// order_instance.cc: see order_instance.h. What is left out of a reduced problem:
///   views        a view that someone reads is alive with its reader: it touches nothing itself
///   kept blocks  nobody is their last reader
///   allocators   a node that makes one block, holds nothing else, and is waited for by readers of
///                that block alone runs right before the first of them in some best order
#include "order_instance.h"

#include <numeric>

#include "weft/support/checked.h"

namespace weft::order {

Rows::Rows(const std::vector<std::vector<uint32_t>>& lists) {
  size_t total = 0;
  for (const auto& list : lists) total += list.size();
  data_.reserve(total);
  start_.reserve(lists.size() + 1);
  for (const auto& list : lists) {
    data_.insert(data_.end(), list.begin(), list.end());
    start_.push_back(uint32_t(data_.size()));
  }
}

namespace {

using Lists = std::vector<std::vector<uint32_t>>;

void SortUnique(std::vector<uint32_t>* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

Lists Turned(const Lists& lists, size_t size) {
  Lists turned(size);
  for (size_t i = 0; i < lists.size(); ++i)
    for (const uint32_t j : lists[i]) turned[j].push_back(uint32_t(i));
  return turned;
}

Lists PredsOf(const MemoryProblem& p) {
  Lists preds(p.nodes.size());
  for (size_t k = 0; k < p.nodes.size(); ++k) {
    for (const int v : p.nodes[k].inputs)
      if (const int producer = p.values[size_t(v)].producer; producer >= 0)
        preds[k].push_back(uint32_t(producer));
    for (const int a : p.nodes[k].after) preds[k].push_back(uint32_t(a));
    SortUnique(&preds[k]);
  }
  return preds;
}

class Reducer {
 public:
  explicit Reducer(const MemoryProblem& p) : p_(p), preds_(PredsOf(p)) {}

  Reduced Run() {
    FindBlocks();
    FindTouches();
    Lists spliced = Splice();
    if (FindAllocators(spliced)) spliced = Splice();
    return Number(spliced);
  }

 private:
  void FindBlocks() {
    root_.assign(p_.values.size(), -1);
    std::vector<char> keep(p_.values.size(), 0);
    for (const MemoryNode& n : p_.nodes)
      for (const int v : n.outputs) {
        const MemoryValue& value = p_.values[size_t(v)];
        root_[size_t(v)] = value.shows < 0 ? v : root_[size_t(value.shows)];
        if (value.keep && root_[size_t(v)] >= 0) keep[size_t(root_[size_t(v)])] = 1;
      }
    block_.assign(p_.values.size(), -1);
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (root_[v] != int(v) || p_.values[v].bytes == 0) continue;
      block_[v] = int(bytes_.size());
      bytes_.push_back(p_.values[v].bytes);
      kept_.push_back(uint8_t(keep[v]));
    }
  }
  int BlockOf(int value) const {
    const int root = root_[size_t(value)];
    return root < 0 ? -1 : block_[size_t(root)];
  }
  void FindTouches() {
    std::vector<char> read(p_.values.size(), 0);
    for (const MemoryNode& n : p_.nodes)
      for (const int v : n.inputs) read[size_t(v)] = 1;
    touches_.resize(p_.nodes.size());
    pairs_.resize(p_.nodes.size());
    empty_.assign(p_.nodes.size(), 0);
    for (size_t k = 0; k < p_.nodes.size(); ++k) {
      const MemoryNode& n = p_.nodes[k];
      std::vector<uint32_t>& touches = touches_[k];
      for (const int v : n.inputs)
        if (const int b = BlockOf(v); b >= 0 && !kept_[size_t(b)]) touches.push_back(uint32_t(b));
      FindPairs(k, touches);
      for (const int v : n.outputs) {
        const int b = BlockOf(v);
        if (b < 0) continue;
        if (p_.values[size_t(v)].shows < 0)
          touches.push_back(uint32_t(b));
        else if (read[size_t(v)])
          touches.erase(std::remove(touches.begin(), touches.end(), uint32_t(b)), touches.end());
      }
      SortUnique(&touches);
      empty_[k] = touches.empty() && n.scratch == 0;
    }
  }
  /// `reads`: blocks of the operands, one as often as it is named.
  void FindPairs(size_t k, const std::vector<uint32_t>& reads) {
    const MemoryNode& n = p_.nodes[k];
    if (n.inplace.empty()) return;
    std::vector<uint32_t> sorted = reads;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::pair<int, int>> by_output = n.inplace;
    std::stable_sort(by_output.begin(), by_output.end(),
                     [](const auto& a, const auto& b) { return a.second < b.second; });
    for (auto [i, o] : by_output) {
      if (o < 0 || size_t(o) >= n.outputs.size() || i < 0 || size_t(i) >= n.inputs.size()) continue;
      const MemoryValue& value = p_.values[size_t(n.outputs[size_t(o)])];
      const int out = value.shows < 0 ? BlockOf(n.outputs[size_t(o)]) : -1;
      const int in = BlockOf(n.inputs[size_t(i)]);
      if (in < 0 || kept_[size_t(in)] || bytes_[size_t(in)] < value.bytes) continue;
      const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), uint32_t(in));
      if (last - first != 1) continue;
      exact_ = exact_ && bytes_[size_t(in)] == value.bytes;
      if (out >= 0) pairs_[k].push_back({uint32_t(in), uint32_t(out)});
    }
  }

  /// Predecessors without empty nodes, whose own take their place. One that would join many with
  /// many stays.
  Lists Splice() {
    constexpr size_t kMostJoined = 8;  // of a chain of empty nodes that each join one more
    const size_t n = preds_.size();
    std::vector<uint32_t> users(n, 0);
    for (const auto& list : preds_)
      for (const uint32_t p : list) ++users[p];
    Lists out(n);
    stays_.assign(n, 1);
    for (size_t k = 0; k < n; ++k) {
      for (const uint32_t p : preds_[k]) {
        if (stays_[p])
          out[k].push_back(p);
        else
          out[k].insert(out[k].end(), out[p].begin(), out[p].end());
      }
      SortUnique(&out[k]);
      stays_[k] = !empty_[k] || (out[k].size() > 1 && users[k] > 1) || out[k].size() > kMostJoined;
    }
    return out;
  }
  bool FindAllocators(const Lists& preds) {
    Lists touchers = Turned(touches_, bytes_.size());
    Lists users(preds.size());
    for (size_t k = 0; k < preds.size(); ++k)
      if (stays_[k])
        for (const uint32_t p : preds[k]) users[p].push_back(uint32_t(k));
    bool any = false;
    for (size_t k = 0; k < preds.size(); ++k) {
      if (!stays_[k] || touches_[k].size() != 1 || p_.nodes[k].scratch > 0 || !pairs_[k].empty())
        continue;
      const uint32_t b = touches_[k][0];
      if (kept_[b] || touchers[b].size() < 2) continue;
      const bool makes = std::any_of(
          p_.nodes[k].outputs.begin(), p_.nodes[k].outputs.end(),
          [&](int v) { return p_.values[size_t(v)].shows < 0 && BlockOf(v) == int(b); });
      // `touchers` are ascending.
      const bool only_readers =
          makes && std::all_of(users[k].begin(), users[k].end(), [&](uint32_t u) {
            return std::binary_search(touchers[b].begin(), touchers[b].end(), u);
          });
      if (!only_readers) continue;
      touches_[k].clear();
      empty_[k] = 1;
      any = true;
    }
    return any;
  }

  Reduced Number(const Lists& spliced) {
    Reduced out;
    std::vector<uint32_t> number(spliced.size(), 0);
    for (size_t k = 0; k < spliced.size(); ++k) {
      if (!stays_[k]) continue;
      number[k] = uint32_t(out.node.size());
      out.node.push_back(int(k));
    }
    Instance& in = out.instance;
    in.n = uint32_t(out.node.size());
    Lists preds(in.n), touches(in.n);
    for (uint32_t i = 0; i < in.n; ++i) {
      const size_t k = size_t(out.node[i]);
      for (const uint32_t p : spliced[k]) preds[i].push_back(number[p]);
      touches[i] = touches_[k];
      in.pairs.push_back(pairs_[k]);
      in.scratch.push_back(p_.nodes[k].scratch);
    }
    in.succs = Rows(Turned(preds, in.n));
    in.preds = Rows(preds);
    in.touchers = Rows(Turned(touches, bytes_.size()));
    in.touches = Rows(touches);
    in.bytes = std::move(bytes_);
    in.to_end = std::move(kept_);
    in.at_start.assign(in.bytes.size(), 0);
    in.exact = exact_;
    // Sums stay in range.
    int64_t sum = 0;
    for (const int64_t b : in.bytes) sum = CheckedAdd(sum, b);
    for (const int64_t s : in.scratch) (void)CheckedAdd(sum, s);
    return out;
  }

  const MemoryProblem& p_;
  const Lists preds_;
  std::vector<int> root_, block_;  // by value
  std::vector<int64_t> bytes_;     // by block
  std::vector<uint8_t> kept_;
  Lists touches_;
  std::vector<std::vector<Pair>> pairs_;
  std::vector<char> empty_, stays_;  // by node
  bool exact_ = true;
};

/// Rows of bits, one a node.
class Bits {
 public:
  explicit Bits(uint32_t n) : words_((n + 63) / 64), data_(size_t(n) * words_, 0) {}
  uint64_t* row(uint32_t v) { return data_.data() + size_t(v) * words_; }
  void Set(uint32_t v, uint32_t bit) { row(v)[bit / 64] |= uint64_t{1} << bit % 64; }
  bool Get(uint32_t v, uint32_t bit) { return row(v)[bit / 64] >> bit % 64 & 1; }
  void Or(uint32_t v, uint32_t from) {
    for (size_t w = 0; w < words_; ++w) row(v)[w] |= row(from)[w];
  }
  size_t words() const { return words_; }

 private:
  size_t words_;
  std::vector<uint64_t> data_;
};

/// Nodes have to be numbered producers first.
class Coexistence {
 public:
  explicit Coexistence(const Instance& in) : in_(in), above_(in.n), below_(in.n) {
    for (uint32_t v = 0; v < in.n; ++v) {
      above_.Set(v, v);
      for (const uint32_t p : in.preds[v]) above_.Or(v, p);
    }
    for (uint32_t v = in.n; v-- > 0;) {
      below_.Set(v, v);
      for (const uint32_t s : in.succs[v]) below_.Or(v, s);
    }
  }
  int64_t Most() {
    std::vector<int64_t> least(in_.n);
    for (uint32_t v = 0; v < in_.n; ++v) least[v] = in_.base + in_.scratch[v] - Saved(v);
    const size_t words = above_.words();
    std::vector<uint64_t> from(words), until(words);
    for (uint32_t b = 0; b < in_.bytes.size(); ++b) {
      // Alive at what comes after some toucher and before some toucher.
      std::fill(from.begin(), from.end(), in_.at_start[b] ? ~uint64_t{0} : 0);
      std::fill(until.begin(), until.end(), in_.to_end[b] ? ~uint64_t{0} : 0);
      for (const uint32_t t : in_.touchers[b])
        for (size_t w = 0; w < words; ++w)
          from[w] |= below_.row(t)[w], until[w] |= above_.row(t)[w];
      for (size_t w = 0; w < words; ++w)
        for (uint64_t both = from[w] & until[w]; both; both &= both - 1) {
          const size_t v = w * 64 + size_t(__builtin_ctzll(both));
          if (v < in_.n) least[v] += in_.bytes[b];
        }
    }
    return in_.n == 0 ? in_.base : *std::max_element(least.begin(), least.end());
  }

 private:
  /// Bytes of results that may be written over operands.
  int64_t Saved(uint32_t v) {
    int64_t bytes = 0;
    std::vector<uint32_t> outs;
    for (const Pair& p : in_.pairs[v]) {
      bool last = true;
      for (const uint32_t t : in_.touchers[p.in]) last &= t == v || !below_.Get(v, t);
      if (!last || std::count(outs.begin(), outs.end(), p.out)) continue;
      outs.push_back(p.out);
      bytes += in_.bytes[p.out];
    }
    return bytes;
  }
  const Instance& in_;
  Bits above_, below_;
};

}  // namespace

Reduced Reduce(const MemoryProblem& problem) { return Reducer(problem).Run(); }

MemoryOrder Complete(const MemoryProblem& problem, const Reduced& reduced, const Sequence& order) {
  const Lists preds = PredsOf(problem);
  const Lists succs = Turned(preds, preds.size());
  const size_t n = preds.size();
  // Nodes that an instance's node waits for are put off until then; others run when they can.
  std::vector<char> waited(n, 0), ran(n, 0), in_order(n, 0);
  for (const int k : reduced.node) in_order[size_t(k)] = 1;
  for (size_t k = n; k-- > 0;)
    for (const uint32_t s : succs[k]) waited[k] |= in_order[s] | waited[s];
  std::vector<uint32_t> missing(n);
  for (size_t k = 0; k < n; ++k) missing[k] = uint32_t(preds[k].size());
  MemoryOrder out;
  out.reserve(n);
  std::vector<uint32_t> ready;
  const auto run = [&](uint32_t first) {
    ready.assign(1, first);
    for (size_t i = 0; i < ready.size(); ++i) {
      const uint32_t k = ready[i];
      ran[k] = 1;
      out.push_back(int(k));
      for (const uint32_t s : succs[k])
        if (--missing[s] == 0 && !in_order[s] && !waited[s]) ready.push_back(s);
    }
  };
  for (uint32_t k = 0; k < n; ++k)
    if (preds[k].empty() && !in_order[k] && !waited[k]) run(k);
  std::vector<std::pair<uint32_t, size_t>> stack;  // node, next predecessor
  for (const uint32_t v : order) {
    stack.emplace_back(uint32_t(reduced.node[v]), 0);
    while (!stack.empty()) {
      auto& [k, next] = stack.back();
      if (next < preds[k].size()) {
        if (const uint32_t p = preds[k][next++]; !ran[p]) stack.emplace_back(p, 0);
        continue;
      }
      const uint32_t now = k;
      stack.pop_back();
      if (!ran[now]) run(now);
    }
  }
  return out;
}

Instance Reverse(const Instance& in) {
  Instance out = in;
  std::swap(out.preds, out.succs);
  std::swap(out.at_start, out.to_end);
  out.reversed = !in.reversed;
  return out;
}

Instance WindowOf(const Instance& in, const Sequence& order, const Sequence& position,
                  int64_t alive, size_t begin, size_t end) {
  Instance out;
  out.n = uint32_t(end - begin);
  out.reversed = in.reversed;
  out.exact = in.exact;
  out.base = alive;
  const auto inside = [&](uint32_t v) { return position[v] >= begin && position[v] < end; };
  std::vector<uint32_t> blocks;
  for (size_t k = begin; k < end; ++k)
    blocks.insert(blocks.end(), in.touches[order[k]].begin(), in.touches[order[k]].end());
  SortUnique(&blocks);
  std::vector<uint32_t> kept;
  Lists touchers;
  for (const uint32_t b : blocks) {
    bool before = in.at_start[b], after = in.to_end[b];
    std::vector<uint32_t> in_here;
    for (const uint32_t t : in.touchers[b]) {
      before |= position[t] < begin;
      after |= position[t] >= end;
      if (inside(t)) in_here.push_back(uint32_t(position[t] - begin));
    }
    if (before && after) continue;  // alive all the time
    if (before) out.base -= in.bytes[b];
    kept.push_back(b);
    std::sort(in_here.begin(), in_here.end());
    touchers.push_back(std::move(in_here));
    out.bytes.push_back(in.bytes[b]);
    out.at_start.push_back(uint8_t(before));
    out.to_end.push_back(uint8_t(after));
  }
  const auto local = [&](uint32_t b) {
    const auto it = std::lower_bound(kept.begin(), kept.end(), b);
    return it != kept.end() && *it == b ? int(it - kept.begin()) : -1;
  };
  Lists preds(out.n);
  out.pairs.resize(out.n);
  for (size_t k = begin; k < end; ++k) {
    const uint32_t v = order[k];
    for (const uint32_t p : in.preds[v])
      if (inside(p)) preds[k - begin].push_back(uint32_t(position[p] - begin));
    for (const Pair& p : in.pairs[v])
      if (const int a = local(p.in), b = local(p.out); a >= 0 && b >= 0)
        out.pairs[k - begin].push_back({uint32_t(a), uint32_t(b)});
    out.scratch.push_back(in.scratch[v]);
  }
  out.succs = Rows(Turned(preds, out.n));
  out.preds = Rows(preds);
  out.touches = Rows(Turned(touchers, out.n));
  out.touchers = Rows(touchers);
  return out;
}

int64_t LowerBound(const Instance& in) {
  constexpr uint32_t kMostForPairs = 3000;  // two rows of bits a node: 750 bytes
  if (in.n <= kMostForPairs) return Coexistence(in).Most();
  int64_t most = in.base;
  for (uint32_t v = 0; v < in.n; ++v) {
    int64_t bytes = in.base + in.scratch[v];
    for (const uint32_t b : in.touches[v]) bytes += in.bytes[b];
    for (const Pair& p : in.pairs[v]) bytes -= in.bytes[p.out];
    most = std::max(most, bytes);
  }
  return most;
}

Profile ProfileOf(const Instance& in, const Sequence& order) {
  Profile out;
  Followed state(in);
  out.before.push_back(state.live());
  out.peak = state.live();
  for (size_t k = 0; k < order.size(); ++k) {
    const Effect e = state.Of(order[k]);
    out.during.push_back(state.live() + e.need);
    if (out.during.back() > out.peak) {
      out.peak = out.during.back();
      out.at = k;
    }
    state.Run(order[k], e);
    out.before.push_back(state.live());
  }
  return out;
}

}  // namespace weft::order
