/// cli_arena_test.cc: what `weft inspect` says of memory against what `weft bench` counts.
#include "tests/support/cli_util.h"

namespace {

using namespace weft::e2e;

struct Model {
  const char* name;
  const char* text;
};

/// One of each thing that decides how blocks are shared.
constexpr Model kModels[] = {
    {"products and what is fused behind them",
     "graph (%a: f32[64, n], %b: f32[n, 64]) -> (%y) {\n  %m = MatMul(%a, %b)\n  %s = Sin(%m)\n"
     "  %c = Cos(%m)\n  %t = Mul(%s, %c)\n  %y = MatMul(%t, %m)\n}\n"},
    {"convolutions, whose layouts differ",
     "graph (%x: f32[n, 3, 16, 16], %w: f32[16, 3, 3, 3], %b: f32[16], %v: f32[16, 16, 3, 3]) -> "
     "(%y) {\n  %c = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n  %r = Relu(%c)\n"
     "  %p, %pi = MaxPool(%r) {kernel_shape = [2, 2], strides = [2, 2]}\n"
     "  %d = Conv(%p, %v) {pads = [1, 1, 1, 1]}\n  %s = Add(%d, %p)\n  %q = Relu(%s)\n"
     "  %g = GlobalAveragePool(%q)\n  %y = Flatten(%g)\n}\n"},
    {"convolutions by constants",
     "graph (%x: f32[n, 3, 16, 16]) -> (%y) {\n"
     "  %k = Constant() {value = tensor i64[4] [16, 3, 3, 3]}\n"
     "  %w = ConstantOfShape(%k) {value = tensor f32[1] [0.5]}\n"
     "  %l = Constant() {value = tensor i64[4] [16, 16, 3, 3]}\n"
     "  %v = ConstantOfShape(%l) {value = tensor f32[1] [0.25]}\n"
     "  %c = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n  %r = Relu(%c)\n"
     "  %d = Conv(%r, %v) {pads = [1, 1, 1, 1]}\n  %s = Add(%d, %r)\n  %q = Sigmoid(%s)\n"
     "  %e = Conv(%q, %v) {strides = [2, 2]}\n  %y = ReduceMean(%e) {keepdims = 0}\n}\n"},
    {"attention that is one call, and projections",
     "graph (%x: f32[n, 16, 32], %w: f32[32, 32]) -> (%y) {\n  %a = MatMul(%x, %w)\n"
     "  %h = Constant() {value = tensor i64[4] [0, 0, 4, 8]}\n  %r = Reshape(%a, %h)\n"
     "  %q = Transpose(%r) {perm = [0, 2, 1, 3]}\n  %t = Transpose(%r) {perm = [0, 2, 3, 1]}\n"
     "  %s = MatMul(%q, %t)\n  %f = Constant() {value = tensor f32[] [0.35]}\n"
     "  %m = Mul(%s, %f)\n  %p = Softmax(%m) {axis = -1}\n  %o = MatMul(%p, %q)\n"
     "  %u = Transpose(%o) {perm = [0, 2, 1, 3]}\n"
     "  %i = Constant() {value = tensor i64[3] [0, 0, 32]}\n  %z = Reshape(%u, %i)\n"
     "  %y = MatMul(%z, %w)\n}\n"},
    {"reductions",
     "graph (%x: f32[n, 40, 50]) -> (%a, %b, %c) {\n  %e = Exp(%x)\n"
     "  %i = Constant() {value = tensor i64[1] [1]}\n  %s = ReduceSum(%e, %i)\n"
     "  %d = Div(%e, %s)\n  %j = Constant() {value = tensor i64[1] [0]}\n"
     "  %a = ReduceMax(%d, %j)\n  %b = ArgMax(%d) {axis = 2}\n"
     "  %z = Constant() {value = tensor i64[] [2]}\n  %c = CumSum(%d, %z)\n}\n"},
    {"residual connections",
     "graph (%x: f32[n, 64], %w: f32[64, 64], %g: f32[64]) -> (%y) {\n"
     "  %h, %m, %v = LayerNormalization(%x, %g)\n  %a = MatMul(%h, %w)\n  %b = Gelu(%a)\n"
     "  %c = MatMul(%b, %w)\n  %r = Add(%x, %c)\n  %k, %l, %o = LayerNormalization(%r, %g)\n"
     "  %d = MatMul(%k, %w)\n  %y = Add(%r, %d)\n}\n"},
    {"f16",
     "graph (%x: f16[n, 64], %w: f16[64, 96], %v: f16[96, 64]) -> (%y) {\n  %a = MatMul(%x, %w)\n"
     "  %b = Relu(%a)\n  %c = MatMul(%b, %v)\n  %d = Softmax(%c)\n  %y = MatMul(%d, %w)\n}\n"},
    {"bf16",
     "graph (%x: bf16[n, 64], %w: bf16[64, 96], %v: bf16[96, 64]) -> (%y) {\n"
     "  %a = MatMul(%x, %w)\n  %b = Relu(%a)\n  %c = MatMul(%b, %v)\n  %d = Softmax(%c)\n"
     "  %y = MatMul(%d, %w)\n}\n"},
    {"integers",
     "graph (%x: i8[n, 64], %w: i8[64, 32]) -> (%y) {\n  %a = MatMulInteger(%x, %w)\n"
     "  %f = Cast(%a) {to = f32}\n  %y = Softmax(%f)\n}\n"},
    {"chains that are written in place",
     "graph (%x: f32[n, 100], %w: f32[100, 100]) -> (%y) {\n  %a = MatMul(%x, %w)\n"
     "  %b = Exp(%a)\n  %z = Constant() {value = tensor i64[] [1]}\n  %c = CumSum(%b, %z)\n"
     "  %d = Neg(%c)\n  %e = MatMul(%d, %w)\n  %f = Sin(%e)\n  %y = MatMul(%f, %w)\n}\n"},
    {"views of parts",
     "graph (%x: f32[n, 32], %w: f32[32, 32]) -> (%y) {\n  %a = MatMul(%x, %w)\n  %b = Sin(%x)\n"
     "  %c = Concat(%a, %b) {axis = 0}\n  %d = MatMul(%c, %w)\n"
     "  %e, %f = Split(%d) {axis = 0, num_outputs = 2}\n  %g = MatMul(%e, %w)\n"
     "  %h = Concat(%g, %f, %a) {axis = 1}\n  %s = Constant() {value = tensor i64[1] [2]}\n"
     "  %t = Constant() {value = tensor i64[1] [40]}\n"
     "  %u = Constant() {value = tensor i64[1] [1]}\n  %y = Slice(%h, %s, %t, %u)\n}\n"},
    {"normalisations",
     "graph (%x: f32[n, 8, 12, 12], %s: f32[8], %b: f32[8]) -> (%y) {\n  %e = Sin(%x)\n"
     "  %g = GroupNormalization(%e, %s, %b) {num_groups = 2}\n"
     "  %i = InstanceNormalization(%g, %s, %b)\n"
     "  %y, %m, %v = BatchNormalization(%i, %s, %b, %b, %s) {training_mode = 1}\n}\n"},
    {"a shape that is computed",
     "graph (%x: f32[n, 8, 6]) -> (%y) {\n  %s = Shape(%x)\n"
     "  %z = Constant() {value = tensor i64[] [0]}\n  %b = Gather(%s, %z)\n"
     "  %k = Constant() {value = tensor i64[1] [0]}\n  %c = Unsqueeze(%b, %k)\n"
     "  %m = Constant() {value = tensor i64[1] [-1]}\n  %t = Concat(%c, %m) {axis = 0}\n"
     "  %e = Exp(%x)\n  %r = Reshape(%e, %t)\n  %q = Transpose(%r)\n  %y = MatMul(%r, %q)\n}\n"},
    {"a recurrent network",
     "graph (%x: f32[5, n, 8], %w: f32[1, 64, 8], %r: f32[1, 64, 16]) -> (%y) {\n"
     "  %a, %h, %c = LSTM(%x, %w, %r) {hidden_size = 16}\n  %y = Exp(%a)\n}\n"},
    {"draws",
     "graph (%x: f32[n, 64]) -> (%y) {\n  %r = RandomUniformLike(%x)\n  %a = Add(%x, %r)\n"
     "  %z = Constant() {value = tensor i64[] [1]}\n  %c = CumSum(%a, %z)\n"
     "  %y = Softmax(%c)\n}\n"},
    {"If",
     "graph (%x: f32[n, 8], %c: bool[]) -> (%y) {\n  %e = Exp(%x)\n"
     "  %r = If(%c, %e) {then_branch = graph (%a: f32[n, 8]) -> (%b) { %b = Sin(%a) },\n"
     "      else_branch = graph (%a: f32[n, 8]) -> (%b) { %b = Neg(%a) }, num_captures = 1}\n"
     "  %y = Softmax(%r)\n}\n"},
    {"Loop",
     "graph (%x: f32[n, 8], %k: i64[]) -> (%y) {\n  %e = Exp(%x)\n"
     "  %r = Loop(%k, _, %e) {body = graph (%i: i64[], %c: bool[], %a: f32[n, 8]) -> (%d, %b) {\n"
     "      %d = Identity(%c)\n      %b = Sin(%a)\n    }, num_captures = 0}\n"
     "  %y = Softmax(%r)\n}\n"},
    {"Scan",
     "graph (%x: f32[n, 8], %s: f32[8]) -> (%y, %t) {\n  %e = Exp(%x)\n"
     "  %t, %r = Scan(%s, %e) {body = graph (%a: f32[8], %b: f32[8]) -> (%c, %d) {\n"
     "      %c = Add(%a, %b)\n      %d = Sin(%c)\n"
     "    }, num_scan_inputs = 1, num_captures = 0}\n  %y = Softmax(%r)\n}\n"},
};

/// In bytes; the arena is not empty.
void CheckPredicted(const std::string& model, const std::string& bind) {
  const Json said = Parsed(Weft({"inspect", model, "--json", "--bind", bind}));
  const Json ran = Parsed(
      Weft({"bench", model, "--json", "--bind", bind, "--iterations", "1", "--warmup", "0"}));
  CAPTURE(bind);
  CHECK(said.at("peak_error") == "");
  CHECK(said.at("peak_bytes") == ran.at("arena_bytes"));
  CHECK(ran.at("arena_bytes") > 0);
  CHECK(ran.at("kernels_failed") == 0);
}

TEST_SUITE("weft command") {
  TEST_CASE("inspect predicts the arena that a run has") {
    const Folder dir;
    for (const Model& m : kModels) {
      CAPTURE(m.name);
      const std::string path = dir.Write("m.weft", std::string("weft 1\n") + m.text);
      CheckPredicted(path, "n=37");
    }
    const std::string path = dir.Write("m.weft", std::string("weft 1\n") + kModels[0].text);
    for (const char* bind : {"n=1", "n=300"}) CheckPredicted(path, bind);
    // Nothing is between one kernel's inputs and its outputs.
    const std::string small = dir.Write("m.weft", kModel);
    const Json said = Parsed(Weft({"inspect", small, "--json", "--bind", "n=3"}));
    CHECK(said.at("peak_bytes") == 0);
  }

  TEST_CASE("inspect predicts the arena of a training graph") {
    const Folder dir;
    for (const size_t k : {size_t{1}, size_t{3}, size_t{5}}) {
      CAPTURE(kModels[k].name);
      const std::string path = dir.Write("m.weft", std::string("weft 1\n") + kModels[k].text),
                        trained = dir / "t.weft";
      REQUIRE(Weft({"grad", path, "-o", trained}).code == 0);
      CheckPredicted(trained, "n=5");
    }
  }

  TEST_CASE("inspect predicts the most that a run takes where data decide a size with a bound") {
    const Folder dir;
    const std::string path =
        dir.Write("m.weft",
                  "weft 1\ngraph (%x: f32[n, 8]) -> (%y) {\n  %e = Sin(%x)\n  %r = Relu(%e)\n"
                  "  %i = NonZero(%r)\n  %f = Cast(%i) {to = f32}\n  %y = Exp(%f)\n}\n");
    const Json said = Parsed(Weft({"inspect", path, "--json", "--bind", "n=37"}));
    CHECK(said.at("peak_error") == "");
    CHECK(said.at("peak_is_bound") == true);
    const auto arena = [&](const std::string& x) {
      const Json ran = Parsed(Weft({"bench", path, "--json", "--bind", "n=37", "--input", x,
                                    "--iterations", "1", "--warmup", "0"}));
      CHECK(ran.at("kernels_failed") == 0);
      return ran.at("arena_bytes").get<int64_t>();
    };
    CHECK(arena("x=1") == said.at("peak_bytes"));
    // Memory lies at the bound, whatever is found.
    CHECK(arena("x=-1") == said.at("peak_bytes"));
    CHECK(Weft({"inspect", path, "--bind", "n=37"}).out.find("peak     at most ") !=
          std::string::npos);
  }

  TEST_CASE("inspect says why it predicts no arena: a value decides extents") {
    const Folder dir;
    const std::string path =
        dir.Write("m.weft",
                  "weft 1\ngraph (%k: i64[1]) -> (%y) {\n  %e = ConstantOfShape(%k)\n"
                  "  %i = NonZero(%e)\n  %f = Cast(%i) {to = f32}\n  %y = Exp(%f)\n}\n");
    const Json said = Parsed(Weft({"inspect", path, "--json"}));
    CHECK(said.at("peak_bytes").is_null());
    const std::string why = said.at("peak_error");
    CHECK(why.find("'e'") != std::string::npos);
    CHECK(why.find("nothing bounds it") != std::string::npos);
    CHECK(Weft({"bench", path, "--input", "k=5", "--iterations", "1", "--warmup", "0"}).code == 0);
  }
}

}  // namespace
