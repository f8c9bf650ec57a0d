/* weft.h: Weft for programs in C, and for every language that calls C: load a model, run it.
 *
 *   WeftProgram* program;
 *   WeftSession* session;
 *   if (weft_program_load("net.onnx", NULL, &program) != WEFT_OK) puts(weft_error_text());
 *   weft_session_create(program, &session);
 *   weft_session_bind_input(session, "x", x);
 *   weft_session_run(session);
 *   weft_session_output(session, 0, &y);
 *
 * Every call that can fail returns a status; weft_error_*() tell of the last failure on the
 * calling thread. No exception and no C++ type crosses this header. A call that fails leaves its
 * results as they were.
 *
 * Objects are counted: a `_create`, `_load` or `_output` gives one reference, `_release` returns it
 * (null is fine). A program is immutable and shared by threads; a session and a tensor are for one
 * thread at a time. Structs begin with `struct_size`, which the caller sets to sizeof: the library
 * reads and writes no more than that, so programs built for an older or newer header work. Strings
 * given are copied; strings returned live as long as their object, those of weft_error_*() until
 * the thread's next failing call. */
#ifndef WEFT_WEFT_H_
#define WEFT_WEFT_H_

#include "weft/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.2.0". */
WEFT_API const char* weft_version(void);

/* ---- errors: of the last failed call on this thread; never null ---- */
/* "error[WEFT-E0301] place: message (hint: ...)" */
WEFT_API const char* weft_error_text(void);
WEFT_API const char* weft_error_message(void);
/* Where: file, node. May be "". */
WEFT_API const char* weft_error_place(void);
/* What to do. May be "". */
WEFT_API const char* weft_error_hint(void);

/* ---- tensors: dense, row-major, on the host unless DLPack brings them from a device ---- */
typedef struct WeftTensor WeftTensor;
/* Zero-filled. */
WEFT_API WeftStatus weft_tensor_create(WeftDType dtype, int32_t rank, const int64_t* dims,
                                       WeftTensor** tensor);
/* A view of memory of the caller. `release(context)` is called once, when the last user is gone;
 * it may be null. */
WEFT_API WeftStatus weft_tensor_wrap(WeftDType dtype, int32_t rank, const int64_t* dims, void* data,
                                     void (*release)(void* context), void* context,
                                     WeftTensor** tensor);
/* `managed` (struct DLManagedTensor of dlpack.h) is taken over: its deleter runs when the last user
 * is gone; on failure it stays the caller's. Dense row-major tensors only. Those in memory of a
 * device are taken by programs of that device: what is fed has to be written, and what is bound no
 * longer read, when weft_session_run is called. */
struct DLManagedTensor;
WEFT_API WeftStatus weft_tensor_from_dlpack(struct DLManagedTensor* managed, WeftTensor** tensor);
/* A new view that keeps the tensor's memory alive until its deleter is called. */
WEFT_API WeftStatus weft_tensor_to_dlpack(WeftTensor* tensor, struct DLManagedTensor** managed);
/* The same of DLPack 1, which can say that a tensor is read-only; another major version is
 * WEFT_E_UNSUPPORTED. */
struct DLManagedTensorVersioned;
WEFT_API WeftStatus weft_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned* managed,
                                                      WeftTensor** tensor);
WEFT_API WeftStatus weft_tensor_to_dlpack_versioned(WeftTensor* tensor,
                                                    struct DLManagedTensorVersioned** managed);
WEFT_API WeftDType weft_tensor_dtype(const WeftTensor* tensor);
WEFT_API int32_t weft_tensor_rank(const WeftTensor* tensor);
WEFT_API const int64_t* weft_tensor_dims(const WeftTensor* tensor);
WEFT_API int64_t weft_tensor_bytes(const WeftTensor* tensor);
/* To write. Null for strings, for tensors of no elements, and for read-only ones, where
 * weft_error_text() says so. What a session returned is not to be written. */
WEFT_API void* weft_tensor_data(WeftTensor* tensor);
/* To read. Null for strings and for tensors of no elements. */
WEFT_API const void* weft_tensor_const_data(const WeftTensor* tensor);
/* Where these are addresses: a DLDeviceType of dlpack.h (1: the host, 2: CUDA) and the number of
 * the device. Either may be null. */
WEFT_API WeftStatus weft_tensor_place(const WeftTensor* tensor, int32_t* kind, int32_t* device);
/* Not 0: a view of memory that its owner lets nobody write. */
WEFT_API int32_t weft_tensor_read_only(const WeftTensor* tensor);
WEFT_API void weft_tensor_release(WeftTensor* tensor);

