/// compare.cc: `weft compare MODEL A B`: do two engines, or an engine and a folder of expected
/// outputs, agree? Inputs are equal for both: from files, else random by seed (a function of the
/// model and the seed alone, so that `weft run --random --seed S` makes a folder to compare with).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "command_line.h"
#include "common.h"
#include "delegated_fault.h"
#include "inputs.h"
#include "layer_judge.h"
#include "layers.h"
#include "onnxruntime.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/delegate.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

// Two correct engines sum in different orders: looser than what one operator may differ by.
constexpr double kRelative = 1e-4, kAbsolute = 1e-5;
constexpr double kRelative16 = 2e-2, kAbsolute16 = 1e-2;

struct Args {
  ModelArgs model;
  InputArgs inputs;
  std::string a, b;
  std::vector<std::string> more;
  DelegateArgs delegates;  ///< of engines as cpu+openvino
  bool layerwise = false;
  std::vector<std::string> rtol, atol;
};

/// A tolerance of all outputs, and of some.
class Tolerance {
 public:
  Tolerance(const std::vector<std::string>& options, const std::string& option) : option_(option) {
    for (const std::string& text : options) {
      const size_t eq = text.rfind('=');
      const std::string name = eq == text.npos ? "" : text.substr(0, eq);
      const auto value = TryParseDouble(eq == text.npos ? text : text.substr(eq + 1));
      if (!value || !std::isfinite(*value) || *value < 0)
        ThrowError(ErrorCode::kUsage, fmt::format("expected a number >= 0, got '{}'", text),
                   option);
      of_[name] = *value;
    }
  }
  /// Throws kBadBinding for an output that the model has not.
  void CheckNames(const std::vector<std::string>& outputs) const {
    for (const auto& [name, value] : of_) {
      if (name.empty() || std::count(outputs.begin(), outputs.end(), name)) continue;
      const std::string near = DidYouMean(name, outputs);
      ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no output '{}'", name), option_,
                 near.empty() ? ListNames(outputs) : near);
    }
  }
  double Of(const std::string& output, double otherwise) const {
    for (const std::string& name : {output, std::string()})
      if (const auto it = of_.find(name); it != of_.end()) return it->second;
    return otherwise;
  }

 private:
  std::string option_;
  std::map<std::string, double> of_;  ///< "": all others
};
struct Tolerances {
  Tolerance rtol, atol;
};

struct Difference {
  std::string name, type, note;
  double max_abs = 0, max_rel = 0;
  double units = 0;      ///< of tolerance; above 1 is different
  bool excused = false;  ///< the node is right: its operands differ
  bool close() const { return units <= 1 && note.empty(); }
  bool equal() const { return close() || excused; }
};

Difference Differ(const std::string& name, const Tensor& got, const Tensor& want,
                  const Tolerances& tolerances) {
  Difference d;
  d.name = name;
  d.type = TypeText(want);
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    d.note = fmt::format("{} against {}", TypeText(got), TypeText(want));
    return d;
  }
  const bool narrow = IsNarrowFloat(want.dtype());
  d.units = CompareTensors(got, want, tolerances.rtol.Of(name, narrow ? kRelative16 : kRelative),
                           tolerances.atol.Of(name, narrow ? kAbsolute16 : kAbsolute));
  if (!IsComputable(want.dtype())) return d;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double g = got.at(i), w = want.at(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double abs = std::fabs(g - w);
    d.max_abs =
        std::max(d.max_abs, std::isnan(abs) ? std::numeric_limits<double>::infinity() : abs);
    const double rel = abs / std::max(std::fabs(w), 1e-30);
    d.max_rel =
        std::max(d.max_rel, std::isnan(rel) ? std::numeric_limits<double>::infinity() : rel);
  }
  return d;
}

bool IsFolder(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::is_directory(text, ignored);
}

std::vector<TensorPtr> RunEngine(const Graph& graph, const std::string& text,
                                 const NamedTensors& inputs, const Args& args) {
  Engine engine = ParseEngine(text);
  engine.division = args.delegates.Division();
  const auto program = CompileProgram(graph, engine, 0, args.model.Check());
  Session session(program);
  try {
    std::vector<TensorPtr> outputs = session.Run(OrderInputs(*program, inputs));
    ReportKernelFaults(session);
    return outputs;
  } catch (Error& e) {
    e.AddPlace("engine " + text);
    throw;
  }
}

