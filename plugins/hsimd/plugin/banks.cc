/// banks.cc: values into banks, the nodes with the most words first.
#include "banks.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>

#include "../rules/axes.h"
#include "weft/support/error.h"

namespace hsimd {

using namespace weft;

namespace {

/// Up to so many values of one node all ways are tried.
constexpr size_t kMostTried = 12;

struct Value {
  NodeEntry entry;
  int64_t words = 0;
  bool is_a = false;  ///< of some product
  int bank = -1;
  std::vector<int> nodes;  ///< that need it near
};

/// The values that a node needs near at once.
struct Needs {
  int64_t words = 0;
  std::vector<int> values;
};

/// Moves values of nodes whose banks overflow to other banks, and what they crowd out there in
/// turn.
class MakeRoom {
 public:
  MakeRoom(const std::vector<MachineMemories::Bank>& banks, const std::vector<Needs>& needs,
           std::vector<Value>* values)
      : banks_(banks), needs_(needs), values_(*values) {}

  void In(int node) {
    for (int bank = 0; bank < int(banks_.size()); ++bank) Relieve(node, bank, kDeepest);
  }

 private:
  /// Values that one after another make room for each other.
  static constexpr int kDeepest = 6;
  static constexpr int kTries = 20'000;

  bool Overflows(int node, int bank) const {
    int64_t used = 0;
    for (const int v : needs_[size_t(node)].values)
      if (values_[size_t(v)].bank == bank) used += values_[size_t(v)].words;
    return used > banks_[size_t(bank)].words;
  }
  /// False, and nothing changed, where no values of the node can leave.
  bool Relieve(int node, int bank, int deepest) {
    if (!Overflows(node, bank)) return true;
    if (deepest == 0 || --tries_ < 0) return false;
    for (const int v : needs_[size_t(node)].values) {
      Value& value = values_[size_t(v)];
      if (value.bank != bank || moved_.count(v)) continue;
      for (int to = 0; to < int(banks_.size()); ++to) {
        if (to == bank) continue;
        std::vector<int> before;
        for (const Value& other : values_) before.push_back(other.bank);
        value.bank = to;
        moved_.insert(v);
        bool fits = true;
        for (const int n : value.nodes) fits = fits && Relieve(n, to, deepest - 1);
        fits = fits && Relieve(node, bank, deepest - 1);
        moved_.erase(v);
        if (fits) return true;
        for (size_t i = 0; i < values_.size(); ++i) values_[i].bank = before[i];
      }
    }
    return false;
  }

