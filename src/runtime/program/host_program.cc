/// host_program.cc: runs a plan on host memory.
#include <algorithm>
#include <cstring>
#include <map>

#include "body_programs.h"
#include "planned_program.h"
#include "steady_calls.h"
#include "weft/core/graph/variable.h"
#include "weft/core/plan/layout.h"
#include "weft/runtime/backend/run_again.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// After a run that began again: what made it do so is likely to come again soon.
constexpr int kCarefulRuns = 64;

class HostProgram final : public PlannedProgram {
 public:
  HostProgram(Graph graph, std::shared_ptr<Backend> backend)
      : PlannedProgram(std::move(graph), std::move(backend)),
        keeps_inputs_(std::none_of(plan_.written.begin(), plan_.written.end(),
                                   [](bool written) { return written; })),
        steady_(plan_, SteadyInputs()) {
    has_own_calls_ = !steady_.empty();
    for (size_t k = 0; k < plan_.steps.size(); ++k)
      if (plan_.steps[k].kind == StepKind::kBodies)
        bodies_.try_emplace(k, plan_.steps[k].node, backend_).first->second.AddTo(&stats_);
  }
  void TakeCallOptions(const CallOptions& options) override {
    PlannedProgram::TakeCallOptions(options);
    for (auto& [step, bodies] : bodies_) bodies.TakeCallOptions(options);
  }

  std::unique_ptr<RepeatedBody> Repeat(State& state) const override {
    auto& s = static_cast<HostState&>(state);
    if (!plan_.variables.empty() || !steady_.empty()) return nullptr;
    return std::make_unique<Repeated>(*this, &s);
  }

 protected:
  struct HostState : PlannedState {
    int careful_runs = 0;  ///< to come, that will not have to begin again
    BodyStates bodies;
    struct Kept {
      std::shared_ptr<const Binding> binding;  ///< of the run that left it
      std::unique_ptr<KeptLoop> loop;
    };
    std::map<size_t, Kept> kept;  ///< by step
    SteadyCalls steady;
  };
  std::unique_ptr<State> NewState() const override { return std::make_unique<HostState>(); }
  void TakeTimesInside(PlannedState& s, size_t k, const std::string& in,
                       std::vector<StepTime>* times) const override {
    if (const auto it = bodies_.find(k); it != bodies_.end())
      it->second.TakeTimes(&static_cast<HostState&>(s).bodies, in, times);
  }

  const ArenaLayout* PrepareCalls(PlannedState& s,
                                  const std::vector<TensorPtr>& inputs) const override {
    SteadyCalls& calls = static_cast<HostState&>(s).steady;
    s.packs += calls.Update(steady_, plan_, s.binding, inputs,
                            [&](size_t k, const std::map<int, TensorPtr>& known) {
                              return PrepareCall(plan_.steps[k], s, known);
                            });
    return &calls.layout();
  }

