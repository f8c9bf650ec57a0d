/// bisect.cc: `weft bisect MODEL`: the first application of a pass that makes a check fail, and the
/// single rewrite in it. The applications of the pipeline are listed by running it once; a binary
/// search over how many of them run finds the first bad one, a second one over the fuel of that
/// application the first bad rewrite. Both suppose that a result which has gone bad stays bad.
/// Every step runs the pipeline again from the model: passes are deterministic, and no graph but
/// the ones compared is held.
#include <algorithm>
#include <optional>

#include "command_line.h"
#include "common.h"
#include "shell_check.h"
#include "weft/api/model.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass_trace.h"
#include "weft/core/text/text.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  InputArgs inputs;
  CheckArgs check;
  std::string passes, target = "cpu", against, format, save_dir;
  std::vector<std::string> skip;
  double rtol = -1, atol = -1;
};

struct Application {
  PassSpec spec;
  std::string name;  ///< "Fusion#2"
  bool asked = true;
};
struct GrantedRewrite {
  std::string name, node;
};

/// What one run of a pipeline did, application by application.
class Log final : public PassTrace {
 public:
  std::vector<Application> applications;
  std::vector<std::vector<GrantedRewrite>> rewrites;  ///< of each application
  void Begin(const PassStart& s) override {
    body = s.body;
    // Those in bodies come with that of the graph around them.
    if (s.skipped || !s.body.empty()) return;
    applications.push_back(
        {s.spec, fmt::format("{}#{}", s.spec.name, s.occurrence), s.trigger == Trigger::kAsked});
    rewrites.emplace_back();
  }
  void Rewrite(const PassEntry&, std::string_view name, const NodePtr& node) override {
    if (rewrites.empty()) return;
    const std::string where = body.empty() ? "" : body + ": ";
    rewrites.back().push_back({std::string(name), node ? where + node->Describe() : where});
  }

 private:
  std::string body;  ///< PassStart::body of the last one
};

/// Results equal those of the reference evaluator on the model itself, on random inputs.
class ReferenceCheck {
 public:
  ReferenceCheck(const Graph& graph, const Args& args)
      : graph_(graph), args_(args), evaluator_(GetEvaluator()) {
    WEFT_CHECK(evaluator_, kUnsupported, "this build has no reference evaluator; give --check CMD");
    InputArgs inputs = args.inputs;
    inputs.random = inputs.smallest = true;  // the evaluator is slow
    constexpr uint64_t kRounds = 2;
    for (uint64_t round = 0; round < kRounds; ++round, ++inputs.seed) {
      RunInputs made = MakeInputs(graph, inputs, args.model.Check());
      named_.push_back(std::move(made.tensors));
      for (const std::string& s : made.dims.chosen)  // as in the first round
        inputs.binds.push_back(fmt::format("{}={}", s, made.dims.bindings.at(s)));
      want_.push_back(Eval(graph, named_.back()));
    }
  }
  bool IsBad(const Graph& g) {
    ++runs;
    if (g.outputs.size() < graph_.outputs.size())
      return Bad(fmt::format("{} of {} outputs are left", g.outputs.size(), graph_.outputs.size()));
    for (size_t round = 0; round < want_.size(); ++round) {
      std::vector<TensorPtr> got;
      try {
        got = Eval(g, named_[round]);
      } catch (const Error& e) {
        if (e.code() == ErrorCode::kUnsupported) throw;
        return Bad(e.what());
      }
      for (size_t i = 0; i < want_[round].size(); ++i) {
        const Tensor &a = *got[i], &b = *want_[round][i];
        if (a.dtype() != b.dtype() || a.dims() != b.dims())
          return Bad(fmt::format("output '{}' is {}, not {}", graph_.OutputName(i), TypeText(a),
                                 TypeText(b)));
        const double d = CompareTensors(a, b, args_.rtol, args_.atol);
        if (!(d <= 1))
          return Bad(fmt::format("output '{}' differs: error is {:.3g}x the tolerance",
                                 graph_.OutputName(i), d));
      }
    }
    return false;
  }
  int runs = 0;
  std::string why;  ///< of the last bad one

 private:
  bool Bad(std::string reason) {
    why = std::move(reason);
    return true;
  }
  std::vector<TensorPtr> Eval(const Graph& g, const NamedTensors& named) const {
    std::vector<TensorPtr> inputs;
    for (NodePtr p : g.AllInputs()) {
      const auto it = named.find(p->attrs.name);
      WEFT_CHECK(it != named.end(), kCheckFailed, "there is a new input '{}'", p->attrs.name);
      inputs.push_back(it->second);
    }
    return evaluator_->Eval(g, inputs);
  }
  const Graph& graph_;
  const Args& args_;
  const Evaluator* evaluator_;
  std::vector<NamedTensors> named_;
  std::vector<std::vector<TensorPtr>> want_;
};

