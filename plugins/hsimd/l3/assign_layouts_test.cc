/// assign_layouts_test.cc: choices against enumeration, bounds that hold, and graphs as large as
/// those of networks.
#include "assign_layouts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "weft/support/error.h"

namespace hsimd {
namespace {

using Rng = std::mt19937_64;

int64_t Draw(Rng& rng, int64_t low, int64_t high) {
  return low + int64_t(rng() % uint64_t(high - low + 1));
}

/// Every value has up to six readers; some candidates and switches are forbidden.
LayoutProblem RandomProblem(Rng& rng, int most_nodes, int most_candidates, bool forbid) {
  LayoutProblem problem;
  const int n = int(Draw(rng, 1, most_nodes));
  for (int k = 0; k < n; ++k) {
    LayoutProblem::Node node{std::string(1, char('a' + k)), {}, {}};
    const int64_t candidates = Draw(rng, 1, most_candidates);
    for (int64_t i = 0; i < candidates; ++i) {
      node.cost.push_back(forbid && Draw(rng, 0, 15) == 0 ? kNeverCost : Draw(rng, 0, 30));
      node.family.push_back(int(Draw(rng, 0, 2)));
    }
    problem.nodes.push_back(std::move(node));
  }
  for (int k = 0; k + 1 < n; ++k) {
    LayoutProblem::Value value;
    value.producer = k;
    value.layouts = int(Draw(rng, 1, 4));
    for (size_t i = 0; i < problem.nodes[size_t(k)].cost.size(); ++i)
      value.made.push_back(int(Draw(rng, 0, value.layouts - 1)));
    for (int64_t r = Draw(rng, 0, 6); r > 0; --r) {
      LayoutProblem::Reader reader;
      reader.node = int(Draw(rng, k + 1, n - 1));
      for (size_t i = 0; i < problem.nodes[size_t(reader.node)].cost.size(); ++i)
        reader.wanted.push_back(int(Draw(rng, -1, value.layouts - 1)));
      value.readers.push_back(std::move(reader));
    }
    for (int s = 0; s < value.layouts * value.layouts; ++s)
      value.switches.push_back(forbid && Draw(rng, 0, 15) == 0 ? kNeverCost : Draw(rng, 0, 20));
    problem.values.push_back(std::move(value));
  }
  return problem;
}

/// The definition, written again: sets of layouts.
int64_t Cost(const LayoutProblem& problem, const std::vector<int>& choice) {
  int64_t cost = 0;
  for (size_t n = 0; n < choice.size(); ++n)
    cost = std::min(kNeverCost, cost + problem.nodes[n].cost[size_t(choice[n])]);
  for (const LayoutProblem::Value& value : problem.values) {
    const int made = value.made[size_t(choice[size_t(value.producer)])];
    std::vector<int> wanted;
    for (const auto& reader : value.readers)
      wanted.push_back(reader.wanted[size_t(choice[size_t(reader.node)])]);
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    for (int w : wanted)
      if (w >= 0 && w != made)
        cost = std::min(kNeverCost, cost + value.switches[size_t(made * value.layouts + w)]);
  }
  return cost;
}

int64_t LeastByEnumeration(const LayoutProblem& problem) {
  std::vector<int> choice(problem.nodes.size(), 0);
  int64_t least = kNeverCost;
  while (true) {
    least = std::min(least, Cost(problem, choice));
    size_t d = 0;
    while (d < choice.size() && size_t(++choice[d]) == problem.nodes[d].cost.size())
      choice[d++] = 0;
    if (d == choice.size()) return least;
  }
}

/// A tree of two levels of four places: on each, two binary digits go to batch, channels, rows, or
/// the contraction, so that a node has 100 candidates and a value 100 layouts. Costs have the shape
/// of real ones: compute, halo of rows, sums over a cut contraction; switches cost words over
/// links.
class Networks {
 public:
  enum Digit {
    kBatch,
    kChannel,
    kRow,
    kOther
  };  // kOther: contraction of a node, copies of a value
  using Split = std::array<std::array<int, 4>, 2>;

  Networks() {
    std::vector<std::array<int, 4>> level;
    for (int a = 0; a < 4; ++a)
      for (int b = a; b < 4; ++b) {
        level.push_back({0, 0, 0, 0});
        ++level.back()[size_t(a)];
        ++level.back()[size_t(b)];
      }
    for (const auto& outer : level)
      for (const auto& inner : level) splits_.push_back({outer, inner});
  }

