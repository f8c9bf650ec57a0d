/// memory_problem.cc: the account of memory_problem.h. What a value made by one running of a node
/// is called here an instance: a node that runs twice makes two of each value.
#include "weft/core/plan/memory_problem.h"

#include <algorithm>
#include <climits>
#include <numeric>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

constexpr int kEnd = INT_MAX;

/// Who reads which instance, and when the bytes of each are read last.
struct Lives {
  /// Of each step, in the order of its operands: the instance that holds the bytes; -1: nobody's.
  std::vector<std::vector<int>> reads;
  std::vector<int> first;  ///< instance of the first output of each step
  std::vector<int> last;   ///< step of the last read, by instance; of a view: unused
  std::vector<int> root;   ///< the instance whose bytes an instance shows; itself where it is none
  std::vector<int> value, made;  ///< of each instance: what it is, and the step that makes it

  Lives(const MemoryProblem& p, const MemoryOrder& order) : reads(order.size()) {
    std::vector<int> latest(p.values.size(), -1);
    for (size_t step = 0; step < order.size(); ++step) {
      const MemoryNode& n = p.nodes[size_t(order[step])];
      for (int v : n.inputs) {
        const int r = latest[size_t(v)] < 0 ? -1 : root[size_t(latest[size_t(v)])];
        reads[step].push_back(r);
        if (r >= 0) last[size_t(r)] = int(step);
      }
      first.push_back(int(root.size()));
      for (int v : n.outputs) {
        const int shown = p.values[size_t(v)].shows;
        const int self = int(root.size());
        const int of = shown < 0 ? self : latest[size_t(shown)];
        root.push_back(of < 0 ? -1 : shown < 0 ? self : root[size_t(of)]);
        last.push_back(int(step));
        value.push_back(v);
        made.push_back(int(step));
        latest[size_t(v)] = self;
      }
    }
    for (size_t v = 0; v < p.values.size(); ++v)
      if (p.values[v].keep && latest[v] >= 0)
        if (const int r = root[size_t(latest[v])]; r >= 0) last[size_t(r)] = kEnd;
  }
};

}  // namespace

MemoryUse UseOf(const MemoryProblem& problem, const MemoryOrder& order) {
  const Lives lives(problem, order);
  std::vector<int64_t> block(lives.root.size(), 0);  // bytes that an instance holds
  std::vector<int> times(lives.root.size(), 0);      // that a step reads it
  using Pairs = std::vector<std::pair<int, int>>;
  Pairs sorted;
  MemoryUse use;
  int64_t live = 0;
  std::vector<std::vector<int>> dies(order.size());
  for (size_t i = 0; i < lives.root.size(); ++i)
    if (lives.root[i] == int(i) && lives.last[i] != kEnd)
      dies[size_t(lives.last[i])].push_back(int(i));
  for (size_t step = 0; step < order.size(); ++step) {
    const MemoryNode& n = problem.nodes[size_t(order[step])];
    const std::vector<int>& reads = lives.reads[step];
    for (int in : reads)
      if (in >= 0) ++times[size_t(in)];
    const Pairs* pairs = &n.inplace;
    const auto by_output = [](const auto& a, const auto& b) { return a.second < b.second; };
    if (!std::is_sorted(pairs->begin(), pairs->end(), by_output)) {
      sorted = n.inplace;
      std::stable_sort(sorted.begin(), sorted.end(), by_output);
      pairs = &sorted;
    }
    auto pair = pairs->begin();
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const MemoryValue& value = problem.values[size_t(n.outputs[k])];
      if (value.shows >= 0) continue;
      const size_t out = size_t(lives.first[step]) + k;
      while (pair != pairs->end() && pair->second < int(k)) ++pair;
      for (; pair != pairs->end() && pair->second == int(k); ++pair) {
        if (pair->first < 0 || size_t(pair->first) >= reads.size()) continue;
        const int in = reads[size_t(pair->first)];
        // The bytes of one that was taken are 0 by now.
        if (in < 0 || lives.last[size_t(in)] != int(step) || block[size_t(in)] < value.bytes ||
            block[size_t(in)] == 0 || times[size_t(in)] > 1)
          continue;
        block[out] = std::exchange(block[size_t(in)], 0);
        break;
      }
      if (block[out] > 0) continue;
      block[out] = value.bytes;
      live = CheckedAdd(live, value.bytes);
    }
    for (int in : reads)
      if (in >= 0) times[size_t(in)] = 0;
    use.live.push_back(CheckedAdd(live, n.scratch));
    use.cost = CheckedAdd(use.cost, n.cost);
    if (use.at < 0 || use.live.back() > use.peak) {
      use.peak = use.live.back();
      use.at = int(step);
    }
    for (int i : dies[step]) live -= block[size_t(i)];
  }
  return use;
}

