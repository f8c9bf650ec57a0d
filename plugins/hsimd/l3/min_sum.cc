/// min_sum.cc: tables, their elimination, their bounds.
#include "min_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "weft/support/check.h"

namespace hsimd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How far apart neighbouring values of each variable of a scope lie in its table.
std::vector<int64_t> StridesOf(const CostNetwork& network, const std::vector<int>& scope) {
  std::vector<int64_t> strides(scope.size(), 1);
  for (size_t d = scope.size(); d-- > 1;)
    strides[d - 1] = strides[d] * network.domain[size_t(scope[d])];
  return strides;
}

int64_t EntriesOf(const CostNetwork& network, const std::vector<int>& scope) {
  int64_t n = 1;
  for (int x : scope) n *= network.domain[size_t(x)];
  return n;
}

/// Counts through the values of a scope, and keeps one offset for each table that is read beside.
class Odometer {
 public:
  Odometer(const CostNetwork& network, const std::vector<int>& scope) : digits_(scope.size(), 0) {
    for (int x : scope) extents_.push_back(network.domain[size_t(x)]);
  }
  /// `strides`: by variable of the scope, 0 where the table has it not.
  void Add(std::vector<int64_t> strides) {
    strides_.push_back(std::move(strides));
    offsets_.push_back(0);
  }
  int64_t offset(size_t table) const { return offsets_[table]; }
  bool Next() {
    for (size_t d = digits_.size(); d-- > 0;) {
      if (++digits_[d] < extents_[d]) {
        for (size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += strides_[k][d];
        return true;
      }
      digits_[d] = 0;
      for (size_t k = 0; k < offsets_.size(); ++k)
        offsets_[k] -= strides_[k][d] * (extents_[d] - 1);
    }
    return false;
  }

 private:
  std::vector<int> digits_, extents_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<int64_t> offsets_;
};

/// The strides of a table along another scope.
std::vector<int64_t> Along(const CostNetwork& network, const std::vector<int>& scope,
                           const std::vector<int>& table_scope) {
  const std::vector<int64_t> own = StridesOf(network, table_scope);
  std::vector<int64_t> strides;
  for (int x : scope) {
    const auto at = std::find(table_scope.begin(), table_scope.end(), x);
    strides.push_back(at == table_scope.end() ? 0 : own[size_t(at - table_scope.begin())]);
  }
  return strides;
}

CostTable Permuted(const CostNetwork& network, const CostTable& table,
                   const std::vector<int>& scope) {
  CostTable out{scope, {}};
  if (scope == table.scope) {
    out.entries = table.entries;
    return out;
  }
  out.entries.reserve(table.entries.size());
  Odometer at(network, scope);
  at.Add(Along(network, scope, table.scope));
  do out.entries.push_back(table.entries[size_t(at.offset(0))]);
  while (at.Next());
  return out;
}

/// out[t] = min(out[t], scalar + sum of rows[.][t]).
void MinOfSums(double scalar, const std::vector<const double*>& rows, int64_t n, double* out,
               std::vector<double>* buffer) {
  if (rows.empty()) {
    for (int64_t t = 0; t < n; ++t) out[t] = scalar < out[t] ? scalar : out[t];
    return;
  }
  const double* a = rows[0];
  if (rows.size() > 2) {
    buffer->assign(rows[0], rows[0] + n);
    for (size_t k = 2; k < rows.size(); ++k)
      for (int64_t t = 0; t < n; ++t) (*buffer)[size_t(t)] += rows[k][t];
    a = buffer->data();
  }
  if (rows.size() == 1) {
    for (int64_t t = 0; t < n; ++t) {
      const double v = scalar + a[t];
      out[t] = v < out[t] ? v : out[t];
    }
    return;
  }
  const double* b = rows[1];
  for (int64_t t = 0; t < n; ++t) {
    const double v = scalar + a[t] + b[t];
    out[t] = v < out[t] ? v : out[t];
  }
}

/// The table over `scope` (all variables of the tables but x) of the least sum over x.
CostTable MinOver(const CostNetwork& network, const std::vector<const CostTable*>& tables, int x,
                  std::vector<int> scope) {
  // The inner loop runs along the largest domain.
  if (!scope.empty()) {
    size_t widest = 0;
    for (size_t d = 1; d < scope.size(); ++d)
      if (network.domain[size_t(scope[d])] > network.domain[size_t(scope[widest])]) widest = d;
    std::rotate(scope.begin() + long(widest), scope.begin() + long(widest) + 1, scope.end());
  }
  const int last = scope.empty() ? -1 : scope.back();
  const int64_t n = last < 0 ? 1 : network.domain[size_t(last)];
  std::vector<int> outer(scope.begin(), scope.empty() ? scope.end() : scope.end() - 1);
  Odometer at(network, outer);
  std::vector<CostTable> ordered;
  std::vector<bool> has_last;
  for (const CostTable* table : tables) {
    std::vector<int> order;
    for (int y : outer)
      if (std::find(table->scope.begin(), table->scope.end(), y) != table->scope.end())
        order.push_back(y);
    order.push_back(x);
    has_last.push_back(last >= 0 && std::find(table->scope.begin(), table->scope.end(), last) !=
                                        table->scope.end());
    if (has_last.back()) order.push_back(last);
    ordered.push_back(Permuted(network, *table, order));
    at.Add(Along(network, outer, order));
  }
  CostTable out{scope, std::vector<double>(size_t(EntriesOf(network, scope)), kInfinity)};
  double* row = out.entries.data();
  std::vector<const double*> rows;
  std::vector<double> buffer;
  do {
    for (int64_t i = 0; i < network.domain[size_t(x)]; ++i) {
      double scalar = 0;
      rows.clear();
      for (size_t k = 0; k < ordered.size(); ++k) {
        const double* entries = ordered[k].entries.data() + at.offset(k);
        if (has_last[k])
          rows.push_back(entries + i * n);
        else
          scalar += entries[i];
      }
      MinOfSums(scalar, rows, n, row, &buffer);
    }
    row += n;
  } while (at.Next());
  return out;
}

double EntryAt(const CostNetwork& network, const CostTable& table, const std::vector<int>& values) {
  int64_t at = 0;
  for (int x : table.scope) at = at * network.domain[size_t(x)] + values[size_t(x)];
  return table.entries[size_t(at)];
}

/// A bucket as the way back needs it.
struct Bucket {
  int variable = 0;
  std::vector<CostTable> tables;
};

void WalkBack(const CostNetwork& network, const std::vector<Bucket>& buckets,
              std::vector<int>* values) {
  values->assign(network.domain.size(), 0);
  for (size_t b = buckets.size(); b-- > 0;) {
    int best = 0;
    double least = kInfinity;
    int& value = (*values)[size_t(buckets[b].variable)];
    for (value = 0; value < network.domain[size_t(buckets[b].variable)]; ++value) {
      double sum = 0;
      for (const CostTable& table : buckets[b].tables) sum += EntryAt(network, table, *values);
      if (sum < least) least = sum, best = value;
    }
    value = best;
  }
}

/// Elimination whose buckets are split where a table would have more than `limit` entries.
double Run(const CostNetwork& network, const EliminationOrder& order, double limit,
           std::vector<int>* values) {
  std::vector<std::vector<CostTable>> waiting(network.domain.size());
  std::vector<size_t> position(network.domain.size());
  for (size_t k = 0; k < order.order.size(); ++k) position[size_t(order.order[k])] = k;
  double constant = 0;
  const auto put = [&](CostTable table) {
    if (table.scope.empty()) {
      constant += table.entries[0];
      return;
    }
    int first = table.scope[0];
    for (int x : table.scope)
      if (position[size_t(x)] < position[size_t(first)]) first = x;
    waiting[size_t(first)].push_back(std::move(table));
  };
  for (const CostTable& table : network.tables) put(table);
  std::vector<Bucket> buckets;
  for (int x : order.order) {
    Bucket bucket{x, std::move(waiting[size_t(x)])};
    // Large tables first, each into the first group whose joint table stays within the limit.
    std::vector<size_t> by_size(bucket.tables.size());
    for (size_t k = 0; k < by_size.size(); ++k) by_size[k] = k;
    std::stable_sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
      return bucket.tables[a].entries.size() > bucket.tables[b].entries.size();
    });
    struct Group {
      std::vector<const CostTable*> tables;
      std::set<int> scope;
    };
    std::vector<Group> groups;
    for (size_t k : by_size) {
      const CostTable& table = bucket.tables[k];
      bool placed = false;
      for (Group& group : groups) {
        std::set<int> joint = group.scope;
        for (int y : table.scope)
          if (y != x) joint.insert(y);
        double entries = 1;
        for (int y : joint) entries *= network.domain[size_t(y)];
        if (entries > limit && joint != group.scope) continue;
        group.tables.push_back(&table);
        group.scope = std::move(joint);
        placed = true;
        break;
      }
      if (placed) continue;
      Group group;
      group.tables.push_back(&table);
      for (int y : table.scope)
        if (y != x) group.scope.insert(y);
      groups.push_back(std::move(group));
    }
    for (const Group& group : groups)
      put(MinOver(network, group.tables, x, {group.scope.begin(), group.scope.end()}));
    buckets.push_back(std::move(bucket));
  }
  if (values != nullptr) WalkBack(network, buckets, values);
  return constant;
}