  LayoutProblem problem;

  /// A node of `work` cycles if every place is busy; extents of batch, channels, rows, contraction.
  int Node(const std::string& name, int64_t work, std::array<int64_t, 4> extents, int64_t words) {
    LayoutProblem::Node node{name, {}, {}};
    for (size_t s = 0; s < splits_.size(); ++s) {
      int64_t cycles = work * 16;
      for (size_t d = 0; d < 4; ++d) {
        const int64_t parts = int64_t{1} << (splits_[s][0][d] + splits_[s][1][d]);
        const int64_t each = (extents[d] + parts - 1) / parts;
        cycles = cycles * each / extents[d];
      }
      if (splits_[s][0][kRow] + splits_[s][1][kRow] > 0) cycles += words / 16;
      cycles += splits_[s][1][kOther] * words / 4 + splits_[s][0][kOther] * words / 2;
      node.cost.push_back(cycles);
      node.family.push_back(int(s));
    }
    problem.nodes.push_back(std::move(node));
    return int(problem.nodes.size()) - 1;
  }

  /// What `producer` makes; `as_weight` readers take channels as their contraction.
  void Value(int producer, int64_t words, const std::vector<int>& readers) {
    LayoutProblem::Value value;
    value.producer = producer;
    value.layouts = int(splits_.size());
    for (size_t s = 0; s < splits_.size(); ++s) value.made.push_back(int(s));
    for (int r : readers) {
      LayoutProblem::Reader reader{r, {}};
      for (const Split& split : splits_) {
        Split wanted = split;  // the contraction of the reader are the channels of what it reads
        for (auto& level : wanted) std::swap(level[kChannel], level[kOther]);
        reader.wanted.push_back(
            int(std::find(splits_.begin(), splits_.end(), wanted) - splits_.begin()));
      }
      value.readers.push_back(std::move(reader));
    }
    for (const Split& from : splits_)
      for (const Split& to : splits_)
        value.switches.push_back((from[0] != to[0] ? words / 4 : 0) +
                                 (from[1] != to[1] ? words / 8 : 0) + words / 16);
    problem.values.push_back(std::move(value));
  }

