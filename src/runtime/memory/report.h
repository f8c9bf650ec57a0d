/// report.h: the account of a plan at the extents of a binding. Private to the runtime.
#pragma once

#include "runtime/binding/binding.h"
#include "weft/runtime/program/memory.h"

namespace weft {

/// What the user calls the node, or the last of those that it stands for; else its description.
std::string UserName(const NodePtr& node);

/// All but what bodies take, and the ways. `graph`: what the plan was made of.
MemoryReport ReportPlan(const Graph& graph, const ExecutionPlan& plan, const Binding& binding);

/// Of a program of regions (program/region_program.cc): each of them a block, and what they give
/// each other. `tensors`: Program::Impl::Report.
MemoryReport ReportRegions(const Program::Impl& program, const Target& target,
                           const std::vector<TensorPtr>& tensors);

/// Tensors without memory, of the inputs and variables of a program at these values of its symbols.
std::vector<TensorPtr> TensorsAt(const Program::Impl& program, const SymBindings& bindings);

/// "'conv1' 12 MiB, 'relu1' 6 MiB, input 'x' 600 KiB": the first holders, for messages.
std::string NameHolders(const MemoryReport& report, size_t most = 3);

}  // namespace weft
