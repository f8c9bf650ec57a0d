/// engine.cc: see engine.h.
#include "engine.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>

#include "runtime/compile/constant_extents.h"
#include "runtime/program/program_impl.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/backend/team_rest.h"
#include "weft/runtime/delegate_counts.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/profile.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"
#include "weft/support/log.h"
#include "weft/support/mapped_file.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

/// Addresses of tables of entries that nobody holds any more are swept when one is added.
class EngineTable {
 public:
  /// Body, delegate, threads, extents of operands, each behind its rank, and the hash of those
  /// whose values are known.
  using Key = std::tuple<const Graph*, std::string, int, std::vector<int64_t>, uint64_t>;

  template <class Make>
  std::shared_ptr<SharedEngine> Get(const Key& key, Make make) {
    {
      std::lock_guard lock(mutex_);
      if (const auto it = table_.find(key); it != table_.end())
        if (auto engine = it->second.lock()) return engine;
    }
    // Without the lock: compiling takes long. Of two threads that make one each, the first stays.
    std::shared_ptr<SharedEngine> made = make();
    std::lock_guard lock(mutex_);
    for (auto it = table_.begin(); it != table_.end();)
      it = it->second.expired() ? table_.erase(it) : std::next(it);
    std::weak_ptr<SharedEngine>& place = table_[key];
    if (auto first = place.lock()) return first;
    place = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<SharedEngine>> table_;
};

EngineTable& Table() {
  static auto* table = new EngineTable;
  return *table;
}

size_t NodesIn(const Graph& body) {
  size_t n = 0;
  for (const NodePtr& p : body.TopoOrder())
    n += !p->is_variable() && !Graph::ConstantOf(NodeEntry(p));
  return n;
}

}  // namespace

RegionBody BodyFor(const ComputeRequest& q) {
  RegionBody out;
  out.graph = q.node->attr<GraphPtr>("body");
  const std::vector<NodePtr> inputs = out.graph->inputs();
  WEFT_ICHECK(inputs.size() == q.input_dims.size(), "{} has {} operands, its body {}",
              q.node->Describe(), q.input_dims.size(), inputs.size());
  const ShapeMap& shapes = out.graph->GetAttr<ShapeMap>("shape");
  const auto is_static = [&](size_t i) { return shapes[NodeEntry(inputs[i])].is_static(); };
  // Some are there for their dimensions.
  const auto is_read = [&](size_t i) { return IsRead(*out.graph, NodeEntry(inputs[i])); };
  bool fits = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!q.constants[i] && is_read(i)) out.read.push_back(i);
    fits = fits && !q.constants[i] && is_read(i) && is_static(i);
  }
  if (fits) return out;
  Graph g = *out.graph;
  std::unordered_map<SymInt, SymInt> known;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& declared = shapes[NodeEntry(inputs[i])];
    for (int d = 0; d < declared.rank(); ++d)
      if (declared[d].known() && declared[d].is_symbol())
        known.emplace(declared[d], q.input_dims[i][size_t(d)]);
    if (!q.constants[i]) continue;
    g.ReplaceUses(g.at(NodeEntry(inputs[i])), g.AddConstant(q.constants[i], inputs[i]->attrs.name));
    out.constants_hash =
        CombineHash(CombineHash(out.constants_hash, i), q.constants[i]->ContentHash());
  }
  std::vector<NodePtr> left;
  for (const size_t i : out.read) {
    left.push_back(g.at(NodeEntry(inputs[i])).node);
    if (!is_static(i)) g.SetAttr(left.back(), "shape", Shape::OfInts(q.input_dims[i]));
  }
  g.SetInputs(left);
  PassOptions plain;
  plain.verify = false;
  g = ApplyPasses(WithValues(std::move(g), known, plain), FoldingPipeline(), plain);
  out.graph = std::make_shared<const Graph>(ProvideTypes(std::move(g), plain));
  return out;
}

