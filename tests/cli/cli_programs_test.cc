/// cli_programs_test.cc: the `weft` command from outside, where it compiles:
/// run, bench, compile, grad.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/cli_util.h"
#include "weft/core/text/text.h"
#include "weft/onnx/export.h"
#include "weft/support/file.h"

namespace {

namespace fs = std::filesystem;
using weft::DType;
using namespace weft::e2e;

TEST_CASE("compile and inspect ask a backend that makes programs of whole graphs") {
  const Folder dir;
  const std::string model = dir.Write("m.weft", kModel), saved = dir / "m.weftx";
  const Json made = Parsed(Weft({"compile", model, "--target", "ref", "-o", saved, "--json"}));
  CHECK(made.at("target") == "ref");
  CHECK(made.at("compiled") == true);
  CHECK(made.at("kernels").empty());
  CHECK(Weft({"compile", model, "--target", "ref"}).out.find(" s for ref") != std::string::npos);
  CHECK(Weft({"run", saved, "--random", "--bind", "n=3"}).code == 0);
  Fails({"compile", model, "--target", "ref", "--save-kernels", dir / "k"}, 3, "WEFT-E0401",
        "show nothing to write");
  Fails({"compile", model, "--target", "ref", "--report", dir / "r.html"}, 3, "WEFT-E0401",
        "no page");
  Fails({"compile", model, "--target", "ref:fast"}, 2, "WEFT-E0101", "it takes none");
  const Json support = Parsed(Weft({"inspect", model, "--support", "ref", "--json"}));
  CHECK(support.at("unsupported").empty());
  CHECK(support.at("peak_backend") == "ref");
  CHECK(support.at("peak_bytes").is_null());
  CHECK(support.at("peak_error").get<std::string>().find("plans nothing") != std::string::npos);
}

TEST_CASE("cpu: run, bench, compile") {
  const Folder dir;
  const std::string model = dir.Write("m.weft", kModel);
  const Result r = Weft({"bench", model, "--bind", "n=64", "--json", "--duration", "0.01",
                         "--warmup", "1", "--profile"});
  if (r.code == 3) {
    CHECK(r.says("error[WEFT-E0401]"));
    return;
  }
  const Json j = Parsed(r);
  for (const char* key : {"median_ms", "min_ms", "p95_ms", "iterations", "compile_s", "kernels",
                          "library_calls", "launches", "replays", "host_waits", "arena_bytes",
                          "constant_bytes", "packed_bytes", "bytes_moved", "backend"})
    CHECK(j.contains(key));
  CHECK(j.at("kernels").get<int>() >= 1);
  CHECK(j.at("backend") == "cpu");
  REQUIRE(!j.at("profile").empty());
  CHECK(j.at("profile")[0].at("floor_us").get<double>() > 0);
  CHECK(Parsed(Weft({"bench", model, "--json", "--iterations", "7", "--warmup", "0"}))
            .at("iterations") == 7);
  const Json off = Parsed(Weft({"bench", model, "--bind", "n=64", "--json", "--iterations", "3",
                                "--backend", "cpu:no-fusion"}));
  CHECK(off.at("kernels").get<int>() == 4);
  CHECK(Weft({"bench", model, "--iterations", "3", "--profile"}).out.find("share") !=
        std::string::npos);
  CHECK(Weft({"compare", model, "cpu", "ref", "--bind", "n=9"}).code == 0);
  CHECK(Weft({"compare", model, "cpu:no-fusion", "cpu", "--bind", "n=9", "--layerwise"}).code == 0);
  CHECK(Weft({"run", model, "--random", "--passes", "Simplify,Fusion{max_ops=2}"}).code == 0);

  const Json kernels =
      Parsed(Weft({"compile", model, "--target", "cpu", "--json", "--save-kernels", dir / "k"}));
  REQUIRE(!kernels.at("kernels").empty());
  for (const Json& k : kernels.at("kernels")) {
    for (const char* key :
         {"name", "template", "ops", "source_bytes", "binary_bytes", "registers", "spill_bytes"})
      CHECK(k.contains(key));
    CHECK(k.at("source_bytes").get<int64_t>() > 0);
  }
  CHECK(size_t(std::distance(fs::directory_iterator(dir / "k"), {})) ==
        kernels.at("kernels").size());
  const std::string saved = dir / "m.weftx";
  REQUIRE(Weft({"compile", model, "--target", "cpu", "-o", saved, "--json"}).code == 0);
  CHECK(Weft({"run", saved, "--random", "--bind", "n=3", "--outputs-dir", dir / "s"}).code == 0);
  REQUIRE(Weft({"run", model, "--random", "--bind", "n=3", "--outputs-dir", dir / "w"}).code == 0);
  for (const auto& file : fs::directory_iterator(dir / "w"))
    CHECK(Slurp(file.path()) == Slurp((dir / "s") + "/" + file.path().filename().string()));
  const Json inspected = Parsed(Weft({"inspect", saved, "--json"}));
  CHECK(inspected.at("backend") == "cpu");
  CHECK(inspected.at("inputs").size() == 2);
  CHECK(inspected.at("symbols") == Json::array({"n"}));
  CHECK(inspected.at("kernels").get<int>() >= 1);
  CHECK(Weft({"inspect", saved}).out.find("program  compiled for cpu: ") != std::string::npos);
  Fails({"inspect", saved, "--support", "cpu"}, 2, "WEFT-E0101", "compiled already");
  Fails({"run", saved, "--random", "--passes", "Simplify"}, 2, "WEFT-E0101", "compiled already");
  Fails({"compile", model, "--target", "cpu", "-o", dir / "m.bin"}, 2, "WEFT-E0101", ".weftx");
  Fails({"compile", model, "--target", "tpu"}, 3, "WEFT-E0401", "tpu");
}

TEST_CASE("initializers that are inputs too are constants, or fed where the command says so") {
  const Folder dir;
  std::string bytes = weft::ExportOnnxBytes(
      weft::ParseGraph("weft 1\ngraph (%x: f32[2], %w: f32[2] param = [10, 20]) -> (%y) {\n"
                       "  %y = Add(%x, %w) : ?\n}\n"));
  // Merged into the model by protobuf: graph { input { name: "w" type { tensor_type { elem_type: 1
  // shape { dim { dim_value: 2 } } } } } }.
  bytes +=
      std::string("\x3a\x11\x5a\x0f\x0a\x01w\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02", 19);
  const std::string model = dir.Write("m.onnx", bytes),
                    x = dir.WriteTensor("x.npy", DType::kF32, {2}),
                    w = dir.WriteTensor("w.npy", DType::kF32, {2});
  const auto first = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"run"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--input", "x=" + x, "--outputs-dir", dir / "out"});
    const Result r = Weft(all);
    CHECK_MESSAGE(r.code == 0, r.err);
    return weft::ReadNpy(dir / "out" + "/y.npy")->at(0);
  };
  CHECK(first({model, "--backend", "ref"}) == 8);  // -2 and the stored 10
  CHECK(first({model, "--backend", "ref", "--input", "w=" + w}) == -4);
  Fails({"run", model, "--backend", "ref", "--input", "v=" + w}, 4, "WEFT-E0105", "no input");
  const std::string fed = dir / "fed.weftx", folded = dir / "folded.weftx";
  if (Weft({"compile", model, "--target", "cpu", "-o", folded}).code == 3) return;  // no cpu
  REQUIRE(Weft({"compile", model, "--target", "cpu", "-o", fed, "--overridable", "w"}).code == 0);
  CHECK(first({folded}) == 8);
  CHECK(first({fed, "--input", "w=" + w}) == -4);
  Fails({"compile", model, "--target", "cpu", "--overridable", "v"}, 4, "WEFT-E0105", "no input");
}