int64_t LargestStep(const MemoryProblem& problem) {
  int64_t largest = 0;
  for (const MemoryNode& n : problem.nodes) {
    std::vector<int> roots;
    for (int v : n.inputs) {
      while (problem.values[size_t(v)].shows >= 0) v = problem.values[size_t(v)].shows;
      if (problem.values[size_t(v)].producer >= 0) roots.push_back(v);
    }
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    int64_t read = 0, made = 0, over = 0;
    for (int v : roots) read = CheckedAdd(read, problem.values[size_t(v)].bytes);
    std::vector<char> written(n.outputs.size(), 0);
    for (size_t k = 0; k < n.outputs.size(); ++k)
      if (problem.values[size_t(n.outputs[k])].shows < 0)
        made = CheckedAdd(made, problem.values[size_t(n.outputs[k])].bytes);
    // At most: each result that may be written over an operand is.
    for (auto [i, o] : n.inplace)
      if (size_t(o) < written.size() && !std::exchange(written[size_t(o)], 1))
        over = CheckedAdd(over, problem.values[size_t(n.outputs[size_t(o)])].bytes);
    largest = std::max(largest,
                       CheckedAdd(n.scratch, CheckedAdd(read, std::max<int64_t>(0, made - over))));
  }
  return largest;
}

std::vector<int> AliveAt(const MemoryProblem& problem, const MemoryOrder& order, int step) {
  const Lives lives(problem, order);
  const auto bytes = [&](int v) { return problem.values[size_t(v)].bytes; };
  std::vector<int> alive;
  for (size_t i = 0; i < lives.root.size(); ++i)
    if (lives.root[i] == int(i) && bytes(lives.value[i]) > 0 && lives.made[i] <= step &&
        step <= lives.last[i])
      alive.push_back(lives.value[i]);
  std::stable_sort(alive.begin(), alive.end(), [&](int a, int b) { return bytes(a) > bytes(b); });
  return alive;
}

void CheckProblem(const MemoryProblem& problem) {
  const int nodes = int(problem.nodes.size()), values = int(problem.values.size());
  const auto is_value = [&](int v) { return v >= 0 && v < values; };
  for (int v = 0; v < values; ++v) {
    const MemoryValue& value = problem.values[size_t(v)];
    WEFT_CHECK(value.bytes >= 0 && value.producer >= -1 && value.producer < nodes, kInvalidModel,
               "value {} is malformed", v);
    WEFT_CHECK(value.shows < 0 || (is_value(value.shows) && value.shows != v), kInvalidModel,
               "value {} is a view of none", v);
  }
  std::vector<char> made(size_t(values), 0);
  for (int k = 0; k < nodes; ++k) {
    const MemoryNode& n = problem.nodes[size_t(k)];
    WEFT_CHECK(n.scratch >= 0 && n.cost >= 0, kInvalidModel, "node {} is malformed", k);
    for (int v : n.inputs) WEFT_CHECK(is_value(v), kInvalidModel, "node {} reads no value", k);
    for (int v : n.outputs) {
      WEFT_CHECK(is_value(v) && problem.values[size_t(v)].producer == k && !made[size_t(v)],
                 kInvalidModel, "node {} makes value {}, which is another's", k, v);
      made[size_t(v)] = 1;
      const int shown = problem.values[size_t(v)].shows;
      WEFT_CHECK(shown < 0 || std::count(n.inputs.begin(), n.inputs.end(), shown), kInvalidModel,
                 "node {} shows value {}, which it does not read", k, shown);
    }
    for (int a : n.after)
      WEFT_CHECK(a >= 0 && a < nodes && a != k, kInvalidModel, "node {} comes after none", k);
    for (int b : n.before)
      WEFT_CHECK(b >= 0 && b < nodes && b != k, kInvalidModel, "node {} comes before none", k);
  }
  for (int v = 0; v < values; ++v)
    WEFT_CHECK(made[size_t(v)] || problem.values[size_t(v)].producer < 0, kInvalidModel,
               "nothing makes value {}", v);
}

void CheckOrder(const MemoryProblem& problem, const MemoryOrder& order) {
  std::vector<char> ran(problem.nodes.size(), 0);
  for (size_t step = 0; step < order.size(); ++step) {
    const int k = order[step];
    WEFT_CHECK(k >= 0 && size_t(k) < ran.size(), kInvalidModel, "step {} runs no node", step);
    const MemoryNode& n = problem.nodes[size_t(k)];
    WEFT_CHECK(!ran[size_t(k)] || n.recompute, kInvalidModel, "step {} runs node {} again", step,
               k);
    const auto need = [&](int other) {
      WEFT_CHECK(other < 0 || ran[size_t(other)], kInvalidModel,
                 "step {} runs node {} before node {}", step, k, other);
    };
    for (int v : n.inputs) need(problem.values[size_t(v)].producer);
    for (int a : n.after) need(a);
    for (int b : n.before)
      WEFT_CHECK(!ran[size_t(b)], kInvalidModel, "step {} runs node {} behind node {}", step, k, b);
    ran[size_t(k)] = 1;
  }
  for (size_t k = 0; k < ran.size(); ++k)
    WEFT_CHECK(ran[k], kInvalidModel, "node {} does not run", k);
}

MemoryOrder GivenOrder(const MemoryProblem& problem) {
  MemoryOrder order(problem.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace weft
