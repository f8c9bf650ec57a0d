/// observed.cc: see observed.h.
#include "observed.h"

#include <cmath>

#include "weft/support/check.h"

namespace weft {

ObservedRuns::ObservedRuns(Graph graph, const std::vector<NodeEntry>& entries,
                           const CompileOptions& options) {
  std::vector<NodeEntry> results;
  for (const NodeEntry& e : entries) {
    const NodeEntry own = graph.at(e);
    fed_.push_back(own.node->is_variable() ? own.node->attrs.name : "");
    if (!own.node->is_variable()) results.push_back(own);
  }
  if (results.empty()) return;
  graph.outputs = results;
  for (size_t i = 0; i < results.size(); ++i) graph.SetOutputName(i, fmt::format("observed_{}", i));
  session_ = std::make_unique<Session>(Compile(std::move(graph), options));
}

std::vector<TensorPtr> ObservedRuns::Run(const NamedInputs& sample) {
  std::vector<TensorPtr> results, all;
  if (session_) results = session_->Run(sample);
  size_t next = 0;
  for (const std::string& name : fed_) {
    if (name.empty()) {
      all.push_back(results[next++]);
      continue;
    }
    const auto it = sample.find(name);
    WEFT_CHECK(it != sample.end(), kBadBinding, "input '{}' is not given", name);
    all.push_back(it->second);
  }
  return all;
}

NamedInputs CheckedSample(const Samples& samples, size_t k) {
  NamedInputs inputs = samples.get(k);
  for (const auto& [name, t] : inputs) {
    if (!t || !t->is_tensor() || !IsFloat(t->dtype())) continue;
    for (int64_t i = 0; i < t->num_elements(); ++i)
      if (std::isnan(t->dtype() == DType::kF32 ? double(t->data_as<float>()[i]) : t->at(i)))
        ThrowError(ErrorCode::kBadInput, fmt::format("element {} is NaN", i),
                   fmt::format("input '{}' of sample {}", name, k),
                   "leave the sample out, or clean the data");
  }
  return inputs;
}

}  // namespace weft
