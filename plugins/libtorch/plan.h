/* plan.h: a region as a list of calls of aten operators over tensors at fixed places.
 *
 * A value is a strided view of a base: memory of an operand, of a result, of a constant, of the
 * instance's scratch, or a tensor that torch allocates while a call runs. Reshape, Transpose, Slice
 * and the like are views and take no call. Every extent is known when the plan is made, so each
 * tensor is made once, and again only where the caller's memory has moved. */
#ifndef WEFT_PLUGINS_LIBTORCH_PLAN_H_
#define WEFT_PLUGINS_LIBTORCH_PLAN_H_

#include "torch_abi.h"

enum { kMaxRank = 12, kMaxResults = 3 };

/* Extents of -1 are not known; those of a plan are. */
typedef struct Type {
  WeftDType dtype;
  int32_t rank; /* -1: not known */
  int64_t dims[kMaxRank];
} Type;
int64_t NumElements(const Type* type);
int64_t ElementBytes(WeftDType dtype); /* 0 where TorchType has none */
void RowMajor(const Type* type, int64_t* strides);

typedef enum Where { kOperand, kResult, kConstant, kScratch, kOwned } Where;
typedef struct Base {
  Where where;
  int32_t index;         /* of the operand, result or constant */
  int32_t first, last;   /* calls that touch it; first > last: none */
  int32_t values;        /* the head of its list of values */
  int64_t bytes, offset; /* offset: in the scratch */
} Base;
typedef struct Value {
  Type type;
  int64_t strides[kMaxRank], offset; /* in elements */
  int32_t base, next;                /* the next value of the base, -1: none */
} Value;

typedef struct Arg {
  char kind;
  int32_t count, value; /* count: of a list */
  size_t list;          /* where it begins in Plan.numbers */
  int64_t i;
  double d;
  const char* text; /* static */
} Arg;
typedef struct Call {
  const char *op, *overload; /* static; without an op: subtract(self, other, alpha) */
  int32_t first_arg, num_args, num_results;
  const char* label;            /* the user's node, for messages */
  int32_t results[kMaxResults]; /* values, -1: dropped */
  int32_t first_dead, num_dead; /* bases that torch may free behind it */
  int64_t copied;               /* bytes that it copies since an operator had no `out` form */
} Call;

typedef struct Plan {
  Value* values;
  Base* bases;
  Call* calls;
  Arg* args;
  int64_t* numbers;
  char** texts;
  int32_t* dead;
  struct Constant {
    void* data;
  } * constants;
  Tensor* constant_tensors; /* of values on constants, else null */
  int32_t num_values, num_bases, num_calls, num_args, num_texts, num_constants, num_dead;
  int32_t num_operands, num_results, threads;
  size_t num_numbers, scratch_bytes;
  int32_t *operands, *results; /* their first values */
  int32_t* aliases;            /* further bases over the memory of results */
  int32_t num_aliases;
} Plan;

/* What a plan is made with. A failure sticks in `status`, and what follows it does nothing. */
typedef struct Entries Entries; /* values of the entries of the graph */
typedef struct Build {
  Plan* plan;
  const WeftGraph* graph;
  const WeftNode* node; /* the one at hand */
  const char* label;
  const char* refusal; /* of the first node that was left out */
  bool dry;            /* only asked whether the node could be part of a region */
  WeftStatus status;
  Entries* entries;
} Build;

/* The node's operands and results. */
bool HasIn(Build* b, int i);
WeftStatus InType(Build* b, int i, Type* type);
WeftStatus OutType(Build* b, int k, Type* type);
const WeftView* InConstant(Build* b, int i); /* null where it is none; until the next one is read */
int In(Build* b, int i);                     /* a value, -1: absent */
bool IsUsed(Build* b, int k);
int Out(Build* b, int k);          /* where output k is to be written */
void Give(Build* b, int k, int v); /* output k is v */
const Type* TypeOf(Build* b, int v);

/* Values. */
int Scratch(Build* b, WeftDType dtype, int rank, const int64_t* dims);
int Owned(Build* b, WeftDType dtype, int rank, const int64_t* dims);
int Constant(Build* b, WeftDType dtype, int rank, const int64_t* dims, const void* data);
void* ConstantData(Build* b,
                   int v); /* to be filled where it was given none; null after a failure */
int Number(Build* b, WeftDType dtype, double number); /* a scalar */
int View(Build* b, int v, int64_t offset, int rank, const int64_t* dims, const int64_t* strides);
int Reread(Build* b, int v, WeftDType dtype); /* the bits as a type of equal width */
bool IsRowMajor(Build* b, int v);
int Reshaped(Build* b, int v, int rank, const int64_t* dims); /* a copy where no view does it */
int Permuted(Build* b, int v, const int64_t* perm);
int Expanded(Build* b, int v, int rank, const int64_t* dims); /* numpy broadcasting */
int Narrowed(Build* b, int v, int axis, int64_t start, int64_t count, int64_t step);

const char* KeepText(Build* b, const char* text); /* as long as the plan */

/* Calls. `format` says what follows, in the order of the schema:
 *   t value, ? value or -1, T (count, values), U the same of optional ones, -1: none
 *   L (count, const int64_t*), O the same, count -1: none, M a list of bools, likewise
 *   i int64_t, I the same and optional, N none, b int, d double, D the same and optional
 *   s text, S the same and optional (may be null), y WeftDType, Y the same and optional
 *   > results follow: o value that the call makes, - one that is dropped */
void Emit(Build* b, const char* op, const char* overload, const char* format, ...);
/* a - alpha b, for floats; the result is torch's. */
int Subtract(Build* b, int x, int y, double alpha, const Type* type);
void Copy(Build* b, int to, int from); /* also between dtypes, as torch converts them */

Plan* NewPlan(void);
/* What is known of the graph goes into b; then each node is built and its results settled. */
WeftStatus BeginPlan(Build* b, const WeftRegion* region);
WeftStatus BeginNode(Build* b, const WeftNode* node);
WeftStatus EndNode(Build* b);
/* The node was refused: what reads it will be. False where the region gives it out. */
bool LeaveOut(Build* b);
WeftStatus FinishPlan(Build* b);
void FreeBuild(Build* b); /* not the plan */
void FreePlan(Plan* plan);

/* ---- running ---- */

typedef struct Instance Instance;
WeftStatus NewInstance(const Plan* plan, Instance** instance);
WeftStatus RunInstance(Instance* instance, WeftRegionCall* call);
void FreeInstance(Instance* instance);

#endif /* WEFT_PLUGINS_LIBTORCH_PLAN_H_ */
