/// session.cc: runs. One thread at a time: a second one is an error, never a race.
#include <nanobind/stl/optional.h>

#include <atomic>

#include "arrays.h"
#include "call.h"
#include "errors.h"
#include "graph.h"
#include "options.h"
#include "program.h"
#include "weft/core/tensor/dlpack.h"
#include "weft/runtime/program/profile.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

struct PySession {
  PySession(const SharedProgram& p, std::shared_ptr<VariableStore> store)
      : program(p), session(p, std::move(store)) {
    session.set_cancel(token);
  }
  SharedProgram program;
  Session session;
  CancelToken token;
  std::atomic<bool> busy{false};
};

/// The session is this thread's as long as it lives.
class Use {
 public:
  explicit Use(PySession& s) : session_(s) {
    if (s.busy.exchange(true))
      ThrowError(ErrorCode::kApiMisuse, "the session is in use by another thread", "",
                 "make a session for each thread: sessions share the program, and may share a "
                 "store");
    // What was cancelled is over: this run is another one.
    if (s.token.cancelled()) {
      s.token = CancelToken();
      s.session.set_cancel(s.token);
    }
  }
  ~Use() { session_.busy.store(false); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  PySession& session_;
};

using Results = std::vector<std::shared_ptr<Tensor>>;

[[noreturn]] void ThrowUnknownName(const std::vector<IoSpec>& specs, const std::string& name,
                                   const char* what) {
  std::vector<std::string> names;
  for (const IoSpec& s : specs) names.push_back(s.name);
  const std::string near = DidYouMean(name, names);
  ThrowError(ErrorCode::kBadBinding, "the program has no " + std::string(what) + " '" + name + "'",
             "", near.empty() ? "it has: " + Join(names, ", ") : near);
}

size_t IndexOf(const std::vector<IoSpec>& specs, nb::handle key, const char* what) {
  const auto name = nb::cast<std::string>(key);
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == name) return i;
  ThrowUnknownName(specs, name, what);
}

/// Positional, or one dict by name.
std::vector<TensorPtr> InputsOf(const Program& program, const nb::args& given) {
  const std::vector<IoSpec>& specs = program.inputs();
  std::vector<TensorPtr> inputs(specs.size());
  const size_t count = given.size();
  if (count == 1 && PyDict_Check(nb::handle(given[0]).ptr())) {
    for (const auto& [key, value] : nb::borrow<nb::dict>(given[0])) {
      const size_t i = IndexOf(specs, key, "input");
      inputs[i] = ToTensor(value, {specs[i].type(), "input", &specs[i].name});
    }
    for (size_t i = 0; i < specs.size(); ++i)
      WEFT_CHECK(inputs[i], kBadBinding, "input '{}' is not given", specs[i].name);
    return inputs;
  }
  WEFT_CHECK(count == specs.size(), kBadInput, "the program takes {} inputs, {} given",
             specs.size(), count);
  for (size_t i = 0; i < count; ++i)
    inputs[i] = ToTensor(given[i], {specs[i].type(), "input", &specs[i].name});
  return inputs;
}

struct Bound {
  Results tensors;
  std::vector<nb::object> objects;
};

/// `out=`: a list with an array or None for each output, a dict by name, or one array.
Bound BoundOf(const Program& program, nb::handle out) {
  const std::vector<IoSpec>& specs = program.outputs();
  Bound bound;
  bound.tensors.resize(specs.size());
  bound.objects.resize(specs.size());
  const auto set = [&](size_t i, nb::handle object) {
    if (object.is_none()) return;
    const Wanted wanted{specs[i].type(), "output", &specs[i].name};
    if (specs[i].kind != TypeKind::kTensor)
      ThrowError(ErrorCode::kUnsupported,
                 "a value of type " + specs[i].type().ToString() + " is not written into another",
                 wanted.Place(), "leave it out of out=");
    bound.tensors[i] = ToWritable(object, wanted);
    bound.objects[i] = nb::borrow(object);
  };
  if (PyDict_Check(out.ptr())) {
    for (const auto& [key, value] : nb::borrow<nb::dict>(out))
      set(IndexOf(specs, key, "output"), value);
  } else if (PyList_Check(out.ptr()) || PyTuple_Check(out.ptr())) {
    const size_t count = nb::len(out);
    WEFT_CHECK(count == specs.size(), kBadBinding, "out= has {} items, the program {} outputs",
               count, specs.size());
    size_t i = 0;
    for (const nb::handle item : nb::borrow<nb::sequence>(out)) set(i++, item);
  } else {
    WEFT_CHECK(specs.size() == 1, kBadBinding, "out= is one array, the program has {} outputs",
               specs.size());
    set(0, out);
  }
  return bound;
}

