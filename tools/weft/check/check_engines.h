/// check_engines.h: the engines of `weft check` and its reference, the interpreter: what each makes
/// of a model, or of a part of it, within the time that is left.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check_verdict.h"
#include "common.h"
#include "inputs.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/error.h"

namespace weft::tool {

using Tensors = std::vector<TensorPtr>;

/// What an engine made of inputs: results, or the reason that it gave none.
struct CheckOutcome {
  Tensors results;
  std::optional<ErrorCode> code;
  std::string refusal;
  bool gave_none() const { return code.has_value(); }
};
template <class F>
CheckOutcome TryCheck(F&& f) {
  CheckOutcome o;
  try {
    o.results = f();
  } catch (const Error& e) {
    o.code = e.code();
    o.refusal = e.what();
  }
  return o;
}
/// A reason that says nothing about the model.
bool IsExhausted(const CheckOutcome& o);

/// The tensor with floats that differ in their last bits; what has none, and what may be the scales
/// of a Resize, as it is.
TensorPtr MoveLastBits(const TensorPtr& t, int which);

class CheckEngines {
 public:
  /// `seconds`: for everything from now on.
  CheckEngines(std::vector<Engine> engines, const Limits& limits, double seconds)
      : engines_(std::move(engines)), limits_(limits), seconds_(seconds) {}

  const std::vector<Engine>& list() const { return engines_; }
  std::vector<std::string> Names() const;
  double seconds() const { return seconds_; }
  double SecondsLeft() const;

  /// Sessions of the whole model, one an engine, which go on from round to round.
  void Compile(const Graph& graph);
  Tensors RunSession(size_t engine, const NamedTensors& in, const StateMap& state) const;
  /// In a session of its own.
  Tensors RunOnce(const Graph& g, const Engine& e, const NamedTensors& in,
                  const StateMap& state) const;

  /// The interpreter is fast enough; else the last engine, without fusion the
  /// plainest, stands for it.
  bool has_reference() const { return has_reference_; }
  void DropReference() { has_reference_ = false; }
  std::string ReferenceName() const { return has_reference_ ? "ref" : engines_.back().backend; }
  /// The interpreter's answer for `g`, which is the model or a part of it; `typed` false: in double
  /// precision.
  Tensors Evaluate(const Graph& g, const NamedTensors& in, StateMap state, bool typed) const;

 private:
  std::vector<Engine> engines_;
  Limits limits_;
  double seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Session>> sessions_;
  bool has_reference_ = true;
};

/// What the interpreter says of `g`, and says when it is asked again.
class CheckQuestion {
 public:
  CheckQuestion(const CheckEngines& engines, const Graph& g, NamedTensors in, StateMap state)
      : engines_(engines), g_(g), in_(std::move(in)), state_(std::move(state)) {}
  Tensors Answer() const { return engines_.Evaluate(g_, in_, state_, true); }
  /// In double precision, and with inputs and parameters that differ in their last bits.
  OtherAnswers OthersFor(size_t result);

 private:
  const CheckEngines& engines_;
  const Graph& g_;
  NamedTensors in_;
  StateMap state_;
  std::vector<Tensors> others_;
};

}  // namespace weft::tool
