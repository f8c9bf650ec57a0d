/// lift_quantized.cc: quantized operators of com.microsoft. Element-wise ones, pools and movement
/// dequantize, compute and quantize, which fusion makes one kernel of; products stay products of
/// integers. Weights of few bits become constants of that dtype behind a DequantizeLinear.
#include <cmath>
#include <cstring>

#include "lift_attention.h"
#include "lift_contrib.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::onnx_import {
namespace {

std::string Dequantized(Lift* l, const std::string& x, const std::string& scale,
                        const std::string& zero, AttrDict attrs = {}) {
  std::vector<std::string> in{x, scale};
  if (!zero.empty()) in.push_back(zero);
  return l->Before("DequantizeLinear", in, std::move(attrs));
}
/// `like` has the dtype of a result whose zero is left out.
std::string Quantized(Lift* l, const std::string& x, const std::string& scale,
                      const std::string& zero, const std::string& like) {
  if (!zero.empty()) return l->Before("QuantizeLinear", {x, scale, zero});
  const DType dtype = l->dtype_of(like);
  if (dtype == DType::kUnknown) l->Unsupported("the dtype of the result is not known");
  return l->Before("QuantizeLinear", {x, scale}, {{"output_dtype", dtype}});
}

/// Operands x, scale, zero, result's scale and zero.
template <class F>
void LiftUnary(Lift* l, F compute) {
  const std::string x = Dequantized(l, l->input(0), l->input(1), l->input(2));
  const std::string y = compute(x);
  l->Replace({Quantized(l, y, l->input(3), l->input(4), l->input(0))});
}
void LiftBinary(Lift* l, const char* op) {
  const std::string a = Dequantized(l, l->input(0), l->input(1), l->input(2));
  const std::string b = Dequantized(l, l->input(3), l->input(4), l->input(5));
  l->Replace({Quantized(l, l->Before(op, {a, b}), l->input(6), l->input(7), l->input(0))});
}

/// a b in i32, scaled and in the dtype of the scales.
std::string ScaledProduct(Lift* l, const std::string& a, const std::string& b,
                          const std::string& a_zero, const std::string& b_zero,
                          const std::string& a_scale, const std::string& b_scale,
                          const std::string& summand = {}) {
  std::vector<std::string> in{a, b, a_zero, b_zero};
  while (in.back().empty()) in.pop_back();
  std::string y = l->Before("MatMulInteger", in);
  if (!summand.empty()) y = l->Before("Add", {y, summand});
  y = l->Before("CastLike", {y, b_scale});
  return l->Before("Mul", {y, l->Before("Mul", {a_scale, b_scale})});
}

// ---- weights of few bits ----

DType UnsignedOf(Lift* l, int64_t bits) {
  if (bits == 2) return DType::kU2;
  if (bits == 4) return DType::kU4;
  if (bits == 8) return DType::kU8;
  l->Unsupported(fmt::format("bits = {} is not supported, only 2, 4 and 8", bits));
}
/// The bytes of a constant read as another dtype of as many bits in all.
TensorPtr Viewed(const TensorPtr& t, DType dtype, std::vector<int64_t> dims) {
  auto* data = const_cast<void*>(t->data());  // the view is as immutable as what it views
  auto view =
      std::make_shared<Tensor>(dtype, std::move(dims), data, std::const_pointer_cast<Tensor>(t));
  WEFT_CHECK(view->num_bytes() == t->num_bytes(), kShapeMismatch,
             "a packed constant has {} bytes, {} are expected", t->num_bytes(), view->num_bytes());
  return view;
}
/// The first `count` numbers of each row.
TensorPtr Cut(const Tensor& t, int64_t count) {
  const int64_t rows = t.dims()[0], wide = t.dims()[1];
  auto y = std::make_shared<Tensor>(t.dtype(), std::vector<int64_t>{rows, count});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < count; ++c) y->set_int(r * count + c, t.at_int(r * wide + c));
  return y;
}
/// Rows of `count` packed numbers, each row filled up to whole bytes, without what fills them.
TensorPtr Unpadded(Lift* l, const TensorPtr& t, int64_t bits, int64_t rows, int64_t count) {
  const DType dtype = UnsignedOf(l, bits);
  const int64_t per_byte = 8 / bits, wide = (count + per_byte - 1) / per_byte * per_byte;
  const TensorPtr padded = Viewed(t, dtype, {rows, wide});
  return wide == count ? padded : Cut(*padded, count);
}

}  // namespace

