/// import_function.cc: functions, of the model and of ONNX itself, are read in place of the node
/// that calls them: a scope of their own, formal inputs bound to the caller's entries, attribute
/// references to the caller's attributes.
#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>
#include <set>

#include "importer.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace weft::onnx_import {
namespace {

pb::AttributeProto ToProto(const std::string& name, const AttrValue& v) {
  pb::AttributeProto a;
  a.set_name(name);
  if (v.is<int64_t>()) {
    a.set_type(pb::AttributeProto::INT);
    a.set_i(v.get<int64_t>());
  } else if (v.is<double>()) {
    a.set_type(pb::AttributeProto::FLOAT);
    a.set_f(float(v.get<double>()));
  } else if (v.is<std::string>()) {
    a.set_type(pb::AttributeProto::STRING);
    a.set_s(v.get<std::string>());
  } else if (v.is<Ints>()) {
    a.set_type(pb::AttributeProto::INTS);
    for (const int64_t i : v.get<Ints>()) a.add_ints(i);
  } else if (v.is<Floats>()) {
    a.set_type(pb::AttributeProto::FLOATS);
    for (const double f : v.get<Floats>()) a.add_floats(float(f));
  } else if (v.is<Strings>()) {
    a.set_type(pb::AttributeProto::STRINGS);
    for (const std::string& s : v.get<Strings>()) a.add_strings(s);
  } else if (v.is<TensorPtr>()) {
    const Tensor& t = *v.get<TensorPtr>();
    a.set_type(pb::AttributeProto::TENSOR);
    a.mutable_t()->set_data_type(TraitsOf(t.dtype()).onnx);
    for (const int64_t d : t.dims()) a.mutable_t()->add_dims(d);
    if (t.dtype() == DType::kString) {
      for (const std::string& s : t.strings()) a.mutable_t()->add_string_data(s);
    } else {
      a.mutable_t()->set_raw_data(t.data(), size_t(t.num_bytes()));
    }
  } else {
    WEFT_THROW(kUnsupported, "attribute '{}' of type {} in a function", name, v.type_name());
  }
  return a;
}

/// Names in `g` that mean values outside of it get others; where one is defined, it is another.
/// Recursion over nested graphs, which the parser bounds.
void RenameFree(pb::GraphProto* g, std::map<std::string, std::string> to) {
  for (const auto& v : g->input()) to.erase(v.name());
  for (const auto& t : g->initializer()) to.erase(t.name());
  for (const auto& t : g->sparse_initializer()) to.erase(t.values().name());
  for (const auto& n : g->node())
    for (const std::string& name : n.output()) to.erase(name);
  const auto rename = [&](std::string* name) {
    const auto it = to.find(*name);
    if (it != to.end()) *name = it->second;
  };
  for (auto& n : *g->mutable_node()) {
    for (std::string& name : *n.mutable_input()) rename(&name);
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) RenameFree(a.mutable_g(), to);
      for (auto& nested : *a.mutable_graphs()) RenameFree(&nested, to);
    }
  }
  for (auto& v : *g->mutable_output()) rename(v.mutable_name());
}
/// Every name that a graph mentions.
void CollectNames(const pb::GraphProto& g, std::set<std::string>* names) {
  for (const auto& v : g.input()) names->insert(v.name());
  for (const auto& v : g.output()) names->insert(v.name());
  for (const auto& t : g.initializer()) names->insert(t.name());
  for (const auto& t : g.sparse_initializer()) names->insert(t.values().name());
  for (const auto& n : g.node()) {
    names->insert(n.input().begin(), n.input().end());
    names->insert(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) CollectNames(a.g(), names);
      for (const auto& nested : a.graphs()) CollectNames(nested, names);
    }
  }
}

}  // namespace

void Importer::RunBody(Scope* s, Scope* inner, pb::FunctionProto* f,
                       const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
  Limits::Check("depth", s->depth + 1, options_.limits.depth);
  inner->build = s->build;
  inner->depth = s->depth + 1;
  for (int i = 0; i < f->input_size(); ++i) {
    Value v = Value::Of(Value::kAbsent);
    if (size_t(i) < inputs.size() && !inputs[size_t(i)].empty()) v = Resolve(s, inputs[size_t(i)]);
    inner->values[f->input(i)] = v;
  }
  // A value that is handed through keeps the name that it came with.
  const auto is_formal = [&](const Value& v) {
    return std::any_of(f->input().begin(), f->input().end(), [&](const std::string& name) {
      const Value& in = inner->values[name];
      return in.state == Value::kEntry && in.entry == v.entry;
    });
  };
  ImportNodes(inner, f->mutable_node());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    const auto it =
        int(i) < f->output_size() ? inner->values.find(f->output(int(i))) : inner->values.end();
    const Value v = it == inner->values.end() ? Value::Of(Value::kMissing) : it->second;
    Define(s, outputs[i], v);
    if (!is_formal(v)) NameValue(s, outputs[i], v);
  }
}

