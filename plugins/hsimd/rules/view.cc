/// view.cc: operators whose result is their operand's words under another shape.
#include <algorithm>

#include "lowering.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace hsimd {

namespace {

std::vector<int64_t> ShapeOf(const weft::Graph& graph, const weft::NodeEntry& e) {
  const weft::Shape& shape = graph.GetAttr<weft::ShapeMap>("shape")[e];
  WEFT_CHECK(shape.is_static(), kUnsupported, "{}: a shape that is not static: {}",
             e.node->Describe(), shape.ToString());
  return shape.ints();
}

size_t PresentInputs(const weft::NodePtr& node) {
  size_t n = 0;
  for (const weft::NodeEntry& e : node->inputs) n += bool(e);
  return n;
}

}  // namespace

bool IsView(const weft::NodePtr& node) {
  static const auto& view = weft::Op::GetAttr<weft::TIsView>("TIsView");
  const bool* is = node->is_variable() ? nullptr : view.find(node->op());
  return is && *is;
}

std::vector<LayoutCandidate> ViewCandidates(const weft::Graph& graph, const weft::NodePtr& node,
                                            const Machine& machine) {
  const std::vector<int64_t> from = ShapeOf(graph, node->inputs[0]);
  const std::vector<int64_t> to = ShapeOf(graph, weft::NodeEntry(node, 0));
  std::vector<int> levels;
  for (int l = 0; l <= machine.pe(); ++l)
    if (machine.levels[size_t(l)].count > 1) levels.push_back(l);
  std::vector<LayoutCandidate> found;
  std::vector<size_t> at(levels.size(), 0);
  while (true) {
    std::vector<std::vector<bool>> over(from.size(), std::vector<bool>(machine.levels.size()));
    std::vector<int64_t> places(from.size(), 1);
    LayoutCandidate c;
    for (size_t i = 0; i < levels.size(); ++i) {
      c.family = c.family * 16 + int(std::min<size_t>(at[i], 15));
      if (at[i] == 0) continue;
      over[at[i] - 1][size_t(levels[i])] = true;
      places[at[i] - 1] *= machine.levels[size_t(levels[i])].count;
      c.name += fmt::format("{}{}:{}", c.name.empty() ? "" : " ",
                            machine.levels[size_t(levels[i])].name, at[i] - 1);
    }
    bool fits = true;
    for (size_t d = 0; d < from.size(); ++d) fits &= places[d] <= from[d];
    if (fits) {
      c.inputs.push_back(SplitLayout(from, machine, over));
      const auto view = Reshape(c.inputs[0], to);
      if (view) {
        // Further operands are shapes and axes: constants of the compiler, whole in every place.
        for (size_t i = 1; i < PresentInputs(node); ++i)
          c.inputs.push_back(SplitLayout(ShapeOf(graph, node->inputs[i]), machine, {}));
        c.outputs.push_back(*view);
        found.push_back(std::move(c));
      }
    }
    size_t i = levels.size();
    while (i > 0 && ++at[i - 1] > from.size()) at[--i] = 0;
    if (i == 0) break;
  }
  // Those that are dealt out most first: the others' words are many times the same.
  std::stable_sort(found.begin(), found.end(),
                   [](const LayoutCandidate& a, const LayoutCandidate& b) {
                     return Words(a.inputs[0]) < Words(b.inputs[0]);
                   });
  if (found.size() > size_t(kMaxCandidates)) found.resize(size_t(kMaxCandidates));
  return found;
}

TileProgram LowerView(const LowerRequest& request) {
  TileProgram tiles;
  tiles.machine = request.machine.name;
  tiles.scratch = request.scratch;
  const TilePlace& from = request.inputs.at(0);
  const TilePlace& to = request.outputs.at(0);
  const std::string note = request.node->Describe();
  const auto view = Reshape(from.layout, to.layout.shape);
  WEFT_CHECK(view && SameMap(*view, to.layout), kUnsupported,
             "{}: {} is not {} under another shape", note, PrintLayout(to.layout),
             PrintLayout(from.layout));
  const auto add = [&](const TilePlace& place, const char* name, TileValue::Role role) {
    TileValue v;
    v.name = name;
    v.role = role;
    v.memory = place.memory;
    v.base = place.base;
    v.words = Words(place.layout);
    v.layout = place.layout;
    return tiles.AddValue(std::move(v));
  };
  const int in = add(from, "in0", TileValue::Role::kInput);
  const int out = add(to, "out0", TileValue::Role::kOutput);
  if (from.memory == to.memory && from.base == to.base) return tiles;
  FillHoles(tiles, in, from.layout, request.machine, note);
  VectorOp copy;
  copy.note = note;
  copy.counts = {std::min(Words(from.layout), Words(to.layout))};
  copy.inputs = {{in, 0, {1}}};
  copy.results = {{BodyOperand::Input(0), {out, 0, {1}}, std::nullopt, false}};
  tiles.ops.emplace_back(std::move(copy));
  return tiles;
}

}  // namespace hsimd
