/// plan_report.h: the account of a plan at the extents of a binding. Private to the runtime.
#pragma once

#include "runtime/binding/binding.h"
#include "weft/runtime/memory/report.h"

namespace weft {

/// What the user calls the node, or the last of those that it stands for; else its description.
std::string UserName(const NodePtr& node);

/// All but what bodies take, and the ways. `graph`: what the plan was made of.
MemoryReport ReportPlan(const Graph& graph, const ExecutionPlan& plan, const Binding& binding);

/// "'conv1' 12 MiB, 'relu1' 6 MiB, input 'x' 600 KiB": the first holders, for messages.
std::string NameHolders(const MemoryReport& report, size_t most = 3);

}  // namespace weft
