/// c_object.h: what stands behind the handles of weft.h, and how exceptions become statuses.
/// Private to the C API.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "weft/runtime/program/program.h"
#include "weft/support/check.h"
#include "weft/weft.h"

struct WeftTensor {
  std::shared_ptr<weft::Tensor> tensor;
};

struct WeftCancel {
  weft::CancelToken token;
};

/// The strings and arrays that a WeftIo points to.
struct WeftIoText {
  std::vector<int64_t> dims;
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
};

struct WeftProgram {
  std::shared_ptr<const weft::Program> program;
  std::vector<WeftIoText> inputs, outputs;
};

namespace weft::capi {

/// Keeps what the thread's last failing call had to say, as far as there is memory for it.
WeftStatus RememberError(const Error& error) noexcept;
WeftStatus RememberError(ErrorCode code, const char* message) noexcept;

/// Runs `f`; whatever it throws becomes a status.
template <class F>
WeftStatus Guard(F&& f) noexcept {
  try {
    f();
    return WEFT_OK;
  } catch (const Error& e) {
    return RememberError(e);
  } catch (const std::bad_alloc&) {
    return RememberError(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& e) {
    return RememberError(ErrorCode::kInternal, e.what());
  } catch (...) {
    return RememberError(ErrorCode::kInternal, "an unknown exception");
  }
}

inline void CheckArgument(const void* p, const char* name) {
  WEFT_CHECK(p, kApiMisuse, "argument '{}' is null", name);
}

/// Maps are among what the interface cannot give.
inline WeftKind KindOf(TypeKind kind) {
  return kind == TypeKind::kMap || kind == TypeKind::kMapSequence ? WEFT_KIND_OPAQUE
                                                                  : WeftKind(kind);
}

}  // namespace weft::capi
