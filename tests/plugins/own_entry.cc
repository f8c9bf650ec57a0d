/// own_entry.cc: entries that go wrong, one a macro.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "weft/core/op/op.h"
#include "weft/plugin.h"

#if defined(NO_ABI_ID) || defined(WRONG_ABI_INFO)
WEFT_REGISTER_OP_IN(test, Nameless).describe("of unknown headers").set_num_inputs(1);
#endif

extern "C" WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host,
                                                             WeftPluginInfo* info) {
  weft_plugin_describe(info, "own", "1.0", "goes wrong");
#if defined(THROWS)
  throw std::runtime_error("the entry throws");
#elif defined(THROWS_INT)
  throw 7;
#elif defined(ABORTS)
  std::abort();
#elif defined(EXITS)
  _exit(3);
#elif defined(HANGS)
  while (true) pause();
#elif defined(WRONG_ABI_INFO)
  info->abi_id = "0123456789abcdef-libstdc++11-x86_64";
#endif
  (void)host;
  return WEFT_OK;
}
