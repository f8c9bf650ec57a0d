/* program.c: see program.h. */
#include "program.h"

#include <stdio.h>
#include <string.h>

#include "weft/weft.h"

WeftStatus ProgramLoad(const void* model, size_t size, int32_t threads, Program** program) {
  WeftOptions options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = threads;
  return weft_program_load_memory(model, size, "onnx", &options, program);
}
void ProgramRelease(Program* program) { weft_program_release(program); }

WeftStatus SessionCreate(Program* program, Session** session) {
  return weft_session_create(program, session);
}
void SessionRelease(Session* session) { weft_session_release(session); }

WeftStatus SessionBind(Session* session, int is_input, int32_t index, WeftDType dtype, int32_t rank,
                       const int64_t* dims, void* data) {
  static char nothing[8]; /* where there are no elements */
  char name[16];
  WeftTensor* tensor;
  WeftStatus status =
      weft_tensor_wrap(dtype, rank, dims, data ? data : nothing, NULL, NULL, &tensor);
  if (status) return status;
  snprintf(name, sizeof name, "%c%d", is_input ? 'x' : 'y', (int)index);
  status = is_input ? weft_session_bind_input(session, name, tensor)
                    : weft_session_bind_output(session, name, tensor);
  weft_tensor_release(tensor);
  return status;
}
WeftStatus SessionRun(Session* session) { return weft_session_run(session); }

const char* ProgramError(void) { return weft_error_text(); }
const char* ProgramVersion(void) { return weft_version(); }
