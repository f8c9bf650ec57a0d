/// column_kernels_test.cc: reductions over any axes, whatever they are written with, share one
/// generated kernel with what comes before, between and after them: statistics and gradients of
/// normalisations, gradients of biases. Results are the oracle's and do not depend on the number of
/// threads, bit for bit; each kernel also compiles for sm_90 where NVRTC is at hand.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/compiler/kernel_compilers.h"

namespace {

using namespace weft;
using namespace weft::e2e;

struct Form {
  const char* name;
  int kernels;
  const char* text;  ///< $N batch, $C channels or features, $H height and width
};

const Form kForms[] = {
    {"batch normalisation, training, relu and a residual", 1,
     R"(graph (%x: f32[$N, $C, $H, $H], %r: f32[$N, $C, $H, $H], %s: f32[$C], %b: f32[$C],
               %m: f32[$C], %v: f32[$C]) -> (%out, %mean, %var) {
        %y, %mean, %var = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
        %z = Add(%y, %r) : ?
        %out = Relu(%z) : ?
      })"},
    {"batch normalisation spelled out", 1,
     R"(graph (%x: f32[$N, $C, $H, $H], %s: f32[$C], %b: f32[$C]) -> (%y, %mean, %inv) {
        %ax = Constant() {value = tensor i64[3] [0, 2, 3]} : ?
        %col = Constant() {value = tensor i64[4] [1, -1, 1, 1]} : ?
        %eps = Constant() {value = tensor f32[] [0.00001]} : ?
        %mean = ReduceMean(%x, %ax) : ?
        %d = Sub(%x, %mean) : ?
        %sq = Mul(%d, %d) : ?
        %var = ReduceMean(%sq, %ax) : ?
        %ve = Add(%var, %eps) : ?
        %std = Sqrt(%ve) : ?
        %inv = Reciprocal(%std) : ?
        %sc = Reshape(%s, %col) : ?
        %bc = Reshape(%b, %col) : ?
        %h = Mul(%d, %inv) : ?
        %g = Mul(%h, %sc) : ?
        %y = Add(%g, %bc) : ?
      })"},
    {"batch normalisation, backward through a relu", 1,
     R"(graph (%x: f32[$N, $C, $H, $H], %y: f32[$N, $C, $H, $H], %g: f32[$N, $C, $H, $H], %s: f32[$C],
               %m: f32[1, $C, 1, 1], %v: f32[1, $C, 1, 1]) -> (%dx, %dscale, %dbias) {
        %ax = Constant() {value = tensor i64[3] [0, 2, 3]} : ?
        %col = Constant() {value = tensor i64[4] [1, -1, 1, 1]} : ?
        %flat = Constant() {value = tensor i64[1] [-1]} : ?
        %eps = Constant() {value = tensor f32[] [0.5]} : ?
        %zero = Constant() {value = tensor f32[] [0.0]} : ?
        %n = Constant() {value = tensor f32[] [0.01]} : ?
        %on = Greater(%y, %zero) : ?
        %dy = Where(%on, %g, %zero) : ?
        %va = Abs(%v) : ?
        %ve = Add(%va, %eps) : ?
        %std = Sqrt(%ve) : ?
        %inv = Reciprocal(%std) : ?
        %d = Sub(%x, %m) : ?
        %h = Mul(%d, %inv) : ?
        %dyh = Mul(%dy, %h) : ?
        %db = ReduceSum(%dy, %ax) : ?
        %ds = ReduceSum(%dyh, %ax) : ?
        %sc = Reshape(%s, %col) : ?
        %k = Mul(%sc, %inv) : ?
        %hs = Mul(%h, %ds) : ?
        %t = Add(%db, %hs) : ?
        %tn = Mul(%t, %n) : ?
        %u = Sub(%dy, %tn) : ?
        %dx = Mul(%k, %u) : ?
        %dscale = Reshape(%ds, %flat) : ?
        %dbias = Reshape(%db, %flat) : ?
      })"},
    {"a derivative and the gradient of a bias, by SumTo", 1,
     R"(graph (%g: f32[$N, $C], %y: f32[$N, $C], %b: f32[$C]) -> (%dz, %db) {
        %one = Constant() {value = tensor f32[] [1.0]} : ?
        %sq = Mul(%y, %y) : ?
        %k = Sub(%one, %sq) : ?
        %dz = Mul(%g, %k) : ?
        %db = weft::SumTo(%dz, %b) : ?
      })"},
    {"the gradient of a bias by ReduceSum", 1,
     R"(graph (%g: f32[$N, $C]) -> (%db) {
        %ax = Constant() {value = tensor i64[1] [0]} : ?
        %db = ReduceSum(%g, %ax) {keepdims = 0} : ?
      })"},
    {"the gradient of a channel's bias, by ChannelSum", 1,
     R"(graph (%g: f32[$N, $C, $H, $H], %y: f32[$N, $C, $H, $H]) -> (%dz, %db) {
        %zero = Constant() {value = tensor f32[] [0.0]} : ?
        %on = Greater(%y, %zero) : ?
        %dz = Where(%on, %g, %zero) : ?
        %db = weft::ChannelSum(%dz) : ?
      })"},
    {"several statistics of the columns", 1,
     R"(graph (%x: f32[$N, $C]) -> (%mean, %max, %min, %at, %norm) {
        %ax = Constant() {value = tensor i64[1] [0]} : ?
        %abs = Abs(%x) : ?
        %mean = ReduceMean(%x, %ax) : ?
        %max = ReduceMax(%abs, %ax) : ?
        %min = ReduceMin(%x, %ax) : ?
        %at = ArgMax(%x) {axis = 0} : ?
        %sq = Mul(%x, %x) : ?
        %ss = ReduceSum(%sq, %ax) : ?
        %norm = Sqrt(%ss) : ?
      })"},
    {"softmax down the columns", 1, R"(graph (%x: f32[$N, $C]) -> (%y) {
        %y = Softmax(%x) {axis = 0} : ?
      })"},
    {"channels last, normalised over batch and space", 1,
     R"(graph (%x: f32[$N, $H, $H, $C], %s: f32[$C]) -> (%y) {
        %ax = Constant() {value = tensor i64[3] [0, 1, 2]} : ?
        %eps = Constant() {value = tensor f32[] [0.00001]} : ?
        %m, %v, %e = weft::Moments(%x, %ax) : ?, ?, ?
        %d = Sub(%x, %m) : ?
        %ve = Add(%v, %eps) : ?
        %std = Sqrt(%ve) : ?
        %h = Div(%d, %std) : ?
        %y = Mul(%h, %s) : ?
      })"},
    {"the norm of everything, and everything divided by it", 1,
     R"(graph (%x: f32[$N, $C]) -> (%y, %norm) {
        %sq = Mul(%x, %x) : ?
        %ss = ReduceSum(%sq) {keepdims = 0} : ?
        %norm = Sqrt(%ss) : ?
        %y = Div(%x, %norm) : ?
      })"},
    {"layer normalisation, backward", 2,
     R"(graph (%x: f32[$N, $C], %dy: f32[$N, $C], %gamma: f32[$C], %mean: f32[$N, 1], %inv: f32[$N, 1])
             -> (%dx, %dgamma, %dbeta) {
        %ax = Constant() {value = tensor i64[1] [-1]} : ?
        %d = Sub(%x, %mean) : ?
        %h = Mul(%d, %inv) : ?
        %dyh = Mul(%dy, %h) : ?
        %dgamma = weft::SumTo(%dyh, %gamma) : ?
        %dbeta = weft::SumTo(%dy, %gamma) : ?
        %dh = Mul(%dy, %gamma) : ?
        %m1 = ReduceMean(%dh, %ax) : ?
        %dhh = Mul(%dh, %h) : ?
        %m2 = ReduceMean(%dhh, %ax) : ?
        %hm = Mul(%h, %m2) : ?
        %u = Sub(%dh, %m1) : ?
        %w = Sub(%u, %hm) : ?
        %dx = Mul(%w, %inv) : ?
      })"},
};

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}
Graph Make(const Form& form, const std::string& n, const std::string& c, const std::string& h) {
  return FromText(Replace(Replace(Replace(form.text, "$N", n), "$C", c), "$H", h));
}

