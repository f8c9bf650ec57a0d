/// quantise.cc: `weft quantise MODEL --data DIR -o OUT`: a model of floats becomes one of 8-bit
/// numbers, with what that costs, layer by layer (weft/runtime/quantise/quantise_model.h).
#include <cmath>
#include <limits>

#include "command_line.h"
#include "common.h"
#include "quantise_page.h"
#include "quantise_samples.h"
#include "weft/api/model.h"
#include "weft/runtime/quantise/quantise_model.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  SampleArgs samples;
  QuantiseOptions options;
  std::string out, method = "minmax", report, backend = "cpu";
  std::vector<std::string> skip;
  bool per_channel = false, per_tensor = false;
};

Json LayersJson(const QuantisedModel& m) {
  Json rows = Json::array();
  for (const QuantisedLayer& l : m.layers)
    rows.push_back({{"name", l.name},
                    {"op", l.op},
                    {"quantised", l.quantised()},
                    {"state", l.state},
                    {"range", l.range},
                    {"scale", l.scale},
                    {"zero", l.zero},
                    {"weights_db", l.weights_db},
                    {"own_db", l.own_db},
                    {"db", l.db},
                    {"max_error", l.max_error},
                    {"bytes_before", l.bytes_before},
                    {"bytes_after", l.bytes_after}});
  return rows;
}

void PrintReport(const Args& a, const QuantisedModel& m) {
  if (a.model.json) {
    Json outputs = Json::array();
    for (const QuantisedOutput& o : m.outputs)
      outputs.push_back(
          {{"name", o.name}, {"db", o.db}, {"max_error", o.max_error}, {"same_top", o.same_top}});
    return PrintJson({{"out", a.out},
                      {"method", a.method},
                      {"samples", m.samples},
                      {"bytes_before", m.bytes_before},
                      {"bytes_after", m.bytes_after},
                      {"integer_calls", m.integer_calls},
                      {"requantised", m.requantised},
                      {"moved", m.moved},
                      {"outputs", std::move(outputs)},
                      {"layers", LayersJson(m)}});
  }
  Table layers({"layer", "op", "state", "range", ">weights", ">alone", ">in the model",
                ">max error", ">bytes", ""});
  for (const QuantisedLayer& l : m.layers)
    layers.AddRow({l.name, l.op, l.state, l.range, Decibels(l.weights_db), Decibels(l.own_db),
                   Decibels(l.db),
                   std::isnan(l.max_error) ? "-" : fmt::format("{:.3g}", l.max_error),
                   fmt::format("{}", l.bytes_before), fmt::format("-> {}", l.bytes_after)});
  Table outputs({"output", ">signal to noise", ">max error", ">same greatest"});
  for (const QuantisedOutput& o : m.outputs)
    outputs.AddRow({o.name, Decibels(o.db), fmt::format("{:.3g}", o.max_error),
                    std::isnan(o.same_top) ? "-" : fmt::format("{:.2f} %", 100 * o.same_top)});
  PrintText(layers.ToString() + "\n" + outputs.ToString() +
            fmt::format("\n{}; constants {} -> {}; {}, {} of them with results of 8 bits\n",
                        Plural(m.samples, "sample"), FormatBytes(m.bytes_before),
                        FormatBytes(m.bytes_after), Plural(m.integer_calls, "integer call"),
                        m.requantised));
}

int RunQuantise(const Args& a) {
  const Limits limits = a.model.Check();
  WritableFormat(a.out);  // before a large model is read
  QuantiseOptions options = a.options;
  options.calibrate.method = ParseRangeMethod(a.method);
  options.calibrate.compile.backend = a.backend;
  options.calibrate.compile.passes.limits = limits;
  options.per_channel = !a.per_tensor;
  options.except = Join(a.skip, ";");
  for (char& c : options.except) c = c == ',' ? ';' : c;
  Progress progress;
  options.calibrate.compile.passes.on_pass = progress.Hook();
  const Graph graph = ReadModel(a.model);
  Samples samples = FindSamples(graph, a.samples, limits);
  const auto get = samples.get;
  samples.get = [&](size_t k) {
    progress.Show(fmt::format("sample {} of {}", k + 1, samples.count));
    return get(k);
  };
  const QuantisedModel m = QuantiseModel(graph, samples, options);
  WriteModel(m.graph, a.out, {limits});
  if (!a.report.empty()) WriteFileAtomic(a.report, QuantisePage(a.model.path, m));
  PrintReport(a, m);
  return 0;
}

}  // namespace

Command MakeQuantise(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand(
      "quantise", "quantise a model after training: 8-bit weights and activations (QDQ)");
  AddModel(app, &a->model);
  app.Add("-o,--output OUT", &a->out, "file to write: .onnx, .weft, .pb or .json").Required();
  const Option data = app.Add(
      "--data DIR", &a->samples.data,
      "inputs of some hundred runs: a folder with a folder for each (NAME.npy or input_0.pb, ...), "
      "or a folder or .npz with one NAME.npy an input, samples behind each other along axis 0");
  app.Add("--rows N", &a->samples.rows,
          "rows of axis 0 in a sample; default: as the model declares, else all")
      .WholeNumber(1);
  app.Add("--samples N", &a->samples.most, "no more samples than that").WholeNumber(1);
  app.AddFlag("--random", &a->samples.random,
              "random inputs instead of data: for a look at the mechanics only")
      .Excludes(data);
  app.Add("--seed N", &a->samples.inputs.seed, "seed of random inputs")
      .ShowDefault()
      .WholeNumber(0);
  AddBind(app, &a->samples.inputs);
  app.Add("--method M", &a->method, "how ranges follow from what was seen")
      .ShowDefault()
      .OneOf({"minmax", "percentile", "entropy", "mse"});
  app.Add("--percentile P", &a->options.calibrate.percentile,
          "percent of the numbers within the range, for that method")
      .ShowDefault();
  app.Add("--activations T", &a->options.activations, "8-bit numbers of activations")
      .ShowDefault()
      .OneOf({"u8", "s8"});
  app.AddFlag("--symmetric", &a->options.symmetric,
              "the zero point of activations is in the middle");
  const Option per_channel = app.AddFlag("--per-channel", &a->per_channel,
                                         "a scale for each filter or column of weights (default)");
  app.AddFlag("--per-tensor", &a->per_tensor, "one scale for all weights of a layer")
      .Excludes(per_channel);
  app.Add("--ops LIST", &a->options.ops, "operators that are quantised, some of these")
      .ShowDefault();
  app.Add("--skip NAMES", &a->skip,
          "nodes or weights that stay in floats, by name: A,B (repeatable)");
  app.Add("--least-sqnr DB", &a->options.least_sqnr_db,
          "a layer that alone has less signal to noise stays in floats; -inf: none")
      .ShowDefault();
  app.Add("--target-sqnr DB", &a->options.target_db,
          "give up quantised products, those first that cost the outputs most, until every output "
          "has so much signal to noise");
  app.AddFlag("--bias-correction", &a->options.bias_correction,
              "take from biases what rounded weights add on average");
  app.Add("--smooth ALPHA", &a->options.smooth,
          "SmoothQuant: weights of matmuls take over so much of the difficulty of activations, 0 "
          "to 1; 0.5 is usual")
      .NonNegative();
  app.Add("--backend B", &a->backend, "what the samples run on").ShowDefault();
  app.Add("--report F", &a->report, "a page of HTML with accuracy and size of each layer");
  return {app, [a] { return RunQuantise(*a); }};
}

}  // namespace weft::tool
