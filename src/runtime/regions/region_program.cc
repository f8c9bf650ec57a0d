/// region_program.cc: programs of graphs whose sizes depend on data, or that hold tensors without a
/// place in an arena: regions (passes/regions), and what stands between them.
///
/// A run goes through the nodes in order. A region is a program of its own, bound by the dimensions
/// of its operands; a node between two runs by programs of its bodies, by a routine of the library,
/// or in the Evaluator. What they give each other are tensors of the session, of the sizes that
/// came: those of regions and of routines are kept for the next run, and all regions share one
/// arena, as no two run at once. State variables are written last (state_values.h), so a run that
/// fails leaves them as they were. On a device a tensor is where somebody made it, and comes to the
/// other side when something there reads it.
///
///   never   compiles
///   cost    beyond that of the regions: a look at the extents of the operands of each
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "found_sizes.h"
#include "region_report.h"
#include "runtime/program/body_programs.h"
#include "runtime/program/device_bodies.h"
#include "runtime/program/device_session.h"
#include "runtime/program/planned_program.h"
#include "runtime/program/result_tensors.h"
#include "runtime/program/step_times.h"
#include "sized_places.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/placement.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft {
namespace {

class RegionProgram final : public Program::Impl {
 public:
  RegionProgram(Graph graph, const std::shared_ptr<Backend>& backend)
      : backend_(backend), device_(backend->device() ? backend : nullptr), found_(graph) {
    if (device_) place_ = device_->device()->place();
    graph_ = std::move(graph);
    for (const NodePtr& p : graph_.AllInputs()) inputs_at_.push_back(SlotOf(NodeEntry(p)));
    for (const NodePtr& v : StateVariables(graph_)) variables_at_.push_back(SlotOf(NodeEntry(v)));
    for (const NodePtr& n : graph_.TopoOrder()) {
      if (!n->is_variable() && !Graph::ConstantOf(NodeEntry(n))) Add(n, backend);
    }
    for (const NodeEntry& e : graph_.outputs) outputs_at_.push_back(SlotOf(e));
    output_in_.assign(constants_.size(), -1);
    for (size_t k = outputs_at_.size(); k-- > 0;) output_in_[size_t(outputs_at_[k])] = int(k);
    FindLastUses();
    between_.assign(constants_.size(), 0);
    for (const Instruction& i : instructions_)
      for (int slot : i.out)
        between_[size_t(slot)] = i.kind != Kind::kRegion && output_in_[size_t(slot)] < 0;
    const TypeMap& types = graph_.GetAttr<TypeMap>("dtype");
    const ShapeMap& shapes = graph_.GetAttr<ShapeMap>("shape");
    found_at_.assign(constants_.size(), -1);
    int tensors = 0;
    for (const Instruction& i : instructions_)
      for (uint32_t k = 0; k < i.out.size(); ++k) {
        const auto slot = size_t(i.out[k]);
        const bool kept = i.kind == Kind::kRegion || i.kind == Kind::kSized;
        if (!kept || output_in_[slot] >= 0 || found_at_[slot] >= 0) continue;
        found_at_[slot] = tensors++;
        found_.Add(types[NodeEntry(i.node, k)], shapes[NodeEntry(i.node, k)]);
      }
  }

  MemoryReport Report(const std::vector<TensorPtr>& tensors) const override {
    return ReportRegions(*this, *backend_, tensors);
  }

  std::unique_ptr<State> NewState() const override {
    auto s = std::make_unique<RegionState>();
    s->arena = std::make_shared<Arena>();
    return s;
  }
  void TakeCallOptions(const CallOptions& options) override {
    Program::Impl::TakeCallOptions(options);
    for (Instruction& i : instructions_) i.bodies.TakeCallOptions(options);
  }

