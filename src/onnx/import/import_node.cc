/// import_node.cc: one node: protobuf to record, schema check, lift, and the node of the graph.
#include <onnx/defs/schema.h>

#include <algorithm>
#include <climits>

#include "importer.h"
#include "weft/core/graph/operands.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

constexpr size_t kPlacesShown = 3;

/// Reads as what the operator's attribute struct declares: codes of dtypes become dtypes, lists of
/// extents shapes.
void FitToFields(const ParamSchema& schema, AttrDict* attrs) {
  AttrDict fitted = *attrs;
  for (const auto& [name, value] : *attrs) {
    const ParamField* field = schema.find(name);
    if (!field) continue;
    if (field->type == "dtype" && value.is<int64_t>()) {
      const auto dtype = DTypeOfOnnx(value.get<int64_t>());
      WEFT_CHECK(dtype.has_value(), kBadAttribute, "attribute '{}': {}", name,
                 UnknownDType(value.get<int64_t>()));
      fitted[name] = *dtype;
    } else if (field->type == "shape" && value.is<Ints>()) {
      fitted[name] = Shape::OfInts(value.get<Ints>());
    }
  }
  *attrs = std::move(fitted);
}

std::string RangeText(int least, int most) {
  return least == most     ? fmt::format("{}", least)
         : most == INT_MAX ? fmt::format("at least {}", least)
                           : fmt::format("{} to {}", least, most);
}

/// Operators of the same domain: what a user may have meant.
std::string NearOps(const Record& r) {
  const std::string prefix = OpKey(r.domain, "");
  std::vector<std::string> names;
  for (const Op* op : Op::List()) {
    const std::string name = op->name.substr(std::min(prefix.size(), op->name.size()));
    if (StartsWith(op->name, prefix) && name.find("::") == std::string::npos) names.push_back(name);
  }
  if (r.domain == "ai.onnx.ml")
    for (const LiftRule& rule : MlOpLifts()) names.emplace_back(rule.op);
  if (r.domain == "com.microsoft")
    for (const ContribRule& rule : ContribLifts()) names.emplace_back(rule.op);
  return r.op.size() > 100 ? std::string() : DidYouMean(r.op, names);
}

}  // namespace

const pb::OpSchema* FindSchema(const Record& r) {
  return pb::OpSchemaRegistry::Schema(r.op, int(std::min<int64_t>(r.version, 1'000'000)), r.domain);
}
bool HasBody(const pb::OpSchema& schema) {
  return schema.HasFunction() || schema.HasContextDependentFunction();
}

namespace {

bool IsVariadic(const std::vector<pb::OpSchema::FormalParameter>& formals) {
  return !formals.empty() && formals.back().GetOption() == pb::OpSchema::Variadic;
}

/// Operands against their formals. The schema's own least number counts optional ones in front of a
/// variadic one, which may be left out as well where nothing follows.
void CheckOperandsOf(const pb::OpSchema& schema, const Record& r) {
  const auto& formals = schema.inputs();
  const int in = int(r.inputs.size()), most = schema.max_input();
  int least = 0;
  std::vector<std::string> optional;
  for (size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].GetOption() == pb::OpSchema::Optional)
      optional.push_back(formals[i].GetName());
    else if (formals[i].GetOption() == pb::OpSchema::Single)
      least = int(i) + 1;
    else if (formals[i].GetMinArity() > 0)
      least = int(i) + formals[i].GetMinArity();
  }
  const auto name = [&](int i) {
    return formals.empty() ? "" : formals[std::min(size_t(i), formals.size() - 1)].GetName();
  };
  WEFT_CHECK(in <= most, kArity, "{} of version {} takes {} inputs, {} given", r.op, r.version,
             RangeText(least, most), in);
  for (int i = 0; i < in; ++i) {
    const size_t k = std::min(size_t(i), formals.size() - 1);
    if (!r.inputs[size_t(i)].empty() || formals[k].GetOption() == pb::OpSchema::Optional) continue;
    const OperandFault fault = AbsentOperand(fmt::format("{} of version {}", r.op, r.version), r.op,
                                             size_t(i), name(i), optional);
    ThrowError(ErrorCode::kArity, fault.text, {}, fault.hint);
  }
  WEFT_CHECK(in >= least, kArity,
             "{} of version {} takes {} inputs, {} given: operand {} ('{}') is missing", r.op,
             r.version, RangeText(least, most), in, in, name(in));
}

}  // namespace

