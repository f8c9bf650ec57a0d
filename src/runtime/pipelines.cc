/// pipelines.cc: which passes a compilation runs, and why in this order.
#include "weft/runtime/pipelines.h"

#include <algorithm>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

bool Has(const Pipeline& pipeline, const std::string& pass) {
  const auto& all = pipeline.passes();
  return std::any_of(all.begin(), all.end(), [&](const PassSpec& p) { return p.name == pass; });
}

/// Options of `spec` give way to those that the pass declares.
PassSpec Unfused(PassSpec spec, const PassEntry& pass) {
  for (const Option& o : pass.unfused) {
    auto& all = spec.options;
    all.erase(
        std::remove_if(all.begin(), all.end(), [&](const Option& x) { return x.name == o.name; }),
        all.end());
    all.push_back(o);
  }
  return spec;
}

bool Provides(const std::string& pass, const char* attr) {
  const PassEntry* entry = PassEntry::Find(pass);
  return entry && std::count(entry->provides.begin(), entry->provides.end(), attr);
}

}  // namespace

Pipeline StandardPipeline(const PipelineOptions& o) {
  Pipeline p;
  const auto has = [&o](PipelineEnd part) { return o.from < part && part <= o.until; };
  if (has(PipelineEnd::kSimplified)) {
    // First, while the graph is as its author wrote it: reads and writes of variables become edges
    // and nodes, so that no pass behind has to know of an order that cannot be seen.
    p.push_back("OrderMutation");
    p.push_back("ReadVariables");
    // Where loops are compiled: of what a recurrent network is made its gradient is made as well.
    if (o.until > PipelineEnd::kSimplified) p.push_back("Decompose");
    // While bodies are as gradients have copied them.
    p.push_back("MergeLoops");
    // Before all that wants shapes: behind an If of two ranks there are none.
    p.push_back("ResolveIf");
    // Before rules, which wait for shapes: a tensor has one, and a place in a plan.
    p.push_back("SequenceToTensor");
    // Before constants are folded: a rule that drops a node saves evaluating it, and shapes become
    // constants by rules.
    p.push_back("Simplify");
    // Before constants are folded: of 8-bit weights that would make floats. Only where calls are
    // chosen.
    if (o.until > PipelineEnd::kSimplified && o.libraries) p.push_back("Quantised");
    p.push_back("FoldConstants");
    // Behind the constants, which are then shared; before rules, which take the branches in. Only
    // where loops are compiled: it makes two graphs of one.
    if (o.until > PipelineEnd::kSimplified) p.push_back("SplitConditions");
    // Behind the constants, since exporters compute weights and statistics by nodes.
    p.push_back("FoldBatchNorm");
    // Again: folded constants are operands that rules wait for, and what is left of a normalisation
    // is often nothing.
    p.push_back("Simplify");
  }
  if (has(PipelineEnd::kGraph)) {
    // Again: branches that a first look could not enter, since no sizes were known in them before
    // ResolveIf, hold recurrent networks as well. Constants in between: what has left a loop may be
    // one, and goes back as such.
    p.push_back("Decompose");
    // For a graph that comes simplified; one that was split is a choice already.
    p.push_back("SplitConditions");
    // Again: gradients of an earlier compilation are simplified, and what they repeat is now too.
    p.push_back("MergeLoops");
    // Bodies know numbers that they count to by their values then.
    p.push_back("SinkConstants");
    // Before all that is for Scans alone.
    p.push_back("LoopToScan");
    p.push_back("IfToSelect");
    // Before the loops' operands are computed: what it cuts off need not be.
    p.push_back("ShortenScans");
    // First: what nothing reads is neither hoisted nor multiplied at once.
    p.push_back("PruneLoops");
    p.push_back("HoistInvariants");
    p.push_back("BatchScan");
    // Behind it: a product of slices alone goes in front.
    p.push_back("BatchResults");
    // What is left of a body is what must be done in each iteration.
    p.push_back("Unroll");
    if (o.threads > 1) {
      // First those that two threads run whole.
      p.push_back("PairLoops");
      p.push_back({"SplitRows", {{"parts", o.threads}}});
    }
    // Behind all that move products out of loops, and where it is known which threads share.
    if (o.small_products && o.libraries) p.push_back({"Recur", {{"threads", o.threads}}});
    p.push_back("FoldConstants");
    p.push_back("SinkConstants");
  }
  if (has(PipelineEnd::kGraph) && o.libraries) {
    // The largest pattern first: the transpositions and factors inside an attention are its own.
    p.push_back("Attention");
    // Before transposed operands join their products: what is put together is transposed once.
    p.push_back("SumProducts");
    p.push_back("FoldTranspose");
    // Behind it: a weight is read transposed as well.
    p.push_back("FoldDequantize");
    // Behind all that change which calls there are; before Fusion, which would take the followers
    // for kernels.
    p.push_back("Epilogue");
    p.push_back("Fusion");
  } else if (has(PipelineEnd::kGraph)) {
    p.push_back({"Fusion", {{"libraries", 0}}});
  }
  // Behind Fusion: which tensors there are between kernels and calls, and which must lie alike, is
  // known only now.
  if (has(PipelineEnd::kLayouts) && o.libraries) p.push_back("Layout");
  if (has(PipelineEnd::kKernels)) p.push_back("CodeGen");
  if (has(PipelineEnd::kCode)) p.push_back("RTCGen");
  if (has(PipelineEnd::kPlan)) {
    // Last: kernels say which operands may lie where the result is written, and an order decides
    // what lives at once.
    p.push_back("Schedule");
    p.push_back("PlanMemory");
  }
  return o.fusion ? p : WithoutFusion(p);
}

