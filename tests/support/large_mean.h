/// large_mean.h: data whose mean is large against its deviation, for tests of normalisations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft::e2e {

constexpr int64_t kImages = 2, kChannels = 4, kPoints = 96;

/// [2, 4, 96] of deviation about 0.6 around `mean`.
inline TensorPtr Around(double mean, DType t = DType::kF32,
                        std::vector<int64_t> dims = {kImages, kChannels, kPoints},
                        uint64_t seed = 88172645463325252u) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  uint64_t s = seed;
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    x->set(i, mean + 2 * double(s >> 11) * 0x1p-53 - 1);
  }
  return x;
}

/// A text about f32 in another dtype.
inline std::string InType(DType t, std::string text) {
  const std::string to(DTypeName(t));
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos; at += to.size())
    text.replace(at, 3, to);
  return text;
}

// What is normalised together, by number of an element.
inline int64_t Row(int64_t i) { return i / kPoints; }
inline int64_t Group(int64_t i) { return i / kPoints / 2; }
inline int64_t Channel(int64_t i) { return i / kPoints % kChannels; }

/// In double: elements of one key are normalised together.
inline std::vector<double> Normalized(const Tensor& x, const std::function<int64_t(int64_t)>& key,
                                      double epsilon) {
  std::vector<double> mean(size_t(x.num_elements())), square = mean, count = mean;
  for (int64_t i = 0; i < x.num_elements(); ++i)
    mean[size_t(key(i))] += x.at(i), ++count[size_t(key(i))];
  for (size_t k = 0; k < mean.size(); ++k) mean[k] /= std::max(count[k], 1.0);
  for (int64_t i = 0; i < x.num_elements(); ++i)
    square[size_t(key(i))] += std::pow(x.at(i) - mean[size_t(key(i))], 2) / count[size_t(key(i))];
  std::vector<double> y;
  for (int64_t i = 0; i < x.num_elements(); ++i)
    y.push_back((x.at(i) - mean[size_t(key(i))]) / std::sqrt(square[size_t(key(i))] + epsilon));
  return y;
}

/// The largest difference of an element from what it should be; NaN where one is.
inline double FarthestFrom(const std::vector<double>& want, const Tensor& got) {
  double worst = 0;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double off = std::fabs(got.at(i) - want[size_t(i)]);
    if (std::isnan(off)) return off;
    worst = std::max(worst, off);
  }
  return worst;
}

}  // namespace weft::e2e