  void Begin(PlannedState& s, const std::vector<TensorPtr>& inputs,
             const std::vector<std::shared_ptr<Tensor>>& outputs) const override {
    for (size_t k = 0; k < plan_.storages.size(); ++k) {
      const Storage& block = plan_.storages[k];
      if (block.kind == StorageKind::kInput)
        s.base[k] = const_cast<void*>(inputs[size_t(block.number)]->data());
      else if (block.kind == StorageKind::kOutput)
        s.base[k] = outputs[size_t(block.number)]->mutable_data();
    }
    for (size_t i = 0; i < plan_.variables.size(); ++i) {
      // What is written forgets its hash.
      Tensor& t = *s.variables[i];
      const int v = plan_.input_values[plan_.num_fed() + i];
      s.base[size_t(plan_.values[size_t(v)].storage)] =
          plan_.written[i] ? t.mutable_data() : const_cast<void*>(t.data());
    }
    for (const Value& v : plan_.values)
      if (v.constant) s.base[size_t(v.storage)] = const_cast<void*>(v.constant->data());
  }
  /// The sizes are those of the last run; operands and results lie elsewhere.
  class Repeated final : public RepeatedBody {
   public:
    Repeated(const HostProgram& program, HostState* s)
        : program_(program), s_(*s), binding_(s->binding) {}
    bool IsOfLastRun() const override { return s_.binding == binding_; }
    double Microseconds() const override { return is_direct_ ? us_ : -1; }
    void Run(const void* const* inputs, void* const* results) override {
      const ExecutionPlan& plan = program_.plan_;
      for (size_t k = 0; k < plan.storages.size(); ++k) {
        const Storage& block = plan.storages[k];
        if (block.kind == StorageKind::kInput)
          s_.base[k] = const_cast<void*>(inputs[size_t(block.number)]);
        else if (block.kind == StorageKind::kOutput)
          s_.base[k] = results[size_t(block.number)];
      }
      program_.RunSteps(s_);
      for (int i : plan.copies) {
        const int v = plan.output_values[size_t(i)];
        program_.Copy(s_, results[size_t(i)], program_.Pointer(s_, v),
                      program_.BytesOf(*s_.binding, v));
      }
    }
    void RunAll(int64_t* at, int64_t last, const std::vector<IteratedPlace>& inputs,
                const std::vector<IteratedPlace>& results) override {
      if (s_.is_profiled) return RepeatedBody::RunAll(at, last, inputs, results);
      // Another body may have made the arena grow.
      if (const char* arena = program_.PlaceFrame(s_); arena != arena_ || calls_.empty()) {
        Arrange();
        arena_ = arena;
      }
      PlaceAll(*at, inputs, results);
      if (is_direct_) return RunDirect(at, last);
      while (*at < last) {
        const bool careful = s_.careful_runs > 0;
        const int64_t first = *at,
                      end = careful ? std::min<int64_t>(last, first + s_.careful_runs) : last;
        try {
          const RunAgain::Scope scope(!careful && program_.keeps_inputs_);
          for (; *at < end; ++*at) {
            RequestScope::Poll();
            RequestScope::CheckIterations(*at);
            Iterate(*at);
          }
        } catch (const RunAgain::Asked&) {
          s_.careful_runs = kCarefulRuns;
          continue;
        }
        if (careful) s_.careful_runs -= int(end - first);
      }
    }

   private:
    /// An operand or a result of the body, and the arguments that it is.
    struct Placed {
      bool in = false;
      size_t number = 0;
      int storage = -1;  ///< -1: a result that is copied
      std::vector<size_t> arguments;
    };
    /// One that lies elsewhere in each iteration.
    struct Moving {
      IteratedPlace place;
      const Placed* what = nullptr;
    };
    /// An argument in iterations behind the first one: where it is the next time an even one comes,
    /// an odd one, and how much further two iterations later.
    struct Slot {
      void* next[2];
      int64_t step;
      void** argument;
    };
    struct Call {
      size_t step = 0;
      const KernelLauncher* kernel = nullptr;
      const LibraryCall* library = nullptr;  ///< neither: as Execute has it
      size_t arguments = 0, results = 0;     ///< where they begin
      DirectLaunch direct;                   ///< where the kernel has one
    };
    struct OutputCopy {
      size_t arguments = 0;  ///< to, from
      int64_t bytes = 0;
    };

