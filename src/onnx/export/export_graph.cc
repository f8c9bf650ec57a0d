/// export_graph.cc: one graph: names of its values, the order of its nodes, inputs, outputs and
/// initializers.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_set>

#include "exporter.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/value_name.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"
#include "weft/sym/symbols.h"

namespace weft::onnx_export {
namespace {

template <class M>
const M* MapOf(const Graph& g, const char* name) {
  return g.HasAttr(name) ? &g.GetAttr<M>(name) : nullptr;
}

TensorPtr ValueOf(const NodePtr& variable) {
  const AttrValue* v = variable->attrs.dict.find("value");
  return v && v->is<TensorPtr>() ? v->get<TensorPtr>() : nullptr;
}

}  // namespace

GraphWriter::GraphWriter(ModelExporter* model, const Graph& graph, Names* names, NodeList* nodes,
                         GraphWriter* outer)
    : model_(*model),
      g_(graph),
      names_(names),
      nodes_(nodes),
      outer_(outer),
      shapes_(MapOf<ShapeMap>(graph, "shape")),
      types_(MapOf<TypeMap>(graph, "dtype")),
      node_names_(MapOf<onnx_import::NodeNames>(graph, onnx_import::kNodeNames)),
      is_output_(graph.id_bound(), 0),
      facts_(graph.AttrOr<Facts>("facts")) {
  for (const NodeEntry& e : graph.outputs) {
    WEFT_CHECK(e.node, kInvalidModel, "an output of the graph is not set");
    is_output_[e.node->id()] = 1;
    used_.insert(e.key());
  }
  for (const NodePtr& n : graph.TopoOrder()) {
    const bool attribute = AttributeForOperand1(n) != nullptr;
    for (size_t i = 0; i < n->inputs.size(); ++i)
      if (n->inputs[i] && !(i == 1 && attribute)) used_.insert(n->inputs[i].key());
  }
}

Type GraphWriter::TypeOf(const NodeEntry& e) const {
  if (!e) return Type();
  if (types_) {
    if (const Type* t = types_->find(e); t && t->known()) return *t;
  }
  if (const TensorPtr t = Graph::ConstantOf(e)) return t->dtype();
  if (!e.node->is_variable()) return Type();
  if (const TensorPtr t = ValueOf(e.node)) return t->dtype();
  const AttrValue *dtype = e.node->attrs.dict.find("dtype"),
                  *type = e.node->attrs.dict.find("type");
  if (type && type->is<std::string>()) return ParseType(type->get<std::string>());
  return dtype && dtype->is<DType>() ? Type(dtype->get<DType>()) : Type();
}

Shape GraphWriter::ShapeOf(const NodeEntry& e) const {
  if (!e) return Shape();
  if (shapes_) {
    if (const Shape* s = shapes_->find(e); s && s->has_rank()) return *s;
  }
  if (!e.node->is_variable()) return Shape();
  if (const TensorPtr t = ValueOf(e.node)) return t->shape();
  const AttrValue* shape = e.node->attrs.dict.find("shape");
  return shape && shape->is<Shape>() ? shape->get<Shape>() : Shape();
}

/// Producers first. Where the value of a symbol comes from a node, what needs it comes after that
/// node too.
std::vector<NodePtr> GraphWriter::Order() {
  std::vector<NodePtr> order = g_.TopoOrder();
  const bool moved = std::any_of(sources_.begin(), sources_.end(),
                                 [](const auto& s) { return !s.second.entry.node->is_variable(); });
  if (!moved) return order;
  std::vector<uint32_t> rank(g_.id_bound(), ~0u), waits(order.size(), 0);
  for (uint32_t i = 0; i < order.size(); ++i) rank[order[i]->id()] = i;
  std::vector<std::vector<uint32_t>> users(order.size());
  const auto edge = [&](const Node* from, uint32_t to) {
    users[rank[from->id()]].push_back(to);
    ++waits[to];
  };
  for (uint32_t i = 0; i < order.size(); ++i) {
    const NodePtr n = order[i];
    for (const NodeEntry& e : n->inputs) {
      if (e) edge(e.node.get(), i);
    }
    for (const Node* d : n->control_deps) edge(d, i);
    if (n->is_variable()) continue;
    for (const std::string& s : model_.NeededBy(n)) {
      const auto it = sources_.find(s);
      if (it != sources_.end()) edge(it->second.entry.node.get(), i);
    }
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>> ready;
  for (uint32_t i = 0; i < order.size(); ++i) {
    if (waits[i] == 0) ready.push(i);
  }
  std::vector<NodePtr> out;
  while (!ready.empty()) {
    const uint32_t i = ready.top();
    ready.pop();
    out.push_back(order[i]);
    for (const uint32_t u : users[i]) {
      if (--waits[u] == 0) ready.push(u);
    }
  }
  if (out.size() != order.size()) {
    std::vector<std::string> symbols;
    for (const auto& [symbol, source] : sources_) {
      if (!source.entry.node->is_variable()) symbols.push_back(symbol);
    }
    WEFT_THROW(kUnsupported,
               "dimensions are needed before the nodes that determine them, and no input does: {}",
               fmt::join(symbols, ", "));
  }
  return out;
}

const std::string& GraphWriter::NameOf(const NodeEntry& e) {
  std::string& name = names_of_[e.node->id()][e.index];
  if (!name.empty()) return name;
  std::string base = ValueName(g_, e);
  if (base.empty() && e.index > 0 && !e.node->attrs.name.empty())
    base = fmt::format("{}:{}", e.node->attrs.name, e.index);
  // Names inside of a function say nothing, and without them equal bodies are one function.
  if (base.empty() || kind_ == Kind::kFunction) base = fmt::format("v{}", names_of_.size() - 1);
  return name = names_->Unique(base);
}

/// Each output has the name of its own: of the value where that has none yet, of an
/// Identity otherwise (variables, values that are two outputs). One that is given out again
/// under its name keeps it.
void GraphWriter::NameOutputs(const std::string& prefix) {
  std::map<std::tuple<NodeId, uint32_t, std::string>, size_t> seen;
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const NodeEntry& e = g_.outputs[i];
    const bool by_number = kind_ == Kind::kFunction;
    std::string name = by_number ? fmt::format("{}{}", prefix, i) : g_.OutputName(i);
    const auto [first, fresh] = seen.try_emplace({e.node->id(), e.index, name}, i);
    if (!fresh) {
      output_names_.push_back(output_names_[first->second]);
      continue;
    }
    if (!by_number && e.node->is_variable() && NameOf(e) == name) {
      output_names_.push_back(name);  // an input that is an output: ONNX allows it
      continue;
    }
    name = names_->Unique(name);
    output_names_.push_back(name);
    std::string& value = names_of_[e.node->id()][e.index];
    if (value.empty() && !e.node->is_variable()) value = name;
  }
}

void GraphWriter::WriteOutputs() {
  std::unordered_set<std::string> written;
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const NodeEntry& e = g_.outputs[i];
    const std::string value = NameOf(e);
    if (value == output_names_[i] || !written.insert(output_names_[i]).second) continue;
    pb::NodeProto* n = Add("", "Identity");
    n->add_input(value);
    n->add_output(output_names_[i]);
    model_.opset().Add(*n, {TypeOf(e)}, {TypeOf(e)});
  }
}

