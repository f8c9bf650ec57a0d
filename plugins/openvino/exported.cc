/// exported.cc: an engine as bytes and back, and bytes that are damaged, cut off, of another region
/// or made for other options: errors, each of them.
#include <cstdio>
#include <cstring>

#include "weft/core/module/delegate.h"
#include "weft/core/module/plugin.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

using namespace weft;

namespace {

Graph Typed(const char* text) { return ApplyPasses(ParseGraph(text), {"InferType", "InferShape"}); }

std::vector<float> RunOn(DelegateEngine& engine) {
  std::vector<float> x = {-2, -0.5, 0, 0.25, 1, 3}, y(6, 7);
  const std::vector<int64_t> dims = {2, 3};
  engine.Prepare()->Run({{DType::kF32, dims, x.data()}}, {{DType::kF32, dims, y.data()}}, nullptr);
  return y;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  LoadPlugin(argv[1]);
  const DelegateSpec spec = ParseDelegates("openvino")[0];
  spec.delegate->Version();
  const Graph body = Typed("weft 1\ngraph @g(%x: f32[2, 3]) -> (%y) {\n  %y = Tanh(%x) : ?\n}\n");
  const Graph other = Typed("weft 1\ngraph @g(%x: f32[2, 4]) -> (%y) {\n  %y = Tanh(%x) : ?\n}\n");
  DelegateRegion region;
  region.body = &body;
  region.options = spec.options;
  region.threads = 2;
  const auto engine = spec.delegate->Compile(region);
  const std::string bytes = engine->Export();
  int failures = 0;
  const auto check = [&](bool fine, const char* what) {
    if (!fine) std::printf("not so: %s\n", what);
    failures += !fine;
  };
  check(RunOn(*spec.delegate->Import(region, bytes)) == RunOn(*engine), "results are the same");

  // Says why, and never crashes.
  const auto refused = [&](const DelegateRegion& r, const std::string& b, const char* why) {
    try {
      spec.delegate->Import(r, b);
    } catch (const Error& e) {
      return std::strstr(e.what(), why) != nullptr;
    }
    return false;
  };
  for (size_t at = 0; at < bytes.size(); at += 13) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ (1 << at % 8));
    if (refused(region, damaged, "whole") || refused(region, damaged, "checksum")) continue;
    std::printf("byte %zu: ", at);
    check(false, "damage is seen");
  }
  for (const size_t size : {size_t(0), size_t(7), size_t(40), bytes.size() - 1})
    check(refused(region, bytes.substr(0, size), "whole"), "a cut is seen");
  check(refused(region, bytes + "x", "whole"), "more bytes are seen");
  DelegateRegion changed = region;
  changed.body = &other;
  check(refused(changed, bytes, "another type or shape"), "another region is seen");
  changed = region;
  changed.threads = 1;
  check(refused(changed, bytes, "was exported for"), "another number of threads is seen");
  changed = region;
  changed.options["precision"] = "bf16";
  check(refused(changed, bytes, "was exported for"), "another precision is seen");
  std::printf("%zu bytes, %d failures\n", bytes.size(), failures);
  return failures ? 1 : 0;
} catch (const Error& e) {
  std::puts(e.what());
  return 1;
}
