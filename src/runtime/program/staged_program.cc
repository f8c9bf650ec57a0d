/// staged_program.cc: programs whose extents depend on values: Reshape by a shape that is
/// an input, NonZero, TopK with a computed k; and programs with tensors that have no place
/// in an arena (strings).
///
/// A run goes by stages. A stage takes the tensors that are there, infers shapes for their
/// extents, and compiles the longest part of the graph whose shapes then are integers, as one
/// ordinary program. What stands behind it either waits for a small operand whose *value* decides
/// (then that value becomes a constant of the next stage), or runs node by node in the Evaluator.
/// Stages are remembered by all that they were made from: extents and the values taken as
/// constants. Equal requests compile nothing.
///
///   never   compiles anew for equal extents and equal deciding values (of the last kMaxStages);
///           keeps a tensor of the caller beyond a run
///   cost    a compilation for each new set; a graph that needs no stages never comes here
///   source  XLA's compile-time constant operands; graph breaks of tracing compilers
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "program_impl.h"
#include "weft/codegen/lower/lower.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/placement.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft {
namespace {

using Key = std::vector<int64_t>;

/// One stage: what runs, then what is read out as a value, then what the Evaluator runs. Arithmetic
/// on sizes that are there is none of them: inference follows it.
struct Stage {
  std::shared_ptr<const Program> program;  ///< null: nothing is compiled
  std::vector<NodeEntry> inputs, outputs;  ///< of the program, as entries of the whole graph
  std::vector<NodePtr> compiled, host;
  std::vector<std::pair<NodeEntry, TensorPtr>> known;  ///< what inference alone has told
  std::vector<NodeEntry> constants;  ///< entries that the next stage knows by value
  bool last = false;
};

/// Tensors at hand, and how far a run has come.
struct Progress {
  std::unordered_map<EntryKey, TensorPtr> tensors;
  std::set<EntryKey> constants;
  std::vector<uint8_t> done;  ///< by node id
  Key key;                    ///< extents and constant values so far, in order
};

/// Makes one stage from the tensors at hand.
class StageMaker {
 public:
  /// `stats`: of the whole, which counts the runs of its stages.
  StageMaker(const Graph& whole, const std::vector<NodePtr>& order, const CompileOptions& options,
             const Progress& progress, const ProgramStats& stats)
      : whole_(whole), order_(order), options_(options), progress_(progress), stats_(stats) {}

  Stage Run() {
    FindNeeded();
    BuildRest();
    Stage stage;
    Fold(&stage);
    if (!stage.known.empty()) return stage;
    Partition();
    if (frontier_.empty()) {
      stage.last = true;
      Compile(&stage);
      return stage;
    }
    bool at_hand = true;
    for (const NodePtr& n : frontier_) {
      std::vector<NodeEntry> deciding;
      for (const NodeEntry& e : n->inputs)
        if (Decides(e)) deciding.push_back(e);
      // The first operand is data with most operators, other in every run: taken where the others
      // have not been enough.
      if (deciding.size() > 1 && deciding[0] == n->inputs[0]) deciding.erase(deciding.begin());
      for (const NodeEntry& e : deciding) {
        stage.constants.push_back(e);
        at_hand = at_hand && progress_.tensors.count(e.key());
      }
      if (deciding.empty()) {
        stage.host.push_back(n);
        at_hand = false;
      }
    }
    if (!at_hand) Compile(&stage);
    return stage;
  }