/* ---- sequences and optionals: a WeftTensor too, which holds others and no data of its own ---- */
typedef int32_t WeftKind;
enum {
  WEFT_KIND_TENSOR = 0,
  WEFT_KIND_SEQUENCE = 1,         /* of tensors */
  WEFT_KIND_OPTIONAL = 2,         /* a tensor, or nothing */
  WEFT_KIND_OPAQUE = 3,           /* what this interface cannot give */
  WEFT_KIND_OPTIONAL_SEQUENCE = 4 /* a sequence of tensors, or nothing */
};
/* `dtype` is that of the tensors, also where there are none; `elements`, of which an optional has
 * at most one, stay the caller's. */
WEFT_API WeftStatus weft_list_create(WeftKind kind, WeftDType dtype, size_t count,
                                     WeftTensor* const* elements, WeftTensor** list);
WEFT_API WeftKind weft_tensor_kind(const WeftTensor* tensor);
/* 0 for a tensor. */
WEFT_API size_t weft_list_size(const WeftTensor* list);
WEFT_API WeftStatus weft_list_element(const WeftTensor* list, size_t index, WeftTensor** element);

/* ---- cancellation ---- */
typedef struct WeftCancel WeftCancel;
WEFT_API WeftStatus weft_cancel_create(WeftCancel** cancel);
/* From any thread, any number of times. What uses the handle ends soon with WEFT_E_CANCELLED, what
 * begins later at once; a new start needs a new handle. Not interrupted are single library calls
 * and calls of a compiler. */
WEFT_API void weft_cancel_request(WeftCancel* cancel);
/* Whoever was given the handle keeps what it needs of it. */
WEFT_API void weft_cancel_release(WeftCancel* cancel);

/* ---- programs ---- */
typedef struct WeftProgram WeftProgram;
typedef struct WeftOptions {
  size_t struct_size;
  const char* backend; /* null: "cpu" */
  const char* passes;  /* pipeline instead of the backend's own; null: that */
  int32_t threads;     /* 0: what the process may use */
  const char* limits;  /* "nodes=1000,deadline_s=30"; null: the defaults */
  WeftCancel* cancel;  /* ends the import and the compilation; null: nothing does */
  int32_t tune; /* not 0: library calls are chosen by timing, once for each machine and its cache */
  /* Older headers end here, with padding of any content in this place, and the
   * same size: not read. */
  int32_t unused;
  int32_t tf32; /* not 0: a GPU may round f32 operands of products and convolutions to 10 bits */
  /* "w,b": initializers of an ONNX model that it lists as inputs too, and that will be bound; all
   * others, and these where it is null, are constants. */
  const char* overridable;
  int32_t strict;     /* not 0: what ONNX forbids is refused, also where it has one meaning */
  int32_t unused_too; /* padding, not read */
  /* What a run may add to memory: "300M", "50%" (of what it takes where nothing is computed twice),
   * "min"; null: no bound. A run that cannot keep it ends with WEFT_E_OUT_OF_MEMORY before it
   * begins. */
  const char* memory_budget;
  const char* hints; /* "batch=64,seq=128": likely dimensions, for plans of memory; may be null */
  /* "present=past;h_out=h_in": outputs that are what those inputs are in the next run, kept in the
   * session and gone from the program; "auto": all outputs that are rows behind those of an input.
   * How many rows there are is an input, a scalar i64, where no other one tells it. May be null. */
  const char* feedback;
} WeftOptions;
/* Imports and compiles a model: .onnx, .weft, .json; or loads a compiled program, .weftx.
 * `options` may be null. */
WEFT_API WeftStatus weft_program_load(const char* path, const WeftOptions* options,
                                      WeftProgram** program);
/* As weft_program_load from memory; `format` is "onnx", "weft", "json" or "weftx".
 * The bytes are copied. */
WEFT_API WeftStatus weft_program_load_memory(const void* data, size_t size, const char* format,
                                             const WeftOptions* options, WeftProgram** program);
/* Writes a .weftx file that weft_program_load reads without compiling. */
WEFT_API WeftStatus weft_program_save(const WeftProgram* program, const char* path);
WEFT_API size_t weft_program_num_inputs(const WeftProgram* program);
WEFT_API size_t weft_program_num_outputs(const WeftProgram* program);
typedef struct WeftIo {
  size_t struct_size;
  const char* name;
  WeftDType dtype;
  int32_t rank;                 /* -1: unknown */
  const int64_t* dims;          /* -1: not a constant */
  const char* const* dim_texts; /* "batch", "2*n", "64"; "?" for unknown */
  WeftKind kind;                /* of what is no tensor `dtype` is that of what it holds */
} WeftIo;
WEFT_API WeftStatus weft_program_input(const WeftProgram* program, size_t index, WeftIo* io);
WEFT_API WeftStatus weft_program_output(const WeftProgram* program, size_t index, WeftIo* io);
WEFT_API void weft_program_release(WeftProgram* program);

