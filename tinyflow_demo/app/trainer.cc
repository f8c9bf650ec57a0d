/// trainer.cc: see trainer.h. What a run does follows from the options alone: the order of
/// pictures, crops and first values depend on seed, epoch and place, never on time or on how often
/// a run was stopped.
#include "app/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/report.h"
#include "app/source.h"
#include "tinyflow/random.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace app {
namespace {

using programs::Model;
using programs::Program;
using tf::data::Loader;

constexpr uint64_t kWritten = 21;  // what Mix is asked for
constexpr int kMostWritten = 300;  // characters of a line
constexpr uint64_t kDefaultSeed = 1;
constexpr double kProgressSeconds = 0.1;

double Scalar(const tf::Array& value) { return value->at(0); }

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  return values[half];
}

/// The value of every variable, to take a step back.
std::vector<tf::Array> Snapshot(const tf::Session& session) {
  std::vector<tf::Array> values;
  for (const tf::VariableInfo& v : session.graph()->variables)
    values.push_back(session.value(v.tensor));
  return values;
}
void Restore(tf::Session* session, const std::vector<tf::Array>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    session->set(session->graph()->variables[i].tensor, values[i]);
}

/// What decides what a run does next, as a checkpoint keeps it.
struct Position {
  int64_t epoch = 0, batch = 0;  ///< to be done next
  int64_t batch_size = 0, images = 0;
  uint64_t seed = 0;
  double rate = 0;  ///< as it was asked for; what it has become since is a variable
};

tf::CheckpointNotes NotesOf(const Position& at) {
  return {{"epoch", std::to_string(at.epoch)},
          {"batch", std::to_string(at.batch)},
          {"batch_size", std::to_string(at.batch_size)},
          {"images", std::to_string(at.images)},
          {"seed", std::to_string(at.seed)},
          {"rate", fmt::format("{}", at.rate)}};
}

/// What NotesOf has made, from file `path`.
Position PositionOf(const tf::CheckpointNotes& notes, const std::string& path) {
  const auto text = [&](const char* key) {
    const auto it = notes.find(key);
    WEFT_CHECK(it != notes.end(), kInvalidModel, "'{}' does not say its {}", path, key);
    return it->second;
  };
  const auto number = [&](const char* key, int64_t least) {
    const std::optional<int64_t> n = weft::TryParseInt64(text(key));
    WEFT_CHECK(n && *n >= least, kInvalidModel, "'{}' says '{}' for its {}", path, text(key), key);
    return *n;
  };
  Position at;
  at.epoch = number("epoch", 0);
  at.batch = number("batch", 0);
  at.batch_size = number("batch_size", 1);
  at.images = number("images", 1);
  at.seed = uint64_t(number("seed", 0));
  const std::optional<double> rate = weft::TryParseDouble(text("rate"));
  WEFT_CHECK(rate && *rate > 0 && std::isfinite(*rate), kInvalidModel,
             "'{}' says '{}' for its rate", path, text("rate"));
  at.rate = *rate;
  WEFT_CHECK(at.batch == 0 || at.batch < Loader::Batches(at.images, at.batch_size), kInvalidModel,
             "'{}' says that it stopped before batch {} of {}", path, at.batch,
             Loader::Batches(at.images, at.batch_size));
  return at;
}

/// Of whatever a run is to do; sizes of the data set are judged when it is there.
void CheckOptions(const TrainOptions& o) {
  const std::pair<const char*, int64_t> counts[] = {{"epochs", o.epochs},
                                                    {"images per step", o.batch},
                                                    {"images", o.images},
                                                    {"steps", o.steps},
                                                    {"threads", o.threads}};
  for (const auto& [what, n] : counts) WEFT_CHECK(n >= 0, kUsage, "{} {}", n, what);
  WEFT_CHECK(!o.seed || *o.seed <= uint64_t(INT64_MAX), kUsage, "seed {} is above 2^63 - 1",
             o.seed.value_or(0));
  if (o.rate) programs::CheckedRate(*o.rate);
  // Better now than after an epoch.
  for (const std::string& file : {o.save, o.report, o.export_onnx})
    WEFT_CHECK(file.empty() || weft::FileExists(weft::DirectoryOf(file)), kIo,
               "cannot write '{}': there is no folder '{}'", file, weft::DirectoryOf(file));
}

class Trainer {
 public:
  explicit Trainer(const TrainOptions& options)
      : options_(options), program_(programs::Find(options.program)) {}

