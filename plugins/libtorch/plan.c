/* plan.c: making plans (plan.h): values and their views, calls, and who lies where in the scratch.
 * Scratch is given out by best fit in the order of the calls, so that its size follows from what is
 * alive at a time. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include "plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kAlignment = 64 }; /* of vector loads, and of a line of the cache */

/* ---- arrays that grow ---- */

static void* Grown(Build* b, void* array, size_t count, size_t size) {
  /* Grows at powers of two. */
  if (b->status != WEFT_OK) return array;
  if ((count & (count - 1)) == 0) {
    void* more = realloc(array, (count ? 2 * count : 1) * size);
    if (!more) {
      b->status = weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a plan");
      return array;
    }
    return more;
  }
  return array;
}
#define PUSH(b, array, count) \
  ((array) = Grown(b, array, (size_t)(count), sizeof *(array)), (b)->status == WEFT_OK)

/* ---- types ---- */

int64_t NumElements(const Type* type) {
  int64_t n = 1;
  for (int d = 0; d < type->rank; ++d) n *= type->dims[d];
  return n;
}

int64_t ElementBytes(WeftDType dtype) {
  switch (dtype) {
    case WEFT_I64:
    case WEFT_U64:
    case WEFT_F64:
      return 8;
    case WEFT_I32:
    case WEFT_U32:
    case WEFT_F32:
      return 4;
    case WEFT_I16:
    case WEFT_U16:
    case WEFT_F16:
    case WEFT_BF16:
      return 2;
    default:
      return TorchType(dtype) >= 0 ? 1 : 0;
  }
}

void RowMajor(const Type* type, int64_t* strides) {
  int64_t step = 1;
  for (int d = type->rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= type->dims[d] > 1 ? type->dims[d] : 1;
  }
}

static WeftStatus ReadType(Build* b, WeftEntry entry, const char* what, Type* type) {
  WeftDim dims[kMaxRank];
  WeftStatus status = weft->graph_type(b->graph, entry, &type->dtype, &type->rank, dims, kMaxRank);
  if (status != WEFT_OK) return status;
  if (type->rank > kMaxRank)
    return Fail(WEFT_E_UNSUPPORTED, "%s has %d axes, libtorch takes %d", what, (int)type->rank,
                (int)kMaxRank);
  for (int d = 0; d < type->rank; ++d)
    if (!dims[d] || !weft->dim_value(dims[d], &type->dims[d])) type->dims[d] = -1;
  if (b->dry) return WEFT_OK;
  for (int d = 0; d < type->rank; ++d)
    if (type->dims[d] < 0)
      return Fail(WEFT_E_UNSUPPORTED, "dimension %d of %s is not a number", d, what);
  if (type->rank < 0) return Fail(WEFT_E_UNSUPPORTED, "the rank of %s is not known", what);
  return WEFT_OK;
}

/* ---- entries ---- */

typedef struct Entry {
  WeftEntry key;
  int32_t value, output; /* -1: none; the first result that it is */
  bool used;
} Entry;
struct Entries {
  Entry* slots;
  size_t mask;
  int32_t* next_output; /* of the same entry */
};

static Entry* Find(Entries* entries, WeftEntry key) {
  size_t at = ((uintptr_t)key.node >> 4) * 0x9E3779B97F4A7C15u + key.index * 0x85EBCA6Bu;
  for (at ^= at >> 29;; ++at) {
    Entry* entry = &entries->slots[at & entries->mask];
    if (!entry->key.node) {
      entry->key = key;
      entry->value = entry->output = -1;
    } else if (entry->key.node != key.node || entry->key.index != key.index) {
      continue;
    }
    return entry;
  }
}

bool HasIn(Build* b, int i) {
  return i < weft->node_num_inputs(b->node) && weft->node_input(b->node, i).node;
}

WeftStatus InType(Build* b, int i, Type* type) {
  char what[32];
  type->dtype = WEFT_DTYPE_UNKNOWN, type->rank = -1;
  if (!HasIn(b, i)) return WEFT_OK;
  snprintf(what, sizeof what, "operand %d", i);
  return ReadType(b, weft->node_input(b->node, i), what, type);
}

