/// operator_rows.cc: see operator_rows.h.
#include "operator_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::rows {
namespace {

std::vector<int64_t> ParseDims(const std::string& text) {
  const Shape shape = Shape::Parse(text);
  std::vector<int64_t> dims;
  for (const SymInt d : shape.dims()) dims.push_back(d.value());
  return dims;
}

Operand ParseOperand(const std::string& text) {
  Operand o;
  if (text == "_") return o;
  if (const size_t at = text.find(" ~ "); at != std::string::npos) {
    const size_t open = text.find('[');
    o.value = DrawnTensor(ParseDType(text.substr(0, open)).value(),
                          ParseDims(text.substr(open, at - open)), std::stoll(text.substr(at + 3)));
    return o;
  }
  const size_t equals = text.find('=');
  WEFT_CHECK(equals != std::string::npos && equals > 1, kBadInput, "operand '{}'", text);
  o.constant = text[equals - 1] != ':';
  const Graph g = ParseGraph("weft 1\ngraph @t() -> (%y) {\n  %y = Constant() {value = tensor " +
                             text.substr(0, equals - (o.constant ? 0 : 1)) +
                             text.substr(equals + 1) + "} : ?\n}\n");
  o.value = Graph::ConstantOf(g.outputs[0]);
  return o;
}

}  // namespace

std::vector<std::string> Split(const std::string& line, char at) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, at);) parts.emplace_back(Trim(part));
  return parts;
}

TensorPtr DrawnTensor(DType dtype, std::vector<int64_t> dims, int64_t seed) {
  auto t = std::make_shared<Tensor>(dtype, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set(i, double((i * i * 17 + i * (29 + seed) + seed * 7) % 61 - 30) / 8);
  return t;
}

std::vector<Operand> ParseOperands(const std::string& text) {
  std::vector<Operand> all;
  for (const std::string& part : Split(text, ';')) all.push_back(ParseOperand(part));
  return all;
}

AttrDict ParseAttrs(const std::string& text) {
  ParseOptions options;
  options.allow_unknown = true;
  const Graph g =
      ParseGraph("weft 1\ngraph @t() -> (%y) {\n  %y = Row() {" + text + "} : ?\n}\n", options);
  return g.outputs[0].node->attrs.dict;
}

NodePtr AddCall(Graph& g, const std::string& op, const std::vector<Operand>& operands,
                const std::string& attrs, const CallForm& form, std::vector<NodeEntry>* variables,
                std::map<std::string, TensorPtr>* inputs) {
  std::vector<NodeEntry> entries;
  for (const Operand& o : operands) {
    if (!o.value || (o.constant && !form.feeds)) {
      entries.push_back(o.value ? g.AddConstant(o.value) : NodeEntry());
      continue;
    }
    const std::string name = form.prefix + std::to_string(entries.size());
    std::string symbols;
    for (int k = 0; k < o.value->rank(); ++k)
      symbols += (k ? ", " : "") + name + "_" + std::to_string(k);
    const bool symbolic = form.symbolic && !o.constant;
    const NodeEntry x(g.AddInput(name, o.value->dtype(),
                                 symbolic ? Shape::Parse("[" + symbols + "]") : o.value->shape()));
    variables->push_back(x);
    inputs->emplace(name, o.value);
    entries.push_back(form.one && o.value->dtype() == DType::kF32 ? x * form.one : x);
  }
  return g.AddNode(op, entries, ParseAttrs(attrs));
}

std::vector<Result> ParseResults(const std::string& text) {
  std::vector<Result> all;
  for (const std::string& part : Split(text, ';')) {
    const size_t close = part.find(']');
    WEFT_CHECK(close != std::string::npos, kBadInput, "result '{}'", part);
    Result r{ParseDims(part.substr(0, close + 1)), {}};
    int64_t count = 1;
    for (const int64_t d : r.dims) count *= d;
    std::istringstream in(part.substr(close + 1));
    for (std::string word; in >> word;) r.values.push_back(std::stod(word));
    WEFT_CHECK(int64_t(r.values.size()) == count, kBadInput, "result '{}'", part);
    all.push_back(std::move(r));
  }
  return all;
}

std::string Differs(const Tensor& got, const Result& want, double tolerance) {
  std::ostringstream why;
  if (got.dims() != want.dims) {
    why << "got the shape " << got.shape().ToString();
    return why.str();
  }
  double largest = 0;
  for (const double v : want.values)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double g = got.at(int64_t(i)), w = want.values[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (std::isfinite(w) && std::fabs(g - w) <= tolerance * (1 + largest)) continue;
    why.precision(9);
    why << "element " << i << " is " << g << ", want " << w;
    return why.str();
  }
  return {};
}

}  // namespace weft::rows
