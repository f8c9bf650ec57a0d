/// sized_places.cc: see sized_places.h.
#include "sized_places.h"

#include <algorithm>

#include "runtime/program/result_tensors.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

namespace weft {

const FSizedCompute* SizedRoutine(const Backend& backend, const NodePtr& n) {
  const Target target = backend.target();
  if (target.traits().device_memory || target.library().empty()) return nullptr;
  return Op::GetAttr<FSizedCompute>("FSizedCompute." + target.library()).find(n->op());
}

std::shared_ptr<Tensor> KeptBlock::Place(Backend& backend, DType dtype, std::vector<int64_t> dims) {
  const int64_t need = DTypeBytes(dtype, NumElements(dims));
  RequestScope::CheckTensor(need);
  const int64_t wanted = std::max<int64_t>({need, least, 64});
  if (!memory || wanted > bytes || memory.use_count() > 1) {
    // A size that grew once is likely to grow again.
    const bool grows = memory && need > std::max(bytes, least);
    bytes = std::max(grows ? CheckedAdd(need, need / 4) : wanted, memory ? bytes : 0);
    memory = nullptr;
    memory = backend.Allocate(bytes);
  }
  return std::make_shared<Tensor>(dtype, std::move(dims), memory.get(), memory);
}

void* SizedPlaces::Place(size_t k, DType dtype, std::vector<int64_t> dims) {
  WEFT_ICHECK(k < results_.size() && !results_[k].tensor, "result {} of {}", k, results_.size());
  Result& r = results_[k];
  if (r.output) {
    std::shared_ptr<Tensor>& own = *r.output;
    if (!TakesResult(own, dtype, dims, state_.keeps_outputs))
      own = NewResult(state_, r.index, dtype, dims);
    r.tensor = own;
    return own->mutable_data();
  }
  r.tensor = r.block->Place(backend_, dtype, std::move(dims));
  return r.tensor->mutable_data();
}

TensorPtr SizedPlaces::Take(size_t k) {
  WEFT_ICHECK(results_[k].tensor, "result {} was not placed", k);
  return std::move(results_[k].tensor);
}

}  // namespace weft
