/// report.cc: the page, part by part.
#include "report.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "../l1/check.h"
#include "../l1/overlap.h"
#include "element_table.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

constexpr int64_t kWidth = 1100;               // of the pictures, pixels
constexpr int64_t kColumns = 550, kRows = 64;  // cells of a memory's picture
constexpr size_t kMostNodes = 200, kMostTables = 24;
constexpr int64_t kMostElements = 256;  // of a layout that is shown as a table

const char* const kStyle =
    "body{font:14px sans-serif;margin:2em;max-width:1300px;color:#222}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{padding:2px 8px;border:1px solid #ccc;"
    "text-align:right}th,td.t{text-align:left}svg{background:#f6f6f6;display:block}"
    "h2{margin-top:1.5em}code{background:#f2f2f2}text{font:11px sans-serif}"
    ".r{fill:#9ecae1}.w{fill:#e6550d}";

class Page {
 public:
  Page(const Program& program, const Machine& machine, const ReportInput& input)
      : p_(program),
        m_(machine),
        in_(input),
        cycles_(std::max<int64_t>(1, PredictCycles(p_, m_))) {}

  std::string Make() {
    const std::string title = weft::EscapeHtml(in_.title);
    Add("<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
        "charset=\"utf-8\"><title>{}</title><style>{}"
        "</style></head><body>\n<h1>{}</h1>\n",
        title, kStyle, title);
    Numbers();
    Timeline();
    Nodes();
    Memories();
    Layouts();
    Add("</body></html>\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  double X(int64_t cycle) const { return double(cycle) * double(kWidth) / double(cycles_); }
  static std::string NodeOf(const Instruction& i) { return i.note.empty() ? "(no note)" : i.note; }
  /// A colour for a node, the same on every page.
  static int Hue(const std::string& node) {
    uint32_t hash = 2166136261U;  // FNV-1a
    for (const char c : node) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return int(hash % 360);
  }

  void Numbers() {
    Add("<table><tr><th>machine</th><td class=\"t\">{}</td></tr>\n"
        "<tr><th>cycles</th><td>{}</td></tr>\n<tr><th>instructions</th><td>{}</td></tr>\n",
        weft::EscapeHtml(m_.name), PredictCycles(p_, m_), p_.instructions.size());
    for (const auto& [name, value] : in_.numbers)
      Add("<tr><th>{}</th><td>{}</td></tr>\n", weft::EscapeHtml(name), value);
    Add("</table>\n");
  }

  void Timeline() {
    struct Bar {
      int64_t first, end;
      const Instruction* i;
    };
    std::vector<std::vector<Bar>> bars(m_.units.size());
    std::vector<int64_t> busy(m_.units.size(), 0);
    for (const Instruction& i : p_.instructions) {
      std::vector<Bar>& row = bars[size_t(i.unit)];
      const int64_t end = i.start + CyclesHeld(i, m_);
      busy[size_t(i.unit)] += end - i.start;
      // What is nearer than a pixel is one bar.
      if (!row.empty() && row.back().i->note == i.note && X(i.start) - X(row.back().end) < 1)
        row.back().end = end;
      else if (row.empty() || X(end) - X(row.back().end) >= 0.5)
        row.push_back({i.start, end, &i});
    }
    const int64_t height = 24;
    Add("<h2>Units over time</h2>\n<svg width=\"{}\" height=\"{}\">\n", kWidth + 180,
        height * int64_t(bars.size()) + 20);
    for (size_t u = 0; u < bars.size(); ++u) {
      const int64_t y = height * int64_t(u);
      Add("<text x=\"0\" y=\"{}\">{} {:.1f} %</text>\n", y + 15, weft::EscapeHtml(m_.units[u].name),
          100.0 * double(busy[u]) / double(cycles_));
      for (const Bar& b : bars[u])
        Add("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"hsl({},60%,55%)\">"
            "<title>{}.{} cycles {} to {}: {}</title></rect>\n",
            150 + X(b.first), y + 2, std::max(0.5, X(b.end) - X(b.first)), height - 4,
            Hue(NodeOf(*b.i)), weft::EscapeHtml(m_.units[u].name),
            weft::EscapeHtml(m_.units[u].ops[size_t(b.i->op)].name), b.first, b.end,
            weft::EscapeHtml(NodeOf(*b.i)));
    }
    Add("<text x=\"150\" y=\"{0}\">0</text><text x=\"{1}\" y=\"{0}\">{2} cycles</text></svg>\n",
        height * int64_t(bars.size()) + 14, 150 + kWidth - 80, cycles_);
  }

  void Nodes() {
    struct Sum {
      int64_t first = 0, end = 0, held = 0, instructions = 0;
    };
    std::map<std::string, Sum> sums;
    for (const Instruction& i : p_.instructions) {
      const auto [it, is_new] = sums.try_emplace(NodeOf(i));
      Sum& s = it->second;
      if (is_new) s.first = i.start;
      s.end = std::max(s.end, i.start + CyclesHeld(i, m_));
      s.held += CyclesHeld(i, m_);
      ++s.instructions;
    }
    std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.held > b.second.held; });
    Add("<h2>Cycles by node</h2>\n<table><tr><th>node</th><th>unit cycles</th><th>from</th>"
        "<th>to</th><th>instructions</th></tr>\n");
    for (size_t k = 0; k < std::min(rows.size(), kMostNodes); ++k) {
      const auto& [node, s] = rows[k];
      Add("<tr><td class=\"t\"><span style=\"color:hsl({},60%,45%)\">&#9632;</span> "
          "{}</td><td>{}</td>"
          "<td>{}</td><td>{}</td><td>{}</td></tr>\n",
          Hue(node), weft::EscapeHtml(node), s.held, s.first, s.end, s.instructions);
    }
    Add("</table>\n");
    if (rows.size() > kMostNodes) Add("<p>and {} more</p>\n", rows.size() - kMostNodes);
  }

