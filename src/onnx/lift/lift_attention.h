/// lift_attention.h: rules of lift_attention.cc for the table of lift_contrib.cc, and what the
/// quantized form of attention shares with them.
#pragma once

#include "lift.h"

namespace weft::onnx_import {

void ContribAttention(Lift* l);
void ContribMultiHeadAttention(Lift* l);
void ContribGroupQueryAttention(Lift* l);
void ContribRotaryEmbedding(Lift* l);

/// The rest of com.microsoft's Attention from its projection on: [batch, rows, q + k + v], of a
/// dtype that is that of `like`. `hidden`: of q, where it is known.
void AttendProjection(Lift* l, const std::string& projection, const std::string& like,
                      std::optional<int64_t> hidden, const std::string& mask,
                      const std::string& past, const std::string& bias);

}  // namespace weft::onnx_import