void CheckSchema(const pb::OpSchema& schema, const Record& r) {
  const int out = int(r.outputs.size());
  CheckOperandsOf(schema, r);
  WEFT_CHECK(out >= schema.min_output() && out <= schema.max_output(), kArity,
             "{} of version {} has {} outputs, {} named", r.op, r.version,
             RangeText(schema.min_output(), schema.max_output()), out);
  const auto matches = [](const AttrValue& v, pb::AttributeProto::AttributeType type) {
    switch (type) {
      case pb::AttributeProto::FLOAT:
        return v.is<double>();
      case pb::AttributeProto::INT:
        return v.is<int64_t>();
      case pb::AttributeProto::STRING:
        return v.is<std::string>();
      case pb::AttributeProto::FLOATS:
        return v.is<Floats>();
      case pb::AttributeProto::INTS:
        return v.is<Ints>();
      case pb::AttributeProto::STRINGS:
        return v.is<Strings>();
      case pb::AttributeProto::TENSOR:
      case pb::AttributeProto::SPARSE_TENSOR:
        return v.is<TensorPtr>();
      default:
        return true;
    }
  };
  const auto known = [&](const std::string& name) {
    const auto it = schema.attributes().find(name);
    if (it == schema.attributes().end() && name != "consumed_inputs") {
      std::vector<std::string> names;
      for (const auto& [a, info] : schema.attributes()) names.push_back(a);
      std::sort(names.begin(), names.end());
      ThrowError(
          ErrorCode::kBadAttribute,
          fmt::format("{} of version {} has no attribute {}", r.op, r.version, Printable(name)), {},
          name.size() > 100 ? std::string() : DidYouMean(name, names));
    }
    return it;
  };
  for (const auto& [name, value] : r.attrs) {
    const auto it = known(name);
    WEFT_CHECK(it == schema.attributes().end() || matches(value, it->second.type), kBadAttribute,
               "attribute '{}' of {} is of type {}, {} is expected", name, r.op, value.type_name(),
               AttributeTypeName(it->second.type));
  }
  for (const auto& [name, graph] : r.graphs) {
    const auto it = known(name);
    WEFT_CHECK(it->second.type == pb::AttributeProto::GRAPH, kBadAttribute,
               "attribute '{}' of {} is a graph, {} is expected", name, r.op,
               AttributeTypeName(it->second.type));
  }
  std::vector<std::string> lacking;
  for (const auto& [name, info] : schema.attributes()) {
    const auto has = [&, n = name] {
      return std::any_of(r.graphs.begin(), r.graphs.end(),
                         [&](const auto& g) { return g.first == n; });
    };
    if (info.required && !r.attrs.count(name) && !has()) lacking.push_back(name);
  }
  std::sort(lacking.begin(), lacking.end());
  WEFT_CHECK(lacking.empty(), kBadAttribute, "{} of version {} needs the attribute '{}'", r.op,
             r.version, fmt::join(lacking, "', '"));
}

namespace {

/// The first version of ONNX's domain behind the imported one that has the operator; else 0.
int64_t FirstVersionBehind(const Record& r) {
  Record later = r;
  for (later.version = r.version + 1; r.domain.empty() && later.version <= NewestOpset();
       ++later.version)
    if (FindSchema(later)) return later.version;
  return 0;
}

void WarnOfUnnamedResults(const pb::OpSchema& schema, const Record& r, const std::string& place,
                          Diagnostics* diag) {
  const auto& formals = schema.outputs();
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    const auto& formal = formals[std::min(i, formals.size() - 1)];
    if (r.outputs[i].empty() && formal.GetOption() != pb::OpSchema::Optional)
      diag->Tolerate(Oddity::kUnnamedResult, place,
                     fmt::format("result {} ('{}') has no name", i, formal.GetName()));
  }
}

}  // namespace

