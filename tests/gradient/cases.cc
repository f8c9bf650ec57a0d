/// cases.cc: rows of text to cases; random operands; the list of exceptions.
#include "cases.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/error.h"
#include "weft/support/strings.h"

namespace weft::gradient {
namespace {

constexpr const char* kFolder = "tests/gradient/";

struct Row {
  std::vector<std::string> inputs;  ///< "f64[2, n]", "i64[1] = [0]", "_"; see cases.txt
  std::string attrs;
};

}  // namespace

std::vector<std::string> Lines(const std::string& file) {
  std::ifstream in(std::string(kFolder) + file);
  WEFT_CHECK(in.good(), kBadInput, "{}{} cannot be read; tests run in the source folder", kFolder,
             file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!Trim(line).empty() && Trim(line)[0] != '#') lines.emplace_back(Trim(line));
  return lines;
}

namespace {

const std::vector<Row>& TableRows(const std::string& op) {
  static const std::map<std::string, std::vector<Row>> rows = [] {
    std::map<std::string, std::vector<Row>> all;
    for (const std::string& line : Lines("cases.txt")) {
      const std::vector<std::string> part = Split(line, '|');
      WEFT_CHECK(part.size() >= 2 && Op::Find(part[0]), kBadInput, "cases.txt: '{}'", line);
      all[part[0]].push_back({Split(part[1], ';'), part.size() > 2 ? part[2] : ""});
    }
    return all;
  }();
  static const std::vector<Row> none;
  const auto it = rows.find(op);
  return it == rows.end() ? none : it->second;
}

/// An operand as a row says it: its type, and what follows " = ", " := " or " in ".
struct Operand {
  std::string type, values, range;
  bool absent = false, constant = false;
};
Operand ParseOperand(const std::string& text) {
  Operand o;
  o.absent = text == "_";
  for (const char* mark : {" := ", " = ", " in "}) {
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    o.type = text.substr(0, at);
    const std::string rest = text.substr(at + std::string(mark).size());
    o.constant = mark[1] == '=';
    (mark[1] == 'i' ? o.range : o.values) = rest;
    return o;
  }
  o.type = text;
  return o;
}

TensorPtr ParseTensor(const std::string& type, const std::string& values) {
  const Graph g = ParseGraph("weft 1\ngraph @t() -> (%y) {\n  %y = Constant() {value = tensor " +
                             type + " " + values + "} : ?\n}\n");
  return Graph::ConstantOf(g.outputs[0]);
}

/// The floats of a row become f64: of the operands that are drawn, or also of the constants.
Row InDouble(Row row, bool constants) {
  for (std::string& i : row.inputs) {
    if (!constants && i.find(" = ") != std::string::npos) continue;
    for (const char* narrow : {"f32[", "f16[", "bf16["})
      if (i.rfind(narrow, 0) == 0) i = "f64" + i.substr(std::string(narrow).size() - 1);
  }
  return row;
}

/// Operands drawn for `row`; throws a UserError where the operator refuses them.
Case Draw(const Op& op, const Row& row, uint64_t seed, bool allow_zero) {
  Case c;
  c.op = &op;
  c.label = op.name;
  for (const std::string& i : row.inputs) c.label += (&i == &row.inputs[0] ? " | " : "; ") + i;
  c.label += " | " + row.attrs + " | seed " + std::to_string(seed);
  c.attrs = rows::ParseAttrs(row.attrs);
  std::vector<Operand> operands;
  Graph g;
  std::vector<NodeEntry> entries;
  for (const std::string& text : row.inputs) {
    const Operand o = ParseOperand(text);
    operands.push_back(o);
    c.constant.push_back(o.constant);
    c.inputs.push_back(o.values.empty() ? nullptr : ParseTensor(o.type, o.values));
    NodeEntry e;
    if (o.constant) {
      e = g.AddConstant(c.inputs.back());
    } else if (!o.absent) {
      const size_t open = o.type.find('[');
      e = NodeEntry(g.AddInput("x" + std::to_string(entries.size()),
                               ParseDType(o.type.substr(0, open)).value(),
                               Shape::Parse(o.type.substr(open))));
    }
    entries.push_back(e);
  }
  const NodePtr n = g.AddNode(&op, entries, c.attrs);
  g.outputs = std::vector<NodeEntry>{NodeEntry(n)};
  const RandomInputs drawn = MakeRandomInputs(g, seed, {}, allow_zero);
  std::mt19937_64 rng(seed * 977 + 5);
  for (size_t i = 0, k = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if (o.absent || o.constant) continue;
    const TensorPtr t = drawn.tensors.at(k++);
    if (c.inputs[i]) continue;
    c.inputs[i] = t;
    if (o.range.empty()) continue;
    const size_t dots = o.range.find("..");
    const double lo = std::stod(o.range.substr(0, dots)), hi = std::stod(o.range.substr(dots + 2));
    auto in_range = std::make_shared<Tensor>(t->dtype(), t->dims());
    for (int64_t e = 0; e < t->num_elements(); ++e) {
      const double v = lo + (hi - lo) * (double(rng() >> 11) * 0x1p-53);
      in_range->set(e, IsFloat(t->dtype()) ? v : std::floor(v));
    }
    c.inputs[i] = in_range;
  }
  ApplyPasses(c.MakeGraph(), "InferType,InferShape");  // refuses what does not fit
  return c;
}

/// Rows of an element-wise operator in other shapes: broadcasts on either side, 0-d, empty.
std::vector<Row> InOtherShapes(const Row& row) {
  static const std::vector<std::vector<const char*>> kShapes = {
      {"[2, 3]", "[3]"},       {"[3]", "[2, 3]"},    {"[2, 1]", "[1, 3]"}, {"[]", "[2, 2]"},
      {"[2, 2]", "[]"},        {"[]", "[]"},         {"[0, 3]", "[1]"},    {"[1]", "[2, 0]"},
      {"[2, 1, 2]", "[3, 1]"}, {"[1, 1]", "[2, 2]"},
  };
  std::vector<Row> rows;
  for (size_t s = 0; s < kShapes.size(); ++s) {
    Row r = row;
    size_t drawn = 0;
    for (std::string& i : r.inputs) {
      const Operand o = ParseOperand(i);
      if (o.absent || o.constant || !o.values.empty()) continue;
      const size_t open = i.find('['), close = i.find(']');
      i = i.substr(0, open) + kShapes[s][drawn++ % 2] + i.substr(close + 1);
    }
    if (drawn) rows.push_back(r);
  }
  return rows;
}

}  // namespace

Graph Case::MakeGraph() const {
  Graph g;
  std::vector<NodeEntry> entries;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NodeEntry e;
    if (inputs[i] && constant[i])
      e = g.AddConstant(inputs[i]);
    else if (inputs[i])
      e = NodeEntry(g.AddInput("x" + std::to_string(i), inputs[i]->dtype(), inputs[i]->shape()));
    entries.push_back(e);
  }
  const NodePtr n = g.AddNode(op, entries, attrs, "y");
  std::vector<NodeEntry> results;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) results.push_back({n, k});
  g.outputs = results;
  return g;
}

