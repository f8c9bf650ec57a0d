/// attention_test.cc: weft::Attention against loops in double precision and against the
/// interpreter; its inner loops in every instruction set that this machine runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "attention_run.h"
#include "backends/cpu/util/call_test_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Extents, and in which order the axes lie in memory.
struct Setup {
  Ns batch;
  int64_t rows, keys, depth, width;
  Ns q_perm = {}, k_perm = {}, v_perm = {}, y_perm = {}, mask = {};
  double scale = 1;
  Ns q_batch = {}, k_batch = {}, v_batch = {};  ///< empty: as `batch`
  int64_t read = -1;                            ///< of the keys; -1: all, and nothing says so
  double softcap = 0;
};

Ns With(Ns batch, int64_t rows, int64_t columns) {
  batch.insert(batch.end(), {rows, columns});
  return batch;
}
/// What lies in memory where axis k of `dims` is axis perm[k] of it.
Ns Stored(const Ns& dims, const Ns& perm) {
  if (perm.empty()) return dims;
  Ns out(dims.size());
  for (size_t k = 0; k < perm.size(); ++k) out[size_t(perm[k])] = dims[k];
  return out;
}
Ns BatchOr(const Ns& own, const Ns& all) { return own.empty() ? all : own; }

struct Problem {
  Setup s;
  std::shared_ptr<Tensor> q, k, v, mask;

  explicit Problem(const Setup& setup) : s(setup) {
    q = RandomTensor(Stored(With(BatchOr(s.q_batch, s.batch), s.rows, s.depth), s.q_perm), 1);
    k = RandomTensor(Stored(With(BatchOr(s.k_batch, s.batch), s.keys, s.depth), s.k_perm), 2);
    v = RandomTensor(Stored(With(BatchOr(s.v_batch, s.batch), s.keys, s.width), s.v_perm), 3);
    if (!s.mask.empty()) mask = RandomTensor(s.mask, 4);
  }
  Ns OutputDims() const {
    const Ns y = With(s.batch, s.rows, s.width);
    if (s.y_perm.empty()) return y;
    Ns out;
    for (int64_t p : s.y_perm) out.push_back(y[size_t(p)]);
    return out;
  }
  Case MakeCase(int threads) const {
    AttrDict attrs{{"scale", s.scale}};
    const auto set = [&](const char* name, const Ns& perm) {
      if (!perm.empty()) attrs[name] = Ints(perm.begin(), perm.end());
    };
    set("q_perm", s.q_perm);
    set("k_perm", s.k_perm);
    set("v_perm", s.v_perm);
    set("y_perm", s.y_perm);
    std::vector<TensorPtr> in{q, k, v};
    if (mask || s.read >= 0) in.push_back(mask);
    if (s.read >= 0) in.push_back(Tensor::Scalar(DType::kI64, double(s.read)));
    if (s.softcap > 0) attrs["softcap"] = s.softcap;
    Case c("weft::Attention", in, attrs, OutputDims());
    c.request.threads = threads;
    return c;
  }

  /// An element at `at` (batch.., row, column), where extents of 1 repeat.
  static double Read(const Tensor& x, const Ns& perm, const Ns& at) {
    const Ns& dims = x.dims();
    Ns from(dims.size());
    const size_t lead = at.size() - dims.size();
    for (size_t i = 0; i < dims.size(); ++i) {
      const size_t there = perm.empty() ? i : size_t(perm[i]);
      from[there] = dims[there] == 1 ? 0 : at[lead + i];
    }
    return x.at(Flat(from, dims));
  }
  std::vector<double> Want() const {
    const Ns out = OutputDims();
    std::vector<double> want(size_t(CheckedProduct(out)));
    Ns b = With(s.batch, s.rows, 1), at(b.size(), 0);
    if (want.empty()) return want;
    do {
      std::vector<double> score;
      double most = -INFINITY, sum = 0;
      const int64_t keys = s.read < 0 ? s.keys : s.read;
      for (int64_t j = 0; j < keys; ++j) {
        double x = 0;
        for (int64_t c = 0; c < s.depth; ++c) {
          Ns qa = at, ka = at;
          qa.back() = ka.back() = c;
          ka[ka.size() - 2] = j;
          x += Read(*q, s.q_perm, qa) * Read(*k, s.k_perm, ka);
        }
        x *= s.scale;
        if (s.softcap > 0) x = s.softcap * std::tanh(x / s.softcap);
        Ns ma = at;
        ma.back() = j;
        if (mask) x += Read(*mask, {}, ma);
        score.push_back(x);
        most = std::max(most, x);
      }
      for (double& x : score) sum += x = std::exp(x - most);
      for (int64_t c = 0; c < s.width; ++c) {
        double y = 0;
        for (int64_t j = 0; j < keys; ++j) {
          Ns va = at;
          va[va.size() - 2] = j;
          va.back() = c;
          y += score[size_t(j)] / sum * Read(*v, s.v_perm, va);
        }
        Ns ya = at, stored = at;
        ya.back() = c;
        for (size_t i = 0; i < ya.size(); ++i)
          stored[i] = s.y_perm.empty() ? ya[i] : ya[size_t(s.y_perm[i])];
        want[size_t(Flat(stored, out))] = y;
      }
    } while (Next(&at, b));
    return want;
  }
};