  const std::vector<MachineMemories::Bank>& banks_;
  const std::vector<Needs>& needs_;
  std::vector<Value>& values_;
  std::set<int> moved_;  ///< on the way
  int tries_ = kTries;   ///< left of a search that may find nothing
};

}  // namespace

std::vector<ProductOperands> ProductsOf(const Graph& graph, const NodePtr& node) {
  std::vector<ProductOperands> out;
  if (!Runs(node) || MovesOnly(node)) return out;
  OperatorParts parts;
  try {
    parts = TakeApart(graph, node);
  } catch (const UserError&) {
    return out;  // no rule reads it; lowering tells why
  }
  for (const ReducePart& part : parts.reduces) {
    const std::optional<ProductPart> product = ProductOf(part);
    if (!product) continue;
    ProductOperands operands;
    const Expr* loads[2] = {&product->a, &product->b};
    const std::vector<int>* rows[2] = {&product->only_a, &product->only_b};
    for (int k = 0; k < 2; ++k) {
      const int buffer = (*loads[k])->buffer();
      if (buffer < 0 || size_t(buffer) >= parts.input_axes.size()) continue;
      operands.operand[k] = buffer;
      const std::vector<int>& axes = parts.input_axes[size_t(buffer)];
      for (size_t d = 0; d < axes.size(); ++d)
        if (std::count(rows[k]->begin(), rows[k]->end(), axes[d])) operands.rows[k].push_back(d);
    }
    out.push_back(std::move(operands));
  }
  return out;
}

std::vector<int> MatrixOperands(const std::vector<ProductOperands>& products,
                                const std::vector<Layout>& operands, const Machine& machine) {
  const std::string& pe = machine.levels.back().name;
  std::vector<int> out;
  for (const ProductOperands& product : products)
    for (int k = 0; k < 2; ++k) {
      const int operand = product.operand[k];
      if (operand < 0 || size_t(operand) >= operands.size()) continue;
      bool on_pe = false;
      for (const size_t d : product.rows[k])
        if (d < operands[size_t(operand)].axes.size())
          for (const Digit& digit : operands[size_t(operand)].axes[d])
            on_pe = on_pe || (digit.level == pe && digit.size > 1);
      if (on_pe) out.push_back(operand);
    }
  return out;
}

size_t BankOfA(const MachineMemories& memories) { return memories.banks.size() > 1 ? 1 : 0; }

bool FitsBanks(const std::vector<MachineMemories::Bank>& banks, std::vector<int64_t> words) {
  std::sort(words.rbegin(), words.rend());
  if (words.size() > kMostTried) {
    int64_t all = 0, room = 0;
    for (const int64_t w : words) all += w;
    for (const auto& bank : banks) room += bank.words;
    return all <= room && (words.empty() || words[0] <= banks[0].words);
  }
  std::vector<int64_t> left;
  for (const auto& bank : banks) left.push_back(bank.words);
  const std::function<bool(size_t)> place = [&](size_t k) {
    if (k == words.size()) return true;
    for (int64_t& room : left) {
      if (room < words[k]) continue;
      room -= words[k];
      if (place(k + 1)) return true;
      room += words[k];
    }
    return false;
  };
  return place(0);
}

bool FitsBanks(const MachineMemories& memories, const Machine& machine,
               const std::vector<ProductOperands>& products, const LayoutCandidate& candidate) {
  std::vector<int64_t> each;
  for (size_t i = 0; i < candidate.inputs.size(); ++i)
    if (!candidate.IsUnread(i)) each.push_back(Words(candidate.inputs[i]));
  for (const Layout& l : candidate.outputs) each.push_back(Words(l));
  if (!FitsBanks(memories.banks, each)) return false;
  // What the matrix unit takes as A lies in a bank for it, or is copied to the scratch there.
  if (memories.banks.size() > 1)
    for (const int a : MatrixOperands(products, candidate.inputs, machine))
      if (Words(candidate.inputs[size_t(a)]) > memories.banks[BankOfA(memories)].words)
        return false;
  return true;
}

NodePlaces PlacesOf(const MachineMemories& memories, const Machine& machine,
                    const std::vector<ProductOperands>& products,
                    const LayoutCandidate& candidate) {
  NodePlaces places;
  std::vector<ValuePlace*> all;
  for (const Layout& l : candidate.inputs) places.inputs.push_back({"", -1, l});
  for (const Layout& l : candidate.outputs) places.outputs.push_back({"", -1, l});
  for (auto* list : {&places.inputs, &places.outputs})
    for (ValuePlace& p : *list) all.push_back(&p);
  const std::vector<int> of_matrix = MatrixOperands(products, candidate.inputs, machine);
  const auto is_a = [&](size_t i) {
    return std::count(of_matrix.begin(), of_matrix.end(), int(i));
  };
  // Large ones first, so that small ones find room beside them.
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t k) {
    return Words(all[i]->layout) > Words(all[k]->layout);
  });
  std::vector<int64_t> left;
  for (const MachineMemories::Bank& bank : memories.banks) left.push_back(bank.words);
  for (const size_t i : order) {
    if (candidate.IsUnread(i)) continue;
    const size_t banks = left.size();
    size_t bank = is_a(i) ? BankOfA(memories) : 0;
    for (size_t k = 0; k < banks && left[bank] < Words(all[i]->layout); ++k)
      bank = (bank + 1) % banks;
    left[bank] -= Words(all[i]->layout);
    all[i]->memory = machine.memories[size_t(memories.banks[bank].memory)].name;
  }
  return places;
}

NodeRuns RunsOn(const Graph& graph, const NodePtr& node, NodeLowering& lowering) {
  const Machine& machine = *lowering.machine();
  const MachineMemories memories = MemoriesOf(machine);
  const std::vector<ProductOperands> products = ProductsOf(graph, node);
  std::vector<LayoutCandidate> candidates;
  try {
    candidates = LayoutCandidates(graph, node, machine);
  } catch (const UserError& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    return NodeRuns::kRefused;
  }
  NodeRuns found = NodeRuns::kNoRoom;
  int64_t tried = 0;
  for (const LayoutCandidate& c : candidates) {
    if (!FitsBanks(memories, machine, products, c)) continue;
    if (++tried > kMostPlanned) break;
    try {
      lowering.Measure(node, PlacesOf(memories, machine, products, c));
      return NodeRuns::kYes;
    } catch (const UserError& e) {
      if (e.code() == ErrorCode::kUnsupported || e.code() == ErrorCode::kInvalidModel)
        found = NodeRuns::kRefused;
      else if (e.code() != ErrorCode::kLimit)
        throw;
    }
  }
  return found;
}

