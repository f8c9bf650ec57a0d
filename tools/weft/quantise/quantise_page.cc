/// quantise_page.cc: see quantise_page.h.
#include "quantise_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

/// Bars end where nobody sees a difference any more; a row of the drawing.
constexpr double kMostDb = 60, kBarWidth = 600, kRow = 16;

std::string Bar(double db, double y, double height, const char* colour, const std::string& what) {
  if (std::isnan(db)) return {};
  const double width = std::clamp(db, 0.0, kMostDb) / kMostDb * kBarWidth;
  return fmt::format(
      "<rect x=\"260\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}: {}"
      "</title></rect>\n",
      y, width, height, colour, EscapeHtml(what), Decibels(db));
}

std::string Drawing(const QuantisedModel& m) {
  std::string bars;
  double y = 0;
  for (const QuantisedLayer& l : m.layers) {
    if (std::isnan(l.own_db)) continue;
    bars += fmt::format("<text x=\"250\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", y + 11,
                        EscapeHtml(l.name.size() > 34 ? l.name.substr(0, 33) + "…" : l.name));
    bars += Bar(l.own_db, y + 1, 6, l.quantised() ? "#4a90d9" : "#bbb", l.name + ", alone");
    bars += Bar(l.db, y + 8, 6, "#e08a3c", l.name + ", in the model");
    y += kRow;
  }
  std::string lines;
  for (double db = 0; db <= kMostDb; db += 10)
    lines += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{2:.1f}\" text-anchor=\"middle\">{3:.0f}</text>\n",
        260 + db / kMostDb * kBarWidth, y, y + 14, db);
  return fmt::format(
      "<h2>Signal to quantisation noise, in dB</h2><p>Blue: the layer alone, on operands that are "
      "right but rounded; grey: it stays in floats. Orange: in the quantised model, with what the "
      "layers before it lose.</p>\n<svg viewBox=\"0 0 880 {:.0f}\" role=\"img\">\n{}{}</svg>\n",
      y + 20, lines, bars);
}

}  // namespace

std::string Decibels(double db) {
  if (std::isnan(db)) return "-";
  return std::isinf(db) ? db > 0 ? "exact" : "lost" : fmt::format("{:.1f} dB", db);
}

std::string QuantisePage(const std::string& title, const QuantisedModel& m) {
  std::string out = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><title>{0}, quantised</title><style>"
      "body{{font:14px sans-serif;margin:2em}}svg{{max-width:880px;font-size:11px}}"
      "table{{border-collapse:collapse}}td,th{{padding:.1em .8em .1em 0;text-align:left}}"
      ".off{{color:#888}}</style><h1>{0}, quantised</h1>\n"
      "<p>{1}; constants {2} before, {3} after; {4}, {5} of them with results of 8 bits, {6} "
      "moving 8-bit numbers.</p>\n",
      EscapeHtml(title), Plural(m.samples, "sample"), FormatBytes(m.bytes_before),
      FormatBytes(m.bytes_after), Plural(m.integer_calls, "integer call"), m.requantised,
      Plural(m.moved, "operator"));
  out += "<table><tr><th>output<th>signal to noise<th>largest error<th>same greatest element\n";
  for (const QuantisedOutput& o : m.outputs)
    out += fmt::format("<tr><td>{}<td>{}<td>{:.4g}<td>{}\n", EscapeHtml(o.name), Decibels(o.db),
                       o.max_error,
                       std::isnan(o.same_top) ? "-" : fmt::format("{:.2f} %", 100 * o.same_top));
  out += "</table>\n" + Drawing(m) +
         "<h2>Layers</h2><table><tr><th>layer<th>operator<th>state<th>range<th>weights<th>alone"
         "<th>in the model<th>largest error<th>bytes before<th>after\n";
  for (const QuantisedLayer& l : m.layers)
    out += fmt::format("<tr{}><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}\n",
                       l.quantised() ? "" : " class=\"off\"", EscapeHtml(l.name), EscapeHtml(l.op),
                       EscapeHtml(l.state), EscapeHtml(l.range), Decibels(l.weights_db),
                       Decibels(l.own_db), Decibels(l.db),
                       std::isnan(l.max_error) ? "-" : fmt::format("{:.4g}", l.max_error),
                       l.bytes_before, l.bytes_after);
  return out + "</table>\n";
}

}  // namespace weft::tool
