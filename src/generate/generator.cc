/// generator.cc: see generator.h.
#include "weft/generate/generator.h"

#include <algorithm>
#include <map>

#include "weft/runtime/session/variable_store.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

/// Rows that caches have room for behind the prompt before the first run, at most: a text without
/// an end in sight lets them grow.
constexpr int64_t kMostReserved = 1024;

/// What is fed to an input.
enum class Role { kTokens, kMask, kPositions, kRows };

bool Mentions(const std::string& name, std::string_view word) {
  return name.find(word) != std::string::npos;
}

template <class F>
void ForEach(int64_t rows, int64_t columns, Tensor* to, F value) {
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t at = b * columns + i, v = value(b, i);
      if (IsFloat(to->dtype()))
        to->set(at, double(v));
      else
        to->set_int(at, v);
    }
}

}  // namespace

struct Generator::Impl {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Session> session;
  std::vector<Role> roles;  ///< of the inputs
  size_t logits = 0;        ///< the number of that output
  bool has_cache = false, has_mask = false, has_positions = false;
  /// By number of Program::variables(): what goes from token to token besides caches (h_out=h_in).
  std::vector<size_t> states;
  int64_t vocabulary = -1;
  SymInt batch_size;  ///< the number of texts, as the tokens have it
  GenerateStats stats;
  int64_t arena_bytes = 0;  ///< the most that any run took
  std::vector<std::shared_ptr<Tensor>> outputs;
  std::vector<float> row;

  /// Texts that run together.
  struct Batch {
    std::vector<size_t> texts;                ///< by row
    std::vector<int64_t> lengths;             ///< tokens of each row that are no filling
    std::vector<std::vector<char>> seen;      ///< by row and slot: it is no filling
    std::vector<std::vector<int64_t>> slots;  ///< tokens by slot, for models without a cache
  };

  void Recognise() {
    std::string what;
    for (const IoSpec& in : program->inputs()) {
      const std::string& n = in.name;
      what += fmt::format("{}{} {}{}", what.empty() ? "" : ", ", n, in.type().ToString(),
                          in.shape.ToString());
      const bool is_number = in.number.known();
      if (is_number)
        roles.push_back(Role::kRows);
      else if (Mentions(n, "mask"))
        roles.push_back(Role::kMask), has_mask = true;
      else if (Mentions(n, "position"))
        roles.push_back(Role::kPositions);
      else if ((Mentions(n, "ids") || Mentions(n, "token") || program->inputs().size() == 1) &&
               (in.dtype == DType::kI64 || in.dtype == DType::kI32))
        roles.push_back(Role::kTokens);
      else
        Refuse("input '" + n + "' is none that is known", what);
      const int rank = in.shape.has_rank() ? in.shape.rank() : -1;
      if (!is_number && rank != 2 && !(roles.back() == Role::kPositions && rank == 1))
        Refuse("input '" + n + "' is not a matrix", what);
      // Those of one axis are the same for all texts.
      has_positions = has_positions || (roles.back() == Role::kPositions && rank == 2);
    }
    if (std::count(roles.begin(), roles.end(), Role::kTokens) != 1)
      Refuse("there is not one input of tokens", what);
    for (size_t i = 0; i < program->outputs().size(); ++i)
      if (program->outputs()[i].name == "logits") logits = i;
    if (program->outputs().empty()) Refuse("there is no output of scores", what);
    const IoSpec& out = program->outputs()[logits];
    if (!out.shape.has_rank() || out.shape.rank() != 3 || !IsFloat(out.dtype))
      Refuse("output '" + out.name + "' is not scores of [batch, sequence, tokens]", what);
    vocabulary = out.shape[2].is_const() ? out.shape[2].value() : -1;
    FindStates(what);
  }
  /// Variables without a value that are no caches: their extents are constants and the batch.
  void FindStates(const std::string& inputs) {
    const size_t tokens =
        size_t(std::find(roles.begin(), roles.end(), Role::kTokens) - roles.begin());
    batch_size = program->inputs()[tokens].shape[0];
    int64_t rest = 0;
    for (size_t v = 0; v < program->variables().size(); ++v) {
      const IoSpec& spec = program->variables()[v];
      if (session->store()->Has(spec.name)) continue;
      const bool is_state = spec.shape.has_rank() &&
                            std::all_of(spec.shape.dims().begin(), spec.shape.dims().end(),
                                        [&](SymInt d) { return d.is_const() || d == batch_size; });
      if (is_state)
        states.push_back(v);
      else
        ++rest;
    }
    if (rest > session->caches().caches)
      Refuse("a state that is fed back has sizes besides that of the batch", inputs);
  }
  /// Before a text states are zeros.
  void ClearStates(int64_t rows) {
    for (const size_t v : states) {
      const IoSpec& spec = program->variables()[v];
      std::vector<int64_t> dims;
      for (const SymInt d : spec.shape.dims()) dims.push_back(d.is_const() ? d.value() : rows);
      session->store()->Set(spec.name, std::make_shared<Tensor>(spec.dtype, std::move(dims)));
    }
  }
  [[noreturn]] static void Refuse(const std::string& why, const std::string& inputs) {
    ThrowError(ErrorCode::kUnsupported, "this is not a model of texts: " + why, "",
               "it has the inputs " + inputs +
                   "; expected are input_ids, attention_mask, position_ids and caches, which are "
                   "outputs that are rows behind those of an input");
  }

