/// cli_inputs_test.cc: dimensions and inputs as the `weft` command takes them and makes them up.
#include <filesystem>

#include "tests/support/cli_util.h"

namespace {

namespace fs = std::filesystem;
using weft::DType;
using weft::ReadNpy;
using namespace weft::e2e;

/// A window of 16 by 16, which smaller images do not fill.
constexpr const char* kImages = R"(weft 1
graph (%x: f32[N, 3, height, hidden]) -> (%y) {
  %y, %i = MaxPool(%x) {kernel_shape = [16, 16]}
}
)";

std::vector<int64_t> ShapeOf(const Result& r) {
  return Parsed(r).at("outputs").at(0).at("shape").get<std::vector<int64_t>>();
}

TEST_SUITE("inputs of the weft command") {
  TEST_CASE("dimensions that nobody gives are chosen, and told in one line") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kImages);
    const std::vector<std::string> run = {"run", model, "--random", "--json", "--backend", "ref"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), run.begin(), run.end());
      return Weft(more);
    };
    const Result chosen = with({"--bind", "hidden=16"});
    CHECK(ShapeOf(chosen) == std::vector<int64_t>{1, 3, 224 - 15, 1});
    CHECK(chosen.says("dimensions N=1, height=224 are chosen"));
    CHECK(Parsed(chosen).at("bindings") == Json({{"N", 1}, {"height", 224}, {"hidden", 16}}));
    const Result given = with({"--bind", "N=2,height=20,hidden=16"});
    CHECK(ShapeOf(given) == std::vector<int64_t>{2, 3, 5, 1});
    CHECK(!given.says("are chosen"));
    CHECK(ShapeOf(with({"--bind-all", "17"})) == std::vector<int64_t>{17, 3, 2, 2});
    CHECK(ShapeOf(with({"--shape", "x=1x3x18x16"})) == std::vector<int64_t>{1, 3, 3, 1});
    // A binding may contradict the model; a choice may not.
    CHECK(with({"--bind", "height=4"}).code == 4);
    CHECK(with({"--bind-all", "4"}).code == 4);
    for (const char* command : {"bench", "inspect", "compare"}) {
      std::vector<std::string> words = {command, model, "--bind", "height=20,hidden=17"};
      if (words[0] == "compare") words.insert(words.end(), {"ref", "ref"});
      if (words[0] == "bench") words.insert(words.end(), {"--iterations", "1", "--backend", "ref"});
      CHECK(Weft(words).code == 0);
    }
  }

  TEST_CASE("symbols by the beginnings of their names") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kImages);
    const auto run = [&](const std::string& bind) {
      return Weft({"run", model, "--random", "--json", "--backend", "ref", "--bind", bind});
    };
    CHECK(ShapeOf(run("he=16,hi=17")) == std::vector<int64_t>{1, 3, 1, 2});
    const auto fails = [&](const std::string& bind, int code, const char* message) {
      const Result r = run(bind);
      CHECK(r.code == code);
      CHECK(r.says(message));
    };
    fails("h=16", 2, "'h' may be each of height, hidden");
    fails("width=16", 4, "no symbol 'width'");
    fails("he=16,height=17", 2, "'height' is given twice");
    fails("he=16,hi", 2, "expected NAME=VALUE");
    const std::string both =
        dir.Write("b.weft", "weft 1\ngraph (%x: f32[h, hh]) -> (%y) {\n  %y = Relu(%x)\n}\n");
    CHECK(ShapeOf(Weft({"run", both, "--random", "--json", "--backend", "ref", "--bind",
                        "h=2,hh=3"})) == std::vector<int64_t>{2, 3});
  }

  TEST_CASE("shapes of inputs") {
    const Folder dir;
    const std::string model = dir.Write("m.weft",
                                        "weft 1\ngraph (%x: f32[n, 4], %r: f32?) -> (%y, %z) {\n  "
                                        "%y = Relu(%x)\n  %z = Neg(%r)\n}\n");
    const auto run = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"run", model, "--random", "--json", "--backend", "ref"});
      return Weft(words);
    };
    const Json j = Parsed(run({"--shape", "x=3x4", "--shape", "r=2x1x5"}));
    CHECK(j.at("outputs").at(0).at("shape") == Json({3, 4}));
    CHECK(j.at("outputs").at(1).at("shape") == Json({2, 1, 5}));
    CHECK(Parsed(run({"--shape", "r=scalar"})).at("outputs").at(1).at("shape") == Json::array());
    const auto fails = [&](std::vector<std::string> words, int code, const char* message) {
      const Result r = run(std::move(words));
      CHECK(r.code == code);
      CHECK(r.says(message));
    };
    fails({"--shape", "x=3x5"}, 4, "expected shape [n, 4], got [3, 5]");
    fails({"--shape", "x=3"}, 4, "expected shape [n, 4], got [3]");
    fails({"--shape", "q=3"}, 4, "no input 'q'");
    fails({"--shape", "x=3xfour"}, 2, "expected dimensions as in 1x3x224x224");
    fails({"--shape", "x=3x4", "--bind", "n=2"}, 4, "'n' is 2");
  }

  TEST_CASE("numbers on the command line") {
    const Folder dir;
    const std::string model = dir.Write(
        "m.weft",
        "weft 1\ngraph (%sr: i64[], %x: f32[n], %b: bool[2], %u: u8[1, 3]) -> (%s, %y, %c, %v) {\n"
        "  %s = Identity(%sr)\n  %y = Neg(%x)\n  %c = Not(%b)\n  %v = Identity(%u)\n}\n");
    const auto run = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"run", model, "--backend", "ref", "--outputs-dir", dir / "o"});
      return Weft(words);
    };
    const std::vector<std::string> good = {"--input", "sr=16000",     "--input", "x=1,-2.5,3e0",
                                           "--input", "b=true,false", "--input", "u=7"};
    REQUIRE(run(good).code == 0);
    CHECK(ReadNpy(dir / "o/s.npy")->at_int(0) == 16000);
    const auto y = ReadNpy(dir / "o/y.npy");
    REQUIRE(y->dims() == std::vector<int64_t>{3});
    CHECK(y->at(1) == 2.5);
    CHECK(ReadNpy(dir / "o/c.npy")->at(0) == 0);
    const auto v = ReadNpy(dir / "o/v.npy");
    REQUIRE(v->dims() == std::vector<int64_t>{1, 3});
    CHECK(v->at(2) == 7);  // one number fills the input
    const auto fails = [&](const char* value, int code, const char* message) {
      std::vector<std::string> words = good;
      for (std::string& w : words)
        if (w.substr(0, 2) == std::string(value).substr(0, 2)) w = value;
      const Result r = run(words);
      CHECK(r.code == code);
      CHECK(r.says(message));
    };
    fails("sr=1.5", 4, "'1.5' is not a value of dtype i64");
    fails("u=300", 4, "'300' is not a value of dtype u8");
    fails("u=1,2", 4, "2 numbers for shape [1, 3]");
    fails("b=true", 0, "");
    fails("x=1,two", 4, "no file '1,two'");
  }

  TEST_CASE("inputs are saved, and loaded from a folder or a .npz file") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel);
    const auto run = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"run", model, "--backend", "ref", "--outputs-dir"});
      return Weft(words);
    };
    REQUIRE(run({dir / "a", "--random", "--bind", "n=3", "--save-inputs", dir / "in"}).code == 0);
    CHECK(ReadNpy(dir / "in/x.npy")->dims() == std::vector<int64_t>{3, 4});
    REQUIRE(run({dir / "b", "--load-inputs", dir / "in"}).code == 0);
    CHECK(Slurp(dir / "a/s.npy") == Slurp(dir / "b/s.npy"));
    // Python's own library as the writer.
    const auto zip = [&](const std::string& name, const std::string& method) {
      const std::string code =
          "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1], \"w\", "
          "zipfile." +
          method +
          "); [z.write(sys.argv[2] + f, f) for f in "
          "(\"x.npy\", \"k.npy\")]";
      REQUIRE(
          std::system(("python3 -c '" + code + "' '" + (dir / name) + "' '" + (dir / "in/") + "'")
                          .c_str()) == 0);
      return dir / name;
    };
    REQUIRE(run({dir / "c", "--load-inputs", zip("in.npz", "ZIP_STORED")}).code == 0);
    CHECK(Slurp(dir / "a/s.npy") == Slurp(dir / "c/s.npy"));
    const Result packed = run({dir / "d", "--load-inputs", zip("packed.npz", "ZIP_DEFLATED")});
    CHECK(packed.code == 4);
    CHECK(packed.says("compressed"));
    // --input comes first; what is in no file is missing, or random.
    const std::string k = dir.WriteTensor("k2.npy", DType::kF32, {4});
    REQUIRE(run({dir / "e", "--load-inputs", dir / "in", "--input", "k=" + k}).code == 0);
    CHECK(Slurp(dir / "e/s.npy") != Slurp(dir / "a/s.npy"));
    fs::remove(dir / "in/k.npy");
    CHECK(run({dir / "f", "--load-inputs", dir / "in"}).says("no value for the input 'k'"));
    CHECK(run({dir / "f", "--load-inputs", dir / "in", "--random"}).code == 0);
    CHECK(run({dir / "f", "--load-inputs", dir / "nowhere"}).says("is not a folder"));
    const std::string other =
        dir.Write("o.weft", "weft 1\ngraph (%x: f32[n, 4]) -> (%y) {\n  %y = Relu(%x)\n}\n");
    Fails({"run", other, "--load-inputs", dir / "in.npz"}, 4, "WEFT-E0105", "no input 'k'");
  }

  TEST_CASE("- is stdin, of a model of any format or of a tensor, and stdout") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel);
    for (const char* extension : {".weft", ".onnx", ".json", ".pb"}) {
      const std::string file = dir / (std::string("in") + extension);
      REQUIRE(Weft({"opt", model, "-O0", "-o", file}).code == 0);
      CHECK(Weft({"run", file, "--random", "--backend", "ref"}).code == 0);
      const Result r = Weft({"inspect", "-", "--json"}, file);
      CHECK(r.code == 0);
      CHECK(Parsed(r).at("nodes") == 4);
    }
    const Result text = Weft({"opt", "-", "-o", "-"}, dir / "in.onnx");
    CHECK(text.out.rfind("weft 1\n", 0) == 0);
    const std::string x = dir.WriteTensor("x.npy", DType::kF32, {3, 4});
    REQUIRE(
        Weft({"run", model, "--random", "--input", "x=-", "--backend", "ref", "--json"}, x).code ==
        0);
    CHECK(ShapeOf(Weft({"run", model, "--random", "--input", "x=-", "--backend", "ref", "--json"},
                       x)) == std::vector<int64_t>{3, 4});
    const Result twice = Weft({"run", "-", "--random", "--input", "x=-"}, x);
    CHECK(twice.code != 0);
    const Result none = Weft({"run", "-", "--random"});
    CHECK(none.code == 4);
    CHECK(none.says("<stdin>"));
  }

  TEST_CASE("sequences and optional values: files in, through If and Loop, files out") {
    const Folder dir;
    const std::string make = dir.Write("make.weft", R"(weft 1
graph (%x: f32[3]) -> (%s, %o, %q, %e) {
  %s = SequenceConstruct(%x, %x) : ?
  %o = Optional(%x) : ?
  %q = Optional(%s) : ?
  %e = Optional() {type = "f32"} : ?
}
)");
    const std::string use = dir.Write("use.weft", R"(weft 1
graph (%s: seq(f32), %o: opt(f32), %q: opt(seq(f32)), %n: i64[], %x: f32[3]) -> (%u, %p, %w) {
  %has = OptionalHasElement(%o) : ?
  %u = If(%has, %s) {
    num_captures = 1,
    then_branch = graph (%a: seq(f32)) -> (%b) { %b = Identity(%a) : ? },
    else_branch = graph (%a: seq(f32)) -> (%b) { %b = SequenceErase(%a) : ? }
  } : ?
  %p = Identity(%o) : ?
  %l = OptionalGetElement(%q) : ?
  %w = Loop(%n, _, %l, %x) {
    num_captures = 1,
    body = graph (%i: i64[], %go: bool[], %a: seq(f32), %v: f32[3]) -> (%go, %b) {
      %b = SequenceInsert(%a, %v) : ?
    }
  } : ?
}
)");
    const std::string read = dir.Write("read.weft", R"(weft 1
graph (%u: seq(f32), %p: opt(f32), %w: seq(f32)) -> (%a, %b, %c) {
  %a = ConcatFromSequence(%u) {axis = 0} : ?
  %b = OptionalHasElement(%p) : ?
  %c = SequenceLength(%w) : ?
}
)");
    REQUIRE(Weft({"run", make, "--input", "x=1,2,3", "--outputs-dir", dir / "made"}).code == 0);
    for (const std::string backend : {"ref", "cpu"}) {
      for (const bool present : {true, false}) {
        CAPTURE(backend);
        CAPTURE(present);
        const auto made = [&](const char* name) { return dir / "made/" + name + ".pb"; };
        const Result used =
            Weft({"run", use, "--backend", backend, "--input", "s=" + made("s"), "--input",
                  "o=" + made(present ? "o" : "e"), "--input", "q=" + made("q"), "--input", "n=4",
                  "--input", "x=7,8,9", "--outputs-dir", dir / "used"});
        if (used.code == 3 && backend == "cpu") return;  // a build without it
        INFO(used.out, used.err);
        REQUIRE(used.code == 0);
        const auto out = [&](const char* name) {
          return std::string(name) + "=" + (dir / "used/") + name + ".pb";
        };
        const Result seen = Weft({"run", read, "--backend", backend, "--input", out("u"), "--input",
                                  out("p"), "--input", out("w"), "--outputs-dir", dir / "seen"});
        INFO(seen.out, seen.err);
        REQUIRE(seen.code == 0);
        CHECK(ReadNpy(dir / "seen/a.npy")->num_elements() == (present ? 6 : 3));
        CHECK(ReadNpy(dir / "seen/a.npy")->at(2) == 3);
        CHECK(ReadNpy(dir / "seen/b.npy")->at_int(0) == int(present));
        CHECK(ReadNpy(dir / "seen/c.npy")->at_int(0) == 2 + 4);
      }
    }
  }
}

}  // namespace
