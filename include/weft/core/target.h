/// target.h: what a graph is compiled for: "cpu", "cpu:x86-64-v3", "cuda:sm_90", or a plugin's.
///
/// A target is a family (the backend module that answers for it), perhaps an architecture, and the
/// library whose calls its programs may make. Passes ask it what that library can do and what its
/// family is like; nobody compares names:
///
///   const Target& t = ctx.target();
///   if (const FLayout* wish = t.layout(node->op())) ...  // "FLayout.<library>" of the operator
///   if (t.traits().one_loop_copies) ...                  // what the module declared
///
/// The module is loaded at the first such question, and the answers are kept with the value and its
/// copies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weft/core/plan/epilogue.h"
#include "weft/core/plan/layout.h"
#include "weft/support/api.h"

namespace weft {

class PreparedCall;     // weft/runtime/backend/compute.h
struct ComputeRequest;  // there too
/// Null: this request is not supported; the runtime generates kernels for it, or falls back to the
/// interpreter and says so.
using FCompute = std::function<std::unique_ptr<PreparedCall>(const ComputeRequest&)>;

/// What passes, tools and the runtime may know about a family of targets.
struct TargetTraits {
  /// Kernels are generated for it. False: its backend makes programs of whole graphs.
  bool kernels = true;
  /// A copy of many pieces (a concatenation, say) is one loop over the result, not one loop a
  /// piece: a launch costs more than the division that finds the piece.
  bool one_loop_copies = false;
  /// Tensors live in memory of its own, which holds numbers only: no strings, no sequences.
  bool device_memory = false;
  /// Architecture that code is made for where neither the target nor a device names one: "sm_90".
  std::string default_arch;
};

/// "cuda:sm_90" -> {"cuda", "sm_90"}; no colon: the second is empty. The one way to take such a
/// name apart.
WEFT_API std::pair<std::string, std::string> SplitTarget(std::string_view name);

class WEFT_API Target {
 public:
  /// No target: no module, no library.
  Target();
  Target(std::string_view name);    // NOLINT: a name is a target
  Target(const char* name);         // NOLINT
  Target(const std::string& name);  // NOLINT
  /// The same kernels, but library calls of another library: "FCompute.<library>".
  Target WithLibrary(std::string library) const;

  const std::string& name() const;    ///< as given: "cuda:sm_90"
  const std::string& family() const;  ///< "cuda"
  const std::string& arch()
      const;  ///< "sm_90", or what else stands behind the colon; empty: not given
  bool none() const { return name().empty(); }

  /// Those of the module; the defaults where there is no such module.
  const TargetTraits& traits() const;
  const std::string& library() const;
  /// What the library has for an operator; null: nothing.
  const FCompute* compute(const Op* op) const;
  /// Has it a call for the operator of that name? False where no such operator is registered.
  bool has_call(std::string_view op) const;
  const FEpilogue* epilogue(const Op* op) const;
  const FLayout* layout(const Op* op) const;

  friend bool operator==(const Target& a, const Target& b) {
    return a.name() == b.name() && a.library() == b.library();
  }

 private:
  struct State;
  const State& resolved() const;
  std::shared_ptr<State> state_;
};

/// What a library wishes for a node that it runs: its FLayout, or that of the anchor of a call with
/// an epilogue, where operands of the result's shape wish for what the result wishes for. Empty
/// where nobody says anything.
WEFT_API LayoutWish LayoutWishOf(const NodePtr& node, const Target& target, const ShapeMap& shapes,
                                 const TypeMap& types);

}  // namespace weft
