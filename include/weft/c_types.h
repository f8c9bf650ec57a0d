/* c_types.h: numbers that the C interfaces share: statuses and element types. Plain C99. Stable:
 * numbers are never reused. */
#ifndef WEFT_C_TYPES_H_
#define WEFT_C_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#include "weft/support/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or the code of an error as all tools print it: 301 is WEFT-E0301. Its hundred says whose fault
 * it is: 1 the call, 2 a file, 3 the model or its data, 4 not supported, 5 a limit or memory, 6 a
 * registry, 7 a check, 8 the machine, 9 a bug in Weft. */
typedef int32_t WeftStatus;
enum {
  WEFT_OK = 0,
  WEFT_E_USAGE = 101,
  WEFT_E_UNKNOWN_PASS = 102,
  WEFT_E_UNKNOWN_OPTION = 103,
  WEFT_E_DEPENDENCY = 104,
  WEFT_E_BAD_BINDING = 105,
  WEFT_E_API_MISUSE = 106,
  WEFT_E_IO = 201,
  WEFT_E_SYNTAX = 202,
  WEFT_E_BAD_TENSOR_FILE = 203,
  WEFT_E_INVALID_MODEL = 301,
  WEFT_E_UNKNOWN_OP = 302,
  WEFT_E_BAD_ATTRIBUTE = 303,
  WEFT_E_TYPE_MISMATCH = 304,
  WEFT_E_SHAPE_MISMATCH = 305,
  WEFT_E_ARITY = 306,
  WEFT_E_CYCLE = 307,
  WEFT_E_BAD_INPUT = 308,
  WEFT_E_INDEX_RANGE = 309,
  WEFT_E_UNSUPPORTED = 401,
  WEFT_E_MISSING_OP_ATTR = 402,
  WEFT_E_LIMIT = 501,
  WEFT_E_OVERFLOW = 502,
  WEFT_E_OUT_OF_MEMORY = 503,
  WEFT_E_CANCELLED = 504,
  WEFT_E_DUPLICATE = 601,
  WEFT_E_TYPE_CONFLICT = 602,
  WEFT_E_PLUGIN = 603,
  WEFT_E_PLUGIN_ABI = 604,
  WEFT_E_CHECK_FAILED = 701,
  WEFT_E_DEVICE = 801,
  WEFT_E_INTERNAL = 901
};

/* Element types. Sub-byte types are packed, low bits first. */
typedef int32_t WeftDType;
enum {
  WEFT_DTYPE_UNKNOWN = 0,
  WEFT_BOOL = 1,
  WEFT_I8,
  WEFT_I16,
  WEFT_I32,
  WEFT_I64,
  WEFT_U8,
  WEFT_U16,
  WEFT_U32,
  WEFT_U64,
  WEFT_F16,
  WEFT_BF16,
  WEFT_F32,
  WEFT_F64,
  WEFT_STRING,
  WEFT_C64,
  WEFT_C128,
  WEFT_I4,
  WEFT_U4,
  WEFT_I2,
  WEFT_U2,
  WEFT_F8E4M3FN,
  WEFT_F8E4M3FNUZ,
  WEFT_F8E5M2,
  WEFT_F8E5M2FNUZ,
  WEFT_F8E8M0,
  WEFT_F4E2M1
};

#ifdef __cplusplus
}
#endif

#endif /* WEFT_C_TYPES_H_ */
