/// candidates.cc: layouts for the operands and results of an operator under the general rule.
///
/// Every level above the PEs is dealt out to one class of axes, or to none (its places then all do
/// the same). The PEs take a class too, or, on a machine with a matrix unit, the rows of one
/// operand of a product together with the contraction of the other. Cost: operations of a place,
/// the products of a place, and words that go over links where a reduced axis is dealt out.
#include <algorithm>
#include <map>
#include <set>

#include "../l2/emit.h"
#include "../l2/next_index.h"
#include "axes.h"
#include "rule.h"
#include "weft/support/check.h"

namespace hsimd {

namespace {

/// Rows and contraction of a product on the PEs.
struct MatrixWay {
  size_t reduce = 0;
  bool a_left = true;  ///< the first load of the product is A
  int row = -1, inner = -1;
  bool shifted = false;  ///< the other operand is read shifted along `inner`, a tap of a window
};

class Candidates {
 public:
  Candidates(const weft::Graph& graph, const weft::NodePtr& node, const Machine& machine)
      : machine_(machine), parts_(TakeApart(graph, node)) {
    for (const Unit& unit : machine.units) {
      if (unit.kind == UnitKind::kMatrix) has_matrix_ = true;
      if (unit.kind == UnitKind::kRing && unit.child == machine.pe()) has_ring_ = true;
    }
    for (const ReducePart& part : parts_.reduces) {
      products_.push_back(ProductOf(part));
      if (!products_.back())
        for (int axis : part.reduced) exact_.insert(parts_.classes[size_t(axis)]);
    }
    for (size_t a = 0; a < parts_.extents.size(); ++a) {
      const int c = parts_.classes[a];
      if (c == int(a) && !parts_.local[a] && parts_.extents[a] > 1) classes_.push_back(c);
    }
  }

  std::vector<LayoutCandidate> Run() {
    std::vector<MatrixWay> ways = MatrixWays();
    const int pe = machine_.pe();
    std::vector<int> levels;  // above the PEs
    for (int l = 0; l < pe; ++l)
      if (machine_.levels[size_t(l)].count > 1) levels.push_back(l);
    std::vector<size_t> at(levels.size(), 0);
    // 0: to none of the classes.
    const std::vector<int64_t> choices(levels.size(), int64_t(classes_.size()) + 1);
    const bool pe_level = machine_.levels[size_t(pe)].count > 1;
    do {
      std::map<int, std::vector<int>> dealt;
      int64_t family = 0;
      for (size_t i = 0; i < levels.size(); ++i) {
        family = family * 16 + int64_t(std::min<size_t>(at[i], 15));
        if (at[i] > 0) dealt[classes_[at[i] - 1]].push_back(levels[i]);
      }
      family *= 64;
      Try(dealt, nullptr, family);
      if (pe_level)
        for (size_t c = 0; c < classes_.size(); ++c) {
          auto with = dealt;
          with[classes_[c]].push_back(pe);
          Try(with, nullptr, family + 1 + int64_t(std::min<size_t>(c, 30)));
        }
      for (size_t w = 0; w < ways.size(); ++w)
        Try(dealt, &ways[w], family + 32 + int64_t(std::min<size_t>(w, 31)));
    } while (NextIndex(&at, choices));
    std::stable_sort(
        found_.begin(), found_.end(),
        [](const LayoutCandidate& a, const LayoutCandidate& b) { return a.cycles < b.cycles; });
    if (found_.size() > size_t(kMaxCandidates)) found_.resize(size_t(kMaxCandidates));
    return std::move(found_);
  }

 private:
  std::vector<MatrixWay> MatrixWays() const {
    std::vector<MatrixWay> ways;
    if (!has_matrix_) return ways;
    for (size_t r = 0; r < parts_.reduces.size(); ++r) {
      const std::optional<ProductPart>& product = products_[r];
      if (!product) continue;
      for (const bool left : {true, false})
        for (int row : left ? product->only_a : product->only_b)
          for (int inner : product->inner)
            if (!parts_.local[size_t(row)]) {
              if (!parts_.local[size_t(inner)])
                ways.push_back({r, left, row, inner, false});
              else if (IsTap(left ? product->a : product->b, left ? product->b : product->a, inner))
                ways.push_back({r, left, row, inner, true});
            }
    }
    return ways;
  }

