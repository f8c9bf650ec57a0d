/// pipelines.h: the standard pipeline, from an imported graph to one that a program is made of.
///
/// Every backend, tool and test that wants "what a compilation does" asks here; what each pass is
/// there for and why it stands where it stands is told line by line in pipelines.cc. A backend of a
/// plugin may have passes of its own around it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/pass/pass.h"

namespace weft {

/// How far a graph has come: where a pipeline begins and ends.
enum class PipelineEnd : uint8_t {
  kImported,    ///< as its author wrote it
  kSimplified,  ///< the graph that is placed: nothing fused, no calls chosen
  kGraph,       ///< nodes that are a kernel, a library call or a view each
  kLayouts,     ///< and the layouts of what is between them
  kKernels,     ///< with lowered kernels, which source text can be printed from
  kCode,        ///< with their machine code
  kPlan,        ///< with the order of steps and the plan of memory
};

struct PipelineOptions {
  PipelineEnd until = PipelineEnd::kPlan;
  bool fusion = true;  ///< false: one operator a kernel, as WithoutFusion
  /// False: kernels for all that kernels can be made for, and only plain layouts.
  bool libraries = true;
  /// Kernels multiply by a small matrix in less time than a call of the library takes.
  bool small_products = false;
  int threads = 1;                            ///< that programs will have
  PipelineEnd from = PipelineEnd::kImported;  ///< what the graph has gone through already
};

WEFT_API Pipeline StandardPipeline(const PipelineOptions& options = {});

/// A pipeline that tools take by its name.
struct NamedPipeline {
  const char* name;
  const char* doc;
  Pipeline passes;
};
WEFT_API std::vector<NamedPipeline> ListPipelines();
/// One of these, or passes in the text form of pipelines. Throws kUsage where it is neither,
/// kUnknownPass with near names.
WEFT_API Pipeline ParsePipeline(const std::string& text);

/// For a graph whose nodes are interpreted as they are: the order of effects, and shapes.
WEFT_API Pipeline InterpretedPipeline();
/// The part of it that a graph still has to go through.
WEFT_API Pipeline PipelineBetween(PipelineEnd from, PipelineEnd until);
/// Only so much of it as makes kernels of a graph that is small and simple already, as one library
/// call is.
WEFT_API Pipeline SmallGraphPipeline();

/// What one plan cannot hold, cut into regions and what stands between them (passes/regions). The
/// graph is simplified, and nothing in it fused.
WEFT_API Pipeline RegionPipeline();

/// Before all others: outputs that are fed back become states of the session. `pairs`: as
/// CompileOptions::feedback, joined by ";".
WEFT_API Pipeline FeedbackPipeline(const std::string& pairs);
/// States, results and slices of loops that nothing reads go.
WEFT_API Pipeline PruningPipeline();

/// One operator a kernel: `given` without the passes that declare to fuse (PassBuilder::fuses), or
/// with what they declare in their place.
WEFT_API Pipeline WithoutFusion(const Pipeline& given);
/// `given` without the passes that make machine code: enough to plan memory.
WEFT_API Pipeline WithoutCode(const Pipeline& given);
/// `given` with recomputation in front of the pass that orders steps, so that a plan takes at most
/// so many bytes of an arena; 0: as few as can be. INT64_MAX: `given`.
WEFT_API Pipeline WithBudget(const Pipeline& given, int64_t arena_bytes);
/// `given` with parts of the graph given to delegates ("openvino:streams=2,libtorch"; empty:
/// `given`), as the pass Delegate chooses them by its options of these names ("random:7": with that
/// seed): where the graph is simplified, and nothing is made yet that engines do not know.
WEFT_API Pipeline WithDelegates(const Pipeline& given, const std::string& delegates,
                                const std::string& choice = "all", const std::string& only = {},
                                int64_t most = -1);
/// A standard pipeline for a graph of which delegates take parts: without the pass Quantised, since
/// engines know the standard's operators and quantise by themselves. What a user wrote stays.
WEFT_API Pipeline WithoutQuantised(const Pipeline& given);
/// The pass by which WithDelegates does.
WEFT_API bool GivesToDelegates(const PassSpec& pass);
/// For a graph whose extents have become numbers: what was computed with them becomes constants.
WEFT_API Pipeline FoldingPipeline();
/// `given` with the passes behind it that a program needs and `given` has not: code for what it
/// lowers, a plan of memory.
WEFT_API Pipeline ToPlan(const Pipeline& given);

}  // namespace weft
