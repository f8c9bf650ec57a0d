/// opt.cc: `weft opt`: any pipeline on any model, with what one wants to see of it. Without -o the
/// graph goes to stdout and the tables to stderr; with -o the tables are the result on stdout.
#include <algorithm>
#include <cstdio>
#include <map>
#include <regex>

#include "command_line.h"
#include "common.h"
#include "weft/api/model.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/text/text.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  std::string passes = "O1", out, target = "cpu", dump_dir, print_before, print_after, check,
              reproducer;
  std::vector<std::string> skip;
  bool stats = false, time = false, full = false, before_all = false, after_all = false;
  int level = -1;  ///< of -O; else `passes`
  int64_t fuel = -1;
};

std::string Pattern(const std::string& option, const std::string& text, bool all) {
  if (all) return ".";
  try {
    std::regex check(text);
  } catch (const std::regex_error& e) {
    ThrowError(ErrorCode::kUsage,
               fmt::format("'{}' is not a regular expression: {}", text, e.what()), option);
  }
  return text;
}

Checks ParseChecks(const std::string& text) {
  Checks c;
  if (text.empty()) return c;
  if (text == "all") return Checks::All();
  const std::map<std::string, bool Checks::*> fields = {{"preserved", &Checks::preserved},
                                                        {"changed", &Checks::changed},
                                                        {"deterministic", &Checks::deterministic},
                                                        {"equivalent", &Checks::equivalent}};
  for (const std::string& name : Split(text, ',')) {
    const auto it = fields.find(name);
    if (it == fields.end())
      ThrowError(ErrorCode::kUsage, fmt::format("there is no check '{}'", name), "--check",
                 "expected all, or some of preserved,changed,deterministic,equivalent");
    c.*(it->second) = true;
  }
  return c;
}

int64_t CountFused(const Graph& g) {
  int64_t n = 0;
  for (NodePtr node : g.TopoOrder()) n += IsOp(node, builtin::kFused);
  return n;
}

std::string Statistics(const PassRecord& r) {
  std::string out;
  for (const auto& [name, value] : r.statistics)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, value);
  return out;
}

/// What the records say about fused nodes: known until a pass that says nothing changes the graph.
class FusedCount {
 public:
  explicit FusedCount(int64_t at_start) : count_(at_start) {}
  std::string After(const PassRecord& r) {
    const auto it = r.statistics.find("kernels");
    if (r.name == "Fusion" && it != r.statistics.end())
      count_ += it->second;
    else if (r.changed && count_ > 0)
      known_ = false;
    return known_ ? fmt::format("{}", count_) : "?";
  }

 private:
  int64_t count_;
  bool known_ = true;
};

std::string StatsTable(const std::vector<PassRecord>& records, int64_t fused_at_start) {
  Table table({">#", "pass", "because", ">time", ">nodes", "", ">fused", "statistics"});
  FusedCount fused(fused_at_start);
  for (const PassRecord& r : records) {
    const std::string because = r.skipped                      ? "skipped"
                                : r.trigger == Trigger::kAsked ? "asked"
                                                               : r.reason;
    table.AddRow({fmt::format("{}", r.number), r.name, because, Milliseconds(r.seconds),
                  fmt::format("{}", r.nodes_before), fmt::format("-> {}", r.nodes_after),
                  fused.After(r), Statistics(r)});
  }
  return table.ToString();
}

std::string OptionText(const OptionValue& v) {
  if (const bool* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&v)) return fmt::format("{}", *i);
  if (const double* d = std::get_if<double>(&v)) return FormatDouble(*d);
  return Quote(std::get<std::string>(v));
}

/// What passes say of single nodes and tensors.
std::string ReportTables(const std::vector<PassRecord>& records) {
  std::string out;
  for (const PassRecord& r : records) {
    if (r.report.empty()) continue;
    std::vector<std::string> header;
    const auto& columns = PassEntry::Get(r.name)->report;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool text = std::holds_alternative<std::string>(r.report[0][i]);
      header.push_back((text ? "" : ">") + columns[i].first);
    }
    Table table(header);
    for (const auto& cells : r.report) {
      std::vector<std::string> row;
      for (const OptionValue& v : cells) {
        const auto* number = std::get_if<double>(&v);
        const auto* text = std::get_if<std::string>(&v);
        row.push_back(number ? fmt::format("{:.4g}", *number) : text ? *text : OptionText(v));
      }
      table.AddRow(row);
    }
    out += fmt::format("\n{} (#{})\n{}", r.name, r.number, table.ToString());
  }
  return out;
}

