/// exporter.cc: what the graphs of one model share: functions, initializers, operator sets, and the
/// list of what has no ONNX form.
#include "exporter.h"

#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/metadata.h"
#include "weft/core/op/onnx_body.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft::onnx_export {
namespace {

constexpr const char* kDomain = "weft";
constexpr size_t kProblemsShown = 50;

void AddOpset(google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>* list,
              const std::string& domain, int64_t version) {
  auto* opset = list->Add();
  opset->set_domain(domain);
  opset->set_version(version);
}

/// Domains of the nodes, those of nested graphs included; recursion over nested graphs only.
void CollectDomains(const NodeList& nodes, std::set<std::string>* out) {
  for (const auto& n : nodes) {
    out->insert(n.domain());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) CollectDomains(a.g().node(), out);
    }
  }
}

/// ONNX's own domain first, then the others by name. Other domains than ours are at version 1: the
/// graph knows none.
void ImportDomains(const NodeList& nodes, int64_t version,
                   google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>* list) {
  std::set<std::string> domains{""};
  CollectDomains(nodes, &domains);
  for (const std::string& d : domains) AddOpset(list, d, d.empty() ? version : 1);
}

/// "Add_Gelu_LayerNormalization": the operators in order, each once in a row; those that make sizes
/// or write values otherwise only where there are no others.
std::string NameFor(const Graph& body) {
  constexpr size_t kMaxOps = 6;
  static const std::set<std::string> quiet = {"Cast",    "Expand",  "Identity", "Range",
                                              "Reshape", "Squeeze", "Unsqueeze"};
  std::vector<std::string> ops, quiet_ops;
  for (const NodePtr n : body.TopoOrder()) {
    if (n->is_variable() || IsOp(n, builtin::kConstant) || IsOp(n, builtin::kShapeTensor)) continue;
    const std::string& key = n->op()->name;
    std::string op = key.substr(key.rfind(':') + 1);
    std::vector<std::string>& list = quiet.count(op) ? quiet_ops : ops;
    if (list.empty() || list.back() != op) list.push_back(std::move(op));
  }
  if (ops.empty()) ops = std::move(quiet_ops);
  if (ops.empty()) return "Fused";
  if (ops.size() <= kMaxOps) return fmt::format("{}", fmt::join(ops, "_"));
  // The first and the last few say what it is about.
  const auto half = ptrdiff_t(kMaxOps / 2);
  return fmt::format("{}_and_{}_more_{}", fmt::join(ops.begin(), ops.begin() + half, "_"),
                     ops.size() - kMaxOps, fmt::join(ops.end() - half, ops.end(), "_"));
}

}  // namespace

std::string Names::Unique(const std::string& base) {
  if (Take(base)) return base;
  int& next = next_.try_emplace(base, 2).first->second;
  for (;;) {
    std::string name = fmt::format("{}.{}", base, next++);
    if (Take(name)) return name;
  }
}

void ModelExporter::Problem(const NodePtr& node, const std::string& why) {
  if (total_problems_++ < kProblemsShown)
    problems_.push_back(fmt::format("{}: {}", node->Describe(), why));
}

void ModelExporter::ThrowProblems() const {
  if (total_problems_ == 0) return;
  std::string text = total_problems_ == 1
                         ? "a node has no ONNX form: " + problems_[0]
                         : fmt::format("{} nodes have no ONNX form:", total_problems_);
  if (total_problems_ > 1) {
    for (const std::string& p : problems_) text += "\n  " + p;
    if (total_problems_ > problems_.size()) text += "\n  ...";
  }
  ThrowError(ErrorCode::kUnsupported, std::move(text), "export to ONNX");
}

void ModelExporter::EnterNested() { Limits::Check("depth", ++depth_, options_.limits.depth); }

void ModelExporter::WriteInitializer(const std::string& name, const TensorPtr& t) {
  pb::TensorProto* proto = main_->add_initializer();
  proto->set_name(name);
  const bool external = t->dtype() != DType::kString && t->num_bytes() > 0 &&
                        t->num_bytes() >= options_.external_bytes;
  if (large_ && external) {
    WriteTensorHead(*t, proto);
    large_->push_back({t, proto});
  } else {
    WriteTensor(*t, proto);
  }
}

std::set<std::string> ModelExporter::NeededBy(const NodePtr& n) {
  std::set<std::string> needed;
  for (const auto& [name, value] : n->attrs.dict) {
    if (value.is<GraphPtr>() && value.get<GraphPtr>()) {
      const auto& inner = SymbolsOf(*value.get<GraphPtr>()).outer;
      needed.insert(inner.begin(), inner.end());
    } else if (value.is<Shape>() && IsOp(n, builtin::kShapeTensor)) {
      for (const SymInt d : value.get<Shape>().dims())
        for (const SymInt s : d.Symbols()) needed.insert(s.symbol_name());
    }
  }
  return needed;
}

