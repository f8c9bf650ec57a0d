/// import_gradient.cc: Gradient of ai.onnx.preview.training: a node that stands for the gradient of
/// a value of its graph becomes the nodes of that gradient.
///
///   c = Add(a, b)                                  c = Add(a, b)
///   da = Gradient<xs = ["a"], y = "c">(a)   ->     da = (nodes that FGradient of Add builds)
///
/// `xs` and `zs` name the values that y is taken for a function of, as independent ones, and the
/// operands are where: where they are other values, or where one named value may depend on another,
/// what lies between them and y is built once more over the operands. In a body also where that
/// lies in the graphs around it: the body gets a copy, and captures what the copy reads.
///   throws  kInvalidModel for a name without a value of this graph, kArity; kUnsupported for what
///           cannot be differentiated
/// Source: ai.onnx.preview.training Gradient-1.
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "importer.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/repeatable.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

using Substitutes = std::unordered_map<EntryKey, NodeEntry>;
using Named = std::unordered_map<EntryKey, size_t>;  ///< which of xs and zs
using Follows = std::function<bool(const NodeEntry&)>;

/// Nodes that `heads` are computed by, producers first, as far as the named values.
std::vector<NodePtr> ConeOf(const std::vector<NodeEntry>& heads, const Named& ends,
                            const Follows& follows) {
  std::vector<NodePtr> order, cone;
  DFSVisit(heads, [&](const NodePtr& n) { order.push_back(n); });
  std::unordered_set<NodeId> wanted;
  const auto want = [&](const NodeEntry& e) {
    if (e && !ends.count(e.key()) && follows(e)) wanted.insert(e.node->id());
  };
  for (const NodeEntry& e : heads) want(e);
  for (auto n = order.rbegin(); n != order.rend(); ++n) {
    if (!wanted.count((*n)->id())) continue;
    cone.push_back(*n);
    for (const NodeEntry& e : (*n)->inputs) want(e);
  }
  std::reverse(cone.begin(), cone.end());
  return cone;
}
bool Reads(const std::vector<NodePtr>& nodes, const Named& named) {
  for (const NodePtr& n : nodes)
    for (const NodeEntry& e : n->inputs)
      if (e && named.count(e.key())) return true;
  return false;
}
/// Values that a gradient may go through.
Follows Differentiable(const Build& build) {
  return [&](const NodeEntry& e) {
    const Type t = build.types.Of(e);
    return !t.known() || !t.is_tensor() || IsFloat(t.dtype);
  };
}
/// What of the graph around it the nodes read.
std::vector<NodeEntry> CapturedBy(const std::vector<NodePtr>& nodes, const Build& build) {
  std::unordered_set<NodeId> there;
  for (const NodePtr& n : nodes) there.insert(n->id());
  std::vector<NodeEntry> values;
  for (const Build::Captured& c : build.captured)
    if (c.value && there.count(c.variable->id())) values.push_back(c.value);
  return values;
}
/// What is named, by the names of the graph around it.
Named Outwards(const Named& named, const Build& build) {
  Named outer;
  for (const Build::Captured& c : build.captured) {
    const auto it = named.find(NodeEntry(c.variable).key());
    if (c.value && it != named.end()) outer.emplace(c.value.key(), it->second);
  }
  return outer;
}

/// One of the graphs that y is computed in.
struct Level {
  Build* build;
  std::vector<NodeEntry> heads;
  std::vector<NodePtr> cone;
  Named named;
};
/// From the innermost to the main one.
std::vector<Level> LevelsOf(Build* build, const NodeEntry& y, const std::vector<NodeEntry>& named) {
  std::vector<Level> levels;
  Level next{build, {y}, {}, {}};
  for (size_t i = 0; i < named.size(); ++i) next.named[named[i].key()] = i;
  while (next.build) {
    next.cone = ConeOf(next.heads, next.named, [](const NodeEntry&) { return true; });
    levels.push_back(std::move(next));
    const Level& l = levels.back();
    next = {l.build->outer, CapturedBy(l.cone, *l.build), {}, Outwards(l.named, *l.build)};
  }
  return levels;
}
/// What a body computes y of has been computed, outside of it, of what is named.
bool GoesThroughCaptured(const std::vector<Level>& levels) {
  for (size_t l = 1; l < levels.size(); ++l) {
    for (const NodeEntry& e : levels[l].heads)
      if (levels[l].named.count(e.key())) return true;
    if (Reads(levels[l].cone, levels[l].named)) return true;
  }
  return false;
}