/// B is [n, blocks, bytes of a block], each row of it one column of the product's right side.
void MatMulNBits(Lift* l) {
  const int64_t k = l->Take<int64_t>("K", 0), n = l->Take<int64_t>("N", 0);
  const int64_t block = l->Take<int64_t>("block_size", 0), bits = l->Take<int64_t>("bits", 4);
  l->Take("accuracy_level");  // how coarse the left side may become: here it does not
  l->Only("weight_prepacked", 0);
  if (k <= 0 || n <= 0 || block <= 0)
    WEFT_THROW(kBadAttribute, "K = {}, N = {}, block_size = {}: not positive", k, n, block);
  if (!l->input(4).empty()) l->Unsupported("g_idx is not supported");
  const DType dtype = UnsignedOf(l, bits);
  const TensorPtr packed = l->constant_of(l->input(1));
  if (!packed) l->Unsupported("B is not a constant");
  const int64_t wide = CheckedRoundUp(k, block), blocks = wide / block;
  const std::string scale = l->Before("Reshape", {l->input(2), l->Ints({n, blocks})});
  // What fills the last block of a column is left out where a DequantizeLinear follows.
  const bool floats = !l->input(3).empty() && l->dtype_of(l->input(3)) != DType::kU8;
  TensorPtr codes = Viewed(packed, dtype, {n, wide});
  if (!floats && wide != k) codes = Cut(*codes, k);
  const std::string q = l->Constant(codes);
  const AttrDict attrs{{"axis", 1}, {"block_size", block}};
  std::string zero = l->input(3), w;
  if (floats) {
    // Zeros that are not whole numbers: (q - zero) scale by blocks.
    const std::string own = l->Before("Reshape", {zero, l->Ints({n, blocks, 1})});
    const std::string values = l->Before(
        "Reshape", {l->Before("CastLike", {q, l->input(2)}), l->Ints({n, blocks, block})});
    const std::string apart = l->Before("Reshape", {scale, l->Ints({n, blocks, 1})});
    w = l->Before("Reshape",
                  {l->Before("Mul", {l->Before("Sub", {values, own}), apart}), l->Ints({n, -1})});
  } else {
    TensorPtr zeros;
    if (!zero.empty()) {
      const TensorPtr given = l->constant_of(zero);
      if (!given) l->Unsupported("zero_points is not a constant");
      zeros = Unpadded(l, given, bits, n, blocks);
    } else {
      auto middle = std::make_shared<Tensor>(dtype, std::vector<int64_t>{n, blocks});
      std::memset(middle->mutable_data(),
                  bits == 2   ? 0xaa
                  : bits == 4 ? 0x88
                              : 0x80,
                  size_t(middle->num_bytes()));
      zeros = middle;
    }
    w = Dequantized(l, q, scale, l->Constant(zeros), attrs);
  }
  if (floats && wide != k) w = l->Before("Slice", {w, l->Ints({0}), l->Ints({k}), l->Ints({1})});
  w = l->Before("Transpose", {w}, {{"perm", Ints{1, 0}}});
  const std::string y = l->Before("MatMul", {l->input(0), w});
  l->Replace({l->input(5).empty() ? y : l->Before("Add", {y, l->input(5)})});
}

