/// device_program.cc: runs a plan on a device with memory
/// of its own (weft/runtime/backend/device.h).
///
/// A run gives everything to one stream and waits once, when its results are on the host, or later
/// (Session::Start). Steps that no kernel and no call computes fetch their operands and run in the
/// interpreter. Programs of bodies and of regions take part in the run of the program around them:
/// the same stream, operands and results on the device, no wait.
///
/// The third run with the same extents and places, and those after it, replay recordings: one of
/// all steps, or one of those between any two steps that need the host or that the device cannot
/// record. The iterations of a loop are recorded with it, one after another, where no number that
/// the device computes tells how many there are.
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device_bodies.h"
#include "device_home.h"
#include "device_session.h"
#include "home_slot.h"
#include "planned_program.h"
#include "weft/core/plan/layout.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/log.h"
#include "weft/support/request.h"

namespace weft {
namespace {

constexpr int64_t kAlign = 256;
/// Of operands of library calls, as in an arena. What lies elsewhere, as a slice of a Scan may, is
/// copied for them.
constexpr uintptr_t kCallAlign = 64;
/// Of launches and calls in a recorded step: a graph of more takes longer to make than runs save.
constexpr int64_t kMostRecorded = 8192;
/// Of a body that is recorded by itself: a launch of a graph takes the host as long as two others.
constexpr size_t kFewestSteps = 3;

class DeviceProgram final : public PlannedProgram {
 public:
  DeviceProgram(Graph graph, std::shared_ptr<Backend> backend)
      : PlannedProgram(std::move(graph), std::move(backend)) {
    has_homes_ = true;
    place_ = backend_->device()->place();
    for (const Value& v : plan_.values)
      WEFT_CHECK(DTypeBits(v.dtype) > 0, kUnsupported, "tensors of {} have no place on a device",
                 DTypeName(v.dtype));
    for (const Step& step : plan_.steps) {
      flag_of_.push_back(flags_);
      flags_ += step.has_flag;
    }
    num_flags_ = flags_;
    for_calls_.resize(plan_.storages.size());
    for (const Step& step : plan_.steps)
      for (const auto* values : {&step.inputs, &step.outputs})
        for (int v : *values)
          if (step.kind == StepKind::kLibrary && v >= 0)
            for_calls_[size_t(plan_.values[size_t(v)].storage)] = true;
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& step = plan_.steps[k];
      if (step.kind == StepKind::kShapeValue) shape_step_of_[step.outputs[0]] = k;
      if (step.kind != StepKind::kBodies) continue;
      const BodyPrograms& bodies = bodies_.try_emplace(k, step.node, backend_).first->second;
      bodies.AddTo(&stats_);
      num_flags_ += bodies.num_flags();
    }
  }
  void TakeCallOptions(const CallOptions& options) override {
    PlannedProgram::TakeCallOptions(options);
    for (auto& [step, bodies] : bodies_) bodies.TakeCallOptions(options);
  }
  std::unique_ptr<RepeatedBody> Repeat(State& state) const override {
    return std::make_unique<Repeated>(*this, &Of(state));
  }