    /// Everything that is the same in all runs: what a step is, and its arguments but for operands
    /// and results.
    void Arrange() {
      const ExecutionPlan& plan = program_.plan_;
      const Binding& b = *s_.binding;
      placed_.clear(), calls_.clear(), arguments_.clear(), copies_.clear();
      std::vector<int> placed_of(plan.storages.size(), -1);
      for (size_t k = 0; k < plan.storages.size(); ++k) {
        const Storage& block = plan.storages[k];
        const bool in = block.kind == StorageKind::kInput;
        if (!in && block.kind != StorageKind::kOutput) continue;
        placed_of[k] = int(placed_.size());
        placed_.push_back({in, size_t(block.number), int(k), {}});
      }
      const auto add = [&](int value) {
        const int storage = value < 0 ? -1 : plan.values[size_t(value)].storage;
        const int placed = storage < 0 ? -1 : placed_of[size_t(storage)];
        if (placed >= 0) placed_[size_t(placed)].arguments.push_back(arguments_.size());
        arguments_.push_back(placed >= 0 ? nullptr : program_.Pointer(s_, value));
      };
      is_direct_ = true;
      us_ = 0;
      int64_t memory = 0;
      for (size_t k = 0; k < plan.steps.size(); ++k) {
        const Step& step = plan.steps[k];
        if (s_.layout->left_out[k]) continue;
        Call call{k, nullptr, nullptr, arguments_.size(), 0, {}};
        const bool plain = step.commits.empty() && !step.has_flag;
        if (plain && step.kind == StepKind::kKernel) call.kernel = step.launcher.get();
        if (plain && step.kind == StepKind::kLibrary)
          call.library = static_cast<const LibraryCall*>(b.calls[k].get());
        const auto direct =
            call.kernel ? call.kernel->Direct(b.kernel_dims[k].data()) : std::nullopt;
        if (direct) {
          call.direct = *direct;
          us_ += direct->us;
          memory = std::max(memory, direct->memory_bytes);
        }
        is_direct_ = is_direct_ && direct;
        for (int v : step.inputs) add(v);
        call.results = arguments_.size();
        for (int v : step.outputs) add(v);
        calls_.push_back(call);
      }
      for (int i : plan.copies) {
        const int v = plan.output_values[size_t(i)];
        copies_.push_back({arguments_.size(), program_.BytesOf(b, v)});
        us_ += double(copies_.back().bytes) / kBytesAMicrosecond;
        placed_.push_back({false, size_t(i), -1, {arguments_.size()}});
        arguments_.push_back(nullptr);
        add(v);
      }
      if (is_direct_ && memory > memory_bytes_) {
        memory_ = program_.backend_->Allocate(memory);
        memory_bytes_ = memory;
      }
    }
    /// Where operands and results lie in iteration `i`, and which of them move.
    void PlaceAll(int64_t i, const std::vector<IteratedPlace>& inputs,
                  const std::vector<IteratedPlace>& results) {
      moving_.clear();
      for (const Placed& p : placed_) {
        const IteratedPlace& place = (p.in ? inputs : results)[p.number];
        PlaceOne(p, place.At(i));
        if (!place.fixed()) moving_.push_back({place, &p});
      }
    }
    void PlaceOne(const Placed& p, void* place) {
      if (p.storage >= 0) s_.base[size_t(p.storage)] = place;
      for (size_t a : p.arguments) arguments_[a] = place;
    }
    void Iterate(int64_t i) {
      for (const Moving& m : moving_) PlaceOne(*m.what, m.place.At(i));
      for (const Call& c : calls_) {
        void** const arguments = arguments_.data() + c.arguments;
        if (c.kernel)
          c.kernel->Launch(arguments, s_.binding->kernel_dims[c.step].data());
        else if (c.library)
          c.library->Run(arguments, arguments_.data() + c.results, Scratch(s_, c.step));
        else
          program_.Execute(program_.plan_.steps[c.step], c.step, s_);
      }
      for (const OutputCopy& c : copies_)
        if (arguments_[c.arguments] != arguments_[c.arguments + 1])
          program_.Copy(s_, arguments_[c.arguments], arguments_[c.arguments + 1], c.bytes);
    }
    /// Iterations that are calls of code and nothing else: between two of them pointers move.
    void RunDirect(int64_t* at, int64_t last) {
      const int64_t at_once =
          std::clamp<int64_t>(int64_t(kPollMicroseconds / std::max(us_, 0.01)), 1, 256);
      slots_.clear();
      while (*at < last) {
        RequestScope::Poll();
        RequestScope::CheckIterations(*at);
        if (*at == 0) {
          for (const Moving& m : moving_) PlaceOne(*m.what, m.place.At(0));
          CallDirect();
          ++*at;
          continue;
        }
        if (slots_.empty()) FillSlots(*at);
        const int64_t end = std::min(last, *at + at_once);
        for (; *at < end; ++*at) {
          RequestScope::CheckIterations(*at);
          const int odd = int(*at & 1);
          for (Slot& s : slots_) {
            void*& next = s.next[odd];
            *s.argument = next;
            next = static_cast<char*>(next) + s.step;
          }
          CallDirect();
        }
      }
    }
    void FillSlots(int64_t i) {
      for (const Moving& m : moving_)
        for (size_t a : m.what->arguments) {
          Slot slot{{}, 2 * m.place.step, &arguments_[a]};
          slot.next[i & 1] = m.place.At(i);
          slot.next[(i + 1) & 1] = m.place.At(i + 1);
          slots_.push_back(slot);
        }
    }
    void CallDirect() {
      void** const arguments = arguments_.data();
      for (const Call& c : calls_)
        if (c.direct.fn)
          c.direct.fn(arguments + c.arguments, binding_->kernel_dims[c.step].data(), 0,
                      c.direct.items, memory_.get());
      for (const OutputCopy& c : copies_)
        if (arguments[c.arguments] != arguments[c.arguments + 1])
          std::memcpy(arguments[c.arguments], arguments[c.arguments + 1], size_t(c.bytes));
    }

