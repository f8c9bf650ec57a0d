/// device_program.cc: runs a plan on a device with memory
/// of its own (weft/runtime/backend/device.h).
///
/// A run gives everything to one stream and waits once, when its results are on the host, or later
/// (Session::Start). Steps that no kernel and no call computes fetch their operands and run in the
/// interpreter. The third run with the same extents and places, and those after it, replay
/// recordings: one of all steps, or one of those between any two steps that need the host or that
/// the device cannot record.
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device_copy.h"
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

class DeviceProgram final : public PlannedProgram {
 public:
  DeviceProgram(Graph graph, std::shared_ptr<Backend> backend)
      : PlannedProgram(std::move(graph), std::move(backend)) {
    on_device_ = true;
    for (const Value& v : plan_.values)
      WEFT_CHECK(DTypeBits(v.dtype) > 0, kUnsupported, "tensors of {} have no place on a device",
                 DTypeName(v.dtype));
    for (const Step& step : plan_.steps) {
      flag_of_.push_back(flags_);
      flags_ += step.has_flag;
    }
  }

 protected:
  struct DeviceState final : PlannedState {
    Arena io;                  ///< what is fed and fetched, then the flags
    uint8_t* flags = nullptr;  ///< of the steps that have one, in order
    /// Steps that are replayed together.
    struct Segment {
      size_t begin = 0, end = 0;
      std::unique_ptr<DeviceStream::Recording> recording;
    };
    /// Runs with the same extents.
    struct Alike {
      /// Of all storages, scratch memory and flags, in the last of them.
      std::vector<void*> places;
      int runs = 0;  ///< with these places
      std::vector<Segment> segments;
    };
    static constexpr size_t kMostRecordings = 16;
    using Recordings = BoundedCache<std::shared_ptr<const Binding>, Alike>;
    Recordings alike{kMostRecordings, Evict::kLeastRecent};
    std::vector<Recordings> lost;  ///< may be at work until the stream is gone
    bool records = true;           ///< the device can
    bool is_recording = false;
    std::vector<bool> refused;  ///< by step: the device cannot record it
    /// Of copies under way, which a failure would let go of.
    std::vector<std::shared_ptr<void>> targets;
    std::unique_ptr<DeviceStream> stream;  ///< the last member: all above wait for its end
  };
  std::unique_ptr<State> NewState() const override {
    auto s = std::make_unique<DeviceState>();
    s->stream = backend_->device()->NewStream();
    return s;
  }
  static DeviceState& Of(PlannedState& s) { return static_cast<DeviceState&>(s); }

  void Begin(PlannedState& state, const std::vector<TensorPtr>& inputs,
             const std::vector<std::shared_ptr<Tensor>>& outputs) const override {
    DeviceState& s = Of(state);
    const size_t fed = plan_.num_fed();
    int64_t size = 0;
    const auto reserve = [&](int64_t bytes) {
      const int64_t at = size;
      size = CheckedRoundUp(CheckedAdd(size, std::max<int64_t>(bytes, 1)), kAlign);
      return at;
    };
    std::vector<int64_t> in_at, out_at;
    for (size_t i = 0; i < fed; ++i) in_at.push_back(reserve(inputs[i]->num_bytes()));
    for (const auto& t : outputs) out_at.push_back(reserve(t->num_bytes()));
    const int64_t flags_at = reserve(flags_);
    if (!s.io.Fits(size)) s.stream->Wait();
    char* io = s.io.Reserve(*backend_, size);
    for (size_t k = 0; k < plan_.storages.size(); ++k) {
      const Storage& block = plan_.storages[k];
      if (block.kind == StorageKind::kInput)
        s.base[k] = io + in_at[size_t(block.number)];
      else if (block.kind == StorageKind::kOutput)
        s.base[k] = io + out_at[size_t(block.number)];
    }
    PlaceConstants(s);
    for (size_t i = 0; i < fed; ++i)
      if (inputs[i]->num_bytes() > 0)
        s.stream->CopyIn(io + in_at[i], inputs[i]->data(), inputs[i]->num_bytes());
    for (size_t i = 0; i < plan_.variables.size(); ++i) {
      const int v = plan_.input_values[fed + i];
      s.base[size_t(plan_.values[size_t(v)].storage)] =
          s.device_variables[i]->On(backend_, *s.stream, s.variables[i], plan_.written[i]);
    }
    s.flags = reinterpret_cast<uint8_t*>(io + flags_at);
    if (flags_ > 0) s.stream->Clear(s.flags, flags_);
  }

