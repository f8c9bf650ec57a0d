/// command_line.cc: see command_line.h.
#include "command_line.h"

#include "weft/support/check.h"

namespace weft::tool {

CLI::Option* AddList(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                     const std::string& doc) {
  return app->add_option(name, *values, doc)->expected(1)->allow_extra_args(false)->take_all();
}

void AddModel(CLI::App* app, ModelArgs* args) {
  app->add_option("MODEL", args->path, "model: .onnx, .weft, .json or .weftx")->required();
  AddList(app, "--plugin", &args->plugins, "load a plugin first (repeatable)")->type_name("F");
  app->add_option("--limits", args->limits, "bounds, as in nodes=1000,tensor_bytes=2G (see doctor)")
      ->type_name("LIST");
  app->add_flag("--json", args->json, "one JSON object on stdout");
}

Limits ModelArgs::Check() const {
  if (!plugins.empty())
    ThrowError(ErrorCode::kUnsupported, "loading plugins is not in this build", plugins[0],
               "link what registers operators and passes into your program instead");
  return Limits::Parse(limits);
}

void AddBind(CLI::App* app, InputArgs* args) {
  AddList(app, "--bind", &args->binds, "value of a symbolic extent (repeatable)")
      ->type_name("SYM=N");
}

void AddInputs(CLI::App* app, InputArgs* args) {
  AddList(app, "--input", &args->files, "input from a .npy or TensorProto .pb file (repeatable)")
      ->type_name("NAME=F");
  AddBind(app, args);
  app->add_option("--seed", args->seed, "seed of random inputs")->type_name("N");
}

}  // namespace weft::tool
