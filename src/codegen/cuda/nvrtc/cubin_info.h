/// cubin_info.h: what a cubin says of a kernel in it; private to src/codegen/cuda.
#pragma once

#include <string>
#include <string_view>

namespace weft::cuda {

struct CubinInfo {
  bool found = false;    ///< is an ELF file with that kernel
  int registers = -1;    ///< per thread
  int local_bytes = -1;  ///< stack frame per thread: spills, and arrays that found no registers
};

/// Reads the ELF sections that ptxas writes. Any bytes may be given: damage gives found = false.
CubinInfo ReadCubin(std::string_view binary, const std::string& kernel);

}  // namespace weft::cuda
