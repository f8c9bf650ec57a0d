/// validate.cc: the header of a model: IR version, operator sets, function keys, node count. Graphs
/// are in validate_graph.cc, functions in validate_functions.cc.
#include "validate.h"

#include <algorithm>
#include <iterator>

#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

/// How much newer than known a version may be. ONNX makes two to three a year: one that is ten
/// ahead is no version of these years.
constexpr int64_t kVersionsAhead = 10;

struct KnownDomain {
  std::string_view name;
  int64_t last;
};
constexpr KnownDomain kKnownDomains[] = {
    {"ai.onnx.ml", 5},    {"ai.onnx.training", 1},         {"ai.onnx.preview", 1},
    {"com.microsoft", 1}, {"ai.onnx.preview.training", 1},
};

/// The newest operator set of the releases of an IR version (ONNX's docs/Versioning.md); the newest
/// known where the model says none.
int64_t OpsetOfIr(int64_t ir) {
  constexpr int64_t kFirst = 3, kNewest[] = {8, 9, 10, 11, 14, 18, 20, 22, 23, 24};
  const int64_t i = ir - kFirst;
  return i >= 0 && i < int64_t(std::size(kNewest)) ? kNewest[i] : NewestOpset();
}

/// Newest IR version of this build's onnx, and one to come: a newer one may mean things we do not
/// know of.
constexpr int64_t kNewestIr = int64_t{pb::Version::IR_VERSION} + 1;

const KnownDomain* FindDomain(std::string_view name) {
  const auto* const it = std::find_if(std::begin(kKnownDomains), std::end(kKnownDomains),
                                      [&](const KnownDomain& d) { return d.name == name; });
  return it == std::end(kKnownDomains) ? nullptr : it;
}

/// Nodes with those of sub-graphs, counted without looking at anything else; stops above `bound`.
int64_t CountNodes(const pb::GraphProto& graph, int64_t bound) {
  int64_t count = 0;
  std::vector<const pb::GraphProto*> open{&graph};
  while (!open.empty() && count <= bound) {
    const pb::GraphProto* g = open.back();
    open.pop_back();
    count += g->node_size();
    for (const auto& n : g->node()) {
      for (const auto& a : n.attribute()) {
        if (a.has_g()) open.push_back(&a.g());
        for (const auto& sub : a.graphs()) open.push_back(&sub);
      }
    }
  }
  return count;
}

}  // namespace

bool FunctionTable::Add(pb::FunctionProto* f) {
  index_.emplace(f, list_.size());
  list_.push_back(f);
  return by_key_
      .emplace(Key{std::string(CanonicalDomain(f->domain())), f->name(), f->overload()}, f)
      .second;
}
pb::FunctionProto* FunctionTable::Find(std::string_view domain, const std::string& op_type,
                                       const std::string& overload) const {
  if (by_key_.empty()) return nullptr;
  const auto it = by_key_.find(Key{std::string(CanonicalDomain(domain)), op_type, overload});
  return it == by_key_.end() ? nullptr : it->second;
}
pb::FunctionProto* FunctionTable::Find(const pb::NodeProto& n) const {
  return Find(n.domain(), n.op_type(), n.overload());
}

std::string FunctionName(const pb::FunctionProto& f) {
  std::string name = OpKey(f.domain(), f.name());
  if (!f.overload().empty()) name += ":" + f.overload();
  return Printable(name);
}

std::string NodePlace(const std::string& path, int index, std::string_view name,
                      std::string_view domain, std::string_view op_type) {
  std::string place = fmt::format("{}/node[{}]", path, index);
  if (!name.empty()) place += " " + Printable(name);
  std::string key = Printable(OpKey(domain, op_type));
  return place + " (" + key.substr(1, key.size() - 2) + ")";
}