static WeftEntry OutEntry(Build* b, int k) {
  WeftEntry entry = {(WeftNode*)b->node, (uint32_t)k};
  return entry;
}

WeftStatus OutType(Build* b, int k, Type* type) {
  char what[32];
  snprintf(what, sizeof what, "result %d", k);
  return ReadType(b, OutEntry(b, k), what, type);
}

const WeftView* InConstant(Build* b, int i) {
  return HasIn(b, i) ? weft->graph_constant(b->graph, weft->node_input(b->node, i)) : NULL;
}

const Type* TypeOf(Build* b, int v) { return &b->plan->values[v].type; }

/* ---- values ---- */

static int NewBase(Build* b, Where where, int32_t index, int64_t bytes) {
  Plan* plan = b->plan;
  if (!PUSH(b, plan->bases, plan->num_bases)) return 0;
  Base base = {where, index, INT32_MAX, -1, -1, bytes, 0};
  plan->bases[plan->num_bases] = base;
  return plan->num_bases++;
}

static int NewValue(Build* b, int base, const Type* type, const int64_t* strides, int64_t offset) {
  Plan* plan = b->plan;
  Value value = {.type = *type, .offset = offset, .base = base};
  if (!PUSH(b, plan->values, plan->num_values)) return 0;
  if (strides)
    memcpy(value.strides, strides, (size_t)type->rank * sizeof *strides);
  else
    RowMajor(type, value.strides);
  value.next = plan->bases[base].values;
  plan->values[plan->num_values] = value;
  plan->bases[base].values = plan->num_values;
  return plan->num_values++;
}

static int WholeValue(Build* b, Where where, int32_t index, const Type* type) {
  if (b->status == WEFT_OK && TorchType(type->dtype) < 0)
    b->status = Fail(WEFT_E_UNSUPPORTED, "torch has no such element type (%d)", (int)type->dtype);
  if (b->status != WEFT_OK) return 0;
  const int base = NewBase(b, where, index, NumElements(type) * ElementBytes(type->dtype));
  return b->status == WEFT_OK ? NewValue(b, base, type, NULL, 0) : 0;
}

static Type MakeType(WeftDType dtype, int rank, const int64_t* dims) {
  Type type = {.dtype = dtype, .rank = rank};
  if (rank > 0) memcpy(type.dims, dims, (size_t)rank * sizeof *dims);
  return type;
}

int Scratch(Build* b, WeftDType dtype, int rank, const int64_t* dims) {
  const Type type = MakeType(dtype, rank, dims);
  return WholeValue(b, kScratch, 0, &type);
}

int Owned(Build* b, WeftDType dtype, int rank, const int64_t* dims) {
  const Type type = MakeType(dtype, rank, dims);
  return WholeValue(b, kOwned, 0, &type);
}

int Constant(Build* b, WeftDType dtype, int rank, const int64_t* dims, const void* data) {
  Plan* plan = b->plan;
  const Type type = MakeType(dtype, rank, dims);
  const size_t bytes = (size_t)(NumElements(&type) * ElementBytes(dtype));
  void* copy = NULL;
  if (b->status != WEFT_OK || !PUSH(b, plan->constants, plan->num_constants)) return 0;
  if (posix_memalign(&copy, kAlignment, bytes ? bytes : 1) != 0) {
    b->status = weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a constant");
    return 0;
  }
  if (bytes && data) memcpy(copy, data, bytes);
  plan->constants[plan->num_constants].data = copy;
  return WholeValue(b, kConstant, plan->num_constants++, &type);
}

void* ConstantData(Build* b, int v) {
  return b->status == WEFT_OK
             ? b->plan->constants[b->plan->bases[b->plan->values[v].base].index].data
             : NULL;
}

