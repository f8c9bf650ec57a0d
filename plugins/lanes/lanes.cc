/// lanes.cc: the backend "lanes": compiles whole graphs for a made-up machine, which loads 4 words
/// a cycle and computes on N lanes beside that. Results are those of the reference.
#include <algorithm>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/flops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/support/check.h"

namespace demo {
namespace {

using namespace weft;

class LanesProgram final : public BackendProgram {
 public:
  LanesProgram(const Graph& graph, int64_t lanes) : graph_(graph), lanes_(lanes) {
    const ShapeMap& shapes = graph.GetAttr<ShapeMap>("shape");
    double loaded = 0, computed = 0;  // when the DMA and the lanes have ended
    for (const NodePtr& n : graph.TopoOrder()) {
      if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
      int64_t words = 0;
      for (const NodeEntry& e : n->inputs) words += e ? shapes[e].num_elements().value() : 0;
      const SymInt work = FlopsOf(n, shapes).value_or(words);
      loaded = Add(n, "DMA", (words + 3) / 4, loaded);
      computed = Add(n, "lanes", (work.value() + lanes - 1) / lanes, std::max(loaded, computed));
    }
    cycles_ = int64_t(computed);
  }
  void Run(State&, ProgramRun& run) const override {
    StateMap contents;
    for (StateVariable& v : run.variables()) contents[v.name()] = v.Read();
    EvalOptions options;
    options.state = &contents;
    std::vector<TensorPtr> now, results = GetEvaluator()->Eval(graph_, run.inputs(), options);
    for (size_t i = 0; i < results.size(); ++i) run.SetResult(i, std::move(results[i]));
    for (StateVariable& v : run.variables()) now.push_back(contents[v.name()]);
    run.WriteVariables(now);
    for (const StepTime& s : steps_)
      if (run.profiled()) run.AddTime(s);
  }
  std::vector<ProgramField> Fields(const State*) const override { return {{"cycles", cycles_}}; }
  std::vector<NamedBytes> Artifacts() const override { return {{"program.txt", Listing()}}; }
  std::string ReportPage() const override { return "<!doctype html><pre>" + Listing() + "</pre>"; }
  std::vector<NamedBytes> Save() const override { return {{"lanes", std::to_string(lanes_)}}; }

 private:
  double Add(const NodePtr& n, const char* track, int64_t cycles, double start) {
    StepTime& s = steps_.emplace_back();
    s.name = n->op()->name, s.kind = "machine", s.track = track;
    s.start = start, s.duration = double(cycles), s.unit = TimeUnit::kCycles;
    return start + s.duration;
  }
  std::string Listing() const {
    std::string out;
    for (const StepTime& s : steps_)
      out += fmt::format("{:6} {:6} {:6} {}\n", s.start, s.track, s.duration, s.name);
    return out;
  }
  const Graph graph_;
  const int64_t lanes_;
  int64_t cycles_ = 0;
  std::vector<StepTime> steps_;
};

class Lanes final : public Backend {
 public:
  explicit Lanes(int64_t lanes) : lanes_(lanes) {}
  std::string name() const override { return "lanes"; }
  Target target() const override { return "lanes"; }
  std::string default_pipeline() const override { return support_pipeline(); }
  bool constant_extents() const override { return true; }
  std::shared_ptr<const BackendProgram> MakeProgram(const Graph& g,
                                                    const CompileOptions&) override {
    return std::make_shared<LanesProgram>(g, lanes_);
  }
  std::string WhyNot(const Graph&, const NodePtr& n) const override {
    return GetEvaluator()->WhyNot(n);
  }

 private:
  const int64_t lanes_;
};

TargetTraits WithoutKernels() {
  TargetTraits t;
  t.kernels = false;
  return t;
}
[[maybe_unused]] const bool registered = RegisterBackendModule(
    BackendModule("lanes")
        .set_traits(WithoutKernels())
        .set_parameters({{"n", "lanes of the machine", BackendParameter::Kind::kCount}})
        .set_backend([](const BackendParameters& p) {
          return std::make_shared<Lanes>(std::max<int64_t>(p.Count("n").value_or(4), 1));
        }));
}  // namespace
}  // namespace demo
