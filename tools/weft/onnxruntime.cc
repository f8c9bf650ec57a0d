/// onnxruntime.cc: see onnxruntime.h.
#include "onnxruntime.h"

#include <cstdlib>

#include "common.h"
#include "shell_check.h"
#include "weft/api/model.h"
#include "weft/core/tensor/npy.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr int kNoPackage = 3;
constexpr const char* kScript = R"(import json, sys
try:
    import numpy, onnxruntime
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(3)
model, folder = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
try:
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    known = session.get_inputs() + session.get_overridable_initializers()
    names = {i.name for i in known}
    with open(folder + "/inputs.json") as f:
        files = json.load(f)
    feeds = {n: numpy.load(folder + "/" + file) for n, file in files.items() if n in names}
    for k, value in enumerate(session.run(None, feeds)):
        numpy.save(folder + "/out_%d.npy" % k, value)
except Exception as e:
    print(str(e).replace("\n", " "), file=sys.stderr)
    sys.exit(4)
)";

}  // namespace

std::vector<TensorPtr> RunOnnxRuntime(const Graph& graph, const std::string& path,
                                      const NamedTensors& inputs, const Limits& limits) {
  const ScratchFolder folder;
  std::string model = path;
  if (model.empty()) {
    model = folder / "model.onnx";
    WriteModel(graph, model, {limits, false});
  }
  Json files = Json::object();
  for (const auto& [name, t] : inputs) {
    const std::string file = fmt::format("in_{}.npy", files.size());
    WriteNpy(folder / file, *t);
    files[name] = file;
  }
  WriteFileAtomic(folder / "inputs.json", files.ToString());
  WriteFileAtomic(folder / "run.py", kScript);
  const char* python = std::getenv("WEFT_PYTHON");
  const std::string interpreter = python && *python ? python : "python3";
  const std::string errors = folder / "errors";
  const int code =
      RunShell(fmt::format("{} {} {} {} 2>{}", ShellWord(interpreter), ShellWord(folder / "run.py"),
                           ShellWord(model), ShellWord(folder / ""), ShellWord(errors)),
               false);
  if (code != 0) {
    const std::string text = FileExists(errors) ? ReadFile(errors) : "";
    const std::string why(Trim(text));
    const bool none = code == kNoPackage || code == 126 || code == 127;
    ThrowError(ErrorCode::kUnsupported,
               none ? fmt::format("ONNX Runtime is not available: {}", why)
                    : fmt::format("ONNX Runtime gives no result: {}", why),
               "engine onnxruntime",
               none ? "pip install onnxruntime; WEFT_PYTHON names the Python that has it" : "");
  }
  std::vector<TensorPtr> out;
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    out.push_back(ReadNpy(folder / fmt::format("out_{}.npy", i), limits.file_bytes));
  return out;
}

}  // namespace weft::tool