 private:
  /// What has not run, and is read by what has not, or is an output.
  void FindNeeded() {
    needed_.assign(whole_.id_bound(), 0);
    for (const NodeEntry& e : whole_.outputs)
      if (e.node) needed_[e.node->id()] = 1;
    for (size_t i = order_.size(); i-- > 0;) {
      const NodePtr& n = order_[i];
      uint8_t& needed = needed_[n->id()];
      needed = !progress_.done[n->id()] && (needed || HasEffect(n));
      if (!needed) continue;
      for (const NodeEntry& e : n->inputs)
        if (e.node) needed_[e.node->id()] = 1;
      for (const Node* d : n->control_deps) needed_[d->id()] = 1;
    }
  }
  /// The nodes that are left, over variables for what is there.
  void BuildRest() {
    const auto map = [&](const NodeEntry& e) -> NodeEntry {
      if (!e.node) return {};
      if (auto it = rest_of_.find(e.key()); it != rest_of_.end()) return it->second;
      const auto found = progress_.tensors.find(e.key());
      WEFT_ICHECK(found != progress_.tensors.end(), "{} is not there", e.node->Describe());
      const TensorPtr& t = found->second;
      const std::string name = fmt::format("{}:{}", e.node->id(), e.index);
      by_name_[name] = e;
      NodePtr v = progress_.constants.count(e.key()) ? rest_.AddParam(name, t)
                                                     : rest_.AddInput(name, t->type(), t->shape());
      return rest_of_[e.key()] = NodeEntry(v);
    };
    for (const NodePtr& n : order_) {
      if (!needed_[n->id()] || (n->is_variable() && !Graph::ConstantOf(NodeEntry(n)))) continue;
      NodePtr copy;
      if (n->is_variable()) {
        copy = rest_.AddParam(n->attrs.name, Graph::ConstantOf(NodeEntry(n)));
      } else {
        std::vector<NodeEntry> inputs;
        for (const NodeEntry& e : n->inputs) inputs.push_back(map(e));
        copy = rest_.AddCopy(n, inputs);
      }
      for (uint32_t i = 0; i < copy->num_outputs(); ++i)
        rest_of_[NodeEntry(n, i).key()] = NodeEntry(copy, i);
    }
    std::vector<NodeEntry> outputs;
    for (const NodeEntry& e : whole_.outputs)
      if (rest_of_.count(e.key())) outputs.push_back(rest_of_.at(e.key()));
    rest_.outputs = outputs;
    PassOptions plain;
    plain.verify = false;
    plain.limits = options_.passes.limits;
    rest_ = ProvideTypes(std::move(rest_), plain);
  }

  NodeEntry InRest(const NodeEntry& e) const { return rest_.at(rest_of_.at(e.key())); }
  bool IsStatic(const NodeEntry& in_rest) const {
    const Shape* s = rest_.GetAttr<ShapeMap>("shape").find(in_rest);
    const Type* t = rest_.GetAttr<TypeMap>("dtype").find(in_rest);
    return s && t && s->is_static() && HasArenaPlace(*t);
  }
  /// A program can run it at these extents.
  bool IsRunnable(const NodePtr& n) const {
    static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
    static const auto& host = Op::GetAttr<FHostEval>("FHostEval");
    static const auto& moves = Op::GetAttr<TMovesElements>("TMovesElements");
    const NodePtr copy = InRest(NodeEntry(n)).node;
    if (Graph::ConstantOf(NodeEntry(copy))) return true;
    if (host.find(n->op()) || moves.get(n->op(), false)) return true;
    return code.find(n->op()) && TryExpand(rest_, copy, nullptr);  // or a value is missing
  }
  bool IsSmall(const NodeEntry& in_rest) const {
    return IsStatic(in_rest) &&
           rest_.GetAttr<ShapeMap>("shape")[in_rest].num_elements().value() <= kMaxSymTensor;
  }
  /// Arithmetic on sizes that are there, where inference does not follow it: scales and other
  /// fractions. What it tells, inference is told again.
  void Fold(Stage* stage) {
    std::unordered_map<EntryKey, TensorPtr> folded;
    const auto value_of = [&](const NodeEntry& e) -> TensorPtr {
      if (const auto it = folded.find(e.key()); it != folded.end()) return it->second;
      return KnownValue(InRest(e));
    };
    for (const NodePtr& n : order_) {
      if (!needed_[n->id()] || n->is_variable() || n->num_inputs() == 0) continue;
      bool ready = IsRepeatable(n), is_new = false;
      for (uint32_t i = 0; ready && i < n->num_outputs(); ++i) {
        const NodeEntry out = InRest(NodeEntry(n, i));
        ready = IsSmall(out);
        is_new = is_new || (ready && !KnownValue(out));
      }
      std::vector<TensorPtr> in;
      for (size_t i = 0; ready && is_new && i < n->num_inputs(); ++i) {
        const NodeEntry& e = n->inputs[i];
        in.push_back(e.node ? value_of(e) : nullptr);
        ready = !e.node || in.back();
      }
      if (!ready || !is_new || !GetEvaluator()->WhyNot(n).empty()) continue;
      const auto out = GetEvaluator()->EvalNode(n, in, {});
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        folded[NodeEntry(n, i).key()] = out[i];
        stage->known.emplace_back(NodeEntry(n, i), out[i]);
      }
      stage->compiled.push_back(n);
    }
  }
  void Partition() {
    in_program_.assign(whole_.id_bound(), 0);
    for (const NodePtr& n : order_) {
      if (!needed_[n->id()] || n->is_variable()) continue;
      bool ready = true, fits = true;
      for (const NodeEntry& e : n->inputs) {
        if (!e.node || progress_.tensors.count(e.key())) {
          fits = fits && (!e.node || IsStatic(InRest(e)));
          continue;
        }
        const bool constant = bool(Graph::ConstantOf(e));
        ready = ready && (constant || in_program_[e.node->id()]);
        fits = fits && ready && IsStatic(InRest(e));
      }
      for (uint32_t i = 0; ready && i < n->num_outputs(); ++i)
        fits = fits && IsStatic(InRest(NodeEntry(n, i)));
      if (!ready) continue;
      if (fits && IsRunnable(n)) {
        in_program_[n->id()] = 1;
        compiled_.push_back(n);
      } else {
        frontier_.push_back(n);
      }
    }
  }