  TrainResult Run() {
    Position at = Begin();
    const int64_t epochs = options_.epochs > 0 ? options_.epochs : program_.epochs;
    if (at.epoch >= epochs)
      fmt::print("the checkpoint has all of {} epochs; nothing to train\n", at.epoch);
    bool stopped = false;
    while (at.epoch < epochs && !stopped) {
      stopped = !TrainEpoch(&at, epochs);
      if (!options_.save.empty()) Save(at);
    }
    Finish(at);
    return result_;
  }

 private:
  int64_t BatchesPerEpoch(const Position& at) const {
    return source_->StepsOf(at.images, at.batch_size);
  }

  /// Where a run begins that goes on from `notes`: what the options leave open is as it was, and an
  /// epoch that has begun ends with the pictures and batches that it began with.
  Position Continued(const tf::CheckpointNotes& notes) const {
    const auto of = notes.find("program");
    WEFT_CHECK(of != notes.end() && of->second == program_.name, kInvalidModel,
               "'{}' is a checkpoint of program '{}', not {}", options_.load,
               of == notes.end() ? "" : of->second, program_.name);
    Position at = PositionOf(notes, options_.load);
    WEFT_CHECK(!options_.seed || *options_.seed == at.seed, kUsage,
               "'{0}' was trained with seed {1}; go on with --seed {1}, or without", options_.load,
               at.seed);
    const auto take = [&](int64_t option, const char* name, int64_t* mine) {
      WEFT_CHECK(at.batch == 0 || option == 0 || option == *mine, kUsage,
                 "'{0}' stopped within an epoch with --{1} {2}; go on with --{1} {2}, or without",
                 options_.load, name, *mine);
      if (option > 0) *mine = option;
    };
    take(options_.batch, "batch", &at.batch_size);
    take(options_.images, "images", &at.images);
    return at;
  }

  Position Begin() {
    CheckOptions(options_);
    std::optional<tf::Checkpoint> checkpoint;
    Position at;
    at.batch_size = options_.batch > 0 ? options_.batch : program_.batch;
    at.images = options_.images;
    at.seed = options_.seed.value_or(kDefaultSeed);
    at.rate = program_.rate;
    if (!options_.load.empty()) {
      checkpoint.emplace(options_.load);
      at = Continued(checkpoint->notes());
    }
    programs::CheckChoices(program_, options_.size, options_.blocks);
    WEFT_CHECK(!program_.synthetic, kUsage,
               "no data set goes with '{}'; time its steps with tinyflow bench", program_.name);
    const double last_rate = at.rate;
    at.rate = options_.rate.value_or(at.rate);
    source_ = SourceOf(program_, options_.data, at.seed);
    result_.examples = source_->examples();
    result_.score = program_.score;
    const int64_t all = source_->count(at.batch_size);
    if (at.images == 0) at.images = all;
    WEFT_CHECK(at.images <= all, kUsage, "{} {} to train on, but there are {}", at.images,
               source_->examples(), all);
    WEFT_CHECK(at.batch_size <= at.images, kUsage,
               "a batch of {} {}, but {} to train on; see --batch and --images", at.batch_size,
               source_->examples(), at.images);
    source_->Truncate(at.images);

    tf::reset_default_graph();
    tf::set_random_seed(at.seed);
    programs::Settings settings;
    settings.rate = at.rate;
    settings.steps_per_epoch = double(BatchesPerEpoch(at));
    settings.size = options_.size;
    settings.blocks = options_.blocks;
    settings.batch = at.batch_size;
    settings.classes = source_->classes();
    model_ = program_.build(settings);
    if (!model_.correct)
      model_.correct =
          tf::reduce_sum(tf::cast(tf::equal(tf::argmax(model_.logits, 1), model_.y), tf::float32));
    session_ = std::make_unique<tf::Session>(
        SessionConfig(options_.device, options_.delegates, options_.fusion), options_.threads,
        options_.tune, options_.memory, options_.division);
    if (checkpoint) {
      checkpoint->Restore(session_.get());
      if (at.rate != last_rate) SetRate(at.rate);
    } else {
      session_->run(tf::initialize_all_variables());
      for (const tf::Tensor& t : model_.initialize) session_->run(t);
    }
    return at;
  }

  /// Another rate than the checkpoint's goes before what that one has become; the same one goes on.
  void SetRate(double rate) {
    for (const tf::VariableInfo& v : session_->graph()->variables)
      if (weft::EndsWith(v.tensor.name(), "/learning_rate"))
        session_->set(v.tensor, weft::Tensor::Scalar(tf::float32, rate));
  }

