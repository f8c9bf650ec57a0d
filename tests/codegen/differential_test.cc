/// differential_test.cc: random graphs, one meaning. The interpreter in double precision is the
/// oracle; the reference backend, the cpu backend by its own pipeline, and the cpu backend with
/// each pass left out must agree with it, under every binding of the symbolic extents, within the
/// error bound that the generator derived for each output. So must what comes back from text, JSON,
/// ONNX (fused bodies as functions) and a saved program.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=100000 weft_tests -tc='differential*'
///   WEFT_FUZZ_VARIANT=layouts ...      only variants whose names hold that, for every graph
///
/// A failure prints the seed, the graph, and the smallest graph that greedy cutting finds.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/lender.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/special_run.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/json/json.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using e2e::CompareResult;
using e2e::FromEnvironment;
using fuzz::RandomGraph;

/// How the graph reaches the backend: as it is, or written and read again.
enum class Via {
  kNothing,
  kText,
  kJson,
  kOnnx,
  kFusedOnnx,  ///< after fusion, fused bodies as ONNX functions
  kProgram,    ///< .weftx
};

/// One way to run a graph.
struct Variant {
  std::string name, backend;
  std::string pipeline;  ///< empty: the backend's own
  bool check_all = false;
  Via via = Via::kNothing;
};

/// `pipeline` with `instead`, by default nothing, in the place of the pass `name`.
std::string Without(const std::string& pipeline, const std::string& name,
                    const std::string& instead = "") {
  return e2e::WithPass(Pipeline::Parse(pipeline), name, Pipeline::Parse(instead)).ToString();
}