/// The least entry of a table for every value of its variable d.
std::vector<double> MinAlong(const CostNetwork& network, const CostTable& table, size_t d) {
  const int64_t inner = StridesOf(network, table.scope)[d];
  const int64_t n = network.domain[size_t(table.scope[d])];
  const int64_t outer = int64_t(table.entries.size()) / (inner * n);
  std::vector<double> least(size_t(n), kInfinity);
  const double* entry = table.entries.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < inner; ++k, ++entry)
        least[size_t(i)] = *entry < least[size_t(i)] ? *entry : least[size_t(i)];
  return least;
}

void AddAlong(const CostNetwork& network, CostTable* table, size_t d,
              const std::vector<double>& costs, double factor) {
  const int64_t inner = StridesOf(network, table->scope)[d];
  const int64_t n = int64_t(costs.size());
  const int64_t outer = int64_t(table->entries.size()) / (inner * n);
  double* entry = table->entries.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i) {
      const double add = factor * costs[size_t(i)];
      for (int64_t k = 0; k < inner; ++k, ++entry) *entry += add;
    }
}

/// By variable: its tables and its place in them.
std::vector<std::vector<std::pair<size_t, size_t>>> TablesOf(const CostNetwork& network) {
  std::vector<std::vector<std::pair<size_t, size_t>>> of(network.domain.size());
  for (size_t k = 0; k < network.tables.size(); ++k)
    for (size_t d = 0; d < network.tables[k].scope.size(); ++d)
      of[size_t(network.tables[k].scope[d])].emplace_back(k, d);
  return of;
}

}  // namespace

