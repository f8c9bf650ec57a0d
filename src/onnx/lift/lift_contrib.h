/// lift_contrib.h: rules of lift_quantized.cc for the table of lift_contrib.cc, and what both use.
#pragma once

#include "lift.h"

namespace weft::onnx_import {

/// [n, spatial.., c] -> [n, c, spatial..], and back.
std::string ChannelsFirst(Lift* l, const std::string& x, int rank);
std::string ChannelsLast(Lift* l, const std::string& x, int rank);
/// The attributes that are left, for the operator that means the same by them.
AttrDict TakeAll(Lift* l);
/// Softmax over all axes from `axis` on, as before operator set 13. `rank`: -1 where not known.
std::string CoercedSoftmax(Lift* l, const std::string& x, int64_t axis, int rank);

struct EmbedOperands {
  std::string ids, segment_ids, words, positions, segments, gamma, beta, mask, position_ids;
};
void EmbedLayerNorm(Lift* l, const EmbedOperands& in);

void DequantizeContrib(Lift* l);
void DynamicQuantizeLstm(Lift* l);
void DynamicQuantizeMatMul(Lift* l);
void GatherBlockQuantized(Lift* l);
void MatMulIntegerToFloat(Lift* l);
void MatMulNBits(Lift* l);
void QAttention(Lift* l);
void QEmbedLayerNormalization(Lift* l);
void QGemm(Lift* l);
void QLinearAdd(Lift* l);
void QLinearAveragePool(Lift* l);
void QLinearConcat(Lift* l);
void QLinearConv(Lift* l);
void QLinearGlobalAveragePool(Lift* l);
void QLinearLeakyRelu(Lift* l);
void QLinearMul(Lift* l);
void QLinearReduceMean(Lift* l);
void QLinearSigmoid(Lift* l);
void QLinearSoftmax(Lift* l);
void QLinearWhere(Lift* l);
void QuantizeContrib(Lift* l);

}  // namespace weft::onnx_import
