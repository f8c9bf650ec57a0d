/// export.cc: the public functions: what is inferred before, what goes to a file beside the model,
/// and how both are written.
#include "weft/onnx/export.h"

#include <climits>
#include <memory>
#include <string_view>

#include "exporter.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/module/onnx_writer.h"
#include "weft/core/pass/pass.h"
#include "weft/support/atomic_file.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/mapped_file.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/text_proto.h"

namespace weft {
namespace {

using namespace onnx_export;  // the private half of this room

constexpr const char* kPlace = "export to ONNX";
/// Above this, tensors alone are taken to fill a message; the rest of a model is small.
constexpr int64_t kInlineBytes = int64_t{3} << 29;  // 1.5 GiB
/// Where each external tensor starts: pages can be mapped then.
constexpr int64_t kAlignment = 4096;

/// ONNX wants dtypes, and bodies of operators ranks; a graph that was not inferred is, in a copy.
Graph Inferred(Graph graph, const ExportOptions& options) {
  if (graph.IsComplete("dtype") && graph.IsComplete("shape")) return graph;
  Pipeline passes;
  for (const char* name : {"InferType", "InferShape"}) {
    if (PassEntry::Find(name)) passes.push_back(name);
  }
  PassOptions pass_options;
  pass_options.limits = options.limits;
  return ApplyPasses(std::move(graph), passes, pass_options);
}

/// With the bodies of its nodes inferred by what their inputs declare; one that inference refuses
/// stays as it is.
Graph WithBodies(Graph graph, const ExportOptions& options, int depth = 0) {
  Limits::Check("depth", depth, options.limits.depth);
  struct Held {
    NodePtr node;
    std::string name;
    GraphPtr body;
  };
  std::vector<Held> held;
  for (const NodePtr n : graph.TopoOrder()) {
    if (IsOp(n, builtin::kFused) || IsOp(n, builtin::kDelegated)) continue;
    for (const auto& [name, value] : n->attrs.dict)
      if (value.is<GraphPtr>() && value.get<GraphPtr>())
        held.push_back({n, name, value.get<GraphPtr>()});
  }
  if (held.empty()) return graph;
  // A body that says more takes nothing from what is known of its node.
  const TypeMap types = graph.AttrOr<TypeMap>("dtype");
  const ShapeMap shapes = graph.AttrOr<ShapeMap>("shape");
  for (const Held& h : held) {
    Graph body = *h.body;
    try {
      body = Inferred(body, options);
    } catch (const UserError&) {
    }
    body = WithBodies(std::move(body), options, depth + 1);
    graph.SetAttr(h.node, h.name, std::make_shared<const Graph>(std::move(body)));
  }
  if (graph.HasAttr("dtype")) graph.SetAttr("dtype", types);
  if (graph.HasAttr("shape")) graph.SetAttr("shape", shapes);
  return graph;
}

Graph Prepared(const Graph& graph, const ExportOptions& options) {
  return WithConstantTargets(WithBodies(Inferred(graph, options), options));
}

int64_t TensorBytes(const Graph& graph) {
  int64_t total = 0;
  for (const NodePtr n : graph.TopoOrder()) {
    for (const auto& [name, value] : n->attrs.dict) {
      if (!value.is<TensorPtr>() || !value.get<TensorPtr>()) continue;
      const Tensor& t = *value.get<TensorPtr>();
      if (t.dtype() == DType::kString) {
        for (const std::string& s : t.strings()) total += int64_t(s.size());
      } else {
        total += t.num_bytes();
      }
    }
  }
  return total;
}

void CheckSize(size_t bytes) {
  WEFT_CHECK(bytes <= size_t{INT_MAX}, kLimit,
             "the model has {} bytes; a protobuf message has at most 2 GiB, larger models keep "
             "their tensors in a file beside them",
             bytes);
}

std::string Serialized(const pb::ModelProto& model) {
  CheckSize(model.ByteSizeLong());
  std::string bytes;
  WEFT_CHECK(model.SerializeToString(&bytes), kLimit, "the model cannot be serialized");
  return bytes;
}

/// What stands before a field of bytes: its number and their length.
std::string FieldHead(int number, size_t length) {
  std::string head(1, char(number << 3 | 2));
  for (; length > 0x7f; length >>= 7) head += char((length & 0x7f) | 0x80);
  return head += char(length);
}

/// Where the fields of a serialized message from `number` on begin: they are in order.
size_t FindField(const std::string& message, int number) {
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = uint8_t(message.at(at++));
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const size_t start = at;
    const uint64_t key = varint();
    if (int(key >> 3) >= number) return start;
    if ((key & 7) == 0) {
      varint();
    } else {
      const size_t length = (key & 7) == 2 ? varint() : (key & 7) == 1 ? 8 : 4;
      at += length;
    }
  }
  return at;
}

/// Writes what Serialized gives of the model with the bytes of `large` in it, from where they are:
/// what is written may be most of what the process holds.
void WriteStreamed(pb::ModelProto* model, const std::vector<ModelExporter::Large>& large,
                   const std::string& path, bool flush) {
  constexpr int kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;  // onnx.proto
  const std::unique_ptr<pb::GraphProto> graph(model->release_graph());
  google::protobuf::RepeatedPtrField<pb::TensorProto> initializers;
  initializers.Swap(graph->mutable_initializer());
  struct Piece {
    std::string head;
    std::string_view content;
  };
  std::vector<Piece> pieces;
  size_t length = 0, next = 0;
  for (const pb::TensorProto& t : initializers) {
    std::string text = t.SerializeAsString();
    std::string_view content;
    if (next < large.size() && large[next].proto == &t) {
      const Tensor& tensor = *large[next++].tensor;
      content = {static_cast<const char*>(tensor.data()), size_t(tensor.num_bytes())};
      text += FieldHead(kTensorRawData, content.size());
    }
    text.insert(0, FieldHead(kGraphInitializer, text.size() + content.size()));
    length += text.size() + content.size();
    pieces.push_back({std::move(text), content});
  }
  const std::string inner = graph->SerializeAsString(), outer = model->SerializeAsString();
  const std::string head = FieldHead(kModelGraph, inner.size() + length);
  CheckSize(outer.size() + head.size() + inner.size() + length);
  const size_t in_outer = FindField(outer, kModelGraph);
  const size_t in_inner = FindField(inner, kGraphInitializer);
  AtomicFile file(path, flush);
  file.Write(std::string_view(outer).substr(0, in_outer));
  file.Write(head);
  file.Write(std::string_view(inner).substr(0, in_inner));
  for (const Piece& p : pieces) {
    file.Write(p.head);
    file.Write(p.content);
  }
  file.Write(std::string_view(inner).substr(in_inner));
  file.Write(std::string_view(outer).substr(in_outer));
  file.Commit();
}

void SetEntry(pb::TensorProto* t, const char* key, std::string value) {
  auto* entry = t->add_external_data();
  entry->set_key(key);
  entry->set_value(std::move(value));
}

/// The bytes of `large` in a file of their own; their protos say where. Readers see the new file
/// with the new model only: the model is written last.
void WriteExternal(const std::vector<ModelExporter::Large>& large, const std::string& path,
                   bool flush) {
  AtomicFile file(path, flush);
  int64_t at = 0;
  static const std::string padding(size_t(kAlignment), '\0');
  for (const auto& [tensor, proto] : large) {
    const int64_t gap = (kAlignment - at % kAlignment) % kAlignment;
    file.Write(std::string_view(padding).substr(0, size_t(gap)));
    at += gap;
    const int64_t bytes = tensor->num_bytes();
    file.Write({static_cast<const char*>(tensor->data()), size_t(bytes)});
    ReleaseMapped(tensor->data(), bytes);
    proto->set_data_location(pb::TensorProto::EXTERNAL);
    SetEntry(proto, "location", BaseName(path));
    SetEntry(proto, "offset", fmt::format("{}", at));
    SetEntry(proto, "length", fmt::format("{}", bytes));
    at += bytes;
  }
  file.Commit();
}

/// For the operator set of the source, or the first newer one that has all that the graph needs.
void WriteModel(const Graph& graph, const ExportOptions& options, pb::ModelProto* model,
                std::vector<ModelExporter::Large>* large) {
  const Graph written = Prepared(graph, options);
  const int64_t source = written.AttrOr<ModelSource>(ModelSource::kAttr).opset;
  int64_t opset = source > 0 ? source : OpsetChooser::kOldest;
  for (;;) {
    ModelExporter exporter(written, options, opset);
    exporter.Run(model, large);
    if (exporter.needs() <= opset) return;
    opset = exporter.needs();
    model->Clear();
    if (large) large->clear();
  }
}

template <class F>
auto Guarded(F f) -> decltype(f()) {
  try {
    return WithMemoryTo("export the model", kPlace, f);
  } catch (Error& e) {
    if (e.place().rfind(kPlace, 0) != 0) e.AddPlace(kPlace);
    throw;
  }
}

}  // namespace

