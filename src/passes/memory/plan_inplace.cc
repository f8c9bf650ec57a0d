/// plan_inplace.cc: see plan_inplace.h. The answer is read off the kernels: an operand may
/// be overwritten by a store when every load of it, anywhere in the kernel, has the very
/// offset of the store.
///
/// A result of rows (one value a row) is stronger bound: the row's elements may be computed
/// by several threads, so an operand of one value a row that elements read too could be read
/// after it was overwritten.
#include "plan_inplace.h"

#include <map>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

bool Loads(const Exprs& values, int buffer) {
  for (const ExprNode* e : PostOrder(values))
    if (e->kind() == ExprKind::kLoad && e->buffer() == buffer) return true;
  return false;
}

Pairs KernelPairs(const Kernel& kernel) {
  Exprs values, of_elements;
  for (const KernelStore& s : kernel.stores) {
    values.push_back(s.value);
    if (!s.per_row) of_elements.push_back(s.value);
  }
  const auto nodes = PostOrder(values);
  Pairs pairs;
  for (const KernelStore& store : kernel.stores) {
    if (store.flag) continue;
    for (int b = 0; b < kernel.num_inputs; ++b) {
      if (kernel.buffers[size_t(b)].dtype != kernel.buffers[size_t(store.buffer)].dtype) continue;
      bool reads = false, elsewhere = false;
      for (const ExprNode* e : nodes)
        if (e->kind() == ExprKind::kLoad && e->buffer() == b)
          reads = true, elsewhere |= e->operand(0) != store.offset;
      if (!reads || elsewhere) continue;
      if (store.per_row && Loads(of_elements, b)) continue;
      pairs.emplace_back(b, store.buffer - kernel.num_inputs);
    }
  }
  return pairs;
}

}  // namespace

Pairs InplacePairs(const LoweredKernel& launch, int num_inputs) {
  if (!launch.is_multi()) return KernelPairs(*launch.kernel);
  // What a part may overwrite is read by no other part.
  std::vector<int> readers(size_t(num_inputs), 0);
  for (const KernelPart& p : launch.parts)
    for (int operand : p.operands)
      if (operand < num_inputs) ++readers[size_t(operand)];
  Pairs pairs;
  std::map<const Kernel*, Pairs> of_kernel;  // looked up only
  for (const KernelPart& p : launch.parts) {
    const auto [it, fresh] = of_kernel.try_emplace(p.kernel.get());
    if (fresh) it->second = KernelPairs(*p.kernel);
    for (auto [in, out] : it->second) {
      const int operand = p.operands[size_t(in)];
      if (operand < num_inputs && readers[size_t(operand)] == 1)
        pairs.emplace_back(operand, p.operands[size_t(p.kernel->num_inputs + out)] - num_inputs);
    }
  }
  return pairs;
}

Pairs InplacePairs(const NodePtr& node, const KernelMap* kernels) {
  static const auto& inplace = Op::GetAttr<FInplace>("FInplace");
  if (const LoweredKernel* k = kernels ? kernels->find(node) : nullptr)
    return InplacePairs(*k, int(node->num_inputs()));
  const FInplace* f = inplace.find(node->op());
  return f ? (*f)(node) : Pairs();
}

std::vector<bool> LoadedOperands(const LoweredKernel& launch, int num_inputs) {
  std::vector<bool> loaded(size_t(num_inputs), false);
  const auto look = [&](const Kernel& kernel, const std::vector<int>* operands) {
    Exprs values;
    for (const KernelStore& s : kernel.stores) values.push_back(s.value);
    for (const ExprNode* e : PostOrder(values)) {
      if (e->kind() != ExprKind::kLoad) continue;
      const int operand = operands ? (*operands)[size_t(e->buffer())] : e->buffer();
      if (operand < num_inputs) loaded[size_t(operand)] = true;
    }
  };
  if (!launch.is_multi()) look(*launch.kernel, nullptr);
  for (const KernelPart& p : launch.parts) look(*p.kernel, &p.operands);
  return loaded;
}

}  // namespace weft
