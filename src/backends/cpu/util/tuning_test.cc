/// tuning_test.cc: how one of several ways is chosen: by a clock of the test's own, from folders of
/// the test's own; and that convolutions and products that were tuned compute what they did before.
#include "tuning.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/cpu/conv/conv_test_util.h"
#include "tests/support/temp_folder.h"
#include "weft/codegen/compiler/kernel_cache.h"
#include "weft/support/log.h"

namespace weft::cpu {
namespace {

namespace fs = std::filesystem;

/// A folder for a kernel cache, and caches on it as new processes would make them.
class Folder {
 public:
  std::unique_ptr<KernelCache> Open() const {
    const char* old = std::getenv("WEFT_CACHE_DIR");
    const std::string before = old ? old : "";
    setenv("WEFT_CACHE_DIR", folder_.path().c_str(), 1);
    auto cache = std::make_unique<KernelCache>();
    old ? setenv("WEFT_CACHE_DIR", before.c_str(), 1) : unsetenv("WEFT_CACHE_DIR");
    return cache;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const CacheEntry& e : ListKernelCache(folder_ / "kernels", false))
      files.push_back(folder_ / "kernels/" + e.file);
    return files;
  }

 private:
  const e2e::TempFolder folder_;
};

/// Ways that cost what the test says, on a clock that only they move.
class Track {
 public:
  class Call final : public LibraryCall {
   public:
    Call(Track* track, std::string name) : track_(track), name_(std::move(name)) {}
    void Run(const void* const*, void* const*, void*) const override {
      ++track_->runs[name_];
      track_->now += track_->cost.at(name_);
    }
    std::string description() const override { return name_; }