std::vector<Variant> MakeVariants(bool cpu) {
  const std::string passes = "Simplify,FoldConstants,FoldBatchNorm,Simplify,Fusion";
  std::vector<Variant> out = {
      {"ref", "ref", ""},
      {"ref with the passes", "ref", "OrderMutation," + passes},
      {"ref with the passes, claims checked", "ref", passes + ",CodeGen,Schedule,PlanMemory", true},
      {"ref, from text", "ref", "", false, Via::kText},
      {"ref, from JSON", "ref", "", false, Via::kJson},
      {"ref, from ONNX", "ref", "", false, Via::kOnnx},
      {"ref, from ONNX with functions", "ref", "", false, Via::kFusedOnnx},
  };
  if (!cpu) return out;
  const std::string own = StandardPipeline().ToString(), alone = "Fusion{max_ops=1}";
  const std::string bare = Without(
      Without(Without(Without(own, "Simplify"), "FoldConstants"), "FoldBatchNorm"), "Layout");
  const std::vector<Variant> more = {
      {"cpu", "cpu", ""},
      {"cpu without Simplify", "cpu", Without(own, "Simplify")},
      {"cpu without FoldConstants", "cpu", Without(own, "FoldConstants")},
      {"cpu without FoldBatchNorm", "cpu", Without(own, "FoldBatchNorm")},
      {"cpu without Layout", "cpu", Without(own, "Layout")},
      {"cpu, layouts all last", "cpu", Without(own, "Layout", "Layout{force=last}")},
      {"cpu, layouts at odds", "cpu", Without(own, "Layout", "Layout{force=odd}")},
      {"cpu, layouts all last, a saved program", "cpu",
       Without(own, "Layout", "Layout{force=last}"), false, Via::kProgram},
      {"cpu after OrderMutation", "cpu", "OrderMutation," + own},
      {"cpu without fusion", "cpu", Without(own, "Fusion", alone)},
      {"cpu, every operator alone", "cpu", Without(bare, "Fusion", alone)},
      {"cpu, from ONNX", "cpu", "", false, Via::kOnnx},
      {"cpu, from ONNX with functions", "cpu", "", false, Via::kFusedOnnx},
      {"cpu, a saved program", "cpu", "", false, Via::kProgram},
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// What went wrong: nothing, an exception (its code and text), or a difference.
struct Outcome {
  enum { kFine, kThrew, kDiffers } what = kFine;
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
};

struct Run {
  std::map<std::string, TensorPtr> inputs;
  bool special = false;  ///< with numbers that no interval holds
};

/// A graph with the inputs to run it on, per binding, and the error bound of every entry.
struct Case {
  Graph graph;
  std::vector<Run> runs;
  std::map<std::pair<NodeId, uint32_t>, fuzz::Values> values;
};

std::vector<TensorPtr> InputsOf(const Case& c, size_t run) {
  std::vector<TensorPtr> in;
  for (NodePtr p : c.graph.AllInputs()) in.push_back(c.runs[run].inputs.at(p->attrs.name));
  return in;
}

struct Totals {
  int64_t programs = 0, kernels = 0, library_calls = 0, interpreted = 0;
  e2e::Asked specials;  ///< elements of runs on special numbers
  int64_t no_onnx = 0;  ///< graphs that ONNX has no form for
};

/// The results of the oracle, per run: one computation for all variants.
using Expected = std::vector<e2e::Oracles>;
Expected Expect(const Case& c) {
  Expected want;
  for (size_t run = 0; run < c.runs.size(); ++run)
    want.push_back(e2e::AskOracles(c.graph, InputsOf(c, run), c.runs[run].special));
  return want;
}

/// The graph as it comes back.
Graph Sent(const Graph& g, Via via) {
  switch (via) {
    case Via::kText: {
      PrintOptions print;
      print.inline_all = true;
      return ParseGraph(PrintGraph(g, print));
    }
    case Via::kJson:
      return LoadJson(SaveJson(g));
    case Via::kOnnx:
      return ImportOnnxBytes(ExportOnnxBytes(g));
    case Via::kFusedOnnx:
      return ImportOnnxBytes(ExportOnnxBytes(ApplyPasses(g, {"Simplify", "Fusion"})));
    default:
      return g;
  }
}
std::shared_ptr<const Program> Reloaded(const std::shared_ptr<const Program>& program) {
  auto bytes = std::make_shared<std::string>(
      PackProgram(program->graph(), program->backend(), GetBackend("cpu")->target().name()));
  return LoadProgramFromMemory(bytes->data(), bytes->size(), bytes, "the saved program");
}

Outcome RunVariant(const Case& c, const Expected& expected, const Variant& variant,
                   Totals* totals = nullptr) {
  try {
    CompileOptions options;
    options.backend = variant.backend;
    options.pipeline = variant.pipeline;
    options.threads = 2;
    if (variant.check_all) options.passes.checks = Checks::All();
    Graph graph;
    try {
      graph = Sent(c.graph, variant.via);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      if (std::getenv("WEFT_FUZZ_VERBOSE")) MESSAGE("no form: " << std::string(e.what()));
      if (totals) ++totals->no_onnx;
      return {};
    }
    auto program = Compile(std::move(graph), options);
    if (variant.via == Via::kProgram) program = Reloaded(program);
    if (totals && variant.backend == "cpu") {
      ++totals->programs;
      totals->kernels += program->stats().kernels;
      totals->library_calls += program->stats().library_calls;
      totals->interpreted += program->stats().interpreted;
    }
    Session session(program);
    // All bindings, then the first once more, elsewhere: a session must not remember, nor read or
    // give what it was lent.
    e2e::Lender lender;
    for (size_t k = 0; k <= c.runs.size(); ++k) {
      if (k == c.runs.size()) lender.MoveAway();
      const size_t run = k % c.runs.size();
      // By name: a format may list inputs in an order of its own.
      std::vector<TensorPtr> in;
      for (const IoSpec& i : program->inputs()) in.push_back(c.runs[run].inputs.at(i.name));
      const e2e::Oracles& want = expected[run];
      const std::vector<TensorPtr> got = session.Run(lender.Lend(in));
      lender.Overwrite();
      if (got.size() != want.exact.size())
        return {Outcome::kDiffers, ErrorCode::kCheckFailed, "another number of results"};
      for (size_t i = 0; i < got.size(); ++i) {
        const NodeEntry e = c.graph.outputs[i];
        auto bound = c.values.find({e.node->id(), e.index});
        const std::string why =
            CompareResult(*got[i], want, i, bound == c.values.end() ? 0 : bound->second.error,
                          totals ? &totals->specials : nullptr);
        if (!why.empty())
          return {Outcome::kDiffers, ErrorCode::kCheckFailed,
                  c.graph.OutputName(i) + " in run " + std::to_string(k) + ": " + why};
      }
    }
    return {};
  } catch (const Error& e) {
    // Extents that a graph asks for may be beyond those that the manager's check draws.
    if (variant.check_all &&
        std::string(e.what()).find("found no inputs that the graph accepts") != std::string::npos)
      return {};
    return {Outcome::kThrew, e.code(), e.what()};
  } catch (const std::exception& e) {
    return {Outcome::kThrew, ErrorCode::kInternal, e.what()};
  }
}

/// The same kind of failure: exceptions must agree up to the first thing they name.
bool SameFailure(const Outcome& a, const Outcome& b) {
  const auto head = [](const Outcome& o) {
    return o.what == Outcome::kThrew ? o.text.substr(0, o.text.find_first_of("%'0123456789", 20))
                                     : std::string();
  };
  return a.what == b.what && a.code == b.code && head(a) == head(b);
}

/// Keeps only what the outputs need.
void Trim(Case* c) {
  Graph& g = c->graph;
  g.EraseDead();
  std::vector<NodePtr> kept;
  for (NodePtr p : g.inputs()) {
    bool determines = false;  // the value of a symbol
    for (SymInt d : p->attrs.dict.at("shape").get<Shape>().dims()) determines |= d.is_symbol();
    if (determines || !p->uses().empty() || g.is_output(p)) kept.push_back(p);
  }
  g.SetInputs(kept);
  g.EraseDead();
}

/// `node` replaced by fresh inputs that hold what the oracle computes there.
bool Cut(Case* c, NodeId id) {
  Graph& g = c->graph;
  NodePtr n = g.node(id);
  if (!n || n->is_variable() || Graph::ConstantOf(NodeEntry(n))) return false;
  Graph typed = ApplyPass(g, "InferShape");
  Graph probe = g;
  std::vector<NodeEntry> entries;
  for (uint32_t i = 0; i < n->num_outputs(); ++i) entries.push_back({probe.at(n), i});
  probe.outputs = entries;
  std::vector<std::vector<TensorPtr>> results;
  for (size_t run = 0; run < c->runs.size(); ++run) {
    std::vector<TensorPtr> in;
    for (NodePtr p : probe.AllInputs()) in.push_back(c->runs[run].inputs.at(p->attrs.name));
    EvalOptions options;  // typed: what a device would hold
    results.push_back(GetEvaluator()->Eval(probe, in, options));
  }
  for (uint32_t i = 0; i < n->num_outputs(); ++i) {
    const std::string name = "cut" + std::to_string(id) + "_" + std::to_string(i);
    const NodeEntry old(typed.at(n), i);
    NodePtr fresh = g.AddInput(name, typed.GetAttr<TypeMap>("dtype")[old],
                               typed.GetAttr<ShapeMap>("shape")[old]);
    for (size_t run = 0; run < c->runs.size(); ++run) c->runs[run].inputs[name] = results[run][i];
    g.ReplaceUses(NodeEntry(n, i), NodeEntry(fresh));
  }
  Trim(c);
  return true;
}

/// Greedy: fewer outputs, fewer runs, nodes cut off, as long as it fails in the same way.
Case Minimise(Case c, const Variant& variant, const Outcome& failure) {
  const auto fails = [&](const Case& k) {
    return k.graph.outputs.size() > 0 && SameFailure(RunVariant(k, Expect(k), variant), failure);
  };
  const auto attempt = [&](const Case& k) {
    try {
      if (!fails(k)) return false;
    } catch (const std::exception&) {
      return false;
    }
    c = k;
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = c.graph.outputs.size(); i-- > 0 && c.graph.outputs.size() > 1;) {
      Case k = c;
      std::vector<NodeEntry> outputs = k.graph.outputs;
      outputs.erase(outputs.begin() + std::ptrdiff_t(i));
      k.graph.outputs = outputs;
      Trim(&k);
      progress |= attempt(k);
    }
    for (size_t r = c.runs.size(); r-- > 0 && c.runs.size() > 1;) {
      Case k = c;
      k.runs.erase(k.runs.begin() + std::ptrdiff_t(r));
      progress |= attempt(k);
    }
    // From the front: what feeds the failure goes first.
    for (NodePtr n : c.graph.TopoOrder()) {
      const NodeId id = n->id();
      Case k = c;
      try {
        if (!Cut(&k, id)) continue;
      } catch (const std::exception&) {
        continue;
      }
      if (k.graph.num_nodes() < c.graph.num_nodes() && attempt(k)) {
        progress = true;
        break;
      }
    }
    // From the back: an operand of an output as the output.
    for (size_t i = 0; i < c.graph.outputs.size() && !progress; ++i) {
      for (const NodeEntry& e : c.graph.outputs[i].node->inputs) {
        if (!e.node || e.node->is_variable()) continue;
        Case k = c;
        k.graph.outputs.set(i, k.graph.at(e));
        Trim(&k);
        if ((progress = attempt(k))) break;
      }
    }
  }
  return c;
}

std::string Describe(const Case& c) {
  PrintOptions print;
  print.inline_all = true;
  std::string text = PrintGraph(c.graph, print);
  for (size_t run = 0; run < c.runs.size(); ++run) {
    text += "// run " + std::to_string(run) + ":";
    for (NodePtr p : c.graph.AllInputs()) {
      const TensorPtr& t = c.runs[run].inputs.at(p->attrs.name);
      text += " " + p->attrs.name + t->shape().ToString();
      for (int64_t i = 0; i < t->num_elements() && t->num_elements() <= 8; ++i)
        text += (i ? "," : "=") + std::to_string(t->at(i));
    }
    text += "\n";
  }
  return text;
}

/// Steps that no library function takes (convolutions of f64, say) run in the interpreter, which
/// programs warn of; thousands of them say nothing here.
class Quiet {
 public:
  Quiet() : before_(GetLogLevel()) { SetLogLevel(LogLevel::kError); }
  ~Quiet() { SetLogLevel(before_); }

 private:
  LogLevel before_;
};

/// Variants to run for a seed: always the backend's own pipeline, the others in turn, all of them
/// now and then.
std::vector<const Variant*> Chosen(uint64_t seed, const std::vector<Variant>& all) {
  const char* only = std::getenv("WEFT_FUZZ_VARIANT");
  std::vector<const Variant*> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (only && *only ? all[i].name.find(only) != std::string::npos
                      : all[i].name == "cpu" || seed % 9 == 0 || seed % all.size() == i ||
                            (seed + all.size() / 2) % all.size() == i)
      out.push_back(&all[i]);
  return out;
}

/// Compares `count` graphs, from seed `first` on, that `wanted` takes; runs those variants that
/// `chosen` names for a seed.
Totals CompareGraphs(uint64_t first, int64_t count,
                     const std::function<bool(const RandomGraph&)>& wanted,
                     const std::function<std::vector<const Variant*>(uint64_t seed)>& chosen) {
  const Quiet quiet;
  int64_t nodes = 0, done = 0;
  Totals totals;
  const int64_t max_failures = FromEnvironment("WEFT_FUZZ_FAILURES", 5);
  int failures = 0;
  for (uint64_t seed = first; done < count && failures < max_failures; ++seed) {
    CAPTURE(seed);
    Case c;
    try {
      RandomGraph g = fuzz::MakeRandomGraph(seed);
      if (!wanted(g)) continue;
      ++done;
      c.values = g.values;
      for (size_t b = 0; b < g.bindings.size(); ++b) {
        c.runs.emplace_back();
        const std::vector<TensorPtr> in = fuzz::MakeInputs(g, b);
        for (size_t i = 0; i < in.size(); ++i) c.runs.back().inputs[g.inputs[i].name] = in[i];
      }
      if (seed / 2 % 2 == 0) {
        c.runs.emplace_back();
        c.runs.back().special = true;
        const std::vector<TensorPtr> in = fuzz::MakeSpecialInputs(g, 0);
        for (size_t i = 0; i < in.size(); ++i) c.runs.back().inputs[g.inputs[i].name] = in[i];
      }
      c.graph = std::move(g.graph);
      VerifyGraph(c.graph);
    } catch (const std::exception& e) {
      ++failures;
      FAIL_CHECK("seed " << seed << ": no graph: " << std::string(e.what()));
      continue;
    }
    nodes += int64_t(c.graph.num_nodes());
    if (seed % 4 == 0) {
      PrintOptions print;
      print.inline_all = true;
      const std::string text = PrintGraph(c.graph, print);
      CHECK(PrintGraph(ParseGraph(text), print) == text);
      CHECK(PrintGraph(LoadJson(SaveJson(c.graph)), print) == text);
    }
    Expected expected;
    try {
      expected = Expect(c);
    } catch (const UserError&) {
      if (!c.runs.back().special) throw;
      // An index that is no number, or far too large a one.
      c.runs.pop_back();
      expected = Expect(c);
    }
    for (const Variant* v : chosen(seed)) {
      const Outcome outcome = RunVariant(c, expected, *v, &totals);
      if (outcome.what == Outcome::kFine) continue;
      ++failures;
      const Case small = Minimise(c, *v, outcome);
      if (std::getenv("WEFT_FUZZ_VERBOSE")) MESSAGE("before it was minimised:\n" << Describe(c));
      FAIL_CHECK("seed " << seed << ", " << v->name << ": " << outcome.text << "\nminimised ("
                         << RunVariant(small, Expect(small), *v).text << "):\n"
                         << Describe(small));
      break;
    }
  }
  MESSAGE(done << " graphs from seed " << first << ", " << nodes << " nodes; on cpu "
               << totals.programs << " programs, " << totals.kernels << " kernels, "
               << totals.library_calls << " library calls, " << totals.interpreted
               << " steps interpreted; " << totals.no_onnx << " without a form in ONNX; of "
               << totals.specials.all << " elements after special numbers " << totals.specials.asked
               << " are defined, " << totals.specials.nans << " as NaN, "
               << totals.specials.infinities << " as infinities");
  return totals;
}

}  // namespace