  Loader::Options LoaderOptions(const Position& at) const {
    Loader::Options o;
    o.batch = at.batch_size;
    o.shuffle = o.augment = true;
    o.seed = at.seed;
    o.epoch = uint64_t(at.epoch);
    o.first_batch = at.batch;
    return o;
  }

  /// False where --steps has ended it early.
  bool TrainEpoch(Position* at, int64_t epochs) {
    const weft::Timer timer;
    if (at->batch == 0) Forget();
    Batches batches = source_->Train(LoaderOptions(*at));
    double sum = 0, shown = 0;
    int64_t count = 0;
    weft::Timer step;
    while (const tf::data::Batch* batch = batches()) {
      const double loss = Step(*batch);
      ms_.push_back(step.milliseconds());
      step.Restart();
      result_.losses.push_back(loss);
      sum += loss;
      ++count;
      ++at->batch;
      ++result_.steps;
      if (options_.show_progress && timer.seconds() - shown > kProgressSeconds) {
        shown = timer.seconds();
        fmt::print(stderr, "\repoch {}/{}  step {}/{}  loss {:.4f}  {:.2f} ms per step ",
                   at->epoch + 1, epochs, at->batch, BatchesPerEpoch(*at), loss, ms_.back());
      }
      if (options_.steps > 0 && result_.steps >= options_.steps) break;
    }
    const bool whole = at->batch >= BatchesPerEpoch(*at);
    if (whole) {
      at->batch = 0;
      ++at->epoch;
    }
    result_.loss = count > 0 ? sum / double(count) : 0;
    const double seconds = timer.seconds();
    batches = nullptr;  // and with it the memory of those that were made ahead
    Test(*at);
    result_.history.push_back(
        {at->epoch + (whole ? 0 : 1), result_.loss, result_.test_accuracy, seconds});
    if (options_.show_progress) fmt::print(stderr, "\r\x1b[K");
    fmt::print("epoch {}/{}  loss {:.4f}  test {} {:.2f} %{}  {} steps, {:.1f} s\n",
               result_.history.back().number, epochs, result_.loss, program_.score,
               100 * result_.test_accuracy,
               result_.text ? fmt::format(", perplexity {:.3f}, {:.3f} bits per character",
                                          result_.text->perplexity(), result_.text->bits())
                            : "",
               count, seconds);
    std::fflush(stdout);
    return whole && !(options_.steps > 0 && result_.steps >= options_.steps);
  }

  /// What a step remembers, before there is one.
  void Forget() {
    for (const tf::Tensor& v : model_.remembered)
      session_->set(v, std::make_shared<weft::Tensor>(v.dtype(), v.shape().ints()));
  }

  /// Of all batches, in inference; what training remembers stays as it is.
  Score ScoreOf(const Batches& batches) {
    const bool of_text = program_.data == programs::Data::kText;
    std::vector<tf::Array> remembered;
    for (const tf::Tensor& v : model_.remembered) remembered.push_back(session_->value(v));
    Forget();
    std::vector<tf::Tensor> fetches{model_.correct};
    if (of_text) fetches.push_back(model_.loss);
    if (model_.carry) fetches.push_back(model_.carry);
    double right = 0, loss = 0, labels = 0;
    while (const tf::data::Batch* batch = batches()) {
      const std::vector<tf::Array> values = session_->run(
          fetches, {{model_.x, batch->x}, {model_.y, batch->y}}, tf::Mode::kInference);
      const auto n = double(batch->y->num_elements());
      right += Scalar(values[0]);
      if (of_text) loss += n * Scalar(values[1]);
      labels += n;
    }
    for (size_t i = 0; i < remembered.size(); ++i)
      session_->set(model_.remembered[i], remembered[i]);
    return labels > 0 ? Score{right / labels, loss / labels} : Score();
  }
  void Test(const Position& at) {
    const Score score = ScoreOf(source_->Test(at.batch_size));
    result_.test_accuracy = score.accuracy;
    if (program_.data == programs::Data::kText) result_.text = score;
  }

  double Step(const tf::data::Batch& batch) {
    const tf::Feeds feeds{{model_.x, batch.x}, {model_.y, batch.y}};
    std::vector<tf::Array> before;
    if (options_.check_nan) before = Snapshot(*session_);
    const double loss = Scalar(session_->run({model_.train_step, model_.loss}, feeds)[1]);
    if (options_.check_nan) CheckStep(before, feeds, loss);
    if (!last_.x)
      last_ = {std::make_shared<weft::Tensor>(*batch.x), std::make_shared<weft::Tensor>(*batch.y)};
    return loss;
  }