    /// Between two looks whether the request goes on; estimates may be a hundredth of the time.
    static constexpr double kPollMicroseconds = 20;
    static constexpr double kBytesAMicrosecond = 8e3;

    const HostProgram& program_;
    HostState& s_;
    const std::shared_ptr<const Binding> binding_;
    const char* arena_ = nullptr;
    std::vector<Placed> placed_;
    std::vector<Moving> moving_;
    std::vector<Slot> slots_;
    std::vector<Call> calls_;
    std::vector<void*> arguments_;
    std::vector<OutputCopy> copies_;
    bool is_direct_ = false;  ///< all calls are
    double us_ = 0;           ///< of an iteration, then
    std::shared_ptr<void> memory_;
    int64_t memory_bytes_ = 0;
  };

  void RunSteps(PlannedState& s) const override {
    int& careful = static_cast<HostState&>(s).careful_runs;
    if (careful == 0) {
      try {
        const RunAgain::Scope scope(keeps_inputs_);
        return PlannedProgram::RunSteps(s);
      } catch (const RunAgain::Asked&) {
        careful = kCarefulRuns;
      }
    }
    --careful;
    const RunAgain::Scope scope(false);
    PlannedProgram::RunSteps(s);
  }
  void Copy(PlannedState&, void* to, const void* from, int64_t bytes) const override {
    if (bytes > 0) std::memcpy(to, from, size_t(bytes));
  }
  void Compute(const Step& step, size_t k, PlannedState& s) const override {
    const Binding& b = *s.binding;
    switch (step.kind) {
      case StepKind::kKernel: {
        FillBuffers(step, s);
        uint8_t outside = 0;
        if (step.has_flag) s.buffers.push_back(&outside);
        step.launcher->Launch(s.buffers.data(), b.kernel_dims[k].data());
        if (outside) ThrowOutside(step);
        return;
      }
      case StepKind::kLibrary: {
        const auto* call = static_cast<HostState&>(s).steady.Find(k);
        if (!call) call = static_cast<const LibraryCall*>(b.calls[k].get());
        if (!call)
          return InterpretHere(step, s);  // refused for these extents or types; Binder said so
        const size_t n = FillBuffers(step, s);
        call->Run(s.buffers.data(), s.buffers.data() + n, Scratch(s, k));
        return;
      }
      case StepKind::kShapeValue: {
        const int v = step.outputs[0];
        Tensor t(plan_.values[size_t(v)].dtype, b.dims[size_t(v)], Pointer(s, v), nullptr);
        for (int64_t i = 0; i < t.num_elements(); ++i) t.set_int(i, b.shape_values[k][size_t(i)]);
        return;
      }
      case StepKind::kBodies:
        return RunBodies(step, k, static_cast<HostState&>(s));
      default:
        return InterpretHere(step, s);
    }
  }
  Rest End(PlannedState& s, const std::vector<std::shared_ptr<Tensor>>& outputs,
           bool) const override {
    for (int i : plan_.copies) {
      const Value& v = plan_.values[size_t(plan_.output_values[size_t(i)])];
      Tensor& t = *outputs[size_t(i)];
      if (t.num_bytes() > 0)
        std::memcpy(t.mutable_data(), s.base[size_t(v.storage)], size_t(t.num_bytes()));
    }
    return {};
  }

