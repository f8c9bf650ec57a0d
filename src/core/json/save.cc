/// save.cc: writes a graph as JSON (the form is described in json.h).
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/graph/attr_value.h"
#include "core/graph/entry_attrs.h"
#include "core/text/pretty.h"
#include "core/text/util.h"
#include "doc.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/json/json.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr int kMaxNesting = 200;

/// Ids stay as they are while a reader can keep a table by id that is not much
/// larger than the graph.
bool KeepsIds(const Graph& g) { return g.id_bound() <= 8 * g.num_nodes() + 65536; }

class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(*out) {}

  void Document(const Graph& g) {
    out_ += "{\"format\": \"weft\", \"version\": [1, 0],\n\"graph\": ";
    WriteGraph(g);
    out_ += ",\n\"tensors\": [";
    // Tensors hold no graphs: the list is complete by now.
    for (size_t i = 0; i < tensors_.size(); ++i) {
      out_ += i ? ",\n" : "\n";
      WriteTensor(*tensors_[i]);
    }
    out_ += "]}\n";
  }

 private:
  void WriteGraph(const Graph& g) {
    WEFT_CHECK(++depth_ < kMaxNesting, kLimit, "graphs are nested deeper than {}", kMaxNesting);
    (void)g.HasAttr("");  // clears what edits made stale, so that the maps can be read as they lie
    const TextLayout layout(g);
    const bool keep = KeepsIds(g);
    const auto id = [&](NodeId i) { return keep ? i : layout.ordinals[i]; };
    const auto entry = [&](const NodeEntry& e) {
      if (!e.node) return void(out_ += "null");
      out_ += '[';
      AppendInt(&out_, id(e.node->id()));
      out_ += ", ";
      AppendInt(&out_, e.index);
      out_ += ']';
    };
    out_ += '{';
    if (!g.name().empty()) {
      out_ += "\"name\": ";
      AppendJsonString(&out_, g.name());
      out_ += ", ";
    }
    out_ += "\"nodes\": [";
    bool first = true;
    const auto node = [&](const Node& n) {
      out_ += first ? "\n" : ",\n";
      first = false;
      out_ += "{\"id\": ";
      AppendInt(&out_, id(n.id()));
      if (n.op()) {
        out_ += ", \"op\": ";
        AppendJsonString(&out_, n.op()->name);
      }
      if (!n.attrs.name.empty()) {
        out_ += ", \"name\": ";
        AppendJsonString(&out_, n.attrs.name);
      }
      if (!n.inputs.empty()) {
        out_ += ", \"inputs\": [";
        for (size_t i = 0; i < n.inputs.size(); ++i) {
          if (i) out_ += ", ";
          entry(n.inputs[i]);
        }
        out_ += ']';
      }
      if (!n.attrs.dict.empty()) WriteDict(n.attrs.dict);
      if (n.num_outputs() != 1) {
        out_ += ", \"outputs\": ";
        AppendInt(&out_, n.num_outputs());
      }
      if (!n.control_deps.empty()) {
        out_ += ", \"control\": [";
        for (size_t i = 0; i < n.control_deps.size(); ++i) {
          if (i) out_ += ", ";
          AppendInt(&out_, id(n.control_deps[i]->id()));
        }
        out_ += ']';
      }
      if (n.origin()) {
        out_ += ", \"origin\": ";
        WriteStrings(*n.origin());
      }
      out_ += '}';
    };
    for (const Node* n : layout.variables) node(*n);
    for (const Node* n : layout.nodes) node(*n);
    out_ += "],\n\"inputs\": [";
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      if (i) out_ += ", ";
      AppendInt(&out_, id(g.inputs()[i]->id()));
    }
    out_ += "], \"outputs\": [";
    bool named = false;
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const NodeEntry& e = g.outputs[i];
      WEFT_CHECK(e.node, kInvalidModel, "output {} of the graph is not set", i);
      if (i) out_ += ", ";
      entry(e);
      named = named || g.OutputName(i) != DefaultName(g, e, i);
    }
    out_ += ']';
    if (named) {
      std::vector<std::string> names;
      for (size_t i = 0; i < g.outputs.size(); ++i) names.push_back(g.OutputName(i));
      out_ += ", \"output_names\": ";
      WriteStrings(names);
    }
    WriteAttributes(g, layout, keep);
    out_ += '}';
    --depth_;
  }

  static std::string DefaultName(const Graph& g, const NodeEntry& e, size_t i) {
    if (const std::string* own = NameRow(g, e)) return *own;
    const std::string base =
        e.node->attrs.name.empty() ? "output" + std::to_string(i) : e.node->attrs.name;
    return e.index == 0 ? base : base + ":" + std::to_string(e.index);
  }

  void WriteStrings(const std::vector<std::string>& list) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out_ += ", ";
      AppendJsonString(&out_, list[i]);
    }
    out_ += ']';
  }

  void WriteDict(const AttrDict& dict) {
    out_ += ", \"attrs\": {";
    bool first = true;
    for (const auto& [name, value] : dict) {
      if (!first) out_ += ", ";
      first = false;
      AppendJsonString(&out_, name);
      out_ += ": ";
      WriteValue(value);
    }
    out_ += '}';
  }

  void WriteDouble(double v) {
    if (std::isfinite(v)) return AppendDouble(&out_, v);
    std::string text;
    AppendDouble(&text, v);
    AppendJsonString(&out_, text);
  }

  void WriteValue(const AttrValue& v) {
    if (v.empty()) {
      out_ += "null";
    } else if (v.is<int64_t>()) {
      AppendInt(&out_, v.get<int64_t>());
    } else if (v.is<double>()) {
      const bool finite = std::isfinite(v.get<double>());
      if (!finite) out_ += "{\"float\": ";
      WriteDouble(v.get<double>());
      if (!finite) out_ += '}';
    } else if (v.is<std::string>()) {
      AppendJsonString(&out_, v.get<std::string>());
    } else if (v.is<DType>()) {
      Tagged("dtype", DTypeName(v.get<DType>()));
    } else if (v.is<Shape>()) {
      Tagged("shape", v.get<Shape>().ToString());
    } else if (v.is<Ints>()) {
      out_ += '[';
      for (size_t i = 0; i < v.get<Ints>().size(); ++i) {
        if (i) out_ += ", ";
        AppendInt(&out_, v.get<Ints>()[i]);
      }
      out_ += ']';
    } else if (v.is<Floats>()) {
      const Floats list = v.get<Floats>();
      const bool tagged = list.empty() || !std::all_of(list.begin(), list.end(),
                                                       [](double d) { return std::isfinite(d); });
      out_ += tagged ? "{\"floats\": [" : "[";
      for (size_t i = 0; i < list.size(); ++i) {
        if (i) out_ += ", ";
        WriteDouble(list[i]);
      }
      out_ += tagged ? "]}" : "]";
    } else if (v.is<Strings>()) {
      const bool tagged = v.get<Strings>().empty();
      if (tagged) out_ += "{\"strings\": ";
      WriteStrings(v.get<Strings>());
      if (tagged) out_ += '}';
    } else if (v.is<TensorPtr>()) {
      out_ += "{\"tensor\": ";
      const TensorPtr& t = v.get<TensorPtr>();
      t ? AppendInt(&out_, TensorNumber(t)) : void(out_ += "null");
      out_ += '}';
    } else {
      out_ += "{\"graph\": ";
      const GraphPtr& g = v.get<GraphPtr>();
      g ? WriteGraph(*g) : void(out_ += "null");
      out_ += '}';
    }
  }

  void Tagged(const char* tag, std::string_view text) {
    out_ += "{\"";
    out_ += tag;
    out_ += "\": ";
    AppendJsonString(&out_, text);
    out_ += '}';
  }

  int64_t TensorNumber(const TensorPtr& t) {
    const auto [it, fresh] = numbers_.try_emplace(t.get(), int64_t(tensors_.size()));
    if (fresh) tensors_.push_back(t);
    return it->second;
  }

  void WriteTensor(const Tensor& t) {
    out_ += "{\"dtype\": ";
    AppendJsonString(&out_, DTypeName(t.dtype()));
    out_ += ", \"dims\": [";
    for (size_t i = 0; i < t.dims().size(); ++i) {
      if (i) out_ += ", ";
      AppendInt(&out_, t.dims()[i]);
    }
    out_ += "], ";
    if (t.dtype() == DType::kString) {
      out_ += "\"strings\": ";
      WriteStrings(t.strings());
    } else {
      out_ += "\"data\": \"";
      AppendBase64(&out_, t.data(), size_t(t.num_bytes()));
      out_ += '"';
    }
    out_ += '}';
  }

  void WriteAttributes(const Graph& g, const TextLayout& layout, bool keep) {
    bool any = false;
    std::vector<std::string> partial;
    for (const auto& [name, value] : g.attrs) {
      const AttrType* type = AttrTypeOf(name, value);
      // A text of the graph in the graph would be out of date with the first edit.
      if (!type || !type->format || !type->parse || !value || name == "json") continue;
      std::any copy;
      if (type->remap && !keep) {
        copy = *value;
        type->remap(copy, layout.ordinals);
      }
      const std::any& stored = copy.has_value() ? copy : *value;
      out_ += any ? ",\n  " : ",\n\"attributes\": {\n  ";
      any = true;
      AppendJsonString(&out_, name);
      out_ += ": ";
      if (type->scope == AttrScope::kGraph) {
        const auto text = type->format(stored, 0, 0);
        text ? AppendJsonString(&out_, *text) : void(out_ += "null");
      } else {
        WriteRows(*type, stored, layout, keep);
      }
      if (!g.IsComplete(name)) partial.push_back(name);
    }
    if (any) out_ += '}';
    if (!partial.empty()) {
      out_ += ", \"partial\": ";
      WriteStrings(partial);
    }
  }

  void WriteRows(const AttrType& type, const std::any& value, const TextLayout& layout, bool keep) {
    const bool entries = type.scope == AttrScope::kEntry;
    bool first = true;
    out_ += '[';
    const auto rows = [&](const Node& n) {
      const NodeId id = keep ? n.id() : layout.ordinals[n.id()];
      const uint32_t count = entries ? std::max(1u, n.num_outputs()) : 1;
      for (uint32_t k = 0; k < count; ++k) {
        const auto text = type.format(value, type.remap && !keep ? id : n.id(), k);
        if (!text) continue;
        out_ += first ? "[" : ", [";
        first = false;
        AppendInt(&out_, id);
        if (entries) {
          out_ += ", ";
          AppendInt(&out_, k);
        }
        out_ += ", ";
        AppendJsonString(&out_, *text);
        out_ += ']';
      }
    };
    for (const Node* n : layout.variables) rows(*n);
    for (const Node* n : layout.nodes) rows(*n);
    out_ += ']';
  }

  std::string& out_;
  int depth_ = 0;
  std::vector<TensorPtr> tensors_;
  std::unordered_map<const Tensor*, int64_t> numbers_;  // looked up only
};

}  // namespace

std::string SaveJson(const Graph& graph) {
  std::string out;
  out.reserve(graph.num_nodes() * 80);
  JsonWriter(&out).Document(graph);
  return out;
}

}  // namespace weft
