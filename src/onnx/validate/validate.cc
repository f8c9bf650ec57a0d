/// validate.cc: the header of a model: IR version, operator sets, function keys, node count. Graphs
/// are in validate_graph.cc, functions in validate_functions.cc.
#include "validate.h"

#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

constexpr int64_t kOldestOpset = 6;  // what torch exported for years; see lift_opset6.cc

struct KnownDomain {
  std::string_view name;
  int64_t first, last;
};
constexpr KnownDomain kKnownDomains[] = {{"ai.onnx.ml", 1, 5},
                                         {"ai.onnx.training", 1, 1},
                                         {"ai.onnx.preview", 1, 1},
                                         {"ai.onnx.preview.training", 1, 1}};

/// Newest IR version of this build's onnx, and one to come: a newer one may mean things we do not
/// know of.
constexpr int64_t kNewestIr = int64_t{pb::Version::IR_VERSION} + 1;

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
    const int64_t version = import.version();
    const auto [it, fresh] = opsets.emplace(domain, version);
    if (!fresh && it->second != version) {
      diag->Add(ErrorCode::kInvalidModel, place,
                fmt::format("domain {} is imported in versions {} and {}", Printable(domain),
                            it->second, version));
    }
    if (version < 1) {
      diag->Add(ErrorCode::kInvalidModel, place,
                fmt::format("version {} of domain {}", version, Printable(domain)));
    } else if (domain.empty() && (version < kOldestOpset || version > NewestOpset())) {
      diag->Add(ErrorCode::kUnsupported, place,
                fmt::format("operator set {} is not supported, {} to {} are", version, kOldestOpset,
                            NewestOpset()),
                version < kOldestOpset ? "export the model again with a newer operator set" : "");
    }
    for (const KnownDomain& known : kKnownDomains) {
      if (domain == known.name && version > known.last) {
        diag->Add(ErrorCode::kUnsupported, place,
                  fmt::format("version {} of domain {} is not known, {} to {} are", version, domain,
                              known.first, known.last));
      }
    }
  }
  return opsets;
}

void ValidateModel(pb::ModelProto* model, const Limits& limits, FunctionTable* functions,
                   Diagnostics* diag) {
  if (!model->has_ir_version() || model->ir_version() < 1) {
    diag->Add(ErrorCode::kInvalidModel, "", "the model has no IR version",
              "is this an ONNX model?");
  } else if (model->ir_version() > kNewestIr) {
    diag->Add(ErrorCode::kUnsupported, "",
              fmt::format("IR version {} is newer than {}, the newest this build knows",
                          model->ir_version(), kNewestIr));
  }
  if (model->opset_import_size() == 0)
    diag->Add(ErrorCode::kInvalidModel, "", "the model imports no operator set");
  if (!model->has_graph()) diag->Add(ErrorCode::kInvalidModel, "", "the model has no graph");
  const Opsets opsets = ReadOpsets(model->opset_import(), "opset_import", diag);
  if (!diag->empty()) return;

  const int64_t count = CountNodes(model->graph(), limits.nodes);
  if (count > limits.nodes) {
    diag->Add(ErrorCode::kLimit, "main",
              fmt::format("the graph has {} nodes or more, the limit `nodes` is {}", count,
                          limits.nodes));
    return;
  }
  if (model->functions_size() > limits.functions) {
    diag->Add(ErrorCode::kLimit, "",
              fmt::format("{} functions, the limit `functions` is {}", model->functions_size(),
                          limits.functions));
    return;
  }
  for (auto& f : *model->mutable_functions()) {
    const std::string place = "function " + FunctionName(f);
    if (f.name().empty()) diag->Add(ErrorCode::kInvalidModel, place, "a function without a name");
    if (!functions->Add(&f))
      diag->Add(ErrorCode::kInvalidModel, place, "the model has two functions of this name");
  }
  if (!diag->empty()) return;

  const ValidateContext ctx{limits, *functions, diag};
  ValidateFunctions(*model, opsets, ctx);
  if (diag->full()) return;
  ValidateGraph(model->graph(), nullptr, opsets, "main", false, 0, ctx);
}

}  // namespace weft::onnx_import
