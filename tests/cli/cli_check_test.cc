/// cli_check_test.cc: `weft check` from outside: right models pass, what is wrong on purpose
/// (wrong_passes.cc) is named with the values that show it, and what cannot be compared is said.
#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace weft::e2e {
namespace {

std::string WriteText(const Folder& folder, const std::string& name, const std::string& text) {
  WriteFileAtomic(folder / name, "weft 1\n" + text);
  return folder / name;
}

}  // namespace

TEST_CASE("check: a right model passes, in every round, with indices, shapes and sizes that fit") {
  const Folder folder;
  const std::string model = WriteText(folder, "m.weft",
                                      "graph @m(%x: f32[n, 6], %i: i64[n], %s: i64[2], %k: i64[1], "
                                      "%q: i32[n], %c: bool[]) -> (%g, %r, %t, %w, %d) {\n"
                                      "  %e = Exp(%x)\n  %g = Gather(%e, %i) {axis = 0}\n"
                                      "  %r = Reshape(%g, %s) : ?\n"
                                      "  %t, %p = TopK(%x, %k) {axis = 1} : ?, ?\n"
                                      "  %w = Where(%c, %x, %e)\n  %d = Div(%q, %q)\n}\n");
  const Result r = Weft({"check", model, "--json", "--rounds", "18"});
  INFO(r.out, r.err);
  CHECK(r.code == 0);
  const Json j = Parsed(r);
  CHECK(j["equal"] == true);
  CHECK(j["compared"] == 18);
  CHECK(j["difference"].is_null());
  CHECK(j["not_compared"].empty());
  CHECK(j["reference"] == "ref");
  std::map<std::string, int> values, extents;
  for (const Json& round : j["rounds"]) {
    CHECK(round["result"] == "equal");
    ++values[round["values"]];
    ++extents[round["bind"].dump()];
  }
  CHECK(values.size() == 9);
  CHECK(extents.size() == 4);
  CHECK(extents.count("{\"n\":1}") == 1);
  CHECK(extents.count("{\"n\":17}") == 1);
  // In words, and one round alone.
  const Result words = Weft({"check", model, "--round", "1", "--bind", "n=4"});
  CHECK(words.code == 0);
  CHECK(words.out.find("agree in 1 round") != std::string::npos);
  CHECK(words.out.find("n=4") != std::string::npos);
  CHECK(words.out.find("agree in 1 round\n") != std::string::npos);
  const Result chosen = Weft({"check", model, "--rounds", "4"});
  CHECK(chosen.out.find("agree in 4 rounds, at n=3; n=1; n=2; n=17\n") != std::string::npos);
}

TEST_CASE("check: a model is checked at dimensions that it allows, or --bind gives them") {
  const Folder folder;
  const std::string model =
      WriteText(folder, "m.weft",
                "graph @m(%x: f32[n, 2], %s: f32[m]) -> (%y, %z) {\n"
                "  %c = Constant() {value = tensor i64[2] [7, 2]}\n  %r = Reshape(%x, %c)\n"
                "  %y = Exp(%r)\n  %z = Neg(%s)\n}\n");
  const Result found = Weft({"check", model, "--rounds", "4"});
  CHECK(found.code == 0);
  CHECK(found.out.find("n=7") != std::string::npos);
  const Result r = Weft({"check", model, "--bind", "n=7", "--rounds", "4"});
  INFO(r.out, r.err);
  CHECK(r.code == 0);
  CHECK(r.out.find("at m=3, n=7; m=1, n=7; m=2, n=7; m=17, n=7") != std::string::npos);
  const Result none = Weft({"check", model, "--bind", "n=6"});
  CHECK(none.code == 3);
  CHECK(none.says("error[WEFT-E0401]"));
}

TEST_CASE("check: a wrong rewrite is named, with the values that show it") {
  const Folder folder;
  const std::string model = WriteText(folder, "m.weft",
                                      "graph @m(%x: f32[n, 4]) -> (%y) {\n  %a = Neg(%x)\n"
                                      "  %twice = wrong::Twice(%a)\n  %y = Relu(%twice)\n}\n");
  const Result r =
      Weft({"check", model, "--plugin", WRONG_PASSES, "--json", "--save", folder / "in"});
  INFO(r.out, r.err);
  CHECK(r.code == 1);
  CHECK(r.says("error[WEFT-E0701]"));
  const Json d = Parsed(r)["difference"];
  CHECK(d["node"].get<std::string>().find("'twice' (wrong::Twice)") != std::string::npos);
  CHECK(d["values"] == "nan");
  CHECK(d["engine"] == "cpu");
  CHECK(d["detail"].get<std::string>().find("expected nan") != std::string::npos);
  CHECK(d["only_in_reused_session"] == false);
  CHECK(FileExists(folder / "in/x.npy"));
  // The same round again; another one shows nothing.
  const std::string round = std::to_string(d["round"].get<int>());
  const Result again = Weft({"check", model, "--plugin", WRONG_PASSES, "--round", round});
  CHECK(again.code == 1);
  CHECK(again.says("the first node is"));
  CHECK(Weft({"check", model, "--plugin", WRONG_PASSES, "--round", "0"}).code == 0);
}

