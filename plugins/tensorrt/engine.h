/// engine.h: a region as TensorRT runs it: built, kept as bytes, executed.
#pragma once

#include <NvInfer.h>

#include <memory>
#include <string>
#include <vector>

#include "extents.h"
#include "host.h"

namespace weft_tensorrt {

/// An input or output of a region: x0, x1 .., y0, y1 .. in the ONNX model.
struct Operand {
  std::string name;
  WeftDType dtype = WEFT_DTYPE_UNKNOWN;
  std::vector<Extent> dims;
  bool is_fixed() const;
};

/// A compiled region. TensorRT's engines may be used by many threads, each with a context of its
/// own.
class Engine {
 public:
  /// By TensorRT's parser and builder.
  static std::unique_ptr<Engine> Build(const WeftRegion* region);
  /// Of what Export wrote.
  static std::unique_ptr<Engine> Import(const WeftRegion* region, const void* bytes, size_t size);
  void Export(WeftBytes* bytes) const;

  const Settings& settings() const { return settings_; }
  int device() const { return device_; }
  const std::vector<Operand>& inputs() const { return inputs_; }
  const std::vector<Operand>& outputs() const { return outputs_; }
  /// Does TensorRT know that operand? It drops inputs that nothing reads.
  bool Knows(const Operand& operand) const;
  std::unique_ptr<nvinfer1::IExecutionContext> NewContext() const;
  ~Engine();

 private:
  explicit Engine(const WeftRegion* region);
  std::unique_ptr<nvinfer1::IHostMemory> BuildPlan(const WeftRegion* region);
  void Load(const void* plan, size_t size, int32_t status);
  /// Is what TensorRT made what the region wants? Notes the operands that it knows.
  void CheckAgainstRegion();

  Settings settings_;
  int device_;
  std::vector<Operand> inputs_, outputs_;
  std::vector<const Operand*> known_;
  std::unique_ptr<nvinfer1::IRuntime> runtime_;
  std::unique_ptr<nvinfer1::ICudaEngine> engine_;
};

/// Serves one run at a time.
class Instance {
 public:
  explicit Instance(const Engine* engine);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  void Run(WeftRegionCall* call);
  void AddRows(WeftRows* rows) const;

 private:
  class Layers;
  class Done;
  /// What the context has been told of an operand, and a copy of one that lies askew.
  struct Place {
    const Operand* operand = nullptr;
    std::vector<int64_t> dims;
    void* address = nullptr;
    void* copy = nullptr;
    size_t copy_bytes = 0, used_bytes = 0;
    bool known = true, is_copied = false, was_told = false;
  };
  void CheckView(const Place& place, const WeftView& view) const;
  /// Has the view the extents that the context knows?
  static bool IsTold(const Place& place, const WeftView& view);
  /// Are the extents others than before?
  bool TellDims(Place* place, const WeftView& view);
  void CheckResult(Place* place, const WeftView& view) const;
  void TellAddress(Place* place, const WeftView& view);

  /// Behind the work of earlier runs, which may be on another stream.
  void Follow(void* stream);

  const Engine* engine_;
  std::vector<Place> inputs_, outputs_;
  void* stream_ = nullptr;      // of the latest run
  std::unique_ptr<Done> done_;  // its end
  std::unique_ptr<Layers> layers_;
  std::unique_ptr<nvinfer1::IExecutionContext> context_;
};

/// "10.13.0, NVIDIA H100 (sm_90)": of TensorRT and the device in use.
std::string VersionInUse();

}  // namespace weft_tensorrt
