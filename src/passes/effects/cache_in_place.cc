/// cache_in_place.cc: CacheInPlace. What a caller would feed back from an output to an input of the
/// next run stays in the session.
///   needs      shape, dtype
///   never      changes what the other outputs are
///   cost       linear in the nodes
///   source     past_present_share_buffer of ONNX Runtime, TensorScatter of ONNX 24; here models
///              need not be exported for it
///
///   before  (.., %past: f32[b, h, p, d]) -> (.., %present)
///             %present = Concat(%past, %new) {axis = 2}         feedback = "present=past"
///   after   (.., %p: the number p)
///             %cache = TensorScatter(%past, %new, [p, ..]) {axis = 2}
///                                            %past: a state f32[b, h, r, d]
///             weft::Assign(%past, %cache)   %present = weft::Prefix(%cache, p + s) {axis = 2}
///
/// The state has room for r rows, of which the first p hold something. Where nothing asks for the
/// old content, which is so in every model seen, the rows are written into the state itself
/// (plan_variables.cc), and weft::Attention reads it there; another reader of the prefix copies it.
/// A session gives the state more room before a run that needs it (session_caches.h), as the
/// attributes of the variable say: `grows`, the axis, `kept`, the rows that stay, and `rows`, those
/// that there are then.
///
/// An output of the shape of its input is assigned to a state of that shape. Any other is
/// kUnsupported.
#include <set>
#include <unordered_set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/cache_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/numbers.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

