/// rnn_test.cc: what recurrent layers do beside their arithmetic, which recurrent_reference_test.cc
/// looks at: variables, states that are carried and fed, dropout, look-ups, clipped gradients.
#include "tests/util.h"

namespace tf::test {
namespace {

using weft::ErrorCode;

const char* const kSessions[] = {"cpu", "cpu fusion"};

TEST_CASE("layers: variables, shapes, first values") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {5, 3, 4}, "x");
  const nn::LSTM lstm(4, 8, {2, 0, true});
  const nn::GRU gru(4, 8);
  std::vector<std::string> names;
  for (const Tensor& v : trainable_variables()) names.push_back(v.name());
  CHECK(names == std::vector<std::string>{
                     "lstm/layer0/weight_input", "lstm/layer0/weight_hidden", "lstm/layer0/bias",
                     "lstm/layer1/weight_input", "lstm/layer1/weight_hidden", "lstm/layer1/bias",
                     "gru/layer0/weight_input", "gru/layer0/weight_hidden", "gru/layer0/bias"});
  CHECK(trainable_variables()[3].shape().ints() == Ints{2, 32, 16});
  CHECK(trainable_variables()[8].shape().ints() == Ints{1, 48});
  const nn::Sequence a = lstm(x), b = gru(x);
  CHECK(a.outputs.shape().ints() == Ints{5, 3, 16});
  CHECK(a.state.size() == 4);
  CHECK(a.state[3].shape().ints() == Ints{2, 3, 8});
  CHECK(b.outputs.shape().ints() == Ints{5, 3, 8});
  CHECK(b.state.size() == 1);
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  for (const Tensor& v : trainable_variables())
    for (const double e : Values(sess.value(v))) CHECK(std::abs(e) <= 1 / std::sqrt(8.0));
  CheckThrows([&] { lstm(x, {x}); }, ErrorCode::kArity, "a state of 1 tensors, 2 layers have 4");
  CheckThrows([&] { nn::GRU(0, 8); }, ErrorCode::kApiMisuse, "on 0 inputs");
}

TEST_CASE("a state that is carried: two runs are one of twice as many steps") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    set_random_seed(5);
    const Tensor x = placeholder(float32, {3, 2, 4}, "x"),
                 all = placeholder(float32, {6, 2, 4}, "all");
    const nn::LSTM lstm(4, 5, {2});
    const Tensors first = lstm.carried_state(2), fed = lstm.fed_state();
    const nn::Sequence part = lstm(x, first), whole = lstm(all), given = lstm(x, fed);
    const Tensor carry = nn::carry(first, part);
    const Tensor v = trainable_variables()[0];
    const Tensor g = gradients(reduce_sum(part.outputs), {v})[0],
                 g_fed = gradients(reduce_sum(given.outputs), {v})[0];
    Session sess(config);
    sess.run(initialize_all_variables());
    const std::vector<double> xs = Numbers(48);
    const Array one = Floats({3, 2, 4}, {xs.begin(), xs.begin() + 24}),
                two = Floats({3, 2, 4}, {xs.begin() + 24, xs.end()});
    const std::vector<double> want =
        Values(sess.run(whole.outputs, {{all, Floats({6, 2, 4}, xs)}}));
    const Array begin = sess.run({part.outputs, carry}, {{x, one}}, Mode::kInference)[0];
    CheckNear(begin, {want.begin(), want.begin() + 30});
    Feeds feeds{{x, two}};
    for (size_t i = 0; i < fed.size(); ++i) feeds.emplace_back(fed[i], sess.value(first[i]));
    const std::vector<Array> rest = sess.run({part.outputs, g}, {{x, two}}, Mode::kInference);
    CheckNear(rest[0], {want.begin() + 30, want.end()});
    const std::vector<Array> same = sess.run({given.outputs, g_fed}, feeds, Mode::kInference);
    CheckNear(same[0], {want.begin() + 30, want.end()});
    CheckNear(same[1], Values(rest[1]));  // no gradient goes through a state that is carried
  }
}

