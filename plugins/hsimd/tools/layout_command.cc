/// layout_command.cc: `hsimd layout`: which element lies where.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "../layout/layout.h"
#include "../report/element_table.h"
#include "command.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

using Json = nlohmann::ordered_json;

/// Tables of more elements help nobody.
constexpr int64_t kMaxElements = 1 << 16;

void PrintTable(const ElementTable& table) {
  for (const auto& [place, words] : table.rows) {
    std::string name;
    for (size_t l = 0; l < table.levels.size(); ++l)
      name += fmt::format("{}{}{}", l > 0 ? " " : "", table.levels[l], place[l]);
    std::string line = name.empty() ? "all" : name;
    line += ":";
    int64_t next = 0;
    for (const auto& [address, index] : words) {
      // Holes of padding.
      if (address.second == 0) {
        for (; next < address.first && next < kMaxElements; ++next) line += " .";
        next = address.first + 1;
      }
      line += " " + NameOfElement(index);
    }
    fmt::print("{}\n", line);
  }
}

Json JsonOf(const ElementTable& table) {
  Json places = Json::array();
  for (const auto& [place, words] : table.rows) {
    Json row;
    for (size_t l = 0; l < table.levels.size(); ++l) row[table.levels[l]] = place[l];
    Json elements = Json::array();
    for (const auto& [address, index] : words) {
      Json element;
      element["address"] = address.first;
      if (address.second) element["W"] = address.second;
      element["index"] = index;
      elements.push_back(std::move(element));
    }
    row["elements"] = std::move(elements);
    places.push_back(std::move(row));
  }
  return places;
}

struct Options {
  std::string spec, machine;
  bool json = false;
};

void RunLayout(const Options& o) {
  const Layout layout = ParseLayout(o.spec);
  std::vector<std::string> replicated;
  if (!o.machine.empty()) {
    const Machine m = FindMachine(o.machine);
    Validate(layout, m);
    for (const Level& l : m.levels) {
      if (l.count > 1 && !Names(layout, l.name)) replicated.push_back(l.name);
    }
  }
  const bool shown = layout.elements() <= kMaxElements;
  const ElementTable table = shown ? MakeElementTable(layout) : ElementTable();
  if (o.json) {
    Json json;
    json["layout"] = PrintLayout(layout);
    json["canonical"] = PrintLayout(Canonical(layout));
    json["shape"] = layout.shape;
    json["words"] = Words(layout);
    if (!o.machine.empty()) json["replicated"] = replicated;
    if (shown) json["places"] = JsonOf(table);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}\n", PrintLayout(layout));
  const std::string canonical = PrintLayout(Canonical(layout));
  if (canonical != PrintLayout(layout)) fmt::print("canonical {}\n", canonical);
  fmt::print("{} elements, {} words in a place\n", layout.elements(), Words(layout));
  if (!replicated.empty()) fmt::print("replicated over {}\n", weft::Join(replicated, ", "));
  if (shown)
    PrintTable(table);
  else
    fmt::print("the table is shown up to {} elements\n", kMaxElements);
}

}  // namespace

void AddLayoutCommand(CLI::App* app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "layout", "show where each element of a tensor lies, as in '(12)/((4_PE:1, 3:1))'");
  command->add_option("SPEC", o->spec, "shape/((sub, ...), ...; B@[LEVEL, ...])")->required();
  command->add_option("--machine", o->machine, "check it against a machine");
  command->add_flag("--json", o->json, "print as JSON");
  command->callback([o] { RunLayout(*o); });
}

}  // namespace hsimd