void AssignBanks(const Graph& graph, const MachineMemories& memories, const Machine& machine,
                 PlaceMap* places) {
  const auto& banks = memories.banks;
  if (banks.size() < 2) return;
  const std::string home = machine.memories[size_t(memories.home)].name;
  std::vector<Value> values;
  std::unordered_map<uint64_t, int> number;
  std::vector<Needs> needs;
  const std::vector<NodePtr> order = graph.TopoOrder();
  for (const NodePtr& n : order) {
    if (!Runs(n)) continue;
    Needs need;
    const auto add = [&](const NodeEntry& e) {
      const NodeEntry whole = Whole(e);
      const ValuePlace* place = places->find(whole);
      if (!place || place->memory != home) return;
      const auto [it, fresh] = number.emplace(whole.key().packed(), int(values.size()));
      if (fresh) values.push_back({whole, Words(place->layout), false, -1, {}});
      Value& value = values[size_t(it->second)];
      if (!value.nodes.empty() && value.nodes.back() == int(needs.size())) return;
      value.nodes.push_back(int(needs.size()));
      need.values.push_back(it->second);
      need.words += value.words;
    };
    std::vector<Layout> operands;
    std::vector<NodeEntry> entries;
    for (const NodeEntry& e : n->inputs) {
      if (!e.node) continue;
      add(e);
      entries.push_back(e);
      const ValuePlace* place = places->find(e);
      operands.push_back(place ? place->layout : Layout());
    }
    for (const int a : MatrixOperands(ProductsOf(graph, n), operands, machine))
      if (const auto it = number.find(Whole(entries[size_t(a)]).key().packed()); it != number.end())
        values[size_t(it->second)].is_a = true;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) add(NodeEntry(n, i));
    needs.push_back(std::move(need));
  }
  std::vector<size_t> by_words(needs.size());
  for (size_t k = 0; k < by_words.size(); ++k) by_words[k] = k;
  std::stable_sort(by_words.begin(), by_words.end(),
                   [&](size_t a, size_t b) { return needs[a].words > needs[b].words; });
  const auto has_room = [&](const Value& value, int bank) {
    for (const int n : value.nodes) {
      int64_t used = value.words;
      for (const int v : needs[size_t(n)].values)
        if (values[size_t(v)].bank == bank) used += values[size_t(v)].words;
      if (used > banks[size_t(bank)].words) return false;
    }
    return true;
  };
  for (const size_t n : by_words) {
    std::vector<int> mine = needs[n].values;
    std::stable_sort(mine.begin(), mine.end(), [&](int a, int b) {
      return values[size_t(a)].words > values[size_t(b)].words;
    });
    for (const int v : mine) {
      Value& value = values[size_t(v)];
      if (value.bank >= 0) continue;
      const int wanted = value.is_a ? int(BankOfA(memories)) : 0;
      for (int k = 0; k < int(banks.size()) && value.bank < 0; ++k) {
        const int bank = (wanted + k) % int(banks.size());
        if (has_room(value, bank)) value.bank = bank;
      }
      if (value.bank < 0) value.bank = 0;
    }
  }
  // Where there was no room beside the others these make some; where they cannot, the schedule
  // tells.
  MakeRoom make_room(banks, needs, &values);
  for (size_t n = 0; n < needs.size(); ++n) make_room.In(int(n));
  for (const Value& value : values) {
    ValuePlace place = *places->find(value.entry);
    place.memory = machine.memories[size_t(banks[size_t(value.bank)].memory)].name;
    places->set(value.entry, std::move(place));
  }
  for (const NodePtr& n : order) {
    if (!IsView(n)) continue;
    const ValuePlace* place = places->find(NodeEntry(n));
    if (!place || place->memory != home) continue;
    ValuePlace moved = *place;
    moved.memory = places->find(Whole(NodeEntry(n)))->memory;
    places->set(NodeEntry(n), std::move(moved));
  }
}

}  // namespace hsimd