   private:
    Track* track_;
    std::string name_;
  };
  /// A negative cost: cannot do it.
  void Add(const std::string& name, double seconds) {
    cost[name] = seconds;
    ways.push_back({name, [this, name]() -> std::unique_ptr<LibraryCall> {
                      ++made[name];
                      if (cost.at(name) < 0) return nullptr;
                      return std::make_unique<Call>(this, name);
                    }});
  }
  std::string Chosen(const ComputeRequest& q, KernelCache* cache) {
    const ScopedTuner tuner(cache, [this] { return now; });
    runs.clear();
    made.clear();
    const auto call = ChooseWay(q, ways);
    return call ? call->description() : "none";
  }
  int all_runs() const {
    int sum = 0;
    for (const auto& [name, n] : runs) sum += n;
    return sum;
  }
  std::vector<Way> ways;
  std::map<std::string, double> cost;
  std::map<std::string, int> runs, made;
  double now = 0;
};

ComputeRequest Request(bool tune, const Ns& dims = {4, 8}) {
  // The node must outlive the request.
  static std::vector<std::unique_ptr<Case>> cases;
  cases.push_back(std::make_unique<Case>("Relu", std::vector<TensorPtr>{RandomTensor(dims, 1)},
                                         AttrDict(), dims));
  ComputeRequest q = cases.back()->request;
  q.options.tune = tune;
  return q;
}

TEST_CASE("the fastest is taken, kept on disk, and found by others") {
  const Folder folder;
  Track t;
  t.Add("model's", 100e-6);
  t.Add("faster", 80e-6);
  t.Add("slow", 300e-6);
  t.Add("cannot", -1);

  auto cache = folder.Open();
  CHECK(t.Chosen(Request(false), cache.get()) == "model's");
  CHECK(t.all_runs() == 0);
  CHECK(t.made.size() == 1);
  CHECK(folder.Files().empty());

  CHECK(t.Chosen(Request(true), cache.get()) == "faster");
  CHECK(t.runs["faster"] > 3);
  CHECK(t.runs["slow"] <= 3);  // it leaves early
  CHECK(folder.Files().size() == 1);
  CHECK(cache->text_counts().stored == 1);

  // Tuned or not, in this process and in the next.
  for (auto* c : {cache.get(), folder.Open().release()}) {
    for (const bool tune : {true, false}) {
      CHECK(t.Chosen(Request(tune), c) == "faster");
      CHECK(t.all_runs() == 0);
      CHECK(t.made.size() == 1);
    }
    CHECK(c->text_counts().found == 2);
    if (c != cache.get()) delete c;
  }
  // Without a cache there is nothing to be found, and nothing is timed.
  CHECK(t.Chosen(Request(true), nullptr) == "model's");
  CHECK(t.all_runs() == 0);
}

TEST_CASE("a small gain is none, and a way that cannot do it is passed over") {
  const Folder folder;
  auto cache = folder.Open();
  Track near;
  near.Add("model's", 100e-6);
  near.Add("2 % faster", 98e-6);
  CHECK(near.Chosen(Request(true), cache.get()) == "model's");
  CHECK(near.runs.size() == 2);

  Track broken;
  broken.Add("broken", -1);
  broken.Add("works", 1);
  CHECK(broken.Chosen(Request(false, {5}), cache.get()) == "works");
  CHECK(broken.Chosen(Request(true, {5}), cache.get()) == "works");
  CHECK(broken.all_runs() == 0);  // alone
  Track none;
  none.Add("a", -1);
  none.Add("b", -1);
  CHECK(none.Chosen(Request(true, {6}), cache.get()) == "none");
  CHECK(none.Chosen(Request(false, {6}), cache.get()) == "none");
}

TEST_CASE("timing ends: after its budget, when times have settled, and soon for what takes long") {
  const Folder folder;
  auto cache = folder.Open();
  Track quick;
  quick.Add("a", 1e-6);
  quick.Add("b", 1.2e-6);
  CHECK(quick.Chosen(Request(true, {1}), cache.get()) == "a");
  CHECK(quick.all_runs() < 100);

  Track middling;
  middling.Add("a", 5e-3);
  middling.Add("b", 4e-3);
  CHECK(middling.Chosen(Request(true, {2}), cache.get()) == "b");
  CHECK(middling.now < 0.07);

  Track slow;
  slow.Add("a", 2);
  slow.Add("b", 1);
  slow.Add("c", 100);
  CHECK(slow.Chosen(Request(true, {3}), cache.get()) == "b");
  CHECK(slow.runs["a"] <= 3);
  CHECK(slow.runs["c"] == 1);
}

TEST_CASE("entries that are damaged, or name what is not there, are replaced") {
  const Folder folder;
  Track t;
  t.Add("model's", 100e-6);
  t.Add("faster", 80e-6);
  CHECK(t.Chosen(Request(true), folder.Open().get()) == "faster");
  REQUIRE(folder.Files().size() == 1);
  const std::string file = folder.Files()[0];

  int warnings = 0;
  const LogSink old = SetLogSink([&](LogLevel, const char*, int, std::string_view) { ++warnings; });
  for (const std::string& content : {std::string("faster"), std::string()}) {
    std::ofstream(file, std::ios::trunc) << content;
    CHECK(t.Chosen(Request(false), folder.Open().get()) == "model's");
    CHECK(t.all_runs() == 0);
  }
  CHECK(t.Chosen(Request(true), folder.Open().get()) == "faster");
  CHECK(t.all_runs() > 0);
  CHECK(t.Chosen(Request(false), folder.Open().get()) == "faster");
  SetLogSink(old);
  CHECK(warnings > 0);

  folder.Open()->StoreText(TuningKey(Request(true)), "of another version");
  CHECK(t.Chosen(Request(false), folder.Open().get()) == "model's");
  CHECK(t.Chosen(Request(true), folder.Open().get()) == "faster");
  CHECK(t.Chosen(Request(false), folder.Open().get()) == "faster");
  // A way that is stored but cannot do it any more.
  folder.Open()->StoreText(TuningKey(Request(true)), "faster");
  t.cost["faster"] = -1;
  CHECK(t.Chosen(Request(false), folder.Open().get()) == "model's");
}

TEST_CASE("processes that tune at once all end with a choice, and leave one") {
  const Folder folder;
  constexpr int kProcesses = 4, kRequests = 8;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto cache = folder.Open();
      bool good = true;
      for (int i = 1; i <= kRequests; ++i) {
        Track t;
        t.Add("a", (p % 2 ? 1 : 2) * 1e-6);
        t.Add("b", 1.5e-6);
        const std::string chosen = t.Chosen(Request(true, {i}), cache.get());
        good = good && (chosen == "a" || chosen == "b");
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  for (const CacheEntry& e : ListKernelCache(fs::path(folder.Files().at(0)).parent_path(), true)) {
    CHECK(!e.temporary);
    CHECK(e.damage.empty());
    CHECK(e.target == "choice");
  }
  CHECK(folder.Files().size() == kRequests);
  auto cache = folder.Open();
  for (int i = 1; i <= kRequests; ++i) {
    const auto name = cache->FindText(TuningKey(Request(false, {i})));
    REQUIRE(name);
    CHECK((*name == "a" || *name == "b"));
  }
}

TEST_CASE("the key tells requests apart by all that times depend on, and by nothing else") {
  const ConvSetup s = MakeSetup({2, 16, 8, 8}, {16, 16, 3, 3}, {}, {}, {1, 1}, {1, 1});
  const auto make = [](const ConvSetup& c) {
    return std::make_unique<Case>(
        "Conv", std::vector<TensorPtr>{RandomTensor(c.x, 1), RandomTensor(c.w, 2)}, c.attrs(),
        c.out());
  };
  const auto base = make(s), again = make(s);
  const std::string key = TuningKey(base->request);
  CHECK(TuningKey(again->request) == key);
  ComputeRequest tuned = base->request;
  tuned.options.tune = true;
  CHECK(TuningKey(tuned) == key);

  std::vector<ComputeRequest> others(7, base->request);
  others[0].threads = 3;
  others[1].input_layouts = {Layout::kChannelsLast, Layout::kPlain};
  others[2].output_layouts = {Layout::kChannelsLast};
  others[3].constants[1] = base->operands[1];
  others[4].input_types[1] = DType::kF64;
  CallStep step;
  step.node = Request(false).node;
  others[5].epilogue.push_back(step);
  const auto larger = make(MakeSetup({4, 16, 8, 8}, {16, 16, 3, 3}, {}, {}, {1, 1}, {1, 1}));
  others[6] = larger->request;
  // Extents as before, by another attribute.
  const auto apart = make(MakeSetup({2, 16, 8, 8}, {16, 16, 3, 3}, {}, {2, 2}, {2, 2}, {2, 2}));
  REQUIRE(apart->request.output_dims == base->request.output_dims);
  others.push_back(apart->request);
  for (size_t i = 0; i < others.size(); ++i) {
    CAPTURE(i);
    CHECK(TuningKey(others[i]) != key);
    for (size_t j = 0; j < i; ++j) CHECK(TuningKey(others[i]) != TuningKey(others[j]));
  }
}

#ifdef WEFT_HAVE_ONEDNN

TEST_CASE("what was tuned computes what it did") {
  const Folder folder;
  auto cache = folder.Open();
  const auto compare = [&](Case* c, const std::vector<double>& want, Layout result) {
    const auto call = [&](KernelCache* from, bool tune) {
      const ScopedTuner tuner(from);
      c->request.options.tune = tune;
      return c->Make();
    };
    for (const auto& made :
         {call(nullptr, false), call(cache.get(), true), call(cache.get(), false)}) {
      REQUIRE(made);
      CHECK(Difference(*Plainly(*c->Run(*made), result), want) < 1e-4);
    }
  };
  const std::vector<ConvSetup> setups{
      MakeSetup({4, 32, 14, 14}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({2, 16, 9, 9}, {32, 16, 1, 1}),
      MakeSetup({2, 32, 9, 9}, {32, 1, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, 32),
  };
  for (const ConvSetup& s : setups) {
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), dy = RandomTensor(s.out(), 3);
    const ConvGradients g = GradientOracle(s, *x, *w, *dy);
    for (const Layout l : {Layout::kPlain, Layout::kChannelsLast}) {
      Case y("Conv", {x, w}, s.attrs(), s.out(), {false, true});
      compare(&WithLayouts(&y, {l}, l), ConvOracle(s, *x, *w, nullptr), l);
      Case dx("weft::ConvGradData", {dy, w, Tensor::Ints(s.x)}, s.attrs(), s.x);
      compare(&WithLayouts(&dx, {l}, l), g.dx, l);
      Case dw("weft::ConvGradWeight", {dy, x, Tensor::Ints(s.w)}, s.attrs(), s.w);
      compare(&WithLayouts(&dw, {l, l}, Layout::kPlain), g.dw, Layout::kPlain);
    }
  }
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const int64_t m = 33, n = 40, k = 29;
      const auto a = RandomTensor(ta ? Ns{k, m} : Ns{m, k}, 1),
                 b = RandomTensor(tb ? Ns{n, k} : Ns{k, n}, 2), row = RandomTensor({n}, 3);
      std::vector<double> want;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = row->at(j);
          for (int64_t h = 0; h < k; ++h)
            sum += a->at(ta ? h * m + i : i * k + h) * b->at(tb ? j * k + h : h * n + j);
          want.push_back(sum);
        }
      Case c("Gemm", {a, b, row}, {{"transA", int64_t(ta)}, {"transB", int64_t(tb)}}, {m, n});
      compare(&c, want, Layout::kPlain);
    }
  CHECK(cache->text_counts().stored > 0);
}

TEST_CASE("every way computes the same, with what follows it") {
  const Folder folder;
  auto cache = folder.Open();
  std::map<std::string, int> seen;
  const auto check = [&](const Case& c, const char* way, const std::vector<double>& want,
                         Layout result) {
    CAPTURE(way);
    cache->StoreText(TuningKey(c.request), way);
    const ScopedTuner tuner(cache.get());
    const auto call = c.Make();
    REQUIRE(call);
    CAPTURE(call->description());
    seen["winograd"] += call->description().find("wino") != std::string::npos;
    seen["product"] += call->description().find("as matmul") != std::string::npos;
    CHECK(Difference(*Plainly(*c.Run(*call), result), want) < 1e-4);
  };
  for (const ConvSetup& s :
       {MakeSetup({4, 32, 9, 10}, {48, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
        MakeSetup({2, 16, 5, 7}, {32, 16, 1, 1}), MakeSetup({3, 7, 6}, {5, 7, 1}),
        MakeSetup({2, 16, 9, 9}, {16, 8, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, 2)}) {
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), b = RandomTensor({s.w[0]}, 3),
               r = RandomTensor(s.out(), 4);
    std::vector<double> y = ConvOracle(s, *x, *w, b.get()), z;
    for (size_t i = 0; i < y.size(); ++i) z.push_back(std::max(0.0, y[i] + r->at(int64_t(i))));
    const ConvGradients g = GradientOracle(s, *x, *w, *r);
    for (const Layout l : {Layout::kPlain, Layout::kChannelsLast})
      for (const char* way :
           {"direct", "winograd", "blocks", "winograd/1", "winograd/2", "product"})
        for (const bool constant : {false, true}) {
          Case plain("Conv", {x, w, b}, s.attrs(), s.out(), {false, constant});
          check(WithLayouts(&plain, {l}, l), way, y, l);
          Case fused("Conv", {x, w, b}, s.attrs(), s.out(), {false, constant});
          WithLayouts(&fused, {l}, l);
          const NodeEntry addend(fused.graph.AddInput("r", DType::kF32, r->shape()));
          CallStep add;
          add.node = fused.graph.AddNode("Add", {NodeEntry(fused.request.node), addend}, {}, "add");
          add.operand = 3;
          add.operand_dims = r->dims();
          add.operand_type = DType::kF32;
          add.operand_layout = l;
          CallStep relu;
          relu.node = fused.graph.AddNode("Relu", {NodeEntry(add.node)}, {}, "relu");
          fused.request.epilogue = {add, relu};
          fused.operands.push_back(l == Layout::kPlain ? r : Reordered(*r, true));
          check(fused, way, z, l);
        }
    for (const Layout l : {Layout::kPlain, Layout::kChannelsLast})
      for (const char* way : {"direct", "winograd", "chosen"}) {
        Case dx("weft::ConvGradData", {r, w, Tensor::Ints(s.x)}, s.attrs(), s.x);
        check(WithLayouts(&dx, {l}, l), way, g.dx, l);
        Case dw("weft::ConvGradWeight", {r, x, Tensor::Ints(s.w)}, s.attrs(), s.w);
        check(WithLayouts(&dw, {l, l}, Layout::kPlain), way, g.dw, Layout::kPlain);
      }
  }
  CHECK(seen["product"] > 0);
  // Large enough that packing is a way.
  const int64_t m = 96, n = 112, k = 101;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const char* way : {"given", "pack a", "pack b", "pack both"}) {
        const auto a = RandomTensor(ta ? Ns{k, m} : Ns{m, k}, 1),
                   b = RandomTensor(tb ? Ns{n, k} : Ns{k, n}, 2);
        std::vector<double> want;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t h = 0; h < k; ++h)
              sum += a->at(ta ? h * m + i : i * k + h) * b->at(tb ? j * k + h : h * n + j);
            want.push_back(sum);
          }
        check(Case("Gemm", {a, b}, {{"transA", int64_t(ta)}, {"transB", int64_t(tb)}}, {m, n}), way,
              want, Layout::kPlain);
        if (!ta && !tb) check(Case("MatMul", {a, b}, {}, {m, n}), way, want, Layout::kPlain);
      }
}

#endif  // WEFT_HAVE_ONEDNN

}  // namespace
}  // namespace weft::cpu
