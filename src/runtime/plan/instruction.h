/// instruction.h: the flat form in which a host program runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/codegen/lower/lower.h"
#include "weft/core/plan/layout.h"
#include "weft/core/plan/storage.h"
#include "weft/runtime/backend/backend.h"

namespace weft {

/// A tensor that some step reads or writes.
struct Value {
  DType dtype = DType::kUnknown;
  Shape shape;
  int storage = -1;
  TensorPtr constant;  ///< storage kind kConstant
  Layout layout = Layout::kPlain;
};

/// kCopy: the first input to the output, byte by byte. kBodies: the node by programs of its bodies.
enum class StepKind : uint8_t { kKernel, kLibrary, kInterpreter, kShapeValue, kCopy, kBodies };

struct Step {
  StepKind kind = StepKind::kKernel;
  NodePtr node;
  int at = 0;               ///< its place in the order, which lives of storages count
  std::string name;         ///< what profiles show: the user's nodes
  std::vector<int> inputs;  ///< values; -1: absent
  std::vector<int> outputs;
  // kKernel, by the kind of the backend; the other one is null.
  std::shared_ptr<KernelLauncher> launcher;
  std::shared_ptr<DeviceLauncher> device_launcher;
  std::vector<SymInt> symbols;                   // kKernel: d0 ..
  bool has_flag = false;                         // kKernel: a range flag is its last buffer
  FCompute compute;                              // kLibrary
  std::shared_ptr<const AnchoredCall> anchored;  // kLibrary, null for a call without an epilogue
  std::shared_ptr<const ComputeSpec> spec;       // kInterpreter
  std::vector<SymInt> elements;                  // kShapeValue
  /// Copied when the step is done: from a result to the variable that it is the new content of.
  std::vector<std::pair<int, int>> commits;
};

/// Everything about a compiled graph that does not depend on extents.
struct ExecutionPlan {
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<Storage> storages;
  std::vector<int> input_values, output_values;  ///< inputs: what is fed, then the variables
  std::vector<std::string> fed;                  ///< names of what is fed
  std::vector<std::string> variables;            ///< names
  std::vector<bool> written;                     ///< variables
  std::vector<bool> grows;                       ///< variables: caches that rows are appended to
  size_t num_fed() const { return input_values.size() - variables.size(); }
  std::vector<int> copies;  ///< outputs copied at the end
  /// StoragePart, by the step that it is of; in the order of steps.
  struct Part {
    size_t step = 0;
    int part = -1, whole = -1;  ///< storages
    SymInt bytes_before, rows;
    bool copies = true;
  };
  std::vector<Part> parts;
};

/// The tensor as it lies in another layout; itself where that is the same.
TensorPtr InLayout(const TensorPtr& t, Layout from, Layout to);

/// The passes that plans are made from have run on it.
bool HasPlan(const Graph& graph);
/// One plan cannot hold it: a part of it is a region, which has a plan.
bool HasRegions(const Graph& graph);
/// One of the two: a program can be made of it.
bool IsPlanned(const Graph& graph);
/// Builds the plan of a graph that went through the pipeline. Throws kUnsupported naming every
/// node nothing can run.
ExecutionPlan MakePlan(const Graph& graph, Backend& backend);
/// The same of a graph whose kernels are not compiled: of what it takes, not to be run.
ExecutionPlan MakePlanWithoutCode(const Graph& graph, Backend& backend);

}  // namespace weft
