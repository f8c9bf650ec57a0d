/// options.h: options of calls, from Python's keywords.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "weft/core/pass/pass.h"

namespace weft::python {

/// None, "nodes=1000,deadline_s=30" or a dict of them.
Limits ToLimits(nanobind::handle object);
/// "Simplify,Fusion{max_ops=64}", or a list of names and (name, options).
Pipeline ToPipeline(nanobind::handle object);
/// A value of an option of a pass. Throws kUnknownOption for what is none.
Option ToOption(const std::string& name, nanobind::handle value);
/// None, "all", a name of a check or a list of them.
Checks ToChecks(nanobind::handle object);
/// The path of a str, bytes or os.PathLike.
std::string ToPath(nanobind::handle object);

void BindPasses(nanobind::module_& m);
void BindGradients(nanobind::module_& m);
void BindModels(nanobind::module_& m);
void BindProgram(nanobind::module_& m);
void BindSession(nanobind::module_& m);
void BindStore(nanobind::module_& m);
void BindPlugins(nanobind::module_& m);
void BindWatch(nanobind::module_& m);
void BindTensor(nanobind::module_& m);

}  // namespace weft::python