SharedEngine::SharedEngine(DelegateSpec spec, std::shared_ptr<DelegateEngine> engine, GraphPtr body)
    : spec_(std::move(spec)),
      engine_(std::move(engine)),
      body_(std::move(body)),
      concurrent_(spec_.delegate->traits().concurrent),
      own_threads_(spec_.delegate->traits().own_threads),
      description_(fmt::format("{} {}: {} nodes", spec_.ToString(), spec_.delegate->Version(),
                               NodesIn(*body_))) {
  // What cannot be prepared is known before a run.
  idle_.push_back(engine_->Prepare());
}

std::vector<CallPart> SharedEngine::Parts() {
  std::lock_guard lock(mutex_);
  std::vector<CallPart> parts;
  if (idle_.empty()) return parts;
  for (DelegateRow& r : idle_.back()->Profile())
    parts.push_back({std::move(r.name), std::move(r.kind), r.us});
  return parts;
}

std::unique_ptr<DelegateInstance> SharedEngine::Take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<DelegateInstance> instance = std::move(idle_.back());
      idle_.pop_back();
      return instance;
    }
  }
  return engine_->Prepare();
}

void SharedEngine::Run(const std::vector<DelegateTensor>& inputs,
                       const std::vector<DelegateTensor>& outputs, void* stream) {
  std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
  if (!concurrent_) turn.lock();
  std::unique_ptr<DelegateInstance> instance = Take();
  // An instance whose run failed is not used again.
  int64_t copied = 0;
  const auto run = [&] { copied = instance->Run(inputs, outputs, stream); };
  own_threads_ ? RunAsTeamSleeps(run) : run();
  CountDelegateRun(copied);
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(instance));
}

namespace {

std::string EngineKey(const DelegateSpec& spec, int threads) {
  return fmt::format("{} {}, {} threads, {}", spec.ToString(), spec.delegate->Version(), threads,
                     CpuModel());
}

DelegateSpec SpecOf(const NodePtr& node) {
  const auto text = node->attr<std::string>("delegate");
  std::vector<DelegateSpec> specs = ParseDelegates(text);
  WEFT_CHECK(specs.size() == 1, kBadAttribute, "{} names {} delegates: '{}'", node->Describe(),
             specs.size(), text);
  return std::move(specs[0]);
}

/// Somewhere in the graph or a body of its nodes.
bool HoldsDelegated(const Graph& g) {
  const std::vector<NodePtr> nodes = g.TopoOrder();
  return std::any_of(nodes.begin(), nodes.end(), [](const NodePtr& n) {
    if (IsOp(n, builtin::kDelegated)) return true;
    if (!IsOp(n, builtin::kRegion) && !HasControlBodies(n)) return false;
    const std::vector<std::string> names = BodyNames(n);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return HoldsDelegated(*n->attr<GraphPtr>(name));
    });
  });
}

/// Null where the node keeps none that is of use here. An engine is kept for the body as it is.
std::shared_ptr<DelegateEngine> Imported(const NodePtr& node, const DelegateSpec& spec,
                                         const DelegateRegion& region) {
  const AttrValue* held = node->attrs.dict.find("engine");
  const TensorPtr kept = held ? held->get<TensorPtr>() : nullptr;
  if (!kept) return nullptr;
  const std::string key = EngineKey(spec, region.threads),
                    made_for = node->attr<std::string>("engine_key");
  std::string why = key == made_for ? "" : fmt::format("it was made for {}", made_for);
  if (why.empty()) try {
      return spec.delegate->Import(
          region, {static_cast<const char*>(kept->data()), size_t(kept->num_bytes())});
    } catch (const Error& e) {
      why = e.message();
    }
  WEFT_LOG(kWarning, "delegate '{}' does not take the engine in the file, and compiles anew: {}",
           spec.delegate->name(), why);
  return nullptr;
}

/// Could an engine serve all extents of the body? Whatever its sizes depend on has to be an extent
/// of an operand that is read: an engine gets no others.
bool IsForAnyExtents(const DelegateSpec& spec, const Graph& body) {
  if (!spec.delegate->traits().any_extents || DelegateRegion{&body, {}, 1}.is_static())
    return false;
  const std::vector<NodePtr> inputs = body.inputs();
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const NodePtr& p) { return IsRead(body, NodeEntry(p)); });
}
/// In place of extents in the key of an engine.
const std::vector<int64_t> kAnyExtents = {-1};

