/// run_bodies.h: what an operator with bodies (If, Loop, Scan) does around them, whoever runs them:
/// the Evaluator node by node, or a program that compiled them.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/error.h"
#include "weft/support/request.h"

namespace weft {

/// Tensors that results may be written into.
using ResultTensors = std::vector<std::shared_ptr<Tensor>>;

/// Where an operand or a result of a body lies in one iteration after another: by turns in two
/// places, and so many bytes further each time.
struct IteratedPlace {
  char* even = nullptr;
  char* odd = nullptr;
  int64_t step = 0;
  char* first = nullptr;  ///< in iteration 0, where that is elsewhere; else null
  void* At(int64_t i) const {
    if (i == 0 && first) return first;
    char* place = (i & 1) != 0 ? odd : even;
    return place ? place + i * step : nullptr;
  }
  bool fixed() const { return even == odd && step == 0 && !first; }
  /// Slices of so many bytes, the last one first where it goes `backward`; of one slice of 0 bytes
  /// the same each time. What is read is not written.
  static IteratedPlace Slices(const void* begin, int64_t bytes, int64_t count, bool backward) {
    char* p = static_cast<char*>(const_cast<void*>(begin));
    if (p && backward) p += (count - 1) * bytes;
    return {p, p, backward ? -bytes : bytes};
  }
  static IteratedPlace Fixed(const void* p) { return Slices(p, 0, 1, false); }
};

/// A loop that runs the same way again for operands and results of the same dtypes and extents: one
/// body so many times; states that swap two places, the last one the result; slices and results
/// that lie together on the first axis. Operands are states, slices, captures, and results are
/// states, stacks, for the node and for the body.
struct StraightLoop {
  std::string body;
  int64_t count = 0;
  /// Each runs all iterations over its part of what is no capture, and has the same bytes of it.
  int64_t parts = 1;
  struct Piece {
    int64_t bytes = 0;  ///< of all parts: a state, one slice, one result
    bool backward = false;
    int result = -1;  ///< of a state: the stack that has it as well; -1: none
  };
  std::vector<Piece> states, slices, results;
  size_t captures = 0;
  std::string states_text;  ///< dtypes and extents, for errors

  /// Where a part has everything; `others`: the second places of the states. A state that is
  /// stacked lies in the stack alone until the loop has ended.
  void Point(int64_t part, const void* const* operands, void* const* to_results,
             void* const* others, std::vector<IteratedPlace>* from,
             std::vector<IteratedPlace>* to) const;
  /// Behind the last iteration.
  void Finish(int64_t part, void* const* to_results) const;

 private:
  char* Begin(int64_t part, const void* whole, const Piece& piece) const {
    return static_cast<char*>(const_cast<void*>(whole)) + part * (piece.bytes / parts);
  }
  IteratedPlace Stacked(int64_t part, const void* whole, const Piece& piece) const {
    return IteratedPlace::Slices(Begin(part, whole, piece), piece.bytes, count, piece.backward);
  }
};
/// Says of an error in which iteration it was, and of a limit what the loop held.
void ExplainIteration(Error* e, int64_t iteration, const std::string& states, int64_t collected);

/// A body run again: with operands and results of the dtypes and extents that its last run had,
/// wherever they lie.
class RepeatedBody {
 public:
  virtual ~RepeatedBody() = default;
  /// The body's last run, to which this was made, had the extents that this has. Else it may not
  /// run.
  virtual bool IsOfLastRun() const { return true; }
  /// About what an iteration takes; negative: it is not known.
  virtual double Microseconds() const { return -1; }
  /// Where each begins, in the order of the body; null for what was absent. Results share no memory
  /// with operands.
  virtual void Run(const void* const* inputs, void* const* results) = 0;
  /// Iterations from `*at` to before `last`, one after another; `*at` is the one that runs. Each
  /// counts for the request.
  virtual void RunAll(int64_t* at, int64_t last, const std::vector<IteratedPlace>& inputs,
                      const std::vector<IteratedPlace>& results) {
    std::vector<const void*> from(inputs.size());
    std::vector<void*> to(results.size());
    for (; *at < last; ++*at) {
      RequestScope::Poll();
      RequestScope::CheckIterations(*at);
      for (size_t k = 0; k < from.size(); ++k) from[k] = inputs[k].At(*at);
      for (size_t k = 0; k < to.size(); ++k) to[k] = results[k].At(*at);
      Run(from.data(), to.data());
    }
  }
};

/// What runs the bodies of one node, and where their operands and results lie: in the host's memory
/// unless it says so. Elsewhere `data()` of a numeric tensor is an address there, and nobody but
/// the runner may follow it; other tensors are the host's everywhere.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// Runs the body that the attribute `name` holds; `inputs` in the order of its inputs. Each of
  /// `results` (one a result, null: none given) is written in place where its dtype and extents are
  /// those of the result and this runner can; else it becomes another tensor.
  virtual void Run(const std::string& name, const std::vector<TensorPtr>& inputs,
                   ResultTensors* results) const = 0;
  /// Says what the operator itself has held at once, beside operands, results, and what its bodies
  /// take: states that swap, slices that are not stacked yet.
  virtual void Holds(int64_t /*bytes*/) const {}
  /// Repeats the last Run of that body, until the next one. Null: this runner has no shorter way.
  virtual std::unique_ptr<RepeatedBody> Repeat(const std::string& /*name*/) const {
    return nullptr;
  }
  /// The node ran as this loop, all of it in the places that were given. Whoever runs the node may
  /// go by it the next time, without asking the operator.
  virtual void Keep(const StraightLoop& /*loop*/) const {}
  /// part(0, r0) .. part(count - 1, r), each once, at the same time where this runner has threads
  /// for them, and with a runner of its own for each. The first exception is thrown when all have
  /// ended.
  virtual void RunTogether(size_t count,
                           const std::function<void(size_t, const BodyRunner&)>& part) const {
    for (size_t k = 0; k < count; ++k) part(k, *this);
  }

  /// A tensor there, whose content is anything.
  virtual std::shared_ptr<Tensor> NewTensor(DType dtype, std::vector<int64_t> dims) const {
    return std::make_shared<Tensor>(dtype, std::move(dims));
  }
  /// A tensor of the host, there.
  virtual TensorPtr Place(const TensorPtr& host) const { return host; }
  /// The number in a tensor of one element. The host may have to wait for it.
  virtual int64_t Read(const TensorPtr& t) const { return t->at_int(0); }
  /// Of whole bytes, between places there that do not overlap.
  virtual void Copy(void* to, const void* from, int64_t bytes) const {
    std::memcpy(to, from, size_t(bytes));
  }
};

/// Runs a node by its bodies, where the runner has its tensors. `inputs` has null for an absent
/// operand. `results`: one an output, given or null, with the meaning that it has in
/// BodyRunner::Run; none shares memory with an operand. Throws what the operator documents.
using FRunBodies = std::function<void(const NodePtr&, const std::vector<TensorPtr>& inputs,
                                      const BodyRunner&, ResultTensors* results)>;

}  // namespace weft
