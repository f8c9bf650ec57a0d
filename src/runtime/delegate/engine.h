/// engine.h: compiled regions, shared by all who run them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/core/module/delegate.h"
#include "weft/runtime/backend/compute.h"

namespace weft {

/// The body of a weft::Delegated node for the extents of one call.
struct RegionBody {
  GraphPtr graph;            ///< the node's own, where that is of these extents
  std::vector<size_t> read;  ///< inputs of the node that are inputs of the graph, in their order
  /// Of operands that became constants; 0: none did.
  uint64_t constants_hash = 0;
};
/// With numbers for extents; operands that are known before the run are constants in it.
RegionBody BodyFor(const ComputeRequest& request);

/// An engine with its idle instances; any number of threads run it.
class SharedEngine {
 public:
  SharedEngine(DelegateSpec spec, std::shared_ptr<DelegateEngine> engine, GraphPtr body);
  void Run(const std::vector<DelegateTensor>& inputs, const std::vector<DelegateTensor>& outputs,
           void* stream);
  const std::string& description() const { return description_; }
  /// It gives its work to the device's stream.
  bool streams() const { return spec_.delegate->traits().streams; }
  std::string Export() const { return engine_->Export(); }
  /// Of the latest run.
  std::vector<CallPart> Parts();

 private:
  std::unique_ptr<DelegateInstance> Take();

  const DelegateSpec spec_;
  const std::shared_ptr<DelegateEngine> engine_;
  const GraphPtr body_;  ///< keeps the address that it is found by
  const bool concurrent_, own_threads_;
  const std::string description_;
  std::mutex mutex_, turn_;
  std::vector<std::unique_ptr<DelegateInstance>> idle_;
};

/// That of the delegate which the weft::Delegated node names, for its body at some extents and
/// constants: `body`, made for operands of the dimensions `dims`. Compiled, or imported from what
/// the node keeps. Throws what ParseDelegates, Version and Compile throw.
std::shared_ptr<SharedEngine> FindEngine(const NodePtr& node, const RegionBody& body,
                                         const std::vector<std::vector<int64_t>>& dims,
                                         int threads);

/// The same for any extents of the body, and so one for all; null where the delegate does not take
/// it so, or not this body.
std::shared_ptr<SharedEngine> FindEngineForAnyExtents(const NodePtr& node, int threads);

/// The engines of the nodes with fixed extents, and of those with one for any, as attributes of
/// theirs, where delegates can export: for a graph that goes to a file and will run on `backend`,
/// with the threads that this has here.
void KeepEngines(Graph* graph, const std::string& backend);

}  // namespace weft