TEST_CASE("compare --layerwise: the wrong node is the cause, what follows from it is not") {
  const Folder folder;
  const std::string model = WriteText(folder, "m.weft",
                                      "graph @m(%x: f32[4]) -> (%y) {\n  %a = Neg(%x)\n"
                                      "  %twice = wrong::Twice(%a)\n  %m = Mul(%twice, %twice)\n"
                                      "  %y = Relu(%m)\n}\n");
  const auto compare = [&](const char* x) {
    return Weft({"compare", model, "cpu", "ref", "--layerwise", "--json", "--plugin", WRONG_PASSES,
                 "--input", x});
  };
  const Result wrong = compare("x=nan");
  INFO(wrong.out, wrong.err);
  CHECK(wrong.code == 1);
  const Json j = Parsed(wrong);
  CHECK(j["first_different"].get<std::string>().find("'twice'") != std::string::npos);
  for (const Json& row : j["layers"])
    if (row["name"].get<std::string>().find("'m'") != std::string::npos)
      CHECK(row["operands_differ"] == true);
  CHECK(compare("x=1.5").code == 0);
}

TEST_CASE("check: a wrong pass is named, also where every result as an output hides it") {
  const Folder folder;
  const std::string model = WriteText(folder, "m.weft",
                                      "graph @m(%x: f32[n, 4]) -> (%y) {\n  %a = Abs(%x)\n"
                                      "  %e = Exp(%a)\n  %bad = Abs(%e)\n  %y = Tanh(%bad)\n}\n");
  const Result r = Weft({"check", model, "--plugin", WRONG_PASSES, "--passes",
                         "WrongAbs,Fusion,CodeGen,RTCGen,Schedule,PlanMemory", "--json"});
  INFO(r.out, r.err);
  CHECK(r.code == 1);
  CHECK(Parsed(r)["difference"]["node"].get<std::string>().find("'bad' (Abs)") !=
        std::string::npos);
  // What is wrong only where nobody else reads it: the first result that differs is behind it.
  const Result hidden = Weft({"check", model, "--plugin", WRONG_PASSES, "--passes",
                              "WrongAlone,Fusion,CodeGen,RTCGen,Schedule,PlanMemory", "--json"});
  INFO(hidden.out, hidden.err);
  CHECK(hidden.code == 1);
  CHECK(Parsed(hidden)["difference"]["node"].get<std::string>().find("'bad' (Abs)") !=
        std::string::npos);
}

TEST_CASE("check: what draws is left out by name") {
  const Folder folder;
  const std::string model = WriteText(
      folder, "m.weft",
      "graph @m(%x: f32[n, 4]) -> (%y, %z) {\n  %noise = RandomNormalLike(%x)\n"
      "  %y = Add(%x, %noise)\n  %s = RandomNormalLike(%x) {seed = 1.0}\n  %z = Mul(%x, %s)\n}\n");
  const Json j = Parsed(Weft({"check", model, "--rounds", "3", "--json"}));
  CHECK(j["equal"] == true);
  REQUIRE(j["random"].size() == 1);
  CHECK(j["random"][0].get<std::string>().find("'noise'") != std::string::npos);
  CHECK(j["outputs_not_compared"] == Json({"y"}));
  const std::string only =
      WriteText(folder, "o.weft", "graph @m() -> (%y) {\n  %y = RandomNormal() {shape = [3]}\n}\n");
  Fails({"check", only}, 3, "WEFT-E0401", "every output depends on what is drawn without a seed");
}

TEST_CASE("check: what was not compared is said") {
  const Folder folder;
  const std::string model =
      WriteText(folder, "m.weft", "graph @m(%x: f32[n]) -> (%y) {\n  %y = Exp(%x)\n}\n");
  const Result r = Weft({"check", model, "--seconds", "0"});
  CHECK(r.code == 3);
  CHECK(r.out.find("not compared: rounds 0 to") != std::string::npos);
  Fails({"check", model, "--bind", "m=3"}, 4, "WEFT-E0105", "have no symbol 'm'");
}

}  // namespace weft::e2e
