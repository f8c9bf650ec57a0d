/// uniform.cc: loads that happen for all lanes or for none (the padding around an image whose
/// channels are the lanes).
///
/// Where they do not, the same load reads a block of memory that holds what stands for the
/// element: a choice between two addresses, once a vector of any length, instead of a mask and a
/// select of whole vectors.
#include "emitter.h"

namespace weft::llvmgen {

llvm::Value* Emitter::ConstantBlock(llvm::Constant* value, int lanes) {
  llvm::GlobalVariable*& block = blocks_[{value, lanes}];
  if (block) return block;
  auto* all = llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(unsigned(lanes)), value);
  block = new llvm::GlobalVariable(module_, all->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                   all, "block");
  block->setAlignment(llvm::Align(uint64_t(target_.vector_bits / 8)));
  block->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return block;
}

bool Emitter::IsLoadOrConstant(const ExprNode& n) {
  const Lanes* l = lanes();
  if (n.kind() != ExprKind::kSelect || !l || l->count == 1) return false;
  const ExprNode& load = *n.operand(1);
  return load.kind() == ExprKind::kLoad && load.has_guard() &&
         n.operand(2)->kind() == ExprKind::kConst && load.operand(1) == n.operand(0) &&
         MemoryType(load.dtype()) == RegisterType(load.dtype()) &&
         !DependsOn(n.operand(0), l->loop) && IsContiguous(load.operand(0), l->loop);
}

llvm::Value* Emitter::EmitLoadOr(const ExprNode& n, llvm::Value* guard, llvm::Constant* otherwise) {
  const Lanes* l = lanes();
  llvm::Type* type = MemoryType(n.dtype(), l->count);
  const llvm::Align align{uint64_t(Bytes(n.dtype()))};
  llvm::Value* p =
      ir_.CreateGEP(MemoryType(n.dtype()), RowPointer(n.buffer(), n.operand(0), l->loop), l->base);
  // A choice of addresses, not of values: neither a mask nor a select of whole vectors.
  p = ir_.CreateSelect(guard, p, ConstantBlock(otherwise, l->count));
  if (!l->mask) return FromMemory(n.dtype(), ir_.CreateAlignedLoad(type, p, align));
  return FromMemory(
      n.dtype(), ir_.CreateMaskedLoad(type, p, align, l->mask, llvm::Constant::getNullValue(type)));
}

}  // namespace weft::llvmgen
