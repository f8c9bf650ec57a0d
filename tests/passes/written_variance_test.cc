/// written_variance_test.cc: variances that are written out as E[x^2] - E[x]^2, as the function
/// bodies of ONNX do, are found and right where the mean is large, against float64 computed from
/// the same inputs. What only looks like one: tests/passes/simplify/variance_near.weft.
#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "tests/support/large_mean.h"
#include "weft/core/op/op.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// How many weft::Moments are found in the body.
int FoundIn(const Graph& g) {
  int found = 0;
  for (NodePtr n : ApplyPasses(g, "FoldConstants,Simplify").TopoOrder())
    found += !n->is_variable() && n->op()->name == "weft::Moments";
  return found;
}

struct Form {
  const char* name;
  std::string body;  ///< from %x to %y, or to %v
};

const std::string kConstants =
    "  %ax = Constant() {value = tensor i64[1] [2]} : ?\n"
    "  %two = Constant() {value = tensor f32[] [2.0]} : ?\n"
    "  %n = Constant() {value = tensor f32[] [96.0]} : ?\n"
    "  %over = Constant() {value = tensor f32[] [0.010416666666666666]} : ?\n"
    "  %e = Constant() {value = tensor f32[] [0.00001]} : ?\n";
const std::string kRest =
    "  %ve = Add(%v, %e) : ?\n  %sd = Sqrt(%ve) : ?\n  %c = Sub(%x, %m) : ?\n"
    "  %y = Div(%c, %sd) : ?\n";
const std::string kMean = "  %m = ReduceMean(%x, %ax) : ?\n";

/// Of rows of any length.
std::vector<Form> OfAnyLength() {
  return {
      {"products",
       kMean + "  %q = Mul(%x, %x) : ?\n  %mq = ReduceMean(%q, %ax) : ?\n  %mm = Mul(%m, %m) : ?\n"
               "  %v = Sub(%mq, %mm) : ?\n"},
      {"powers", kMean + "  %q = Pow(%x, %two) : ?\n  %mq = ReduceMean(%q, %ax) : ?\n"
                         "  %mm = Pow(%m, %two) : ?\n  %v = Sub(%mq, %mm) : ?\n"},
      {"a negative term",
       kMean + "  %q = Mul(%x, %x) : ?\n  %mq = ReduceMean(%q, %ax) : ?\n  %mm = Mul(%m, %m) : ?\n"
               "  %nm = Neg(%mm) : ?\n  %v = Add(%nm, %mq) : ?\n"},
      {"global pooling",
       "  %m = GlobalAveragePool(%x) : ?\n  %q = Mul(%x, %x) : ?\n"
       "  %mq = GlobalAveragePool(%q) : ?\n  %mm = Mul(%m, %m) : ?\n  %v = Sub(%mq, %mm) : ?\n"},
      {"axes that go and come back",
       kMean + "  %q = Mul(%x, %x) : ?\n  %mq = ReduceMean(%q, %ax) {keepdims = 0} : ?\n"
               "  %m0 = ReduceMean(%x, %ax) {keepdims = 0} : ?\n  %mm = Mul(%m0, %m0) : ?\n"
               "  %v0 = Sub(%mq, %mm) : ?\n  %v = Unsqueeze(%v0, %ax) : ?\n"},
  };
}

