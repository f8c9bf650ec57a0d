/// foreign_extents_test.cc: operands whose extents do not belong together, end to end.
/// Kernels check no bounds, so a graph that says integers is refused when it is compiled,
/// and one that says symbols when they are bound; the same graph with extents that fit gives
/// what the reference gives.
#include <doctest/doctest.h>

#include <cctype>
#include <string>
#include <vector>

#include "tests/support/e2e_util.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using namespace weft::e2e;

struct Case {
  const char* inputs;  ///< with a symbol for each extent that is to move
  const char* body;    ///< gives %y
  SymBindings fits;
  std::vector<SymBindings> misfits;  ///< what differs from `fits`
};

/// The operands of a header with integers in place of symbols.
std::string Closed(const std::string& inputs, const SymBindings& extents) {
  std::string out;
  bool dims = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == '[') dims = true;
    if (inputs[i] == ']') dims = false;
    if (!dims || !std::isalpha(static_cast<unsigned char>(inputs[i]))) {
      out += inputs[i];
      continue;
    }
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(inputs[i]))) name += inputs[i++];
    out += std::to_string(extents.at(name)) + inputs[i];
    if (inputs[i] == ']') dims = false;
  }
  return out;
}

Graph GraphOf(const Case& c, const std::string& inputs) {
  return FromText("graph (" + inputs + ") -> (%y) {\n" + c.body + "\n}\n");
}

void Check(const Case& c) {
  CAPTURE(c.body);
  const Graph open = GraphOf(c, c.inputs);
  std::shared_ptr<const Program> program;
  REQUIRE_NOTHROW(program = CompileFor(open, "cpu"));
  const auto run = [&](const SymBindings& extents) {
    return Session(program).Run(MakeRandomInputs(GraphOf(c, Closed(c.inputs, extents)), 1).tensors);
  };
  const Graph fitting = GraphOf(c, Closed(c.inputs, c.fits));
  const Reference want = RunReference(fitting, 1);
  CHECK(Difference(run(c.fits), want.outputs) <= 1);
  CHECK(Difference(Session(CompileFor(fitting, "cpu")).Run(want.inputs), want.outputs) <= 1);
  for (const SymBindings& misfit : c.misfits) {
    SymBindings extents = c.fits;
    std::string moved;
    for (const auto& [name, extent] : misfit) {
      extents[name] = extent;
      moved += name + " = " + std::to_string(extent) + " ";
    }
    CAPTURE(moved);
    const auto bound = Catch([&] { run(extents); });
    CHECK((bound && bound->code == ErrorCode::kShapeMismatch));
    const auto compiled = Catch([&] { CompileFor(GraphOf(c, Closed(c.inputs, extents)), "cpu"); });
    CHECK((compiled && compiled->code == ErrorCode::kShapeMismatch));
  }
}

void CheckAll(const std::vector<Case>& cases) {
  if (!HasCpu()) return;
  for (const Case& c : cases) Check(c);
}

}  // namespace

