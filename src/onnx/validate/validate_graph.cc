/// validate_graph.cc: names, attributes, tensors and declared types of one graph and of the
/// graphs inside its nodes.
#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "onnx/proto/tensor_data.h"
#include "validate.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"

namespace weft::onnx_import {
namespace {

using Attribute = pb::AttributeProto;

std::string ValuePlace(const std::string& path, const char* what, std::string_view name) {
  return fmt::format("{}/{} {}", path, what, Printable(name));
}

template <class F>
void Guard(const ValidateContext& ctx, const std::string& place, F check) {
  try {
    check();
  } catch (const Error& e) {
    ctx.diag->Add(e, place);
  }
}

void ValidateTensor(const pb::TensorProto& t, const std::string& place,
                    const ValidateContext& ctx) {
  Guard(ctx, place, [&] { CheckTensor(t, ctx.limits); });
  if (!IsExternal(t)) return;
  std::unordered_set<std::string_view> seen;
  for (const auto& entry : t.external_data()) {
    const bool fresh = seen.insert(entry.key()).second;
    if (!fresh || !IsExternalKey(entry.key()))
      ctx.diag->Tolerate(Oddity::kExternalKey, place,
                         fmt::format("external data has the key {}{}", Printable(entry.key()),
                                     fresh ? "" : " twice"));
  }
}

/// What the type says, and nothing else, may be filled. A reference to an attribute of the function
/// holds nothing.
void ValidateAttribute(const Attribute& a, const std::string& place, bool in_function,
                       const ValidateContext& ctx) {
  const auto type = TypeOf(a);
  const auto fault = [&](std::string text) {
    ctx.diag->Add(ErrorCode::kBadAttribute, place,
                  fmt::format("attribute {} {}", Printable(a.name()), text));
  };
  const std::pair<Attribute::AttributeType, bool> filled[] = {
      {Attribute::FLOAT, a.has_f()},
      {Attribute::INT, a.has_i()},
      {Attribute::STRING, a.has_s()},
      {Attribute::TENSOR, a.has_t()},
      {Attribute::GRAPH, a.has_g()},
      {Attribute::SPARSE_TENSOR, a.has_sparse_tensor()},
      {Attribute::TYPE_PROTO, a.has_tp()},
      {Attribute::FLOATS, a.floats_size() > 0},
      {Attribute::INTS, a.ints_size() > 0},
      {Attribute::STRINGS, a.strings_size() > 0},
      {Attribute::TENSORS, a.tensors_size() > 0},
      {Attribute::GRAPHS, a.graphs_size() > 0},
      {Attribute::SPARSE_TENSORS, a.sparse_tensors_size() > 0},
      {Attribute::TYPE_PROTOS, a.type_protos_size() > 0},
  };
  if (a.name().empty()) fault("has no name");
  if (type == Attribute::UNDEFINED && a.ref_attr_name().empty())
    return fault("has no type and no value");
  for (const auto& [field, is_filled] : filled) {
    if (!is_filled) continue;
    if (!a.ref_attr_name().empty())
      return fault("refers to another attribute and holds a value too");
    if (field != type)
      return fault(fmt::format("has type {} and a value of type {}", AttributeTypeName(type),
                               AttributeTypeName(field)));
  }
  if (!a.ref_attr_name().empty() && !in_function)
    return fault("refers to an attribute of a function, outside of one");
  if (a.type() == Attribute::UNDEFINED && a.ref_attr_name().empty())
    ctx.diag->Tolerate(
        Oddity::kUntypedAttribute, place,
        fmt::format("attribute {} ({}) has no type", Printable(a.name()), AttributeTypeName(type)));
  // A message without its content (a float 0 may be left out by some writers, a tensor may not).
  if (a.ref_attr_name().empty() &&
      ((type == Attribute::TENSOR && !a.has_t()) || (type == Attribute::GRAPH && !a.has_g()) ||
       (type == Attribute::SPARSE_TENSOR && !a.has_sparse_tensor()) ||
       (type == Attribute::TYPE_PROTO && !a.has_tp()))) {
    return fault("has no value");
  }
  const std::string inner = fmt::format("{}.{}", place, a.name().substr(0, 100));
  if (a.has_t()) ValidateTensor(a.t(), inner, ctx);
  for (const auto& t : a.tensors()) ValidateTensor(t, inner, ctx);
  if (a.has_sparse_tensor()) Guard(ctx, inner, [&] { CheckSparse(a.sparse_tensor(), ctx.limits); });
  for (const auto& t : a.sparse_tensors()) Guard(ctx, inner, [&] { CheckSparse(t, ctx.limits); });
}

void ValidateAttributes(const pb::NodeProto& n, const std::string& place, bool in_function,
                        const ValidateContext& ctx) {
  std::unordered_set<std::string_view> names;
  for (const auto& a : n.attribute()) {
    if (!names.insert(a.name()).second)
      ctx.diag->Add(ErrorCode::kBadAttribute, place,
                    fmt::format("attribute {} is given twice", Printable(a.name())));
    ValidateAttribute(a, place, in_function, ctx);
  }
}

bool IsUntyped(const pb::TypeProto& type) {
  return type.value_case() == pb::TypeProto::VALUE_NOT_SET ||
         (type.has_tensor_type() && type.tensor_type().elem_type() == pb::TensorProto::UNDEFINED);
}

void ValidateType(const pb::ValueInfoProto& v, const std::string& place,
                  const ValidateContext& ctx) {
  const pb::TypeProto* type = &v.type();
  // Sequences of optionals of ...: the parser bounds the nesting.
  while (type->has_sequence_type() || type->has_optional_type()) {
    type = type->has_sequence_type() ? &type->sequence_type().elem_type()
                                     : &type->optional_type().elem_type();
  }
  if (!type->has_tensor_type()) return;
  const auto& tensor = type->tensor_type();
  if (tensor.elem_type() != 0 && !DTypeOfOnnx(tensor.elem_type())) {
    ctx.diag->Add(ErrorCode::kUnsupported, place, UnknownDType(tensor.elem_type()));
  }
  if (tensor.shape().dim_size() > 64)
    ctx.diag->Add(ErrorCode::kLimit, place, fmt::format("rank {}", tensor.shape().dim_size()));
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto& d = tensor.shape().dim(i);
    if (d.has_dim_value() && d.dim_value() == -1) {
      ctx.diag->Tolerate(Oddity::kMinusOneDim, place, fmt::format("dimension {} is -1", i));
    } else if (d.has_dim_value() && d.dim_value() < 0) {
      ctx.diag->Add(ErrorCode::kInvalidModel, place,
                    fmt::format("size {} of dimension {} is negative", d.dim_value(), i),
                    "a dimension of any size has a name, or neither name nor value");
    }
  }
}

/// Defined in this scope or one around it. What comes before what is CheckOrder's.
bool IsDefined(const ValueScope& scope, std::string_view name) {
  for (const ValueScope* s = &scope; s; s = s->outer) {
    if (s->defined.count(name)) return true;
  }
  return false;
}

/// Of a graph around this one, before the node that holds it.
bool HidesAnother(const ValueScope& scope, std::string_view name) {
  for (const ValueScope* s = scope.outer; s; s = s->outer) {
    const auto it = s->defined.find(name);
    if (it != s->defined.end() && it->second < s->current) return true;
  }
  return false;
}

/// "conv1" and "conv2": two values of one kind, neither a misspelling of the other.
bool DifferInNumbersOnly(std::string_view a, std::string_view b) {
  const auto letters = [](std::string_view s) {
    std::string out;
    std::copy_if(s.begin(), s.end(), std::back_inserter(out),
                 [](char c) { return c < '0' || c > '9'; });
    return out;
  };
  return letters(a) == letters(b);
}

std::string NearValues(const ValueScope& scope, std::string_view name) {
  constexpr size_t kMost = 5000;  // candidates; a hint must not cost more than the check
  std::vector<std::string> names;
  for (const ValueScope* s = &scope; s && names.size() < kMost; s = s->outer) {
    std::vector<std::pair<int, std::string_view>> order;
    for (const auto& [value, node] : s->defined) order.emplace_back(node, value);
    const size_t keep = std::min(order.size(), kMost - names.size());
    std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(keep), order.end());
    for (size_t i = 0; i < keep; ++i) {
      const std::string_view near = order[i].second;
      if (near.size() <= 200 && !DifferInNumbersOnly(near, name)) names.emplace_back(near);
    }
  }
  return name.size() > 200 ? std::string() : DidYouMean(name, names);
}

