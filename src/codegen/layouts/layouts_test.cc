#include "weft/codegen/layouts/layouts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "weft/codegen/interp/interpreter.h"
#include "weft/core/pass/evaluator.h"

namespace weft {
namespace {

constexpr Layout kPlain = Layout::kPlain, kLast = Layout::kChannelsLast;
using Lists = std::vector<std::vector<int>>;

TensorSpec F32(std::vector<SymInt> dims) { return {DType::kF32, std::move(dims)}; }
Expr At(int k) { return Expr::Index(k); }
Expr Load(int buffer, Indices at) { return Expr::Load(buffer, DType::kF32, std::move(at)); }
Expr Sum(const std::vector<SymInt>& extents, const std::function<Expr(const Indices&)>& body) {
  return Expr::Reduce(ReduceOp::kSum, extents, body);
}

TensorPtr RandomTensor(const std::vector<int64_t>& dims, uint32_t seed) {
  auto t = std::make_shared<Tensor>(DType::kF32, dims);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->mutable_data_as<float>()[i] = float(random() % 1000) / 500.f - 1.f;
  return t;
}

std::vector<int64_t> Rotated(std::vector<int64_t> dims) {
  if (dims.size() >= 3) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return dims;
}

/// Runs the computation on tensors that lie as `layouts` says, and compares with the
/// one on plain tensors.
void CheckSame(const ComputeSpec& spec, const std::vector<Layout>& layouts) {
  const ComputeSpec other = ApplyLayouts(spec, layouts);
  std::vector<TensorPtr> plain, lying;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    std::vector<int64_t> dims;
    for (SymInt d : spec.inputs[i].dims) dims.push_back(d.value());
    plain.push_back(RandomTensor(dims, uint32_t(i + 1)));
    const bool last = layouts[i] == kLast;
    auto t = std::make_shared<Tensor>(DType::kF32, last ? Rotated(dims) : dims);
    CopyLayout(DType::kF32, dims, plain[i]->data(), t->mutable_data(), kPlain, layouts[i]);
    lying.push_back(t);
  }
  const auto want = Interpret(spec, plain, {}), got = Interpret(other, lying, {});
  REQUIRE(want.size() == got.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const Layout l = layouts[spec.inputs.size() + k];
    REQUIRE(got[k]->dims() == (l == kLast ? Rotated(want[k]->dims()) : want[k]->dims()));
    Tensor back(want[k]->dtype(), want[k]->dims());
    CopyLayout(want[k]->dtype(), want[k]->dims(), got[k]->data(), back.mutable_data(), l, kPlain);
    CHECK(CompareTensors(back, *want[k]) <= 1);
  }
}

/// In all layouts of all operands.
void CheckAll(const ComputeSpec& spec) {
  const size_t n = spec.inputs.size() + spec.outputs.size();
  for (size_t mask = 0; mask < size_t{1} << n; ++mask) {
    std::vector<Layout> layouts;
    for (size_t i = 0; i < n; ++i) layouts.push_back(mask >> i & 1 ? kLast : kPlain);
    CheckSame(spec, layouts);
  }
}

Lists Groups(const ComputeSpec& spec, bool side_by_side = false) {
  Lists lists;
  for (const LayoutGroup& g : LayoutGroups(spec, side_by_side)) lists.push_back(g.operands);
  return lists;
}

// y = x + b[c], with a mask of one channel
ComputeSpec Bias() {
  ComputeSpec s;
  s.inputs = {F32({2, 3, 4, 5}), F32({3}), F32({2, 1, 4, 5})};
  s.outputs = {F32({2, 3, 4, 5})};
  s.values = {Load(0, {At(0), At(1), At(2), At(3)}) +
              Load(1, {At(1)}) * Load(2, {At(0), Expr::Int(0), At(2), At(3)})};
  return s;
}
// The sums of x and of x z over all but the channels.
ComputeSpec Statistics() {
  ComputeSpec s;
  s.inputs = {F32({2, 3, 4, 5}), F32({2, 3, 4, 5})};
  s.outputs = {F32({3}), F32({3})};
  const auto x = [](int b, const Indices& v) { return Load(b, {v[0], At(0), v[1], v[2]}); };
  s.values = {Sum({2, 4, 5}, [&](const Indices& v) { return x(0, v); }),
              Sum({2, 4, 5}, [&](const Indices& v) { return x(0, v) * x(1, v); })};
  return s;
}
ComputeSpec Transposed() {
  ComputeSpec s;
  s.inputs = {F32({2, 3, 4, 5})};
  s.outputs = {F32({2, 4, 5, 3})};
  s.values = {Load(0, {At(0), At(3), At(1), At(2)})};
  return s;
}

TEST_CASE("in every layout of every operand the same elements come out") {
  CheckAll(Bias());
  CheckAll(Statistics());
  CheckAll(Transposed());
  ComputeSpec pool;  // windows, at three spatial axes
  pool.inputs = {F32({2, 3, 6, 4, 5})};
  pool.outputs = {F32({2, 3, 3, 4, 4})};
  pool.values = {Expr::Reduce(ReduceOp::kMax, {2, 1, 2}, [](const Indices& v) {
    return Load(0, {At(0), At(1), At(2) * Expr::Int(2) + v[0], At(3) + v[1], At(4) + v[2]});
  })};
  CheckAll(pool);
  ComputeSpec norm;  // over the channels and positions of an image, and what is made of it
  norm.inputs = {F32({2, 3, 4, 5})};
  norm.outputs = {F32({2, 3, 4, 5})};
  norm.values = {Load(0, {At(0), At(1), At(2), At(3)}) / Sum({3, 4, 5}, [](const Indices& v) {
                   return Load(0, {At(0), v[0], v[1], v[2]});
                 })};
  CheckAll(norm);
  ComputeSpec nested;  // a sum of sums
  nested.inputs = {F32({2, 3, 4, 5})};
  nested.outputs = {F32({2, 1, 1})};
  nested.values = {Sum({3, 5}, [](const Indices& v) {
    const Expr inner = Sum({4}, [&](const Indices& w) {
      return Load(0, {At(0), v[0], w[0], v[1]});
    });
    return inner * inner;
  })};
  CheckAll(nested);
}

TEST_CASE("a position keeps the order that it counts in") {
  ComputeSpec s;
  s.inputs = {F32({2, 3, 4, 5})};
  s.outputs = {{DType::kI64, {2}}};
  s.values = {Expr::Reduce(ReduceOp::kArgMax, {3, 4, 5}, [](const Indices& v) {
    return Load(0, {At(0), v[0], v[1], v[2]});
  })};
  CheckSame(s, {kLast, kPlain});
}

TEST_CASE("sums go through memory in its order") {
  ComputeSpec s;
  s.inputs = {F32({2, 3, 4, 5})};
  s.outputs = {F32({2})};
  s.values = {Sum({3, 4, 5}, [](const Indices& v) { return Load(0, {At(0), v[0], v[1], v[2]}); })};
  const ComputeSpec last = ApplyLayouts(s, {kLast, kPlain});
  CHECK(last.values[0]->extents() == std::vector<SymInt>{4, 5, 3});
  // One run of memory each way, so one and the same kernel.
  CHECK(LowerKernel(last, {}).kernel->CanonicalText() ==
        LowerKernel(s, {}).kernel->CanonicalText());
}

TEST_CASE("rows are those of the output, though they are read from what lies otherwise") {
  ComputeSpec s;
  s.inputs = {F32({2, 3, 4, 5})};
  s.outputs = {F32({2, 3, 4, 5})};
  s.values = {Load(0, {At(0), At(1), At(2), At(3)}) / Sum({3, 4, 5}, [](const Indices& v) {
                return Load(0, {At(0), v[0], v[1], v[2]});
              })};
  for (const Layout x : {kPlain, kLast})
    for (const Layout y : {kPlain, kLast})
      CHECK(LowerKernel(ApplyLayouts(s, {x, y}), {}).kernel->tmpl == KernelTemplate::kRow);
}

TEST_CASE("what is all plain stays as it is, and so does what has no spatial axes") {
  const ComputeSpec s = Bias();
  CHECK(ApplyLayouts(s, {}).values == s.values);
  CHECK(ApplyLayouts(s, {kPlain, kLast, kPlain, kPlain}).values == s.values);
}

TEST_CASE("operands that share loops had better lie alike") {
  CHECK(Groups(Bias()) == Lists{{0, 2, 3}});
  CHECK(Groups(Statistics()) == Lists{{0, 1}});
  CHECK(Groups(Transposed()) == Lists{{0}, {1}});
  ComputeSpec concat = Bias();  // along the channels
  concat.inputs = {F32({2, 1, 4, 5}), F32({2, 2, 4, 5})};
  concat.values = {Expr::Select(Lt(At(1), Expr::Int(1)),
                                Load(0, {At(0), Expr::Int(0), At(2), At(3)}),
                                Load(1, {At(0), At(1) - Expr::Int(1), At(2), At(3)}))};
  CHECK(Groups(concat) == Lists{{0, 1, 2}});
  ComputeSpec own = Bias();  // and its own transposed: in two ways at once
  own.inputs = {F32({2, 4, 4, 4}), F32({2, 4, 4, 4})};
  own.outputs = {F32({2, 4, 4, 4})};
  own.values = {Load(0, {At(0), At(1), At(2), At(3)}) + Load(0, {At(0), At(2), At(1), At(3)}) +
                Load(1, {At(0), At(1), At(2), At(3)})};
  CHECK(Groups(own) == Lists{{0}, {1, 2}});
  ComputeSpec two = Bias();
  two.outputs = {F32({2, 3, 4, 5}), F32({2, 3, 4, 5})};
  two.values = {Load(0, {At(0), At(1), At(2), At(3)}), Load(1, {At(0), At(1), At(2), At(3)})};
  two.inputs = {F32({2, 3, 4, 5}), F32({2, 3, 4, 5})};
  CHECK(Groups(two) == Lists{{0, 1, 2, 3}});
  CHECK(Groups(two, /*side_by_side=*/true) == Lists{{0, 2}, {1, 3}});
}

TEST_CASE("strides in the innermost loop are told") {
  const auto one = [](const ComputeSpec& s, size_t g) { return LayoutGroups(s, false)[g]; };
  CHECK(one(Bias(), 0).strided_plain.empty());
  CHECK(one(Bias(), 0).strided_last.empty());
  CHECK(one(Statistics(), 0).strided_last.empty());
  // [n, c, h, w] to [n, h, w, c] is a copy of what lies with its channels last,
  // and of nothing else.
  CHECK(one(Transposed(), 0).strided_plain == std::vector<int>{0});
  CHECK(one(Transposed(), 0).strided_last.empty());
  ComputeSpec flat;  // [n, c, h, w] to [n, c h w]
  flat.inputs = {F32({2, 3, 4, 5})};
  flat.outputs = {F32({2, 60})};
  const Indices at = Delinearize(At(1), {3, 4, 5});
  flat.values = {Load(0, {At(0), at[0], at[1], at[2]})};
  CHECK(one(flat, 0).strided_plain.empty());
  CHECK(one(flat, 0).strided_last == std::vector<int>{0});
}

}  // namespace
}  // namespace weft
