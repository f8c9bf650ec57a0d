/// pass_trace.cc: the trace of a thread.
#include "weft/core/pass/pass_trace.h"

#include <utility>

namespace weft {
namespace {
thread_local PassTrace* current = nullptr;
}  // namespace

PassTrace* ExchangePassTrace(PassTrace* trace) { return std::exchange(current, trace); }

}  // namespace weft
