/// operators_test.cc: which nodes the plugin takes, and the reasons for which it refuses.
#include "harness.h"

using namespace weft;

namespace test {
namespace {

/// Why the node `%y` may not be part of a region.
std::string WhyNot(const std::string& inputs, const std::string& statements) {
  const Graph g = Typed("(" + inputs + ") -> (%y)", statements);
  const DelegateSpec spec = ParseDelegates("tensorrt").at(0);
  return spec.delegate->WhyNot(g, g.outputs[0].node, spec.options);
}
void Takes(const std::string& inputs, const std::string& statements) {
  const std::string why = WhyNot(inputs, statements);
  Check(why.empty(), statements + ": " + why);
}
void Refuses(const std::string& inputs, const std::string& statements, const std::string& says) {
  const std::string why = WhyNot(inputs, statements);
  Check(why.find(says) != std::string::npos, statements + ": '" + why + "' does not say " + says);
}

}  // namespace

void Operators() {
  for (const char* type : {"f32", "f16", "bf16", "i32", "i64"})
    Takes(std::string("%a: ") + type + "[3], %b: " + type + "[3]", "  %y = Add(%a, %b) : ?");
  Refuses("%a: f64[3], %b: f64[3]", "  %y = Add(%a, %b) : ?", "f64, which TensorRT would round");
  for (const char* type : {"i8", "u8", "i16", "u32"})
    Refuses(std::string("%a: ") + type + "[3], %b: " + type + "[3]", "  %y = Add(%a, %b) : ?",
            "TensorRT takes bool, i32, i64, f16, bf16, f32");
  Refuses("%a: i32[3]", "  %y = Cast(%a) {to = f64} : ?", "result 0 is f64");
  Takes("%a: i32[3]", "  %y = Cast(%a) {to = bool} : ?");
  Takes("%a: bool[3], %b: bool[3]", "  %y = And(%a, %b) : ?");
  Refuses("%a: bool[3], %b: bool[3]", "  %y = Equal(%a, %b) : ?", "operand 0 is bool");
  Refuses("%a: i32[2, 2], %b: i32[2, 2]", "  %y = MatMul(%a, %b) : ?",
          "MatMul takes f16, bf16, f32");
  Takes("%c: bool[3], %a: i64[3], %b: i64[3]", "  %y = Where(%c, %a, %b) : ?");
  Takes("%x: f16[2, 3, 8, 8], %w: f16[4, 3, 3, 3]", "  %y = Conv(%x, %w) : ?");
  Refuses("%x: f32[2, 3, 2, 2, 2, 2], %w: f32[4, 3, 1, 1, 1, 1]", "  %y = Conv(%x, %w) : ?",
          "rank 6");
  Refuses("%x: f32[2, 3, 8]", "  %y = AveragePool(%x) {kernel_shape = [2]} : ?",
          "pooling of rank 3");
  Takes("%x: f32[2, 3, 8, 8]", "  %y, %i = MaxPool(%x) {kernel_shape = [2, 2]} : ?, ?");
  Refuses("%x: f32[2, 3, 8, 8]",
          "  %y, %i = MaxPool(%x) {kernel_shape = [2, 2], dilations = [2, 2]} : ?, ?", "dilations");
  Refuses("%x: f32[2, 3, 8, 8]", "  %i, %y = MaxPool(%x) {kernel_shape = [2, 2]} : ?, ?",
          "result behind the first");
  Refuses("%x: f32[3]", "  %y = NonZero(%x) : ?", "depend on values");
  Refuses("%x: f32[3]", "  %y = RandomUniformLike(%x) : ?", "seed");
  Refuses("%x: f32[3], %s: f32[3]", "  %y = weft::SumTo(%x, %s) : ?", "domain weft::");
  Refuses("%x: i32[3], %s: i32[3]", "  %y = BitwiseAnd(%x, %s) : ?", "does not take BitwiseAnd");
  const std::string axes = "  %a = Constant() {value = tensor i64[1] [0]} : ?\n";
  Takes("%x: f32[3, 4]", axes + "  %y = ReduceSum(%x, %a) : ?");
  Refuses("%x: f32[3, 4], %a: i64[1]", "  %y = ReduceSum(%x, %a) : ?", "not a constant");
  Takes("%x: f32[3, 4]",
        "  %k = Constant() {value = tensor i64[1] [2]} : ?\n  %y, %i = TopK(%x, %k) : ?, ?");
  Refuses("%x: f32[3, 4]",
          "  %k = Constant() {value = tensor i64[1] [2]} : ?\n"
          "  %y, %i = TopK(%x, %k) {sorted = 0} : ?, ?",
          "sorted = 0");
  Refuses("%x: f32[3, 4]", "  %y = ArgMax(%x) {select_last_index = 1} : ?", "select_last_index");
  Takes("%x: f32[3, 4], %z: f32[4, 5]", "  %y = Einsum(%x, %z) {equation = \"ij,jk->ik\"} : ?");
  Refuses("%x: f32[3, 3]", "  %y = Einsum(%x) {equation = \"ii->i\"} : ?", "a diagonal");
  Refuses("%x: f32[3, 4], %z: f32[4, 5]",
          "  %y = Einsum(%x, %z) {equation = \"...ij,jk->...ik\"} : ?", "ellipsis");
  const std::string sizes = "  %s = Constant() {value = tensor f32[4] [1.0, 1.0, 2.0, 2.0]} : ?\n";
  Takes("%x: f32[1, 2, 4, 4]", sizes + "  %y = Resize(%x, _, %s) {mode = \"linear\"} : ?");
  Refuses("%x: f32[1, 2, 4, 4]", sizes + "  %y = Resize(%x, _, %s) {mode = \"cubic\"} : ?",
          "mode 'cubic'");
  const std::string pads = "  %p = Constant() {value = tensor i64[4] [0, 1, 0, 1]} : ?\n";
  Takes("%x: f32[3, 4]", pads + "  %y = Pad(%x, %p) {mode = \"reflect\"} : ?");
  Refuses("%x: f32[3, 4]", pads + "  %y = Pad(%x, %p) {mode = \"wrap\"} : ?", "mode 'wrap'");
  Refuses("%x: f32[1, 1, 1, 1, 1, 1, 1, 1, 3]", "  %y = Relu(%x) : ?", "rank 9, at most 8");
  Takes("%x: f32[2, 3, 4, 4], %s: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]",
        "  %y = BatchNormalization(%x, %s, %b, %m, %v) : ?");
  Takes("%x: f32[2, 3], %s: f32[3]", "  %y, %m, %d = LayerNormalization(%x, %s) : ?, ?, ?");
  Refuses("%x: f32[3], %z: i32[3]", "  %y = Pow(%x, %z) : ?", "different types");
  Refuses("%x: f32[4, 2], %i: i64[1, 1], %u: f32[1, 2]",
          "  %y = ScatterND(%x, %i, %u) {reduction = \"add\"} : ?", "reduction 'add'");
}

}  // namespace test