  void Run(State& state, const std::vector<TensorPtr>& inputs,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    auto& s = static_cast<RegionState&>(state);
    struct Release {  // also where it throws: what is fed is the caller's
      RegionState& state;
      ~Release() {
        state.slots.clear();
        state.there.clear();
      }
    } release{s};
    s.slots = constants_;
    s.kept.resize(constants_.size());
    s.blocks.resize(constants_.size());
    s.arena_bytes = s.live_bytes = s.inside_bytes = s.bytes_moved = 0;
    s.tensor_bytes = s.scratch_bytes = 0;
    s.tensors = s.most_tensors = 0;
    s.kernels_failed = 0;
    s.ahead = found_.At(inputs, s.bounds, &s.last);
    for (size_t slot = 0; slot < found_at_.size(); ++slot)
      if (found_at_[slot] >= 0)
        s.blocks[slot].least = s.ahead ? s.ahead->bytes[size_t(found_at_[slot])] : 0;
    struct Around {  // for what runs inside
      RegionState& state;
      std::shared_ptr<const FrameBounds> bounds;
      ~Around() { state.bounds = std::move(bounds); }
    } around{s, s.bounds};
    if (s.ahead && s.ahead->bounds) s.bounds = s.ahead->bounds;
    if (device_) BeginOnDevice(s);
    for (size_t i = 0; i < inputs.size(); ++i)
      Put(inputs_at_[i], inputs[i], s.is_part() || !inputs[i]->on_host(), s);
    for (size_t i = 0; i < variables_at_.size(); ++i)
      s.slots[size_t(variables_at_[i])] = s.variables[i];
    if (s.is_profiled) s.timed.resize(instructions_.size());
    try {
      for (size_t k = 0; k < instructions_.size(); ++k) {
        const Instruction& i = instructions_[k];
        RequestScope::Poll();
        if (i.kind == Kind::kRegion)
          RunRegion(i, s, s.is_profiled ? &s.timed[k] : nullptr, *outputs);
        else
          RunBetween(i, s, s.is_profiled ? &s.timed[k] : nullptr, *outputs);
        for (int slot : i.last_uses) {
          if (between_[size_t(slot)]) s.tensors -= s.TakenAt(slot);
          s.Drop(slot);
        }
      }
      s.arena_bytes += s.most_tensors;
      for (size_t slot = 0; slot < s.kept.size(); ++slot)
        if (s.kept[slot]) s.arena_bytes += std::max(BytesOf(s.kept[slot]), s.blocks[slot].least);
      for (size_t i = 0; i < outputs->size(); ++i) GiveOut(i, s, outputs);
      s.output_bytes = 0;
      for (const auto& t : *outputs) s.output_bytes += t->is_tensor() ? BytesOf(t) : 0;
      if (device_ && !s.is_part()) EndOnDevice(s);
      WriteVariables(s);
    } catch (...) {
      if (s.session) s.session->Drain();
      throw;
    }
  }

  void TakeTimes(State& state, const std::string& in, std::vector<StepTime>* times) const override {
    static constexpr const char* kKinds[] = {"region", "bodies", "shape", "library", "interpreter"};
    auto& s = static_cast<RegionState&>(state);
    int regions = 0;
    for (size_t k = 0; k < s.timed.size(); ++k) {
      const Instruction& i = instructions_[k];
      const bool region = i.kind == Kind::kRegion;
      const std::string name = region ? fmt::format("region {}", ++regions) : i.bodies.Name();
      if (s.timed[k].times == 0) continue;
      std::vector<StepTime> inside;
      if (region) {
        const Program::Impl& program = *i.bodies.Find("body");
        program.TakeTimes(StateOf(program, &s.bodies), PlaceIn(in, name), &inside);
      } else if (i.kind == Kind::kBodies) {
        i.bodies.TakeTimes(&s.bodies, in, &inside);
      }
      AppendTimes(s.timed[k].Row(name, kKinds[int(i.kind)], in), std::move(inside), times);
    }
    s.timed.clear();
  }

