/// elementwise.cc: the template of kernels whose every point stands for itself.
///
/// The last loop runs in vector lanes. With one loop the work range is that loop's; with several, rows of the last
/// loop are walked with an index tuple that is counted up, so that no point costs a division.
#include "codegen/llvm/templates.h"

namespace weft::llvmgen {

SymInt EmitElementwise(Emitter& e) {
  const Kernel& k = e.kernel();
  const std::vector<KernelStore> stores = ExpandedStores(k);
  e.Begin();
  const int loops = int(k.dims.size());
  if (loops == 0) {
    EmitStores(e, stores, false);
    return 0;
  }
  const SymInt inner = k.dims.back();
  bool fence = false;
  ForPoints(e, loops, [&](llvm::Value* lo, llvm::Value* hi) {
    fence = StoreRange(e, stores, loops - 1, lo, hi, inner.is_const() ? inner.value() : -1, false, false, nullptr);
  });
  if (fence) e.EmitFence();
  return 0;
}

}  // namespace weft::llvmgen
