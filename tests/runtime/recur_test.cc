/// recur_test.cc: loops whose iterations are kernels alone (Recur), over random cells, beside the
/// interpreter in double precision; and what a run of a loop leaves for the next one.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "tests/support/body_graphs.h"
#include "tests/support/e2e_util.h"
#include "weft/support/strings.h"

namespace weft::e2e {
namespace {

/// A Scan of a random cell: states of one width, products of them with constants and captures,
/// gates that are cut out of sums, results that are states.
class RandomCell {
 public:
  explicit RandomCell(uint64_t seed) : rng_(seed) {
    type_ = Pick({"f32", "f32", "f64"});
    const std::string batch = Pick({"", "1, ", "2, ", "5, ", "13, "});
    width_ = Number({1, 3, 4, 16, 19, 33});
    states_ = Number({1, 2, 3});
    gates_ = Number({1, 2, 3, 4});
    state_ = fmt::format("{}[{}{}]", type_, batch, width_);
    wide_ = fmt::format("{}[{}{}]", type_, batch, width_ * gates_);
    slices_ = fmt::format("{}[t, {}{}]", type_, batch, width_ * gates_);
    vector_ = batch.empty();
    for (int i = 0; i < states_; ++i) {
      operands_.push_back(fmt::format("%s{}: {}", i, state_));
      inputs_.push_back(fmt::format("%h{}: {}", i, state_));
    }
    operands_.push_back("%x: " + slices_);
    inputs_.push_back("%v: " + wide_);
    Body();
  }
  std::string text() const {
    std::vector<std::string> outputs, types, names;
    for (size_t i = 0; i < results_.size(); ++i) {
      outputs.push_back(fmt::format("%y{}", i));
      types.push_back("?");
    }
    for (const std::string& o : operands_) names.push_back(o.substr(0, o.find(':')));
    const bool back = seed_bit_;
    return fmt::format(
        "graph ({}) -> ({}) {{\n  {} = Scan({}) {{num_scan_inputs = 1, num_captures = {}, {}body = "
        "graph ({}) -> ({}) {{\n{}  }}}} : {}\n}}",
        Join(operands_, ", "), Join(outputs, ", "), Join(outputs, ", "), Join(names, ", "),
        captures_, back ? "scan_input_directions = [1], scan_output_directions = [1], " : "",
        Join(inputs_, ", "), Join(results_, ", "), lines_, Join(types, ", "));
  }

