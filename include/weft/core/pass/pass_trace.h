/// pass_trace.h: what happens inside ApplyPasses, told while it happens: every
/// application of a pass and every single rewrite that asks for fuel. For tools that look
/// for the one that goes wrong.
///
///   struct Last : PassTrace { void Rewrite(...) override { .. } } last;
///   PassTraceScope scope(&last);     // for the ApplyPasses calls of this thread
///   g = ApplyPasses(g, pipeline);
#pragma once

#include <string_view>

#include "weft/core/pass/pass.h"

namespace weft {

/// An application of a pass that is about to run (or to be skipped).
struct PassStart {
  const PassSpec& spec;  ///< with the options of the call
  int number;            ///< 1-based, over all applications
  int occurrence;        ///< of this pass: the N of "Fusion#N" in PassOptions::skip
  Trigger trigger;
  bool skipped;
  /// Bodies of If, Loop and Scan that it is in, "body of %4 'loop' (Loop)"; empty: the graph
  /// itself. It is a part of the last application that is in none.
  std::string_view body;
};

class WEFT_API PassTrace {
 public:
  virtual ~PassTrace() = default;
  virtual void Begin(const PassStart&) {}
  /// A rewrite that was granted, before it happens; `node` still is what it was.
  virtual void Rewrite(const PassEntry&, std::string_view /*rewrite*/, const NodePtr& /*node*/) {}
};

/// Sets the trace of the calling thread and returns the former one. Pipelines that passes run
/// themselves are not traced.
WEFT_API PassTrace* ExchangePassTrace(PassTrace* trace);

class PassTraceScope {
 public:
  explicit PassTraceScope(PassTrace* trace) : former_(ExchangePassTrace(trace)) {}
  ~PassTraceScope() { ExchangePassTrace(former_); }
  PassTraceScope(const PassTraceScope&) = delete;
  PassTraceScope& operator=(const PassTraceScope&) = delete;

 private:
  PassTrace* former_;
};

}  // namespace weft
