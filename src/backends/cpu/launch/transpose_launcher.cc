/// transpose_launcher.cc: y[b, j, i] = x[b, i, j] recognised in a kernel's one store.
///
///   for b: for j < columns: for i < rows:
///     y[(b columns + j) rows + i] = x[(b rows + i) columns + j]
#include "transpose_launcher.h"

#include <algorithm>

#include "backends/cpu/util/transpose.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/request.h"
#include "weft/sym/symbols.h"

namespace weft::cpu {
namespace {

/// A number or an extent; unknown for everything else.
SymInt ValueOf(const Expr& e) {
  if (!e) return SymInt();
  if (e->kind() == ExprKind::kConst) return e->const_int();
  return e->kind() == ExprKind::kDim ? e->dim() : SymInt();
}

/// `offset` is the sum of steps[k] Index(k) and nothing else.
bool StepsBy(const Expr& offset, const std::vector<SymInt>& steps) {
  for (size_t k = 0; k < steps.size(); ++k) {
    const SymInt step = ValueOf(AffineCoefficient(offset, int(k)));
    if (!step.known() || step != steps[k]) return false;
  }
  return SubstituteIndices(offset, Indices(steps.size(), Expr::Int(0)))->is_const(0);
}

bool IsTransposition(const Kernel& k) {
  if (k.has_rows() || k.stores.size() != 1 || k.num_inputs != 1 ||
      (k.dims.size() != 2 && k.dims.size() != 3))
    return false;
  const KernelStore& s = k.stores[0];
  const ExprNode& load = *s.value;
  const DType t = k.buffers[size_t(s.buffer)].dtype;
  if (s.flag || load.kind() != ExprKind::kLoad || load.has_guard() ||
      k.buffers[size_t(load.buffer())].dtype != t || DTypeBits(t) != 32)
    return false;
  const SymInt columns = k.dims[k.dims.size() - 2], rows = k.dims.back();
  std::vector<SymInt> to{rows, 1}, from{1, columns};
  if (k.dims.size() == 3) {
    to.insert(to.begin(), columns * rows);
    from.insert(from.begin(), columns * rows);
  }
  return StepsBy(s.offset, to) && StepsBy(load.operand(0), from);
}

class TransposeLauncher final : public KernelLauncher {
 public:
  TransposeLauncher(const Kernel& kernel, std::shared_ptr<const Team> team)
      : team_(std::move(team)),
        from_(kernel.stores[0].value->buffer()),
        to_(kernel.stores[0].buffer) {
    std::vector<SymInt> symbols;
    for (int i = 0; i < kernel.num_symbols; ++i) symbols.push_back(KernelSymbol(i));
    sizes_ = SymProgram(symbols);
    sizes_.Add(kernel.dims.size() == 3 ? kernel.dims[0] : SymInt(1));
    sizes_.Add(kernel.dims.back());
    sizes_.Add(kernel.dims[kernel.dims.size() - 2]);
  }

  void Launch(void* const* buffers, const int64_t* dims) const override {
    int64_t size[3];
    sizes_.Run(dims, size);
    if (size[0] <= 0 || size[1] <= 0 || size[2] <= 0) return;
    const ScopedThreads scoped(team_->threads());
    // Some milliseconds between two looks at the request.
    constexpr int64_t kPoll = int64_t{1} << 24;
    const int64_t matrix = size[1] * size[2], together = std::max<int64_t>(kPoll / matrix, 1);
    for (int64_t b = 0; b < size[0]; b += together) {
      RequestScope::Poll();
      TransposeMatrices(static_cast<const float*>(buffers[from_]) + b * matrix,
                        static_cast<float*>(buffers[to_]) + b * matrix,
                        std::min(together, size[0] - b), size[1], size[2]);
    }
  }

 private:
  std::shared_ptr<const Team> team_;
  int from_, to_;
  SymProgram sizes_;
};

}  // namespace

std::shared_ptr<KernelLauncher> MakeTransposeLauncher(const Kernel& kernel,
                                                      std::shared_ptr<const Team> team) {
  if (!IsTransposition(kernel)) return nullptr;
  return std::make_shared<TransposeLauncher>(kernel, std::move(team));
}

}  // namespace weft::cpu