 protected:
  struct DeviceState final : PlannedState {
    ~DeviceState() override {
      if (session) session->Drain();
    }
    /// Of which run it is part of, else its own.
    std::shared_ptr<DeviceSession> session;
    Arena io;                     ///< what is fed and fetched
    std::vector<TensorPtr> fed;   ///< of the run, by the host
    std::vector<TensorPtr> lent;  ///< what is fed and lies on the device: until the run has ended
    uint8_t* flags = nullptr;     ///< of the steps that have one, in order
    BodyStates bodies;
    std::vector<const void*> given;                   ///< operands of a part
    std::map<size_t, std::shared_ptr<Tensor>> aside;  ///< aligned places, by storage
    /// Results that are in such a place, and go to theirs.
    struct Moved {
      void *from, *to;
      int64_t bytes;
    };
    std::vector<Moved> moved;
    /// Steps that are replayed together.
    struct Segment {
      size_t begin = 0, end = 0;
      DeviceSession::Recorded recorded;
    };
    /// Runs at the same places.
    struct Placed {
      /// Of all storages, the arena and flags, in the last of them.
      std::vector<void*> places;
      int runs = 0;  ///< with these places
      std::vector<Segment> segments;
    };
    /// Runs with the same extents.
    struct Alike {
      std::vector<Placed> placed;  ///< the last one is that of the last run
      std::vector<bool> stays;     ///< by step: it is given anew in every run
    };
    static constexpr size_t kMostRecordings = 16;
    using Recordings = BoundedCache<std::shared_ptr<const Binding>, Alike>;
    Recordings alike{kMostRecordings, Evict::kLeastRecent};
    std::vector<Recordings> lost;  ///< may be at work until the stream is gone
    bool records = true;           ///< the device can
    std::vector<bool> refused;     ///< by step: the device cannot record it
    bool is_part() const { return device != nullptr; }
    DeviceStream& stream() const { return session->stream(); }
  };
  std::unique_ptr<State> NewState() const override { return std::make_unique<DeviceState>(); }
  static DeviceState& Of(State& s) { return static_cast<DeviceState&>(s); }
  void TakeTimesInside(PlannedState& s, size_t k, const std::string& in,
                       std::vector<StepTime>* times) const override {
    if (const auto it = bodies_.find(k); it != bodies_.end())
      it->second.TakeTimes(&Of(s).bodies, in, times);
  }

  void Prepare(PlannedState& state) const override {
    DeviceState& s = Of(state);
    if (s.is_part())
      s.session = s.device;
    else if (!s.session)
      s.session = std::make_shared<DeviceSession>(backend_, num_flags_, stats_);
  }
  std::shared_ptr<Tensor> NewResult(PlannedState& state, size_t index, DType dtype,
                                    const std::vector<int64_t>& dims) const override {
    DeviceState& s = Of(state);
    return s.is_part() ? s.session->NewTensor(dtype, dims)
                       : PlannedProgram::NewResult(state, index, dtype, dims);
  }

  void Begin(PlannedState& state, const std::vector<TensorPtr>& inputs,
             const std::vector<std::shared_ptr<Tensor>>& outputs) const override {
    DeviceState& s = Of(state);
    s.session->Use(s.arena->memory());
    if (flags_ > 0)
      s.flags = s.session->FlagsOf(this, flags_, [this](const uint8_t* raised) {
        size_t flag = 0;
        for (const Step& step : plan_.steps)
          if (step.has_flag && raised[flag++]) ThrowOutside(step);
      });
    if (s.is_part()) {
      std::vector<const void*> operands;
      std::vector<void*> results;
      for (const TensorPtr& t : inputs) operands.push_back(t->data());
      for (const auto& t : outputs) results.push_back(t->mutable_data());
      PlacePart(operands.data(), results.data(), s);
    } else {
      PlaceFed(inputs, outputs, s);
    }
    PlaceConstants(s);
    const size_t fed = plan_.num_fed();
    for (size_t i = 0; i < plan_.variables.size(); ++i) {
      const int v = plan_.input_values[fed + i];
      s.base[size_t(plan_.values[size_t(v)].storage)] = HomeOf(s, i).On(s.stream());
    }
    if (!s.is_part()) s.session->ClearFlags();
  }

  /// Of variable `i`, with its content.
  DeviceHome& HomeOf(DeviceState& s, size_t i) const {
    const std::shared_ptr<Tensor>& host = s.variables[i];
    return static_cast<DeviceHome&>(
        s.homes[i]->At(backend_, typeid(DeviceHome), host, plan_.written[i],
                       [&] { return std::make_unique<DeviceHome>(backend_, host->num_bytes()); }));
  }

