/// cli_test.cc: the `weft` command from outside: exit codes, messages, results. What must fail is
/// tested as well as what must work, and that a failed run leaves no files.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace {

namespace fs = std::filesystem;
using weft::DType;
using namespace weft::e2e;

TEST_SUITE("weft command") {
  TEST_CASE("usage errors exit with 2, name the culprit and what was meant") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel);
    Fails({}, 2, "WEFT-E0101", "a sub-command is needed");
    Fails({"rnu"}, 2, "WEFT-E0101", "did you mean 'run'");
    Fails({"run"}, 2, "WEFT-E0101", "MODEL is required");
    Fails({"run", model, "--inptu", "x=f"}, 2, "WEFT-E0101", "did you mean '--input'");
    Fails({"run", model, "--input", "x"}, 2, "WEFT-E0101", "expected NAME=VALUE");
    Fails({"run", model, "--input", "x=a.npy", "--input", "x=b.npy"}, 2, "WEFT-E0101",
          "given twice");
    Fails({"run", model, "--random", "--bind", "n=two"}, 2, "WEFT-E0101",
          "expected an integer >= 0");
    Fails({"run", model, "--random", "--backend", "ref:fast"}, 2, "WEFT-E0101",
          "no parameter 'fast'");
    Fails({"bench", model, "--iterations", "0"}, 2, "WEFT-E0101", "--iterations");
    Fails({"bench", model, "--iterations", "99999999999999999999"}, 2, "WEFT-E0101",
          "expected a whole number >= 1");
    Fails({"bench", model, "--duration", "-1"}, 2, "WEFT-E0101", "expected a number >= 0, got");
    for (const char* threads : {"-1", "2.5", "two", "100000000"})
      Fails({"run", model, "--random", "--threads", threads}, 2, "WEFT-E0101",
            "expected a whole number from 0 to 1024");
    Fails({"run", model, "--random", "--seed", "-1"}, 2, "WEFT-E0101", "--seed");
    Fails({"run", model, "--random", "--backend", "rfe"}, 3, "WEFT-E0401", "did you mean 'ref'");
    Fails({"run", model, "--random", "--backend", "tpu9"}, 3, "WEFT-E0401",
          "the backends are: cpu, ");
    Fails({"cache"}, 2, "WEFT-E0101", "weft cache needs a sub-command");
    Fails({"cache", "prnue"}, 2, "WEFT-E0101", "did you mean 'prune'");
    Fails({"opt", model, "--passes", "Xyzzy"}, 2, "WEFT-E0102", "weft --list-passes");
    Fails({"opt", model, "--passes", "Simplify", "--print-after", "("}, 2, "WEFT-E0101",
          "regular expression");
    Fails({"opt", model, "--passes", "Simplify", "--check", "all,most"}, 2, "WEFT-E0101",
          "there is no check");
    Fails({"run", model, "--random", "--limits", "nodez=3"}, 2, "WEFT-E0101", "nodes");
    Fails({"compare", model, dir / "", dir / ""}, 2, "WEFT-E0101", "must be an engine");
    Fails({"run", dir.Write("m.txt", "x"), "--random"}, 2, "WEFT-E0101", ".onnx, .pb, .pbtxt");
  }

  TEST_CASE("help, version and lists are results") {
    CHECK(Weft({"--version"}).out.rfind("weft ", 0) == 0);
    for (const char* command : {"run", "bench", "opt", "compile", "inspect", "compare", "doctor"}) {
      const Result r = Weft({command, "--help"});
      CHECK(r.code == 0);
      CHECK(r.out.find("--json") != std::string::npos);
      CHECK(r.err.empty());
    }
    CHECK(Weft({"--list-passes"}).out.find("Fusion") != std::string::npos);
    CHECK(Parsed(Weft({"--list-passes", "--json"})).size() > 10);
    CHECK(Weft({"opt", "--list-passes"}).out.find("InferShape") != std::string::npos);
    const Result help = Weft({"opt", "--help-pass", "Fusion"});
    CHECK(help.code == 0);
    CHECK(help.out.find("max_ops") != std::string::npos);
    Fails({"--help-pass", "Fusoin"}, 2, "WEFT-E0102", "Fusion");
    CHECK(Parsed(Weft({"doctor", "--json"})).at("weft").at("ok") == true);
  }

  TEST_CASE("reports are JSON, whatever names and numbers a model has") {
    const Folder dir;
    // No UTF-8, half of a surrogate pair, a letter of two bytes, of three and of four; what JSON
    // escapes.
    const std::string model = dir.Write(
        "m.weft",
        "weft 1\n"
        R"(graph (%x: f32[2]) -> (%y as "\xff\xed\xa0\x80\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x01\n\\\"") {)"
        "\n  %y = Log(%x)\n}\n");
    const Result r = Weft({"run", model, "--input", "x=0,1", "--json"});
    const Json output = Parsed(r).at("outputs").at(0);
    const std::string unknown = "\uFFFD";
    CHECK(output.at("name") ==
          unknown + unknown + unknown + unknown + "\u00e9\u20ac\U0001F600\x01\n\\\"");
    CHECK(output.at("shape") == Json{2});
    CHECK(output.at("min").is_null());  // -inf
    CHECK(output.at("max").is_number_float());
    CHECK(output.at("max") == 0);
    CHECK(output.at("nans").is_number_integer());
    CHECK(Parsed(r).at("bindings") == Json::object());
    CHECK(r.out.find("\"outputs\"") < r.out.find("\"backend\""));  // as they were added
  }

  TEST_CASE("a graph of any stage goes out as ONNX, JSON and text, and runs as before") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel);
    REQUIRE(Weft({"run", model, "--random", "--bind", "n=3", "--outputs-dir", dir / "want"}).code ==
            0);
    int made = 0;
    for (const char* passes : {"", "InferShape", "Simplify,Fusion", "Fusion,CodeGen,RTCGen"}) {
      for (const char* extension : {".onnx", ".json", ".weft"}) {
        const std::string label = std::string(passes) + extension;
        CAPTURE(label);
        const std::string out = dir / ("o" + std::to_string(made++) + extension);
        REQUIRE(Weft({"opt", model, "--passes", passes, "-o", out}).code == 0);
        const std::string got = dir / ("got" + std::to_string(made));
        CHECK(Weft({"run", out, "--random", "--bind", "n=3", "--outputs-dir", got}).code == 0);
        for (const char* name : {"/out_y_0.npy", "/s.npy"})
          CHECK(Slurp(got + name) == Slurp(dir / "want" + name));
      }
    }
  }

  TEST_CASE("models that cannot be read") {
    const Folder dir;
    Fails({"run", dir / "none.onnx", "--random"}, 4, "WEFT-E0201", "no file");
    Fails({"run", dir.Write("bad.onnx", "this is no protobuf"), "--random"}, 4, "WEFT-E0301",
          "bad.onnx");
    Fails({"run", dir.Write("m.json", "{\n[]"), "--random"}, 4, "WEFT-E0202", "m.json:2:1");
    Fails({"run", dir.Write("e.weftx", ""), "--random"}, 4, "WEFT-E0301", "is empty");
    Fails({"run", dir.Write("m.weftx", std::string(100, 'x')), "--random"}, 4, "WEFT-E0301",
          "does not begin with WEFTX");
    Fails({"inspect", dir / "m.weftx"}, 4, "WEFT-E0301", "does not begin with WEFTX");
    Fails({"opt", dir / "m.weftx", "--passes", "Simplify"}, 3, "WEFT-E0401", "compiled program");
    Fails({"run", dir.Write("e.onnx", ""), "--random"}, 4, "WEFT-E0301", "the file is empty");
    Fails({"run", dir.Write("s.weft", kModel), "--input", "z=" + (dir / "z.npy")}, 4, "WEFT-E0105",
          "no input 'z'");
    const std::string real = Env("WEFT_DATA_DIR") + "/magika/model.onnx";
    if (fs::exists(real)) {
      const std::string bytes = Slurp(real);
      for (const size_t cut : {bytes.size() / 2, bytes.size() - 1}) {
        const Result r = Weft({"inspect", dir.Write("cut.onnx", bytes.substr(0, cut))});
        CHECK(r.code == 4);
        CHECK(r.says("error[WEFT-E03"));
      }
    }
  }

  TEST_CASE("text that does not parse says where") {
    const Folder dir;
    const Result r =
        Weft({"inspect",
              dir.Write("m.weft", "weft 1\ngraph (%x: f32[2]) -> (%y) {\n  %y = Relu(%x\n}\n")});
    CHECK(r.code == 4);
    CHECK(r.says("error[WEFT-E0202]"));
    CHECK(r.says("m.weft"));
    CHECK(r.says("4:"));
    Fails({"inspect",
           dir.Write("o.weft", "weft 1\ngraph (%x: f32[2]) -> (%y) {\n  %y = Rellu(%x)\n}\n")},
          3, "WEFT-E0302", "Relu");
    // As for a wrong name of a pass.
    Fails({"opt", dir.Write("p.weft", kModel), "--passes", "Simplify,,"}, 2, "WEFT-E0101",
          "pass name");
  }

  TEST_CASE("inputs that do not fit; nothing is written") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), out = dir / "out";
    const std::string x = dir.WriteTensor("x.npy", DType::kF32, {3, 4}),
                      k = dir.WriteTensor("k.npy", DType::kF32, {4});
    const std::string wide = dir.WriteTensor("wide.npy", DType::kF32, {3, 5}),
                      ints = dir.WriteTensor("i.npy", DType::kI32, {4});
    const std::string given = "x=" + x;
    Fails({"run", model, "--outputs-dir", out, "--input", given}, 4, "WEFT-E0105", "input 'k'");
    Fails({"run", model, "--outputs-dir", out}, 4, "WEFT-E0105", "'x', 'k'");
    Fails({"run", model, "--outputs-dir", out, "--random", "--input", "xx=" + x}, 4, "WEFT-E0105",
          "did you mean 'x'");
    Fails({"run", model, "--outputs-dir", out, "--random", "--input", "x=" + wide}, 4, "WEFT-E0308",
          "expected shape [n, 4]");
    Fails({"run", model, "--outputs-dir", out, "--input", given, "--input", "k=" + ints}, 4,
          "WEFT-E0308", "expected dtype f32, got i32");
    Fails({"run", model, "--outputs-dir", out, "--random", "--bind", "m=3"}, 4, "WEFT-E0105",
          "no symbol 'm'");
    Fails({"run", model, "--outputs-dir", out, "--random", "--input", given, "--bind", "n=2"}, 4,
          "WEFT-E0308", "'n' is 2");
    Fails({"run", model, "--outputs-dir", out, "--random", "--input", "x=" + (dir / "none.npy")}, 4,
          "WEFT-E0201", "none.npy");
    Fails({"run", model, "--outputs-dir", out, "--random", "--input",
           "x=" + dir.Write("bad.npy", "\x93NUMPY")},
          4, "WEFT-E0203", "bad.npy");
    Fails({"run", model, "--outputs-dir", out, "--random", "--input", "x=" + model}, 2,
          "WEFT-E0101", ".npy, .pb or .textproto");
    Fails({"run", model, "--outputs-dir", out, "--random", "--limits", "nodes=2"}, 5, "WEFT-E0501",
          "limit");
    Fails({"run", model, "--outputs-dir", out, "--random", "--backend", "tpu"}, 3, "WEFT-E0401",
          "no backend 'tpu'");
    Fails({"run", model, "--outputs-dir", out, "--random", "--plugin", "f.so"}, 2, "WEFT-E0603",
          "./f.so");
    CHECK(!fs::exists(out));
    const std::string clash = dir.Write("c.weft",
                                        "weft 1\ngraph (%x: f32[2]) -> (%y as \"a/b\", %z as "
                                        "\"a:b\") {\n  %y = Relu(%x)\n  %z = Neg(%x)\n}\n");
    Fails({"run", clash, "--random", "--backend", "ref", "--outputs-dir", out}, 3, "WEFT-E0401",
          "both be written");
    CHECK(!fs::exists(out));
  }

  TEST_CASE("run: files, summary, JSON") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), out = dir / "out/deep";
    const std::string x = dir.WriteTensor("x.npy", DType::kF32, {3, 4}),
                      k = dir.WriteTensor("k.npy", DType::kF32, {4});
    const Result r = Weft({"run", model, "--backend", "ref", "--input", "x=" + x, "--input",
                           "k=" + k, "--outputs-dir", out});
    INFO(r.err);
    CHECK(r.code == 0);
    CHECK(r.out.empty());
    const auto y = weft::ReadNpy(out + "/out_y_0.npy"), s = weft::ReadNpy(out + "/s.npy");
    CHECK(y->dims() == std::vector<int64_t>{3, 4});
    for (int row = 0; row < 3; ++row) {
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += y->at(row * 4 + i);
      CHECK(sum == doctest::Approx(1));
    }
    const auto in = weft::ReadNpy(x), by = weft::ReadNpy(k);
    for (int i = 0; i < 12; ++i) CHECK(s->at(i) == std::max(0.0, in->at(i) * by->at(i % 4)));

    const Json j =
        Parsed(Weft({"run", model, "--backend", "ref", "--random", "--bind", "n=2", "--json"}));
    CHECK(j.at("outputs").at(0).at("shape") == Json({2, 4}));
    CHECK(j.at("outputs").at(0).at("name") == "out/y:0");
    const Result text = Weft({"run", model, "--backend", "ref", "--random"});
    CHECK(text.out.find("[1, 4]") != std::string::npos);
    // The seed decides, and only the seed.
    CHECK(Weft({"run", model, "--backend", "ref", "--random"}).out == text.out);
    CHECK(Weft({"run", model, "--backend", "ref", "--random", "--seed", "2"}).out != text.out);
  }

  TEST_CASE("errors as JSON, the command line's too") {
    const Folder dir;
    for (const Result& r : {Weft({"--error-format=json", "rnu"}),
                            Weft({"run", dir / "none.onnx", "--error-format", "json"})}) {
      const Json j = Json::parse(r.err, nullptr, false);
      REQUIRE(!j.is_discarded());
      for (const char* key : {"code", "kind", "place", "message", "hint"}) CHECK(j.contains(key));
    }
  }

  TEST_CASE("opt: pipelines, statistics, what one may look at") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), out = dir / "o.weft";
    Fails({"opt", model, "--passes", "Simplify,Fuson"}, 2, "WEFT-E0102", "Fusion");
    Fails({"opt", model, "--passes", "Fusion{max_opz=3}"}, 2, "WEFT-E0103", "max_ops");
    Fails({"opt", model, "--passes", "Fusion{max_ops=\"a\"}"}, 2, "WEFT-E0103", "max_ops");
    Fails({"opt", model, "--passes", "Fusion", "--skip", "Fuson"}, 2, "WEFT-E0102", "Fusion");
    Fails({"opt", model, "--passes", "Fusion", "--strict"}, 2, "WEFT-E0104", "strict");
    Fails({"opt", model, "--passes", "Fusion", "-o", dir / "o.txt"}, 2, "WEFT-E0101", ".json");
    Fails({"opt", model, "--passes", "Fusion", "--json"}, 2, "WEFT-E0101", "-o");
    CHECK(!fs::exists(out));

    const Result text = Weft({"opt", model, "--passes", "InferShape"});
    CHECK(text.code == 0);
    CHECK(text.out.rfind("weft 1\n", 0) == 0);
    const Result stats = Weft({"opt", model, "--passes", "Fusion", "-o", out, "--stats", "--time",
                               "--check=changed,deterministic"});
    INFO(stats.err);
    CHECK(stats.code == 0);
    CHECK(stats.out.find("Fusion needs") != std::string::npos);
    CHECK(stats.out.find("total") != std::string::npos);
    CHECK(Slurp(out).find("weft::Fused") != std::string::npos);
    const Json j = Parsed(Weft({"opt", model, "--passes", "Fusion", "-o", out, "--json"}));
    CHECK(j.at("fused").get<int>() >= 1);
    CHECK(j.at("passes").back().at("fused_after") == j.at("fused"));
    const Json skipped = Parsed(
        Weft({"opt", model, "--passes", "Fusion", "-o", out, "--json", "--skip", "Fusion#1"}));
    CHECK(skipped.at("fused") == 0);
    const Result prints = Weft({"opt", model, "--passes", "Fusion", "--print-after", "^Fusion$",
                                "--dump-dir", dir / "dump"});
    CHECK(prints.says("// after Fusion"));
    CHECK(!prints.says("// after InferShape"));
    CHECK(!fs::is_empty(dir / "dump"));
  }

  TEST_CASE("oddities of a file: a warning each, and --strict") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), good = dir / "good.onnx",
                      odd = dir / "odd.onnx", worse = dir / "worse.onnx";
    REQUIRE(Weft({"opt", model, "--passes", "Simplify", "-o", good}).code == 0);
    std::string bytes = Slurp(good);
    REQUIRE(bytes[0] == 8);  // the tag of ir_version, and one byte of it
    bytes[1] = 0;
    dir.Write("odd.onnx", bytes);
    bytes[1] = 100;
    dir.Write("worse.onnx", bytes);
    Result r = Weft({"run", good, "--random", "--strict"});
    CHECK(r.code == 0);
    CHECK(r.err.find("warning") == std::string::npos);
    for (const char* command : {"run", "bench", "compile", "inspect", "opt", "grad", "check"}) {
      CAPTURE(command);
      std::vector<std::string> line = {command, odd};
      const std::string name = command;
      if (name == "run") line.insert(line.end(), {"--random"});
      if (name == "bench") line.insert(line.end(), {"--iterations", "1"});
      if (name == "compile") line.insert(line.end(), {"--target", "cpu"});
      if (name == "opt") line.insert(line.end(), {"--passes", "Simplify"});
      if (name == "grad") line.insert(line.end(), {"-o", dir / "g.weft"});
      r = Weft(line);
      CHECK(r.says("warning[missing-ir] " + odd + ": the model has no IR version"));
      CHECK(r.says("(hint: set ir_version)"));
      CHECK(r.err.find("warning") == r.err.rfind("warning"));
      line.push_back("--strict");
      Fails(line, 4, "WEFT-E0301", "the model has no IR version");
    }
    const Json j = Parsed(Weft({"inspect", odd, "--json"}));
    REQUIRE(j["findings"].size() == 1);
    CHECK(j["findings"][0]["oddity"] == "missing-ir");
    Fails({"run", worse, "--random"}, 3, "WEFT-E0401", "IR version 100");
    // Where a program reads, warnings and notes are objects, one a line.
    for (const std::string option : {"--json", "--error-format=json"}) {
      CAPTURE(option);
      r = Weft({"run", odd, "--random", option});
      REQUIRE(r.code == 0);
      std::istringstream lines(r.err);
      std::vector<Json> said;
      for (std::string text; std::getline(lines, text);) said.push_back(Json::parse(text));
      REQUIRE(said.size() == 2);
      CHECK(said[0].at("kind") == "warning");
      CHECK(said[0].at("oddity") == "missing-ir");
      CHECK(said[0].at("file") == odd);
      CHECK(said[0].at("message").get<std::string>().find("has no IR version") == 10);
      CHECK(said[0].at("hint") == "set ir_version");
      CHECK(said[1].at("kind") == "note");
    }
  }

  TEST_CASE("models and values in protobuf's text form") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel),
                      value = dir.Write("x.textproto",
                                        "dims: 1 dims: 4 data_type: 1\nfloat_data: [1, 2, 3, 4]");
    REQUIRE(Weft({"opt", model, "-o", dir / "m.pbtxt"}).code == 0);
    CHECK(Weft({"run", dir / "m.pbtxt", "--random"}).code == 0);
    Fails({"run", model, "--input", "x=" + dir.Write("y.textproto", "dims: a")}, 4, "WEFT-E0202",
          "line 1, column 7");
    Fails({"run", dir.Write("n.textproto", "nodes {}"), "--random"}, 4, "WEFT-E0202",
          "line 1, column 7");
  }

  TEST_CASE("inspect and support") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel);
    const Json j = Parsed(Weft({"inspect", model, "--json", "--bind", "n=8"}));
    CHECK(j.at("nodes") == 4);
    CHECK(j.at("ops").at("Softmax") == 1);
    CHECK(j.at("symbols") == Json({"n"}));
    CHECK(j.at("bindings").at("n") == 8);
    CHECK(j.at("flops").get<int64_t>() > 0);
    CHECK(j.at("peak_bytes").is_number());
    CHECK(Weft({"inspect", model, "--support", "ref"}).code == 0);
    Fails({"inspect", model, "--support", "tpu"}, 3, "WEFT-E0401", "tpu");
    CHECK(j.at("chosen") == Json::array());
    CHECK(Parsed(Weft({"inspect", model, "--json"})).at("chosen") == Json({"n"}));
    const std::string unknown =
        dir.Write("u.weft", "weft 1\ngraph (%x: f32?) -> (%y) {\n  %y = Relu(%x)\n}\n");
    CHECK(Weft({"inspect", unknown}).out.find("not known") != std::string::npos);
    const Result cpu = Weft({"inspect", unknown, "--support", "cpu"});
    CHECK(cpu.code == 0);  // it runs, between regions
    CHECK(cpu.out.find("1 of them between regions") != std::string::npos);
    CHECK(cpu.out.find("Relu") != std::string::npos);
  }

  TEST_CASE("inspect traces what is unknown to where it begins") {
    const Folder dir;
    const std::string model = dir.Write(
        "open.weft",
        "weft 1\ngraph (%r: f32?, %x: f32[n, 1], %i: i64[1], %k: i64[2]) -> (%b, %f, %h) {\n"
        "  %a = Tanh(%r)\n  %b = Neg(%a)\n  %e = Squeeze(%x, %i)\n  %f = Exp(%e)\n"
        "  %h = Reshape(%x, %k)\n}\n");
    const Json j = Parsed(Weft({"inspect", model, "--json"}));
    const auto why = [&j](const std::string& place) {
      for (const Json& row : j.at("unknown_shapes"))
        if (row.at("place").get<std::string>().find(place) != std::string::npos)
          return row.at("why").get<std::string>();
      return std::string("nothing");
    };
    CHECK(j.at("unknown_shapes").size() == 5);
    CHECK(why("'b' (Neg)") == "input 'r': no rank");
    CHECK(why("'f' (Exp)") ==
          "op Squeeze 'e': the axes are not known at compile time (input 1 is the value of input "
          "'i')");
    REQUIRE(j.at("runtime_extents").size() == 2);
    CHECK(j.at("runtime_extents")[0].at("name") == "u0");
    const std::string text = Weft({"inspect", model}).out;
    CHECK(text.find("input 'r': no rank") != std::string::npos);
    CHECK(text.find("'h' (Reshape): data-dependent") != std::string::npos);
  }

  TEST_CASE("compare: engines and folders") {
    const Folder dir;
    const std::string model = dir.Write("m.weft", kModel), out = dir / "want";
    REQUIRE(
        Weft({"run", model, "--backend", "ref", "--random", "--seed", "5", "--outputs-dir", out})
            .code == 0);
    CHECK(Weft({"compare", model, "ref", out, "--seed", "5"}).code == 0);
    const Result r = Weft({"compare", model, "ref", out, "--seed", "6", "--json"});
    CHECK(r.code == 1);
    CHECK(r.says("error[WEFT-E0701]"));
    CHECK(Parsed(r).at("equal") == false);
    CHECK(Weft({"compare", model, "ref", out, "--seed", "6", "--rtol", "1000", "--atol", "1000"})
              .code == 0);
    const Json layers = Parsed(Weft({"compare", model, "ref", "ref", "--layerwise", "--json"}));
    CHECK(layers.at("layers").size() == 4);
    Fails({"compare", model, "ref", dir / "none"}, 4, "WEFT-E0201", "no folder");
    Fails({"compare", model, "ref", out, "--layerwise"}, 2, "WEFT-E0101", "--layerwise");
    fs::remove(out + "/s.npy");
    Fails({"compare", model, "ref", out, "--seed", "5"}, 4, "WEFT-E0201", "s.npy");
  }

  // A build without LLVM has no cpu backend; then its absence must be said in one line.
}

}  // namespace
