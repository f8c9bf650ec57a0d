/// home_slot.h: a store's place for the home of one of its variables: which of home and host is
/// newer. Private to the runtime; guarded by the lock of its store.
#pragma once

#include <functional>
#include <memory>
#include <typeindex>

#include "weft/core/tensor/tensor.h"
#include "weft/runtime/program/state_variable.h"

namespace weft {

class HomeSlot {
 public:
  /// As StateVariable::At, of the variable whose tensor on the host is `host`.
  VariableHome& At(const std::shared_ptr<const void>& owner, std::type_index type,
                   const std::shared_ptr<Tensor>& host, bool writes,
                   const std::function<std::unique_ptr<VariableHome>()>& make) {
    if (!home_ || owner != owner_ || type != type_ || host != host_) {
      ToHost();
      home_.reset();
      home_ = make();
      owner_ = owner;
      type_ = type;
      host_ = host;
      behind_ = true;
    }
    if (behind_) home_->Load(*host_);
    behind_ = false;
    ahead_ = ahead_ || writes;
    return *home_;
  }
  /// The one that a run has taken; null: there is none.
  VariableHome* home() const { return home_.get(); }
  /// The host's tensor has what the home has.
  void ToHost() {
    if (ahead_) home_->Fetch(host_.get());
    ahead_ = false;
  }
  /// The home has content that the host's tensor lacks.
  bool ahead() const { return ahead_; }
  /// The host's tensor is about to be written, in part or as a whole.
  void FallBehind() {
    ToHost();
    behind_ = true;
  }
  /// It is another one, or all of it is.
  void Overwritten() {
    behind_ = true;
    ahead_ = false;
  }

 private:
  std::shared_ptr<const void> owner_;
  std::type_index type_ = typeid(void);
  std::shared_ptr<Tensor> host_;
  std::unique_ptr<VariableHome> home_;
  bool behind_ = true, ahead_ = false;
};

}  // namespace weft
