/// validate_functions.cc: model-local functions: their bodies, their call graph, and what
/// everything comes to once expanded.
///
/// Thirty functions that each call the one before twice are 2^29 nodes. The size is therefore
/// computed over the call graph, bottom up with saturating arithmetic, before anything is expanded.
#include <algorithm>
#include <unordered_set>

#include "validate.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

constexpr int64_t kHuge = int64_t{1} << 62;

int64_t SaturatingAdd(int64_t a, int64_t b) { return std::min(kHuge, a + b); }
int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? kHuge : std::min(r, kHuge);
}

/// Nodes of one body (sub-graphs included) and the functions it calls, with how often.
struct Body {
  int64_t nodes = 0;
  std::map<size_t, int64_t> calls;
};

Body Summarize(const NodeList& nodes, const FunctionTable& functions) {
  Body body;
  std::vector<const NodeList*> open{&nodes};
  while (!open.empty()) {
    const NodeList* list = open.back();
    open.pop_back();
    body.nodes += list->size();
    for (const auto& n : *list) {
      if (const pb::FunctionProto* f = functions.Find(n)) ++body.calls[functions.index(f)];
      for (const auto& a : n.attribute()) {
        if (a.has_g()) open.push_back(&a.g().node());
        for (const auto& g : a.graphs()) open.push_back(&g.node());
      }
    }
  }
  return body;
}

/// Callees first; empty, with a report, where functions call each other in a ring.
std::vector<size_t> CallOrder(const std::vector<Body>& bodies, const FunctionTable& functions,
                              Diagnostics* diag) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(bodies.size(), kNew);
  std::vector<size_t> order;
  struct Frame {
    size_t f;
    std::map<size_t, int64_t>::const_iterator next;
  };
  std::vector<Frame> stack;
  for (size_t root = 0; root < bodies.size(); ++root) {
    if (state[root] != kNew) continue;
    stack.push_back({root, bodies[root].calls.begin()});
    state[root] = kOpen;
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == bodies[top.f].calls.end()) {
        state[top.f] = kDone;
        order.push_back(top.f);
        stack.pop_back();
        continue;
      }
      const size_t callee = (top.next++)->first;
      if (state[callee] == kDone) continue;
      if (state[callee] == kOpen) {
        std::string text = FunctionName(*functions.list()[callee]);
        const auto from =
            std::find_if(stack.begin(), stack.end(), [&](const Frame& s) { return s.f == callee; });
        size_t shown = 0;
        for (auto it = from + 1; it < stack.end() && shown < 8; ++it, ++shown)
          text += " -> " + FunctionName(*functions.list()[it->f]);
        diag->Add(ErrorCode::kCycle, "function " + FunctionName(*functions.list()[callee]),
                  "functions call each other in a ring: " + text + " -> ...");
        return {};
      }
      state[callee] = kOpen;
      stack.push_back({callee, bodies[callee].calls.begin()});
    }
  }
  return order;
}

void ValidateBody(const pb::FunctionProto& f, const Opsets& model_opsets,
                  const ValidateContext& ctx) {
  const std::string place = "function " + FunctionName(f);
  const Opsets opsets = ReadFunctionOpsets(f, model_opsets, place, ctx.diag);
  ValueScope scope;
  for (const std::string& in : f.input()) {
    if (in.empty())
      ctx.diag->Add(ErrorCode::kInvalidModel, place, "an input without a name");
    else if (!scope.defined.emplace(in, -1).second)
      ctx.diag->Add(ErrorCode::kInvalidModel, place,
                    fmt::format("two inputs are called {}", Printable(in)));
  }
  std::unordered_set<std::string_view> attributes;
  for (const std::string& a : f.attribute()) {
    if (!attributes.insert(a).second)
      ctx.diag->Add(ErrorCode::kInvalidModel, place,
                    fmt::format("two attributes are called {}", Printable(a)));
  }
  for (const auto& a : f.attribute_proto()) {
    if (!attributes.insert(a.name()).second)
      ctx.diag->Add(ErrorCode::kInvalidModel, place,
                    fmt::format("two attributes are called {}", Printable(a.name())));
  }
  ValidateNodes(f.node(), &scope, opsets, place, true, 0, ctx);
  for (const std::string& out : f.output()) {
    if (!scope.defined.count(out))
      ctx.diag->Add(ErrorCode::kInvalidModel, place,
                    fmt::format("nothing computes the output {}", Printable(out)));
  }
}

}  // namespace

void ValidateFunctions(const pb::ModelProto& model, const Opsets& opsets,
                       const ValidateContext& ctx) {
  const FunctionTable& functions = ctx.functions;
  const Limits& limits = ctx.limits;
  std::vector<Body> bodies;
  int64_t stored = 0;
  for (const pb::FunctionProto* f : functions.list()) {
    bodies.push_back(Summarize(f->node(), functions));
    stored = SaturatingAdd(stored, bodies.back().nodes);
  }
  if (stored > limits.nodes) {
    return ctx.diag->Add(
        ErrorCode::kLimit, "functions",
        fmt::format("{} nodes in functions, the limit `nodes` is {}", stored, limits.nodes));
  }
  const std::vector<size_t> order = CallOrder(bodies, functions, ctx.diag);
  if (order.size() != bodies.size()) return;

  std::vector<int64_t> expanded(bodies.size(), 0), depth(bodies.size(), 1);
  const auto size_of = [&](const Body& b) {
    int64_t size = b.nodes;
    for (const auto& [callee, times] : b.calls)
      size = SaturatingAdd(size, SaturatingMul(times, expanded[callee]));
    return size;
  };
  for (const size_t f : order) {
    expanded[f] = size_of(bodies[f]);
    for (const auto& [callee, times] : bodies[f].calls)
      depth[f] = std::max(depth[f], depth[callee] + 1);
    if (depth[f] > limits.depth) {
      return ctx.diag->Add(
          ErrorCode::kLimit, "function " + FunctionName(*functions.list()[f]),
          fmt::format("calls nested {} deep, the limit `depth` is {}", depth[f], limits.depth));
    }
  }
  const int64_t total = size_of(Summarize(model.graph().node(), functions));
  if (total > limits.expanded_nodes) {
    return ctx.diag->Add(
        ErrorCode::kLimit, "main",
        fmt::format("the graph has {}{} nodes once its functions are expanded, the limit "
                    "`expanded_nodes` is {}",
                    total >= kHuge ? "more than " : "", total, limits.expanded_nodes));
  }
  for (const pb::FunctionProto* f : functions.list()) {
    if (ctx.diag->full()) return;
    ValidateBody(*f, opsets, ctx);
  }
}

}  // namespace weft::onnx_import
