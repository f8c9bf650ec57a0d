/// cli_bodies_test.cc: the debugging commands on what stands in bodies of If, Loop and Scan, and in
/// regions.
#include <algorithm>

#include "tests/support/cli_util.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"

namespace {

using namespace weft::e2e;

std::string WriteText(const Folder& dir, const std::string& text) {
  return dir.Write("m.weft", "weft 1\n" + text);
}
/// What makes 0 of NaN on cpu.
Result CompareLayers(const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"compare",     model,    "cpu",      "ref",
                                  "--layerwise", "--json", "--plugin", WRONG_PASSES};
  all.insert(all.end(), more.begin(), more.end());
  return Weft(all);
}

// The root of what is left of x after each iteration: NaN from the fourth on where x is 3.
const char* const kLoop = R"(graph @m(%n: i64[], %x: f32[2]) -> (%all, %z) {
  %y, %all = Loop(%n, _, %x) {
    body = graph (%i: i64[], %go: bool[], %v: f32[2]) -> (%go, %w, %t) {
      %one = Constant() {value = tensor f32[] [1.0]} : ?
      %w = Sub(%v, %one) : ?
      %s = Sqrt(%w) : ?
      %twice = wrong::Twice(%s) : ?
      %t = Neg(%twice) : ?
    }
  } : ?, ?
  %z = Abs(%y) : ?
})";

}  // namespace

