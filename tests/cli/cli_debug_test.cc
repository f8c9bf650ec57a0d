/// cli_debug_test.cc: the debugging commands of `weft` from outside, with passes that are wrong
/// on purpose (the plugin wrong_passes.cc): what is found is exactly what was planted, and
/// nothing where nothing was.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "weft/core/pass/reproducer.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using namespace weft::e2e;

/// Four Abs, the third of them "bad"; an island that has nothing to do with it.
constexpr const char* kModel = R"(weft 1
graph @wrong(%x: f32[n, 4], %k: f32[4], %u: f32[2]) -> (%y, %z, %v) {
  %m = Mul(%x, %k)
  %a = Abs(%m)
  %s = Sigmoid(%a)
  %b = Abs(%s)
  %e = Exp(%b)
  %bad = Abs(%e)
  %t = Tanh(%bad)
  %c = Abs(%t)
  %y = Add(%c, %x)
  %z = Softmax(%t) {axis = -1}
  %v = Relu(%u)
}
)";

/// A folder in which commands run, with its own kernel cache; removed at the end.
class Folder : public TempFolder {
 public:
  struct Result {
    int code = -1;
    std::string out, err;
    bool says(const std::string& part) const { return (out + err).find(part) != std::string::npos; }
    Json json() const {
      INFO(out, err);
      Json j = Json::parse(out, nullptr, false);
      REQUIRE(!j.is_discarded());
      return j;
    }
  };
  /// `environment` as in "A=1 B=2". A terminal: stderr is one, and what it shows is in `err`.
  Result Weft(const std::vector<std::string>& arguments, const std::string& environment = "",
              bool terminal = false) const {
    std::string line = "cd '" + path() + "' && env " + environment + " WEFT_CACHE_DIR='" +
                       (*this / "cache") + "' '" + Env("WEFT_BUILD_DIR") + "/bin/weft'";
    for (const std::string& a : arguments) {
      REQUIRE(a.find('\'') == std::string::npos);
      line += " '" + a + "'";
    }
    int pty = -1;
    std::string err = *this / "err";
    if (terminal) {
      pty = posix_openpt(O_RDWR | O_NOCTTY);
      REQUIRE(pty >= 0);
      REQUIRE(grantpt(pty) == 0);
      REQUIRE(unlockpt(pty) == 0);
      err = ptsname(pty);
    }
    const int held = terminal ? open(err.c_str(), O_RDWR | O_NOCTTY) : -1;  // keeps what is written
    line += " >'" + (*this / "out") + "' 2>'" + err + "' </dev/null";
    const int status = std::system(line.c_str());
    Result r;
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r.out = Slurp(*this / "out");
    if (terminal) {
      fcntl(pty, F_SETFL, O_NONBLOCK);
      char buffer[4096];
      for (ssize_t n; (n = read(pty, buffer, sizeof buffer)) > 0;) r.err.append(buffer, size_t(n));
      close(held);
      close(pty);
    } else {
      r.err = Slurp(err);
    }
    INFO(line, "\n", r.err);
    CHECK(r.code >= 0);
    return r;
  }
};

