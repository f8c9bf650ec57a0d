/// report.cc: texts about a run, equal for equal results.
#include "report.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <sstream>

namespace weft::conformance {
namespace {

std::string GroupOf(const Case& c) { return c.name.substr(0, c.name.find('/')); }

/// reason -> lines of cases.
std::map<std::string, std::vector<std::string>> ByReason(const std::vector<Case>& cases,
                                                         const Engines& engines,
                                                         const std::vector<CaseResult>& results) {
  std::map<std::string, std::vector<std::string>> groups;
  for (size_t i = 0; i < cases.size(); ++i) {
    const CaseResult& r = results[i];
    const auto is = [&](size_t b) { return r[b].status == Status::kUnsupported; };
    bool all = true;
    for (size_t b = 0; b < r.size(); ++b) all = all && is(b) && r[b].reason == r[0].reason;
    if (all) {
      groups[r[0].reason].push_back(cases[i].name);
      continue;
    }
    for (size_t b = 0; b < r.size(); ++b)
      if (is(b)) groups[r[b].reason].push_back(fmt::format("{} ({})", cases[i].name, engines[b]));
  }
  return groups;
}

/// "case line" -> reason.
std::map<std::string, std::string> Parse(const std::string& list) {
  std::map<std::string, std::string> rows;
  std::istringstream in(list);
  std::string line, reason;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == ' ')
      rows[line.substr(line.find_first_not_of(' '))] = reason;
    else
      reason = line;
  }
  return rows;
}

std::string Cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, 1, '\\');
  return text;
}

}  // namespace

std::string UnsupportedList(const std::vector<Case>& cases, const Engines& engines,
                            const std::vector<CaseResult>& results) {
  std::string text =
      "# Cases of ONNX's backend tests that this build says it does not support, by reason. The "
      "test\n"
      "# `conformance` compares; WEFT_BLESS=1 rewrites. Every other case must be right on ref and "
      "cpu.\n";
  for (const auto& [reason, names] : ByReason(cases, engines, results)) {
    text += reason + "\n";
    for (const std::string& name : names) text += "  " + name + "\n";
  }
  return text;
}

std::vector<std::string> Changes(const std::string& committed, const std::string& now) {
  const auto before = Parse(committed), after = Parse(now);
  std::vector<std::string> out;
  for (const auto& [name, reason] : after) {
    const auto it = before.find(name);
    if (it == before.end())
      out.push_back(fmt::format("{} was supported and no longer is: {}", name, reason));
    else if (it->second != reason)
      out.push_back(fmt::format("{} has another reason: {}", name, reason));
  }
  for (const auto& [name, reason] : before)
    if (!after.count(name)) out.push_back(fmt::format("{} is supported now", name));
  return out;
}

std::string Summary(const std::vector<Case>& cases, const Engines& engines,
                    const std::vector<CaseResult>& results) {
  using Counts = std::vector<std::array<int, 4>>;
  std::map<std::string, Counts> counts;
  std::map<std::string, int> totals;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const std::string& group : {GroupOf(cases[i]), std::string("total")}) {
      ++totals[group];
      Counts& c = counts[group];
      c.resize(engines.size());
      for (size_t b = 0; b < engines.size(); ++b) ++c[b][size_t(results[i][b].status)];
    }
  }
  std::string text;
  for (const auto& [group, c] : counts) {
    text += fmt::format("{}: {} cases", group, totals[group]);
    for (size_t b = 0; b < engines.size(); ++b)
      text += fmt::format("; {} {} right, {} unsupported, {} wrong, {} errors", engines[b], c[b][0],
                          c[b][1], c[b][2], c[b][3]);
    text += "\n";
  }
  return text;
}

std::string Page(const std::vector<Case>& cases, const Engines& engines,
                 const std::vector<CaseResult>& results) {
  std::string text =
      "# ONNX conformance\n\n"
      "Every case of the `onnx` 1.22 wheel's folders `node`, `simple`, `pytorch-converted` and\n"
      "`pytorch-operator` on the backends `ref` and `cpu`, as the test `conformance` met it: "
      "stored\n"
      "inputs, stored outputs, ONNX's own tolerances, but for two inverse transforms whose stored\n"
      "zeros carry 2e-7 of noise, and for values drawn at random, of which only dtype and shape "
      "are\n"
      "compared. Written by that test.\n\n```\n" +
      Summary(cases, engines, results) +
      "```\n\n## What is not supported\n\n| cases | reason |\n|---:|---|\n";
  for (const auto& [reason, names] : ByReason(cases, engines, results))
    text += fmt::format("| {} | {} |\n", names.size(), Cell(reason));
  text += "\n## Every case\n\n| case | ref | cpu |\n|---|---|---|\n";
  for (size_t i = 0; i < cases.size(); ++i)
    text += fmt::format("| {} | {} | {} |\n", cases[i].name, StatusName(results[i][0].status),
                        StatusName(results[i][1].status));
  return text;
}

}  // namespace weft::conformance