TEST_SUITE("commands in bodies") {
  TEST_CASE("compare --layerwise: the node of a loop's body, and the iteration") {
    const Folder dir;
    const std::string model = WriteText(dir, kLoop);
    const Result good = CompareLayers(model, {"--input", "x=5", "--input", "n=4"});
    if (good.code == 3) return;  // no cpu backend
    INFO(good.out, good.err);
    CHECK(good.code == 0);
    const Json layers = Parsed(good).at("layers");
    CHECK(std::any_of(layers.begin(), layers.end(), [](const Json& row) {
      return row.at("name").get<std::string>().find("y/body: ") == 0;
    }));
    const Result wrong = CompareLayers(model, {"--input", "x=3", "--input", "n=6"});
    INFO(wrong.out, wrong.err);
    CHECK(wrong.code == 1);
    const std::string first = Parsed(wrong).at("first_different");
    CHECK(first.find("y/body: ") == 0);
    CHECK(first.find("'twice' (wrong::Twice), iteration 3") != std::string::npos);
    // What follows from it is no cause.
    for (const Json& row : Parsed(wrong).at("layers"))
      if (row.at("name").get<std::string>().find("'t' (Neg)") != std::string::npos)
        CHECK(row.at("operands_differ") == true);
    // It is what it names on stderr, too.
    CHECK(wrong.err.find("iteration 3") != std::string::npos);
  }

  TEST_CASE("compare --layerwise: bodies in bodies, and the branch that was taken") {
    const Folder dir;
    const std::string model = WriteText(dir, R"(graph @m(%n: i64[], %x: f32[k]) -> (%y) {
  %y = Loop(%n, _, %x) {
    body = graph (%i: i64[], %go: bool[], %v: f32[k]) -> (%go, %r) {
      %one = Constant() {value = tensor f32[] [1.0]} : ?
      %w = Sub(%v, %one) : ?
      %two = Constant() {value = tensor i64[] [2]} : ?
      %m = Mod(%i, %two) : ?
      %odd = Cast(%m) {to = bool} : ?
      %r = If(%odd, %w) {
        num_captures = 1,
        then_branch = graph (%a: f32[k]) -> (%c) {
          %s = Sqrt(%a) : ?
          %twice = wrong::Twice(%s) : ?
          %c = Mul(%twice, %a) : ?
        },
        else_branch = graph (%a: f32[k]) -> (%c) { %c = Identity(%a) : ? }
      } : ?
    }
  } : ?
})");
    const Result good =
        CompareLayers(model, {"--shape", "x=2", "--input", "n=1", "--input", "x=0.5,0.5"});
    if (good.code == 3) return;
    INFO(good.out, good.err);
    CHECK(good.code == 0);  // the branch that would be wrong is not taken
    const Result wrong =
        CompareLayers(model, {"--shape", "x=2", "--input", "n=4", "--input", "x=0.5,0.5"});
    INFO(wrong.out, wrong.err);
    CHECK(wrong.code == 1);
    const std::string first = Parsed(wrong).at("first_different");
    CHECK(first.find("y/body/r/then_branch: ") == 0);
    CHECK(first.find("'twice' (wrong::Twice), iteration 1") != std::string::npos);
  }

  TEST_CASE("compare --layerwise: a Scan along another axis, and regions") {
    const Folder dir;
    const std::string model = WriteText(dir, R"(graph @m(%x: f32[3, 4], %h: f32[3]) -> (%z) {
  %r = Relu(%x) : ?
  %i = NonZero(%r) : ?
  %t = Transpose(%i) : ?
  %v = GatherND(%r, %t) : ?
  %f, %y = Scan(%h, %x, %v) {
    num_scan_inputs = 1, num_captures = 1, scan_input_axes = [1], scan_output_axes = [1],
    body = graph (%a: f32[3], %b: f32[3], %c: f32?) -> (%d, %e) {
      %m = ReduceSum(%c) {keepdims = 0} : ?
      %d = Add(%a, %b) : ?
      %g = Sub(%d, %m) : ?
      %s = Sqrt(%g) : ?
      %e = wrong::Twice(%s) : ?
    }
  } : ?, ?
  %z = Neg(%y) : ?
})");
    const Result wrong = CompareLayers(model, {"--input", "h=1,1,1", "--input", "x=0"});
    if (wrong.code == 3) return;
    INFO(wrong.out, wrong.err);
    CHECK(wrong.code == 0);
    const Result right = CompareLayers(model, {"--seed", "2"});
    INFO(right.out, right.err);
    CHECK(right.code == 1);
    const std::string first = Parsed(right).at("first_different");
    CHECK(first.find("f/body: ") == 0);
    CHECK(first.find("'e' (wrong::Twice), iteration 0") != std::string::npos);
  }

  TEST_CASE("bisect: a rewrite in a body is named with it") {
    const Folder dir;
    const std::string model = WriteText(dir, R"(graph @m(%n: i64[], %x: f32[2]) -> (%y) {
  %e = Abs(%x) : ?
  %y = Loop(%n, _, %e) {
    body = graph (%i: i64[], %go: bool[], %v: f32[2]) -> (%go, %w) {
      %a = Abs(%v) : ?
      %o = Exp(%a) : ?
      %bad = Abs(%o) : ?
      %w = Sigmoid(%bad) : ?
    }
  } : ?
})");
    const Result found = Weft({"bisect", model, "--plugin", WRONG_PASSES, "--passes",
                               "WrongAbsInBodies,FoldConstants", "--input", "n=3", "--json"});
    INFO(found.out, found.err);
    REQUIRE(found.code == 0);
    const Json j = Parsed(found);
    CHECK(j.at("pass") == "WrongAbsInBodies");
    CHECK(j.at("rewrites") == 3);
    CHECK(j.at("rewrite_number") == 3);
    const std::string node = j.at("node");
    CHECK(node.find("body of ") == 0);
    CHECK(node.find("(Loop): ") != std::string::npos);
    CHECK(node.find("'bad' (Abs)") != std::string::npos);
  }

  TEST_CASE(
      "reduce: branches and iterations take the place of control flow, bodies lose operators") {
    const Folder dir;
    const std::string model =
        WriteText(dir, R"(graph @m(%c: bool[], %n: i64[], %x: f32[2]) -> (%z) {
  %y = Loop(%n, _, %x) {
    body = graph (%i: i64[], %go: bool[], %v: f32[2]) -> (%go, %w) {
      %a = Neg(%v) : ?
      %s = Sigmoid(%a) : ?
      %w = Tanh(%s) : ?
    }
  } : ?
  %r = If(%c, %y) {
    num_captures = 1,
    then_branch = graph (%q: f32[2]) -> (%u) { %u = Exp(%q) : ? },
    else_branch = graph (%q: f32[2]) -> (%u) { %u = Abs(%q) : ? }
  } : ?
  %z = Neg(%r) : ?
})");
    const auto reduce = [&](const std::string& check) {
      const Result r = Weft({"reduce", model, "--check", check, "-o", dir / "r.weft", "--json"});
      INFO(r.out, r.err);
      REQUIRE(r.code == 0);
      return weft::ParseGraph(weft::ReadFile(dir / "r.weft"));
    };
    // Nothing needs the loop.
    const weft::Graph flat = reduce("! grep -q Sigmoid {}");
    CHECK(flat.TopoOrder().size() == 2);
    // Something does.
    const weft::Graph loop = reduce("! grep -q Loop {} || ! grep -q Sigmoid {}");
    int operators = 0;
    for (const weft::NodePtr& n : loop.TopoOrder()) {
      operators += !n->is_variable() && n->op()->name != "Constant";
      if (!weft::HasControlBodies(n)) continue;
      const weft::Graph& body = *n->attr<weft::GraphPtr>("body");
      int inside = 0;
      for (const weft::NodePtr& b : body.TopoOrder())
        inside += !b->is_variable() && b->op()->name != "Constant";
      CHECK(inside == 1);
    }
    CHECK(operators == 1);
  }

  TEST_CASE("run: a Loop that never ends meets a limit, and is named") {
    const Folder dir;
    const std::string model = WriteText(dir, R"(graph @m(%go: bool[], %x: f32[2]) -> (%all) {
  %y, %all = Loop(_, %go, %x) {
    body = graph (%i: i64[], %c: bool[], %v: f32[2]) -> (%c, %w, %w) { %w = Neg(%v) : ? }
  } : ?, ?
})");
    const auto run = [&](const std::string& limits) {
      return Weft({"run", model, "--input", "go=1", "--input", "x=1,2", "--limits", limits});
    };
    const Result iterations = run("iterations=500"), bytes = run("tensor_bytes=4000"),
                 seconds = run("deadline_s=0.3");
    for (const Result& r : {iterations, bytes, seconds}) {
      INFO(r.out, r.err);
      CHECK(r.code == 5);
      CHECK(r.err.find("WEFT-E0501") != std::string::npos);
      CHECK(r.err.find("'y' (Loop) > iteration ") != std::string::npos);
      CHECK(r.err.find("f32[2]") != std::string::npos);
    }
    CHECK(iterations.err.find("the limit of 500 iterations") != std::string::npos);
    CHECK(iterations.err.find("iteration 500") != std::string::npos);
    CHECK(bytes.err.find("tensor_bytes") != std::string::npos);
    CHECK(Weft({"doctor"}).out.find("iterations=100000000") != std::string::npos);
  }

  TEST_CASE("bench --profile: rows of bodies, and where they are") {
    const Folder dir;
    const std::string model =
        WriteText(dir, R"(graph @m(%n: i64[], %x: f32[256, 256], %w: f32[256, 256]) -> (%y) {
  %y = Loop(%n, _, %x, %w) {
    num_captures = 1,
    body = graph (%i: i64[], %go: bool[], %v: f32[256, 256], %u: f32[256, 256]) -> (%go, %t) {
      %p = MatMul(%v, %u) : ?
      %t = Tanh(%p) : ?
    }
  } : ?
})");
    const std::vector<std::string> args = {"bench",    model, "--input",      "n=7", "--profile",
                                           "--warmup", "0",   "--iterations", "3"};
    std::vector<std::string> json = args;
    json.push_back("--json");
    const Result r = Weft(json);
    if (r.code == 3) return;
    INFO(r.out, r.err);
    REQUIRE(r.code == 0);
    const Json j = Parsed(r);
    int64_t inside = 0, bytes = 0;
    for (const Json& row : j.at("profile")) {
      bytes += row.at("bytes").get<int64_t>();
      if (row.at("in") != "y/body") continue;
      ++inside;
      CHECK(row.at("times") == 7);
    }
    CHECK(inside >= 1);
    CHECK(bytes == j.at("bytes_moved"));
    const std::string text = Weft(args).out;
    CHECK(text.find("y/body: ") != std::string::npos);
    CHECK(text.find("times") != std::string::npos);
  }
}
