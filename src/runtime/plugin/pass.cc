/// pass.cc: passes of plugins of the C tier, and the functions by which they look at
/// and change a graph.
///
/// Handles are checked against the graph they are used with: a node of another graph, or one that
/// is gone, is status 106.
#include "weft/core/pass/pass.h"

#include <memory>
#include <vector>

#include "services.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/text/attr_text.h"
#include "weft/support/mapped_file.h"
#include "weft/support/strings.h"

struct WeftPassRun {
  weft::PassContext* context = nullptr;
};

namespace weft::plugin {
namespace {

// ---- nodes ----

/// Text that lives until the next call on this thread.
const char* KeepText(std::string s) {
  thread_local std::string text;
  text = std::move(s);
  return text.c_str();
}

/// Of one thread that are looked at: bodies inside bodies.
constexpr size_t kMostGraphs = 64;

template <class T>
WeftStatus Attribute(const WeftNode* node, const char* name, const void* result,
                     const std::function<void(const T&)>& store) {
  return Guard([&] {
    WEFT_CHECK(node && result, kApiMisuse, "an attribute is asked for with a null pointer");
    store(NodeOf(node)->Attr(RequiredText(name, "the name of an attribute")).get<T>());
  });
}

WeftStatus AttrInts(const WeftNode* node, const char* name, const int64_t** values, size_t* count) {
  return Attribute<Ints>(node, name, values && count ? values : nullptr, [&](const Ints& v) {
    thread_local Ints kept;
    kept = v;
    *values = kept.data();
    *count = kept.size();
  });
}

WeftStatus AttrFloats(const WeftNode* node, const char* name, const double** values,
                      size_t* count) {
  return Attribute<Floats>(node, name, values && count ? values : nullptr, [&](const Floats& v) {
    thread_local Floats kept;
    kept = v;
    *values = kept.data();
    *count = kept.size();
  });
}

WeftStatus AttrStrings(const WeftNode* node, const char* name, const char* const** values,
                       size_t* count) {
  return Attribute<Strings>(node, name, values && count ? values : nullptr, [&](const Strings& v) {
    thread_local Strings kept;
    thread_local std::vector<const char*> texts;
    kept = v;
    texts.clear();
    for (const std::string& s : kept) texts.push_back(s.c_str());
    *values = texts.data();
    *count = texts.size();
  });
}

WeftStatus AttrTensor(const WeftNode* node, const char* name, const WeftView** value) {
  return Attribute<TensorPtr>(node, name, value, [&](const TensorPtr& t) {
    WEFT_CHECK(t && t->dtype() != DType::kString, kBadAttribute,
               "attribute '{}' is not a tensor of numbers", name);
    thread_local View kept;
    kept.Set(t->dtype(), t->dims(), t->data());
    *value = &kept.view;
  });
}

WeftStatus AttrGraph(const WeftNode* node, const char* name, const WeftGraph** graph) {
  return Attribute<GraphPtr>(node, name, graph, [&](const GraphPtr& g) {
    WEFT_CHECK(g, kBadAttribute, "attribute '{}' is not a graph", name);
    // Bodies live as long as their node.
    thread_local std::deque<WeftGraph> kept;
    if (kept.size() == kMostGraphs) kept.pop_front();
    *graph = &kept.emplace_back(*g);
  });
}

// ---- looking ----

NodePtr Checked(const WeftGraph* g, const WeftNode* node) {
  const NodePtr n = NodeOf(node);
  WEFT_CHECK(n && g->graph->owns(n), kApiMisuse, "a node is not of this graph");
  return n;
}
NodeEntry Checked(const WeftGraph* g, const WeftEntry& e) {
  if (!e.node) return {};
  const NodePtr n = Checked(g, e.node);
  WEFT_CHECK(e.index < n->num_outputs(), kApiMisuse, "{} has no output {}", n->Describe(), e.index);
  return {n, e.index};
}

size_t Nodes(const WeftGraph* g, WeftNode** nodes, size_t capacity) {
  size_t count = 0;
  const WeftStatus status = Guard([&] {
    for (NodePtr n : g->graph->TopoOrder()) {
      if (nodes && count < capacity) nodes[count] = HandleOf(n);
      ++count;
    }
  });
  return status == WEFT_OK ? count : 0;
}

WeftStatus TypeOf(const WeftGraph* g, WeftEntry entry, WeftDType* dtype, int32_t* rank,
                  WeftDim* dims, size_t capacity) {
  return Guard([&] {
    const NodeEntry e = Checked(g, entry);
    WEFT_CHECK(e, kApiMisuse, "an absent input has no type");
    if (dtype) {
      const Type t = g->graph->GetAttr<TypeMap>("dtype")[e];
      *dtype = t.is_tensor() ? WeftDType(t.dtype) : WEFT_DTYPE_UNKNOWN;
    }
    if (!rank) return;
    const Shape& s = g->graph->GetAttr<ShapeMap>("shape")[e];
    *rank = s.has_rank() ? s.rank() : -1;
    if (!s.has_rank() || !dims) return;
    for (int d = 0; d < s.rank() && size_t(d) < capacity; ++d) dims[d] = HandleOf(s[d]);
  });
}

constexpr int64_t kLarge = 1 << 16;

const WeftView* ConstantOf(const WeftGraph* g, WeftEntry entry) {
  const WeftView* found = nullptr;
  Guard([&] {
    const NodeEntry e = Checked(g, entry);
    const TensorPtr t = e ? Graph::ConstantOf(e) : nullptr;
    if (!t || t->dtype() == DType::kString) return;
    if (g->shows_once && g->shown && g->shown != t && g->shown->num_bytes() >= kLarge)
      ReleaseMapped(g->shown->data(), g->shown->num_bytes());
    g->shown = t;
    g->constant.Set(t->dtype(), t->dims(), t->data());
    found = &g->constant.view;
  });
  return found;
}

// ---- changing ----

Graph& Editable(const WeftGraph* g) {
  WEFT_CHECK(g->editable, kApiMisuse, "this graph may only be looked at");
  return *g->editable;
}

WeftStatus AddNode(WeftGraph* g, const char* op, const WeftEntry* inputs, size_t count,
                   const char* attrs, const char* name, WeftNode** node) {
  return Guard([&] {
    WEFT_CHECK(node && (inputs || count == 0), kApiMisuse,
               "graph_add_node was given a null pointer");
    std::vector<NodeEntry> operands;
    for (size_t i = 0; i < count; ++i) operands.push_back(Checked(g, inputs[i]));
    *node = HandleOf(Editable(g).AddNode(RequiredText(op, "the operator of a node"), operands,
                                         ParseAttrDict(TextOrEmpty(attrs)), TextOrEmpty(name)));
  });
}

WeftStatus AddConstant(WeftGraph* g, const WeftView* value, WeftEntry* entry) {
  return Guard([&] {
    const WeftView v = ReadDef(value, WEFT_SIZE_UP_TO(WeftView, num_elements), "WeftView");
    WEFT_CHECK(entry, kApiMisuse, "graph_add_constant was given a null pointer");
    WEFT_CHECK(v.dtype > 0 && v.dtype < kNumDTypes && DTypeBits(DType(v.dtype)) > 0, kApiMisuse,
               "a constant of dtype {}", v.dtype);
    WEFT_CHECK(v.rank >= 0 && v.rank <= 64 && (v.rank == 0 || v.dims), kApiMisuse,
               "a constant without dimensions");
    std::vector<int64_t> dims;
    for (int32_t d = 0; d < v.rank; ++d) dims.push_back(v.dims[d]);
    auto t = std::make_shared<Tensor>(DType(v.dtype), std::move(dims));
    WEFT_CHECK(t->num_bytes() == 0 || v.data, kApiMisuse, "a constant without data");
    if (t->num_bytes() > 0) std::memcpy(t->mutable_data(), v.data, size_t(t->num_bytes()));
    const NodeEntry e = Editable(g).AddConstant(std::move(t));
    *entry = {HandleOf(e.node), e.index};
  });
}

WeftStatus ReplaceNode(WeftGraph* g, WeftNode* node, const WeftEntry* entries, size_t count) {
  return Guard([&] {
    const NodePtr n = Checked(g, node);
    WEFT_CHECK(entries && count == n->num_outputs(), kApiMisuse,
               "{} has {} outputs, {} replacements are given", n->Describe(), n->num_outputs(),
               count);
    std::vector<NodeEntry> to;
    for (size_t i = 0; i < count; ++i) to.push_back(Checked(g, entries[i]));
    Editable(g).ReplaceNode(n, to);
  });
}

// ---- registration ----

WeftStatus RegisterPass(const WeftPassDef* given) {
  return Guard([&] {
    RequirePluginEntry();
    const WeftPassDef def = ReadDef(given, WEFT_SIZE_UP_TO(WeftPassDef, needs), "WeftPassDef");
    const std::string name = RequiredText(def.name, "the name of a pass");
    WEFT_CHECK(def.run, kApiMisuse, "pass '{}' has no function", name);
    PassBuilder builder(name, {"plugin", "weft/plugin.h", 0});
    builder.describe(TextOrEmpty(def.doc)).set_change_graph(true);
    for (const std::string& attr : Split(TextOrEmpty(def.needs), ','))
      if (!Trim(attr).empty()) builder.depend_graph_attr(std::string(Trim(attr)));
    builder.statistic("dead", "nodes that nothing uses any more").any_name();
    builder.set_body([def, name](Graph g, PassContext& ctx) {
      WeftGraph graph(g);
      graph.editable = &g;
      WeftPassRun run{&ctx};
      CallPlugin(fmt::format("pass '{}'", name), [&] { return def.run(def.user, &run, &graph); });
      ctx.Count("dead", g.EraseDead());
      return g;
    });
    static_cast<void>(RegisteredPass(std::move(builder)));
  });
}

[[maybe_unused]] const bool registered = [] {
  WeftHost& h = PluginHost();
  h.register_pass = RegisterPass;
  h.node_op = [](const WeftNode* n) {
    return n && NodeOf(n)->op() ? NodeOf(n)->op()->name.c_str() : "";
  };
  h.node_name = [](const WeftNode* n) { return n ? NodeOf(n)->attrs.name.c_str() : ""; };
  h.node_num_inputs = [](const WeftNode* n) { return n ? int32_t(NodeOf(n)->num_inputs()) : 0; };
  h.node_num_outputs = [](const WeftNode* n) { return n ? int32_t(NodeOf(n)->num_outputs()) : 0; };
  h.node_input = [](const WeftNode* n, int32_t i) -> WeftEntry {
    const NodePtr node = NodeOf(n);
    if (!n || i < 0 || uint32_t(i) >= node->num_inputs()) return {nullptr, 0};
    const NodeEntry& e = node->inputs[size_t(i)];
    return {HandleOf(e.node), e.index};
  };
  h.node_attr_int = [](const WeftNode* n, const char* name, int64_t* v) {
    return Attribute<int64_t>(n, name, v, [&](int64_t got) { *v = got; });
  };
  h.node_attr_float = [](const WeftNode* n, const char* name, double* v) {
    return Attribute<double>(n, name, v, [&](double got) { *v = got; });
  };
  h.node_attr_string = [](const WeftNode* n, const char* name, const char** v) {
    return Attribute<std::string>(n, name, v, [&](const std::string& got) { *v = KeepText(got); });
  };
  h.node_attr_ints = AttrInts;
  h.node_has_attr = [](const WeftNode* n, const char* name) -> int32_t {
    return n && name && NodeOf(n)->has_attr(name) ? 1 : 0;
  };
  h.node_attr_floats = AttrFloats;
  h.node_attr_strings = AttrStrings;
  h.node_attr_tensor = AttrTensor;
  h.node_attr_graph = AttrGraph;
  h.graph_nodes = Nodes;
  h.graph_num_uses = [](const WeftGraph* g, const WeftNode* n) -> size_t {
    size_t uses = 0;
    Guard([&] {
      const NodePtr node = Checked(g, n);
      uses = node->uses().size();
      for (const NodeEntry& e : g->graph->outputs) uses += e.node == node;
    });
    return uses;
  };
  h.graph_type = TypeOf;
  h.graph_constant = ConstantOf;
  h.graph_add_node = AddNode;
  h.graph_add_constant = AddConstant;
  h.graph_replace = ReplaceNode;
  h.pass_fuel = [](WeftPassRun* run, const char* rewrite, const WeftNode* n) -> int32_t {
    bool go = false;
    Guard([&] { go = run->context->Fuel(TextOrEmpty(rewrite), NodeOf(n)); });
    return go ? 1 : 0;
  };
  h.pass_count = [](WeftPassRun* run, const char* statistic, int64_t n) {
    Guard([&] { run->context->Count(TextOrEmpty(statistic), n); });
  };
  return true;
}();

}  // namespace
}  // namespace weft::plugin
