/// compile.cc: `weft compile`: makes the kernels of a model for a target without running anything;
/// works for a GPU on a machine that has none. Of a target that makes programs of whole graphs the
/// backend compiles, and tells what it made.
#include <map>

#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "program_report.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/pass/body_types.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/planned_graph.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  MemoryArgs memory;
  DelegateArgs delegates;
  std::string target, out, save_kernels, report, overridable, passes;
};

/// One distinct kernel and what was made of it.
struct Row {
  KernelPtr kernel;
  CompiledKernelPtr compiled;  ///< null where nothing was made
  KernelStats stats;
  const char* form = "";         ///< of the first launch
  std::vector<std::string> ops;  ///< of the first body, or part of one, that it serves, in order
  int launches = 0;
};

/// Operators of the body of a fused node as far as part `part` (-1: all) needs them.
std::vector<std::string> OpsOf(const NodePtr& fused, int part) {
  const GraphPtr body = FusedBody(fused);
  std::vector<NodeEntry> results(body->outputs.begin(), body->outputs.end());
  // Without them all parts compute one result.
  if (part >= 0 && fused->attrs.dict.find("parts")) {
    const Ints& parts = fused->attr<Ints>("parts");
    int64_t first = 0;
    for (int p = 0; p < part; ++p) first += parts[size_t(p)];
    results.assign(results.begin() + first, results.begin() + first + parts[size_t(part)]);
  }
  std::vector<std::string> ops;
  DFSVisit(results, [&](const NodePtr& m) {
    if (!m->is_variable() && !IsOp(m, builtin::kConstant)) ops.push_back(m->op()->name);
  });
  return ops;
}

/// Rows of distinct kernels, in the order of their first launches.
struct Rows {
  std::vector<Row> all;
  std::map<Hash128, size_t> row_of;
  int launches = 0;  ///< one of each body
};

/// Of the graph, of its regions and of bodies of control flow.
void CollectKernels(const Graph& g, const KernelCompiler& compiler, Rows* into) {
  for (const NodePtr& n : g.TopoOrder())
    if (!IsOp(n, builtin::kFused))
      for (const std::string& name : BodyNames(n))
        CollectKernels(*n->attr<GraphPtr>(name), compiler, into);
  if (!g.HasAttr("kernel")) return;
  auto& [rows, row_of, launches] = *into;
  const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
  const RtcMap* rtc = g.HasAttr("rtc") ? &g.GetAttr<RtcMap>("rtc") : nullptr;
  for (NodePtr n : g.TopoOrder()) {
    const LoweredKernel* k = kernels.find(n);
    if (!k) continue;
    ++launches;
    const CompiledKernels* made = rtc ? rtc->find(n) : nullptr;
    const std::vector<KernelPtr> own = k->Kernels();
    for (size_t i = 0; i < own.size(); ++i) {
      const auto [it, fresh] = row_of.emplace(own[i]->Key(), rows.size());
      if (fresh) {
        Row r;
        r.kernel = own[i];
        r.form = k->form_name();
        if (made && i < made->size()) r.compiled = (*made)[i];
        int part = -1;
        for (size_t p = k->parts.size(); p-- > 0;)
          if (k->parts[p].kernel == own[i]) part = int(p);
        if (IsOp(n, builtin::kFused)) r.ops = OpsOf(n, part);
        r.stats = compiler.Stats(*r.kernel, r.compiled ? r.compiled->binary : std::string());
        if (r.stats.source_bytes == 0)
          r.stats.source_bytes = int64_t(compiler.Source(*r.kernel).size());
        rows.push_back(std::move(r));
      }
      ++rows[it->second].launches;
    }
  }
}

Json OrNull(int v) { return v < 0 ? Json(nullptr) : Json(v); }
std::string OrDash(int v) { return v < 0 ? "-" : fmt::format("{}", v); }

/// It names a backend of this machine, and no architecture.
bool CanRun(const std::string& target) {
  try {
    ParseEngine(target);
  } catch (const Error&) {
    return false;
  }
  return true;
}