 private:
  /// kRegion: a program. kBodies: by programs of its bodies. kHost: by its FHostEval, which needs
  /// no graph around the node. kSized: by the library's FSizedCompute, or in the Evaluator.
  /// kEvaluate: in the Evaluator.
  enum class Kind : uint8_t { kRegion, kBodies, kHost, kSized, kEvaluate };
  struct Instruction {
    Kind kind;
    NodePtr node;
    BodyPrograms bodies;
    const FSizedCompute* sized = nullptr;
    std::vector<int> in, out;    ///< slots; -1: absent
    std::vector<int> last_uses;  ///< slots that nothing behind it reads
  };
  struct RegionState final : State {
    ~RegionState() override {
      if (session) session->Drain();
    }
    std::shared_ptr<DeviceSession> session;     ///< on a device; of which run it is part of, or own
    std::vector<TensorPtr> slots, there;        ///< of one run: the host's, the device's
    std::vector<TensorPtr> placed;              ///< constants on the device, by slot
    std::vector<std::shared_ptr<Tensor>> kept;  ///< results of regions, from run to run, by slot
    std::vector<KeptBlock> blocks;              ///< of what lies between, the same way
    BodyStates bodies;
    std::vector<TimedStep> timed;           ///< by instruction, of profiled runs
    int64_t tensors = 0, most_tensors = 0;  ///< bytes between regions, now and at most
    FoundSizes::Last last;
    std::shared_ptr<const FoundSizes::Ahead> ahead;  ///< of this run; null: nothing is known
    int64_t TakenAt(int slot) const {
      const TensorPtr& t = slots[size_t(slot)];
      return std::max(BytesOf(t || !session ? t : there[size_t(slot)]), blocks[size_t(slot)].least);
    }
    /// Its operands and results lie on the device.
    bool is_part() const { return device != nullptr; }
    void Drop(int slot) {
      slots[size_t(slot)].reset();
      if (session) there[size_t(slot)].reset();
    }
  };