/// As Difference, but NaN is right where it is wanted.
double Worst(const Tensor& got, std::vector<double> want) {
  auto clean = std::make_shared<Tensor>(DType::kF32, got.dims());
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const bool both = std::isnan(want[size_t(i)]) && std::isnan(got.at(i));
    clean->mutable_data_as<float>()[i] = both ? 0 : got.data_as<float>()[i];
    if (both) want[size_t(i)] = 0;
  }
  return Difference(*clean, want);
}

const std::vector<Setup> kSetups{
    {{}, 1, 1, 1, 1},
    {{}, 5, 7, 3, 2, {}, {}, {}, {}, {}, 0.5},
    {{2}, 33, 65, 17, 31, {}, {}, {}, {}, {33, 65}},
    {{3}, 100, 130, 64, 64, {}, {0, 2, 1}, {}, {}, {3, 1, 130}, 0.125},
    // [batch, time, head, feature] all through, one mask a head and one a key.
    {{2, 3},
     19,
     23,
     8,
     9,
     {0, 2, 1, 3},
     {0, 2, 1, 3},
     {0, 2, 1, 3},
     {0, 2, 1, 3},
     {3, 19, 23},
     0.35},
    {{2, 3},
     19,
     23,
     8,
     9,
     {0, 2, 1, 3},
     {0, 2, 3, 1},
     {0, 2, 1, 3},
     {2, 0, 1, 3},
     {2, 1, 1, 23},
     -2},
    // Keys and values that lie as products read them, near and far; few rows and many.
    {{2}, 40, 96, 20, 48, {}, {0, 2, 1}, {}, {}, {96}},
    {{1, 3}, 40, 64, 20, 80, {}, {2, 0, 3, 1}, {2, 0, 1, 3}, {}, {}},
    {{1, 3}, 4, 320, 20, 80, {}, {1, 0, 3, 2}, {0, 2, 1, 3}, {}, {}},
    // Odd orders: features outermost.
    {{2}, 12, 20, 6, 5, {2, 1, 0}, {1, 2, 0}, {1, 2, 0}, {2, 1, 0}, {12, 1}, 1},
    // Heads that share keys, and values.
    {{2, 4}, 9, 40, 16, 80, {}, {}, {}, {}, {1}, 1, {}, {2, 1}, {1, 4}},
    // Rows longer than a block, and more rows than one.
    {{2}, 200, 700, 24, 70, {}, {}, {}, {}, {200, 700}, 0.7},
    {{5}, 3, 1000, 20, 130},
    // One token: keys as rows, of any number of features, one head for all and one for each group.
    {{12}, 1, 300, 64, 64, {}, {}, {}, {}, {300}, 0.125},
    {{3, 2, 7}, 1, 41, 18, 18, {}, {}, {}, {}, {3, 1, 1, 1, 41}, 0.25, {}, {3, 2, 1}, {3, 2, 1}},
    {{2, 1, 4}, 5, 70, 33, 20, {}, {}, {}, {}, {5, 70}, 1, {}, {2, 1, 1}, {2, 1, 1}},
    // Caches with room behind what is read, and masks that end there.
    {{2, 3}, 1, 500, 16, 16, {}, {}, {}, {}, {2, 1, 1, 131}, 0.5, {}, {}, {}, 131},
    {{2, 3}, 40, 500, 16, 24, {}, {}, {}, {}, {40, 257}, 0.5, {}, {}, {}, 257},
    {{2}, 4, 32, 8, 8, {}, {}, {}, {}, {}, 1, {}, {}, {}, 1},
    // Soft caps.
    {{2}, 1, 65, 16, 16, {}, {}, {}, {}, {65}, 4, {}, {}, {}, -1, 3},
    {{2}, 50, 65, 16, 16, {}, {}, {}, {}, {50, 65}, 4, {}, {}, {}, -1, 30},
};

