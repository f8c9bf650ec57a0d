/// generator_test.cc: texts with caches against the whole text computed anew
/// for each token by the interpreter, which knows of no cache; what a token
/// takes; models and prompts that are refused.
#include "weft/generate/generator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/support/tiny_text_model.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using Tokens = std::vector<int64_t>;

TensorPtr Row(const Tokens& v) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{1, int64_t(v.size())});
  for (size_t i = 0; i < v.size(); ++i) t->set_int(int64_t(i), v[i]);
  return t;
}

/// The most likely tokens, each from all of the text so far.
Tokens Greedy(const TinyTextModel& m, Tokens text, int64_t count) {
  const Graph g = m.Make();
  Tokens made;
  while (int64_t(made.size()) < count) {
    std::vector<TensorPtr> in;
    for (const NodePtr& v : g.inputs()) {
      const std::string& name = v->attrs.name;
      Tokens row(text.size(), 1);
      if (name == "input_ids") row = text;
      for (size_t i = 0; name == "position_ids" && i < row.size(); ++i) row[i] = int64_t(i);
      in.push_back(name.find("past") == 0
                       ? std::make_shared<Tensor>(
                             DType::kF32, std::vector<int64_t>{1, m.kv_heads, 0, m.width / m.heads})
                       : Row(row));
    }
    const TensorPtr logits = GetEvaluator()->Eval(g, in)[0];
    int64_t best = 0;
    const int64_t at = (logits->dims()[1] - 1) * m.tokens;
    for (int64_t i = 0; i < m.tokens; ++i)
      if (logits->at(at + i) > logits->at(at + best)) best = i;
    made.push_back(best);
    text.push_back(best);
  }
  return made;
}

const Tokens kPrompt{3, 1, 4, 1, 5, 9, 2, 6};

GenerateOptions Count(int64_t n) {
  GenerateOptions o;
  o.max_tokens = n;
  return o;
}

std::vector<TinyTextModel> Models() {
  std::vector<TinyTextModel> all(7);
  all[1].kv_heads = 4;
  all[2].kv_heads = 1;
  all[2].softcap = 2;
  all[3].window = 4;
  all[4].has_positions = false;
  all[4].has_mask = false;
  all[5].past = "past_";
  all[5].present = "present_";
  all[5].last_scores = true;
  all[6].has_cache = false;
  return all;
}

void CheckModels(const std::string& backend) {
  int number = 0;
  for (const TinyTextModel& m : Models()) {
    CAPTURE(number);
    ++number;
    CompileOptions compile;
    compile.backend = backend;
    Generator g(m.Make(), compile);
    CHECK(g.vocabulary() == m.tokens);
    Tokens called;
    const auto made = g.Run({kPrompt}, Count(20), [&](size_t text, int64_t token) {
      CHECK(text == 0);
      called.push_back(token);
      return true;
    });
    CHECK(made == std::vector<Tokens>{Greedy(m, kPrompt, 20)});
    CHECK(called == made[0]);
    CHECK(g.stats().new_tokens == 20);
    CHECK(g.stats().steps == 19);
    CHECK(g.stats().cache.caches == (m.has_cache ? 2 * m.layers : 0));
    // Again: what the first text left is not seen.
    CHECK(g.Run({{7, 7}}, Count(5)) == std::vector<Tokens>{Greedy(m, {7, 7}, 5)});
  }
}

TEST_CASE("greedy texts by the reference backend") { CheckModels("ref"); }

TEST_CASE("texts of different lengths in one batch") {
  const std::vector<Tokens> prompts{kPrompt, {2}, {8, 8, 8}, kPrompt};
  for (const bool fed : {true, false}) {
    TinyTextModel m;
    m.has_positions = fed;
    CompileOptions ref;
    ref.backend = "ref";
    Generator g(m.Make(), ref);
    const auto made = g.Run(prompts, Count(6));
    for (size_t i = 0; i < prompts.size(); ++i) CHECK(made[i] == Greedy(m, prompts[i], 6));
    // Side by side, or a length after the other.
    CHECK(g.stats().steps == (fed ? 5 : 15));
  }
}

TEST_CASE("stop tokens and callers end a text") {
  const TinyTextModel m;
  CompileOptions ref;
  ref.backend = "ref";
  Generator g(m.Make(), ref);
  const Tokens all = Greedy(m, kPrompt, 8);
  GenerateOptions o = Count(8);
  o.stop_tokens = {all[3]};
  const size_t first = size_t(std::find(all.begin(), all.end(), all[3]) - all.begin());
  CHECK(g.Run({kPrompt}, o)[0] == Tokens(all.begin(), all.begin() + long(first) + 1));
  int seen = 0;
  CHECK(g.Run({kPrompt}, Count(8), [&](size_t, int64_t) { return ++seen < 2; })[0].size() == 2);
  CHECK(g.Run({kPrompt}, Count(0))[0].empty());
}

