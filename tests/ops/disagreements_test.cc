/// disagreements_test.cc: Weft gives what the page disagreements.md says, on every way to run.
#include "tools/weft_docs/disagreements.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/safety/model_maker.h"
#include "tests/support/e2e_util.h"
#include "tests/support/operator_rows.h"
#include "weft/core/op/op.h"
#include "weft/onnx/import.h"

namespace {

using namespace weft;

/// "error CODE" of what is refused, when it is compiled or when it runs.
std::string Refusal(const Error& e) { return "error " + std::string(ErrorCodeName(e.code())); }

/// The code of a dtype in ONNX's messages.
int CodeOf(DType t) {
  using safety::pb::TensorProto;
  switch (t) {
    case DType::kBool:
      return TensorProto::BOOL;
    case DType::kI64:
      return TensorProto::INT64;
    case DType::kU8:
      return TensorProto::UINT8;
    default:
      return TensorProto::FLOAT;
  }
}

/// The row as a model of one node: operators that ONNX defines by a body exist in models only.
Graph Imported(const ops::Disagreement& row, const std::vector<rows::Operand>& operands,
               size_t outputs, std::map<std::string, TensorPtr>* inputs) {
  safety::ModelMaker m(23);
  safety::Names in, out;
  for (const rows::Operand& o : operands) {
    in.push_back(o.value ? "x" + std::to_string(in.size()) : "");
    if (!o.value) continue;
    const Tensor& t = *o.value;
    m.In(in.back(), CodeOf(t.dtype()), t.dims());
    inputs->emplace(in.back(), o.value);
  }
  for (size_t k = 0; k < outputs; ++k) out.push_back("y" + std::to_string(k));
  safety::Attrs attrs(m.Node(row.op, in, out));
  for (const auto& [name, value] : rows::ParseAttrs(row.attrs)) {
    REQUIRE(value.is<int64_t>());
    attrs.Int(name.c_str(), value.get<int64_t>());
  }
  for (const std::string& y : out) {
    auto* v = m.graph->add_output();
    v->set_name(y);
  }
  return ImportOnnxBytes(m.Bytes());
}

/// How the results on one backend differ from the row; empty where they do not.
std::string DiffersFrom(const ops::Disagreement& row, const CompileOptions& options) {
  try {
    const bool refused = row.result.rfind("error ", 0) == 0;
    const std::vector<rows::Result> want =
        refused ? std::vector<rows::Result>() : rows::ParseResults(row.result);
    const std::vector<rows::Operand> operands = rows::ParseOperands(row.operands);
    const size_t count = std::max<size_t>(want.size(), 1);
    Graph g;
    std::map<std::string, TensorPtr> inputs;
    if (Op::Find(row.op)) {
      std::vector<NodeEntry> variables, outputs;
      const NodePtr n = rows::AddCall(g, row.op, operands, row.attrs, {}, &variables, &inputs);
      for (uint32_t k = 0; k < count; ++k) outputs.push_back({n, k});
      g.outputs = outputs;
    } else {
      g = Imported(row, operands, count, &inputs);
    }
    const std::vector<TensorPtr> got = Session(Compile(g, options)).Run(inputs);
    if (refused) return "is not refused";
    for (size_t k = 0; k < want.size(); ++k)
      if (const std::string why = rows::Differs(*got[k], want[k], 1e-6); !why.empty())
        return "result " + std::to_string(k) + ": " + why;
    return {};
  } catch (const Error& e) {
    return Refusal(e) == row.result ? "" : Refusal(e) + ": " + e.what();
  }
}

}  // namespace

TEST_CASE("where engines disagree, Weft gives what the page says") {
  std::vector<CompileOptions> ways(e2e::HasCpu() ? 3 : 1);
  ways[0].backend = "ref";
  for (size_t k = 1; k < ways.size(); ++k) {
    ways[k].backend = "cpu";
    ways[k].fusion = k == 1;
  }
  std::set<std::string> seen;
  for (const ops::Disagreement& row : ops::Disagreements()) {
    CAPTURE(row.op);
    CAPTURE(row.what);
    CHECK(seen.insert(row.op + ": " + row.what).second);
    CHECK(!row.why.empty());
    for (const CompileOptions& options : ways) {
      CAPTURE(options.backend);
      CAPTURE(options.fusion);
      CHECK(DiffersFrom(row, options) == "");
    }
  }
  CHECK(seen.size() >= 40);
}