/// A value of an outer graph, in the innermost one.
NodeEntry BringIn(const std::vector<Level>& levels, size_t from, NodeEntry e) {
  if (const TensorPtr value = from == 0 ? nullptr : Graph::ConstantOf(e)) {
    Build* body = levels[0].build;
    const NodePtr p = body->graph.AddParam("", value);
    body->types.Set(p, Type(value->dtype()));
    return p;
  }
  while (from-- > 0) e = levels[from].build->Capture(e);
  return e;
}

/// `y` with other values in the places of the named ones: copies of the nodes that depend on those,
/// from whichever graph, in the innermost.
NodeEntry BuildOver(const std::vector<Level>& levels, const NodeEntry& y,
                    const std::vector<NodeEntry>& by) {
  Graph& g = levels[0].build->graph;
  Substitutes image, outer;
  for (size_t l = levels.size(); l-- > 0; outer = std::move(image)) {
    image.clear();
    for (const auto& [key, i] : levels[l].named) image[key] = by[i];
    for (const Build::Captured& c : levels[l].build->captured) {
      const auto it = c.value ? outer.find(c.value.key()) : outer.end();
      if (it != outer.end()) image.try_emplace(NodeEntry(c.variable).key(), it->second);
    }
    Substitutes brought;  // what is the same with those values
    for (const NodePtr& n : levels[l].cone) {
      std::vector<NodeEntry> inputs = n->inputs;
      bool changed = false;
      for (NodeEntry& e : inputs) {
        const auto it = e ? image.find(e.key()) : image.end();
        changed = changed || it != image.end();
      }
      if (!changed) continue;
      WEFT_CHECK(IsRepeatable(n), kUnsupported, "{} gives another result when it runs again",
                 n->Describe());
      for (NodeEntry& e : inputs) {
        if (!e) continue;
        if (const auto it = image.find(e.key()); it != image.end()) {
          e = it->second;
          continue;
        }
        const auto [it, fresh] = brought.try_emplace(e.key());
        if (fresh) it->second = BringIn(levels, l, e);
        e = it->second;
      }
      const NodePtr copy = g.AddCopy(n, inputs);
      // What is replaced itself stays so.
      for (uint32_t k = 0; k < n->num_outputs(); ++k)
        image.try_emplace(NodeEntry(n, k).key(), NodeEntry(copy, k));
    }
  }
  const auto it = outer.find(y.key());
  return it == outer.end() ? y : it->second;
}

/// Something among `heads` is computed of what is named in `build`, or outside of it.
bool DependsOn(const Build& build, const std::vector<NodeEntry>& heads,
               const std::vector<Named>& named, size_t level) {
  if (heads.empty() || level >= named.size()) return false;
  for (const NodeEntry& e : heads)
    if (e && named[level].count(e.key())) return true;
  const std::vector<NodePtr> cone = ConeOf(heads, {}, Differentiable(build));
  if (Reads(cone, named[level])) return true;
  return build.outer && DependsOn(*build.outer, CapturedBy(cone, build), named, level + 1);
}

/// Notes in bodies that y is computed of inputs that iterations give them.
void HoldStates(const std::vector<Level>& levels, const Record& r, const std::string& place) {
  for (size_t l = 0; l + 1 < levels.size(); ++l) {
    Build& build = *levels[l].build;
    if (levels[l + 1].named.empty()) return;  // none of it was there before the body
    HeldGradient held{r, place, {}, {}};
    const std::vector<NodePtr> cone =
        ConeOf(levels[l].heads, levels[l].named, Differentiable(build));
    const std::unordered_set<NodePtr> there(cone.begin(), cone.end());
    for (size_t i = 0; i + build.captured.size() < build.inputs.size(); ++i)
      if (there.count(build.inputs[i])) held.held.push_back(build.inputs[i]);
    if (held.held.empty()) continue;
    for (size_t k = l; k < levels.size(); ++k) held.named.push_back(levels[k].named);
    build.gradients.push_back(std::move(held));
  }
}

/// Which of the body's outputs becomes its input `i` in the next iteration; -1: none.
int NextOf(const Record& node, size_t i, size_t num_inputs) {
  if (node.op == "Loop") return i >= 2 ? int(i) - 1 : -1;
  const AttrValue* slices = node.attrs.find("num_scan_inputs");
  return slices && int64_t(i) + slices->get<int64_t>() < int64_t(num_inputs) ? int(i) : -1;
}

}  // namespace

bool IsGradient(const Record& r) {
  return r.domain == "ai.onnx.preview.training" && r.op == "Gradient";
}

/// Of this graph, or of one around it, which the body then captures.
Value Importer::ValueAround(Scope* s, const std::string& name) {
  if (Find(s, name)) return Resolve(s, name);
  WEFT_CHECK(s->outer, kInvalidModel, "the graph has no value {} in front of it", Printable(name));
  Value v = ValueAround(s->outer, name);
  if (v.state == Value::kEntry) v.entry = s->build->Capture(v.entry);
  return v;
}

