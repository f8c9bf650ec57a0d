/* run.c: running plans (plan.h). An instance holds the scratch and one tensor a value; tensors over
 * the caller's memory are made anew only where an address differs from that of the run before. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* The version of torch's operator schemas that this plugin was written for: 2.10. */
static const uint64_t kSchemas = (uint64_t)2 << 56 | (uint64_t)10 << 48;
enum { kMaxWords = 24, kScratchAlignment = 64 };

struct Instance {
  const Plan* plan;
  char* scratch;
  Tensor* tensors; /* of values; those of constants are the plan's */
  void** operands; /* where the tensors are */
  void** results;
  bool *has_operand, *has_result; /* are there tensors yet? */
};

static WeftStatus MakeTensor(Instance* instance, int32_t v, void* base) {
  const Value* value = &instance->plan->values[v];
  char* data = base ? (char*)base + value->offset * ElementBytes(value->type.dtype) : NULL;
  Tensor* tensor = &instance->tensors[v];
  if (*tensor) torch.aoti_torch_delete_tensor_object(*tensor);
  *tensor = NULL;
  if (torch.aoti_torch_create_tensor_from_blob(data, value->type.rank, value->type.dims,
                                               value->strides, 0, TorchType(value->type.dtype),
                                               torch.device_type, torch.device_index, tensor) == 0)
    return WEFT_OK;
  *tensor = NULL;
  return Fail(WEFT_E_DEVICE, "torch makes no tensor of an operand: %s", TorchSaid());
}

static WeftStatus MakeTensors(Instance* instance, int32_t base, void* data) {
  WeftStatus status = WEFT_OK;
  for (int32_t v = instance->plan->bases[base].values; v >= 0 && status == WEFT_OK;
       v = instance->plan->values[v].next)
    status = MakeTensor(instance, v, data);
  return status;
}

WeftStatus NewInstance(const Plan* plan, Instance** made) {
  Instance* instance = (Instance*)calloc(1, sizeof *instance);
  WeftStatus status = WEFT_OK;
  void* scratch = NULL;
  if (!instance) return weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for an instance");
  instance->plan = plan;
  instance->tensors = (Tensor*)calloc((size_t)plan->num_values + 1, sizeof(Tensor));
  instance->operands = (void**)calloc((size_t)plan->num_operands + 1, sizeof(void*));
  instance->results = (void**)calloc((size_t)plan->num_results + 1, sizeof(void*));
  instance->has_operand = (bool*)calloc((size_t)plan->num_operands + 1, sizeof(bool));
  instance->has_result = (bool*)calloc((size_t)plan->num_results + 1, sizeof(bool));
  if (!instance->tensors || !instance->operands || !instance->results || !instance->has_operand ||
      !instance->has_result ||
      posix_memalign(&scratch, kScratchAlignment, plan->scratch_bytes + 1) != 0)
    status = Fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for %zu bytes of scratch",
                  plan->scratch_bytes);
  instance->scratch = (char*)scratch;
  for (int32_t i = 0; status == WEFT_OK && i < plan->num_bases; ++i)
    if (plan->bases[i].where == kScratch && plan->bases[i].last >= 0)
      status = MakeTensors(instance, i, instance->scratch + plan->bases[i].offset);
  if (status != WEFT_OK) {
    FreeInstance(instance);
    return status;
  }
  *made = instance;
  return WEFT_OK;
}

void FreeInstance(Instance* instance) {
  if (!instance) return;
  for (int32_t v = 0; instance->tensors && v < instance->plan->num_values; ++v)
    if (instance->tensors[v]) torch.aoti_torch_delete_tensor_object(instance->tensors[v]);
  free(instance->scratch), free(instance->tensors), free(instance->operands);
  free(instance->results), free(instance->has_operand), free(instance->has_result);
  free(instance);
}

/* ---- one call ---- */

static Tensor TensorOf(const Instance* instance, int32_t v) {
  Tensor constant = instance->plan->constant_tensors[v];
  return constant ? constant : instance->tensors[v];
}

/* Calls take their tensors, so each gets a reference of its own. */
static bool Give1(const Instance* instance, int32_t v, Word* word) {
  Tensor tensor = TensorOf(instance, v), given;
  if (!tensor || torch.aoti_torch_new_tensor_handle(tensor, &given) != 0) return false;
  *word = (Word)(uintptr_t)given;
  return true;
}

/* T? of a word. */
static bool Optional(Word inner, Word* word) {
  Word* place = NULL;
  if (torch.torch_new_stable_ivalue) {
    if (torch.torch_new_stable_ivalue(&place) != 0) return false;
  } else {
    place = (Word*)torch.new_bytes(sizeof *place);
  }
  *place = inner;
  *word = (Word)(uintptr_t)place;
  return true;
}

