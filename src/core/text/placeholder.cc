/// placeholder.cc: one op object per unknown name, kept outside the registry.
#include "placeholder.h"

#include <map>
#include <memory>
#include <mutex>

#include "core/op/op_registry_access.h"

namespace weft {

const Op* PlaceholderOp(std::string_view name, int num_outputs) {
  static std::mutex mutex;
  static auto* ops = new std::map<std::pair<std::string, int>,
                                  std::unique_ptr<Op>>;  // nodes may outlive static objects
  const std::lock_guard lock(mutex);
  std::unique_ptr<Op>& op = (*ops)[{std::string(name), num_outputs}];
  if (!op) {
    op = std::make_unique<Op>();
    op->name = std::string(name);
    op->description = "not registered in this process";
    op->num_inputs = op->max_inputs = kVarg;
    op->min_inputs = 0;
    op->num_outputs = num_outputs;
    OpRegistryAccess::SetIndex(*op, ~0u);  // beyond every column: it has no attribute
  }
  return op.get();
}

}  // namespace weft
