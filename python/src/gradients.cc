/// gradients.cc: gradients as nodes of a graph, and a graph with them in two parts.
#include <nanobind/stl/optional.h>

#include "call.h"
#include "graph.h"
#include "options.h"
#include "weft/core/gradient/gradient.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

struct PySplit {
  SharedGraph forward, backward;
  std::vector<size_t> retained;
};

}  // namespace

void BindGradients(nb::module_& m) {
  m.def(
      "gradients",
      [](const std::vector<PyEntry>& ys, const std::vector<PyEntry>& xs,
         const std::optional<std::vector<std::optional<PyEntry>>>& grad_ys) {
        WEFT_CHECK(!ys.empty(), kApiMisuse, "gradients of no entries");
        const SharedGraph g = ys[0].graph;
        std::vector<NodeEntry> seeds;
        if (grad_ys) {
          for (const std::optional<PyEntry>& e : *grad_ys)
            seeds.push_back(e ? EntriesIn(g, {*e})[0] : NodeEntry());
        }
        return EntriesOf(g, Gradients(*g, EntriesIn(g, ys), EntriesIn(g, xs), seeds));
      },
      "ys"_a, "xs"_a, "grad_ys"_a = nb::none(),
      nb::sig("def gradients(ys: typing.Sequence[Entry], xs: typing.Sequence[Entry], grad_ys: "
              "typing.Sequence[Entry | None] | None = None) -> list[Entry]"),
      "Adds the gradients of `ys` with respect to each of `xs` to their graph: "
      "d(sum of grad_ys[i] * ys[i]) / dx. Gradients of outputs that are not given are ones; an x "
      "that no y depends on has zeros. The graph's outputs stay as they are.");
  nb::class_<PySplit>(m, "GradientSplit", "A graph with gradients in two parts.")
      .def_ro("forward", &PySplit::forward,
              "The outputs before the gradients, then what the other part needs of them.")
      .def_ro("backward", &PySplit::backward,
              "The gradients; its last inputs are the retained outputs of `forward`.")
      .def_ro("retained", &PySplit::retained,
              "For each of the last inputs of `backward` the output of `forward` that it takes.");
  m.def(
      "split_gradient",
      [](const Graph& g, std::optional<int64_t> forward_outputs) {
        GradientSplit split = SplitGradient(g, forward_outputs.value_or(-1));
        return PySplit{std::make_shared<Graph>(std::move(split.forward)),
                       std::make_shared<Graph>(std::move(split.backward)),
                       std::move(split.retained)};
      },
      "graph"_a, "forward_outputs"_a = nb::none(),
      nb::sig("def split_gradient(graph: Graph, forward_outputs: int | None = None) -> "
              "GradientSplit"),
      "Cuts a graph that holds gradients in two that run one after the other: its first "
      "`forward_outputs` outputs (by default those that it had before the pass Gradient), and the "
      "others.");
}

}  // namespace weft::python
