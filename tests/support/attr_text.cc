#include "tests/support/attr_text.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/plan/storage.h"
#include "weft/support/strings.h"

namespace weft::e2e {
namespace {

/// Numbers of kernels by first use.
class Numbers {
 public:
  std::string Of(const KernelPtr& k) {
    const auto [at, fresh] = numbers_.emplace(k->CanonicalText(), kernels_.size());
    if (fresh) kernels_.push_back(k);
    return fmt::format("K{}", at->second);
  }
  const std::vector<KernelPtr>& kernels() const { return kernels_; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<KernelPtr> kernels_;
};

/// Names of nodes as the text of the graph has them.
class Names {
 public:
  explicit Names(const Graph& g) {
    for (NodePtr n : g.AllInputs()) Give(n);
    for (NodePtr n : g.TopoOrder()) Give(n);
  }
  std::string Of(NodePtr n, uint32_t output = 0) const {
    return names_.at(n->id()) + (output ? fmt::format(":{}", output) : "");
  }

 private:
  void Give(NodePtr n) {
    if (names_.count(n->id())) return;
    const std::string own = n->attrs.name.empty() ? std::to_string(unnamed_++) : n->attrs.name;
    std::string name = own;
    for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}.{}", own, k);
    names_[n->id()] = "%" + name;
  }
  std::map<NodeId, std::string> names_;
  std::set<std::string> taken_;
  int unnamed_ = 0;
};
void Line(std::string* to, const std::string& text) {
  for (const std::string& line : Split(text, '\n')) *to += "// " + line + "\n";
}

/// " {$0 = n, $1 = m}": symbols of one kernel, its own numbers.
std::string SymbolsText(const LoweredKernel& k, size_t first, int count) {
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i)
    items.push_back(fmt::format("${} = {}", i, k.symbols[first + size_t(i)].ToString()));
  return items.empty() ? "" : " {" + Join(items, ", ") + "}";
}

std::string PartText(const LoweredKernel& k, const KernelPart& part, Numbers* numbers) {
  std::vector<std::string> in, out;
  for (size_t b = 0; b < part.operands.size(); ++b)
    (int(b) < part.kernel->num_inputs ? in : out).push_back(std::to_string(part.operands[b]));
  return fmt::format("{}({}{}-> {}){}", numbers->Of(part.kernel), Join(in, ", "),
                     in.empty() ? "" : " ", Join(out, ", "),
                     SymbolsText(k, size_t(part.first_symbol), part.kernel->num_symbols));
}

std::string LaunchText(const LoweredKernel& k, Numbers* numbers) {
  std::string text;
  if (k.parts.empty()) text = numbers->Of(k.kernel) + SymbolsText(k, 0, k.kernel->num_symbols);
  for (size_t p = 0; p < k.parts.size(); ++p)
    text += (!p ? "" : k.parts.size() > 2 ? "\n  | " : " | ") + PartText(k, k.parts[p], numbers);
  std::vector<std::string> moved;
  for (size_t i = 0; i < k.layouts.size(); ++i)
    if (k.layouts[i] == Layout::kChannelsLast) moved.push_back(fmt::format("{}", i));
  if (!moved.empty()) text += " with channels last in " + Join(moved, ", ");
  return text;
}

std::string LoopsText(const Kernel& k) {
  std::vector<std::string> outer, row;
  for (size_t d = 0; d < k.dims.size(); ++d)
    (int(d) < k.num_outer ? outer : row)
        .push_back(fmt::format("i{} < {}", d, k.dims[d].ToString()));
  std::string text = FormName(k);
  text += outer.empty() ? "" : " " + Join(outer, ", ");
  if (k.has_rows()) text += " of " + Join(row, ", ");
  if (k.vector_loop >= 0) text += fmt::format("; lanes i{}", k.vector_loop);
  return text + (k.small_index ? "; 32-bit offsets" : "");
}

std::string BuffersText(const Kernel& k) {
  std::vector<std::string> in, out;
  for (size_t b = 0; b < k.buffers.size(); ++b)
    (k.buffers[b].is_output ? out : in)
        .push_back(fmt::format("x{} {}[{}]", b, DTypeName(k.buffers[b].dtype),
                               k.buffers[b].num_elements.ToString()));
  return Join(in, ", ") + (in.empty() ? "" : " ") + "-> " + Join(out, ", ");
}

/// Text of expressions in which reductions, and what occurs several times, have names: s0, s1 ..
class ExprText {
 public:
  explicit ExprText(const Kernel& k) : k_(k) {
    Exprs roots;
    for (const KernelStore& s : k.stores) roots.push_back(s.offset), roots.push_back(s.value);
    std::map<const ExprNode*, int> readers;
    for (const Expr& e : roots) ++readers[e.get()];
    const std::vector<const ExprNode*> nodes = PostOrder(roots);
    for (const ExprNode* n : nodes)
      for (const Expr& o : n->operands()) ++readers[o.get()];
    for (const ExprNode* n : nodes)
      if (DeservesName(*n, readers[n])) Name(*n);
  }
  /// "s0 = ..", each with its place.
  const std::vector<std::string>& lines() const { return lines_; }
  std::string Of(const ExprNode& n) const {
    std::string text = n.CodeGen();
    for (size_t i = 0; i < named_.size(); ++i)
      text = ReplaceAll(std::move(text), named_[i], fmt::format("s{}", i));
    return text;
  }