 private:
  std::vector<Split> splits_;
};

/// Layers of convolutions with skips over two, and their gradients: data, weights; each value of
/// the forward pass is read again by the backward pass.
LayoutProblem ResNetLike(int blocks, bool training) {
  Networks net;
  struct Layer {
    int weight, forward;
    int64_t words;
  };
  std::vector<Layer> layers;
  std::vector<std::vector<int>> readers;  // by node that makes a value
  std::vector<int64_t> words;
  const auto node = [&](const std::string& name, int64_t work, std::array<int64_t, 4> extents,
                        int64_t w) {
    readers.emplace_back();
    words.push_back(w);
    return net.Node(name, work, extents, w);
  };
  int x = node("input", 0, {8, 4, 32, 1}, 8 * 4 * 1024);
  for (int b = 0; b < blocks; ++b) {
    const int64_t scale = int64_t{1} << (3 * b / blocks);
    const int64_t channels = 16 * scale, rows = 32 / scale, size = 8 * channels * rows * rows;
    const int skip = x;
    for (int half = 0; half < 2; ++half) {
      const std::string name = "b" + std::to_string(b) + "." + std::to_string(half);
      const int w = node(name + ".w", 0, {1, channels, 1, channels}, channels * channels * 9);
      const int c = node(name, size * channels * 9 / 256, {8, channels, rows, channels}, size);
      readers[size_t(x)].push_back(c);
      readers[size_t(w)].push_back(c);
      if (half == 1) readers[size_t(skip)].push_back(c);  // the sum is fused behind it
      layers.push_back({w, c, size});
      x = c;
    }
  }
  if (training) {
    int grad = node("loss", 100, {8, 64, 1, 1}, 512);
    readers[size_t(x)].push_back(grad);
    for (size_t l = layers.size(); l-- > 0;) {
      const int64_t size = layers[l].words;
      const int input = l == 0 ? 0 : layers[l - 1].forward;
      const int64_t work = size * 9;
      const int dw =
          node("dw" + std::to_string(l), work, {8, 64, 16, 64}, words[size_t(layers[l].weight)]);
      readers[size_t(input)].push_back(dw);
      readers[size_t(grad)].push_back(dw);
      if (l == 0) break;
      const int dx = node("dx" + std::to_string(l), work, {8, 64, 16, 64}, size);
      readers[size_t(layers[l].weight)].push_back(dx);
      readers[size_t(grad)].push_back(dx);
      grad = dx;
    }
  }
  for (size_t n = 0; n < readers.size(); ++n)
    if (!readers[n].empty()) net.Value(int(n), words[n], readers[n]);
  return net.problem;
}

/// Products that read one value three times over, forward and backward.
LayoutProblem TransformerLike(int blocks) {
  Networks net;
  const int64_t words = 64 * 64;
  const auto product = [&](const std::string& name) {
    return net.Node(name, 64 * 64 * 64 / 256, {64, 64, 4, 64}, words);
  };
  const auto light = [&](const std::string& name) {
    return net.Node(name, 64, {64, 64, 4, 4}, words);
  };
  int x = light("x");
  for (int b = 0; b < blocks; ++b) {
    const int norm = light("norm"), q = product("q"), k = product("k"), v = product("v");
    const int scores = product("scores"), soft = light("softmax"), mixed = product("mixed");
    const int out = product("out"), up = product("up"), down = product("down");
    const int ddown = product("ddown"), dup = product("dup"), dout = product("dout");
    const int dwq = product("dwq"), dwk = product("dwk"), dwv = product("dwv");
    net.Value(x, words, {norm, out});
    net.Value(norm, words, {q, k, v, dwq, dwk, dwv});
    net.Value(q, words, {scores, dwk});
    net.Value(k, words, {scores, dwq});
    net.Value(scores, words, {soft});
    net.Value(soft, words, {mixed, dwv, dout});
    net.Value(v, words, {mixed, dwq});
    net.Value(mixed, words, {out, dout});
    net.Value(out, words, {up, down, ddown});
    net.Value(up, words, {down, dup});
    net.Value(down, words, {ddown});
    net.Value(ddown, words, {dup, dout});
    net.Value(dup, words, {dout});
    net.Value(dout, words, {dwq, dwk, dwv});
    x = down;
  }
  return net.problem;
}

weft::ErrorCode CodeOf(const LayoutProblem& problem, std::string* message) {
  try {
    AssignLayouts(problem);
  } catch (const weft::Error& e) {
    *message = e.message();
    return e.code();
  }
  return {};
}

TEST_CASE("assign layouts: equal to enumeration on random graphs") {
  Rng rng(7);
  int possible = 0;
  for (int k = 0; k < 1000; ++k) {
    const LayoutProblem problem = RandomProblem(rng, 7, 5, k % 2 == 0);
    const int64_t least = LeastByEnumeration(problem);
    CAPTURE(k);
    if (least >= kNeverCost) {
      std::string message;
      CHECK(CodeOf(problem, &message) == weft::ErrorCode::kUnsupported);
      continue;
    }
    ++possible;
    const LayoutChoice choice = AssignLayouts(problem);
    REQUIRE(choice.cost == least);
    REQUIRE(choice.bound == least);
    REQUIRE(Cost(problem, choice.candidate) == least);
    REQUIRE(CostOfLayouts(problem, choice.candidate) == least);
    for (const auto& baseline : {EachNodeForItself(problem), GreedyInOrder(problem),
                                 BestSingleFamily(problem), OnlyFamily(problem, 1)}) {
      REQUIRE(CostOfLayouts(problem, baseline) == Cost(problem, baseline));
      REQUIRE(Cost(problem, baseline) >= least);
    }
  }
  CHECK(possible > 700);
}

TEST_CASE("assign layouts: bounds hold where tables may not grow") {
  Rng rng(8);
  int exact = 0;
  for (int k = 0; k < 400; ++k) {
    const LayoutProblem problem = RandomProblem(rng, 7, 5, k % 4 == 0);
    const int64_t least = LeastByEnumeration(problem);
    if (least >= kNeverCost) continue;
    LayoutEffort effort;
    effort.table_entries = 4 << (k % 5);
    const LayoutChoice choice = AssignLayouts(problem, effort);
    CAPTURE(k);
    REQUIRE(choice.bound <= least);
    REQUIRE(choice.cost >= least);
    REQUIRE(Cost(problem, choice.candidate) == choice.cost);
    exact += choice.exact();
  }
  MESSAGE(exact, " proved with tables of 4 to 64 entries");
  CHECK(exact > 200);
}

TEST_CASE("assign layouts: networks of a hundred candidates a node") {
  const auto check = [](const char* name, const LayoutProblem& problem, double gap) {
    const LayoutChoice choice = AssignLayouts(problem);
    const auto ratio = [&](const std::vector<int>& other) {
      return double(CostOfLayouts(problem, other)) / double(choice.cost);
    };
    MESSAGE(std::string(name), ": ", problem.nodes.size(), " nodes, width ", choice.width,
            ", pruned ", choice.pruned, ", work ", choice.work / 1000000, " M, gap ", choice.gap(),
            ", itself ", ratio(EachNodeForItself(problem)), ", greedy ",
            ratio(GreedyInOrder(problem)), ", single ", ratio(BestSingleFamily(problem)));
    CHECK(choice.gap() <= gap);
    CHECK(Cost(problem, choice.candidate) == choice.cost);
    CHECK(AssignLayouts(problem).candidate == choice.candidate);
  };
  check("2 blocks of ResNet, forward", ResNetLike(2, false), 0);
  check("2 blocks of ResNet, training", ResNetLike(2, true), 0);
  check("ResNet-20, forward", ResNetLike(9, false), 0);
  check("ResNet-20, training", ResNetLike(9, true), 0);
  check("transformer, training", TransformerLike(1), 0.02);
}

/// `rows` x `columns` nodes, each read by the next in its row and its column, with costs at random:
/// nothing to prune, width `rows`.
LayoutProblem Grid(Rng& rng, int rows, int columns, int candidates) {
  LayoutProblem problem;
  for (int n = 0; n < rows * columns; ++n) {
    problem.nodes.push_back({"n" + std::to_string(n), {}, {}});
    for (int i = 0; i < candidates; ++i) problem.nodes.back().cost.push_back(Draw(rng, 0, 1000));
  }
  std::vector<int> same;
  for (int i = 0; i < candidates; ++i) same.push_back(i);
  const auto edge = [&](int from, int to) {
    LayoutProblem::Value value{from, same, {{to, same}}, candidates, {}};
    for (int s = 0; s < candidates * candidates; ++s) value.switches.push_back(Draw(rng, 0, 1000));
    problem.values.push_back(std::move(value));
  };
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) {
      if (r + 1 < rows) edge(c * rows + r, c * rows + r + 1);
      if (c + 1 < columns) edge(c * rows + r, (c + 1) * rows + r);
    }
  return problem;
}

TEST_CASE("assign layouts: costs at random, width by width") {
  Rng rng(9);
  for (const auto& [rows, columns, candidates] :
       {std::array{1, 80, 100}, {2, 12, 100}, {3, 6, 40}, {5, 5, 20}}) {
    const LayoutProblem problem = Grid(rng, rows, columns, candidates);
    LayoutEffort effort;
    effort.work = 1'000'000'000;
    const LayoutChoice choice = AssignLayouts(problem, effort);
    MESSAGE(rows, " x ", columns, " of ", candidates, ": width ", choice.width, ", work ",
            choice.work / 1000000, " M, gap ", choice.gap(), ", itself ",
            double(CostOfLayouts(problem, EachNodeForItself(problem))) / double(choice.cost),
            ", greedy ",
            double(CostOfLayouts(problem, GreedyInOrder(problem))) / double(choice.cost));
    CHECK(Cost(problem, choice.candidate) == choice.cost);
    CHECK(choice.exact());
  }
}

TEST_CASE("assign layouts: what is not possible is told") {
  LayoutProblem problem;
  problem.nodes.push_back({"a", {1, 2}, {}});
  problem.nodes.push_back({"b", {3}, {}});
  problem.values.push_back({0, {0, 0}, {{1, {1}}}, 2, {0, kNeverCost, 0, 0}});
  std::string message;
  CHECK(CodeOf(problem, &message) == weft::ErrorCode::kUnsupported);
  CHECK(message.find("'a'") != std::string::npos);
  problem.nodes[1].cost = {kNeverCost};
  problem.nodes[1].why = "no room for sums";
  CHECK(CodeOf(problem, &message) == weft::ErrorCode::kUnsupported);
  CHECK(message.find("'b'") != std::string::npos);
  CHECK(message.find("no room for sums") != std::string::npos);
  problem.nodes[1].cost = {kNeverCost - 1};
  problem.values[0].switches[1] = 5;
  CHECK(CodeOf(problem, &message) == weft::ErrorCode::kOverflow);
  problem.nodes[1].cost = {-1};
  CHECK(CodeOf(problem, &message) == weft::ErrorCode::kInternal);
}

}  // namespace
}  // namespace hsimd
