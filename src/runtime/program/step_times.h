/// step_times.h: what the steps of profiled runs took, summed where they run: a body that runs a
/// million times has as many rows as one that runs once. Private to the runtime.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/binding/step_cost.h"
#include "weft/runtime/program/program.h"

namespace weft {

/// Sums over the runs of one step.
struct TimedStep {
  double microseconds = 0;
  int64_t times = 0, counted = 0;  ///< runs; those of which bytes and flops are in `work`
  StepCost work;

  /// Each run that is not counted yet did this.
  void Count(const StepCost& each);
  StepTime Row(std::string name, const char* kind, std::string in) const;
};

/// Adds the time of its life to a step.
class Stopwatch {
 public:
  explicit Stopwatch(TimedStep* step) : step_(*step) {}
  ~Stopwatch() {
    step_.microseconds +=
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
            .count();
    ++step_.times;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  TimedStep& step_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A node, and behind it the steps inside of it, whose times are taken off its own. What they read
/// and write is theirs.
void AppendTimes(StepTime node, std::vector<StepTime> inside, std::vector<StepTime>* times);
/// StepTime::in of what is inside of `name`, which is in `in`.
std::string PlaceIn(const std::string& in, const std::string& name);

}  // namespace weft
