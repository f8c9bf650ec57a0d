/// printer.cc: writes a graph as text (the form is described in text.h).
///
/// Order and names come from pretty.h. Attributes that name nodes are printed with the ids
/// that the nodes will have after parsing.
#include <algorithm>
#include <deque>
#include <unordered_set>

#include "core/graph/attr_value.h"
#include "pretty.h"
#include "util.h"
#include "value.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Bodies nested deeper than this are refused rather than recursed into.
constexpr int kMaxNesting = 200;
/// More variables than this are printed one a line.
constexpr size_t kVariablesOnALine = 4;

/// One attribute to print per node or entry; the origin stands among them without a type.
struct RowAttr {
  std::string name;
  const AttrType* type;
  const std::any* value;
  bool remapped;
};

class GraphPrinter {
 public:
  GraphPrinter(const Graph& g, const PrintOptions& options, std::string* out, int depth)
      : g_(g), options_(options), out_(*out), depth_(depth), layout_(g) {
    WEFT_CHECK(depth < kMaxNesting, kLimit, "graphs are nested deeper than {}", kMaxNesting);
    (void)g_.HasAttr("");  // clears what edits made stale, so that the maps can be read as they lie
    shapes_ = MapOf<ShapeMap>("shape");
    types_ = MapOf<TypeMap>("dtype");
    CollectAttributes();
  }

  /// "@name<symbols>(..) -> (..) {..}" and the attributes of the graph.
  void Print() {
    if (!g_.name().empty()) {
      out_ += '@';
      AppendName(g_.name());
    }
    if (depth_ == 0) PrintSymbols();
    PrintVariables();
    PrintOutputs();
    out_ += " {\n";
    for (const Node* n : layout_.nodes) PrintNode(*n);
    Indent(0);
    out_ += '}';
    PrintGraphAttributes();
  }

 private:
  template <class M>
  const M* MapOf(const char* name) const {
    const auto it = g_.attrs.find(name);
    return it == g_.attrs.end() || !it->second ? nullptr : std::any_cast<M>(it->second.get());
  }

  void CollectAttributes() {
    bool identity = true;
    for (NodeId id = 0; id < layout_.ordinals.size(); ++id)
      identity = identity && layout_.ordinals[id] == id;
    bool origin_pending = options_.origins;
    const auto add_origin = [&] {
      if (origin_pending) rows_.push_back({"origin", nullptr, nullptr, false});
      origin_pending = false;
    };
    for (const auto& [name, value] : g_.attrs) {
      if (!options_.attributes || name == "shape" || name == "dtype" || !value) continue;
      const AttrType* type = AttrTypeOf(name, value);
      if (type && !type->printed && !options_.hidden_attributes) continue;
      if (!type || !type->format) {
        graph_attrs_.emplace_back(name, std::string(kOpaqueText));
        continue;
      }
      const std::any* stored = value.get();
      const bool remapped = type->remap && !identity;
      if (remapped) {
        stored = &copies_.emplace_back(*value);
        type->remap(copies_.back(), layout_.ordinals);
      }
      if (type->scope == AttrScope::kGraph) {
        const auto text = type->format(*stored, 0, 0);
        if (!text) continue;
        graph_attrs_.emplace_back(name, "");
        AppendAttrText(&graph_attrs_.back().second, *text);
      } else {
        if (name > "origin") add_origin();
        rows_.push_back({name, type, stored, remapped});
      }
    }
    add_origin();
  }

  void Indent(int more) { out_.append(size_t(2 * (depth_ + more)), ' '); }
  void AppendName(std::string_view name) {
    IsPlainName(name) ? void(out_ += name) : AppendQuoted(&out_, name);
  }

  TypeAndShape TypeOf(const Node& n, uint32_t index) const {
    TypeAndShape t;
    if (types_) {
      if (const Type* p = types_->find(n.id(), index)) t.type = *p;
    }
    if (shapes_) {
      if (const Shape* p = shapes_->find(n.id(), index)) t.shape = *p;
    }
    if (!n.is_variable()) return t;
    if (const TensorPtr value = VariableValue(n)) return {value->dtype(), value->shape()};
    const AttrDict& dict = n.attrs.dict;
    if (!t.type.known() && t.type.is_tensor()) {
      const AttrValue *dtype = dict.find("dtype"), *type = dict.find("type");
      if (dtype && dtype->is<DType>()) t.type = dtype->get<DType>();
      if (type && type->is<std::string>()) t.type = ParseType(type->get<std::string>());
    }
    const AttrValue* shape = dict.find("shape");
    if (!t.shape.has_rank() && shape && shape->is<Shape>()) t.shape = shape->get<Shape>();
    return t;
  }

