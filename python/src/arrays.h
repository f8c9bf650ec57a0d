/// arrays.h: numpy's arrays, DLPack's tensors and Python's numbers as tensors of Weft, and back.
///
/// What is compact, aligned, of the machine's byte order and of a dtype that is stored alike comes
/// in as a view that holds a reference to the object; other arrays are copied. Results go out as
/// arrays over the tensor's own memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "weft/core/tensor/tensor.h"
#include "weft/runtime/program/program.h"

namespace weft::python {

/// Once, before anything else here.
void InitArrays();

/// What is known of the value that an object is to become; messages name `place`.
struct Wanted {
  Type type = {};
  const char* what = "";  ///< "input"
  const std::string* name = nullptr;
  std::string Place() const;
};

/// A tensor that views `object` or a copy of it. Lists are sequences, None and other values an
/// optional, dictionaries maps where that is wanted. Python's numbers and lists of them take the
/// dtype that is wanted. Throws kTypeMismatch for what no tensor can hold.
TensorPtr ToTensor(nanobind::handle object, const Wanted& wanted);
/// As ToTensor of an array in row-major order, or of a tensor whose dims lie in memory in that
/// order (dim k there is dim order[k] of `object`): the tensor has them so. Copies what lies
/// otherwise. Without `negations` the caller knows that the object is no negated view.
TensorPtr ToTensorIn(nanobind::handle object, const Wanted& wanted,
                     const std::vector<int64_t>& order, bool negations);
/// As ToTensor, never a view of the caller's memory: for what outlives the call.
TensorPtr ToOwnTensor(nanobind::handle object, const Wanted& wanted = {});
/// The same of a tensor, lists and maps with what they hold; strings are shared.
TensorPtr OwnCopy(const TensorPtr& given);
/// A view that results are written into. Throws kBadInput for what is not writable, or would have
/// to be copied.
std::shared_ptr<Tensor> ToWritable(nanobind::handle object, const Wanted& wanted);

/// The same of a tensor in another order of its dims (ToTensorIn), which is no negated view.
std::shared_ptr<Tensor> ToWritableIn(nanobind::handle object, const Wanted& wanted,
                                     const std::vector<int64_t>& order);

/// An array over the tensor's memory, which it keeps alive; lists, None and dictionaries of arrays
/// for what is no tensor. Strings become an array of objects. Where numpy has no dtype (bf16 ..
/// without ml_dtypes) the result is a weft.Tensor.
nanobind::object ToArray(const TensorPtr& tensor, bool writable);

/// From the names of Weft ("f32") and numpy ("float32"), numpy's, ml_dtypes' and torch's dtypes,
/// and Python's float, int, bool and str. Throws kTypeMismatch.
DType ToDType(nanobind::handle object);
/// numpy's dtype; of what it lacks ml_dtypes', where that is installed; null where there is none.
nanobind::object NumpyDType(DType dtype);

}  // namespace weft::python
