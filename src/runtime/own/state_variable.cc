/// state_variable.cc: see state_variable.h.
#include "weft/runtime/program/state_variable.h"

#include "runtime/program/home_slot.h"
#include "runtime/program/program_impl.h"
#include "weft/support/check.h"

namespace weft {

TensorPtr StateVariable::Read() {
  if (slot_) slot_->ToHost();
  return host_;
}

void StateVariable::CheckFits(const Tensor& now) const {
  WEFT_CHECK(now.type() == host_->type() && now.dims() == host_->dims(), kShapeMismatch,
             "variable '{}' of the shape {}{} is assigned a value of the shape {}{}", name_,
             DTypeName(dtype()), host_->shape().ToString(), DTypeName(now.dtype()),
             now.shape().ToString());
}

void StateVariable::Write(const Tensor& now) {
  CheckFits(now);
  if (slot_) slot_->Overwritten();
  CopyContent(now, host_.get());
}

VariableHome& StateVariable::HomeOf(const std::shared_ptr<const void>& owner, std::type_index type,
                                    bool writes,
                                    const std::function<std::unique_ptr<VariableHome>()>& make) {
  WEFT_CHECK(slot_, kApiMisuse,
             "variable '{}' is asked for its home by a program without homes: override "
             "BackendProgram::has_homes",
             name_);
  WEFT_CHECK(owner, kApiMisuse, "the home of variable '{}' needs an owner", name_);
  return slot_->At(owner, type, host_, writes, make);
}

}  // namespace weft
