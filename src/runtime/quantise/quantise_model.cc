/// quantise_model.cc: see quantise_model.h.
#include "weft/runtime/quantise/quantise_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure.h"
#include "observed.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Of each product alone: to order them a few samples do.
constexpr size_t kSensitivitySamples = 4;
/// Where the sum said that enough were given up and measuring does not: of those that are left so
/// large a part goes at once.
constexpr size_t kParts = 8;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

int64_t ConstantBytes(const Graph& g) {
  int64_t bytes = 0;
  for (const NodePtr& n : g.TopoOrder())
    if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n))) bytes += t->num_bytes();
  return bytes;
}

/// Rows of the pass's report by the names of its columns.
class Rows {
 public:
  explicit Rows(const PassRecord& record) : record_(record), pass_(*PassEntry::Get(record.name)) {}
  size_t size() const { return record_.report.size(); }
  template <class T>
  T Get(size_t row, const char* column) const {
    for (size_t i = 0; i < pass_.report.size(); ++i)
      if (pass_.report[i].first == column) return std::get<T>(record_.report[row][i]);
    WEFT_THROW(kInternal, "{} does not report '{}'", record_.name, column);
  }

 private:
  const PassRecord& record_;
  const PassEntry& pass_;
};

class ModelQuantiser {
 public:
  ModelQuantiser(const Samples& samples, const QuantiseOptions& options)
      : samples_(samples), options_(options), compile_(options.calibrate.compile) {}

  QuantisedModel Run(const Graph& graph) {
    Graph floats =
        ApplyPasses(graph, StandardPipeline({PipelineEnd::kSimplified}), compile_.passes);
    floats = Calibrate(std::move(floats), samples_, options_.calibrate);
    if (options_.smooth >= 0) {
      floats = ApplyPasses(std::move(floats), {{"SmoothQuant", {{"alpha", options_.smooth}}}},
                           compile_.passes);
      floats = Calibrate(std::move(floats), samples_, options_.calibrate);
    }
    std::vector<std::string> except = Split(options_.except, ';');
    Insert(floats, except);
    OutputMeter meter(graph, samples_, compile_);
    auto errors = MeasureLayers(floats, model_.graph, samples_, compile_);
    const auto worst = Lossy(floats, errors);
    for (const auto& [name, db] : worst) except.push_back(name);
    if (!worst.empty()) Insert(floats, except);
    const std::map<std::string, double> given_up = ReachTarget(floats, &meter, &except);
    if (!worst.empty() || !given_up.empty()) {
      errors = MeasureLayers(floats, model_.graph, samples_, compile_);
      for (QuantisedLayer& l : model_.layers)
        for (const auto& [name, db] : worst)
          if (l.name == name && !l.quantised()) {
            l.own_db = db;
            l.state = fmt::format("loses accuracy: {:.1f} dB, less than {}", db,
                                  FormatDouble(options_.least_sqnr_db));
          }
      for (QuantisedLayer& l : model_.layers)
        if (const auto it = given_up.find(l.name); it != given_up.end() && !l.quantised())
          l.state =
              fmt::format("loses accuracy: alone it leaves the outputs {:.1f} dB", it->second);
    }
    for (const NodePtr& n : floats.TopoOrder()) {
      const auto it = errors.find(n->id());
      QuantisedLayer* l = it == errors.end() ? nullptr : Find(n->attrs.name);
      if (!l) continue;
      l->own_db = it->second.own.sqnr_db();
      l->db = it->second.all.sqnr_db();
      l->max_error = it->second.all.max_error;
    }
    Finish(graph, &meter);
    return std::move(model_);
  }

 private:
  void Insert(const Graph& floats, const std::vector<std::string>& except) {
    std::vector<PassRecord> records;
    PassOptions passes = compile_.passes;
    passes.records = &records;
    const PassSpec insert("InsertQdq", {{"activations", options_.activations},
                                        {"symmetric", options_.symmetric},
                                        {"per_channel", options_.per_channel},
                                        {"ops", options_.ops},
                                        {"bias_correction", options_.bias_correction},
                                        {"except", Join(except, ";")}});
    model_.graph = ApplyPasses(floats, Pipeline{insert}, passes);
    model_.graph.DropAttr("range");
    model_.graph.DropAttr("channels");
    model_.layers.clear();
    const Rows rows(records.back());
    for (size_t i = 0; i < rows.size(); ++i) {
      QuantisedLayer l;
      l.name = rows.Get<std::string>(i, "node");
      l.op = rows.Get<std::string>(i, "op");
      l.state = rows.Get<std::string>(i, "state");
      l.range = rows.Get<std::string>(i, "range");
      l.scale = rows.Get<double>(i, "scale");
      l.zero = rows.Get<int64_t>(i, "zero");
      l.weights_db = rows.Get<double>(i, "weights_db");
      l.own_db = l.db = l.max_error = kNone;
      l.bytes_before = rows.Get<int64_t>(i, "bytes_before");
      l.bytes_after = rows.Get<int64_t>(i, "bytes_after");
      model_.layers.push_back(std::move(l));
    }
    const bool any = std::any_of(model_.layers.begin(), model_.layers.end(),
                                 [](const QuantisedLayer& l) { return l.quantised(); });
    if (any) return;
    const std::string first =
        model_.layers.empty() ? "" : model_.layers[0].name + ": " + model_.layers[0].state;
    ThrowError(ErrorCode::kInvalidModel, "nothing in the model can be quantised", first,
               "products with constant f32 weights are: " + options_.ops);
  }
  QuantisedLayer* Find(const std::string& name) {
    for (QuantisedLayer& l : model_.layers)
      if (l.name == name) return &l;
    return nullptr;
  }
  /// Layers that lose too much for operands that are right, by name.
  std::vector<std::pair<std::string, double>> Lossy(
      const Graph& floats, const std::map<NodeId, LayerErrors>& errors) const {
    std::vector<std::pair<std::string, double>> names;
    for (const auto& [id, e] : errors)
      if (const double db = e.own.sqnr_db();
          db < options_.least_sqnr_db && !floats.node(id)->attrs.name.empty())
        names.emplace_back(floats.node(id)->attrs.name, db);
    return names;
  }

