/// case.cc: runs one case and judges it. The comparison is written here and shares nothing with the
/// library's own.
#include "case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "weft/core/graph/graph.h"
#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"
#include "weft/support/file.h"

namespace weft::conformance {
namespace {

namespace fs = std::filesystem;

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;
};

/// Results that are drawn at random have a dtype and a shape to compare, and no values: ONNX
/// says how they are distributed, and stores what numpy's generator drew. ONNX's runner
/// leaves these cases out.
const std::set<std::string> kRandomResults = {
    "node/test_bernoulli",
    "node/test_bernoulli_double",
    "node/test_bernoulli_double_expanded",
    "node/test_bernoulli_expanded",
    "node/test_bernoulli_seed",
    "node/test_bernoulli_seed_expanded",
    "node/test_training_dropout",
    "node/test_training_dropout_default",
    "node/test_training_dropout_default_mask",
    "node/test_training_dropout_mask",
};

/// Inverse transforms of a real ramp: half of the imaginary parts are 0, and the stored outputs,
/// computed in single precision, hold up to 2e-7 instead.
const std::set<std::string> kNoisyZeros = {
    "node/test_dft_inverse",
    "node/test_dft_inverse_opset19",
};

Tolerance ToleranceOf(const Case& c) {
  Tolerance t;
  if (kNoisyZeros.count(c.name)) t.atol = 3e-7;
  const std::string path = c.folder + "/data.json";
  if (!FileExists(path)) return t;
  const auto json = nlohmann::json::parse(ReadFile(path));
  t.rtol = json.value("rtol", t.rtol);
  t.atol = json.value("atol", t.atol);
  return t;
}

bool Near(double got, double want, const Tolerance& t) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return true;
  if (!std::isfinite(got) || !std::isfinite(want)) return false;
  return std::fabs(got - want) <= t.atol + t.rtol * std::fabs(want);
}

bool IsExact(DType t) {
  return t == DType::kBool || IsInt(t) || t == DType::kI4 || t == DType::kU4 || t == DType::kI2 ||
         t == DType::kU2;
}

/// Empty where `got` meets `want`, else what differs first.
std::string Difference(const Tensor& got, const Tensor& want, const Tolerance& t, bool values) {
  if (got.dtype() != want.dtype())
    return fmt::format("dtype {} instead of {}", DTypeName(got.dtype()), DTypeName(want.dtype()));
  if (got.dims() != want.dims())
    return fmt::format("shape {} instead of {}", got.shape().ToString(), want.shape().ToString());
  if (!values) return {};
  if (want.dtype() == DType::kString)
    return got.strings() == want.strings() ? "" : "strings that differ";
  const bool complex = want.dtype() == DType::kC64 || want.dtype() == DType::kC128;
  int64_t bad = 0, first = -1;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    bool same;
    if (complex && want.dtype() == DType::kC64) {
      const auto g = got.data_as<std::complex<float>>()[i],
                 w = want.data_as<std::complex<float>>()[i];
      same = Near(g.real(), w.real(), t) && Near(g.imag(), w.imag(), t);
    } else if (complex) {
      const auto g = got.data_as<std::complex<double>>()[i],
                 w = want.data_as<std::complex<double>>()[i];
      same = Near(g.real(), w.real(), t) && Near(g.imag(), w.imag(), t);
    } else if (IsExact(want.dtype())) {
      same = got.at_int(i) == want.at_int(i);
    } else {
      same = Near(got.at(i), want.at(i), t);
    }
    if (!same && bad++ == 0) first = i;
  }
  if (bad == 0) return {};
  const std::string one =
      complex ? ""
              : fmt::format(": [{}] is {} instead of {}", first, got.at(first), want.at(first));
  return fmt::format("{} of {} elements differ{}", bad, want.num_elements(), one);
}

std::vector<std::string> Files(const std::string& folder, const std::string& stem) {
  std::vector<std::string> files;
  for (int i = 0; FileExists(fmt::format("{}/{}_{}.pb", folder, stem, i)); ++i)
    files.push_back(fmt::format("{}/{}_{}.pb", folder, stem, i));
  return files;
}

std::vector<TensorPtr> ReadAll(const std::vector<std::string>& files) {
  std::vector<TensorPtr> tensors;
  for (const std::string& f : files) tensors.push_back(ReadTensorProto(f));
  return tensors;
}

