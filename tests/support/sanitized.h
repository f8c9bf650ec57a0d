#pragma once

/// sanitized.h: whether this build is slowed down by sanitizers, and what a process holds.

#include <cstdint>
#include <fstream>
#include <string>

#if defined(__has_feature)  // clang's way of saying it
#if __has_feature(address_sanitizer)
#define WEFT_TEST_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define WEFT_TEST_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WEFT_TEST_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT_TEST_THREAD_SANITIZER
#endif

#if defined(WEFT_TEST_ADDRESS_SANITIZER)
#include <sanitizer/allocator_interface.h>
#endif

namespace weft::e2e {

#if defined(WEFT_TEST_ADDRESS_SANITIZER)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

#if defined(WEFT_TEST_ADDRESS_SANITIZER) || defined(WEFT_TEST_THREAD_SANITIZER)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Bytes that this process holds: its resident size, or under AddressSanitizer, which keeps what is
/// freed for a while, what is allocated and not freed.
inline int64_t HeldBytes() {
#if defined(WEFT_TEST_ADDRESS_SANITIZER)
  return int64_t(__sanitizer_get_current_allocated_bytes());
#else
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
#endif
}

}  // namespace weft::e2e
