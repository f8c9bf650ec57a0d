/// absent_operands_test.cc: every operand of every operator's examples left out in turn, in text
/// and in ONNX, and every result without a name. Each model runs, alike on all backends, or is
/// refused by an error that says which operand is missing; none is an internal error or a crash.
#include <doctest/doctest.h>

#include <map>
#include <optional>

#include "model_maker.h"
#include "tests/support/e2e_util.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/text/attr_text.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"

namespace weft::safety {
namespace {

using Values = std::map<std::string, TensorPtr>;

/// A graph of one node in text: "f32[2, n]" makes an input, "i64[2] = [1, 0]" a constant,
/// "_" an absent operand.
std::string TextOf(const Op& op, const std::vector<std::string>& operands,
                   const std::string& attrs) {
  std::string header, body, args, results, types;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "%x" + std::to_string(i);
    const size_t eq = operands[i].find(" = ");
    args += (i ? ", " : "") + (operands[i] == "_" ? "_" : name);
    if (operands[i] == "_") continue;
    if (eq == std::string::npos)
      header += (header.empty() ? "" : ", ") + name + ": " + operands[i];
    else
      body += "  " + name + " = Constant() {value = tensor " + operands[i].substr(0, eq) + " " +
              operands[i].substr(eq + 3) + "} : ?\n";
  }
  NodeAttrs node;
  node.op = &op;
  node.dict = ParseAttrDict("{" + attrs + "}");
  for (uint32_t k = 0; k < op.OutputCount(node); ++k) {
    results += (k ? ", %y" : "%y") + std::to_string(k);
    types += k ? ", ?" : "?";
  }
  return "weft 1\ngraph @row(" + header + ") -> (" + results + ") {\n" + body + "  " + results +
         " = " + op.name + "(" + args + ")" + (attrs.empty() ? "" : " {" + attrs + "}") + " : " +
         types + "\n}\n";
}

/// How a model ended: results by `ref`, or an error.
struct Outcome {
  std::vector<TensorPtr> results;
  std::optional<ErrorCode> code;
  std::string text;
};

std::vector<TensorPtr> RunOn(const Graph& g, const std::string& backend, const Values& values) {
  const auto program = e2e::CompileFor(g, backend);
  std::vector<TensorPtr> inputs;
  for (const IoSpec& i : program->inputs()) inputs.push_back(values.at(i.name));
  return Session(program).Run(inputs);
}

/// `cpu` is asked too where there is one; it must say what `ref` says.
template <class Make>
Outcome OutcomeOf(Make make, const Values& values, bool on_cpu) {
  Outcome out;
  std::optional<Graph> g;
  try {
    g = make();
    out.results = RunOn(*g, "ref", values);
  } catch (const Error& e) {
    out.code = e.code();
    out.text = e.what();
    CHECK_MESSAGE(e.code() != ErrorCode::kInternal, e.what());
  }
  if (!g || !on_cpu) return out;
  try {
    const std::vector<TensorPtr> got = RunOn(*g, "cpu", values);
    CHECK_MESSAGE(!out.code, out.text);
    if (!out.code &&
        e2e::Difference(RunOn(*g, "ref", values), out.results) == 0)  // no random numbers
      CHECK(e2e::Difference(got, out.results, 1e-3, 1e-5) <= 1);
  } catch (const Error& e) {
    CHECK_MESSAGE(out.code == e.code(), e.what());
  }
  return out;
}

struct Row {
  const Op* op;
  std::vector<std::string> operands;
  std::string attrs;
  Values values;  ///< of what is no constant
  bool IsOptional(size_t i) const {
    const std::vector<ArgDoc>& docs = op->inputs;
    return docs.at(std::min(i, docs.size() - 1)).optional;
  }
  Graph Make(const std::vector<std::string>& given) const {
    return ParseGraph(TextOf(*op, given, attrs));
  }
};

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const Op* op : Op::List())
    for (const OpExample& e : op->examples) {
      if (op->inputs.empty()) continue;
      Row r{op, e.inputs, e.attrs, {}};
      const Graph g = r.Make(r.operands);
      const auto inputs = MakeRandomInputs(g, 3);
      for (size_t i = 0; i < g.AllInputs().size(); ++i)
        r.values[g.AllInputs()[i]->attrs.name] = inputs.tensors[i];
      rows.push_back(std::move(r));
    }
  return rows;
}

