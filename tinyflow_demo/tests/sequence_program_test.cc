/// sequence_program_test.cc: the programs on sequences: a small language model learns a text that
/// is made here, the cell that adds learns to add; with fusion as without, the same twice, and when
/// they were stopped in between.
#include <algorithm>

#include "app/bench.h"
#include "app/source.h"
#include "app/trainer.h"
#include "tests/util.h"
#include "tinyflow/random.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

using app::TrainOptions;
using app::TrainResult;
using weft::ErrorCode;

/// Sentences of few words by a rule that can be learned, in a file.
struct Sentences : Folder {
  Sentences() {
    const std::vector<std::string> who{"the cat", "a dog", "the old man"},
        does{" sees ", " hears ", " likes "};
    std::string text;
    for (uint64_t i = 0; i < 1500; ++i)
      text += who[Mix(i, 1) % 3] + does[Mix(i, 2) % 3] + who[Mix(i, 3) % 3] + ".\n\n";
    weft::WriteFileAtomic(file(), text);
  }
  std::string file() const { return *this / "text"; }
};

TrainOptions Small(const Sentences& text) {
  TrainOptions o;
  o.program = "char_lstm";
  o.data = text.file();
  o.size = 24;
  o.batch = 8;
  o.epochs = 1;
  o.rate = 0.02;
  return o;
}

TEST_CASE("a language model learns, with fusion as without, and writes") {
  const Sentences text;
  TrainOptions o = Small(text);
  const TrainResult fused = app::Train(o);
  const size_t n = fused.losses.size();
  REQUIRE(n > 100);
  CHECK(std::abs(fused.losses[0] - std::log(22.0)) < 0.5);  // 22 characters, all alike
  REQUIRE(fused.text);
  CHECK(fused.text->perplexity() < 2.2);  // of 3 x 3 x 3 sentences of 24 characters: 1.15
  CHECK(fused.text->perplexity() > 1.1);
  CHECK(fused.text->bits() == doctest::Approx(std::log2(fused.text->perplexity())));
  CHECK(fused.test_accuracy > 0.7);
  CHECK(!fused.written.empty());
  for (const char c : fused.written)
    CHECK(std::string("abcdefghijklmnopqrstuvwxyz .").find(c) != std::string::npos);
  o.fusion = false;
  o.steps = 12;
  const TrainResult plain = app::Train(o);
  for (size_t i = 0; i < plain.losses.size(); ++i)
    CHECK(std::abs(fused.losses[i] - plain.losses[i]) < 2e-3);
}

TEST_CASE("a language model goes on where it was stopped, what it remembers included") {
  const Sentences text;
  TrainOptions o = Small(text);
  o.images = 96;  // windows of 35 characters, 12 steps
  o.epochs = 2;
  o.save = text / "whole";
  const TrainResult whole = app::Train(o);
  REQUIRE(whole.steps == 24);
  o.save = text / "part";
  o.steps = 17;
  std::vector<double> losses = app::Train(o).losses;
  o.load = o.save;
  o.steps = 0;
  const TrainResult rest = app::Train(o);
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  CHECK(losses == whole.losses);
  CHECK(weft::ReadFile(text / "part") == weft::ReadFile(text / "whole"));
  CHECK(rest.written == whole.written);
}

TEST_CASE("a language model's data: none, too little, of another size") {
  const Sentences text;
  TrainOptions o = Small(text);
  o.data = text / "nothing";
  CheckThrows([&] { app::Train(o); }, ErrorCode::kIo, "jargon-text");
  weft::WriteFileAtomic(text / "short", "a few words");
  o.data = text / "short";
  CheckThrows([&] { app::Train(o); }, ErrorCode::kUsage, "too short for a batch of 8");
  o = Small(text);
  o.images = 1 << 20;
  CheckThrows([&] { app::Train(o); }, ErrorCode::kUsage, "1048576 windows to train on");
  o.program = "softmax";
  CheckThrows([&] { app::Train(o); }, ErrorCode::kUsage, "no choice of size");
}

TEST_CASE("the Jargon File, where its package is installed") {
  if (!weft::FileExists(data::kJargonFile)) {
    MESSAGE("not there: " << std::string(data::kJargonFile));
    return;
  }
  const data::Text text = data::ReadText();
  CHECK(text.size() == 1'501'347);
  CHECK(text.classes() == programs::Find("char_lstm").classes);
  TrainOptions o;
  o.program = "char_lstm";
  o.size = 16;
  o.images = 320;
  o.epochs = 1;
  const TrainResult r = app::Train(o);
  CHECK(r.losses.back() < r.losses.front());
}

TEST_CASE(
    "a transformer learns, with fusion as without, goes on where it was stopped, and writes") {
  const Sentences text;
  TrainOptions o = Small(text);
  o.program = "transformer";
  o.size = 32;
  o.blocks = 2;
  o.save = text / "whole";
  o.rate = 0.01;
  const TrainResult whole = app::Train(o);
  const size_t n = whole.losses.size();
  REQUIRE(n > 50);
  CHECK(std::abs(whole.losses[0] - std::log(22.0)) < 1);
  REQUIRE(whole.text);
  CHECK(whole.text->perplexity() < 3);
  CHECK(whole.text->perplexity() > 1.1);
  CHECK(!whole.written.empty());

  o.save = text / "part";
  o.steps = int64_t(n) - 9;
  std::vector<double> losses = app::Train(o).losses;
  o.load = o.save;
  o.steps = 0;
  const TrainResult rest = app::Train(o);
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  CHECK(losses == whole.losses);
  CHECK(weft::ReadFile(text / "part") == weft::ReadFile(text / "whole"));
  CHECK(rest.written == whole.written);

  o.load.clear();
  o.fusion = false;
  o.steps = 5;
  const TrainResult plain = app::Train(o);
  for (size_t i = 0; i < plain.losses.size(); ++i)
    CHECK(std::abs(plain.losses[i] - whole.losses[i]) < 2e-3);
  CHECK(whole.program.kernels < plain.program.kernels / 3);
}