  void CheckStep(const std::vector<tf::Array>& before, const tf::Feeds& feeds, double loss) {
    bool bad = !std::isfinite(loss);
    for (const tf::Array& value : Snapshot(*session_)) bad = bad || tf::has_nan(*value);
    if (!bad) return;
    Restore(session_.get(), before);
    std::string culprit = tf::find_first_nan(session_.get(), model_.loss, feeds);
    if (culprit.empty()) culprit = tf::find_first_nan(session_.get(), model_.train_step, feeds);
    if (culprit.empty()) culprit = "run again one operator at a time, all was finite";
    weft::ThrowError(weft::ErrorCode::kCheckFailed,
                     fmt::format("step {}: the loss or a variable is not finite: {}",
                                 result_.steps + 1, culprit),
                     "", "a lower learning rate, if numbers have grown from step to step");
  }

  void Save(const Position& at) {
    tf::CheckpointNotes notes = NotesOf(at);
    notes["program"] = program_.name;
    tf::save_checkpoint(*session_, options_.save, notes);
  }

  void Finish(const Position& at) {
    result_.epochs = at.epoch;
    result_.step_ms = Median(ms_);
    result_.train_accuracy = ScoreOf(source_->Trained(at.batch_size)).accuracy;
    if (result_.history.empty()) Test(at);
    if (model_.writer)
      result_.written = Write(session_.get(), *model_.writer, source_->alphabet(), at.seed);
    if (!options_.export_onnx.empty())
      session_->export_onnx({model_.logits}, {model_.x}, options_.export_onnx);
    if (!last_.x) return;
    const tf::Feeds feeds{{model_.x, last_.x}, {model_.y, last_.y}};
    const std::vector<tf::Tensor> fetches{model_.train_step, model_.loss};
    result_.program = session_->info(fetches, feeds);
    if (options_.report.empty()) return;
    // Steps take place while they are timed; the variables go back to where they were.
    const std::vector<tf::Array> trained = Snapshot(*session_);
    ReportData report{&options_, &program_, &result_, {}};
    report.profile = weft::ProfileSteps([&] { return session_->profile(fetches, feeds); },
                                        weft::MachineOf(result_.program.backend, options_.threads));
    Restore(session_.get(), trained);
    WriteReport(options_.report, report);
  }

  TrainOptions options_;
  const Program& program_;
  std::unique_ptr<Source> source_;
  Model model_;
  std::unique_ptr<tf::Session> session_;
  tf::data::Batch last_;  // one that steps can be timed with at the end
  std::vector<double> ms_;
  TrainResult result_;
};

}  // namespace

double Score::perplexity() const { return std::exp(loss); }
double Score::bits() const { return loss / std::log(2.0); }

std::string Write(tf::Session* session, const programs::Writer& writer,
                  const std::vector<std::string>& alphabet, uint64_t seed) {
  const auto line_end = std::find(alphabet.begin(), alphabet.end(), "\n");
  int64_t now = line_end == alphabet.end() ? 0 : line_end - alphabet.begin();
  std::vector<tf::Array> state;
  for (const tf::Tensor& s : writer.state) {
    weft::Shape one = s.shape();
    for (int i = 0; i < one.rank(); ++i)
      if (!one[i].try_value()) one.set(i, 1);
    state.push_back(std::make_shared<weft::Tensor>(s.dtype(), one.ints()));
  }
  std::vector<tf::Tensor> fetches{tf::nn::softmax(writer.logits)};
  fetches.insert(fetches.end(), writer.next.begin(), writer.next.end());
  std::string line;
  for (int i = 0; i < kMostWritten; ++i) {
    tf::Feeds feeds{{writer.x, std::make_shared<weft::Tensor>(tf::int64, tf::Ints{1, 1})}};
    std::const_pointer_cast<weft::Tensor>(feeds[0].second)->set_int(0, now);
    for (size_t k = 0; k < state.size(); ++k) feeds.emplace_back(writer.state[k], state[k]);
    std::vector<tf::Array> values = session->run(fetches, feeds, tf::Mode::kInference);
    double left = double(tf::Mix(seed, kWritten, uint64_t(i)) >> 11) * 0x1p-53;
    now = 0;
    while (now + 1 < values[0]->num_elements() && (left -= values[0]->at(now)) >= 0) ++now;
    state.clear();  // results of a session are its own until the next run
    for (size_t k = 1; k < values.size(); ++k)
      state.push_back(std::make_shared<weft::Tensor>(*values[k]));
    if (alphabet.at(size_t(now)) == "\n") break;
    line += alphabet[size_t(now)];
  }
  return line;
}

TrainResult Train(const TrainOptions& options) { return Trainer(options).Run(); }

}  // namespace app