 private:
  std::vector<bool> SteadyInputs() const {
    std::vector<bool> steady;
    for (const NodePtr& p : graph_.AllInputs()) steady.push_back(IsSteady(p));
    return steady;
  }
  /// Results go where the plan has them, as far as the operator and its bodies can.
  void RunBodies(const Step& step, size_t k, HostState& s) const {
    const Binding& b = *s.binding;
    const BodyPrograms& bodies = bodies_.at(k);
    if (!s.is_profiled && RunKept(step, k, bodies, s)) return;
    ResultTensors results;
    for (int v : step.outputs) {
      const Value& value = plan_.values[size_t(v)];
      const bool plain = value.layout == Layout::kPlain;
      results.push_back(
          plain ? std::make_shared<Tensor>(value.dtype, b.dims[size_t(v)], Pointer(s, v), nullptr)
                : nullptr);
    }
    std::unique_ptr<KeptLoop> kept;
    s.kept.erase(k);
    bodies.RunNode(Operands(step, s), &s.bodies, &s, &results, &kept);
    if (kept && IsPlain(step)) s.kept[k] = {s.binding, std::move(kept)};
    for (size_t i = 0; i < results.size(); ++i) {
      const DType dtype = plan_.values[size_t(step.outputs[i])].dtype;
      WEFT_CHECK(results[i]->dtype() == dtype, kTypeMismatch,
                 "{}: result {} is {}, {} was inferred", step.node->Describe(), i,
                 DTypeName(results[i]->dtype()), DTypeName(dtype));
      WEFT_CHECK(results[i]->dims() == b.dims[size_t(step.outputs[i])], kShapeMismatch,
                 "{}: result {} has the shape {}, {} was inferred", step.node->Describe(), i,
                 results[i]->shape().ToString(),
                 Shape::OfInts(b.dims[size_t(step.outputs[i])]).ToString());
      Place(*results[i], step.outputs[i], s);
    }
  }

  /// The step as a run with the same extents has left it.
  bool RunKept(const Step& step, size_t k, const BodyPrograms& bodies, HostState& s) const {
    const auto it = s.kept.find(k);
    if (it == s.kept.end() || it->second.binding != s.binding) return false;
    const size_t inputs = FillBuffers(step, s);
    return bodies.RunKept(it->second.loop.get(), s.buffers.data(), s.buffers.data() + inputs,
                          &s.bodies, &s);
  }
  bool IsPlain(const Step& step) const {
    const auto plain = [&](int v) {
      return v < 0 || plan_.values[size_t(v)].layout == Layout::kPlain;
    };
    return std::all_of(step.inputs.begin(), step.inputs.end(), plain) &&
           std::all_of(step.outputs.begin(), step.outputs.end(), plain);
  }

  /// Views of what lies in memory; plain copies of what lies there otherwise.
  std::vector<TensorPtr> Operands(const Step& step, const PlannedState& s) const {
    const Binding& b = *s.binding;
    std::vector<TensorPtr> in;
    for (int v : step.inputs) {
      if (v < 0) {
        in.push_back(nullptr);
        continue;
      }
      const Value& value = plan_.values[size_t(v)];
      const auto t =
          std::make_shared<const Tensor>(value.dtype, b.dims[size_t(v)], Pointer(s, v), nullptr);
      in.push_back(InLayout(t, value.layout, Layout::kPlain));
    }
    return in;
  }
  /// Plain `t` becomes the content of a value, where it is not.
  void Place(const Tensor& t, int value, const PlannedState& s) const {
    if (t.num_bytes() > 0 && t.data() != Pointer(s, value))
      CopyLayout(t.dtype(), t.dims(), t.data(), Pointer(s, value), Layout::kPlain,
                 plan_.values[size_t(value)].layout);
  }
  void InterpretHere(const Step& step, const PlannedState& s) const {
    const std::vector<TensorPtr> out = Interpret(step, *s.binding, Operands(step, s));
    for (size_t i = 0; i < out.size(); ++i) Place(*out[i], step.outputs[i], s);
  }

  const bool keeps_inputs_;  ///< no variable is written
  const SteadySteps steady_;
  std::map<size_t, BodyPrograms> bodies_;  ///< by step
};

}  // namespace

std::unique_ptr<Program::Impl> MakeHostProgram(Graph graph, std::shared_ptr<Backend> backend) {
  return std::make_unique<HostProgram>(std::move(graph), std::move(backend));
}

}  // namespace weft
