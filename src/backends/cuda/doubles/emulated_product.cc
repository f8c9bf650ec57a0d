/// emulated_product.cc: products of emulated_libraries.h: plain loops, sums in double precision.
/// Elements are stored as they come, and a workspace is overwritten before and after: what may
/// not lie there shows.
#include <cmath>
#include <cstring>
#include <iterator>

#include "emulated_libraries.h"
#include "weft/core/tensor/tensor.h"

namespace weft::e2e {
namespace {

using cuda::ProductSpec;

constexpr int64_t kWorkspaceBytes = 300;

void CheckPlace(const char* what, const void* at, int64_t bytes, int alignment) {
  FailingDriver& d = FailingDriver::Get();
  const auto begin = reinterpret_cast<uint64_t>(at);
  const auto it = d.memory.upper_bound(begin);
  if (it == d.memory.begin() ||
      begin + uint64_t(bytes) > std::prev(it)->first + uint64_t(std::prev(it)->second))
    d.problems.push_back(std::string(what) + " of a product is not memory of the device");
  if (begin % uint64_t(alignment) != 0)
    d.problems.push_back(std::string(what) + " of a product is not aligned");
}

/// `count` elements on the device; empty where the operand is absent.
Tensor Elements(const ProductSpec& s, void* at, int64_t count) {
  if (!at) return Tensor(s.type, {0});
  CheckPlace("an operand", at, DTypeBytes(s.type, count), cuda::kOperandAlignment);
  return Tensor(s.type, {count}, at, nullptr);
}

double Applied(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default:
      FailingDriver::Get().problems.push_back("a product with an activation that cuBLASLt lacks");
      return x;
  }
}

void Multiply(const ProductSpec& s, void* const* at, void* workspace) {
  CheckPlace("the workspace", workspace, kWorkspaceBytes, cuda::kWorkspaceAlignment);
  std::memset(workspace, 0xFF, size_t(kWorkspaceBytes));
  const int64_t last = s.batch - 1;
  const Tensor a = Elements(s, at[0], last * s.step_a + s.m * s.k),
               b = Elements(s, at[1], last * s.step_b + s.k * s.n);
  Tensor y = Elements(s, at[2], s.batch * s.m * s.n);
  const Tensor row = Elements(s, s.bias ? at[3] : nullptr, s.n),
               c = Elements(s, s.beta != 0 ? at[4] : nullptr, s.batch * s.m * s.n);
  for (int64_t z = 0, at_y = 0; z < s.batch; ++z) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j, ++at_y) {
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += a.at(z * s.step_a + (s.trans_a ? k * s.m + i : i * s.k + k)) *
                 b.at(z * s.step_b + (s.trans_b ? j * s.k + k : k * s.n + j));
        sum *= s.alpha;
        if (s.beta != 0) sum += s.beta * c.at(at_y);
        if (s.bias) sum += row.at(j);
        y.set(at_y, Applied(s.activation, sum));
      }
    }
  }
  std::memset(workspace, 0xFF, size_t(kWorkspaceBytes));
}

}  // namespace

std::shared_ptr<const cuda::LibraryPlan> EmulatedLibraries::Product(const ProductSpec& spec) {
  const bool follows = spec.bias || spec.activation != Activation::kNone;
  if (refuse || (follows && refuse_epilogues)) return nullptr;
  ++products;
  product_specs.push_back(spec);
  return std::make_shared<EmulatedPlan>(
      "emulated product", 5, kWorkspaceBytes,
      [spec](void* const* at, void* workspace) { Multiply(spec, at, workspace); });
}

}  // namespace weft::e2e
