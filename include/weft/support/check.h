/// check.h: checks that throw, with fmt messages checked at compile time. For .cc
/// files: it includes fmt.
#pragma once

#include <fmt/format.h>

#include "weft/support/error.h"

/// WEFT_THROW(kShapeMismatch, "expected rank {}, got {}", 2, rank);
#define WEFT_THROW(code, ...) \
  ::weft::ThrowError(::weft::ErrorCode::code, ::fmt::format(__VA_ARGS__))

/// WEFT_CHECK(axis < rank, kBadAttribute, "axis {} out of range for rank {}", axis, rank);
#define WEFT_CHECK(cond, code, ...)                                  \
  do {                                                               \
    if (__builtin_expect(!(cond), 0)) WEFT_THROW(code, __VA_ARGS__); \
  } while (false)

/// A condition that only a bug in Weft can break.
#define WEFT_ICHECK(cond, ...)                                                                \
  do {                                                                                        \
    if (__builtin_expect(!(cond), 0))                                                         \
      ::weft::ThrowError(::weft::ErrorCode::kInternal,                                        \
                         ::fmt::format("{} [{}] {}:{}", ::fmt::format("" __VA_ARGS__), #cond, \
                                       __FILE_NAME__, __LINE__));                             \
  } while (false)
