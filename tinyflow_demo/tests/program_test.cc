/// program_test.cc: the programs on real pictures: they learn, they do the same twice, they go on where they stopped; and the
/// command.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/bench.h"
#include "app/trainer.h"
#include "tests/util.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

namespace fs = std::filesystem;
using app::TrainOptions;
using app::TrainResult;
using weft::ErrorCode;

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("tinyflow_program_" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  fs::path path;
};

TrainOptions Options(const std::string& program, int64_t images, int64_t epochs,
                     int64_t batch = 0) {
  TrainOptions o;
  o.program = program;
  o.images = images;
  o.epochs = epochs;
  o.batch = batch;
  return o;
}

TEST_CASE("LeNet learns: one epoch of 12,000 pictures") {
  const TrainResult r = app::Train(Options("lenet", 12'000, 1));
  CHECK(r.test_accuracy >= 0.78);
  CHECK(r.train_accuracy >= 0.78);
  CHECK(r.steps == 188);
  CHECK(r.loss < 0.8);
}

TEST_CASE("every program learns, with fusion as without") {
  for (const programs::Program& p : programs::All()) {
    if (p.name == "cifar_resnet") continue;  // below, with fewer pictures
    CAPTURE(p.name);
    TrainOptions o = Options(p.name, 2000, 1, 50);
    const TrainResult fused = app::Train(o);
    o.fusion = false;
    const TrainResult plain = app::Train(o);
    const size_t n = fused.losses.size();
    REQUIRE(n == 40);
    CHECK(fused.losses[n - 1] < 0.7 * fused.losses[0]);
    CHECK(fused.test_accuracy > 0.5);
    for (size_t i = 0; i < 10; ++i)
      CHECK(std::abs(fused.losses[i] - plain.losses[i]) < 2e-3 * (1 + fused.losses[i]));
    CHECK(fused.program.kernels < plain.program.kernels);
  }
}

TEST_CASE("ResNet-20: a few steps, and again, bit for bit") {
  const Folder dir;
  TrainOptions o = Options("resnet20", 96, 1, 32);
  o.save = dir / "a";
  const TrainResult a = app::Train(o);
  o.save = dir / "b";
  const TrainResult b = app::Train(o);
  REQUIRE(a.losses.size() == 3);
  CHECK(a.losses == b.losses);
  CHECK(weft::ReadFile(dir / "a") == weft::ReadFile(dir / "b"));
  CHECK(std::abs(a.losses[0] - std::log(10)) < 1.5);
}

TEST_CASE("the same twice, and when it was stopped in between") {
  // my_optimizer has dropout: the state of the generator goes through the checkpoint.
  for (const std::string program : {"lenet", "my_optimizer"}) {
    CAPTURE(program);
    const Folder dir;
    TrainOptions o = Options(program, 320, 2, 32);
    o.seed = 7;
    o.save = dir / "whole";
    const TrainResult whole = app::Train(o);
    o.save = dir / "again";
    CHECK(app::Train(o).losses == whole.losses);
    CHECK(weft::ReadFile(dir / "whole") == weft::ReadFile(dir / "again"));

    // Stopped after an epoch, and in the middle of the second; the seed comes from the checkpoint.
    TrainOptions part = o;
    part.save = dir / "part";
    part.epochs = 1;
    std::vector<double> losses = app::Train(part).losses;
    part.load = part.save;
    part.epochs = 2;
    part.steps = 4;
    part.seed.reset();
    const TrainResult middle = app::Train(part);
    CHECK(middle.epochs == 1);
    losses.insert(losses.end(), middle.losses.begin(), middle.losses.end());
    part.steps = 0;
    const TrainResult rest = app::Train(part);
    CHECK(rest.steps == 6);
    CHECK(rest.epochs == 2);
    losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
    CHECK(losses == whole.losses);
    CHECK(weft::ReadFile(dir / "part") == weft::ReadFile(dir / "whole"));

    o.seed = 8;
    CHECK(app::Train(o).losses != whole.losses);
  }
}

TEST_CASE("what must be refused") {
  const Folder dir;
  TrainOptions o = Options("softmax", 200, 1, 20);
  o.save = dir / "ckpt";
  o.steps = 3;
  app::Train(o);
  SUBCASE("a checkpoint of another program, or another batch within an epoch") {
    TrainOptions other = Options("lenet", 200, 2);
    other.load = o.save;
    CheckThrows([&] { app::Train(other); }, ErrorCode::kInvalidModel, "mnist_softmax");
    o.load = o.save;
    o.batch = 10;
    CheckThrows([&] { app::Train(o); }, ErrorCode::kUsage, "--batch 20");
  }
  SUBCASE("a damaged checkpoint") {
    std::string bytes = weft::ReadFile(o.save);
    bytes[bytes.size() / 2] ^= 1;
    weft::WriteFileAtomic(o.save, bytes);
    o.load = o.save;
    CheckThrows([&] { app::Train(o); }, ErrorCode::kInvalidModel, "ckpt");
  }
  SUBCASE("no data set, no such program, no such device") {
    o.data = dir / "nothing";
    CheckThrows([&] { app::Train(o); }, ErrorCode::kIo, "dataset-fashion-mnist");
    CheckThrows([&] { app::Train(Options("lennet", 1, 1)); }, ErrorCode::kUsage, "lenet");
    o = Options("softmax", 10, 1);
    o.device = "gpu";
    CheckThrows([&] { app::Train(o); }, ErrorCode::kUnsupported, "GPU");
  }
  SUBCASE("a loss that is not finite, with --check-nan") {
    o = Options("mlp", 400, 1, 20);
    o.rate = 1e30;
    o.check_nan = true;
    CheckThrows([&] { app::Train(o); }, ErrorCode::kCheckFailed, "made");
    o.check_nan = false;
    CHECK(!std::isfinite(app::Train(o).losses.back()));
  }
}

TEST_CASE("the report stands alone") {
  const Folder dir;
  TrainOptions o = Options("mlp", 1000, 2);
  o.report = dir / "report.html";
  o.save = dir / "with";
  app::Train(o);
  const std::string html = weft::ReadFile(o.report);
  for (const char* part :
       {"<svg", "polyline", "<table>", "kernel", "library", "accuracy", "</html>"})
    CHECK(html.find(part) != std::string::npos);
  for (const char* part : {"src=", "href=", "http", "nan", "<script"})
    CHECK(html.find(part) == std::string::npos);
  // Timing steps for the report leaves no trace in what was trained.
  o.report.clear();
  o.save = dir / "without";
  app::Train(o);
  CHECK(weft::ReadFile(dir / "with") == weft::ReadFile(dir / "without"));
}

TEST_CASE("a benchmark says what a step is made of") {
  app::BenchOptions o;
  o.program = "lenet";
  o.batch = 8;
  o.seconds = 0.05;
  o.profile = true;
  const app::BenchResult fused = app::Bench(o);
  CHECK(fused.step_ms > 0);
  CHECK(std::isfinite(fused.loss));
  CHECK(fused.program.arena_bytes > 0);
  CHECK(!fused.profile.empty());
  o.fusion = false;
  CHECK(app::Bench(o).program.kernels > 3 * fused.program.kernels);
}

/// stdout of the command; its exit code.
std::pair<std::string, int> Command(const std::string& arguments) {
  const char* build = std::getenv("WEFT_BUILD_DIR");
  REQUIRE_MESSAGE(build, "WEFT_BUILD_DIR is not set; run this through ctest");
  FILE* pipe = popen((std::string(build) + "/bin/tinyflow " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string out;
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) out.append(block, n);
  const int status = pclose(pipe);
  return {out, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

TEST_CASE("the command") {
  auto [out, code] = Command("train mnist_softmax --images 1000 --epochs 2 --json");
  CHECK(code == 0);
  out.pop_back();
  const auto trained = nlohmann::json::parse(out.substr(out.rfind('\n') + 1));
  for (const char* key : {"loss", "train_accuracy", "test_accuracy", "epochs", "step_ms"})
    CHECK(trained.contains(key));
  CHECK(trained["epochs"] == 2);
  const auto timed =
      nlohmann::json::parse(Command("bench softmax --batch 4 --seconds 0.05 --json").first);
  for (const char* key :
       {"step_ms", "compile_s", "kernels", "library_calls", "arena_bytes", "loss"})
    CHECK(timed.contains(key));
  CHECK(Command("--list").first.find("lenet") != std::string::npos);
  CHECK(Command("train").second == 2);
  CHECK(Command("train nothing").second == 2);
  CHECK(Command("train lenet --batch 0").second == 2);
  CHECK(Command("train lenet --frobnicate").second == 2);
  CHECK(Command("bench lenet --device gpu").second == 3);
  CHECK(Command("train lenet --data /nowhere").second == 4);
  CHECK(Command("train mlp --images 500 --epochs 1 --lr 1e30 --check-nan").second == 1);
}

}  // namespace
}  // namespace tf::test
