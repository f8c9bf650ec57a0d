/// body_programs.h: the programs of the bodies of one node, for programs that run it by them.
/// Private to the runtime.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program_impl.h"
#include "weft/core/op/run_bodies.h"

namespace weft {

/// What a session keeps for each program of a body (more than one where parts of a node run it at
/// the same time).
using BodyStates = std::map<std::pair<const Program::Impl*, size_t>, std::unique_ptr<ProgramState>>;

/// Runs bodies by their programs, with an account of what they take.
class ProgramRunner : public BodyRunner {
 public:
  void Holds(int64_t bytes) const final { held_ = std::max(held_, bytes); }
  /// The most that a body has taken, and what the node has held beside.
  int64_t bytes() const { return most_ + held_; }

 protected:
  ProgramRunner(BodyStates* states, ProgramState* of_all, size_t part)
      : states_(states), of_all_(of_all), part_(part) {}
  /// The state that the body is to be run in.
  ProgramState& Enter(const Program::Impl& body) const;
  /// It has been.
  void Leave(const ProgramState& state) const;

  BodyStates* states_;
  ProgramState* of_all_;
  const size_t part_;  ///< whose states and arena it uses
  mutable int64_t most_ = 0, held_ = 0;
};

/// A loop that a run of a node has left, to be run again in the same states.
struct KeptLoop {
  StraightLoop loop;
  struct Part {
    ProgramState* state = nullptr;
    std::unique_ptr<RepeatedBody> body;
    std::vector<IteratedPlace> from, to;  ///< memory for them
  };
  std::vector<Part> parts;
  /// Where the second places of states begin, and what they take: loops of a session share the
  /// memory. Negative: a state has none.
  std::vector<int64_t> offsets;
  int64_t place_bytes = 0;
  std::vector<void*> others;  ///< where they lie
  int64_t bytes_moved = 0, inside_bytes = 0;
};

class BodyPrograms {
 public:
  /// Of the bodies of `n` that have a plan or are regions; the Evaluator runs the others.
  BodyPrograms(const NodePtr& n, const std::shared_ptr<Backend>& backend);
  bool empty() const { return programs_.empty(); }
  /// Null: none.
  const Program::Impl* Find(const std::string& name) const;
  /// Their steps, once each.
  void AddTo(ProgramStats* stats) const;
  void TakeCallOptions(const CallOptions& options);
  /// Those of all bodies (Program::Impl::TakeTimes); `in`: where the node is.
  void TakeTimes(BodyStates* states, const std::string& in, std::vector<StepTime>* times) const;
  /// What profiles call the node.
  std::string Name() const;
  /// Runs the node; `results` as in FRunBodies. `of_all`: what the bodies move is added to it.
  /// `kept`: if given, what may be run instead the next time, where there is such a thing.
  void RunNode(const std::vector<TensorPtr>& inputs, BodyStates* states, ProgramState* of_all,
               ResultTensors* results, std::unique_ptr<KeptLoop>* kept = nullptr) const;
  /// Runs the node as it ran, for operands of the same dtypes and extents. False: it did nothing,
  /// since the bodies have run with others.
  bool RunKept(KeptLoop* kept, const void* const* operands, void* const* results,
               BodyStates* states, ProgramState* of_all) const;
  /// The same by another runner of these bodies.
  void RunNode(const std::vector<TensorPtr>& inputs, const ProgramRunner& runner,
               BodyStates* states, ProgramState* of_all, ResultTensors* results) const;
  /// Range flags of all of them.
  int num_flags() const;

 private:
  class Runner;
  void CountFailures(const BodyStates& states, ProgramState* of_all) const;
  NodePtr node_;
  std::shared_ptr<Backend> backend_;   ///< whose memory second places are in
  std::shared_ptr<Backend> together_;  ///< whose threads parts of the node have, one each
  std::map<std::string, std::unique_ptr<Program::Impl>> programs_;
};

/// Regions, and control flow.
bool MayHaveBodyPrograms(const NodePtr& n);
/// The state of a body's program, made where there is none: what it is given is written in place.
ProgramState& StateOf(const Program::Impl& program, BodyStates* states, size_t part = 0);

}  // namespace weft
