/// program.cc: compiling graphs, and compiled programs: what they take and give, their steps, their
/// files.
#include "program.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "call.h"
#include "errors.h"
#include "graph.h"
#include "options.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

/// Polls of the library see the request of the calling thread.
template <class F>
SharedProgram Make(CancelToken& token, const F& make) {
  return Shared(WithoutGil(token, Threads::kTeam, [&] {
    static const Limits none = Limits::Parse("tensor_bytes=" + std::to_string(INT64_MAX));
    const RequestScope scope(none, &token);
    RequestScope::Poll();
    return make();
  }));
}

SharedProgram CompileGraph(const Graph& graph, const std::string& backend, nb::handle pipeline,
                           bool fusion, int threads, bool tune, bool tf32, nb::handle limits,
                           bool strict, nb::handle checks, nb::handle dump_dir,
                           std::vector<std::string> steady, const std::string& memory_budget,
                           std::map<std::string, int64_t> hints,
                           std::vector<std::string> feedback) {
  CheckLives(graph);
  WEFT_CHECK(threads >= 0, kApiMisuse, "threads={}", threads);
  CompileOptions options;
  options.backend = backend;
  if (!pipeline.is_none()) options.pipeline = ToPipeline(pipeline).ToString();
  options.fusion = fusion;
  options.threads = threads;
  options.calls = {tune, tf32};
  options.passes.limits = ToLimits(limits);
  options.passes.strict = strict;
  options.passes.checks = ToChecks(checks);
  if (!dump_dir.is_none()) options.passes.dump_dir = ToPath(dump_dir);
  options.steady = std::move(steady);
  options.memory.budget = MemoryBudget::Parse(memory_budget, "memory_budget");
  options.memory.hints.insert(hints.begin(), hints.end());
  options.feedback = std::move(feedback);
  Graph copy(graph);
  return Make(options.passes.cancel, [&] { return Compile(std::move(copy), options); });
}

SharedProgram LoadAnyProgram(nb::handle program, const std::string& backend, int threads,
                             nb::handle limits, bool tune, bool tf32,
                             const std::string& memory_budget) {
  LoadOptions options;
  options.memory_budget = MemoryBudget::Parse(memory_budget, "memory_budget");
  options.backend = backend;
  options.threads = threads;
  options.limits = ToLimits(limits);
  options.calls = {tune, tf32};
  CancelToken token;
  if (PyBytes_Check(program.ptr())) {
    const auto copy = std::make_shared<std::string>(PyBytes_AsString(program.ptr()),
                                                    size_t(PyBytes_Size(program.ptr())));
    return Make(token, [&] {
      return LoadProgramFromMemory(copy->data(), copy->size(), copy, "<bytes>", options);
    });
  }
  const std::string path = ToPath(program);
  return Make(token, [&] { return LoadProgram(path, options); });
}

nb::bytes BytesOf(const Program& program) {
  CancelToken token;
  const std::string bytes = WithoutGil(token, Threads::kNone, [&] { return PackProgram(program); });
  return nb::bytes(bytes.data(), bytes.size());
}

nb::dict Described(const ProgramStats& s) {
  nb::dict d;
  d["compile_seconds"] = s.compile_seconds;
  d["kernels"] = s.kernels;
  d["distinct_kernels"] = s.distinct_kernels;
  d["library_calls"] = s.library_calls;
  d["reorders"] = s.reorders;
  d["interpreted"] = s.interpreted;
  d["kernels_failed"] = s.kernels_failed;
  d["host_steps"] = s.host_steps;
  d["launches"] = int64_t(s.launches);
  d["replays"] = int64_t(s.replays);
  d["host_waits"] = int64_t(s.host_waits);
  return d;
}

/// Values for a run that nobody gives any: by name.
nb::dict Samples(const Program& program, const std::map<std::string, int64_t>& bind,
                 uint64_t seed) {
  SymBindings bindings;
  for (const auto& [name, value] : bind) bindings[name] = value;
  const std::vector<TensorPtr> values = RandomProgramInputs(program, seed, bindings);
  nb::dict d;
  for (size_t i = 0; i < values.size(); ++i)
    d[nb::cast(program.inputs()[i].name)] = ToArray(values[i], false);
  return d;
}

}  // namespace