  /// Cells of cycles x addresses: 1 read, 2 written.
  void Memories() {
    Add("<h2>Addresses over time</h2>\n<p>blue: read, orange: written</p>\n");
    for (size_t k = 0; k < m_.memories.size(); ++k) {
      int64_t words = 0;
      for (const Instruction& i : p_.instructions) {
        ForOperands(i, int(k), [&](int, int64_t, int64_t end) { words = std::max(words, end); });
      }
      if (words == 0) continue;
      std::vector<uint8_t> cells(size_t(kColumns * kRows), 0);
      const auto row = [&](int64_t address) { return address * kRows / words; };
      const auto column = [&](int64_t cycle) {
        return std::min<int64_t>(kColumns - 1, int64_t(double(cycle) * kColumns / double(cycles_)));
      };
      for (const Instruction& i : p_.instructions) {
        const int64_t x0 = column(i.start), x1 = column(i.start + CyclesHeld(i, m_) - 1);
        ForOperands(i, int(k), [&](int operand, int64_t first, int64_t end) {
          for (int64_t y = row(first); y <= row(end - 1); ++y) {
            for (int64_t x = x0; x <= x1; ++x) {
              uint8_t& cell = cells[size_t(y * kColumns + x)];
              cell = std::max<uint8_t>(cell, operand == 0 ? 2 : 1);
            }
          }
        });
      }
      Picture(m_.memories[k].name, words, cells);
    }
  }
  template <class F>
  void ForOperands(const Instruction& i, int memory, F f) const {
    for (int o = 0; o <= int(i.sources.size()); ++o) {
      if ((o == 0 ? i.target : i.sources[size_t(o - 1)]).memory != memory) continue;
      const auto [first, end] = WordsOf(i, o, m_);
      f(o, std::max<int64_t>(0, first), std::min(end, m_.memories[size_t(memory)].words));
    }
  }
  void Picture(const std::string& name, int64_t words, const std::vector<uint8_t>& cells) {
    constexpr int64_t kCell = 2;
    Add("<p>{}, words 0 to {}</p>\n<svg width=\"{}\" height=\"{}\">\n", weft::EscapeHtml(name),
        words - 1, kColumns * kCell, kRows * kCell);
    for (int64_t y = 0; y < kRows; ++y) {
      for (int64_t x = 0, next = 0; x < kColumns; x = next) {
        const uint8_t kind = cells[size_t(y * kColumns + x)];
        for (next = x + 1; next < kColumns && cells[size_t(y * kColumns + next)] == kind;) ++next;
        if (kind)
          Add("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
              kind == 2 ? 'w' : 'r', x * kCell, y * kCell, (next - x) * kCell, kCell);
      }
    }
    Add("</svg>\n");
  }

  void Layouts() {
    if (in_.values.empty()) return;
    Add("<h2>Layouts</h2>\n<table><tr><th>value</th><th>memory</th><th>from</th><th>words</th>"
        "<th>layout</th></tr>\n");
    for (const ReportValue& v : in_.values)
      Add("<tr><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{}</td><td>{}</td>"
          "<td class=\"t\"><code>{}</code></td></tr>\n",
          weft::EscapeHtml(v.name), weft::EscapeHtml(v.memory), v.base, Words(v.layout),
          weft::EscapeHtml(PrintLayout(v.layout)));
    Add("</table>\n");
    size_t tables = 0;
    for (const ReportValue& v : in_.values) {
      if (v.layout.elements() > kMostElements || tables == kMostTables) continue;
      const ElementTable table = MakeElementTable(v.layout);
      if (table.levels.empty()) continue;  // one element after another
      ++tables;
      Add("<details><summary>{} in {}</summary><table>\n", weft::EscapeHtml(v.name),
          weft::EscapeHtml(v.memory));
      for (const auto& [place, words] : table.rows) {
        Add("<tr><th>");
        for (size_t l = 0; l < table.levels.size(); ++l)
          Add("{}{}{}", l > 0 ? " " : "", weft::EscapeHtml(table.levels[l]), place[l]);
        Add("</th>");
        for (const auto& [address, index] : words) Add("<td>{}</td>", NameOfElement(index));
        Add("</tr>\n");
      }
      Add("</table></details>\n");
    }
  }

  const Program& p_;
  const Machine& m_;
  const ReportInput& in_;
  int64_t cycles_;
  std::string out_;
};

}  // namespace

std::string MakeReport(const Program& program, const Machine& machine, const ReportInput& input) {
  return Page(program, machine, input).Make();
}

}  // namespace hsimd
