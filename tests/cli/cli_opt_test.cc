/// cli_opt_test.cc: what `weft opt` does where nobody says what, files without weights, bodies and
/// unknown operators in `weft inspect`, and work that is interrupted or fails half-way.
#include <filesystem>

#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace {

namespace fs = std::filesystem;
using namespace weft::e2e;

/// Double negation, which Simplify takes away.
constexpr const char* kTwice = R"(weft 1
graph (%x: f32[n, 4]) -> (%y) {
  %a = Neg(%x)
  %b = Neg(%a)
  %y = Exp(%b)
}
)";
/// A matrix of more elements than a text shows.
constexpr const char* kWeighted = R"(weft 1
graph (%x: f32[n, 8]) -> (%y) {
  %s = Constant() {value = tensor i64[2] [8, 4]}
  %w = ConstantOfShape(%s) {value = tensor f32[1] [0.5]}
  %y = MatMul(%x, %w)
}
)";

int64_t NodesAt(const std::string& model, const std::vector<std::string>& options,
                const std::string& out) {
  std::vector<std::string> words = {"opt", model, "-o", out, "--json"};
  words.insert(words.end(), options.begin(), options.end());
  return Parsed(Weft(words)).at("nodes").get<int64_t>();
}

TEST_SUITE("weft opt and its defaults") {
  TEST_CASE("without passes it simplifies; pipelines have names") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kTwice), out = dir / "o.onnx";
    CHECK(NodesAt(model, {}, out) == 2);  // x and Exp
    CHECK(NodesAt(model, {"-O1"}, out) == 2);
    CHECK(NodesAt(model, {"--passes", "O1"}, out) == 2);
    CHECK(NodesAt(model, {"-O0"}, out) == 4);
    CHECK(NodesAt(model, {"--passes", ""}, out) == 4);
    const auto fused = [&](const std::string& passes) {
      const Json j =
          Parsed(Weft({"opt", model, "--passes", passes, "-o", dir / "f.weft", "--json"}));
      return j.at("fused").get<int>();
    };
    CHECK(fused("O1") == 0);
    CHECK(fused("O2") == 1);
    CHECK(fused("O3") == 1);
    CHECK(fused("default") == 1);
    CHECK(Slurp(dir / "f.weft").find("#order") == std::string::npos);  // a hidden attribute
    CHECK(Weft({"run", out, "--random", "--passes", "default-without-fusion"}).code == 0);
    const Result list = Weft({"--list-passes"});
    const Json names = Parsed(Weft({"--list-passes", "--json"}));
    for (const char* name : {"O0", "O3", "default", "default-without-fusion", "Simplify"}) {
      CHECK(list.out.find(name) != std::string::npos);
      CHECK(std::any_of(names.begin(), names.end(),
                        [&](const Json& row) { return row.at("name") == name; }));
    }
    Fails({"opt", model, "-O4"}, 2, "WEFT-E0101", "from 0 to 3");
    Fails({"opt", model, "-O1", "--passes", "Simplify"}, 2, "WEFT-E0101", "--passes");
    // A wrong text and a wrong name are the same kind of mistake.
    for (const char* command : {"opt", "run"}) {
      CHECK(Weft({command, model, "--passes", "Simplify,,"}).code == 2);
      CHECK(Weft({command, model, "--passes", "Simplifi"}).code == 2);
      CHECK(Weft({command, model, "--passes", "default,"}).code == 2);
    }
    Fails({"opt", model, "--passes", "Simplify,,"}, 2, "WEFT-E0101", "default-without-fusion");
  }

  TEST_CASE("a text leaves large tensors out, and runs with random weights on request") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kWeighted);
    const std::string elided = dir / "e.weft", full = dir / "f.weft";
    REQUIRE(Weft({"opt", model, "-o", elided}).code == 0);
    REQUIRE(Weft({"opt", model, "-o", full, "--full"}).code == 0);
    CHECK(Slurp(elided).find("#hash=") != std::string::npos);
    CHECK(Slurp(full).find("#hex=") != std::string::npos);
    const auto run = [&](const std::string& file, std::vector<std::string> more) {
      more.insert(more.begin(), {"run", file, "--random", "--backend", "ref", "--json"});
      return Weft(more);
    };
    CHECK(run(full, {}).out.find("\"min\"") != std::string::npos);
    const Result none = run(elided, {});
    CHECK(none.code == 4);
    CHECK(none.says("is not available"));
    const Json a = Parsed(run(elided, {"--random-weights"})), b = Parsed(run(full, {}));
    CHECK(a.at("outputs").at(0).at("shape") == Json({1, 4}));
    CHECK(a.at("outputs").at(0).at("mean") != b.at("outputs").at(0).at("mean"));
    CHECK(a.at("outputs") == Parsed(run(elided, {"--random-weights"})).at("outputs"));
    // What is there stays.
    CHECK(Parsed(run(full, {"--random-weights"})).at("outputs") == b.at("outputs"));
    CHECK(Weft({"inspect", elided, "--random-weights"}).code == 0);
    CHECK(Weft({"bench", elided, "--random-weights", "--iterations", "1"}).code == 0);
  }

  TEST_CASE("inspect counts what bodies hold and cost") {
    const Folder dir;
    const std::string body = "graph (%x: f32[2, 3], %w: f32[3, 5]) -> (%y) { %y = MatMul(%x, %w) }",
                      other =
                          "graph (%x: f32[2, 3], %w: f32[3, 5]) -> (%y) { %a = MatMul(%x, %w) "
                          "%y = Relu(%a) }";
    const std::string branches =
        dir.Write("if.weft",
                  "weft 1\ngraph (%c: bool[], %x: f32[2, 3], %w: f32[3, 5]) -> (%y) {\n"
                  "  %y = If(%c, %x, %w) {else_branch = " +
                      body + ", num_captures = 2, then_branch = " + other + "}\n}\n");
    const Json j = Parsed(Weft({"inspect", branches, "--json"}));
    CHECK(j.at("ops").at("MatMul") == 2);
    CHECK(j.at("ops").at("If") == 1);
    CHECK(j.at("nodes") == 4);
    // Of the branches the dearer one: 2 * 2 * 3 * 5 and the Relu.
    CHECK(j.at("flops").get<int64_t>() >= 60);
    CHECK(j.at("flops").get<int64_t>() < 120);
    // What depends on a size that only the run tells is left out, and said.
    const std::string data =
        dir.Write("u.weft",
                  "weft 1\ngraph (%x: f32[n, 3], %w: f32[3, 5], %k: i64[2]) -> (%y, %z) {\n"
                  "  %y = MatMul(%x, %w)\n  %r = Reshape(%x, %k)\n  %z = Exp(%r)\n}\n");
    const Json part = Parsed(Weft({"inspect", data, "--json", "--bind", "n=2"}));
    CHECK(part.at("flops") == 2 * 2 * 3 * 5);
    CHECK(part.at("flops_unknown_nodes") == 1);
    // Seven iterations; and a loop that may stop counts once.
    const auto loop = [&](const char* name, const char* cond) {
      return dir.Write(
          name,
          "weft 1\ngraph (%b: bool[], %x: f32[3, 3], %w: f32[3, 3]) -> (%y) {\n"
          "  %m = Constant() {value = tensor i64[] [7]}\n  %y = Loop(%m, " +
              std::string(cond) +
              ", %x, %w) {body = graph (%i: i64[], %c: bool[], %s: f32[3, 3], %w: "
              "f32[3, 3]) -> (%c, %t) { %t = MatMul(%s, %w) }, num_captures = 1}\n}\n");
    };
    const Json counted = Parsed(Weft({"inspect", loop("l.weft", "_"), "--json"}));
    CHECK(counted.at("flops") == 7 * 2 * 27);
    CHECK(counted.at("flops_loops") == 0);
    const Json open = Parsed(Weft({"inspect", loop("o.weft", "%b"), "--json"}));
    CHECK(open.at("flops") == 2 * 27);
    CHECK(open.at("flops_loops") == 1);
    CHECK(Weft({"inspect", dir / "o.weft"}).out.find("one iteration of 1 loop") !=
          std::string::npos);
  }

  TEST_CASE("inspect: results of operators that are not known are no inputs") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), onnx = dir / "m.onnx";
    REQUIRE(Weft({"opt", model, "-O0", "-o", onnx}).code == 0);
    CHECK(Parsed(Weft({"inspect", onnx, "--json"})).at("inputs").size() == 2);
    std::string bytes = Slurp(onnx);
    const size_t at = bytes.find("Softmax");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 7, "Softmix");
    const Json j = Parsed(Weft({"inspect", dir.Write("u.onnx", bytes), "--json"}));
    CHECK(j.at("inputs").size() == 2);
    CHECK(j.at("findings").at(0).at("op") == "Softmix");
  }

  TEST_CASE("a compilation that fails leaves no file") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), out = dir / "m.weftx";
    const Result r =
        Weft({"compile", model, "--target", "cpu", "--passes", "Fusion,CodeGen", "-o", out});
    if (r.code == 3) return;  // no cpu backend
    CHECK(r.code == 1);
    CHECK(r.says("do not compile"));
    CHECK(!fs::exists(out));
    CHECK(Weft({"compile", model, "--target", "cpu", "-o", out}).code == 0);
    CHECK(fs::exists(out));
  }

  TEST_CASE("interrupted, bench and reduce tell what they have") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel);
    // In the foreground timeout signals the command alone, once: a second one ends it at once.
    const std::string after_2_s = "timeout --foreground --preserve-status -s INT 2";
    const Result bench = Weft({"bench", model, "--backend", "ref", "--duration", "600", "--json"},
                              "/dev/null", after_2_s);
    CHECK(bench.code == 130);
    const Json j = Parsed(bench);
    CHECK(j.at("interrupted") == true);
    CHECK(j.at("iterations").get<int64_t>() >= 1);
    CHECK(Parsed(Weft({"bench", model, "--backend", "ref", "--iterations", "1", "--json"}))
              .at("interrupted") == false);
    // The third check interrupts who asked for it: two have said what is known by then.
    const std::string out = dir / "small.weft", calls = dir / "calls";
    const std::string check = "echo >>" + calls + "; [ $(wc -l <" + calls +
                              ") -lt 3 ] || kill -INT $PPID; ! grep -q Mul {}";
    const Result reduce = Weft({"reduce", model, "--check", check, "-o", out, "--json"});
    CHECK(reduce.code == 130);
    CHECK(Parsed(reduce).at("interrupted") == true);
    CHECK(Slurp(out).find("Mul") != std::string::npos);
  }
}

}  // namespace
