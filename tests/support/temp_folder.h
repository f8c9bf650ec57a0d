/// temp_folder.h: files of one test case, and what the tests of commands need besides.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "weft/support/scratch_folder.h"

namespace weft::e2e {

/// "" where the variable is not set.
inline std::string Env(const char* name) {
  const char* v = std::getenv(name);
  return v ? v : "";
}

/// The file's bytes; "" where there is none.
inline std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream s;
  s << file.rdbuf();
  return s.str();
}

/// A folder for one test case, removed at its end.
class TempFolder : public ScratchFolder {
 public:
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
};

}  // namespace weft::e2e