TEST_CASE("draws: equal seeds give equal texts, texts of a batch draw apart") {
  CompileOptions ref;
  ref.backend = "ref";
  Generator g(TinyTextModel().Make(), ref);
  GenerateOptions o = Count(12);
  o.sampling.temperature = 1.5;
  o.sampling.seed = 3;
  const auto a = g.Run({kPrompt, kPrompt}, o), b = g.Run({kPrompt, kPrompt}, o);
  CHECK(a == b);
  CHECK(a[0] != a[1]);
  o.sampling.seed = 4;
  CHECK(g.Run({kPrompt}, o)[0] == a[1]);
}

TEST_CASE("what is refused") {
  CompileOptions ref;
  ref.backend = "ref";
  const TinyTextModel m;
  Generator g(m.Make(), ref);
  const auto code = [&](const std::vector<Tokens>& prompts, const GenerateOptions& o) {
    try {
      g.Run(prompts, o);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kInternal;
  };
  CHECK(code({}, Count(1)) == ErrorCode::kBadInput);
  CHECK(code({{}}, Count(1)) == ErrorCode::kBadInput);
  CHECK(code({{m.tokens}}, Count(1)) == ErrorCode::kBadInput);
  CHECK(code({{-1}}, Count(1)) == ErrorCode::kBadInput);
  CHECK(code({{1}}, Count(-1)) == ErrorCode::kUsage);
  GenerateOptions stop = Count(1);
  stop.stop_tokens = {m.tokens};
  CHECK(code({{1}}, stop) == ErrorCode::kBadInput);
  // More tokens than the model has positions: the place is told, and the next
  // text is good.
  try {
    g.Run({kPrompt}, Count(m.positions));
    FAIL("a text beyond the positions");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kIndexRange);
    CHECK(e.place().find("position 64") != std::string::npos);
    CHECK(e.hint().find("fewer positions") != std::string::npos);
  }
  CHECK(g.Run({kPrompt}, Count(4))[0] == Greedy(m, kPrompt, 4));

  Graph other;
  const NodeEntry x(other.AddInput("image", DType::kF32, {1, 3}));
  other.outputs = {NodeEntry(other.AddNode("Relu", {x}))};
  CHECK_THROWS_AS(Generator(other, ref), UserError);
}

TEST_CASE("a text that has ended does not use up positions that others have") {
  TinyTextModel m;
  m.positions = 20;
  CompileOptions ref;
  ref.backend = "ref";
  Generator g(m.Make(), ref);
  const Tokens near_end(18, 3), begin{2};
  int seen = 0;
  const auto made = g.Run({near_end, begin}, Count(12),
                          [&](size_t text, int64_t) { return text == 1 || ++seen < 2; });
  CHECK(made == std::vector<Tokens>{Greedy(m, near_end, 2), Greedy(m, begin, 12)});
}

TEST_CASE("more new tokens than any memory has rows for") {
  TinyTextModel m;
  CompileOptions ref;
  ref.backend = "ref";
  Generator g(m.Make(), ref);
  int seen = 0;
  CHECK(g.Run({kPrompt}, Count(INT64_MAX), [&](size_t, int64_t) { return ++seen < 3; })[0] ==
        Greedy(m, kPrompt, 3));
  CHECK(g.stats().cache.room < 2048);
}

TEST_CASE("a state that is fed back is zeros before each text") {
  // Scores of a token: h = tanh(words[token] + 0.7 h) times them.
  Graph g;
  const SymInt b = SymInt::Symbol("batch");
  const NodeEntry ids(g.AddInput("input_ids", DType::kI64, {b, SymInt(1)})),
      h(g.AddInput("h_in", DType::kF32, {b, SymInt(1), SymInt(4)}));
  const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
    auto t = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{rows, columns});
    for (int64_t i = 0; i < rows * columns; ++i) t->set(i, std::sin(double(i * i) + 1));
    return NodeEntry(g.AddParam(name, t));
  };
  const auto op = [&](const char* name, const std::vector<NodeEntry>& in, const char* as = "") {
    return NodeEntry(g.AddNode(name, in, {}, as));
  };
  const NodeEntry kept = op("Mul", {h, g.AddConstant(Tensor::Scalar(DType::kF32, 0.7))});
  const NodeEntry next =
      op("Tanh", {op("Add", {op("Gather", {weight("words", 5, 4), ids}), kept})}, "h_out");
  g.outputs = {op("MatMul", {next, weight("scores", 4, 5)}, "logits"), next};

  const auto greedy = [&](int64_t token, int64_t count) {
    TensorPtr state = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1, 1, 4});
    Tokens made;
    while (int64_t(made.size()) < count) {
      const auto out = GetEvaluator()->Eval(g, {Row({token}), state});
      token = 0;
      for (int64_t i = 1; i < 5; ++i)
        if (out[0]->at(i) > out[0]->at(token)) token = i;
      made.push_back(token);
      state = out[1];
    }
    return made;
  };
  CompileOptions ref;
  ref.backend = "ref";
  ref.feedback = {"h_out=h_in"};
  Generator generator(g, ref);
  for (int again = 0; again < 2; ++again)
    CHECK(generator.Run({{3}, {1}}, Count(9)) == std::vector<Tokens>{greedy(3, 9), greedy(1, 9)});
  CHECK(generator.Run({{4}}, Count(5)) == std::vector<Tokens>{greedy(4, 5)});
}

