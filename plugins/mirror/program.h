/* program.h: programs of Weft, by weft/weft.h. */
#ifndef MIRROR_PROGRAM_H_
#define MIRROR_PROGRAM_H_

#include "weft/c_types.h"

typedef struct WeftProgram Program;
typedef struct WeftSession Session;

/* Of an ONNX model, for the backend cpu. */
WeftStatus ProgramLoad(const void* model, size_t size, int32_t threads, Program** program);
void ProgramRelease(Program* program);
WeftStatus SessionCreate(Program* program, Session** session);
void SessionRelease(Session* session);
/* The tensor at `data`, of the caller's, is the input `x<index>` or is where `y<index>` goes. */
WeftStatus SessionBind(Session* session, int is_input, int32_t index, WeftDType dtype, int32_t rank,
                       const int64_t* dims, void* data);
WeftStatus SessionRun(Session* session);
/* Of the last of these that failed on this thread, and of Weft. */
const char* ProgramError(void);
const char* ProgramVersion(void);

#endif /* MIRROR_PROGRAM_H_ */
