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

bool HasTracks(const std::vector<ProfileRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const ProfileRow& r) { return !r.track.empty(); });
}

/// From the first start to the last end.
double TimeOf(const std::vector<PlacedRow>& placed) {
  if (placed.empty()) return 0;
  double first = placed[0].start, last = placed[0].end;
  for (const PlacedRow& p : placed) first = std::min(first, p.start), last = std::max(last, p.end);
  return last - first;
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
      const double duration = s.duration;
      if (fresh) {
        const int64_t times = std::max<int64_t>(s.times, 1);
        const double least =
            s.unit == machine.unit ? machine.Floor(s.bytes / times, s.flops / times) : 0;
        samples.emplace_back();
        rows.push_back({std::move(s), rows.size() + 1, double(times) * least});
      }
      samples[it->second].push_back(duration);
    }
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    std::sort(samples[k].begin(), samples[k].end());
    rows[k].duration = samples[k][samples[k].size() / 2];
  }
  return rows;
}

ProfileRow SumOf(const std::vector<ProfileRow>& rows) {
  ProfileRow all;
  all.times = 0;
  std::map<std::string, double> floors;  // by track
  for (const ProfileRow& r : rows) {
    all.unit = r.unit;
    all.duration += r.duration;
    all.bytes += r.bytes;
    all.flops += r.flops;
    double& floor = floors[r.track];
    floor += r.floor;
    all.floor = std::max(all.floor, floor);
  }
  if (HasTracks(rows)) all.duration = TimeOf(PlaceRows(rows));
  return all;
}

std::vector<PlacedRow> PlaceRows(const std::vector<ProfileRow>& rows) {
  std::vector<PlacedRow> placed;
  std::map<std::string, double> ends;  // by track
  for (const ProfileRow& r : rows) {
    double& end = ends[r.track];
    const double start = r.start >= 0 ? r.start : end;
    end = start + r.duration;
    placed.push_back({&r, start, end});
  }
  return placed;
}

std::vector<ProfileTrack> TracksOf(const std::vector<ProfileRow>& rows) {
  std::vector<ProfileTrack> tracks;
  if (!HasTracks(rows)) return tracks;
  std::map<std::string, size_t> at;
  for (const ProfileRow& r : rows) {
    const auto [it, fresh] = at.try_emplace(r.track, tracks.size());
    if (fresh) tracks.push_back({r.track});
    ProfileTrack& t = tracks[it->second];
    ++t.steps;
    t.busy += r.duration;
  }
  const double whole = TimeOf(PlaceRows(rows));
  for (ProfileTrack& t : tracks) t.share = whole > 0 ? t.busy / whole : 0;
  return tracks;
}

namespace {

std::string TracksTable(const std::vector<ProfileTrack>& tracks, const char* unit) {
  Table table({"track", ">steps", std::string(">busy ") + unit, ">of the run"});
  for (const ProfileTrack& t : tracks)
    table.AddRow({t.name, fmt::format("{}", t.steps), fmt::format("{:.1f}", t.busy),
                  fmt::format("{:.1f} %", 100 * t.share)});
  return table.ToString();
}

}  // namespace

std::string ProfileTable(std::vector<ProfileRow> rows, const Machine& machine, double run_us) {
  if (rows.empty()) return "this backend does not report the time of its steps\n";
  ProfileRow all = SumOf(rows);
  const bool cycles = all.unit == TimeUnit::kCycles;
  const char* unit = NameOf(all.unit);
  const std::vector<ProfileTrack> tracks = TracksOf(rows);
  std::map<size_t, double> starts;  // by step
  for (const PlacedRow& p : PlaceRows(rows)) starts[p.row->step] = p.start;
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return a.duration > b.duration;
  });
  std::vector<std::string> columns = {">step", "name", "kind", ">times"};
  if (!tracks.empty()) columns.insert(columns.end(), {"track", ">start"});
  columns.insert(columns.end(), {fmt::format(">{}", unit), ">share", ">MB",
                                 cycles ? ">B/cycle" : ">GB/s", cycles ? ">op/cycle" : ">GFLOP/s",
                                 fmt::format(">floor {}", unit), ">of floor", "runs"});
  Table table(columns);
  const auto add = [&](const std::string& step, const ProfileRow& r) {
    const double ticks = cycles ? r.duration : r.duration * 1e3;  // nanoseconds
    std::vector<std::string> cells = {step, r.in.empty() ? r.name : r.in + ": " + r.name, r.kind,
                                      r.times > 0 ? fmt::format("{}", r.times) : ""};
    if (!tracks.empty()) {
      const auto at = starts.find(r.step);
      cells.push_back(r.track);
      cells.push_back(at == starts.end() ? "" : fmt::format("{:.1f}", at->second));
    }
    for (std::string& cell : std::vector<std::string>{
             fmt::format("{:.1f}", r.duration), Percent(r.duration, all.duration),
             fmt::format("{:.2f}", double(r.bytes) / 1e6),
             ticks > 0 ? fmt::format("{:.1f}", double(r.bytes) / ticks) : "-",
             ticks > 0 ? fmt::format("{:.1f}", double(r.flops) / ticks) : "-",
             fmt::format("{:.1f}", r.floor), Percent(r.floor, r.duration), r.how})
      cells.push_back(std::move(cell));
    table.AddRow(std::move(cells));
  };
  for (const ProfileRow& r : rows) add(fmt::format("{}", r.step), r);
  all.name = "all steps";
  add("", all);
  if (run_us > 0 && !cycles) {
    ProfileRow run = all;
    run.name = "run";
    run.duration = run_us;
    add("", run);
  }
  std::string text = table.ToString();
  if (!tracks.empty()) text += "\n" + TracksTable(tracks, unit);
  if (!machine.measured() || machine.unit != all.unit) return text;
  return text + "\nfloor: bytes / bandwidth + operations / peak, " +
         (cycles ? "as the backend describes its machine: " + machine.ToString() + "\n"
                 : "as measured here: " + machine.ToString() +
                       " (weft doctor --measure measures again)\n");
}

}  // namespace weft