Tensors Case::Variables() const {
  Tensors out;
  for (const size_t i : VariableSlots()) out.push_back(inputs[i]);
  return out;
}

std::vector<size_t> Case::VariableSlots() const {
  std::vector<size_t> slots;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] && !constant[i]) slots.push_back(i);
  return slots;
}

Case ParseCase(const std::string& op, const std::string& operands, const std::string& attrs) {
  return Draw(*Op::Get(op), {Split(operands, ';'), attrs}, 1, false);
}

std::vector<Case> CasesOf(const Op& op, size_t count) {
  std::vector<Row> rows = TableRows(op.name), registered;
  for (const OpExample& e : op.examples) registered.push_back({e.inputs, e.attrs});
  const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen* code = codegen.find(&op);
  const bool elementwise = code && code->elementwise;
  std::vector<Case> cases;
  // A shape that does not suit the operator is no case; a row of the table or of the operator is.
  const auto add = [&](const Row& row, uint64_t seed, bool must, bool allow_zero = false) {
    for (const bool constants : {false, true}) {
      try {
        cases.push_back(Draw(op, InDouble(row, constants), seed, allow_zero));
        return true;
      } catch (const UserError&) {
        if (must && constants) throw;
      }
    }
    return false;
  };
  for (const Row& r : rows) add(r, 1, true);
  std::vector<Row> usable;
  for (const Row& r : registered)
    if (add(r, 2, false)) usable.push_back(r);
  if (elementwise)
    for (const Row& r : usable)
      for (const Row& other : InOtherShapes(r)) add(other, 3, false);
  rows.insert(rows.end(), usable.begin(), usable.end());
  for (uint64_t seed = 4; !rows.empty() && cases.size() < count && seed < 4 + 4 * count; ++seed)
    add(rows[seed % rows.size()], seed, false, seed % 3 == 0);
  return cases;
}

namespace {
const std::map<std::pair<std::string, std::string>, std::string>& ExceptionList() {
  static const auto list = [] {
    std::map<std::pair<std::string, std::string>, std::string> all;
    for (const std::string& line : Lines("exceptions.txt")) {
      const std::vector<std::string> part = Split(line, '|');
      WEFT_CHECK(part.size() == 3 && !part[2].empty(), kBadInput, "exceptions.txt: '{}'", line);
      all[{part[0], part[1]}] = part[2];
    }
    return all;
  }();
  return list;
}
}  // namespace

std::optional<std::string> ExceptionFor(const std::string& op, const std::string& scope) {
  const auto it = ExceptionList().find({op, scope});
  return it == ExceptionList().end() ? std::nullopt : std::optional<std::string>(it->second);
}
bool MayBeNull(const std::string& op, size_t slot) {
  return ExceptionFor(op, "inputs") || ExceptionFor(op, "input " + std::to_string(slot));
}
std::vector<std::pair<std::string, std::string>> Exceptions() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& e : ExceptionList()) out.push_back(e.first);
  return out;
}

Tensors Eval(const Graph& graph, const Tensors& inputs) {
  EvalOptions options;
  options.typed = false;
  return GetEvaluator()->Eval(graph, inputs, options);
}

}  // namespace weft::gradient