  void RunSteps(PlannedState& state) const override {
    DeviceState& s = Of(state);
    if (s.session->is_recording()) return PlannedProgram::RunSteps(s);
    if (s.is_part() && plan_.steps.size() < kFewestSteps) return PlannedProgram::RunSteps(s);
    DeviceState::Placed& a = RunsHere(s);
    ++a.runs;
    if (s.is_profiled || a.runs < 3 || !s.records) return PlannedProgram::RunSteps(s);
    if (a.runs == 3) return RecordSteps(s, &a.segments);
    size_t k = 0;
    for (const DeviceState::Segment& segment : a.segments) {
      PlannedProgram::RunSteps(s, k, segment.begin);
      Replay(s, segment);
      k = segment.end;
    }
    PlannedProgram::RunSteps(s, k, plan_.steps.size());
  }

  void Compute(const Step& step, size_t k, PlannedState& state) const override {
    DeviceState& s = Of(state);
    const Binding& b = *s.binding;
    if (step.kind == StepKind::kKernel) {
      FillBuffers(step, s);
      if (step.has_flag) s.buffers.push_back(s.flags + flag_of_[k]);
      s.session->CountGiven();
      step.device_launcher->Enqueue(s.stream(), s.buffers.data(), b.kernel_dims[k].data());
    } else if (step.kind == StepKind::kLibrary && b.calls[k]) {
      const size_t n = FillBuffers(step, s);
      s.session->CountGiven();
      static_cast<const DeviceCall&>(*b.calls[k])
          .Enqueue(s.stream(), s.buffers.data(), s.buffers.data() + n, Scratch(s, k));
    } else if (step.kind == StepKind::kShapeValue) {
      const int v = step.outputs[0];
      const TensorPtr t = ShapeValue(k, b);
      if (t->num_bytes() > 0) s.stream().CopyIn(Pointer(s, v), t->data(), t->num_bytes());
    } else if (step.kind == StepKind::kBodies && InWholeBytes(step)) {
      RunBodies(step, k, s);
    } else {
      InterpretOnHost(step, s);
    }
  }
  void Copy(PlannedState& s, void* to, const void* from, int64_t bytes) const override {
    if (bytes > 0) Of(s).stream().Copy(to, from, bytes);
  }
  void Wait(PlannedState& s) const override { Of(s).stream().Wait(); }

  /// What was given still goes to its places before they can be given back.
  void Abandon(PlannedState& state) const override {
    DeviceState& s = Of(state);
    s.fed.clear();
    if (s.session->is_recording()) return;  // nothing was given
    const std::vector<TensorPtr> lent = std::move(s.lent);
    // Where the device has failed, the stream may still be working: keep what it uses.
    if (!s.session->Drain()) s.lost.push_back(std::move(s.alike));
    s.alike.clear();
  }

  Rest End(PlannedState& state, const std::vector<std::shared_ptr<Tensor>>& outputs,
           bool later) const override {
    DeviceState& s = Of(state);
    s.fed.clear();
    if (s.is_part()) {
      std::vector<void*> results;
      for (const auto& t : outputs) results.push_back(t->mutable_data());
      GiveResults(s, results.data());
      return {};
    }
    DeviceSession& session = *s.session;
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor& t = *outputs[i];
      const void* result = Pointer(s, plan_.output_values[i]);
      if (t.num_bytes() == 0 || t.data() == result) continue;
      if (t.on_host())
        s.stream().CopyOut(t.mutable_data(), result, t.num_bytes());
      else
        Copy(s, t.mutable_data(), result, t.num_bytes());
    }
    const std::function<void()> check = session.FetchFlags();
    const std::shared_ptr<DeviceStream::Point> end = later ? s.stream().Mark() : nullptr;
    if (!later) s.stream().Wait();
    session.EndRun(end != nullptr);
    for (HomeSlot* v : s.homes) static_cast<DeviceHome*>(v->home())->UsedUntil(end);
    const std::vector<TensorPtr> lent = std::exchange(s.lent, {});
    if (!end) {
      check();
      return {};
    }
    return {[end] { return end->Reached(); },
            [&stream = s.stream(), end, check, lent] {
              stream.Wait(*end);
              check();
            }};
  }

