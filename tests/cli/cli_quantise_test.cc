/// cli_quantise_test.cc: `weft quantise` from outside: data in every form, what comes out, what is
/// refused.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace {

using weft::DType;
using namespace weft::e2e;

constexpr const char* kNetwork = R"(weft 1
graph (%x: f32[1, 2, 4, 4], %w: f32[3, 2, 1, 1] param = [0.5, -0.25, 1, 0.75, -1, 0.1], %b: f32[3] param = [0.1, 0.2, -0.3], %f: f32[48, 2] param) -> (%y) {
  %conv = Conv(%x, %w, %b)
  %act = Relu(%conv)
  %flat = Flatten(%act)
  %y = MatMul(%flat, %f)
}
)";

/// The network with a matrix that the text does not spell out.
std::string WriteNetwork(const Folder& dir) {
  std::string values;
  for (int i = 0; i < 96; ++i) values += (i ? ", " : "") + std::to_string((i * 37 % 19) - 9) + ".5";
  std::string text = kNetwork;
  text.replace(text.find("%f: f32[48, 2] param"), 20, "%f: f32[48, 2] param = [" + values + "]");
  return dir.Write("m.weft", text);
}
void WriteData(const std::string& file, std::vector<int64_t> dims, double bad = 0) {
  weft::Tensor t(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, std::sin(double(i) * 1.7) * 2);
  if (bad != 0) t.set(5, bad);
  WriteNpy(file, t);
}