TEST_CASE("models whose outputs are no scores of the texts") {
  CompileOptions ref;
  ref.backend = "ref";
  Graph caches;
  const SymInt b = SymInt::Symbol("b"), s = SymInt::Symbol("s"), p = SymInt::Symbol("p");
  const NodeEntry ids(caches.AddInput("input_ids", DType::kI64, {b, s})),
      past(caches.AddInput("past", DType::kI64, {b, p}));
  caches.outputs = {NodeEntry(caches.AddNode("Concat", {past, ids}, {{"axis", int64_t{1}}}))};
  CHECK_THROWS_AS(Generator(caches, ref), UserError);

  Graph joined;  // all texts in one row
  const NodeEntry tokens(joined.AddInput("input_ids", DType::kI64, {b, s}));
  auto shape = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{3});
  for (const int64_t i : {0, 1, 2}) shape->set_int(i, std::vector<int64_t>{1, -1, 1}[size_t(i)]);
  const NodeEntry floats(joined.AddNode("Cast", {tokens}, {{"to", DType::kF32}}));
  joined.outputs = {NodeEntry(joined.AddNode("Reshape", {floats, joined.AddConstant(shape)}))};
  Generator g(joined, ref);
  CHECK(g.Run({{0}}, Count(2))[0] == Tokens{0, 0});
  CHECK_THROWS_AS(g.Run({{0}, {0}}, Count(1)), UserError);
}

// ---- the state of a session ----

TEST_CASE("a session's caches: appended to in place, grown by halves, gone back in") {
  TinyTextModel m;
  m.positions = 1024;
  CompileOptions o;
  o.backend = "ref";
  o.feedback = {"auto"};
  const std::shared_ptr<const Program> program = Compile(m.Make(), o);
  Session session(program);
  std::vector<std::string> names;
  for (const IoSpec& in : session.program().inputs()) names.push_back(in.name);
  CHECK(names == std::vector<std::string>{"input_ids", "attention_mask", "position_ids", "past"});
  CHECK(session.program().outputs().size() == 1);
  CHECK(session.program().variables().size() == 4);
  const auto run = [&](const Tokens& ids, int64_t held) {
    Tokens at;
    for (size_t i = 0; i < ids.size(); ++i) at.push_back(held + int64_t(i));
    return session.Run({Row(ids), Row(Tokens(size_t(held) + ids.size(), 1)), Row(at),
                        Tensor::Scalar(DType::kI64, double(held))})[0];
  };
  CHECK_THROWS_AS(run({1}, 1), UserError);  // nothing is held yet
  run(kPrompt, 0);
  CHECK(session.caches().rows == 8);
  CHECK(session.caches().room == 64);
  CHECK(session.caches().allocations == 1);
  const TensorPtr once = run({5}, 8);
  run({6}, 9);
  CHECK_THROWS_AS(run({1}, 11), UserError);
  // Back by two rows: the same again.
  CHECK(CompareTensors(*run({5}, 8), *once, 0, 0) == 0);
  CHECK(session.caches().rows == 9);
  for (int64_t held = 9; held < 300; ++held) run({held % m.tokens}, held);
  CHECK(session.caches().rows == 300);
  CHECK(session.caches().room == 512);
  CHECK(session.caches().allocations == 4);
  // 64, 128, 256 rows of four caches of two heads of four floats.
  CHECK(session.caches().moved_bytes == (64 + 128 + 256) * 4 * 2 * 4 * 4);
  // Rows that a caller took away, or made others of, are not read.
  const std::string name = session.program().variables()[0].name;
  const TensorPtr whole = session.store()->Get(name);
  session.store()->Set(
      name, std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1, m.kv_heads, 5, 4}));
  CHECK_THROWS_AS(run({1}, 300), UserError);
  session.store()->Set(
      name, std::make_shared<Tensor>(DType::kU8, std::vector<int64_t>{1, m.kv_heads, 512, 4}));
  CHECK_THROWS_AS(run({1}, 300), UserError);
  session.store()->Set(name, std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{512}));
  CHECK_THROWS_AS(run({1}, 300), UserError);
  session.store()->Set(name, whole);
  // Two sessions of one store go on behind each other.
  Session second(program, session.store());
  const auto at = [&](Session& s, int64_t held) {
    return s.Run({Row({1}), Row(Tokens(size_t(held) + 1, 1)), Row({held}),
                  Tensor::Scalar(DType::kI64, double(held))})[0];
  };
  at(second, 300);
  at(session, 301);
  CHECK_THROWS_AS(at(second, 303), UserError);
  at(second, 302);
  // Another batch begins anew.
  CHECK_THROWS_AS(session.Run({std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{2, 1}),
                               std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{2, 2}),
                               std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{2, 1}),
                               Tensor::Scalar(DType::kI64, 1)}),
                  UserError);
}

}  // namespace
}  // namespace weft
