/// export_node.cc: one node: as it is where ONNX has the operator, else as a call of a function.
#include <onnx/defs/schema.h>

#include <algorithm>

#include "exporter.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/value_name.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"

namespace weft::onnx_export {
namespace {

/// Constants above this size are initializers: runtimes keep those apart from the nodes.
constexpr int64_t kLargestConstantNode = 1024;
constexpr int64_t kSplitCounts = 18;  ///< the operator set since which Split has num_outputs
/// How many of the operands are captured by the graphs of a node; import writes it.
constexpr const char* kNumCaptures = "num_captures";

bool HasGraph(const NodePtr& n) {
  return std::any_of(n->attrs.dict.begin(), n->attrs.dict.end(),
                     [](const auto& item) { return item.second.template is<GraphPtr>(); });
}

size_t NumCaptures(const NodePtr& n) {
  const AttrValue* v = HasGraph(n) ? n->attrs.dict.find(kNumCaptures) : nullptr;
  if (!v) return 0;
  const int64_t count = v->get<int64_t>();
  WEFT_CHECK(count >= 0 && size_t(count) <= n->inputs.size(), kUnsupported,
             "attribute '{}' is {}, the node has {} inputs", kNumCaptures, count, n->inputs.size());
  return size_t(count);
}

/// BatchNormalization's running statistics are optional in the schema only: in training, where
/// there are any, shape inference of ONNX wants all of them.
bool IsOptionalOutput(const pb::OpSchema* schema, uint32_t k) {
  return schema && schema->Name() != "BatchNormalization" && k < schema->outputs().size() &&
         schema->outputs()[k].GetOption() == pb::OpSchema::Optional;
}

}  // namespace

bool GraphWriter::IsUsed(const NodeEntry& e) const { return used_.count(e.key()) != 0; }

void GraphWriter::NameNode(const NodePtr& n, pb::NodeProto* out) {
  if (kind_ == Kind::kFunction) return;
  const std::string* given = node_names_ ? node_names_->find(n) : nullptr;
  const std::string& name = given ? *given : n->attrs.name;
  if (!name.empty()) out->set_name(model_.NodeName(name));
  if (!n->origin()) return;
  std::string text;
  for (const std::string& s : *n->origin()) text += (text.empty() ? "stands for " : ", ") + s;
  out->set_doc_string(text);
}

void GraphWriter::WriteInputs(const NodePtr& n, size_t count, pb::NodeProto* out) {
  while (count > 0 && !n->inputs[count - 1]) --count;
  for (size_t i = 0; i < count; ++i) {
    const NodeEntry& e = n->inputs[i];
    out->add_input(e ? NameOf(e) : std::string());
  }
}

void GraphWriter::WriteNode(const NodePtr& n) {
  const std::string& key = n->op()->name;
  if (key == builtin::kConstant) return WriteConstant(n);
  if (key == builtin::kShapeTensor) return WriteShapeTensor(n);
  if (key == builtin::kFused) return WriteCall(n, model_.Fused(FusedBody(n)));
  if (key == builtin::kDelegated) return WriteCall(n, model_.Fused(n->attr<GraphPtr>("body")));
  const size_t colons = key.rfind("::");
  const std::string domain = colons == std::string::npos ? "" : key.substr(0, colons);
  const std::string op = colons == std::string::npos ? key : key.substr(colons + 2);
  if (n->op()->has("FOnnxBody"))
    if (const auto f = model_.OfOperator(n, types_, shapes_)) return WriteCall(n, *f);
  const auto* schema = pb::OpSchemaRegistry::Schema(op, onnx_import::NewestOpset(), domain);
  if (domain.empty() || schema != nullptr) {
    WEFT_CHECK(schema != nullptr && domain.empty(), kUnsupported, "ONNX has no operator {}", key);
    return WriteStandard(n, domain, op, schema);
  }
  WEFT_CHECK(model_.options().allow_custom_ops && domain != "weft", kUnsupported,
             "operator {} has no form in ONNX's operators", key);
  WriteStandard(n, domain, op, nullptr);
}

/// The attribute that a constant operand 1 is in the operator set that is written for; else null.
const char* GraphWriter::AttributeForOperand1(const NodePtr& n) const {
  if (n->is_variable() || n->num_inputs() != 2 || !n->inputs[0] || !n->inputs[1]) return nullptr;
  const TensorPtr value = Graph::ConstantOf(n->inputs[1]);
  // No axes at all are all axes for an attribute, whatever noop_with_empty_axes says.
  if (!value || value->dtype() != DType::kI64 || value->num_elements() == 0) return nullptr;
  return model_.opset().AttributeForOperand1(n->op()->name, TypeOf(n->inputs[0]));
}

void GraphWriter::WriteConstant(const NodePtr& n) {
  if (!IsUsed(n)) return;
  const TensorPtr t = Graph::ConstantOf(n);
  WEFT_CHECK(t != nullptr, kUnsupported, "the constant has no value");
  const bool large =
      t->dtype() == DType::kString ? t->num_elements() > 0 : t->num_bytes() > kLargestConstantNode;
  // What a graph output names is written by a node, so that it is no initializer.
  if (kind_ == Kind::kMain && large && !is_output_[n->id()])
    return model_.WriteInitializer(NameOf(n), t);
  pb::NodeProto* out = Add("", "Constant");
  NameNode(n, out);
  WriteAttribute("value", t, pb::AttributeProto::TENSOR, out->add_attribute());
  out->add_output(NameOf(n));
  model_.opset().Add(*out, {}, {t->dtype()});
}

void GraphWriter::WriteShapeTensor(const NodePtr& n) {
  const Shape& dims = n->attrs.dict.at("dims").get<Shape>();
  std::vector<std::string> parts;
  if (!dims.is_static()) {
    for (const SymInt d : dims.dims())
      WEFT_CHECK(d.known(), kUnsupported, "a dimension of {} is unknown", dims.ToString());
    parts = ExtentParts(dims.dims());
  }
  if (parts.size() == 1 && !is_output_[n->id()]) return SetName(n, parts[0]);
  pb::NodeProto* out = Add("", parts.empty() ? "Constant" : "Concat");
  NameNode(n, out);
  for (const std::string& p : parts) out->add_input(p);
  if (parts.empty()) {
    WriteAttribute("value", Tensor::Ints(dims.ints()), pb::AttributeProto::TENSOR,
                   out->add_attribute());
  } else {
    WriteAttribute("axis", int64_t{0}, pb::AttributeProto::INT, out->add_attribute());
  }
  out->add_output(NameOf(n));
  model_.opset().Add(*out, {}, {});
}

void GraphWriter::WriteCall(const NodePtr& n, const FunctionRef& f) {
  std::vector<std::string> symbols;  // before the node: they may need nodes of their own
  for (const std::string& s : f.symbols) symbols.push_back(SymbolValue(s));
  pb::NodeProto* out = Add("weft", f.name);
  NameNode(n, out);
  if (symbols.empty()) {
    WriteInputs(n, n->inputs.size(), out);
  } else {
    for (const NodeEntry& e : n->inputs) out->add_input(e ? NameOf(e) : std::string());
  }
  for (const std::string& s : symbols) out->add_input(s);
  for (uint32_t k = 0; k < n->num_outputs(); ++k) out->add_output(NameOf(NodeEntry(n, k)));
}

/// Proved: all parts of a Split have the same length.
bool GraphWriter::HasEqualParts(const NodePtr& n) const {
  const Shape s = ShapeOf(n->inputs[0]);
  const int64_t axis = n->attr<int64_t>("axis");
  if (!s.has_rank() || axis < -s.rank() || axis >= s.rank()) return false;
  const SymInt extent = s[int(axis < 0 ? axis + s.rank() : axis)];
  return Facts().Divides(n->num_outputs(), extent) == Proof::kYes;
}

void GraphWriter::WriteAttributes(const NodePtr& n, const pb::OpSchema* schema,
                                  pb::NodeProto* out) {
  const ParamSchema* fields = n->op()->param_schema;
  const void* param = fields ? n->param() : nullptr;
  const auto type_of = [&](const std::string& name) {
    if (!schema) return pb::AttributeProto::UNDEFINED;
    const auto it = schema->attributes().find(name);
    return it == schema->attributes().end() ? pb::AttributeProto::UNDEFINED : it->second.type;
  };
  for (const auto& [name, given] : n->attrs.dict) {
    if (given.empty() || given.is<GraphPtr>() || name == kNumCaptures) continue;
    if (name.size() > 4 && name.compare(0, 2, "__") == 0) continue;  // notes of 2016 front ends
    // Weft's Split always says its number; ONNX takes it or the extents, not both, and equal parts
    // go without saying as long as the operator set is older than the number.
    if (out->op_type() == "Split" && name == "num_outputs" &&
        (out->input_size() > 1 || AttributeForOperand1(n) ||
         (model_.opset().oldest() < kSplitCounts && HasEqualParts(n))))
      continue;
    if (name == "noop_with_empty_axes" && AttributeForOperand1(n)) continue;
    const ParamField* field = fields ? fields->find(name) : nullptr;
    const auto type = type_of(name);
    // Typed as the operator reads it; words of enumerations and free text stay as they are.
    const bool is_word = given.is<std::string>() && (!schema || type == pb::AttributeProto::STRING);
    const AttrValue value = field && param && !is_word ? field->read(param) : given;
    if (schema && type == pb::AttributeProto::UNDEFINED) {
      // Weft's own addition says nothing as long as it is what it is by default.
      if (field && !field->required) {
        const std::shared_ptr<void> neutral = fields->make();
        field->dmlc_entry->SetDefault(neutral.get());
        if (field->read(neutral.get()) == value) continue;
      }
      WEFT_THROW(kUnsupported, "ONNX's {} has no attribute '{}'", out->op_type(), name);
    }
    WriteAttribute(name, value, type, out->add_attribute());
  }
  if (!schema || !fields || !param) return;
  // What ONNX requires and Weft has a default for; or what ONNX has one for that its own function
  // body does not see.
  const bool all = schema->Name() == "MeanVarianceNormalization";
  std::vector<std::string> required;
  for (const auto& [name, info] : schema->attributes()) {
    if ((info.required || all) && !n->attrs.dict.find(name)) required.push_back(name);
  }
  std::sort(required.begin(), required.end());
  for (const std::string& name : required) {
    const ParamField* field = fields->find(name);
    WEFT_CHECK(field != nullptr, kUnsupported, "ONNX's {} needs the attribute '{}'", out->op_type(),
               name);
    WriteAttribute(name, field->read(param), type_of(name), out->add_attribute());
  }
}

void GraphWriter::WriteStandard(const NodePtr& n, const std::string& domain, const std::string& op,
                                const pb::OpSchema* schema) {
  const size_t captured = NumCaptures(n), formals = n->inputs.size() - captured;
  // Made aside: writing the graphs inside may put nodes before this one.
  pb::NodeProto node;
  node.set_op_type(op);
  if (!domain.empty()) node.set_domain(domain);
  NameNode(n, &node);
  const char* attribute = domain.empty() ? AttributeForOperand1(n) : nullptr;
  WriteInputs(n, attribute ? 1 : formals, &node);
  WriteAttributes(n, schema, &node);
  if (attribute) {
    const TensorPtr operand = Graph::ConstantOf(n->inputs[1]);
    Ints ints;
    for (int64_t i = 0; i < operand->num_elements(); ++i) ints.push_back(operand->at_int(i));
    WriteAttribute(attribute, ints, pb::AttributeProto::INTS, node.add_attribute());
  }
  std::vector<std::string> captures;
  for (size_t i = formals; i < n->inputs.size(); ++i)
    captures.push_back(n->inputs[i] ? NameOf(n->inputs[i]) : std::string());
  for (const auto& [name, value] : n->attrs.dict) {
    if (!value.is<GraphPtr>() || !value.get<GraphPtr>()) continue;
    pb::AttributeProto* a = node.add_attribute();
    a->set_name(name);
    a->set_type(pb::AttributeProto::GRAPH);
    model_.EnterNested();
    GraphWriter(&model_, *value.get<GraphPtr>(), names_, a->mutable_g()->mutable_node(), this)
        .WriteNested(captures, a->mutable_g());
    model_.LeaveNested();
  }
  // An optional output that nobody reads is written where the source has a name for it.
  const auto is_absent = [&](uint32_t k) {
    const NodeEntry e(n, k);
    return IsOptionalOutput(schema, k) && !IsUsed(e) && (k == 0 || ValueName(g_, e).empty());
  };
  uint32_t last = n->num_outputs();
  while (last > 0 && is_absent(last - 1)) --last;
  std::vector<Type> in, out;
  for (size_t i = 0; i < size_t(node.input_size()); ++i) in.push_back(TypeOf(n->inputs[i]));
  for (uint32_t k = 0; k < last; ++k) {
    const NodeEntry e(n, k);
    const bool absent = is_absent(k);
    node.add_output(absent ? std::string() : NameOf(e));
    out.push_back(absent ? Type() : TypeOf(e));
  }
  if (domain.empty() && !attribute) model_.opset().Add(node, in, out);
  *nodes_->Add() = std::move(node);
}

}  // namespace weft::onnx_export