enum class As : uint8_t { kNumpy, kTorch, kWeft };

As ToAs(nb::handle results) {
  if (results.is_none()) return As::kNumpy;
  const auto name = nb::cast<std::string>(results);
  if (name == "numpy") return As::kNumpy;
  if (name == "torch") return As::kTorch;
  if (name == "weft") return As::kWeft;
  ThrowError(ErrorCode::kUsage, "results='" + name + "'", "", "it is 'numpy', 'torch' or 'weft'");
}

nb::object ResultOf(const std::shared_ptr<Tensor>& t, As as) {
  if (!t || as == As::kNumpy || !t->is_tensor()) return ToArray(t, true);
  if (as == As::kWeft) return nb::cast(t);
  return nb::module_::import_("torch").attr("from_dlpack")(nb::cast(t));
}

nb::object ListOf(const Results& results, const Bound* bound, As as) {
  PyObject* list = PyList_New(Py_ssize_t(results.size()));
  if (!list) throw nb::python_error();
  nb::object held = nb::steal(list);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool given = bound && bound->objects[i].is_valid();
    nb::object item = given ? bound->objects[i] : ResultOf(results[i], as);
    PyList_SetItem(list, Py_ssize_t(i), item.release().ptr());
  }
  return held;
}

nb::object RunSession(PySession& s, const nb::args& given, nb::handle out, nb::handle as_name) {
  const As as = ToAs(as_name);
  const Use use(s);
  const std::vector<TensorPtr> inputs = InputsOf(*s.program, given);
  Results results;
  if (out.is_none()) {
    WithoutGil(s.token, Threads::kTeam, [&] { s.session.RunInto(inputs, &results); });
    return ListOf(results, nullptr, as);
  }
  const Bound bound = BoundOf(*s.program, out);
  WithoutGil(s.token, Threads::kTeam, [&] { results = s.session.RunBound(inputs, bound.tensors); });
  return ListOf(results, &bound, as);
}

/// A run that was started; keeps its session.
struct PyPending {
  PySession* session;
  nb::object owner;
  std::optional<PendingRun> run;
};

nb::object WaitFor(PyPending& p, nb::handle as_name) {
  const As as = ToAs(as_name);
  WEFT_CHECK(p.run, kApiMisuse, "the results of this run have been taken");
  const Use use(*p.session);
  const std::vector<TensorPtr> results =
      WithoutGil(p.session->token, Threads::kTeam, [&] { return p.run->Wait(); });
  p.run.reset();
  Results writable;
  writable.reserve(results.size());
  for (const TensorPtr& t : results) writable.push_back(std::const_pointer_cast<Tensor>(t));
  return ListOf(writable, nullptr, as);
}

std::vector<StepTime> Profile(PySession& s, const nb::args& given) {
  const Use use(s);
  const std::vector<TensorPtr> inputs = InputsOf(*s.program, given);
  return WithoutGil(s.token, Threads::kTeam, [&] { return s.session.Profile(inputs); });
}

}  // namespace

