/// cudnn.cc: see cudnn.h. A handle of cuDNN works for one stream at a time: who runs a plan sets
/// it, under a lock. Engines are taken in the order of the heuristics; timing several where
/// CallOptions::tune asks for it is left for a machine with a GPU.
#include "cudnn.h"

#include <fmt/format.h>

#include "backends/cuda/driver/device.h"
#include "cudnn_graph.h"
#include "weft/support/check.h"
#include "weft/support/log.h"

namespace weft::cuda {
namespace {

/// A workspace is memory of the program. Where cuDNN wants more there is a smaller
/// engine, mostly as fast.
constexpr int64_t kMostWorkspace = int64_t{256} << 20;

std::vector<int64_t> KeyOf(const ConvSpec& s) {
  const ConvShape& c = s.shape;
  std::vector<int64_t> key{int64_t(s.pass),
                           int64_t(s.type),
                           int64_t(s.x_layout),
                           int64_t(s.w_layout),
                           int64_t(s.y_layout),
                           s.bias,
                           s.addend,
                           s.tf32,
                           c.images,
                           c.groups,
                           c.channels,
                           c.filters,
                           int64_t(c.window.rank())};
  const WindowShape& w = c.window;
  for (const auto* list : {&w.in, &w.kernel, &w.out, &w.strides, &w.dilations, &w.begin, &w.end})
    key.insert(key.end(), list->begin(), list->end());
  return key;
}

const char* NameOf(ConvSpec::Pass pass) {
  switch (pass) {
    case ConvSpec::Pass::kForward:
      return "conv";
    case ConvSpec::Pass::kGradData:
      return "conv dx";
    case ConvSpec::Pass::kGradWeight:
      return "conv dW";
  }
  return "";
}

std::string DescribeConv(const ConvSpec& s) {
  std::string text = fmt::format("cudnn {} {}", NameOf(s.pass), DTypeName(s.type));
  if (s.bias) text += " + bias";
  if (s.addend) text += " + addend";
  return text;
}

}  // namespace

class Cudnn::Handle {
 public:
  Handle(std::shared_ptr<Device> device, const CudnnApi& api)
      : device_(std::move(device)), api_(api) {
    CheckCudnn(api_, api_.create(&handle_), "cudnnCreate");
  }
  ~Handle() {
    try {
      const Device::Current current = device_->Use();
      api_.destroy(handle_);
    } catch (const Error&) {
      // The device has ended, and the handle with it.
    }
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const CudnnApi& api() const { return api_; }
  const Device& device() const { return *device_; }
  CudnnHandle* raw() const { return handle_; }
  void Execute(StreamHandle* stream, const CudnnObject& plan, const CudnnObject& operands) {
    std::lock_guard lock(mutex_);
    CheckCudnn(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
    CheckCudnn(api_, api_.execute(handle_, plan.raw(), operands.raw()), "cudnnBackendExecute");
  }

 private:
  const std::shared_ptr<Device> device_;
  const CudnnApi& api_;
  CudnnHandle* handle_ = nullptr;
  std::mutex mutex_;
};

class Cudnn::ConvPlan final : public LibraryPlan {
 public:
  ConvPlan(std::shared_ptr<Handle> handle, CudnnEngine engine, std::string description)
      : handle_(std::move(handle)),
        engine_(std::move(engine)),
        description_(std::move(description)) {}
  ~ConvPlan() override {
    const Device::Current current = handle_->device().Enter();
    const CudnnEngine gone = std::move(engine_);
  }
  int64_t workspace_bytes() const override { return engine_.workspace_bytes; }
  std::string description() const override { return description_; }
  void Run(StreamHandle* stream, void* const* operands, void* workspace) const override {
    std::vector<int64_t> ids;
    std::vector<void*> at;
    for (size_t i = 0; i < kConvOperands; ++i) {
      if (!operands[i]) continue;
      ids.push_back(kFirstOperand + int64_t(i));
      at.push_back(operands[i]);
    }
    CudnnObject pack(handle_->api(), cudnn::kVariantPack);
    pack.Set(cudnn::kPackIds, ids);
    pack.Set(cudnn::kPackPointers, cudnn::kPointerType, int64_t(at.size()), at.data());
    pack.Set(cudnn::kPackWorkspace, cudnn::kPointerType, workspace);
    pack.Finalize();
    handle_->Execute(stream, engine_.plan, pack);
  }

 private:
  const std::shared_ptr<Handle> handle_;  // outlives the engine
  CudnnEngine engine_;
  const std::string description_;
};

Cudnn::Cudnn(std::shared_ptr<Device> device, std::string library)
    : device_(std::move(device)), library_(std::move(library)) {}
Cudnn::Cudnn(std::shared_ptr<Device> device, const CudnnApi& api)
    : device_(std::move(device)), api_(&api) {}
Cudnn::~Cudnn() = default;

std::shared_ptr<const LibraryPlan> Cudnn::Plan(const ConvSpec& spec) {
  std::lock_guard lock(mutex_);
  if (failed_) return nullptr;
  const std::vector<int64_t> key = KeyOf(spec);
  if (const auto* known = plans_.Find(key)) return *known;
  const Device::Current current = device_->Use();
  if (!handle_) {
    const TryCudnn open = [&](const std::shared_ptr<const CudnnApi>& candidate) -> std::string {
      try {
        handle_ = std::make_shared<Handle>(device_, *candidate);
        return {};
      } catch (const Error& e) {
        return e.message();
      }
    };
    try {
      if (!api_) api_ = &OpenCudnn(open, library_);
      WEFT_CHECK(api_->ok(), kUnsupported, "{}", api_->error);
      if (!handle_) handle_ = std::make_shared<Handle>(device_, *api_);
    } catch (const Error& e) {
      failed_ = true;
      WEFT_LOG(kWarning, "convolutions run as generated kernels, which are slower: {}",
               e.message());
      return nullptr;
    }
  }
  try {
    return plans_.Put(key, MakePlan(spec));
  } catch (const Error& e) {  // which may be otherwise next time
    WEFT_LOG(kWarning, "no {}: {}", DescribeConv(spec), e.message());
    return nullptr;
  }
}

std::shared_ptr<const LibraryPlan> Cudnn::MakePlan(const ConvSpec& spec) {
  std::string why;
  auto engine = FindEngine(*api_, {handle_->raw(), nullptr}, spec, kMostWorkspace, &why);
  if (!engine) {
    WEFT_LOG(kInfo, "no {}: {}", DescribeConv(spec), why);
    return nullptr;
  }
  std::string description = fmt::format("{} engine {}", DescribeConv(spec), engine->number);
  return std::make_shared<ConvPlan>(handle_, std::move(*engine), std::move(description));
}

}  // namespace weft::cuda
