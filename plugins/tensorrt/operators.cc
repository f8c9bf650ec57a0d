/// operators.cc: which operators TensorRT's ONNX parser takes, of which types, and how.
///
/// Source: docs/operators.md of the parser (onnx-tensorrt, release 10.15). Narrower where the
/// parser would compute otherwise than ONNX says: f64 (which it rounds to f32), 8-bit integers
/// (which it takes as quantized), training, draws, and results whose extents depend on values,
/// which want an allocator. What a table does not know of, the parser refuses when the region is
/// compiled.
#include "operators.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "host.h"

namespace weft_tensorrt {
namespace {

constexpr uint32_t Bit(WeftDType t) { return 1u << t; }
constexpr uint32_t kHalf = Bit(WEFT_F32) | Bit(WEFT_F16);
constexpr uint32_t kFloat = kHalf | Bit(WEFT_BF16);
constexpr uint32_t kNumber = kFloat | Bit(WEFT_I32) | Bit(WEFT_I64);
constexpr uint32_t kBool = Bit(WEFT_BOOL);
constexpr uint32_t kAny = kNumber | kBool;

constexpr const char* kNames[] = {"unknown", "bool", "i8",  "i16",  "i32", "i64", "u8",    "u16",
                                  "u32",     "u64",  "f16", "bf16", "f32", "f64", "string"};
std::string NameOf(WeftDType t) {
  return t >= 0 && size_t(t) < std::size(kNames) ? kNames[t] : "type " + std::to_string(t);
}
std::string NamesOf(uint32_t types) {
  std::string text;
  for (int32_t t = 0; t < int32_t(std::size(kNames)); ++t)
    if (types & Bit(t)) text += (text.empty() ? "" : ", ") + NameOf(t);
  return text;
}

/// A node that is asked about.
class Query {
 public:
  Query(const WeftGraph* graph, const WeftNode* node) : graph_(graph), node_(node) {}
  const WeftNode* node() const { return node_; }
  int32_t num_inputs() const { return weft->node_num_inputs(node_); }
  int32_t num_outputs() const { return weft->node_num_outputs(node_); }
  bool Has(int32_t input) const {
    return input < num_inputs() && weft->node_input(node_, input).node;
  }
  bool IsConstant(int32_t input) const {
    return !Has(input) || weft->graph_constant(graph_, weft->node_input(node_, input));
  }
  struct Type {
    WeftDType dtype = WEFT_DTYPE_UNKNOWN;
    int32_t rank = -1;
  };
  Type TypeOf(WeftEntry e) const {
    Type t;
    Check(weft->graph_type(graph_, e, &t.dtype, &t.rank, nullptr, 0));
    return t;
  }
  Type Input(int32_t i) const { return TypeOf(weft->node_input(node_, i)); }
  Type Output(int32_t i) const {
    return TypeOf({const_cast<WeftNode*>(node_), static_cast<uint32_t>(i)});
  }
  bool IsRead(int32_t output) const {
    return weft->graph_entry_uses(
               graph_, {const_cast<WeftNode*>(node_), static_cast<uint32_t>(output)}) > 0;
  }
  int64_t Int(const char* name, int64_t otherwise) const {
    int64_t value = 0;
    return weft->node_attr_int(node_, name, &value) == WEFT_OK ? value : otherwise;
  }
  std::string Text(const char* name, const char* otherwise) const {
    const char* value = nullptr;
    return weft->node_attr_string(node_, name, &value) == WEFT_OK && value ? value : otherwise;
  }
  std::vector<int64_t> Ints(const char* name) const {
    const int64_t* values = nullptr;
    size_t count = 0;
    if (weft->node_attr_ints(node_, name, &values, &count) != WEFT_OK) return {};
    return {values, values + count};
  }

