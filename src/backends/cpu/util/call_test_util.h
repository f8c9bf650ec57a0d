/// call_test_util.h: one node, random operands, its library call on the cpu backend.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weft/core/op/op.h"
#include "weft/runtime/backend/compute.h"
#include "weft/support/checked.h"

namespace weft::cpu {

using Ns = std::vector<int64_t>;

inline std::shared_ptr<Tensor> RandomTensor(const Ns& dims, uint32_t seed) {
  auto t = std::make_shared<Tensor>(DType::kF32, dims);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < t->num_elements(); ++i) t->mutable_data_as<float>()[i] = uniform(random);
  return t;
}

/// A node and the request for it. Operands are null (absent), or tensors; `constant[i]` gives the
/// call the value.
struct Case {
  Graph graph;
  ComputeRequest request;
  std::vector<TensorPtr> operands;

  Case(const char* op, std::vector<TensorPtr> in, AttrDict attrs, Ns out,
       std::vector<bool> constant = {})
      : operands(std::move(in)) {
    std::vector<NodeEntry> entries;
    for (size_t i = 0; i < operands.size(); ++i) {
      const TensorPtr& t = operands[i];
      entries.push_back(
          t ? NodeEntry(graph.AddInput("x" + std::to_string(i), t->dtype(), t->shape()))
            : NodeEntry());
      request.input_dims.push_back(t ? t->dims() : Ns());
      request.input_types.push_back(t ? t->dtype() : DType::kUnknown);
      request.constants.push_back(t && i < constant.size() && constant[i] ? t : nullptr);
    }
    request.node = graph.AddNode(op, entries, std::move(attrs), "node");
    request.output_dims = {std::move(out)};
    request.output_types = {DType::kF32};
    request.threads = 2;
  }

  std::unique_ptr<LibraryCall> Make() const {
    const FCompute* f = Op::GetAttr<FCompute>("FCompute.cpu").find(request.node->op());
    return f ? AsLibraryCall((*f)(request)) : nullptr;
  }
  /// Null where the request is not supported.
  std::shared_ptr<Tensor> Run() const {
    const auto call = Make();
    return call ? Run(*call) : nullptr;
  }
  std::shared_ptr<Tensor> Run(const LibraryCall& call) const {
    auto y = std::make_shared<Tensor>(DType::kF32, request.output_dims[0]);
    // What a call does not write shows.
    for (int64_t i = 0; i < y->num_elements(); ++i) y->mutable_data_as<float>()[i] = NAN;
    std::vector<const void*> in;
    for (const TensorPtr& t : operands) in.push_back(t ? t->data() : nullptr);
    void* out = y->mutable_data();
    // Whatever is in the scratch; what lies around it stays.
    constexpr int64_t kAround = 16384;
    constexpr float kStays = 0x1.2345p99f;
    const int64_t own = CheckedRoundUp(call.scratch_bytes(), 64) / int64_t{sizeof(float)};
    const size_t floats = size_t(own + 2 * kAround);
    std::unique_ptr<float[], void (*)(void*)> block(
        static_cast<float*>(std::aligned_alloc(64, floats * sizeof(float))), std::free);
    float *const scratch = block.get() + kAround, *const end = scratch + own;
    std::fill_n(block.get(), floats, kStays);
    std::fill(scratch, end, NAN);
    call.Run(in.data(), &out, own > 0 ? scratch : nullptr);
    const auto stays = [](float f) { return f == kStays; };
    CHECK_MESSAGE(std::all_of(block.get(), scratch, stays), call.description());
    CHECK_MESSAGE(std::all_of(end, block.get() + floats, stays), call.description());
    return y;
  }
};

/// Largest difference relative to max(1, |want|); infinite where one of the two is NaN.
inline double Difference(const Tensor& got, const std::vector<double>& want) {
  if (got.num_elements() != int64_t(want.size())) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = got.data_as<float>()[i];
    if (g == want[i]) continue;
    const double d = std::abs(g - want[i]) / std::max(1.0, std::abs(want[i]));
    worst = d <= worst ? worst : std::isnan(d) ? INFINITY : d;
  }
  return worst;
}

/// Steps through all positions below `dims`, last axis fastest. `at` starts as zeros.
inline bool Next(Ns* at, const Ns& dims) {
  for (size_t k = dims.size(); k-- > 0;) {
    if (++(*at)[k] < dims[k]) return true;
    (*at)[k] = 0;
  }
  return false;
}
inline int64_t Flat(const Ns& at, const Ns& dims) {
  int64_t f = 0;
  for (size_t k = 0; k < dims.size(); ++k) f = f * dims[k] + at[k];
  return f;
}

}  // namespace weft::cpu