std::vector<KernelPtr> KernelsOf(const Graph& g) {
  const Graph made = ApplyPasses(g, "Simplify,FoldConstants,Simplify,Fusion,CodeGen");
  std::vector<KernelPtr> out;
  const KernelMap& kernels = made.GetAttr<KernelMap>("kernel");
  for (NodePtr n : made.TopoOrder())
    if (const LoweredKernel* k = kernels.find(n)) out.push_back(k->kernel);
  return out;
}

void Check(const Form& form, const Graph& g, const SymBindings& bind) {
  const Reference want = RunReference(g, 7, bind);
  if (!HasCpu()) {
    CHECK(int(KernelsOf(g).size()) == form.kernels);
    return;
  }
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().kernels == form.kernels);
  CHECK(program->stats().library_calls == 0);
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  CHECK(Difference(session.Run(want.inputs), want.outputs, 1e-4, 1e-4) <= 1);
}

}  // namespace

TEST_CASE("column kernels: static extents, from a few elements to several chunks") {
  for (const Form& form : kForms) {
    CAPTURE(std::string(form.name));
    Check(form, Make(form, "5", "37", "3"), {});
    Check(form, Make(form, "2", "3", "2"), {});
    Check(form, Make(form, "64", "16", "9"), {});
    Check(form, Make(form, "700", "130", "1"), {});
    Check(form, Make(form, "9000", "6", "2"), {});
  }
}