 private:
  std::string Pick(const std::vector<std::string>& from) { return from[rng_() % from.size()]; }
  int64_t Number(const std::vector<int64_t>& from) { return from[rng_() % from.size()]; }
  bool Flip() { return (rng_() & 1) != 0; }
  std::string Line(const std::string& right, const std::string& types = "?") {
    const std::string name = fmt::format("%n{}", next_++);
    lines_ += fmt::format("    {} = {} : {}\n", name, right, types);
    return name;
  }
  std::string Constant(int64_t rows, int64_t columns) {
    std::vector<std::string> v;
    for (int64_t i = 0; i < rows * columns; ++i)
      v.push_back(fmt::format("{}", double(int64_t(rng_() % 201) - 100) / (100 * std::sqrt(rows))));
    return Line(fmt::format("Constant() {{value = tensor {}[{}, {}] [{}]}}", type_, rows, columns,
                            Join(v, ", ")));
  }
  /// rows by a matrix of so many columns.
  std::string Product(const std::string& rows, int64_t columns) {
    const uint64_t kind = rng_() % 3;
    if (kind == 0) {
      const std::string name = fmt::format("m{}", captures_++);
      operands_.push_back(fmt::format("%{}: {}[{}, {}]", name, type_, width_, columns));
      inputs_.push_back(fmt::format("%i{}: {}[{}, {}]", name, type_, width_, columns));
      const std::string scaled = Line(fmt::format("Tanh(%i{})", name));
      return Line(fmt::format("MatMul({}, {})", rows, scaled));
    }
    if (kind == 1 && !vector_)
      return Line(fmt::format("Gemm({}, {}) {{transB = 1}}", rows, Constant(columns, width_)));
    return Line(fmt::format("MatMul({}, {})", rows, Constant(width_, columns)));
  }
  std::string Activated(const std::string& x) {
    return Line(Pick({"Tanh", "Sigmoid", "Softsign"}) + "(" + x + ")");
  }
  void Body() {
    seed_bit_ = Flip();
    std::vector<std::string> gates;
    std::string sum = Line(fmt::format("Add({}, %v)", Product("%h0", width_ * gates_)));
    if (Flip()) sum = Activated(sum);
    if (gates_ == 1) {
      gates = {sum};
    } else {
      std::vector<std::string> types(size_t(gates_), "?");
      for (int64_t i = 0; i < gates_; ++i) gates.push_back(fmt::format("%g{}", i));
      lines_ += fmt::format("    {} = Split({}) {{axis = -1, num_outputs = {}}} : {}\n",
                            Join(gates, ", "), sum, gates_, Join(types, ", "));
    }
    std::string all = Activated(gates[0]);
    for (size_t i = 1; i < gates.size(); ++i)
      all = Line(fmt::format("{}({}, {})", Pick({"Mul", "Add", "Sub"}), all, Activated(gates[i])));
    std::vector<std::string> next;
    for (int64_t i = 0; i < states_; ++i) {
      std::string x = all;
      if (Flip()) x = Line(fmt::format("Mul({}, %h{})", x, states_ - 1 - i));
      if (Flip()) x = Line(fmt::format("Add({}, {})", x, Product(Flip() ? all : "%h0", width_)));
      next.push_back(Activated(x));
    }
    results_ = next;
    // Results: a state, the same twice, what is no state, what the iteration was given.
    results_.push_back(next[0]);
    if (Flip()) results_.push_back(next[0]);
    if (Flip()) results_.push_back(all);
    if (Flip()) results_.push_back("%h0");
  }

  std::mt19937_64 rng_;
  std::string type_, state_, wide_, slices_, lines_;
  int64_t width_ = 0, states_ = 0, gates_ = 0, captures_ = 0;
  int next_ = 0;
  bool seed_bit_ = false, vector_ = false;
  std::vector<std::string> operands_, inputs_, results_;
};

std::vector<TensorPtr> Evaluated(const Graph& g, const std::vector<TensorPtr>& inputs) {
  EvalOptions options;
  options.typed = false;
  return GetEvaluator()->Eval(g, inputs, options);
}

}  // namespace

TEST_CASE("recur: random cells are kernels alone, at any number of steps, in one session") {
  if (!HasCpu()) return;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::string text = RandomCell(seed).text();
    CAPTURE(text);
    const Graph g = FromText(text);
    const auto program = CompileFor(g, "cpu");
    CHECK(program->stats().library_calls == 0);
    CHECK(program->stats().interpreted == 0);
    Session session(program);
    for (int64_t steps : {3, 1, 0, 2, 9, 4}) {
      CAPTURE(steps);
      // The second run goes by what the first one has left, the third with other memory.
      const Reference r = RunReference(g, seed, {{"t", steps}});
      CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
      CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
      const Reference other = RunReference(g, seed + 1000, {{"t", steps}});
      CHECK(Difference(session.Run(other.inputs), other.outputs) <= 1);
    }
  }
}

