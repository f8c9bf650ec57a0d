/* embed.c: Weft from C. Loads a model, runs it on ones, writes the compiled program beside it,
 * loads that and compares.
 *
 *   embed MODEL [EXTENT]   MODEL is .onnx, .weft, .json or .weftx; EXTENT (1) stands for every
 *                          dynamic dimension
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { kMaxRank = 16 };

static int Fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, weft_error_text());
  return 1;
}

static void PrintIo(const char* what, const WeftIo* io) {
  int d;
  printf("%s %s [", what, io->name);
  for (d = 0; d < io->rank; ++d) printf("%s%s", d ? ", " : "", io->dim_texts[d]);
  printf("]\n");
}

/* Every element 1, whatever its type; what has no such form stays 0. */
static void FillOnes(WeftTensor* t) {
  const WeftDType type = weft_tensor_dtype(t);
  char* at = weft_tensor_data(t);
  const int64_t bytes = weft_tensor_bytes(t);
  int64_t i;
  if (at == NULL) return;
  switch (type) {
    case WEFT_F32:
      for (i = 0; i < bytes / 4; ++i) ((float*)at)[i] = 1;
      break;
    case WEFT_I64:
      for (i = 0; i < bytes / 8; ++i) ((int64_t*)at)[i] = 1;
      break;
    case WEFT_I32:
      for (i = 0; i < bytes / 4; ++i) ((int32_t*)at)[i] = 1;
      break;
    default:
      break;
  }
}

/* Binds ones to every input. */
static int BindInputs(const WeftProgram* program, WeftSession* session, int64_t extent) {
  size_t k;
  for (k = 0; k < weft_program_num_inputs(program); ++k) {
    WeftIo io = {0};
    WeftTensor* tensor = NULL;
    int64_t dims[kMaxRank];
    int d;
    io.struct_size = sizeof io;
    if (weft_program_input(program, k, &io) != WEFT_OK) return Fail("input");
    if (io.rank < 0 || io.rank > kMaxRank) {
      fprintf(stderr, "input %s has no rank that this program takes\n", io.name);
      return 1;
    }
    PrintIo("input ", &io);
    for (d = 0; d < io.rank; ++d) dims[d] = io.dims[d] < 0 ? extent : io.dims[d];
    if (weft_tensor_create(io.dtype, io.rank, dims, &tensor) != WEFT_OK) return Fail(io.name);
    FillOnes(tensor);
    if (weft_session_bind_input(session, io.name, tensor) != WEFT_OK) return Fail(io.name);
    weft_tensor_release(tensor); /* the session keeps it */
  }
  return 0;
}

/* One run of `program` on ones; its first output. */
static int RunOnce(const WeftProgram* program, int64_t extent, WeftTensor** result) {
  WeftSession* session = NULL;
  int failed = 0;
  if (weft_session_create(program, &session) != WEFT_OK) return Fail("session");
  failed = BindInputs(program, session, extent);
  if (!failed && weft_session_run(session) != WEFT_OK) failed = Fail("run");
  if (!failed && weft_session_output(session, 0, result) != WEFT_OK) failed = Fail("output");
  weft_session_release(session);
  return failed;
}

int main(int argc, char** argv) {
  const int64_t extent = argc > 2 ? strtoll(argv[2], NULL, 10) : 1;
  WeftProgram *program = NULL, *again = NULL;
  WeftTensor *first = NULL, *second = NULL;
  char path[] = "/tmp/weft_embed_XXXXXX.weftx";
  int failed = 0, file;
  if (argc < 2) {
    fprintf(stderr, "usage: embed MODEL [EXTENT]\n");
    return 2;
  }
  if (weft_program_load(argv[1], NULL, &program) != WEFT_OK) return Fail(argv[1]);
  failed = RunOnce(program, extent, &first);
  if (!failed) {
    WeftIo io = {0};
    io.struct_size = sizeof io;
    weft_program_output(program, 0, &io);
    PrintIo("output", &io);
    if (weft_tensor_dtype(first) == WEFT_F32 && weft_tensor_bytes(first) > 0)
      printf("first element %g\n", (double)*(const float*)weft_tensor_data(first));
  }
  /* The compiled program runs where there is no ONNX and no compiler. */
  file = failed ? -1 : mkstemps(path, 6);
  if (file >= 0) {
    close(file);
    if (weft_program_save(program, path) != WEFT_OK) failed = Fail(path);
    if (!failed && weft_program_load(path, NULL, &again) != WEFT_OK) failed = Fail(path);
    if (!failed) failed = RunOnce(again, extent, &second);
    if (!failed) {
      failed = weft_tensor_bytes(first) != weft_tensor_bytes(second) ||
               memcmp(weft_tensor_data(first), weft_tensor_data(second),
                      (size_t)weft_tensor_bytes(first)) != 0;
      printf("saved, loaded, run again: %s\n", failed ? "different" : "equal");
    }
    remove(path);
  }
  weft_tensor_release(second);
  weft_tensor_release(first);
  weft_program_release(again);
  weft_program_release(program);
  return failed;
}
