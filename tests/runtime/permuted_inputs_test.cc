/// permuted_inputs_test.cc: memory of other frameworks in the order in which it lies: fed without a
/// copy, and the Transpose behind it costs no pass over memory. And the edits of a graph for it.
#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "tests/support/e2e_util.h"
#include "weft/core/graph/permute.h"
#include "weft/core/tensor/strided.h"
#include "weft/core/text/text.h"

namespace weft::e2e {
namespace {

using Ints = std::vector<int64_t>;

/// Elements of a foreign tensor, which lie as `perm` says, and the same ones in row-major order.
struct Foreign {
  std::vector<float> data;
  TensorPtr plain;
  StridedMemory memory;
  Foreign(Ints dims, const Ints& perm, int seed) {
    const auto t = std::make_shared<Tensor>(DType::kF32, dims);
    data.resize(size_t(t->num_elements()));
    Ints strides(dims.size()), order(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) order[size_t(perm[d])] = int64_t(d);
    int64_t stride = 1;
    for (size_t k = order.size(); k-- > 0; stride *= dims[size_t(order[k])])
      strides[size_t(order[k])] = stride;
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) at += rest % dims[d] * strides[d];
      const auto value = float((i * 37 + seed) % 23 - 11) / 8;
      t->set(i, value);
      data[size_t(at)] = value;
    }
    memory = {DType::kF32, std::move(dims), std::move(strides), data.data(), true, nullptr, {}};
    plain = t;
  }
};

/// Runs the graph on what lies as it lies, and compares with the interpreter on plain tensors.
std::shared_ptr<const Program> CheckPermuted(const char* text, std::vector<Foreign>& inputs) {
  Graph g = ParseGraph(text);
  std::vector<TensorPtr> plain, fed;
  for (const Foreign& f : inputs) plain.push_back(f.plain);
  const std::vector<TensorPtr> want = GetEvaluator()->Eval(g, plain);
  const BorderCopies before = CountBorderCopies();
  const std::vector<NodePtr> variables = g.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ForeignTensor f = FromStrided(inputs[i].memory);
    CHECK(f.tensor->read_only());
    PermuteInput(&g, variables[i], f.perm);
    fed.push_back(f.tensor);
  }
  CHECK(CountBorderCopies().copies == before.copies);
  const auto program = CompileFor(g, "cpu");
  const std::vector<TensorPtr> got = Session(program).Run(fed);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i]->dims() == want[i]->dims());
    for (int64_t k = 0; k < got[i]->num_elements(); ++k)
      CHECK(got[i]->at(k) == doctest::Approx(want[i]->at(k)).epsilon(1e-5));
  }
  return program;
}

TEST_CASE("a transposed weight is a transposed operand of the product") {
  std::vector<Foreign> in;
  in.emplace_back(Ints{8, 64}, Ints{0, 1}, 1);
  in.emplace_back(Ints{64, 32}, Ints{1, 0}, 2);
  const auto program = CheckPermuted(
      "weft 1\ngraph (%x: f32[8, 64], %w: f32[64, 32]) -> (%y) {\n  %y = MatMul(%x, %w) : ?\n}\n",
      in);
  CHECK(program->stats().library_calls == 1);
  CHECK(program->stats().kernels == 0);
  CHECK(program->stats().reorders == 0);
}

TEST_CASE("operands in different orders are read by one kernel") {
  std::vector<Foreign> in;
  in.emplace_back(Ints{16, 24}, Ints{1, 0}, 1);
  in.emplace_back(Ints{16, 24}, Ints{0, 1}, 2);
  const auto program = CheckPermuted(
      "weft 1\ngraph (%a: f32[16, 24], %b: f32[16, 24]) -> (%y) {\n  %s = Add(%a, %b) : ?\n"
      "  %y = Mul(%s, %a) : ?\n}\n",
      in);
  CHECK(program->stats().kernels == 1);
  CHECK(program->stats().library_calls == 0);
}