static bool ListWord(const Instance* instance, const Arg* arg, Word* word) {
  const int64_t* numbers = instance->plan->numbers + arg->list;
  List list;
  if (torch.torch_new_list_reserve_size((size_t)arg->count, &list) != 0) return false;
  for (int32_t i = 0; i < arg->count; ++i) {
    Word element = (Word)numbers[i];
    if (arg->kind == 'T' || arg->kind == 'U') {
      element = 0;
      if (numbers[i] >= 0 && !Give1(instance, (int32_t)numbers[i], &element)) return false;
      if (numbers[i] >= 0 && arg->kind == 'U' && !Optional(element, &element)) return false;
    }
    if (torch.torch_list_push_back(list, element) != 0) return false;
  }
  *word = (Word)(uintptr_t)list;
  return true;
}

static bool TextWord(const char* text, Word* word) {
  Text handle;
  if (torch.torch_new_string_handle(text, strlen(text), &handle) != 0) return false;
  *word = (Word)(uintptr_t)handle;
  return true;
}

static bool ArgWord(const Instance* instance, const Arg* arg, Word* word) {
  *word = 0;
  switch (arg->kind) {
    case 't':
      return Give1(instance, arg->value, word);
    case '?':
      return arg->value < 0 || (Give1(instance, arg->value, word) && Optional(*word, word));
    case 'T':
    case 'U':
    case 'L':
    case 'M':
      return ListWord(instance, arg, word);
    case 'O':
      return arg->count < 0 || (ListWord(instance, arg, word) && Optional(*word, word));
    case 'i':
    case 'b':
    case 'y':
      *word = (Word)arg->i;
      return true;
    case 'I':
    case 'Y':
      return Optional((Word)arg->i, word);
    case 'd':
      memcpy(word, &arg->d, sizeof *word);
      return true;
    case 'D':
      memcpy(word, &arg->d, sizeof *word);
      return Optional(*word, word);
    case 's':
      return TextWord(arg->text, word);
    case 'S':
      return !arg->text || (TextWord(arg->text, word) && Optional(*word, word));
    default: /* N */
      return true;
  }
}

/* A tensor that torch has made: of the type that the plan says, and row-major since views of it
 * were planned so. Then the views. */
static WeftStatus TakeResult(Instance* instance, const Call* call, int32_t v, Tensor tensor) {
  const Plan* plan = instance->plan;
  const Value* value = &plan->values[v];
  int64_t rank = -1, *sizes = NULL, *strides = NULL, expected[kMaxRank];
  int32_t dtype = -1;
  void* data = NULL;
  instance->tensors[v] = tensor;
  if (torch.aoti_torch_get_dim(tensor, &rank) != 0 ||
      torch.aoti_torch_get_dtype(tensor, &dtype) != 0 ||
      torch.aoti_torch_get_sizes(tensor, &sizes) != 0 ||
      torch.aoti_torch_get_strides(tensor, &strides) != 0 || rank != value->type.rank ||
      dtype != TorchType(value->type.dtype) ||
      memcmp(sizes, value->type.dims, (size_t)rank * sizeof *sizes) != 0)
    return Fail(WEFT_E_DEVICE, "%s: %s of torch gives a tensor of another type or shape",
                call->label, call->op ? call->op : "aten::subtract");
  if (plan->bases[value->base].values == v && value->next < 0) return WEFT_OK;
  RowMajor(&value->type, expected);
  for (int d = 0; d < rank; ++d)
    if (sizes[d] > 1 && strides[d] != expected[d]) {
      Word words[2] = {0, 0};
      torch.aoti_torch_new_tensor_handle(tensor, (Tensor*)(void*)&words[0]);
      words[1] = (Word)torch.aoti_torch_memory_format_contiguous_format();
      if (torch.torch_call_dispatcher("aten::contiguous", "", words, kSchemas) != 0)
        return Fail(WEFT_E_DEVICE, "%s: %s", call->label, TorchSaid());
      torch.aoti_torch_delete_tensor_object(tensor);
      instance->tensors[v] = tensor = (Tensor)(uintptr_t)words[0];
      break;
    }
  if (torch.aoti_torch_get_data_ptr(tensor, &data) != 0)
    return Fail(WEFT_E_DEVICE, "%s: %s", call->label, TorchSaid());
  for (int32_t i = plan->bases[value->base].values; i >= 0; i = plan->values[i].next) {
    const WeftStatus status = i == v ? WEFT_OK : MakeTensor(instance, i, data);
    if (status != WEFT_OK) return status;
  }
  return WEFT_OK;
}

/* An index that is out of range is the caller's mistake, memory is nobody's, the rest torch's. */
static WeftStatus CodeOf(const char* text) {
  if (strstr(text, "out of bounds") || strstr(text, "out of range")) return WEFT_E_INDEX_RANGE;
  if (strstr(text, "not enough memory") || strstr(text, "out of memory"))
    return WEFT_E_OUT_OF_MEMORY;
  return WEFT_E_DEVICE;
}

static WeftStatus CallFailed(const Call* call) {
  const char* text = TorchSaid();
  return Fail(CodeOf(text), "libtorch, %s: %s: %.1500s", call->label,
              call->op ? call->op : "aten::subtract", text);
}

