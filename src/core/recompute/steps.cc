/// steps.cc: from a problem to steps without views, and from copies back to an order.
#include "steps.h"

#include <algorithm>

#include "weft/support/checked.h"

namespace weft::recompute {
namespace {

/// The value whose bytes `v` shows, itself where it is no view; -1: nobody's, from outside.
int RootOf(const MemoryProblem& p, int v) {
  // Checked problems show operands of what makes the view, so this ends.
  while (p.values[size_t(v)].shows >= 0) v = p.values[size_t(v)].shows;
  return p.values[size_t(v)].producer < 0 ? -1 : v;
}

/// It makes nothing but views: it has no bytes, and runs again whenever what it shows did.
bool OnlyShows(const MemoryProblem& p, const MemoryNode& n) {
  return !n.outputs.empty() && std::all_of(n.outputs.begin(), n.outputs.end(),
                                           [&](int v) { return p.values[size_t(v)].shows >= 0; });
}

constexpr int64_t kMostCost = int64_t{1} << 44;  // a million copies of the whole stay below 2^63

}  // namespace

Steps::Steps(const MemoryProblem& p, const MemoryOrder& given) : node(given) {
  const size_t values = p.values.size();
  std::vector<int> name(values, -1);
  std::vector<char> fixed(values, 0);
  int64_t cost = 0, all = 0;
  for (const MemoryNode& n : p.nodes)
    cost = CheckedAdd(cost, n.cost), all = CheckedAdd(all, n.scratch);
  for (const MemoryValue& v : p.values) all = CheckedAdd(all, v.bytes);
  (void)CheckedMul(all, 4);  // two of each value may be alive at once
  int shift = 0;
  while ((cost >> shift) > kMostCost) ++shift;
  steps.resize(given.size());
  std::vector<int> at(given.size(), 0);
  for (size_t t = 0; t < given.size(); ++t) at[size_t(given[t])] = int(t);
  for (size_t t = 0; t < given.size(); ++t) {
    const MemoryNode& n = p.nodes[size_t(given[t])];
    Step& s = steps[t];
    s.scratch = n.scratch;
    s.cost = n.cost >> shift;
    s.until = int(given.size());
    for (int b : n.before) s.until = std::min(s.until, at[size_t(b)]);
    const bool shows = OnlyShows(p, n);
    s.again = n.recompute && !n.outputs.empty() && !shows;
    std::vector<int> roots;
    for (int v : n.inputs) {
      const int root = RootOf(p, v);
      roots.push_back(root);
      if (root >= 0) s.inputs.push_back(name[size_t(root)]);
    }
    std::sort(s.inputs.begin(), s.inputs.end());
    s.inputs.erase(std::unique(s.inputs.begin(), s.inputs.end()), s.inputs.end());
    for (int v : s.inputs) readers[size_t(v)].push_back(int(t));
    for (int v : n.outputs) {
      const int root = RootOf(p, v);
      // A view that cannot be made again holds what it shows to its first instance.
      if (root != v && root >= 0 && (!shows || !n.recompute)) fixed[size_t(root)] = 1;
      if (p.values[size_t(v)].keep && root >= 0 && root != v) keep[size_t(name[size_t(root)])] = 1;
      if (p.values[size_t(v)].shows >= 0) continue;
      name[size_t(v)] = int(bytes.size());
      s.outputs.push_back(int(bytes.size()));
      bytes.push_back(p.values[size_t(v)].bytes);
      maker.push_back(int(t));
      keep.push_back(p.values[size_t(v)].keep);
      readers.emplace_back();
    }
    for (auto [i, o] : n.inplace) {
      if (size_t(i) >= roots.size() || size_t(o) >= n.outputs.size()) continue;
      const int in = roots[size_t(i)], out = n.outputs[size_t(o)];
      if (in < 0 || p.values[size_t(out)].shows >= 0 || p.values[size_t(in)].bytes == 0) continue;
      if (p.values[size_t(in)].bytes == p.values[size_t(out)].bytes &&
          std::count(roots.begin(), roots.end(), in) == 1)
        s.inplace.emplace_back(name[size_t(in)], name[size_t(out)]);
    }
  }
  for (size_t v = 0; v < values; ++v)
    if (fixed[v] && name[v] >= 0) steps[size_t(maker[size_t(name[v])])].again = false;
}

MemoryOrder OrderOfRuns(const MemoryProblem& p, const Steps& steps, const std::vector<int>& runs) {
  MemoryOrder order;
  std::vector<int> made(p.values.size(), -1);   // run that made the instance that is current
  std::vector<int> shown(p.values.size(), -1);  // of a view: the run whose bytes it shows
  const auto base = [&](int v) { return made[size_t(RootOf(p, v))]; };
  std::vector<int> stack;
  const auto run = [&](int node) {
    for (int v : p.nodes[size_t(node)].outputs) {
      if (p.values[size_t(v)].shows < 0)
        made[size_t(v)] = int(order.size());
      else if (RootOf(p, v) >= 0)
        shown[size_t(v)] = base(v);
    }
    order.push_back(node);
  };
  std::vector<char> ran(p.nodes.size(), 0);
  const auto refresh = [&](const std::vector<int>& read) {
    for (int v : read) {
      // Outermost view first on the stack; run from the value itself outwards.
      for (int at = v; p.values[size_t(at)].shows >= 0; at = p.values[size_t(at)].shows)
        if (RootOf(p, at) >= 0 && ran[size_t(p.values[size_t(at)].producer)] &&
            shown[size_t(at)] != base(at))
          stack.push_back(p.values[size_t(at)].producer);
      for (; !stack.empty(); stack.pop_back()) run(stack.back());
    }
  };
  for (int s : runs) {
    const int n = steps.node[size_t(s)];
    refresh(p.nodes[size_t(n)].inputs);
    run(n);
    ran[size_t(n)] = 1;
  }
  std::vector<int> kept;
  for (size_t v = 0; v < p.values.size(); ++v)
    if (p.values[v].keep && p.values[v].shows >= 0) kept.push_back(int(v));
  refresh(kept);
  return order;
}

MemoryOrder OrderOf(const MemoryProblem& p, const Steps& steps, const Copies& copies) {
  std::vector<int> runs;
  runs.reserve(steps.steps.size() + copies.size());
  auto copy = copies.begin();
  for (int t = 0; t <= int(steps.steps.size()); ++t) {
    for (; copy != copies.end() && copy->at == t; ++copy) runs.push_back(copy->step);
    if (t < int(steps.steps.size())) runs.push_back(t);
  }
  return OrderOfRuns(p, steps, runs);
}

}  // namespace weft::recompute
