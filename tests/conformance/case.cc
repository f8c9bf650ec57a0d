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

#include "taken.h"
#include "weft/core/graph/graph.h"
#include "weft/core/graph/variable.h"
#include "weft/core/tensor/npy.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"
#include "weft/support/check.h"
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
  if (got.type() != want.type())
    return fmt::format("type {} instead of {}", got.type().ToString(), want.type().ToString());
  if (!want.is_tensor()) {
    const auto &g = got.elements(), &w = want.elements();
    if (g.size() != w.size()) return fmt::format("{} elements instead of {}", g.size(), w.size());
    for (size_t i = 0; i < w.size(); ++i)
      if (std::string text = Difference(*g[i], *w[i], t, values); !text.empty())
        return fmt::format("element {}: {}", i, text);
    return {};
  }
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

/// Stored inputs and outputs of one run.
struct DataSet {
  std::vector<std::string> inputs, outputs;  ///< files
};

/// A light model has none: its inputs are made in `scratch`, as ONNX's runner makes them.
std::vector<DataSet> DataOf(const Case& c, const Graph& graph, const std::string& scratch) {
  if (c.is_light()) {
    const NodePtr x = graph.AllInputs().at(0);
    auto t = std::make_shared<Tensor>(DType::kF32, DeclaredShape(x).value_or(Shape()).ints());
    for (int64_t i = 0; i < t->num_elements(); ++i)
      t->set(i, double(i) / double(t->num_elements()));
    const std::string file = scratch + "/input_0.pb";
    WriteFileAtomic(file, FormatValueProto(*t, x->attrs.name));
    return {{{file}, Files(c.folder, fs::path(c.model).stem().string() + "_output")}};
  }
  std::vector<DataSet> sets;
  for (int set = 0;; ++set) {
    const std::string folder = fmt::format("{}/test_data_set_{}", c.folder, set);
    if (!fs::is_directory(folder)) return sets;
    sets.push_back({Files(folder, "input"), Files(folder, "output")});
  }
}

std::vector<TensorPtr> ReadAll(const std::vector<std::string>& files,
                               const std::vector<IoSpec>& specs) {
  std::vector<TensorPtr> values;
  for (size_t i = 0; i < files.size(); ++i) {
    const Type type = i < specs.size() ? Type(specs[i].kind, specs[i].dtype) : Type();
    values.push_back(ReadValueProto(files[i], type));
  }
  return values;
}

std::string Quoted(const std::string& text) {
  return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'";
}

/// One run of `weft run`, whose outputs it writes to files below `scratch`.
std::vector<TensorPtr> RunCommand(const Case& c, const Graph& graph, const DataSet& data,
                                  const std::vector<IoSpec>& outputs, const std::string& scratch) {
  const char* build = std::getenv("WEFT_BUILD_DIR");
  std::string line = Quoted((build ? build : "build") + std::string("/bin/weft")) + " run " +
                     Quoted(c.model) + " --outputs-dir " + Quoted(scratch + "/out");
  const std::vector<NodePtr> variables = graph.AllInputs();
  for (size_t i = 0; i < variables.size() && i < data.inputs.size(); ++i)
    line += " --input " + Quoted(variables[i]->attrs.name + "=" + data.inputs[i]);
  line += " >" + Quoted(scratch + "/log") + " 2>&1 </dev/null";
  WEFT_CHECK(std::system(line.c_str()) == 0, kBadInput, "{}", ReadFile(scratch + "/log"));
  std::vector<TensorPtr> got;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string stem = graph.OutputName(i);
    std::replace_if(
        stem.begin(), stem.end(), [](char ch) { return ch == '/' || ch == ':'; }, '_');
    stem = scratch + "/out/" + stem;
    got.push_back(FileExists(stem + ".npy")
                      ? ReadNpy(stem + ".npy")
                      : ReadValueProto(stem + ".pb", Type(outputs[i].kind, outputs[i].dtype)));
  }
  return got;
}

/// NumPy has no bf16: its file holds the bits.
TensorPtr AsStored(const TensorPtr& t, DType want) {
  if (t->dtype() == want || TraitsOf(want).numpy.empty() ||
      TraitsOf(want).numpy != TraitsOf(t->dtype()).numpy)
    return t;
  return std::make_shared<Tensor>(want, t->dims(), const_cast<void*>(t->data()),
                                  std::const_pointer_cast<Tensor>(t));
}

Outcome Judge(const Case& c, const std::string& engine, const std::string& scratch) {
  Graph graph;
  try {
    graph = ImportOnnx(c.model);
  } catch (const Error& e) {
    if (!SaysUnsupported(e)) throw;
    return {Status::kUnsupported, ImportReason(c.model, e)};
  }
  CompileOptions options;
  options.backend = engine == kCommand ? "cpu" : engine;
  options.threads = 1;
  const std::vector<DataSet> sets = DataOf(c, graph, scratch);
  if (sets.empty()) return {Status::kError, "the case has no data"};
  const auto program = Compile(graph, options);
  Session session(program);
  const Tolerance tolerance = ToleranceOf(c);
  const bool values = kRandomResults.count(c.name) == 0;
  for (size_t set = 0; set < sets.size(); ++set) {
    const auto want = ReadAll(sets[set].outputs, program->outputs());
    const auto got = engine == kCommand
                         ? RunCommand(c, graph, sets[set], program->outputs(), scratch)
                         : session.Run(ReadAll(sets[set].inputs, program->inputs()));
    if (got.size() != want.size())
      return {Status::kWrong, fmt::format("{} outputs instead of {}", got.size(), want.size())};
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string text =
          Difference(*AsStored(got[i], want[i]->dtype()), *want[i], tolerance, values);
      if (!text.empty())
        return {Status::kWrong, fmt::format("data set {}, output {}: {}", set, i, text)};
    }
  }
  const bool delegates = engine.find('+') != std::string::npos;
  return {Status::kPass, delegates ? WhatIsTaken(graph, *program, engine) : ""};
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

std::vector<Case> ListCases(const std::string& root, bool light) {
  std::vector<Case> cases;
  if (light && fs::is_directory(root + "/light"))
    for (const auto& entry : fs::directory_iterator(root + "/light"))
      if (entry.path().extension() == ".onnx")
        cases.push_back(
            {"light/" + entry.path().stem().string(), root + "/light", entry.path().string()});
  for (const char* group : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    if (!fs::is_directory(root + "/" + group)) continue;
    for (const auto& entry : fs::directory_iterator(root + "/" + group)) {
      const std::string folder = entry.path().string();
      if (!FileExists(folder + "/model.onnx")) continue;
      cases.push_back({fmt::format("{}/{}", group, entry.path().filename().string()), folder,
                       folder + "/model.onnx"});
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

Outcome RunCase(const Case& c, const std::string& engine) {
  std::string scratch = (fs::temp_directory_path() / "weft_case_XXXXXX").string();
  if (!mkdtemp(scratch.data())) return {Status::kError, "no folder for its files"};
  struct Remove {
    std::string folder;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    }
  } remove{scratch};
  try {
    return Judge(c, engine, scratch);
  } catch (const Error& e) {
    if (SaysUnsupported(e)) return {Status::kUnsupported, Normalized(e.message())};
    return {Status::kError, e.what()};
  } catch (const std::exception& e) {
    return {Status::kError, e.what()};
  }
}

}  // namespace weft::conformance
