/// save_program.cc: writes `.weftx` files; the format stands in saved_program.h.
#include <map>

#include "needed_plugins.h"
#include "runtime/delegate/engine.h"
#include "runtime/plan/instruction.h"
#include "runtime/program/body_programs.h"
#include "runtime/program/program_impl.h"
#include "self_contained.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/delegate.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weftx.h"

namespace weft {
namespace {

WEFT_REGISTER_GRAPH_ATTR(planned, kGiven, int64_t)
    .describe("in a saved program: loading plans this graph")
    .hidden()
    .text([](int64_t v) { return std::to_string(v); },
          [](const std::string& s) { return int64_t{s == "1"}; });

/// Attributes that loading makes again, or that have no text form, are left out.
Graph Stripped(const Graph& compiled) {
  Graph g = compiled;
  std::vector<std::string> dropped;
  for (const auto& [name, value] : g.attrs) {
    const AttrType* type = FindAttrType(name);
    const bool remade = name == "order" || name == "storage";
    if (!type || !type->format || remade) dropped.push_back(name);
  }
  for (const std::string& name : dropped) g.DropAttr(name);
  if (compiled.HasAttr("kernel") || HasRegions(compiled)) g.SetAttr(weftx::kPlanned, int64_t{1});
  for (const NodePtr& n : g.TopoOrder()) {
    if (!MayHaveBodyPrograms(n)) continue;
    for (const std::string& name : BodyNames(n))
      ReplaceBody(g, n, name, Stripped(*n->attr<GraphPtr>(name)));
  }
  return g;
}

void AppendTensor(std::string* data, const Tensor& t) {
  if (t.dtype() != DType::kString) {
    data->append(static_cast<const char*>(t.data()), size_t(t.num_bytes()));
    return;
  }
  for (const std::string& s : t.strings()) {
    weftx::AppendWord(data, s.size());
    *data += s;
  }
}

using DistinctKernels = std::map<Hash128, CompiledKernelPtr>;

/// Those of the graph and of its bodies.
void CollectKernels(const Graph& g, DistinctKernels* distinct) {
  if (g.HasAttr("kernel") && g.HasAttr("rtc")) {
    const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
    const RtcMap& rtc = g.GetAttr<RtcMap>("rtc");
    for (NodeId id = 0; id < kernels.id_bound(); ++id) {
      const LoweredKernel* k = kernels.find(id);
      const CompiledKernels* made = rtc.find(id);
      if (!k || !made) continue;
      const std::vector<KernelPtr> own = k->Kernels();
      for (size_t i = 0; i < own.size() && i < made->size(); ++i)
        if (const CompiledKernelPtr& c = (*made)[i]; c && !c->binary.empty())
          distinct->emplace(own[i]->Key(), c);
    }
  }
  for (const NodePtr& n : g.TopoOrder()) {
    if (!MayHaveBodyPrograms(n)) continue;
    for (const std::string& name : BodyNames(n)) CollectKernels(*n->attr<GraphPtr>(name), distinct);
  }
}

std::string KernelSection(const std::vector<Graph>& graphs) {
  DistinctKernels distinct;
  for (const Graph& g : graphs) CollectKernels(g, &distinct);
  std::string out;
  for (const auto& [key, compiled] : distinct) {
    weftx::AppendWord(&out, key.hi);
    weftx::AppendWord(&out, key.lo);
    weftx::AppendWord(&out, compiled->binary.size());
    out += compiled->binary;
  }
  return out;
}

std::string OwnSection(const std::vector<NamedBytes>& own) {
  std::string out;
  for (const NamedBytes& s : own) {
    weftx::AppendWord(&out, s.name.size());
    weftx::AppendWord(&out, s.bytes.size());
    out += s.name;
    out += s.bytes;
  }
  return out;
}

/// The graphs of all ways of a program; of one without a budget its one graph.
std::string Pack(std::vector<Graph> graphs, const std::string& backend, const std::string& target,
                 const Target& compiled_for, const std::string& budget,
                 const std::vector<NamedBytes>& own = {}) {
  SideData side;
  PrintOptions print;
  print.origins = true;
  print.hidden_attributes = true;
  print.side_data = &side;
  std::vector<std::string> texts;
  const Target runs_on = compiled_for.none() ? Target(SplitDelegates(backend).first) : compiled_for;
  NeededPlugins plugins;
  plugins.AddBackend(backend);
  // The compiler of a plugin reads the graph as it left it.
  const bool as_it_is = !runs_on.traits().kernels && !plugins.empty();
  for (Graph& g : graphs) {
    KeepEngines(&g, backend);
    if (!as_it_is) g = SelfContained(g, runs_on);
    const Graph kept = Stripped(g);
    plugins.AddGraph(kept);
    texts.push_back(PrintGraph(kept, print));
  }

  std::string table, data;
  for (const auto& [hash, tensor] : side) {
    data.resize((data.size() + weftx::kAlign - 1) / weftx::kAlign * weftx::kAlign);
    const size_t begin = data.size();
    AppendTensor(&data, *tensor);
    for (uint64_t v : {hash, uint64_t(tensor->dtype()), uint64_t(tensor->rank())})
      weftx::AppendWord(&table, v);
    for (int64_t d : tensor->dims()) weftx::AppendWord(&table, uint64_t(d));
    weftx::AppendWord(&table, begin);
    weftx::AppendWord(&table, data.size() - begin);
  }
  std::string meta = fmt::format("backend={}\ntarget={}\ngenerator={}\n", backend, target,
                                 KernelCache::GeneratorVersion());
  if (!budget.empty()) meta += fmt::format("memory={}\nways={}\n", budget, graphs.size());
  std::vector<std::pair<std::string, std::string>> sections = {{weftx::kMeta, std::move(meta)}};
  for (size_t k = 0; k < texts.size(); ++k)
    sections.emplace_back(weftx::GraphTag(k), std::move(texts[k]));
  sections.emplace_back(weftx::kTensors, std::move(table));
  sections.emplace_back(weftx::kKernels, KernelSection(graphs));
  sections.emplace_back(weftx::kData, std::move(data));
  if (!plugins.empty()) sections.emplace_back(weftx::kPlugins, plugins.ToText());
  if (!own.empty()) sections.emplace_back(weftx::kOwn, OwnSection(own));

  std::string out(weftx::kMagic, sizeof weftx::kMagic);
  out.append(16, '\0');  // the hash
  weftx::AppendWord(&out, sections.size());
  size_t at = out.size() + sections.size() * weftx::kEntryBytes;
  for (const auto& [tag, content] : sections) {
    out += tag;
    out.append(8 - tag.size(), '\0');
    at = (at + weftx::kAlign - 1) / weftx::kAlign * weftx::kAlign;
    weftx::AppendWord(&out, at);
    weftx::AppendWord(&out, content.size());
    at += content.size();
  }
  for (const auto& [tag, content] : sections) {
    out.resize((out.size() + weftx::kAlign - 1) / weftx::kAlign * weftx::kAlign);
    out += content;
  }
  weftx::Seal(&out);
  return out;
}

}  // namespace

std::string PackProgram(const Graph& compiled, const std::string& backend,
                        const std::string& target, const Target& compiled_for) {
  return Pack({compiled}, backend, target, compiled_for, "");
}

std::string PackProgram(const Program& program) {
  std::vector<Graph> graphs;
  for (const Program::Impl* way : program.impl().Ways()) graphs.push_back(way->graph_);
  if (graphs.empty()) graphs.push_back(program.graph());
  DistinctKernels kernels;
  for (const Graph& g : graphs) CollectKernels(g, &kernels);
  const std::string target = kernels.empty() ? "" : kernels.begin()->second->target;
  return Pack(std::move(graphs), program.backend(), target, {}, program.impl().budget().ToString(),
              program.impl().OwnSections());
}

void SaveProgram(const Program& program, const std::string& path) {
  WriteFileAtomic(path, PackProgram(program));
}

}  // namespace weft
