/// command_line.cc: see command_line.h.
#include "command_line.h"

#include "weft/runtime/inputs/sample_inputs.h"

namespace weft::tool {
namespace {

constexpr int64_t kMostThreads = 1024;  // what OMP_NUM_THREADS is held to as well

}  // namespace

void AddModel(Options& app, ModelArgs* args) {
  app.Add("MODEL", &args->path,
          "model: .onnx, .pb, .textproto, .weft, .json or .weftx; - for stdin")
      .Required();
  app.Add("--limits LIST", &args->limits, "bounds, as in nodes=1000,tensor_bytes=2G (see doctor)");
  app.AddFlag("--json", &args->json, "one JSON object on stdout");
  app.AddFlag("--strict", &args->strict,
              "refuse what the ONNX standard forbids, also where it has one meaning");
}

void AddRandomWeights(Options& app, ModelArgs* args) {
  app.AddFlag("--random-weights", &args->random_weights,
              "random values for weights that the file leaves out");
}

Limits ModelArgs::Check() const { return Limits::Parse(limits); }

void AddBind(Options& app, InputArgs* args) {
  app.Add("--bind SYM=N,..", &args->binds,
          "values of symbolic dimensions, by unique beginnings of their names (repeatable); "
          "default: sensible ones that the model allows");
  app.Add("--bind-all N", &args->bind_all, "value of every symbolic dimension without one")
      .WholeNumber(0);
  app.Add("--shape NAME=AxBxC", &args->shapes, "dimensions of an input (repeatable)");
}

void AddInputs(Options& app, InputArgs* args) {
  app.Add("--input NAME=F|V,..", &args->values,
          "input from a .npy, .pb or .textproto file, - for a .npy on stdin, or numbers, as in "
          "sr=16000, x=1,2,3; one number fills the input (repeatable)");
  app.Add("--load-inputs D|F", &args->load,
          "inputs from a .npz, or a folder of NAME.npy or input_0.pb, ...");
  app.Add("--save-inputs D", &args->save, "write every input to D/NAME.npy");
  AddBind(app, args);
  app.Add("--seed N", &args->seed, "seed of random inputs").ShowDefault().WholeNumber(0);
}

void AddEngine(Options& app, EngineArgs* args) {
  app.Add(
      "--backend B", &args->backend,
      "cpu (the default) or another of `weft doctor`, with parameters as in cpu:no-fusion, cuda:1");
  app.Add("--passes P", &args->passes, "passes instead of the backend's own");
  app.Add("--threads T", &args->threads, "threads; 0: all").WholeNumber(0, kMostThreads);
  app.AddFlag("--tune", &args->calls.tune,
              "choose library calls by timing them, where no earlier run has; the choices stay in "
              "the cache and hold for later runs, with this option or without");
  app.AddFlag("--tf32", &args->calls.tf32,
              "let a GPU round f32 operands of matmuls and convolutions to 10 bits of mantissa");
  AddDelegates(app, &args->delegates);
  AddMemory(app, &args->memory);
}

void AddDelegates(Options& app, DelegateArgs* args) {
  app.Add("--delegate NAME,..", &args->to,
          "engines of plugins that take parts of the model, with options as in "
          "openvino:streams=2,libtorch; the same as --backend cpu+openvino");
  AddDivision(app, args);
}

void AddDivision(Options& app, DelegateArgs* args) {
  app.Add("--delegate-choice C", &args->choice,
          "all: what an engine takes it gets; auto: the cheapest division; random, random:SEED")
      .ShowDefault();
  app.Add("--delegate-only OP,..", &args->only, "operators that may be given away, Conv;MatMul");
}

MemoryOptions MemoryArgs::Check() const {
  return {MemoryBudget::Parse(budget, "--memory-budget"), ParseBindings(hints, "--hint")};
}

void AddMemory(Options& app, MemoryArgs* args) {
  app.Add("--memory-budget B", &args->budget,
          "bytes that a run may add, by computing values twice: 300M, 50% (of what it takes "
          "without), min; all:2G counts inputs, variables and weights too");
  app.Add("--hint SYM=N", &args->hints, "a likely value of a symbol, which memory is planned for");
}

}  // namespace weft::tool