  /// One run on `n` new slots of each row, behind `held`.
  void Step(const Batch& batch, const std::vector<std::vector<int64_t>>& fresh,
            const std::vector<std::vector<int64_t>>& positions, int64_t held) {
    const int64_t rows = int64_t(fresh.size()), n = int64_t(fresh[0].size());
    std::vector<TensorPtr> in;
    for (size_t i = 0; i < roles.size(); ++i) {
      const IoSpec& spec = program->inputs()[i];
      const auto make = [&](int64_t columns) {
        return std::make_shared<Tensor>(spec.dtype, spec.shape.rank() == 1
                                                        ? std::vector<int64_t>{columns}
                                                        : std::vector<int64_t>{rows, columns});
      };
      std::shared_ptr<Tensor> t;
      switch (roles[i]) {
        case Role::kRows:
          t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{});
          t->set_int(0, held);
          break;
        case Role::kTokens:
          t = make(n);
          ForEach(rows, n, t.get(),
                  [&](int64_t b, int64_t k) { return fresh[size_t(b)][size_t(k)]; });
          break;
        case Role::kPositions:
          t = make(n);
          ForEach(spec.shape.rank() == 1 ? 1 : rows, n, t.get(),
                  [&](int64_t b, int64_t k) { return positions[size_t(b)][size_t(k)]; });
          break;
        case Role::kMask:
          t = make(held + n);
          ForEach(rows, held + n, t.get(),
                  [&](int64_t b, int64_t k) { return int64_t(batch.seen[size_t(b)][size_t(k)]); });
          break;
      }
      in.push_back(std::move(t));
    }
    try {
      session->RunInto(in, &outputs);
    } catch (Error& e) {
      if (e.code() == ErrorCode::kIndexRange) {
        e.AddPlace(fmt::format("position {}", held + n - 1));
        if (e.hint().empty())
          e.SetHint(
              "the model may have fewer positions than this text: a shorter prompt, or fewer "
              "new tokens");
      }
      throw;
    }
  }

  int64_t Pick(Sampler* sampler, int64_t batch_row, int64_t slot) {
    const Tensor& t = *outputs[logits];
    const int64_t v = t.dims()[2], at = (batch_row * t.dims()[1] + slot) * v;
    if (t.dtype() == DType::kF32) return sampler->Next(t.data_as<float>() + at, v);
    row.resize(size_t(v));
    for (int64_t i = 0; i < v; ++i) row[size_t(i)] = float(t.at(at + i));
    return sampler->Next(row.data(), v);
  }

  void RunBatch(const std::vector<size_t>& texts, const std::vector<std::vector<int64_t>>& prompts,
                const GenerateOptions& o, const OnToken& on_token,
                std::vector<std::vector<int64_t>>* made) {
    Batch batch;
    batch.texts = texts;
    std::vector<std::vector<int64_t>> fresh, positions;
    std::vector<Sampler> samplers;
    size_t longest = 0;
    for (const size_t t : texts) longest = std::max(longest, prompts[t].size());
    for (const size_t t : texts) {
      std::vector<int64_t> tokens = prompts[t];
      batch.lengths.push_back(int64_t(tokens.size()));
      batch.seen.emplace_back(tokens.size(), char(1));
      batch.seen.back().resize(longest, 0);
      tokens.resize(longest, tokens.back());
      std::vector<int64_t> at(longest);
      for (size_t k = 0; k < longest; ++k) at[k] = std::min(int64_t(k), batch.lengths.back() - 1);
      positions.push_back(std::move(at));
      fresh.push_back(std::move(tokens));
      SamplingOptions sampling = o.sampling;
      sampling.seed += t;
      samplers.emplace_back(sampling);
    }
    batch.slots = fresh;
    if (has_cache) session->ReserveRows(int64_t(longest) + std::min(o.max_tokens, kMostReserved));
    ClearStates(int64_t(texts.size()));
    const bool goes_on_behind = has_cache || !states.empty();

    std::vector<char> ended(texts.size(), 0);
    int64_t held = 0;
    for (int64_t made_now = 0; made_now < o.max_tokens; ++made_now) {
      const Timer timer;
      if (goes_on_behind)
        Step(batch, fresh, positions, held);
      else
        Step(batch, batch.slots, positions, 0);
      const int64_t slots = int64_t(batch.seen[0].size());
      const std::vector<int64_t>& scores = outputs[logits]->dims();
      WEFT_CHECK(scores[0] == int64_t(texts.size()) && scores[1] > 0, kUnsupported,
                 "the model gives scores {} of {} texts", outputs[logits]->shape().ToString(),
                 texts.size());
      const int64_t given = scores[1];
      std::vector<std::vector<int64_t>> next;
      for (size_t b = 0; b < texts.size(); ++b) {
        // Of the last token that is no filling; a model may give the scores of the last slot alone.
        const int64_t last = made_now == 0 ? batch.lengths[b] - 1 : slots - 1;
        const int64_t behind = slots - 1 - last;
        WEFT_CHECK(behind < given, kUnsupported,
                   "the model gives the scores of the last {} tokens; texts of different lengths "
                   "need all",
                   given);
        const int64_t token =
            ended[b] ? batch.slots[b].back() : Pick(&samplers[b], int64_t(b), given - 1 - behind);
        next.push_back({token});
        if (ended[b]) continue;
        (*made)[texts[b]].push_back(token);
        ++stats.new_tokens;
        const bool stops = std::count(o.stop_tokens.begin(), o.stop_tokens.end(), token) > 0;
        const bool goes_on = !on_token || on_token(texts[b], token);
        ended[b] = stops || !goes_on;
      }
      const double seconds = timer.seconds();
      if (made_now == 0) {
        stats.prompt_seconds += seconds;
      } else {
        stats.seconds += seconds;
        ++stats.steps;
        stats.step_seconds.push_back(seconds);
        stats.arena_allocations += session->arena_bytes() > arena_bytes;
      }
      arena_bytes = std::max(arena_bytes, session->arena_bytes());
      if (std::all_of(ended.begin(), ended.end(), [](char e) { return e != 0; })) break;
      held = slots;
      for (size_t b = 0; b < texts.size(); ++b) {
        // One that has ended stays where it is: others may have positions left that it has not.
        const int64_t at = ended[b] ? batch.lengths[b] - 1 : batch.lengths[b]++;
        batch.seen[b].push_back(1);
        batch.slots[b].push_back(next[b][0]);
        if (goes_on_behind)
          positions[b] = {at};
        else
          positions[b].push_back(at);
      }
      fresh = std::move(next);
    }
  }
};

