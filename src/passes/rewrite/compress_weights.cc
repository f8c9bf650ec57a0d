/// compress_weights.cc: CompressWeights. Stores constant matrices of products as integers of few
/// bits with a scale for each block of a column, behind a DequantizeLinear (opset 21).
///   needs      -
///   provides   -
///   preserves  shape, dtype
///   never      takes a weight that something else reads, too, or that is small
///   changes    values: weights are rounded; the report says by how much, weight by weight
///   cost       some twenty passes over the weights (4 bits and fewer), one (8 bits)
///   errors     weights that are NaN or infinite (kInvalidModel), options out of range (kUsage)
///   source     ONNX DequantizeLinear-21; the search of scales is that of llama.cpp's K-quants:
///              the least squares scale for each of some roundings, the best of them
///
///   before  %y = MatMul(%a, %w)                              %w: f32[768, 3072]
///   after   %d = DequantizeLinear(%q, %s) {axis = 0, block_size = 32}
///           %y = MatMul(%a, %d)                              %q: i4[768, 3072]  %s: f32[24, 3072]
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// How numbers are stored.
struct Form {
  int64_t bits = 4, block = 32;
  bool zeros = false;  ///< a zero for each block too: unsigned numbers from the least weight on

  DType dtype() const {
    if (bits == 2) return zeros ? DType::kU2 : DType::kI2;
    if (bits == 4) return zeros ? DType::kU4 : DType::kI4;
    return zeros ? DType::kU8 : DType::kI8;
  }
  double lowest() const { return zeros ? 0 : -double(int64_t{1} << (bits - 1)); }
  double highest() const { return lowest() + double((int64_t{1} << bits) - 1); }
};

/// One block of a column: what it was, and what it is stored as.
struct Block {
  std::vector<double> values, codes;
  double scale = 1, zero = 0;
};

double Rounded(DType t, double v) { return Tensor::FromDoubles(t, {}, {v})->at(0); }

/// w = q scale. Of some scales, about the one that gives the largest weight the lowest code, the
/// one that leaves the least squared error, which is as much smaller as (sum w q)^2 / sum q^2 is
/// larger.
void StoreSymmetric(const Form& form, DType scale_type, Block* b) {
  double most = 0;
  for (const double v : b->values)
    if (std::abs(v) > std::abs(most)) most = v;
  b->codes.assign(b->values.size(), 0);
  b->zero = 0;
  b->scale = 1;
  if (most == 0) return;
  const auto code = [&](double v) {
    return std::clamp(std::nearbyint(v), form.lowest(), form.highest());
  };
  const int tries = form.bits == 8 ? 0 : 9;
  double gain = -1, best = form.lowest() / most;
  for (int i = -tries; i <= tries; ++i) {
    const double inverse = (form.lowest() + 0.1 * i) / most;
    double wq = 0, qq = 0;
    for (const double v : b->values) {
      const double q = code(v * inverse);
      wq += v * q;
      qq += q * q;
    }
    if (qq == 0 || wq * wq <= gain * qq) continue;
    gain = wq * wq / qq;
    best = inverse;
    b->scale = wq / qq;
  }
  b->scale = Rounded(scale_type, b->scale);
  // The scale is rounded too: a code is what is nearest with it.
  if (b->scale == 0 || !std::isfinite(b->scale)) b->scale = Rounded(scale_type, 1 / best);
  if (b->scale == 0 || !std::isfinite(b->scale)) b->scale = 1;
  for (size_t i = 0; i < b->values.size(); ++i) b->codes[i] = code(b->values[i] / b->scale);
}

/// w = (q - zero) scale, from the least to the greatest weight, 0 among them.
void StoreWithZero(const Form& form, DType scale_type, Block* b) {
  double least = 0, most = 0;
  for (const double v : b->values) {
    least = std::min(least, v);
    most = std::max(most, v);
  }
  b->scale = Rounded(scale_type, (most - least) / form.highest());
  if (b->scale == 0 || !std::isfinite(b->scale)) b->scale = 1;
  b->zero = std::clamp(std::nearbyint(-least / b->scale), 0.0, form.highest());
  b->codes.resize(b->values.size());
  for (size_t i = 0; i < b->values.size(); ++i)
    b->codes[i] =
        std::clamp(std::nearbyint(b->values[i] / b->scale) + b->zero, 0.0, form.highest());
}

