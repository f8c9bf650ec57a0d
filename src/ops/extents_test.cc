/// extents_test.cc: operands whose extents do not belong together are refused: by inference where
/// it sees them, and where they are symbols by the facts that every binding is held against.
/// Kernels check no bounds: what the facts let pass must be what the operator can read.
#include <optional>
#include <set>

#include "ops/util/op_test_util.h"
#include "weft/support/strings.h"

namespace weft::ops {
namespace {

/// The operands of an example with a symbol of its own for each extent: "f32[2, n]" as "f32[e0,
/// e1]", where e0 is 2 and e1 is 3. Operands with values stay as they are. Nothing where an operand
/// is no tensor of known rank.
struct OpenRow {
  std::vector<std::string> inputs;
  SymBindings extents;
};
std::optional<OpenRow> Opened(const std::vector<std::string>& inputs) {
  OpenRow row;
  for (const std::string& input : inputs) {
    const size_t open = input.find('[');
    if (input == "_" || input.find(" = ") != std::string::npos) {
      row.inputs.push_back(input);
      continue;
    }
    if (open == std::string::npos || input.back() != ']') return std::nullopt;
    const Shape shape = Shape::Parse(input.substr(open));
    std::string dims;
    for (int k = 0; k < shape.rank(); ++k) {
      const std::string name = "e" + std::to_string(row.extents.size());
      row.extents[name] = shape[k].known() && shape[k].is_const() ? shape[k].value() : 3;
      dims += (k ? ", " : "") + name;
    }
    row.inputs.push_back(input.substr(0, open) + "[" + dims + "]");
  }
  return row;
}

/// The same graph with integers for the symbols.
Graph Closed(const Op& op, const OpenRow& row, const std::string& attrs,
             const SymBindings& extents) {
  std::vector<std::string> inputs;
  for (const std::string& input : row.inputs) {
    const size_t open = input.find("[e");
    if (open == std::string::npos) {
      inputs.push_back(input);
      continue;
    }
    const Shape shape = Shape::Parse(input.substr(open));
    std::vector<int64_t> dims;
    for (SymInt d : shape.dims()) dims.push_back(Evaluate(d, extents));
    inputs.push_back(input.substr(0, open) + Shape::OfInts(dims).ToString());
  }
  return GraphOfRow(op, inputs, attrs);
}

/// What a program does before its first kernel starts.
bool Binds(const Graph& g, const SymBindings& extents) {
  try {
    g.AttrOr<Facts>("facts").CheckHolds(extents);
    for (const NodeEntry& e : g.outputs)
      for (SymInt d : g.GetAttr<ShapeMap>("shape")[e].dims())
        if (Evaluate(d, extents) < 0) return false;
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// No extent of a result depends on values or is unknown: such a program is made when it is known.
bool IsBound(const Graph& g, const SymBindings& extents) {
  for (const NodeEntry& e : g.outputs) {
    const Shape& s = g.GetAttr<ShapeMap>("shape")[e];
    if (!s.fully_known()) return false;
    for (SymInt d : s.dims())
      for (SymInt symbol : d.Symbols())
        if (!extents.count(symbol.symbol_name())) return false;
  }
  return true;
}

/// An integer operand that may be an index, and name what is not there.
bool HasIndices(const Op& op, const OpenRow& row) {
  static const std::set<std::string> kReadByIndex = {
      "GatherElements",  "GatherND", "MaxRoiPool",
      "ReverseSequence", "RoiAlign", "ai.onnx.ml::ArrayFeatureExtractor"};
  if (kReadByIndex.count(op.name)) return true;
  for (const std::string& input : row.inputs)
    if (input[0] != 'f' && input.find(" = ") == std::string::npos) return true;
  return false;
}

/// With zeros for operands, it reads what is there and nothing else.
void CheckReads(const Graph& g) {
  Tensors in;
  for (const NodePtr& p : g.inputs()) {
    const NodeEntry e(p);
    in.push_back(std::make_shared<Tensor>(g.GetAttr<TypeMap>("dtype")[e].dtype,
                                          g.GetAttr<ShapeMap>("shape")[e].ints()));
  }
  try {
    Reference().Eval(g, in);
  } catch (const UserError& e) {
    CHECK_MESSAGE(e.code() != ErrorCode::kIndexRange, std::string(e.what()));
  }
}

}  // namespace

TEST_CASE("what binds to symbolic extents fits, and what fits is read inside of its operands") {
  int rows = 0, fitting = 0, refused = 0;
  for (const Op* op : Op::List()) {
    for (const auto& example : op->examples) {
      const std::optional<OpenRow> row = Opened(example.inputs);
      if (!row || row->extents.empty()) continue;
      CAPTURE(op->name);
      CAPTURE(Join(row->inputs, "; "));
      CAPTURE(example.attrs);
      Graph g;
      try {
        g = Inferred(GraphOfRow(*op, row->inputs, example.attrs));
      } catch (const UserError&) {
        continue;  // it needs to know an extent
      }
      if (!IsBound(g, row->extents)) continue;
      ++rows;
      CHECK(Binds(g, row->extents));
      for (const auto& bound : row->extents) {
        const std::string& name = bound.first;
        const int64_t extent = bound.second;
        for (const int64_t other : {int64_t{0}, int64_t{1}, extent - 1, extent + 1, 2 * extent}) {
          SymBindings moved = row->extents;
          moved[name] = other;
          if (other < 0 || other == extent) continue;
          CAPTURE(name);
          CAPTURE(other);
          Graph closed = Closed(*op, *row, example.attrs, moved);
          try {
            closed = Inferred(std::move(closed));
          } catch (const UserError& e) {
            ++refused;
            // Indices are looked at when they are read; a symbol cancels before anybody knows
            // that it is 0.
            if (e.code() == ErrorCode::kIndexRange || (op->name == "Reshape" && other == 0))
              continue;
            CHECK_MESSAGE(!Binds(g, moved), std::string(e.what()));
            continue;
          }
          ++fitting;
          // What is 1 may mean something else: one for all.
          CHECK((other == 1 || Binds(g, moved)));
          if (!HasIndices(*op, *row)) CheckReads(closed);
        }
      }
    }
  }
  MESSAGE(rows << " examples; of other extents " << fitting << " fit, " << refused << " do not");
}

}  // namespace weft::ops