std::vector<TensorPtr> ReadFolder(const Graph& graph, const std::string& folder,
                                  const Limits& limits) {
  std::vector<TensorPtr> out;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string stem = JoinPath(folder, FileStem(graph.OutputName(i)));
    const bool other = !FileExists(stem + ".npy") && FileExists(stem + ".pb");
    out.push_back(ReadTensor(stem + (other ? ".pb" : ".npy"), limits));
  }
  return out;
}

/// One of the two that are compared.
struct Side {
  enum Kind { kEngine, kFolder, kPeer } kind;
  std::string text;
  std::vector<TensorPtr> results;
};
/// "./cpu" is a folder, "cpu" an engine: names of engines come first.
Side ParseSide(const std::string& text) {
  if (text == kOnnxRuntime) return {Side::kPeer, text, {}};
  const bool slash = text.find('/') != std::string::npos;
  if (IsFolder(text) && (slash || !IsEngine(text))) return {Side::kFolder, text, {}};
  if (slash) ThrowError(ErrorCode::kIo, fmt::format("there is no folder '{}'", text), "compare");
  ParseEngine(text);
  return {Side::kEngine, text, {}};
}

/// Judges what differs in one iteration (none: outside of loops) by the operands that each engine
/// had. Outputs of the model have to agree, whatever the reason.
void Excuse(const Layers& layers, size_t layer, const Layers::Iteration& iteration,
            const Layers::Run& run_a, const Layers::Run& run_b, const Side& a, const Side& b,
            Difference* d) {
  const NodeEntry entry = layers.EntryOf(layer);
  const auto judge = [&](const Layers::Run& run) {
    return JudgeLayer(entry,
                      [&](const NodeEntry& e) { return layers.Operand(layer, e, iteration, run); });
  };
  const std::optional<double> of_a = judge(run_a), of_b = judge(run_b);
  if (!of_a || !of_b) return;  // nobody can say
  const double units = std::max(*of_a, *of_b);
  if (units <= 1 && layers.all()[layer].is_output) {
    d->note = "an output, for operands that differ";
    return;
  }
  d->units = units;
  d->excused = units <= 1;
  if (!d->excused) d->note = fmt::format("of {}, {:.3g}x", *of_a > 1 ? a.text : b.text, d->units);
}

std::string InIteration(const std::string& name, const Layers::Iteration& iteration) {
  std::vector<std::string> numbers;
  for (int64_t i : iteration) numbers.push_back(fmt::format("{}", i));
  return numbers.empty() ? name : fmt::format("{}, iteration {}", name, Join(numbers, " of "));
}

/// Every layer, with the first of its iterations that differs, and which of them is the first.
std::vector<Difference> CompareLayers(const Layers& layers, const NamedTensors& inputs,
                                      const Side& a, const Side& b, const Tolerances& tolerances,
                                      std::ptrdiff_t* first) {
  const Layers::Run run_a{a.results, inputs}, run_b{b.results, inputs};
  std::vector<Difference> all;
  std::vector<int64_t> first_place;
  Progress progress;
  for (size_t i = 0; i < layers.all().size(); ++i) {
    const Layer& layer = layers.all()[i];
    if (layer.is_given) continue;
    Difference d = Differ(layer.name, *a.results[i], *b.results[i], tolerances);
    if (!d.close()) {
      progress.Show(fmt::format("result {} of {}: {}", i + 1, layers.all().size(), d.name));
      Difference worst = d;
      bool any = false, all_excused = true;
      for (const Layers::Iteration& iteration : layers.Iterations(i, run_a, run_b)) {
        const TensorPtr got = layers.Part(i, iteration, run_a),
                        want = layers.Part(i, iteration, run_b);
        if (!got || !want) continue;
        Difference here = Differ(layer.name, *got, *want, tolerances);
        if (here.close()) continue;
        any = true;
        Excuse(layers, i, iteration, run_a, run_b, a, b, &here);
        if (here.excused) continue;
        all_excused = false;
        worst.note = here.note;
        worst.units = here.units;
        worst.name = InIteration(layer.name, iteration);
        std::vector<int64_t> place = layers.Order(i, iteration);
        if (*first < 0 || place < first_place) {
          *first = std::ptrdiff_t(all.size());
          first_place = std::move(place);
        }
        break;
      }
      if (any && all_excused) worst.excused = true;
      // Numbers of iterations that differ, where those that both ran are equal.
      if (!any && *first < 0) *first = std::ptrdiff_t(all.size());
      d = std::move(worst);
    }
    all.push_back(std::move(d));
  }
  return all;
}