/* ---- sessions ---- */
typedef struct WeftSession WeftSession;
WEFT_API WeftStatus weft_session_create(const WeftProgram* program, WeftSession** session);
/* Inputs stay bound until bound again; null unbinds. */
WEFT_API WeftStatus weft_session_bind_input(WeftSession* session, const char* name,
                                            WeftTensor* tensor);
/* Results are written into `tensor`, which must have the dtype and extents of the result; null:
 * into a new one, as are sequences and optionals always. */
WEFT_API WeftStatus weft_session_bind_output(WeftSession* session, const char* name,
                                             WeftTensor* tensor);
/* Makes the tensor that a run writes result `index` into, for which none is bound: of that dtype
 * and these dims, in memory that no input and no other result has. Gives one reference, which the
 * library returns; null: the run ends with WEFT_E_OUT_OF_MEMORY. */
typedef WeftTensor* (*WeftAllocate)(void* context, size_t index, WeftDType dtype, int32_t rank,
                                    const int64_t* dims);
/* Of all later runs; null: results are in memory of the library. `release(context)` is called once,
 * when another one is set or the session is gone; it may be null. Not asked for are strings,
 * sequences and optionals. */
WEFT_API WeftStatus weft_session_set_allocator(WeftSession* session, WeftAllocate allocate,
                                               void (*release)(void* context), void* context);
WEFT_API WeftStatus weft_session_run(WeftSession* session);
/* What cancels the runs of this session; null: nothing. The session stays good after a
 * run that was cancelled. */
WEFT_API WeftStatus weft_session_set_cancel(WeftSession* session, const WeftCancel* cancel);
/* Result number `index` of the last run. */
WEFT_API WeftStatus weft_session_output(const WeftSession* session, size_t index,
                                        WeftTensor** tensor);
WEFT_API void weft_session_release(WeftSession* session);

/* ---- texts ---- */
/* A tokenizer.json of a byte-pair encoding (weft/generate/tokenizer.h tells which). */
typedef struct WeftTokenizer WeftTokenizer;
WEFT_API WeftStatus weft_tokenizer_load(const char* path, WeftTokenizer** tokenizer);
/* `text` is UTF-8 of `size` bytes; `special` not 0: with what the file puts around a text. *count
 * is the room in `tokens`, and becomes their number; where it was less, they are not written, and
 * the status is WEFT_E_BAD_BINDING. `tokens` null: they are counted. */
WEFT_API WeftStatus weft_tokenizer_encode(const WeftTokenizer* tokenizer, const char* text,
                                          size_t size, int32_t special, int64_t* tokens,
                                          size_t* count);
/* The same way round: *size bytes of text, with no zero behind them. */
WEFT_API WeftStatus weft_tokenizer_decode(const WeftTokenizer* tokenizer, const int64_t* tokens,
                                          size_t count, int32_t special, char* text, size_t* size);
WEFT_API void weft_tokenizer_release(WeftTokenizer* tokenizer);

/* A language model that goes on with texts (weft/generate/generator.h); one thread at a time. */
typedef struct WeftGenerator WeftGenerator;
/* `options` may be null; those of WeftOptions but `feedback`, where null is "auto". */
WEFT_API WeftStatus weft_generator_load(const char* path, const WeftOptions* options,
                                        WeftGenerator** generator);
typedef struct WeftGenerateOptions {
  size_t struct_size;
  int64_t max_tokens; /* new ones, of each text */
  double temperature; /* 0: the most likely token each time */
  int64_t top_k;      /* 0: all */
  double top_p;       /* 0 or 1: all */
  uint64_t seed;
  const int64_t* stop_tokens; /* a text ends with the first of these */
  size_t num_stop_tokens;
  /* Called with each new token as it comes; not 0 ends that text. May be null. */
  int32_t (*on_token)(void* context, size_t text, int64_t token);
  void* context;
} WeftGenerateOptions;
/* Goes on with `count` texts at once; text i is lengths[i] tokens at prompts[i]. */
WEFT_API WeftStatus weft_generator_run(WeftGenerator* generator, size_t count,
                                       const int64_t* const* prompts, const size_t* lengths,
                                       const WeftGenerateOptions* options);
/* New tokens of a text of the last run, in memory of the generator until its next one; a run that
 * failed has none. */
WEFT_API WeftStatus weft_generator_tokens(const WeftGenerator* generator, size_t text,
                                          const int64_t** tokens, size_t* count);
WEFT_API void weft_generator_release(WeftGenerator* generator);

/* ---- plugins ---- */
/* Loads a plugin from an explicit path, once; what it registers is there
 * for programs loaded later. */
WEFT_API WeftStatus weft_plugin_load(const char* path);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_WEFT_H_ */