static WeftStatus RunCall(Instance* instance, const Call* call) {
  const Plan* plan = instance->plan;
  const Arg* args = plan->args + call->first_arg;
  Word words[kMaxWords];
  if (!call->op) {
    Tensor difference;
    if (torch.aoti_torch_aten_subtract_Tensor(TensorOf(instance, args[0].value),
                                              TensorOf(instance, args[1].value), args[2].d,
                                              &difference) != 0)
      return CallFailed(call);
    return TakeResult(instance, call, call->results[0], difference);
  }
  if (call->num_args > kMaxWords)
    return Fail(WEFT_E_INTERNAL, "libtorch: %s has too many arguments", call->op);
  for (int32_t i = 0; i < call->num_args; ++i)
    if (!ArgWord(instance, &args[i], &words[i])) return CallFailed(call);
  if (torch.torch_call_dispatcher(call->op, call->overload, words, kSchemas) != 0)
    return CallFailed(call);
  WeftStatus status = WEFT_OK;
  for (int32_t i = 0; i < call->num_results; ++i) {
    Tensor tensor = (Tensor)(uintptr_t)words[i];
    if (call->results[i] < 0 || status != WEFT_OK)
      torch.aoti_torch_delete_tensor_object(tensor);
    else
      status = TakeResult(instance, call, call->results[i], tensor);
  }
  return status;
}

static void DropOwned(Instance* instance, int32_t base) {
  for (int32_t v = instance->plan->bases[base].values; v >= 0; v = instance->plan->values[v].next)
    if (instance->tensors[v]) {
      torch.aoti_torch_delete_tensor_object(instance->tensors[v]);
      instance->tensors[v] = NULL;
    }
}

/* ---- one run ---- */

/* The tensors of an operand or a result over `view`, unless they are there already. */
static WeftStatus Bind(Instance* instance, const WeftView* view, int32_t value, Where where,
                       int32_t index, void** place, bool* has) {
  const Plan* plan = instance->plan;
  const Type* type = &plan->values[value].type;
  if (!view || view->dtype != type->dtype || view->rank != type->rank ||
      (type->rank && memcmp(view->dims, type->dims, (size_t)type->rank * sizeof *type->dims) != 0))
    return Fail(WEFT_E_SHAPE_MISMATCH,
                "libtorch: %s %d is not of the type that the region was compiled for",
                where == kOperand ? "operand" : "result", (int)index);
  if (*has && *place == view->data) return WEFT_OK;
  *has = false; /* until all of them are there */
  WeftStatus status = MakeTensors(instance, plan->values[value].base, view->data);
  for (int32_t i = 0; status == WEFT_OK && where == kResult && i < plan->num_aliases; ++i)
    if (plan->bases[plan->aliases[i]].index == index)
      status = MakeTensors(instance, plan->aliases[i], view->data);
  if (status != WEFT_OK) return status;
  *place = view->data;
  *has = true;
  return WEFT_OK;
}

WeftStatus RunInstance(Instance* instance, WeftRegionCall* call) {
  const Plan* plan = instance->plan;
  WeftStatus status = WEFT_OK;
  uint32_t threads = 0;
  int64_t copied = 0;
  if (call->num_inputs != plan->num_operands || call->num_outputs != plan->num_results)
    return Fail(WEFT_E_API_MISUSE, "libtorch: %d operands and %d results for a region of %d and %d",
                (int)call->num_inputs, (int)call->num_outputs, (int)plan->num_operands,
                (int)plan->num_results);
  for (int32_t i = 0; status == WEFT_OK && i < plan->num_operands; ++i)
    status = Bind(instance, call->inputs[i], plan->operands[i], kOperand, i, &instance->operands[i],
                  &instance->has_operand[i]);
  for (int32_t i = 0; status == WEFT_OK && i < plan->num_results; ++i)
    status = Bind(instance, call->outputs[i], plan->results[i], kResult, i, &instance->results[i],
                  &instance->has_result[i]);
  if (status != WEFT_OK) return status;
  if (torch.set_num_threads && plan->threads > 0 && torch.torch_get_num_threads(&threads) == 0 &&
      (int32_t)threads != plan->threads)
    torch.set_num_threads(plan->threads);
  /* No gradient is ever asked of these tensors; off, torch does not look for one either. */
  const bool grad = torch.aoti_torch_grad_mode_is_enabled();
  if (grad) torch.aoti_torch_grad_mode_set_enabled(false);
  for (int32_t c = 0; status == WEFT_OK && c < plan->num_calls; ++c) {
    const Call* one = &plan->calls[c];
    status = RunCall(instance, one);
    copied += one->copied;
    for (int32_t i = 0; status == WEFT_OK && i < one->num_dead; ++i)
      DropOwned(instance, plan->dead[one->first_dead + i]);
  }
  if (grad) torch.aoti_torch_grad_mode_set_enabled(true);
  if (status != WEFT_OK)
    for (int32_t i = 0; i < plan->num_dead; ++i) DropOwned(instance, plan->dead[i]);
  if (call->struct_size >= offsetof(WeftRegionCall, copied_bytes) + sizeof call->copied_bytes)
    call->copied_bytes = copied;
  return status;
}