  int SlotOf(const NodeEntry& e) {
    const auto [it, fresh] = slot_of_.try_emplace(e.key(), int(constants_.size()));
    if (fresh) constants_.push_back(Graph::ConstantOf(e));
    return it->second;
  }
  void Add(const NodePtr& n, const std::shared_ptr<Backend>& backend) {
    if (IsOp(n, builtin::kAssign)) {
      writes_.push_back({SlotOf(n->inputs[0]), SlotOf(n->inputs[1])});
      return;
    }
    Instruction i{Kind::kEvaluate, n, BodyPrograms(n, backend), nullptr, {}, {}, {}};
    for (const NodeEntry& e : n->inputs) i.in.push_back(e.node ? SlotOf(e) : -1);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) i.out.push_back(SlotOf(NodeEntry(n, k)));
    if (IsOp(n, builtin::kRegion)) {
      WEFT_CHECK(!i.bodies.empty(), kUnsupported, "{}: its body has no plan", n->Describe());
      i.kind = Kind::kRegion;
    } else if (!i.bodies.empty() && RunsBodies(backend->target(), n) &&
               (!device_ || InWholeBytes(n))) {
      i.kind = Kind::kBodies;
    } else if (IsOp(n, builtin::kSizes)) {
      i.kind = Kind::kHost;
      ++stats_.host_steps;
    } else if ((i.sized = device_ ? nullptr : SizedRoutine(*backend, n))) {
      i.kind = Kind::kSized;
      ++stats_.library_calls;
    } else {
      const std::string why = GetEvaluator()->WhyNot(n);
      WEFT_CHECK(why.empty(), kUnsupported, "{}: {}", n->Describe(), why);
      ++stats_.interpreted;
    }
    i.bodies.AddTo(&stats_);
    num_flags_ += i.bodies.num_flags();
    instructions_.push_back(std::move(i));
  }
  /// Nothing on a device cuts a byte.
  bool InWholeBytes(const NodePtr& n) const {
    const TypeMap& types = graph_.GetAttr<TypeMap>("dtype");
    const auto whole = [&](const NodeEntry& e) {
      const Type t = e.node ? types[e] : Type();
      return !t.is_tensor() || !t.known() || DTypeBits(t.dtype) % 8 == 0;
    };
    bool all = std::all_of(n->inputs.begin(), n->inputs.end(), whole);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) all = all && whole(NodeEntry(n, k));
    return all;
  }
  void FindLastUses() {
    std::vector<char> read(constants_.size(), 0);
    for (int slot : outputs_at_) read[size_t(slot)] = 1;
    for (const Write& w : writes_) read[size_t(w.value)] = 1;
    for (auto i = instructions_.rbegin(); i != instructions_.rend(); ++i)
      for (const auto* slots : {&i->in, &i->out})
        for (int slot : *slots) {
          if (slot < 0 || read[size_t(slot)] || constants_[size_t(slot)]) continue;
          read[size_t(slot)] = 1;
          i->last_uses.push_back(slot);
        }
  }

  void BeginOnDevice(RegionState& s) const {
    if (s.is_part())
      s.session = s.device;
    else if (!s.session)
      s.session = std::make_shared<DeviceSession>(device_, num_flags_, stats_);
    s.there.assign(constants_.size(), nullptr);
    s.placed.resize(constants_.size());
    if (!s.is_part()) s.session->ClearFlags();
  }
  void EndOnDevice(RegionState& s) const {
    const std::function<void()> check = s.session->FetchFlags();
    s.session->stream().Wait();
    s.session->EndRun(/*later=*/false);
    check();
  }
  /// `on_device`: that is where it lies, if it has a place there.
  static void Put(int slot, TensorPtr t, bool on_device, RegionState& s) {
    auto& slots = on_device && LiesOnDevice(*t) ? s.there : s.slots;
    slots[size_t(slot)] = std::move(t);
  }
  static std::vector<TensorPtr> OnHost(const std::vector<int>& slots, RegionState& s) {
    bool fetches = false;
    for (int slot : slots) {
      if (!s.session || slot < 0 || s.slots[size_t(slot)]) continue;
      s.slots[size_t(slot)] = s.session->Fetch(*s.there[size_t(slot)]);
      fetches = true;
    }
    if (fetches) s.session->WaitForHost();
    std::vector<TensorPtr> in;
    for (int slot : slots) in.push_back(slot < 0 ? nullptr : s.slots[size_t(slot)]);
    return in;
  }
  TensorPtr OnDevice(int slot, RegionState& s) const {
    const auto k = size_t(slot);
    if (!s.there[k] && !LiesOnDevice(*s.slots[k])) return s.slots[k];
    if (s.there[k]) return s.there[k];
    if (!constants_[k]) return s.there[k] = s.session->Bring(*s.slots[k]);
    if (!s.placed[k]) s.placed[k] = s.session->Bring(*constants_[k]);
    return s.there[k] = s.placed[k];
  }
  std::vector<TensorPtr> OnDevice(const Instruction& i, RegionState& s) const {
    std::vector<TensorPtr> in;
    for (int slot : i.in) in.push_back(slot < 0 ? nullptr : OnDevice(slot, s));
    return in;
  }
  /// What the host has of the operands.
  std::vector<KnownValue> KnownOf(const Instruction& i, const RegionState& s) const {
    std::vector<KnownValue> known(i.in.size());
    for (size_t k = 0; k < i.in.size(); ++k)
      if (const TensorPtr t = i.in[k] < 0 ? nullptr : s.slots[size_t(i.in[k])])
        if (LiesOnDevice(*t) && t->num_elements() == 1)
          known[k] = {t, constants_[size_t(i.in[k])] != nullptr};
    return known;
  }
  void RunRegion(const Instruction& i, RegionState& s, TimedStep* timed,
                 std::vector<std::shared_ptr<Tensor>>& outputs) const {
    std::optional<Stopwatch> watch;
    if (timed) watch.emplace(timed);
    const Program::Impl& program = *i.bodies.Find("body");
    State& state = StateOf(program, &s.bodies);
    state.arena = s.arena;
    state.is_profiled = s.is_profiled;
    state.device = s.session;
    state.make_result = nullptr;
    state.apart.clear();
    if (s.make_result)
      state.make_result = [this, &i, &s](size_t k, DType dtype, const std::vector<int64_t>& dims) {
        const int output = OutputAt(i.out[k], s);
        return output < 0 ? std::make_shared<Tensor>(dtype, dims)
                          : NewResult(s, size_t(output), dtype, dims);
      };
    if (s.session) state.known_inputs = KnownOf(i, s);
    ResultTensors results;
    for (int slot : i.out) {
      const int output = OutputAt(slot, s);
      std::shared_ptr<Tensor> place =
          std::move(output < 0 ? s.kept[size_t(slot)] : outputs[size_t(output)]);
      // A recording would go on using a place that is given up.
      const bool fixed = s.session && s.session->is_recording();
      const bool free =
          place && !fixed && (place.use_count() == 1 || (output >= 0 && s.keeps_outputs));
      results.push_back(free ? std::move(place) : nullptr);
    }
    struct PutBack {  // also where it throws: places are the caller's, or for the next run
      const RegionProgram& program;
      const Instruction& i;
      RegionState& s;
      ResultTensors& results;
      std::vector<std::shared_ptr<Tensor>>& outputs;
      ~PutBack() {
        for (size_t k = 0; k < results.size(); ++k) {
          const int output = program.OutputAt(i.out[k], s);
          auto& place = output < 0 ? s.kept[size_t(i.out[k])] : outputs[size_t(output)];
          if (results[k]) place = std::move(results[k]);
        }
      }
    } put_back{*this, i, s, results, outputs};
    state.bounds = s.bounds;
    const KeptResults kept(*this, i, s, &state);
    program.Run(state, s.session ? OnDevice(i, s) : OnHost(i.in, s), &results);
    for (size_t k = 0; k < results.size(); ++k) Put(i.out[k], results[k], s.session != nullptr, s);
    s.arena_bytes = std::max(s.arena_bytes, state.arena_bytes);
    s.inside_bytes = std::max(s.inside_bytes, state.inside_bytes);
    s.live_bytes = std::max(s.live_bytes, state.live_bytes);
    s.tensor_bytes = std::max(s.tensor_bytes, state.tensor_bytes);
    s.scratch_bytes = std::max(s.scratch_bytes, state.scratch_bytes);
    s.bytes_moved += state.bytes_moved;
    s.kernels_failed += state.kernels_failed;
  }
  /// False: the routine does not take such operands.
  bool RunSized(const Instruction& i, RegionState& s, const std::vector<TensorPtr>& in,
                std::vector<std::shared_ptr<Tensor>>& outputs, std::vector<TensorPtr>* out) const {
    SizedPlaces places(*backend_, &s);
    for (int slot : i.out) {
      const int output = output_in_[size_t(slot)];
      if (output >= 0)
        places.AddOutput(&outputs[size_t(output)], size_t(output));
      else
        places.AddKept(&s.blocks[size_t(slot)]);
    }
    try {
      if (!(*i.sized)(i.node, in, backend_->threads(), &places)) return false;
    } catch (Error& e) {
      e.AddPlace(i.node->Describe());
      throw;
    }
    for (size_t k = 0; k < i.out.size(); ++k) out->push_back(places.Take(k));
    return true;
  }
  /// Results of a region that stay between regions, in the blocks of their slots.
  class KeptResults final : public ResultMaker {
   public:
    /// `of`: the state of the region, which gives its results to this one while it lives.
    KeptResults(const RegionProgram& program, const Instruction& i, RegionState& s, State* of)
        : program_(program), i_(i), s_(s), of_(*of) {
      of_.results = this;
    }
    ~KeptResults() override { of_.results = nullptr; }
    KeptResults(const KeptResults&) = delete;
    KeptResults& operator=(const KeptResults&) = delete;
    std::shared_ptr<Tensor> NewResult(size_t k, DType dtype,
                                      const std::vector<int64_t>& dims) override {
      const int slot = i_.out[k];
      if (program_.OutputAt(slot, s_) >= 0) return nullptr;
      KeptBlock& block = s_.blocks[size_t(slot)];
      if (!s_.session) return block.Place(*program_.backend_, dtype, dims);
      if (block.least == 0) return nullptr;
      const int64_t bytes = std::max(block.least, DTypeBytes(dtype, NumElements(dims)));
      const auto memory = s_.session->NewTensor(DType::kU8, {bytes});
      return std::make_shared<Tensor>(dtype, dims, memory->mutable_data(), memory);
    }

   private:
    const RegionProgram& program_;
    const Instruction& i_;
    RegionState& s_;
    State& of_;
  };
  /// The output that a region may write for that slot; -1: none.
  int OutputAt(int slot, const RegionState& s) const {
    return s.session && !s.is_part() ? -1 : output_in_[size_t(slot)];
  }
  void RunBetween(const Instruction& i, RegionState& s, TimedStep* timed,
                  std::vector<std::shared_ptr<Tensor>>& outputs) const {
    if (timed && s.session) s.session->stream().Wait();
    std::optional<Stopwatch> watch;
    if (timed) watch.emplace(timed);
    const bool on_device = s.session && i.kind == Kind::kBodies;
    const std::vector<TensorPtr> in = on_device ? OnDevice(i, s) : OnHost(i.in, s);
    std::vector<TensorPtr> out;
    if (i.kind == Kind::kBodies) {
      ResultTensors results(i.out.size());
      if (on_device)
        RunNodeOnDevice(i.node, i.bodies, in, KnownOf(i, s), s.session, &s.bodies, &s, &results);
      else
        i.bodies.RunNode(in, &s.bodies, &s, &results);
      out.assign(results.begin(), results.end());
    } else if (i.kind == Kind::kHost) {
      static const auto& host = Op::GetAttr<FHostEval>("FHostEval");
      out = (*host.find(i.node->op()))(i.node, in);
    } else if (i.kind == Kind::kEvaluate || !RunSized(i, s, in, outputs, &out)) {
      if (s.session) s.session->CountAsked();  // it may draw
      out = GetEvaluator()->EvalNode(i.node, in, {});
    }
    if (timed && s.session) s.session->stream().Wait();
    watch.reset();
    CheckResults(i.node, out);
    if (timed) timed->Count(CostOf(i.node, in, out));
    for (size_t k = 0; k < out.size(); ++k) {
      Put(i.out[k], std::move(out[k]), on_device, s);
      if (between_[size_t(i.out[k])]) s.tensors += s.TakenAt(i.out[k]);
    }
    s.most_tensors = std::max(s.most_tensors, s.tensors);
  }
  static int64_t BytesOf(const TensorPtr& t) {
    if (!t || t->is_tensor()) return t ? t->num_bytes() : 0;
    int64_t bytes = 0;
    for (const TensorPtr& e : t->elements()) bytes += e->num_bytes();
    return bytes;
  }
  /// What regions behind it were planned for.
  void CheckResults(const NodePtr& n, const std::vector<TensorPtr>& out) const {
    const TypeMap& types = graph_.GetAttr<TypeMap>("dtype");
    const ShapeMap& shapes = graph_.GetAttr<ShapeMap>("shape");
    for (uint32_t k = 0; k < out.size(); ++k) {
      const Type want = types[NodeEntry(n, k)];
      const Shape shape = shapes[NodeEntry(n, k)];
      if (!out[k]) continue;
      WEFT_CHECK(!want.known() || out[k]->type() == want, kTypeMismatch,
                 "{}: result {} is {}, {} was inferred", n->Describe(), k,
                 out[k]->type().ToString(), want.ToString());
      WEFT_CHECK(!want.is_tensor() || !shape.has_rank() || out[k]->rank() == shape.rank(),
                 kShapeMismatch, "{}: result {} has the shape {}, {} was inferred", n->Describe(),
                 k, out[k]->shape().ToString(), shape.ToString());
    }
  }
  /// What a region gave is there already, in the first output that is it.
  void GiveOut(size_t i, RegionState& s, std::vector<std::shared_ptr<Tensor>>* outputs) const {
    const auto slot = size_t(outputs_at_[i]);
    std::shared_ptr<Tensor>& output = (*outputs)[i];
    if (s.is_part()) return GiveOnDevice(*OnDevice(int(slot), s), s, &output);
    const TensorPtr& here = s.slots[slot];
    WEFT_ICHECK(here || s.session, "output {} was not computed", i);
    const Tensor& t = here ? *here : *s.there[slot];
    if (output.get() == &t) return;
    if (!LiesOnDevice(t)) {
      output = NewResultOf(s, i, t);
      return;
    }
    if (!TakesResult(output, t.dtype(), t.dims(), s.keeps_outputs))
      output = NewResult(s, i, t.dtype(), t.dims());
    void* const to = output->mutable_data();
    if (here && output->on_host())
      CopyContent(t, output.get());
    else if (t.num_bytes() == 0)
      return;
    else if (here)
      s.session->stream().CopyIn(to, t.data(), t.num_bytes());
    else if (output->on_host())
      s.session->stream().CopyOut(to, t.data(), t.num_bytes());
    else
      s.session->stream().Copy(to, t.data(), t.num_bytes());
  }
  static bool FitsInto(const Tensor& t, const std::shared_ptr<Tensor>& place) {
    return place && place->is_tensor() && place->dtype() == t.dtype() && place->dims() == t.dims();
  }
  /// To the program around it.
  static void GiveOnDevice(const Tensor& t, RegionState& s, std::shared_ptr<Tensor>* output) {
    if (output->get() == &t) return;
    if (!LiesOnDevice(t)) {
      *output = OwnCopy(t);
      return;
    }
    if (!FitsInto(t, *output)) *output = s.session->NewTensor(t.dtype(), t.dims());
    if (t.num_bytes() > 0)
      s.session->stream().Copy((*output)->mutable_data(), t.data(), t.num_bytes());
  }

  const std::shared_ptr<Backend> backend_;
  /// The new content may be what another variable holds.
  void WriteVariables(RegionState& s) const {
    std::vector<TensorPtr> values;
    for (const Write& w : writes_) {
      TensorPtr value = OnHost({w.value}, s)[0];
      const Tensor& variable = *s.variables[size_t(VariableAt(w.variable))];
      WEFT_CHECK(value->dtype() == variable.dtype() && value->dims() == variable.dims(),
                 kShapeMismatch, "a state variable of the shape {} is assigned a value of {}",
                 variable.shape().ToString(), value->shape().ToString());
      const bool held = std::any_of(s.variables.begin(), s.variables.end(),
                                    [&](const auto& v) { return v == value; });
      values.push_back(held ? TensorPtr(OwnCopy(*value)) : std::move(value));
    }
    for (size_t k = 0; k < writes_.size(); ++k)
      CopyContent(*values[k], s.variables[size_t(VariableAt(writes_[k].variable))].get());
  }
  /// Which variable has that slot.
  long VariableAt(int slot) const {
    return std::find(variables_at_.begin(), variables_at_.end(), slot) - variables_at_.begin();
  }

  const std::shared_ptr<Backend> device_;  ///< null: on the host
  struct Write {
    int variable, value;  ///< slots
  };
  std::vector<Write> writes_;
  std::vector<int> variables_at_;
  std::vector<Instruction> instructions_;
  std::unordered_map<EntryKey, int> slot_of_;
  std::vector<TensorPtr> constants_;  ///< by slot; null: computed or fed
  std::vector<int> inputs_at_, outputs_at_;
  std::vector<int> output_in_;  ///< by slot: the first output that is in it; -1: none
  std::vector<char> between_;   ///< by slot: a result of what stands between regions, and no output
  FoundSizes found_;
  std::vector<int> found_at_;  ///< by slot: which tensor of `found_`; -1: none
};

}  // namespace

std::unique_ptr<Program::Impl> MakeRegionProgram(Graph graph, std::shared_ptr<Backend> backend) {
  return std::make_unique<RegionProgram>(std::move(graph), backend);
}

}  // namespace weft