std::vector<NamedPipeline> ListPipelines() {
  PipelineOptions plain;
  plain.fusion = false;
  return {
      {"O0", "nothing", {}},
      {"O1", "rewrites and folded constants; an ONNX model stays one",
       StandardPipeline({PipelineEnd::kSimplified})},
      {"O2", "and fused kernels, library calls and their layouts",
       StandardPipeline({PipelineEnd::kLayouts})},
      {"O3", "and machine code and the plan of memory", StandardPipeline()},
      {"default", "what a compilation does: O3", StandardPipeline()},
      {"default-without-fusion", "the same, one operator a kernel", StandardPipeline(plain)},
  };
}

Pipeline ParsePipeline(const std::string& text) {
  for (NamedPipeline& p : ListPipelines())
    if (text == p.name) return std::move(p.passes);
  Pipeline passes;
  try {
    passes = Pipeline::Parse(text);
  } catch (const Error& e) {
    std::vector<std::string> names;
    for (const NamedPipeline& p : ListPipelines()) names.push_back(p.name);
    ThrowError(
        ErrorCode::kUsage, e.message(), e.place(),
        "expected passes, as in Simplify,Fusion{max_ops=64}, or one of " + Join(names, ", "));
  }
  for (const PassSpec& p : passes.passes()) PassEntry::Get(p.name);
  return passes;
}

Pipeline SmallGraphPipeline() {
  return {"Simplify",  {"Fusion", {{"libraries", 0}}}, "CodeGen", "RTCGen", "Schedule",
          "PlanMemory"};
}

Pipeline InterpretedPipeline() { return {"OrderMutation", "ReadVariables", "InferShape"}; }

Pipeline RegionPipeline() { return {"SplitRegions"}; }

Pipeline FeedbackPipeline(const std::string& pairs) {
  return {{"CacheInPlace", {{"feedback", pairs}}}};
}

Pipeline PruningPipeline() { return {"PruneLoops"}; }

Pipeline PipelineBetween(PipelineEnd from, PipelineEnd until) {
  PipelineOptions o;
  o.from = from;
  o.until = until;
  return StandardPipeline(o);
}

Pipeline WithoutFusion(const Pipeline& given) {
  Pipeline out;
  for (const PassSpec& spec : given.passes()) {
    const PassEntry* pass = PassEntry::Find(spec.name);
    if (!pass || !pass->fuses)
      out.push_back(spec);
    else if (!pass->unfused.empty())
      out.push_back(Unfused(spec, *pass));
  }
  return out;
}

Pipeline WithoutCode(const Pipeline& given) {
  Pipeline out;
  for (const PassSpec& spec : given.passes())
    if (!Provides(spec.name, "rtc")) out.push_back(spec);
  return out;
}

Pipeline WithBudget(const Pipeline& given, int64_t arena_bytes) {
  if (arena_bytes == INT64_MAX) return given;
  // Last but for the order: kernels say what may be written in place, and copies share their code.
  const PassSpec recompute(
      "Checkpoint",
      {{"budget", arena_bytes > 0 ? std::to_string(arena_bytes) : "min"}, {"warn", false}});
  Pipeline out;
  for (const PassSpec& spec : given.passes()) {
    if (Provides(spec.name, "order")) out.push_back(recompute);
    out.push_back(spec);
  }
  return out;
}

Pipeline WithDelegates(const Pipeline& given, const std::string& delegates,
                       const std::string& choice, const std::string& only, int64_t most) {
  if (delegates.empty() || Has(given, "Delegate")) return given;
  std::string to = delegates;  // commas separate options of passes
  std::replace(to.begin(), to.end(), ',', ';');
  const PassSpec divide("Delegate",
                        {{"to", to}, {"choice", choice}, {"only", only}, {"most", most}});
  const auto& all = given.passes();
  size_t behind = 0;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == "Simplify") behind = i + 1;
  Pipeline out;
  for (size_t i = 0; i <= all.size(); ++i) {
    if (i == behind) out.push_back(divide);
    if (i < all.size()) out.push_back(all[i]);
  }
  return out;
}

Pipeline WithoutQuantised(const Pipeline& given) {
  Pipeline out;
  for (const PassSpec& p : given.passes())
    if (p.name != "Quantised") out.push_back(p);
  return out;
}

bool GivesToDelegates(const PassSpec& pass) { return pass.name == "Delegate"; }

Pipeline FoldingPipeline() { return {"FoldConstants"}; }

Pipeline ToPlan(const Pipeline& given) {
  Pipeline p = given;
  if (Has(p, "PlanMemory")) return p;
  if (Has(p, "Fusion") && !Has(p, "CodeGen")) p.push_back("CodeGen");
  if (Has(p, "CodeGen") && !Has(p, "RTCGen")) p.push_back("RTCGen");
  if (!Has(p, "Schedule")) p.push_back("Schedule");
  p.push_back("PlanMemory");
  return p;
}

}  // namespace weft
