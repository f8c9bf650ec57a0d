/// cli_util.h: what the tests of the `weft` command share: a folder, a run of the
/// command, what must fail.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "temp_folder.h"
#include "weft/core/tensor/npy.h"
#include "weft/core/tensor/tensor.h"

namespace weft::e2e {

using Json = nlohmann::json;

inline constexpr const char* kModel = R"(weft 1
graph @soft(%x: f32[n, 4], %k: f32[4]) -> (%y as "out/y:0", %s) {
  %a = Mul(%x, %k)
  %b = Add(%a, %x)
  %y = Softmax(%b) {axis = -1}
  %s = Relu(%a)
}
)";

class Folder : public TempFolder {
 public:
  std::string WriteTensor(const std::string& name, DType t, std::vector<int64_t> dims) const {
    Tensor tensor(t, std::move(dims));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set(i, double(i % 5) - 2);
    WriteNpy(*this / name, tensor);
    return *this / name;
  }
};

struct Result {
  int code = -1;
  std::string out, err;
  bool says(const std::string& part) const { return err.find(part) != std::string::npos; }
};

/// Runs the command with these arguments; each is passed as it is. `stdin_from`: a file;
/// `before`: what stands before the command on a line for the shell.
inline Result Weft(const std::vector<std::string>& arguments,
                   const std::string& stdin_from = "/dev/null", const std::string& before = "") {
  const Folder folder;
  std::string line = before + " '" + Env("WEFT_BUILD_DIR") + "/bin/weft'";
  for (const std::string& a : arguments) {
    REQUIRE(a.find('\'') == std::string::npos);
    line += " '" + a + "'";
  }
  line += " >'" + (folder / "out") + "' 2>'" + (folder / "err") + "' <'" + stdin_from + "'";
  const int status = std::system(line.c_str());
  Result r;
  r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  r.out = Slurp(folder / "out");
  r.err = Slurp(folder / "err");
  INFO(line, "\n", r.err);
  CHECK(r.code >= 0);  // nothing aborts
  return r;
}

inline Json Parsed(const Result& r) {
  INFO(r.out, r.err);
  Json j = Json::parse(r.out, nullptr, false);
  REQUIRE(!j.is_discarded());
  return j;
}

/// Exit code, stable error code, a part of the message; and nothing on stdout.
inline void Fails(const std::vector<std::string>& arguments, int code, const std::string& error,
                  const std::string& message) {
  const Result r = Weft(arguments);
  INFO(r.err);
  CHECK(r.code == code);
  CHECK(r.says("error[" + error + "]"));
  CHECK(r.says(message));
  CHECK(r.out.empty());
}

}  // namespace weft::e2e