/// A weight as it is stored, and how far it is from what it was.
struct Stored {
  std::shared_ptr<Tensor> codes, scale, zero;
  double max_error = 0, relative_rms = 0;
};

class Compressor {
 public:
  Compressor(Graph& g, PassContext& ctx, Form form)
      : g_(g),
        ctx_(ctx),
        form_(form),
        least_(ctx.option<int64_t>("least_elements")),
        except_(Split(ctx.option<std::string>("except"), ';')),
        edit_(g) {}

  void Run() {
    std::vector<NodePtr> weights;
    for (NodePtr n : g_.TopoOrder())
      if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n));
          t && t->rank() == 2 && IsFloat(t->dtype()) && t->num_elements() >= least_)
        weights.push_back(n);
    for (const NodePtr& w : weights) {
      const std::optional<int> summed = SummedAxis(w);
      if (!summed || IsExcepted(w)) continue;
      ctx_.cancel().Check();
      if (!ctx_.Fuel("compress", w)) break;
      Compress(w, *summed);
    }
    g_.EraseDead();
  }

 private:
  bool IsExcepted(const NodePtr& w) const {
    const auto named = [&](const std::string& name) {
      return !name.empty() && std::find(except_.begin(), except_.end(), name) != except_.end();
    };
    return named(w->attrs.name) ||
           std::any_of(w->uses().begin(), w->uses().end(),
                       [&](const Use& u) { return named(NodePtr(u.user)->attrs.name); });
  }

  /// The axis that is summed over by the product at the end of a use; -1: no product. `turned`: by
  /// way of a Transpose.
  int AxisOf(const Use& u, bool turned) const {
    const NodePtr n(u.user);
    if (u.control) return -1;
    if (u.slot == 1 && IsOp(n, "MatMul")) return turned ? 1 : 0;
    if (u.slot == 1 && IsOp(n, "Gemm"))
      return (n->has_attr("transB") && n->attr<int64_t>("transB") != 0) != turned ? 1 : 0;
    if (turned || !IsOp(n, "Transpose") || TransposePerm(n, 2) != Ints{1, 0} || g_.is_output(n) ||
        n->uses().empty())
      return -1;
    const int axis = AxisOf(n->uses()[0], true);
    for (const Use& further : n->uses())
      if (AxisOf(further, true) != axis) return -1;
    return axis;
  }
  /// Nothing where something reads it that is no product, or two sum over different axes.
  std::optional<int> SummedAxis(const NodePtr& w) const {
    if (w->uses().empty() || g_.is_output(w)) return std::nullopt;
    const int axis = AxisOf(w->uses()[0], false);
    for (const Use& u : w->uses())
      if (AxisOf(u, false) != axis) return std::nullopt;
    return axis < 0 ? std::nullopt : std::optional<int>(axis);
  }

  Stored Store(const NodePtr& w, const Tensor& t, int summed, int64_t block) const {
    const std::vector<int64_t>& dims = t.dims();
    const int64_t depth = dims[size_t(summed)], columns = dims[size_t(1 - summed)];
    const int64_t blocks = (depth + block - 1) / block;
    std::vector<int64_t> scale_dims(2);
    scale_dims[size_t(summed)] = blocks;
    scale_dims[size_t(1 - summed)] = columns;
    Stored s;
    s.codes = std::make_shared<Tensor>(form_.dtype(), dims);
    s.scale = std::make_shared<Tensor>(t.dtype(), scale_dims);
    if (form_.zeros) s.zero = std::make_shared<Tensor>(form_.dtype(), scale_dims);
    double of_errors = 0, of_weights = 0;
    Block b;
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t h = 0; h < blocks; ++h) {
        const auto at = [&](int64_t k) { return summed == 0 ? k * columns + j : j * depth + k; };
        const int64_t begin = h * block, end = std::min(depth, begin + block);
        b.values.clear();
        for (int64_t k = begin; k < end; ++k) {
          b.values.push_back(t.at(at(k)));
          if (!std::isfinite(b.values.back()))
            ThrowError(ErrorCode::kInvalidModel,
                       fmt::format("weight '{}' is {} at [{}, {}]", w->attrs.name, b.values.back(),
                                   summed == 0 ? k : j, summed == 0 ? j : k),
                       w->Describe(), "leave it out with CompressWeights{except=NAME}");
        }
        (form_.zeros ? StoreWithZero : StoreSymmetric)(form_, t.dtype(), &b);
        const int64_t place = summed == 0 ? h * columns + j : j * blocks + h;
        s.scale->set(place, b.scale);
        if (s.zero) s.zero->set_int(place, int64_t(b.zero));
        for (int64_t k = begin; k < end; ++k) {
          const double v = b.values[size_t(k - begin)], q = b.codes[size_t(k - begin)];
          s.codes->set_int(at(k), int64_t(q));
          const double error = (q - b.zero) * b.scale - v;
          s.max_error = std::max(s.max_error, std::abs(error));
          of_errors += error * error;
          of_weights += v * v;
        }
      }
    s.relative_rms = of_weights > 0 ? std::sqrt(of_errors / of_weights) : 0;
    return s;
  }

  void Compress(const NodePtr& w, int summed) {
    const TensorPtr t = Graph::ConstantOf(NodeEntry(w));
    const int64_t depth = t->dims()[size_t(summed)], block = form_.block > 0 ? form_.block : depth;
    const Stored s = Store(w, *t, summed, block);
    const std::string name = w->attrs.name.empty() ? std::string("weight") : w->attrs.name;
    std::vector<NodeEntry> in{edit_.AddParam(name + "_quantized", s.codes),
                              edit_.AddParam(name + "_scale", s.scale)};
    if (s.zero) in.push_back(edit_.AddParam(name + "_zero_point", s.zero));
    const NodeEntry made =
        edit_.Add("DequantizeLinear", in, {{"axis", int64_t(summed)}, {"block_size", block}},
                  NodeEntry(w), name + "_dequantized");
    std::map<NodeId, NodePtr> readers;
    for (const Use& u : w->uses()) readers.emplace(NodePtr(u.user)->id(), NodePtr(u.user));
    std::vector<std::string> names;
    for (const auto& [id, reader] : readers) {
      g_.MergeOrigin(made.node, reader);
      names.push_back(reader->Describe());
    }
    g_.ReplaceUses(NodeEntry(w), made);
    int64_t bytes = s.codes->num_bytes() + s.scale->num_bytes();
    if (s.zero) bytes += s.zero->num_bytes();
    ctx_.Count("weights");
    ctx_.Count("bytes_before", t->num_bytes());
    ctx_.Count("bytes_after", bytes);
    ctx_.Report({name, Join(names, ", "), fmt::format("{}x{}", t->dims()[0], t->dims()[1]),
                 t->num_bytes(), bytes, s.max_error, s.relative_rms});
  }

  Graph& g_;
  PassContext& ctx_;
  const Form form_;
  const int64_t least_;
  const std::vector<std::string> except_;
  TypedEdit edit_;
};

