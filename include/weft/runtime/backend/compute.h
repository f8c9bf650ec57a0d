/// compute.h: `FCompute` (weft/core/target.h), how a backend runs an operator that no kernel is
/// generated for: a library call or plain C++.
///
/// Registered per backend under the key "FCompute.<backend>", e.g. by libweft_cpu.so:
///   WEFT_REGISTER_OP(Conv).set_attr<FCompute>("FCompute.cpu", PrepareConv);
/// or under "FCompute" for every backend with host memory that has none of its
/// own for the operator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/plan/epilogue.h"
#include "weft/core/plan/layout.h"
#include "weft/core/target.h"

namespace weft {

/// A part of a call, as the library that runs it tells.
struct CallPart {
  std::string name, how;
  double us = 0;
};

/// An operator made ready for fixed extents: primitives made, weights packed. Thread-safe; many
/// threads may make the call at once.
class WEFT_API PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  virtual std::string description() const { return {}; }
  /// Where the time of its latest run went, as far as it tells.
  virtual std::vector<CallPart> parts() const { return {}; }
};

/// On host memory: what an FCompute makes for a HostBackend.
class WEFT_API LibraryCall : public PreparedCall {
 public:
  /// `inputs[i]` null for an absent one. `scratch`: scratch_bytes(), 64-byte aligned, private to
  /// this call.
  virtual void Run(const void* const* inputs, void* const* outputs, void* scratch) const = 0;
};

/// On a device's memory: what an FCompute makes for a DeviceBackend.
class WEFT_API DeviceCall : public PreparedCall {
 public:
  /// Gives the call to a stream. Both arrays are read before it returns.
  virtual void Enqueue(class DeviceStream& stream, const void* const* inputs, void* const* outputs,
                       void* scratch) const = 0;
  /// It may be given to a stream that records (DeviceStream::Record).
  virtual bool records() const { return true; }
};

/// The same as what it is; InternalError where it is the other kind. Null stays null.
WEFT_API std::unique_ptr<LibraryCall> AsLibraryCall(std::unique_ptr<PreparedCall> call);
WEFT_API std::unique_ptr<DeviceCall> AsDeviceCall(std::unique_ptr<PreparedCall> call);

/// A step of an epilogue (weft/core/plan/epilogue.h) at fixed extents; the call applies it to its
/// result before it stores it.
struct CallStep {
  NodePtr node;  ///< the element-wise operator
  int slot = 0;  ///< which of its inputs is what has been computed so far
  /// Its other tensor: which of the `inputs` of Run; -1: none. One of the result's very shape may
  /// lie where the result is written.
  int operand = -1;
  std::vector<int64_t> operand_dims;  ///< and its extents, type and layout
  DType operand_type = DType::kUnknown;
  Layout operand_layout = Layout::kPlain;
  TensorPtr operand_constant;  ///< null where it is none
};

/// How the library calls of a program are prepared.
struct CallOptions {
  /// Where there are several ways to do it, they are timed when a call is first prepared, and the
  /// choice is kept on disk (docs/embed.md).
  bool tune = false;
  /// A GPU may round f32 operands of products and convolutions to 10 bits of mantissa (TF32).
  bool tf32 = false;
};

/// What a call is prepared for. Inputs are those of `node`; a step of the epilogue
/// names its own operand.
struct ComputeRequest {
  NodePtr node;
  std::vector<std::vector<int64_t>> input_dims, output_dims;
  std::vector<DType> input_types, output_types;
  /// Per input: what is in it, where that is known before the run: a constant, or extents of
  /// other tensors. Else null.
  std::vector<TensorPtr> constants;
  int threads = 1;
  /// Empty: all plain. Other layouts are passed only to operators with an FLayout.
  std::vector<Layout> input_layouts, output_layouts;
  /// What to apply to output 0, in order; empty for operators without an FEpilogue.
  std::vector<CallStep> epilogue;
  CallOptions options;
  class Backend* backend = nullptr;  ///< whose Prepare this is for
};
}  // namespace weft
