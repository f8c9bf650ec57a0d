/// user.cc: a program that knows Weft only through find_package or pkg-config.
#include <cstdio>
#include <cstring>

#include "weft/support/error.h"

int main() {
  try {
    weft::ThrowError(weft::ErrorCode::kInternal, "thrown by libweft.so, caught outside it");
  } catch (const weft::Error& error) {
    std::puts(error.what());
    return std::strstr(error.what(), "caught outside it") ? 0 : 1;
  }
  return 1;
}