void CheckMissing(const Outcome& o, const Row& r, size_t operand) {
  CHECK_MESSAGE(o.code == ErrorCode::kArity, o.text);
  CHECK_MESSAGE(o.text.find("operand " + std::to_string(operand)) != std::string::npos, o.text);
  CHECK_MESSAGE(o.text.find(r.op->name) != std::string::npos, o.text);
}

TEST_CASE("every operand of every example left out, in text") {
  int refused = 0, ran = 0;
  for (const Row& r : Rows()) {
    CAPTURE(r.op->name);
    CAPTURE(r.attrs);
    for (size_t i = 0; i < r.operands.size(); ++i) {
      if (r.operands[i] == "_") continue;
      CAPTURE(i);
      std::vector<std::string> given = r.operands;
      given[i] = "_";
      const bool optional = r.IsOptional(i);
      const Outcome o =
          OutcomeOf([&] { return r.Make(given); }, r.values, optional && e2e::HasCpu());
      if (!optional) CheckMissing(o, r, i);
      ++(o.code ? refused : ran);
      // Only the operands in front of it. For one that may be absent the same as naming it so.
      given.resize(i);
      const Outcome cut = OutcomeOf([&] { return r.Make(given); }, r.values, false);
      if (!optional && !r.op->inputs.back().variadic) CheckMissing(cut, r, i);
      if (!optional || i + 1 < r.operands.size()) continue;
      CHECK(cut.code == o.code);
      if (!cut.code) CHECK(cut.results.size() == o.results.size());
    }
    std::vector<std::string> longer = r.operands;
    while (longer.size() < r.op->inputs.size() && r.IsOptional(longer.size()))
      longer.push_back("_");
    CHECK(PrintGraph(r.Make(longer)) == PrintGraph(r.Make(r.operands)));
  }
  CHECK(refused > 400);
  CHECK(ran > 40);
}

/// The node of the exported row; null where it is a number of nodes, or ONNX has no form for it.
pb::NodeProto* NodeOf(const Row& r, pb::ModelProto* model) {
  const size_t colon = r.op->name.rfind(':');
  const std::string name = colon == std::string::npos ? r.op->name : r.op->name.substr(colon + 1);
  pb::NodeProto* found = nullptr;
  for (auto& n : *model->mutable_graph()->mutable_node())
    if (n.op_type() == name) {
      if (found) return nullptr;
      found = &n;
    }
  return found;
}

TEST_CASE("every operand and every result of every example left out, in ONNX") {
  int refused = 0, ran = 0, no_form = 0;
  for (const Row& r : Rows()) {
    CAPTURE(r.op->name);
    CAPTURE(r.attrs);
    pb::ModelProto whole;
    try {
      whole.ParseFromString(ExportOnnxBytes(r.Make(r.operands)));
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUnsupported);
      ++no_form;
      continue;
    }
    const pb::NodeProto* node = NodeOf(r, &whole);
    if (!node) continue;
    const bool own = node->domain() != "weft";  // else a function, which may do without
    const auto import = [](const pb::ModelProto& m) {
      return [bytes = m.SerializeAsString()] { return ImportOnnxBytes(bytes); };
    };
    for (int i = 0; i < node->input_size(); ++i) {
      if (node->input(i).empty()) continue;
      CAPTURE(i);
      pb::ModelProto m = whole;
      NodeOf(r, &m)->set_input(i, "");
      const Outcome o = OutcomeOf(import(m), r.values, false);
      if (own && !r.IsOptional(size_t(i))) {
        CHECK_MESSAGE(o.code == ErrorCode::kArity, o.text);
        CHECK_MESSAGE(o.text.find("operand " + std::to_string(i)) != std::string::npos, o.text);
      }
      ++(o.code ? refused : ran);
      if (i + 1 < node->input_size()) continue;
      NodeOf(r, &m)->mutable_input()->RemoveLast();
      const Outcome shorter = OutcomeOf(import(m), r.values, false);
      if (!r.op->inputs.back().variadic) CHECK_MESSAGE(shorter.code == o.code, shorter.text);
    }
    for (int k = 0; node->output_size() > 1 && k < node->output_size(); ++k) {
      CAPTURE(k);
      // One result alone has a name.
      pb::ModelProto m = whole;
      pb::NodeProto* n = NodeOf(r, &m);
      const std::string name = n->output(k);
      for (int j = 0; j < n->output_size(); ++j)
        if (j != k) n->set_output(j, "");
      auto* outputs = m.mutable_graph()->mutable_output();
      for (int j = outputs->size(); j-- > 0;)
        if (outputs->Get(j).name() != name) outputs->DeleteSubrange(j, 1);
      if (outputs->size() != 1) continue;
      const Outcome o = OutcomeOf(import(m), r.values, false);
      const Outcome all = OutcomeOf(import(whole), r.values, false);
      CHECK_MESSAGE(o.code == all.code, o.text);
      if (!o.code && all.results.size() > size_t(k) &&
          !Op::GetAttr<TIsStateful>("TIsStateful").get(r.op, false))
        CHECK(e2e::Difference(o.results, {all.results[size_t(k)]}) <= 1);
    }
  }
  MESSAGE(refused << " refused, " << ran << " ran, " << no_form << " without a form in ONNX");
  CHECK(refused > 250);
  CHECK(ran > 20);
}