TEST_CASE("a transformer looks back only") {
  const Fresh fresh;
  const programs::Program& p = programs::Find("transformer");
  programs::Settings settings{p.rate, 100, 100};
  settings.size = 16;
  settings.blocks = 2;
  const programs::Model model = p.build(settings);
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  const auto logits = [&](int64_t at, int64_t character) {
    auto x = std::make_shared<weft::Tensor>(int64, Ints{1, p.steps});
    for (int64_t i = 0; i < p.steps; ++i) x->set_int(i, i % 7);
    x->set_int(at, character);
    return Values(sess.run(model.logits, {{model.x, x}}, Mode::kInference));
  };
  const std::vector<double> a = logits(40, 1), b = logits(40, 2);
  for (int64_t i = 0; i < p.steps; ++i) {
    double apart = 0;
    for (int64_t c = 0; c < p.classes; ++c)
      apart =
          std::max(apart, std::abs(a[size_t(i * p.classes + c)] - b[size_t(i * p.classes + c)]));
    CAPTURE(i);
    CHECK((apart > 1e-5) == (i >= 40));
  }
}

TEST_CASE(
    "the licence that a transformer learns, at batches that its last twentieth does not fill") {
  const data::Text text = data::ReadText(data::kLicence);
  CHECK(text.classes() == programs::Find("transformer").classes);
  TrainOptions o;
  o.program = "transformer";
  o.size = 8;
  o.batch = 64;
  o.steps = 8;
  o.rate = 0.01;
  const TrainResult r = app::Train(o);
  REQUIRE(r.losses.size() == 8);
  CHECK(r.losses.back() < r.losses.front());
  CHECK(r.text->perplexity() < double(text.classes()));
  o.data = "/nowhere";
  CheckThrows([&] { app::Train(o); }, ErrorCode::kIo, "jargon-text");
  o.data.clear();
  o.batch = 1024;
  CheckThrows([&] { app::Train(o); }, ErrorCode::kUsage, "too short for a batch of 1024");
}

TEST_CASE("a cell learns to add numbers of any length, with fusion as without") {
  TrainOptions o;
  o.program = "addition_loop";
  o.epochs = 2;
  const TrainResult r = app::Train(o);
  // Twice as many digits as it has seen, all of them right.
  CHECK(r.test_accuracy >= 0.99);
  CHECK(r.train_accuracy >= 0.99);
  o.images = 320;
  o.epochs = 1;
  const TrainResult fused = app::Train(o);
  o.fusion = false;
  const TrainResult plain = app::Train(o);
  REQUIRE(fused.losses.size() == 10);
  for (size_t i = 0; i < fused.losses.size(); ++i)
    CHECK(std::abs(fused.losses[i] - plain.losses[i]) < 1e-4);
}

TEST_CASE("how often the loop runs, the batch decides; no program is compiled for it") {
  const Fresh fresh;
  const programs::Program& p = programs::Find("addition_loop");
  const programs::Model model = p.build({p.rate});
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  const auto loss = [&](std::vector<int64_t> numbers) {
    auto x = std::make_shared<weft::Tensor>(int64, Ints{int64_t(numbers.size()) / 2, 2}),
         y = std::make_shared<weft::Tensor>(int64, Ints{int64_t(numbers.size()) / 2});
    for (size_t i = 0; i < numbers.size(); ++i) x->set_int(int64_t(i), numbers[i]);
    for (size_t i = 0; i < numbers.size(); i += 2)
      y->set_int(int64_t(i / 2), numbers[i] + numbers[i + 1]);
    return sess.run({model.loss, model.correct}, {{model.x, x}, {model.y, y}})[0]->at(0);
  };
  // A second row of nothing adds no step to the first, and one of many digits does.
  const double one = loss({3, 1});
  CHECK(loss({3, 1, 3, 1}) == doctest::Approx(one));
  CHECK(loss({3, 1, 1, 3, 40, 1'000'000}) != doctest::Approx(one));
  CHECK(loss({0, 0}) == 0);  // no step at all
  CHECK(sess.compiled() == 2);
}

TEST_CASE("steps of the programs on sequences are timed on random operands") {
  for (const char* name : {"char_lstm", "addition_loop", "transformer"}) {
    CAPTURE(name);
    app::BenchOptions o;
    o.program = name;
    o.batch = 4;
    o.size = 8;
    o.seconds = 0.01;
    o.profile = true;
    const app::BenchResult r = app::Bench(o);
    CHECK(r.step_ms > 0);
    CHECK(std::isfinite(r.loss));
    CHECK(r.losses.back() < r.losses.front());
    CHECK(!r.profile.empty());
  }
}

}  // namespace
}  // namespace tf::test
