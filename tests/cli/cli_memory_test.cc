/// cli_memory_test.cc: `--memory-budget` and `weft inspect --memory`: what is promised is what runs
/// take, and no bit of a result changes.
#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace {

using namespace weft::e2e;

/// A chain of products and sigmoids, whose gradients keep a tensor a layer alive.
std::string Chain(int layers, const std::string& batch) {
  std::string head = "weft 1\ngraph @chain(%x: f32[" + batch + ", 16]", body, last = "x";
  for (int k = 0; k < layers; ++k) {
    const std::string n = std::to_string(k);
    head += ", %w" + n + ": f32[16, 16]";
    body += "  %a" + n + " = MatMul(%" + last + ", %w" + n + ")\n";
    body += "  %s" + n + " = Sigmoid(%a" + n + ")\n";
    last = "s" + n;
  }
  return head + ") -> (%y) {\n" + body + "  %y = ReduceMean(%" + last + ") {keepdims = 0}\n}\n";
}

/// Its gradients with respect to the weights, as a file.
std::string Training(const Folder& dir, int layers = 12, const std::string& batch = "256") {
  weft::WriteFileAtomic(dir / "chain.weft", Chain(layers, batch));
  const std::string path = dir / "training.weft";
  std::string weights = "w0";
  for (int k = 1; k < layers; ++k) weights += ",w" + std::to_string(k);
  const Result r = Weft({"grad", dir / "chain.weft", "--xs", weights, "-o", path});
  REQUIRE(r.code == 0);
  return path;
}

int64_t Bytes(const Json& j, const char* key) { return j.at(key).get<int64_t>(); }

Json Bench(const std::string& model, const std::string& budget,
           const std::vector<std::string>& more = {}) {
  std::vector<std::string> line = {"bench", model, "--iterations", "1", "--warmup", "0", "--json"};
  if (!budget.empty()) line.insert(line.end(), {"--memory-budget", budget});
  line.insert(line.end(), more.begin(), more.end());
  return Parsed(Weft(line));
}

/// The bytes of all results of a run.
std::string Results(const Folder& dir, const std::string& model,
                    const std::vector<std::string>& more) {
  static int number = 0;
  const std::string out = dir / ("out" + std::to_string(number++));
  std::vector<std::string> line = {"run", model, "--random", "--outputs-dir", out};
  line.insert(line.end(), more.begin(), more.end());
  const Result r = Weft(line);
  INFO(r.err);
  REQUIRE(r.code == 0);
  return Slurp(out + "/grad_w0.npy") + Slurp(out + "/grad_w5.npy") + Slurp(out + "/y.npy");
}

