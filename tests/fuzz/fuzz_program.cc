/// fuzz_program.cc: the loader of compiled programs (`.weftx`), for the backend without machine
/// code: a file of another backend is as trusted as a shared library. An input that begins with an
/// odd byte gets a valid hash.
#include "targets.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/hash.h"

namespace weft::fuzz {

void RunProgram(std::string_view input) {
  if (input.empty()) return;
  auto file = std::make_shared<std::string>(input.substr(1));
  constexpr size_t kHashAt = 8, kBodyAt = 24;
  if ((input[0] & 1) && file->size() > kBodyAt) {
    const Hash128 h = HashBytes(file->data() + kBodyAt, file->size() - kBodyAt);
    std::string digest;
    for (uint64_t v : {h.hi, h.lo})
      for (int i = 0; i < 8; ++i) digest += char(v >> (8 * i));
    file->replace(kHashAt, digest.size(), digest);
  }
  LoadOptions options;
  options.backend = "ref";
  options.threads = 1;
  options.limits = SmallLimits();
  LoadProgramFromMemory(file->data(), file->size(), file, "fuzz", options);
}

std::vector<std::string> ProgramSeeds() {
  const Graph small = ApplyPasses(
      ParseGraph(
          "weft 1\ngraph (%x: f32[n, 4], %w: f32[4] param = [1.0, 2.0, 3.0, 4.0]) -> (%y) {\n"
          "  %a = Mul(%x, %w)\n  %y = Softmax(%a) {axis = 1}\n}\n"),
      "Simplify,Fusion,CodeGen,Schedule,PlanMemory");
  const std::string file = PackProgram(small, "ref", "");
  return {std::string(1, '\0') + file, std::string(1, '\1') + file};
}

}  // namespace weft::fuzz