TEST_CASE("attention is what loops in double precision say, with any number of threads") {
  for (const Setup& s : kSetups) {
    const Problem p(s);
    const std::vector<double> want = p.Want();
    std::shared_ptr<Tensor> first;
    for (const int threads : {1, 2, 3}) {
      CAPTURE(p.q->shape().ToString());
      CAPTURE(threads);
      const auto y = p.MakeCase(threads).Run();
      REQUIRE(y != nullptr);
      CHECK(Difference(*y, want) < 1e-5);
      if (!first) first = y;
      CHECK(std::equal(y->data_as<float>(), y->data_as<float>() + y->num_elements(),
                       first->data_as<float>()));
    }
  }
}

TEST_CASE("attention is what the interpreter says") {
  for (size_t i = 0; i < 8; ++i) {
    if (i == 3) continue;  // takes it long
    const Problem p(kSetups[i]);
    Case c = p.MakeCase(2);
    c.graph.outputs = {NodeEntry(c.request.node)};
    EvalOptions options;
    options.typed = false;
    const TensorPtr want = GetEvaluator()->Eval(c.graph, c.operands, options).at(0);
    const auto y = c.Run();
    REQUIRE(y != nullptr);
    std::vector<double> values;
    for (int64_t k = 0; k < want->num_elements(); ++k) values.push_back(want->at(k));
    CHECK(Difference(*y, values) < 1e-5);
  }
}

TEST_CASE("attention: what a mask hides has no part, and a row that is all hidden is NaN") {
  for (const int64_t keys : {40, 900}) {
    Problem p({{2}, 7, keys, 5, 6, {}, {}, {}, {}, {7, keys}, 0.5});
    float* mask = p.mask->mutable_data_as<float>();
    for (int64_t i = 0; i < 7; ++i)
      for (int64_t j = 0; j < keys; ++j)
        // Row 2 sees nothing, 3 the first key, 4 the last, 5 every third; the others all
        // up to some key.
        if (i == 2 || (i == 3 && j > 0) || (i == 4 && j + 1 < keys) || (i == 5 && j % 3 != 0) ||
            (i != 3 && i != 4 && i != 5 && j > 17 * i))
          mask[i * keys + j] = -kInf;
    const auto y = p.MakeCase(2).Run();
    REQUIRE(y != nullptr);
    CHECK(Worst(*y, p.Want()) < 1e-5);
    CHECK(std::isnan(y->at(2 * 6)));
    CHECK(!std::isnan(y->at(3 * 6)));
    // Safe: zeros instead, also where a score is not finite; other rows stay.
    for (const float bad : {-kInf, NAN, kInf}) {
      mask[2 * keys + keys / 2] = bad;
      std::vector<double> want = p.Want();
      for (double& x : want)
        if (std::isnan(x)) x = 0;
      Case c = p.MakeCase(2);
      c.request.node->attrs.dict["safe"] = int64_t{1};
      const auto safe = c.Run();
      REQUIRE(safe != nullptr);
      CHECK(safe->at(2 * 6) == 0);
      CHECK(Difference(*safe, want) < 1e-5);
    }
  }
}

TEST_CASE("attention: NaN and infinite scores stay in their rows") {
  for (const int64_t keys : {40, 900})
    for (const float bad : {NAN, kInf}) {
      Problem p({{}, 9, keys, 4, 3, {}, {}, {}, {}, {9, keys}});
      p.mask->mutable_data_as<float>()[4 * keys + keys / 2] = bad;
      const auto y = p.MakeCase(1).Run();
      REQUIRE(y != nullptr);
      CHECK(Worst(*y, p.Want()) < 1e-5);
      for (int64_t i = 0; i < 9; ++i) CHECK(std::isnan(y->at(i * 3)) == (i == 4));
    }
}