/// Sets an environment variable for the commands of one test case.
struct Setting {
  Setting(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }
  const char* name;
};

TEST_CASE("cuda without a driver: who asks for a device is told why, what needs none works") {
  const Folder dir;
  const std::string model = dir.Write("m.weft", kModel);
  const Setting no_driver("WEFT_LIBCUDA", "/nowhere/libcuda.so.1");
  const std::string why = "no CUDA device: no driver (/nowhere/libcuda.so.1: cannot open";
  Fails({"run", model, "--random", "--backend", "cuda", "--outputs-dir", dir / "o"}, 3,
        "WEFT-E0401", why);
  CHECK(!fs::exists(dir / "o"));
  Fails({"bench", model, "--backend", "cuda", "--json"}, 3, "WEFT-E0401", why);
  Fails({"bench", model, "--backend", "cuda:no-fusion"}, 3, "WEFT-E0401", "weft doctor");
  Fails({"compare", model, "cpu", "cuda"}, 3, "WEFT-E0401", why);
  Fails({"compare", model, "cuda", "ref", "--json"}, 3, "WEFT-E0401", why);

  const Json doctor = Parsed(Weft({"doctor", "--json"}));
  CHECK(doctor.at("backend cuda").at("ok") == false);
  CHECK(doctor.at("cuda driver").at("ok") == false);
  CHECK(doctor.at("cuda driver").at("found").get<std::string>().find("no driver") == 0);
  CHECK(!doctor.contains("cuda device 0"));
  for (const char* library : {"cuda NVRTC", "cuda cuBLASLt", "cuda cuDNN"}) {
    CAPTURE(library);
    CHECK(!doctor.at(library).at("found").get<std::string>().empty());
  }

  // What a GPU could run is known without one, where NVRTC is.
  if (doctor.at("cuda NVRTC").at("ok") == true) {
    CHECK(Weft({"inspect", model, "--support", "cuda"}).out.find("every node can run on cuda") !=
          std::string::npos);
    const Result words = Weft({"inspect", dir.Write("s.weft", R"(weft 1
graph (%x: str[3]) -> (%y) {
  %y = Concat(%x, %x) {axis = 0}
}
)"),
                               "--support", "cuda"});
    CHECK(words.code == 3);
    CHECK(words.out.find("tensors of str have no place on a device") != std::string::npos);
    // What only the host computes runs all the same, and is told.
    const std::string top = dir.Write("t.weft", R"(weft 1
graph (%x: f32[3], %one: i64[1] param = [1]) -> (%y) {
  %s = Tanh(%x)
  %y, %at = TopK(%s, %one)
}
)");
    const Result host = Weft({"inspect", top, "--support", "cuda"});
    CHECK(host.code == 0);
    CHECK(host.out.find("every node can run on cuda, 1 of them on the host:\n  1 x TopK(") !=
          std::string::npos);
    const Json listed = Parsed(Weft({"inspect", top, "--support", "cuda", "--json"}));
    CHECK(listed.at("unsupported").empty());
    REQUIRE(listed.at("on_host").size() == 1);
    CHECK(listed.at("on_host")[0].at("op") == "TopK");
    CHECK(Parsed(Weft({"inspect", top, "--support", "cpu", "--json"})).at("on_host").empty());
  }
}