void Importer::ConvertAttribute(const Scope& s, pb::AttributeProto* a, AttrDict* attrs,
                                std::vector<std::pair<std::string, void*>>* graphs) {
  AttrValue& value = (*attrs)[a->name()];
  switch (TypeOf(*a)) {
    case pb::AttributeProto::FLOAT:
      value = double{a->f()};
      break;
    case pb::AttributeProto::INT:
      value = int64_t{a->i()};
      break;
    case pb::AttributeProto::STRING:
      value = a->s();
      break;
    case pb::AttributeProto::FLOATS:
      value = Floats(std::vector<double>(a->floats().begin(), a->floats().end()));
      break;
    case pb::AttributeProto::INTS:
      value = Ints(std::vector<int64_t>(a->ints().begin(), a->ints().end()));
      break;
    case pb::AttributeProto::STRINGS:
      value = Strings(std::vector<std::string>(a->strings().begin(), a->strings().end()));
      break;
    case pb::AttributeProto::TENSOR:
      value = tensors_.Read(a->mutable_t(), !s.temporary);
      break;
    case pb::AttributeProto::SPARSE_TENSOR:
      value = tensors_.ReadSparse(a->mutable_sparse_tensor(), !s.temporary);
      break;
    case pb::AttributeProto::TYPE_PROTO:
      value = TypeOfValue(a->tp()).ToString();
      break;
    case pb::AttributeProto::GRAPH:
      attrs->erase(a->name());
      graphs->emplace_back(a->name(), a->mutable_g());
      break;
    default:
      WEFT_THROW(kUnsupported, "attribute {}: type {} is not supported", Printable(a->name()),
                 AttributeTypeName(TypeOf(*a)));
  }
}

Record Importer::MakeRecord(Scope* s, pb::NodeProto* n) {
  Record r;
  r.domain = std::string(CanonicalDomain(n->domain()));
  r.op = n->op_type();
  r.name = n->name();
  if (r.name.empty()) {
    const auto first = std::find_if(n->output().begin(), n->output().end(),
                                    [](const std::string& o) { return !o.empty(); });
    if (first != n->output().end()) r.name = *first;
  }
  if (!s->prefix.empty()) r.name = s->prefix + r.name;
  if (!n->name().empty()) r.onnx_name = s->prefix + n->name();
  const auto version = s->opsets->find(r.domain);
  r.version = version == s->opsets->end() ? 1 : version->second.version;
  for (const std::string& in : n->input()) {
    // What the caller of a function left out is left out of the nodes of its body.
    const Value* v = in.empty() ? nullptr : Find(s, in);
    r.inputs.push_back(v && v->state == Value::kAbsent ? std::string() : in);
  }
  r.outputs.assign(n->output().begin(), n->output().end());
  // Optional results without a name at the end are as good as left out. The number of variadic ones
  // says what the node computes, whether they have names or not.
  const pb::OpSchema* schema = FindSchema(r);
  if (schema && !IsVariadic(schema->outputs()))
    while (int(r.outputs.size()) > schema->min_output() && r.outputs.back().empty())
      r.outputs.pop_back();
  for (auto& a : *n->mutable_attribute()) {
    if (a.ref_attr_name().empty()) {
      ConvertAttribute(*s, &a, &r.attrs, &r.graphs);
    } else if (s->bindings) {
      // A reference to what the caller did not give is an attribute that was not given.
      if (const AttrValue* v = s->bindings->attrs.find(a.ref_attr_name())) r.attrs[a.name()] = *v;
      for (const auto& [name, graph] : s->bindings->graphs) {
        if (name == a.ref_attr_name()) r.graphs.emplace_back(a.name(), graph);
      }
    }
  }
  return r;
}

