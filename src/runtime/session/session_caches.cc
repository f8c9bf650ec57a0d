/// session_caches.cc: see session_caches.h.
#include "session_caches.h"

#include <algorithm>
#include <cstring>

#include "variable_access.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// Rooms are multiples of this many rows.
constexpr int64_t kRowsAtOnce = 64;

/// Rows [0, n) of `axis`.
void CopyRows(const Tensor& from, Tensor* to, int axis, int64_t n) {
  int64_t lines = 1, row = DTypeBits(from.dtype()) / 8;
  for (int k = 0; k < axis; ++k) lines *= from.dims()[size_t(k)];
  for (size_t k = size_t(axis) + 1; k < from.dims().size(); ++k) row *= from.dims()[k];
  const auto* const source = static_cast<const char*>(from.data());
  auto* const target = static_cast<char*>(to->mutable_data());
  for (int64_t i = 0; i < lines; ++i)
    std::memcpy(target + i * to->dims()[size_t(axis)] * row,
                source + i * from.dims()[size_t(axis)] * row, size_t(n * row));
}

}  // namespace

SessionCaches::SessionCaches(const Program::Impl& program) : program_(program) {
  std::vector<SymInt> known;
  const auto tell = [&](SymInt d, size_t input, size_t axis) {
    if (!d.known() || !d.is_symbol() || std::find(known.begin(), known.end(), d) != known.end())
      return;
    known.push_back(d);
    told_.emplace_back(input, axis);
  };
  for (size_t i = 0; i < program.inputs_.size(); ++i) {
    const IoSpec& spec = program.inputs_[i];
    if (spec.number.known())
      tell(spec.number, i, 1);  // it comes as the extent of an empty tensor
    else if (spec.shape.has_rank())
      for (int d = 0; d < spec.shape.rank(); ++d) tell(spec.shape[d], i, size_t(d));
  }
  symbols_.resize(known.size());
  sizes_ = SymProgram(known);
  for (const CacheSpec& c : program.caches_) {
    const IoSpec& spec = program.variables_[c.variable];
    sizes_.Add(c.kept);
    sizes_.Add(c.rows);
    dims_at_.push_back(sizes_.num_results());
    for (int d = 0; d < spec.shape.rank(); ++d) sizes_.Add(d == c.axis ? c.rows : spec.shape[d]);
  }
  values_.resize(size_t(sizes_.num_results()));
  stats_.caches = int64_t(program.caches_.size());
  stats_.copied_by_steps = program.cache_copies_;
}

void SessionCaches::Prepare(const std::vector<TensorPtr>& inputs, VariableAccess* access) {
  for (size_t k = 0; k < told_.size(); ++k)
    symbols_[k] = inputs[told_[k].first]->dims()[told_[k].second];
  sizes_.Run(symbols_.data(), values_.data());
  rows_ = 0;
  int64_t before = INT64_MAX;  // the room that all have
  bool fits = true;
  for (size_t k = 0; k < program_.caches_.size(); ++k) {
    const CacheSpec& c = program_.caches_[k];
    const IoSpec& spec = program_.variables_[c.variable];
    const int64_t* const dims = values_.data() + dims_at_[k];
    const int64_t kept = dims[-2], rows = dims[-1];
    rows_ = std::max(rows_, rows);
    const std::shared_ptr<Tensor> held = access->Find(spec.name);
    if (held) CheckVariable(spec, held.get(), *access);
    const int64_t room = held ? held->dims()[size_t(c.axis)] : 0;
    const int64_t written = std::min(room, access->Rows(spec.name).value_or(room));
    WEFT_CHECK(kept <= written, kBadInput,
               "the run would go on behind {} rows of the cache '{}', which holds {}", kept,
               spec.name, written);
    bool same = held != nullptr;
    for (size_t d = 0; held && d < held->dims().size(); ++d)
      same = same && (int(d) == c.axis || held->dims()[d] == dims[d]);
    if (held && !same && kept > 0)
      ThrowError(ErrorCode::kBadBinding,
                 fmt::format("the cache '{}' is {}, the inputs are of another batch", spec.name,
                             held->shape().ToString()),
                 "", "a run that keeps 0 rows begins anew");
    before = std::min(before, room);
    fits = fits && same && room >= std::max(rows, reserved_);
  }
  for (size_t k = 0; k < program_.caches_.size(); ++k) {
    const std::string& name = program_.variables_[program_.caches_[k].variable].name;
    if (!fits && access->IsAdopted(name))
      ThrowError(ErrorCode::kBadBinding,
                 fmt::format("the cache '{}' is in memory of the caller, without the room that the "
                             "run needs",
                             name),
                 "", "erase the variable first, or adopt other memory");
    access->SetRows(name, values_[size_t(dims_at_[k]) - 2]);
  }
  stats_.room = before;
  if (fits) return;
  const int64_t grown = rows_ > before ? CheckedMul(before, 2) : 0;
  const int64_t room = CheckedRoundUp(std::max({rows_, reserved_, grown}), kRowsAtOnce);
  ++stats_.allocations;
  stats_.bytes = 0;
  stats_.room = room;
  for (size_t k = 0; k < program_.caches_.size(); ++k) {
    const CacheSpec& c = program_.caches_[k];
    const IoSpec& spec = program_.variables_[c.variable];
    const int64_t* const at = values_.data() + dims_at_[k];
    std::vector<int64_t> dims(at, at + spec.shape.rank());
    dims[size_t(c.axis)] = room;
    auto fresh = std::make_shared<Tensor>(spec.dtype, dims);
    stats_.bytes = CheckedAdd(stats_.bytes, fresh->num_bytes());
    if (at[-2] > 0) {
      const std::shared_ptr<Tensor> held = access->OnHost(spec.name);
      CopyRows(*held, fresh.get(), c.axis, at[-2]);
      stats_.moved_bytes += fresh->num_bytes() / room * at[-2];
    }
    access->Replace(spec.name, std::move(fresh));
  }
}

void SessionCaches::Ran(VariableAccess* access) {
  stats_.rows = rows_;
  for (size_t k = 0; k < program_.caches_.size(); ++k)
    access->SetRows(program_.variables_[program_.caches_[k].variable].name,
                    values_[size_t(dims_at_[k]) - 1]);
}

}  // namespace weft
