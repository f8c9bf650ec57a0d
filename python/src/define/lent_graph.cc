/// lent_graph.cc: graphs of the library in the hands of Python, for a while.
#include "define.h"

namespace weft::python {

LentGraph::LentGraph(Graph* graph)
    : owner_(graph), lent_(std::make_shared<Graph>(std::move(*graph))) {}

LentGraph::~LentGraph() {
  if (!HasEnded(*lent_)) *owner_ = Take();
}

Graph LentGraph::Take() {
  // Another thread of Python may look at it until then.
  const nanobind::gil_scoped_acquire gil;
  Graph taken = std::move(*lent_);
  EndGraph(lent_.get());
  return taken;
}

}  // namespace weft::python
