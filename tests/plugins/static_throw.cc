/// static_throw.cc: throws before its entry is reached.
#include <stdexcept>

namespace {
int Fail() { throw std::runtime_error("no configuration"); }
[[maybe_unused]] const int configured = Fail();
}  // namespace