  /// A reads the axis as it is, x reads it with others in one index.
  bool IsTap(const Expr& a, const Expr& x, int axis) const {
    bool pure = false, shifted = false;
    for (int d = 0; d < a->num_indices(); ++d) pure |= AffineOf(a->operand(d))->pure() == axis;
    for (int d = 0; d < x->num_indices(); ++d) {
      const Affine index = *AffineOf(x->operand(d));
      if (index.terms.count(axis)) shifted = index.pure() < 0 && index.terms.at(axis) > 0;
    }
    return pure && shifted && parts_.extents[size_t(axis)] > 1;
  }

  void Try(const std::map<int, std::vector<int>>& dealt, const MatrixWay* way, int64_t family) {
    const int pe = machine_.pe();
    std::map<int, int64_t> places;
    for (const auto& [c, levels] : dealt) {
      int64_t n = 1;
      for (int l : levels) n *= machine_.levels[size_t(l)].count;
      places[c] = n;
      const int64_t extent = parts_.extents[size_t(c)];
      // No level whose places would mostly be empty; reductions that are no products want no holes.
      if (n > extent) return;
      if (exact_.count(c) && extent % n != 0) return;
    }
    const int64_t fan = machine_.levels.back().count;
    const int row_class = way ? parts_.classes[size_t(way->row)] : -1;
    const int inner_class = way ? parts_.classes[size_t(way->inner)] : -1;
    if (way && row_class == inner_class) return;
    if (way)
      for (int c : {row_class, inner_class})
        if (const auto it = places.find(c);
            it != places.end() && it->second > 1 &&
            it->second * fan > (parts_.extents[size_t(c)] + fan - 1) / fan * fan)
          return;

    LayoutCandidate candidate;
    const auto levels_of = [&](int axis) {
      std::vector<bool> over(machine_.levels.size(), false);
      if (const auto it = dealt.find(parts_.classes[size_t(axis)]); it != dealt.end())
        for (int l : it->second) over[size_t(l)] = true;
      return over;
    };
    int a_input = -1, x_input = -1;
    if (way) {
      const std::optional<ProductPart>& product = products_[way->reduce];
      a_input = (way->a_left ? product->a : product->b)->buffer();
      x_input = (way->a_left ? product->b : product->a)->buffer();
      if (a_input == x_input || a_input >= int(parts_.input_shapes.size()) ||
          x_input >= int(parts_.input_shapes.size()))
        return;
      if ((way->a_left ? product->a : product->b)->has_guard()) return;
    }
    for (size_t i = 0; i < parts_.input_shapes.size(); ++i) {
      std::vector<std::vector<bool>> levels;
      std::vector<int64_t> multiple;
      for (size_t d = 0; d < parts_.input_shapes[i].size(); ++d) {
        const int axis = parts_.input_axes[i][d];
        levels.push_back(axis < 0 ? std::vector<bool>(machine_.levels.size(), false)
                                  : levels_of(axis));
        multiple.push_back(1);
        if (!way || axis < 0) continue;
        const int c = parts_.classes[size_t(axis)];
        if (c == inner_class && int(i) == a_input)
          multiple.back() = fan;
        else if ((c == inner_class && !way->shifted) || c == row_class)
          levels.back()[size_t(pe)] = true;
      }
      candidate.inputs.push_back(SplitLayout(parts_.input_shapes[i], machine_, levels, multiple));
    }
    for (const bool read : parts_.read) candidate.unread.push_back(!read);
    candidate.outputs.resize(parts_.output_shapes.size());
    for (const ResultPart& part : parts_.results) {
      std::vector<std::vector<bool>> levels;
      for (int axis : part.axes) {
        levels.push_back(levels_of(axis));
        const int c = parts_.classes[size_t(axis)];
        if (way && (c == row_class || (c == inner_class && !way->shifted)))
          levels.back()[size_t(pe)] = true;
      }
      candidate.outputs[size_t(part.output)] =
          SplitLayout(parts_.output_shapes[size_t(part.output)], machine_, levels);
    }
    candidate.cycles = Cost(dealt, places, way);
    candidate.family = int(family);
    for (const auto& [c, levels] : dealt)
      for (int l : levels)
        candidate.name += fmt::format("{}{}:{}", candidate.name.empty() ? "" : " ",
                                      machine_.levels[size_t(l)].name, c);
    if (way)
      candidate.name += fmt::format("{}{}:{}x{}", candidate.name.empty() ? "" : " ",
                                    machine_.levels[size_t(pe)].name, way->row, way->inner);
    found_.push_back(std::move(candidate));
  }

