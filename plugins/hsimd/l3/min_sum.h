/// min_sum.h: the least sum of cost tables over variables with finite domains: elimination, where
/// the tables stay small, and bounds where they do not. Private to the layout planner.
///
/// Costs are whole numbers held in double (exact below 2^53; the compiler has a vector minimum for
/// it). Forbidden entries hold kNeverCost or more.
/// Source: Dechter, 1999 (buckets, mini-buckets); Kolmogorov, PAMI 37, 2015 (SRMP:
/// reparametrization of tables of more than two variables); Desmet et al., Nature 356, 1992 (dead
/// ends).
#pragma once

#include <cstdint>
#include <vector>

namespace hsimd {

/// A table over `scope`, the last variable fastest.
struct CostTable {
  std::vector<int> scope;
  std::vector<double> entries;
};

struct CostNetwork {
  std::vector<int> domain;  ///< by variable: how many values it has
  std::vector<CostTable> tables;
};

/// What elimination in an order costs.
struct EliminationOrder {
  std::vector<int> order;
  double work = 0;     ///< looks at entries
  double largest = 0;  ///< entries of the largest table that is made
  double kept = 0;     ///< entries of all tables that are made
  int width = 0;       ///< variables of the widest table that is made
};

/// Smallest resulting table first; ties by fewer neighbours, then by number.
EliminationOrder OrderOf(const CostNetwork& network);

/// The least sum, and values that have it (the lowest where several have it).
double Eliminate(const CostNetwork& network, const EliminationOrder& order,
                 std::vector<int>* values);

/// At most the least sum: buckets are split so that no table has more than `entries`. `values` is
/// what the bound suggests, a good start for a search.
double MiniBuckets(const CostNetwork& network, const EliminationOrder& order, double entries,
                   std::vector<int>* values);

/// Moves costs between tables without changing any sum so that the sum of the tables' least entries
/// rises; returns it: at most the least sum. `passes` times over all variables.
double Reparametrize(CostNetwork* network, int passes, int64_t* work);

/// By variable and value: at most what a choice costs that has it, less `bound`; of a network that
/// Reparametrize has left, whose bound it returned.
std::vector<std::vector<double>> LeastExcess(const CostNetwork& network);

/// Values that another value of the same variable is never worse than, by variable: keep[x][i].
/// Spends at most `work` and lowers it.
std::vector<std::vector<char>> Undominated(const CostNetwork& network, int64_t* work);

/// The network of the `free` variables, numbered as there, where all others have `values`; scopes
/// alone without `entries`.
CostNetwork Condition(const CostNetwork& network, const std::vector<int>& values,
                      const std::vector<int>& free, bool entries);

}  // namespace hsimd