void Importer::ImportRecord(Scope* s, Record r, const Place& place) {
  const pb::OpSchema* schema = FindSchema(r);
  if (!schema) {
    if (const int64_t since = FirstVersionBehind(r)) {
      diag_->Tolerate(
          Oddity::kNewerOperator, place,
          fmt::format("{} is of operator set {}, {} is imported", r.op, since, r.version));
      r.version = since;
      schema = FindSchema(r);
    }
  }
  if (schema) {
    CheckSchema(*schema, r);
    WarnOfUnnamedResults(*schema, r, place, diag_);
  }
  if (IsGradient(r)) return BuildGradient(s, r, place);
  Record lifted = r;
  while (!lifted.inputs.empty() && lifted.inputs.back().empty() && lifted.graphs.empty())
    lifted.inputs.pop_back();
  Lift lift(
      &lifted, [&](const std::string& value) { return DTypeOf(s, value); },
      [&](const std::string& value) { return ShapeOf(s, value); },
      [&](const std::string& value) { return ConstantOf(s, value); });
  std::string reason;
  try {
    LiftToNewest(&lift);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    reason = e.message();
  }
  if (!reason.empty()) {
    // What a lift misses behind something unsupported is missing for that reason.
    const auto waits = [&](const std::string& in) {
      const Value* v = in.empty() ? nullptr : Find(s, in);
      return v && v->state == Value::kPoisoned;
    };
    if (std::any_of(r.inputs.begin(), r.inputs.end(), waits)) return Poison(s, r, false);
    return Unsupported(s, r, ErrorCode::kUnsupported, reason, place);
  }

  // The operator itself, else the body of the version the model speaks, else the body of the newest
  // one.
  if (!Op::Find(OpKey(lifted.domain, lifted.op)) && schema && HasBody(*schema)) {
    reason = ExpandSchemaBody(s, r, *schema, place);
    if (!reason.empty()) Unsupported(s, r, ErrorCode::kUnknownOp, reason, place);
    return;
  }
  if (lift.before.empty() && lift.after.empty()) return Emit(s, lifted, place);
  Values group;
  s->group = &group;
  for (const Record& b : lift.before) Emit(s, b, place);
  Emit(s, lifted, place);
  for (const Record& a : lift.after) Emit(s, a, place);
  s->group = nullptr;
  for (const std::string& o : r.outputs) {
    const auto it = group.find(o);
    if (it == group.end()) continue;
    Define(s, o, it->second);
    NameValue(s, o, it->second);
  }
}

void Importer::Emit(Scope* s, const Record& r, const Place& place) {
  if (const Op* op = Op::Find(OpKey(r.domain, r.op))) return BuildNode(s, op, r, place);
  std::string reason;
  if (r.domain.empty()) {
    Record newest = r;
    newest.version = NewestOpset();
    const pb::OpSchema* schema = FindSchema(newest);
    if (schema && HasBody(*schema)) {
      reason = ExpandSchemaBody(s, newest, *schema, place);
      if (reason.empty()) return;
    }
  }
  Unsupported(s, r, ErrorCode::kUnknownOp, reason, place);
}

namespace {

/// Scan(states, slices; body)   ->   Scan(states, slices; Scan(state, slice; body))
///
/// The outer one runs over the batch, which everything has as its first axis.
AttrDict ScanOfBatch(const Op* scan, const std::vector<NodeEntry>& operands, AttrDict attrs) {
  const int64_t captures = attrs.at("num_captures").get<int64_t>();
  Graph batch;
  std::vector<NodeEntry> inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.emplace_back(batch.AddInput(fmt::format("operand_{}", i)));
  const NodePtr each = batch.AddNode(scan, inputs, std::move(attrs), "scan");
  std::vector<NodeEntry> outputs;
  for (uint32_t i = 0; i < each->num_outputs(); ++i) outputs.emplace_back(each, i);
  batch.outputs = outputs;
  return {{"body", std::make_shared<const Graph>(std::move(batch))},
          {"num_scan_inputs", int64_t(operands.size()) - captures},
          {"num_captures", captures}};
}

}  // namespace

