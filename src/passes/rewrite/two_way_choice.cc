/// two_way_choice.cc: see two_way_choice.h. What is reached from the true side when no path is left
/// to push along is true.
#include "two_way_choice.h"

#include <algorithm>

namespace weft {
namespace {
constexpr int kTrue = 0, kFalse = 1;
}

int TwoWayChoice::AddNode() {
  out_.emplace_back();
  return int(out_.size()) - 1;
}
int TwoWayChoice::AddVariable() {
  variables_.push_back(AddNode());
  if_false_.push_back(0);
  if_true_.push_back(0);
  return int(variables_.size()) - 1;
}
void TwoWayChoice::Connect(int from, int to, int64_t capacity, int64_t back) {
  out_[size_t(from)].push_back(int(edges_.size()));
  edges_.push_back({to, capacity});
  out_[size_t(to)].push_back(int(edges_.size()));
  edges_.push_back({from, back});
}
void TwoWayChoice::Pay(int variable, int64_t if_false, int64_t if_true) {
  const auto add = [](int64_t* to, int64_t cost) { *to = std::min(kForbidden, *to + cost); };
  add(&if_false_[size_t(variable)], if_false);
  add(&if_true_[size_t(variable)], if_true);
}
void TwoWayChoice::PayUnlessAlike(const std::vector<int>& variables, int64_t cost) {
  if (variables.size() == 2) {
    Connect(variables_[size_t(variables[0])], variables_[size_t(variables[1])], cost, cost);
    return;
  }
  // `some` is on the true side when some variable is, `all` when all are.
  const int some = AddNode(), all = AddNode();
  Connect(some, all, cost);
  for (int v : variables) {
    Connect(variables_[size_t(v)], some, kForbidden);
    Connect(all, variables_[size_t(v)], kForbidden);
  }
}

bool TwoWayChoice::FindLevels() {
  level_.assign(out_.size(), -1);
  level_[kTrue] = 0;
  std::vector<int> queue{kTrue};
  for (size_t done = 0; done < queue.size(); ++done)
    for (int i : out_[size_t(queue[done])]) {
      ++steps_;
      const Edge& e = edges_[size_t(i)];
      if (e.capacity == 0 || level_[size_t(e.to)] >= 0) continue;
      level_[size_t(e.to)] = level_[size_t(queue[done])] + 1;
      queue.push_back(e.to);
    }
  return level_[kFalse] >= 0;
}

bool TwoWayChoice::Augment() {
  next_.assign(out_.size(), 0);
  std::vector<int> path;  // edges from the true side
  for (int at = kTrue;;) {
    if (at == kFalse) {
      int64_t least = kForbidden;
      for (int i : path) least = std::min(least, edges_[size_t(i)].capacity);
      if (least >= kForbidden) return false;  // every choice is forbidden
      size_t first_full = path.size();
      for (size_t k = path.size(); k-- > 0;) {
        Edge& e = edges_[size_t(path[k])];
        if (e.capacity < kForbidden) e.capacity -= least;
        edges_[size_t(path[k] ^ 1)].capacity =
            std::min(kForbidden, edges_[size_t(path[k] ^ 1)].capacity + least);
        if (e.capacity == 0) first_full = k;
      }
      steps_ += int64_t(path.size());
      at = first_full == 0 ? kTrue : edges_[size_t(path[first_full - 1])].to;
      path.resize(first_full);
      continue;
    }
    if (steps_ >= 0) return false;
    bool moved = false;
    const std::vector<int>& own = out_[size_t(at)];
    for (size_t& k = next_[size_t(at)]; k < own.size(); ++k) {
      ++steps_;
      const Edge& e = edges_[size_t(own[k])];
      if (e.capacity == 0 || level_[size_t(e.to)] != level_[size_t(at)] + 1) continue;
      path.push_back(own[k]);
      at = e.to;
      moved = true;
      break;
    }
    if (moved) continue;
    if (path.empty()) return true;
    // A dead end: not visited again.
    const int back = edges_[size_t(path.back() ^ 1)].to;
    path.pop_back();
    ++next_[size_t(back)];
    at = back;
  }
}

std::vector<bool> TwoWayChoice::Solve(int64_t most_steps) {
  for (size_t v = 0; v < variables_.size(); ++v) {
    // What both values cost says nothing.
    const int64_t both = std::min(if_false_[v], if_true_[v]);
    if (if_false_[v] > both) Connect(kTrue, variables_[v], if_false_[v] - both);
    if (if_true_[v] > both) Connect(variables_[v], kFalse, if_true_[v] - both);
  }
  steps_ = -most_steps;
  bool done = true;
  while (done && FindLevels()) done = Augment() && steps_ < 0;
  std::vector<bool> values;
  for (size_t v = 0; v < variables_.size(); ++v)
    values.push_back(done ? level_[size_t(variables_[v])] >= 0 : if_false_[v] >= kForbidden);
  return values;
}

}  // namespace weft