  /// The value of this operand may be what its reader waits for: small, and not yet a constant.
  bool Decides(const NodeEntry& e) const {
    if (!e.node) return false;
    const NodeEntry r = InRest(e);
    if (Graph::ConstantOf(r) || !IsStatic(r)) return false;
    const DType t = rest_.GetAttr<TypeMap>("dtype")[r].dtype;
    const Shape& s = rest_.GetAttr<ShapeMap>("shape")[r];
    if (IsInt(t) || t == DType::kBool) return s.num_elements().value() <= kMaxSymTensor;
    // Bounds of Range, scales of Resize.
    return IsFloat(t) && s.rank() <= 1 && s.num_elements().value() <= 16;
  }

  /// A constant, or what follows from the extents at hand; null for others.
  TensorPtr KnownValue(const NodeEntry& in_rest) const {
    if (const TensorPtr constant = Graph::ConstantOf(in_rest)) return constant;
    const SymTensorPtr* v = rest_.GetAttr<ValueMap>("value").find(in_rest);
    if (!v || !*v || !(*v)->is_const()) return nullptr;
    auto t = std::make_shared<Tensor>(rest_.GetAttr<TypeMap>("dtype")[in_rest].dtype, (*v)->dims);
    for (int64_t i = 0; i < t->num_elements(); ++i)
      t->set_int(i, (*v)->elements[size_t(i)].value());
    return t;
  }

  /// The part before the frontier, as a program that gives out what anything else reads.
  void Compile(Stage* stage) {
    stage->compiled = compiled_;
    std::set<EntryKey> wanted;
    for (const NodePtr& n : order_) {
      if (!needed_[n->id()] || in_program_[n->id()]) continue;
      for (const NodeEntry& e : n->inputs)
        if (e.node) wanted.insert(e.key());
    }
    for (const NodeEntry& e : whole_.outputs) wanted.insert(e.key());
    std::vector<NodeEntry> outputs;
    for (const NodePtr& n : compiled_) {
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        const NodeEntry e(n, i);
        if (!wanted.count(e.key())) continue;
        if (const TensorPtr known = KnownValue(InRest(e))) {
          stage->known.emplace_back(e, known);
          continue;
        }
        stage->outputs.push_back(e);
        outputs.push_back(InRest(e));
      }
    }
    if (outputs.empty()) return;
    Graph part;
    part.outputs = part.Import(outputs);
    for (const NodePtr& p : part.AllInputs()) stage->inputs.push_back(by_name_.at(p->attrs.name));
    const std::shared_ptr<Program> program = CompileStatic(std::move(part), options_);
    ProgramStats& counts = program->impl().stats_;
    counts.launches = stats_.launches;
    counts.replays = stats_.replays;
    counts.host_waits = stats_.host_waits;
    stage->program = program;
  }

  const Graph& whole_;
  const std::vector<NodePtr>& order_;
  const CompileOptions& options_;
  const Progress& progress_;
  const ProgramStats& stats_;
  Graph rest_;
  std::unordered_map<EntryKey, NodeEntry> rest_of_;  // whole -> rest
  std::map<std::string, NodeEntry> by_name_;         // variable of rest -> entry of whole
  std::vector<uint8_t> needed_, in_program_;         // by node id of the whole graph
  std::vector<NodePtr> compiled_, frontier_;
};