TEST_CASE("gradients of windows take only what lies over the windows") {
  CheckAll({
      {"%g: f32[n, m, p], %w: f32[4, k, 3], %x: f32[b, c, q]",
       "%s = Shape(%x) : ?\n%y = weft::ConvGradData(%g, %w, %s) {group = 2, strides = [2]} : ?",
       {{"n", 2}, {"m", 4}, {"p", 3}, {"k", 2}, {"b", 2}, {"c", 4}, {"q", 7}},
       {{{"n", 3}}, {{"m", 2}}, {{"p", 4}}, {{"k", 1}}, {{"b", 500}}, {{"c", 6}}, {{"q", 3000}}}},
      {"%g: f32[n, 4, p], %x: f32[b, c, q], %w: f32[m, k, 3]",
       "%s = Shape(%w) : ?\n%y = weft::ConvGradWeight(%g, %x, %s) {group = 2, strides = [2]} : ?",
       {{"n", 2}, {"p", 3}, {"b", 2}, {"c", 4}, {"q", 7}, {"m", 4}, {"k", 2}},
       {{{"n", 3000}}, {{"p", 4}}, {{"b", 1}}, {{"c", 2}}, {{"q", 5}}, {{"m", 6}}, {{"k", 3}}}},
      {"%g: f32[n, m, p], %w: f32[4, 1, 3], %x: f32[b, c, q]",
       "%s = Shape(%x) : ?\n"
       "%y = weft::ConvTransposeGradData(%g, %w, %s) {group = 2, strides = [2]} : ?",
       {{"n", 2}, {"m", 2}, {"p", 7}, {"b", 2}, {"c", 4}, {"q", 3}},
       {{{"n", 1}}, {{"m", 1}}, {{"p", 6}}, {{"b", 500}}, {{"c", 4000}}, {{"q", 4000}}}},
      {"%g: f32[n, 2, p], %x: f32[b, c, q], %w: f32[m, k, 3]",
       "%s = Shape(%w) : ?\n"
       "%y = weft::ConvTransposeGradWeight(%g, %x, %s) {group = 2, strides = [2]} : ?",
       {{"n", 2}, {"p", 7}, {"b", 2}, {"c", 4}, {"q", 3}, {"m", 4}, {"k", 1}},
       {{{"n", 1}}, {{"p", 8}}, {{"b", 1}}, {{"c", 2}}, {{"q", 9}}, {{"m", 8}}, {{"k", 4000}}}},
      {"%g: f32[n, c, 2], %x: f32[b, d, q]",
       "%s = Shape(%x) : ?\n%y = weft::AveragePoolGrad(%g, %s) {kernel_shape = [2], strides = [2]} "
       ": ?",
       {{"n", 1}, {"c", 2}, {"b", 1}, {"d", 2}, {"q", 5}},
       {{{"n", 2}}, {{"c", 1}}, {{"b", 4000}}, {{"d", 4000}}, {{"q", 6}}, {{"q", 1}}}},
      {"%g: f32[n, c, 2], %x: f32[b, d, q]",
       "%s = Shape(%x) : ?\n%y = weft::SumPoolGrad(%g, %s) {kernel_shape = [2], strides = [2]} : ?",
       {{"n", 1}, {"c", 2}, {"b", 1}, {"d", 2}, {"q", 5}},
       {{{"n", 2}}, {{"c", 1}}, {{"b", 4000}}, {{"d", 4000}}, {{"q", 6}}, {{"q", 1}}}},
      {"%g: f32[1, c, p], %w: u8[1, e, r], %x: f32[1, d, q]",
       "%s = Shape(%x) : ?\n%y = weft::MaxPoolGrad(%g, %w, %s) {kernel_shape = [2], strides = [2]} "
       ": ?",
       {{"c", 2}, {"p", 2}, {"e", 2}, {"r", 2}, {"d", 2}, {"q", 5}},
       {{{"c", 1}}, {{"p", 1}}, {{"e", 1}}, {{"r", 1}}, {{"d", 4000}}, {{"q", 4000}}}},
      {"%x: f32[1, d, q], %w: u8[1, e, r]",
       "%y = weft::PoolPick(%x, %w) {kernel_shape = [2], strides = [2]} : ?",
       {{"e", 2}, {"r", 2}, {"d", 2}, {"q", 5}},
       {{{"e", 1}}, {{"r", 1}}, {{"d", 4000}}, {{"q", 4000}}}},
      {"%g: f32[n, c, k, 3, h], %o: f32[b, r, 3, i], %x: f32[m, d, 4, 4]",
       "%z = Constant() {value = tensor i64[2] [2, 2]} : ?\n%s = Shape(%x) : ?\n"
       "%y = weft::DeformColumnsGrad(%g, %o, %z, %s) : ?",
       {{"n", 1}, {"c", 2}, {"k", 4}, {"h", 3}, {"b", 1}, {"r", 8}, {"i", 3}, {"m", 1}, {"d", 2}},
       {{{"n", 2}},
        {{"c", 1}},
        {{"k", 3}},
        {{"h", 2}},
        {{"b", 2}},
        {{"r", 4}},
        {{"i", 1}},
        {{"m", 500}},
        {{"d", 4000}}}},
  });
}

