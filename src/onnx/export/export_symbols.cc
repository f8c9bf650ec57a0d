/// export_symbols.cc: symbols as values. A symbol is read off the shape of a value that has it as
/// an extent, or is an element of an input. Values here are i64 vectors.
#include "exporter.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft::onnx_export {
namespace {

/// d == times * symbol with a constant times > 0?
bool IsMultipleOf(SymInt d, std::string* symbol, int64_t* times) {
  if (!d.known()) return false;
  const std::vector<SymInt> symbols = d.Symbols();
  if (symbols.size() != 1) return false;
  *symbol = symbols[0].symbol_name();
  *times = 1;
  if (d == symbols[0]) return true;
  try {
    *times = Evaluate(d, {{*symbol, 1}});
    return *times > 0 && d == symbols[0] * SymInt(*times);
  } catch (const Error&) {
    return false;  // an expression that has no value for 1 is no multiple
  }
}

}  // namespace

/// Inputs first, then what comes first and does not need the symbol itself; a plain symbol before a
/// multiple of it. A symbol may be an extent, or stand for an element of an input (sizes that the
/// user gives).
void GraphWriter::FindSources() {
  const GraphSymbols& needed = model_.SymbolsOf(g_);
  std::set<std::string> wanted = needed.own;
  for (const std::string& s : needed.outer)
    if (!values_.count(s)) wanted.insert(s);
  if (wanted.empty()) return;
  using Followed = EntryMap<SymTensorPtr>;
  const Followed* values = g_.HasAttr("value") ? &g_.GetAttr<Followed>("value") : nullptr;
  std::set<std::string> needs;
  const auto consider = [&](const NodeEntry& e, SymInt d, int at, bool is_value) {
    std::string symbol;
    Source s{e, at, 1, is_value};
    if (!IsMultipleOf(d, &symbol, &s.times) || !wanted.count(symbol) || needs.count(symbol)) return;
    const auto [it, fresh] = sources_.try_emplace(symbol, s);
    const bool better = it->second.times != 1 && s.times == 1 && e.node->is_variable();
    if (!fresh && better) it->second = s;
  };
  const auto look = [&](const NodeEntry& e) {
    const Shape shape = ShapeOf(e);
    for (int k = 0; shape.has_rank() && k < shape.rank(); ++k) consider(e, shape[k], k, false);
    // A node may have got its value from the symbol; an input has it from the user.
    const SymTensorPtr* v = values && e.node->is_variable() ? values->find(e) : nullptr;
    for (size_t k = 0; v && *v && k < (*v)->elements.size(); ++k)
      consider(e, (*v)->elements[k], int(k), true);
  };
  for (const NodePtr p : g_.AllInputs()) look(p);
  for (const NodePtr n : g_.TopoOrder()) {
    if (sources_.size() == wanted.size()) break;
    if (n->is_variable()) continue;
    needs = model_.NeededBy(n);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) look(NodeEntry(n, k));
  }
}

std::string GraphWriter::Step(const std::string& base, const std::string& op,
                              const std::vector<std::string>& inputs) {
  std::string& known = steps_[fmt::format("{}({})", op, fmt::join(inputs, ","))];
  if (!known.empty()) return known;
  pb::NodeProto* n = Add("", op);
  for (const std::string& in : inputs) n->add_input(in);
  known = names_->Unique(base);
  n->add_output(known);
  model_.opset().Add(*n, {}, {});
  return known;
}

std::string GraphWriter::IntsValue(const std::vector<int64_t>& values) {
  std::string& known = steps_[fmt::format("{}", fmt::join(values, ","))];
  if (!known.empty()) return known;
  pb::NodeProto* n = Add("", "Constant");
  WriteAttribute("value", Tensor::Ints(values), pb::AttributeProto::TENSOR, n->add_attribute());
  known = names_->Unique("extent.const");
  n->add_output(known);
  model_.opset().Add(*n, {}, {});
  return known;
}

std::string GraphWriter::Element(const NodeEntry& e, int at) {
  const std::string flat = Step("extent.values", "Reshape", {NameOf(e), IntsValue({-1})});
  const std::string one = Step("extent.element", "Gather", {flat, IntsValue({at})});
  if (TypeOf(e) == Type(DType::kI64)) return one;
  pb::NodeProto* n = Add("", "Cast");
  n->add_input(one);
  WriteAttribute("to", DType::kI64, pb::AttributeProto::INT, n->add_attribute());
  std::string name = names_->Unique("extent.element");
  n->add_output(name);
  model_.opset().Add(*n, {TypeOf(e)}, {DType::kI64});
  return name;
}

const std::string& GraphWriter::SymbolValue(const std::string& symbol) {
  const auto known = values_.find(symbol);
  if (known != values_.end()) return known->second;
  const auto it = sources_.find(symbol);
  if (it == sources_.end()) {
    WEFT_CHECK(outer_ != nullptr, kUnsupported,
               "the value of the symbol '{}' is needed and no dimension of an input determines it",
               symbol);
    return outer_->SymbolValue(symbol);
  }
  const Source& s = it->second;
  std::string name =
      s.is_value ? Element(s.entry, s.axis) : Extents(s.entry, s.axis, 1, "extent." + symbol);
  if (s.times != 1) name = Step("extent." + symbol, "Div", {name, IntsValue({s.times})});
  return values_.emplace(symbol, std::move(name)).first->second;
}

}  // namespace weft::onnx_export
