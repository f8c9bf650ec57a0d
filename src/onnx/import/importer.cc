/// importer.cc: graphs and the names in them. Single nodes are in import_node.cc, functions in
/// import_function.cc.
#include "importer.h"

#include <algorithm>
#include <unordered_set>

#include "weft/core/graph/metadata.h"
#include "weft/core/graph/value_name.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

/// Errors that end the import at once instead of being collected.
bool EndsImport(const Error& e) {
  return e.code() == ErrorCode::kLimit || e.code() == ErrorCode::kOutOfMemory ||
         e.code() == ErrorCode::kCancelled || e.code() == ErrorCode::kInternal;
}

}  // namespace

std::string CapturedName(const Graph& body, size_t number) {
  std::string name = fmt::format("captured_{}", number);
  const auto taken = [&](const NodePtr& p) { return p->attrs.name == name; };
  while (std::any_of(body.inputs().begin(), body.inputs().end(), taken)) name += "_";
  return name;
}

// ---- names ----

Value* Importer::Find(Scope* s, const std::string& name) {
  if (s->group) {
    const auto it = s->group->find(name);
    if (it != s->group->end()) return &it->second;
  }
  const auto it = s->values.find(name);
  return it == s->values.end() ? nullptr : &it->second;
}

const Value& Importer::Resolve(Scope* s, const std::string& name) {
  Value* v = Find(s, name);
  WEFT_CHECK(v != nullptr, kUnsupported,
             "value {} is not computed by this build's form of its operator", Printable(name));
  WEFT_CHECK(v->state != Value::kMissing, kUnsupported,
             "value {} is an output that the operator does not have in this build",
             Printable(name));
  if (v->state == Value::kInitializer) {
    const TensorPtr t = v->tensor ? tensors_.Read(v->tensor, !s->temporary)
                                  : tensors_.ReadSparse(v->sparse, !s->temporary);
    const NodePtr p = s->build->graph.AddParam(name, t);
    s->build->types.Set(p, Type(t->dtype()));
    *v = Value::Of(NodeEntry(p));
  }
  return *v;
}

void Importer::Define(Scope* s, const std::string& name, Value v) {
  if (!name.empty()) (s->group ? *s->group : s->values)[name] = v;
}

void Importer::NameValue(Scope* s, const std::string& name, const Value& v) {
  if (name.empty() || v.state != Value::kEntry || v.entry.node->is_variable()) return;
  SetValueName(&s->build->graph, v.entry, s->prefix + name);
}

DType Importer::DTypeOf(Scope* s, const std::string& name) {
  const Value* v = Find(s, name);
  if (!v) return DType::kUnknown;
  if (v->state == Value::kInitializer) {
    return DTypeOfOnnx(v->tensor ? v->tensor->data_type() : v->sparse->values().data_type())
        .value_or(DType::kUnknown);
  }
  const Type t = v->state == Value::kEntry ? s->build->types.Of(v->entry) : Type();
  return t.is_tensor() ? t.dtype : DType::kUnknown;
}

Shape Importer::ShapeOf(Scope* s, const std::string& name) {
  const Value* v = Find(s, name);
  if (!v) return Shape();
  if (v->state == Value::kInitializer) {
    const auto& dims = v->tensor ? v->tensor->dims() : v->sparse->dims();
    return Shape::OfInts(std::vector<int64_t>(dims.begin(), dims.end()));
  }
  return v->state == Value::kEntry ? s->build->shapes.Of(v->entry) : Shape();
}

TensorPtr Importer::ConstantOf(Scope* s, const std::string& name) {
  const Value* v = Find(s, name);
  if (v && v->state == Value::kInitializer) v = &Resolve(s, name);
  return v && v->state == Value::kEntry ? Graph::ConstantOf(v->entry) : nullptr;
}

pb::TypeProto Importer::ProtoTypeOf(Scope* s, const std::string& name) {
  pb::TypeProto type;
  const Value* v = Find(s, name);
  const Type known = v && v->state == Value::kEntry ? s->build->types.Of(v->entry) : Type();
  if (known.is_sequence() && known.known()) {
    type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(
        TraitsOf(known.dtype).onnx);
    return type;
  }
  const DType dtype = DTypeOf(s, name);
  if (dtype == DType::kUnknown) return type;
  type.mutable_tensor_type()->set_elem_type(TraitsOf(dtype).onnx);
  const Shape shape = ShapeOf(s, name);
  if (!shape.has_rank()) return type;
  auto* dims = type.mutable_tensor_type()->mutable_shape();
  for (const SymInt d : shape.dims()) {
    auto* dim = dims->add_dim();
    if (const auto value = d.known() ? d.try_value() : std::nullopt) dim->set_dim_value(*value);
  }
  return type;
}