void Importer::CallFunction(Scope* s, pb::FunctionProto* f, pb::NodeProto* n, const Place& place) {
  WEFT_CHECK(n->input_size() <= f->input_size(), kArity, "the function takes {} inputs, {} given",
             f->input_size(), n->input_size());
  WEFT_CHECK(n->output_size() <= f->output_size(), kArity, "the function has {} outputs, {} named",
             f->output_size(), n->output_size());
  const Record call = MakeRecord(s, n);
  Bindings bindings;
  std::vector<std::string> declared(f->attribute().begin(), f->attribute().end());
  for (const auto& a : f->attribute_proto()) declared.push_back(a.name());
  const auto check = [&](const std::string& name) {
    if (std::find(declared.begin(), declared.end(), name) != declared.end()) return;
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("the function has no attribute {}", Printable(name)), {},
               name.size() > 100 ? "" : DidYouMean(name, declared));
  };
  for (const auto& [name, value] : call.attrs) check(name);
  for (const auto& [name, graph] : call.graphs) check(name);
  bindings.attrs = call.attrs;
  bindings.graphs = call.graphs;
  for (auto& a : *f->mutable_attribute_proto()) {
    const bool given = bindings.attrs.count(a.name()) ||
                       std::any_of(bindings.graphs.begin(), bindings.graphs.end(),
                                   [&](const auto& g) { return g.first == a.name(); });
    if (!given) ConvertAttribute(*s, &a, &bindings.attrs, &bindings.graphs);
  }
  Scope inner;
  auto [opsets, fresh] = function_opsets_.try_emplace(f);
  Diagnostics said;  // by the validator
  if (fresh) opsets->second = ReadFunctionOpsets(*f, valid_.opsets, place, &said);
  inner.opsets = &opsets->second;
  inner.bindings = &bindings;
  inner.path = place;
  inner.prefix = call.name + "/";
  inner.origin =
      s->origin ? s->origin : std::make_shared<const std::vector<std::string>>(1, call.name);
  RunBody(s, &inner, f, call.inputs, call.outputs);
}

std::string Importer::ExpandSchemaBody(Scope* s, const Record& r, const pb::OpSchema& schema,
                                       const Place& place) {
  // A body that waits for the result of something unsupported has nothing to say.
  for (const std::string& in : r.inputs) {
    if (!in.empty() && Resolve(s, in).state == Value::kPoisoned) {
      Poison(s, r, false);
      return {};
    }
  }
  Scope inner;
  pb::FunctionProto built;
  pb::FunctionProto* body = nullptr;
  const int version = int(r.version);
  try {
    if (const pb::FunctionProto* f = schema.HasFunction() ? schema.GetFunction(version) : nullptr) {
      auto& copy = schema_bodies_[{f, r.version}];
      if (!copy) copy = std::make_unique<pb::FunctionProto>(*f);
      body = copy.get();
    } else if (schema.HasContextDependentFunction()) {
      pb::NodeProto node;
      node.set_op_type(r.op);
      node.set_domain(r.domain);
      node.set_name("n");
      std::vector<pb::TypeProto> types;
      for (const std::string& in : r.inputs) {
        node.add_input(in);
        types.push_back(in.empty() ? pb::TypeProto() : ProtoTypeOf(s, in));
        if (!in.empty() && types.back().value_case() == pb::TypeProto::VALUE_NOT_SET) {
          return fmt::format("its function body depends on the dtype of {}, which is not known",
                             Printable(in));
        }
      }
      for (const std::string& out : r.outputs) node.add_output(out);
      for (const auto& [name, value] : r.attrs) *node.add_attribute() = ToProto(name, value);
      for (const auto& [name, graph] : r.graphs) {
        const auto& g = *static_cast<const pb::GraphProto*>(graph);
        pb::AttributeProto* a = node.add_attribute();
        a->set_name(name);
        a->set_type(pb::AttributeProto::GRAPH);
        *a->mutable_g() = g;
        // The builder copies the graph into its body, where an outer name would mean something
        // else: it gets one that the graph and the builders do not use.
        std::map<std::string, std::string> to;
        std::set<std::string> taken;
        CollectNames(g, &taken);
        for (const std::string& free : FreeNames(g)) {
          std::string own = free + "_captured";
          while (!taken.insert(own).second || inner.values.count(own)) own += "_";
          inner.values[own] = Resolve(s, free);
          to[free] = own;
        }
        RenameFree(a->mutable_g(), std::move(to));
      }
      const pb::FunctionBodyBuildContextImpl ctx(node, types);
      if (!schema.BuildContextDependentFunction(ctx, built, version))
        return "its function body cannot be made for these inputs and attributes";
      body = &built;
      inner.temporary = true;
    }
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    WEFT_THROW(kOutOfMemory, "no memory for the function body of {}", r.op);
  } catch (const std::exception& e) {
    return fmt::format("its function body cannot be made: {}", Printable(e.what()));
  }
  if (!body) return fmt::format("it has no function body for operator set {}", r.version);

  Bindings bindings;
  bindings.attrs = r.attrs;
  bindings.graphs = r.graphs;
  Scope defaults;
  defaults.temporary = true;
  for (const auto& [name, info] : schema.attributes()) {
    if (r.attrs.count(name) || info.default_value.type() == pb::AttributeProto::UNDEFINED) continue;
    pb::AttributeProto value = info.default_value;
    value.set_name(name);
    ConvertAttribute(defaults, &value, &bindings.attrs, &bindings.graphs);
  }
  Opsets opsets = ReadOpsets(body->opset_import(), place, diag_);
  // A body of another domain speaks the default domain of the model, unless it says otherwise.
  const auto of_model = s->opsets->find("");
  opsets.emplace("", OpsetVersion{r.domain.empty()               ? r.version
                                  : of_model != s->opsets->end() ? of_model->second.version
                                                                 : NewestOpset()});
  inner.opsets = &opsets;
  inner.bindings = &bindings;
  inner.path = place;
  inner.prefix = r.name + "/";
  inner.origin =
      s->origin ? s->origin : std::make_shared<const std::vector<std::string>>(1, r.name);
  RunBody(s, &inner, body, r.inputs, r.outputs);
  return {};
}

}  // namespace weft::onnx_import