TEST_CASE("attention: windows of keys, wherever they begin and end") {
  for (const int64_t rows : {1, 40, 130})
    for (const int64_t window : {1, 20, 300}) {
      Problem p({{2}, rows, 900, 5, 6, {}, {}, {}, {}, {rows, 900}, 0.5});
      float* mask = p.mask->mutable_data_as<float>();
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < 900; ++j) {
          const int64_t at = 5 * i + 200;
          if (j > at || j <= at - window) mask[i * 900 + j] = -kInf;
        }
      const auto y = p.MakeCase(2).Run();
      REQUIRE(y != nullptr);
      CHECK(Worst(*y, p.Want()) < 1e-5);
    }
}

TEST_CASE("attention: what lies behind the keys that are read is not looked at") {
  Problem p({{2}, 3, 64, 8, 8, {}, {}, {}, {}, {}, 1, {}, {}, {}, 10});
  const std::vector<double> want = p.Want();
  for (const auto& t : {p.k, p.v})
    for (int64_t b = 0; b < 2; ++b)
      std::fill_n(t->mutable_data_as<float>() + (b * 64 + 10) * 8, 54 * 8, NAN);
  CHECK(Difference(*p.MakeCase(2).Run(), want) < 1e-5);
  p.s.read = 0;
  CHECK(Difference(*p.MakeCase(2).Run(), std::vector<double>(48, 0)) == 0);
}

TEST_CASE("attention of nothing") {
  const auto run = [](const Setup& s) { return Problem(s).MakeCase(2).Run(); };
  const auto no_keys = run({{2}, 3, 0, 4, 5});
  REQUIRE(no_keys != nullptr);
  CHECK(Difference(*no_keys, std::vector<double>(30, 0)) == 0);
  for (const Setup& s :
       std::vector<Setup>{{{2}, 0, 3, 4, 5}, {{0}, 2, 3, 4, 5}, {{2}, 2, 3, 4, 0}}) {
    const auto none = run(s);
    REQUIRE(none != nullptr);
    CHECK(none->num_elements() == 0);
  }
  // No features: all scores are equal.
  const Problem flat({{}, 4, 6, 0, 2});
  const auto mean = flat.MakeCase(2).Run();
  REQUIRE(mean != nullptr);
  CHECK(Difference(*mean, flat.Want()) < 1e-6);
}

TEST_CASE("attention: more keys than a thread packs") {
  const Problem p({{2}, 2, 90001, 8, 8, {}, {}, {}, {}, {}, 3});
  const auto y = p.MakeCase(2).Run();
  REQUIRE(y != nullptr);
  CHECK(Difference(*y, p.Want()) < 1e-5);
}

TEST_CASE("attention in a program: for all extents that are bound, and not without fusion") {
  const Graph g = ParseGraph(
      "weft 1\ngraph <t, s>(%q: f32[2, t, 3, 16], %k: f32[2, s, 3, 16], %v: f32[2, s, 3, 8], "
      "%m: f32[t, s]) -> (%y) {\n"
      "  %c = Constant() {value = tensor f32[] [4.0]} : ?\n"
      "  %qt = Transpose(%q) {perm = [0, 2, 1, 3]} : ?\n"
      "  %kt = Transpose(%k) {perm = [0, 2, 3, 1]} : ?\n"
      "  %vt = Transpose(%v) {perm = [0, 2, 1, 3]} : ?\n  %a = MatMul(%qt, %kt) : ?\n"
      "  %b = Div(%a, %c) : ?\n  %w = Add(%b, %m) : ?\n  %p = Softmax(%w) : ?\n"
      "  %z = MatMul(%p, %vt) : ?\n  %y = Transpose(%z) {perm = [0, 2, 1, 3]} : ?\n}\n");
  CompileOptions ref, fused, plain;
  ref.backend = "ref";
  fused.backend = plain.backend = "cpu";
  plain.fusion = false;
  const auto want = Compile(g, ref), call = Compile(g, fused), parts = Compile(g, plain);
  const auto calls = [](const Program& p) {
    int count = 0;
    for (NodePtr n : p.graph().TopoOrder()) count += IsOp(n, "weft::Attention");
    return count;
  };
  CHECK(calls(*call) == 1);
  CHECK(call->stats().kernels == 0);
  CHECK(calls(*parts) == 0);
  for (const auto& [t, s] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 7}, {70, 300}}) {
    const auto inputs = RandomProgramInputs(*want, 7, {{"t", t}, {"s", s}});
    const auto w = Session(want).Run(inputs), y = Session(call).Run(inputs);
    CHECK(CompareTensors(*y[0], *w[0]) <= 1);
    CHECK(CompareTensors(*Session(parts).Run(inputs)[0], *w[0]) <= 1);
  }
  CHECK(call->stats().interpreted == 0);
}

