/// backend.h: where a program runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/runtime/backend/compute.h"
#include "weft/runtime/backend/device.h"

namespace weft {

/// A launch that is one call of code: fn(buffers, dims, 0, items, memory), with 64-byte aligned
/// memory of so many bytes.
struct DirectLaunch {
  CpuKernelFn fn = nullptr;  ///< null: nothing is to be done
  int64_t items = 0, memory_bytes = 0;
  double us = 0;  ///< about what it takes
};
/// A kernel on host memory, ready to launch.
class WEFT_API KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;
  /// `buffers` in the order of kernel.buffers; `dims`: values of d0, d1 ...
  virtual void Launch(void* const* buffers, const int64_t* dims) const = 0;
  /// What a launch with these dimensions does, for who makes many of them; nothing where threads
  /// would share it, or it runs in pieces.
  virtual std::optional<DirectLaunch> Direct(const int64_t* /*dims*/) const { return std::nullopt; }
};
/// A kernel on a device.
class WEFT_API DeviceLauncher {
 public:
  virtual ~DeviceLauncher() = default;
  /// As Launch, given to a stream; both arrays are read before it returns.
  virtual void Enqueue(DeviceStream& stream, void* const* buffers, const int64_t* dims) const = 0;
};

class BackendProgram;   // weft/runtime/program/backend_program.h
struct NamedBytes;      // there too
struct CompileOptions;  // weft/runtime/program/program.h
struct Machine;         // weft/runtime/program/profile.h

/// What all backends are. One that runs generated kernels is a HostBackend or a DeviceBackend;
/// any other makes programs of whole graphs (MakeProgram).
class WEFT_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// What its programs are compiled for, whose library calls they make included.
  virtual Target target() const = 0;
  /// A program of its own (backend_program.h) for a graph that default_pipeline(), or what the
  /// caller gave in its place, has left, with "dtype" and "shape". Called by any thread. Null, the
  /// default: the runtime makes the program, of kernels and calls; kUnsupported where the module
  /// declares no kernels (TargetTraits). Throws kUnsupported with every node that it cannot run,
  /// kLimit, kOutOfMemory.
  virtual std::shared_ptr<const BackendProgram> MakeProgram(const Graph& graph,
                                                            const CompileOptions& options);
  /// Programs of MakeProgram run at the extents that they are made for. Graphs then have numbers
  /// for extents before the pipeline runs, and one program is made for each set that runs come
  /// with.
  virtual bool constant_extents() const { return false; }
  /// As MakeProgram, of a program from a file: `graph` is what that one was made of, without the
  /// attributes that have no text form; `sections` is what BackendProgram::Save gave, perhaps on
  /// another machine or by another version. By default compiles again. Throws kInvalidModel for
  /// sections that it cannot read, kUnsupported for those of another machine.
  virtual std::shared_ptr<const BackendProgram> LoadProgram(
      const Graph& graph, const CompileOptions& options, const std::vector<NamedBytes>& sections);

  /// Passes from an imported graph to that which WhyNot and PredictPeak are asked about. By default
  /// those that simplify.
  virtual std::string support_pipeline() const;
  /// Why programs of MakeProgram cannot hold this node of a graph with types and shapes. Empty, the
  /// default: they can. Of backends whose module declares no kernels; of others Placement tells
  /// (weft/runtime/placement.h).
  virtual std::string WhyNot(const Graph& graph, const NodePtr& node) const;
  /// Bytes of intermediate results that a run of such a graph needs at once, in all memories of the
  /// machine; its extents are constants. nullopt, the default: not known before it is compiled.
  virtual std::optional<int64_t> PredictPeak(const Graph& graph) const;
  /// What its programs run on. By default nothing is known.
  virtual Machine DescribeMachine(int threads) const;
  /// Can this machine run code made for that target (KernelCompiler::target())? By default: for its
  /// own only.
  virtual bool Runs(const std::string& code_target) const;
  /// Passes from an imported graph to one that Program can run. By default the standard ones
  /// (weft/runtime/pipelines.h).
  virtual std::string default_pipeline() const;
  /// Makes the call of one step; a backend may look at it, wrap it or refuse it (null).
  virtual std::unique_ptr<PreparedCall> Prepare(const FCompute& compute,
                                                const ComputeRequest& request) {
    return compute(request);
  }
  /// Memory of a session's arena, 64-byte aligned, given back when the last owner goes. By default
  /// the host's. Throws kOutOfMemory.
  virtual std::shared_ptr<void> Allocate(int64_t bytes);
  virtual int threads() const { return 1; }
  virtual void set_threads(int) {}
  /// The same backend for one program with `n` threads of its own; null where there
  /// is no such thing.
  virtual std::shared_ptr<Backend> WithThreads(int) { return nullptr; }

  /// This as what it is; null: it is not.
  virtual class HostBackend* host() { return nullptr; }
  virtual class DeviceBackend* device() { return nullptr; }
};

/// Kernels and calls on the memory of the host, one step after another.
class WEFT_API HostBackend : public Backend {
 public:
  /// Loads the machine code of one kernel.
  virtual std::shared_ptr<KernelLauncher> Load(const Kernel& kernel,
                                               const CompiledKernel& compiled) = 0;
  /// Loads a launch of several parts; `compiled`: one for each of lowered.Kernels(). `buffers` of
  /// its Launch are the operands of the launch, `dims` the values of all its symbols. By default
  /// the parts are launched one after another.
  virtual std::shared_ptr<KernelLauncher> LoadMulti(const LoweredKernel& lowered,
                                                    const CompiledKernels& compiled);
  /// part(0) .. part(count - 1), each once, by threads of those that kernels run on; a kernel in
  /// one has no other thread. Throws the first exception when all have ended. By default one after
  /// another.
  virtual void RunTogether(size_t count, const std::function<void(size_t)>& part);
  /// This processor, as MachineOf measures it.
  Machine DescribeMachine(int threads) const override;
  HostBackend* host() final { return this; }
};

/// Kernels and calls on memory of its own (Allocate), given to streams (device.h).
class WEFT_API DeviceBackend : public Backend {
 public:
  virtual std::shared_ptr<DeviceLauncher> Load(const Kernel& kernel,
                                               const CompiledKernel& compiled) = 0;
  /// As that of HostBackend.
  virtual std::shared_ptr<DeviceLauncher> LoadMulti(const LoweredKernel& lowered,
                                                    const CompiledKernels& compiled);
  std::shared_ptr<void> Allocate(int64_t bytes) override = 0;
  /// Never null.
  virtual std::unique_ptr<DeviceStream> NewStream() = 0;
  /// Where the memory of Allocate is, as other libraries of the process call it: programs take and
  /// give tensors that lie there as they are. By default the host: nobody else has memory there.
  virtual MemoryPlace place() const { return {}; }
  DeviceBackend* device() final { return this; }
};

/// Where a program runs that names no backend.
inline constexpr const char* kDefaultBackend = "cpu";
/// "cpu", "ref", "cuda:1" ...: that of the backend module before the colon, made with the
/// parameters behind it, once a name. Of "cpu+openvino", an engine with delegates, that before the
/// plus sign. Loads libweft_<module>.so when needed. Throws kUnsupported with the reason and the
/// known names.
WEFT_API std::shared_ptr<Backend> GetBackend(const std::string& name);

}  // namespace weft
