/// cublaslt.h: products of matrices by cuBLASLt. Private to src/backends/cuda.
///
/// cuBLASLt counts along columns first. A row-major y = a b is its y^T = b^T a^T, operands swapped
/// and nothing moved: its m is our n, along which it adds a bias.
#pragma once

#include <memory>
#include <string>

#include "cublaslt_api.h"
#include "libraries.h"

namespace weft::cuda {

/// Thread-safe. Equal specs share a plan, which its algorithm was looked up for once.
class CublasLt {
 public:
  /// `api` null: the library of this machine that works on the device, opened when the first
  /// plan is asked for.
  explicit CublasLt(std::shared_ptr<Device> device,
                    std::shared_ptr<const CublasLtApi> api = nullptr,
                    std::string library = "libcublasLt.so");
  ~CublasLt();
  /// As Libraries::Product.
  std::shared_ptr<const LibraryPlan> Plan(const ProductSpec& spec);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda
