/// sym_tensor.cc: what a followed value says about itself.
#include "weft/core/tensor/sym_tensor.h"

#include <algorithm>

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

}  // namespace weft