  int64_t Cost(const std::map<int, std::vector<int>>& dealt, const std::map<int, int64_t>& places,
               const MatrixWay* way) const {
    const int64_t fan = machine_.levels.back().count;
    const auto local = [&](int axis) {
      const auto it = places.find(parts_.classes[size_t(axis)]);
      const int64_t n = it == places.end() ? 1 : it->second;
      return (parts_.extents[size_t(axis)] + n - 1) / n;
    };
    int64_t cycles = 0;
    for (size_t r = 0; r < parts_.reduces.size(); ++r) {
      const ReducePart& part = parts_.reduces[r];
      int64_t points = 1, kept = 1;
      for (int axis : part.kept) kept *= local(axis);
      points = kept;
      for (int axis : part.reduced) points *= local(axis);
      if (way && way->reduce == r) {
        const auto up = [&](int axis) { return (local(axis) + fan - 1) / fan * fan; };
        points = points / local(way->row) * up(way->row) / local(way->inner) * up(way->inner);
        cycles += points / (fan * fan) + 8;
        // Copies for every PE.
        if (way->shifted) {
          const std::optional<ProductPart>& product = products_[r];
          int64_t words = fan;
          const size_t x = size_t((way->a_left ? product->b : product->a)->buffer());
          for (size_t d = 0; d < parts_.input_shapes[x].size(); ++d) {
            const int axis = parts_.input_axes[x][d];
            words *= axis < 0 ? parts_.input_shapes[x][d] : local(axis);
          }
          cycles += words;
        }
        kept = kept / local(way->row) * up(way->row) / fan;
      } else {
        cycles += points * std::max<int64_t>(1, int64_t(weft::PostOrder({part.body}).size()) / 3);
      }
      for (int axis : part.reduced)
        if (const auto it = dealt.find(parts_.classes[size_t(axis)]); it != dealt.end())
          for (int l : it->second) {
            // Words of all places below one parent go up and come down.
            int64_t below = 1;
            for (int b = l + 1; b <= machine_.pe(); ++b) below *= machine_.levels[size_t(b)].count;
            cycles += l == machine_.pe() && has_ring_ ? 6 * kept
                                                      : kept * below / 4 + kept * below / 8 + 20;
          }
    }
    for (const ResultPart& part : parts_.results) {
      int64_t points = 1;
      for (int axis : part.axes) {
        int64_t n = local(axis);
        const int c = parts_.classes[size_t(axis)];
        if (way &&
            (c == parts_.classes[size_t(way->row)] || c == parts_.classes[size_t(way->inner)]))
          n = (n + fan - 1) / fan;
        points *= n;
      }
      int64_t steps = 0;
      for (const weft::ExprNode* n : weft::PostOrder({part.value}))
        steps += n->kind() == weft::ExprKind::kUnary || n->kind() == weft::ExprKind::kSelect ||
                 n->kind() == weft::ExprKind::kFma || n->kind() == weft::ExprKind::kCast ||
                 (n->kind() == weft::ExprKind::kBinary && !weft::IsInt(n->dtype()));
      const bool there = part.value->kind() == weft::ExprKind::kLoad &&
                         size_t(part.value->buffer()) >= parts_.input_shapes.size();
      cycles += points * std::max<int64_t>(there ? 0 : 1, steps);
    }
    return cycles;
  }

  const Machine& machine_;
  OperatorParts parts_;
  std::vector<std::optional<ProductPart>> products_;  ///< by reduction
  bool has_matrix_ = false, has_ring_ = false;
  std::set<int> exact_;  ///< classes that reductions other than products run over
  std::vector<int> classes_;
  std::vector<LayoutCandidate> found_;
};

}  // namespace

int BatchFamily(const Machine& machine) {
  int64_t family = 0;
  for (int l = 0; l < machine.pe(); ++l)
    if (machine.levels[size_t(l)].count > 1) family = family * 16 + 1;
  return int(family * 64 + (machine.levels.back().count > 1 ? 1 : 0));
}

std::vector<LayoutCandidate> GeneralCandidates(const weft::Graph& graph, const weft::NodePtr& node,
                                               const Machine& machine) {
  return Candidates(graph, node, machine).Run();
}

}  // namespace hsimd