std::string Verdict(const Difference& d) {
  if (d.close()) return "equal";
  if (d.excused) return "equal for its operands";
  return !d.note.empty() ? "differs: " + d.note
                         : fmt::format("differs: error is {:.3g}x the tolerance", d.units);
}

void PrintReport(const Args& args, const std::vector<Difference>& all, int64_t different,
                 const Difference* first) {
  const char* what = args.layerwise ? "result" : "output";
  if (args.model.json) {
    Json rows = Json::array();
    for (const Difference& d : all)
      rows.push_back({{"name", d.name},
                      {"type", d.type},
                      {"equal", d.equal()},
                      {"operands_differ", d.excused},
                      {"max_abs", d.max_abs},
                      {"max_rel", d.max_rel},
                      {"tolerances", d.units},
                      {"note", d.note}});
    PrintJson({{"a", args.a},
               {"b", args.b},
               {"equal", different == 0},
               {"different", different},
               {"first_different", first ? Json(first->name) : Json(nullptr)},
               {args.layerwise ? "layers" : "outputs", std::move(rows)}});
    return;
  }
  Table table({args.layerwise ? "node" : "output", "type", ">max abs", ">max rel", "verdict"});
  for (const Difference& d : all) {
    if (args.layerwise && d.equal() && all.size() > 40) continue;  // long models: only what differs
    table.AddRow({d.name, d.type, fmt::format("{:.3g}", d.max_abs),
                  fmt::format("{:.3g}", d.max_rel), Verdict(d)});
  }
  if (table.size() > 1) PrintText(table.ToString());
  const auto excused =
      std::count_if(all.begin(), all.end(), [](const Difference& d) { return d.excused; });
  if (different == 0)
    PrintText(fmt::format(
        "{} and {} agree on {}{}\n", args.a, args.b, Plural(all.size(), what),
        excused ? fmt::format(", on {} of them for operands that differ", excused) : ""));
  else if (args.layerwise)
    PrintText(fmt::format("the first that differs: {}\n", first->name));
}

bool GivesAway(const Side& s) {
  return s.kind == Side::kEngine && !SplitDelegates(s.text).second.empty();
}
/// `suspect` gives parts of the model to other engines: which of them is wrong.
void PrintDelegatedFault(const Graph& graph, const NamedTensors& inputs, const Side& suspect,
                         const std::vector<TensorPtr>& expected, const Tolerances& tolerances,
                         const Args& args) {
  const Limits limits = args.model.Check();
  const auto make = [&](const DivisionOptions& division) {
    Engine engine = ParseEngine(suspect.text);
    engine.division = division;
    return CompileProgram(graph, engine, 0, limits);
  };
  const auto agrees = [&](const Program& program) {
    Session session(std::shared_ptr<const Program>(&program, [](const Program*) {}));
    const std::vector<TensorPtr> got = session.Run(OrderInputs(program, inputs));
    for (size_t i = 0; i < got.size(); ++i)
      if (!Differ(graph.OutputName(i), *got[i], *expected[i], tolerances).close()) return false;
    return true;
  };
  const std::optional<DelegatedFault> fault =
      FindDelegatedFault(make, agrees, args.delegates.Division());
  if (!fault) return;
  if (args.model.json)
    return PrintJson(
        {{"delegate", fault->delegate}, {"node", fault->node}, {"region", fault->region}});
  PrintText(
      fmt::format("delegate '{}' makes the difference: results are right until it gets '{}', in a "
                  "region of {}\n",
                  fault->delegate, fault->node, Plural(fault->region.size(), "node")));
}