 private:
  const WeftGraph* graph_;
  const WeftNode* node_;
};

// Each says why not; empty: nothing speaks against it.
using Rule = std::string (*)(const Query&);

template <class... Names>
std::string OneOf(const char* what, const std::string& value, Names... names) {
  if (((value == names) || ...)) return {};
  return std::string(what) + " '" + value + "'";
}

std::string FirstOutputOnly(const Query& q) {
  for (int32_t i = 1; i < q.num_outputs(); ++i)
    if (q.IsRead(i)) return "readers of a result behind the first";
  return {};
}
std::string SecondIsConstant(const Query& q) {
  return q.IsConstant(1) ? "" : "a second operand that is not a constant";
}
std::string NoDilations(const Query& q) {
  for (const int64_t d : q.Ints("dilations"))
    if (d != 1) return "dilations in pooling";
  return {};
}
std::string Pool(const Query& q) {
  const int32_t rank = q.Input(0).rank;
  if (rank != 4 && rank != 5) return "pooling of rank " + std::to_string(rank);
  if (std::string why = FirstOutputOnly(q); !why.empty()) return why;
  return NoDilations(q);
}
std::string ConvRank(const Query& q) {
  const int32_t rank = q.Input(0).rank;
  return rank < 3 || rank > 5 ? "convolution of rank " + std::to_string(rank) : "";
}
std::string Inference(const Query& q) {
  if (q.Int("training_mode", 0) != 0) return "training";
  return FirstOutputOnly(q);
}
std::string FirstOfEquals(const Query& q) {
  return q.Int("select_last_index", 0) != 0 ? "select_last_index" : "";
}
std::string NoReduction(const Query& q) {
  return OneOf("reduction", q.Text("reduction", "none"), "none");
}
std::string Reduce(const Query& q) { return SecondIsConstant(q); }
std::string RankFour(const Query& q) {
  return q.Input(0).rank == 4 ? "" : "rank " + std::to_string(q.Input(0).rank);
}
std::string LayerNorm(const Query& q) {
  constexpr int64_t kOnnxFloat = 1;
  if (q.Int("stash_type", kOnnxFloat) != kOnnxFloat) return "stash_type";
  return FirstOutputOnly(q);
}
std::string Resize(const Query& q) {
  std::string why = OneOf("mode", q.Text("mode", "nearest"), "nearest", "linear");
  if (why.empty())
    why = OneOf("coordinate_transformation_mode",
                q.Text("coordinate_transformation_mode", "half_pixel"), "half_pixel",
                "pytorch_half_pixel", "asymmetric", "align_corners");
  if (why.empty())
    why = OneOf("nearest_mode", q.Text("nearest_mode", "round_prefer_floor"), "floor", "ceil",
                "round_prefer_floor", "round_prefer_ceil");
  if (why.empty())
    why =
        OneOf("keep_aspect_ratio_policy", q.Text("keep_aspect_ratio_policy", "stretch"), "stretch");
  if (why.empty() && q.Int("antialias", 0) != 0) why = "antialias";
  if (why.empty() && q.Int("exclude_outside", 0) != 0) why = "exclude_outside";
  if (why.empty() && !q.Ints("axes").empty()) why = "axes";
  return why;
}
std::string Pad(const Query& q) {
  if (!q.IsConstant(1) || !q.IsConstant(3)) return "pads or axes that are not constants";
  return OneOf("mode", q.Text("mode", "constant"), "constant", "reflect", "edge");
}
std::string Einsum(const Query& q) {
  const std::string equation = q.Text("equation", "");
  if (equation.find("...") != std::string::npos) return "an ellipsis";
  // A letter twice in one term: a diagonal.
  for (size_t i = 0; i < equation.size(); ++i)
    for (size_t j = i + 1; j < equation.size() && !std::strchr(",->", equation[j]); ++j)
      if (!std::strchr(",-> ", equation[i]) && equation[i] == equation[j]) return "a diagonal";
  return {};
}
std::string TopK(const Query& q) {
  constexpr int64_t kMost = 3840;
  if (q.Int("sorted", 1) != 1) return "sorted = 0";
  if (!q.IsConstant(1)) return "k that is not a constant";
  return q.Int("k", 0) >= kMost ? "k of 3840 or more" : "";
}
std::string RecurrentNet(const Query& q) {
  if (q.Int("layout", 0) != 0) return "layout = 1";
  if (q.Int("input_forget", 0) != 0) return "input_forget";
  return {};
}
std::string SameTypes(const Query& q) {
  for (int32_t i = 1; i < q.num_inputs(); ++i)
    if (q.Has(i) && q.Input(i).dtype != q.Input(0).dtype) return "operands of different types";
  return {};
}

struct Operator {
  const char* name;
  uint32_t types;   ///< of operand `key`
  int32_t key = 0;  ///< the operand whose type decides
  Rule rule = nullptr;
};

/// Sorted by name, as ONNX's page is.
const Operator kOperators[] = {
    {"Abs", kNumber},
    {"Acos", kFloat},
    {"Acosh", kFloat},
    {"Add", kNumber},
    {"And", kBool},
    {"ArgMax", kNumber, 0, FirstOfEquals},
    {"ArgMin", kNumber, 0, FirstOfEquals},
    {"Asin", kFloat},
    {"Asinh", kFloat},
    {"Atan", kFloat},
    {"Atanh", kFloat},
    {"AveragePool", kFloat, 0, Pool},
    {"BatchNormalization", kFloat, 0, Inference},
    {"Cast", kAny},
    {"CastLike", kAny},
    {"Ceil", kFloat},
    {"Celu", kFloat},
    {"Clip", kFloat},
    {"Concat", kAny},
    {"Constant", kAny, -1},
    {"ConstantOfShape", Bit(WEFT_I64)},
    {"Conv", kFloat, 0, ConvRank},
    {"ConvTranspose", kFloat, 0, ConvRank},
    {"Cos", kFloat},
    {"Cosh", kFloat},
    {"CumSum", kFloat, 0, SecondIsConstant},
    {"DepthToSpace", kNumber},
    {"Div", kNumber},
    {"Einsum", kFloat, 0, Einsum},
    {"Elu", kFloat},
    {"Equal", kNumber},
    {"Erf", kFloat},
    {"Exp", kFloat},
    {"Expand", kAny},
    {"EyeLike", kAny},
    {"Flatten", kAny},
    {"Floor", kFloat},
    {"GRU", kFloat, 0, RecurrentNet},
    {"Gather", kAny},
    {"GatherElements", kAny},
    {"GatherND", kAny},
    {"Gelu", kFloat},
    {"Gemm", kFloat},
    {"GlobalAveragePool", kFloat},
    {"GlobalLpPool", kFloat},
    {"GlobalMaxPool", kFloat},
    {"Greater", kNumber},
    {"GreaterOrEqual", kNumber},
    {"GridSample", kHalf, 0, RankFour},
    {"HardSigmoid", kFloat},
    {"HardSwish", kFloat},
    {"Hardmax", kFloat},
    {"Identity", kAny},
    {"InstanceNormalization", kFloat},
    {"IsInf", kFloat},
    {"IsNaN", kFloat},
    {"LRN", kFloat},
    {"LSTM", kFloat, 0, RecurrentNet},
    {"LayerNormalization", kFloat, 0, LayerNorm},
    {"LeakyRelu", kFloat},
    {"Less", kNumber},
    {"LessOrEqual", kNumber},
    {"Log", kFloat},
    {"LogSoftmax", kFloat},
    {"LpNormalization", kFloat},
    {"LpPool", kFloat, 0, Pool},
    {"MatMul", kFloat},
    {"Max", kNumber},
    {"MaxPool", kFloat, 0, Pool},
    {"Mean", kFloat},
    {"MeanVarianceNormalization", kFloat},
    {"Min", kNumber},
    {"Mish", kHalf},
    {"Mod", kNumber},
    {"Mul", kNumber},
    {"Neg", kNumber},
    {"Not", kBool},
    {"OneHot", kAny, 2, SecondIsConstant},
    {"Or", kBool},
    {"PRelu", kFloat},
    {"Pad", kNumber, 0, Pad},
    {"Pow", kNumber, 0, SameTypes},
    {"RNN", kFloat, 0, RecurrentNet},
    {"Reciprocal", kFloat},
    {"ReduceL1", kNumber, 0, Reduce},
    {"ReduceL2", kFloat, 0, Reduce},
    {"ReduceLogSum", kFloat, 0, Reduce},
    {"ReduceLogSumExp", kFloat, 0, Reduce},
    {"ReduceMax", kNumber, 0, Reduce},
    {"ReduceMean", kFloat, 0, Reduce},
    {"ReduceMin", kNumber, 0, Reduce},
    {"ReduceProd", kNumber, 0, Reduce},
    {"ReduceSum", kNumber, 0, Reduce},
    {"ReduceSumSquare", kNumber, 0, Reduce},
    {"Relu", kNumber},
    {"Reshape", kAny},
    {"Resize", kFloat, 0, Resize},
    {"ReverseSequence", kAny},
    {"RoiAlign", kHalf},
    {"Round", kFloat},
    {"ScatterElements", kNumber, 0, NoReduction},
    {"ScatterND", kNumber, 0, NoReduction},
    {"Selu", kFloat},
    {"Shape", kAny},
    {"Shrink", kFloat},
    {"Sigmoid", kFloat},
    {"Sign", kNumber},
    {"Sin", kFloat},
    {"Sinh", kFloat},
    {"Size", kAny},
    {"Slice", kAny},
    {"Softmax", kFloat},
    {"Softplus", kFloat},
    {"Softsign", kFloat},
    {"SpaceToDepth", kNumber},
    {"Split", kAny, 0, SecondIsConstant},
    {"Sqrt", kFloat},
    {"Squeeze", kAny, 0, SecondIsConstant},
    {"Sub", kNumber},
    {"Sum", kNumber},
    {"Tan", kFloat},
    {"Tanh", kFloat},
    {"ThresholdedRelu", kFloat},
    {"Tile", kAny},
    {"TopK", kNumber, 0, TopK},
    {"Transpose", kAny},
    {"Trilu", kAny, 0, SecondIsConstant},
    {"Unsqueeze", kAny, 0, SecondIsConstant},
    {"Where", kAny, 1},
    {"Xor", kBool},
};

constexpr const char* kByValues[] = {"Compress", "NonMaxSuppression", "NonZero", "Range", "Unique"};
constexpr const char* kDraws[] = {"Bernoulli",        "Dropout",          "Multinomial",
                                  "RandomNormal",     "RandomNormalLike", "RandomUniform",
                                  "RandomUniformLike"};
constexpr const char* kBodies[] = {"If", "Loop", "Scan", "SequenceMap"};

template <size_t N>
bool IsIn(const std::string& name, const char* const (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string NotInTable(const std::string& name) {
  if (const size_t colon = name.find("::"); colon != std::string::npos)
    return "TensorRT knows no operators of domain " + name.substr(0, colon + 2);
  if (IsIn(name, kByValues)) return "the extents of its result depend on values";
  if (IsIn(name, kDraws)) return "TensorRT draws with a seed of its own";
  if (IsIn(name, kBodies)) return "its body is divided by itself";
  return "TensorRT's parser does not take " + name;
}

/// Of an operand or result, "operand 1": what TensorRT has no tensors for.
std::string NotATensor(const Query::Type& t, const std::string& which) {
  constexpr int32_t kMostRank = 8;  // nvinfer1::Dims::MAX_DIMS
  if (t.dtype == WEFT_F64) return which + " is f64, which TensorRT would round to f32";
  if (t.dtype < 0 || t.dtype > WEFT_STRING || !(kAny & Bit(t.dtype)))
    return which + " is " + NameOf(t.dtype) + ", TensorRT takes " + NamesOf(kAny);
  if (t.rank < 0) return which + " has an unknown rank";
  if (t.rank > kMostRank) return which + " has rank " + std::to_string(t.rank) + ", at most 8";
  return {};
}

}  // namespace

std::string WhyNot(const WeftGraph* graph, const WeftNode* node) {
  const std::string name = weft->node_op(node);
  const auto end = std::end(kOperators);
  const auto op = std::lower_bound(
      std::begin(kOperators), end, name,
      [](const Operator& o, const std::string& n) { return std::strcmp(o.name, n.c_str()) < 0; });
  if (op == end || name != op->name) return NotInTable(name);
  const Query q(graph, node);
  for (int32_t i = 0; i < q.num_inputs(); ++i) {
    if (!q.Has(i)) continue;
    const Query::Type t = q.Input(i);
    if (std::string why = NotATensor(t, "operand " + std::to_string(i)); !why.empty()) return why;
    if (i == op->key && !(op->types & Bit(t.dtype)))
      return "operand " + std::to_string(i) + " is " + NameOf(t.dtype) + ", TensorRT's " + name +
             " takes " + NamesOf(op->types);
  }
  for (int32_t i = 0; i < q.num_outputs(); ++i)
    if (std::string why = NotATensor(q.Output(i), "result " + std::to_string(i)); !why.empty())
      return why;
  const std::string why = op->rule ? op->rule(q) : std::string();
  return why.empty() ? why : "TensorRT's " + name + " does not take " + why;
}

}  // namespace weft_tensorrt