Generator::Generator(Graph model, const CompileOptions& given) : impl_(std::make_unique<Impl>()) {
  CompileOptions options = given;
  if (options.feedback.empty()) options.feedback = {"auto"};
  Impl& g = *impl_;
  g.program = Compile(std::move(model), options);
  g.session = std::make_unique<Session>(g.program);
  g.has_cache = !g.program->variables().empty() && g.session->caches().caches > 0;
  g.Recognise();
}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
const GenerateStats& Generator::stats() const { return impl_->stats; }
int64_t Generator::vocabulary() const { return impl_->vocabulary; }
void Generator::set_cancel(CancelToken token) { impl_->session->set_cancel(std::move(token)); }
const Program& Generator::program() const { return *impl_->program; }

std::vector<std::vector<int64_t>> Generator::Run(const std::vector<std::vector<int64_t>>& prompts,
                                                 const GenerateOptions& o,
                                                 const OnToken& on_token) {
  Impl& g = *impl_;
  g.stats = {};
  WEFT_CHECK(!prompts.empty(), kBadInput, "there is no prompt");
  WEFT_CHECK(o.max_tokens >= 0, kUsage, "{} new tokens", o.max_tokens);
  const Sampler checked(o.sampling);
  for (size_t t = 0; t < prompts.size(); ++t) {
    WEFT_CHECK(!prompts[t].empty(), kBadInput, "prompt {} has no token", t);
    for (const int64_t token : prompts[t])
      WEFT_CHECK(token >= 0 && (g.vocabulary < 0 || token < g.vocabulary), kBadInput,
                 "prompt {}: the model has {} tokens, none of them {}", t, g.vocabulary, token);
    g.stats.prompt_tokens += int64_t(prompts[t].size());
  }
  for (const int64_t token : o.stop_tokens)
    WEFT_CHECK(token >= 0 && (g.vocabulary < 0 || token < g.vocabulary), kBadInput,
               "stop token {}: the model has {} tokens", token, g.vocabulary);
  std::vector<std::vector<int64_t>> made(prompts.size());
  // Texts that can run together, in the order of the first of them.
  std::vector<std::vector<size_t>> batches;
  std::map<size_t, size_t> of_length;
  for (size_t t = 0; t < prompts.size(); ++t) {
    const size_t length = g.has_mask && g.has_positions && g.states.empty() ? 0 : prompts[t].size();
    const auto [it, fresh] = of_length.emplace(length, batches.size());
    if (fresh) batches.emplace_back();
    batches[it->second].push_back(t);
  }
  for (const std::vector<size_t>& texts : batches) g.RunBatch(texts, prompts, o, on_token, &made);
  g.stats.cache = g.session->caches();
  g.stats.arena_bytes = g.session->arena_bytes();
  if (g.stats.seconds > 0) {
    // Of the steps behind the first one, each text that still ran made one.
    const int64_t first = int64_t(prompts.size());
    g.stats.tokens_per_second = double(g.stats.new_tokens - first) / g.stats.seconds;
  }
  return made;
}

}  // namespace weft
