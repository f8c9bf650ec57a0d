/// pass.cc: passes whose bodies are Python's (weft.register_pass).
#include "weft/core/pass/pass.h"

#include "../errors.h"
#include "../options.h"
#include "define.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

/// What the body of a pass may ask for and report; good for the time of its call.
struct PyPassContext {
  PassContext* context = nullptr;
  SharedGraph graph;
  PassContext& Get() const {
    WEFT_CHECK(context, kApiMisuse, "the context of a pass is used after the pass");
    return *context;
  }
};

nb::object OptionObject(const OptionValue& value) {
  return std::visit([](const auto& v) { return nb::object(nb::cast(v)); }, value);
}

PassBody BodyOf(HeldObject f, bool takes_context) {
  return [f, takes_context](Graph g, PassContext& context) {
    LentGraph lent(&g);
    std::optional<Graph> out;
    WithPython("the body", [&] {
      auto mine = std::make_shared<PyPassContext>();
      struct End {
        PyPassContext& context;
        ~End() { context = {}; }
      } const end{*mine};
      mine->context = &context;
      mine->graph = lent.graph();
      const nb::object given = takes_context ? f.get()(lent.graph(), mine) : f.get()(lent.graph());
      SharedGraph result;
      if (given.is_none()) return true;
      if (!nb::try_cast(given, result) || !result)
        ThrowError(ErrorCode::kTypeMismatch,
                   "it gives a " + TypeNameOf(given) + ", not a graph or None");
      if (result.get() != lent.graph().get()) {
        CheckLives(*result);
        out = Graph(*result);
      }
      return true;
    });
    return out ? *std::move(out) : lent.Take();
  };
}

std::vector<std::string> Names(nb::handle given) {
  if (PyUnicode_Check(given.ptr())) return {nb::cast<std::string>(given)};
  std::vector<std::string> names;
  for (const nb::handle item : nb::iter(given)) names.push_back(nb::cast<std::string>(item));
  return names;
}

PassResult ToResult(const std::string& text) {
  if (text == "same") return PassResult::kSame;
  if (text == "appends") return PassResult::kAppends;
  if (text == "differs") return PassResult::kDiffers;
  ThrowError(ErrorCode::kUsage, "result='" + text + "'", "",
             "it is 'same', 'appends' or 'differs'");
}

void DefinePass(const std::string& name, const nb::dict& place, const std::string& doc,
                nb::object body, bool takes_context, nb::handle needs, nb::handle provides,
                nb::handle preserves, const nb::dict& options, bool changes_graph,
                const std::string& result, bool replaces) {
  if (!PyCallable_Check(body.ptr()))
    ThrowError(ErrorCode::kTypeMismatch,
               "the body is a " + TypeNameOf(body) + ", which cannot be called");
  PassBuilder builder(
      name, Owner::At(nb::cast<std::string>(place["module"]), nb::cast<std::string>(place["file"]),
                      nb::cast<int>(place["line"])));
  builder.describe(doc)
      .set_pass_body(BodyOf(HeldObject(std::move(body)), takes_context))
      .set_change_graph(changes_graph)
      .result(ToResult(result))
      .any_name();
  for (std::string& a : Names(needs)) builder.depend_graph_attr(std::move(a));
  for (std::string& a : Names(provides)) builder.provide_graph_attr(std::move(a));
  for (std::string& a : Names(preserves)) {
    if (a == "all")
      builder.preserve_all();
    else
      builder.preserve_graph_attr(std::move(a));
  }
  for (const auto& [key, value] : options) {
    // A default, or (default, doc).
    nb::object otherwise = nb::borrow(value);
    std::string said;
    if (PyTuple_Check(value.ptr()) && nb::len(value) == 2) {
      otherwise = value[0];
      said = nb::cast<std::string>(value[1]);
    }
    builder.add_option(ToOption(nb::cast<std::string>(key), otherwise), std::move(said));
  }
  if (replaces) builder.override_pass();
  const nb::gil_scoped_release released;  // others may hold the registry and want the lock
  try {
    builder.Commit();
  } catch (Error& e) {
    if (e.code() == ErrorCode::kDuplicate) e.SetHint("override=True replaces what has the name");
    throw;
  }
}

}  // namespace

void BindDefinedPasses(nb::module_& m) {
  nb::class_<PyPassContext>(m, "PassContext",
                            "What the body of a pass may ask for and report. Good for the time of "
                            "its call.")
      .def(
          "option",
          [](const PyPassContext& c, const std::string& name) {
            const PassEntry& pass = c.Get().pass();
            for (const auto& [option, doc] : pass.options)
              if (option.name == name) return OptionObject(c.Get().Value(name));
            ThrowError(ErrorCode::kUnknownOption,
                       "pass '" + pass.name + "' declares no option '" + name + "'");
          },
          "name"_a, nb::sig("def option(self, name: str) -> typing.Any"),
          "The value of an option in this call.")
      .def_prop_ro(
          "target", [](const PyPassContext& c) { return c.Get().target().name(); },
          "What the graph is compiled for: 'cpu' ...")
      .def(
          "count",
          [](const PyPassContext& c, const std::string& name, int64_t n) {
            c.Get().Count(name, n);
          },
          "name"_a, "n"_a = 1, "Adds to a statistic, which the record of the pass has.")
      .def(
          "fuel",
          [](const PyPassContext& c, const std::string& rewrite, const PyNode& node) {
            return c.Get().Fuel(rewrite, node.node());
          },
          "rewrite"_a, "node"_a,
          "To be asked before each rewrite: False where the budget of rewrites is used up.")
      .def(
          "warn", [](const PyPassContext& c, const std::string& message) { c.Get().Warn(message); },
          "message"_a, "A warning for people; the record of the pass has it too.");
  m.def("_define_pass", DefinePass, "name"_a, nb::kw_only(), "place"_a, "doc"_a, "body"_a,
        "takes_context"_a, "needs"_a, "provides"_a, "preserves"_a, "options"_a, "changes_graph"_a,
        "result"_a, "replaces"_a,
        nb::sig("def _define_pass(name: str, *, place: dict[str, typing.Any], doc: str, body: "
                "typing.Callable[..., typing.Any], takes_context: bool, needs: str | "
                "typing.Iterable[str], provides: str | typing.Iterable[str], preserves: str | "
                "typing.Iterable[str], options: dict[str, typing.Any], changes_graph: bool, "
                "result: str, replaces: bool) -> None"));
}

}  // namespace weft::python
