/* torch_abi.h: what this plugin uses of torch's stable C interface (torch 2.10 and later), opened
 * at run time. No header of torch is needed: a tensor, a list and a text are opaque handles, every
 * function returns 0 or fails, and what an operator of torch takes and gives is one array of 64-bit
 * values in the order of its schema:
 *
 *   Tensor          a handle; the call takes what is given and gives what it returns
 *   int, SymInt     the number           float   the bits of a double      bool   0 or 1
 *   ScalarType      aoti_torch_dtype_*() str     a handle of a text
 *   T[]             a handle of a list of such values
 *   T?              0, or a pointer to such a value, allocated by torch
 *
 * A schema's `Scalar` has no such form: operators that need one are reached in other ways. */
#ifndef WEFT_PLUGINS_LIBTORCH_TORCH_ABI_H_
#define WEFT_PLUGINS_LIBTORCH_TORCH_ABI_H_

#include <stdbool.h>
#include <stdint.h>

#include "weft/plugin.h"

typedef struct TorchTensor* Tensor;
typedef struct TorchList* List;
typedef struct TorchText* Text;
typedef uint64_t Word; /* of a call's array */
typedef int32_t TorchError;

/* Z(result, name, parameters) of every symbol; those behind TORCH_OPTIONAL may be absent. */
#define TORCH_REQUIRED(Z)                                                                          \
  Z(TorchError, torch_call_dispatcher, (const char*, const char*, Word*, uint64_t))                \
  Z(TorchError, torch_new_list_reserve_size, (size_t, List*))                                      \
  Z(TorchError, torch_list_push_back, (List, Word))                                                \
  Z(TorchError, torch_new_string_handle, (const char*, size_t, Text*))                             \
  Z(TorchError, torch_get_num_threads, (uint32_t*))                                                \
  Z(TorchError, aoti_torch_create_tensor_from_blob,                                                \
    (void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Tensor*)) \
  Z(TorchError, aoti_torch_new_tensor_handle, (Tensor, Tensor*))                                   \
  Z(TorchError, aoti_torch_delete_tensor_object, (Tensor))                                         \
  Z(TorchError, aoti_torch_get_data_ptr, (Tensor, void**))                                         \
  Z(TorchError, aoti_torch_get_dtype, (Tensor, int32_t*))                                          \
  Z(TorchError, aoti_torch_get_dim, (Tensor, int64_t*))                                            \
  Z(TorchError, aoti_torch_get_sizes, (Tensor, int64_t**))                                         \
  Z(TorchError, aoti_torch_get_strides, (Tensor, int64_t**))                                       \
  Z(TorchError, aoti_torch_aten_subtract_Tensor, (Tensor, Tensor, double, Tensor*))                \
  Z(uint64_t, aoti_torch_abi_version, (void))                                                      \
  Z(int32_t, aoti_torch_memory_format_contiguous_format, (void))                                   \
  Z(bool, aoti_torch_grad_mode_is_enabled, (void))                                                 \
  Z(void, aoti_torch_grad_mode_set_enabled, (bool))                                                \
  Z(int32_t, aoti_torch_device_type_cpu, (void))                                                   \
  Z(int32_t, aoti_torch_dtype_bool, (void))                                                        \
  Z(int32_t, aoti_torch_dtype_int8, (void))                                                        \
  Z(int32_t, aoti_torch_dtype_int16, (void))                                                       \
  Z(int32_t, aoti_torch_dtype_int32, (void))                                                       \
  Z(int32_t, aoti_torch_dtype_int64, (void))                                                       \
  Z(int32_t, aoti_torch_dtype_uint8, (void))                                                       \
  Z(int32_t, aoti_torch_dtype_float16, (void))                                                     \
  Z(int32_t, aoti_torch_dtype_bfloat16, (void))                                                    \
  Z(int32_t, aoti_torch_dtype_float32, (void))                                                     \
  Z(int32_t, aoti_torch_dtype_float64, (void))

#define TORCH_OPTIONAL(Z)                                                       \
  Z(const char*, torch_exception_get_what_without_backtrace, (void)) /* 2.13 */ \
  Z(TorchError, torch_new_stable_ivalue, (Word**))                   /* 2.13 */

typedef struct Torch {
#define TORCH_MEMBER(result, name, parameters) result(*name) parameters;
  TORCH_REQUIRED(TORCH_MEMBER)
  TORCH_OPTIONAL(TORCH_MEMBER)
#undef TORCH_MEMBER
  void* (*new_bytes)(size_t);        /* C++'s operator new, for optional values before 2.13 */
  void (*set_num_threads)(int);      /* at::set_num_threads, which has no form in C */
  int32_t device_type, device_index; /* where all tensors lie: the one place that says so */
  char version[64];
} Torch;

extern Torch torch;
extern const WeftHost* weft;

/* Opens the library once; every later call gives the same answer. */
WeftStatus OpenTorch(void);
/* torch's type of elements as wide as Weft's, -1 where there is none. Unsigned integers beyond u8
 * and 8-bit floats are taken by their bits: operators that look at more must refuse them. */
int32_t TorchType(WeftDType dtype);
/* What torch said of the call that has just failed. */
const char* TorchSaid(void);
/* host->fail with printf's formats. */
WeftStatus Fail(WeftStatus status, const char* format, ...) __attribute__((format(printf, 2, 3)));

#endif /* WEFT_PLUGINS_LIBTORCH_TORCH_ABI_H_ */
