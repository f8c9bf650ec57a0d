/// e2e_util.h: what the end-to-end tests share: caught errors, graphs from text, results by the
/// reference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/program.h"
#include "weft/support/check.h"
#include "weft/support/error.h"

namespace weft::e2e {

/// What a call threw.
struct Caught {
  ErrorCode code;
  std::string text;  ///< the whole line, place and hint included
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// Runs `f`; nullopt when it throws nothing. Anything but a weft::Error goes through.
template <class F>
std::optional<Caught> Catch(F&& f) {
  try {
    f();
    return std::nullopt;
  } catch (const Error& e) {
    return Caught{e.code(), e.what()};
  }
}

inline Graph FromText(const std::string& text) { return ParseGraph("weft 1\n" + text); }

/// `given` with `instead` wherever `pass` stands, which must be somewhere.
inline Pipeline WithPass(const Pipeline& given, const std::string& pass, const Pipeline& instead) {
  Pipeline out;
  bool found = false;
  for (const PassSpec& spec : given.passes()) {
    if (spec.name != pass) {
      out.push_back(spec);
      continue;
    }
    found = true;
    for (const PassSpec& other : instead.passes()) out.push_back(other);
  }
  WEFT_ICHECK(found, "the pipeline {} has no pass {}", given.ToString(), pass);
  return out;
}

/// Random inputs of the graph, and the results of the interpreter in double precision.
struct Reference {
  std::vector<TensorPtr> inputs, outputs;
};
inline Reference RunReference(const Graph& graph, uint64_t seed, const SymBindings& bind = {}) {
  Reference r;
  r.inputs = MakeRandomInputs(graph, seed, bind).tensors;
  EvalOptions options;
  options.typed = false;
  r.outputs = GetEvaluator()->Eval(graph, r.inputs, options);
  return r;
}

/// Largest difference of all outputs in units of tolerance; <= 1 is equal.
inline double Difference(const std::vector<TensorPtr>& got, const std::vector<TensorPtr>& want,
                         double rtol = -1, double atol = -1) {
  if (got.size() != want.size()) return 1e300;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = CompareTensors(*got[i], *want[i], rtol, atol);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/// The backend "cpu" is part of this build and loads. Tests of it say so and pass where it is not.
inline bool HasCpu() {
  static const bool has = !Catch([] { GetBackend("cpu"); }).has_value();
  return has;
}

/// Compiles for `backend`, with a pipeline of one's own where one is given.
inline std::shared_ptr<const Program> CompileFor(const Graph& graph, const std::string& backend,
                                                 const std::string& pipeline = {}) {
  CompileOptions options;
  options.backend = backend;
  options.pipeline = pipeline;
  options.threads = 2;
  return Compile(graph, options);
}

/// One way to run a graph.
struct EngineName {
  const char* backend;
  bool fusion;
  std::string text() const { return std::string(backend) + (fusion ? "" : ":no-fusion"); }
};
/// The reference first.
inline std::vector<EngineName> Engines() {
  if (!HasCpu()) return {{"ref", true}};
  return {{"ref", true}, {"cpu", true}, {"cpu", false}};
}
inline std::shared_ptr<const Program> CompileWith(const Graph& g, const EngineName& engine) {
  CompileOptions options;
  options.backend = engine.backend;
  options.fusion = engine.fusion;
  options.threads = 2;
  return Compile(g, options);
}

/// `inputs`, in the order of g.AllInputs(), in that of the program, by name.
inline std::vector<TensorPtr> Ordered(const Program& program, const Graph& g,
                                      const std::vector<TensorPtr>& inputs) {
  std::vector<TensorPtr> out;
  const std::vector<NodePtr> variables = g.AllInputs();
  for (const IoSpec& spec : program.inputs())
    for (size_t i = 0; i < variables.size(); ++i)
      if (variables[i]->attrs.name == spec.name) out.push_back(inputs[i]);
  return out;
}

}  // namespace weft::e2e
