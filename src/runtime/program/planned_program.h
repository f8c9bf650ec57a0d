/// planned_program.h: what programs that run an ExecutionPlan share, wherever its memory is.
/// Private to the runtime.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "program_impl.h"
#include "runtime/binding/binding.h"
#include "step_times.h"
#include "weft/support/bounded_cache.h"

namespace weft {

/// The backend's memory; it grows and is not cleared.
class Arena {
 public:
  bool Fits(int64_t bytes) const { return bytes <= size_; }
  /// For programs that run inside of a step of one that runs in this: those of its bodies, of which
  /// no two run at once but in other parts.
  const std::shared_ptr<Arena>& inside(size_t part) {
    if (part >= inside_.size()) inside_.resize(part + 1);
    if (!inside_[part]) inside_[part] = std::make_shared<Arena>();
    return inside_[part];
  }
  /// For the second places of the loops that are steps of such a program, one after another.
  const std::shared_ptr<Arena>& places() {
    if (!places_) places_ = std::make_shared<Arena>();
    return places_;
  }
  const std::shared_ptr<void>& memory() const { return data_; }
  /// Of those inside too, and of the places.
  int64_t size() const {
    int64_t all = size_ + (places_ ? places_->size() : 0);
    for (const std::shared_ptr<Arena>& a : inside_) all += a ? a->size() : 0;
    return all;
  }
  void Drop() {
    data_.reset();
    size_ = 0;
    inside_.clear();
    places_.reset();
  }
  char* Reserve(Backend& backend, int64_t bytes) {
    if (bytes > size_) {
      data_.reset();
      size_ = 0;
      data_ = backend.Allocate(bytes);
      size_ = bytes;
    }
    return static_cast<char*>(data_.get());
  }

 private:
  std::shared_ptr<void> data_;
  int64_t size_ = 0;
  std::vector<std::shared_ptr<Arena>> inside_;  ///< by part
  std::shared_ptr<Arena> places_;
};

class PlannedProgram : public Program::Impl {
 protected:
  struct PlannedState : State {
    std::vector<int64_t> key;
    std::shared_ptr<const Binding> binding;
    const ArenaLayout* layout = nullptr;  ///< the binding's, or of the session's own calls
    char* frame = nullptr;                ///< where that is
    std::vector<void*> base, buffers;     ///< per storage; arguments of one step
    std::vector<TimedStep> timed;         ///< per step, of profiled runs
  };

  PlannedProgram(Graph graph, std::shared_ptr<Backend> backend);

  MemoryReport Report(const std::vector<TensorPtr>& tensors) const final;
  void ForgetBindings() const final;
  void TakeTimes(State& state, const std::string& in, std::vector<StepTime>* times) const final;
  WeightBytes weights() const final;
  /// Those of the bodies of step k.
  virtual void TakeTimesInside(PlannedState&, size_t /*k*/, const std::string& /*in*/,
                               std::vector<StepTime>*) const {}
  void Run(State& state, const std::vector<TensorPtr>& fed,
           std::vector<std::shared_ptr<Tensor>>* outputs) const final {
    RunUntil(state, fed, outputs, /*later=*/false);
  }
  Rest Start(State& state, const std::vector<TensorPtr>& fed,
             std::vector<std::shared_ptr<Tensor>>* outputs) const final {
    return RunUntil(state, fed, outputs, /*later=*/true);
  }

  /// Where has_own_calls_, when the binding of a run is known: library calls of the session's own.
  /// Gives the layout with the scratch memory that they need.
  virtual const ArenaLayout* PrepareCalls(PlannedState& s,
                                          const std::vector<TensorPtr>& /*inputs*/) const {
    return &s.binding->arena;
  }
  /// As Binder::Prepare, for the run's binding.
  std::unique_ptr<PreparedCall> PrepareCall(const Step& step, const PlannedState& s,
                                            const std::map<int, TensorPtr>& known) const;
  /// Before anything else of a run.
  virtual void Prepare(PlannedState&) const {}
  /// What a result goes to that nobody gave a place.
  virtual std::shared_ptr<Tensor> NewResult(PlannedState& s, size_t index, DType dtype,
                                            const std::vector<int64_t>& dims) const;
  /// Says where the storages lie that are not in the arena, and brings there what is fed. `inputs`:
  /// what is fed, then the variables.
  virtual void Begin(PlannedState& s, const std::vector<TensorPtr>& inputs,
                     const std::vector<std::shared_ptr<Tensor>>& outputs) const = 0;
  /// All steps, in order.
  virtual void RunSteps(PlannedState& s) const;
  /// Those from `begin` to before `end`.
  void RunSteps(PlannedState& s, size_t begin, size_t end) const;
  /// One of them.
  virtual void Compute(const Step& step, size_t k, PlannedState& s) const = 0;
  virtual void Copy(PlannedState& s, void* to, const void* from, int64_t bytes) const = 0;
  /// Waits until the steps given so far are done.
  virtual void Wait(PlannedState&) const {}
  /// Brings results that lie elsewhere into `outputs`, and ends the run; `later`: what takes time
  /// may be left as the rest.
  virtual Rest End(PlannedState& s, const std::vector<std::shared_ptr<Tensor>>& outputs,
                   bool later) const = 0;

  /// A run has failed.
  virtual void Abandon(PlannedState&) const {}

  static int64_t FrameBytes(const PlannedState& s) {
    return std::max<int64_t>(s.layout->arena_bytes, 64);
  }
  void KeepBudget(PlannedState& s) const;
  /// Points to the arena, of the size that the binding needs. Gives where it begins.
  char* PlaceFrame(PlannedState& s) const;
  void Execute(const Step& step, size_t k, PlannedState& s) const;
  void* Pointer(const PlannedState& s, int value) const {
    return value < 0 ? nullptr : s.base[size_t(plan_.values[size_t(value)].storage)];
  }
  /// Of step k.
  static void* Scratch(const PlannedState& s, size_t k) {
    return s.frame + s.layout->scratch_at[k];
  }
  int64_t BytesOf(const Binding& b, int value) const {
    return DTypeBytes(plan_.values[size_t(value)].dtype, NumElements(b.dims[size_t(value)]));
  }
  /// Arguments of a step, inputs first, into s.buffers. Gives the number of inputs.
  size_t FillBuffers(const Step& step, PlannedState& s) const;
  /// The slow way: the meaning of the operator, from and to plain tensors.
  std::vector<TensorPtr> Interpret(const Step& step, const Binding& b,
                                   const std::vector<TensorPtr>& inputs) const;
  [[noreturn]] static void ThrowOutside(const Step& step);

  std::shared_ptr<Backend> backend_;
  ExecutionPlan plan_;
  bool has_own_calls_ = false;

 private:
  Rest RunUntil(State& state, const std::vector<TensorPtr>& fed,
                std::vector<std::shared_ptr<Tensor>>* outputs, bool later) const;
  void CountWork(PlannedState* s) const;
  std::shared_ptr<const Binding> BindingFor(const std::vector<int64_t>& key,
                                            const std::vector<TensorPtr>& inputs,
                                            const FrameBounds* bounds, const Binding* before) const;

  std::unique_ptr<Binder> binder_;
  mutable std::mutex mutex_;
  static constexpr size_t kMaxBindings = 32;
  mutable BoundedCache<std::vector<int64_t>, std::shared_ptr<const Binding>> bindings_{
      kMaxBindings};
  mutable std::vector<std::weak_ptr<const Binding>> made_;  ///< bindings, those that sessions have
};

}  // namespace weft
