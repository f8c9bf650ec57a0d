/// engine.h: what the framework asks of Weft, all of it. The rest of the library builds graphs;
/// engine.cc alone knows that there are passes and programs.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tinyflow/graph.h"
#include "weft/runtime/program/program.h"
#include "weft/runtime/session/variable_store.h"

namespace tf::engine {

using Entries = std::vector<weft::NodeEntry>;

/// Shape of an entry, given shapes of placeholders that declare none.
weft::Shape InferShape(const weft::Graph& graph, const weft::NodeEntry& entry,
                       const std::map<weft::NodeId, weft::Shape>& given = {});
/// Gradients of the sum of `ys` by `xs`; nodes are added to the graph.
Entries Gradients(weft::Graph& graph, const Entries& ys, const Entries& xs);

/// What "cpu fusion" says.
struct Config {
  std::string backend;
  bool fusion = false;
  int threads = 0;  ///< 0: all there are
  weft::CallOptions calls;
  weft::MemoryBudget memory;
  weft::DivisionOptions division;
};
/// A backend of Weft, "gpu" for "cuda", perhaps with parameters and delegates: "npu:v2+libtorch
/// fusion". Throws kUsage for another text, kUnsupported where there is no such device, and what
/// GetBackend throws.
Config ParseConfig(const std::string& text);

/// One compiled set of fetches.
class Executable {
 public:
  /// `shapes`: of the feeds, in their order. `likely`: of what is fed first and so, likely, again:
  /// plans of memory are made for these extents.
  Executable(const weft::Graph& graph, const Entries& fetches, const Entries& feeds,
             const std::vector<weft::Shape>& shapes, Mode mode, const Config& config,
             std::shared_ptr<weft::VariableStore> store,
             const std::vector<weft::Shape>& likely = {});
  std::vector<Array> Run(const std::vector<Array>& feeds);
  weft::PendingRun Start(const std::vector<Array>& feeds);
  std::vector<weft::StepTime> Profile(const std::vector<Array>& feeds);
  /// Gives the memory of intermediate results back until the next run, which finds no other result.
  void Rest();
  const weft::ProgramStats& stats() const { return program_->stats(); }
  const std::string& backend() const { return program_->backend(); }
  int64_t arena_bytes() const { return memory().arena_bytes; }
  int64_t live_bytes() const { return memory().bound_bytes; }
  /// Of the last run.
  weft::SessionMemory memory() const { return session_ ? session_->memory() : rested_; }
  const weft::Program& program() const { return *program_; }

 private:
  std::vector<Array> InputsOf(const std::vector<Array>& feeds) const;
  weft::Session& Ready();
  std::shared_ptr<weft::VariableStore> store_;
  std::shared_ptr<const weft::Program> program_;
  std::unique_ptr<weft::Session> session_;  ///< null: at rest
  weft::SessionMemory rested_;
  std::vector<size_t> used_feeds_;      ///< those that the fetches depend on
  std::set<std::string> only_written_;  ///< variables that need no value before the run
  bool variables_checked_ = false;
  std::vector<std::shared_ptr<weft::Tensor>> outputs_;
};

/// The graph of `outputs` over `inputs` for inference, with the variables as
/// parameters of these values.
weft::Graph Freeze(const weft::Graph& graph, const Entries& outputs, const Entries& inputs,
                   const weft::VariableStore& store);

}  // namespace tf::engine