/* f32 to a 16-bit float, to the nearest, ties to even; for the constants of operators. */
static uint16_t NarrowFloat(WeftDType dtype, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (dtype == WEFT_BF16) return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xFF;
  uint32_t mantissa = bits & 0x7FFFFF;
  if (exponent >= 143) return (uint16_t)(sign | 0x7C00 | (exponent == 255 && mantissa ? 0x200 : 0));
  if (exponent < 102) return (uint16_t)sign;
  const uint32_t shift = exponent < 113 ? 126 - exponent : 13;
  mantissa |= exponent < 113 ? 0x800000 : 0;
  const uint32_t half = 1u << (shift - 1), kept = mantissa >> shift;
  const uint32_t lost = mantissa & ((1u << shift) - 1);
  const uint32_t base = exponent < 113 ? 0 : (exponent - 112) << 10;
  return (uint16_t)(sign | (base + kept + (lost > half || (lost == half && (kept & 1)))));
}

int Number(Build* b, WeftDType dtype, double number) {
  union {
    int64_t i64;
    int32_t i32;
    int16_t i16;
    uint16_t u16;
    int8_t i8;
    uint8_t u8;
    float f32;
    double f64;
  } x = {0};
  switch (dtype) {
    case WEFT_F64:
      x.f64 = number;
      break;
    case WEFT_F32:
      x.f32 = (float)number;
      break;
    case WEFT_F16:
    case WEFT_BF16:
      x.u16 = NarrowFloat(dtype, (float)number);
      break;
    case WEFT_BOOL:
      x.u8 = number != 0;
      break;
    default:
      x.i64 = (int64_t)number; /* little-endian: its low bytes are the narrower ones */
  }
  return Constant(b, dtype, 0, NULL, &x);
}

int View(Build* b, int v, int64_t offset, int rank, const int64_t* dims, const int64_t* strides) {
  if (b->status != WEFT_OK) return 0;
  const Value* from = &b->plan->values[v];
  const Type type = MakeType(from->type.dtype, rank, dims);
  return NewValue(b, from->base, &type, strides, from->offset + offset);
}

int Reread(Build* b, int v, WeftDType dtype) {
  if (b->status != WEFT_OK) return 0;
  const Value from = b->plan->values[v];
  Type type = from.type;
  type.dtype = dtype;
  return NewValue(b, from.base, &type, from.strides, from.offset);
}

bool IsRowMajor(Build* b, int v) {
  const Value* value = &b->plan->values[v];
  int64_t strides[kMaxRank];
  RowMajor(&value->type, strides);
  for (int d = 0; d < value->type.rank; ++d)
    if (value->type.dims[d] != 1 && value->strides[d] != strides[d])
      return NumElements(&value->type) == 0;
  return true;
}

int Reshaped(Build* b, int v, int rank, const int64_t* dims) {
  if (b->status != WEFT_OK) return 0;
  if (!IsRowMajor(b, v)) {
    const Type type = *TypeOf(b, v);
    const int copy = Scratch(b, type.dtype, type.rank, type.dims);
    Copy(b, copy, v);
    v = copy;
  }
  return View(b, v, 0, rank, dims, NULL);
}