TEST_CASE("a training step carries the state, and reads the one before") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor x = placeholder(float32, {3, 2, 4}, "x");
    const nn::GRU gru(4, 5);
    const Tensors first = gru.carried_state(2);
    const nn::Sequence y = gru(x, first);
    nn::carry(first, y);
    const Tensor loss = reduce_mean(square(y.outputs));
    const Tensor step = train::GradientDescentOptimizer(0.1).minimize(loss);
    Session sess(config);
    sess.run(initialize_all_variables());
    for (int i = 0; i < 3; ++i) {
      const std::vector<Array> got =
          sess.run({step, y.state[0]}, {{x, Floats({3, 2, 4}, Numbers(24, i))}});
      CheckNear(sess.value(first[0]), Values(got[1]), 1e-6);
    }
  }
}

TEST_CASE("dropout stands between layers, when training") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {4, 2, 3}, "x");
  const nn::LSTM lstm(3, 6, {2, 0.5});
  const Tensor y = lstm(x).outputs;
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  const Tensor next = group(update_ops());
  const Feeds feeds{{x, Floats({4, 2, 3}, Numbers(24))}};
  const std::vector<double> a = Values(sess.run(y, feeds, Mode::kInference)),
                            b = Values(sess.run(y, feeds, Mode::kInference));
  CHECK(a == b);
  const std::vector<double> c = Values(sess.run({y, next}, feeds)[0]),
                            d = Values(sess.run(y, feeds));
  CHECK(a != c);
  CHECK(c != d);
  // One layer has nothing between.
  const Tensor single = nn::GRU(3, 6, {1, 0.5})(x).outputs;
  Session other("cpu fusion");
  other.run(initialize_all_variables());
  CHECK(Values(other.run(single, feeds)) == Values(other.run(single, feeds, Mode::kInference)));
}

TEST_CASE("an embedding looks up rows, and sums the gradients of rows that come again") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor ids = placeholder(int64, {None, None}, "ids"),
                 weight = placeholder(float32, {3, 2, 2}, "weight");
    const nn::Embedding embedding(4, 2);
    const Tensor y = embedding(ids);
    const Tensor g = gradients(reduce_sum(y * weight), {embedding.weight()})[0];
    Session sess(config);
    sess.set(embedding.weight(), Floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
    auto three = std::make_shared<weft::Tensor>(int64, Ints{3, 2});
    const int64_t rows[] = {2, 0, 2, 3, 2, 0};
    for (int64_t i = 0; i < 6; ++i) three->set_int(i, rows[i]);
    const std::vector<double> w = Numbers(12);
    const std::vector<Array> got = sess.run({y, g}, {{ids, three}, {weight, Floats({3, 2, 2}, w)}});
    CheckNear(got[0], {5, 6, 1, 2, 5, 6, 7, 8, 5, 6, 1, 2});
    std::vector<double> sums(8, 0);
    for (size_t i = 0; i < 12; ++i) sums[size_t(rows[i / 2] * 2) + i % 2] += w[i];
    CheckNear(got[1], sums);
  }
}

TEST_CASE("gradients are clipped by the norm of all of them") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor a = placeholder(float32, {2}, "a"), b = placeholder(float32, {}, "b");
    Tensor norm;
    const Tensors clipped = train::clip_by_global_norm({a, b}, 6.5, &norm);
    Session sess(config);
    const auto run = [&](double scale) {
      return sess.run({clipped[0], clipped[1], norm},
                      {{a, Floats({2}, {3 * scale, 4 * scale})}, {b, Floats({}, {12 * scale})}});
    };
    std::vector<Array> got = run(1);  // a norm of 13
    CheckNear(got[0], {1.5, 2});
    CheckNear(got[1], {6});
    CheckNear(got[2], {13});
    got = run(0.5);  // at the limit
    CheckNear(got[0], {1.5, 2});
    got = run(0.25);
    CheckNear(got[0], {0.75, 1});
    got = run(0);
    CheckNear(got[0], {0, 0});
    CheckThrows([&] { train::clip_by_global_norm({a}, 0); }, ErrorCode::kApiMisuse, "at most 0");
  }
}

}  // namespace
}  // namespace tf::test
