/// source.cc: see source.h.
#include "app/source.h"

#include <algorithm>

#include "app/bench.h"
#include "tinyflow/random.h"
#include "weft/support/check.h"

namespace app {
namespace {

using tf::data::Batch;
using tf::data::Loader;

constexpr int64_t kEvaluationBatch = 250;
constexpr int64_t kMostTrained = 10'000;  // as many as there are pictures to test
// What Mix is asked for.
enum Purpose : uint64_t { kTraining = 11, kTest = 12, kOperands = 3 };

/// Batches that `make` gives by their number.
Batches Numbered(int64_t first, int64_t count, std::function<Batch(int64_t)> make) {
  auto state = std::make_shared<std::pair<int64_t, Batch>>(first, Batch());
  return [state, count, make = std::move(make)]() -> const Batch* {
    if (state->first >= count) return nullptr;
    state->second = make(state->first++);
    return &state->second;
  };
}

class Pictures : public Source {
 public:
  Pictures(const programs::Program& program, const std::string& folder) : layout_(program.layout) {
    tf::data::DataSet set = tf::data::ReadFashionMnist(folder);
    train_ = std::make_shared<tf::data::Pictures>(std::move(set.train));
    test_ = std::make_shared<tf::data::Pictures>(std::move(set.test));
  }
  const char* examples() const override { return "images"; }
  int64_t count(int64_t) const override { return train_->count; }
  void Truncate(int64_t n) override { train_ = First(n); }
  int64_t StepsOf(int64_t examples, int64_t batch) const override {
    return Loader::Batches(examples, batch);
  }
  Batches Train(const Loader::Options& options) const override { return Of(train_, options); }
  Batches Test(int64_t) const override { return Of(test_, InOrder()); }
  Batches Trained(int64_t) const override { return Of(First(kMostTrained), InOrder()); }

 private:
  using Set = std::shared_ptr<const tf::data::Pictures>;
  static Loader::Options InOrder() {
    Loader::Options o;
    o.batch = kEvaluationBatch;
    return o;
  }
  Set First(int64_t n) const {
    tf::data::Pictures some = *train_;
    some.Truncate(n);
    return std::make_shared<const tf::data::Pictures>(std::move(some));
  }
  Batches Of(Set set, const Loader::Options& options) const {
    auto loader = std::make_shared<Loader>(std::move(set), layout_, options);
    return [loader] { return loader->Next(); };
  }
  tf::data::Layout layout_;
  Set train_, test_;
};

/// The last twentieth of a text is to test on.
class Characters : public Source {
 public:
  Characters(const programs::Program& program, const std::string& path)
      : text_(tf::data::ReadText(path.empty() ? program.text : path)),
        steps_(program.steps),
        remembers_(program.remembers),
        end_(text_.size() - text_.size() / 20) {}
  const char* examples() const override { return "windows"; }
  int64_t classes() const override { return text_.classes(); }
  int64_t count(int64_t batch) const override {
    WEFT_CHECK(
        Tested(batch).batches() > 0 && Of(0, end_, batch).batches() > 0, kUsage,
        "a text of {} characters, the last twentieth to test on, is too short for a batch of {} "
        "rows of {}",
        text_.size(), batch, steps_);
    return Of(0, end_, batch).batches() * batch;
  }
  /// What is counted are windows of so many characters as a sequence has.
  void Truncate(int64_t n) override { end_ = std::min(end_, n * steps_ + 1); }
  int64_t StepsOf(int64_t examples, int64_t batch) const override { return examples / batch; }
  Batches Train(const Loader::Options& o) const override {
    return Passed(Of(0, end_, o.batch), o.first_batch);
  }
  Batches Test(int64_t batch) const override { return Passed(Tested(batch), 0); }
  Batches Trained(int64_t batch) const override {
    return Passed(Of(0, std::min(end_, text_.size() / 20), Rows(batch)), 0);
  }
  std::vector<std::string> alphabet() const override { return text_.alphabet; }

