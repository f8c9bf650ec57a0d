/// state_variable.h: a state variable as a run of a backend's own program has it, and the home that
/// such a program may give it outside of the host's memory.
///
///   struct OnCard final : VariableHome {                   // its words on the accelerator
///     void Load(const Tensor& host) override { card->Write(at, host.data(), ...); }
///     void Fetch(Tensor* host) override { card->Read(at, host->mutable_data(), ...); }
///   };
///   OnCard& w = run.variables()[0].At<OnCard>(
///       card, /*writes=*/true, [&] { return std::make_unique<OnCard>(card, ...); });
///
/// A home stays in the VariableStore from run to run, for all programs and sessions that share the
/// store and give the same owner: nothing is copied between runs. The host's tensor is brought up
/// to date when somebody reads it there (VariableStore::Get, Save, a program on the host), and the
/// home when somebody has written the host's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <typeindex>
#include <vector>

#include "weft/core/tensor/tensor.h"
#include "weft/support/api.h"

namespace weft {

/// Where a state variable is while a backend's programs read and change it there. Guarded by the
/// lock of its store: one thread at a time.
class WEFT_API VariableHome {
 public:
  /// Waits for work that still uses it; throws nothing.
  virtual ~VariableHome() = default;
  /// Takes the content of the host's tensor, which has the variable's dtype and extents and stays
  /// as it is until the run has ended.
  virtual void Load(const Tensor& host) = 0;
  /// Gives the content to such a tensor; waits for work that changes it.
  virtual void Fetch(Tensor* host) = 0;
};

class HomeSlot;  // the store's place for a home (src/runtime/program/home_slot.h)

/// During one run.
class WEFT_API StateVariable {
 public:
  /// The runtime's. `slot` null: of a program without homes.
  StateVariable(std::string name, std::shared_ptr<Tensor> host, HomeSlot* slot)
      : name_(std::move(name)), host_(std::move(host)), slot_(slot) {}
  const std::string& name() const { return name_; }
  DType dtype() const { return host_->dtype(); }
  const std::vector<int64_t>& dims() const { return host_->dims(); }
  /// The content in host memory, fetched where a home has a newer one. Valid until the next write.
  TensorPtr Read();
  /// Throws kShapeMismatch where a value is not of the variable's dtype and extents.
  void CheckFits(const Tensor& now) const;
  /// The content becomes that of `now`; homes fall behind. Throws as CheckFits.
  void Write(const Tensor& now);
  /// The home of type `Home` that `owner` has given the variable, with its content: `make()` where
  /// there is none of that owner and type, VariableHome::Load where the host's is newer. `writes`:
  /// this run changes the content there. The store keeps `owner`. Throws kApiMisuse for a program
  /// that has not declared homes (BackendProgram::has_homes), and what `make` and Load throw.
  template <class Home>
  Home& At(const std::shared_ptr<const void>& owner, bool writes,
           const std::function<std::unique_ptr<Home>()>& make) {
    return static_cast<Home&>(HomeOf(owner, typeid(Home), writes, make));
  }

 private:
  VariableHome& HomeOf(const std::shared_ptr<const void>& owner, std::type_index type, bool writes,
                       const std::function<std::unique_ptr<VariableHome>()>& make);
  std::string name_;
  std::shared_ptr<Tensor> host_;
  HomeSlot* slot_;
};

}  // namespace weft