const GraphSymbols& ModelExporter::SymbolsOf(const Graph& g) {
  const auto known = symbols_.find(&g);
  if (known != symbols_.end()) return known->second;
  EnterNested();
  std::set<std::string> needed;
  GraphSymbols symbols;
  const ShapeMap* shapes = g.HasAttr("shape") ? &g.GetAttr<ShapeMap>("shape") : nullptr;
  for (const NodePtr n : g.TopoOrder()) {
    const std::set<std::string> by_node = NeededBy(n);
    needed.insert(by_node.begin(), by_node.end());
    for (uint32_t i = 0; shapes && !n->is_variable() && i < n->num_outputs(); ++i)
      for (const SymInt d : (*shapes)[NodeEntry(n, i)].dims())
        if (d.known() && d.is_unbacked() && !by_node.count(d.symbol_name()))
          symbols.own.insert(d.symbol_name());
  }
  LeaveNested();
  for (const std::string& s : needed)
    if (!symbols.own.count(s)) symbols.outer.push_back(s);
  for (auto it = symbols.own.begin(); it != symbols.own.end();)
    it = needed.count(*it) ? std::next(it) : symbols.own.erase(it);
  return symbols_.emplace(&g, std::move(symbols)).first->second;
}

FunctionRef ModelExporter::Intern(std::string base, pb::FunctionProto f,
                                  std::vector<std::string> symbols) {
  const std::string key = base + '\0' + f.SerializeAsString();
  const auto [it, fresh] = function_names_.try_emplace(key);
  if (fresh) {
    const int number = ++numbers_[base];
    // ONNX Runtime takes a function that is called as an operator of ONNX for that operator.
    const bool taken =
        pb::OpSchemaRegistry::Schema(base, onnx_import::NewestOpset(), "") != nullptr;
    it->second = number == 1 && !taken ? base : fmt::format("{}_{}", base, number);
    f.set_name(it->second);
    f.set_domain(kDomain);
    functions_.push_back(std::move(f));
  }
  return {it->second, std::move(symbols)};
}

FunctionRef ModelExporter::Fused(const GraphPtr& body) {
  const auto known = fused_.find(body.get());
  if (known != fused_.end()) return known->second;
  EnterNested();
  pb::FunctionProto f;
  Names names;
  GraphWriter(this, *body, &names, f.mutable_node()).WriteFunction(&f);
  LeaveNested();
  return fused_.emplace(body.get(), Intern(NameFor(*body), std::move(f), SymbolsOf(*body).outer))
      .first->second;
}

std::optional<FunctionRef> ModelExporter::OfOperator(const NodePtr& n, const TypeMap* types,
                                                     const ShapeMap* shapes) {
  static const auto& bodies = Op::GetAttr<FOnnxBody>("FOnnxBody");
  OnnxBodyRequest request;
  request.node = n;
  std::string in, out;
  for (const NodeEntry& e : n->inputs) {
    in += fmt::format("{}i{}", in.empty() ? "" : ", ", request.input_types.size());
    request.input_types.push_back(e && types ? (*types)[e] : Type());
    request.input_shapes.push_back(e && shapes ? (*shapes)[e] : Shape());
  }
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    out += fmt::format("{}o{}", k ? ", " : "", k);
    request.output_shapes.push_back(shapes ? (*shapes)[NodeEntry(n, k)] : Shape());
  }
  const std::string nodes = bodies[n->op()](request);
  if (nodes.empty()) return std::nullopt;
  const std::string text = fmt::format("f ({}) => ({}) {{\n{}\n}}", in, out, nodes);
  pb::FunctionProto f;
  pb::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(f);
  WEFT_ICHECK(status.IsOK(), "the ONNX form of {} does not parse: {}\n{}", n->op()->name,
              status.ErrorMessage(), text);
  opset_.AddBody(f);
  const std::string& key = n->op()->name;
  return Intern(key.substr(key.rfind(':') + 1), std::move(f), {});
}

void ModelExporter::Run(pb::ModelProto* model, std::vector<Large>* large) {
  main_ = model->mutable_graph();
  large_ = large;
  Names names;
  GraphWriter(this, graph_, &names, main_->mutable_node()).WriteMain(main_);
  ThrowProblems();
  const int64_t version = opset_.version();
  // A file that nothing newer was put into keeps the version of its format; before 4, parameters
  // have to be inputs.
  const bool as_it_came = version == source_.opset && functions_.empty() && source_.ir_version >= 4;
  model->set_ir_version(as_it_came ? source_.ir_version : IrVersionOf(version));
  model->set_producer_name("weft");
  std::set<std::string> domains{""};
  CollectDomains(main_->node(), &domains);
  for (pb::FunctionProto& f : functions_) {
    CollectDomains(f.node(), &domains);
    ImportDomains(f.node(), version, f.mutable_opset_import());
    *model->add_functions() = std::move(f);
  }
  for (const std::string& d : domains)
    AddOpset(model->mutable_opset_import(), d, d.empty() ? version : 1);
  for (const auto& [key, value] : Metadata(graph_)) {
    auto* entry = model->add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
}

}  // namespace weft::onnx_export