/// Rows are picked before they become floats. An index beyond the table is an error here.
void GatherBlockQuantized(Lift* l) {
  const int64_t bits = l->Take<int64_t>("bits", 4), block = l->Take<int64_t>("block_size", 128);
  const TensorPtr table = l->constant_of(l->input(0));
  if (!table) l->Unsupported("data is not a constant");
  const int rank = table->rank();
  const auto axis_of = [&](const char* name, int64_t otherwise) {
    const int64_t axis = l->Take<int64_t>(name, otherwise);
    return axis < 0 ? axis + rank : axis;
  };
  const int64_t pick = axis_of("gather_axis", 0), along = axis_of("quantize_axis", 1);
  if (rank < 2 || pick != 0 || along != rank - 1)
    l->Unsupported(
        fmt::format("gather_axis = {} and quantize_axis = {} are not supported, only "
                    "the first and the last axis",
                    pick, along));
  const int index_rank = l->RankOf(l->input(1), "indices");
  std::vector<int64_t> dims = table->dims();
  const DType narrow = UnsignedOf(l, bits);
  const bool packed = table->dtype() == DType::kU8 && bits < 8;
  if (packed) dims.back() *= 8 / bits;
  const TensorPtr values = packed ? Viewed(table, narrow, dims) : table;
  const DType wide =
      IsSigned(values->dtype()) || values->dtype() == DType::kI4 ? DType::kI8 : DType::kU8;
  const auto picked = [&](const std::string& x) {
    return l->Before("Gather", {x, l->input(1)}, {{"axis", 0}});
  };
  const auto widened = [&](const TensorPtr& t) {
    return l->Before("Cast", {l->Constant(t)}, {{"to", wide}});
  };
  TensorPtr zeros;
  if (!l->input(3).empty()) {
    zeros = l->constant_of(l->input(3));
    if (!zeros || zeros->rank() != rank)
      l->Unsupported("zero_points is not a constant of as many axes as data");
    if (zeros->dtype() == DType::kU8 && bits < 8) {
      const auto blocks = l->ExtentOf(l->input(2), -1);
      if (!blocks) l->Unsupported("the number of blocks is not known");
      std::vector<int64_t> shape = zeros->dims();
      shape.back() = *blocks;
      int64_t rows = 1;
      for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
      zeros = Tensor::Reshaped(Unpadded(l, zeros, bits, rows, *blocks), shape);
    }
  } else if (wide == DType::kU8 && packed) {
    const auto blocks = l->ExtentOf(l->input(2), -1);
    if (!blocks) l->Unsupported("the number of blocks is not known");
    std::vector<int64_t> shape = dims;
    shape.back() = *blocks;
    const int64_t count = NumElements(shape);
    zeros = Tensor::FromDoubles(
        DType::kU8, shape, std::vector<double>(size_t(count), double(int64_t{1} << (bits - 1))));
  }
  const std::string y =
      Dequantized(l, picked(widened(values)), picked(l->input(2)),
                  zeros ? picked(widened(zeros)) : std::string(),
                  {{"axis", int64_t(index_rank + rank - 2)}, {"block_size", block}});
  l->Replace({y});
}

// ---- products ----