/// The engine has what it needs of them.
void ReleaseConstants(const Graph& body) {
  for (const NodePtr& n : body.TopoOrder())
    if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n)); t && t->is_tensor() && t->on_host())
      ReleaseMapped(t->data(), t->num_bytes());
}

std::shared_ptr<SharedEngine> FindEngineFor(const DelegateSpec& spec, const NodePtr& node,
                                            const RegionBody& body, std::vector<int64_t> extents,
                                            int threads) {
  const auto held = node->attr<GraphPtr>("body");
  return Table().Get(
      {held.get(), spec.ToString(), threads, std::move(extents), body.constants_hash}, [&] {
        spec.delegate->Version();  // opens it, or says what is missing
        const DelegateRegion region{body.graph.get(), spec.options, threads};
        std::shared_ptr<DelegateEngine> engine;
        // What was kept takes every operand.
        if (body.constants_hash == 0) engine = Imported(node, spec, region);
        if (!engine) engine = spec.delegate->Compile(region);
        ReleaseConstants(*body.graph);
        CountDelegateRegion();
        return std::make_shared<SharedEngine>(spec, std::move(engine), held);
      });
}

}  // namespace

std::shared_ptr<SharedEngine> FindEngine(const NodePtr& node, const RegionBody& body,
                                         const std::vector<std::vector<int64_t>>& dims,
                                         int threads) {
  std::vector<int64_t> extents;
  for (const auto& d : dims) {
    extents.push_back(int64_t(d.size()));
    extents.insert(extents.end(), d.begin(), d.end());
  }
  return FindEngineFor(SpecOf(node), node, body, std::move(extents), threads);
}

std::shared_ptr<SharedEngine> FindEngineForAnyExtents(const NodePtr& node, int threads) {
  const DelegateSpec spec = SpecOf(node);
  const auto body = node->attr<GraphPtr>("body");
  if (!IsForAnyExtents(spec, *body)) return nullptr;
  try {
    return FindEngineFor(spec, node, {body, {}}, kAnyExtents, threads);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    WEFT_LOG(kInfo, "delegate '{}' wants numbers for all dimensions: {}", spec.delegate->name(),
             e.message());
    return nullptr;
  }
}

void KeepEngines(Graph* g, const std::string& backend) {
  if (!HoldsDelegated(*g)) return;
  for (const NodePtr& n : g->TopoOrder()) {
    if (IsOp(n, builtin::kRegion) || HasControlBodies(n))
      for (const std::string& name : BodyNames(n)) {
        Graph body = *n->attr<GraphPtr>(name);
        KeepEngines(&body, backend);
        ReplaceBody(*g, n, name, std::move(body));
      }
    if (!IsOp(n, builtin::kDelegated)) continue;
    try {
      const DelegateSpec spec = SpecOf(n);
      const RegionBody region{n->attr<GraphPtr>("body"), {}};
      const Graph& body = *region.graph;
      const int threads = BackendFor(backend, 0)->threads();
      std::shared_ptr<SharedEngine> engine;
      if (DelegateRegion{&body, {}, 1}.is_static()) {
        std::vector<std::vector<int64_t>> dims;
        for (const NodePtr& p : body.inputs())
          dims.push_back(body.GetAttr<ShapeMap>("shape")[NodeEntry(p)].ints());
        engine = FindEngine(n, region, dims, threads);
      } else {
        engine = FindEngineForAnyExtents(n, threads);
      }
      const std::string bytes = engine ? engine->Export() : "";
      if (bytes.empty()) continue;
      auto kept = std::make_shared<Tensor>(DType::kU8, std::vector<int64_t>{int64_t(bytes.size())});
      std::memcpy(kept->mutable_data(), bytes.data(), bytes.size());
      g->SetAttr(n, "engine", TensorPtr(std::move(kept)));
      g->SetAttr(n, "engine_key", EngineKey(spec, threads));
    } catch (const Error& e) {
      // The file runs without it.
      WEFT_LOG(kWarning, "{} is kept without its engine: {}", n->Describe(), e.message());
    }
  }
}

}  // namespace weft
