/// step_times.cc: see step_times.h.
#include "step_times.h"

#include <algorithm>
#include <utility>

namespace weft {

void TimedStep::Count(const StepCost& each) {
  work.bytes += each.bytes * (times - counted);
  work.flops += each.flops * (times - counted);
  counted = times;
}

StepTime TimedStep::Row(std::string name, const char* kind, std::string in) const {
  StepTime t;
  t.name = std::move(name);
  t.kind = kind;
  t.duration = microseconds;
  t.bytes = work.bytes;
  t.flops = work.flops;
  t.in = std::move(in);
  t.times = times;
  return t;
}

void AppendTimes(StepTime node, std::vector<StepTime> inside, std::vector<StepTime>* times) {
  for (const StepTime& t : inside) node.duration -= t.duration;
  node.duration = std::max(0.0, node.duration);  // two clocks may disagree in the last bit
  if (!inside.empty()) node.bytes = node.flops = 0;
  times->push_back(std::move(node));
  for (StepTime& t : inside) times->push_back(std::move(t));
}

std::string PlaceIn(const std::string& in, const std::string& name) {
  return in.empty() ? name : in + "/" + name;
}

}  // namespace weft