 private:
  /// The sizes are those of the last run, and so is the arena; operands and results lie elsewhere.
  class Repeated final : public RepeatedBody {
   public:
    Repeated(const DeviceProgram& program, DeviceState* s) : program_(program), s_(*s) {}
    void Run(const void* const* inputs, void* const* results) override {
      for (size_t i = 0; i < s_.known_inputs.size(); ++i)
        if (s_.given[i] != inputs[i]) s_.known_inputs[i] = {};
      program_.PlacePart(inputs, results, s_);
      program_.RunSteps(s_);
      program_.GiveResults(s_, results);
    }

   private:
    const DeviceProgram& program_;
    DeviceState& s_;
  };

  /// Operands and results of a part lie where the program around it has them.
  void PlacePart(const void* const* inputs, void* const* results, DeviceState& s) const {
    s.moved.clear();
    s.given.assign(inputs, inputs + plan_.num_fed());
    for (size_t k = 0; k < plan_.storages.size(); ++k) {
      const Storage& block = plan_.storages[k];
      const auto number = size_t(block.number);
      if (block.kind == StorageKind::kInput) {
        void* given = const_cast<void*>(inputs[number]);
        s.base[k] = PlaceFor(k, given, plan_.input_values[number], s);
        if (s.base[k] != given)
          Copy(s, s.base[k], given, BytesOf(*s.binding, plan_.input_values[number]));
      } else if (block.kind == StorageKind::kOutput) {
        s.base[k] = PlaceFor(k, results[number], plan_.output_values[number], s);
        if (s.base[k] != results[number])
          s.moved.push_back(
              {s.base[k], results[number], BytesOf(*s.binding, plan_.output_values[number])});
      }
    }
  }
  /// The place of the program around it, or an aligned one.
  void* PlaceFor(size_t storage, void* given, int value, DeviceState& s) const {
    if (!for_calls_[storage] || reinterpret_cast<uintptr_t>(given) % kCallAlign == 0) return given;
    const int64_t bytes = BytesOf(*s.binding, value);
    std::shared_ptr<Tensor>& place = s.aside[storage];
    if (!place || place->num_bytes() < bytes) place = s.session->NewTensor(DType::kU8, {bytes});
    s.session->Use(place);
    return place->mutable_data();
  }
  void GiveResults(DeviceState& s, void* const* results) const {
    for (int i : plan_.copies) {
      const int v = plan_.output_values[size_t(i)];
      Copy(s, results[size_t(i)], Pointer(s, v), BytesOf(*s.binding, v));
    }
    for (const DeviceState::Moved& m : s.moved) Copy(s, m.to, m.from, m.bytes);
  }
  void PlaceFed(const std::vector<TensorPtr>& inputs,
                const std::vector<std::shared_ptr<Tensor>>& outputs, DeviceState& s) const {
    const size_t fed = plan_.num_fed();
    int64_t size = 0;
    const auto reserve = [&](int64_t bytes) {
      const int64_t at = size;
      size = CheckedRoundUp(CheckedAdd(size, std::max<int64_t>(bytes, 1)), kAlign);
      return at;
    };
    // What lies on the device already is used there.
    s.lent.clear();
    for (size_t i = 0; i < fed; ++i)
      if (!inputs[i]->on_host()) s.lent.push_back(inputs[i]);
    std::vector<int64_t> in_at, out_at;
    for (size_t i = 0; i < fed; ++i)
      in_at.push_back(inputs[i]->on_host() ? reserve(inputs[i]->num_bytes()) : -1);
    for (const auto& t : outputs) out_at.push_back(t->on_host() ? reserve(t->num_bytes()) : -1);
    size = std::max<int64_t>(size, 1);
    if (!s.io.Fits(size)) s.stream().Wait();
    char* io = s.io.Reserve(*backend_, size);
    for (size_t k = 0; k < plan_.storages.size(); ++k) {
      const Storage& block = plan_.storages[k];
      const auto number = size_t(block.number);
      if (block.kind == StorageKind::kInput && number < fed) {
        const Tensor& t = *inputs[number];
        s.base[k] = in_at[number] >= 0
                        ? io + in_at[number]
                        : PlaceFor(k, const_cast<void*>(t.data()), plan_.input_values[number], s);
        if (in_at[number] < 0 && s.base[k] != t.data()) Copy(s, s.base[k], t.data(), t.num_bytes());
      } else if (block.kind == StorageKind::kOutput) {
        s.base[k] = out_at[number] >= 0 ? io + out_at[number]
                                        : PlaceFor(k, outputs[number]->mutable_data(),
                                                   plan_.output_values[number], s);
      }
    }
    for (size_t i = 0; i < fed; ++i)
      if (in_at[i] >= 0 && inputs[i]->num_bytes() > 0)
        s.stream().CopyIn(io + in_at[i], inputs[i]->data(), inputs[i]->num_bytes());
    if (!bodies_.empty()) s.fed.assign(inputs.begin(), inputs.begin() + long(fed));
  }