TEST_SUITE("weft quantise") {
  TEST_CASE("folders of samples, and samples behind each other, give the same") {
    const Folder dir;
    const std::string model = WriteNetwork(dir);
    weft::MakeDirectories(dir / "rows");
    WriteData(dir / "rows/x.npy", {6, 2, 4, 4});
    const auto all = weft::ReadNpy(dir / "rows/x.npy");
    for (int k = 0; k < 6; ++k) {
      const std::string folder = dir / ("sets/sample_" + std::to_string(k + 7));
      weft::MakeDirectories(folder);
      weft::Tensor one(DType::kF32, {1, 2, 4, 4});
      for (int64_t i = 0; i < 32; ++i) one.set(i, all->at(k * 32 + i));
      WriteNpy(folder + "/x.npy", one);
    }
    const std::string page = dir / "page.html";
    const Json a = Parsed(Weft({"quantise", model, "--data", dir / "rows", "-o", dir / "a.onnx",
                                "--json", "--report", page}));
    const Json b =
        Parsed(Weft({"quantise", model, "--data", dir / "sets", "-o", dir / "b.onnx", "--json"}));
    CHECK(Slurp(dir / "a.onnx") == Slurp(dir / "b.onnx"));
    CHECK(a["samples"] == 6);
    CHECK(a["layers"] == b["layers"]);
    CHECK(a["bytes_after"].get<int>() < a["bytes_before"].get<int>());
    CHECK(a["outputs"][0]["name"] == "y");
    CHECK(a["outputs"][0]["db"].get<double>() > 30);
    REQUIRE(a["layers"].size() == 3);
    CHECK(a["layers"][0]["name"] == "conv");
    CHECK(a["layers"][0]["quantised"] == true);
    CHECK(a["integer_calls"] == 2);
    CHECK(a["requantised"] == 1);
    const std::string html = Slurp(page);
    CHECK(html.find("<svg") != std::string::npos);
    CHECK(html.find("conv") != std::string::npos);
    CHECK(html.find("http") == std::string::npos);  // it stands alone
    // What was written runs, and is near the floats.
    const auto agree = [&](const std::string& from, const std::string& to) {
      CHECK(
          Weft({"run", from, "--input", "x=" + (dir / "sets/sample_9/x.npy"), "--outputs-dir", to})
              .code == 0);
    };
    agree(model, dir / "floats");
    agree(dir / "a.onnx", dir / "codes");
    const auto want = weft::ReadNpy(dir / "floats/y.npy"), got = weft::ReadNpy(dir / "codes/y.npy");
    for (int64_t i = 0; i < want->num_elements(); ++i)
      CHECK(std::abs(want->at(i) - got->at(i)) < 0.02 * 60);
    // Text for people has all of it too.
    const Result text = Weft({"quantise", model, "--data", dir / "rows", "-o", dir / "c.weft"});
    CHECK(text.code == 0);
    CHECK(text.out.find("signal to noise") != std::string::npos);
    CHECK(text.out.find("2 integer calls") != std::string::npos);
  }

  TEST_CASE("methods and forms; layers that stay in floats") {
    const Folder dir;
    const std::string model = WriteNetwork(dir);
    weft::MakeDirectories(dir / "rows");
    WriteData(dir / "rows/x.npy", {6, 2, 4, 4});
    const auto run = [&](std::vector<std::string> more) {
      more.insert(more.begin(),
                  {"quantise", model, "--data", dir / "rows", "-o", dir / "o.weft", "--json"});
      return Parsed(Weft(more));
    };
    for (const char* method : {"minmax", "percentile", "entropy", "mse"})
      CHECK(run({"--method", method})["method"] == method);
    const std::string u8 = (run({}), Slurp(dir / "o.weft"));
    CHECK(u8.find("u8[]") != std::string::npos);
    run({"--activations", "s8", "--per-tensor", "--symmetric"});
    const std::string s8 = Slurp(dir / "o.weft");
    CHECK(s8.find("i8[]") != std::string::npos);
    CHECK(s8.find("u8[]") == std::string::npos);
    CHECK(s8.find("axis = 0") == std::string::npos);
    const Json skipped = run({"--skip", "conv"});
    CHECK(skipped["layers"][0]["quantised"] == false);
    CHECK(skipped["layers"][0]["state"] == "excepted by name");
    CHECK(run({"--least-sqnr", "-inf"})["layers"][0]["quantised"] == true);
    CHECK(run({"--samples", "2"})["samples"] == 2);
    CHECK(run({"--rows", "1"})["samples"] == 6);
    CHECK(run({"--smooth", "0.5", "--bias-correction"})["samples"] == 6);
  }

  TEST_CASE("bad input is one error") {
    const Folder dir;
    const std::string model = WriteNetwork(dir), out = dir / "o.onnx";
    const auto fails = [&](const std::string& data, int code, const std::string& error,
                           const std::string& message, std::vector<std::string> more = {}) {
      more.insert(more.begin(), {"quantise", model, "-o", out});
      if (!data.empty()) more.insert(more.end(), {"--data", data});
      Fails(more, code, error, message);
      CHECK(!weft::FileExists(out));
    };
    fails("", 2, "WEFT-E0101", "--data DIR is required");
    fails(dir / "nowhere", 4, "WEFT-E0201", "is not a folder");
    weft::MakeDirectories(dir / "empty");
    fails(dir / "empty", 4, "WEFT-E0308", "input 'x' from");
    weft::MakeDirectories(dir / "nan");
    WriteData(dir / "nan/x.npy", {2, 2, 4, 4}, std::numeric_limits<double>::quiet_NaN());
    fails(dir / "nan", 4, "WEFT-E0308", "input 'x' of sample 0: element 5 is NaN");
    weft::MakeDirectories(dir / "type");
    WriteNpy(dir / "type/x.npy", weft::Tensor(DType::kF64, {2, 2, 4, 4}));
    fails(dir / "type", 4, "WEFT-E0308", "f64");
    weft::MakeDirectories(dir / "shape");
    WriteData(dir / "shape/x.npy", {2, 3, 4, 4});
    fails(dir / "shape", 4, "WEFT-E0308", "x");
    weft::MakeDirectories(dir / "good");
    WriteData(dir / "good/x.npy", {2, 2, 4, 4});
    fails(dir / "good", 2, "WEFT-E0101", "--random", {"--random"});
    fails(dir / "good", 2, "WEFT-E0101", "--rows", {"--rows", "0"});
    fails(dir / "good", 4, "WEFT-E0308", "samples of 3 rows do not divide", {"--rows", "3"});
    fails(dir / "good", 2, "WEFT-E0101", "best", {"--method", "best"});
    fails(dir / "good", 2, "WEFT-E0101", "smooth = 2", {"--smooth", "2"});
    fails(dir / "good", 2, "WEFT-E0101", "percentile = 10", {"--percentile", "10"});
    fails(dir / "good", 4, "WEFT-E0301", "nothing in the model can be quantised",
          {"--least-sqnr", "500"});
    CHECK(Weft({"quantise", model, "-o", out, "--data", dir / "good"}).code == 0);
    Fails({"quantise", out, "-o", dir / "p.onnx", "--data", dir / "good"}, 4, "WEFT-E0301",
          "is quantised already");
    const Result random = Weft({"quantise", model, "-o", out, "--random"});
    CHECK(random.code == 0);
    CHECK(random.says("not those of real data"));
  }
}

}  // namespace
