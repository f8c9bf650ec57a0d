/// layout_network.cc: nodes, values and shared switches as cost tables.
#include "layout_network.h"

#include <algorithm>
#include <map>

#include "weft/support/check.h"

namespace hsimd {
namespace {

/// A reader with its wanted layouts among the kept candidates; readers that never want one are left
/// out.
struct KeptReader {
  int node = 0;
  std::vector<int> wanted;
};

std::vector<int> Pick(const std::vector<int>& of, const std::vector<int>& kept) {
  std::vector<int> out;
  for (int i : kept) out.push_back(of[size_t(i)]);
  return out;
}

double Capped(int64_t cost) { return double(std::min(cost, kNeverCost)); }

/// The layouts that at least two readers may want, after a -1.
std::vector<int> Shareable(const std::vector<KeptReader>& readers, int layouts) {
  std::vector<int> wanted_by(size_t(layouts), 0);
  for (const KeptReader& reader : readers) {
    std::vector<char> wants(size_t(layouts), 0);
    for (int w : reader.wanted)
      if (w >= 0) wants[size_t(w)] = 1;
    for (int l = 0; l < layouts; ++l) wanted_by[size_t(l)] += wants[size_t(l)];
  }
  std::vector<int> out{-1};
  for (int l = 0; l < layouts; ++l)
    if (wanted_by[size_t(l)] >= 2) out.push_back(l);
  return out;
}

/// The tables of one value.
class ValueTables {
 public:
  ValueTables(const LayoutProblem::Value& value, const std::vector<std::vector<int>>& kept,
              LayoutNetwork* out)
      : value_(value), out_(out), made_(Pick(value.made, kept[size_t(value.producer)])) {
    for (const LayoutProblem::Reader& reader : value.readers) {
      KeptReader r{reader.node, Pick(reader.wanted, kept[size_t(reader.node)])};
      if (std::any_of(r.wanted.begin(), r.wanted.end(), [](int w) { return w >= 0; }))
        readers_.push_back(std::move(r));
    }
  }

  void Add(int index, double entries) {
    const std::vector<int> layouts = Shareable(readers_, value_.layouts);
    if (readers_.size() >= 2 && layouts.size() > 1 && entries < 1) {
      for (const KeptReader& reader : readers_)
        AddReader(reader, {}, layouts, double(readers_.size()));
      Relax();
      return;
    }
    if (readers_.size() < 2 || layouts.size() == 1) {
      for (const KeptReader& reader : readers_) AddReader(reader, {}, layouts, 1);
      return;
    }
    size_t widest = 0;
    for (const KeptReader& reader : readers_) widest = std::max(widest, reader.wanted.size());
    const size_t needed = std::min(readers_.size() / 2, layouts.size() - 1);
    size_t count = 1;
    double table = double(made_.size() * widest * layouts.size());
    while (count < needed && table * double(layouts.size()) <= entries) {
      ++count;
      table *= double(layouts.size());
    }
    if (count < needed) count = 1;
    LayoutNetwork::Hubs hubs{index, int(out_->network.domain.size()), int(count), layouts};
    std::vector<int> variables;
    for (size_t h = 0; h < count; ++h) {
      variables.push_back(int(out_->network.domain.size()));
      out_->network.domain.push_back(int(layouts.size()));
      AddHub(variables.back(), layouts);
    }
    out_->hubs.push_back(hubs);
    const bool relaxed = count < needed;
    for (const KeptReader& reader : readers_)
      AddReader(reader, variables, layouts, relaxed ? double(readers_.size() / 2) : 1);
    if (relaxed) Relax();
  }

 private:
  void Relax() {
    out_->exact = false;
    out_->relaxed[size_t(value_.producer)] = 1;
    for (const KeptReader& reader : readers_) out_->relaxed[size_t(reader.node)] = 1;
  }

