/// cli_compare_test.cc: `weft compare` from outside: tolerances of single outputs, results that
/// differ for what came before them, ONNX Runtime in a process of its own.
#include <sys/stat.h>

#include <cstdlib>

#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace {

using weft::DType;
using namespace weft::e2e;

/// WEFT_PYTHON for the commands of one scope.
class Python {
 public:
  explicit Python(const std::string& path) { setenv("WEFT_PYTHON", path.c_str(), 1); }
  ~Python() { unsetenv("WEFT_PYTHON"); }
};
std::string WriteProgram(const Folder& dir, const std::string& name, const std::string& text) {
  const std::string file = dir.Write(name, "#!/bin/sh\n" + text);
  REQUIRE(chmod(file.c_str(), 0700) == 0);
  return file;
}

TEST_SUITE("weft compare") {
  TEST_CASE("tolerances of all outputs, and of one") {
    const Folder dir;
    const std::string model = dir.Write(
        "m.weft", "weft 1\ngraph (%x: f32[2]) -> (%y, %z) {\n  %y = Neg(%x)\n  %z = Abs(%x)\n}\n");
    weft::Tensor x(DType::kF32, {2}), off(DType::kF32, {2});
    for (int i = 0; i < 2; ++i) x.set(i, i + 1), off.set(i, -(i + 1) * 1.01);
    WriteNpy(dir / "x.npy", x);
    weft::MakeDirectories(dir / "want");
    WriteNpy(dir / "want/y.npy", off);  // 1 % away
    WriteNpy(dir / "want/z.npy", x);
    const auto compare = [&](std::vector<std::string> more) {
      more.insert(more.begin(),
                  {"compare", model, "ref", dir / "want", "--input", "x=" + (dir / "x.npy")});
      return Weft(more).code;
    };
    CHECK(compare({}) == 1);
    CHECK(compare({"--rtol", "0.02"}) == 0);
    CHECK(compare({"--rtol", "y=0.02"}) == 0);
    CHECK(compare({"--rtol", "z=0.02"}) == 1);
    CHECK(compare({"--rtol", "0.02", "--rtol", "y=0.005", "--atol", "0"}) == 1);
    CHECK(compare({"--atol", "y=0.05"}) == 0);
    CHECK(compare({"--rtol", "q=0.02"}) == 4);
    CHECK(compare({"--rtol", "y=much"}) == 2);
    CHECK(compare({"--rtol", "-1"}) == 2);
    const std::string help = Weft({"compare", "--help"}).out;
    CHECK(help.find("default 0.0001") != std::string::npos);
    CHECK(help.find("onnxruntime") != std::string::npos);
  }

  TEST_CASE("layerwise: a result that differs only for its operands is no cause") {
    const Folder dir;
    // a - b is what rounding leaves of e^x - e^(x/2) e^(x/2): each engine's own.
    const std::string head =
        "weft 1\ngraph (%x: f32[64]) -> (%y) {\n"
        "  %half = Constant() {value = tensor f32[] [0.5]}\n"
        "  %large = Constant() {value = tensor f32[] [100000.0]}\n"
        "  %small = Constant() {value = tensor f32[] [0.0000000001]}\n"
        "  %a = Exp(%x)\n  %h = Mul(%x, %half)\n  %e = Exp(%h)\n  %b = Mul(%e, %e)\n"
        "  %d = Sub(%a, %b)\n  %l = Mul(%d, %large)\n";
    const std::string model =
        dir.Write("m.weft", head + "  %s = Mul(%l, %small)\n  %y = Add(%x, %s)\n}\n");
    const Result r = Weft({"compare", model, "cpu", "ref", "--layerwise", "--json"});
    if (r.code == 3) return;  // no cpu backend
    INFO(r.out, r.err);
    CHECK(r.code == 0);
    const Json j = Parsed(r);
    CHECK(j.at("equal") == true);
    int excused = 0;
    for (const Json& row : j.at("layers")) excused += row.at("operands_differ") == true;
    CHECK(excused >= 1);
    // Where such a result is an output, the engines do not agree.
    const Result out = Weft({"compare", dir.Write("o.weft", head + "  %y = Neg(%l)\n}\n"), "cpu",
                             "ref", "--layerwise"});
    CHECK(out.code == 1);
    CHECK(out.out.find("an output, for operands that differ") != std::string::npos);
  }

  TEST_CASE("onnxruntime: what it gives is compared, and its absence is said") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), onnx = dir / "m.onnx";
    REQUIRE(Weft({"opt", model, "-O0", "-o", onnx}).code == 0);
    REQUIRE(Weft({"run", model, "--backend", "ref", "--random", "--outputs-dir", dir / "o"}).code ==
            0);
    // A stand-in for Python: it looks at what it gets, and gives files.
    const auto stand_in = [&](const std::string& name, const std::string& first,
                              const std::string& second) {
      return WriteProgram(dir, name,
                          "test -f \"$1\" && test -f \"$2\" && test -f \"$3/inputs.json\" && "
                          "test -f \"$3/in_1.npy\" || exit 4\n"
                          "cp '" +
                              (dir / "o/") + first +
                              "' \"$3/out_0.npy\"\n"
                              "cp '" +
                              (dir / "o/") + second + "' \"$3/out_1.npy\"\n");
    };
    {
      const Python python(stand_in("good", "out_y_0.npy", "s.npy"));
      for (const std::string& file : {model, onnx})
        CHECK(Weft({"compare", file, "ref", "onnxruntime"}).code == 0);
    }
    {
      const Python python(stand_in("bad", "s.npy", "out_y_0.npy"));
      CHECK(Weft({"compare", onnx, "onnxruntime", "ref"}).code == 1);
    }
    {
      const Python python(WriteProgram(dir, "none", "echo No module named numpy >&2\nexit 3\n"));
      Fails({"compare", onnx, "ref", "onnxruntime"}, 3, "WEFT-E0401",
            "ONNX Runtime is not available: No module named numpy");
    }
    {
      const Python python(dir / "no such program");
      Fails({"compare", onnx, "ref", "onnxruntime"}, 3, "WEFT-E0401", "is not available");
    }
    {
      const Python python(WriteProgram(dir, "refuses", "echo bad model >&2\nexit 4\n"));
      Fails({"compare", onnx, "ref", "onnxruntime"}, 3, "WEFT-E0401",
            "ONNX Runtime gives no result: bad model");
    }
    // The package itself, where this machine's Python has it.
    const Result real = Weft({"compare", onnx, "ref", "onnxruntime"});
    CHECK((real.code == 0 || real.says("is not available")));
  }
}

}  // namespace