  bool CanRecord(DeviceState& s, size_t k) const {
    const Step& step = plan_.steps[k];
    const bool on_host = step.kind == StepKind::kInterpreter ||
                         (step.kind == StepKind::kLibrary && !s.binding->calls[k]) ||
                         (step.kind == StepKind::kBodies && !InWholeBytes(step));
    const auto* call = static_cast<const DeviceCall*>(s.binding->calls[k].get());
    if (call && !call->records()) return false;
    const std::vector<bool>& stays = RunsLike(s).stays;
    return !on_host && (s.refused.empty() || !s.refused[k]) && (stays.empty() || !stays[k]);
  }
  void Replay(DeviceState& s, const DeviceState::Segment& segment) const {
    RequestScope::Poll();
    s.session->stats().replays.Add();
    s.stream().Replay(*segment.recorded.recording);
  }
  /// Runs all steps at the places of this run: what the device records is left in `segments`,
  /// which hold recordings of the same steps at other places. What it refuses ends a segment, and
  /// is not tried again.
  void RecordSteps(DeviceState& s, std::vector<DeviceState::Segment>* segments) const {
    if (!segments->empty()) s.stream().Wait();  // they may be at work
    std::vector<DeviceState::Segment> earlier = std::exchange(*segments, {});
    const size_t count = plan_.steps.size();
    for (size_t k = 0; k < count;) {
      DeviceState::Segment segment{k, k, {}};
      while (segment.end < count && CanRecord(s, segment.end)) ++segment.end;
      if (segment.end == k) {
        PlannedProgram::RunSteps(s, k, k + 1);
        ++k;
        continue;
      }
      for (DeviceState::Segment& e : earlier)
        if (e.begin == k && e.end == segment.end) segment.recorded = std::move(e.recorded);
      if (!Record(s, &segment)) continue;
      if (!segment.recorded.recording) {
        s.records = false;
        return PlannedProgram::RunSteps(s, k, count);
      }
      k = segment.end;
      segments->push_back(std::move(segment));
      Replay(s, segments->back());
    }
  }
  /// False, and the steps are noted, where the device refuses some of them; without a recording
  /// where it records nothing.
  bool Record(DeviceState& s, DeviceState::Segment* segment) const {
    size_t k = segment->begin;
    try {
      s.session->Record(
          [&] {
            for (; k < segment->end; ++k) PlannedProgram::RunSteps(s, k, k + 1);
          },
          &segment->recorded);
    } catch (const Error& e) {
      // A library may do what no graph can hold. A device that has failed will say so again.
      if (e.code() != ErrorCode::kDevice) throw;
      s.refused.resize(plan_.steps.size());
      const bool all = k == segment->end;  // no step by itself
      for (size_t r = all ? segment->begin : k; r < (all ? k : k + 1); ++r) s.refused[r] = true;
      WEFT_LOG(kWarning, "{} cannot be recorded, and is given to the device in every run: {}",
               all ? fmt::format("{} steps", k - segment->begin) : plan_.steps[k].name,
               e.message());
      return false;
    }
    return true;
  }
  /// Those with the extents and places of this run. A body goes on between two places, where its
  /// states swap; a program by itself has one, and follows it.
  DeviceState::Placed& RunsHere(DeviceState& s) const {
    std::vector<void*> places = s.base;
    places.push_back(s.frame);
    places.push_back(s.flags);
    std::vector<DeviceState::Placed>& all = RunsLike(s).placed;
    auto it = std::find_if(all.begin(), all.end(),
                           [&](const DeviceState::Placed& p) { return p.places == places; });
    if (it == all.end() && all.size() < (s.is_part() ? 2 : 1)) it = all.emplace(it);
    if (it == all.end()) it = all.begin();
    std::rotate(it, it + 1, all.end());
    DeviceState::Placed& a = all.back();
    if (a.places != places) {
      a.places = std::move(places);
      a.runs = 0;
    }
    return a;
  }
  DeviceState::Alike& RunsLike(DeviceState& s) const {
    if (DeviceState::Alike* known = s.alike.Find(s.binding)) return *known;
    if (s.alike.full()) s.stream().Wait();  // what goes may be at work
    return s.alike.Put(s.binding, {});
  }
  /// Constants are brought to the device once a program.
  void PlaceConstants(DeviceState& s) const {
    std::lock_guard lock(mutex_);
    if (!constants_) {
      std::map<int, std::shared_ptr<void>> places;
      for (const Value& v : plan_.values) {
        if (!v.constant || places.count(v.storage)) continue;
        const int64_t bytes = v.constant->num_bytes();
        const std::shared_ptr<void> place = backend_->Allocate(std::max<int64_t>(bytes, 1));
        places[v.storage] = place;
        s.session->Hold(place);  // until a failure has been waited for
        if (bytes > 0) s.stream().CopyIn(place.get(), v.constant->data(), bytes);
      }
      if (!places.empty()) s.stream().Wait();  // other sessions have streams of their own
      constants_ = std::move(places);
    }
    for (const auto& [storage, place] : *constants_) s.base[size_t(storage)] = place.get();
  }
  TensorPtr ShapeValue(size_t k, const Binding& b) const {
    const int v = plan_.steps[k].outputs[0];
    auto t = std::make_shared<Tensor>(plan_.values[size_t(v)].dtype, b.dims[size_t(v)]);
    for (int64_t i = 0; i < t->num_elements(); ++i) t->set_int(i, b.shape_values[k][size_t(i)]);
    return t;
  }