  /// Gives up products until the outputs are as good as asked for. What each alone leaves them,
  /// by name, of those that were given up. Errors of layers add up in their squares, nearly: that
  /// says how many to give up at first, measuring whether more.
  std::map<std::string, double> ReachTarget(const Graph& floats, OutputMeter* meter,
                                            std::vector<std::string>* except) {
    std::map<std::string, double> given_up;
    if (!(meter->WorstDb(model_.graph, samples_.count) < options_.target_db)) return given_up;
    std::vector<std::string> products;
    for (const QuantisedLayer& l : model_.layers)
      if (l.quantised() && l.bytes_before > 0) products.push_back(l.name);
    std::vector<std::pair<double, std::string>> alone;  // dB; the worst first
    double noise = 0;
    for (const std::string& name : products) {
      std::vector<std::string> others = *except;
      for (const std::string& other : products)
        if (other != name) others.push_back(other);
      Insert(floats, others);
      alone.emplace_back(meter->WorstDb(model_.graph, kSensitivitySamples), name);
      noise += std::pow(10, -alone.back().first / 10);
    }
    std::sort(alone.begin(), alone.end());
    const double most = std::pow(10, -options_.target_db / 10);
    size_t next = 0;
    const auto give_up = [&] {
      noise -= std::pow(10, -alone[next].first / 10);
      given_up.emplace(alone[next].second, alone[next].first);
      except->push_back(alone[next++].second);
    };
    while (next < alone.size() && (noise > most || next == 0)) give_up();
    for (;;) {
      if (next == alone.size())
        ThrowError(
            ErrorCode::kInvalidModel,
            fmt::format("outputs do not keep {} dB with any product quantised",
                        FormatDouble(options_.target_db)),
            fmt::format("{} alone leaves {:.1f} dB", alone.back().second, alone.back().first),
            "ask for less");
      Insert(floats, *except);
      if (meter->WorstDb(model_.graph, samples_.count) >= options_.target_db) break;
      for (size_t k = 0, at_once = 1 + (alone.size() - next) / kParts; k < at_once; ++k)
        if (next < alone.size()) give_up();
    }
    return given_up;
  }

  void Finish(const Graph& graph, OutputMeter* meter) {
    std::shared_ptr<const Program> program;
    model_.outputs = meter->Measure(model_.graph, samples_.count, &program);
    model_.samples = samples_.count;
    model_.bytes_before = ConstantBytes(graph);
    model_.bytes_after = ConstantBytes(model_.graph);
    for (const PassRecord& r : program->stats().passes) {
      if (r.name != "Quantised") continue;
      const auto count = [&](const char* name) {
        const auto it = r.statistics.find(name);
        return it == r.statistics.end() ? int64_t{0} : it->second;
      };
      model_.integer_calls += count("convolutions") + count("products");
      model_.requantised += count("requantised");
      model_.moved += count("moved");
    }
  }

  const Samples& samples_;
  const QuantiseOptions& options_;
  const CompileOptions& compile_;
  QuantisedModel model_;
};

}  // namespace

QuantisedModel QuantiseModel(const Graph& graph, const Samples& samples,
                             const QuantiseOptions& options) {
  WEFT_CHECK(options.smooth <= 1, kUsage,
             "quantisation: smooth = {}, expected a number from 0 to 1", options.smooth);
  for (const NodePtr& n : graph.TopoOrder())
    if (!n->is_variable() && IsOp(n, "QuantizeLinear"))
      ThrowError(ErrorCode::kInvalidModel, "the model is quantised already", n->Describe(),
                 "give the model in floats that it was made of");
  return ModelQuantiser(samples, options).Run(graph);
}

}  // namespace weft