int Permuted(Build* b, int v, const int64_t* perm) {
  int64_t dims[kMaxRank], strides[kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const Value from = b->plan->values[v];
  for (int d = 0; d < from.type.rank; ++d)
    dims[d] = from.type.dims[perm[d]], strides[d] = from.strides[perm[d]];
  return View(b, v, 0, from.type.rank, dims, strides);
}

int Expanded(Build* b, int v, int rank, const int64_t* dims) {
  int64_t strides[kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const Value from = b->plan->values[v];
  const int missing = rank - from.type.rank;
  for (int d = 0; d < rank; ++d)
    strides[d] = d < missing || (from.type.dims[d - missing] == 1 && dims[d] != 1)
                     ? 0
                     : from.strides[d - missing];
  return View(b, v, 0, rank, dims, strides);
}

int Narrowed(Build* b, int v, int axis, int64_t start, int64_t count, int64_t step) {
  int64_t dims[kMaxRank], strides[kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const Value from = b->plan->values[v];
  memcpy(dims, from.type.dims, sizeof dims);
  memcpy(strides, from.strides, sizeof strides);
  dims[axis] = count;
  strides[axis] *= step;
  return View(b, v, count ? start * from.strides[axis] : 0, from.type.rank, dims, strides);
}

/* ---- operands and results of the node at hand ---- */

int In(Build* b, int i) {
  if (b->status != WEFT_OK || !HasIn(b, i)) return -1;
  Entry* entry = Find(b->entries, weft->node_input(b->node, i));
  if (entry->value >= 0) return entry->value;
  const WeftView* view = weft->graph_constant(b->graph, entry->key);
  if (!view) { /* its node was refused */
    b->status =
        weft->fail(WEFT_E_UNSUPPORTED, b->refusal ? b->refusal : "a value that nothing makes");
    return 0;
  }
  if (view->rank > kMaxRank) {
    b->status = Fail(WEFT_E_UNSUPPORTED, "a constant has %d axes", (int)view->rank);
    return 0;
  }
  return entry->value = Constant(b, view->dtype, view->rank, view->dims, view->data);
}

bool IsUsed(Build* b, int k) {
  return k < weft->node_num_outputs(b->node) && Find(b->entries, OutEntry(b, k))->used;
}

int Out(Build* b, int k) {
  if (b->status != WEFT_OK) return 0;
  Entry* entry = Find(b->entries, OutEntry(b, k));
  if (entry->value >= 0) return entry->value;
  if (entry->output >= 0) return entry->value = b->plan->results[entry->output];
  Type type;
  b->status = OutType(b, k, &type);
  if (b->status != WEFT_OK) return 0;
  return entry->value = Scratch(b, type.dtype, type.rank, type.dims);
}

void Give(Build* b, int k, int v) {
  if (b->status != WEFT_OK) return;
  Type type;
  b->status = OutType(b, k, &type);
  if (b->status != WEFT_OK) return;
  const Type* given = TypeOf(b, v);
  if (given->rank != type.rank || NumElements(given) != NumElements(&type)) {
    b->status = Fail(WEFT_E_INTERNAL, "libtorch: result %d of %s has another shape", k,
                     weft->node_op(b->node));
    return;
  }
  Find(b->entries, OutEntry(b, k))->value = v;
}

/* Texts of the host live until its next call. */
const char* KeepText(Build* b, const char* text) {
  Plan* plan = b->plan;
  if (!PUSH(b, plan->texts, plan->num_texts)) return "";
  char* copy = (char*)malloc(strlen(text) + 1);
  if (!copy) {
    b->status = weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a plan");
    return "";
  }
  return plan->texts[plan->num_texts++] = strcpy(copy, text);
}

WeftStatus BeginNode(Build* b, const WeftNode* node) {
  char text[512];
  b->node = node;
  const int length = snprintf(text, sizeof text, "%.200s", weft->node_op(node));
  snprintf(text + length, sizeof text - (size_t)length, " '%.200s'", weft->node_name(node));
  b->label = KeepText(b, text);
  return b->status;
}

/* Can what lies in scratch as a whole be written to the result at once? */
static bool IsWholeScratch(Build* b, int v) {
  const Value* value = &b->plan->values[v];
  const Base* base = &b->plan->bases[value->base];
  return base->where == kScratch && value->offset == 0 && IsRowMajor(b, v) &&
         base->bytes == NumElements(&value->type) * ElementBytes(value->type.dtype);
}

WeftStatus EndNode(Build* b) {
  Plan* plan = b->plan;
  for (int k = 0; b->status == WEFT_OK && k < weft->node_num_outputs(b->node); ++k) {
    Entry* entry = Find(b->entries, OutEntry(b, k));
    if (entry->value < 0 && entry->output >= 0)
      b->status = Fail(WEFT_E_UNSUPPORTED, "libtorch does not make result %d of %s", k,
                       weft->node_op(b->node));
    for (int j = entry->output; b->status == WEFT_OK && j >= 0; j = b->entries->next_output[j]) {
      const int from = entry->value, to = plan->results[j];
      if (from == to) continue;
      if (IsWholeScratch(b, from)) {
        const int32_t base = plan->values[from].base;
        plan->bases[base].where = kResult, plan->bases[base].index = j;
        if (PUSH(b, plan->aliases, plan->num_aliases)) plan->aliases[plan->num_aliases++] = base;
        continue;
      }
      Copy(b, to, from);
      if (b->status != WEFT_OK) break;
      if (plan->bases[plan->values[from].base].where == kOwned) {
        plan->calls[plan->num_calls - 1].copied = plan->bases[plan->values[to].base].bytes;
        entry->value = to; /* so that torch's own may go */
      }
    }
  }
  return b->status;
}

bool LeaveOut(Build* b) {
  bool read = false;
  if (!b->refusal) b->refusal = KeepText(b, weft->last_error());
  for (int k = 0; k < weft->node_num_outputs(b->node); ++k) {
    Entry* entry = Find(b->entries, OutEntry(b, k));
    entry->value = -1;
    read = read || entry->output >= 0;
  }
  return !read;
}

/* ---- calls ---- */

static void Touch(Build* b, int v) {
  Base* base = &b->plan->bases[b->plan->values[v].base];
  if (b->plan->num_calls < base->first) base->first = b->plan->num_calls;
  if (b->plan->num_calls > base->last) base->last = b->plan->num_calls;
}

static void PushArg(Build* b, Arg arg) {
  if (PUSH(b, b->plan->args, b->plan->num_args)) b->plan->args[b->plan->num_args++] = arg;
}

static void PushNumber(Build* b, int64_t number) {
  Plan* plan = b->plan;
  if (PUSH(b, plan->numbers, plan->num_numbers)) plan->numbers[plan->num_numbers++] = number;
}

static void BeginCall(Build* b, Call* call, const char* op, const char* overload) {
  memset(call, 0, sizeof *call);
  call->op = op, call->overload = overload;
  call->first_arg = b->plan->num_args;
  call->label = b->label;
}

static void EndCall(Build* b, Call* call) {
  Plan* plan = b->plan;
  call->num_args = plan->num_args - call->first_arg;
  if (PUSH(b, plan->calls, plan->num_calls)) plan->calls[plan->num_calls++] = *call;
}

void Emit(Build* b, const char* op, const char* overload, const char* format, ...) {
  va_list more;
  Call call;
  bool results = false;
  if (b->status != WEFT_OK) return;
  BeginCall(b, &call, op, overload);
  va_start(more, format);
  for (const char* f = format; *f && b->status == WEFT_OK; ++f) {
    Arg arg = {.kind = *f};
    switch (*f) {
      case '>':
        results = true;
        continue;
      case '-':
        call.results[call.num_results++] = -1;
        continue;
      case 'o':
      case 't':
      case '?':
        arg.value = va_arg(more, int);
        if (arg.value >= 0) Touch(b, arg.value);
        if (results) {
          call.results[call.num_results++] = arg.value;
          continue;
        }
        break;
      case 'T':
      case 'U': {
        arg.count = va_arg(more, int);
        const int* values = va_arg(more, const int*);
        arg.list = b->plan->num_numbers;
        for (int i = 0; i < arg.count; ++i) {
          if (values[i] >= 0) Touch(b, values[i]);
          PushNumber(b, values[i]);
        }
        break;
      }
      case 'L':
      case 'O':
      case 'M': {
        arg.count = va_arg(more, int);
        const int64_t* numbers = va_arg(more, const int64_t*);
        arg.list = b->plan->num_numbers;
        for (int i = 0; i < arg.count; ++i) PushNumber(b, numbers[i]);
        break;
      }
      case 'i':
      case 'I':
        arg.i = va_arg(more, int64_t);
        break;
      case 'b':
        arg.i = va_arg(more, int) != 0;
        break;
      case 'y':
      case 'Y':
        arg.i = TorchType((WeftDType)va_arg(more, int));
        break;
      case 'd':
      case 'D':
        arg.d = va_arg(more, double);
        break;
      case 's':
      case 'S':
        arg.text = va_arg(more, const char*);
        break;
      default: /* N */
        break;
    }
    PushArg(b, arg);
  }
  va_end(more);
  EndCall(b, &call);
}

int Subtract(Build* b, int x, int y, double alpha, const Type* type) {
  Call call;
  if (b->status != WEFT_OK) return 0;
  const int difference = Owned(b, type->dtype, type->rank, type->dims);
  const Arg args[] = {
      {.kind = 't', .value = x}, {.kind = 't', .value = y}, {.kind = 'd', .d = alpha}};
  if (b->status != WEFT_OK) return 0;
  BeginCall(b, &call, NULL, "subtract");
  call.results[call.num_results++] = difference;
  Touch(b, x), Touch(b, y), Touch(b, difference);
  for (size_t i = 0; i < sizeof args / sizeof *args; ++i) PushArg(b, args[i]);
  EndCall(b, &call);
  return difference;
}

void Copy(Build* b, int to, int from) { Emit(b, "aten::copy_", "", "ttb>-", to, from, 0); }

/* ---- the plan as a whole ---- */

Plan* NewPlan(void) { return (Plan*)calloc(1, sizeof(Plan)); }

static WeftStatus NewEntries(Build* b, const WeftNode* const* nodes, size_t count,
                             size_t num_operands, size_t num_results) {
  size_t capacity = 64, needed = num_operands + num_results;
  for (size_t i = 0; i < count; ++i)
    needed += (size_t)weft->node_num_outputs(nodes[i]) + (size_t)weft->node_num_inputs(nodes[i]);
  while (capacity < 2 * needed) capacity *= 2;
  Entries* entries = b->entries = (Entries*)calloc(1, sizeof *entries);
  if (!entries) return WEFT_E_OUT_OF_MEMORY;
  entries->slots = (Entry*)calloc(capacity, sizeof *entries->slots);
  entries->next_output = (int32_t*)calloc(num_results + 1, sizeof *entries->next_output);
  entries->mask = capacity - 1;
  return entries->slots && entries->next_output ? WEFT_OK : WEFT_E_OUT_OF_MEMORY;
}

WeftStatus BeginPlan(Build* b, const WeftRegion* region) {
  Plan* plan = b->plan;
  const WeftGraph* graph = b->graph = region->graph;
  const size_t count = weft->graph_nodes(graph, NULL, 0);
  const size_t num_operands = weft->graph_num_inputs(graph);
  const size_t num_results = weft->graph_num_outputs(graph);
  WeftNode** nodes = (WeftNode**)malloc((count + 1) * sizeof *nodes);
  plan->threads = region->threads;
  plan->num_operands = (int32_t)num_operands, plan->num_results = (int32_t)num_results;
  plan->operands = (int32_t*)calloc(num_operands + 1, sizeof *plan->operands);
  plan->results = (int32_t*)calloc(num_results + 1, sizeof *plan->results);
  b->status = nodes && plan->operands && plan->results ? WEFT_OK : WEFT_E_OUT_OF_MEMORY;
  if (nodes) weft->graph_nodes(graph, nodes, count);
  if (b->status == WEFT_OK)
    b->status = NewEntries(b, (const WeftNode* const*)nodes, count, num_operands, num_results);
  if (b->status == WEFT_E_OUT_OF_MEMORY) weft->fail(b->status, "libtorch: no memory for a plan");
  for (size_t i = 0; b->status == WEFT_OK && i < count; ++i)
    for (int32_t k = 0; k < weft->node_num_inputs(nodes[i]); ++k) {
      const WeftEntry entry = weft->node_input(nodes[i], k);
      if (entry.node) Find(b->entries, entry)->used = true;
    }
  free(nodes);
  for (size_t i = 0; b->status == WEFT_OK && i < num_operands; ++i) {
    Type type;
    const WeftEntry entry = weft->graph_input(graph, i);
    b->status = ReadType(b, entry, "an operand of the region", &type);
    if (b->status != WEFT_OK) break;
    plan->operands[i] = Find(b->entries, entry)->value = WholeValue(b, kOperand, (int32_t)i, &type);
  }
  for (size_t i = num_results; b->status == WEFT_OK && i-- > 0;) {
    Type type;
    const WeftEntry entry = weft->graph_output(graph, i);
    b->status = ReadType(b, entry, "a result of the region", &type);
    if (b->status != WEFT_OK) break;
    plan->results[i] = WholeValue(b, kResult, (int32_t)i, &type);
    Entry* found = Find(b->entries, entry);
    found->used = true;
    b->entries->next_output[i] = found->output;
    found->output = (int32_t)i;
  }
  return b->status;
}

/* Results that no node of the region makes: operands and constants that go through it. */
static void CopyThrough(Build* b) {
  for (int32_t j = 0; b->status == WEFT_OK && j < b->plan->num_results; ++j) {
    Entry* entry = Find(b->entries, weft->graph_output(b->graph, (size_t)j));
    int from = entry->value;
    if (from < 0) {
      const WeftView* view = weft->graph_constant(b->graph, entry->key);
      if (!view) {
        b->status = Fail(WEFT_E_INTERNAL, "libtorch: nothing makes result %d", (int)j);
        return;
      }
      entry->value = from = Constant(b, view->dtype, view->rank, view->dims, view->data);
    }
    const Where where = b->plan->bases[b->plan->values[from].base].where;
    if (b->status == WEFT_OK && (where == kOperand || where == kConstant) &&
        b->plan->bases[b->plan->values[b->plan->results[j]].base].last < 0)
      Copy(b, b->plan->results[j], from);
  }
}

static void ListDead(Build* b) {
  Plan* plan = b->plan;
  int32_t total = 0;
  for (int32_t i = 0; i < plan->num_bases; ++i)
    if (plan->bases[i].where == kOwned && plan->bases[i].last >= 0)
      ++plan->calls[plan->bases[i].last].num_dead;
  for (int32_t c = 0; c < plan->num_calls; ++c) {
    plan->calls[c].first_dead = total;
    total += plan->calls[c].num_dead;
    plan->calls[c].num_dead = 0;
  }
  plan->dead = (int32_t*)calloc((size_t)total + 1, sizeof *plan->dead);
  if (!plan->dead) {
    b->status = weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a plan");
    return;
  }
  plan->num_dead = total;
  for (int32_t i = 0; i < plan->num_bases; ++i)
    if (plan->bases[i].where == kOwned && plan->bases[i].last >= 0) {
      Call* call = &plan->calls[plan->bases[i].last];
      plan->dead[call->first_dead + call->num_dead++] = i;
    }
}

typedef struct Gap {
  int64_t offset, bytes;
} Gap;

/* Puts the gap back between its neighbours, which it melts into. */
static int32_t Release(Gap* gaps, int32_t count, Gap gap) {
  int32_t at = 0;
  while (at < count && gaps[at].offset < gap.offset) ++at;
  const bool low = at > 0 && gaps[at - 1].offset + gaps[at - 1].bytes == gap.offset;
  const bool high = at < count && gap.offset + gap.bytes == gaps[at].offset;
  if (low && high) {
    gaps[at - 1].bytes += gap.bytes + gaps[at].bytes;
    memmove(gaps + at, gaps + at + 1, (size_t)(count - at - 1) * sizeof *gaps);
    return count - 1;
  }
  if (low) {
    gaps[at - 1].bytes += gap.bytes;
  } else if (high) {
    gaps[at].offset = gap.offset, gaps[at].bytes += gap.bytes;
  } else {
    memmove(gaps + at + 1, gaps + at, (size_t)(count - at) * sizeof *gaps);
    gaps[at] = gap;
    return count + 1;
  }
  return count;
}

static int64_t Take(Gap* gaps, int32_t* count, int64_t bytes, int64_t* end) {
  int32_t best = -1;
  for (int32_t i = 0; i < *count; ++i)
    if (gaps[i].bytes >= bytes && (best < 0 || gaps[i].bytes < gaps[best].bytes)) best = i;
  if (best >= 0) {
    const int64_t offset = gaps[best].offset;
    gaps[best].offset += bytes;
    gaps[best].bytes -= bytes;
    if (gaps[best].bytes == 0) {
      --*count;
      memmove(gaps + best, gaps + best + 1, (size_t)(*count - best) * sizeof *gaps);
    }
    return offset;
  }
  /* The last gap may reach the end: it grows. */
  if (*count && gaps[*count - 1].offset + gaps[*count - 1].bytes == *end) {
    const int64_t offset = gaps[--*count].offset;
    *end = offset + bytes;
    return offset;
  }
  *end += bytes;
  return *end - bytes;
}

static int ByFirst(const void* a, const void* b) {
  const Base *x = *(Base*const*)a, *y = *(Base*const*)b;
  return x->first != y->first ? (x->first < y->first ? -1 : 1) : (x < y ? -1 : x > y);
}
static int ByLast(const void* a, const void* b) {
  const Base *x = *(Base*const*)a, *y = *(Base*const*)b;
  return x->last != y->last ? (x->last < y->last ? -1 : 1) : (x < y ? -1 : x > y);
}

static void PlaceScratch(Build* b) {
  Plan* plan = b->plan;
  const size_t most = (size_t)plan->num_bases + 1;
  Base** starts = (Base**)malloc(most * sizeof *starts);
  Base** ends = (Base**)malloc(most * sizeof *ends);
  Gap* gaps = (Gap*)malloc(most * sizeof *gaps);
  int32_t count = 0, num_gaps = 0, ended = 0;
  int64_t end = 0;
  if (!starts || !ends || !gaps)
    b->status = weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a plan");
  for (int32_t i = 0; b->status == WEFT_OK && i < plan->num_bases; ++i)
    if (plan->bases[i].where == kScratch && plan->bases[i].last >= 0)
      starts[count] = ends[count] = &plan->bases[i], ++count;
  if (b->status == WEFT_OK) {
    qsort(starts, (size_t)count, sizeof *starts, ByFirst);
    qsort(ends, (size_t)count, sizeof *ends, ByLast);
    for (int32_t i = 0; i < count; ++i) {
      for (; ended < count && ends[ended]->last < starts[i]->first; ++ended) {
        const Gap gap = {ends[ended]->offset,
                         (ends[ended]->bytes + kAlignment) / kAlignment * kAlignment};
        num_gaps = Release(gaps, num_gaps, gap);
      }
      starts[i]->offset =
          Take(gaps, &num_gaps, (starts[i]->bytes + kAlignment) / kAlignment * kAlignment, &end);
    }
    plan->scratch_bytes = (size_t)end;
  }
  free(starts), free(ends), free(gaps);
}

static void MakeConstants(Build* b) {
  Plan* plan = b->plan;
  plan->constant_tensors = (Tensor*)calloc((size_t)plan->num_values + 1, sizeof(Tensor));
  if (!plan->constant_tensors) b->status = weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory");
  for (int32_t v = 0; b->status == WEFT_OK && v < plan->num_values; ++v) {
    const Value* value = &plan->values[v];
    const Base* base = &plan->bases[value->base];
    if (base->where != kConstant) continue;
    if (torch.aoti_torch_create_tensor_from_blob(
            (char*)plan->constants[base->index].data +
                value->offset * ElementBytes(value->type.dtype),
            value->type.rank, value->type.dims, value->strides, 0, TorchType(value->type.dtype),
            torch.device_type, torch.device_index, &plan->constant_tensors[v]) != 0)
      b->status = Fail(WEFT_E_DEVICE, "torch makes no tensor of a constant: %s", TorchSaid());
  }
}

WeftStatus FinishPlan(Build* b) {
  if (b->status == WEFT_OK) CopyThrough(b);
  if (b->status == WEFT_OK) ListDead(b);
  if (b->status == WEFT_OK) PlaceScratch(b);
  if (b->status == WEFT_OK) MakeConstants(b);
  return b->status;
}

void FreeBuild(Build* b) {
  if (!b->entries) return;
  free(b->entries->slots);
  free(b->entries->next_output);
  free(b->entries);
  b->entries = NULL;
}

void FreePlan(Plan* plan) {
  if (!plan) return;
  for (int32_t v = 0; plan->constant_tensors && v < plan->num_values; ++v)
    if (plan->constant_tensors[v]) torch.aoti_torch_delete_tensor_object(plan->constant_tensors[v]);
  for (int32_t i = 0; i < plan->num_constants; ++i) free(plan->constants[i].data);
  for (int32_t i = 0; i < plan->num_texts; ++i) free(plan->texts[i]);
  free(plan->values), free(plan->bases), free(plan->calls), free(plan->args), free(plan->numbers);
  free(plan->texts), free(plan->dead), free(plan->constants), free(plan->constant_tensors);
  free(plan->operands), free(plan->results), free(plan->aliases);
  free(plan);
}