Opsets ReadOpsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports,
                  const std::string& place, Diagnostics* diag) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain(CanonicalDomain(import.domain()));
    int64_t version = import.version();
    const KnownDomain* known = FindDomain(domain);
    const int64_t last = domain.empty() ? NewestOpset() : known ? known->last : INT64_MAX;
    const std::string what = domain.empty()
                                 ? fmt::format("operator set {}", version)
                                 : fmt::format("version {} of domain {}", version, domain);
    if (version < 1) {
      diag->Add(ErrorCode::kInvalidModel, place,
                fmt::format("version {} of domain {}", version, Printable(domain)));
    } else if (version > last && version - last > kVersionsAhead) {
      diag->Add(ErrorCode::kUnsupported, place,
                fmt::format("{} is not supported, 1 to {} are", what, last));
    } else if (version > last) {
      diag->Tolerate(Oddity::kNewerOpset, place,
                     fmt::format("{} is newer than {}, the newest known", what, last));
      version = last;
    }
    const auto [it, fresh] = opsets.emplace(domain, OpsetVersion{version});
    if (!fresh && it->second.version != version) {
      diag->Tolerate(Oddity::kTwoOpsets, place,
                     fmt::format("domain {} is imported in versions {} and {}", Printable(domain),
                                 it->second.version, version));
      it->second.version = std::max(it->second.version, version);
    }
  }
  return opsets;
}

Opsets ReadFunctionOpsets(const pb::FunctionProto& f, const Opsets& of_model,
                          const std::string& place, Diagnostics* diag) {
  Opsets opsets = ReadOpsets(f.opset_import(), place, diag);
  for (const auto& [domain, opset] : of_model)
    opsets.emplace(domain, OpsetVersion{opset.version, true});
  return opsets;
}

ValidModel ValidateModel(pb::ModelProto* model, const Limits& limits, Diagnostics* diag) {
  ValidModel valid;
  const int64_t ir = model->ir_version();
  if (ir < 0) {
    diag->Add(ErrorCode::kInvalidModel, "", fmt::format("IR version {}", ir));
  } else if (ir > kNewestIr) {
    diag->Add(
        ErrorCode::kUnsupported, "",
        fmt::format("IR version {} is newer than {}, the newest this build knows", ir, kNewestIr));
  }
  if (!model->has_graph())
    diag->Add(ErrorCode::kInvalidModel, "", "the model has no graph", "is this an ONNX model?");
  valid.opsets = ReadOpsets(model->opset_import(), "opset_import", diag);
  if (!diag->empty()) return valid;
  if (ir == 0) diag->Tolerate(Oddity::kMissingIr, "", "the model has no IR version");
  valid.opsets.emplace("", OpsetVersion{OpsetOfIr(ir), true});
  for (const KnownDomain& d : kKnownDomains)
    valid.opsets.emplace(d.name, OpsetVersion{d.last, true});

  const int64_t count = CountNodes(model->graph(), limits.nodes);
  if (count > limits.nodes) {
    diag->Add(ErrorCode::kLimit, "main",
              fmt::format("the graph has {} nodes or more, the limit `nodes` is {}", count,
                          limits.nodes));
    return valid;
  }
  if (model->functions_size() > limits.functions) {
    diag->Add(ErrorCode::kLimit, "",
              fmt::format("{} functions, the limit `functions` is {}", model->functions_size(),
                          limits.functions));
    return valid;
  }
  for (auto& f : *model->mutable_functions()) {
    const std::string place = "function " + FunctionName(f);
    if (f.name().empty()) diag->Add(ErrorCode::kInvalidModel, place, "a function without a name");
    if (!valid.functions.Add(&f))
      diag->Add(ErrorCode::kInvalidModel, place, "the model has two functions of this name");
  }
  if (!diag->empty()) return valid;

  const ValidateContext ctx{limits, valid.functions, &valid.orders, diag};
  ValidateFunctions(*model, valid.opsets, ctx);
  if (!diag->full()) ValidateGraph(model->graph(), nullptr, valid.opsets, "main", false, 0, ctx);
  return valid;
}

}  // namespace weft::onnx_import