/// Of rows of 96, whose count is a constant.
std::vector<Form> Counted() {
  return {
      {"sums of squares divided by the count",
       "  %sm = ReduceSum(%x, %ax) : ?\n  %m = Div(%sm, %n) : ?\n"
       "  %sq = ReduceSumSquare(%x, %ax) : ?\n  %mq = Div(%sq, %n) : ?\n"
       "  %mm = Mul(%m, %m) : ?\n  %v = Sub(%mq, %mm) : ?\n"},
      {"the square of the sum",
       kMean + "  %sm = ReduceSum(%x, %ax) : ?\n  %sq = ReduceSumSquare(%x, %ax) : ?\n"
               "  %ss = Mul(%sm, %sm) : ?\n  %sn = Mul(%ss, %over) : ?\n  %dv = Sub(%sq, %sn) : ?\n"
               "  %v = Mul(%dv, %over) : ?\n"},
  };
}
/// The count comes with the run.
std::vector<Form> CountedByRun() {
  const std::string count = "  %sh = Shape(%x) {start = 2} : ?\n  %n3 = Cast(%sh) {to = f32} : ?\n";
  return {
      {"sums divided by the extent",
       count + "  %sm = ReduceSum(%x, %ax) : ?\n  %m = Div(%sm, %n3) : ?\n"
               "  %sq = ReduceSumSquare(%x, %ax) : ?\n  %mq = Div(%sq, %n3) : ?\n"
               "  %mm = Mul(%m, %m) : ?\n  %v = Sub(%mq, %mm) : ?\n"},
  };
}
std::vector<Form> Joined(std::vector<Form> a, const std::vector<Form>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Graph GraphOf(const Form& f, const std::string& dims = "2, 4, 96", DType t = DType::kF32) {
  return FromText(
      InType(t, "graph (%x: f32[" + dims + "]) -> (%y) {\n" + kConstants + f.body + kRest + "}"));
}

void CheckNormal(const Tensor& y, const Tensor& x, double tolerance) {
  CHECK(FarthestFrom(Normalized(x, Row, 1e-5), y) <= tolerance);
}

TEST_CASE("variances written out as E[x^2] - E[x]^2 at mean / deviation up to 1e6") {
  struct Kind {
    DType type;
    const char* dims;
    std::vector<double> ratios;
    double tolerance;
  };
  const std::vector<double> all{0, 1e2, 1e4, 1e6};
  const Kind kinds[] = {{DType::kF32, "2, 4, 96", all, 1e-5},
                        {DType::kF32, "n, 4, 96", all, 1e-5},
                        // Sums in f64 over rows of unknown length lose 2^-53 of the ratio squared.
                        {DType::kF32, "2, n, m", all, 5e-3},
                        {DType::kF64, "2, 4, 96", all, 1e-9},
                        {DType::kF16, "2, 4, 96", {0, 1e2}, 3e-3},
                        {DType::kBF16, "2, 4, 96", {0, 1e2}, 3e-2},
                        {DType::kF16, "n, 4, m", {0, 1e2}, 3e-3}};
  for (const Kind& kind : kinds) {
    const bool counted = std::string(kind.dims).find('m') == std::string::npos;
    for (const Form& f : Joined(OfAnyLength(), counted ? Counted() : CountedByRun())) {
      CAPTURE(std::string(f.name));
      CAPTURE(std::string(DTypeName(kind.type)));
      CAPTURE(std::string(kind.dims));
      const Graph g = GraphOf(f, kind.dims, kind.type);
      CHECK(FoundIn(g) == 1);
      if (!HasCpu()) continue;
      const auto program = CompileFor(g, "cpu");
      CHECK(program->stats().kernels == 1);
      for (const double ratio : kind.ratios) {
        CAPTURE(ratio);
        const TensorPtr x = Around(0.6 * ratio, kind.type);
        CheckNormal(*Session(program).Run({x})[0], *x, kind.tolerance);
      }
    }
  }
}

TEST_CASE("a variance written out over n - 1 is one that is scaled") {
  // (sum(x^2) - sum(x)^2 / n) / (n - 1), then the same from means.
  for (const char* body :
       {"  %s = ReduceSum(%x, %ax) : ?\n  %q = ReduceSumSquare(%x, %ax) : ?\n"
        "  %ss = Mul(%s, %s) : ?\n  %sn = Div(%ss, %n) : ?\n  %d = Sub(%q, %sn) : ?\n"
        "  %v = Div(%d, %less) : ?\n",
        "  %m = ReduceMean(%x, %ax) : ?\n  %q = ReduceSumSquare(%x, %ax) : ?\n"
        "  %qn = Div(%q, %less) : ?\n  %mm = Mul(%m, %m) : ?\n  %k = Div(%n, %less) : ?\n"
        "  %mk = Mul(%mm, %k) : ?\n  %v = Sub(%qn, %mk) : ?\n"}) {
    CAPTURE(std::string(body));
    const Graph g =
        FromText("graph (%x: f32[2, 4, 96]) -> (%v) {\n" + kConstants +
                 "  %less = Constant() {value = tensor f32[] [95.0]} : ?\n" + body + "}");
    CHECK(FoundIn(g) == 1);
    if (!HasCpu()) continue;
    const auto program = CompileFor(g, "cpu");
    for (const double ratio : {0.0, 1e4, 1e6}) {
      CAPTURE(ratio);
      const TensorPtr x = Around(0.6 * ratio), v = Session(program).Run({x})[0];
      const std::vector<double> normal = Normalized(*x, Row, 0);
      for (int64_t row = 0; row < v->num_elements(); ++row) {
        // Two elements of a row are as far apart as their normal ones are deviations.
        const size_t a = size_t(row * kPoints), b = a + 1;
        const double deviation = (x->at(int64_t(a)) - x->at(int64_t(b))) / (normal[a] - normal[b]);
        const double want = deviation * deviation * 96 / 95;
        CHECK(std::fabs(v->at(row) - want) <= 1e-5 * want);
      }
    }
  }
}

}  // namespace
