/// steady_calls.h: library calls of one session that are made ready for operands which rarely
/// change (CompileOptions::steady). Private to the runtime.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/binding/binding.h"

namespace weft {

/// The steps of a plan that read steady inputs; made once per program.
class SteadySteps {
 public:
  /// `steady`: by input of the plan.
  SteadySteps(const ExecutionPlan& plan, const std::vector<bool>& steady);
  bool empty() const { return steps_.empty(); }

 private:
  friend class SteadyCalls;
  struct Operand {
    int value = 0;
    size_t input = 0;  ///< index into inputs_
  };
  struct StepOf {
    size_t step = 0;
    std::vector<Operand> operands;
  };
  std::vector<size_t> inputs_;  ///< of the plan
  std::vector<StepOf> steps_;
};

/// The calls of a session, for the contents and the extents that it has seen last.
class SteadyCalls {
 public:
  using Prepare = std::function<std::unique_ptr<PreparedCall>(
      size_t step, const std::map<int, TensorPtr>& known)>;
  /// Makes those ready whose operands have changed, and gives how many those are. What `prepare`
  /// refuses stays with the binding's own call.
  int64_t Update(const SteadySteps& steady, const ExecutionPlan& plan,
                 const std::shared_ptr<const Binding>& binding,
                 const std::vector<TensorPtr>& inputs, const Prepare& prepare);
  /// Of a step, after Update; null: that of the binding.
  const LibraryCall* Find(size_t step) const { return calls_.empty() ? nullptr : calls_[step]; }
  /// The binding's, with the scratch memory of these calls; after Update.
  const ArenaLayout& layout() const { return kept_.front().layout; }

 private:
  struct Content {
    const void* data = nullptr;
    uint32_t version = 0;
    bool is(const Tensor& t) const { return data == t.data() && version == t.version(); }
  };
  /// For one set of extents.
  struct Kept {
    std::shared_ptr<const Binding> binding;
    std::vector<Content> seen;                        ///< by steady input
    std::vector<std::unique_ptr<LibraryCall>> calls;  ///< by steady step; null: refused
    std::vector<int64_t> scratch;  ///< by step of the plan: what the layout is for
    ArenaLayout layout;
  };
  static constexpr size_t kMaxKept = 4;
  std::vector<Kept> kept_;                 ///< the last one used is the first
  std::vector<const LibraryCall*> calls_;  ///< by step
};

}  // namespace weft