TEST_CASE("column kernels: symbolic batch") {
  for (const Form& form : kForms) {
    CAPTURE(std::string(form.name));
    const Graph g = Make(form, "n", "10", "5");
    for (int64_t n : {2, 33, 4000}) {
      CAPTURE(n);
      Check(form, g, {{"n", n}});
    }
  }
}

TEST_CASE("column kernels: the bits do not depend on the number of threads") {
  if (!HasCpu()) return;
  for (const Form& form : kForms) {
    for (const char* n : {"64", "3000"}) {
      CAPTURE(std::string(form.name));
      const Graph g = Make(form, n, "48", n[0] == '6' ? "16" : "2");
      const std::vector<TensorPtr> inputs = MakeRandomInputs(g, 3, {}).tensors;
      std::vector<TensorPtr> one;
      for (int threads : {1, 2, 3}) {
        CompileOptions options;
        options.threads = threads;
        const auto got = Session(Compile(g, options)).Run(inputs);
        if (threads == 1) one = got;
        for (size_t k = 0; k < got.size(); ++k)
          CHECK(std::memcmp(got[k]->data(), one[k]->data(), got[k]->num_bytes()) == 0);
      }
    }
  }
}

TEST_CASE("column kernels: statistics in training are those of doubles, however far from 0") {
  if (!HasCpu()) return;
  const char* const text = R"(graph (%x: f32[$N, $C, $H, $H], %s: f32[$C], %b: f32[$C], %m: f32[$C],
               %v: f32[$C]) -> (%y, %mean, %var) {
        %y, %mean, %var = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1, momentum = 0.0} : ?, ?, ?
      })";
  for (const char* n : {"20", "n"}) {
    const Graph g = Make({"", 1, text}, n, "3", "40");
    const auto program = CompileFor(g, "cpu");
    for (const double far : {0.0, 100.0, 1e4}) {
      CAPTURE(n);
      CAPTURE(far);
      std::vector<TensorPtr> inputs =
          RandomProgramInputs(*program, 5, n[0] == 'n' ? SymBindings{{"n", 20}} : SymBindings{});
      const int64_t channels = 3, plane = 1600;
      auto x = std::make_shared<Tensor>(DType::kF32, inputs[0]->dims());
      std::mt19937 random(4);
      std::normal_distribution<double> draw(far, 1);
      for (int64_t i = 0; i < x->num_elements(); ++i) x->set(i, draw(random));
      inputs[0] = x;
      const auto got = Session(program).Run(inputs);
      for (int64_t c = 0; c < channels; ++c) {
        double mean = 0, var = 0;
        const auto each = [&](const std::function<void(double)>& f) {
          for (int64_t i = 0; i < x->num_elements(); ++i)
            if (i / plane % channels == c) f(x->at(i));
        };
        const double count = double(x->num_elements() / channels);
        each([&](double v) { mean += v / count; });
        each([&](double v) { var += (v - mean) * (v - mean) / count; });
        CHECK(got[1]->at(c) == doctest::Approx(mean).epsilon(1e-6));
        CHECK(got[2]->at(c) == doctest::Approx(var).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("column kernels: each compiles for sm_90") {
  std::string why;
  const auto compiler = FindKernelCompiler("cuda:sm_90", &why);
  if (!compiler) {
    MESSAGE("skipped: no compiler for cuda:sm_90: " << why);
    return;
  }
  std::vector<KernelPtr> kernels;
  std::vector<std::string> names;
  for (const Form& form : kForms) {
    for (const char* rows : {"64", "n"}) {
      for (KernelPtr k : KernelsOf(Make(form, rows, "48", "16"))) {
        kernels.push_back(std::move(k));
        names.push_back(std::string(form.name) + " with a batch of " + rows);
      }
    }
  }
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler->Compile(kernels, &errors);
  REQUIRE(binaries.size() == kernels.size());
  for (size_t i = 0; i < binaries.size(); ++i) {
    CAPTURE(names[i]);
    const std::string error = i < errors.size() ? errors[i] : "";
    CAPTURE(error);
    CHECK(binaries[i].compare(0, 4,
                              "\x7f"
                              "ELF") == 0);
    CHECK(compiler->Stats(*kernels[i], binaries[i]).spill_bytes == 0);
  }
}