std::string PlaceOf(const NodeList& nodes, const std::string& path, int i) {
  return NodePlace(path, i, nodes.Get(i).name(), nodes.Get(i).domain(), nodes.Get(i).op_type());
}

/// Nodes that read what they or later ones compute are taken in another order, if there is one.
void CheckOrder(const NodeList& nodes, const ValueScope& scope, const std::string& path,
                const ValidateContext& ctx) {
  int first = -1;
  std::string value;
  int64_t count = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    bool late = false;
    ForEachRead(nodes.Get(i), [&](const std::string& name) {
      const auto it = scope.defined.find(name);
      if (it == scope.defined.end() || it->second < i) return;
      if (first < 0) first = i, value = name;
      late = true;
    });
    count += late;
  }
  if (count == 0) return;
  std::vector<int> cycle;
  std::vector<int> order = OrderNodes(nodes, scope.defined, &cycle);
  if (cycle.empty()) {
    ctx.diag->Tolerate(Oddity::kNodeOrder, PlaceOf(nodes, path, first),
                       fmt::format("input {} is computed by a later node", Printable(value)),
                       count);
    ctx.orders->emplace(&nodes, std::move(order));
    return;
  }
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i)
    text += PlaceOf(nodes, path, cycle[i]) + " -> ";
  text += cycle.size() > kShown ? fmt::format("... ({} nodes)", cycle.size())
                                : PlaceOf(nodes, path, cycle[0]);
  ctx.diag->Add(ErrorCode::kCycle, path, "the nodes form a cycle: " + text);
}

