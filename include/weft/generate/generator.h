/// generator.h: texts that a language model goes on with, token by token.
///
///   Generator g(LoadModel("model.onnx"));
///   GenerateOptions options;
///   options.max_tokens = 100;
///   std::vector<std::vector<int64_t>> texts = g.Run({tokens}, options,
///       [](size_t text, int64_t token) { .. return true; });
///
/// A model is one that gives scores [batch, sequence, tokens] of `input_ids` [batch, sequence]; of
/// the inputs `attention_mask` [batch, past + sequence], `position_ids` [batch, sequence] and
/// caches (pairs of an input and an output, which is the input with new rows behind) it may have
/// any, under the names that optimum and torch.export give them. Caches stay in the session
/// (CompileOptions::feedback): a token costs its own rows. So do states of one size that are fed
/// back, which are zeros before a text. Without either all that there is so far is computed again
/// for each token.
///
/// Texts of one call run as one batch. Those that are shorter are filled up behind, where the mask
/// hides it and positions [batch, sequence] are fed; without both inputs, and with states, texts of
/// different lengths run one length after the other. A text that has ended goes along until all
/// have, and what it gives is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/generate/sampler.h"
#include "weft/runtime/program/program.h"

namespace weft {

struct GenerateOptions {
  int64_t max_tokens = 128;          ///< new ones, for each text
  SamplingOptions sampling;          ///< text i draws with seed + i
  std::vector<int64_t> stop_tokens;  ///< a text ends with the first of these, which it keeps
};

/// Of the last call.
struct GenerateStats {
  int64_t prompt_tokens = 0, new_tokens = 0;  ///< of all texts
  double prompt_seconds = 0;                  ///< until the first new token
  double seconds = 0;                         ///< from there to the last one
  int64_t steps = 0;                          ///< runs of one token, for all texts at once
  double tokens_per_second = 0;               ///< of those runs; 0: there were none
  CacheStats cache;
  int64_t arena_bytes = 0;
  int64_t arena_allocations = 0;     ///< times that a run of one token made the arena larger
  std::vector<double> step_seconds;  ///< of each of those runs
};

class WEFT_API Generator {
 public:
  /// Compiles the model; `options.feedback` empty: finds caches. Throws kUnsupported for a model
  /// that is none of the above, saying what it has, and what Compile throws.
  explicit Generator(Graph model, const CompileOptions& options = {});
  ~Generator();
  Generator(Generator&&) noexcept;

  /// Called with each new token, in the order that they come in; false ends that text.
  using OnToken = std::function<bool(size_t text, int64_t token)>;
  /// The new tokens of each prompt. Throws kBadInput for no prompt, an empty one, a token that the
  /// model has not; kIndexRange where a text grows beyond the positions that the model has.
  std::vector<std::vector<int64_t>> Run(const std::vector<std::vector<int64_t>>& prompts,
                                        const GenerateOptions& options,
                                        const OnToken& on_token = {});
  const GenerateStats& stats() const;
  /// Tokens that the model knows; -1: the file does not say, a run tells.
  int64_t vocabulary() const;
  /// Cancels runs, from any thread (Session::set_cancel).
  void set_cancel(CancelToken token);
  const Program& program() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
