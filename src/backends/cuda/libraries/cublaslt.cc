/// cublaslt.cc: see cublaslt.h. The algorithm is the first that the library's heuristic names.
/// Timing several of them where CallOptions::tune asks for it is left for a machine with a GPU.
#include "cublaslt.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "backends/cuda/driver/device.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"
#include "weft/support/log.h"

namespace weft::cuda {
namespace {

/// What a plan may ask for. NVIDIA's advice for Hopper; smaller devices use less.
constexpr uint64_t kMostWorkspace = 32 << 20;
/// The matrices of a batch are the third axis of the grid in some algorithms. The heuristic names
/// them for longer batches all the same, and the launch fails.
constexpr int64_t kMostBatch = 65535;
/// Plans kept for later requests. Extents of symbolic programs come and go.
constexpr size_t kMostPlans = 1024;

/// Of cuBLASLt on one device; plans outlive who made them.
struct Library {
  Library(std::shared_ptr<Device> d, std::shared_ptr<const CublasLtApi> a)
      : device(std::move(d)), api(std::move(a)) {
    const Device::Current current = device->Use();
    status = api->Create(&handle);
  }
  ~Library() {
    if (status != lt::kSuccess) return;
    // Also where the device has ended: what is ours is given back.
    const Device::Current current = device->Enter();
    api->Destroy(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::shared_ptr<Device> device;
  const std::shared_ptr<const CublasLtApi> api;
  lt::Handle* handle = nullptr;
  lt::Status status = lt::kSuccess;
};

/// A call that did not succeed while a plan was made.
struct Failure {
  lt::Status status;
  const char* call;
};
void CheckStatus(lt::Status status, const char* call) {
  if (status != lt::kSuccess) throw Failure{status, call};
}

template <class T>
using Owned = std::unique_ptr<T, lt::Status (*)(T*)>;

/// What the types of operands are in the library's words.
struct Types {
  int data, compute, scale;
};
std::optional<Types> TypesOf(const ProductSpec& s) {
  switch (FormatOf(s.type)) {
    case FloatFormat::kF32:
      return Types{lt::kF32, s.tf32 ? lt::kComputeTF32 : lt::kCompute32F, lt::kF32};
    case FloatFormat::kF64:
      return Types{lt::kF64, lt::kCompute64F, lt::kF64};
    case FloatFormat::kF16:
      return Types{lt::kF16, lt::kCompute32F, lt::kF32};
    case FloatFormat::kBF16:
      return Types{lt::kBF16, lt::kCompute32F, lt::kF32};
    case FloatFormat::kNone:
      break;
  }
  return std::nullopt;
}

bool IsPossible(const ProductSpec& s) {
  return s.m > 0 && s.n > 0 && s.k > 0 && s.batch > 0 && s.batch <= kMostBatch && TypesOf(s);
}

class ProductPlan final : public LibraryPlan {
 public:
  /// Throws Failure; kNotSupported where the library has no algorithm.
  ProductPlan(std::shared_ptr<const Library> library, const ProductSpec& s)
      : library_(std::move(library)),
        spec_(s),
        alpha_(float(s.alpha)),
        beta_(float(s.beta)),
        desc_(MakeDesc()),
        a_(MakeLayout(s.trans_a ? s.m : s.k, s.trans_a ? s.k : s.m, s.step_a)),
        b_(MakeLayout(s.trans_b ? s.k : s.n, s.trans_b ? s.n : s.k, s.step_b)),
        y_(MakeLayout(s.n, s.m, s.m * s.n)),
        found_(Look()) {}

  int64_t workspace_bytes() const override { return int64_t(found_.workspace_bytes); }
  std::string description() const override {
    std::string text = fmt::format("cuBLASLt {} x {} x {}", spec_.m, spec_.n, spec_.k);
    if (spec_.batch > 1) text += fmt::format(", {} of them", spec_.batch);
    if (spec_.beta != 0) text += " + c";
    if (spec_.bias) text += " + row";
    if (spec_.activation == Activation::kRelu) text += " + Relu";
    if (spec_.activation == Activation::kGeluTanh) text += " + Gelu";
    return text;
  }

  void Run(StreamHandle* stream, void* const* operands, void* workspace) const override {
    const void *const a = operands[0], *const b = operands[1];
    void* const y = operands[2];
    const void* const c = spec_.beta != 0 ? operands[4] : y;
    const void* const row = spec_.bias ? operands[3] : y;
    for (const void* p : {a, b, c, row, static_cast<const void*>(y)})
      WEFT_ICHECK(p && reinterpret_cast<uintptr_t>(p) % kOperandAlignment == 0,
                  "an operand of a matmul is at {}", p);
    const bool wide = spec_.type == DType::kF64;
    const CublasLtApi& api = *library_->api;
    // The row's address is part of the description.
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    lt::Status status = lt::kSuccess;
    if (spec_.bias) {
      lock.lock();
      status = api.DescSet(desc_.get(), lt::kBiasPointer, &row, sizeof row);
    }
    if (status == lt::kSuccess)
      status = api.Matmul(
          library_->handle, desc_.get(), wide ? static_cast<const void*>(&spec_.alpha) : &alpha_, b,
          b_.get(), a, a_.get(), wide ? static_cast<const void*>(&spec_.beta) : &beta_, c, y_.get(),
          y, y_.get(), &found_.algo, workspace, found_.workspace_bytes, stream);
    WEFT_CHECK(status == lt::kSuccess, kDevice, "{}: {} ({})", description(),
               api.StatusString(status), status);
  }

 private:
  Owned<lt::Desc> MakeDesc() const {
    const CublasLtApi& api = *library_->api;
    const Types types = *TypesOf(spec_);
    lt::Desc* made = nullptr;
    CheckStatus(api.DescCreate(&made, types.compute, types.scale), "cublasLtMatmulDescCreate");
    Owned<lt::Desc> desc(made, api.DescDestroy);
    const auto set = [&](int attribute, const auto& value) {
      CheckStatus(api.DescSet(made, attribute, &value, sizeof value),
                  "cublasLtMatmulDescSetAttribute");
    };
    if (spec_.trans_b) set(lt::kTransA, lt::kTransposed);  // operands are swapped
    if (spec_.trans_a) set(lt::kTransB, lt::kTransposed);
    uint32_t epilogue = spec_.bias ? lt::kBias : 0;
    if (spec_.activation == Activation::kRelu) epilogue |= lt::kRelu;
    if (spec_.activation == Activation::kGeluTanh) epilogue |= lt::kGelu;
    if (epilogue != 0) set(lt::kEpilogue, epilogue);
    // Not read yet, but the alignment of some address is counted on.
    if (spec_.bias) set(lt::kBiasPointer, reinterpret_cast<const void*>(kOperandAlignment));
    return desc;
  }

  /// Of a matrix of that many rows, counted along columns, and none beside another.
  Owned<lt::Layout> MakeLayout(int64_t rows, int64_t columns, int64_t step) const {
    const CublasLtApi& api = *library_->api;
    lt::Layout* made = nullptr;
    CheckStatus(
        api.LayoutCreate(&made, TypesOf(spec_)->data, uint64_t(rows), uint64_t(columns), rows),
        "cublasLtMatrixLayoutCreate");
    Owned<lt::Layout> layout(made, api.LayoutDestroy);
    const auto set = [&](int attribute, const auto& value) {
      CheckStatus(api.LayoutSet(made, attribute, &value, sizeof value),
                  "cublasLtMatrixLayoutSetAttribute");
    };
    if (spec_.batch > 1) {
      set(lt::kBatchCount, int32_t(spec_.batch));
      set(lt::kBatchStep, step);
    }
    return layout;
  }

  lt::Found Look() const {
    const CublasLtApi& api = *library_->api;
    lt::Preference* made = nullptr;
    CheckStatus(api.PreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    const Owned<lt::Preference> preference(made, api.PreferenceDestroy);
    const auto set = [&](int attribute, const auto& value) {
      CheckStatus(api.PreferenceSet(made, attribute, &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute");
    };
    set(lt::kWorkspaceBytes, kMostWorkspace);
    set(lt::kReductions, lt::kReduceInComputeType);
    for (int attribute : {lt::kAlignmentA, lt::kAlignmentB, lt::kAlignmentC, lt::kAlignmentD})
      set(attribute, uint32_t{kOperandAlignment});
    lt::Found found;
    int count = 0;
    CheckStatus(api.AlgoGetHeuristic(library_->handle, desc_.get(), b_.get(), a_.get(), y_.get(),
                                     y_.get(), made, 1, &found, &count),
                "cublasLtMatmulAlgoGetHeuristic");
    CheckStatus(count > 0 ? found.state : lt::kNotSupported, "cublasLtMatmulAlgoGetHeuristic");
    return found;
  }

  const std::shared_ptr<const Library> library_;
  const ProductSpec spec_;
  const float alpha_, beta_;  ///< for sums in float32
  mutable std::mutex mutex_;
  const Owned<lt::Desc> desc_;
  const Owned<lt::Layout> a_, b_, y_;
  const lt::Found found_;
};

auto KeyOf(const ProductSpec& s) {
  return std::make_tuple(s.m, s.n, s.k, s.batch, s.trans_a, s.trans_b, s.step_a, s.step_b, s.type,
                         s.alpha, s.beta, s.bias, s.activation, s.tf32);
}

}  // namespace

struct CublasLt::Impl {
  Impl(std::shared_ptr<Device> d, std::shared_ptr<const CublasLtApi> a, std::string f)
      : device(std::move(d)), api(std::move(a)), file(std::move(f)) {}

  const std::shared_ptr<Device> device;
  std::shared_ptr<const CublasLtApi> api;
  const std::string file;
  std::mutex mutex;
  bool tried = false;                      ///< to open it
  std::shared_ptr<const Library> library;  ///< null where it cannot be used
  /// Null: the library has no algorithm.
  BoundedCache<decltype(KeyOf({})), std::shared_ptr<const LibraryPlan>> plans{kMostPlans,
                                                                              Evict::kAll};

  void Open() {
    if (tried) return;
    const TryCublasLt create = [&](const std::shared_ptr<const CublasLtApi>& candidate) {
      auto opened = std::make_shared<const Library>(device, candidate);
      if (opened->status != lt::kSuccess)
        return fmt::format("cublasLtCreate: {}", candidate->StatusString(opened->status));
      library = std::move(opened);
      return std::string();
    };
    std::string why;
    if (!api) {
      int driver = 0;
      device->Check(device->api().DriverGetVersion(&driver), "cuDriverGetVersion");
      api = OpenCublasLt(driver, create, file);
      why = api->error;
    } else {
      why = api->ok() ? create(api) : api->error;
    }
    tried = true;
    if (!library) WEFT_LOG(kWarning, "matmuls run as generated kernels, without cuBLASLt: {}", why);
  }
};

CublasLt::CublasLt(std::shared_ptr<Device> device, std::shared_ptr<const CublasLtApi> api,
                   std::string library)
    : impl_(new Impl(std::move(device), std::move(api), std::move(library))) {}
CublasLt::~CublasLt() = default;

std::shared_ptr<const LibraryPlan> CublasLt::Plan(const ProductSpec& spec) {
  if (!IsPossible(spec)) return nullptr;
  std::lock_guard lock(impl_->mutex);
  impl_->Open();
  if (!impl_->library) return nullptr;
  const auto key = KeyOf(spec);
  try {
    return impl_->plans.GetOrMake(key, [&] {
      const Device::Current current = impl_->device->Use();
      return std::make_shared<const ProductPlan>(impl_->library, spec);
    });
  } catch (const Failure& f) {
    if (f.status != lt::kNotSupported)
      WEFT_LOG(kWarning, "{}: {}; this matmul runs as a generated kernel", f.call,
               impl_->api->StatusString(f.status));
    // Other failures may pass: a lack of memory.
    if (f.status == lt::kNotSupported || f.status == lt::kInvalidValue)
      impl_->plans.Put(key, nullptr);
    return nullptr;
  }
}

}  // namespace weft::cuda
