/// define.h: operators and passes whose functions are Python's, and what those functions are given.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "../graph.h"
#include "callback.h"
#include "weft/codegen/expr/expr.h"
#include "weft/core/op/op_param.h"

namespace weft::python {

/// A graph of the library's that functions of Python hold for the time of one call. Handles that
/// they keep are an error to use later.
class LentGraph {
 public:
  /// Moves the content of `graph`, whose handles stay valid, into one that Python may hold.
  explicit LentGraph(Graph* graph);
  /// Moves it back, unless `Take` has.
  ~LentGraph();
  LentGraph(const LentGraph&) = delete;
  LentGraph& operator=(const LentGraph&) = delete;
  const SharedGraph& graph() const { return lent_; }
  Graph Take();

 private:
  Graph* const owner_;
  SharedGraph lent_;
};

/// An expression, or a number as a literal. Throws kTypeMismatch for anything else.
Expr ToExpr(nanobind::handle object);

/// Attributes that an operator declares while the program runs; kept for ever. `fields` are
/// dictionaries: name, type, doc, and default, where there is one.
const ParamSchema* DeclareAttributes(const std::string& op, const nanobind::list& fields);
/// The attributes of a node of such an operator, as keywords.
nanobind::dict AttributesOf(const ParamSchema& schema, const void* values);
/// The same as text: equal ones have equal texts.
std::string AttributesText(const ParamSchema& schema, const void* values);

void BindExpr(nanobind::module_& m);
void BindDefinedOps(nanobind::module_& m);
void BindDefinedPasses(nanobind::module_& m);

}  // namespace weft::python
