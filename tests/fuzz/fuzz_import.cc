/// fuzz_import.cc: a ModelProto into a verified graph with types and shapes. Seeds: ONNX's own node
/// tests, as many as are small.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "targets.h"
#include "weft/core/pass/pass.h"
#include "weft/onnx/import.h"
#include "weft/support/file.h"

namespace weft::fuzz {

void RunImport(std::string_view input) {
  ImportOptions options;
  options.limits = SmallLimits();
  options.allow_unsupported = !input.empty() && (input.back() & 1);
  Graph g = ImportOnnxBytes(input, options);
  VerifyGraph(g);
  PassOptions passes;
  passes.limits = options.limits;
  ApplyPasses(std::move(g), {"InferType", "InferShape"}, passes);
}

std::vector<std::string> ImportSeeds() {
  namespace fs = std::filesystem;
  std::vector<std::string> paths, seeds;
  const char* data = std::getenv("WEFT_DATA_DIR");
  std::error_code ignored;
  for (const auto& e : fs::directory_iterator(fs::path(data ? data : ".") / "onnx/node", ignored)) {
    const fs::path model = e.path() / "model.onnx";
    if (fs::exists(model) && fs::file_size(model) < 2048) paths.push_back(model.string());
  }
  std::sort(paths.begin(), paths.end());
  for (size_t i = 0; i < paths.size(); i += 4) seeds.push_back(ReadFile(paths[i], 2048));
  if (seeds.empty()) seeds.emplace_back("\x08\x08\x3a\x00", 4);
  return seeds;
}

}  // namespace weft::fuzz