  /// Parts of elements that are smaller than bytes are the interpreter's.
  bool InWholeBytes(const Step& step) const {
    const auto whole = [&](int v) {
      return v < 0 || DTypeBits(plan_.values[size_t(v)].dtype) % 8 == 0;
    };
    return std::all_of(step.inputs.begin(), step.inputs.end(), whole) &&
           std::all_of(step.outputs.begin(), step.outputs.end(), whole);
  }
  /// What the host knows of a value before the device has it.
  KnownValue KnownOf(int v, const DeviceState& s) const {
    const Value& value = plan_.values[size_t(v)];
    if (NumElements(s.binding->dims[size_t(v)]) != 1) return {};
    if (value.constant) return {value.constant, true};
    const auto shape = shape_step_of_.find(v);
    if (shape != shape_step_of_.end()) return {ShapeValue(shape->second, *s.binding), true};
    const Storage& block = plan_.storages[size_t(value.storage)];
    if (block.kind != StorageKind::kInput) return {};
    const auto number = size_t(block.number);
    if (s.is_part()) return number < s.known_inputs.size() ? s.known_inputs[number] : KnownValue{};
    const TensorPtr& fed = s.fed[number];
    return fed->dtype() == value.dtype && fed->on_host() ? KnownValue{fed, false} : KnownValue{};
  }
  /// A tensor of the device at the place of a value, of elements in order.
  std::shared_ptr<Tensor> Lying(int v, const DeviceState& s) const {
    return std::make_shared<Tensor>(plan_.values[size_t(v)].dtype, s.binding->dims[size_t(v)],
                                    Pointer(s, v), nullptr);
  }
  void RunBodies(const Step& step, size_t k, DeviceState& s) const {
    const int64_t given = s.session->given(), asked = s.session->asked();
    std::vector<TensorPtr> inputs;
    std::vector<KnownValue> known;
    for (int v : step.inputs) {
      const bool plain = v < 0 || plan_.values[size_t(v)].layout == Layout::kPlain;
      inputs.push_back(v < 0 ? nullptr : plain ? Lying(v, s) : InOrder(v, s));
      known.push_back(v < 0 ? KnownValue{} : KnownOf(v, s));
    }
    ResultTensors results;
    for (int v : step.outputs)
      results.push_back(plan_.values[size_t(v)].layout == Layout::kPlain ? Lying(v, s) : nullptr);
    RunNodeOnDevice(step.node, bodies_.at(k), inputs, known, s.session, &s.bodies, &s, &results);
    for (size_t i = 0; i < results.size(); ++i) {
      const int v = step.outputs[i];
      const Tensor& t = *results[i];
      const std::vector<int64_t>& dims = s.binding->dims[size_t(v)];
      WEFT_CHECK(t.dims() == dims, kShapeMismatch,
                 "{}: result {} has the shape {}, {} was inferred", step.node->Describe(), i,
                 t.shape().ToString(), Shape::OfInts(dims).ToString());
      if (plan_.values[size_t(v)].layout != Layout::kPlain)
        PutInLayout(v, t, s);
      else if (t.data() != Pointer(s, v))
        Copy(s, Pointer(s, v), t.data(), t.num_bytes());
    }
    if (s.session->is_recording()) return;
    std::vector<bool>& stays = RunsLike(s).stays;
    stays.resize(plan_.steps.size());
    stays[k] =
        stays[k] || asked != s.session->asked() || s.session->given() - given > kMostRecorded;
  }
  /// Through the host: a plain tensor for a value that lies otherwise, and the reverse.
  std::shared_ptr<Tensor> InOrder(int v, DeviceState& s) const {
    const std::shared_ptr<Tensor> t = s.session->Fetch(*Lying(v, s));
    s.session->WaitForHost();
    return s.session->Bring(*InLayout(t, plan_.values[size_t(v)].layout, Layout::kPlain));
  }
  void PutInLayout(int v, const Tensor& plain, DeviceState& s) const {
    const std::shared_ptr<Tensor> t = s.session->Fetch(plain);
    s.session->WaitForHost();
    const TensorPtr there = InLayout(t, Layout::kPlain, plan_.values[size_t(v)].layout);
    if (there->num_bytes() > 0) s.stream().CopyIn(Pointer(s, v), there->data(), there->num_bytes());
  }

