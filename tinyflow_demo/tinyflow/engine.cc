/// engine.cc: how the framework uses Weft. This is the whole of it: shapes and gradients come from
/// passes over the graph that the user wrote, a program from Compile, a run from weft::Session.
/// Nothing here knows an operator, but for WhenTraining, which is this framework's own.
#include "tinyflow/engine.h"

#include <algorithm>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/core/module/delegate.h"
#include "weft/core/pass/body_types.h"
#include "weft/runtime/backend/backend.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace tf::engine {
namespace {

/// Takes away what the outputs do not reach, effects included: only what is fetched is run.
void Prune(weft::Graph* g) {
  const std::vector<weft::NodeEntry> heads(g->outputs.begin(), g->outputs.end());
  std::vector<bool> wanted(g->id_bound(), false);
  weft::DFSVisit(heads, [&](const weft::NodePtr& n) { wanted[n->id()] = true; });
  std::vector<weft::NodeEntry> others;
  for (weft::NodeId id = 0; id < g->id_bound(); ++id)
    if (const weft::NodePtr n = g->node(id); n && !wanted[id]) others.emplace_back(n);
  std::vector<weft::NodePtr> order;
  weft::DFSVisit(others, [&](const weft::NodePtr& n) {
    if (!wanted[n->id()]) order.push_back(n);
  });
  std::vector<weft::NodePtr> inputs;
  for (const weft::NodePtr& n : g->inputs())
    if (wanted[n->id()]) inputs.push_back(n);
  g->SetInputs(inputs);
  for (auto n = order.rbegin(); n != order.rend(); ++n) g->Erase(*n);
}

/// Puts one of its operands in the place of every WhenTraining, in bodies of loops too.
void Choose(weft::Graph* g, Mode mode) {
  for (weft::NodeId id = 0; id < g->id_bound(); ++id) {
    const weft::NodePtr n = g->node(id);
    if (!n) continue;
    if (weft::IsOp(n, "tinyflow::WhenTraining"))
      g->ReplaceUses(n, n->inputs[mode == Mode::kTraining ? 0 : 1]);
    if (!weft::HasControlBodies(n)) continue;
    for (const std::string& name : weft::BodyNames(n)) {  // as deep as loops are nested
      weft::Graph body = *n->attr<weft::GraphPtr>(name);
      Choose(&body, mode);
      g->SetAttr(n, name, std::make_shared<const weft::Graph>(std::move(body)));
    }
  }
}

/// The part of `graph` that computes `outputs` in one mode. A copy keeps ids, and with them the
/// order in which nodes were made, which is the order of reads and writes of variables.
weft::Graph Slice(const weft::Graph& graph, const Entries& outputs, Mode mode) {
  weft::Graph g = graph;
  Entries heads;
  for (const weft::NodeEntry& e : outputs) heads.push_back(g.at(e));
  g.outputs = heads;
  Choose(&g, mode);
  Prune(&g);
  return g;
}

}  // namespace

weft::Shape InferShape(const weft::Graph& graph, const weft::NodeEntry& entry,
                       const std::map<weft::NodeId, weft::Shape>& given) {
  if (entry.node->is_variable() && !given.count(entry.node->id()))
    return weft::DeclaredShape(entry.node).value_or(weft::Shape());
  Entries wanted{entry};
  for (const auto& [id, shape] : given) wanted.emplace_back(graph.node(id));
  weft::Graph g;
  const Entries copied = g.Import(wanted);
  size_t next = 1;
  for (const auto& [id, shape] : given) g.SetAttr(copied[next++].node, "shape", shape);
  const weft::NodeEntry head = copied[0];
  g.outputs = Entries{head};
  g = weft::ApplyPass(std::move(g), "InferShape");
  return g.GetAttr<weft::ShapeMap>("shape")[g.at(head)];
}

Entries Gradients(weft::Graph& graph, const Entries& ys, const Entries& xs) {
  return weft::Gradients(graph, ys, xs);
}

Config ParseConfig(const std::string& text) {
  const std::vector<std::string> words = weft::Split(weft::Trim(text), ' ');
  const bool fusion = words.size() == 2 && words[1] == "fusion";
  const auto [device, delegates] = weft::SplitDelegates(words[0]);
  WEFT_CHECK(
      !device.empty() && (words.size() == 1 || fusion), kUsage,
      "a session runs on \"cpu\", \"cpu fusion\", \"gpu\", \"gpu fusion\" or another backend of "
      "Weft in their place, not on \"{}\"",
      text);
  Config config;
  config.backend = device == "gpu" ? "cuda" : device;
  if (!delegates.empty()) config.backend += "+" + delegates;
  config.fusion = fusion;
  try {
    weft::GetBackend(config.backend);
  } catch (weft::Error& e) {
    e.AddPlace("session \"" + text + "\"");
    if (device != "gpu" || e.code() != weft::ErrorCode::kUnsupported) throw;
    weft::ThrowError(e.code(), "there is no GPU to run on: " + e.message(),
                     "session \"" + text + "\"", "use \"cpu fusion\"; weft doctor shows more");
  }
  return config;
}