TEST_SUITE("weft command") {
  TEST_CASE("memory: the account of a plan is what a run takes") {
    const Folder dir;
    const std::string model = Training(dir);
    const Json said = Parsed(Weft({"inspect", model, "--memory", "--json"}));
    const Json ran = Bench(model, "");
    CHECK(Bytes(said, "arena_bytes") == Bytes(ran, "arena_bytes"));
    CHECK(Bytes(said, "output_bytes") == Bytes(ran, "output_bytes"));
    CHECK(Bytes(said, "peak_bytes") == Bytes(said, "arena_bytes") + Bytes(said, "output_bytes"));
    CHECK(Bytes(said, "bound_bytes") <= Bytes(said, "arena_bytes"));
    CHECK(Bytes(said, "floor_bytes") <= Bytes(said, "peak_bytes"));
    CHECK(Bytes(said, "input_bytes") == (256 * 16 + 12 * 16 * 16) * 4);
    CHECK(Bytes(said, "output_bytes") == (12 * 16 * 16 + 1) * 4);
    const Json holders = said.at("holders");
    REQUIRE(holders.size() > 3);
    int64_t held = 0;
    for (const Json& h : holders) {
      CHECK(!h.at("name").get<std::string>().empty());
      CHECK(!h.at("why").get<std::string>().empty());
      if (h.at("kind") != "output") held += Bytes(h, "bytes");
    }
    CHECK(held == Bytes(said, "bound_bytes"));
    const std::string text = Weft({"inspect", model, "--memory"}).out;
    CHECK(text.find("peak") == 0);
    CHECK(text.find("held at the peak") != std::string::npos);
  }

  TEST_CASE("memory: budgets are kept, and results are the same to the bit") {
    const Folder dir;
    const std::string model = Training(dir);
    const int64_t whole =
        Bytes(Parsed(Weft({"inspect", model, "--memory", "--json"})), "peak_bytes");
    const int64_t least =
        Bytes(Parsed(Weft({"inspect", model, "--memory", "--memory-budget", "min", "--json"})),
              "peak_bytes");
    CHECK(least < whole * 3 / 4);
    const std::string plain = Results(dir, model, {});
    int64_t last_peak = 0, last_flops = INT64_MAX;
    for (int k = 0; k <= 4; ++k) {
      const int64_t budget = least + (whole - least) * k / 4;
      CAPTURE(budget);
      const Json ran = Bench(model, std::to_string(budget));
      const int64_t peak = Bytes(ran, "arena_bytes") + Bytes(ran, "output_bytes");
      CHECK(peak <= budget);
      CHECK(Bytes(ran, "budget_bytes") == budget);
      CHECK(ran.at("budget_met") == true);
      CHECK(peak >= last_peak);
      CHECK(Bytes(ran, "recompute_flops") <= last_flops);
      last_peak = peak;
      last_flops = Bytes(ran, "recompute_flops");
      CHECK(Results(dir, model, {"--memory-budget", std::to_string(budget)}) == plain);
    }
    CHECK(last_flops == 0);
    CHECK(Bytes(Bench(model, "100%"), "recompute_flops") == 0);
    const Json least_plans =
        Parsed(Weft({"inspect", model, "--memory", "--memory-budget", "min", "--json"}))
            .at("plans");
    REQUIRE(least_plans.size() >= 2);
    CHECK(Bytes(least_plans.front(), "peak_bytes") == whole);
    CHECK(Bytes(least_plans.back(), "peak_bytes") == least);
    CHECK(Bytes(least_plans.back(), "copies") > 0);
  }

  TEST_CASE("memory: a budget below the floor names who holds it, and what would do") {
    const Folder dir;
    const std::string model = Training(dir);
    const Result r = Weft({"run", model, "--random", "--memory-budget", "9K"});
    CHECK(r.code == 5);
    CHECK(r.says("error[WEFT-E0503]"));
    CHECK(r.says("held by"));
    const size_t at = r.err.find("the least budget that works is ");
    REQUIRE(at != std::string::npos);
    const std::string least = std::to_string(std::stoll(r.err.substr(at + 31)));
    CHECK(Weft({"run", model, "--random", "--memory-budget", least}).code == 0);
    CHECK(Weft({"run", model, "--random", "--memory-budget", std::to_string(std::stoll(least) - 1)})
              .code == 5);
  }

  TEST_CASE("memory: where the batch is open, a run takes the cheapest plan that fits it") {
    const Folder dir;
    const std::string model = Training(dir, 12, "n");
    const auto needs = [&](const char* n) {
      return Bytes(
          Parsed(Weft({"inspect", model, "--memory", "--json", "--bind", std::string("n=") + n})),
          "peak_bytes");
    };
    const int64_t budget = needs("512") * 2 / 3;
    const std::vector<std::string> hint = {"--hint", "n=512", "--memory-budget",
                                           std::to_string(budget)};
    const auto with = [&](const char* n) {
      std::vector<std::string> more = hint;
      more.insert(more.end(), {"--bind", std::string("n=") + n});
      return more;
    };
    const Json small = Bench(model, "", with("64")), large = Bench(model, "", with("512"));
    CHECK(Bytes(small, "recompute_flops") == 0);
    CHECK(Bytes(large, "recompute_flops") > 0);
    CHECK(Bytes(large, "arena_bytes") + Bytes(large, "output_bytes") <= budget);
    CHECK(Results(dir, model, with("512")) == Results(dir, model, {"--bind", "n=512"}));
    std::vector<std::string> beyond = {"run", model, "--random"};
    for (const std::string& word : with("100000")) beyond.push_back(word);
    CHECK(Weft(beyond).code == 5);
  }

  TEST_CASE("memory: compiled programs keep their budgets") {
    const Folder dir;
    for (const char* batch : {"256", "n"}) {
      CAPTURE(batch);
      const std::string model = Training(dir, 12, batch), saved = dir / "training.weftx";
      const std::vector<std::string> bind =
          *batch == 'n' ? std::vector<std::string>{"--bind", "n=256"} : std::vector<std::string>{};
      REQUIRE(
          Weft({"compile", model, "--target", "cpu", "--memory-budget", "60%", "-o", saved}).code ==
          0);
      CHECK(Results(dir, saved, bind) == Results(dir, model, bind));
      const Json ran = Bench(saved, "", bind);
      CHECK(ran.at("budget_met") == true);
      CHECK(Bytes(ran, "recompute_flops") > 0);
      CHECK(Bytes(ran, "arena_bytes") + Bytes(ran, "output_bytes") <= Bytes(ran, "budget_bytes"));
      std::vector<std::string> line = {"run", saved, "--random", "--memory-budget", "1K"};
      line.insert(line.end(), bind.begin(), bind.end());
      CHECK(Weft(line).code == 5);
    }
  }

  TEST_CASE("memory: a page draws blocks over steps") {
    const Folder dir;
    const std::string model = Training(dir), page = dir / "memory.html";
    REQUIRE(Weft({"inspect", model, "--memory", "--memory-budget", "70%", "--html", page}).code ==
            0);
    const std::string html = Slurp(page);
    CHECK(html.find("without a budget") != std::string::npos);
    CHECK(html.find("with the budget") != std::string::npos);
    CHECK(html.find("<rect") != std::string::npos);
    CHECK(html.find("<polyline") != std::string::npos);
    CHECK(html.find("src=") == std::string::npos);  // it stands alone
  }

  TEST_CASE("memory: what is no budget and no hint is refused") {
    const Folder dir;
    const std::string model = Training(dir, 2, "n");
    for (const char* budget : {"0", "-1", "9223372036854775808", "0%", "101%", "x", "all:"}) {
      CAPTURE(budget);
      const Result r = Weft({"run", model, "--random", std::string("--memory-budget=") + budget});
      CHECK(r.code == 2);
      CHECK(r.says("not a memory budget"));
    }
    const auto hint = [&](const char* text, int code) {
      CAPTURE(text);
      CHECK(Weft({"run", model, "--random", "--memory-budget", "50%", "--hint", text}).code ==
            code);
    };
    hint("n", 2);
    hint("n=x", 2);
    hint("n=-1", 2);
    hint("n=1,n=2", 2);
    hint("q=1", 4);
    CHECK(Weft({"inspect", model, "--html", dir / "x.html"}).code == 2);
    CHECK(Weft({"run", model, "--random", "--backend", "ref", "--memory-budget", "50%"}).code == 3);
  }
}

}  // namespace
