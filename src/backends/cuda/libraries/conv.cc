/// conv.cc: Conv, its two gradients and ConvTranspose (which is the gradient of a Conv for its
/// data) by cuDNN; weft::Reorder by generated kernels.
///
/// Layout. Tensor cores read 16-bit types with the channels innermost, so these are wished for;
/// with float32 operands cuDNN has its exact engines for plain tensors.
///
/// Epilogue. cuDNN has engines of all types for a convolution with a bias, behind it the sum with
/// another tensor; without a bias only its runtime compiler has, for some types and layouts. So a
/// Conv takes that step where it has a bias. Where there is no engine for the whole all the same,
/// the convolution alone is cuDNN's, and a generated kernel does the rest in one pass over its
/// result. Its Relu makes 0 of NaN (seen with cuDNN 9.14 on sm_90): that is left to kernels.
///
/// What cuDNN has no way to do is declined: the runtime generates kernels for it.
/// Pooling always is (docs/architecture/decisions_gpu.md).
#include <algorithm>
#include <string>

#include "backends/shared/call_operands.h"
#include "cudnn_graph.h"
#include "followed_call.h"
#include "libraries.h"
#include "weft/core/op/conv_shape.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/device.h"

namespace weft::cuda {
namespace {

using Dims = std::vector<int64_t>;
using Operand = PlannedCall::Operand;

/// Of the paddings behind that give the window its result, the one like that in front, for which
/// there are more engines; else the least. False where none does.
bool ChooseEnd(WindowShape* w) {
  for (size_t k = 0; k < w->rank(); ++k) {
    const int64_t covered = w->covered(k);
    const auto fits = [&](int64_t end) {
      const int64_t rest = w->in[k] + w->begin[k] + end - covered;
      return end >= 0 && rest >= 0 && rest < w->strides[k];
    };
    const int64_t least = std::max<int64_t>(0, covered - w->in[k] - w->begin[k]);
    w->end[k] = fits(w->begin[k]) ? w->begin[k] : least;
    if (w->begin[k] < 0 || !fits(w->end[k])) return false;
  }
  return true;
}

/// An addend may lie where the result goes. No document says that cuDNN's engines read it before
/// they write there, and some keep partial sums in the result: it is copied then, which costs what
/// it saved to add it here.
class AddedCall final : public DeviceCall {
 public:
  /// `addend`: input of the call, of `bytes`, the last that is read.
  AddedCall(PlannedCall call, int addend, int64_t bytes)
      : call_(std::move(call)),
        addend_(size_t(addend)),
        bytes_(bytes),
        copied_bytes_(CheckedRoundUp(bytes, kWorkspaceAlignment)) {}
  void Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
               void* scratch) const override {
    if (inputs[addend_] != outputs[0]) return call_.Enqueue(stream, inputs, outputs, scratch);
    stream.Copy(scratch, inputs[addend_], bytes_);
    std::vector<const void*> in(inputs, inputs + addend_ + 1);
    in[addend_] = scratch;
    call_.Enqueue(stream, in.data(), outputs, static_cast<char*>(scratch) + copied_bytes_);
  }
  int64_t scratch_bytes() const override {
    return CheckedAdd(copied_bytes_, call_.scratch_bytes());
  }
  std::string description() const override { return call_.description(); }

