/// measure.cc: see measure.h.
#include "measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "observed.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/quantized_operands.h"
#include "weft/support/check.h"

namespace weft {
namespace {

bool IsRounded(const NodeEntry& e) {
  return e.node && !e.node->is_variable() && IsOp(e.node, "DequantizeLinear");
}

/// A node of both graphs that was quantised.
struct Layer {
  NodePtr of_floats, quantised;
};
std::vector<Layer> FindLayers(const Graph& floats, const Graph& quantised) {
  std::vector<Layer> all;
  for (const NodePtr& n : floats.TopoOrder()) {
    const auto q = QuantizedOperandsOf(n);
    const NodePtr other = q && n->id() < quantised.id_bound() ? quantised.node(n->id()) : nullptr;
    if (other && IsRounded(other->inputs[q->activations[0]]) &&
        !IsRounded(n->inputs[q->activations[0]]))
      all.push_back({n, other});
  }
  return all;
}

/// Puts a copy of a quantised node beside the node that it was made of: it reads what that reads,
/// rounded, and the same constants.
class Shadows {
 public:
  explicit Shadows(Graph* g) : g_(*g) {}
  NodeEntry Add(const Layer& layer) {
    std::vector<NodeEntry> inputs;
    for (size_t i = 0; i < layer.quantised->num_inputs(); ++i) {
      const NodeEntry& e = layer.quantised->inputs[i];
      const NodeEntry read =
          i < layer.of_floats->num_inputs() ? layer.of_floats->inputs[i] : NodeEntry();
      inputs.push_back(IsRounded(e) ? Rounded(e.node, read) : read.node ? g_.at(read) : read);
    }
    return NodeEntry(g_.AddNode(layer.quantised->op(), inputs, layer.quantised->attrs.dict));
  }

 private:
  NodeEntry Rounded(const NodePtr& dequantize, const NodeEntry& read) {
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : dequantize->inputs) inputs.push_back(Constant(e));
    const NodePtr codes = dequantize->inputs[0].node;
    if (!codes->is_variable() && IsOp(codes, "QuantizeLinear"))
      inputs[0] = NodeEntry(g_.AddNode(
          "QuantizeLinear", {g_.at(read), Constant(codes->inputs[1]), Constant(codes->inputs[2])},
          codes->attrs.dict));
    return NodeEntry(g_.AddNode("DequantizeLinear", inputs, dequantize->attrs.dict));
  }
  NodeEntry Constant(const NodeEntry& e) {
    const TensorPtr t = Graph::ConstantOf(e);
    return t ? g_.AddConstant(t) : NodeEntry();
  }
  Graph& g_;
};

}  // namespace

void ErrorSums::Add(const Tensor& got, const Tensor& want) {
  if (got.dims() != want.dims()) return;  // data decide them
  const bool plain = got.dtype() == DType::kF32 && want.dtype() == DType::kF32;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double w = plain ? double(want.data_as<float>()[i]) : want.at(i),
                 g = plain ? double(got.data_as<float>()[i]) : got.at(i);
    if (!std::isfinite(w)) continue;  // of masks
    signal += w * w;
    const double error = std::isnan(g) ? std::numeric_limits<double>::infinity() : std::abs(g - w);
    noise += error * error;
    max_error = std::max(max_error, error);
  }
}

double ErrorSums::sqnr_db() const {
  if (noise > 0) return 10 * std::log10(signal / noise);
  return signal > 0 ? std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
}

std::map<NodeId, LayerErrors> MeasureLayers(const Graph& floats, const Graph& quantised,
                                            const Samples& samples, const CompileOptions& options) {
  const std::vector<Layer> layers = FindLayers(floats, quantised);
  Graph both = floats;
  Shadows shadows(&both);
  std::vector<NodeEntry> beside, in_quantised;
  for (const Layer& l : layers) {
    beside.push_back(both.at(NodeEntry(l.of_floats)));
    beside.push_back(shadows.Add(l));
    in_quantised.push_back(NodeEntry(l.quantised));
  }
  ObservedRuns own(std::move(both), beside, options), all(quantised, in_quantised, options);
  std::map<NodeId, LayerErrors> errors;
  for (size_t k = 0; k < samples.count && !layers.empty(); ++k) {
    const NamedInputs inputs = samples.get(k);
    const std::vector<TensorPtr> pairs = own.Run(inputs), rounded = all.Run(inputs);
    for (size_t i = 0; i < layers.size(); ++i) {
      LayerErrors& e = errors[layers[i].of_floats->id()];
      e.own.Add(*pairs[2 * i + 1], *pairs[2 * i]);
      e.all.Add(*rounded[i], *pairs[2 * i]);
    }
  }
  return errors;
}

OutputMeter::OutputMeter(const Graph& floats, const Samples& samples, const CompileOptions& options)
    : samples_(samples), options_(options), floats_(Compile(floats, options)) {}

std::vector<QuantisedOutput> OutputMeter::Measure(const Graph& quantised, size_t most,
                                                  std::shared_ptr<const Program>* program) {
  const std::vector<IoSpec>& outputs = floats_.program().outputs();
  const size_t count = outputs.size();
  const std::shared_ptr<const Program> made = Compile(quantised, options_);
  Session of_quantised(made);
  std::vector<ErrorSums> sums(count);
  std::vector<int64_t> rows(count, 0), same(count, 0);
  for (size_t k = 0; k < std::min(most, samples_.count); ++k) {
    const NamedInputs inputs = samples_.get(k);
    const std::vector<TensorPtr> want = floats_.Run(inputs), got = of_quantised.Run(inputs);
    for (size_t i = 0; i < count; ++i) {
      const Tensor &w = *want[i], &g = *got[i];
      if (!w.is_tensor() || !IsComputable(w.dtype()) || w.dims() != g.dims()) continue;
      sums[i].Add(g, w);
      const int64_t row = w.rank() > 0 ? w.dims().back() : 1;
      for (int64_t r = 0; row > 1 && r < w.num_elements() / row; ++r) {
        int64_t first = 0, second = 0;
        for (int64_t j = 1; j < row; ++j) {
          if (w.at(r * row + j) > w.at(r * row + first)) first = j;
          if (g.at(r * row + j) > g.at(r * row + second)) second = j;
        }
        ++rows[i];
        same[i] += first == second;
      }
    }
  }
  std::vector<QuantisedOutput> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back({outputs[i].name, sums[i].sqnr_db(), sums[i].max_error,
                   rows[i] > 0 ? double(same[i]) / double(rows[i])
                               : std::numeric_limits<double>::quiet_NaN()});
  if (program) *program = made;
  return all;
}

double OutputMeter::WorstDb(const Graph& quantised, size_t most) {
  double worst = std::numeric_limits<double>::infinity();
  for (const QuantisedOutput& o : Measure(quantised, most)) worst = std::min(worst, o.db);
  return worst;
}

}  // namespace weft
