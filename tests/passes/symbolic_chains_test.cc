/// symbolic_chains_test.cc: models of random extents compile. Chains of Reshape give equations
/// between products and quotients of extents; random convolutional networks give extents such as
/// (h + 1)//2 - 1 in every order.
///
/// The oracle of a chain is arithmetic on integers: what a binding in a small box satisfies must
/// compile, and run there.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tests/support/e2e_util.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/support/strings.h"

namespace weft::e2e {
namespace {

using Ints64 = std::vector<int64_t>;

int64_t Pick(std::mt19937_64& rng, int64_t lo, int64_t hi) {
  return lo + int64_t(rng() % uint64_t(hi - lo + 1));
}

int64_t Count(const Ints64& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

/// f32[a, 8, b] -> Reshape -> .. -> Relu.
struct Chain {
  std::vector<std::string> dims;  ///< of the input
  std::vector<Ints64> targets;    ///< with 0 and -1, as ONNX has them
};

Chain RandomChain(std::mt19937_64& rng) {
  static const char* const kSymbols[] = {"a", "b", "c"};
  Chain chain;
  for (int64_t rank = Pick(rng, 1, 3), k = 0; k < rank; ++k)
    chain.dims.push_back(Pick(rng, 0, 1) ? kSymbols[Pick(rng, 0, 2)]
                                         : std::to_string(Pick(rng, 1, 12)));
  for (int64_t n = Pick(rng, 1, 4); n > 0; --n) {
    Ints64 target;
    const int64_t rank = Pick(rng, 1, 3), inferred = Pick(rng, 0, rank);
    for (int64_t k = 0; k < rank; ++k)
      target.push_back(k == inferred ? -1 : Pick(rng, 0, 5) == 0 && k == 0 ? 0 : Pick(rng, 1, 24));
    chain.targets.push_back(std::move(target));
  }
  return chain;
}

std::string TextOf(const Chain& chain) {
  std::string text = fmt::format("graph (%x: f32[{}]) -> (%y) {{\n", Join(chain.dims, ", "));
  std::string last = "x";
  for (size_t i = 0; i < chain.targets.size(); ++i) {
    std::vector<std::string> numbers;
    for (int64_t d : chain.targets[i]) numbers.push_back(std::to_string(d));
    text += fmt::format(
        "  %s{0} = Constant() {{value = tensor i64[{1}] [{2}]}}\n  %r{0} = Reshape(%{3}, %s{0})\n",
        i, numbers.size(), Join(numbers, ", "), last);
    last = fmt::format("r{}", i);
  }
  return text + fmt::format("  %y = Relu(%{})\n}}\n", last);
}

/// The shapes along the chain are those of tensors.
bool Runs(const Chain& chain, const SymBindings& bind) {
  Ints64 dims;
  for (const std::string& d : chain.dims) {
    const auto it = bind.find(d);
    dims.push_back(it == bind.end() ? ParseInt64(d, "extent") : it->second);
  }
  for (const Ints64& target : chain.targets) {
    Ints64 next = target;
    int64_t known = 1, inferred = -1;
    for (size_t k = 0; k < next.size(); ++k) {
      if (next[k] == 0) next[k] = dims.at(k);
      if (next[k] == -1)
        inferred = int64_t(k);
      else
        known *= next[k];
    }
    if (inferred >= 0 && Count(dims) % known != 0) return false;
    if (inferred >= 0) next[size_t(inferred)] = Count(dims) / known;
    if (Count(next) != Count(dims)) return false;
    dims = std::move(next);
  }
  return true;
}

/// Some binding with extents up to 24 that the chain runs at.
std::optional<SymBindings> Example(const Chain& chain) {
  for (int64_t a = 1; a <= 24; ++a)
    for (int64_t b = 1; b <= 24; ++b)
      for (int64_t c = 1; c <= 24; ++c) {
        const auto used = [&](const char* name) {
          return std::find(chain.dims.begin(), chain.dims.end(), name) != chain.dims.end();
        };
        if ((b > 1 && !used("b")) || (c > 1 && !used("c")) || (a > 1 && !used("a"))) continue;
        const SymBindings bind = {{"a", a}, {"b", b}, {"c", c}};
        if (Runs(chain, bind)) return bind;
      }
  return std::nullopt;
}

constexpr const char* kToKernels = "Simplify,Fusion,CodeGen";

TEST_CASE("symbolic chains: Reshape of what 64 bits cannot prove compiles") {
  const Chain chain{{"a", "8"}, {{-1, 3}, {16, 3}}};
  const Graph g = FromText(TextOf(chain));
  ApplyPasses(g, kToKernels);
  if (!HasCpu()) return;
  Session session(CompileFor(g, "cpu"));
  const Reference right = RunReference(g, 3, {{"a", 6}});
  CHECK(Difference(session.Run(right.inputs), right.outputs) <= 1);
  const auto wrong = Catch([&] {
    session.Run(std::vector<TensorPtr>{std::make_shared<Tensor>(DType::kF32, Ints64{7, 8})});
  });
  REQUIRE(wrong);
  CHECK(wrong->code == ErrorCode::kShapeMismatch);
}

TEST_CASE("symbolic chains: random chains of Reshape compile wherever some extents run") {
  std::mt19937_64 rng(5);
  int runnable = 0, refused = 0, run = 0;
  for (int i = 0; i < 1500; ++i) {
    const Chain chain = RandomChain(rng);
    const std::string text = TextOf(chain);
    CAPTURE(text);
    const std::optional<SymBindings> bind = Example(chain);
    if (const auto error = Catch([&] { ApplyPasses(FromText(text), kToKernels); })) {
      CAPTURE(error->text);
      CHECK_FALSE(bind);
      // No tensor has these shapes; or only an empty one, whose -1 could be anything.
      CHECK((error->code == ErrorCode::kShapeMismatch || error->code == ErrorCode::kInvalidModel));
      ++refused;
      continue;
    }
    runnable += bind.has_value();
    if (!bind || i % 100 != 0 || !HasCpu()) continue;
    const Graph g = FromText(text);
    const Reference right = RunReference(g, uint64_t(i), *bind);
    CHECK(Difference(Session(CompileFor(g, "cpu")).Run(right.inputs), right.outputs) <= 1);
    ++run;
  }
  MESSAGE(runnable << " chains compile and have extents that run, " << refused << " are refused, "
                   << run << " were run");
  CHECK(runnable > 300);
}

// ---- networks ----

struct Net {
  std::string text;
  int count = 0;
  std::vector<std::string> images, outputs;

  std::string Add(const std::string& call) {
    const std::string name = fmt::format("v{}", count++);
    text += fmt::format("  %{} = {}\n", name, call);
    return name;
  }
};

/// A few layers over an image f32[n, 2, h, w]: convolutions and pools of every stride,
/// transpositions of height and width, element-wise operators, reductions; several results.
std::string RandomNet(std::mt19937_64& rng) {
  Net net;
  std::string x = "x", weights;
  int parameters = 0;
  for (int64_t layers = Pick(rng, 3, 7), k = 0; k < layers; ++k) {
    switch (Pick(rng, 0, 6)) {
      case 0: {
        const int64_t kernel = Pick(rng, 1, 3), stride = Pick(rng, 1, 2),
                      pad = Pick(rng, 0, kernel / 2);
        const std::string w = fmt::format("w{}", parameters++);
        weights += fmt::format(", %{}: f32[2, 2, {}, {}]", w, kernel, kernel);
        x = net.Add(
            fmt::format("Conv(%{0}, %{1}) {{kernel_shape = [{2}, {2}], strides = [{3}, {3}], "
                        "pads = [{4}, {4}, {4}, {4}]}}",
                        x, w, kernel, stride, pad));
        break;
      }
      case 1:
        x = net.Add(fmt::format("AveragePool(%{}) {{kernel_shape = [2, 2], strides = [{}, {}]}}", x,
                                Pick(rng, 1, 2), Pick(rng, 1, 2)));
        break;
      case 2:
        x = net.Add(fmt::format("Transpose(%{}) {{perm = [0, 1, 3, 2]}}", x));
        break;
      default: {
        static const char* const kUnary[] = {"Sin", "Tanh", "Neg", "Sigmoid"};
        x = net.Add(fmt::format("{}(%{})", kUnary[Pick(rng, 0, 3)], x));
      }
    }
    net.images.push_back(x);
    if (Pick(rng, 0, 3) == 0) net.outputs.push_back(x);
  }
  for (int64_t n = Pick(rng, 1, 2); n > 0; --n) {
    const std::string from = net.images[size_t(Pick(rng, 0, int64_t(net.images.size()) - 1))];
    static const char* const kReduced[] = {"GlobalAveragePool(%{})", "ReduceMax(%{})",
                                           "ReduceSum(%{})", "Softmax(%{}) {{axis = -1}}"};
    net.outputs.push_back(net.Add(fmt::format(fmt::runtime(kReduced[Pick(rng, 0, 3)]), from)));
  }
  std::sort(net.outputs.begin(), net.outputs.end());
  net.outputs.erase(std::unique(net.outputs.begin(), net.outputs.end()), net.outputs.end());
  for (std::string& o : net.outputs) o = "%" + o;
  return fmt::format("graph (%x: f32[n, 2, h, w]{}) -> ({}) {{\n{}}}\n", weights,
                     Join(net.outputs, ", "), net.text);
}

/// What Fusion makes is what lowering can do: no kernel is missing.
void CheckKernels(const std::string& text, const SymBindings& bind, bool run) {
  CAPTURE(text);
  const Graph g = FromText(text);
  PassOptions options;
  options.faults = FaultPolicy::kThrow;
  const auto error = Catch([&] { ApplyPasses(g, Pipeline::Parse(kToKernels), options); });
  CHECK_MESSAGE(!error, (error ? error->text : ""));
  if (error || !run || !HasCpu()) return;
  const Reference right = RunReference(g, 11, bind);
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().kernels_failed == 0);
  CHECK(Difference(Session(program).Run(right.inputs), right.outputs) <= 1);
}

TEST_CASE("symbolic networks: a result in both orders of height and width and its mean") {
  CheckKernels(R"(graph (%x: f32[n, 3, h, w], %k: f32[4, 3, 3, 3]) -> (%y, %g) {
  %c = Conv(%x, %k) {kernel_shape = [3, 3], strides = [2, 2]}
  %e = Exp(%c)
  %t = Transpose(%e) {perm = [0, 1, 3, 2]}
  %y = Tanh(%t)
  %g = GlobalAveragePool(%y)
}
)",
               {{"n", 2}, {"h", 9}, {"w", 14}}, true);
}

TEST_CASE("symbolic networks: random ones get all their kernels") {
  std::mt19937_64 rng(9);
  for (int i = 0; i < 150; ++i)
    CheckKernels(RandomNet(rng), {{"n", 1}, {"h", 61}, {"w", 74}}, i % 25 == 0);
}

}  // namespace
}  // namespace weft::e2e
