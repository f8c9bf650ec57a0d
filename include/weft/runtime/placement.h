/// placement.h: who runs a node of a graph on a target, and why nobody better: asked once, after
/// inference and simplification, before any code is made. `weft inspect --support` prints the
/// answers, Compile decides by them between one plan and regions, and the plan keeps to them.
///
///   const Placement placement(graph, target);      // the graph has "shape" and "dtype"
///   for (const NodePtr& n : graph.TopoOrder())
///     if (const Verdict v = placement.Of(n); v.runner == Runner::kNobody) ... v.why ...
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/target.h"

namespace weft {

enum class Runner : uint8_t {
  kNone,         ///< no step: a variable, a constant, a view, a value computed with the sizes
  kLibrary,      ///< a library call of the target
  kKernel,       ///< a generated kernel, alone or with other nodes
  kBodies,       ///< programs made of its bodies; the interpreter for one that no program can hold
  kInterpreter,  ///< the interpreter, on the host
  /// Between two regions, by a routine of the library (FSizedCompute) or the interpreter: what it
  /// gives or reads is known late.
  kBetween,
  kNobody,
};

struct Verdict {
  Runner runner = Runner::kNone;
  /// Of kInterpreter: why there is no kernel. Of kBetween: what is not known before the run. Of
  /// kNobody: the reason. Else empty.
  std::string why;
};

class WEFT_API Placement {
 public:
  /// `graph` must outlive it and stay as it is. Loads the target's module.
  Placement(const Graph& graph, const Target& target);
  Verdict Of(const NodePtr& n) const;
  /// Why one plan cannot hold the graph: the first entry whose size or type is known only in the
  /// run, with its node. Empty: one can.
  std::string WhyRegions() const;

 private:
  std::string WhyLate(const NodeEntry& e) const;
  bool AnyBodyFits(const NodePtr& n) const;

  const Graph& g_;
  const Target target_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const ValueMap* values_;
  const UnknownMap* unknown_;
  std::set<std::string> bound_;  ///< symbols that the inputs give values to
};

/// What runs `n`, or the operator under its epilogue, as a library call of the target; null: none.
WEFT_API const FCompute* LibraryRoutine(const Target& target, const NodePtr& n,
                                        const TypeMap& types);
/// A body of a node of the graph can be a program of its own.
WEFT_API bool CanPlanBody(const Graph& body, const Target& target);
/// The bodies of a node can be programs on the target, as far as sizes allow.
WEFT_API bool RunsBodies(const Target& target, const NodePtr& n);

}  // namespace weft
