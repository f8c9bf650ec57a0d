/// result_tensors.cc: see result_tensors.h.
#include "result_tensors.h"

#include <algorithm>
#include <cstring>

#include "weft/support/check.h"

namespace weft {

bool ShareMemory(const Tensor& a, const Tensor& b) {
  if (&a == &b) return true;
  if (!a.data() || !b.data()) return false;  // strings, lists
  if (a.place() != b.place()) return false;
  const auto begin = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data()); };
  return begin(a) < begin(b) + uintptr_t(b.num_bytes()) &&
         begin(b) < begin(a) + uintptr_t(a.num_bytes());
}

std::shared_ptr<Tensor> NewResult(ProgramState& state, size_t index, DType dtype,
                                  const std::vector<int64_t>& dims) {
  if (!state.make_result || DTypeBits(dtype) == 0) return std::make_shared<Tensor>(dtype, dims);
  std::shared_ptr<Tensor> t = state.make_result(index, dtype, dims);
  const auto type = [](DType d, const std::vector<int64_t>& extents) {
    return fmt::format("{}{}", DTypeName(d), Shape::OfInts(extents).ToString());
  };
  WEFT_CHECK(t, kBadBinding, "the allocator of results gave nothing for output {}", index);
  WEFT_CHECK(t->is_tensor() && t->dtype() == dtype && t->dims() == dims, kBadBinding,
             "the allocator of results was asked for {} for output {}, and gave {}",
             type(dtype, dims), index, type(t->dtype(), t->dims()));
  WEFT_CHECK(t->on_host() || t->place() == state.place, kBadBinding,
             "the allocator of results gave a tensor on {} for output {}, the program is on {}",
             t->place().ToString(), index, state.place.ToString());
  WEFT_CHECK(!t->read_only(), kBadBinding,
             "the allocator of results gave a read-only tensor for output {}", index);
  WEFT_CHECK(t->num_bytes() == 0 || std::as_const(*t).data(), kBadBinding,
             "the allocator of results gave a tensor without memory for output {}", index);
  for (const Tensor* other : state.apart)
    WEFT_CHECK(!ShareMemory(*t, *other), kBadBinding,
               "the allocator of results gave memory for output {} that an input, a variable or "
               "another result of the run has",
               index);
  state.apart.push_back(t.get());
  return t;
}

std::shared_ptr<Tensor> NewResultOf(ProgramState& state, size_t index, const Tensor& t) {
  if (!state.make_result || !t.is_tensor() || DTypeBits(t.dtype()) == 0)
    return OwnCopy(t, state.variables);
  std::shared_ptr<Tensor> made = NewResult(state, index, t.dtype(), t.dims());
  CopyContent(t, made.get());
  return made;
}

std::shared_ptr<Tensor> OwnCopy(const Tensor& t) {
  if (!t.is_tensor()) return std::make_shared<Tensor>(t);  // nobody writes to what a list holds
  auto copy = std::make_shared<Tensor>(t.dtype(), t.dims());
  CopyContent(t, copy.get());
  return copy;
}

std::shared_ptr<Tensor> OwnCopy(const Tensor& t,
                                const std::vector<std::shared_ptr<Tensor>>& variables) {
  const auto is_variable = [&](const TensorPtr& e) {
    return std::find(variables.begin(), variables.end(), e) != variables.end();
  };
  const std::vector<TensorPtr>& held = t.elements();
  if (t.is_tensor() || std::none_of(held.begin(), held.end(), is_variable)) return OwnCopy(t);
  std::vector<TensorPtr> elements = held;
  for (TensorPtr& e : elements)
    if (is_variable(e)) e = OwnCopy(*e);
  return std::const_pointer_cast<Tensor>(Tensor::List(t.type(), std::move(elements)));
}

void CopyContent(const Tensor& from, Tensor* to) {
  if (from.dtype() == DType::kString)
    to->mutable_strings() = from.strings();
  else if (from.num_bytes() > 0)
    std::memmove(to->mutable_data(), from.data(), size_t(from.num_bytes()));
}

}  // namespace weft
