/// followed_call.cc: see followed_call.h.
#include "followed_call.h"

#include <algorithm>
#include <utility>

#include "runtime/binding/kernel_call.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

class FollowedCall final : public DeviceCall {
 public:
  /// `others`: which inputs of the call the kernels read, behind what the library made.
  FollowedCall(PlannedCall part, int64_t made_bytes, std::unique_ptr<DeviceCall> kernels,
               std::vector<int> others)
      : part_(std::move(part)),
        made_bytes_(CheckedRoundUp(made_bytes, kWorkspaceAlignment)),
        kernels_(std::move(kernels)),
        others_(std::move(others)) {}
  void Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
               void* scratch) const override {
    char* rest = static_cast<char*>(scratch) + made_bytes_;
    part_.Enqueue(stream, inputs, &scratch, rest);
    std::vector<const void*> in{scratch};
    for (int i : others_) in.push_back(inputs[i]);
    kernels_->Enqueue(stream, in.data(), outputs, rest);
  }
  int64_t scratch_bytes() const override {
    return CheckedAdd(made_bytes_, std::max(part_.scratch_bytes(), kernels_->scratch_bytes()));
  }
  std::string description() const override { return part_.description() + ", then kernels"; }

 private:
  const PlannedCall part_;
  const int64_t made_bytes_;
  const std::unique_ptr<DeviceCall> kernels_;
  const std::vector<int> others_;
};

}  // namespace

StepsBehind::StepsBehind(const ComputeRequest& q) : q_(q) {
  const Shape shape = Shape::OfInts(q.output_dims[0]);
  made_ = NodeEntry(nodes_.AddInput("", q.output_types[0], shape));
  other_ = NodeEntry(nodes_.AddInput("", q.output_types[0], shape));
}

int StepsBehind::Number(int input) {
  others_.push_back(input);
  return int(others_.size());
}

void StepsBehind::Add(int input, std::vector<int64_t> dims) {
  CallStep add;
  add.node = nodes_.AddNode("Add", {made_, other_});
  add.operand = Number(input);
  add.operand_dims = std::move(dims);
  add.operand_type = q_.output_types[0];
  steps_.push_back(std::move(add));
}

void StepsBehind::AddEpilogue(size_t skipped) {
  for (size_t i = skipped; i < q_.epilogue.size(); ++i) {
    steps_.push_back(q_.epilogue[i]);
    if (steps_.back().operand >= 0) steps_.back().operand = Number(steps_.back().operand);
  }
}

std::unique_ptr<DeviceCall> StepsBehind::After(PlannedCall part) {
  ComputeRequest k;
  k.node = nodes_.AddNode(builtin::kIdentity, {made_});
  k.input_dims = k.output_dims = {q_.output_dims[0]};
  k.input_types = k.output_types = {q_.output_types[0]};
  k.constants = {nullptr};
  k.input_layouts =
      k.output_layouts = {q_.output_layouts.empty() ? Layout::kPlain : q_.output_layouts[0]};
  k.threads = q_.threads;
  k.options = q_.options;
  k.backend = q_.backend;
  k.epilogue = steps_;
  auto kernels = AsDeviceCall(MakeKernelCall(k, *q_.backend));
  if (!kernels) return nullptr;
  const int64_t bytes = DTypeBytes(q_.output_types[0], CheckedProduct(q_.output_dims[0]));
  return std::make_unique<FollowedCall>(std::move(part), bytes, std::move(kernels), others_);
}

}  // namespace weft::cuda