TEST_CASE("operators that hold graphs are given all that their bodies take") {
  const std::string head =
      "weft 1\ngraph (%c: bool[], %m: i64[], %x: f32[2], %z: f32[3, 2]) -> (%y) {\n  %y = ";
  const std::string one = " body (%a: f32[2]) -> (%b) {\n    %b = Relu(%a) : f32[2]\n  } : ?\n}\n";
  const std::string scan =
      " {num_scan_inputs = 1} body (%s: f32[2], %e: f32[2]) -> (%n) {\n    %n = Add(%s, %e) : ?\n  "
      "} : ?\n}\n";
  const std::string loop =
      " body (%i: i64[], %g: bool[], %s: f32[2]) -> (%g, %n) {\n    %n = Add(%s, %s) : ?\n  } : "
      "?\n}\n";
  const std::string branch = "graph (%a: f32[2]) -> (%b) {\n    %b = Relu(%a) : ?\n  }";
  const std::string both =
      " {then_branch = " + branch + ", else_branch = " + branch + ", num_captures = 1} : ?\n}\n";
  const Values values = {{"c", Tensor::Scalar(DType::kBool, 1)},
                         {"m", Tensor::Scalar(DType::kI64, 3)},
                         {"x", Tensor::FromDoubles(DType::kF32, {2}, {1, 2})},
                         {"z", Tensor::FromDoubles(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6})}};
  const auto outcome = [&](const std::string& node) {
    return OutcomeOf([&] { return ParseGraph(head + node); }, values, e2e::HasCpu());
  };
  for (const std::string& node :
       {"weft::Fused(%x)" + one, "Scan(%x, %z)" + scan, "Loop(%m, %c, %x)" + loop,
        "Loop(%m, _, %x)" + loop, "If(%c, %x)" + both})
    CHECK_MESSAGE(!outcome(node).code, outcome(node).text);
  const std::pair<std::string, int> missing[] = {{"weft::Fused(_)" + one, 0},
                                                 {"Scan(_, %z)" + scan, 0},
                                                 {"Scan(%x, _)" + scan, 1},
                                                 {"Loop(%m, %c, _)" + loop, 2},
                                                 {"If(_, %x)" + both, 0},
                                                 {"If(%c, _)" + both, 1},
                                                 {"Max(_, %x) : ?\n}\n", 0},
                                                 {"weft::Group(%x, _) : ?\n}\n", 1},
                                                 {"Concat(%x, _) {axis = 0} : ?\n}\n", 1}};
  for (const auto& [node, operand] : missing) {
    const Outcome o = outcome(node);
    CHECK_MESSAGE(o.code == ErrorCode::kArity, o.text);
    CHECK_MESSAGE(o.text.find("operand " + std::to_string(operand)) != std::string::npos, o.text);
  }
  // Too few: the body says how many there are.
  for (const std::string& node : {"Scan(%z)" + scan, "Loop(%m, %c)" + loop, "Loop(%m)" + loop,
                                  "weft::Fused()" + one, "If(%c)" + both})
    CHECK_MESSAGE(outcome(node).code == ErrorCode::kArity, node);
}

TEST_CASE("a value given out twice under one name runs everywhere") {
  ModelMaker m;
  m.In("x", kF32, {2});
  m.Out("y");
  m.Out("y");
  m.Node("Relu", {"x"}, {"y"});
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {2}, {-1, 2});
  for (const char* backend : {"ref", "cpu"}) {
    if (backend != std::string("ref") && !e2e::HasCpu()) continue;
    const auto results = RunOn(ImportOnnxBytes(m.Bytes()), backend, {{"x", x}});
    REQUIRE(results.size() == 2);
    for (const TensorPtr& y : results) {
      CHECK(y->at(0) == 0);
      CHECK(y->at(1) == 2);
    }
  }
}

}  // namespace
}  // namespace weft::safety
