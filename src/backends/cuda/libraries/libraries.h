/// libraries.h: what the backend asks of NVIDIA's libraries, in words of its own: products of
/// matrices (cuBLASLt) and convolutions (cuDNN). Private to src/backends/cuda. Tests put an
/// implementation on the host in its place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver_api.h"
#include "backends/shared/epilogue.h"
#include "weft/core/op/conv_shape.h"
#include "weft/core/plan/layout.h"
#include "weft/core/tensor/dtype.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cuda {

class Device;

/// Of the address of every operand, as the runtime places them; of a workspace.
constexpr int kOperandAlignment = 64, kWorkspaceAlignment = 256;

/// What a library does for fixed extents, ready to be done many times. Thread-safe.
class LibraryPlan {
 public:
  virtual ~LibraryPlan() = default;
  /// Memory of the device that a run needs for itself, aligned to kWorkspaceAlignment.
  virtual int64_t workspace_bytes() const { return 0; }
  virtual std::string description() const = 0;
  /// Gives the work to the stream, which may be captured. `operands`: addresses on the device in
  /// the order that the spec names them, null for absent ones. Throws kDevice.
  virtual void Run(StreamHandle* stream, void* const* operands, void* workspace) const = 0;
};

/// A call of the program by one plan of a library: which of its inputs and outputs
/// are the plan's operands.
class PlannedCall final : public DeviceCall {
 public:
  /// One operand of the plan: input `number` of the call, or its output; -1: absent.
  struct Operand {
    int number = -1;
    bool output = false;
  };
  PlannedCall(std::shared_ptr<const LibraryPlan> plan, std::vector<Operand> operands)
      : plan_(std::move(plan)), operands_(std::move(operands)) {}
  void Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
               void* scratch) const override;
  int64_t scratch_bytes() const override;
  std::string description() const override { return plan_->description(); }

 private:
  const std::shared_ptr<const LibraryPlan> plan_;
  const std::vector<Operand> operands_;
};

/// y = act(alpha a b + beta c + bias), in row-major order, sums in float32 (of float64 in float64).
/// Operands: a, b, y, bias, c. The last two may be absent; c has the extents of y and may be y.
struct ProductSpec {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool trans_a = false, trans_b = false;  ///< a lies as [k, m], b as [n, k]
  int64_t step_a = 0, step_b = 0;  ///< elements from one of the batch to the next; 0: one for all
  DType type = DType::kF32;        ///< of all operands
  double alpha = 1, beta = 0;      ///< beta != 0: there is a c
  bool bias = false;               ///< a row [n]
  Activation activation = Activation::kNone;
  bool tf32 = false;  ///< float32 operands may be rounded to 10 bits of mantissa
};

/// A convolution or one of its gradients. Operands: x, w, y of the convolution, whichever of them
/// is the result, then bias and addend.
struct ConvSpec {
  enum class Pass : uint8_t { kForward, kGradData, kGradWeight } pass = Pass::kForward;
  ConvShape shape;
  DType type = DType::kF32;  ///< of all operands; sums in float32
  Layout x_layout = Layout::kPlain, w_layout = Layout::kPlain, y_layout = Layout::kPlain;
  bool bias = false;    ///< [filters]; forward only
  bool addend = false;  ///< of the extents and layout of y
  bool tf32 = false;
};

class Libraries {
 public:
  virtual ~Libraries() = default;
  /// Null where the library has no way to do it, or is not there, which is told once:
  /// kernels are generated then.
  virtual std::shared_ptr<const LibraryPlan> Product(const ProductSpec& spec) = 0;
  virtual std::shared_ptr<const LibraryPlan> Conv(const ConvSpec& spec) = 0;
};

/// cuBLASLt and cuDNN, opened when first asked for. Plans are kept: equal specs share one.
std::shared_ptr<Libraries> OpenLibraries(std::shared_ptr<Device> device);
/// Those of the backend that a call is prepared for.
Libraries& LibrariesOf(const ComputeRequest& q);

}  // namespace weft::cuda