TEST_CASE("cuda without NVRTC") {
  const Folder dir;
  const std::string model = dir.Write("m.weft", kModel);
  const Setting no_driver("WEFT_LIBCUDA", "/nowhere/libcuda.so.1"),
      no_compiler("WEFT_NVRTC", "/nowhere/libnvrtc.so"), no_products("WEFT_CUBLASLT", "/nowhere/a"),
      no_convolutions("WEFT_CUDNN", "/nowhere/b");
  Fails({"inspect", model, "--support", "cuda"}, 3, "WEFT-E0401", "NVRTC was not found");
  Fails({"compile", model, "--target", "cuda:sm_90", "-o", dir / "a.weftx"}, 3, "WEFT-E0401",
        "WEFT_NVRTC");
  CHECK(!fs::exists(dir / "a.weftx"));
  const Json doctor = Parsed(Weft({"doctor", "--json"}));
  for (const char* what : {"kernels cuda", "cuda NVRTC", "cuda cuBLASLt", "cuda cuDNN"}) {
    CAPTURE(what);
    CHECK(doctor.at(what).at("ok") == false);
    CHECK(doctor.at(what).at("found").get<std::string>().find("not found") != std::string::npos);
  }
}

TEST_CASE("bench: state variables without a value begin at random") {
  const Folder dir;
  const Json j = Parsed(Weft({"bench", dir.Write("v.weft", R"(weft 1
graph (%v: f32[300] {state = 1}, %h: bf16[300] {state = 1}) -> (%d) {
  %t = Tanh(%v)
  %c = Cast(%t) {to = bf16}
  %a = weft::Assign(%v, %t)
  %b = weft::Assign(%h, %c)
  %d = weft::Group(%a, %b)
}
)"),
                              "--json", "--iterations", "3"}));
  CHECK(j.at("kernels") == 1);
  CHECK(j.at("cpu_us").get<double>() > 0);
  Fails({"bench", dir.Write("w.weft", R"(weft 1
graph (%v: i64[3] {state = 1}) -> (%d) {
  %d = Neg(%v)
}
)"),
         "--iterations", "3"},
        4, "WEFT-E0105", "variable 'v' has no value");
}