/// Lines that only one of two texts has, without what they share at both ends.
std::string Difference(const Graph& before, const Graph& after) {
  constexpr size_t kMost = 20;
  const std::vector<std::string> a = Split(PrintGraph(before), '\n'),
                                 b = Split(PrintGraph(after), '\n');
  size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  std::string out;
  auto add = [&](const std::vector<std::string>& lines, const char* sign) {
    const size_t n = lines.size() - head - tail;
    for (size_t i = head; i < head + std::min(n, kMost); ++i) out += sign + lines[i] + "\n";
    if (n > kMost) out += fmt::format("{}  ... {} lines\n", sign, n - kMost);
  };
  add(a, "- ");
  add(b, "+ ");
  return out;
}

class Bisection {
 public:
  Bisection(const Graph& graph, const Args& args) : graph_(graph), args_(args) {
    options_.limits = args.model.Check();
    options_.target = args.target;
  }

  int Run() {
    const std::string extension = args_.format.empty() ? FileExtension() : "." + args_.format;
    if (args_.check.command.empty())
      reference_.emplace(graph_, args_);
    else
      command_.emplace(args_.check, extension, options_.limits);
    WEFT_CHECK(!IsBad(graph_), kUsage, "the check fails on the model itself, before any pass");
    List();
    if (!Bad(applications_.size(), -1)) {
      if (args_.model.json)
        PrintJson({{"found", false}, {"applications", applications_.size()}, {"checks", checks()}});
      else
        PrintText(fmt::format("nothing fails: the check passes after all {} applications\n",
                              applications_.size()));
      return 1;
    }
    const size_t first =
        FirstBad(0, applications_.size(), [&](int64_t n) { return Bad(size_t(n), -1); });
    Report(first);
    return 0;
  }

 private:
  std::string FileExtension() const {
    return EndsWith(ToLower(args_.model.path), ".onnx") ? ".onnx" : ".weft";
  }
  int checks() const { return reference_ ? reference_->runs : command_->runs(); }

  bool IsBad(const Graph& g) {
    progress_.Show(fmt::format("{:.0f} s: {} checks", timer_.seconds(), checks()));
    return reference_ ? reference_->IsBad(g) : command_->IsBad(g);
  }

  /// All applications, those that the manager adds among them; up to and with one that throws.
  void List() {
    const Pipeline passes = args_.passes.empty() ? StandardPipeline() : ParsePipeline(args_.passes);
    PassOptions options = options_;
    options.skip = args_.skip;
    Log log;
    {
      const PassTraceScope scope(&log);
      try {
        ApplyPasses(graph_, passes, options);
      } catch (const Error& e) {
        if (log.applications.empty()) throw;
        thrown_ = e.what();
      }
    }
    applications_ = std::move(log.applications);
    for (const Application& a : applications_)
      if (args_.check.command.empty() &&
          PassEntry::Get(a.spec.name)->result == PassResult::kDiffers)
        ThrowError(ErrorCode::kUsage,
                   fmt::format("the pass {} changes what the graph computes, as it declares; "
                               "results cannot be compared",
                               a.spec.name),
                   "bisect", "give --check CMD, or --passes without it");
  }

  /// The graph after the first n applications. Each is asked for by its name: its needs have
  /// run just before it.
  Graph After(size_t n, int64_t fuel, Log* log) {
    Pipeline pipeline;
    for (size_t i = 0; i < n; ++i) pipeline.push_back(applications_[i].spec);
    PassOptions options = options_;
    options.fuel = fuel;
    const PassTraceScope scope(log);
    return ApplyPasses(graph_, pipeline, options);
  }
  bool Bad(size_t n, int64_t fuel) {
    Log log;
    try {
      return IsBad(After(n, fuel, &log));
    } catch (const Error& e) {
      // The pass under suspicion threw; what the check itself throws comes from no pass.
      if (!StartsWith(e.place(), "pass ")) throw;
      thrown_ = e.what();
      return true;
    }
  }

  /// The smallest n in (good, bad] for which `is_bad` holds.
  template <class IsBadAt>
  static size_t FirstBad(size_t good, size_t bad, const IsBadAt& is_bad) {
    while (bad - good > 1) {
      const size_t middle = good + (bad - good) / 2;
      (is_bad(int64_t(middle)) ? bad : good) = middle;
    }
    return bad;
  }

