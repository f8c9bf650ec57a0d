/// repro.cc: `weft repro FILE`: does what a reproducer (weft/core/pass/reproducer.h) recorded once
/// more, and tells whether the failure is still there. A reproducer loads no plugin by itself: what
/// code runs here is for the command line to say.
#include <stdlib.h>

#include <algorithm>
#include <optional>

#include "command_line.h"
#include "common.h"
#include "weft/core/module/plugin.h"
#include "weft/core/pass/reproducer.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

struct Args {
  std::string file, limits;
  bool local = false, json = false;
};

/// What is not as it was: versions, plugins, data. For stderr.
std::string Notes(const Reproducer& r) {
  std::string out;
  if (r.version != WEFT_VERSION)
    out += fmt::format("note: recorded by Weft {}, this is {}\n", r.version, WEFT_VERSION);
  const std::vector<PluginInfo> loaded = LoadedPlugins();
  for (const Reproducer::Plugin& p : r.plugins) {
    const auto same = [&](const PluginInfo& i) { return i.name == p.name; };
    if (std::none_of(loaded.begin(), loaded.end(), same))
      out += fmt::format("note: recorded with the plugin {} {}; --plugin {} loads it\n",
                         Quote(p.name), p.version, Quote(p.path));
  }
  if (r.tensors_by_hash) out += "note: large tensors are not in the file; zeros stand for them\n";
  return out;
}

std::string Verdict(const Reproducer& r, const Error& e) {
  const std::string code = ErrorCodeName(e.code());
  return fmt::format("replayed  {} {}: {}\nthe code is {}\n", code, e.place(), e.message(),
                     code == r.error ? "the recorded one" : "another");
}

Graph ReadGraph(const std::string& text, const Args& a) {
  ParseOptions parse;
  parse.source_name = a.file;
  parse.allow_missing_data = true;
  parse.allow_opaque = true;
  return ParseGraph(text, parse);
}

/// The recorded arguments with this file as the model. Plugins are left out.
std::vector<std::string> Arguments(const Reproducer& r, const std::string& file) {
  std::vector<std::string> out;
  for (size_t i = 0; i < r.arguments.size(); ++i) {
    const std::string& s = r.arguments[i];
    if (s == "--plugin") {
      ++i;
    } else if (!StartsWith(s, "--plugin=")) {
      out.push_back(s == kReproducerModel ? file : s);
    }
  }
  return out;
}

int RunRepro(const Args& a) {
  WEFT_CHECK(FileExists(a.file), kIo, "there is no file '{}'", a.file);
  const Limits given = Limits::Parse(a.limits);
  const std::string text = ReadFile(a.file, given.file_bytes);
  Reproducer r = ParseReproducer(text, a.file);
  if (!a.limits.empty()) r.options.limits = given;
  const std::string notes = Notes(r);
  std::fwrite(notes.data(), 1, notes.size(), stderr);
  if (r.pass.empty()) {
    WEFT_CHECK(!a.local, kUsage, "--local: no pass failed, but the command {}",
               Join(r.arguments, " "));
    const std::vector<std::string> arguments = Arguments(r, a.file);
    WEFT_CHECK(!arguments.empty() && arguments[0] != "repro", kSyntax,
               "'{}' says neither which pass nor which command failed", a.file);
    fmt::print(stderr, "recorded {} by: weft {}\n", r.error, Join(arguments, " "));
    setenv("WEFT_FAULTS", "throw", 1);
    try {
      RunCommandLine(arguments);
    } catch (const Error& e) {
      PrintText(Verdict(r, e));
      throw;
    } catch (const std::exception& e) {
      PrintText(Verdict(r, InternalError(ErrorCode::kInternal, e.what())));
      throw;
    }
    PrintText("replayed  the failure is gone\n");
    return 0;
  }
  const Graph graph = ReadGraph(text, a);
  Pipeline pipeline = Pipeline::Parse(r.pass);
  if (!a.local) {
    const Pipeline rest = Pipeline::Parse(r.rest);
    for (const PassSpec& p : rest.passes()) pipeline.push_back(p);
  }
  std::optional<Error> other;
  try {
    Progress progress;
    r.options.on_pass = progress.Hook();
    r.options.faults = FaultPolicy::kThrow;  // what was survived then is what is looked for
    ApplyPasses(graph, pipeline, r.options);
  } catch (const Error& e) {
    other = e;
  }
  if (a.json) {
    PrintJson({{"pipeline", pipeline.ToString()},
               {"target", r.options.target.name()},
               {"recorded", {{"code", r.error}, {"place", r.place}, {"message", r.message}}},
               {"replayed", other ? Json{{"code", ErrorCodeName(other->code())},
                                         {"place", other->place()},
                                         {"message", other->message()}}
                                  : Json(nullptr)},
               {"gone", !other},
               {"same_code", other && ErrorCodeName(other->code()) == r.error}});
  } else {
    PrintText(fmt::format("pipeline  {}\nrecorded  {} {}: {}\n", pipeline.ToString(), r.error,
                          r.place, r.message));
    PrintText(other ? Verdict(r, *other) : "replayed  the failure is gone\n");
  }
  if (!other) return 0;
  ThrowError(other->code(), other->message(), other->place(), other->hint());
}

}  // namespace

Command MakeRepro(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("repro", "replay a reproducer file");
  app.Add("FILE", &a->file, "what was written when a pass or a command failed").Required();
  app.AddFlag("--local", &a->local, "only the pass that failed, without those after it");
  app.Add("--limits LIST", &a->limits, "bounds instead of the recorded ones");
  app.AddFlag("--json", &a->json, "one JSON object on stdout");
  return {app, [a] { return RunRepro(*a); }};
}

}  // namespace weft::tool
