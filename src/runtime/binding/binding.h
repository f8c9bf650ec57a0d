/// binding.h: a plan at given extents: sizes, offsets, kernel arguments, prepared library calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arena.h"
#include "runtime/plan/instruction.h"
#include "size_limits.h"
#include "weft/core/plan/offset_planner.h"

namespace weft {

struct Binding {
  std::vector<std::vector<int64_t>> dims;  ///< per value
  ArenaLayout arena;
  ArenaSizes sizes;  ///< that it is laid out for
  int64_t bytes_moved = 0;
  int kernels_failed = 0;                            ///< of those in the place of library calls
  std::vector<std::vector<int64_t>> kernel_dims;     ///< per step
  std::vector<std::shared_ptr<PreparedCall>> calls;  ///< per step: of the kind of the backend
  std::vector<std::vector<int64_t>> shape_values;    ///< per step
  SymBindings symbols;
  /// Per value: a constant of a mapped file, which nobody looks at since all calls keep it packed.
  std::vector<bool> released;
};

/// What turns extents of inputs into bindings; made once per program.
class Binder {
 public:
  /// Throws kUnsupported when the plan needs a symbol that no input determines.
  Binder(const ExecutionPlan& plan, Facts facts);
  /// Values of the symbols from the extents of the inputs, in a fixed order: the key of
  /// a binding. Throws kBadInput.
  std::vector<int64_t> Solve(const std::vector<TensorPtr>& inputs) const;
  /// Makes the key one of those bindings whose arena has room for the most of what data decide.
  void AddBounds(const FrameBounds& bounds, std::vector<int64_t>* key) const;
  /// Every extent of every input, also those that are no bare symbol; before each run, since a
  /// binding is found by its symbols alone (kBadInput).
  void CheckInputs(const Binding& binding, const std::vector<TensorPtr>& inputs) const;
  /// Checks the inputs and every fact that the program was compiled
  /// with (kShapeMismatch), then prepares. `bounds`: of sizes in the program, or null. `before`: a
  /// binding of the plan, or null; calls whose operands have the same sizes there are shared, so
  /// that a size that few steps see costs little when it changes.
  std::shared_ptr<const Binding> Bind(const std::vector<int64_t>& symbols,
                                      const std::vector<TensorPtr>& inputs,
                                      const FrameBounds* bounds, Backend& backend,
                                      const CallOptions& options,
                                      const Binding* before = nullptr) const;

  /// A library call made ready for a binding; `known`: what is in values beside constants, by
  /// value. Null where the library refuses it.
  std::unique_ptr<PreparedCall> Prepare(const Step& step, const Binding& b, Backend& backend,
                                        const CallOptions& options,
                                        const std::map<int, TensorPtr>& known) const;
  /// The most that a size is.
  using Most = std::function<int64_t(SymInt size)>;
  /// Scratch memory of each step where every size is what `most` says. Calls are made for that, and
  /// dropped.
  std::vector<int64_t> ScratchAt(const Most& most, Backend& backend,
                                 const CallOptions& options) const;

 private:
  /// Results of the size program. What is data may have wrapped, as data does;
  /// nothing else may (kOverflow).
  std::vector<int64_t> Sizes(const std::vector<int64_t>& symbols) const;
  /// Lays out what has the sizes that `b` says: at the most of what data decide, where `bounds`
  /// has room for it. Programs with caches meet another size with every token: there, what has
  /// another size than `before` is given room for half as much again, and a layout stays until a
  /// run does not fit.
  void Lay(const FrameBounds* bounds, Backend& backend, const CallOptions& options,
           const Binding* before, Binding* b) const;
  /// What the last layout was made of is found again: ways of a budget are laid out to be judged
  /// and once more to be run.
  ArenaLayout LayOut(const ArenaSizes& sizes) const;
  /// Operands, results and what is known of them are the same in both.
  bool SameCall(size_t step, const Binding& a, const Binding& b) const;
  /// The call of a library step, or a kernel in its place. `failed` counts kernels that could not
  /// be generated.
  std::unique_ptr<PreparedCall> MakeCall(const Step& step, ComputeRequest request, Backend& backend,
                                         const CallOptions& options, int* failed) const;
  /// Gives back the constants that `call` has packed, for now.
  void Release(const Step& step, const PreparedCall* call) const;
  /// Fills in `released`, when all calls are made.
  void FindReleased(Binding* b) const;
  /// What is known of a value before the run, at these extents; null: nothing.
  TensorPtr ConstantOf(int value, const Binding& b) const;
  ComputeRequest RequestOf(const Step& step, const Binding& b, int threads,
                           const std::map<int, TensorPtr>& known) const;
  /// The first step with a result of an extent below `least`; null where there is none.
  const struct Step* FirstBelow(const Binding& b, int64_t least) const;
  /// For messages: what is fed, or the variable.
  std::string NameOf(size_t input) const;
  /// The first input of that dimension.
  size_t FirstWith(SymInt dim) const;
  /// Throws kBadInput or, for a variable, kBadBinding.
  template <class Text>
  void Require(bool ok, size_t input, Text text) const;
  const ExecutionPlan& plan_;
  std::vector<SymInt> symbols_;
  Facts facts_;  // what compilation took for granted
  std::unique_ptr<SymProgram> program_;
  std::vector<std::vector<int>> value_slots_, kernel_slots_, shape_slots_;
  std::vector<int> storage_slots_;
  bool has_caches_ = false;
  std::vector<std::pair<int, int>> part_slots_;  ///< of what is in front, and of rows; -1: unknown
  std::vector<SymInt> results_;                  ///< the expression of every slot
  std::vector<char> may_wrap_;  ///< by slot: nothing but data that wraps as the expression does
  /// by value: the step that writes it, of those that the host knows
  std::map<int, size_t> shape_steps_;
  mutable std::mutex mutex_;
  mutable ArenaSizes last_sizes_;
  mutable std::optional<ArenaLayout> last_layout_;  ///< of last_sizes_
};

}  // namespace weft
