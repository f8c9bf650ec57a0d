/// program.cc: compiled programs (weft/runtime/saved/saved_program.h): run, never read as graphs.
#include "weft/api/format.h"

namespace weft {
namespace {

[[maybe_unused]] const bool registered =
    RegisterModelFormat({"weftx", "compiled program", nullptr, nullptr, nullptr});

}  // namespace
}  // namespace weft
