/// check_report.cc: see check_report.h.
#include "check_report.h"

#include <algorithm>
#include <map>

#include "common.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

using Sorted = std::map<std::string, int64_t>;

std::string Extents(const SymBindings& bind) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : Sorted(bind.begin(), bind.end()))
    parts.push_back(fmt::format("{}={}", name, value));
  return parts.empty() ? "-" : Join(parts, ", ");
}

/// The sets of extents at which rounds were compared, or were not, each once.
std::vector<std::string> ExtentsOf(const CheckReport& r, bool compared) {
  std::vector<std::string> all;
  for (const CheckRound& round : r.rounds) {
    const std::string extents = Extents(round.bind);
    if (round.compared == compared && std::find(all.begin(), all.end(), extents) == all.end())
      all.push_back(extents);
  }
  return all;
}

/// What to do where the extents that were chosen may be the reason that nothing was compared.
std::string BindHint(const CheckReport& r) {
  if (r.unbound.empty() || r.rounds.empty()) return "";
  return fmt::format("tried {}; --bind SYM=N gives a size that the model takes, for {}",
                     Join(ExtentsOf(r, false), "; "), Join(r.unbound, ", "));
}

int64_t CountCompared(const CheckReport& r) {
  return std::count_if(r.rounds.begin(), r.rounds.end(),
                       [](const CheckRound& round) { return round.compared; });
}

void PrintAsJson(const CheckReport& r) {
  Json rows = Json::array();
  for (const CheckRound& round : r.rounds) {
    Json bind = Json::object();
    for (const auto& [name, value] : Sorted(round.bind.begin(), round.bind.end()))
      bind[name] = value;
    rows.push_back({{"round", round.number},
                    {"values", NameOf(round.values)},
                    {"bind", std::move(bind)},
                    {"compared", round.compared},
                    {"result", round.result}});
  }
  Json difference = nullptr;
  if (r.difference)
    difference = {{"engine", r.difference->engine},
                  {"output", r.difference->output},
                  {"node", r.difference->node},
                  {"detail", r.difference->detail},
                  {"only_in_reused_session", r.difference->only_reused},
                  {"round", r.rounds.back().number},
                  {"values", NameOf(r.rounds.back().values)},
                  {"seed", r.seed},
                  {"again", r.again}};
  const int64_t compared = CountCompared(r);
  PrintJson({{"equal", !r.difference && compared > 0},
             {"engines", r.engines},
             {"reference", r.reference},
             {"compared", compared},
             {"random", r.random},
             {"outputs_not_compared", r.outputs_not_compared},
             {"not_compared", r.not_compared},
             {"difference", std::move(difference)},
             {"rounds", std::move(rows)}});
}

void PrintAsText(const CheckReport& r) {
  Table table({">round", "values", "dimensions", "result"});
  for (const CheckRound& round : r.rounds)
    table.AddRow(
        {std::to_string(round.number), NameOf(round.values), Extents(round.bind), round.result});
  if (table.size() > 1) PrintText(table.ToString());
  if (!r.random.empty())
    PrintText(fmt::format(
        "draw without a seed: {}; not compared: {}\n", Join(r.random, ", "),
        r.outputs_not_compared.empty() ? "no output" : Join(r.outputs_not_compared, ", ")));
  for (const std::string& text : r.not_compared) PrintText("not compared: " + text + "\n");
  if (!r.difference) return;
  const CheckDifference& d = *r.difference;
  PrintText(fmt::format("output  {}, on {}\n", d.output, d.engine));
  PrintText(d.node.empty()
                ? fmt::format("        {}\nnode    not known: {}\n", d.detail, d.why_none)
                : fmt::format("node    {}: {}\n", d.node, d.detail));
  PrintText(fmt::format("again   {}\n", r.again));
}

}  // namespace

void CheckReport::Print(bool json) const {
  json ? PrintAsJson(*this) : PrintAsText(*this);
  if (difference)
    ThrowError(
        ErrorCode::kCheckFailed,
        fmt::format("{} differs from {} in round {} ({}); the first node is {}", difference->engine,
                    reference, rounds.back().number, NameOf(rounds.back().values),
                    difference->node.empty() ? "not known" : difference->node),
        model, saved ? "" : "--save D keeps the inputs of that round");
  const int64_t compared = CountCompared(*this);
  if (compared == 0)
    ThrowError(ErrorCode::kUnsupported,
               fmt::format("no round could be compared: {}",
                           rounds.empty() ? "there was none" : rounds.back().result),
               model, BindHint(*this));
  if (json) return;
  const std::string at = unbound.empty() ? "" : ", at " + Join(ExtentsOf(*this, true), "; ");
  tool::PrintText(fmt::format("{} and {} agree in {}{}\n", Join(engines, ", "),
                              reference == "ref" ? "ref" : "each other", Plural(compared, "round"),
                              at));
}

}  // namespace weft::tool
