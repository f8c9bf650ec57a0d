/// broadcast_test.cc: an Expand in front of any operand of any operator changes nothing: Simplify
/// takes it away only where broadcasting does the same.
#include <doctest/doctest.h>

#include <string>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// An example row as a graph; extents that are symbols are 3. Operand `expanded` comes through an
/// Expand along `axis` of one that has 1 there; empty text where it has no such axis.
std::string TextOf(const Op& op, const OpExample& row, size_t expanded, int axis,
                   uint32_t outputs) {
  std::string header, body, args, results, types;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const std::string& in = row.inputs[i];
    const std::string name = "%x" + std::to_string(i);
    args += i ? ", " : "";
    if (in == "_") {
      if (i == expanded) return {};
      args += "_";
      continue;
    }
    args += name;
    const size_t eq = in.find(" = ");
    if (eq != std::string::npos) {
      if (i == expanded) return {};
      body += "  " + name + " = Constant() {value = tensor " + in.substr(0, eq) + " " +
              in.substr(eq + 3) + "} : ?\n";
      continue;
    }
    const size_t open = in.find('['), close = in.find(']');
    if (open == std::string::npos || close == std::string::npos) return {};
    Shape shape = Shape::Parse(in.substr(open));
    std::vector<SymInt> dims;
    for (int d = 0; d < shape.rank(); ++d)
      dims.push_back(shape[d].known() && shape[d].is_const() ? shape[d] : SymInt(3));
    std::string type = in.substr(0, open) + Shape(dims).ToString();
    if (i == expanded) {
      if (axis >= shape.rank() || dims[size_t(axis)].is(1) || dims[size_t(axis)].is(0)) return {};
      body += "  %t = Constant() {value = tensor i64[" + std::to_string(dims.size()) + "] " +
              Shape(dims).ToString() + "} : ?\n  " + name + " = Expand(%s, %t) : ?\n";
      dims[size_t(axis)] = 1;
      header +=
          (header.empty() ? "" : ", ") + ("%s: " + in.substr(0, open)) + Shape(dims).ToString();
    } else {
      header += (header.empty() ? "" : ", ") + name + ": " + type;
    }
  }
  for (uint32_t k = 0; k < outputs; ++k) {
    results += (k ? ", %y" : "%y") + std::to_string(k);
    types += k ? ", ?" : "?";
  }
  return "weft 1\ngraph @row(" + header + ") -> (" + results + ") {\n" + body + "  " + results +
         " = " + op.name + "(" + args + ")" + (row.attrs.empty() ? "" : " {" + row.attrs + "}") +
         " : " + types + "\n}\n";
}

TEST_CASE("simplify: an Expand in front of any operand of any operator") {
  const auto& stateful = Op::GetAttr<TIsStateful>("TIsStateful");
  int compared = 0;
  for (const Op* op : Op::List()) {
    if (stateful.get(op, false)) continue;
    for (const OpExample& row : op->examples) {
      for (size_t i = 0; i < row.inputs.size(); ++i) {
        for (int axis = 0; axis < 4; ++axis) {
          NodeAttrs node;
          node.op = op;
          Graph before;
          RandomInputs in;
          std::vector<TensorPtr> want;
          EvalOptions exact;
          exact.typed = false;
          try {
            if (TextOf(*op, row, i, axis, 1).empty()) continue;
            // The number of results follows from the attributes: the parser says it where
            // it is another one.
            for (uint32_t outputs = 1; outputs <= 4 && want.empty(); ++outputs) {
              try {
                before = ParseGraph(TextOf(*op, row, i, axis, outputs));
                in = MakeRandomInputs(before, 11);
                want = GetEvaluator()->Eval(before, in.tensors, exact);
              } catch (const Error&) {
                want.clear();
              }
            }
          } catch (const Error&) {
            continue;
          }
          if (want.empty())
            continue;  // the operand does not come from anywhere, or extents do not fit
          CAPTURE(op->name);
          CAPTURE(row.attrs);
          CAPTURE(i);
          CAPTURE(axis);
          const Graph after = ApplyPasses(before, "InferType,InferShape,Simplify");
          const auto got = GetEvaluator()->Eval(after, in.tensors, exact);
          REQUIRE(got.size() == want.size());
          for (size_t k = 0; k < got.size(); ++k) {
            CHECK(got[k]->dims() == want[k]->dims());
            if (IsComputable(want[k]->dtype()))
              CHECK(CompareTensors(*got[k], *want[k], 1e-6, 1e-6) <= 1);
          }
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 200);
}

}  // namespace
}  // namespace weft