TEST_CASE("differential: random graphs mean the same on every backend with every pass") {
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 1500);
  const bool cpu = e2e::HasCpu();
  if (!cpu) MESSAGE("the backend cpu does not load here: passes and the reference backend only");
  const std::vector<Variant> variants = MakeVariants(cpu);
  const Totals totals = CompareGraphs(
      first, count, [](const RandomGraph&) { return true; },
      [&](uint64_t seed) { return Chosen(seed, variants); });
  // The comparison is with compiled kernels, not of the interpreter with itself.
  if (cpu) CHECK(totals.interpreted * 20 <= totals.kernels);
  CHECK(totals.no_onnx * 20 <= count);
  CHECK(totals.specials.asked * 10 >= totals.specials.all * 9);
}

TEST_CASE("differential: graphs of library calls mean the same in every layout") {
  if (!e2e::HasCpu()) return;
  const std::vector<Variant> variants = MakeVariants(true);
  std::vector<const Variant*> layouts;
  for (const Variant& v : variants)
    if (v.via == Via::kNothing && (v.name == "cpu" || v.name.find("ayout") != std::string::npos))
      layouts.push_back(&v);
  REQUIRE(layouts.size() == 4);  // chosen, none, all with their channels last, every second one
  CompareGraphs(
      uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 100'000)), FromEnvironment("WEFT_FUZZ_COUNT", 500),
      [](const RandomGraph& g) {
        const std::vector<NodePtr> order = g.graph.TopoOrder();
        return std::any_of(order.begin(), order.end(), [](const NodePtr& n) {
          return IsOp(n, "Conv") || IsOp(n, "ConvTranspose") || IsOp(n, "MatMul") ||
                 IsOp(n, "Gemm");
        });
      },
      [&](uint64_t) { return layouts; });
}