  void Report(size_t n) {
    const Application& a = applications_[n - 1];
    // The rewrites of the application, and those of all before it, which use fuel as well.
    Log log;
    std::optional<Graph> bad;
    std::string thrown;
    try {
      bad = After(n, -1, &log);
    } catch (const Error& e) {
      thrown = e.what();
    }
    size_t before = 0, inside = 0;
    for (size_t i = 0; i < log.rewrites.size(); ++i)
      (i + 1 < n ? before : inside) += log.rewrites[i].size();
    std::optional<size_t> rewrite;  // 1-based, inside
    if (inside > 0 && !Bad(n, int64_t(before)))
      rewrite = FirstBad(before, before + inside, [&](int64_t f) { return Bad(n, f); }) - before;
    const int64_t bad_fuel = rewrite ? int64_t(before + *rewrite) : -1;
    std::optional<Graph> good;
    Log last;
    if (rewrite) {
      thrown.clear();
      bad.reset();
      try {
        bad = After(n, bad_fuel, &last);
      } catch (const Error& e) {
        thrown = e.what();
      }
      Log ignored;
      good = After(n, bad_fuel - 1, &ignored);
    } else {
      Log ignored;
      good = After(n - 1, -1, &ignored);
    }
    if (bad && reference_) reference_->IsBad(*bad);  // for the reason
    const std::string reason = !thrown.empty() ? thrown : reference_ ? reference_->why : "";
    const std::string change = bad ? Difference(*good, *bad) : "";
    std::string replay;
    {
      Pipeline pipeline;
      for (size_t i = 0; i < n; ++i) pipeline.push_back(applications_[i].spec);
      replay = fmt::format("weft opt {} --passes '{}'{}{}", args_.model.path, pipeline.ToString(),
                           args_.target == "cpu" ? "" : " --target " + args_.target,
                           rewrite ? fmt::format(" --fuel {}", bad_fuel) : "");
    }
    if (!args_.save_dir.empty()) {
      MakeDirectories(args_.save_dir);
      WriteModel(*good, JoinPath(args_.save_dir, "good.weft"), {options_.limits, false});
      if (bad) WriteModel(*bad, JoinPath(args_.save_dir, "bad.weft"), {options_.limits, false});
    }
    const GrantedRewrite* r = nullptr;
    if (rewrite && !last.rewrites.empty() && !last.rewrites.back().empty())
      r = &last.rewrites.back().back();
    if (args_.model.json) {
      PrintJson({{"found", true},
                 {"pass", a.spec.name},
                 {"application", a.name},
                 {"number", n},
                 {"applications", applications_.size()},
                 {"trigger", a.asked ? "asked" : "dependency"},
                 {"rewrite_number", rewrite ? Json(*rewrite) : Json(nullptr)},
                 {"rewrites", inside},
                 {"rewrite", r ? Json(r->name) : Json(nullptr)},
                 {"node", r ? Json(r->node) : Json(nullptr)},
                 {"fuel", rewrite ? Json(bad_fuel) : Json(nullptr)},
                 {"reason", reason},
                 {"change", change},
                 {"replay", replay},
                 {"checks", checks()}});
      return;
    }
    std::string text = fmt::format("pass     {}, application {} of {} ({})\n", a.name, n,
                                   applications_.size(), a.asked ? "asked" : "a dependency");
    if (rewrite)
      text += fmt::format("rewrite  {} of {}{}\n", *rewrite, inside,
                          r ? fmt::format(": {} at {}", r->name, r->node) : "");
    else if (inside > 0)
      text +=
          fmt::format("rewrite  none of its {}: it fails also where all are held back\n", inside);
    else
      text += "rewrite  the pass asks for no fuel, so it cannot be taken apart\n";
    if (!reason.empty()) text += "because  " + reason + "\n";
    text +=
        fmt::format("checks   {} in {:.1f} s\nagain    {}\n", checks(), timer_.seconds(), replay);
    if (!change.empty()) text += "\n" + change;
    PrintText(text);
  }

  const Graph& graph_;
  const Args& args_;
  PassOptions options_;
  std::optional<ReferenceCheck> reference_;
  std::optional<CheckCommand> command_;
  std::vector<Application> applications_;
  std::string thrown_;
  Progress progress_;
  Timer timer_;
};

int RunBisect(const Args& a) {
  WEFT_CHECK(a.against.empty() || a.against == "ref", kUsage, "--against: expected ref, got '{}'",
             a.against);
  WEFT_CHECK(a.check.command.empty() || a.against.empty(), kUsage,
             "--check and --against are two ways to check; give one");
  if (!a.format.empty()) WritableFormat("model." + a.format);
  ParsePipeline(a.passes);  // before a large model is read
  const Graph graph = ReadModel(a.model, ImportFor(a.inputs));
  return Bisection(graph, a).Run();
}

}  // namespace

Command MakeBisect(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand(
      "bisect", "the first application of a pass, and the rewrite in it, that breaks a model");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  AddInputs(app, &a->inputs);
  app.Add("--passes P", &a->passes, "pipeline; default: that of the cpu backend");
  app.Add("--target T", &a->target, "target of code generation: cpu, cuda:sm_90").ShowDefault();
  app.Add("--skip PASS[#N]", &a->skip, "leave a pass out, or its Nth application (repeatable)");
  AddCheck(app, &a->check);
  app.Add("--against E", &a->against,
          "ref (the default): results on random inputs equal the reference's on the model");
  app.Add("--format X", &a->format, "of the models that --check gets: onnx, weft, json");
  app.Add("--rtol R", &a->rtol, "relative tolerance").NonNegative();
  app.Add("--atol A", &a->atol, "absolute tolerance").NonNegative();
  app.Add("--save D", &a->save_dir, "write the graphs before and after as good.weft, bad.weft");
  return {app, [a] { return RunBisect(*a); }};
}

}  // namespace weft::tool