  void RunSteps(PlannedState& state) const override {
    DeviceState& s = Of(state);
    auto& a = RunsLike(s);
    std::vector<void*> places = s.base;
    places.push_back(s.scratch);
    places.push_back(s.flags);
    if (a.places != places) {
      a.places = std::move(places);
      a.runs = 0;
    }
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
      if (!s.is_recording) stats_.launches.Add();
      step.device_launcher->Enqueue(*s.stream, s.buffers.data(), b.kernel_dims[k].data());
    } else if (step.kind == StepKind::kLibrary && b.calls[k]) {
      const size_t n = FillBuffers(step, s);
      if (!s.is_recording) stats_.launches.Add();
      static_cast<const DeviceCall&>(*b.calls[k])
          .Enqueue(*s.stream, s.buffers.data(), s.buffers.data() + n, s.scratch);
    } else if (step.kind == StepKind::kShapeValue) {
      const int v = step.outputs[0];
      Tensor t(plan_.values[size_t(v)].dtype, b.dims[size_t(v)]);
      for (int64_t i = 0; i < t.num_elements(); ++i) t.set_int(i, b.shape_values[k][size_t(i)]);
      if (t.num_bytes() > 0) s.stream->CopyIn(Pointer(s, v), t.data(), t.num_bytes());
    } else {
      InterpretOnHost(step, s);
    }
  }
  void Copy(PlannedState& s, void* to, const void* from, int64_t bytes) const override {
    if (bytes > 0) Of(s).stream->Copy(to, from, bytes);
  }
  void Wait(PlannedState& s) const override { Of(s).stream->Wait(); }

  /// What was given still goes to its places before they can be given back.
  void Abandon(PlannedState& state) const override {
    DeviceState& s = Of(state);
    try {
      s.stream->Wait();
      s.targets.clear();
    } catch (const std::exception&) {
      // Wait has reported the failure. The stream may still be working: keep what it uses.
      s.lost.push_back(std::move(s.alike));
    }
    s.alike.clear();
  }

  Rest End(PlannedState& state, const std::vector<std::shared_ptr<Tensor>>& outputs,
           bool later) const override {
    DeviceState& s = Of(state);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i]->num_bytes() > 0)
        s.stream->CopyOut(outputs[i]->mutable_data(), Pointer(s, plan_.output_values[i]),
                          outputs[i]->num_bytes());
    const auto raised = std::make_shared<std::vector<uint8_t>>(size_t(flags_));
    s.targets.push_back(raised);
    if (flags_ > 0) s.stream->CopyOut(raised->data(), s.flags, flags_);
    const auto check = [this, raised] {
      size_t flag = 0;
      for (const Step& step : plan_.steps)
        if (step.has_flag && (*raised)[flag++]) ThrowOutside(step);
    };
    const std::shared_ptr<DeviceStream::Point> end = later ? s.stream->Mark() : nullptr;
    if (!later) s.stream->Wait();
    s.stream->EndRun();
    for (DeviceCopy* v : s.device_variables) v->UsedUntil(end);
    s.targets.clear();  // `check` has them
    if (!end) {
      check();
      return {};
    }
    return {[end] { return end->Reached(); },
            [&stream = *s.stream, end, check] {
              stream.Wait(*end);
              check();
            }};
  }

 private:
  bool CanRecord(const DeviceState& s, size_t k) const {
    const Step& step = plan_.steps[k];
    const bool on_host = step.kind == StepKind::kInterpreter ||
                         (step.kind == StepKind::kLibrary && !s.binding->calls[k]);
    return !on_host && (s.refused.empty() || !s.refused[k]);
  }
  void Replay(DeviceState& s, const DeviceState::Segment& segment) const {
    RequestScope::Poll();
    stats_.replays.Add();
    s.stream->Replay(*segment.recording);
  }
  /// Runs all steps at the places of this run: what the device records is left in `segments`,
  /// which hold recordings of the same steps at other places. What it refuses ends a segment, and
  /// is not tried again.
  void RecordSteps(DeviceState& s, std::vector<DeviceState::Segment>* segments) const {
    if (!segments->empty()) s.stream->Wait();  // they may be at work
    std::vector<DeviceState::Segment> earlier = std::exchange(*segments, {});
    const size_t count = plan_.steps.size();
    for (size_t k = 0; k < count;) {
      DeviceState::Segment segment{k, k, nullptr};
      while (segment.end < count && CanRecord(s, segment.end)) ++segment.end;
      if (segment.end == k) {
        PlannedProgram::RunSteps(s, k, k + 1);
        ++k;
        continue;
      }
      for (DeviceState::Segment& e : earlier)
        if (e.begin == k && e.end == segment.end) segment.recording = std::move(e.recording);
      if (!Record(s, &segment)) continue;
      if (!segment.recording) {
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
    struct Recording {
      bool& is_on;
      explicit Recording(bool& on) : is_on(on) { on = true; }
      ~Recording() { is_on = false; }
    } recording(s.is_recording);
    size_t k = segment->begin;
    try {
      segment->recording = s.stream->Record(
          [&] {
            for (; k < segment->end; ++k) PlannedProgram::RunSteps(s, k, k + 1);
          },
          std::move(segment->recording));
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
  DeviceState::Alike& RunsLike(DeviceState& s) const {
    if (DeviceState::Alike* known = s.alike.Find(s.binding)) return *known;
    if (s.alike.full()) s.stream->Wait();  // what goes may be at work
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
        s.targets.push_back(place);  // until a failure has been waited for
        if (bytes > 0) s.stream->CopyIn(place.get(), v.constant->data(), bytes);
      }
      if (!places.empty()) s.stream->Wait();  // other sessions have streams of their own
      s.targets.clear();
      constants_ = std::move(places);
    }
    for (const auto& [storage, place] : *constants_) s.base[size_t(storage)] = place.get();
  }
  void InterpretOnHost(const Step& step, DeviceState& s) const {
    const Binding& b = *s.binding;
    std::vector<std::shared_ptr<Tensor>> lying;
    for (int v : step.inputs) {
      lying.push_back(
          v < 0 ? nullptr
                : std::make_shared<Tensor>(plan_.values[size_t(v)].dtype, b.dims[size_t(v)]));
      s.targets.push_back(lying.back());
      if (v >= 0 && lying.back()->num_bytes() > 0)
        s.stream->CopyOut(lying.back()->mutable_data(), Pointer(s, v), lying.back()->num_bytes());
    }
    stats_.host_waits.Add();
    s.stream->Wait();
    s.targets.clear();
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
        s.stream->CopyIn(Pointer(s, step.outputs[i]), t->data(), t->num_bytes());
    }
  }

  int flags_ = 0;             ///< steps with a range flag
  std::vector<int> flag_of_;  ///< by step: how many have one before it
  mutable std::mutex mutex_;
  mutable std::optional<std::map<int, std::shared_ptr<void>>> constants_;  ///< by storage
};

}  // namespace

std::unique_ptr<Program::Impl> MakeDeviceProgram(Graph graph, std::shared_ptr<Backend> backend) {
  return std::make_unique<DeviceProgram>(std::move(graph), std::move(backend));
}

}  // namespace weft
