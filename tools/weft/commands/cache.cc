/// cache.cc: `weft cache ls|verify|prune|clear`: the folder of compiled kernels.
#include <algorithm>
#include <ctime>

#include "command_line.h"
#include "common.h"
#include "weft/codegen/compiler/kernel_cache.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

struct Args {
  std::string max_bytes, older_than;
  bool json = false;
};

std::string Folder() {
  const std::string dir = KernelCache::Process().directory();
  if (dir.empty())
    ThrowError(ErrorCode::kUsage, "there is no kernel cache: " + KernelCache::Process().why_off(),
               "cache", "WEFT_CACHE_DIR names a folder for it");
  return dir;
}

/// "30", "12h", "7d": seconds by default.
double ParseDuration(const std::string& text) {
  std::string digits = text;
  double unit = 1;
  if (!digits.empty()) {
    const size_t at = std::string("smhd").find(digits.back());
    if (at != std::string::npos) {
      static constexpr double kUnits[] = {1, 60, 3600, 86400};
      unit = kUnits[at];
      digits.pop_back();
    }
  }
  const auto v = TryParseDouble(digits);
  WEFT_CHECK(v && *v >= 0, kUsage,
             "--older-than: expected a number >= 0 with an optional s, m, h or d, got '{}'", text);
  return *v * unit;
}

std::string Ago(int64_t used_ns) {
  const double s = std::max(0.0, double(std::time(nullptr)) - double(used_ns) / 1e9);
  if (s < 120) return fmt::format("{:.0f} s", s);
  if (s < 7200) return fmt::format("{:.0f} min", s / 60);
  if (s < 172800) return fmt::format("{:.0f} h", s / 3600);
  return fmt::format("{:.0f} days", s / 86400);
}

int List(const Args& a) {
  const std::string dir = Folder();
  const std::vector<CacheEntry> all = ListKernelCache(dir, true);
  int64_t bytes = 0;
  Json rows = Json::array();
  Table table({"entry", "target", ">bytes", ">unused for", ""});
  for (const CacheEntry& e : all) {
    bytes += e.bytes;
    const std::string note = e.temporary         ? "unfinished"
                             : !e.damage.empty() ? "damaged: " + e.damage
                                                 : "";
    table.AddRow({e.file, e.target, FormatBytes(e.bytes), Ago(e.used_ns), note});
    rows.push_back({{"file", e.file},
                    {"target", e.target},
                    {"bytes", e.bytes},
                    {"used", double(e.used_ns) / 1e9},
                    {"unfinished", e.temporary},
                    {"damage", e.damage}});
  }
  if (a.json) {
    PrintJson({{"folder", dir},
               {"bytes", bytes},
               {"bound", KernelCacheBound()},
               {"entries", std::move(rows)}});
    return 0;
  }
  if (!all.empty()) PrintText(table.ToString());
  PrintText(fmt::format("{} entries, {} of {}, in {}\n", all.size(), FormatBytes(bytes),
                        FormatBytes(KernelCacheBound()), dir));
  return 0;
}

int Verify(const Args& a) {
  const std::string dir = Folder();
  Json damaged = Json::array();
  std::string text;
  int64_t examined = 0, unfinished = 0;
  for (const CacheEntry& e : ListKernelCache(dir, true)) {
    if (e.temporary) {
      ++unfinished;
      continue;
    }
    ++examined;
    if (e.damage.empty()) continue;
    // Another process may have replaced or removed it while it was read.
    const std::string path = JoinPath(dir, e.file);
    if (!FileExists(path)) continue;
    damaged.push_back({{"file", e.file}, {"damage", e.damage}});
    text += fmt::format("{}: {}\n", path, e.damage);
  }
  const size_t count = damaged.size();
  if (a.json) {
    PrintJson({{"folder", dir},
               {"entries", examined},
               {"unfinished", unfinished},
               {"damaged", std::move(damaged)}});
  } else {
    PrintText(text + fmt::format("{} entries, {} damaged, {} unfinished, in {}\n", examined, count,
                                 unfinished, dir));
  }
  if (count > 0)
    ThrowError(ErrorCode::kCheckFailed,
               fmt::format("{} of {} entries are damaged", count, examined), dir,
               "they are made again when they are needed; weft cache clear removes all");
  return 0;
}

int ReportChange(const Args& a, const std::string& dir, const CacheChange& c) {
  if (a.json)
    PrintJson({{"folder", dir},
               {"removed", c.removed},
               {"removed_bytes", c.removed_bytes},
               {"kept", c.kept},
               {"kept_bytes", c.kept_bytes}});
  else
    PrintText(fmt::format("removed {} entries, {}; kept {}, {}\n", c.removed,
                          FormatBytes(c.removed_bytes), c.kept, FormatBytes(c.kept_bytes)));
  return 0;
}

int Prune(const Args& a) {
  const int64_t bytes = !a.max_bytes.empty()   ? ParseByteCount(a.max_bytes, "--max-bytes")
                        : a.older_than.empty() ? KernelCacheBound()
                                               : -1;
  const double age = a.older_than.empty() ? -1 : ParseDuration(a.older_than);
  const std::string dir = Folder();
  return ReportChange(a, dir, PruneKernelCache(dir, bytes, age));
}

int Clear(const Args& a) {
  const std::string dir = Folder();
  return ReportChange(a, dir, ClearKernelCache(dir));
}

}  // namespace

Command MakeCache(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("cache", "the folder of compiled kernels");
  app.RequireCommand();
  app.AddFlag("--json", &a->json, "one JSON object on stdout");
  const Options ls = app.AddCommand("ls", "list the entries");
  const Options verify =
      app.AddCommand("verify", "check every byte; exit code 1 where one is damaged");
  Options prune = app.AddCommand("prune", "remove the entries that were unused for longest");
  app.AddCommand("clear", "remove all entries");
  prune.Add("--max-bytes N", &a->max_bytes,
            "until so much is left; default: $WEFT_CACHE_BYTES or 1G");
  prune.Add("--older-than D", &a->older_than, "those unused for longer, as in 12h, 7d");
  return {app, [a, ls, verify, prune] {
            if (ls.chosen()) return List(*a);
            if (verify.chosen()) return Verify(*a);
            return prune.chosen() ? Prune(*a) : Clear(*a);
          }};
}

}  // namespace weft::tool
