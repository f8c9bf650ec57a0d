/// passes.cc: pipelines over graphs, with their options, checks and records.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include "call.h"
#include "errors.h"
#include "graph.h"
#include "options.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

/// A function of Python that the library calls from a call without the lock. Copied by the library
/// without the lock as well, so the object is held by a pointer.
class Callback {
 public:
  explicit Callback(nb::object f)
      : f_(new nb::object(std::move(f)), [](nb::object* held) {
          const nb::gil_scoped_acquire gil;
          delete held;
        }) {}
  template <class... A>
  void operator()(A&&... arguments) const {
    const nb::gil_scoped_acquire gil;
    (*f_)(std::forward<A>(arguments)...);
  }

 private:
  std::shared_ptr<nb::object> f_;
};

SharedGraph ApplyPipeline(const Graph& graph, nb::handle pipeline, const std::string& target,
                          bool strict, bool verify, nb::handle checks, nb::handle limits,
                          int64_t fuel, std::vector<std::string> skip, nb::handle dump_dir,
                          nb::handle records, nb::handle on_pass, nb::handle reproducer) {
  CheckLives(graph);
  const Pipeline passes = ToPipeline(pipeline);
  PassOptions options;
  options.target = target;
  options.strict = strict;
  options.verify = verify;
  options.checks = ToChecks(checks);
  options.limits = ToLimits(limits);
  options.fuel = fuel;
  options.skip = std::move(skip);
  if (!dump_dir.is_none()) options.dump_dir = ToPath(dump_dir);
  if (!reproducer.is_none()) options.reproducer = ToPath(reproducer);
  std::vector<PassRecord> made;
  options.records = &made;
  if (!on_pass.is_none()) options.on_pass = Callback(nb::borrow(on_pass));
  Graph copy(graph);
  const auto append = [&] {
    if (records.is_none()) return;
    nb::list list = nb::cast<nb::list>(records);
    for (const PassRecord& r : made) list.append(r);
  };
  try {
    SharedGraph result = std::make_shared<Graph>(WithoutGil(options.cancel, Threads::kNone, [&] {
      return ApplyPasses(std::move(copy), passes, options);
    }));
    append();
    return result;
  } catch (const Error&) {
    append();  // of those before the one that failed
    throw;
  }
}

nb::dict DescribePass(const PassEntry& p) {
  nb::dict d;
  d["name"] = p.name;
  d["doc"] = p.description;
  d["changes_graph"] = p.changes_graph;
  d["depends"] = p.depends;
  d["provides"] = p.provides;
  d["preserves"] = p.preserves;
  nb::list options;
  for (const auto& [option, doc] : p.options) {
    nb::dict o;
    o["name"] = option.name;
    o["doc"] = doc;
    std::visit([&](const auto& v) { o["default"] = v; }, option.value);
    options.append(o);
  }
  d["options"] = options;
  nb::dict statistics;
  for (const auto& [name, doc] : p.AllStatistics()) statistics[nb::cast(name)] = doc;
  d["statistics"] = statistics;
  d["owner"] = p.owner.module == "weft" ? p.owner.module : p.owner.ToString();
  return d;
}

}  // namespace

