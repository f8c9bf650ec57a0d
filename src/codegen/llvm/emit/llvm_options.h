/// llvm_options.h: what code for the host CPU is generated for.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct LlvmOptions {
  /// LLVM name of a CPU, e.g. "x86-64-v3"; empty: the host with exactly its features.
  std::string cpu;
  int vector_bits = 0;  ///< width of a native vector: 128, 256 or 512; 0: the widest of the CPU
  int threads = 2;      ///< threads of one `Compile`
  /// Outputs of this many bytes or more in total are written past the caches (no read for
  /// ownership: a third more bandwidth where the result does not fit the last-level cache anyway).
  /// Negative: never.
  int64_t streaming_bytes = int64_t{16} << 20;
  /// Work (bytes read and written) from which rows that are few, or read by columns, are cut into
  /// chunks for all threads. 0: always, into as many as there can be (tests).
  int64_t split_bytes = int64_t{256} << 10;
  bool verify = false;  ///< run LLVM's verifier on every module (tests)
};

}  // namespace weft
