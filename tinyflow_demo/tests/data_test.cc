/// data_test.cc: IDX files good and bad, batches, checkpoints good and bad.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <numeric>

#include "tests/util.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

namespace fs = std::filesystem;
using data::Loader;
using weft::ErrorCode;

void WriteGz(const std::string& path, const std::string& bytes) {
  gzFile f = gzopen(path.c_str(), "wb");
  gzwrite(f, bytes.data(), unsigned(bytes.size()));
  gzclose(f);
}
std::string Word(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }
std::string Images(uint32_t n, uint32_t size, const std::string& pixels) {
  return Word(0x803) + Word(n) + Word(size) + Word(size) + pixels;
}
std::string Labels(const std::string& labels) {
  return Word(0x801) + Word(uint32_t(labels.size())) + labels;
}

std::shared_ptr<const uint8_t> Shared(std::vector<uint8_t> bytes) {
  const auto all = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  return {all, all->data()};
}

/// `count` pictures of 4x4; every pixel of picture i is i.
std::shared_ptr<data::Pictures> Numbered(int64_t count) {
  auto p = std::make_shared<data::Pictures>();
  p->count = count;
  p->height = p->width = 4;
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < count; ++i) {
    pixels.insert(pixels.end(), 16, uint8_t(i));
    p->labels.push_back(uint8_t(i % 10));
  }
  p->pixels = Shared(std::move(pixels));
  return p;
}
data::Layout Small() {
  data::Layout l;
  l.size = 4;
  return l;
}

TEST_CASE("IDX files") {
  const Folder dir;
  const std::string x = dir / "x.gz", y = dir / "y.gz", pixels("\1\2\3\4\5\6\7\10", 8);
  WriteGz(x, Images(2, 2, pixels));
  WriteGz(y, Labels("\3\4"));
  const data::Pictures p = data::ReadIdx(x, y);
  CHECK(p.count == 2);
  CHECK(p.width == 2);
  CHECK(p.pixels.get()[7] == 8);
  CHECK(p.labels[1] == 4);
  SUBCASE("wrong magic") {
    WriteGz(x, Labels("\3\4"));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "not an IDX file");
  }
  SUBCASE("too short, too long") {
    WriteGz(x, Images(2, 2, "\1\2\3"));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "too early");
    WriteGz(x, Images(2, 2, pixels + "!"));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "more than it says");
  }
  SUBCASE("counts that differ, sizes out of bounds") {
    WriteGz(y, Labels("\3"));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "1 labels");
    WriteGz(x, Images(0xffff, 0x4000, pixels));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kLimit, "bytes");
    WriteGz(x, Images(0xffffffff, 0xffffffff, pixels));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kLimit, "x.gz");
    WriteGz(x, Images(0, 2, ""));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "x.gz");
    WriteGz(x, Images(2, 0, ""));
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "dimension 1 is 0");
    WriteGz(x, "");
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "too early");
  }
  SUBCASE("memory is taken for what is there, not for what a header promises") {
    const auto peak_kib = [] {
      rusage use{};
      getrusage(RUSAGE_SELF, &use);
      return use.ru_maxrss;
    };
    WriteGz(x, Images(0x4000, 0x80, pixels));  // 256 MiB
    const long before = peak_kib();
    CheckThrows([&] { data::ReadIdx(x, y); }, ErrorCode::kInvalidModel, "too early");
    CHECK(peak_kib() - before < 64 * 1024);
  }
  SUBCASE("an archive damaged or cut off anywhere gives an error, or what was written") {
    const std::string bytes = weft::ReadFile(x);
    const auto check = [&](const std::string& bad) {
      weft::WriteFileAtomic(x, bad);
      try {
        const data::Pictures got = data::ReadIdx(x, y);
        CHECK(std::equal(got.pixels.get(), got.pixels.get() + pixels.size(), p.pixels.get()));
        return false;
      } catch (const weft::Error& e) {
        CHECK(e.code() == ErrorCode::kInvalidModel);
        CHECK(std::string(e.what()).find("x.gz") != std::string::npos);
        return true;
      }
    };
    for (size_t at = 0; at < bytes.size(); ++at) {
      CAPTURE(at);
      std::string bad = bytes;
      bad[at] = char(bad[at] ^ 0x10);
      // Bytes 4 to 9 of an archive say when and where it was made.
      CHECK((check(bad) || (at >= 3 && at < 10)));
      CHECK(check(bytes.substr(0, at)));
    }
  }
  SUBCASE("errors name the file and the package") {
    for (const char* part : {"train", "t10k"}) {
      WriteGz(dir / (std::string(part) + "-images-idx3-ubyte.gz"), Images(2, 2, pixels));
      WriteGz(dir / (std::string(part) + "-labels-idx1-ubyte.gz"), Labels("\3\4"));
    }
    const auto read = [&] { data::ReadFashionMnist(dir.path.string()); };
    read();
    const std::string labels = dir / "t10k-labels-idx1-ubyte.gz";
    for (const std::string& bad : {Labels("\3\12"), Labels("\3"), Labels("\3\4\5"),
                                   Images(2, 2, pixels), std::string("no")}) {
      WriteGz(labels, bad);
      CheckThrows(read, ErrorCode::kInvalidModel, "t10k-labels-idx1-ubyte.gz");
      CheckThrows(read, ErrorCode::kInvalidModel, "dataset-fashion-mnist");
    }
    fs::remove(labels);
    CheckThrows(read, ErrorCode::kIo, "t10k-labels-idx1-ubyte.gz");
  }
  SUBCASE("no data set") {
    CheckThrows([&] { data::ReadFashionMnist(dir / "nothing"); }, ErrorCode::kIo,
                "dataset-fashion-mnist");
  }
}