TEST_CASE("attention refuses other types") {
  Case c = Problem({{}, 2, 3, 4, 5}).MakeCase(1);
  c.request.input_types.assign(3, DType::kF64);
  c.request.output_types = {DType::kF64};
  CHECK(c.Make() == nullptr);
}

TEST_CASE("the inner loops of attention in every instruction set of this machine") {
  REQUIRE(AttentionKernelNumber(0) != nullptr);
  for (int i = 0; const AttentionKernel* f = AttentionKernelNumber(i); ++i) {
    const std::string name = f->name;
    CAPTURE(name);
    CHECK(f->panel % f->lanes == 0);
    // Every height and width of a tile, with and without what was there before.
    for (int64_t rows = 1; rows <= 15; ++rows)
      for (int64_t width = f->lanes; width <= f->panel; width += f->lanes)
        for (const bool adds : {false, true}) {
          const int64_t depth = 11, a_step = 13, b_step = width + 5 * int64_t(adds),
                        c_step = width + 3;
          const auto a = RandomTensor({rows, a_step}, 1), b = RandomTensor({depth, b_step}, 2),
                     factor = RandomTensor({rows}, 3), c = RandomTensor({rows, c_step}, 4);
          std::vector<double> want;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < c_step; ++j) {
              double sum = j < width && !adds ? 0 : c->at(r * c_step + j);
              if (j < width && adds) sum *= factor->at(r);
              for (int64_t k = 0; j < width && k < depth; ++k)
                sum += a->at(r * a_step + k) * b->at(k * b_step + j);
              want.push_back(sum);
            }
          f->multiply(a->data_as<float>(), a_step, b->data_as<float>(), b_step, width,
                      c->mutable_data_as<float>(), c_step, rows, depth,
                      adds ? factor->data_as<float>() : nullptr);
          CHECK(Difference(*c, want) < 1e-5);
        }
    for (int64_t rows = 1; rows <= 7; ++rows)
      for (const int64_t depth : {1, 7, 16, 33, 64})
        for (int64_t n = 1; n <= 9; ++n) {
          const auto a = RandomTensor({rows, depth + 2}, 1), b = RandomTensor({n, depth + 3}, 2),
                     c = RandomTensor({rows, n + 1}, 4);
          std::vector<double> want;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j <= n; ++j) {
              double sum = j < n ? 0 : c->at(r * (n + 1) + j);
              for (int64_t k = 0; j < n && k < depth; ++k)
                sum += a->at(r * (depth + 2) + k) * b->at(j * (depth + 3) + k);
              want.push_back(sum);
            }
          f->dots(a->data_as<float>(), depth + 2, b->data_as<float>(), depth + 3, n,
                  c->mutable_data_as<float>(), n + 1, rows, depth);
          CHECK(Difference(*c, want) < 1e-5);
        }
    for (float x = -200; x <= 200; x += 0.37f) {
      std::vector<float> row(size_t(f->lanes), x);
      f->bend(row.data(), f->lanes, 30);
      CHECK(std::abs(row[0] - 30 * std::tanh(double(x) / 30)) < 1e-5);
    }
    // Exponentials below 1, in units of the last place. A row of 1 and x has the maximum 0.
    double worst = 0;
    for (float x = -100; x <= 0; x += 0.003f) {
      std::vector<float> row(size_t(f->lanes) * 2, x);
      row[0] = 0;
      float most = -kInf, sum = 0;
      CHECK(f->soften(row.data(), f->lanes + 1, nullptr, 1, &most, &sum) == 0);
      const double want = std::exp(double(x)), got = row[1];
      if (want < 0x1p-126) {
        CHECK(got <= 0x1p-125);
        continue;
      }
      worst = std::max(worst, std::abs(got - want) / std::exp2(std::floor(std::log2(want)) - 23));
      CHECK(row[size_t(f->lanes)] == row[1]);
    }
    MESSAGE(name << ": " << worst << " ulp");
    CHECK(worst < 2);
  }
}

}  // namespace
}  // namespace weft::cpu