void DynamicQuantizeMatMul(Lift* l) {
  const auto a = l->BeforeMany("DynamicQuantizeLinear", {l->input(0)}, {}, 3);
  const std::string y = ScaledProduct(l, a[0], l->input(1), a[2], l->input(3), a[1], l->input(2));
  l->Replace({l->input(4).empty() ? y : l->Before("Add", {y, l->input(4)})});
}
void MatMulIntegerToFloat(Lift* l) {
  const std::string y = ScaledProduct(l, l->input(0), l->input(1), l->input(4), l->input(5),
                                      l->input(2), l->input(3));
  l->Replace({l->input(6).empty() ? y : l->Before("Add", {y, l->input(6)})});
}
void QGemm(Lift* l) {
  const auto side = [&](const char* flag, const std::string& x) {
    return l->Take<int64_t>(flag, 0) ? l->Before("Transpose", {x}, {{"perm", Ints{1, 0}}}) : x;
  };
  const double alpha = l->Take<double>("alpha", 1);
  const std::string a = side("transA", l->input(0)), b = side("transB", l->input(3));
  std::string y =
      ScaledProduct(l, a, b, l->input(2), l->input(5), l->input(1), l->input(4), l->input(6));
  if (alpha != 1) y = l->Before("Mul", {y, l->ScalarLike(alpha, l->input(1))});
  l->Replace({l->input(7).empty() ? y : Quantized(l, y, l->input(7), l->input(8), l->input(0))});
}
void QLinearConv(Lift* l) {
  const bool last = l->Take<int64_t>("channels_last", 0) != 0;
  std::vector<std::string> in = l->node.inputs;
  const int rank = last ? l->RankOf(in[3], "w") : 0;
  if (last) in[0] = ChannelsFirst(l, in[0], rank);
  const std::string y = l->Before("QLinearConv", in, TakeAll(l));
  l->Replace({last ? ChannelsLast(l, y, rank) : y});
}
void QAttention(Lift* l) {
  std::optional<int64_t> hidden = l->ExtentOf(l->input(1), 1);
  if (hidden) hidden = *hidden / 3;
  std::string x = ScaledProduct(l, l->input(0), l->input(1), l->input(6), l->input(7), l->input(3),
                                l->input(4));
  x = l->Before("Add", {x, l->input(2)});
  AttendProjection(l, x, l->input(2), hidden, l->input(5), l->input(8), "");
}

/// Weights are [directions, inputs, 4 hidden], of bytes. Only they are rounded here; ONNX Runtime
/// rounds what they are multiplied with, too.
void DynamicQuantizeLstm(Lift* l) {
  const auto weights = [&](size_t i, size_t scale) {
    const auto apart = [&](const std::string& x) {
      return l->RankOf(x, "a scale or zero") == 1 ? l->Before("Reshape", {x, l->Ints({-1, 1, 1})})
                                                  : l->Before("Unsqueeze", {x, l->Ints({1})});
    };
    const std::string by = apart(l->input(scale)), zero = apart(l->input(scale + 1));
    const std::string off = l->Before(
        "Sub", {l->Before("CastLike", {l->input(i), by}), l->Before("CastLike", {zero, by})});
    return l->Before("Transpose", {l->Before("Mul", {off, by})}, {{"perm", Ints{0, 2, 1}}});
  };
  std::vector<std::string> in{l->input(0), weights(1, 8), weights(2, 10)};
  for (size_t i = 3; i < 8; ++i) in.push_back(l->input(i));
  while (in.back().empty()) in.pop_back();
  l->Replace(l->BeforeMany("LSTM", in, TakeAll(l), int(l->node.outputs.size())));
}

// ---- element by element, pools, movement ----