TEST_CASE("batches: all pictures once, the last may be smaller, the same for one seed") {
  const auto pictures = Numbered(53);
  const auto pass = [&](Loader::Options o) {
    o.batch = 8;
    Loader loader(pictures, Small(), o);
    std::vector<int64_t> seen;
    int64_t batches = 0;
    while (const data::Batch* b = loader.Next()) {
      ++batches;
      for (int64_t i = 0; i < b->size(); ++i) {
        const int64_t picture = std::lround(b->x->at(i * 16) * 255);
        CHECK(b->y->at_int(i) == picture % 10);
        seen.push_back(picture);
      }
    }
    CHECK(batches == Loader::Batches(53, 8) - o.first_batch);
    return seen;
  };
  std::vector<int64_t> straight(53);
  std::iota(straight.begin(), straight.end(), 0);
  CHECK(pass({}) == straight);
  Loader::Options o;
  o.shuffle = true;
  o.seed = 5;
  const std::vector<int64_t> first = pass(o);
  CHECK(first != straight);
  CHECK(pass(o) == first);
  std::vector<int64_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == straight);
  o.epoch = 1;
  CHECK(pass(o) != first);
  o.epoch = 0;
  o.first_batch = 3;  // in the middle of the same epoch
  CHECK(pass(o) == std::vector<int64_t>(first.begin() + 24, first.end()));
}

TEST_CASE("a loader that is left early ends") {
  Loader::Options o;
  o.batch = 1;
  for (int i = 0; i < 20; ++i) {
    Loader loader(Numbered(200), Small(), o);
    if (i % 2) CHECK(loader.Next());
  }
}

TEST_CASE("layouts: padding, channels, crops and mirror images") {
  auto p = std::make_shared<data::Pictures>();
  p->count = 1;
  p->height = p->width = 2;
  p->pixels = Shared({51, 102, 153, 204});
  p->labels = {7};
  data::Layout layout;
  layout.size = 4;
  layout.channels = 3;
  layout.mean = 0.2;
  layout.std = 0.5;
  Loader::Options o;
  const data::Batch plain = data::MakeBatch(*p, layout, o, {0}, 0);
  CHECK(plain.x->dims() == Ints{1, 3, 4, 4});
  const double k = -0.4;  // black
  for (int c = 0; c < 3; ++c) {
    std::vector<double> plane;
    for (int i = 0; i < 16; ++i) plane.push_back(plain.x->at(c * 16 + i));
    const std::vector<double> want{k, k, k, k, k, 0, 0.4, k, k, 0.8, 1.2, k, k, k, k, k};
    for (size_t i = 0; i < 16; ++i) CHECK(std::abs(plane[i] - want[i]) < 1e-6);
  }
  // Over many epochs every crop and both orientations turn up, and nothing else does.
  layout.channels = 1;
  layout.crop = 1;
  layout.flip = true;
  o.augment = true;
  std::vector<std::vector<double>> seen;
  for (o.epoch = 0; o.epoch < 300; ++o.epoch) {
    const std::vector<double> v = Values(data::MakeBatch(*p, layout, o, {0}, 0).x);
    if (std::find(seen.begin(), seen.end(), v) == seen.end()) seen.push_back(v);
  }
  CHECK(seen.size() == 18);
}

TEST_CASE("pictures with noise: what is to be told is the picture") {
  const auto pictures = Numbered(60);
  data::Layout layout = Small();
  Loader::Options o;
  o.batch = 60;
  const data::Batch clean = data::MakeBatch(*pictures, layout, o, data::OrderOf(60, o), 0);
  layout.noise = 0.5;
  const auto noisy = [&] { return data::MakeBatch(*pictures, layout, o, data::OrderOf(60, o), 0); };
  const data::Batch b = noisy();
  CHECK(b.y->Equals(*clean.x));
  double sum = 0, squares = 0;
  const int64_t n = b.x->num_elements();
  REQUIRE(n == 60 * 16);
  for (int64_t i = 0; i < n; ++i) {
    const double noise = b.x->at(i) - b.y->at(i);
    sum += noise;
    squares += noise * noise;
  }
  // Four standard deviations of the mean and of the deviation of so many.
  CHECK(std::abs(sum / double(n)) < 4 * 0.5 / std::sqrt(double(n)));
  CHECK(std::abs(std::sqrt(squares / double(n)) - 0.5) < 4 * 0.5 / std::sqrt(2.0 * double(n)));
  CHECK(noisy().x->Equals(*b.x));
  o.epoch = 1;
  CHECK(!noisy().x->Equals(*b.x));
  o.epoch = 0;
  o.seed = 1;
  CHECK(!noisy().x->Equals(*b.x));
}