std::string ExportOnnxBytes(const Graph& graph, const ExportOptions& options) {
  return Guarded([&] {
    pb::ModelProto model;
    WriteModel(graph, options, &model, nullptr);
    return Serialized(model);
  });
}

void ExportOnnx(const Graph& graph, const std::string& path, const ExportOptions& options) {
  Guarded([&] {
    using External = ExportOptions::External;
    const bool external =
        options.external == External::kAlways ||
        (options.external == External::kAuto && TensorBytes(graph) > kInlineBytes);
    const bool text = IsTextProto(path);
    pb::ModelProto model;
    std::vector<ModelExporter::Large> large;
    WriteModel(graph, options, &model, external || !text ? &large : nullptr);
    if (!external && !text) return WriteStreamed(&model, large, path, options.flush);
    if (!large.empty()) WriteExternal(large, path + ".data", options.flush);
    const std::string bytes = Serialized(model);
    AtomicFile file(path, options.flush);
    file.Write(text ? TextOfProto("ModelProto", bytes) : bytes);
    file.Commit();
  });
}

namespace {
[[maybe_unused]] const bool writes =
    SetOnnxWriter({[](const Graph& graph) { return ExportOnnxBytes(graph); },
                   [](const Graph& graph, const std::string& path) {
                     ExportOptions options;
                     options.external = ExportOptions::External::kAlways;
                     options.flush = false;
                     ExportOnnx(graph, path, options);
                   }});
}  // namespace

}  // namespace weft