EliminationOrder OrderOf(const CostNetwork& network) {
  const size_t n = network.domain.size();
  std::vector<std::set<int>> near(n);
  for (const CostTable& table : network.tables)
    for (int x : table.scope)
      for (int y : table.scope)
        if (x != y) near[size_t(x)].insert(y);
  const auto entries_of = [&](int x) {
    double entries = 1;
    for (int y : near[size_t(x)]) entries *= network.domain[size_t(y)];
    return entries;
  };
  EliminationOrder out;
  std::set<std::tuple<double, size_t, int>> queue;
  std::vector<std::tuple<double, size_t, int>> key(n);
  for (size_t x = 0; x < n; ++x) {
    key[x] = {entries_of(int(x)), near[x].size(), int(x)};
    queue.insert(key[x]);
  }
  while (!queue.empty()) {
    const auto [entries, degree, x] = *queue.begin();
    queue.erase(queue.begin());
    out.order.push_back(x);
    out.work += entries * network.domain[size_t(x)];
    out.largest = std::max(out.largest, entries);
    out.kept += entries;
    out.width = std::max(out.width, int(degree));
    for (int y : near[size_t(x)]) {
      near[size_t(y)].erase(x);
      for (int z : near[size_t(x)])
        if (z != y) near[size_t(y)].insert(z);
    }
    for (int y : near[size_t(x)]) {
      queue.erase(key[size_t(y)]);
      key[size_t(y)] = {entries_of(y), near[size_t(y)].size(), y};
      queue.insert(key[size_t(y)]);
    }
  }
  return out;
}

double Eliminate(const CostNetwork& network, const EliminationOrder& order,
                 std::vector<int>* values) {
  return Run(network, order, kInfinity, values);
}

double MiniBuckets(const CostNetwork& network, const EliminationOrder& order, double entries,
                   std::vector<int>* values) {
  return Run(network, order, entries, values);
}

double Reparametrize(CostNetwork* network, int passes, int64_t* work) {
  // One table of each variable alone holds what is not in the tables of several.
  std::vector<int> own(network->domain.size(), -1);
  for (size_t k = 0; k < network->tables.size(); ++k)
    if (network->tables[k].scope.size() == 1) own[size_t(network->tables[k].scope[0])] = int(k);
  for (size_t x = 0; x < own.size(); ++x)
    if (own[x] < 0) {
      own[x] = int(network->tables.size());
      network->tables.push_back({{int(x)}, std::vector<double>(size_t(network->domain[x]), 0)});
    }
  const auto tables_of = TablesOf(*network);
  const auto bound = [&] {
    double sum = 0;
    for (const CostTable& table : network->tables)
      sum += *std::min_element(table.entries.begin(), table.entries.end());
    return sum;
  };
  double best = bound();
  for (int pass = 0; pass < passes; ++pass) {
    const bool forward = pass % 2 == 0;
    for (size_t s = 0; s < own.size(); ++s) {
      const size_t x = forward ? s : own.size() - 1 - s;
      std::vector<double>& alone = network->tables[size_t(own[x])].entries;
      std::vector<std::pair<size_t, size_t>> ahead;
      size_t behind = 0;
      for (const auto& [k, d] : tables_of[x]) {
        CostTable& table = network->tables[k];
        if (table.scope.size() < 2) continue;
        const std::vector<double> least = MinAlong(*network, table, d);
        AddAlong(*network, &table, d, least, -1);
        for (size_t i = 0; i < alone.size(); ++i) alone[i] += least[i];
        *work -= 2 * int64_t(table.entries.size());
        const auto [low, high] = std::minmax_element(table.scope.begin(), table.scope.end());
        if (int(x) != (forward ? *high : *low)) ahead.emplace_back(k, d);
        if (int(x) != (forward ? *low : *high)) ++behind;
      }
      if (ahead.empty()) continue;
      const double share = 1.0 / double(std::max(ahead.size(), behind));
      for (const auto& [k, d] : ahead) {
        AddAlong(*network, &network->tables[k], d, alone, share);
        *work -= int64_t(network->tables[k].entries.size());
      }
      for (double& cost : alone) cost *= 1 - share * double(ahead.size());
    }
    best = std::max(best, bound());
    if (*work <= 0) break;
  }
  return best;
}