  void AddHub(int variable, const std::vector<int>& layouts) {
    CostTable table{{value_.producer, variable}, {}};
    for (int made : made_)
      for (int l : layouts) table.entries.push_back(Capped(SwitchCost(value_, made, l)));
    out_->network.tables.push_back(std::move(table));
  }

  void AddReader(const KeptReader& reader, const std::vector<int>& hubs,
                 const std::vector<int>& layouts, double shared) {
    CostTable table{{value_.producer}, {}};
    table.scope.insert(table.scope.end(), hubs.begin(), hubs.end());
    table.scope.push_back(reader.node);
    std::vector<size_t> at(hubs.size(), 0);
    for (int made : made_) {
      while (true) {
        for (int wanted : reader.wanted) {
          bool there = wanted < 0;
          for (size_t digit : at) there = there || layouts[digit] == wanted;
          const int64_t cost = there ? 0 : SwitchCost(value_, made, wanted);
          table.entries.push_back(cost >= kNeverCost ? Capped(cost) : double(cost) / shared);
        }
        size_t d = at.size();
        while (d > 0 && ++at[d - 1] == layouts.size()) at[--d] = 0;
        if (d == 0) break;
      }
    }
    out_->network.tables.push_back(std::move(table));
  }

  const LayoutProblem::Value& value_;
  LayoutNetwork* out_;
  std::vector<int> made_;
  std::vector<KeptReader> readers_;
};

}  // namespace

int64_t SwitchCost(const LayoutProblem::Value& value, int from, int to) {
  return to < 0 || from == to ? 0
                              : value.switches[size_t(from) * size_t(value.layouts) + size_t(to)];
}

LayoutNetwork BuildLayoutNetwork(const LayoutProblem& problem,
                                 const std::vector<std::vector<int>>& kept, double entries) {
  LayoutNetwork out;
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    out.network.domain.push_back(int(kept[n].size()));
    CostTable table{{int(n)}, {}};
    for (int i : kept[n]) table.entries.push_back(Capped(problem.nodes[n].cost[size_t(i)]));
    out.network.tables.push_back(std::move(table));
  }
  out.relaxed.assign(problem.nodes.size(), 0);
  for (size_t v = 0; v < problem.values.size(); ++v)
    ValueTables(problem.values[v], kept, &out).Add(int(v), entries);
  return out;
}

std::vector<int> ValuesOf(const LayoutProblem& problem, const LayoutNetwork& network,
                          const std::vector<std::vector<int>>& kept,
                          const std::vector<int>& candidate) {
  std::vector<int> values(network.network.domain.size(), 0);
  for (size_t n = 0; n < kept.size(); ++n) {
    const auto at = std::find(kept[n].begin(), kept[n].end(), candidate[n]);
    WEFT_ICHECK(at != kept[n].end(), "node {}: candidate {} is pruned", n, candidate[n]);
    values[n] = int(at - kept[n].begin());
  }
  for (const LayoutNetwork::Hubs& hubs : network.hubs) {
    const LayoutProblem::Value& value = problem.values[size_t(hubs.value)];
    const int made = value.made[size_t(candidate[size_t(value.producer)])];
    std::map<int, int> readers;
    for (const LayoutProblem::Reader& reader : value.readers) {
      const int wanted = reader.wanted[size_t(candidate[size_t(reader.node)])];
      if (wanted >= 0 && wanted != made) ++readers[wanted];
    }
    std::vector<std::pair<int64_t, int>> saves;
    for (const auto& [layout, count] : readers)
      if (count > 1) saves.emplace_back(-SwitchCost(value, made, layout) * (count - 1), layout);
    std::sort(saves.begin(), saves.end());
    for (size_t h = 0; h < std::min(saves.size(), size_t(hubs.count)); ++h) {
      const auto at = std::find(hubs.layouts.begin(), hubs.layouts.end(), saves[h].second);
      values[size_t(hubs.first) + h] = int(at - hubs.layouts.begin());
    }
  }
  return values;
}

}  // namespace hsimd
