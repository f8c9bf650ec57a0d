/// reduce.cc: `weft reduce MODEL --check CMD -o OUT`: the smallest model for which
/// the check still fails.
#include <optional>

#include "command_line.h"
#include "common.h"
#include "interrupt.h"
#include "reduce_graph.h"
#include "shell_check.h"
#include "weft/api/model.h"
#include "weft/support/check.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  CheckArgs check;
  std::string out, min_good;
};

int RunReduce(const Args& a) {
  const Limits limits = a.model.Check();
  const std::string extension = ExtensionOf(a.out);  // before a large model is read
  if (!a.min_good.empty()) WritableFormat(a.min_good);
  const Graph graph = ReadModel(a.model);
  CheckCommand check(a.check, extension, limits);
  const Timer timer;
  if (!check.IsBad(graph))
    ThrowError(ErrorCode::kCheckFailed, "the check finds nothing wrong with the model as it is",
               a.model.path, "reduce keeps what makes the check fail; nothing does");

  Progress progress;
  const InterruptScope interrupts;
  Graph bad = graph;          // the smallest for which the check fails
  std::optional<Graph> good;  // the smallest that the check is content with
  try {
    bad = ReduceGraph(graph, [&](const Graph& candidate) {
      progress.Show(fmt::format("{:.0f} s: {} checks, {} operators", timer.seconds(), check.runs(),
                                CountOperators(candidate)));
      const bool is_bad = check.IsBad(candidate);
      // The check may have been interrupted too: what it says does not count.
      WEFT_CHECK(!InterruptScope::Requested(), kCancelled, "interrupted");
      if (is_bad)
        bad = candidate;
      else if (!good || CountOperators(candidate) < CountOperators(*good))
        good = candidate;
      return is_bad;
    });
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kCancelled || !InterruptScope::Requested()) throw;
  }
  const bool interrupted = InterruptScope::Requested();
  WriteModel(bad, a.out, {limits, false});
  if (!a.min_good.empty() && good) WriteModel(*good, a.min_good, {limits, false});

  if (a.model.json) {
    PrintJson({{"operators_before", CountOperators(graph)},
               {"operators", CountOperators(bad)},
               {"inputs", bad.inputs().size()},
               {"outputs", bad.outputs.size()},
               {"checks", check.runs()},
               {"seconds", timer.seconds()},
               {"out", a.out},
               {"interrupted", interrupted},
               {"min_good", good ? Json(CountOperators(*good)) : Json(nullptr)}});
    return interrupted ? kInterruptedCode : 0;
  }
  std::string text =
      fmt::format("{} of {} left: {}, after {}\n", CountOperators(bad),
                  Plural(CountOperators(graph), "operator"), a.out, Plural(check.runs(), "check"));
  if (!a.min_good.empty())
    text += good ? fmt::format("the smallest good model has {}: {}\n",
                               Plural(CountOperators(*good), "operator"), a.min_good)
                 : "no smaller model was good\n";
  PrintText(text);
  if (interrupted) PrintNote("interrupted; a smaller one may be possible");
  return interrupted ? kInterruptedCode : 0;
}

}  // namespace

Command MakeReduce(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("reduce", "the smallest model for which a check still fails");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  AddCheck(app, &a->check);
  app.Find("--check").Required();
  app.Add("-o,--output OUT", &a->out,
          "file to write, and the form of what is checked: .weft, .onnx or .json")
      .Required();
  app.Add("--min-good F", &a->min_good, "also write the smallest model that passes the check");
  return {app, [a] { return RunReduce(*a); }};
}

}  // namespace weft::tool
