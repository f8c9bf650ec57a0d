/// quantise_samples.cc: see quantise_samples.h.
#include "quantise_samples.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "common.h"
#include "inputs.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr int64_t kRandomSamples = 8;

/// "sample_9" before "sample_10".
bool NaturallyBefore(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto end = [&](const std::string& s, size_t k) {
      while (k < s.size() && digit(s[k])) ++k;
      return k;
    };
    const size_t p = end(a, i), q = end(b, j);
    std::string x = a.substr(i, p - i), y = b.substr(j, q - j);
    x.erase(0, std::min(x.find_first_not_of('0'), x.size()));
    y.erase(0, std::min(y.find_first_not_of('0'), y.size()));
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
    i = p, j = q;
  }
  return a.size() - i < b.size() - j;
}

std::vector<std::string> SampleFolders(const std::string& dir) {
  std::vector<std::string> all;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(dir, failed))
    if (entry.is_directory(failed)) all.push_back(entry.path().string());
  std::sort(all.begin(), all.end(), NaturallyBefore);
  return all;
}

/// Rows `begin` to `begin + count` of axis 0.
TensorPtr RowsOf(const TensorPtr& t, int64_t begin, int64_t count) {
  std::vector<int64_t> dims = t->dims();
  const int64_t all = dims[0];
  dims[0] = count;
  auto part = std::make_shared<Tensor>(t->dtype(), dims);
  const int64_t row = t->num_bytes() / std::max<int64_t>(all, 1);
  std::memcpy(part->mutable_data(), static_cast<const char*>(t->data()) + begin * row,
              size_t(row * count));
  return part;
}

/// Many samples in one file an input: along axis 0, each of as many rows as the model takes.
Samples CutSamples(const Graph& graph, const SampleArgs& args, const Limits& limits) {
  std::vector<std::string> names;
  std::vector<Type> types;
  for (const NodePtr& p : graph.AllInputs()) {
    names.push_back(p->attrs.name);
    types.push_back(DeclaredType(p));
  }
  const NamedTensors whole = ReadTensors(args.data, names, types, limits);
  int64_t all = -1, rows = args.rows;
  for (const NodePtr& p : graph.AllInputs()) {
    const std::string& name = p->attrs.name;
    const std::string place = fmt::format("input '{}' from {}", name, args.data);
    const auto it = whole.find(name);
    if (it == whole.end())
      ThrowError(ErrorCode::kBadInput, "there is no file for it", place,
                 fmt::format("expected {}.npy, or a folder for each sample", FileStem(name)));
    const Tensor& t = *it->second;
    WEFT_CHECK(t.is_tensor() && t.rank() > 0 && t.dtype() != DType::kString, kBadInput,
               "{}: it has no axis of samples; give a folder for each sample", place);
    const Shape declared = DeclaredShape(p).value_or(Shape());
    const bool fixed =
        declared.has_rank() && declared.rank() > 0 && declared[0].known() && declared[0].is_const();
    if (fixed && rows == 0) rows = declared[0].value();
    if (all >= 0 && t.dims()[0] != all)
      ThrowError(ErrorCode::kBadInput,
                 fmt::format("axis 0 has size {}, that of another input {}", t.dims()[0], all),
                 place, "give a folder for each sample");
    all = t.dims()[0];
  }
  if (rows == 0) rows = std::max<int64_t>(all, 1);
  if (all < rows || all % rows != 0)
    ThrowError(ErrorCode::kBadInput,
               fmt::format("axis 0 has size {}, which samples of {} rows do not divide", all, rows),
               args.data, "cut the data, or give --rows");
  Samples samples;
  samples.count = size_t(all / rows);
  samples.get = [whole, rows](size_t k) {
    NamedInputs part;
    for (const auto& [name, t] : whole) part[name] = RowsOf(t, int64_t(k) * rows, rows);
    return part;
  };
  return samples;
}

}  // namespace

Samples FindSamples(const Graph& graph, const SampleArgs& args, const Limits& limits) {
  Samples samples;
  if (args.data.empty()) {
    WEFT_CHECK(args.random, kUsage,
               "quantise: --data DIR is required (or --random, for a look at the mechanics)");
    PrintNote("ranges of random inputs are not those of real data: expect worse results");
    InputArgs inputs = args.inputs;
    inputs.random = true;
    const RunInputs first = MakeInputs(graph, inputs, limits);
    const InputDims shapes = ParseDims(graph, inputs).shapes;
    std::vector<NamedInputs> all = {first.tensors};
    const std::vector<NodePtr> nodes = graph.AllInputs();
    for (uint64_t k = 1; k < uint64_t(args.most > 0 ? args.most : kRandomSamples); ++k) {
      const std::vector<TensorPtr> made =
          SampleInputs(graph, inputs.seed + k, first.dims.bindings, shapes);
      all.emplace_back();
      for (size_t i = 0; i < nodes.size(); ++i) all.back()[nodes[i]->attrs.name] = made[i];
    }
    samples.count = all.size();
    samples.get = [all](size_t k) { return all[k]; };
    return samples;
  }
  const std::vector<std::string> folders = SampleFolders(args.data);
  if (folders.empty()) {
    samples = CutSamples(graph, args, limits);
  } else {
    WEFT_CHECK(args.rows == 0, kUsage,
               "--rows is for samples behind each other in one file, and '{}' has folders",
               args.data);
    samples.count = folders.size();
    samples.get = [&graph, folders, inputs = args.inputs, limits](size_t k) {
      InputArgs one = inputs;
      one.load = folders[k];
      return MakeInputs(graph, one, limits).tensors;
    };
  }
  if (args.most > 0) samples.count = std::min(samples.count, size_t(args.most));
  return samples;
}

}  // namespace weft::tool
