/// variables_util.h: what the tests of state variables share.
#pragma once

#include <string>
#include <vector>

#include "e2e_util.h"

namespace weft::e2e {

using Values = std::vector<double>;

inline TensorPtr Vector(const Values& v) {
  return Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, v);
}
inline Values ValuesOf(const Tensor& t) {
  Values v;
  for (int64_t i = 0; i < t.num_elements(); ++i) v.push_back(t.at(i));
  return v;
}
inline std::string Text(const Values& values) {
  std::string text;
  for (double v : values) text += std::to_string(v) + " ";
  return text;
}

/// How a graph may be run.
struct Way {
  const char* backend;
  bool fusion;
};
inline std::vector<Way> Ways() {
  std::vector<Way> ways = {{"ref", true}};
  if (HasCpu()) ways.insert(ways.end(), {{"cpu", true}, {"cpu", false}});
  return ways;
}
inline std::shared_ptr<const Program> CompileWay(const Graph& g, const Way& way) {
  CompileOptions options;
  options.backend = way.backend;
  options.fusion = way.fusion;
  options.threads = 2;
  return Compile(g, options);
}

}  // namespace weft::e2e