TEST_SUITE("weft debugging commands") {
  TEST_CASE("bisect finds the pass, its application and the rewrite") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    const Json j =
        dir.Weft({"bisect", "m.weft", "--plugin", WRONG_PASSES, "--passes",
                  "Simplify,InferShape,WrongAbs,Simplify,Fusion", "--json", "--save", "d"})
            .json();
    CHECK(j.at("found") == true);
    CHECK(j.at("application") == "WrongAbs#1");
    CHECK(j.at("rewrite") == "abs-to-relu");
    CHECK(j.at("rewrite_number") == 3);
    CHECK(j.at("rewrites") == 4);
    CHECK(j.at("node").get<std::string>().find("'bad'") != std::string::npos);
    CHECK(j.at("change").get<std::string>().find("Neg(") != std::string::npos);
    CHECK(j.at("reason").get<std::string>().find("the tolerance") != std::string::npos);
    CHECK(j.at("checks").get<int>() < 12);
    // The graphs before and after differ by that one rewrite.
    CHECK(Slurp(dir / "d/good.weft").find("Neg") == std::string::npos);
    CHECK(Slurp(dir / "d/bad.weft").find("Neg") != std::string::npos);
    CHECK(dir.Weft({"compare", "d/good.weft", "ref", "ref"}).code == 0);

    const Folder::Result text = dir.Weft({"bisect", "m.weft", "--plugin", WRONG_PASSES, "--passes",
                                          "WrongAbs,Simplify", "--against", "ref"});
    CHECK(text.code == 0);
    CHECK(text.says("WrongAbs#1, application 1 of"));
    CHECK(text.says("3 of 4: abs-to-relu at"));
    // What it says one can run does give the bad graph.
    const std::string again = text.out.substr(text.out.find("again") + 9);
    CHECK(again.rfind("weft opt m.weft --passes 'WrongAbs' --fuel 3\n", 0) == 0);
  }

  TEST_CASE("bisect: a second application, a pass without fuel, one that throws, none") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    auto bisect = [&](const std::string& passes) {
      return dir.Weft({"bisect", "m.weft", "--plugin", WRONG_PASSES, "--passes", passes, "--json"});
    };
    // Twice negated is right again, so the third application is the one that breaks what
    // was good before it.
    Json j = bisect("WrongWhole,WrongWhole,Simplify,WrongWhole").json();
    CHECK(j.at("application") == "WrongWhole#3");
    CHECK(j.at("rewrite_number") == nullptr);
    CHECK(j.at("rewrites") == 0);
    j = bisect("Simplify,ThrowsOn{op=\"Exp\"},Fusion").json();
    CHECK(j.at("pass") == "ThrowsOn");
    CHECK(j.at("reason").get<std::string>().find("this cannot be") != std::string::npos);
    const Folder::Result none = bisect("Simplify,FoldConstants,ThrowsOn{op=\"Erf\"},Fusion");
    CHECK(none.code == 1);
    CHECK(none.json().at("found") == false);
    CHECK(dir.Weft({"bisect", "m.weft"}).code == 1);  // the backend's own pipeline is right
    const Folder::Result unknown = bisect("Simplify,WrongAps");
    CHECK(unknown.code == 2);
    CHECK(unknown.says("WrongAbs"));
  }

  TEST_CASE("bisect with a command") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    // Bad is a model that says Neg.
    const Json j = dir.Weft({"bisect", "m.weft", "--plugin", WRONG_PASSES, "--passes",
                             "Simplify,WrongAbs,Fusion", "--check", "! grep -q Neg {}", "--json"})
                       .json();
    CHECK(j.at("pass") == "WrongAbs");
    CHECK(j.at("rewrite_number") == 3);
    CHECK(dir.Weft({"bisect", "m.weft", "--check", "true"}).code == 1);
    const Folder::Result always = dir.Weft({"bisect", "m.weft", "--check", "false"});
    CHECK(always.code == 2);
    CHECK(always.says("before any pass"));
    const Folder::Result no_command = dir.Weft({"bisect", "m.weft", "--check", "no_such_program"});
    CHECK(no_command.code == 2);
    CHECK(no_command.says("cannot be run"));
  }

  TEST_CASE("reduce: the smallest model for which the check fails") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    // Interesting is what holds both a Sigmoid and a Tanh: nothing else is needed.
    const std::string check = "! (grep -q Sigmoid {} && grep -q Tanh {})";
    const Json j = dir.Weft({"reduce", "m.weft", "--check", check, "-o", "r.weft", "--min-good",
                             "g.weft", "--json"})
                       .json();
    CHECK(j.at("operators_before") == 11);
    CHECK(j.at("operators") == 2);
    CHECK(j.at("inputs").get<int>() <= 2);
    const weft::Graph reduced = weft::ParseGraph(Slurp(dir / "r.weft"));
    CHECK(reduced.outputs.size() <= 2);
    CHECK(reduced.inputs().size() == j.at("inputs"));
    CHECK(dir.Weft({"run", "r.weft", "--random", "--backend", "ref"}).code == 0);
    CHECK(dir.Weft({"run", "g.weft", "--random", "--backend", "ref"}).code == 0);
    // In every format; a file name with a blank and a quote in the command's place.
    for (const char* out : {"r.onnx", "r.json"}) {
      const Folder::Result r =
          dir.Weft({"reduce", "m.weft", "--check", "! grep -q Sigmoid", "-o", out});
      INFO(r.err);
      CHECK(r.code == 0);
      CHECK(r.says("1 of 11 operators"));
      CHECK(dir.Weft({"inspect", out, "--json"}).json().at("ops").size() == 1);
    }
    // Exit codes: only 3 is bad here, and the island alone has it.
    CHECK(dir.Weft({"reduce", "m.weft", "--check", "grep -q Relu {} && exit 3; exit 1",
                    "--fail-code", "3", "-o", "i.weft"})
              .code == 0);
    CHECK(weft::ParseGraph(Slurp(dir / "i.weft")).inputs().size() == 1);
    const Folder::Result nothing =
        dir.Weft({"reduce", "m.weft", "--check", "true", "-o", "n.weft"});
    CHECK(nothing.code == 1);
    CHECK(nothing.says("nothing wrong"));
    CHECK(!fs::exists(dir / "n.weft"));
    CHECK(dir.Weft({"reduce", "m.weft", "--check", "false", "-o", "n.txt"}).code == 2);
    CHECK(dir.Weft({"reduce", "m.weft", "-o", "n.weft"}).code == 2);
  }

  TEST_CASE("a failing pass leaves a reproducer that fails alike") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    const Folder::Result r =
        dir.Weft({"opt", "m.weft", "--plugin", WRONG_PASSES, "--passes",
                  "Simplify,ThrowsOn{op=\"Exp\"},Fusion{max_ops=7}", "--limits", "nodes=5000",
                  "--fuel", "900", "--skip", "Fusion#3"});
    CHECK(r.code == 70);
    CHECK(r.says("weft-reproducer.weft"));
    const std::string file = Slurp(dir / "weft-reproducer.weft");
    const weft::Reproducer recorded = weft::ParseReproducer(file);
    CHECK(recorded.pass == "ThrowsOn{op=\"Exp\"}");
    CHECK(recorded.rest == "Fusion{max_ops=7}");
    CHECK(recorded.error == "WEFT-E0901");
    CHECK(recorded.message.find("this cannot be") != std::string::npos);
    CHECK(recorded.options.limits.nodes == 5000);
    CHECK(recorded.options.fuel <= 900);
    CHECK(recorded.options.skip == std::vector<std::string>{"Fusion#3"});
    REQUIRE(recorded.plugins.size() == 1);
    CHECK(recorded.plugins[0].name == "wrong_passes");
    CHECK(weft::ParseGraph(file).num_nodes() > 5);  // it is a model as any other

    const Folder::Result without = dir.Weft({"repro", "weft-reproducer.weft"});
    CHECK(without.code == 2);  // the pass is not there, and which plugin has it is said
    CHECK(without.says("recorded with the plugin \"wrong_passes\""));
    for (const bool local : {false, true}) {
      std::vector<std::string> arguments = {"repro", "weft-reproducer.weft", "--plugin",
                                            WRONG_PASSES};
      if (local) arguments.push_back("--local");
      const Folder::Result again = dir.Weft(arguments);
      CHECK(again.code == 70);
      CHECK(again.says("the code is the recorded one"));
      CHECK(again.says("this cannot be"));
    }
    CHECK(Slurp(dir / "weft-reproducer.weft") == file);  // a replay leaves it alone
    // Mended: what the pass stumbled over is no longer there.
    std::string mended = file;
    mended.replace(mended.find("op=\"Exp\""), 8, "op=\"Erf\"");
    dir.Write("mended.weft", mended);
    const Folder::Result gone = dir.Weft({"repro", "mended.weft", "--plugin", WRONG_PASSES});
    CHECK(gone.code == 0);
    CHECK(gone.says("the failure is gone"));
    const Json j = dir.Weft({"repro", "mended.weft", "--plugin", WRONG_PASSES, "--json"}).json();
    CHECK(j.at("gone") == true);
    CHECK(j.at("pipeline") == "ThrowsOn{op=\"Erf\"},Fusion{max_ops=7}");
    CHECK(dir.Weft({"repro", "m.weft"}).code == 4);
    CHECK(dir.Weft({"repro", "none.weft"}).code == 4);
  }

  TEST_CASE("compiling and running leave one too; also outside of passes") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    const Folder::Result compile = dir.Weft({"run", "m.weft", "--random", "--plugin", WRONG_PASSES,
                                             "--passes", "Simplify,ThrowsOn,Fusion"});
    CHECK(compile.code == 70);
    CHECK(weft::ParseReproducer(Slurp(dir / "weft-reproducer.weft")).pass == "ThrowsOn");
    fs::remove(dir / "weft-reproducer.weft");

    const Folder::Result r = dir.Weft({"run", "m.weft", "--random", "--plugin", WRONG_PASSES,
                                       "--backend", "broken", "--seed", "3"});
    CHECK(r.code == 70);
    CHECK(r.says("no pipeline"));
    CHECK(r.says("weft-reproducer.weft"));
    const weft::Reproducer recorded = weft::ParseReproducer(Slurp(dir / "weft-reproducer.weft"));
    CHECK(recorded.pass.empty());
    CHECK(recorded.arguments.at(1) == weft::kReproducerModel);
    fs::remove(dir / "m.weft");  // it is in the file
    const Folder::Result again =
        dir.Weft({"repro", "weft-reproducer.weft", "--plugin", WRONG_PASSES});
    CHECK(again.code == 70);
    CHECK(again.says("the code is the recorded one"));
    CHECK(again.says("no pipeline"));
    const Folder::Result no_plugin = dir.Weft({"repro", "weft-reproducer.weft"});
    CHECK(no_plugin.code == 3);  // no such backend
    CHECK(no_plugin.says("the code is another"));
  }

  TEST_CASE(
      "a kernel that cannot be generated: loud, counted, reproduced; the model runs all the same") {
    const Folder dir;
    // Sums of sums, deeper than the compiler of kernels goes; no model's graph has such a body.
    std::string body, last = "0";
    for (int k = 0; k < 34; ++k) {
      const std::string n = std::to_string(k), one = k % 2 ? "[3, 1]" : "[1, 4]";
      body += "    %r" + n + " = ReduceMax(%" + last + ", %" + (k % 2 ? "3" : "2") + ") : f32" +
              one + "\n    %e" + n + " = Expand(%r" + n + ", %1) : f32[3, 4]\n";
      last = "e" + n;
    }
    dir.Write(
        "m.weft",
        "weft 1\ngraph (%x: f32[3, 4]) -> (%y) {\n  %y = weft::Fused(%x) body (%0: f32[3, 4], "
        "%1: i64[2] param = [3, 4], %2: i64[1] param = [0], %3: i64[1] param = [1]) -> (%" +
            last + ") {\n" + body + "  } : f32[3, 4]\n}\n");
    const std::string reported = "-u WEFT_FAULTS";
    const Folder::Result run = dir.Weft({"run", "m.weft", "--random"}, reported);
    CHECK(run.code == 0);
    CHECK(run.says("error[WEFT-E0901]"));
    CHECK(run.says("1 kernel could not be generated"));
    CHECK(run.says("ReduceMax"));
    CHECK(run.says("weft-reproducer.weft"));
    const weft::Reproducer r = weft::ParseReproducer(weft::ReadFile(dir / "weft-reproducer.weft"));
    CHECK(r.pass == "RTCGen");
    CHECK(r.error == "WEFT-E0901");
    const Folder::Result again = dir.Weft({"repro", "weft-reproducer.weft"}, reported);
    CHECK(again.code == 70);
    CHECK(again.says("the code is the recorded one"));
    const Json bench =
        dir.Weft({"bench", "m.weft", "--json", "--iterations", "1", "--warmup", "0"}, reported)
            .json();
    CHECK(bench.at("kernels_failed") == 1);
    CHECK(bench.at("interpreted") == 1);
    // As the tests have it.
    CHECK(dir.Weft({"run", "m.weft", "--random"}, "WEFT_FAULTS=throw").code == 70);
  }

  TEST_CASE("cache: listed, verified, pruned, cleared") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    CHECK(dir.Weft({"cache", "ls", "--json"}).json().at("entries").empty());
    if (dir.Weft({"run", "m.weft", "--random"}).code == 3) return;  // a build without LLVM
    const Json ls = dir.Weft({"cache", "ls", "--json"}).json();
    REQUIRE(!ls.at("entries").empty());
    CHECK(ls.at("entries")[0].at("target").get<std::string>().rfind("cpu:", 0) == 0);
    CHECK(ls.at("bound") == 1 << 30);
    CHECK(dir.Weft({"cache", "ls"}).says("cpu:"));
    CHECK(dir.Weft({"cache", "verify"}).code == 0);

    const std::string file = ls.at("folder").get<std::string>() + "/" +
                             ls.at("entries")[0].at("file").get<std::string>();
    std::string bytes = Slurp(file);
    bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 4);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    const Folder::Result damaged = dir.Weft({"cache", "verify"});
    CHECK(damaged.code == 1);
    CHECK(damaged.out.find(file) != std::string::npos);
    CHECK(damaged.says("error[WEFT-E0701]"));
    CHECK(dir.Weft({"cache", "verify", "--json"}).json().at("damaged").size() == 1);
    const Folder::Result run =
        dir.Weft({"run", "m.weft", "--random"});  // makes it again, with a warning
    CHECK(run.code == 0);
    CHECK(run.says("damaged"));
    CHECK(dir.Weft({"cache", "verify"}).code == 0);
    CHECK(!dir.Weft({"run", "m.weft", "--random"}).says("damaged"));

    CHECK(dir.Weft({"cache", "prune", "--older-than", "1h", "--json"}).json().at("removed") == 0);
    CHECK(dir.Weft({"cache", "prune", "--json"}).json().at("removed") == 0);
    CHECK(dir.Weft({"cache", "prune", "--max-bytes", "1", "--json"}).json().at("kept") == 0);
    CHECK(dir.Weft({"run", "m.weft", "--random"}).code == 0);
    CHECK(dir.Weft({"cache", "clear", "--json"}).json().at("removed").get<int>() >= 1);
    CHECK(dir.Weft({"cache", "ls", "--json"}).json().at("entries").empty());
    CHECK(dir.Weft({"cache"}).code == 2);
    CHECK(dir.Weft({"cache", "prune", "--max-bytes", "lots"}).code == 2);
    CHECK(dir.Weft({"cache", "prune", "--older-than", "-1"}).code == 2);
    CHECK(dir.Weft({"cache", "ls"}, "WEFT_CACHE=off").code == 2);
  }

  TEST_CASE("bench: profile and times as files") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    const Folder::Result r = dir.Weft({"bench", "m.weft", "--iterations", "5", "--warmup", "0",
                                       "--export-profile", "p.json", "--export-times", "t.json"});
    if (r.code == 3) return;  // a build without LLVM
    REQUIRE(r.code == 0);
    const Json times = Json::parse(Slurp(dir / "t.json"));
    CHECK(times.at("times_ms").size() == 5);
    const Json trace = Json::parse(Slurp(dir / "p.json"));
    int passes = 0, steps = 0, counters = 0;
    int64_t arena = 0;
    double end = 0;
    for (const Json& e : trace.at("traceEvents")) {
      const std::string ph = e.at("ph");
      if (ph == "C") {
        ++counters;
        arena = std::max(arena, e.at("args").at("bytes").get<int64_t>());
      }
      if (ph != "X") continue;
      (e.at("cat") == "pass" ? passes : steps) += 1;
      CHECK(e.at("ts").get<double>() >= end - 1e-6);  // one after the other
      end = e.at("ts").get<double>() + e.at("dur").get<double>();
    }
    CHECK(passes > 3);
    CHECK(steps >= 1);
    CHECK(counters >= 3);
    CHECK(arena ==
          dir.Weft({"bench", "m.weft", "--iterations", "3", "--json"}).json().at("arena_bytes"));
  }

  TEST_CASE("every command: errors as JSON, colour only on a terminal and not with NO_COLOR") {
    const Folder dir;
    const std::vector<std::vector<std::string>> failing = {
        {"run", "none.weft"},
        {"bench", "none.weft"},
        {"opt", "none.weft", "--passes", "Simplify"},
        {"compile", "none.weft", "--target", "cpu"},
        {"inspect", "none.weft"},
        {"compare", "none.weft", "ref", "ref"},
        {"plugins", "--check", "./none.so"},
        {"doctor", "--nonsense"},
        {"bisect", "none.weft"},
        {"reduce", "none.weft", "--check", "true", "-o", "o.weft"},
        {"repro", "none.weft"},
        {"cache", "prune", "--max-bytes", "x"}};
    for (const auto& arguments : failing) {
      INFO(arguments[0]);
      std::vector<std::string> as_json = arguments;
      as_json.push_back("--error-format=json");
      const Folder::Result r = dir.Weft(as_json);
      CHECK(r.code >= 1);
      CHECK(r.out.empty());
      const Json j = Json::parse(r.err, nullptr, false);
      REQUIRE(!j.is_discarded());
      for (const char* key : {"code", "kind", "place", "message", "hint"}) CHECK(j.contains(key));

      CHECK(!dir.Weft(arguments).says("\x1b["));
      CHECK(dir.Weft(arguments, "-u NO_COLOR", true).says("\x1b[1;31merror["));
      CHECK(!dir.Weft(arguments, "NO_COLOR=1", true).says("\x1b["));
    }
  }

  TEST_CASE("progress: on a terminal and after two seconds only") {
    const Folder dir;
    dir.Write("m.weft", kModel);
    const std::vector<std::string> slow = {
        "reduce", "m.weft", "--check", "sleep 0.3; ! grep -q Sigmoid {}", "-o", "r.weft"};
    CHECK(dir.Weft(slow, "", true).says(" operators"));
    CHECK(dir.Weft(slow).err.empty());
    const std::vector<std::string> quick = {"opt",      "m.weft", "--passes",
                                            "Simplify", "-o",     "o.weft"};
    CHECK(dir.Weft(quick, "", true).err.empty());
  }
}

}  // namespace