void BindPasses(nb::module_& m) {
  nb::class_<PassRecord>(m, "PassRecord", "One pass that was applied.")
      .def_ro("number", &PassRecord::number, "Its place among all applications, from 1.")
      .def_ro("name", &PassRecord::name)
      .def_prop_ro(
          "asked", [](const PassRecord& r) { return r.trigger == Trigger::kAsked; },
          "False: it ran because another one depends on what it provides.")
      .def_ro("reason", &PassRecord::reason, "Why it ran, where it was not asked for.")
      .def_ro("seconds", &PassRecord::seconds)
      .def_ro("nodes_before", &PassRecord::nodes_before)
      .def_ro("nodes_after", &PassRecord::nodes_after)
      .def_ro("changed", &PassRecord::changed)
      .def_ro("skipped", &PassRecord::skipped)
      .def_ro("statistics", &PassRecord::statistics, "What the pass has counted.")
      .def_ro("warnings", &PassRecord::warnings)
      .def_ro("faults", &PassRecord::faults)
      .def("__repr__", [](const PassRecord& r) {
        return "<PassRecord " + std::to_string(r.number) + " " + r.name + ": " +
               std::to_string(r.nodes_before) + " -> " + std::to_string(r.nodes_after) + " nodes>";
      });
  m.def("apply_passes", ApplyPipeline, "graph"_a, "pipeline"_a, nb::kw_only(),
        "target"_a = PassOptions().target.name(), "strict"_a = false, "verify"_a = true,
        "checks"_a = nb::none(), "limits"_a = nb::none(), "fuel"_a = -1,
        "skip"_a = std::vector<std::string>(), "dump_dir"_a = nb::none(), "records"_a = nb::none(),
        "on_pass"_a = nb::none(), "reproducer"_a = nb::none(),
        nb::sig("def apply_passes(graph: Graph, pipeline: PipelineLike, *, target: str = 'cpu', "
                "strict: bool = False, verify: bool = True, checks: str | typing.Iterable[str] | "
                "None = None, limits: LimitsLike | None = None, fuel: int = -1, skip: "
                "typing.Sequence[str] = (), dump_dir: PathLike | None = None, records: "
                "list[PassRecord] | None = None, on_pass: typing.Callable[[PassRecord], object] | "
                "None = None, reproducer: PathLike | None = None) -> Graph"),
        "Applies passes in order and gives the graph they leave; `graph` stays as it is, and so do "
        "its handles (`result.at(handle)` gives the twin of one whose node is still there).\n\n"
        "`pipeline` is text, 'Simplify,Fusion{max_ops=64}', the name of a pipeline ('-O2'), or a "
        "list of names and of (name, options). What a pass depends on runs before it, unless "
        "`strict`. `records` is a list that gets a PassRecord of each pass, `on_pass` is called "
        "with each. `checks` names claims that are checked: 'all', 'preserved', 'changed', "
        "'deterministic', 'equivalent'. `fuel` bounds the rewrites, `skip` leaves passes out "
        "('Fusion', or one application 'Fusion#2'), `dump_dir` gets a text file after each change, "
        "`reproducer` a file where a pass fails.");
  m.def(
      "resolve_pipeline",
      [](const Graph& g, nb::handle pipeline, const std::string& target) {
        PassOptions options;
        options.target = target;
        return ResolvePipeline(g, ToPipeline(pipeline), options).ToString();
      },
      "graph"_a, "pipeline"_a, nb::kw_only(), "target"_a = PassOptions().target.name(),
      nb::sig("def resolve_pipeline(graph: Graph, pipeline: PipelineLike, *, target: str = 'cpu') "
              "-> str"),
      "The pipeline as text with everything that would run for what its passes depend on.");
  m.def("_split_pipeline", [](nb::handle pipeline) {
    std::vector<std::string> passes;
    const Pipeline all = ToPipeline(pipeline);
    for (const PassSpec& p : all.passes()) {
      Pipeline one;
      one.push_back(p);
      passes.push_back(one.ToString());
    }
    return passes;
  });
  m.def(
      "standard_pipeline",
      [](bool fusion) {
        PipelineOptions options;
        options.fusion = fusion;
        return StandardPipeline(options).ToString();
      },
      nb::kw_only(), "fusion"_a = true, "What a compilation applies, as text.");
  m.def(
      "_list_passes",
      [] {
        nb::list list;
        for (const PassEntry* p : PassEntry::List()) list.append(DescribePass(*p));
        return list;
      },
      nb::sig("def _list_passes() -> list[dict[str, typing.Any]]"));
}

}  // namespace weft::python