TEST_CASE("windows fit their image when extents are bound, and groups divide channels") {
  CheckAll({
      {"%x: f32[1, c, q], %w: f32[m, 1, k]",
       "%t = ConvTranspose(%x, %w) {group = 2, pads = [2, 2]} : ?\n"
       "%y = ReduceSum(%t) {keepdims = 0} : ?",
       {{"c", 4}, {"q", 4}, {"m", 4}, {"k", 2}},
       {{{"c", 6}}, {{"q", 2}}, {{"m", 2}}, {{"c", 5}, {"m", 5}}}},
      {"%x: f32[n, c, h, 4], %w: f32[m, 1, 2, 2], %o: f32[b, r, p, 3]",
       "%y = DeformConv(%x, %w, %o) {group = 2, offset_group = 2} : ?",
       {{"n", 1}, {"c", 2}, {"h", 4}, {"m", 2}, {"b", 1}, {"r", 16}, {"p", 3}},
       {{{"n", 2}},
        {{"c", 3}},
        {{"h", 5}},
        {{"m", 3}},
        {{"b", 2}},
        {{"r", 8}},
        {{"p", 2}},
        {{"h", 0}, {"p", 0}}}},
      {"%x: f32[1, c, h, 4], %o: f32[b, r, p, 3]",
       "%z = Constant() {value = tensor i64[2] [2, 2]} : ?\n"
       "%y = weft::DeformColumns(%x, %o, %z) {offset_group = 2} : ?",
       {{"c", 2}, {"h", 4}, {"b", 1}, {"r", 16}, {"p", 3}},
       {{{"c", 3}}, {{"h", 5}}, {{"b", 2}}, {{"r", 8}}, {{"p", 2}}}},
      {"%x: f32[1, r, l], %i: f32[h, 3]",
       "%s = Shape(%i) : ?\n%z = Constant() {value = tensor i64[2] [2, 2]} : ?\n"
       "%y = Col2Im(%x, %s, %z) : ?",
       {{"r", 8}, {"l", 4}, {"h", 3}},
       {{{"r", 6}}, {{"l", 5}}, {{"h", 4}}, {{"h", 0}, {"l", 0}}}},
      {"%x: f32[1, 2, h, 3]",
       "%z = Constant() {value = tensor i64[2] [2, 2]} : ?\n%t = weft::Im2Col(%x, %z) : ?\n"
       "%y = ReduceSum(%t) {keepdims = 0} : ?",
       {{"h", 3}},
       {{{"h", 0}}}},
      {"%x: f32[1, c, 5], %w: f32[m, 3, 2]",
       "%y = Conv(%x, %w) {group = 2} : ?",
       {{"c", 6}, {"m", 4}},
       {{{"m", 3}}, {{"c", 3}}}},
      {"%x: f32[1, c, 2, 2]",
       "%y = DepthToSpace(%x) {blocksize = 2} : ?",
       {{"c", 8}},
       {{{"c", 7}}}},
      {"%x: f32[1, 2, h, 4]",
       "%y = SpaceToDepth(%x) {blocksize = 2} : ?",
       {{"h", 4}},
       {{{"h", 3}}}},
  });
}

