/// matmul.cc: MatMul (numpy broadcasting) and Gemm by cuBLASLt, with what follows them: a factor, a
/// row, a tensor of the result's extents, Relu or Gelu. Where the library does not do all of that
/// at once, a generated kernel follows the product. Batch axes that broadcast differently, and a
/// factor of a C that is no matrix, are left to generated kernels altogether.
///
/// A row is added on the way out of the library, a tensor as its C, which may lie where the result
/// goes. A row that is the whole result may lie there as well, so it is added as C.
#include "backends/shared/call_operands.h"
#include "followed_call.h"
#include "libraries.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/op/product_shape.h"
#include "weft/runtime/backend/device.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

using Dims = std::vector<int64_t>;

/// Sums of nothing.
class Zeros final : public DeviceCall {
 public:
  explicit Zeros(int64_t bytes) : bytes_(bytes) {}
  void Enqueue(DeviceStream& stream, const void* const*, void* const* outputs,
               void*) const override {
    if (bytes_ > 0) stream.Clear(outputs[0], bytes_);
  }
  std::string description() const override { return "zeros"; }

 private:
  const int64_t bytes_;
};

/// cuBLASLt has activations for float32 and below. Its Relu keeps NaN (seen with cuBLASLt 13 on
/// sm_90, all three types); the accuracy of its tanh is not documented, so f32 does without that.
EpilogueTable ProductEpilogue(const EpilogueCall& call) {
  const DType type = call.type.dtype;
  const Shape& right = call.inputs[1];
  if (!IsFloat(type) || !right.has_rank()) return {};
  const bool has_c = call.inputs.size() > 2, plain = type != DType::kF64 && !has_c;
  EpilogueTable table;
  // The product of two factors of f32 may vanish where neither does.
  if (plain && FloatAttr(call.anchor, "alpha", 1) == 1)
    table.stages.push_back({EpilogueKind::kScale});
  if (plain && right.rank() >= 2) table.stages.push_back({EpilogueKind::kBiasRow});
  const Shape c = has_c ? call.inputs[2] : Shape::Scalar();
  if (c.has_rank() && (c.rank() < 2 || c[0].is(1))) table.stages.push_back({EpilogueKind::kAddend});
  table.stages.push_back({EpilogueKind::kActivation});
  table.takes = [type](const ActivationStep& a) {
    return (a.function == Activation::kRelu && type != DType::kF64) ||
           (a.function == Activation::kGeluTanh && IsNarrowFloat(type));
  };
  return table;
}

/// The product that a node is, and what its C is to it: a matrix with a factor, a row, or something
/// else, without a factor, that is added behind it.
struct Product {
  ProductSpec spec;
  PlannedCall::Operand c = {};
  bool row = false, behind = false;
  bool has_c() const { return c.number >= 0; }
};

std::unique_ptr<DeviceCall> Planned(std::shared_ptr<const LibraryPlan> plan,
                                    const PlannedCall::Operand& bias,
                                    const PlannedCall::Operand& c) {
  return std::make_unique<PlannedCall>(
      std::move(plan), std::vector<PlannedCall::Operand>{{0}, {1}, {0, true}, bias, c});
}

/// All of it by the library. Null where it has no way to.
std::unique_ptr<DeviceCall> PrepareWhole(const ComputeRequest& q, const Product& p,
                                         const EpilogueSteps& steps) {
  if (p.behind) return nullptr;
  ProductSpec s = p.spec;
  PlannedCall::Operand bias, c;
  if (p.has_c()) (p.row ? bias : c) = p.c;
  const CallStep *addend = steps.operand(EpilogueKind::kAddend),
                 *row = steps.operand(EpilogueKind::kBiasRow);
  if (row && row->operand_dims == q.output_dims[0]) {
    if (addend) return nullptr;
    addend = row;
  } else if (row) {
    bias.number = row->operand;
  }
  if (addend) {
    c.number = addend->operand;
    s.beta = 1;
  }
  s.bias = bias.number >= 0;
  s.activation = steps.activation();
  auto plan = LibrariesOf(q).Product(s);
  return plan ? Planned(std::move(plan), bias, c) : nullptr;
}