/// A row is an object by its columns.
Json ReportJson(const PassRecord& r) {
  Json rows = Json::array();
  for (const auto& cells : r.report) {
    Json row = Json::object();
    for (size_t i = 0; i < cells.size(); ++i)
      std::visit([&](const auto& v) { row[PassEntry::Get(r.name)->report[i].first] = v; },
                 cells[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string TimeTable(const std::vector<PassRecord>& records, double total) {
  std::vector<std::pair<std::string, std::pair<int, double>>> by_pass;  // first come first
  for (const PassRecord& r : records) {
    auto it = std::find_if(by_pass.begin(), by_pass.end(),
                           [&](const auto& p) { return p.first == r.name; });
    if (it == by_pass.end()) it = by_pass.insert(by_pass.end(), {r.name, {0, 0.0}});
    ++it->second.first;
    it->second.second += r.seconds;
  }
  std::stable_sort(by_pass.begin(), by_pass.end(),
                   [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  Table table({"pass", ">runs", ">time", ">share"});
  double in_passes = 0;
  auto row = [&](const std::string& name, const std::string& runs, double s) {
    table.AddRow(
        {name, runs, Milliseconds(s), fmt::format("{:.1f} %", total > 0 ? 100 * s / total : 0)});
  };
  for (const auto& [name, v] : by_pass) {
    row(name, fmt::format("{}", v.first), v.second);
    in_passes += v.second;
  }
  row("(checks, dumps, verifier)", "", total - in_passes);
  row("total", "", total);
  return table.ToString();
}

Json StatsJson(const std::vector<PassRecord>& records, int64_t fused_at_start) {
  Json rows = Json::array();
  FusedCount fused(fused_at_start);
  for (const PassRecord& r : records) {
    const std::string after = fused.After(r);
    rows.push_back({{"number", r.number},
                    {"pass", r.name},
                    {"trigger", r.trigger == Trigger::kAsked ? "asked" : "dependency"},
                    {"reason", r.reason},
                    {"skipped", r.skipped},
                    {"changed", r.changed},
                    {"seconds", r.seconds},
                    {"nodes_before", r.nodes_before},
                    {"nodes_after", r.nodes_after},
                    {"fused_after", after == "?" ? Json(nullptr) : Json(std::stoll(after))},
                    {"statistics", r.statistics},
                    {"report", ReportJson(r)},
                    {"warnings", r.warnings}});
  }
  return rows;
}

void CheckSkips(const std::vector<std::string>& skips) {
  for (const std::string& s : skips) {
    const size_t hash = s.find('#');
    PassEntry::Get(s.substr(0, hash));  // throws with near names
    WEFT_CHECK(hash == std::string::npos || TryParseInt64(s.substr(hash + 1)).value_or(0) > 0,
               kUsage, "--skip: expected PASS or PASS#N, got '{}'", s);
  }
}

int RunOpt(const Args& a) {
  PassOptions options;
  options.limits = a.model.Check();
  options.target = a.target;
  options.strict = a.model.strict;
  options.checks = ParseChecks(a.check);
  options.fuel = a.fuel;
  options.skip = a.skip;
  CheckSkips(a.skip);
  options.dump_dir = a.dump_dir;
  options.print_before = Pattern("--print-before", a.print_before, a.before_all);
  options.print_after = Pattern("--print-after", a.print_after, a.after_all);
  options.reproducer = a.reproducer;
  std::vector<PassRecord> records;
  options.records = &records;
  const bool graph_to_stdout = a.out.empty() || a.out == "-";
  WEFT_CHECK(!(a.model.json && graph_to_stdout), kUsage,
             "--json needs -o OUT: stdout would hold the graph too");
  // Before a large model is read.
  if (!graph_to_stdout) WritableFormat(a.out);
  const Pipeline pipeline = ParsePipeline(a.level < 0 ? a.passes : fmt::format("O{}", a.level));

  Graph graph = ReadModel(a.model);
  const int64_t fused_at_start = CountFused(graph);
  const Timer timer;
  graph = RunPasses(graph, pipeline, options);
  const double seconds = timer.seconds();

  if (graph_to_stdout) {
    PrintOptions print;
    print.inline_all = a.full;
    const std::string text = PrintGraph(graph, print);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    WriteModel(graph, a.out, {options.limits, !a.full, pipeline.passes().empty()});
  }

  if (a.model.json) {
    PrintJson({{"passes", StatsJson(records, fused_at_start)},
               {"seconds", seconds},
               {"nodes", graph.num_nodes()},
               {"fused", CountFused(graph)},
               {"out", a.out}});
    return 0;
  }
  std::string tables;
  if (a.stats) tables += StatsTable(records, fused_at_start) + ReportTables(records);
  if (a.time) tables += (tables.empty() ? "" : "\n") + TimeTable(records, seconds);
  if (!graph_to_stdout)
    PrintText(tables);
  else
    std::fwrite(tables.data(), 1, tables.size(), stderr);
  return 0;
}

std::string OrNothing(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : Join(names, ", ");
}

}  // namespace

void PrintPasses(bool as_json) {
  Json rows = Json::array();
  Table table({"pass", "does"});
  for (const PassEntry* p : PassEntry::List()) {
    table.AddRow({p->name, p->description});
    rows.push_back({{"name", p->name},
                    {"description", p->description},
                    {"depends", p->depends},
                    {"provides", p->provides},
                    {"keeps_onnx", p->keeps_onnx},
                    {"enters_bodies", p->enters_bodies}});
  }
  Table named({"pipeline", "does", "passes"});
  for (const NamedPipeline& p : ListPipelines()) {
    named.AddRow({p.name, p.doc, p.passes.ToString()});
    rows.push_back({{"name", p.name}, {"description", p.doc}, {"passes", p.passes.ToString()}});
  }
  if (as_json)
    PrintJson(rows);
  else
    PrintText(table.ToString() + "\n" + named.ToString());
}

void PrintPassHelp(const std::string& name) {
  const PassEntry& p = *PassEntry::Get(name);
  std::string out = fmt::format("{}: {}\n", p.name, p.description);
  out += fmt::format("  needs      {}\n", OrNothing(p.depends));
  if (!p.depends_op.empty()) out += fmt::format("  of ops     {}\n", OrNothing(p.depends_op));
  out += fmt::format("  provides   {}\n", OrNothing(p.provides));
  out += fmt::format("  preserves  {}\n", p.preserves_all ? "everything" : OrNothing(p.preserves));
  out += fmt::format("  keeps ONNX {}\n", p.keeps_onnx ? "yes" : "no");
  out += fmt::format("  in bodies  {}\n", p.enters_bodies ? "yes" : "no");
  static constexpr const char* kResults[] = {"the same", "the same, and appends outputs",
                                             "something else"};
  out += fmt::format("  computes   {}{}\n", kResults[int(p.result)],
                     p.changes_graph ? "" : "; does not change the graph");
  for (const auto& [option, doc] : p.options)
    out += fmt::format("  option     {} = {}: {}\n", option.name, OptionText(option.value), doc);
  for (const auto& [statistic, doc] : p.AllStatistics())
    out += fmt::format("  counts     {}: {}\n", statistic, doc);
  for (const auto& [column, doc] : p.report)
    out += fmt::format("  reports    {}: {}\n", column, doc);
  out += fmt::format("  from       {}\n", p.owner.module);
  PrintText(out);
}

Command MakeOpt(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("opt", "apply passes to a model and print or write the graph");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  const Option passes = app.Add("--passes P", &a->passes,
                                "passes, as in 'Simplify,Fusion{max_ops=64}', or a pipeline by its "
                                "name (--list-passes)")
                            .ShowDefault();
  app.Add("-O N", &a->level, "0 to 3: the pipelines O0 to O3").WholeNumber(0, 3).Excludes(passes);
  app.Add("-o,--output OUT", &a->out,
          "file to write: .weft, .onnx, .pb or .json; default: text on stdout");
  app.Add("--target T", &a->target, "target of code generation: cpu, cuda:sm_90").ShowDefault();
  app.AddFlag("--full", &a->full, "large tensors in text as well; else it names their hash");
  app.AddFlag("--stats", &a->stats, "one line a pass: why it ran, time, nodes, statistics");
  app.AddFlag("--time", &a->time, "time by pass");
  app.Add("--dump-dir D", &a->dump_dir, "a numbered text file after every change");
  app.Add("--print-before REGEX", &a->print_before,
          "print the graph before matching passes (stderr)");
  app.Add("--print-after REGEX", &a->print_after, "print the graph after matching passes (stderr)");
  app.AddFlag("--print-before-all", &a->before_all, "print the graph before every pass (stderr)");
  app.AddFlag("--print-after-all", &a->after_all, "print the graph after every pass (stderr)");
  app.Add("--skip PASS[#N]", &a->skip, "leave a pass out, or its Nth application (repeatable)");
  app.Add("--fuel N", &a->fuel, "rewrites allowed over the whole pipeline");
  app.Find("--strict")
      .Describe("refuse what the ONNX standard forbids, and passes that lack what they depend on");
  app.Add("--check LIST", &a->check,
          "check what passes claim: all, or some of preserved,changed,deterministic,equivalent");
  app.Add("--reproducer F", &a->reproducer, "file written when a pass fails");
  return {app, [a] { return RunOpt(*a); }};
}

}  // namespace weft::tool
