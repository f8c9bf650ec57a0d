/// report.cc: see report.h.
#include "app/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace app {
namespace {

constexpr double kWidth = 640, kHeight = 240, kLeft = 56, kBottom = 32, kTop = 12, kRight = 12;
constexpr size_t kMostPoints = 600;  // of one curve; more cannot be told apart

struct Curve {
  std::string name, colour;
  std::vector<std::pair<double, double>> points;
};

/// Means of neighbours, so that at most kMostPoints are left.
Curve Thinned(Curve c) {
  const size_t each = (c.points.size() + kMostPoints - 1) / kMostPoints;
  if (each <= 1) return c;
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < c.points.size(); i += each) {
    const size_t end = std::min(c.points.size(), i + each);
    double x = 0, y = 0;
    for (size_t k = i; k < end; ++k) {
      x += c.points[k].first;
      y += c.points[k].second;
    }
    points.emplace_back(x / double(end - i), y / double(end - i));
  }
  c.points = std::move(points);
  return c;
}

/// A step between lines of a grid: 1, 2 or 5 times a power of ten.
double NiceStep(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 4)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= 5) return factor * power;
  return 10 * power;
}

std::string Plot(const std::string& title, const std::string& x_name, std::vector<Curve> curves) {
  double x_low = 1e300, x_high = -1e300, y_low = 1e300, y_high = -1e300;
  for (Curve& c : curves) {
    c.points.erase(std::remove_if(c.points.begin(), c.points.end(),
                                  [](const auto& p) { return !std::isfinite(p.second); }),
                   c.points.end());
    c = Thinned(std::move(c));
    for (const auto& [x, y] : c.points) {
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  }
  if (x_low > x_high) return {};
  if (x_high == x_low) x_high = x_low + 1;
  if (y_high == y_low) y_high = y_low + 1;
  const auto px = [&](double x) {
    return kLeft + (x - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  };
  const auto py = [&](double y) {
    return kHeight - kBottom - (y - y_low) / (y_high - y_low) * (kHeight - kBottom - kTop);
  };
  std::string svg = fmt::format("<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\">",
                                weft::EscapeHtml(title), kWidth, kHeight);
  const double y_step = NiceStep(y_high - y_low), x_step = NiceStep(x_high - x_low);
  for (double y = std::ceil(y_low / y_step) * y_step; y <= y_high; y += y_step)
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>",
        kLeft, kWidth - kRight, py(y), kLeft - 6, py(y) + 4, y);
  for (double x = std::ceil(x_low / x_step) * x_step; x <= x_high; x += x_step)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>", px(x),
                       kHeight - kBottom + 16, x);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kWidth - kRight,
                     kHeight - 4, weft::EscapeHtml(x_name));
  for (const Curve& c : curves) {
    std::string points;
    for (const auto& [x, y] : c.points) points += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>",
                       c.colour, points);
    if (c.points.size() == 1)
      svg += fmt::format("<circle r=\"3\" cx=\"{:.1f}\" cy=\"{:.1f}\" fill=\"{}\"/>",
                         px(c.points[0].first), py(c.points[0].second), c.colour);
  }
  return svg + "</svg></figure>\n";
}

std::string Figures(const ReportData& d) {
  const TrainResult& r = *d.result;
  const std::pair<std::string, std::string> figures[] = {
      {"program", d.program->name + ": " + d.program->summary},
      {"session", d.options->device + (d.options->fusion ? " fusion" : "")},
      {"epochs", std::to_string(r.epochs)},
      {"steps", std::to_string(r.steps)},
      {"batch", std::to_string(d.options->batch > 0 ? d.options->batch : d.program->batch)},
      {"loss of the last epoch", fmt::format("{:.4f}", r.loss)},
      {fmt::format("{}, training {}", r.score, r.examples),
       fmt::format("{:.2f} %", 100 * r.train_accuracy)},
      {fmt::format("{}, test {}", r.score, r.examples),
       fmt::format("{:.2f} %", 100 * r.test_accuracy)},
      {"median step", fmt::format("{:.3f} ms", r.step_ms)},
      {"generated kernels per step",
       fmt::format("{} ({} distinct)", r.program.kernels, r.program.distinct_kernels)},
      {"library calls per step", std::to_string(r.program.library_calls)},
      {"compiled in", fmt::format("{:.3f} s", r.program.compile_seconds)},
      {"arena", weft::FormatBytes(r.program.arena_bytes)},
  };
  std::string table = "<table>";
  for (const auto& [name, value] : figures)
    table += fmt::format("<tr><th>{}</th><td>{}</td></tr>", name, weft::EscapeHtml(value));
  return table + "</table>\n";
}