Graph ReadToCompile(const Args& a) {
  ImportOptions import;
  if (!a.overridable.empty()) import.overridable = Split(a.overridable, ',');
  return ReadModel(a.model, import);
}

/// By the backend, which makes no kernels that anybody else would run.
int CompileWhole(const Args& a) {
  Engine engine = ParseEngine(EngineName(a.target, a.delegates), a.passes);
  engine.division = a.delegates.Division();
  const Limits limits = a.model.Check();
  const MemoryOptions memory = a.memory.Check();
  const std::shared_ptr<const Program> program =
      CompileProgram(ReadToCompile(a), engine, 0, limits, {}, memory);
  const std::shared_ptr<const BackendProgram> own = OwnProgramOf(*program);
  if (!own && !(a.save_kernels.empty() && a.report.empty()))
    ThrowError(ErrorCode::kUsage, fmt::format("'{}' compiles for constant dimensions", a.target),
               a.model.path,
               "give all of them: --hint " + Join(InputSymbols(program->graph()), "=N,") + "=N");
  if (!a.save_kernels.empty()) WriteArtifacts(*own, a.target, a.save_kernels);
  if (!a.report.empty()) WriteReportPage(*own, a.target, a.report);
  const std::vector<ProgramField> fields = own ? own->Fields(nullptr) : std::vector<ProgramField>();
  const double seconds = program->stats().compile_seconds;
  if (a.model.json) {
    Json out = {{"compile_s", seconds},
                {"target", program->backend()},
                {"kernels", Json::array()},
                {"compiled", own != nullptr}};
    AddFields(fields, a.target, &out);
    PrintJson(out);
  } else {
    PrintText(FieldsText(fields) +
              (own ? fmt::format("{:.3f} s for {}\n", seconds, program->backend())
                   : fmt::format("{} compiles when the dimensions are known; --hint gives them\n",
                                 program->backend())));
  }
  if (!a.out.empty()) SaveProgram(*program, a.out);
  return 0;
}

/// It is a backend that compiles by itself.
bool CompilesWhole(const Target& target) {
  const std::shared_ptr<const BackendModule> module = FindBackendModule(target.family());
  return module && module->backend && !module->compiler && !target.traits().kernels;
}