pb::NodeProto* GraphWriter::Add(std::string domain, std::string op) {
  pb::NodeProto* n = nodes_->Add();
  n->set_op_type(std::move(op));
  if (!domain.empty()) n->set_domain(std::move(domain));
  return n;
}

bool GraphWriter::WriteValueInfo(const std::string& name, const NodeEntry& e,
                                 pb::ValueInfoProto* out) {
  out->set_name(name);
  const bool known = WriteType(TypeOf(e), ShapeOf(e), out->mutable_type());
  const auto& names = model_.source().dims;
  if (names.empty() || !out->type().has_tensor_type()) return known;
  for (auto& d : *out->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    const auto it = names.find(d.dim_param());
    if (it != names.end()) d.set_dim_param(it->second);
  }
  return known;
}

/// Dims of an output have the names that the source declares for them, where inference does not
/// know them by the inputs' dims or the file is to say what it said; but for names of the inputs'
/// dims: those say something else.
void GraphWriter::RestoreDims(const std::string& output, const Shape& shape,
                              pb::ValueInfoProto* info) const {
  const auto declared = model_.source().outputs.find(output);
  if (declared == model_.source().outputs.end() || !info->type().has_tensor_type()) return;
  const std::vector<std::string>& names = declared->second;
  auto* dims = info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
  if (size_t(dims->size()) != names.size()) return;
  for (int k = 0; k < dims->size(); ++k) {
    const std::string& name = names[size_t(k)];
    if (name.empty() || dims->Get(k).has_dim_value() || input_dims_.count(name)) continue;
    const SymInt d = shape.has_rank() && k < shape.rank() ? shape[k] : SymInt();
    const bool by_inputs = d.known() && EverySymbol(d, [&](SymInt s) {
                             return input_symbols_.count(s.symbol_name()) != 0;
                           });
    if (by_inputs && model_.options().value_info != ExportOptions::ValueInfo::kDeclared) continue;
    dims->Mutable(k)->set_dim_param(name);
  }
}