void BindProgram(nb::module_& m) {
  nb::class_<IoSpec>(m, "IoSpec", "Name, type and symbolic shape of an input or output.")
      .def_ro("name", &IoSpec::name)
      .def_prop_ro(
          "dtype", [](const IoSpec& s) { return TypeObject(s.type()); },
          nb::sig("def dtype(self) -> str | None"), "'f32', 'seq(f32)' ...")
      .def_prop_ro(
          "shape", [](const IoSpec& s) { return ShapeObject(s.shape); },
          nb::sig("def shape(self) -> tuple[int | str | None, ...] | None"))
      .def("__repr__", [](const IoSpec& s) {
        std::string text = "<IoSpec '" + s.name + "' " + s.type().ToString();
        if (s.shape.has_rank()) text += s.shape.ToString();
        return text + ">";
      });
  nb::class_<Program>(m, "Program", nb::is_weak_referenceable(),
                      "A compiled graph: immutable, and shared by sessions and threads.")
      .def_prop_ro("inputs", &Program::inputs)
      .def_prop_ro("outputs", &Program::outputs)
      .def_prop_ro("variables", &Program::variables,
                   "State variables, whose contents are in the session's store.")
      .def_prop_ro("writes_variables", &Program::writes_variables)
      .def_prop_ro("backend", &Program::backend)
      .def_prop_ro(
          "graph", [](const Program& p) { return std::make_shared<Graph>(p.graph()); },
          "A copy of the graph after the passes.")
      .def_prop_ro(
          "stats", [](const Program& p) { return Described(p.stats()); },
          nb::sig("def stats(self) -> dict[str, typing.Any]"),
          "How many kernels, library calls, steps on the host ...")
      .def_prop_ro(
          "passes", [](const Program& p) { return p.stats().passes; },
          "Records of the passes that made it.")
      .def(
          "save",
          [](const Program& p, nb::handle path) {
            const std::string file = ToPath(path);
            CancelToken token;
            WithoutGil(token, Threads::kNone, [&] { SaveProgram(p, file); });
          },
          "path"_a, nb::sig("def save(self, path: PathLike) -> None"),
          "Writes a `.weftx` file that `load_program` reads without a compiler.")
      .def("to_bytes", BytesOf, "The content of that file.")
      .def("sample_inputs", Samples, "bind"_a = std::map<std::string, int64_t>(), "seed"_a = 1,
           nb::sig("def sample_inputs(self, bind: typing.Mapping[str, int] = ..., seed: int = 1) "
                   "-> dict[str, typing.Any]"),
           "Random inputs by name, at values of the symbols of their shapes (1 where not given).")
      .def(
          "_repr_html_",
          [](nb::handle_t<Program> self) {
            return nb::module_::import_("weft._html").attr("program_html")(self);
          },
          nb::sig("def _repr_html_(self) -> str"))
      .def(
          "__reduce__",
          [](const Program& p) {
            return nb::make_tuple(nb::module_::import_("weft._pickle").attr("program"),
                                  nb::make_tuple(BytesOf(p)));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__repr__", [](const Program& p) {
        return "<Program on " + p.backend() + ": " + std::to_string(p.stats().kernels) +
               " kernels, " + std::to_string(p.stats().library_calls) + " library calls>";
      });
  m.def(
      "_compile", CompileGraph, "graph"_a, nb::kw_only(), "backend"_a = "",
      "pipeline"_a = nb::none(), "fusion"_a = true, "threads"_a = 0, "tune"_a = false,
      "tf32"_a = false, "limits"_a = nb::none(), "strict"_a = false, "checks"_a = nb::none(),
      "dump_dir"_a = nb::none(), "steady"_a = std::vector<std::string>(), "memory_budget"_a = "",
      "hints"_a = std::map<std::string, int64_t>(), "feedback"_a = std::vector<std::string>(),
      nb::sig("def _compile(graph: Graph, *, backend: str = '', pipeline: PipelineLike | None = "
              "None, fusion: bool = True, threads: int = 0, tune: bool = False, tf32: bool = "
              "False, limits: LimitsLike | None = None, strict: bool = False, checks: str | "
              "typing.Iterable[str] | None = None, dump_dir: PathLike | None = None, steady: "
              "typing.Sequence[str] = ..., memory_budget: str = '', hints: "
              "typing.Mapping[str, int] = ..., feedback: typing.Sequence[str] = ...) -> Program"));
  m.def("load_program", LoadAnyProgram, "program"_a, nb::kw_only(), "backend"_a = "",
        "threads"_a = 0, "limits"_a = nb::none(), "tune"_a = false, "tf32"_a = false,
        "memory_budget"_a = "",
        nb::sig("def load_program(program: PathLike | bytes, *, backend: str = '', threads: int = "
                "0, limits: LimitsLike | None = None, tune: bool = False, tf32: bool = False, "
                "memory_budget: str = '') -> Program"),
        "A program from a `.weftx` file, or from the bytes of one. It holds machine code: load "
        "only what you would run.");
}

}  // namespace weft::python