TEST_CASE("grad appends gradients, in any format") {
  const Folder dir;
  const std::string model = dir.Write("m.weft", R"(weft 1
graph (%x: f32[n, 2], %i: i64[1], %w: f32[2] param = [3, 4]) -> (%y, %j) {
  %p = Mul(%x, %w)
  %y = Mul(%p, %x)
  %j = Neg(%i)
}
)");
  dir.WriteTensor("x.npy", DType::kF32, {2, 2});
  dir.WriteTensor("i.npy", DType::kI64, {1});
  dir.WriteTensor("g.npy", DType::kF32, {2, 2});
  const auto run = [&](const std::string& file, bool seed) {
    std::vector<std::string> line = {"run",           file,
                                     "--backend",     "ref",
                                     "--outputs-dir", dir / "out",
                                     "--input",       "x=" + (dir / "x.npy"),
                                     "--input",       "i=" + (dir / "i.npy")};
    if (seed) line.insert(line.end(), {"--input", "grad_y=" + (dir / "g.npy")});
    CHECK(Weft(line).code == 0);
  };
  for (const char* format : {"o.weft", "o.onnx", "o.json"}) {
    CAPTURE(format);
    for (const bool seed : {false, true}) {
      std::vector<std::string> line = {"grad", model, "--xs", "x,w,p", "-o", dir / format};
      if (seed) line.push_back("--seed-inputs");
      CHECK(Weft(line).code == 0);
      run(dir / format, seed);
      // y = w x^2: d/dx = 2 w x, d/dw = sum of x^2 over n, d/dp = x
      const auto x = weft::ReadNpy(dir / "x.npy"), g = weft::ReadNpy(dir / "g.npy");
      const auto dx = weft::ReadNpy(dir / "out/grad_x.npy"),
                 dw = weft::ReadNpy(dir / "out/grad_w.npy"),
                 dp = weft::ReadNpy(dir / "out/grad_p.npy");
      for (int k = 0; k < 4; ++k) {
        const double s = seed ? g->at(k) : 1;
        CHECK(dx->at(k) == doctest::Approx(2 * (3 + k % 2) * x->at(k) * s));
        CHECK(dp->at(k) == doctest::Approx(x->at(k) * s));
      }
      for (int k = 0; k < 2; ++k) {
        double sum = 0;
        for (int r : {0, 2}) sum += x->at(k + r) * x->at(k + r) * (seed ? g->at(k + r) : 1);
        CHECK(dw->at(k) == doctest::Approx(sum));
      }
    }
  }
  // By default every float output by every float input.
  const Json told = Parsed(Weft({"grad", model, "--json", "-o", dir / "d.weft"}));
  CHECK(told["outputs"] == Json::array({"y", "j", "grad_x"}));
  Fails({"grad", model}, 2, "WEFT-E0101", "--output is required");
  Fails({"grad", model, "-o", dir / "o.txt"}, 2, "WEFT-E0101", "o.txt");
  Fails({"grad", model, "--xs", "q", "-o", dir / "o.weft"}, 2, "WEFT-E0101", "there are: x, i");
  Fails({"grad", model, "--ys", "y,y", "-o", dir / "o.weft"}, 2, "WEFT-E0101", "given twice");
  Fails({"grad", model, "--xs", "i", "-o", dir / "o.weft"}, 3, "WEFT-E0401", "'i'");
  // Gradients of gradients: no two outputs of one name.
  CHECK(Weft({"grad", dir / "d.weft", "-o", dir / "dd.weft"}).code == 0);
  const Json twice = Parsed(Weft({"grad", dir / "dd.weft", "--json", "-o", dir / "ddd.weft"}));
  CHECK(twice["outputs"] == Json::array({"y", "j", "grad_x", "grad_x_2", "grad_x_3"}));
  const std::string taken = dir.Write("t.weft", R"(weft 1
graph (%x: f32[2], %grad_y: f32[2]) -> (%y) {
  %y = Mul(%x, %grad_y)
}
)");
  Fails({"grad", taken, "--seed-inputs", "-o", dir / "o.weft"}, 2, "WEFT-E0101", "grad_y");
  // What has no rule is named, and nothing is written.
  const std::string bad = dir.Write("b.weft", R"(weft 1
graph (%x: f32[2], %v: f32[2]) -> (%y) {
  %y = weft::Assign(%v, %x)
}
)");
  Fails({"grad", bad, "--xs", "x", "-o", dir / "none.weft"}, 3, "WEFT-E0401", "'y'");
  CHECK_FALSE(fs::exists(dir / "none.weft"));
}
TEST_CASE("bench --tune times library calls once; later runs find what it chose") {
  constexpr const char* kConv = R"(weft 1
graph @conv(%x: f32[1, 32, 20, 20], %w: f32[32, 32, 3, 3]) -> (%z) {
  %y = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  %z = Relu(%y)
}
)";
  const Folder dir;
  const std::string model = dir.Write("conv.weft", kConv), before = Env("WEFT_CACHE_DIR");
  setenv("WEFT_CACHE_DIR", (dir / "cache").c_str(), 1);
  const auto bench = [&](bool tune, const char* cache) {
    std::vector<std::string> arguments{"bench",    model, "--iterations", "3",
                                       "--warmup", "0",   "--json"};
    if (tune) arguments.push_back("--tune");
    if (cache) setenv("WEFT_CACHE", cache, 1);
    const Json j = Parsed(Weft(arguments));
    if (cache) unsetenv("WEFT_CACHE");
    return j;
  };
  CHECK(!bench(false, nullptr).contains("tuned"));
  const Json first = bench(true, nullptr).value("tuned", Json());
  REQUIRE(first.is_object());
  if (first.at("timed") != 0) {  // with a library there is a choice
    CHECK(first.at("known") == 0);
    const Json again = bench(true, nullptr).at("tuned");
    CHECK(again.at("timed") == 0);
    CHECK(again.at("known") == first.at("timed"));
    CHECK(bench(true, "off").at("tuned").at("timed") == first.at("timed"));
    const Result listed = Weft({"cache", "ls"});
    CHECK(listed.out.find("choice") != std::string::npos);
    CHECK(Weft({"cache", "verify"}).code == 0);
    const Result text = Weft({"bench", model, "--iterations", "3", "--tune"});
    CHECK(text.out.find("0 library calls timed, ") != std::string::npos);
  }
  CHECK(Weft({"run", model, "--random", "--tune"}).code == 0);
  before.empty() ? unsetenv("WEFT_CACHE_DIR") : setenv("WEFT_CACHE_DIR", before.c_str(), 1);
}

}  // namespace