void GraphWriter::WriteNodes() {
  for (const NodePtr n : g_.AllInputs()) NoteExtents(n);
  for (const NodePtr n : order_) {
    if (n->is_variable()) continue;
    try {
      WriteNode(n);
      if (IsOp(n, builtin::kShapeTensor)) continue;
      for (uint32_t k = 0; k < n->num_outputs(); ++k) NoteExtents({n, k});
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      model_.Problem(n, e.message());
    }
  }
}

void GraphWriter::WriteMain(pb::GraphProto* out) {
  kind_ = Kind::kMain;
  out->set_name(g_.name().empty() ? "graph" : g_.name());
  const std::vector<NodePtr> inputs = g_.AllInputs();
  std::vector<uint8_t> declared(g_.id_bound(), 0);
  // Names that others refer to come first, so that they stay as they are.
  for (const NodePtr p : inputs) {
    declared[p->id()] = 1;
    SetName(p, names_->Unique(p->attrs.name.empty() ? "input" : p->attrs.name));
    if (!WriteValueInfo(NameOf(p), p, out->add_input()))
      model_.Problem(p, "an input of an ONNX model has a dtype, and this one is not known");
    for (const auto& d : out->input().rbegin()->type().tensor_type().shape().dim())
      input_dims_.insert(d.dim_param());
    const Shape shape = ShapeOf(p);
    for (int k = 0; shape.has_rank() && k < shape.rank(); ++k)
      for (SymInt symbol : shape[k].known() ? shape[k].Symbols() : std::vector<SymInt>())
        input_symbols_.insert(symbol.symbol_name());
    if (const TensorPtr value = ValueOf(p)) model_.WriteInitializer(NameOf(p), value);
  }
  NameOutputs("");
  FindSources();
  order_ = Order();
  for (const NodePtr n : order_) {
    if (!n->is_variable() || declared[n->id()]) continue;
    const TensorPtr value = ValueOf(n);
    if (value && !IsUsed(n)) continue;  // its content is an attribute
    if (value)
      model_.WriteInitializer(NameOf(n), value);
    else
      model_.Problem(n, "ONNX has no state; a variable with a value becomes an initializer");
  }
  WriteNodes();
  WriteOutputs();
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    pb::ValueInfoProto* info = out->add_output();
    if (!WriteValueInfo(output_names_[i], g_.outputs[i], info))
      model_.Problem(g_.outputs[i].node,
                     "an output of an ONNX model has a dtype, and this one is not known");
    RestoreDims(g_.OutputName(i), ShapeOf(g_.outputs[i]), info);
  }
  std::unordered_set<std::string> outputs(output_names_.begin(), output_names_.end());
  for (const NodePtr n : order_) {
    if (n->is_variable()) continue;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const NodeEntry e(n, k);
      if (!IsUsed(e) || !model_.Tells(NameOf(e)) || outputs.count(NameOf(e)) ||
          !TypeOf(e).known() || !ShapeOf(e).has_rank())
        continue;
      pb::ValueInfoProto info;
      if (WriteValueInfo(NameOf(e), e, &info)) *out->add_value_info() = std::move(info);
    }
  }
}