 private:
  static std::string ReplaceAll(std::string text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  }
  /// Variables of reductions around the expression stand for nothing outside of them.
  static bool HasFreeVariable(const std::string& text) {
    for (int level = 0; level < 8; ++level)
      if (text.find(fmt::format("r{}_", level)) != std::string::npos &&
          text.find(fmt::format("r{}_0 < ", level)) == std::string::npos)
        return true;
    return false;
  }
  bool DeservesName(const ExprNode& n, int readers) const {
    constexpr size_t kShort = 12, kShortIndex = 40;
    if (n.kind() == ExprKind::kLoad || n.operands().empty()) return false;
    const std::string text = Of(n);
    if (HasFreeVariable(text)) return false;
    if (n.kind() == ExprKind::kReduce) return true;
    return readers > 1 && text.size() > (n.dtype() == DType::kI64 ? kShortIndex : kShort);
  }
  bool IsOfRow(const ExprNode& n) const {
    if (!k_.has_rows()) return false;
    std::vector<const ExprNode*> work{&n};
    while (!work.empty()) {
      const ExprNode* m = work.back();
      work.pop_back();
      if (m->kind() == ExprKind::kIndex && m->index() >= k_.num_outer) return false;
      for (const Expr& o : m->operands()) work.push_back(o.get());
    }
    return true;
  }
  void Name(const ExprNode& n) {
    std::string text = Of(n);
    lines_.push_back(
        fmt::format("{}s{} = {}", IsOfRow(n) ? "each row: " : "", named_.size(), text));
    named_.push_back(std::move(text));
  }