void Importer::CheckGradients(Scope* s, const BodyOperands& operands) {
  const Build& build = *s->build;
  const size_t num_own = build.inputs.size() - build.captured.size();
  // The first Scan has the lengths of its sequences before what its body is given.
  const Record& r = operands.node;
  const size_t in_front = r.domain.empty() && r.op == "Scan" && r.version < 9 ? 1 : 0;
  for (const HeldGradient& g : build.gradients) {
    // Inputs that are computed of what is named, in an iteration or in front of the first one.
    std::unordered_set<NodeId> depend;
    const auto depends = [&](size_t i) {
      if (i + in_front < operands.own.size() &&
          DependsOn(*build.outer, {operands.own[i + in_front]}, g.named, 1))
        return true;
      const int next = NextOf(operands.node, i, num_own);
      if (next < 0 || size_t(next) >= build.graph.outputs.size()) return false;
      const std::vector<NodePtr> cone =
          ConeOf({build.graph.outputs[size_t(next)]}, {}, Differentiable(build));
      return DependsOn(*build.outer, CapturedBy(cone, build), g.named, 1) ||
             std::any_of(cone.begin(), cone.end(),
                         [&](const NodePtr& n) { return depend.count(n->id()) > 0; });
    };
    for (size_t before = ~size_t{0}; before != depend.size();) {
      before = depend.size();
      for (size_t i = 0; i < num_own; ++i)
        if (!depend.count(build.inputs[i]->id()) && depends(i))
          depend.insert(build.inputs[i]->id());
    }
    const auto it = std::find_if(g.held.begin(), g.held.end(),
                                 [&](const NodePtr& p) { return depend.count(p->id()) > 0; });
    if (it == g.held.end()) continue;
    const std::string y = g.record.attrs.at("y").get<std::string>();
    Unsupported(s, g.record, ErrorCode::kUnsupported,
                fmt::format("{} is computed of {}, which depends on what is in xs through earlier "
                            "iterations of the {} or what it starts with",
                            Printable(y), Printable((*it)->attrs.name), operands.node.op),
                g.place);
  }
}

void Importer::BuildGradient(Scope* s, const Record& r, const Place& place) {
  const auto names = [&](const char* attribute) {
    const AttrValue* v = r.attrs.find(attribute);
    return v ? v->get<Strings>() : Strings();
  };
  Strings named = names("xs");
  const size_t count = named.size();
  for (const std::string& z : names("zs")) named.push_back(z);
  WEFT_CHECK(r.inputs.size() == named.size() && r.outputs.size() <= count, kArity,
             "{} values in xs and zs with {} operands, {} in xs with {} results", named.size(),
             r.inputs.size(), count, r.outputs.size());
  bool poisoned = false;
  const auto entry = [&](const std::string& name) {
    const Value v = ValueAround(s, name);
    poisoned = poisoned || v.state == Value::kPoisoned;
    WEFT_CHECK(v.state == Value::kEntry || v.state == Value::kPoisoned, kInvalidModel,
               "the value {} was left out", Printable(name));
    return v.entry;
  };
  NodeEntry y = entry(r.attrs.at("y").get<std::string>());
  std::vector<NodeEntry> xs, at;
  for (const std::string& name : named) xs.push_back(entry(name));
  for (const std::string& name : r.inputs) at.push_back(entry(name));
  if (poisoned) return Poison(s, r, false);

  Graph& graph = s->build->graph;
  const NodeId first = graph.id_bound();
  const std::vector<Level> levels = LevelsOf(s->build, y, xs);
  bool direct = !GoesThroughCaptured(levels);
  for (size_t i = 0; i < xs.size(); ++i)
    direct = direct && xs[i] == at[i] && xs[i].node->is_variable();
  HoldStates(levels, r, place);
  std::vector<NodeEntry> gradients;
  try {
    if (!direct) {
      for (size_t i = 0; i < xs.size(); ++i) xs[i] = graph.AddNode("Identity", {at[i]});
      y = BuildOver(levels, y, xs);
    }
    xs.resize(count);
    gradients = Gradients(graph, {y}, xs);
    graph.DropAttr("gradient_of");  // of this node, not of what the user asks for later
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    return Unsupported(s, r, ErrorCode::kUnsupported, e.message(), place);
  }
  for (NodeId id = first; id < graph.id_bound(); ++id) {
    const NodePtr n = graph.node(id);
    if (!n || n->is_variable()) continue;
    CountNode();
    s->build->types.Infer(n);
    if (s->origin) graph.SetOrigin(n, s->origin);
  }
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    const Value v = Value::Of(gradients[i]);
    Define(s, r.outputs[i], v);
    NameValue(s, r.outputs[i], v);
  }
}

}  // namespace weft::onnx_import
