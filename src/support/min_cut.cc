/// min_cut.cc: see min_cut.h. Levels by breadth, then paths by depth without recursion.
#include "weft/support/min_cut.h"

#include <algorithm>

#include "weft/support/request.h"

namespace weft {

void MinCut::AddEdge(int from, int to, int64_t capacity) {
  edges_.push_back({to, first_[size_t(from)], capacity});
  first_[size_t(from)] = int(edges_.size()) - 1;
  edges_.push_back({from, first_[size_t(to)], 0});
  first_[size_t(to)] = int(edges_.size()) - 1;
}

bool MinCut::Solve(int64_t most_work) {
  work_left_ = most_work;
  while (FindLevels()) {
    RequestScope::Poll();
    Push();
  }
  if (work_left_ < 0) return false;
  FindSinkSide();
  return true;
}

bool MinCut::FindLevels() {
  if (work_left_ < 0) return false;
  level_.assign(first_.size(), -1);
  level_[kSource] = 0;
  queue_.assign(1, kSource);
  for (size_t k = 0; k < queue_.size() && level_[kSink] < 0; ++k)
    for (int e = first_[size_t(queue_[k])]; e >= 0; e = edges_[size_t(e)].next) {
      --work_left_;
      const int to = edges_[size_t(e)].to;
      if (edges_[size_t(e)].left == 0 || level_[size_t(to)] >= 0) continue;
      level_[size_t(to)] = level_[size_t(queue_[k])] + 1;
      queue_.push_back(to);
    }
  return level_[kSink] >= 0;
}

/// Flow along all paths on which the level rises by one with every edge.
void MinCut::Push() {
  at_ = first_;
  path_.clear();
  int node = kSource;
  constexpr int64_t kBetweenPolls = 1024;
  int64_t paths = 0;
  while (work_left_ >= 0) {
    if (node == kSink) {
      if (++paths % kBetweenPolls == 0) RequestScope::Poll();
      int64_t flow = kInfinite;
      for (const int e : path_) flow = std::min(flow, edges_[size_t(e)].left);
      size_t full = path_.size();
      for (size_t i = path_.size(); i-- > 0;) {
        Edge& e = edges_[size_t(path_[i])];
        e.left -= flow;
        edges_[size_t(path_[i]) ^ 1].left += flow;
        if (e.left == 0) full = i;
      }
      work_left_ -= int64_t(path_.size());
      node = edges_[size_t(path_[full]) ^ 1].to;
      path_.resize(full);
      continue;
    }
    int& e = at_[size_t(node)];
    while (e >= 0 && (edges_[size_t(e)].left == 0 ||
                      level_[size_t(edges_[size_t(e)].to)] != level_[size_t(node)] + 1)) {
      --work_left_;
      e = edges_[size_t(e)].next;
    }
    --work_left_;
    if (e >= 0) {
      path_.push_back(e);
      node = edges_[size_t(e)].to;
    } else if (node == kSource) {
      return;
    } else {  // a dead end
      node = edges_[size_t(path_.back()) ^ 1].to;
      at_[size_t(node)] = edges_[size_t(path_.back())].next;
      path_.pop_back();
    }
  }
}

void MinCut::FindSinkSide() {
  with_sink_.assign(first_.size(), 0);
  with_sink_[kSink] = 1;
  queue_.assign(1, kSink);
  for (size_t k = 0; k < queue_.size(); ++k)
    for (int e = first_[size_t(queue_[k])]; e >= 0; e = edges_[size_t(e)].next) {
      const int from = edges_[size_t(e)].to;
      if (edges_[size_t(e) ^ 1].left == 0 || with_sink_[size_t(from)]) continue;
      with_sink_[size_t(from)] = 1;
      queue_.push_back(from);
    }
}

}  // namespace weft
