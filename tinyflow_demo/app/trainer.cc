/// trainer.cc: see trainer.h. What a run does follows from the options alone: the order of pictures, crops and first values
/// depend on seed, epoch and place, never on time or on how often a run was stopped.
#include "app/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/report.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace app {
namespace {

using programs::Model;
using programs::Program;
using tf::data::Loader;

constexpr int64_t kEvaluationBatch = 250;
constexpr int64_t kTrainAccuracyPictures = 10'000;  // as many as there are to test
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

/// Where a run stands, as a checkpoint keeps it.
struct Position {
  int64_t epoch = 0, batch = 0;  ///< to be done next
  uint64_t seed = kDefaultSeed;
};

int64_t Note(const tf::CheckpointNotes& notes, const std::string& key) {
  const auto it = notes.find(key);
  WEFT_CHECK(it != notes.end(), kInvalidModel, "the checkpoint does not say its {}", key);
  return weft::ParseInt64(it->second, key);
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
  int64_t Batch() const { return options_.batch > 0 ? options_.batch : program_.batch; }
  int64_t BatchesPerEpoch() const { return Loader::Batches(train_->count, Batch()); }

  Position Begin() {
    tf::CheckpointNotes notes;
    if (!options_.load.empty()) {
      notes = tf::read_checkpoint_notes(options_.load);
      const std::string& of = notes["program"];
      WEFT_CHECK(of == program_.name, kInvalidModel, "'{}' is a checkpoint of program '{}', not {}",
                 options_.load, of, program_.name);
    }
    Position at;
    if (options_.seed) at.seed = *options_.seed;
    if (!notes.empty()) {
      at.epoch = Note(notes, "epoch");
      at.batch = Note(notes, "batch");
      WEFT_CHECK(at.epoch >= 0 && at.batch >= 0, kInvalidModel,
                 "'{}' says that it stopped in epoch {}, batch {}", options_.load, at.epoch,
                 at.batch);
      if (!options_.seed) at.seed = uint64_t(Note(notes, "seed"));
      WEFT_CHECK(at.batch == 0 || Note(notes, "batch_size") == Batch(), kUsage,
                 "the checkpoint stopped within an epoch of batches of {}; go on with --batch {}",
                 Note(notes, "batch_size"), Note(notes, "batch_size"));
    }
    tf::data::DataSet set = tf::data::ReadFashionMnist(options_.data);
    set.train.Truncate(options_.images);
    train_ = std::make_shared<tf::data::Pictures>(std::move(set.train));
    test_ = std::make_shared<tf::data::Pictures>(std::move(set.test));

    tf::reset_default_graph();
    tf::set_random_seed(at.seed);
    programs::Settings settings;
    settings.rate = options_.rate.value_or(program_.rate);
    settings.steps_per_epoch = double(BatchesPerEpoch());
    model_ = program_.build(settings);
    correct_ =
        tf::reduce_sum(tf::cast(tf::equal(tf::argmax(model_.logits, 1), model_.y), tf::float32));
    session_ = std::make_unique<tf::Session>(options_.device + (options_.fusion ? " fusion" : ""),
                                             options_.threads);
    if (!notes.empty()) {
      tf::load_checkpoint(session_.get(), options_.load);
      SetRate();
    } else {
      session_->run(tf::initialize_all_variables());
      for (const tf::Tensor& t : model_.initialize) session_->run(t);
    }
    return at;
  }

  /// The rate of the command line goes before the checkpoint's.
  void SetRate() {
    if (!options_.rate) return;
    for (const tf::VariableInfo& v : session_->graph()->variables)
      if (weft::EndsWith(v.tensor.name(), "/learning_rate"))
        session_->set(v.tensor, weft::Tensor::Scalar(tf::float32, *options_.rate));
  }

  Loader::Options LoaderOptions(const Position& at) const {
    Loader::Options o;
    o.batch = Batch();
    o.shuffle = o.augment = true;
    o.seed = at.seed;
    o.epoch = uint64_t(at.epoch);
    o.first_batch = at.batch;
    return o;
  }

  /// False where --steps has ended it early.
  bool TrainEpoch(Position* at, int64_t epochs) {
    const weft::Timer timer;
    Loader loader(train_, program_.layout, LoaderOptions(*at));
    double sum = 0, shown = 0;
    int64_t count = 0;
    weft::Timer step;
    while (const tf::data::Batch* batch = loader.Next()) {
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
        fmt::print(stderr, "\repoch {}/{}  step {}/{}  loss {:.4f}  {:.2f} ms a step ",
                   at->epoch + 1, epochs, at->batch, BatchesPerEpoch(), loss, ms_.back());
      }
      if (options_.steps > 0 && result_.steps >= options_.steps) break;
    }
    const bool whole = at->batch >= BatchesPerEpoch();
    if (whole) {
      at->batch = 0;
      ++at->epoch;
    }
    result_.loss = count > 0 ? sum / double(count) : 0;
    const double seconds = timer.seconds();
    const double test = Accuracy(session_.get(), model_, correct_, test_, program_.layout);
    result_.test_accuracy = test;
    result_.history.push_back({at->epoch + (whole ? 0 : 1), result_.loss, test, seconds});
    if (options_.show_progress) fmt::print(stderr, "\r\x1b[K");
    fmt::print("epoch {}/{}  loss {:.4f}  test accuracy {:.2f} %  {} steps, {:.1f} s\n",
               result_.history.back().number, epochs, result_.loss, 100 * test, count, seconds);
    std::fflush(stdout);
    return whole && !(options_.steps > 0 && result_.steps >= options_.steps);
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
    if (culprit.empty()) culprit = "no operator made it from finite numbers when run again";
    WEFT_THROW(kCheckFailed, "step {}: the loss or a variable is not finite: {}", result_.steps + 1,
               culprit);
  }