 private:
  const PlannedCall call_;
  const size_t addend_;
  const int64_t bytes_, copied_bytes_;
};

/// A convolution as cuDNN computes it, and which inputs of the call it reads; -1: absent.
struct ConvCall {
  ConvSpec spec;
  Operand x, w, y;
  int bias = -1;
};

constexpr int kResult = -1;

/// x, w and y of the convolution: the number of an input of the call, or kResult.
ConvCall CallOf(const ComputeRequest& q, ConvSpec::Pass pass, ConvShape shape, int x, int w,
                int y) {
  const auto layout = [&](int i) {
    return i == kResult ? LayoutOf(q.output_layouts, 0) : LayoutOf(q.input_layouts, size_t(i));
  };
  const auto operand = [](int i) { return i == kResult ? Operand{0, true} : Operand{i, false}; };
  ConvCall c;
  c.spec.pass = pass;
  c.spec.shape = std::move(shape);
  c.spec.x_layout = layout(x);
  c.spec.w_layout = layout(w);
  c.spec.y_layout = layout(y);
  c.x = operand(x);
  c.w = operand(w);
  c.y = operand(y);
  return c;
}

std::unique_ptr<DeviceCall> MakeCall(const ComputeRequest& q, ConvCall c,
                                     const EpilogueSteps& steps) {
  ConvSpec& s = c.spec;
  if (!ChooseEnd(&s.shape.window)) return nullptr;
  s.type = q.output_types[0];
  s.tf32 = q.options.tf32;
  Libraries& libraries = LibrariesOf(q);
  const CallStep* added = steps.operand(EpilogueKind::kAddend);
  const bool followed = c.bias >= 0 || !steps.steps.empty();
  const bool alike = !added || added->operand_layout == s.y_layout;
  if (!followed || (s.pass == ConvSpec::Pass::kForward && alike)) {
    ConvSpec whole = s;
    whole.bias = c.bias >= 0;
    whole.addend = added != nullptr;
    if (const auto plan = libraries.Conv(whole)) {
      Operand bias, addend;
      bias.number = c.bias;
      if (!added)
        return std::make_unique<PlannedCall>(plan, std::vector{c.x, c.w, c.y, bias, addend});
      addend.number = added->operand;
      return std::make_unique<AddedCall>(PlannedCall(plan, {c.x, c.w, c.y, bias, addend}),
                                         addend.number,
                                         DTypeBytes(s.type, CheckedProduct(q.output_dims[0])));
    }
  }
  if (!followed) return nullptr;
  const auto plan = libraries.Conv(s);
  if (!plan) return nullptr;
  StepsBehind behind(q);
  if (c.bias >= 0) {
    Dims row(q.output_dims[0].size() - 1, 1);
    row[0] = q.output_dims[0][1];
    behind.Add(c.bias, std::move(row));
  }
  behind.AddEpilogue();
  return behind.After(PlannedCall(plan, {c.x, c.w, c.y, Operand(), Operand()}));
}

/// Tensors that are there are all of one type that cuDNN takes, and have elements.
bool AreTaken(const ComputeRequest& q, size_t tensors) {
  const DType type = q.output_types[0];
  if (!CudnnTypeOf(type) || CheckedProduct(q.output_dims[0]) == 0) return false;
  for (size_t i = 0; i < tensors; ++i)
    if (HasInput(q, i) && (q.input_types[i] != type || CheckedProduct(q.input_dims[i]) == 0))
      return false;
  return true;
}

EpilogueTable ConvEpilogue(const EpilogueCall& call) {
  if (!CudnnTypeOf(call.type.dtype) || call.inputs.size() < 3) return {};
  EpilogueTable table;
  table.stages.push_back({EpilogueKind::kAddend});
  return table;
}

std::unique_ptr<DeviceCall> PrepareConv(const ComputeRequest& q) {
  if (!AreTaken(q, 3)) return nullptr;
  const auto shape = ReadConv(q.node, q.input_dims[0], q.input_dims[1], q.output_dims[0]);
  const auto steps = ReadEpilogueSteps(q, ConvEpilogue);
  if (!shape || !steps) return nullptr;
  ConvCall c = CallOf(q, ConvSpec::Pass::kForward, *shape, 0, 1, kResult);
  if (HasInput(q, 2)) c.bias = 2;
  return MakeCall(q, c, *steps);
}

/// dx from (dy, W, shape of x).
std::unique_ptr<DeviceCall> PrepareGradData(const ComputeRequest& q) {
  if (!AreTaken(q, 2)) return nullptr;
  const auto shape = ReadConv(q.node, q.output_dims[0], q.input_dims[1], q.input_dims[0]);
  if (!shape) return nullptr;
  return MakeCall(q, CallOf(q, ConvSpec::Pass::kGradData, *shape, kResult, 1, 0), {});
}

/// dW from (dy, x, shape of W).
std::unique_ptr<DeviceCall> PrepareGradWeight(const ComputeRequest& q) {
  if (!AreTaken(q, 2)) return nullptr;
  const auto shape = ReadConv(q.node, q.input_dims[1], q.output_dims[0], q.input_dims[0]);
  if (!shape) return nullptr;
  return MakeCall(q, CallOf(q, ConvSpec::Pass::kGradWeight, *shape, 1, kResult, 0), {});
}

/// The Conv that takes y to x has the same weights: [C, M / g, kernel] are
/// its filters and channels.
std::unique_ptr<DeviceCall> PrepareConvTranspose(const ComputeRequest& q) {
  if (!AreTaken(q, 3)) return nullptr;
  const Dims &x = q.input_dims[0], &w = q.input_dims[1], &y = q.output_dims[0];
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size() || y.size() != x.size()) return nullptr;
  ConvShape s;
  s.groups = IntAttr(q.node, "group", 1);
  s.images = x[0];
  s.filters = x[1];
  s.channels = y[1];
  if (s.groups < 1 || s.filters % s.groups != 0 || w[0] != s.filters ||
      s.channels != w[1] * s.groups)
    return nullptr;
  auto window = TransposedWindowShapeOf(q.node, {x.begin() + 2, x.end()}, {w.begin() + 2, w.end()},
                                        {y.begin() + 2, y.end()});
  if (!window) return nullptr;
  s.window = std::move(*window);
  DropIdleAxes(&s.window);
  ConvCall c = CallOf(q, ConvSpec::Pass::kGradData, std::move(s), kResult, 1, 0);
  if (HasInput(q, 2)) c.bias = 2;
  return MakeCall(q, c, {});
}

/// The first two inputs and the result.
LayoutWish ConvLayout(const NodePtr&, DType dtype) {
  if (!IsNarrowFloat(dtype)) return {};  // what tensor cores multiply as it is
  return {{Layout::kChannelsLast, Layout::kChannelsLast}, {Layout::kChannelsLast}};
}

/// A generated transposition does it at the speed of memory.
std::unique_ptr<DeviceCall> PrepareReorder(const ComputeRequest&) { return nullptr; }

WEFT_REGISTER_OP(Conv)
    .set_attr<FCompute>("FCompute.cuda", PrepareConv)
    .set_attr<FEpilogue>("FEpilogue.cuda", EpilogueTakenBy(ConvEpilogue))
    .set_attr<FLayout>("FLayout.cuda", ConvLayout);
WEFT_REGISTER_OP_IN(weft, ConvGradData)
    .set_attr<FCompute>("FCompute.cuda", PrepareGradData)
    .set_attr<FLayout>("FLayout.cuda", ConvLayout);
WEFT_REGISTER_OP_IN(weft, ConvGradWeight)
    .set_attr<FCompute>("FCompute.cuda", PrepareGradWeight)
    .set_attr<FLayout>("FLayout.cuda", ConvLayout);
WEFT_REGISTER_OP(ConvTranspose)
    .set_attr<FCompute>("FCompute.cuda", PrepareConvTranspose)
    .set_attr<FLayout>("FLayout.cuda", ConvLayout);
WEFT_REGISTER_OP_IN(weft, Reorder).set_attr<FCompute>("FCompute.cuda", PrepareReorder);

}  // namespace
}  // namespace weft::cuda