int RunComparePair(const Args& args) {
  const Limits limits = args.model.Check();
  Side a = ParseSide(args.a), b = ParseSide(args.b);
  if (a.kind == Side::kFolder && b.kind == Side::kFolder)
    ThrowError(ErrorCode::kUsage, "one of the two must be an engine", "compare",
               "engines: " + Join(AvailableBackendModules(), ", ") + ", " + kOnnxRuntime +
                   ", and variants as cpu:no-fusion");
  if (args.layerwise && (a.kind == Side::kFolder || b.kind == Side::kFolder))
    ThrowError(ErrorCode::kUsage,
               "--layerwise compares two engines; a folder holds only the outputs", "compare");
  const Tolerances tolerances = {{args.rtol, "--rtol"}, {args.atol, "--atol"}};
  Graph graph = ReadModel(args.model, ImportFor(args.inputs));
  const NamedTensors inputs = MakeInputs(graph, args.inputs, limits).tensors;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.outputs.size(); ++i) names.push_back(graph.OutputName(i));
  tolerances.rtol.CheckNames(names);
  tolerances.atol.CheckNames(names);
  std::optional<Layers> layers;
  const Graph whole = args.layerwise ? graph : Graph();
  if (args.layerwise) {
    layers.emplace(std::move(graph));
    graph = layers->graph();
  }
  const bool as_it_is = !args.layerwise && EndsWith(ToLower(args.model.path), ".onnx");
  for (Side* s : {&a, &b})
    s->results = s->kind == Side::kFolder ? ReadFolder(graph, s->text, limits)
                 : s->kind == Side::kPeer
                     ? RunOnnxRuntime(graph, as_it_is ? args.model.path : "", inputs, limits)
                     : RunEngine(graph, s->text, inputs, args);
  std::vector<Difference> all;
  std::ptrdiff_t first = -1;
  if (layers) {
    all = CompareLayers(*layers, inputs, a, b, tolerances, &first);
  } else {
    for (size_t i = 0; i < names.size(); ++i) {
      all.push_back(Differ(names[i], *a.results[i], *b.results[i], tolerances));
      if (first < 0 && !all.back().equal()) first = std::ptrdiff_t(i);
    }
  }
  const auto different =
      std::count_if(all.begin(), all.end(), [](const Difference& d) { return !d.equal(); });
  PrintReport(args, all, different, first < 0 ? nullptr : &all[size_t(first)]);
  if (different > 0 && args.layerwise) {
    const auto results = [&](const Side& s) {
      return s.kind == Side::kPeer ? RunOnnxRuntime(whole, "", inputs, limits)
                                   : RunEngine(whole, s.text, inputs, args);
    };
    if (GivesAway(a)) PrintDelegatedFault(whole, inputs, a, results(b), tolerances, args);
    if (GivesAway(b)) PrintDelegatedFault(whole, inputs, b, results(a), tolerances, args);
  }
  if (different > 0)
    ThrowError(ErrorCode::kCheckFailed,
               fmt::format("{} of {} {} differ between {} and {}; the first is {}", different,
                           all.size(), args.layerwise ? "results" : "outputs", args.a, args.b,
                           all[size_t(first)].name),
               args.model.path,
               args.layerwise ? "" : "--layerwise names the first node that differs");
  return 0;
}

/// Of three and more the first is what the others are compared with.
int RunCompare(const Args& args) {
  if (args.more.empty()) return RunComparePair(args);
  Args pair = args;
  pair.b = args.a;
  std::vector<std::string> others = args.more;
  others.insert(others.begin(), args.b);
  for (const std::string& other : others) {
    pair.a = other;
    RunComparePair(pair);
  }
  return 0;
}

}  // namespace

Command MakeCompare(Options& parent) {
  auto a = std::make_shared<Args>();
  a->inputs.random = true;
  Options app = parent.AddCommand(
      "compare", "compare the results of two engines, or with a folder of outputs");
  AddModel(app, &a->model);
  app.Add("A", &a->a, "cpu, ref, cpu:no-fusion, cuda, onnxruntime, or a folder with NAME.npy")
      .Required();
  app.Add("B", &a->b, "the other; its values are the expected ones").Required();
  app.Add("MORE", &a->more, "further engines: then all are compared with the first");
  AddRandomWeights(app, &a->model);
  AddInputs(app, &a->inputs);
  AddDivision(app, &a->delegates);
  app.AddFlag("--layerwise", &a->layerwise,
              "compare every result and name the first node that differs for its own operands");
  app.Add("--rtol [NAME=]R", &a->rtol,
          fmt::format("relative tolerance, of all outputs or of one (repeatable); default {:g}, of "
                      "16-bit floats {:g}",
                      kRelative, kRelative16));
  app.Add("--atol [NAME=]A", &a->atol,
          fmt::format("absolute tolerance, as --rtol; default {:g}, of 16-bit floats {:g}",
                      kAbsolute, kAbsolute16));
  return {app, [a] { return RunCompare(*a); }};
}

}  // namespace weft::tool
