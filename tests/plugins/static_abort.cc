/// static_abort.cc: ends the process before its entry is reached.
#include <cstdlib>

namespace {
[[maybe_unused]] const int configured = (std::abort(), 1);
}  // namespace