TEST_CASE("gradients of samples and of moved elements take only what the operator gives") {
  CheckAll({
      {"%g: f32[n, c, h, 2], %i: f32[b, p, 2, r], %x: f32[m, d, 3, 4]",
       "%s = Shape(%x) : ?\n%y = weft::GridSampleGrad(%g, %i, %s) : ?",
       {{"n", 1}, {"c", 2}, {"h", 2}, {"b", 1}, {"p", 2}, {"r", 2}, {"m", 1}, {"d", 2}},
       {{{"n", 2}},
        {{"c", 1}},
        {{"h", 3}},
        {{"b", 2}},
        {{"p", 1}},
        {{"r", 1}},
        {{"m", 500}},
        {{"d", 4000}}}},
      {"%x: f32[n, 2, 3, 4], %i: f32[b, 2, 2, r]",
       "%y = weft::GridSampleSlope(%x, %i) : ?",
       {{"n", 1}, {"b", 1}, {"r", 2}},
       {{{"n", 500}}, {{"b", 2}}, {{"r", 1}}, {{"r", 3}}}},
      {"%g: f32[m, c, 2, w], %r: f32[k, e], %i: i64[j], %x: f32[4, d, 4, 5]",
       "%s = Shape(%x) : ?\n"
       "%y = weft::RoiAlignGrad(%g, %r, %i, %s) {output_height = 2, output_width = 2} : ?",
       {{"m", 2}, {"c", 2}, {"w", 2}, {"k", 2}, {"e", 4}, {"j", 2}, {"d", 2}},
       {{{"m", 3}}, {{"c", 1}}, {{"w", 3}}, {{"k", 1}}, {{"e", 3}}, {{"j", 1}}, {{"d", 4000}}}},
      {"%g: f32[n, p], %x: f32[m, q]",
       "%z = Constant() {value = tensor f32[1] [2]} : ?\n%s = Shape(%x) : ?\n"
       "%y = weft::ResizeGrad(%g, %s, _, %z) {axes = [1], mode = \"linear\"} : ?",
       {{"n", 2}, {"p", 6}, {"m", 2}, {"q", 3}},
       {{{"n", 1}}, {{"p", 5}}, {{"m", 4000}}, {{"q", 4}}}},
      {"%g: f32[n, p], %x: f32[m, q]",
       "%a = Constant() {value = tensor i64[1] [1]} : ?\n"
       "%b = Constant() {value = tensor i64[1] [5]} : ?\n%s = Shape(%x) : ?\n"
       "%y = weft::SliceGrad(%g, %s, %a, %b) : ?",
       {{"n", 4}, {"p", 3}, {"m", 6}, {"q", 3}},
       {{{"n", 5}}, {{"p", 2}}, {{"m", 4}}, {{"q", 4000}}}},
      {"%g: f32[n, p], %x: f32[m, q]",
       "%a = Constant() {value = tensor i64[2] [1, 2]} : ?\n"
       "%b = Constant() {value = tensor i64[1] [1]} : ?\n%s = Shape(%x) : ?\n"
       "%y = weft::PadGrad(%g, %s, %a, %b) {mode = \"reflect\"} : ?",
       {{"n", 2}, {"p", 6}, {"m", 2}, {"q", 3}},
       {{{"n", 1}}, {{"p", 7}}, {{"m", 4000}}, {{"q", 4}}}},
      {"%g: f32[n, p], %x: f32[m, q]",
       "%a = Constant() {value = tensor i64[2] [2, 1]} : ?\n%s = Shape(%x) : ?\n"
       "%y = weft::TileGrad(%g, %s, %a) : ?",
       {{"n", 4}, {"p", 3}, {"m", 2}, {"q", 3}},
       {{{"n", 5}}, {{"p", 2}}, {{"m", 3}}, {{"q", 4000}}}},
      {"%g: f32[n, p], %i: i64[k], %x: f32[4, q]",
       "%s = Shape(%x) : ?\n%e = Constant() {value = tensor i64[] [4]} : ?\n"
       "%j = Mod(%i, %e) : ?\n%y = weft::GatherGrad(%g, %s, %j) : ?",
       {{"n", 3}, {"p", 2}, {"k", 3}, {"q", 2}},
       {{{"n", 2}}, {{"p", 1}}, {{"k", 4000}}, {{"q", 4000}}}},
      {"%g: f32[n, p], %i: i64[k, j], %x: f32[4, q]",
       "%s = Shape(%x) : ?\n%e = Constant() {value = tensor i64[] [4]} : ?\n"
       "%j = Mod(%i, %e) : ?\n%y = weft::GatherElementsGrad(%g, %s, %j) : ?",
       {{"n", 3}, {"p", 2}, {"k", 3}, {"j", 2}, {"q", 3}},
       {{{"n", 2}}, {{"p", 1}}, {{"k", 4000}}, {{"j", 3}}, {{"q", 1}}}},
      {"%g: f32[n, p], %i: i64[k, 1], %x: f32[4, q]",
       "%s = Shape(%x) : ?\n%e = Constant() {value = tensor i64[] [4]} : ?\n"
       "%j = Mod(%i, %e) : ?\n%y = weft::GatherNDGrad(%g, %s, %j) : ?",
       {{"n", 3}, {"p", 2}, {"k", 3}, {"q", 2}},
       {{{"n", 2}}, {{"p", 1}}, {{"k", 4000}}, {{"q", 4000}}}},
      {"%g: f32[b, n, p], %o: f32[a, k, j], %x: f32[m, q]",
       "%s = Shape(%x) : ?\n%y = weft::MatMulGrad(%g, %o, %s) {of = 0} : ?",
       {{"b", 3}, {"n", 2}, {"p", 4}, {"a", 3}, {"k", 5}, {"j", 4}, {"m", 2}, {"q", 5}},
       {{{"b", 1}},
        {{"n", 1}},
        {{"p", 3}},
        {{"a", 2}},
        {{"k", 1}},
        {{"j", 5}},
        {{"m", 4000}},
        {{"q", 4000}}}},
      {"%g: f32[n, p], %x: f32[2, q]",
       "%a = Constant() {value = tensor i64[1] [1]} : ?\n"
       "%y = weft::ReduceProdGrad(%g, %x, %a) : ?",
       {{"n", 2}, {"p", 1}, {"q", 3}},
       {{{"n", 3}}, {{"p", 2}}}},
      {"%g: f32[2, 1], %x: f32[2, q], %d: f32[n, p]",
       "%a = Constant() {value = tensor i64[1] [1]} : ?\n"
       "%y = weft::ReduceProdGradPairs(%g, %x, %d, %a) : ?",
       {{"q", 3}, {"n", 2}, {"p", 3}},
       {{{"n", 1}}, {{"p", 2}}, {{"q", 4000}}}},
  });
}