  const Kernel& k_;
  std::vector<std::string> named_, lines_;
};

std::string StoreText(const KernelStore& s, const ExprText& text) {
  if (s.flag) return "flag: " + text.Of(*s.value);
  return fmt::format("{}x{}[{}] = {}", s.per_row ? "each row: " : "", s.buffer, text.Of(*s.offset),
                     text.Of(*s.value));
}

std::string KernelText(const Graph& g) {
  const Names names(g);
  const KernelMap kernels = g.AttrOr<KernelMap>("kernel");
  Numbers numbers;
  std::string out;
  for (NodePtr n : g.TopoOrder())
    if (const LoweredKernel* k = kernels.find(n))
      Line(&out, names.Of(n) + " = " + LaunchText(*k, &numbers));
  if (out.empty()) Line(&out, "no kernels");
  for (size_t i = 0; i < numbers.kernels().size(); ++i) {
    const Kernel& k = *numbers.kernels()[i];
    Line(&out, fmt::format("K{}: {}", i, LoopsText(k)));
    Line(&out, "  " + BuffersText(k));
    const ExprText text(k);
    for (const std::string& line : text.lines()) Line(&out, "  " + line);
    for (const KernelStore& s : k.stores) Line(&out, "  " + StoreText(s, text));
  }
  return out;
}

std::string RtcText(const Graph& g) {
  const Names names(g);
  const KernelMap kernels = g.AttrOr<KernelMap>("kernel");
  const RtcMap rtc = g.AttrOr<RtcMap>("rtc");
  Numbers numbers;
  std::string out;
  for (NodePtr n : g.TopoOrder()) {
    const CompiledKernels* compiled = rtc.find(n);
    const LoweredKernel* k = kernels.find(n);
    if (!compiled || !k) continue;
    const std::vector<KernelPtr> own = k->Kernels();
    for (size_t i = 0; i < own.size() && i < compiled->size(); ++i) {
      const CompiledKernel& c = *(*compiled)[i];
      Line(&out,
           fmt::format("{}: {} {}", names.Of(n), numbers.Of(own[i]),
                       c.binary.empty() ? "has no code: " + c.error
                                        : "is code for " + c.target.substr(0, c.target.find(':'))));
    }
  }
  if (out.empty()) Line(&out, "no machine code");
  return out;
}

std::string OrderText(const Graph& g) {
  const Names names(g);
  std::string text = "order:";
  for (NodeId id : g.GetAttr<Order>("order").nodes) text += " " + names.Of(g.node(id));
  std::string out;
  Line(&out, text);
  return out;
}

std::string PlaceText(const Storage& s) {
  switch (s.kind) {
    case StorageKind::kArena:
      return "arena";
    case StorageKind::kInput:
      return fmt::format("input {}", s.number);
    case StorageKind::kOutput:
      return fmt::format("output {}", s.number);
    case StorageKind::kConstant:
      return "constant";
    case StorageKind::kVariable:
      return "variable";
  }
  return "?";
}

std::string StorageText(const Graph& g) {
  const Names names(g);
  const auto& plan = g.GetAttr<StoragePlan>("storage");
  std::vector<std::string> inside(plan.storages.size());
  for (NodePtr n : g.TopoOrder())
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      if (const int* s = plan.of.find(NodeEntry(n, k))) inside[size_t(*s)] += " " + names.Of(n, k);
  std::string out;
  for (size_t b = 0; b < plan.storages.size(); ++b) {
    const Storage& s = plan.storages[b];
    Line(&out, fmt::format("B{} {}, {} bytes, steps [{}, {}):{}", b, PlaceText(s),
                           s.bytes.ToString(), s.begin, s.end, inside[b]));
  }
  std::vector<std::string> copies;
  for (int i : plan.copies) copies.push_back(std::to_string(i));
  if (!copies.empty()) Line(&out, "copied at the end: output " + Join(copies, ", "));
  for (const StoragePart& p : plan.parts)
    Line(&out, fmt::format("{} B{} {} B{} from byte {}{}", names.Of(g.node(p.node)), p.part,
                           p.copies ? "may lie in" : "may take the place of", p.whole,
                           p.bytes_before.ToString(),
                           p.rows.is(1) ? "" : ", if 1 row: " + p.rows.ToString()));
  return out;
}

/// Rows of an attribute that is registered with a text form.
std::string RowsText(const Graph& g, const AttrType& type, const std::any& value) {
  const Names names(g);
  std::string out;
  const auto row = [&](const std::string& name, NodeId id, uint32_t output) {
    if (const std::optional<std::string> text = type.format(value, id, output))
      Line(&out, fmt::format("{}{} = {}", name, type.name, *text));
  };
  if (type.scope == AttrScope::kGraph) row("", 0, 0);
  for (NodePtr n : g.TopoOrder()) {
    if (type.scope == AttrScope::kNode) row(names.Of(n) + " ", n->id(), 0);
    for (uint32_t k = 0; type.scope == AttrScope::kEntry && k < n->num_outputs(); ++k)
      row(names.Of(n, k) + " ", n->id(), k);
  }
  if (out.empty()) Line(&out, "no " + type.name);
  return out;
}

}  // namespace

std::string AttrText(const Graph& g, const std::string& name) {
  if (name == "kernel") return KernelText(g);
  if (name == "rtc") return RtcText(g);
  if (!g.HasAttr(name)) throw fmt::format("the result has no attribute '{}'", name);
  if (name == "order") return OrderText(g);
  if (name == "storage") return StorageText(g);
  const AttrType* type = FindAttrType(name);
  if (!type || !type->format) throw fmt::format("the attribute '{}' has no text", name);
  return RowsText(g, *type, *g.attrs.at(name));
}

}  // namespace weft::e2e