  void Save(const Position& at) {
    tf::save_checkpoint(*session_, options_.save,
                        {{"program", program_.name},
                         {"epoch", std::to_string(at.epoch)},
                         {"batch", std::to_string(at.batch)},
                         {"batch_size", std::to_string(Batch())},
                         {"seed", std::to_string(int64_t(at.seed))}});
  }

  void Finish(const Position& at) {
    result_.epochs = at.epoch;
    result_.step_ms = Median(ms_);
    tf::data::Pictures some = *train_;
    some.Truncate(kTrainAccuracyPictures);
    result_.train_accuracy =
        Accuracy(session_.get(), model_, correct_,
                 std::make_shared<tf::data::Pictures>(std::move(some)), program_.layout);
    if (result_.history.empty())
      result_.test_accuracy = Accuracy(session_.get(), model_, correct_, test_, program_.layout);
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
    for (int i = 0; i < kProfiledSteps; ++i)
      report.profile.push_back(session_->profile(fetches, feeds));
    Restore(session_.get(), trained);
    WriteReport(options_.report, report);
  }

  static constexpr int kProfiledSteps = 9;
  TrainOptions options_;
  const Program& program_;
  std::shared_ptr<const tf::data::Pictures> train_, test_;
  Model model_;
  tf::Tensor correct_;
  std::unique_ptr<tf::Session> session_;
  tf::data::Batch last_;  // one that steps can be timed with at the end
  std::vector<double> ms_;
  TrainResult result_;
};

}  // namespace

double Accuracy(tf::Session* session, const Model& model, const tf::Tensor& correct,
                std::shared_ptr<const tf::data::Pictures> pictures,
                const tf::data::Layout& layout) {
  Loader::Options o;
  o.batch = kEvaluationBatch;
  const int64_t count = pictures->count;
  Loader loader(std::move(pictures), layout, o);
  double right = 0;
  while (const tf::data::Batch* batch = loader.Next())
    right += Scalar(
        session->run(correct, {{model.x, batch->x}, {model.y, batch->y}}, tf::Mode::kInference));
  return count > 0 ? right / double(count) : 0;
}

TrainResult Train(const TrainOptions& options) { return Trainer(options).Run(); }

}  // namespace app