  void InterpretOnHost(const Step& step, DeviceState& s) const {
    const Binding& b = *s.binding;
    std::vector<std::shared_ptr<Tensor>> lying;
    for (int v : step.inputs) lying.push_back(v < 0 ? nullptr : s.session->Fetch(*Lying(v, s)));
    s.session->WaitForHost();
    std::vector<TensorPtr> in;
    for (size_t i = 0; i < lying.size(); ++i)
      in.push_back(
          lying[i] ? InLayout(lying[i], plan_.values[size_t(step.inputs[i])].layout, Layout::kPlain)
                   : nullptr);
    const std::vector<TensorPtr> out = Interpret(step, b, in);
    for (size_t i = 0; i < out.size(); ++i) {
      const TensorPtr t =
          InLayout(out[i], Layout::kPlain, plan_.values[size_t(step.outputs[i])].layout);
      if (t->num_bytes() > 0)
        s.stream().CopyIn(Pointer(s, step.outputs[i]), t->data(), t->num_bytes());
    }
  }

  int flags_ = 0;                          ///< steps with a range flag
  std::vector<int> flag_of_;               ///< by step: how many have one before it
  std::vector<bool> for_calls_;            ///< by storage: a library call has it for an operand
  std::map<size_t, BodyPrograms> bodies_;  ///< by step
  std::map<int, size_t> shape_step_of_;    ///< by value: what writes it, of those the host knows
  mutable std::mutex mutex_;
  mutable std::optional<std::map<int, std::shared_ptr<void>>> constants_;  ///< by storage
};

}  // namespace

std::unique_ptr<Program::Impl> MakeDeviceProgram(Graph graph, std::shared_ptr<Backend> backend) {
  return std::make_unique<DeviceProgram>(std::move(graph), std::move(backend));
}

}  // namespace weft
