/// options.cc: what a user may set, as in --delegate tensorrt:tf32=true,level=5.
#include "host.h"

namespace weft_tensorrt {

const WeftOptionDef kOptions[] = {
    {"tf32", 'b', "false", "let f32 operands of matmuls and convolutions lose 13 bits of mantissa"},
    {"fp16", 'b', "false", "let TensorRT compute f32 layers in f16 where that is faster"},
    {"bf16", 'b', "false", "let TensorRT compute f32 layers in bf16 where that is faster"},
    {"workspace", 'i', "0", "most MiB of device memory that a layer may use; 0: all there is"},
    {"level", 'i', "3", "optimization level of the builder, 0 to 5: more is slower to build"},
    {"timing_cache", 's', "", "a file that keeps what the builder has timed; empty: none"},
    {"extents", 's', "",
     "symbolic extents as MIN..OPT..MAX, by name or for all others: n=1..8..32/1..128..512"},
    {"profile", 'b', "false", "time every layer of a run, which then waits for the device"},
};
const size_t kNumOptions = sizeof kOptions / sizeof *kOptions;

namespace {

int64_t Int(const WeftDelegateOptions* options, const char* name) {
  int64_t value = 0;
  Check(weft->option_int(options, name, &value));
  return value;
}
std::string Text(const WeftDelegateOptions* options, const char* name) {
  const char* value = "";
  Check(weft->option_string(options, name, &value));
  return value;
}

}  // namespace

Settings::Settings(const WeftDelegateOptions* options)
    : tf32(Int(options, "tf32") != 0),
      fp16(Int(options, "fp16") != 0),
      bf16(Int(options, "bf16") != 0),
      profile(Int(options, "profile") != 0),
      workspace_mib(Int(options, "workspace")),
      level(Int(options, "level")),
      timing_cache(Text(options, "timing_cache")),
      extents(Text(options, "extents")) {
  if (level < 0 || level > 5)
    throw Failure{WEFT_E_USAGE, "option level: expected 0 to 5, got " + std::to_string(level)};
  constexpr int64_t kMostMib = int64_t{1} << 30;
  if (workspace_mib < 0 || workspace_mib > kMostMib)
    throw Failure{WEFT_E_USAGE,
                  "option workspace: expected MiB of memory, got " + std::to_string(workspace_mib)};
}

std::string Settings::Key() const {
  std::string key = "tf32=" + std::to_string(tf32) + " fp16=" + std::to_string(fp16);
  key += " bf16=" + std::to_string(bf16) + " workspace=" + std::to_string(workspace_mib);
  return key + " level=" + std::to_string(level) + " extents=" + extents;
}

}  // namespace weft_tensorrt