Executable::Executable(const weft::Graph& graph, const Entries& fetches, const Entries& feeds,
                       const std::vector<weft::Shape>& shapes, Mode mode, const Config& config,
                       std::shared_ptr<weft::VariableStore> store,
                       const std::vector<weft::Shape>& likely)
    : store_(std::move(store)) {
  weft::Graph g = Slice(graph, fetches, mode);
  std::vector<weft::NodePtr> inputs;
  weft::SymBindings hints;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const weft::NodePtr n = g.node(feeds[i].node->id());
    if (!n) continue;  // nothing that is fetched depends on it
    if (!weft::DeclaredShape(n) || !weft::DeclaredShape(n)->has_rank())
      g.SetAttr(n, "shape", shapes[i]);
    used_feeds_.push_back(i);
    inputs.push_back(n);
    // What is fed first is likely to be fed again.
    const weft::Shape declared = weft::DeclaredShape(n).value();
    if (i >= likely.size() || !declared.has_rank() || declared.rank() != likely[i].rank()) continue;
    for (int d = 0; d < declared.rank(); ++d)
      if (declared[d].known() && declared[d].is_symbol())
        hints[declared[d].symbol_name()] = likely[i][d].value();
  }
  g.SetInputs(inputs);
  std::vector<std::string> missing;
  for (const weft::NodePtr& n : g.AllInputs())
    if (std::find(inputs.begin(), inputs.end(), n) == inputs.end())
      missing.push_back("'" + n->attrs.name + "'");
  WEFT_CHECK(missing.empty(), kBadBinding, "what is fetched depends on {}, which {} not fed",
             weft::Join(missing, ", "), missing.size() == 1 ? "is" : "are");
  for (const weft::NodePtr& v : weft::StateVariables(g)) {
    const auto writes = [&](const weft::Use& u) {
      return weft::IsOp(u.user, weft::builtin::kAssign) && u.slot == 0;
    };
    if (!g.is_output(v) && std::all_of(v->uses().begin(), v->uses().end(), writes))
      only_written_.insert(v->attrs.name);
  }
  weft::CompileOptions options;
  options.backend = config.backend;
  options.fusion = config.fusion;
  options.threads = config.threads;
  options.calls = config.calls;
  options.division = config.division;
  options.memory.hints = hints;
  // What is fed nothing gives variables their first values, and is small.
  if (!inputs.empty()) options.memory.budget = config.memory;
  // A share is of a step that trains; where nothing is kept for gradients there is little to share.
  if (mode == Mode::kInference && options.memory.budget.kind == weft::MemoryBudget::Kind::kShare)
    options.memory.budget.kind = weft::MemoryBudget::Kind::kLeast;
  program_ = weft::Compile(std::move(g), options);
  session_ = std::make_unique<weft::Session>(program_, store_);
}

std::vector<Array> Executable::InputsOf(const std::vector<Array>& feeds) const {
  std::vector<Array> inputs;
  for (const size_t i : used_feeds_) inputs.push_back(feeds[i]);
  return inputs;
}

void Executable::Rest() {
  if (!session_) return;
  rested_ = session_->memory();
  session_.reset();
}

/// The session, when every variable that a run reads has a value.
weft::Session& Executable::Ready() {
  if (!session_) session_ = std::make_unique<weft::Session>(program_, store_);
  if (variables_checked_) return *session_;
  std::vector<std::string> missing;
  for (const weft::IoSpec& v : program_->variables()) {
    if (store_->Has(v.name)) continue;
    if (only_written_.count(v.name))
      store_->Set(v.name, std::make_shared<weft::Tensor>(v.dtype, v.shape.ints()));
    else
      missing.push_back("'" + v.name + "'");
  }
  if (!missing.empty())
    weft::ThrowError(weft::ErrorCode::kBadBinding,
                     "variables without a value: " + weft::Join(missing, ", "), "",
                     "run initialize_all_variables(), load a checkpoint, or assign them");
  variables_checked_ = true;
  return *session_;
}

std::vector<Array> Executable::Run(const std::vector<Array>& feeds) {
  Ready().RunInto(InputsOf(feeds), &outputs_);
  return {outputs_.begin(), outputs_.end()};
}

weft::PendingRun Executable::Start(const std::vector<Array>& feeds) {
  return Ready().Start(InputsOf(feeds));
}

std::vector<weft::StepTime> Executable::Profile(const std::vector<Array>& feeds) {
  return Ready().Profile(InputsOf(feeds));
}

weft::Graph Freeze(const weft::Graph& graph, const Entries& outputs, const Entries& inputs,
                   const weft::VariableStore& store) {
  weft::Graph g = Slice(graph, outputs, Mode::kInference);
  for (const weft::NodePtr& v : weft::StateVariables(g)) {
    const std::string name = v->attrs.name;
    WEFT_CHECK(store.Has(name), kBadBinding, "variable '{}' has no value to export", name);
    g.ReplaceUses(v, g.AddParam(name, store.Get(name)));
  }
  // Nothing is written any more.
  for (weft::NodeId id = 0; id < g.id_bound(); ++id)
    if (const weft::NodePtr n = g.node(id); n && weft::IsOp(n, weft::builtin::kRead))
      g.ReplaceUses(n, n->inputs[0]);
  std::vector<weft::NodePtr> declared;
  for (const weft::NodeEntry& e : inputs) {
    const weft::NodePtr n = g.node(e.node->id());
    WEFT_CHECK(n, kApiMisuse, "the outputs do not depend on input '{}'", e.node->attrs.name);
    declared.push_back(n);
  }
  g.SetInputs(declared);
  Prune(&g);
  return g;
}

}  // namespace tf::engine