  /// The symbols of the variables' dims, for the reader.
  void PrintSymbols() {
    std::unordered_set<std::string> seen;
    std::string list;
    for (const Node* n : layout_.variables) {
      const TypeAndShape t = TypeOf(*n, 0);
      for (const SymInt d : t.shape.dims()) {
        if (!d.known() || d.is_const()) continue;
        for (const SymInt s : d.Symbols()) {
          if (!seen.insert(s.symbol_name()).second) continue;
          list += list.empty() ? "" : ", ";
          list += s.symbol_name();
        }
      }
    }
    if (!list.empty()) out_ += "<" + list + ">";
  }

  void PrintVariables() {
    const bool by_line = layout_.variables.size() > kVariablesOnALine;
    out_ += '(';
    for (size_t i = 0; i < layout_.variables.size(); ++i) {
      const Node& n = *layout_.variables[i];
      if (i) out_ += by_line ? "," : ", ";
      if (by_line) {
        out_ += '\n';
        Indent(2);
      }
      out_ += layout_.names[n.id()];
      out_ += ": ";
      const TypeAndShape t = TypeOf(n, 0);
      AppendType(&out_, t.type, t.shape);
      const TensorPtr value = VariableValue(n);
      if (i >= g_.inputs().size()) out_ += value ? " param" : " free";
      if (value) {
        out_ += " = ";
        AppendTensorData(&out_, value, options_);
      }
      PrintDict(n, [](std::string_view name, const AttrValue& v) {
        return (name == "dtype" && v.is<DType>()) || (name == "shape" && v.is<Shape>()) ||
               (name == "type" && v.is<std::string>()) || (name == "value" && v.is<TensorPtr>());
      });
      PrintRows(n);
    }
    out_ += ')';
  }

