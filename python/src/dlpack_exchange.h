/// dlpack_exchange.h: the part of DLPack 1.3 by which a framework hands out views of its tensors
/// to C without calls of Python (`type(t).__dlpack_c_exchange_api__`, 0.2 us). Declared here: the
/// system's dlpack.h is older.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace weft::python::dlpack {

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type, id;
};
inline constexpr int32_t kCpu = 1, kCudaHost = 3;
inline constexpr uint8_t kComplex = 5;
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
/// DLTensor.
struct View {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct ExchangeHeader {
  Version version;
  ExchangeHeader* older;
};
/// DLPackExchangeAPI of major version 1; functions return 0, or -1 with a Python error set.
struct Exchange {
  ExchangeHeader header;
  int (*allocate)(View* prototype, void** out, void* error_context,
                  void (*set_error)(void*, const char*, const char*));
  int (*managed_from_object)(void* object, void** out);
  int (*managed_to_object)(void* managed, void** out);
  /// A view that lives as long as the object is alive and unchanged.
  int (*view_from_object)(void* object, View* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};
inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";
inline constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";

}  // namespace weft::python::dlpack

namespace weft::python {

/// The table of the object's type; null: it has none. With the GIL held.
const dlpack::Exchange* ExchangeOf(nanobind::handle object);

}  // namespace weft::python