/// Kinds of steps, then the steps, the slowest first.
std::string Steps(std::vector<weft::ProfileRow> rows) {
  std::stable_sort(
      rows.begin(), rows.end(),
      [](const weft::ProfileRow& a, const weft::ProfileRow& b) { return a.duration > b.duration; });
  const weft::ProfileRow all = weft::SumOf(rows);
  std::map<std::string, std::vector<weft::ProfileRow>> kinds;
  for (const weft::ProfileRow& r : rows) kinds[r.kind].push_back(r);
  if (all.duration <= 0) return "<p>This backend does not report the time of its steps.</p>";
  // Time, its share, and the share that the machine would need at best.
  const auto times = [&](const weft::ProfileRow& r) {
    const std::string floor =
        r.floor > 0 ? fmt::format("{:.1f} %", 100 * r.floor / r.duration) : "-";
    return fmt::format("<td>{:.1f}</td><td>{:.1f} %</td><td>{}</td>", r.duration,
                       100 * r.duration / all.duration, floor);
  };
  const std::string headings =
      fmt::format("<th>{}</th><th>share</th><th>floor</th>", weft::NameOf(all.unit));
  std::string out = fmt::format("<table><tr><th>kind</th><th>steps</th>{}</tr>", headings);
  for (const auto& [kind, of_kind] : kinds)
    out += fmt::format("<tr><td>{}</td><td>{}</td>{}</tr>", weft::EscapeHtml(kind), of_kind.size(),
                       times(weft::SumOf(of_kind)));
  out += fmt::format("<tr><td>all</td><td>{}</td>{}</tr></table>\n", rows.size(), times(all));
  out += fmt::format("<table><tr><th>step</th><th>kind</th>{}<th></th></tr>", headings);
  for (const weft::ProfileRow& r : rows)
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td>{}<td><div class=\"bar\" "
        "style=\"width:{:.0f}px\"></div></td></tr>",
        weft::EscapeHtml(r.name), weft::EscapeHtml(r.kind), times(r),
        200 * r.duration / rows[0].duration);
  return out + "</table>\n<p>floor: bytes / bandwidth + operations / peak of the machine.</p>\n";
}

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:720px;margin:2em auto;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 12px 2px 0;text-align:left;"
    "font-variant-numeric:tabular-nums}th{font-weight:600}figure{margin:1em 0}"
    "svg{width:100%;font-size:11px}.grid{stroke:#ddd}.bar{background:#3b7dd8;height:9px}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg text{fill:#bbb}"
    ".grid{stroke:#444}}";

}  // namespace

void WriteReport(const std::string& path, const ReportData& d) {
  Curve loss{"loss", "#3b7dd8", {}}, mean{"mean", "#d8743b", {}}, test{"test", "#2d9d5c", {}};
  double step = 0;
  for (const double l : d.result->losses) loss.points.emplace_back(++step, l);
  const double per_epoch =
      d.result->history.empty() ? 1 : double(d.result->steps) / double(d.result->history.size());
  double epochs = 0;
  for (const Epoch& e : d.result->history) {
    epochs += 1;
    mean.points.emplace_back((epochs - 0.5) * per_epoch, e.loss);
    test.points.emplace_back(double(e.number), 100 * e.test_accuracy);
  }
  const std::string title = "tinyflow: " + d.program->name;
  weft::WriteFileAtomic(
      path,
      fmt::format("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>"
                  "<style>{1}</style><h1>{0}</h1>\n{2}<h2>Curves</h2>\n{3}{4}"
                  "<h2>Where the time of a step goes</h2>\n{5}</html>\n",
                  weft::EscapeHtml(title), kStyle, Figures(d),
                  Plot("loss: every step, and the mean of every epoch", "step", {loss, mean}),
                  Plot(fmt::format("{} on the test {}, %", d.result->score, d.result->examples),
                       "epoch", {test}),
                  Steps(d.profile)));
}

}  // namespace app
