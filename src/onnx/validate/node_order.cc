/// node_order.cc: the order in which the nodes of a graph can be taken, and what stands against
/// one.
#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_set>

#include "validate.h"

namespace weft::onnx_import {
namespace {

/// Calls f(j) for every node j of the list whose result node i reads, itself or in its graphs.
template <class F>
void ForEachProducer(const NodeList& nodes, int i, const Definitions& defined, F f) {
  ForEachRead(nodes.Get(i), [&](const std::string& name) {
    const auto it = defined.find(name);
    if (it != defined.end() && it->second >= 0) f(it->second);
  });
}

/// A cycle among nodes that each wait for another of them.
std::vector<int> FindCycle(const NodeList& nodes, const Definitions& defined,
                           const std::vector<int>& waits) {
  int at =
      int(std::find_if(waits.begin(), waits.end(), [](int n) { return n > 0; }) - waits.begin());
  // Going from a waiting node to a waiting producer must come back to where it has been.
  std::unordered_map<int, size_t> seen;
  std::vector<int> walk;
  while (seen.emplace(at, walk.size()).second) {
    walk.push_back(at);
    int next = -1;
    ForEachProducer(nodes, at, defined, [&](int p) {
      if (next < 0 && waits[size_t(p)] > 0) next = p;
    });
    at = next;
  }
  walk.erase(walk.begin(), walk.begin() + std::ptrdiff_t(seen.at(at)));
  std::reverse(walk.begin(), walk.end());
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
  return walk;
}

}  // namespace

std::vector<std::string> FreeNames(const pb::GraphProto& g) {
  std::unordered_set<std::string_view> defined;
  for (const auto& v : g.input()) defined.insert(v.name());
  for (const auto& t : g.initializer()) defined.insert(t.name());
  for (const auto& t : g.sparse_initializer()) defined.insert(t.values().name());
  for (const auto& n : g.node()) defined.insert(n.output().begin(), n.output().end());
  std::vector<std::string> out;
  std::unordered_set<std::string> seen;
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !defined.count(name) && seen.insert(name).second) out.push_back(name);
  };
  for (const auto& n : g.node()) ForEachRead(n, read);
  for (const auto& v : g.output()) read(v.name());
  return out;
}

void ForEachRead(const pb::NodeProto& n, const std::function<void(const std::string&)>& f) {
  for (const std::string& in : n.input()) {
    if (!in.empty()) f(in);
  }
  // Recursion over nested graphs, which the parser bounds.
  const auto body = [&](const pb::GraphProto& g) {
    for (const std::string& name : FreeNames(g)) f(name);
  };
  for (const auto& a : n.attribute()) {
    if (a.has_g()) body(a.g());
    for (const auto& g : a.graphs()) body(g);
  }
}

std::vector<int> OrderNodes(const NodeList& nodes, const Definitions& defined,
                            std::vector<int>* cycle) {
  std::vector<int> waits(size_t(nodes.size()), 0);
  std::vector<std::vector<int>> users(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    ForEachProducer(nodes, i, defined, [&](int p) {
      users[size_t(p)].push_back(i);
      ++waits[size_t(i)];
    });
  }
  // The first of the list that can be taken: what is in order stays so.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (waits[size_t(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  order.reserve(size_t(nodes.size()));
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const int u : users[size_t(i)]) {
      if (--waits[size_t(u)] == 0) ready.push(u);
    }
  }
  if (int(order.size()) < nodes.size()) *cycle = FindCycle(nodes, defined, waits);
  return order;
}

}  // namespace weft::onnx_import
