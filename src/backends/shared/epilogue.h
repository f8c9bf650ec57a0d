/// epilogue.h: what a library applies to its result before it stores it: one reader of epilogues
/// for the libraries of all backends.
///
/// A library says in an EpilogueTable which steps it applies and in which order. The reader takes
/// the operators behind a call (weft/core/plan/epilogue.h) through that order: each goes to the
/// first stage, behind that of the operator before it, which can do it.
///
///   stages   kBiasRow  kScale  kAddend  kActivation        y [m, n]
///   taken    Add(y, [n]) -> kBiasRow   Add(y, [m, n]) -> kAddend   Relu(y) -> kActivation
///   refused  Relu(y), Mul(y, 2)        no stage behind kActivation multiplies
///
/// The question of the pass (FEpilogue) and the preparation of the call are one reading with one
/// table: both are brought into the form of EpilogueCall first. What is accepted on a graph is
/// accepted at all extents that it is bound to: more operands fit a stage then, never fewer, so no
/// operator comes to a later one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "weft/core/plan/epilogue.h"
#include "weft/runtime/backend/compute.h"

namespace weft {

/// What a step does to the result y.
enum class EpilogueKind : uint8_t {
  kBiasRow,     ///< y + b, b of extents [n] or [1, .., n], n those of y's last axis
  kAddend,      ///< y + r, r of y's very extents
  kScale,       ///< y c, c a finite constant or its inverse one
  kOffset,      ///< y + c
  kActivation,  ///< f(y)
};

/// `alpha` and `beta` are those of ActivationStep.
enum class Activation : uint8_t {
  kNone,
  kAbs,
  kClip,  ///< to [alpha, beta]; infinite where absent
  kElu,   ///< alpha
  kGelu,
  kGeluTanh,
  kHardSigmoid,  ///< alpha y + beta within [0, 1]
  kHardSwish,
  kLeakyRelu,  ///< alpha
  kRelu,
  kSigmoid,
  kSqrt,
  kSwish,  ///< alpha
  kTanh,
};
struct ActivationStep {
  Activation function = Activation::kNone;
  float alpha = 0, beta = 0;
};

/// A stage of an epilogue.
struct EpilogueStage {
  EpilogueKind kind;
  bool behind_activation = false;  ///< only where there has been an activation
};

/// What a library applies, for one call.
struct EpilogueTable {
  std::vector<EpilogueStage> stages;  ///< in the order of application; empty: nothing is taken
  /// Which activations; null: none.
  std::function<bool(const ActivationStep&)> takes = nullptr;
};

/// A call and what follows it, off a graph or off a request. Tables are made of it.
struct EpilogueCall {
  struct Step {
    NodePtr node;
    int slot = 0;
    bool has_operand = false;
    Shape operand;
    Type operand_type;
    const CallStep* request = nullptr;  ///< null: it is of a graph
  };
  NodePtr anchor;
  std::vector<Shape> inputs;  ///< of the anchor
  Shape result;
  Type type;  ///< of the result
  std::vector<Step> steps;
};
EpilogueCall EpilogueCallOf(const EpilogueRequest& q);
/// Points into `q`.
EpilogueCall EpilogueCallOf(const ComputeRequest& q);

/// An operator of the chain, and the stage that it came to.
struct LibraryStep {
  EpilogueStage stage;
  float value = 0;                    ///< of kScale and kOffset
  ActivationStep activation;          ///< of kActivation
  const CallStep* request = nullptr;  ///< null: it is of a graph
};

/// An epilogue as a library applies it: at most one step for each of its stages, in their order.
struct EpilogueSteps {
  std::vector<LibraryStep> steps;

  /// The first of the kind; null: there is none.
  const LibraryStep* find(EpilogueKind kind) const;
  /// Of a request: the step of the kind, whose operand is added.
  const CallStep* operand(EpilogueKind kind) const;
  Activation activation() const;
};

/// Nothing where the library does not take the whole chain.
std::optional<EpilogueSteps> ReadEpilogueSteps(const EpilogueCall& call,
                                               const EpilogueTable& table);

/// What a library takes behind a call.
using EpilogueTableOf = EpilogueTable (*)(const EpilogueCall& call);
/// Points into `q`.
std::optional<EpilogueSteps> ReadEpilogueSteps(const ComputeRequest& q, EpilogueTableOf table);
/// The same reading as the answer to the pass.
FEpilogue EpilogueTakenBy(EpilogueTableOf table);

}  // namespace weft
