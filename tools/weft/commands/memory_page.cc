#include "memory_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr double kWidth = 900, kHeight = 420, kCurve = 120;
/// More rectangles than that tell nobody anything, and make pages that do not open.
constexpr size_t kMostBlocks = 20000;

/// A colour of its own for every name, the same on every page.
int HueOf(const std::string& name) {
  uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ uint8_t(c)) * 16777619u;
  return int(h % 360);
}

/// `most`: bytes at the top of both drawings, so that they compare.
std::string Drawing(const char* title, const MemoryReport& r, int64_t most) {
  const double x = kWidth / double(std::max<size_t>(r.steps.size(), 1));
  const double y = kHeight / double(std::max<int64_t>(most, 1));
  std::string out = fmt::format(
      "<section><h2>{}</h2><p>peak {} = arena {} + results {}; bound {}; floor {}; largest scratch "
      "{}</p>\n<svg viewBox=\"0 0 {} {}\" role=\"img\">\n",
      title, FormatBytes(r.peak_bytes), FormatBytes(r.arena_bytes), FormatBytes(r.output_bytes),
      FormatBytes(r.bound_bytes), FormatBytes(r.floor_bytes), FormatBytes(r.scratch_bytes), kWidth,
      kHeight + kCurve + 20);
  std::vector<const MemoryHolder*> blocks;
  for (const MemoryHolder& h : r.blocks)
    if (h.offset >= 0 && h.bytes > 0) blocks.push_back(&h);
  std::stable_sort(blocks.begin(), blocks.end(), [](const MemoryHolder* a, const MemoryHolder* b) {
    return double(a->bytes) * (a->end - a->begin) > double(b->bytes) * (b->end - b->begin);
  });
  if (blocks.size() > kMostBlocks) blocks.resize(kMostBlocks);
  for (const MemoryHolder* h : blocks)
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill=\"hsl({} 60% 70%)\"><title>{}: {}, steps {} to {}, {}</title></rect>\n",
        h->begin * x, kHeight - double(h->offset + h->bytes) * y, (h->end - h->begin) * x,
        double(h->bytes) * y, HueOf(h->name), EscapeHtml(h->name), FormatBytes(h->bytes), h->begin,
        h->end - 1, EscapeHtml(h->why));
  std::string points;
  const double curve = kCurve / double(std::max<int64_t>(most, 1));
  for (size_t k = 0; k < r.live.size(); ++k)
    points += fmt::format("{:.2f},{:.2f} ", (double(k) + 0.5) * x,
                          kHeight + 20 + kCurve - double(r.live[k]) * curve);
  out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#222\"/>\n", points);
  if (r.at_step >= 0)
    out += fmt::format(
        "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"0\" y2=\"{1}\" stroke=\"#c00\"><title>step {2}: "
        "{3}</title></line>\n",
        (r.at_step + 0.5) * x, kHeight + kCurve + 20, r.at_step,
        EscapeHtml(r.steps[size_t(r.at_step)]));
  out += "</svg>\n<table><tr><th>held at the peak<th>kind<th>bytes<th>steps<th>why\n";
  for (const MemoryHolder& h : r.Holders())
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}-{}<td>{}\n", EscapeHtml(h.name),
                       MemoryKindName(h.kind), FormatBytes(h.bytes), h.begin, h.end - 1,
                       EscapeHtml(h.why));
  return out + "</table></section>\n";
}

}  // namespace

std::string MemoryPage(const MemoryReport& report, const MemoryReport* before,
                       const MemoryBudget& budget) {
  const int64_t most =
      std::max(report.arena_bytes, before ? before->arena_bytes : report.arena_bytes);
  std::string out =
      "<!doctype html><meta charset=\"utf-8\"><title>memory of a run</title><style>"
      "body{font:14px sans-serif;margin:2em}main{display:flex;gap:2em;flex-wrap:wrap}"
      "section{width:920px}svg{width:100%;border:1px solid #999}rect{stroke:#fff;stroke-width:.3}"
      "table{border-collapse:collapse}td,th{padding:.1em .8em .1em 0;text-align:left}"
      "</style><h1>Memory of a run</h1>\n";
  if (budget.any()) out += fmt::format("<p>budget {}</p>\n", EscapeHtml(budget.ToString()));
  out += "<main>";
  if (before) out += Drawing("without a budget", *before, most);
  return out + Drawing(before ? "with the budget" : "the plan", report, most) + "</main>\n";
}

}  // namespace weft::tool
