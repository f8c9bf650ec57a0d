/// profile.cc: medians of profiled runs, and their table.
#include "weft/runtime/program/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/support/table.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

constexpr int kRuns = 25;
constexpr double kSeconds = 1.0;

/// Tells the steps of one run apart, and finds them in the next one, which may take another branch:
/// what is around it, name, kind, and which one it is of several that these do not tell apart.
using StepKey = std::tuple<std::string, std::string, std::string, int>;

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

}  // namespace

std::vector<ProfileRow> ProfileSteps(const std::function<std::vector<StepTime>()>& profile,
                                     const Machine& machine) {
  std::vector<ProfileRow> rows;
  std::vector<std::vector<double>> samples;
  std::map<StepKey, size_t> row_of;
  const Timer timer;
  for (int i = 0; i < kRuns && (i == 0 || timer.seconds() < kSeconds); ++i) {
    std::map<StepKey, int> alike;
    for (StepTime& s : profile()) {
      StepKey key(s.in, s.name, s.kind, 0);
      std::get<int>(key) = alike[key]++;
      const auto [it, fresh] = row_of.try_emplace(key, rows.size());
      const double microseconds = s.microseconds;
      if (fresh) {
        const int64_t times = std::max<int64_t>(s.times, 1);
        const double floor_us = double(times) * machine.FloorUs(s.bytes / times, s.flops / times);
        samples.emplace_back();
        rows.push_back({std::move(s), rows.size() + 1, floor_us});
      }
      samples[it->second].push_back(microseconds);
    }
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    std::sort(samples[k].begin(), samples[k].end());
    rows[k].microseconds = samples[k][samples[k].size() / 2];
  }
  return rows;
}

ProfileRow SumOf(const std::vector<ProfileRow>& rows) {
  ProfileRow all;
  all.times = 0;
  for (const ProfileRow& r : rows) {
    all.microseconds += r.microseconds;
    all.floor_us += r.floor_us;
    all.bytes += r.bytes;
    all.flops += r.flops;
  }
  return all;
}

std::string ProfileTable(std::vector<ProfileRow> rows, const Machine& machine, double run_us) {
  if (rows.empty()) return "this backend does not report the time of its steps\n";
  ProfileRow all = SumOf(rows);
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return a.microseconds > b.microseconds;
  });
  Table table({">step", "name", "kind", ">times", ">us", ">share", ">MB", ">GB/s", ">GFLOP/s",
               ">floor us", ">of floor", "runs"});
  const auto add = [&](const std::string& step, const ProfileRow& r) {
    const double ns = r.microseconds * 1e3;
    table.AddRow({step, r.in.empty() ? r.name : r.in + ": " + r.name, r.kind,
                  r.times > 0 ? fmt::format("{}", r.times) : "",
                  fmt::format("{:.1f}", r.microseconds), Percent(r.microseconds, all.microseconds),
                  fmt::format("{:.2f}", double(r.bytes) / 1e6),
                  ns > 0 ? fmt::format("{:.1f}", double(r.bytes) / ns) : "-",
                  ns > 0 ? fmt::format("{:.1f}", double(r.flops) / ns) : "-",
                  fmt::format("{:.1f}", r.floor_us), Percent(r.floor_us, r.microseconds), r.how});
  };
  for (const ProfileRow& r : rows) add(fmt::format("{}", r.step), r);
  all.name = "all steps";
  add("", all);
  if (run_us > 0) {
    ProfileRow run = all;
    run.name = "run";
    run.microseconds = run_us;
    add("", run);
  }
  if (!machine.measured()) return table.ToString();
  return table.ToString() +
         "\nfloor: bytes / bandwidth + operations / peak, as measured here: " + machine.ToString() +
         " (weft doctor --measure measures again)\n";
}

}  // namespace weft