Graph CompressWeights(Graph g, PassContext& ctx) {
  const Form form{ctx.option<int64_t>("bits"), ctx.option<int64_t>("block"),
                  ctx.option<bool>("zeros")};
  WEFT_CHECK(form.bits == 2 || form.bits == 4 || form.bits == 8, kUsage,
             "CompressWeights: bits = {}, expected 2, 4 or 8", form.bits);
  WEFT_CHECK(form.block >= 0, kUsage,
             "CompressWeights: block = {}, expected a number of weights, or 0 for whole columns",
             form.block);
  Compressor(g, ctx, form).Run();
  return g;
}

WEFT_REGISTER_PASS(CompressWeights)
    .describe("stores constant matrices of matmuls as integers of 2, 4 or 8 bits with scales")
    .set_body(CompressWeights)
    .enters_bodies()
    .set_change_graph(true)
    .result(PassResult::kDiffers)
    .keeps_onnx()
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .option("bits", int64_t{4}, "of a weight: 2, 4 or 8")
    .option("block", int64_t{32}, "weights of a column that share a scale; 0: all")
    .option("zeros", false, "blocks have a zero as well: for weights that are not symmetric")
    .option("least_elements", int64_t{4096}, "smaller matrices stay")
    .option("except", "", "names of weights or of the nodes that read them, separated by ';'")
    .statistic("weights", "weights compressed")
    .statistic("bytes_before", "that they had")
    .statistic("bytes_after", "that they have, scales and zeros included")
    .report("weight", "its name")
    .report("read_by", "the nodes that read it")
    .report("size", "rows x columns")
    .report("bytes_before", "as it was")
    .report("bytes_after", "with scales and zeros")
    .report("max_error", "largest absolute difference of a weight")
    .report("relative_rms", "root mean square of the differences by that of the weights")
    .rewrite("compress", "a weight stored in few bits");

}  // namespace
}  // namespace weft