std::vector<std::vector<double>> LeastExcess(const CostNetwork& network) {
  std::vector<std::vector<double>> excess(network.domain.size());
  for (size_t x = 0; x < excess.size(); ++x) excess[x].assign(size_t(network.domain[x]), 0);
  for (const CostTable& table : network.tables) {
    if (table.scope.empty()) continue;
    const double least = *std::min_element(table.entries.begin(), table.entries.end());
    for (size_t d = 0; d < table.scope.size(); ++d) {
      const std::vector<double> along = MinAlong(network, table, d);
      for (size_t i = 0; i < along.size(); ++i)
        excess[size_t(table.scope[d])][i] += along[i] - least;
    }
  }
  return excess;
}

std::vector<std::vector<char>> Undominated(const CostNetwork& network, int64_t* work) {
  const auto tables_of = TablesOf(network);
  std::vector<std::vector<char>> keep;
  for (int n : network.domain) keep.emplace_back(size_t(n), 1);
  for (size_t x = 0; x < keep.size(); ++x) {
    const int n = network.domain[x];
    if (tables_of[x].empty()) continue;
    // Rows of a value, contiguous.
    std::vector<CostTable> rows;
    for (const auto& [k, d] : tables_of[x]) {
      std::vector<int> scope = network.tables[k].scope;
      scope.erase(scope.begin() + long(d));
      scope.insert(scope.begin(), int(x));
      rows.push_back(Permuted(network, network.tables[k], scope));
    }
    std::stable_sort(rows.begin(), rows.end(), [](const CostTable& a, const CostTable& b) {
      return a.entries.size() < b.entries.size();
    });
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n && keep[x][size_t(i)]; ++j) {
        if (i == j || !keep[x][size_t(j)]) continue;
        double worst = 0;
        size_t k = 0;
        for (; k < rows.size(); ++k) {
          const int64_t length = int64_t(rows[k].entries.size()) / n;
          const double* a = rows[k].entries.data() + i * length;
          const double* b = rows[k].entries.data() + j * length;
          double most = -kInfinity;
          int64_t at = 0;
          // Later tables could still make up for a loss here, so only the last one ends early.
          const double slack = k + 1 == rows.size() ? -worst : kInfinity;
          for (; at < length && most <= slack; ++at) most = std::max(most, b[at] - a[at]);
          *work -= at;
          worst += most;
          if (k + 1 < rows.size() && most > 0 && length > 4096) break;
        }
        if (k == rows.size() && worst <= 0) keep[x][size_t(i)] = 0;
        if (*work <= 0) return keep;
      }
  }
  return keep;
}

CostNetwork Condition(const CostNetwork& network, const std::vector<int>& values,
                      const std::vector<int>& free, bool entries) {
  CostNetwork out;
  std::map<int, int> number;
  for (int x : free) {
    number.emplace(x, int(out.domain.size()));
    out.domain.push_back(network.domain[size_t(x)]);
  }
  for (const CostTable& table : network.tables) {
    const std::vector<int64_t> strides = StridesOf(network, table.scope);
    CostTable small;
    std::vector<int64_t> along;
    int64_t base = 0;
    for (size_t d = 0; d < table.scope.size(); ++d) {
      const auto it = number.find(table.scope[d]);
      if (it == number.end()) {
        base += strides[d] * values[size_t(table.scope[d])];
      } else {
        small.scope.push_back(it->second);
        along.push_back(strides[d]);
      }
    }
    if (!entries) {
      out.tables.push_back(std::move(small));
      continue;
    }
    Odometer at(out, small.scope);
    at.Add(along);
    do small.entries.push_back(table.entries[size_t(base + at.offset(0))]);
    while (at.Next());
    out.tables.push_back(std::move(small));
  }
  return out;
}

}  // namespace hsimd
