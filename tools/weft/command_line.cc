/// command_line.cc: see command_line.h.
#include "command_line.h"

#include <cmath>
#include <limits>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr int64_t kMostThreads = 1024;  // what OMP_NUM_THREADS is held to as well

}  // namespace

CLI::Validator WholeNumber(int64_t lowest, int64_t highest) {
  // Without a name: it would be part of the option's type in the help.
  return CLI::Validator(
      [lowest, highest](std::string& text) {
        const auto value = TryParseInt64(text);
        if (value && *value >= lowest && *value <= highest) return std::string();
        return highest == std::numeric_limits<int64_t>::max()
                   ? fmt::format("expected a whole number >= {}, got '{}'", lowest, text)
                   : fmt::format("expected a whole number from {} to {}, got '{}'", lowest, highest,
                                 text);
      },
      "");
}

CLI::Validator NonNegative() {
  return CLI::Validator(
      [](std::string& text) {
        const auto value = TryParseDouble(text);
        return value && std::isfinite(*value) && *value >= 0
                   ? std::string()
                   : fmt::format("expected a number >= 0, got '{}'", text);
      },
      "");
}

CLI::Option* AddList(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                     const std::string& doc) {
  return app->add_option(name, *values, doc)->expected(1)->allow_extra_args(false)->take_all();
}

void AddModel(CLI::App* app, ModelArgs* args) {
  app->add_option("MODEL", args->path, "model: .onnx, .pb, .weft, .json or .weftx; - for stdin")
      ->required();
  app->add_option("--limits", args->limits, "bounds, as in nodes=1000,tensor_bytes=2G (see doctor)")
      ->type_name("LIST");
  app->add_flag("--json", args->json, "one JSON object on stdout");
  app->add_flag("--strict", args->strict,
                "refuse what the ONNX standard forbids, also where it has one meaning");
}

void AddRandomWeights(CLI::App* app, ModelArgs* args) {
  app->add_flag("--random-weights", args->random_weights,
                "random values for weights that the file leaves out");
}

Limits ModelArgs::Check() const { return Limits::Parse(limits); }

void AddBind(CLI::App* app, InputArgs* args) {
  AddList(app, "--bind", &args->binds,
          "values of symbolic dimensions, by unique beginnings of their names (repeatable); "
          "default: sensible ones that the model allows")
      ->type_name("SYM=N,..");
  app->add_option("--bind-all", args->bind_all, "value of every symbolic dimension without one")
      ->type_name("N")
      ->check(WholeNumber(0, std::numeric_limits<int64_t>::max()));
  AddList(app, "--shape", &args->shapes, "dimensions of an input (repeatable)")
      ->type_name("NAME=AxBxC");
}

void AddInputs(CLI::App* app, InputArgs* args) {
  AddList(app, "--input", &args->values,
          "input from a .npy or TensorProto .pb file, - for a .npy on stdin, or numbers, as in "
          "sr=16000, x=1,2,3; one number fills the input (repeatable)")
      ->type_name("NAME=F|V,..");
  app->add_option("--load-inputs", args->load,
                  "inputs from a .npz, or a folder of NAME.npy or input_0.pb, ...")
      ->type_name("D|F");
  app->add_option("--save-inputs", args->save, "write every input to D/NAME.npy")->type_name("D");
  AddBind(app, args);
  app->add_option("--seed", args->seed, "seed of random inputs")
      ->type_name("N")
      ->capture_default_str()
      ->check(WholeNumber(0, std::numeric_limits<int64_t>::max()));
}

void AddEngine(CLI::App* app, EngineArgs* args) {
  app->add_option("--backend", args->backend,
                  "cpu (the default) or another of `weft doctor`, with parameters as in "
                  "cpu:no-fusion, cuda:1")
      ->type_name("B");
  app->add_option("--passes", args->passes, "passes instead of the backend's own")->type_name("P");
  app->add_option("--threads", args->threads, "threads; 0: all")
      ->type_name("T")
      ->check(WholeNumber(0, kMostThreads));
  app->add_flag(
      "--tune", args->calls.tune,
      "choose library calls by timing them, where no earlier run has; the choices stay in "
      "the cache and hold for later runs, with this option or without");
  app->add_flag("--tf32", args->calls.tf32,
                "let a GPU round f32 operands of matmuls and convolutions to 10 bits of mantissa");
}

}  // namespace weft::tool
