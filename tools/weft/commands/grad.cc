/// grad.cc: `weft grad`: a model with the gradients of its outputs as further outputs `grad_X`.
#include <algorithm>
#include <set>

#include "command_line.h"
#include "common.h"
#include "weft/api/model.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/text/text.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  std::string ys, xs, passes, out;
  bool seed_inputs = false;
};

struct Named {
  std::string name;
  NodeEntry entry;
};

/// The entries of these names; throws kUsage with what there is.
std::vector<Named> Pick(const std::string& option, const std::string& text,
                        const std::vector<Named>& all) {
  std::vector<Named> picked;
  for (const std::string& item : Split(text, ',')) {
    const std::string name(Trim(item));
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const Named& n) { return n.name == name; });
    if (it == all.end()) {
      std::vector<std::string> names;
      for (const Named& n : all) names.push_back(n.name);
      ThrowError(ErrorCode::kUsage, fmt::format("the model has no '{}'", name), option,
                 ListNames(names));
    }
    WEFT_CHECK(
        std::none_of(picked.begin(), picked.end(), [&](const Named& n) { return n.name == name; }),
        kUsage, "{}: '{}' is given twice", option, name);
    picked.push_back(*it);
  }
  return picked;
}

std::vector<NodeEntry> Entries(const std::vector<Named>& named) {
  std::vector<NodeEntry> entries;
  for (const Named& n : named) entries.push_back(n.entry);
  return entries;
}

/// Inputs and named parameters, outputs, and named results in between; by name.
struct Names {
  std::vector<Named> outputs, inputs, sources, results;
};
Names NamesOf(const Graph& g) {
  Names n;
  for (size_t i = 0; i < g.outputs.size(); ++i)
    n.outputs.push_back({g.OutputName(i), g.outputs[i]});
  for (NodePtr p : g.AllInputs()) n.inputs.push_back({p->attrs.name, NodeEntry(p)});
  n.results = n.outputs;
  n.sources = n.inputs;
  for (NodePtr p : g.TopoOrder()) {
    const bool declared =
        p->is_variable() && std::any_of(n.inputs.begin(), n.inputs.end(),
                                        [&](const Named& i) { return i.entry.node == p; });
    if (p->attrs.name.empty() || declared) continue;
    for (uint32_t k = 0; k < p->num_outputs(); ++k) {
      const std::string name = k == 0 ? p->attrs.name : fmt::format("{}:{}", p->attrs.name, k);
      n.results.push_back({name, NodeEntry(p, k)});
      n.sources.push_back({name, NodeEntry(p, k)});
    }
  }
  return n;
}

int RunGrad(const Args& a) {
  const Limits limits = a.model.Check();
  WritableFormat(a.out);
  const Pipeline passes =
      ParsePipeline(a.passes.empty() ? "Simplify,FoldConstants,Simplify" : a.passes);
  PassOptions options;
  options.limits = limits;
  Graph g = ReadModel(a.model);
  g = RunPasses(g, Pipeline::Parse("InferType,InferShape"), options);
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const Names names = NamesOf(g);
  const auto floats = [&](const std::vector<Named>& from, const char* option, const char* what) {
    std::vector<Named> out;
    for (const Named& n : from)
      if (const Type t = types[n.entry]; t.is_tensor() && IsFloat(t.dtype)) out.push_back(n);
    WEFT_CHECK(!out.empty(), kUsage, "the model has no {} of floats; name some with {}", what,
               option);
    return out;
  };
  const std::vector<Named> ys =
      a.ys.empty() ? floats(names.outputs, "--ys", "output") : Pick("--ys", a.ys, names.results);
  const std::vector<Named> xs =
      a.xs.empty() ? floats(names.inputs, "--xs", "input") : Pick("--xs", a.xs, names.sources);
  std::vector<NodeEntry> seeds;
  if (a.seed_inputs) {
    std::vector<std::string> taken;
    for (const Named& n : names.inputs) taken.push_back(n.name);
    for (const Named& y : ys) {
      const std::string name = "grad_" + y.name;
      WEFT_CHECK(std::find(taken.begin(), taken.end(), name) == taken.end(), kUsage,
                 "--seed-inputs: the model has an input '{}' already", name);
      seeds.push_back(NodeEntry(g.AddInput(name, types[y.entry], shapes[y.entry])));
    }
  }
  SetGradient(g, Entries(ys), Entries(xs), seeds);
  const size_t forward = g.outputs.size();
  Pipeline pipeline = {"Gradient", "InferType", "InferShape"};
  for (const PassSpec& p : passes.passes()) pipeline.push_back(p);
  const size_t before = g.num_nodes();
  g = RunPasses(g, pipeline, options);
  // Under the name of what was asked for, which an output may have and its node not. Gradients of a
  // model that has gradients already get a number.
  std::set<std::string> taken;
  for (size_t i = 0; i < forward; ++i) taken.insert(g.OutputName(i));
  for (size_t i = 0; i < xs.size(); ++i) {
    std::string name = "grad_" + xs[i].name;
    for (int k = 2; !taken.insert(name).second; ++k)
      name = fmt::format("grad_{}_{}", xs[i].name, k);
    g.SetOutputName(forward + i, name);
  }
  WriteModel(g, a.out, {limits, false});
  if (a.model.json) {
    Json outputs = Json::array(), inputs = Json::array();
    for (size_t i = 0; i < g.outputs.size(); ++i) outputs.push_back(g.OutputName(i));
    for (NodePtr p : g.AllInputs()) inputs.push_back(p->attrs.name);
    PrintJson({{"inputs", inputs},
               {"outputs", outputs},
               {"nodes_before", before},
               {"nodes", g.num_nodes()},
               {"out", a.out}});
  }
  return 0;
}

}  // namespace

Command MakeGrad(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("grad", "append the gradients of a model's outputs");
  AddModel(app, &a->model);
  app.Add("--ys Y,..", &a->ys, "what is differentiated; default: every output of floats");
  app.Add("--xs X,..", &a->xs,
          "with respect to what: inputs, parameters, results; default: every input of floats");
  app.AddFlag("--seed-inputs", &a->seed_inputs,
              "output gradients are inputs grad_Y; default: ones");
  app.Add("--passes P", &a->passes,
          "passes after the gradient; default: Simplify,FoldConstants,Simplify");
  app.Add("-o,--output OUT", &a->out, "file to write: .weft, .onnx or .json").Required();
  return {app, [a] { return RunGrad(*a); }};
}

}  // namespace weft::tool