TEST_CASE("checkpoints: there and back, and what must be refused") {
  const Folder dir;
  const std::string path = dir / "a.ckpt";
  const Fresh fresh;
  const Tensor x = placeholder(float32, {None, 4}, "x");
  const Tensor loss = reduce_mean(square(nn::linear(nn::dropout(x, 0.5), 2, "fc")));
  const Tensor step = train::AdamOptimizer().minimize(loss);
  const Feeds feeds{{x, Floats({8, 4}, Numbers(32))}};
  Session a("cpu fusion");
  CheckThrows([&] { save_checkpoint(a, path); }, ErrorCode::kBadBinding, "random_state");
  a.run(initialize_all_variables());
  for (int i = 0; i < 5; ++i) a.run(step, feeds);
  save_checkpoint(a, path, {{"epoch", "5"}});
  for (int i = 0; i < 5; ++i) a.run(step, feeds);

  Session b("cpu fusion");
  CHECK(load_checkpoint(&b, path).at("epoch") == "5");
  CHECK(Checkpoint(path).notes().at("epoch") == "5");
  for (int i = 0; i < 5; ++i) b.run(step, feeds);
  for (const Tensor& v : all_variables()) {
    CAPTURE(v.name());
    CHECK(SameBits(a.value(v), b.value(v)));
  }

  const std::string bytes = weft::ReadFile(path);
  const std::string other = dir / "b.ckpt";
  SUBCASE("damage anywhere is found, and costs no variable") {
    for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 37) {
      std::string bad = bytes;
      bad[at] ^= 4;
      weft::WriteFileAtomic(other, bad);
      CHECK_THROWS_AS(load_checkpoint(&b, other), weft::Error);
      weft::WriteFileAtomic(other, bytes.substr(0, at));
      CHECK_THROWS_AS(load_checkpoint(&b, other), weft::Error);
    }
    weft::WriteFileAtomic(other, bytes + "x");
    CheckThrows([&] { load_checkpoint(&b, other); }, ErrorCode::kInvalidModel, "b.ckpt");
    weft::WriteFileAtomic(other, "PNG");
    CheckThrows([&] { load_checkpoint(&b, other); }, ErrorCode::kInvalidModel, "b.ckpt");
    CheckThrows([&] { load_checkpoint(&b, dir / "none"); }, ErrorCode::kIo, "none");
    for (const Tensor& v : all_variables()) CHECK(SameBits(a.value(v), b.value(v)));
  }
  SUBCASE(
      "a file that is whole, but holds too little, too much or other types, costs no variable") {
    const auto refused = [&](const std::string& part,
                             const std::function<void(weft::VariableStore&)>& change) {
      weft::VariableStore store;
      store.Load(path);
      change(store);
      store.Save(other);
      CheckThrows([&] { load_checkpoint(&b, other); }, ErrorCode::kInvalidModel, part);
      for (const Tensor& v : all_variables()) CHECK(SameBits(a.value(v), b.value(v)));
    };
    // Sorted by name, 'fc/weight' comes after others that would have been set.
    refused("it has no 'fc/weight'", [](auto& s) { s.Erase("fc/weight"); });
    refused("its 'fc/weight' is f32[2, 4], here f32[4, 2]", [](auto& s) {
      s.Set("fc/weight", Floats({2, 4}, Numbers(8)));
    });
    refused("its 'fc/weight' is i64[4]", [](auto& s) {
      s.Set("fc/weight", Classes({1, 2, 3, 4}));
    });
    refused("its 'fc/weight' is f32[]", [](auto& s) { s.Set("fc/weight", Floats({}, {1})); });
    refused("'zz' is not here", [](auto& s) { s.Set("zz", Floats({}, {1})); });
    refused("and ", [](auto& s) {
      for (const std::string& name : s.Names()) s.Erase(name);
    });
  }
  SUBCASE("of another graph") {
    const GraphScope scope;
    const Tensor y = nn::linear(placeholder(float32, {None, 4}, "x"), 3, "fc");
    Session c("cpu");
    CheckThrows([&] { load_checkpoint(&c, path); }, ErrorCode::kInvalidModel,
                "its 'fc/weight' is f32[4, 2], here f32[4, 3]");
    CHECK(!c.has(all_variables()[0]));
  }
  SUBCASE("killed while it writes, the file before is there") {
    for (int i = 0; i < 8; ++i) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0)
        for (int64_t n = 0;; ++n) save_checkpoint(a, path, {{"epoch", std::to_string(n)}});
      usleep(useconds_t(2000 + 1700 * i));
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      CHECK(load_checkpoint(&b, path).count("epoch") == 1);
    }
  }
  SUBCASE("a folder that cannot be written costs nothing") {
    CheckThrows([&] { save_checkpoint(a, dir / "no/such/folder"); }, ErrorCode::kIo, "folder");
    CHECK(weft::ReadFile(path) == bytes);
  }
}

}  // namespace
}  // namespace tf::test