void Importer::BuildNode(Scope* s, const Op* op, const Record& r, const Place& place) {
  Graph& graph = s->build->graph;
  std::vector<NodeEntry> entries;
  bool poisoned = false;
  const auto operand = [&](const std::string& name) {
    if (name.empty()) return entries.emplace_back(), void();
    const Value& v = Resolve(s, name);
    poisoned = poisoned || v.state == Value::kPoisoned;
    entries.push_back(v.state == Value::kEntry ? v.entry : NodeEntry());
  };
  for (const std::string& in : r.inputs) operand(in);
  TrimOperands(*op, &entries);

  AttrDict attrs = r.attrs;
  BodyOperands operands{r, entries, {}, {}, {}};
  for (const auto& [name, body] : r.graphs) {
    for (std::string& free : FreeNames(*static_cast<pb::GraphProto*>(body))) {
      const bool absent = Resolve(s, free).state == Value::kAbsent;
      auto& list = absent ? operands.absent : operands.names;
      if (std::find(list.begin(), list.end(), free) == list.end()) list.push_back(std::move(free));
    }
  }
  for (const std::string& name : operands.names) {
    operand(name);
    operands.captured.push_back(entries.back());
  }
  std::vector<Graph> bodies;
  std::vector<size_t> num_captured;
  for (const auto& [name, body] : r.graphs) {
    auto* proto = static_cast<pb::GraphProto*>(body);
    bodies.push_back(ImportBody(s, proto, &operands, fmt::format("{}.{}", place, name)));
    num_captured.push_back(operands.captured.size());
    // Outputs are missing where something in the body could not be built, which has been said.
    poisoned = poisoned || int(bodies.back().outputs.size()) != proto->output_size();
  }
  entries.insert(entries.end(), operands.captured.begin() + std::ptrdiff_t(operands.names.size()),
                 operands.captured.end());
  for (size_t k = 0; k < bodies.size(); ++k) {
    for (size_t i = num_captured[k]; i < operands.captured.size(); ++i)  // by bodies behind it
      bodies[k].AddInput(CapturedName(bodies[k], i), s->build->types.Of(operands.captured[i]));
    attrs[r.graphs[k].first] = std::make_shared<const Graph>(std::move(bodies[k]));
  }
  // How many results a variadic operator of another domain has, for those that want to know.
  if (op->param_schema && op->param_schema->find("num_results"))
    attrs["num_results"] = int64_t(r.outputs.size());
  // How many of the operands are captured ones, for operators that want to know.
  if (!r.graphs.empty() && (!op->param_schema || op->param_schema->find("num_captures")))
    attrs["num_captures"] = int64_t(operands.captured.size());
  if (poisoned) return Poison(s, r, false);
  if (r.domain.empty() && r.op == "Scan" && r.version < 9) attrs = ScanOfBatch(op, entries, attrs);
  if (op->param_schema) FitToFields(*op->param_schema, &attrs);

  NodePtr n;
  try {
    n = graph.AddNode(op, entries, std::move(attrs), r.name);
    s->build->types.Infer(n);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal || e.code() == ErrorCode::kLimit) throw;
    // Attributes and arity agree with ONNX: what this build refuses is beyond it, and `inspect`
    // goes on.
    if (options_.allow_unsupported && FindSchema(r)) {
      const std::string& why = e.message();
      if (n) graph.Erase(n);
      return Unsupported(s, r, ErrorCode::kUnsupported, why, place);
    }
    ThrowError(e.code(), e.message(), {}, e.hint());  // the graph path says better where
  }
  if (s->origin) graph.SetOrigin(n, s->origin);
  s->build->node_names.set(n, r.onnx_name);
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    const Value v =
        i < n->num_outputs() ? Value::Of(NodeEntry(n, uint32_t(i))) : Value::Of(Value::kMissing);
    Define(s, r.outputs[i], v);
    if (!s->group) NameValue(s, r.outputs[i], v);
  }
}

void Importer::Poison(Scope* s, const Record& r, bool cut) {
  for (const std::string& o : r.outputs) {
    if (o.empty()) continue;
    if (!cut) {
      Define(s, o, Value::Of(Value::kPoisoned));
      continue;
    }
    s->build->has_cuts = true;
    Define(s, o, Value::Of(NodeEntry(s->build->graph.AddInput(s->prefix + o))));
  }
}

void Importer::Unsupported(Scope* s, const Record& r, ErrorCode code, const std::string& reason,
                           const Place& place) {
  const std::string key = OpKey(r.domain, r.op);
  UnsupportedGroup& group = unsupported_[key + '\0' + reason];
  if (group.count++ == 0) {
    group.code = code;
    group.op = key;
    group.reason = reason;
    // A name that the standard knows is not mistyped.
    if (code == ErrorCode::kUnknownOp && !FindSchema(r)) group.hint = NearOps(r);
  }
  if (group.places.size() < kPlacesShown) group.places.push_back(place);
  Poison(s, r, options_.allow_unsupported);
}

}  // namespace weft::onnx_import
