/// fuzz_text.cc: the text form, and its law: what was read prints to a text that reads to the same.
/// Seeds: the golden files of the passes.
#include <algorithm>
#include <filesystem>

#include "targets.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"

namespace weft::fuzz {

void RunText(std::string_view input) {
  if (input.size() > 100'000) return;
  ParseOptions options;
  options.allow_missing_data = true;
  const Graph g = ParseGraph(input, options);
  VerifyGraph(g);
  PrintOptions print;
  print.inline_all = true;
  const std::string once = PrintGraph(g, print);
  const std::string twice = PrintGraph(ParseGraph(once, options), print);
  Require(once == twice, "print(parse(print(g))) == print(g)");
}

std::vector<std::string> TextSeeds() {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const char* folder : {"tests/passes", "tests/text"})
    for (const auto& e : fs::recursive_directory_iterator(folder, ignored))
      if (e.path().extension() == ".weft") paths.push_back(e.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds = {
      "weft 1\ngraph @g<n>(%x: f32[n, 3], %w: f32[3] param = [1.0, 2.0, 3.0]) -> (%y as \"out\") "
      "{\n"
      "  %a = Mul(%x, %w) : f32[n, 3]\n  %y = Softmax(%a) {axis = 1} after(%a)\n}\n"};
  for (const std::string& path : paths) {
    // Every case of a golden file is a graph of its own, or nearly one.
    const std::string text = ReadFile(path, 1 << 20);
    for (size_t at = text.find("weft 1"); at != std::string::npos;) {
      const size_t next = text.find("weft 1", at + 1);
      seeds.push_back(text.substr(at, std::min(next, text.size()) - at));
      at = next;
    }
    for (size_t at = text.find("graph "); at != std::string::npos && at < text.size();) {
      const size_t end = text.find("\n}\n", at);
      if (end == std::string::npos) break;
      seeds.push_back("weft 1\n" + text.substr(at, end + 3 - at));
      at = text.find("graph ", end);
    }
  }
  return seeds;
}

}  // namespace weft::fuzz