/// Names of nodes say nothing, but standing twice they help nobody.
void CheckNodeNames(const NodeList& nodes, const std::string& path, const ValidateContext& ctx) {
  std::unordered_set<std::string_view> names;
  names.reserve(size_t(nodes.size()));
  int first = -1;
  int64_t count = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (nodes.Get(i).name().empty() || names.insert(nodes.Get(i).name()).second) continue;
    if (first < 0) first = i;
    ++count;
  }
  if (count > 0)
    ctx.diag->Tolerate(Oddity::kTwoNodeNames, PlaceOf(nodes, path, first),
                       "an earlier node has the same name", count);
}

/// The same elements, whichever fields hold them.
bool SameTensors(const pb::TensorProto& a, const pb::TensorProto& b, const Limits& limits) {
  pb::TensorProto x = a, y = b;
  for (pb::TensorProto* t : {&x, &y}) {
    t->clear_name();
    t->clear_doc_string();
  }
  if (x.SerializeAsString() == y.SerializeAsString()) return true;
  if (IsExternal(x) || IsExternal(y)) return false;
  ExternalFiles none({});
  TensorReader reader(limits, &none);
  try {
    return reader.Read(&x, false)->Equals(*reader.Read(&y, false));
  } catch (const UserError&) {
    return false;  // what is wrong with them is said on its own
  }
}

}  // namespace

Attribute::AttributeType TypeOf(const Attribute& a) {
  if (a.type() != Attribute::UNDEFINED) return a.type();
  if (a.has_f()) return Attribute::FLOAT;
  if (a.has_i()) return Attribute::INT;
  if (a.has_s()) return Attribute::STRING;
  if (a.has_t()) return Attribute::TENSOR;
  if (a.has_g()) return Attribute::GRAPH;
  if (a.floats_size() > 0) return Attribute::FLOATS;
  if (a.ints_size() > 0) return Attribute::INTS;
  if (a.strings_size() > 0) return Attribute::STRINGS;
  if (a.has_sparse_tensor()) return Attribute::SPARSE_TENSOR;
  if (a.has_tp()) return Attribute::TYPE_PROTO;
  if (a.tensors_size() > 0) return Attribute::TENSORS;
  if (a.graphs_size() > 0) return Attribute::GRAPHS;
  if (a.sparse_tensors_size() > 0) return Attribute::SPARSE_TENSORS;
  if (a.type_protos_size() > 0) return Attribute::TYPE_PROTOS;
  return Attribute::UNDEFINED;
}

