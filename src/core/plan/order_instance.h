/// order_instance.h: the problem of SearchOrder as its searches see it. Private to the core.
///
/// A block (a value and all its views) is alive while some, but not all, of the nodes that touch it
/// have run: its producer, then its readers. That says the same of an order read backwards, so
/// every search works in both directions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/core/plan/memory_problem.h"
#include "weft/support/small_vector.h"

namespace weft::order {

/// Lists of numbers, one list a row.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const std::vector<std::vector<uint32_t>>& lists);
  struct Row {
    const uint32_t *first, *last;
    const uint32_t* begin() const { return first; }
    const uint32_t* end() const { return last; }
    size_t size() const { return size_t(last - first); }
  };
  Row operator[](size_t i) const {
    return {data_.data() + start_[i], data_.data() + start_[i + 1]};
  }
  size_t size() const { return start_.size() - 1; }
  size_t total() const { return data_.size(); }

 private:
  std::vector<uint32_t> start_ = {0}, data_;
};

using Sequence = std::vector<uint32_t>;

/// The output block may be written over the input block where the input dies.
struct Pair {
  uint32_t in, out;
};

struct Instance {
  uint32_t n = 0;
  Rows preds, succs;                      ///< nodes
  Rows touches;                           ///< blocks, by node
  Rows touchers;                          ///< nodes, by block
  std::vector<int64_t> bytes;             ///< by block
  std::vector<uint8_t> at_start, to_end;  ///< by block: alive before the first, after the last step
  std::vector<std::vector<Pair>> pairs;   ///< by node; those of one output together
  std::vector<int64_t> scratch;
  int64_t base = 0;       ///< bytes alive all the time beside the blocks
  bool reversed = false;  ///< orders are read backwards
  /// What a search counts is what UseOf counts: nothing is written over a larger operand.
  bool exact = true;
};

/// The whole problem, without the nodes that hold no bytes, and what they are of the problem.
struct Reduced {
  Instance instance;
  std::vector<int> node;  ///< by node of the instance
};
Reduced Reduce(const MemoryProblem& problem);
/// A sequence of the reduced problem with all others where they are first needed.
MemoryOrder Complete(const MemoryProblem& problem, const Reduced& reduced, const Sequence& order);

Instance Reverse(const Instance& in);
/// Steps [begin, end) of an order by themselves; node k is order[begin + k]. `alive`: bytes before
/// step `begin`. `position`: where each node stands in the order.
Instance WindowOf(const Instance& in, const Sequence& order, const Sequence& position,
                  int64_t alive, size_t begin, size_t end);

/// Bytes that no order can avoid, by looking at what has to be alive beside each node; looks at
/// pairs of nodes where there are few enough.
int64_t LowerBound(const Instance& in);

/// What running a node does to the bytes alive.
struct Effect {
  int64_t need = 0;  ///< beside what is alive before, while it runs
  int64_t net = 0;   ///< what is alive after, less what is alive before
};

/// `opens(b)`, `closes(b)`: the node is the first, or the last, to touch block b.
template <class Opens, class Closes>
Effect EffectOf(const Instance& in, uint32_t v, const Opens& opens, const Closes& closes) {
  Effect e;
  e.need = in.scratch[v];
  for (const uint32_t b : in.touches[v]) {
    if (opens(b)) e.need += in.bytes[b], e.net += in.bytes[b];
    if (closes(b)) e.net -= in.bytes[b];
  }
  SmallVector<Pair, 4> taken;
  for (const Pair& p : in.pairs[v]) {
    const bool again = std::any_of(taken.begin(), taken.end(),
                                   [&](const Pair& t) { return t.in == p.in || t.out == p.out; });
    if (again || !(in.reversed ? opens(p.in) : closes(p.in))) continue;
    e.need -= in.bytes[p.out];
    taken.push_back(p);
  }
  return e;
}

/// The state of blocks while an order is followed.
class Followed {
 public:
  explicit Followed(const Instance& in) : in_(in), done_(in.bytes.size(), 0), live_(in.base) {
    for (size_t b = 0; b < in.bytes.size(); ++b)
      if (in.at_start[b]) live_ += in.bytes[b];
  }
  Effect Of(uint32_t v) const {
    return EffectOf(
        in_, v, [this](uint32_t b) { return Opens(b); }, [this](uint32_t b) { return Closes(b); });
  }
  void Run(uint32_t v, const Effect& e) {
    live_ += e.net;
    for (const uint32_t b : in_.touches[v]) ++done_[b];
  }
  /// Takes back what Run did.
  void Undo(uint32_t v, const Effect& e) {
    live_ -= e.net;
    for (const uint32_t b : in_.touches[v]) --done_[b];
  }
  int64_t live() const { return live_; }
  uint32_t done(uint32_t b) const { return done_[b]; }

 private:
  bool Opens(uint32_t b) const { return done_[b] == 0 && !in_.at_start[b]; }
  bool Closes(uint32_t b) const { return done_[b] + 1 == in_.touchers[b].size() && !in_.to_end[b]; }
  const Instance& in_;
  std::vector<uint32_t> done_;  // nodes that have touched a block
  int64_t live_;
};

/// Bytes alive while each step runs.
struct Profile {
  std::vector<int64_t> during;  ///< each step
  std::vector<int64_t> before;  ///< each step, and behind the last
  int64_t peak = 0;
  size_t at = 0;  ///< the first step of the peak
};
Profile ProfileOf(const Instance& in, const Sequence& order);

}  // namespace weft::order
