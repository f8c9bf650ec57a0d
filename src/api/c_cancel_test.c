/* c_cancel_test.c: cancellation through weft.h, from C. Called by c_api_test.cc; null when all is
 * well, else what is not. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "weft/weft.h"

const char* weft_test_cancel_from_c(void);

/* Seconds of work for the interpreter. */
static const char* const kModel =
    "weft 1\ngraph (%a: f32[2000, 2000], %b: f32[2000, 2000]) -> (%y) {\n"
    "  %y = MatMul(%a, %b) : ?\n}\n";

static void* CancelSoon(void* cancel) {
  const struct timespec wait = {0, 50 * 1000 * 1000};
  nanosleep(&wait, NULL);
  weft_cancel_request((WeftCancel*)cancel);
  return NULL;
}

const char* weft_test_cancel_from_c(void) {
  WeftOptions options;
  WeftCancel *cancel = NULL, *other = NULL;
  WeftProgram* program = NULL;
  WeftSession* session = NULL;
  WeftTensor *a = NULL, *y = NULL;
  const int64_t dims[] = {2000, 2000};
  pthread_t thread;
  WeftStatus status;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = "ref";
  if (weft_cancel_create(NULL) != WEFT_E_API_MISUSE) return "a null pointer was taken";
  if (weft_cancel_create(&cancel) || weft_cancel_create(&other)) return weft_error_text();
  options.cancel = other;
  if (weft_program_load_memory(kModel, strlen(kModel), "weft", &options, &program))
    return weft_error_text();
  if (weft_session_create(program, &session)) return weft_error_text();
  if (weft_tensor_create(WEFT_F32, 2, dims, &a)) return weft_error_text();
  if (weft_session_bind_input(session, "a", a) || weft_session_bind_input(session, "b", a))
    return weft_error_text();
  if (weft_session_set_cancel(NULL, cancel) != WEFT_E_API_MISUSE) return "a null session was taken";
  if (weft_session_set_cancel(session, cancel)) return weft_error_text();
  if (pthread_create(&thread, NULL, CancelSoon, cancel)) return "no thread";
  status = weft_session_run(session);
  pthread_join(thread, NULL);
  if (status != WEFT_E_CANCELLED) return "the run was not cancelled";
  weft_cancel_release(cancel);
  if (weft_session_run(session) != WEFT_E_CANCELLED)
    return "a run that began after the request went on";
  if (weft_session_output(session, 0, &y) == WEFT_OK) return "a cancelled run has a result";

  /* A handle that was used before it is given ends an import, too. */
  weft_cancel_request(other);
  weft_program_release(program);
  program = NULL;
  if (weft_program_load_memory(kModel, strlen(kModel), "weft", &options, &program) !=
      WEFT_E_CANCELLED)
    return "the import was not cancelled";
  if (program) return "a program came out of a cancelled import";
  weft_cancel_request(NULL);
  weft_cancel_release(NULL);
  weft_cancel_release(other);
  weft_tensor_release(a);
  weft_session_release(session);
  return NULL;
}
