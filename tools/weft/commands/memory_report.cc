/// memory_report.cc: see memory_report.h. The numbers are those of the program that would run
/// (weft/runtime/program/memory.h).
#include "memory_report.h"

#include <algorithm>
#include <optional>

#include "common.h"
#include "inputs.h"
#include "memory_page.h"
#include "weft/runtime/program/memory.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

constexpr size_t kHoldersShown = 12, kUnboundedShown = 5;

Json HolderJson(const MemoryHolder& h) {
  return {{"name", h.name},   {"kind", MemoryKindName(h.kind)},
          {"bytes", h.bytes}, {"begin", h.begin},
          {"end", h.end},     {"why", h.why}};
}

Json ToJson(const MemoryReport& r, const SymBindings& bindings, const MemoryBudget& budget) {
  Json holders = Json::array(), plans = Json::array();
  for (const MemoryHolder& h : r.Holders()) holders.push_back(HolderJson(h));
  for (size_t w = 0; w < r.ways.size(); ++w)
    plans.push_back({{"peak_bytes", r.ways[w].peak_bytes},
                     {"recompute_flops", r.ways[w].recompute_flops},
                     {"copies", r.ways[w].copies},
                     {"taken", w == r.way}});
  return {{"peak_bytes", r.peak_bytes},
          {"bound_bytes", r.bound_bytes},
          {"arena_bytes", r.arena_bytes},
          {"floor_bytes", r.floor_bytes},
          {"scratch_bytes", r.scratch_bytes},
          {"input_bytes", r.input_bytes},
          {"output_bytes", r.output_bytes},
          {"variable_bytes", r.variable_bytes},
          {"constant_bytes", r.constant_bytes},
          {"packed_bytes", r.packed_bytes},
          {"at_most", r.at_most},
          {"unbounded", r.unbounded},
          {"at_step", r.at_step},
          {"at_name", r.at_step < 0 ? "" : r.steps[size_t(r.at_step)]},
          {"steps", r.steps.size()},
          {"holders", std::move(holders)},
          {"plans", std::move(plans)},
          {"budget", budget.any() ? Json(budget.ToString()) : Json()},
          {"bindings", BindingsJson(bindings)}};
}

std::string ToText(const MemoryReport& r, const SymBindings& bindings,
                   const std::vector<std::string>& symbols) {
  std::string at = symbols.empty() ? "" : " at " + DimsText(bindings, symbols);
  std::string out = fmt::format("peak      {}{}{}: {} of intermediate results, {} of results\n",
                                r.at_most ? "at most " : "", FormatBytes(r.peak_bytes), at,
                                FormatBytes(r.arena_bytes), FormatBytes(r.output_bytes));
  out += fmt::format("bound     {} alive at once", FormatBytes(r.bound_bytes));
  if (r.at_step >= 0)
    out += fmt::format(", at step {} of {}, '{}'", r.at_step, r.steps.size(),
                       r.steps[size_t(r.at_step)]);
  out += fmt::format("\nfloor     {} for the largest single step and the results\n",
                     FormatBytes(r.floor_bytes));
  if (r.scratch_bytes > 0)
    out += fmt::format("scratch   at most {} in one step\n", FormatBytes(r.scratch_bytes));
  out += fmt::format("beside    inputs {}, variables {}, weights {} and {} packed\n",
                     FormatBytes(r.input_bytes), FormatBytes(r.variable_bytes),
                     FormatBytes(r.constant_bytes), FormatBytes(r.packed_bytes));
  if (!r.unbounded.empty())
    out += fmt::format(
        "without   {} whose size the run decides: {}\n", Plural(r.unbounded.size(), "value"),
        Join({r.unbounded.begin(), r.unbounded.begin() + std::ptrdiff_t(std::min<size_t>(
                                                             r.unbounded.size(), kUnboundedShown))},
             ", "));
  for (size_t w = 0; w < r.ways.size(); ++w)
    out += fmt::format("plan {}    {}, {:.3g} GFLOP done twice by {}{}\n", w,
                       FormatBytes(r.ways[w].peak_bytes), double(r.ways[w].recompute_flops) * 1e-9,
                       Plural(r.ways[w].copies, "node"), w == r.way ? "; taken" : "");
  const std::vector<MemoryHolder> holders = r.Holders();
  Table table({"held at the peak", "kind", ">bytes", ">steps", "why"});
  for (size_t k = 0; k < std::min(holders.size(), kHoldersShown); ++k) {
    const MemoryHolder& h = holders[k];
    table.AddRow({h.name, MemoryKindName(h.kind), FormatBytes(h.bytes),
                  fmt::format("{}-{}", h.begin, h.end - 1), h.why});
  }
  if (!holders.empty()) out += "\n" + table.ToString();
  if (holders.size() > kHoldersShown)
    out += fmt::format("and {} more\n", holders.size() - kHoldersShown);
  return out;
}

}  // namespace

void AddMemoryReport(Options& app, MemoryReportArgs* args) {
  app.AddFlag("--memory", &args->asked,
              "who holds the memory of a run: the peak, its step, blocks and why they are alive");
  app.Add("--html F", &args->html,
          "with --memory: a page with every block over the steps, beside what it is without the "
          "budget");
  AddMemory(app, &args->memory);
}

int InspectMemory(const ModelArgs& model, const InputArgs& inputs, const MemoryReportArgs& args) {
  const MemoryOptions memory = args.memory.Check();
  std::shared_ptr<const Program> program;
  std::optional<Graph> graph;
  if (IsProgramFile(model.path)) {
    program = LoadProgram(model.path, {"", 0, model.Check(), {}, memory.budget});
  } else {
    graph = ReadModel(model, ImportFor(inputs));
    program = CompileProgram(*graph, ParseEngine(kDefaultBackend), 0, model.Check(), {}, memory);
  }
  const Graph& declared = graph ? *graph : program->graph();
  const SymBindings bindings = CompleteDims(declared, ParseDims(declared, inputs), inputs).bindings;
  const MemoryReport report = ReportMemory(*program, bindings);
  if (!args.html.empty()) {
    std::optional<MemoryReport> before;
    if (graph && memory.budget.any())
      before = ReportMemory(
          *CompileProgram(*graph, ParseEngine(kDefaultBackend), 0, model.Check(), {}), bindings);
    WriteFileAtomic(args.html, MemoryPage(report, before ? &*before : nullptr, memory.budget));
  }
  if (model.json)
    PrintJson(ToJson(report, bindings, memory.budget));
  else
    PrintText(ToText(report, bindings, InputSymbols(declared)));
  return 0;
}

}  // namespace weft::tool