std::string_view AttributeTypeName(Attribute::AttributeType type) {
  static constexpr std::string_view kNames[] = {
      "none",    "float",   "int",    "string",        "tensor",         "graph", "floats", "ints",
      "strings", "tensors", "graphs", "sparse tensor", "sparse tensors", "type",  "types"};
  const auto i = size_t(type);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

void ValidateNodes(const NodeList& nodes, ValueScope* scope, const Opsets& opsets,
                   const std::string& path, bool in_function, int depth,
                   const ValidateContext& ctx) {
  const auto place = [&](int i) { return PlaceOf(nodes, path, i); };
  scope->defined.reserve(scope->defined.size() + size_t(nodes.size()));
  for (int i = 0; i < nodes.size() && !ctx.diag->full(); ++i) {
    for (const std::string& out : nodes.Get(i).output()) {
      if (out.empty()) continue;
      const auto [it, fresh] = scope->defined.emplace(out, i);
      if (!fresh) {
        ctx.diag->Add(ErrorCode::kInvalidModel, place(i),
                      fmt::format("output {} is defined already, by {}", Printable(out),
                                  it->second < 0 ? "an input or initializer" : place(it->second)));
      } else if (HidesAnother(*scope, out)) {
        ctx.diag->Tolerate(
            Oddity::kHiddenName, place(i),
            fmt::format("output {} has the name of a value outside of the graph", Printable(out)));
      }
    }
  }
  CheckOrder(nodes, *scope, path, ctx);
  CheckNodeNames(nodes, path, ctx);
  for (int i = 0; i < nodes.size() && !ctx.diag->full(); ++i) {
    const pb::NodeProto& n = nodes.Get(i);
    RequestScope::Poll();
    scope->current = i;
    if (n.op_type().empty())
      ctx.diag->Add(ErrorCode::kInvalidModel, place(i), "the node has no operator");
    const auto opset = opsets.find(CanonicalDomain(n.domain()));
    if ((opset == opsets.end() || opset->second.assumed) && !ctx.functions.Find(n)) {
      const std::string text =
          fmt::format("the operator set of domain {} is not imported", Printable(n.domain()));
      if (opset == opsets.end())
        ctx.diag->Add(ErrorCode::kInvalidModel, place(i), text);
      else
        ctx.diag->Tolerate(Oddity::kMissingOpset, place(i),
                           fmt::format("{}, version {} is assumed", text, opset->second.version));
    }
    for (const std::string& in : n.input()) {
      if (in.empty() || IsDefined(*scope, in)) continue;
      ctx.diag->Add(ErrorCode::kInvalidModel, place(i),
                    fmt::format("input {} is not defined", Printable(in)), NearValues(*scope, in));
    }
    if (n.attribute_size() == 0) continue;
    ValidateAttributes(n, place(i), in_function, ctx);
    for (const auto& a : n.attribute()) {
      const auto sub = [&](const pb::GraphProto& g) {
        ValidateGraph(g, scope, opsets, fmt::format("{}.{}", place(i), a.name().substr(0, 100)),
                      in_function, depth + 1, ctx);
      };
      if (a.has_g()) sub(a.g());
      for (const auto& g : a.graphs()) sub(g);
    }
  }
  scope->current = nodes.size();
}

void ValidateGraph(const pb::GraphProto& g, const ValueScope* outer, const Opsets& opsets,
                   const std::string& path, bool in_function, int depth,
                   const ValidateContext& ctx) {
  if (depth > ctx.limits.depth) {
    return ctx.diag->Add(
        ErrorCode::kLimit, path.substr(0, 400),
        fmt::format("graphs nested {} deep, the limit `depth` is {}", depth, ctx.limits.depth));
  }
  ValueScope scope;
  scope.outer = outer;
  for (const auto& v : g.input()) {
    const std::string place = ValuePlace(path, "input", v.name());
    if (v.name().empty())
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "an input without a name");
    else if (!scope.defined.emplace(v.name(), -1).second)
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "two inputs have this name");
    ValidateType(v, place, ctx);
  }
  std::unordered_map<std::string_view, const pb::TensorProto*> initialized;
  const auto initializer = [&](const std::string& name, const pb::TensorProto* dense) {
    RequestScope::Poll();
    const std::string place = ValuePlace(path, "initializer", name);
    const auto [it, fresh] = initialized.emplace(name, dense);
    if (name.empty())
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "an initializer without a name");
    else if (!fresh && dense && it->second && SameTensors(*dense, *it->second, ctx.limits))
      ctx.diag->Tolerate(Oddity::kTwoInitializers, place, "two equal initializers have this name");
    else if (!fresh)
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "two initializers have this name");
    scope.defined.emplace(name, -1);
    return place;
  };
  for (const auto& t : g.initializer()) ValidateTensor(t, initializer(t.name(), &t), ctx);
  for (const auto& t : g.sparse_initializer())
    Guard(ctx, initializer(t.values().name(), nullptr), [&] { CheckSparse(t, ctx.limits); });
  // Bodies get their types from the nodes that hold them.
  for (const auto& v : g.input())
    if (!outer && !in_function && IsUntyped(v.type()) && !initialized.count(v.name()))
      ctx.diag->Tolerate(Oddity::kUntypedInput, ValuePlace(path, "input", v.name()),
                         "the input has no element type");
  if (ctx.diag->full()) return;

  ValidateNodes(g.node(), &scope, opsets, path, in_function, depth, ctx);
  // A value may be given out more than once: a name that repeats is one value.
  for (const auto& v : g.output()) {
    const std::string place = ValuePlace(path, "output", v.name());
    if (v.name().empty()) {
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "an output without a name");
    } else if (!IsDefined(scope, v.name())) {
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "nothing computes this output",
                    NearValues(scope, v.name()));
    }
    ValidateType(v, place, ctx);
  }
  std::unordered_set<std::string_view> described;
  for (const auto& v : g.value_info()) {
    const std::string place = ValuePlace(path, "value_info", v.name());
    if (!described.insert(v.name()).second)
      ctx.diag->Tolerate(Oddity::kTwoValueInfos, place, "two value_infos describe this value");
    ValidateType(v, place, ctx);
  }
}

}  // namespace weft::onnx_import
