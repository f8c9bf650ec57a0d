/// cuda_text.h: what the two CUDA template printers share; private to src/codegen/cuda.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/c_emit.h"
#include "codegen/cuda/cuda_printer.h"

namespace weft::cuda {

using ctext::Emitter;

/// Body of a kElementwise kernel, without the entry's head.
void PrintElementwise(Emitter* e, const Kernel& kernel, const std::vector<KernelStore>& stores);
CudaSchedule ScheduleElementwise(const Kernel& kernel);

/// Body of a kRow kernel.
void PrintRows(Emitter* e, const Kernel& kernel, const std::vector<KernelStore>& stores);
CudaSchedule ScheduleRows(const Kernel& kernel);

/// True when `offset` moves by one element with loop `loop`.
bool IsContiguous(const Expr& offset, int loop);

/// Loads under `roots` that can be read as vectors along the last loop: at consecutive offsets and
/// not guarded, in the order of first use.
std::vector<Expr> VectorLoads(Emitter* e, const Kernel& kernel, const Exprs& roots);

/// `offset` with the last loop's index replaced by loop number dims.size(), which stands for the
/// first of a vector.
Expr AtVectorBase(const Kernel& kernel, const Expr& offset);

/// Largest element size in bytes among `stores` and `loads` that are vectorised; 0 for none.
int WidestElement(const Kernel& kernel, const std::vector<KernelStore>& stores,
                  const std::vector<Expr>& loads);

/// Number of distinct nodes of all stores: how large a printed body is.
int64_t BodySize(const std::vector<KernelStore>& stores);
bool HasReduce(const std::vector<KernelStore>& stores);
Exprs Roots(const std::vector<KernelStore>& stores);

/// Emits values and then writes of `stores` at the innermost frame. Stores in `vectors` go to lane
/// `lane` of that variable.
void PrintStores(Emitter* e, const std::vector<KernelStore>& stores,
                 const std::vector<std::string>& vectors, const std::string& lane);

}  // namespace weft::cuda
