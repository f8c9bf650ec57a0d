/// region_program.cc: programs of graphs whose sizes depend on data, or that hold tensors without a
/// place in an arena: regions (passes/regions), and what stands between them.
///
/// A run goes through the nodes in order. A region is a program of its own, bound by the dimensions
/// of its operands; a node between two runs by programs of its bodies, by a routine of the library,
/// or in the Evaluator. What they give each other are tensors of the session, of the sizes that
/// came: those of regions and of routines are kept for the next run, and all regions share one
/// arena, as no two run at once.
///
///   never   compiles
///   cost    beyond that of the regions: a look at the extents of the operands of each
#include <chrono>
#include <unordered_map>

#include "body_programs.h"
#include "planned_program.h"
#include "sized_places.h"
#include "weft/core/graph/builtin_ops.h"
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
  RegionProgram(Graph graph, const std::shared_ptr<Backend>& backend) : backend_(backend) {
    graph_ = std::move(graph);
    for (const NodePtr& p : graph_.AllInputs()) inputs_at_.push_back(SlotOf(NodeEntry(p)));
    for (const NodePtr& n : graph_.TopoOrder()) {
      if (!n->is_variable() && !Graph::ConstantOf(NodeEntry(n))) Add(n, backend);
    }
    for (const NodeEntry& e : graph_.outputs) outputs_at_.push_back(SlotOf(e));
    output_in_.assign(constants_.size(), -1);
    for (size_t k = outputs_at_.size(); k-- > 0;) output_in_[size_t(outputs_at_[k])] = int(k);
    FindLastUses();
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
    s.slots = constants_;
    s.kept.resize(constants_.size());
    s.blocks.resize(constants_.size());
    s.arena_bytes = s.live_bytes = s.bytes_moved = 0;
    s.kernels_failed = 0;
    for (size_t i = 0; i < inputs.size(); ++i) s.slots[size_t(inputs_at_[i])] = inputs[i];
    for (const Instruction& i : instructions_) {
      RequestScope::Poll();
      if (i.kind == Kind::kRegion)
        RunRegion(i, s, *outputs);
      else
        RunBetween(i, s, *outputs);
      for (int slot : i.last_uses) s.slots[size_t(slot)].reset();
    }
    for (size_t i = 0; i < outputs->size(); ++i) GiveOut(i, s, outputs);
    s.slots.clear();
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
    std::vector<TensorPtr> slots;               ///< of one run
    std::vector<std::shared_ptr<Tensor>> kept;  ///< results of regions, from run to run, by slot
    std::vector<KeptBlock> blocks;              ///< of what lies between, the same way
    BodyStates bodies;
  };

  int SlotOf(const NodeEntry& e) {
    const auto [it, fresh] = slot_of_.try_emplace(e.key(), int(constants_.size()));
    if (fresh) constants_.push_back(Graph::ConstantOf(e));
    return it->second;
  }
  void Add(const NodePtr& n, const std::shared_ptr<Backend>& backend) {
    Instruction i{Kind::kEvaluate, n, BodyPrograms(n, backend), nullptr, {}, {}, {}};
    for (const NodeEntry& e : n->inputs) i.in.push_back(e.node ? SlotOf(e) : -1);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) i.out.push_back(SlotOf(NodeEntry(n, k)));
    if (IsOp(n, builtin::kRegion)) {
      WEFT_CHECK(!i.bodies.empty(), kUnsupported, "{}: its body has no plan", n->Describe());
      i.kind = Kind::kRegion;
    } else if (!i.bodies.empty() && RunsBodies(backend->target(), n)) {
      i.kind = Kind::kBodies;
    } else if (IsOp(n, builtin::kSizes)) {
      i.kind = Kind::kHost;
      ++stats_.host_steps;
    } else if ((i.sized = SizedRoutine(*backend, n))) {
      i.kind = Kind::kSized;
      ++stats_.library_calls;
    } else {
      const std::string why = GetEvaluator()->WhyNot(n);
      WEFT_CHECK(why.empty(), kUnsupported, "{}: {}", n->Describe(), why);
      ++stats_.interpreted;
    }
    i.bodies.AddTo(&stats_);
    instructions_.push_back(std::move(i));
  }
  void FindLastUses() {
    std::vector<char> read(constants_.size(), 0);
    for (int slot : outputs_at_) read[size_t(slot)] = 1;
    for (auto i = instructions_.rbegin(); i != instructions_.rend(); ++i)
      for (const auto* slots : {&i->in, &i->out})
        for (int slot : *slots) {
          if (slot < 0 || read[size_t(slot)] || constants_[size_t(slot)]) continue;
          read[size_t(slot)] = 1;
          i->last_uses.push_back(slot);
        }
  }

  static std::vector<TensorPtr> Operands(const Instruction& i, const RegionState& s) {
    std::vector<TensorPtr> in;
    for (int slot : i.in) in.push_back(slot < 0 ? nullptr : s.slots[size_t(slot)]);
    return in;
  }
  void RunRegion(const Instruction& i, RegionState& s,
                 std::vector<std::shared_ptr<Tensor>>& outputs) const {
    const Program::Impl& program = *i.bodies.Find("body");
    State& state = StateOf(program, &s.bodies);
    state.arena = s.arena;
    state.profile = s.profile;
    ResultTensors results;
    for (int slot : i.out) {
      const int output = output_in_[size_t(slot)];
      std::shared_ptr<Tensor> place =
          std::move(output < 0 ? s.kept[size_t(slot)] : outputs[size_t(output)]);
      const bool free = place && (place.use_count() == 1 || (output >= 0 && s.keeps_outputs));
      results.push_back(free ? std::move(place) : nullptr);
    }
    program.Run(state, Operands(i, s), &results);
    for (size_t k = 0; k < results.size(); ++k) {
      const int output = output_in_[size_t(i.out[k])];
      s.slots[size_t(i.out[k])] = results[k];
      if (output < 0)
        s.kept[size_t(i.out[k])] = std::move(results[k]);
      else
        outputs[size_t(output)] = std::move(results[k]);
    }
    s.arena_bytes = std::max(s.arena_bytes, state.arena_bytes);
    s.live_bytes = std::max(s.live_bytes, state.live_bytes);
    s.bytes_moved += state.bytes_moved;
    s.kernels_failed += state.kernels_failed;
  }
  /// False: the routine does not take such operands.
  bool RunSized(const Instruction& i, RegionState& s, const std::vector<TensorPtr>& in,
                std::vector<std::shared_ptr<Tensor>>& outputs) const {
    SizedPlaces places(*backend_, s.arena.get());
    for (int slot : i.out) {
      const int output = output_in_[size_t(slot)];
      if (output >= 0)
        places.AddOutput(&outputs[size_t(output)], s.keeps_outputs);
      else
        places.AddKept(&s.blocks[size_t(slot)]);
    }
    try {
      if (!(*i.sized)(i.node, in, backend_->threads(), &places)) return false;
    } catch (Error& e) {
      e.AddPlace(i.node->Describe());
      throw;
    }
    for (size_t k = 0; k < i.out.size(); ++k) s.slots[size_t(i.out[k])] = places.Take(k);
    return true;
  }
  void RunBetween(const Instruction& i, RegionState& s,
                  std::vector<std::shared_ptr<Tensor>>& outputs) const {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<TensorPtr> in = Operands(i, s);
    std::vector<TensorPtr> out;
    if (i.kind == Kind::kBodies) {
      ResultTensors results(i.out.size());
      i.bodies.RunNode(in, &s.bodies, &s, &results);
      out.assign(results.begin(), results.end());
    } else if (i.kind == Kind::kHost) {
      static const auto& host = Op::GetAttr<FHostEval>("FHostEval");
      out = (*host.find(i.node->op()))(i.node, in);
    } else if (i.kind == Kind::kEvaluate || !RunSized(i, s, in, outputs)) {
      out = GetEvaluator()->EvalNode(i.node, in, {});
    }
    for (size_t k = 0; k < out.size(); ++k) s.slots[size_t(i.out[k])] = std::move(out[k]);
    if (!s.profile) return;
    StepTime& t = s.profile->emplace_back();
    t.name = i.node->attrs.name;
    static constexpr const char* kKinds[] = {"", "bodies", "shape", "library", "interpreter"};
    t.kind = kKinds[int(i.kind)];
    t.microseconds =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  /// What a region gave is there already, in the first output that is it.
  void GiveOut(size_t i, RegionState& s, std::vector<std::shared_ptr<Tensor>>* outputs) const {
    const TensorPtr& t = s.slots[size_t(outputs_at_[i])];
    WEFT_ICHECK(t, "output {} was not computed", i);
    if ((*outputs)[i] == t) return;
    (*outputs)[i] = OwnCopy(*t);
  }

  const std::shared_ptr<Backend> backend_;
  std::vector<Instruction> instructions_;
  std::unordered_map<EntryKey, int> slot_of_;
  std::vector<TensorPtr> constants_;  ///< by slot; null: computed or fed
  std::vector<int> inputs_at_, outputs_at_;
  std::vector<int> output_in_;  ///< by slot: the first output that is in it; -1: none
};

}  // namespace

std::unique_ptr<Program::Impl> MakeRegionProgram(Graph graph, std::shared_ptr<Backend> backend) {
  return std::make_unique<RegionProgram>(std::move(graph), backend);
}

}  // namespace weft