int RunCompile(const Args& a) {
  PassOptions options;
  options.limits = a.model.Check();
  WEFT_CHECK(a.out.empty() || EndsWith(ToLower(a.out), ".weftx"), kUsage,
             "cannot write '{}': compiled programs are written as .weftx", a.out);
  options.target = a.target;
  if (CompilesWhole(options.target)) return CompileWhole(a);
  std::string why;
  const std::shared_ptr<KernelCompiler> compiler = FindKernelCompiler(options.target, &why);
  if (!compiler)
    ThrowError(ErrorCode::kUnsupported,
               fmt::format("no kernels can be made for '{}': {}", a.target, why), "--target",
               "targets are cpu, cuda:sm_XX, as in cuda:sm_90, and backends of plugins");
  WEFT_CHECK(a.report.empty(), kUnsupported, "--report: programs for '{}' have no page to write",
             a.target);
  const DivisionOptions division = a.delegates.Division();
  Pipeline given =
      a.passes.empty() ? StandardPipeline({PipelineEnd::kCode}) : ParsePipeline(a.passes);
  if (a.passes.empty() && !a.delegates.to.empty()) given = WithoutQuantised(given);
  const Pipeline pipeline = WithDelegates(given, a.delegates.to, division.choice, division.only);
  const MemoryOptions memory = a.memory.Check();
  const Graph graph = ReadToCompile(a);
  std::vector<PassRecord> records;
  options.records = &records;
  const Timer timer;
  // What calls take beside their operands is known to a backend that can run them, and to no other.
  std::shared_ptr<const Program> program;
  if (memory.budget.any() && !CanRun(a.target))
    ThrowError(ErrorCode::kUnsupported,
               fmt::format("what calls take on '{}' is known where it runs", a.target),
               "--memory-budget", "give the budget to the command that runs the program");
  if (memory.budget.any())
    program = CompileProgram(graph, ParseEngine(a.target, ToPlan(pipeline).ToString()), 0,
                             options.limits, {}, memory);
  const Graph compiled =
      program ? program->graph() : RunPasses(graph, pipeline, options, MakePlannedGraph);
  const double seconds = timer.seconds();
  Rows collected;
  CollectKernels(compiled, *compiler, &collected);
  const auto& [rows, row_of, launches] = collected;

  if (!a.save_kernels.empty()) {
    MakeDirectories(a.save_kernels);
    for (const Row& r : rows)
      WriteFileAtomic(JoinPath(a.save_kernels, r.kernel->Name() + compiler->source_extension()),
                      compiler->Source(*r.kernel));
  }
  int failed = 0;
  std::string first_error;
  Json list = Json::array();
  Table table(
      {"kernel", "template", ">ops", ">launches", ">source", ">binary", ">registers", ">spilled"});
  for (const Row& r : rows) {
    if (!r.compiled || r.compiled->binary.empty()) {
      if (failed++ == 0)
        first_error =
            r.kernel->Name() + ": " + (r.compiled ? r.compiled->error : "RTCGen did not run");
    }
    Json row = {{"name", r.kernel->Name()},
                {"template", r.form},
                {"ops", r.ops.size()},
                {"op_names", r.ops},
                {"launches", r.launches},
                {"source_bytes", r.stats.source_bytes},
                {"binary_bytes", r.compiled ? int64_t(r.compiled->binary.size()) : 0},
                {"registers", OrNull(r.stats.registers)},
                {"spill_bytes", OrNull(r.stats.spill_bytes)}};
    if (r.compiled && !r.compiled->error.empty()) row["error"] = r.compiled->error;
    list.push_back(std::move(row));
    table.AddRow({r.kernel->Name(), r.form, fmt::format("{}", r.ops.size()),
                  fmt::format("{}", r.launches), FormatBytes(r.stats.source_bytes),
                  r.compiled ? FormatBytes(int64_t(r.compiled->binary.size())) : "-",
                  OrDash(r.stats.registers), OrDash(r.stats.spill_bytes)});
  }
  int64_t from_cache = 0;
  for (const PassRecord& r : records)
    if (r.name == "RTCGen") {
      auto count = [&](const char* s) { return r.statistics.count(s) ? r.statistics.at(s) : 0; };
      from_cache += count("distinct") - count("compiled");
    }
  if (a.model.json) {
    PrintJson({{"compile_s", seconds},
               {"target", compiler->target()},
               {"launches", launches},
               {"from_cache", from_cache},
               {"kernels", std::move(list)}});
  } else {
    PrintText(table.ToString());
    PrintText(fmt::format(
        "{} distinct kernels ({} from the cache), {} launches per run, {:.3f} s for {}\n",
        rows.size(), from_cache, launches, seconds, compiler->target()));
  }
  if (failed > 0)
    ThrowError(ErrorCode::kCheckFailed,
               fmt::format("{} of {} kernels do not compile for {}; {}", failed, rows.size(),
                           compiler->target(), first_error),
               a.model.path);
  if (!a.out.empty() && program)
    SaveProgram(*program, a.out);
  else if (!a.out.empty())
    WriteFileAtomic(
        a.out, PackProgram(compiled, options.target.family(), compiler->target(), options.target));
  return 0;
}

}  // namespace

Command MakeCompile(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app =
      parent.AddCommand("compile", "make the kernels of a model for a target, without running it");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  app.Add("--target T", &a->target, "cpu, cuda:sm_90, or a backend that compiles whole graphs")
      .Required();
  app.Add("-o,--output F", &a->out, "compiled program to write (.weftx)");
  app.Add("--overridable N", &a->overridable,
          "initializers that the model lists as inputs too and that will be fed: A,B");
  app.Add("--save-kernels D", &a->save_kernels,
          "write the source of every distinct kernel, or what else the target shows of a program");
  app.Add("--report F", &a->report, "write the target's page (HTML) about the program");
  app.Add("--passes P", &a->passes, "passes instead of the usual ones");
  AddDelegates(app, &a->delegates);
  AddMemory(app, &a->memory);
  return {app, [a] { return RunCompile(*a); }};
}

}  // namespace weft::tool
