/// layout_command.cc: `hsimd layout`: which element lies where.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "../layout/layout.h"
#include "command.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

using Json = nlohmann::ordered_json;

/// Tables of more elements help nobody.
constexpr int64_t kMaxElements = 1 << 16;

/// Elements by place (coordinates of the named levels, in the order in which they are named), and
/// in it by address and position in a wide word.
struct Table {
  std::vector<std::string> levels;
  std::map<std::vector<int64_t>, std::map<std::pair<int64_t, int64_t>, Index>> rows;
};

Table MakeTable(const Layout& layout) {
  Table table;
  const auto add = [&](const std::string& level) {
    if (level != kAddress && level != kWide &&
        std::find(table.levels.begin(), table.levels.end(), level) == table.levels.end())
      table.levels.push_back(level);
  };
  for (const auto& axis : layout.axes) {
    for (const Digit& d : axis) add(d.level);
  }
  for (const Digit& d : layout.copies) add(d.level);
  for (const auto& [level, offset] : layout.offset) add(level);
  Index index(layout.shape.size(), 0);
  for (int64_t n = layout.elements(); n > 0; --n) {
    for (const Place& place : PlacesOf(layout, index)) {
      const auto at = [&](const std::string& level) {
        const auto it = place.find(level);
        return it == place.end() ? int64_t{0} : it->second;
      };
      std::vector<int64_t> row;
      for (const std::string& level : table.levels) row.push_back(at(level));
      table.rows[row][{at(kAddress), at(kWide)}] = index;
    }
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < layout.shape[d]) break;
      index[d] = 0;
    }
  }
  return table;
}

std::string NameOfElement(const Index& index) {
  if (index.size() == 1) return std::to_string(index[0]);
  return fmt::format("({})", fmt::join(index, ","));
}

void PrintTable(const Table& table) {
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

Json JsonOf(const Table& table) {
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
  const Table table = shown ? MakeTable(layout) : Table();
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
