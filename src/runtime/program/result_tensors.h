/// result_tensors.h: which tensors the results of a run are written into: given ones that fit, else
/// new ones, which the caller makes where the session has a ResultAllocator. Private to the
/// runtime.
#pragma once

#include <memory>
#include <vector>

#include "program_impl.h"

namespace weft {

/// Is a given tensor written in the place of a new result? `though_held`: also where others hold
/// it.
inline bool TakesResult(const std::shared_ptr<Tensor>& given, DType dtype,
                        const std::vector<int64_t>& dims, bool though_held) {
  return given && (given.use_count() == 1 || though_held) && given->dtype() == dtype &&
         given->dims() == dims && given->is_tensor() && !given->read_only();
}

/// Do two tensors share memory? A tensor and a view of it do, as do two views of what a caller has.
bool ShareMemory(const Tensor& a, const Tensor& b);

/// The tensor of result `index`, for which none was given. Throws kBadBinding for one of the
/// caller's that cannot be it.
std::shared_ptr<Tensor> NewResult(ProgramState& state, size_t index, DType dtype,
                                  const std::vector<int64_t>& dims);
/// The same with the content of `t`, which somebody else holds.
std::shared_ptr<Tensor> NewResultOf(ProgramState& state, size_t index, const Tensor& t);

}  // namespace weft