constexpr size_t kMaxStages = 64;  // that a program remembers

class StagedProgram final : public Program::Impl {
 public:
  StagedProgram(Graph graph, const CompileOptions& options) : options_(options) {
    // What belongs to the call that compiles, which is over when stages are made.
    options_.passes.records = nullptr;
    options_.passes.on_pass = nullptr;
    options_.passes.print = nullptr;
    options_.passes.print_before.clear();
    options_.passes.print_after.clear();
    PassOptions plain;
    plain.limits = options.passes.limits;
    graph_ = ProvideTypes(std::move(graph), plain);
    order_ = graph_.TopoOrder();
  }

  const ProgramStats& stats() const override {
    std::lock_guard lock(mutex_);
    return last_run_ ? *last_run_ : stats_;
  }

  struct StagedState final : State {
    /// Each keeps its program alive; the oldest goes, as its stage does or has done.
    BoundedCache<const Program*, std::unique_ptr<Session>> sessions{kMaxStages};
    Session* Of(const std::shared_ptr<const Program>& program) {
      return sessions.GetOrMake(program.get(), [&] { return std::make_unique<Session>(program); })
          .get();
    }
  };
  std::unique_ptr<State> NewState() const override { return std::make_unique<StagedState>(); }

  void Run(State& state, const std::vector<TensorPtr>& inputs,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    auto& sessions = static_cast<StagedState&>(state);
    Progress at;
    at.done.assign(graph_.id_bound(), 0);
    const std::vector<NodePtr> variables = graph_.AllInputs();
    for (size_t i = 0; i < variables.size(); ++i) Put(&at, NodeEntry(variables[i]), inputs[i]);
    state.arena_bytes = state.bytes_moved = 0;
    state.kernels_failed = 0;
    StepCounts steps{};
    for (bool last = false; !last;) {
      const std::shared_ptr<const Stage> stage = StageFor(at);
      last = stage->last;
      if (stage->program) {
        Session* session = sessions.Of(stage->program);
        std::vector<TensorPtr> in;
        for (const NodeEntry& e : stage->inputs) in.push_back(at.tensors.at(e.key()));
        const std::vector<TensorPtr> out = RunSession(session, in, state.profile);
        for (size_t i = 0; i < out.size(); ++i) Put(&at, stage->outputs[i], out[i]);
        state.arena_bytes = std::max(state.arena_bytes, session->arena_bytes());
        state.bytes_moved += session->bytes_moved();
        state.kernels_failed += session->kernels_failed();
        const ProgramStats& of = stage->program->stats();
        for (size_t i = 0; i < steps.size(); ++i) steps[i] += of.*kCounted[i];
      }
      steps[kInterpreted] += int(stage->host.size());
      for (const auto& [e, value] : stage->known) {
        Put(&at, e, value);
        at.constants.insert(e.key());  // the extents decide it, and so they do in the key
      }
      for (const NodePtr& n : stage->compiled) at.done[n->id()] = 1;
      for (const NodePtr& n : stage->host) {
        RequestScope::Poll();
        std::vector<TensorPtr> in;
        for (const NodeEntry& e : n->inputs) in.push_back(e.node ? TensorOf(at, e) : nullptr);
        const auto out = GetEvaluator()->EvalNode(n, in, {});
        for (size_t i = 0; i < out.size(); ++i) Put(&at, NodeEntry(n, uint32_t(i)), out[i]);
        at.done[n->id()] = 1;
      }
      for (const NodeEntry& e : stage->constants) PutConstant(&at, e);
    }
    for (size_t i = 0; i < outputs->size(); ++i) {
      const NodeEntry& e = graph_.outputs[i];
      (*outputs)[i] = OwnCopy(*TensorOf(at, e));
    }
    Tell(steps);
  }