TEST_CASE("recur: one sum reads pieces of another, and a slice may be one for all columns") {
  if (!HasCpu()) return;
  const auto numbers = [](int n, int salt) {
    std::vector<std::string> v;
    for (int i = 0; i < n; ++i) v.push_back(fmt::format("{}", ((i * 7 + salt) % 13 - 6) / 16.0));
    return Join(v, ", ");
  };
  const Graph pieces =
      FromText(fmt::format(R"(graph (%s: f32[3, 4], %x: f32[t, 3, 4]) -> (%z, %all) {{
    %z, %all = Scan(%s, %x) {{num_scan_inputs = 1, num_captures = 0, body =
      graph (%h: f32[3, 4], %v: f32[3, 4]) -> (%w, %w) {{
        %r1 = Constant() {{value = tensor f32[4, 8] [{}]}} : ?
        %r2 = Constant() {{value = tensor f32[4, 4] [{}]}} : ?
        %p1 = MatMul(%h, %r1) : ?
        %a, %b = Split(%p1) {{axis = -1, num_outputs = 2}} : ?, ?
        %p2 = MatMul(%h, %r2) : ?
        %q = Add(%p2, %a) : ?
        %c, %d = Split(%q) {{axis = -1, num_outputs = 2}} : ?, ?
        %e = Tanh(%c) : ?
        %f = Sigmoid(%d) : ?
        %g = Concat(%f, %e) {{axis = -1}} : ?
        %k = Mul(%g, %b) : ?
        %w = Add(%k, %v) : ?
      }}}} : ?, ?
  }})",
                           numbers(32, 1), numbers(16, 5)));
  const Graph spread = FromText(fmt::format(R"(graph (%s: f32[3, 2], %x: f32[t, 3, k]) -> (%z) {{
    %z = Scan(%s, %x) {{num_scan_inputs = 1, num_captures = 0, body =
      graph (%h: f32[3, 2], %v: f32[3, k]) -> (%w) {{
        %r = Constant() {{value = tensor f32[2, 8] [{}]}} : ?
        %p = MatMul(%h, %r) : ?
        %q = Add(%p, %v) : ?
        %a, %b, %c, %d = Split(%q) {{axis = -1, num_outputs = 4}} : ?, ?, ?, ?
        %e = Mul(%a, %b) : ?
        %f = Mul(%c, %d) : ?
        %w = Sub(%e, %f) : ?
      }}}} : ?
  }})",
                                            numbers(16, 3)));
  Session first(CompileFor(pieces, "cpu")), second(CompileFor(spread, "cpu"));
  for (int64_t steps : {1, 4}) {
    CAPTURE(steps);
    const Reference r = RunReference(pieces, 3, {{"t", steps}});
    CHECK(Difference(first.Run(r.inputs), r.outputs) <= 1);
    for (int64_t columns : {8, 1}) {
      const Reference q = RunReference(spread, 3, {{"t", steps}, {"k", columns}});
      CHECK(Difference(second.Run(q.inputs), q.outputs) <= 1);
    }
  }
}

TEST_CASE("recur: columns that a matrix lacks are refused") {
  const auto code = [](const char* matrix, const char* columns) -> std::optional<ErrorCode> {
    const auto e = Catch([&] {
      CompileFor(FromText(fmt::format("graph (%a: f32[2, 3], %b: {}) -> (%y) {{\n"
                                      "  %y = weft::SmallMatMul(%a, %b) {{{}}} : ?\n}}",
                                      matrix, columns)),
                 "ref");
    });
    return e ? std::optional(e->code) : std::nullopt;
  };
  CHECK(!code("f32[3, 6]", "begin = 2, columns = 4"));
  CHECK(code("f32[3, 5]", "begin = 2, columns = 4") == ErrorCode::kBadAttribute);
  CHECK(code("f32[3, n]", "begin = 2, columns = 4") == ErrorCode::kBadAttribute);
  CHECK(code("f32[3, 5]", "begin = 9223372036854775807, columns = 1") == ErrorCode::kOverflow);
}

TEST_CASE("recur: NaN and infinities in states and slices") {
  if (!HasCpu()) return;
  for (uint64_t seed = 100; seed <= 120; ++seed) {
    const std::string text = RandomCell(seed).text();
    CAPTURE(text);
    const Graph g = FromText(text);
    Session session(CompileFor(g, "cpu"));
    const Reference r = RunReference(g, seed, {{"t", 5}});
    std::vector<TensorPtr> inputs;
    std::mt19937_64 rng(seed);
    for (const TensorPtr& t : r.inputs) {
      const auto copy = std::make_shared<Tensor>(t->dtype(), t->dims());
      for (int64_t i = 0; i < t->num_elements(); ++i)
        copy->set(i, rng() % 17 != 0 ? t->at(i)
                     : rng() % 2     ? std::numeric_limits<double>::quiet_NaN()
                                     : std::numeric_limits<double>::infinity());
      inputs.push_back(copy);
    }
    CHECK(Difference(session.Run(inputs), Evaluated(g, inputs)) <= 1);
  }
}

