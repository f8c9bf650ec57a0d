/// sym_tensor.cc: what a followed value says about itself, and which values are followed.
#include "weft/core/tensor/sym_tensor.h"

#include <algorithm>

#include "weft/core/tensor/followed_value.h"
#include "weft/support/check.h"

namespace weft {

bool SymTensor::is_const() const {
  return std::all_of(elements.begin(), elements.end(),
                     [](SymInt e) { return e.known() && e.is_const(); });
}
bool SymTensor::fully_known() const {
  return std::all_of(elements.begin(), elements.end(), [](SymInt e) { return e.known(); });
}
std::vector<int64_t> SymTensor::ints() const {
  std::vector<int64_t> out;
  out.reserve(elements.size());
  for (SymInt e : elements) {
    WEFT_ICHECK(e.known() && e.is_const(), "{} is not an integer", e.ToString());
    out.push_back(e.value());
  }
  return out;
}
bool operator==(const SymTensor& a, const SymTensor& b) {
  return a.dims == b.dims && a.elements.size() == b.elements.size() &&
         std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(),
                    [](SymInt x, SymInt y) { return x.same(y); });
}

SymTensorPtr FollowedValueOf(const Tensor& t) {
  if (!(IsInt(t.dtype()) || t.dtype() == DType::kBool) || t.num_elements() > kMaxSymTensor)
    return nullptr;
  auto v = std::make_shared<SymTensor>();
  v->dims = t.dims();
  v->elements.reserve(size_t(t.num_elements()));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t e = t.at_int(i);
    const bool beyond = t.dtype() == DType::kU64 && e < 0;
    v->elements.push_back(beyond ? SymInt() : SymInt(e));
  }
  return v;
}

SymTensorPtr AsFollowed(SymTensor v) {
  if (int64_t(v.elements.size()) > kMaxSymTensor) return nullptr;
  for (SymInt& e : v.elements)
    if (!NeverWraps(e)) e = SymInt();
  return std::make_shared<const SymTensor>(std::move(v));
}

}  // namespace weft
