/// strided.h: memory of somebody else as a tensor, in whatever order its elements lie.
///
/// Memory that is dense in some order of its dims (a transposed matrix, an image with its channels
/// last) enters without a copy, as a tensor whose dims are in that order and a permutation:
///
///   ForeignTensor f = FromStrided(memory);  // what was given is Transpose(f.tensor, f.perm)
///   PermuteInput(&graph, graph.inputs()[0], f.perm);  // core/graph/permute.h: before Compile
///   session.Run({f.tensor});
///   session.Run({FromStrided(next, f.perm).tensor});  // in the order that the program is made for
///
/// Anything else (gaps, elements that several indices share, negative strides) is copied once.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft {

struct StridedMemory {
  DType dtype = DType::kUnknown;  ///< of whole bytes
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  ///< in elements; empty: dense and row-major
  void* data = nullptr;          ///< of the element with the index 0 everywhere
  bool read_only = false;
  std::shared_ptr<void> owner;  ///< keeps the memory alive
  MemoryPlace place = {};       ///< only the host's is copied
};

struct ForeignTensor {
  /// Its dims in the order in which they lie in memory, read-only as that is; or a copy.
  std::shared_ptr<Tensor> tensor;
  /// What was given is Transpose(tensor, perm): its dim d is dim perm[d] of `tensor`. Empty: it is
  /// `tensor` itself.
  std::vector<int64_t> perm;
  bool copied = false;  ///< by Weft, now
};

/// The perm of ForeignTensor that needs no copy, empty where the order is row-major; none where
/// the memory is not dense. Dims of extent 1 may say anything.
WEFT_API std::optional<std::vector<int64_t>> DensePerm(const std::vector<int64_t>& dims,
                                                       const std::vector<int64_t>& strides);

/// Without `perm` a view in the order of DensePerm, or a row-major copy where there is none. With
/// `perm` (empty: row-major) a view in that order, or a copy in it. Throws kBadInput for extents,
/// strides, permutations or a pointer that make no sense, kUnsupported for dtypes without whole
/// bytes and for a device's memory that had to be copied.
WEFT_API ForeignTensor FromStrided(StridedMemory memory);
WEFT_API ForeignTensor FromStrided(StridedMemory memory, const std::vector<int64_t>& perm);

/// Of this process, so far: what FromStrided, and whoever calls it, had to copy.
struct BorderCopies {
  int64_t copies = 0;
  int64_t bytes = 0;
};
WEFT_API BorderCopies CountBorderCopies();

}  // namespace weft