TEST_CASE("recur: LSTM, GRU and RNN of few and of many rows, both ways, and their gradients") {
  if (!HasCpu()) return;
  for (const char* op : {"LSTM", "GRU", "RNN"})
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      CAPTURE(op);
      CAPTURE(direction);
      for (int64_t rows : {1, 4, 9}) {
        const Graph g = WithGradients(RecurrentGraph(op, direction, std::to_string(rows)));
        Session session(CompileFor(g, "cpu"));
        for (int64_t steps : {4, 1, 6}) {
          const Reference r = RunReference(g, 7, {{"t", steps}});
          CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
        }
      }
    }
}

TEST_CASE("recur: a failing iteration says which it was, and a limit counts them") {
  if (!HasCpu()) return;
  const Graph g = FromText(RandomCell(3).text());
  Session session(CompileFor(g, "cpu"));
  const Reference r = RunReference(g, 3, {{"t", 9}});
  Limits limits;
  limits.iterations = 4;
  const auto caught = Catch([&] {
    const RequestScope scope(limits);
    session.Run(r.inputs);
  });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kLimit);
  CHECK(caught->says("iteration 4"));
  CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  // The same of a run that goes by what another has left.
  const auto again = Catch([&] {
    const RequestScope scope(limits);
    session.Run(r.inputs);
  });
  REQUIRE(again);
  CHECK(again->text == caught->text);
  CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
}

TEST_CASE("recur: a long loop is cancelled, in its first run and in later ones") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%s: f32[1], %x: f32[t, 1]) -> (%z) {
    %z = Scan(%s, %x) {num_scan_inputs = 1, num_captures = 0, body =
      graph (%h: f32[1], %v: f32[1]) -> (%w) {
        %a = Mul(%h, %v) : ?
        %w = Tanh(%a) : ?
      }} : ?
  })");
  Session session(CompileFor(g, "cpu"));
  const auto inputs = [](int64_t steps) {
    return std::vector<TensorPtr>{
        std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1}),
        std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{steps, 1})};
  };
  // Some seconds of them.
  const std::vector<TensorPtr> many = inputs(100'000'000);
  Limits limits;
  limits.iterations = INT64_MAX;
  limits.deadline_s = 0.1;
  for (int run = 0; run < 2; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const auto caught = Catch([&] {
      const RequestScope scope(limits);
      session.Run(many);
    });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kLimit);
    CHECK(caught->says("iteration "));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  }
  session.Run(inputs(3));
}

TEST_CASE("recur: profiled runs, other results and other extents between those that go on") {
  if (!HasCpu()) return;
  for (const int threads : {1, 2})
    for (const char* batch : {"1, ", "8, "}) {
      CAPTURE(threads);
      CAPTURE(batch);
      const Graph g = FromText(fmt::format(
          R"(graph (%s: f32[{0}6], %x: f32[t, {0}6], %r: f32[6, 6]) -> (%z, %all) {{
    %z, %all = Scan(%s, %x, %r) {{num_scan_inputs = 1, num_captures = 1,
      scan_output_directions = [1], body =
      graph (%h: f32[{0}6], %v: f32[{0}6], %m: f32[6, 6]) -> (%w, %w) {{
        %p = MatMul(%h, %m) : ?
        %q = Add(%p, %v) : ?
        %w = Tanh(%q) : ?
      }}}} : ?, ?
  }})",
          batch));
      CompileOptions options;
      options.backend = "cpu";
      options.threads = threads;
      const auto program = Compile(g, options);
      Session session(program);
      std::vector<std::shared_ptr<Tensor>> outputs, others;
      for (uint64_t k = 0; k < 12; ++k) {
        const int64_t steps = k == 5 || k == 6 ? 7 : 9;
        const Reference r = RunReference(g, k, {{"t", steps}});
        auto& to = k % 3 == 2 ? others : outputs;
        if (k == 8)
          session.Profile(r.inputs, &to);
        else
          session.RunInto(r.inputs, &to);
        CHECK(Difference({to.begin(), to.end()}, r.outputs) <= 1);
      }
    }
}

}  // namespace weft::e2e
