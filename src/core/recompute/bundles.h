/// bundles.h: bytes alive under a set of copies, kept up to date while copies come and go.
///
/// A bundle is the first run of a step with the copies in front of it. Whatever the copies are,
/// there is an order that has them: a value read in a bundle and not made again there is carried
/// from the bundle that touched it before. So a plan is nothing but a set of copies, and a change
/// of one touches the bundles of its operands and results, and the stretches they are carried over.
#pragma once

#include <cstdint>
#include <vector>

#include "steps.h"

namespace weft::recompute {

/// Sums over ranges of positions, and the largest.
class PeakTree {
 public:
  explicit PeakTree(int size);
  void Add(int begin, int end, int64_t bytes);  ///< to [begin, end)
  void Set(int at, int64_t own);                ///< what a position adds to what spans it
  int64_t Max() const { return max_[1]; }
  int64_t Max(int begin, int end) const;
  int First() const;  ///< position of the maximum, the first
  int64_t At(int at) const;
  void Fill(std::vector<int64_t>* at) const;  ///< every position

 private:
  void Pull(int k);
  int leaves_ = 1, size_;
  std::vector<int64_t> max_, add_;
};

class Bundles {
 public:
  explicit Bundles(const Steps& steps);

  bool Has(int at, int step) const;
  /// Adds the copy, or takes it away. Counts as work.
  void Toggle(int at, int step);
  /// Many changes at once: bundles are looked at when they are all there.
  void ToggleAll(const Copies& copies);

  int64_t peak() const { return tree_.Max(); }
  int peak_at() const { return tree_.First(); }
  int64_t cost() const { return cost_; }
  int64_t work() const { return work_; }
  void AddWork(int64_t work) { work_ += work; }
  const PeakTree& tree() const { return tree_; }
  const Steps& steps() const { return s_; }
  Copies copies() const;
  const std::vector<int>& CopiesIn(int at) const { return bundle_[size_t(at)]; }

  struct Touch {
    int at = 0;
    int readers = 0;
    bool made = false;
  };
  /// Bundles in which the value is made or read, ascending.
  const std::vector<Touch>& touches(int value) const { return touches_[size_t(value)]; }
  /// Position in touches(value) of the first at or behind `at`.
  size_t FindTouch(int value, int at) const;
  /// A copy that nothing reads, in its bundle or behind it.
  bool Useless(int at, int step) const;

 private:
  void Change(int at, int step);
  /// The stretches left and right of `at` come in (+1) or go (-1).
  void Carry(int value, int at, int sign);
  void Evaluate(int at);

  const Steps& s_;
  PeakTree tree_;
  std::vector<std::vector<int>> bundle_;     ///< copies in front of each step, ascending
  std::vector<std::vector<Touch>> touches_;  ///< by value
  int64_t cost_ = 0, work_ = 0;
  std::vector<int> kept_;  ///< values that are read at the end
  std::vector<int> left_, stamp_, dirty_;
  std::vector<char> out_;
  std::vector<int64_t> block_;
  int now_ = 0;
};

}  // namespace weft::recompute