void GraphWriter::WriteFunction(pb::FunctionProto* out) {
  kind_ = Kind::kFunction;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    SetName(g_.inputs()[i], names_->Unique(fmt::format("i{}", i)));
    out->add_input(NameOf(g_.inputs()[i]));
  }
  for (const std::string& s : model_.SymbolsOf(g_).outer) {
    values_[s] = names_->Unique(s);
    out->add_input(values_[s]);
  }
  NameOutputs("o");
  for (const std::string& name : output_names_) out->add_output(name);
  FindSources();
  order_ = Order();
  std::vector<uint8_t> declared(g_.id_bound(), 0);
  for (const NodePtr p : g_.inputs()) declared[p->id()] = 1;
  for (const NodePtr n : order_) {
    if (!n->is_variable() || declared[n->id()]) continue;
    const TensorPtr value = ValueOf(n);
    WEFT_CHECK(value != nullptr, kUnsupported, "the body reads {}, which is not an input of it",
               n->Describe());
    // A function has no initializers.
    pb::NodeProto* constant = Add("", "Constant");
    WriteAttribute("value", value, pb::AttributeProto::TENSOR, constant->add_attribute());
    constant->add_output(NameOf(n));
    model_.opset().Add(*constant, {}, {value->dtype()});
  }
  WriteNodes();
  WriteOutputs();
}

void GraphWriter::WriteNested(const std::vector<std::string>& captures, pb::GraphProto* out) {
  kind_ = Kind::kNested;
  out->set_name(g_.name().empty() ? "body" : g_.name());
  const std::vector<NodePtr>& inputs = g_.inputs();
  WEFT_CHECK(inputs.size() >= captures.size(), kUnsupported,
             "the body takes {} inputs and is given {} captured ones", inputs.size(),
             captures.size());
  const size_t formals = inputs.size() - captures.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i >= formals) {
      SetName(inputs[i], captures[i - formals]);
      continue;
    }
    SetName(inputs[i],
            names_->Unique(inputs[i]->attrs.name.empty() ? "input" : inputs[i]->attrs.name));
    pb::ValueInfoProto* info = out->add_input();
    if (!WriteValueInfo(NameOf(inputs[i]), inputs[i], info)) info->clear_type();
  }
  NameOutputs("");
  FindSources();
  order_ = Order();
  std::vector<uint8_t> declared(g_.id_bound(), 0);
  for (const NodePtr p : inputs) declared[p->id()] = 1;
  for (const NodePtr n : order_) {
    if (!n->is_variable() || declared[n->id()]) continue;
    const TensorPtr value = ValueOf(n);
    WEFT_CHECK(value != nullptr, kUnsupported, "the body reads {}, which is not an input of it",
               n->Describe());
    pb::TensorProto* t = out->add_initializer();
    t->set_name(NameOf(n));
    WriteTensor(*value, t);
  }
  WriteNodes();
  WriteOutputs();
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    pb::ValueInfoProto* info = out->add_output();
    if (!WriteValueInfo(output_names_[i], g_.outputs[i], info)) info->clear_type();
  }
}

}  // namespace weft::onnx_export