class Feeder {
 public:
  Feeder(Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")) {
    for (const NodePtr& v : g_.AllInputs()) {
      names_.insert(v->attrs.name);
      for (SymInt d : shapes_[NodeEntry(v)].dims())
        for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>())
          symbols_.insert(s.symbol_name());
    }
  }

  void Run(const std::string& pairs) {
    std::string all;
    for (const std::string& pair : Split(pairs, ';')) all += pair == "auto" ? Caches() : pair + ";";
    for (const std::string& pair : Split(all, ';'))
      if (!pair.empty() && !Feed(pair)) break;
    // Outputs last, so that their numbers hold until then.
    std::vector<std::pair<NodeEntry, std::string>> left;
    for (size_t i = 0; i < g_.outputs.size(); ++i)
      if (!taken_.count(i)) left.emplace_back(g_.outputs[i], g_.OutputName(i));
    std::vector<NodeEntry> outputs;
    for (const auto& [e, name] : left) outputs.push_back(e);
    g_.outputs = outputs;
    for (size_t i = 0; i < left.size(); ++i) g_.SetOutputName(i, left[i].second);
    TellNumbers();
    g_.EraseDead();
  }

 private:
  struct Room {
    SymInt held, room;
  };

  /// Every output that is rows behind those of an input, the first one of each.
  std::string Caches() const {
    std::string pairs;
    std::set<std::string> found;
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const NodePtr n = g_.outputs[i].node;
      const NodePtr past = IsOp(n, "Concat") ? n->inputs[0].node : NodePtr();
      if (past && past->is_variable() && AppendAxis(g_.outputs[i], past) >= 1 &&
          found.insert(past->attrs.name).second)
        pairs += g_.OutputName(i) + "=" + past->attrs.name + ";";
    }
    return pairs;
  }

  bool Feed(const std::string& pair) {
    const size_t mark = pair.find('=');
    WEFT_CHECK(mark != std::string::npos, kUsage, "feedback '{}': expected OUTPUT=INPUT", pair);
    const std::string from = pair.substr(0, mark), to = pair.substr(mark + 1);
    const size_t output = OutputOf(from);
    const NodePtr past = InputOf(to);
    if (!ctx_.Fuel("feedback", past)) return false;
    const NodeEntry present = g_.outputs[output];
    WEFT_CHECK(taken_.insert(output).second, kUsage, "feedback '{}': output '{}' is named twice",
               pair, from);
    const Shape in = shapes_[NodeEntry(past)], out = shapes_[present];
    WEFT_CHECK(types_[NodeEntry(past)] == types_[present], kTypeMismatch,
               "feedback '{}': the output is {}, the input {}", pair, types_[present].ToString(),
               types_[NodeEntry(past)].ToString());
    if (in.has_rank() && in.same(out)) {
      const NodePtr state = MakeState(past, in);
      Assign(NodeEntry(state), g_.outputs[output]);
      ctx_.Count("states");
      return true;
    }
    const int axis = AppendAxis(present, past);
    if (axis < 1)
      ThrowError(ErrorCode::kUnsupported,
                 fmt::format("feedback '{}': the output {} is neither of the shape of the input {} "
                             "nor a Concat of it and new rows behind the first axis",
                             pair, out.ToString(), in.ToString()),
                 present.node->Describe(), "feed it by hand, from run to run");
    Append(present.node, past, in, axis);
    ctx_.Count("caches");
    return true;
  }

  size_t OutputOf(const std::string& name) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      if (g_.OutputName(i) == name) return i;
      names.push_back(g_.OutputName(i));
    }
    ThrowError(ErrorCode::kBadBinding, fmt::format("feedback: there is no output '{}'", name), "",
               DidYouMean(name, names));
  }
  NodePtr InputOf(const std::string& name) const {
    std::vector<std::string> names;
    for (const NodePtr& v : g_.AllInputs()) {
      if (v->attrs.name == name) return v;
      names.push_back(v->attrs.name);
    }
    ThrowError(ErrorCode::kBadBinding, fmt::format("feedback: there is no input '{}'", name), "",
               DidYouMean(name, names));
  }

  /// Of present = Concat(past, new), where the rows of `past` are a symbol; else -1.
  int AppendAxis(const NodeEntry& present, const NodePtr& past) const {
    const NodePtr n = present.node;
    const Shape& in = shapes_[NodeEntry(past)];
    if (!IsOp(n, "Concat") || n->num_inputs() != 2 || n->inputs[0] != NodeEntry(past) ||
        n->inputs[1].node == past || !in.has_rank())
      return -1;
    int64_t axis = n->attr<int64_t>("axis");
    if (axis < 0) axis += in.rank();
    const SymInt rows = in[int(axis)];
    return rows.known() && rows.is_symbol() && in.fully_known() ? int(axis) : -1;
  }

  /// A state variable in the place of the input.
  NodePtr MakeState(const NodePtr& past, const Shape& shape) {
    const Type type = types_[NodeEntry(past)];
    const std::string name = past->attrs.name;
    const NodePtr state = AddState(g_, name, type, shape);
    g_.ReplaceUses(NodeEntry(past), NodeEntry(state));
    std::vector<NodePtr> inputs;
    for (const NodePtr& v : g_.inputs())
      if (v != past) inputs.push_back(v);
    g_.SetInputs(inputs);
    return state;
  }

  void Append(const NodePtr& concat, const NodePtr& past, const Shape& in, int axis) {
    const Shape out = shapes_[NodeEntry(concat)];
    const NodeEntry added = concat->inputs[1];
    // Extents besides the rows are those of what is added: inputs that stay tell these.
    Shape with_room = in;
    for (int d = 0; d < in.rank(); ++d)
      if (const Shape& s = shapes_[added]; s.has_rank() && s[d].known()) with_room.set(d, s[d]);
    with_room.set(axis, RoomFor(in[axis]).room);
    const NodePtr state = MakeState(past, with_room);
    g_.SetAttr(state, builtin::kGrows, int64_t{axis});
    g_.SetAttr(state, builtin::kKept, Shape({in[axis]}));
    g_.SetAttr(state, builtin::kRows, Shape({out[axis]}));
    // Others that read the past see what it held.
    const AttrDict along{{"axis", int64_t{axis}}};
    const NodeEntry begins = BeginsOf(with_room[0], in[axis]);
    std::vector<Use> readers;
    for (const Use& u : state->uses())
      if (!u.control && u.user != concat.get()) readers.push_back(u);
    std::vector<size_t> given;
    for (size_t i = 0; i < g_.outputs.size(); ++i)
      if (g_.outputs[i] == NodeEntry(state)) given.push_back(i);
    if (!readers.empty() || !given.empty()) {
      const NodeEntry held(
          g_.AddNode(builtin::kPrefix, {NodeEntry(state), NumberOf(g_, in[axis])}, along));
      for (const Use& u : readers) g_.SetInput(NodePtr(u.user), u.slot, held);
      for (const size_t i : given) g_.outputs.set(i, held);
    }
    const NodeEntry cache(
        g_.AddNode("TensorScatter", {NodeEntry(state), added, begins}, along, concat->attrs.name));
    const NodeEntry whole(g_.AddNode(builtin::kPrefix, {cache, NumberOf(g_, out[axis])}, along));
    g_.MergeOrigin(cache.node, concat);
    g_.MergeOrigin(whole.node, concat);
    g_.ReplaceNode(concat, {whole});
    Assign(NodeEntry(state), cache);
  }

  /// The number of rows that are held, once for each row of the batch.
  NodeEntry BeginsOf(SymInt batch, SymInt held) {
    for (const auto& [key, e] : begins_)
      if (key.first == batch && key.second == held) return e;
    NodeEntry e(g_.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape({held})}}));
    if (!batch.is(1))
      e = NodeEntry(g_.AddNode("Expand", {e, NodeEntry(g_.AddNode(builtin::kShapeTensor, {},
                                                                  {{"dims", Shape({batch})}}))}));
    begins_.push_back({{batch, held}, e});
    return e;
  }

  const Room& RoomFor(SymInt held) {
    for (const Room& r : rooms_)
      if (r.held == held) return r;
    std::string name = held.symbol_name() + "_room";
    while (!symbols_.insert(name).second) name += "_";
    rooms_.push_back({held, SymInt::Symbol(name)});
    return rooms_.back();
  }

  /// Symbols that only the inputs that are gone gave values to are fed as numbers.
  void TellNumbers() {
    std::unordered_set<SymInt> told;
    for (const NodePtr& v : g_.AllInputs())
      for (SymInt d : shapes_[NodeEntry(v)].dims()) told.insert(d);
    for (const Room& r : rooms_) {
      if (told.count(r.held)) continue;
      std::string name = r.held.symbol_name();
      while (!names_.insert(name).second) name += "_rows";
      AddNumberInput(g_, name, r.held);
    }
  }

  Graph& g_;
  PassContext& ctx_;
  const ShapeMap shapes_;
  const TypeMap types_;
  std::set<std::string> names_, symbols_;
  std::set<size_t> taken_;
  std::vector<Room> rooms_;
  std::vector<std::pair<std::pair<SymInt, SymInt>, NodeEntry>> begins_;
};

Graph CacheInPlace(Graph g, PassContext& ctx) {
  const auto pairs = ctx.option<std::string>("feedback");
  if (!pairs.empty()) Feeder(g, ctx).Run(pairs);
  return g;
}

WEFT_REGISTER_PASS(CacheInPlace)
    .describe("keeps in the session what would be fed back from an output to an input")
    .set_body(CacheInPlace)
    .set_change_graph(true)
    .option("feedback", "",
            "pairs of an output and an input, as in present.0=past.0;h_out=h_in; auto: all "
            "outputs that are rows behind those of an input")
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("caches", "states that rows are appended to")
    .statistic("states", "states that are replaced")
    .rewrite("feedback", "an input made a state");

}  // namespace
}  // namespace weft