TEST_CASE("an extent that no result shows broadcasts all the same") {
  CheckAll({
      {"%a: f32[m], %b: f32[5]", "%y = Add(%a, %b) : ?", {{"m", 5}}, {{{"m", 3}}, {{"m", 0}}}},
      {"%a: f32[m], %b: f32[5]", "%y = Add(%a, %b) : ?", {{"m", 1}}, {{{"m", 4}}}},
      {"%a: f32[m], %b: f32[5], %c: f32[n]",
       "%t = Add(%a, %b) : ?\n%u = Mul(%t, %c) : ?\n%y = ReduceSum(%u) {keepdims = 0} : ?",
       {{"m", 5}, {"n", 1}},
       {{{"m", 3}}, {{"n", 4}}}},
      {"%x: f32[2, n], %s: f32[m]",
       "%y = PRelu(%x, %s) : ?",
       {{"n", 5}, {"m", 5}},
       {{{"m", 3}}, {{"n", 1}}}},
      {"%x: f32[2, n], %s: f32[m]",
       "%y = weft::SumTo(%x, %s) : ?",
       {{"n", 5}, {"m", 1}},
       {{{"m", 3}}, {{"m", 0}}}},
      {"%x: f32[2, 8], %s: f32[m], %b: f32[n]",
       "%y, %m, %v = LayerNormalization(%x, %s, %b) : ?, ?, ?",
       {{"m", 8}, {"n", 1}},
       {{{"m", 3}}, {{"n", 7}}}},
      {"%x: f32[2, n], %m: f32[2, 1], %v: f32[k, 1], %s: f32[j], %b: f32[5]",
       "%y = weft::Normalize(%x, %m, %v, %s, %b) : ?",
       {{"n", 5}, {"k", 1}, {"j", 5}},
       {{{"n", 1}}, {{"k", 3}}, {{"j", 4}}}},
      {"%a: f32[2, 3], %b: f32[3, n], %c: f32[m, 1]",
       "%y = Gemm(%a, %b, %c) : ?",
       {{"n", 4}, {"m", 2}},
       {{{"m", 3}}}},
      {"%a: f32[m, 2, 3], %b: f32[4, 3, 2]",
       "%y = MatMul(%a, %b) : ?",
       {{"m", 1}},
       {{{"m", 2}}, {{"m", 400}}}},
      {"%x: f32[m, 2]",
       "%s = Constant() {value = tensor i64[2] [5, 2]} : ?\n%y = Expand(%x, %s) : ?",
       {{"m", 5}},
       {{{"m", 3}}}},
  });
}

TEST_CASE("parts lie inside of what they are parts of, and an empty axis has no border") {
  CheckAll({
      {"%x: f32[m, n], %i: i64[k, 2]",
       "%y = GatherElements(%x, %i) : ?",
       {{"m", 3}, {"n", 2}, {"k", 4}},
       {{{"n", 1}}}},
      {"%x: f32[n]",
       "%y, %b, %c, %d = Split(%x) {num_outputs = 4} : ?, ?, ?, ?",
       {{"n", 7}},
       {{{"n", 5}}}},
      {"%x: f32[n]",
       "%p = Constant() {value = tensor i64[2] [1, 2]} : ?\n%y = Pad(%x, %p) {mode = \"edge\"} : ?",
       {{"n", 1}},
       {{{"n", 0}}}},
      {"%x: f32[1, 1, h, 2], %i: f32[1, 2, 2, 2]",
       "%y = GridSample(%x, %i) {padding_mode = \"border\"} : ?",
       {{"h", 1}},
       {{{"h", 0}}}},
      {"%x: f32[n, 2]",
       "%s = Constant() {value = tensor i64[2] [3, 2]} : ?\n%y = Resize(%x, _, _, %s) : ?",
       {{"n", 1}},
       {{{"n", 0}}}},
      {"%x: f32[1, n, 1]",
       "%a = Constant() {value = tensor i64[] [2]} : ?\n"
       "%b = Constant() {value = tensor i64[] [4]} : ?\n%y = STFT(%x, %a, _, %b) : ?",
       {{"n", 4}},
       {{{"n", 3}}}},
  });
}

}  // namespace weft
