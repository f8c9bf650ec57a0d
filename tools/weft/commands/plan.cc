/// plan.cc: `weft plan`: the planners of memory on plain files: offsets for a table of buffers, and
/// (plan_recompute.h) an order for a list of nodes.
#include <algorithm>

#include "command_line.h"
#include "common.h"
#include "plan_recompute.h"
#include "weft/core/plan/offset_planner.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

struct Args {
  std::string path, limits, out, budget;
  int64_t capacity = 0;
  bool json = false;
};

/// A plan is not a binding: what is searched at all is searched for half a minute.
constexpr int64_t kWork = 20'000'000'000;
constexpr size_t kSearched = 1000, kMostBuffers = size_t{1} << 22;

/// The buffers of a table, and its rows as they were, for a column to be added.
struct Buffers {
  std::string header;
  std::vector<std::string> rows;
  std::vector<PlanItem> items;
};

std::vector<std::string> Cells(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string& cell : Split(std::string(line), ',')) cells.emplace_back(Trim(cell));
  return cells;
}

/// `id,lower,upper,size` in any order, more columns beside them; kSyntax naming the line.
Buffers ParseTable(const std::string& path, const std::string& text) {
  Buffers out;
  size_t columns = 0, lower = 0, upper = 0, size = 0, number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line(Trim(std::string_view(text).substr(at, end - at)));
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    const std::vector<std::string> cells = Cells(line);
    if (columns == 0) {
      const auto column = [&](const char* name) {
        const auto it = std::find(cells.begin(), cells.end(), name);
        WEFT_CHECK(it != cells.end(), kSyntax,
                   "{}: the first line names the columns: expected id, lower, upper and size, got "
                   "'{}'",
                   path, line.substr(0, 200));
        return size_t(it - cells.begin());
      };
      column("id");
      lower = column("lower"), upper = column("upper"), size = column("size");
      columns = cells.size();
      out.header = std::move(line);
      continue;
    }
    WEFT_CHECK(cells.size() == columns, kSyntax, "{}: line {}: expected {} cells, got {}", path,
               number, columns, cells.size());
    WEFT_CHECK(out.rows.size() < kMostBuffers, kLimit, "{}: more than {} buffers", path,
               kMostBuffers);
    const auto value = [&](size_t cell, const char* name, int64_t most) {
      const auto v = TryParseInt64(cells[cell]);
      WEFT_CHECK(v && *v >= 0 && *v <= most, kSyntax,
                 "{}: line {}: {} has to be a whole number in [0, {}], it is '{}'", path, number,
                 name, most, cells[cell].substr(0, 50));
      return *v;
    };
    PlanItem item;
    item.begin = int(value(lower, "lower", INT32_MAX));
    item.end = int(value(upper, "upper", INT32_MAX));
    item.size = value(size, "size", INT64_MAX);
    item.alignment = 1;
    WEFT_CHECK(item.begin <= item.end, kSyntax, "{}: line {}: lower {} is above upper {}", path,
               number, item.begin, item.end);
    out.items.push_back(item);
    out.rows.push_back(std::move(line));
  }
  WEFT_CHECK(columns > 0, kSyntax, "{}: an empty file; expected the columns id, lower, upper, size",
             path);
  return out;
}

int RunPlan(const Args& a) {
  const Limits limits = Limits::Parse(a.limits);
  RequestScope scope(limits);
  if (EndsWith(a.path, ".json")) {
    WEFT_CHECK(a.capacity == 0 && a.out.empty(), kUsage,
               "--capacity and --output are of tables; a problem of nodes has --memory-budget");
    return PlanRecomputation(a.path, a.budget, a.json);
  }
  WEFT_CHECK(a.budget.empty(), kUsage,
             "--memory-budget is of problems of nodes (.json); a table has --capacity");
  const Buffers buffers = ParseTable(a.path, ReadFile(a.path));
  PlanEffort effort;
  if (buffers.items.size() <= kSearched) effort.work = kWork;
  effort.capacity = a.capacity;
  const Timer watch;
  const Plan plan = PlanOffsets(buffers.items, effort);
  const double seconds = watch.seconds();
  VerifyPlan(buffers.items, plan);
  if (!a.out.empty()) {
    std::string table = buffers.header + ",offset\n";
    for (size_t i = 0; i < buffers.rows.size(); ++i)
      table += fmt::format("{},{}\n", buffers.rows[i], plan.offsets[i]);
    WriteFileAtomic(a.out, table);
  }
  const bool met = a.capacity == 0 || plan.arena_bytes <= a.capacity;
  if (a.json) {
    Json said{{"buffers", buffers.items.size()},
              {"arena_bytes", plan.arena_bytes},
              {"lower_bound", plan.lower_bound},
              {"optimal", plan.optimal()},
              {"seconds", seconds}};
    if (a.capacity > 0) said["met"] = met;
    PrintJson(said);
  } else {
    PrintText(fmt::format("{}: {} ({} bytes); {}\n", Plural(buffers.items.size(), "buffer"),
                          FormatBytes(plan.arena_bytes), plan.arena_bytes,
                          plan.optimal()
                              ? std::string("no plan needs less")
                              : fmt::format("no plan needs less than {} bytes", plan.lower_bound)));
    if (!met)
      PrintText(fmt::format("more than the capacity of {} bytes by {}\n", a.capacity,
                            plan.arena_bytes - a.capacity));
  }
  return met ? 0 : 1;
}

}  // namespace

Command MakePlan(Options& parent) {
  auto args = std::make_shared<Args>();
  Options app = parent.AddCommand(
      "plan",
      "place buffers in the smallest arena, or order nodes and compute values again "
      "so that memory suffices");
  app.Add(
         "FILE", &args->path,
         "a table (.csv) with the columns id, lower, upper (steps, half open) and size (bytes), or "
         "nodes (.json) with name, inputs, outputs (bytes), cost, inplace, recompute and keep")
      .Required();
  app.Add("--capacity N", &args->capacity,
          "bytes that there are: stop at a plan that fits, exit 1 where none is found")
      .Positive();
  app.Add("-o,--output OUT", &args->out, "write the table with a column `offset`");
  app.Add(
      "--memory-budget B", &args->budget,
      "of nodes: bytes with K, M or G, a share of the peak without recomputation as 50%, or min; "
      "exit 1 where it is not met");
  app.Add("--limits L", &args->limits, "bounds, as deadline_s=10");
  app.AddFlag(
      "--json", &args->json,
      "one object: buffers, arena_bytes, lower_bound, optimal, seconds; of nodes: order (a#1: a "
      "again), peak, extra_cost, met, lower_bound");
  return {app, [args] { return RunPlan(*args); }};
}

}  // namespace weft::tool