  void PrintOutputs() {
    out_ += " -> (";
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      if (i) out_ += ", ";
      const NodeEntry& e = g_.outputs[i];
      PrintOperand(e);
      if (!e.node) continue;
      const std::string name = g_.OutputName(i);
      if (name != DefaultOutputName(e, i)) {
        out_ += " as ";
        AppendQuoted(&out_, name);
      }
    }
    out_ += ')';
  }

  /// What Graph::OutputName would say of the graph that this text parses to.
  std::string DefaultOutputName(const NodeEntry& e, size_t i) const {
    const auto own = layout_.own_names.find(e.key().packed());
    if (own != layout_.own_names.end()) return own->second.name;
    const auto it = layout_.renamed.find(e.node->id());
    const std::string& name = it == layout_.renamed.end() ? e.node->attrs.name : it->second;
    const std::string base = name.empty() ? "output" + std::to_string(i) : name;
    return e.index == 0 ? base : base + ":" + std::to_string(e.index);
  }

  void PrintOperand(const NodeEntry& e) {
    if (!e.node) {
      out_ += '_';
      return;
    }
    if (e.index) {
      const auto own = layout_.own_names.find(e.key().packed());
      if (own != layout_.own_names.end()) {
        out_ += own->second.printed;
        return;
      }
    }
    out_ += layout_.names[e.node->id()];
    if (e.index) {
      out_ += ':';
      AppendInt(&out_, e.index);
    }
  }

  void PrintNode(const Node& n) {
    const uint32_t num_outputs = n.num_outputs();
    Indent(1);
    PrintOperand({&n, 0});
    for (uint32_t k = 1; k < num_outputs; ++k) {
      out_ += ", ";
      PrintOperand({&n, k});
    }
    out_ += " = ";
    AppendOpName(n.op()->name);
    out_ += '(';
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (i) out_ += ", ";
      PrintOperand(n.inputs[i]);
    }
    out_ += ')';
    const AttrValue* body = n.op()->name == builtin::kFused ? n.attrs.dict.find("body") : nullptr;
    if (body && (!body->is<GraphPtr>() || !body->get<GraphPtr>())) body = nullptr;
    PrintDict(n, [body](std::string_view, const AttrValue& v) { return &v == body; });
    if (body) {
      out_ += " body ";
      PrintNested(*body->get<GraphPtr>());
    }
    if (!n.control_deps.empty()) {
      out_ += " after(";
      for (size_t i = 0; i < n.control_deps.size(); ++i) {
        if (i) out_ += ", ";
        out_ += layout_.names[n.control_deps[i]->id()];
      }
      out_ += ')';
    }
    for (uint32_t k = 0; k < num_outputs; ++k) {
      out_ += k ? ", " : " : ";
      const TypeAndShape t = TypeOf(n, k);
      AppendType(&out_, t.type, t.shape);
    }
    PrintRows(n);
    out_ += '\n';
  }

  void AppendOpName(const std::string& name) {
    std::string bare = name;
    bare.erase(std::remove(bare.begin(), bare.end(), ':'), bare.end());
    const bool plain = IsPlainName(bare) && name[0] != ':';
    plain ? void(out_ += name) : AppendQuoted(&out_, name);
  }

  void PrintNested(const Graph& g) { GraphPrinter(g, options_, &out_, depth_ + 1).Print(); }

  template <class Skip>
  void PrintDict(const Node& n, Skip skip) {
    bool first = true;
    for (const auto& [name, value] : n.attrs.dict) {
      if (skip(name, value)) continue;
      out_ += first ? " {" : ", ";
      first = false;
      AppendName(name);
      out_ += " = ";
      PrintValue(value);
    }
    if (!first) out_ += '}';
  }

  void PrintValue(const AttrValue& v) {
    if (v.empty()) {
      out_ += "none";
    } else if (v.is<std::string>()) {
      AppendQuoted(&out_, v.get<std::string>());
    } else if (v.is<Shape>()) {
      out_ += "shape" + v.get<Shape>().ToString();
    } else if (v.is<TensorPtr>()) {
      const TensorPtr& t = v.get<TensorPtr>();
      out_ += "tensor ";
      if (!t) {
        out_ += "none";
        return;
      }
      AppendType(&out_, t->dtype(), t->shape());
      out_ += ' ';
      AppendTensorData(&out_, t, options_);
    } else if (v.is<GraphPtr>()) {
      const GraphPtr& g = v.get<GraphPtr>();
      out_ += "graph ";
      g ? PrintNested(*g) : void(out_ += "none");
    } else {
      // An empty list of integers is "[]"; the other empty lists say what they are lists of.
      const std::string text = v;
      if (text == "[]" && !v.is<Ints>()) out_ += v.type_name();
      out_ += text;
    }
  }

  void PrintRows(const Node& n) {
    for (const RowAttr& row : rows_) {
      if (!row.type) {
        if (!n.origin()) continue;
        out_ += " #origin = ";
        out_ += std::string(AttrValue(Strings(*n.origin())));
        continue;
      }
      const NodeId id = row.remapped ? layout_.ordinals[n.id()] : n.id();
      const uint32_t indices =
          row.type->scope == AttrScope::kEntry ? std::max(1u, n.num_outputs()) : 1;
      for (uint32_t k = 0; k < indices; ++k) {
        const auto text = row.type->format(*row.value, id, k);
        if (!text) continue;
        AppendAttrName(row.name);
        if (k) {
          out_ += ':';
          AppendInt(&out_, k);
        }
        out_ += " = ";
        AppendAttrText(&out_, *text);
      }
    }
  }

  void AppendAttrName(const std::string& name) {
    out_ += " #";
    AppendName(name);
  }

  void PrintGraphAttributes() {
    for (const auto& [name, text] : graph_attrs_) {
      if (depth_ == 0) {
        out_ += "\n#";
        AppendName(name);
      } else {
        AppendAttrName(name);
      }
      out_ += " = ";
      out_ += text;
    }
  }

  const Graph& g_;
  const PrintOptions& options_;
  std::string& out_;
  const int depth_;
  const TextLayout layout_;
  const ShapeMap* shapes_ = nullptr;
  const TypeMap* types_ = nullptr;
  std::vector<RowAttr> rows_;
  std::vector<std::pair<std::string, std::string>> graph_attrs_;
  std::deque<std::any> copies_;  // remapped attribute values
};

}  // namespace

std::string PrintGraph(const Graph& graph, const PrintOptions& options) {
  std::string out = "weft 1\ngraph ";
  out.reserve(graph.num_nodes() * 48);
  GraphPrinter(graph, options, &out, 0).Print();
  out += '\n';
  return out;
}

}  // namespace weft
