/// c_tensor.cc: errors and tensors of weft.h.
#include <utility>

#include "c_object.h"
#include "weft/core/tensor/dlpack.h"

namespace weft::capi {
namespace {

struct LastError {
  std::string text, message, place, hint;
};
thread_local LastError t_last;

}  // namespace

WeftStatus RememberError(const Error& error) noexcept {
  try {
    t_last = {error.what(), error.message(), error.place(), error.hint()};
  } catch (...) {
    t_last = {};  // the status still says it
  }
  return WeftStatus(error.code());
}
WeftStatus RememberError(ErrorCode code, const char* message) noexcept {
  try {
    return RememberError(Error(code, message));
  } catch (...) {  // memory for a message is what there is none of
    t_last = {};
    return WeftStatus(code);
  }
}

namespace {

constexpr int32_t kMaxRank = 64;  // more is a number that was never set

std::vector<int64_t> Dims(int32_t rank, const int64_t* dims) {
  WEFT_CHECK(rank >= 0 && rank <= kMaxRank, kApiMisuse, "a tensor of rank {}", rank);
  if (rank > 0) CheckArgument(dims, "dims");
  return {dims, dims + rank};
}
DType TypeOf(WeftDType dtype) {
  WEFT_CHECK(dtype > WEFT_DTYPE_UNKNOWN && dtype < kNumDTypes, kApiMisuse, "there is no dtype {}",
             dtype);
  return DType(dtype);
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

const char* weft_version(void) { return WEFT_VERSION; }
const char* weft_error_text(void) { return t_last.text.c_str(); }
const char* weft_error_message(void) { return t_last.message.c_str(); }
const char* weft_error_place(void) { return t_last.place.c_str(); }
const char* weft_error_hint(void) { return t_last.hint.c_str(); }

WeftStatus weft_tensor_create(WeftDType dtype, int32_t rank, const int64_t* dims,
                              WeftTensor** tensor) {
  return Guard([&] {
    CheckArgument(tensor, "tensor");
    *tensor = new WeftTensor{std::make_shared<Tensor>(TypeOf(dtype), Dims(rank, dims))};
  });
}

WeftStatus weft_tensor_wrap(WeftDType dtype, int32_t rank, const int64_t* dims, void* data,
                            void (*release)(void*), void* context, WeftTensor** tensor) {
  return Guard([&] {
    CheckArgument(tensor, "tensor");
    const DType type = TypeOf(dtype);
    WEFT_CHECK(type != DType::kString, kUnsupported, "strings cannot be wrapped");
    // The view is judged before it owns anything: on failure the memory stays the caller's.
    Tensor view(type, Dims(rank, dims), data, nullptr);
    WEFT_CHECK(data || view.num_bytes() == 0, kApiMisuse, "argument 'data' is null");
    auto made = std::make_unique<WeftTensor>();
    made->tensor = std::make_shared<Tensor>(std::move(view));
    if (release) {
      struct Owner {
        std::shared_ptr<Tensor> view;
        void (*release)(void*) = nullptr;
        void* context = nullptr;
        ~Owner() {
          if (release) release(context);
        }
      };
      auto owner = std::make_shared<Owner>();
      owner->view = std::move(made->tensor);
      made->tensor = std::shared_ptr<Tensor>(owner, owner->view.get());
      owner->context = context;
      owner->release = release;
    }
    *tensor = made.release();
  });
}

WeftStatus weft_tensor_from_dlpack(DLManagedTensor* managed, WeftTensor** tensor) {
  return Guard([&] {
    CheckArgument(tensor, "tensor");
    auto made = std::make_unique<WeftTensor>();  // before the tensor is taken over
    made->tensor = FromDLPack(managed);
    *tensor = made.release();
  });
}
WeftStatus weft_tensor_to_dlpack(WeftTensor* tensor, DLManagedTensor** managed) {
  return Guard([&] {
    CheckArgument(tensor, "tensor");
    CheckArgument(managed, "managed");
    *managed = ToDLPack(tensor->tensor);
  });
}

WeftStatus weft_tensor_from_dlpack_versioned(DLManagedTensorVersioned* managed,
                                             WeftTensor** tensor) {
  return Guard([&] {
    CheckArgument(tensor, "tensor");
    auto made = std::make_unique<WeftTensor>();
    made->tensor = FromDLPack(managed);
    *tensor = made.release();
  });
}
WeftStatus weft_tensor_to_dlpack_versioned(WeftTensor* tensor, DLManagedTensorVersioned** managed) {
  return Guard([&] {
    CheckArgument(tensor, "tensor");
    CheckArgument(managed, "managed");
    *managed = ToDLPackVersioned(tensor->tensor);
  });
}

WeftDType weft_tensor_dtype(const WeftTensor* t) { return t ? WeftDType(t->tensor->dtype()) : 0; }
int32_t weft_tensor_rank(const WeftTensor* t) { return t ? t->tensor->rank() : 0; }
const int64_t* weft_tensor_dims(const WeftTensor* t) {
  return t ? t->tensor->dims().data() : nullptr;
}
int64_t weft_tensor_bytes(const WeftTensor* t) { return t ? t->tensor->num_bytes() : 0; }
void* weft_tensor_data(WeftTensor* t) {
  void* data = nullptr;
  if (t && t->tensor->num_bytes() > 0) Guard([&] { data = t->tensor->mutable_data(); });
  return data;
}
const void* weft_tensor_const_data(const WeftTensor* t) {
  return t && t->tensor->num_bytes() > 0 ? std::as_const(*t->tensor).data() : nullptr;
}
WeftStatus weft_tensor_place(const WeftTensor* t, int32_t* kind, int32_t* device) {
  return Guard([&] {
    CheckArgument(t, "tensor");
    if (kind) *kind = t->tensor->place().kind;
    if (device) *device = t->tensor->place().device;
  });
}
int32_t weft_tensor_read_only(const WeftTensor* t) { return t && t->tensor->read_only(); }
void weft_tensor_release(WeftTensor* t) { delete t; }

WeftStatus weft_list_create(WeftKind kind, WeftDType dtype, size_t count,
                            WeftTensor* const* elements, WeftTensor** list) {
  return Guard([&] {
    CheckArgument(list, "list");
    WEFT_CHECK(kind == WEFT_KIND_SEQUENCE || kind == WEFT_KIND_OPTIONAL ||
                   kind == WEFT_KIND_OPTIONAL_SEQUENCE,
               kApiMisuse, "there are no lists of kind {}", kind);
    if (count > 0) CheckArgument(elements, "elements");
    std::vector<TensorPtr> held;
    for (size_t i = 0; i < count; ++i) {
      CheckArgument(elements[i], "elements[i]");
      held.push_back(elements[i]->tensor);
    }
    const Type type{TypeKind(kind), TypeOf(dtype)};
    *list = new WeftTensor{std::const_pointer_cast<Tensor>(Tensor::List(type, std::move(held)))};
  });
}
WeftKind weft_tensor_kind(const WeftTensor* t) {
  return t ? KindOf(t->tensor->type().kind) : WEFT_KIND_TENSOR;
}
size_t weft_list_size(const WeftTensor* t) { return t ? t->tensor->elements().size() : 0; }
WeftStatus weft_list_element(const WeftTensor* list, size_t index, WeftTensor** element) {
  return Guard([&] {
    CheckArgument(list, "list");
    CheckArgument(element, "element");
    const std::vector<TensorPtr>& held = list->tensor->elements();
    WEFT_CHECK(index < held.size(), kApiMisuse, "there is no element {} of {}", index, held.size());
    *element = new WeftTensor{std::const_pointer_cast<Tensor>(held[index])};
  });
}