TEST_CASE("an image with its channels last, of any batch") {
  std::vector<Foreign> in;
  in.emplace_back(Ints{2, 3, 16, 20}, Ints{0, 3, 1, 2}, 1);
  in.emplace_back(Ints{4, 3, 3, 3}, Ints{0, 3, 1, 2}, 2);
  CheckPermuted(
      "weft 1\ngraph (%x: f32[n, 3, 16, 20], %w: f32[4, 3, 3, 3]) -> (%y) {\n"
      "  %c = Conv(%x, %w) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]} : ?\n"
      "  %y = Relu(%c) : ?\n}\n",
      in);
}

constexpr const char* kGraph =
    "weft 1\ngraph (%x: f32[n, 3, 4], %w: f32[4, 5]) -> (%y, %x as \"also\") {\n"
    "  %m = MatMul(%x, %w) : ?\n  %y = Relu(%m) : ?\n}\n";

TensorPtr Counted(std::vector<int64_t> dims) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, double(i % 11) - 4);
  return t;
}
/// t with its dims in the order of `order`, element by element.
TensorPtr InOrder(const TensorPtr& t, const std::vector<int64_t>& order) {
  std::vector<int64_t> dims;
  for (const int64_t d : order) dims.push_back(t->dims()[size_t(d)]);
  auto out = std::make_shared<Tensor>(t->dtype(), dims);
  for (int64_t i = 0; i < out->num_elements(); ++i) {
    std::vector<int64_t> at(order.size());
    int64_t rest = i;
    for (size_t k = order.size(); k-- > 0; rest /= dims[k]) at[size_t(order[k])] = rest % dims[k];
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d) from = from * t->dims()[d] + at[d];
    out->set(i, t->at(from));
  }
  return out;
}

TEST_CASE("permute: an input in another order gives the same results, under the same names") {
  const Graph before = ParseGraph(kGraph);
  Graph g = before;
  PermuteInput(&g, g.inputs()[0], {2, 0, 1});
  PermuteInput(&g, g.inputs()[1], {1, 0});
  PermuteOutput(&g, 0, {1, 2, 0});
  CHECK(PrintGraph(g).find("(%x: f32[3, 4, n], %w: f32[5, 4])") != std::string::npos);
  CHECK(g.OutputName(0) == before.OutputName(0));
  CHECK(g.OutputName(1) == "also");
  const TensorPtr x = Counted({2, 3, 4}), w = Counted({4, 5});
  const auto want = GetEvaluator()->Eval(before, {x, w}, {});
  const auto got = GetEvaluator()->Eval(g, {InOrder(x, {1, 2, 0}), InOrder(w, {1, 0})}, {});
  CHECK(got[0]->Equals(*InOrder(want[0], {2, 0, 1})));
  CHECK(got[1]->Equals(*x));  // an output that is the input is in the order from before
}

TEST_CASE("permute: nothing to do, and what cannot be done") {
  Graph g = ParseGraph(kGraph);
  const std::string before = PrintGraph(g);
  CHECK(PermuteInput(&g, g.inputs()[0], {0, 1, 2}) == NodeEntry(g.inputs()[0]));
  CHECK(PermuteInput(&g, g.inputs()[0], {}) == NodeEntry(g.inputs()[0]));
  PermuteOutput(&g, 0, {});
  const NodePtr relu = g.outputs[0].node;
  CHECK(CodeOf([&] { PermuteInput(&g, relu, {0, 2, 1}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { PermuteInput(&g, nullptr, {1, 0}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { PermuteInput(&g, g.inputs()[0], {1, 0}); }) == ErrorCode::kBadInput);
  CHECK(CodeOf([&] { PermuteInput(&g, g.inputs()[1], {1, 1}); }) == ErrorCode::kBadInput);
  CHECK(CodeOf([&] { PermuteOutput(&g, 0, {0, 1, 3}); }) == ErrorCode::kBadInput);
  CHECK(PrintGraph(g) == before);
}

}  // namespace
}  // namespace weft::e2e
