/// run_bodies.cc: see weft/core/op/run_bodies.h.
#include "weft/core/op/run_bodies.h"

#include <fmt/format.h>

#include "weft/support/strings.h"

namespace weft {

void StraightLoop::Point(int64_t part, const void* const* operands, void* const* to_results,
                         void* const* others, std::vector<IteratedPlace>* from,
                         std::vector<IteratedPlace>* to) const {
  from->clear(), to->clear();
  for (size_t k = 0; k < states.size(); ++k) {
    char* const first = Begin(part, operands[k], states[k]);
    if (const int r = states[k].result; r >= 0) {
      // Read where the iteration before has written it.
      const IteratedPlace stack =
          Stacked(part, to_results[states.size() + size_t(r)], results[size_t(r)]);
      from->push_back({stack.even - stack.step, stack.odd - stack.step, stack.step, first});
      to->push_back(stack);
      continue;
    }
    char *last = Begin(part, to_results[k], states[k]), *other = Begin(part, others[k], states[k]);
    // Iteration i writes the result where as many as are behind it are even.
    char* const even = (count - 1) % 2 == 0 ? last : other;
    char* const odd = even == last ? other : last;
    from->push_back({odd, even, 0, first});
    to->push_back({even, odd, 0, nullptr});
  }
  const size_t first_slice = states.size(), first_capture = first_slice + slices.size();
  for (size_t k = 0; k < slices.size(); ++k)
    from->push_back(Stacked(part, operands[first_slice + k], slices[k]));
  for (size_t k = 0; k < captures; ++k)
    from->push_back(IteratedPlace::Fixed(operands[first_capture + k]));
  for (size_t k = 0; k < results.size(); ++k)
    to->push_back(Stacked(part, to_results[states.size() + k], results[k]));
}

void StraightLoop::Finish(int64_t part, void* const* to_results) const {
  for (size_t k = 0; k < states.size(); ++k) {
    const int r = states[k].result;
    if (r < 0 || states[k].bytes == 0) continue;
    const IteratedPlace stack =
        Stacked(part, to_results[states.size() + size_t(r)], results[size_t(r)]);
    std::memcpy(Begin(part, to_results[k], states[k]), stack.At(count - 1),
                size_t(states[k].bytes / parts));
  }
}

void ExplainIteration(Error* e, int64_t iteration, const std::string& states, int64_t collected) {
  e->AddPlace(fmt::format("iteration {}", iteration));
  const bool limited = e->code() == ErrorCode::kLimit || e->code() == ErrorCode::kOutOfMemory;
  if (limited && e->hint().empty())
    e->SetHint(fmt::format("the states are {}; {} are collected", states, FormatBytes(collected)));
}

}  // namespace weft
