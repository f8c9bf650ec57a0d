/// packing_call.h: library calls that keep constants packed, in the way that they read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "weft/runtime/backend/compute.h"

namespace weft {

class WEFT_API PackingCall : public LibraryCall {
 public:
  PackingCall() = default;
  ~PackingCall() override;
  /// False: Run does not look at input `i`, a constant, which is packed.
  virtual bool reads(size_t i) const = 0;
  /// Adds what is packed, by address: calls share it.
  virtual void AddPacked(std::map<const void*, int64_t>* bytes) const = 0;
};

}  // namespace weft
