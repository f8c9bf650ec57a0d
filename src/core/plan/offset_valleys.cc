/// offset_valleys.cc: storage allocation by filling the lowest valley first.
///
/// Over the steps of a program the arena has a height. The lowest stretch of steps takes the best
/// item that lives within it; where none does, the stretch is filled up to its lower neighbour.
/// What lives long goes below what lives briefly, so the nested lifetimes of training (forward
/// results that the backward pass reads in reverse) stack without gaps.
///
///   rules   longest first; size x lifetime; size; lifetime x root of size; then the
///           same with some noise
///   cost    items x (items + steps) a packing, so only for some thousand items
///   source  best-fit skyline packing (Burke, Kendall, Whitwell 2004), with fixed horizontal places
#include <cmath>

#include "offset_instance.h"
#include "weft/support/request.h"

namespace weft {
namespace {

constexpr int kRules = 4;
constexpr int kMostPackings = 24;

double Rank(const Instance& in, uint32_t i, uint32_t rule) {
  const double length = double(in.end[i]) - double(in.begin[i]), size = double(in.size[i]);
  switch (rule) {
    case 0:
      return length;
    case 1:
      return length * size;
    case 2:
      return size;
    default:
      return length * std::sqrt(size);
  }
}

/// `order`: what is preferred, first.
Packing FillInOrder(const Instance& in, std::vector<uint32_t> order) {
  Packing packing = EmptyPacking(in);
  std::vector<int64_t> height(in.num_steps, 0);
  while (!order.empty()) {
    const uint32_t first =
        uint32_t(std::min_element(height.begin(), height.end()) - height.begin());
    uint32_t last = first;
    while (last < in.num_steps && height[last] == height[first]) ++last;
    const auto it = std::find_if(order.begin(), order.end(), [&](uint32_t i) {
      return in.begin[i] >= first && in.end[i] <= last;
    });
    if (it == order.end()) {
      int64_t to = INT64_MAX;
      if (first > 0) to = std::min(to, height[first - 1]);
      if (last < in.num_steps) to = std::min(to, height[last]);
      std::fill(height.begin() + first, height.begin() + last, to);
      continue;
    }
    const int64_t offset = in.Aligned(*it, height[first]);
    packing.Place(in, *it, offset);
    std::fill(height.begin() + in.begin[*it], height.begin() + in.end[*it], offset + in.size[*it]);
    order.erase(it);
  }
  return packing;
}

}  // namespace

std::optional<Packing> FillValleys(const Instance& in, int64_t enough, int64_t* work) {
  std::optional<Packing> best;
  const int64_t one = int64_t{in.n()} * (int64_t{in.n()} + in.num_steps);
  Draws draws;
  std::vector<double> rank(in.n());
  for (int k = 0; k < kMostPackings && *work >= one; ++k) {
    RequestScope::Poll();
    *work -= one;
    const uint32_t rule = k < kRules ? uint32_t(k) : draws.Below(kRules);
    std::vector<uint32_t> order(in.n());
    std::iota(order.begin(), order.end(), 0);
    for (uint32_t i : order) {
      rank[i] = Rank(in, i, rule);
      if (k >= kRules) rank[i] *= 1 + double(draws.Below(1024)) / 2048;
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (rank[a] != rank[b]) return rank[a] > rank[b];
      return in.size[a] != in.size[b] ? in.size[a] > in.size[b] : a < b;
    });
    Packing packing = FillInOrder(in, std::move(order));
    if (!best || packing.height < best->height) best = std::move(packing);
    if (best->height <= enough) break;
  }
  return best;
}

}  // namespace weft