 private:
  tf::data::TextLayout Of(int64_t begin, int64_t end, int64_t batch) const {
    return {begin, end, batch, steps_};
  }
  /// Of the last twentieth of the text; a model that takes any batch is given smaller ones.
  tf::data::TextLayout Tested(int64_t batch) const {
    return Of(text_.size() - text_.size() / 20, text_.size(), Rows(batch));
  }
  int64_t Rows(int64_t batch) const { return remembers_ ? batch : std::min(batch, kJudgedRows); }
  Batches Passed(const tf::data::TextLayout& layout, int64_t first) const {
    return Numbered(first, layout.batches(),
                    [this, layout](int64_t i) { return MakeTextBatch(text_, layout, i); });
  }
  static constexpr int64_t kJudgedRows = 8;
  tf::data::Text text_;
  int64_t steps_;
  bool remembers_;
  int64_t end_;
};

/// Pairs of numbers below 2^digits, and their sums.
Batch MakeSums(int64_t count, int64_t digits, uint64_t seed) {
  Batch batch;
  batch.x = std::make_shared<weft::Tensor>(tf::int64, tf::Ints{count, 2});
  batch.y = std::make_shared<weft::Tensor>(tf::int64, tf::Ints{count});
  int64_t* x = batch.x->mutable_data_as<int64_t>();
  int64_t* y = batch.y->mutable_data_as<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    for (int k = 0; k < 2; ++k)
      x[2 * i + k] = int64_t(tf::Below(tf::Mix(seed, uint64_t(2 * i + k)), uint64_t{1} << digits));
    y[i] = x[2 * i] + x[2 * i + 1];
  }
  return batch;
}

/// Numbers to train on have 1 to 12 binary digits, another number of them in every batch; those to
/// test on 24.
class Sums : public Source {
 public:
  explicit Sums(uint64_t seed) : seed_(seed) {}
  const char* examples() const override { return "sums"; }
  int64_t count(int64_t) const override { return count_; }
  void Truncate(int64_t n) override { count_ = n; }
  int64_t StepsOf(int64_t examples, int64_t batch) const override {
    return Loader::Batches(examples, batch);
  }
  Batches Train(const Loader::Options& o) const override {
    return Numbered(o.first_batch, StepsOf(count_, o.batch), [this, o](int64_t i) {
      const uint64_t seed = tf::Mix(tf::Mix(seed_, kTraining), o.epoch, uint64_t(i));
      return MakeSums(std::min(o.batch, count_ - i * o.batch),
                      1 + int64_t(tf::Below(tf::Mix(seed), kLongest)), seed);
    });
  }
  Batches Test(int64_t) const override { return Judged(kTest, kTestDigits); }
  Batches Trained(int64_t) const override { return Judged(kTraining, kLongest); }

 private:
  static constexpr int64_t kLongest = 12, kTestDigits = 24, kJudged = 8;
  Batches Judged(Purpose purpose, int64_t digits) const {
    return Numbered(0, kJudged, [this, purpose, digits](int64_t i) {
      return MakeSums(kEvaluationBatch, digits, tf::Mix(tf::Mix(seed_, purpose), uint64_t(i)));
    });
  }
  uint64_t seed_;
  int64_t count_ = 20'000;
};

}  // namespace

std::unique_ptr<Source> SourceOf(const programs::Program& program, const std::string& data,
                                 uint64_t seed) {
  switch (program.data) {
    case programs::Data::kText:
      return std::make_unique<Characters>(program, data);
    case programs::Data::kSums:
      return std::make_unique<Sums>(seed);
    case programs::Data::kPictures:
      break;
  }
  return std::make_unique<Pictures>(program, data.empty() ? tf::data::kFashionMnist : data);
}

Batch RandomBatch(const programs::Program& program, int64_t batch, uint64_t seed, int64_t size) {
  if (program.data == programs::Data::kSums) return MakeSums(batch, 12, seed);
  if (program.data == programs::Data::kPictures) {
    tf::data::Layout layout = program.layout;
    if (size > 0 && program.synthetic) layout.size = size;  // elsewhere the size of something else
    return RandomBatch(layout, batch, seed, program.classes);
  }
  Batch b;
  b.x = std::make_shared<weft::Tensor>(tf::int64, tf::Ints{batch, program.steps});
  b.y = std::make_shared<weft::Tensor>(tf::int64, tf::Ints{batch, program.steps});
  uint64_t i = 0;
  for (weft::Tensor* t : {b.x.get(), b.y.get()})
    for (int64_t k = 0; k < t->num_elements(); ++k)
      t->mutable_data_as<int64_t>()[k] =
          int64_t(tf::Below(tf::Mix(seed, kOperands, i++), uint64_t(program.classes)));
  return b;
}

}  // namespace app
