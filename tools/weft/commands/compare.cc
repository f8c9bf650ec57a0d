/// compare.cc: `weft compare MODEL A B`: do two engines, or an engine and a folder of expected
/// outputs, agree? Inputs are equal for both: from files, else random by seed (a function of the
/// model and the seed alone, so that `weft run --random --seed S` makes a folder to compare with).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "layers.h"
#include "weft/core/module/backend_module.h"
#include "weft/support/check.h"
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
  bool layerwise = false;
  double rtol = -1, atol = -1;
};

struct Difference {
  std::string name, type, note;
  double max_abs = 0, max_rel = 0;
  double units = 0;  ///< of tolerance; above 1 is different
  bool equal() const { return units <= 1 && note.empty(); }
};

Difference Differ(const std::string& name, const Tensor& got, const Tensor& want,
                  const Args& args) {
  Difference d;
  d.name = name;
  d.type = TypeText(want);
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    d.note = fmt::format("{} against {}", TypeText(got), TypeText(want));
    return d;
  }
  const bool narrow = IsNarrowFloat(want.dtype());
  const double rtol = args.rtol >= 0 ? args.rtol : narrow ? kRelative16 : kRelative;
  const double atol = args.atol >= 0 ? args.atol : narrow ? kAbsolute16 : kAbsolute;
  d.units = CompareTensors(got, want, rtol, atol);
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
                                 const NamedTensors& inputs, const Limits& limits) {
  const auto program = CompileProgram(graph, ParseEngine(text), 0, limits);
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

int RunCompare(const Args& args) {
  const Limits limits = args.model.Check();
  // "./cpu" is a folder, "cpu" an engine: names of engines come first.
  auto is_folder = [](const std::string& s) {
    return IsFolder(s) && (s.find('/') != std::string::npos || !IsEngine(s));
  };
  if (is_folder(args.a) && is_folder(args.b))
    ThrowError(
        ErrorCode::kUsage, "one of the two must be an engine", "compare",
        "engines: " + Join(AvailableBackendModules(), ", ") + ", and variants as cpu:no-fusion");
  if (args.layerwise && (is_folder(args.a) || is_folder(args.b)))
    ThrowError(ErrorCode::kUsage,
               "--layerwise compares two engines; a folder holds only the outputs", "compare");
  for (const std::string& s : {args.a, args.b})
    if (!is_folder(s)) {
      if (s.find('/') != std::string::npos)
        ThrowError(ErrorCode::kIo, fmt::format("there is no folder '{}'", s), "compare");
      ParseEngine(s);
    }
  ImportOptions import;
  import.limits = limits;
  for (const auto& [name, file] : SplitAssignments(args.inputs.files, "--input"))
    import.overridable.push_back(name);
  Graph graph = LoadModel(args.model.path, import);
  const NamedTensors inputs = MakeInputs(graph, args.inputs, limits);
  std::vector<std::string> names;
  if (args.layerwise) {
    graph = ExposeAll(std::move(graph), &names);
  } else {
    for (size_t i = 0; i < graph.outputs.size(); ++i) names.push_back(graph.OutputName(i));
  }
  auto results = [&](const std::string& s) {
    return is_folder(s) ? ReadFolder(graph, s, limits) : RunEngine(graph, s, inputs, limits);
  };
  const std::vector<TensorPtr> a = results(args.a), b = results(args.b);
  std::vector<Difference> all;
  for (size_t i = 0; i < names.size(); ++i) all.push_back(Differ(names[i], *a[i], *b[i], args));
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Difference& d) { return !d.equal(); });
  const auto different =
      std::count_if(all.begin(), all.end(), [](const Difference& d) { return !d.equal(); });

  if (args.model.json) {
    Json rows = Json::array();
    for (const Difference& d : all)
      rows.push_back({{"name", d.name},
                      {"type", d.type},
                      {"equal", d.equal()},
                      {"max_abs", JsonNumber(d.max_abs)},
                      {"max_rel", JsonNumber(d.max_rel)},
                      {"tolerances", JsonNumber(d.units)},
                      {"note", d.note}});
    PrintJson({{"a", args.a},
               {"b", args.b},
               {"equal", different == 0},
               {"different", different},
               {"first_different", first == all.end() ? Json(nullptr) : Json(first->name)},
               {args.layerwise ? "layers" : "outputs", std::move(rows)}});
  } else {
    Table table({args.layerwise ? "node" : "output", "type", ">max abs", ">max rel", "verdict"});
    for (const Difference& d : all) {
      if (args.layerwise && d.equal() && all.size() > 40)
        continue;  // long models: only what differs
      table.AddRow({d.name, d.type, fmt::format("{:.3g}", d.max_abs),
                    fmt::format("{:.3g}", d.max_rel),
                    !d.note.empty() ? "differs: " + d.note
                    : d.equal()     ? "equal"
                                : fmt::format("differs: error is {:.3g}x the tolerance", d.units)});
    }
    if (table.size() > 1) PrintText(table.ToString());
    if (different == 0)
      PrintText(fmt::format("{} and {} agree on {}\n", args.a, args.b,
                            Plural(all.size(), args.layerwise ? "result" : "output")));
    else if (args.layerwise)
      PrintText(fmt::format("the first that differs: {}\n", first->name));
  }
  if (different > 0)
    ThrowError(
        ErrorCode::kCheckFailed,
        fmt::format("{} of {} {} differ between {} and {}; the first is {}", different, all.size(),
                    args.layerwise ? "results" : "outputs", args.a, args.b, first->name),
        args.model.path, args.layerwise ? "" : "--layerwise names the first node that differs");
  return 0;
}

}  // namespace

Command MakeCompare(CLI::App& parent) {
  auto a = std::make_shared<Args>();
  a->inputs.random = true;
  CLI::App* app = parent.add_subcommand(
      "compare", "compare the results of two engines, or with a folder of outputs");
  AddModel(app, &a->model);
  app->add_option("A", a->a, "cpu, ref, cpu:no-fusion, cuda, or a folder with NAME.npy")
      ->required();
  app->add_option("B", a->b, "the other; its values are the expected ones")->required();
  AddInputs(app, &a->inputs);
  app->add_flag("--layerwise", a->layerwise,
                "compare every result and name the first node that differs");
  app->add_option("--rtol", a->rtol, "relative tolerance")->type_name("R")->check(NonNegative());
  app->add_option("--atol", a->atol, "absolute tolerance")->type_name("A")->check(NonNegative());
  return {app, [a] { return RunCompare(*a); }};
}

}  // namespace weft::tool