/// With the epilogue of the request.
std::unique_ptr<DeviceCall> PrepareProduct(const ComputeRequest& q, Product p) {
  const std::optional<EpilogueSteps> steps = ReadEpilogueSteps(q, ProductEpilogue);
  if (!steps) return nullptr;
  // The library adds one matrix: of one row, C may be that one.
  if (p.has_c() && !p.row && !p.behind && steps->find(EpilogueKind::kAddend)) return nullptr;
  const LibraryStep* scale = steps->find(EpilogueKind::kScale);
  if (scale) p.spec.alpha *= scale->value;
  p.spec.tf32 = q.options.tf32 && p.spec.type == DType::kF32;
  if (auto whole = PrepareWhole(q, p, *steps)) return whole;
  const bool added = p.row || p.behind;
  if (!added && q.epilogue.size() == size_t(scale != nullptr)) return nullptr;
  // The product alone, and kernels for the rest.
  auto plan = LibrariesOf(q).Product(p.spec);
  if (!plan) return nullptr;
  StepsBehind behind(q);
  if (added) behind.Add(p.c.number, q.input_dims[2]);
  behind.AddEpilogue(scale ? 1 : 0);
  return behind.After(PlannedCall(std::move(plan),
                                  {{0}, {1}, {0, true}, {}, added ? PlannedCall::Operand() : p.c}));
}

/// Where there is nothing to add up. `bytes`: of the result.
std::unique_ptr<DeviceCall> PrepareZeros(const ComputeRequest& q, bool has_c) {
  const int64_t elements = CheckedProduct(q.output_dims[0]);
  if (elements > 0 && (has_c || !q.epilogue.empty())) return nullptr;
  return std::make_unique<Zeros>(DTypeBytes(q.output_types[0], elements));
}

std::unique_ptr<DeviceCall> PrepareMatMul(const ComputeRequest& q) {
  if (!IsFloat(q.output_types[0])) return nullptr;
  if (CheckedProduct(q.output_dims[0]) == 0 || q.input_dims[0].back() == 0)
    return PrepareZeros(q, /*has_c=*/false);
  const auto shape = CollapseProduct(q.input_dims[0], q.input_dims[1]);
  if (!shape || shape->y.size() > 3) return nullptr;
  Product p;
  ProductSpec& s = p.spec;
  s.type = q.output_types[0];
  s.m = shape->y[shape->y.size() - 2];
  s.n = shape->y.back();
  s.k = shape->a.back();
  if (shape->y.size() == 3) {
    s.batch = shape->y[0];
    s.step_a = shape->a[0] == 1 ? 0 : CheckedMul(s.m, s.k);
    s.step_b = shape->b[0] == 1 ? 0 : CheckedMul(s.k, s.n);
  }
  return PrepareProduct(q, std::move(p));
}

std::unique_ptr<DeviceCall> PrepareGemm(const ComputeRequest& q) {
  if (!IsFloat(q.output_types[0]) || q.output_dims[0].size() != 2 || q.input_dims[0].size() != 2)
    return nullptr;
  Product p;
  ProductSpec& s = p.spec;
  s.type = q.output_types[0];
  s.trans_a = IntAttr(q.node, "transA", 0) != 0;
  s.trans_b = IntAttr(q.node, "transB", 0) != 0;
  s.alpha = FloatAttr(q.node, "alpha", 1);
  s.m = q.output_dims[0][0];
  s.n = q.output_dims[0][1];
  s.k = q.input_dims[0][s.trans_a ? 0 : 1];
  const double beta = FloatAttr(q.node, "beta", 1);
  const bool has_c = HasInput(q, 2) && beta != 0;
  if (s.m == 0 || s.n == 0 || s.k == 0) return PrepareZeros(q, has_c);
  if (has_c) {
    const Dims& c = q.input_dims[2];
    const Dims whole{s.m, s.n}, row{1, s.n}, short_row{s.n};
    p.c.number = 2;
    if (c == whole || (s.m == 1 && c == short_row)) {
      s.beta = beta;
    } else {
      if (beta != 1) return nullptr;
      p.row = c == row || c == short_row;
      p.behind = !p.row;
    }
  }
  return PrepareProduct(q, std::move(p));
}

WEFT_REGISTER_OP(MatMul)
    .set_attr<FCompute>("FCompute.cuda", PrepareMatMul)
    .set_attr<FEpilogue>("FEpilogue.cuda", EpilogueTakenBy(ProductEpilogue));
WEFT_REGISTER_OP(Gemm)
    .set_attr<FCompute>("FCompute.cuda", PrepareGemm)
    .set_attr<FEpilogue>("FEpilogue.cuda", EpilogueTakenBy(ProductEpilogue));

}  // namespace
}  // namespace weft::cuda