 private:
  /// What the steps of all stages are counted as.
  static constexpr int ProgramStats::*kCounted[] = {
      &ProgramStats::kernels,  &ProgramStats::distinct_kernels, &ProgramStats::library_calls,
      &ProgramStats::reorders, &ProgramStats::interpreted,      &ProgramStats::host_steps};
  using StepCounts = std::array<int, std::size(kCounted)>;
  static constexpr size_t kInterpreted = 4;
  /// Whoever asked for those of an earlier run keeps them.
  void Tell(const StepCounts& steps) const {
    std::lock_guard lock(mutex_);
    const auto [it, fresh] = told_.try_emplace(steps, stats_);
    ProgramStats& s = it->second;
    for (size_t i = 0; fresh && i < steps.size(); ++i) s.*kCounted[i] = steps[i];
    last_run_ = &s;
  }
  static TensorPtr TensorOf(const Progress& at, const NodeEntry& e) {
    if (TensorPtr t = Graph::ConstantOf(e)) return t;
    const auto it = at.tensors.find(e.key());
    WEFT_ICHECK(it != at.tensors.end(), "{} was not computed", e.node->Describe());
    return it->second;
  }
  static void Put(Progress* at, const NodeEntry& e, const TensorPtr& t) {
    at->tensors[e.key()] = t;
    at->key.push_back(int64_t(e.key().packed()));
    at->key.push_back(int64_t(t->dtype()));
    at->key.push_back(t->rank());
    at->key.insert(at->key.end(), t->dims().begin(), t->dims().end());
  }
  /// Its bytes decide from here on. Stages outlive the run, and what is fed is the caller's: they
  /// compute from a copy.
  static void PutConstant(Progress* at, const NodeEntry& e) {
    if (!at->constants.insert(e.key()).second) return;
    const TensorPtr t = at->tensors[e.key()] = OwnCopy(*TensorOf(*at, e));
    at->key.push_back(-1 - int64_t(e.key().packed()));
    const char* bytes = static_cast<const char*>(t->data());
    for (int64_t i = 0; i < t->num_bytes(); i += 8) {
      int64_t word = 0;
      std::memcpy(&word, bytes + i, size_t(std::min<int64_t>(8, t->num_bytes() - i)));
      at->key.push_back(word);
    }
  }
  static std::vector<TensorPtr> RunSession(Session* session, const std::vector<TensorPtr>& in,
                                           std::vector<StepTime>* profile) {
    if (profile) {
      const std::vector<StepTime> steps = session->Profile(in);
      profile->insert(profile->end(), steps.begin(), steps.end());
    }
    return session->Run(in);
  }

  std::shared_ptr<const Stage> StageFor(const Progress& at) const {
    std::lock_guard lock(mutex_);
    return stages_.GetOrMake(at.key, [&] {
      return std::make_shared<Stage>(StageMaker(graph_, order_, options_, at, stats_).Run());
    });
  }

  CompileOptions options_;
  std::vector<NodePtr> order_;
  mutable std::mutex mutex_;
  mutable BoundedCache<Key, std::shared_ptr<const Stage>> stages_{kMaxStages};
  mutable std::map<StepCounts, ProgramStats> told_;
  mutable const ProgramStats* last_run_ = nullptr;
};

}  // namespace

std::shared_ptr<Program> MakeStagedProgram(Graph graph, const CompileOptions& options) {
  auto impl = std::make_unique<StagedProgram>(std::move(graph), options);
  DescribeProgram(impl.get(), options.backend);
  return std::make_shared<Program>(std::move(impl));
}

}  // namespace weft