// ---- graphs ----

void Importer::ImportInputs(Scope* s, pb::GraphProto* g) {
  const auto is_overridable = [&](const std::string& name) {
    return std::find(options_.overridable.begin(), options_.overridable.end(), name) !=
           options_.overridable.end();
  };
  std::unordered_set<std::string_view> initialized;
  const auto initializer = [&](const std::string& name, pb::TensorProto* t,
                               pb::SparseTensorProto* sparse) {
    initialized.insert(name);
    Value v = Value::Of(Value::kInitializer);
    v.tensor = t;
    v.sparse = sparse;
    s->values[name] = v;
    if (!t || !IsExternal(*t)) return;
    // Also those that nothing uses: a model that points outside of its folder is refused whole.
    try {
      tensors_.CheckExternal(*t);
    } catch (const Error& e) {
      diag_->Add(e, fmt::format("{}/initializer {}", s->path, Printable(name)));
    }
  };
  for (auto& t : *g->mutable_initializer()) initializer(t.name(), &t, nullptr);
  for (auto& t : *g->mutable_sparse_initializer()) initializer(t.values().name(), nullptr, &t);
  for (const auto& input : g->input()) {
    if (initialized.count(input.name()) && !is_overridable(input.name())) {
      CheckDeclared(s, input, "input", s->depth == 0);
      continue;
    }
    const Type type = TypeOfValue(input.type());
    const NodePtr p = s->build->graph.AddInput(input.name(), type, ShapeOfInput(input, &symbols_));
    s->build->types.Set(p, type);
    s->build->inputs.push_back(p);
    s->values[input.name()] = Value::Of(NodeEntry(p));
  }
}

void Importer::ImportOutputs(Scope* s, const pb::GraphProto& g) {
  Graph& graph = s->build->graph;
  std::vector<NodeEntry> entries;
  for (const auto& output : g.output()) {
    const std::string place = fmt::format("{}/output {}", s->path, Printable(output.name()));
    try {
      const Value& v = Resolve(s, output.name());
      WEFT_CHECK(v.state != Value::kAbsent, kInvalidModel,
                 "the output is an argument that was left out");
      if (v.state == Value::kEntry) entries.push_back(v.entry);
    } catch (const Error& e) {
      if (EndsImport(e)) throw;
      diag_->Add(e, place);
    }
  }
  if (int(entries.size()) != g.output_size())
    return;  // something was poisoned; the import fails for that
  graph.outputs = entries;
  for (int i = 0; i < g.output_size(); ++i) graph.SetOutputName(size_t(i), g.output(i).name());
}

void Importer::FinishGraph(Build* build) {
  if (build->has_cuts) build->graph.SetInputs(build->inputs);
  build->graph.SetAttr(kNodeNames, std::move(build->node_names));
}

void Importer::CountNode() {
  Limits::Check("expanded_nodes", ++nodes_seen_, options_.limits.expanded_nodes);
  RequestScope::Poll();
  if (nodes_seen_ % 1024 == 0) deadline_.Check("import");
}

void Importer::ImportNodes(Scope* s, google::protobuf::RepeatedPtrField<pb::NodeProto>* nodes) {
  const auto order = valid_.orders.find(nodes);
  for (int k = 0; k < nodes->size() && !diag_->full(); ++k) {
    const int i = order == valid_.orders.end() ? k : order->second[size_t(k)];
    pb::NodeProto* n = nodes->Mutable(i);
    CountNode();
    const Place place = NodePlace(s->path, i, n->name(), n->domain(), n->op_type());
    try {
      ImportNode(s, n, place);
    } catch (Error& e) {
      s->group = nullptr;
      if (EndsImport(e)) {
        if (e.place().find('/') == std::string::npos) e.AddPlace(place);
        throw;
      }
      diag_->Add(e, place);
      for (const std::string& o : n->output()) Define(s, o, Value::Of(Value::kPoisoned));
    }
  }
}

void Importer::ImportNode(Scope* s, pb::NodeProto* n, const Place& place) {
  if (pb::FunctionProto* f = valid_.functions.Find(*n)) return CallFunction(s, f, n, place);
  ImportRecord(s, MakeRecord(s, n), place);
}