void BindSession(nb::module_& m) {
  nb::class_<StepTime>(m, "StepTime", "One step of a run and its time.")
      .def_ro("name", &StepTime::name)
      .def_ro("kind", &StepTime::kind, "'kernel', 'library', 'interpreter', 'shape', 'copy' ...")
      .def_ro("duration", &StepTime::duration, "In `unit`.")
      .def_prop_ro(
          "unit", [](const StepTime& t) { return NameOf(t.unit); }, "'us' or 'cycles'.")
      .def_prop_ro(
          "microseconds",
          [](const StepTime& t) { return t.unit == TimeUnit::kMicroseconds ? t.duration : 0; },
          "0 where the backend counts cycles.")
      .def_ro("track", &StepTime::track, "What it ran on, where several work side by side.")
      .def_ro("start", &StepTime::start,
              "Since the run began, in `unit`; negative: when the step before it ended.")
      .def_ro("bytes", &StepTime::bytes, "Of its operands and results.")
      .def_ro("flops", &StepTime::flops)
      .def_ro("how", &StepTime::how, "Of a library call: what it runs.")
      .def_ro("inside", &StepTime::in, "Bodies and regions around it; empty: none.")
      .def_ro("times", &StepTime::times, "How often it ran.")
      .def("__repr__", [](const StepTime& t) {
        return "<StepTime " + t.name + " (" + t.kind + "): " + std::to_string(t.duration) + " " +
               NameOf(t.unit) + ">";
      });
  nb::class_<PyPending>(m, "PendingRun", "A run that `Session.start` has begun.")
      .def_prop_ro("ready",
                   [](const PyPending& p) {
                     // While another thread waits for it, it is not.
                     return !p.run || (!p.session->busy && p.run->ready());
                   })
      .def("wait", WaitFor, nb::kw_only(), "results"_a = nb::none(),
           nb::sig("def wait(self, *, results: str | None = None) -> list[typing.Any]"),
           "Waits for the results and gives them. To be called once.");
  nb::class_<PySession>(
      m, "Session", nb::is_weak_referenceable(),
      "Runs a program. It owns the memory of intermediate results, and its variables unless it "
      "is given a store; one thread at a time may use it.")
      .def(
          "__init__",
          [](PySession* self, const SharedProgram& program, std::shared_ptr<VariableStore> store) {
            // It puts initial values into the store, and may have to wait for that.
            const nb::gil_scoped_release released;
            new (self) PySession(program, std::move(store));
          },
          "program"_a, "store"_a.none() = nb::none())
      .def_prop_ro("program", [](const PySession& s) { return s.program; })
      .def_prop_ro("store", [](const PySession& s) { return s.session.store(); })
      .def("run", RunSession, "inputs"_a, "out"_a = nb::none(), "results"_a = nb::none(),
           nb::sig("def run(self, *inputs: typing.Any, out: typing.Any = None, results: str | "
                   "None = None) -> list[typing.Any]"),
           "Runs the program: inputs in the order of `program.inputs`, or one dict by name. Gives "
           "a list with an array for each output.\n\n"
           "`out` has arrays that results are written into: one for each output (None: a new "
           "one), or a dict by name; they have the dtype and shape of the result, and may be "
           "inputs too. `results` says what new results are: 'numpy' (by default), 'torch' or "
           "'weft'.")
      .def(
          "start",
          [](nb::handle_t<PySession> self, const nb::args& given) {
            auto& s = nb::cast<PySession&>(self);
            const Use use(s);
            const std::vector<TensorPtr> inputs = InputsOf(*s.program, given);
            return PyPending{&s, nb::borrow(self), WithoutGil(s.token, Threads::kTeam, [&] {
                               return s.session.Start(inputs);
                             })};
          },
          "inputs"_a, nb::sig("def start(self, *inputs: typing.Any) -> PendingRun"),
          "Begins a run and returns at once, where the program runs on a device; elsewhere the run "
          "is done then. Runs of one session happen in their order.")
      .def("profile", Profile, "inputs"_a,
           nb::sig("def profile(self, *inputs: typing.Any) -> list[StepTime]"),
           "Runs the program and times every step.")
      .def(
          "cancel", [](PySession& s) { s.token.Cancel(); },
          "Ends the run that is under way in another thread: it raises weft.CancelledError there. "
          "The session stays good.")
      .def_prop_ro(
          "arena_bytes", [](const PySession& s) { return s.session.arena_bytes(); },
          "What the last run took for intermediate results and library calls.")
      .def_prop_ro(
          "live_bytes", [](const PySession& s) { return s.session.live_bytes(); },
          "The most of it that is needed at once.")
      .def_prop_ro(
          "memory",
          [](const PySession& s) {
            const SessionMemory m = s.session.memory();
            nb::dict d;
            d["peak_bytes"] = m.peak_bytes;
            d["arena_bytes"] = m.arena_bytes;
            d["bound_bytes"] = m.bound_bytes;
            d["scratch_bytes"] = m.scratch_bytes;
            d["output_bytes"] = m.output_bytes;
            d["budget_bytes"] =
                m.budget_bytes < 0 ? nb::object(nb::none()) : nb::int_(m.budget_bytes);
            d["budget_met"] = m.budget_met;
            d["way"] = m.way;
            d["recompute_flops"] = m.recompute_flops;
            return d;
          },
          nb::sig("def memory(self) -> dict[str, int | bool | None]"),
          "What the last run took, by kind; `way` counts from the plan that computes nothing "
          "twice.")
      .def_prop_ro(
          "bytes_moved", [](const PySession& s) { return s.session.bytes_moved(); },
          "What kernels and library calls read and write in one run.")
      .def_prop_ro(
          "packs", [](const PySession& s) { return s.session.packs(); },
          "Times that a library call has been made ready for steady inputs.")
      .def("__repr__", [](const PySession& s) {
        return "<Session of " + std::to_string(s.program->inputs().size()) + " inputs, " +
               std::to_string(s.program->outputs().size()) + " outputs>";
      });
}

}  // namespace weft::python