/// The part of a message that names the feature: no nodes, no paths, one line.
std::string Normalized(std::string text) {
  static const std::pair<std::regex, const char*> rules[] = {
      {std::regex(
           R"(^(backend '\w+' cannot run \d+ nodes|the reference backend cannot run these nodes|these nodes cannot be evaluated):\s*)"),
       ""},
      {std::regex(R"(node %\d+( '[^']*')? \(([\w.:]+)\))"), "$2"},
      {std::regex(R"(%\d+( '[^']*')? \(([\w.:]+)\))"), "$2"},
      {std::regex(R"(\[[^\]]*\])"), "[..]"},
      {std::regex(R"('[^']*/[^']*')"), "'..'"},
      {std::regex(R"( \(in [^)]*\))"), ""},
      {std::regex(R"(\bu\d+(_\d+)?\b)"), "u"},
      {std::regex(R"(\s+)"), " "},
  };
  for (const auto& [pattern, with] : rules) text = std::regex_replace(text, pattern, with);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

bool SaysUnsupported(const Error& e) {
  return e.code() == ErrorCode::kUnsupported || e.code() == ErrorCode::kUnknownOp ||
         e.code() == ErrorCode::kMissingOpAttr;
}

/// Why the import refuses the model: operators by name, without the places of their nodes.
std::string ImportReason(const std::string& path, const Error& e) {
  std::vector<Finding> findings;
  ImportOptions options;
  options.allow_unsupported = true;
  options.findings = &findings;
  try {
    ImportOnnx(path, options);
  } catch (const Error&) {
    findings.clear();
  }
  std::set<std::string> reasons;
  for (const Finding& f : findings)
    if (f.code == ErrorCode::kUnknownOp || f.code == ErrorCode::kUnsupported)
      reasons.insert(Normalized(f.message));
  if (reasons.empty()) return Normalized(e.message());
  return fmt::format("{}", fmt::join(reasons, "; "));
}

Outcome Judge(const Case& c, const std::string& backend) {
  const std::string path = c.folder + "/model.onnx";
  Graph graph;
  try {
    graph = ImportOnnx(path);
  } catch (const Error& e) {
    if (!SaysUnsupported(e)) throw;
    return {Status::kUnsupported, ImportReason(path, e)};
  }
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  const auto program = Compile(std::move(graph), options);
  Session session(program);
  const Tolerance tolerance = ToleranceOf(c);
  const bool values = kRandomResults.count(c.name) == 0;
  for (int set = 0;; ++set) {
    const std::string folder = fmt::format("{}/test_data_set_{}", c.folder, set);
    if (!fs::is_directory(folder)) {
      if (set == 0) return {Status::kError, "the case has no data"};
      return {Status::kPass, ""};
    }
    const auto inputs = ReadAll(Files(folder, "input")), want = ReadAll(Files(folder, "output"));
    const auto got = session.Run(inputs);
    if (got.size() != want.size())
      return {Status::kWrong, fmt::format("{} outputs instead of {}", got.size(), want.size())};
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string text = Difference(*got[i], *want[i], tolerance, values);
      if (!text.empty())
        return {Status::kWrong, fmt::format("data set {}, output {}: {}", set, i, text)};
    }
  }
}

}  // namespace

std::string StatusName(Status s) {
  switch (s) {
    case Status::kPass:
      return "pass";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kWrong:
      return "WRONG";
    case Status::kError:
      break;
  }
  return "ERROR";
}

std::vector<Case> ListCases(const std::string& root) {
  std::vector<Case> cases;
  for (const char* group : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    if (!fs::is_directory(root + "/" + group)) continue;
    for (const auto& entry : fs::directory_iterator(root + "/" + group)) {
      const std::string folder = entry.path().string();
      if (!FileExists(folder + "/model.onnx")) continue;
      cases.push_back({fmt::format("{}/{}", group, entry.path().filename().string()), folder});
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

Outcome RunCase(const Case& c, const std::string& backend) {
  try {
    return Judge(c, backend);
  } catch (const Error& e) {
    if (SaysUnsupported(e)) return {Status::kUnsupported, Normalized(e.message())};
    return {Status::kError, e.what()};
  } catch (const std::exception& e) {
    return {Status::kError, e.what()};
  }
}

}  // namespace weft::conformance