NodePtr Build::AddCaptured(const NodeEntry& value, const std::string& name) {
  const Type type = value ? outer->types.Of(value) : Type();
  const NodePtr p = graph.AddInput(name, type);
  types.Set(p, type);
  if (value) shapes.Know(p, outer->shapes.Of(value));
  inputs.push_back(p);
  captured.push_back({p, value});
  return p;
}

NodeEntry Build::Capture(const NodeEntry& value) {
  for (const Captured& c : captured)
    if (c.value == value) return c.variable;
  return AddCaptured(value, CapturedName(graph, captured.size()));
}

Graph Importer::ImportBody(Scope* s, pb::GraphProto* g, BodyOperands* operands,
                           const Place& place) {
  Limits::Check("depth", s->depth + 1, options_.limits.depth);
  Build build;
  build.outer = s->build;
  Scope inner;
  inner.build = &build;
  inner.outer = s;
  inner.opsets = s->opsets;
  inner.bindings = s->bindings;
  inner.path = place;
  inner.depth = s->depth + 1;
  inner.temporary = s->temporary;
  build.graph.set_name(g->name());
  ImportInputs(&inner, g);
  for (size_t i = 0; i < operands->captured.size(); ++i) {
    // A name of its own hides the captured one; the operand stays, so that all bodies of a node
    // take the same ones.
    const bool named = i < operands->names.size();
    const std::string name = named ? operands->names[i] : CapturedName(build.graph, i);
    const NodePtr p = build.AddCaptured(operands->captured[i], name);
    if (named) inner.values.emplace(name, Value::Of(NodeEntry(p)));
  }
  for (const std::string& name : operands->absent)
    inner.values.emplace(name, Value::Of(Value::kAbsent));
  ImportNodes(&inner, g->mutable_node());
  ImportOutputs(&inner, *g);
  CheckDeclared(&inner, *g);
  CheckGradients(&inner, *operands);
  FinishGraph(&build);
  for (size_t i = operands->captured.size(); i < build.captured.size(); ++i)
    operands->captured.push_back(build.captured[i].value);
  return std::move(build.graph);
}

Graph Importer::Run() {
  pb::GraphProto* g = model_->mutable_graph();
  for (const std::string& name : options_.overridable) {
    const bool known = std::any_of(g->input().begin(), g->input().end(),
                                   [&](const auto& v) { return v.name() == name; });
    if (known) continue;
    std::vector<std::string> names;
    for (const auto& v : g->input()) names.push_back(v.name());
    std::string hint = DidYouMean(name, names);
    if (hint.empty() && !names.empty()) {
      hint = "there are: " + Join(names, ", ").substr(0, 400);
    }
    ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no input {}", Printable(name)),
               "", std::move(hint));
  }
  symbols_.Reserve(*g);
  Build build;
  Scope main;
  main.build = &build;
  main.opsets = &valid_.opsets;
  main.path = "main";
  build.graph.set_name(g->name());
  ImportInputs(&main, g);
  ImportNodes(&main, g->mutable_node());
  ImportOutputs(&main, *g);
  CheckDeclared(&main, *g);
  FinishGraph(&build);
  ModelMetadata metadata;
  for (const auto& entry : model_->metadata_props()) metadata[entry.key()] = entry.value();
  SetMetadata(&build.graph, std::move(metadata));
  build.graph.SetAttr(ModelSource::kAttr, Source());
  return std::move(build.graph);
}

ModelSource Importer::Source() const {
  const pb::GraphProto& g = model_->graph();
  ModelSource source;
  const auto opset = valid_.opsets.find("");
  source.opset = opset == valid_.opsets.end() ? 0 : opset->second.version;
  source.ir_version = model_->ir_version();
  source.dims = symbols_.Renamed();
  for (const auto& output : g.output()) {
    std::vector<std::string>& dims = source.outputs[output.name()];
    for (const auto& d : output.type().tensor_type().shape().dim()) dims.push_back(d.dim_param());
  }
  for (const auto& info : g.value_info()) source.value_infos.insert(info.name());
  return source;
}

std::vector<UnsupportedGroup> Importer::unsupported() const {
  std::vector<UnsupportedGroup> list;
  for (const auto& [key, group] : unsupported_) list.push_back(group);
  return list;
}

}  // namespace weft::onnx_import