void QLinearAdd(Lift* l) { LiftBinary(l, "Add"); }
void QLinearMul(Lift* l) { LiftBinary(l, "Mul"); }
void QLinearSigmoid(Lift* l) {
  LiftUnary(l, [&](const std::string& x) { return l->Before("Sigmoid", {x}); });
}
void QLinearLeakyRelu(Lift* l) {
  const double alpha = l->Take<double>("alpha", 0.01);
  LiftUnary(l, [&](const std::string& x) {
    return l->Before("LeakyRelu", {x}, {{"alpha", alpha}});
  });
}
void QLinearReduceMean(Lift* l) {
  const AttrValue axes = l->Take("axes");
  const int64_t keep = l->Take<int64_t>("keepdims", 1);
  LiftUnary(l, [&](const std::string& x) {
    std::vector<std::string> in{x};
    if (!axes.empty() && !axes.get<Ints>().empty()) in.push_back(l->Ints(axes.get<Ints>()));
    return l->Before("ReduceMean", in, {{"keepdims", keep}});
  });
}
void QLinearGlobalAveragePool(Lift* l) {
  const bool last = l->Take<int64_t>("channels_last", 0) != 0;
  LiftUnary(l, [&](const std::string& x) {
    if (!last) return l->Before("GlobalAveragePool", {x});
    std::vector<int64_t> axes;
    for (int i = 1; i + 1 < l->RankOf(l->input(0), "X"); ++i) axes.push_back(i);
    return l->Before("ReduceMean", {x, l->Ints(axes)});
  });
}
void QLinearAveragePool(Lift* l) {
  const bool last = l->Take<int64_t>("channels_last", 0) != 0;
  const AttrValue* window = l->node.attrs.find("kernel_shape");
  if (!window) WEFT_THROW(kBadAttribute, "com.microsoft::QLinearAveragePool needs kernel_shape");
  const int rank = int(window->get<Ints>().size()) + 2;
  const AttrDict attrs = TakeAll(l);
  LiftUnary(l, [&](const std::string& x) {
    const std::string y = l->Before("AveragePool", {last ? ChannelsFirst(l, x, rank) : x}, attrs);
    return last ? ChannelsLast(l, y, rank) : y;
  });
}
void QLinearSoftmax(Lift* l) {
  const int64_t axis = l->Take<int64_t>("axis", -1), opset = l->Take<int64_t>("opset", 13);
  LiftUnary(l, [&](const std::string& x) {
    return opset < 13 ? CoercedSoftmax(l, x, axis, l->rank_of(l->input(0)))
                      : l->Before("Softmax", {x}, {{"axis", axis}});
  });
}
void QLinearConcat(Lift* l) {
  const AttrDict axis{{"axis", l->Take<int64_t>("axis", 0)}};
  if ((l->node.inputs.size() - 2) % 3 != 0)
    WEFT_THROW(kArity,
               "com.microsoft::QLinearConcat: {} inputs, 2 and three for each part are taken",
               l->node.inputs.size());
  std::vector<std::string> parts;
  for (size_t i = 2; i < l->node.inputs.size(); i += 3)
    parts.push_back(Dequantized(l, l->input(i), l->input(i + 1), l->input(i + 2)));
  l->Replace(
      {Quantized(l, l->Before("Concat", parts, axis), l->input(0), l->input(1), l->input(2))});
}
void QLinearWhere(Lift* l) {
  const std::string x = Dequantized(l, l->input(1), l->input(2), l->input(3));
  const std::string y = Dequantized(l, l->input(4), l->input(5), l->input(6));
  l->Replace({Quantized(l, l->Before("Where", {l->input(0), x, y}), l->input(7), l->input(8),
                        l->input(1))});
}
void QEmbedLayerNormalization(Lift* l) {
  const auto part = [&](size_t i, size_t scale) {
    if (l->input(i).empty()) return std::string();
    return Dequantized(l, l->input(i), l->input(scale), l->input(scale + 5));
  };
  EmbedOperands in;
  in.ids = l->input(0);
  in.segment_ids = l->input(1);
  in.words = part(2, 8);
  in.positions = part(3, 9);
  in.segments = part(4, 10);
  in.gamma = part(5, 11);
  in.beta = part(6, 12);
  in.mask = l->input(7);
  EmbedLayerNorm(l, in);
}

/// Of com.microsoft for 16 bits and fewer than 8, before the standard had them.
void DequantizeContrib(Lift* l) {
  const AttrDict attrs = TakeAll(l);
  l->Replace({Dequantized(l, l->input(0), l->input(1), l->input(2), attrs)});
}
void QuantizeContrib(Lift* l) {
  const AttrDict attrs = TakeAll(l);
  l->Replace({l->Before("QuantizeLinear", l->node.inputs, attrs)});
}

}  // namespace weft::onnx_import
