/// variable_store.cc: see variable_store.h. Nothing in a file is believed: its hash finds damage,
/// and every length is judged again; the whole file is read before the store changes.
#include "weft/runtime/session/variable_store.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "runtime/program/home_slot.h"
#include "runtime/program/program_impl.h"
#include "runtime/program/result_tensors.h"
#include "runtime/saved/weftx.h"
#include "variable_access.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"

namespace weft {
namespace {

using Tensors = std::map<std::string, std::shared_ptr<Tensor>>;
using Texts = std::map<std::string, std::string>;

constexpr char kMagic[8] = {'W', 'E', 'F', 'T',
                            'V', 0,   0,   1};  // the last byte is the format version

void PutText(std::string* out, const std::string& text) {
  weftx::AppendWord(out, text.size());
  *out += text;
}

/// Takes a checkpoint apart.
class Reader {
 public:
  explicit Reader(std::string_view file) : rest_(file) {
    WEFT_CHECK(file.size() >= weftx::kBodyAt && file.substr(0, 7) == std::string_view(kMagic, 7),
               kInvalidModel, "this is not a checkpoint: it does not begin with WEFTV");
    WEFT_CHECK(file[7] == kMagic[7], kInvalidModel,
               "the checkpoint has format {}, this build reads format {}", int(uint8_t(file[7])),
               int(kMagic[7]));
    WEFT_CHECK(weftx::IsSealed(file), kInvalidModel,
               "the checkpoint is damaged: its hash does not match");
    rest_.remove_prefix(weftx::kBodyAt);
  }
  void Read(Texts* metadata, Tensors* tensors) {
    for (uint64_t n = Number(); n > 0; --n) {
      const std::string key(Bytes(Number()));
      (*metadata)[key] = Bytes(Number());
    }
    for (uint64_t n = Number(); n > 0; --n) {
      const std::string name(Bytes(Number()));
      const uint64_t type = Number(), rank = Number();
      Require(type < uint64_t(kNumDTypes) && rank <= 64 && !name.empty());
      std::vector<int64_t> dims;
      for (uint64_t d = 0; d < rank; ++d) dims.push_back(int64_t(Number()));
      const std::string_view content = Bytes(Number());
      const auto dtype = DType(type);
      Require(DTypeBits(dtype) > 0 && FitsExactly(dtype, dims, content.size()));
      auto t = std::make_shared<Tensor>(dtype, dims);
      if (!content.empty()) std::memcpy(t->mutable_data(), content.data(), content.size());
      Require(tensors->emplace(name, std::move(t)).second);
    }
    Require(rest_.empty());
  }

 private:
  static void Require(bool ok) {
    WEFT_CHECK(ok, kInvalidModel, "the checkpoint is damaged: a table does not fit its content");
  }
  static bool FitsExactly(DType t, const std::vector<int64_t>& dims, uint64_t bytes) {
    for (int64_t d : dims)
      if (d < 0) return false;
    try {
      return uint64_t(DTypeBytes(t, NumElements(dims))) == bytes;
    } catch (const Error&) {
      return false;  // more than any memory
    }
  }
  uint64_t Number() { return weftx::ReadWord(Bytes(8).data()); }
  std::string_view Bytes(uint64_t n) {
    Require(n <= rest_.size());
    const std::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  std::string_view rest_;
};

std::string TypeText(const Tensor& t) {
  return fmt::format("{}{}", DTypeName(t.dtype()), t.shape().ToString());
}

}  // namespace

struct VariableStore::Impl {
  mutable std::shared_mutex mutex;
  Tensors tensors;
  Texts metadata;
  uint64_t version = 1;
  std::map<std::string, std::unique_ptr<HomeSlot>> homes;
  std::set<std::string> adopted;
  std::map<std::string, int64_t> rows;  ///< of caches, as VariableAccess::Rows

  ~Impl() {
    for (const std::string& name : adopted) GiveUp(name);
  }
  void Put(const std::string& name, const Tensor& value) {
    std::shared_ptr<Tensor>& slot = tensors[name];
    if (adopted.count(name) && (slot->dtype() != value.dtype() || slot->dims() != value.dims()))
      ThrowError(ErrorCode::kBadBinding,
                 fmt::format("variable '{}' is in memory of the caller as {}, the value is {}",
                             name, TypeText(*slot), TypeText(value)),
                 "", "erase the variable first, or adopt other memory");
    rows.erase(name);
    if (const auto it = homes.find(name); it != homes.end()) it->second->Overwritten();
    if (slot && slot->dtype() == value.dtype() && slot->dims() == value.dims()) {
      CopyContent(value, slot.get());
      return;
    }
    slot = OwnCopy(value);
    ++version;
  }
  /// An adopted variable is to be another one: its memory has the last content.
  void GiveUp(const std::string& name) noexcept {
    const auto it = homes.find(name);
    if (it == homes.end()) return;
    try {
      it->second->ToHost();
    } catch (const std::exception&) {
      // The device has failed; its runs have said so.
    }
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, t] : tensors) names.push_back(name);
    return names;
  }
  bool IsAhead() const {
    return std::any_of(homes.begin(), homes.end(),
                       [](const auto& home) { return home.second->ahead(); });
  }
  /// For readers on the host: what homes have that it has not is fetched first.
  std::shared_lock<std::shared_mutex> LockToRead() {
    for (;;) {
      std::shared_lock lock(mutex);
      if (!IsAhead()) return lock;
      lock.unlock();
      std::unique_lock alone(mutex);
      for (const auto& [name, home] : homes) home->ToHost();
    }
  }
};

VariableStore::VariableStore() : impl_(std::make_unique<Impl>()) {}
VariableStore::~VariableStore() = default;

void VariableStore::Set(const std::string& name, const TensorPtr& value) {
  WEFT_CHECK(value && !name.empty(), kApiMisuse, "a variable needs a name and a value");
  std::unique_lock lock(impl_->mutex);
  impl_->Put(name, *value);
}

void VariableStore::Adopt(const std::string& name, std::shared_ptr<Tensor> tensor) {
  WEFT_CHECK(tensor && !name.empty(), kApiMisuse, "a variable needs a name and a tensor");
  WEFT_CHECK(tensor->is_tensor() && DTypeBits(tensor->dtype()) > 0 && tensor->on_host(),
             kUnsupported, "variable '{}': a value of type {} on {} is not memory to adopt", name,
             tensor->type().ToString(), tensor->place().ToString());
  WEFT_CHECK(!tensor->read_only(), kBadBinding,
             "variable '{}': a read-only tensor cannot be adopted", name);
  // What was there may be the caller's, and calls him when it goes: not with the lock held.
  std::shared_ptr<Tensor> before;
  std::unique_lock lock(impl_->mutex);
  for (const auto& [other, t] : impl_->tensors)
    WEFT_CHECK(other == name || !ShareMemory(*t, *tensor), kBadBinding,
               "variables '{}' and '{}' would share memory", other, name);
  if (impl_->adopted.count(name)) impl_->GiveUp(name);
  impl_->homes.erase(name);
  impl_->rows.erase(name);
  before = std::exchange(impl_->tensors[name], std::move(tensor));
  impl_->adopted.insert(name);
  ++impl_->version;
}

void VariableStore::Sync() {
  std::unique_lock lock(impl_->mutex);
  for (const std::string& name : impl_->adopted)
    if (const auto it = impl_->homes.find(name); it != impl_->homes.end()) it->second->FallBehind();
}

bool VariableStore::SetIfAbsent(const std::string& name, const TensorPtr& value) {
  WEFT_CHECK(value && !name.empty(), kApiMisuse, "a variable needs a name and a value");
  std::unique_lock lock(impl_->mutex);
  if (impl_->tensors.count(name)) return false;
  impl_->Put(name, *value);
  return true;
}

std::shared_ptr<Tensor> VariableStore::Get(const std::string& name) const {
  const std::shared_lock lock = impl_->LockToRead();
  const auto it = impl_->tensors.find(name);
  if (it == impl_->tensors.end())
    ThrowError(ErrorCode::kBadBinding, fmt::format("there is no variable '{}'", name), "",
               DidYouMean(name, impl_->Names()));
  return OwnCopy(*it->second);
}

bool VariableStore::Has(const std::string& name) const {
  std::shared_lock lock(impl_->mutex);
  return impl_->tensors.count(name) > 0;
}

bool VariableStore::Erase(const std::string& name) {
  decltype(impl_->tensors)::node_type before;  // as in Adopt
  std::unique_lock lock(impl_->mutex);
  if (impl_->adopted.erase(name) > 0) impl_->GiveUp(name);
  before = impl_->tensors.extract(name);
  if (before.empty()) return false;
  impl_->homes.erase(name);
  impl_->rows.erase(name);
  ++impl_->version;
  return true;
}

std::vector<std::string> VariableStore::Names() const {
  std::shared_lock lock(impl_->mutex);
  return impl_->Names();
}

int64_t VariableStore::num_bytes() const {
  std::shared_lock lock(impl_->mutex);
  int64_t bytes = 0;
  for (const auto& [name, t] : impl_->tensors) bytes = CheckedAdd(bytes, t->num_bytes());
  return bytes;
}

void VariableStore::SetMetadata(const std::string& key, std::string value) {
  std::unique_lock lock(impl_->mutex);
  impl_->metadata[key] = std::move(value);
}

std::string VariableStore::Metadata(const std::string& key) const {
  std::shared_lock lock(impl_->mutex);
  const auto it = impl_->metadata.find(key);
  return it == impl_->metadata.end() ? std::string() : it->second;
}

std::map<std::string, std::string> VariableStore::AllMetadata() const {
  std::shared_lock lock(impl_->mutex);
  return impl_->metadata;
}

void VariableStore::Save(const std::string& path) const {
  std::string out(kMagic, sizeof kMagic);
  out.append(16, '\0');  // the hash
  {
    const std::shared_lock lock = impl_->LockToRead();
    weftx::AppendWord(&out, impl_->metadata.size());
    for (const auto& [key, value] : impl_->metadata) {
      PutText(&out, key);
      PutText(&out, value);
    }
    weftx::AppendWord(&out, impl_->tensors.size());
    for (const auto& [name, t] : impl_->tensors) {
      WEFT_CHECK(DTypeBits(t->dtype()) > 0, kUnsupported,
                 "variable '{}' is of type {}, which has no place in a checkpoint", name,
                 DTypeName(t->dtype()));
      PutText(&out, name);
      weftx::AppendWord(&out, uint64_t(t->dtype()));
      weftx::AppendWord(&out, uint64_t(t->rank()));
      for (int64_t d : t->dims()) weftx::AppendWord(&out, uint64_t(d));
      weftx::AppendWord(&out, uint64_t(t->num_bytes()));
      out.append(static_cast<const char*>(t->data()), size_t(t->num_bytes()));
    }
  }
  weftx::Seal(&out);
  WriteFileAtomic(path, out);
}

void VariableStore::Load(const std::string& path) {
  Tensors tensors;
  Texts metadata;
  try {
    const std::string bytes = ReadFile(path);
    Reader(bytes).Read(&metadata, &tensors);
  } catch (Error& e) {
    e.AddPlace(path);
    throw;
  }
  std::unique_lock lock(impl_->mutex);
  for (const auto& [name, mine] : impl_->tensors) {
    const auto it = tensors.find(name);
    WEFT_CHECK(it != tensors.end(), kBadBinding, "'{}' has no variable '{}'", path, name);
    WEFT_CHECK(it->second->dtype() == mine->dtype() && it->second->dims() == mine->dims(),
               kBadBinding, "variable '{}' is {}, in '{}' it is {}", name, TypeText(*mine), path,
               TypeText(*it->second));
  }
  for (auto& [name, t] : tensors) {
    std::shared_ptr<Tensor>& slot = impl_->tensors[name];
    impl_->rows.erase(name);
    if (const auto it = impl_->homes.find(name); it != impl_->homes.end())
      it->second->Overwritten();
    if (slot) {
      CopyContent(*t, slot.get());
    } else {
      slot = std::move(t);
      ++impl_->version;
    }
  }
  impl_->metadata = std::move(metadata);
}

// ---- VariableAccess ----

VariableAccess::VariableAccess(VariableStore& store, bool writes, bool has_homes) : store_(store) {
  VariableStore::Impl& impl = *store.impl_;
  if (has_homes || writes) {
    alone_ = std::unique_lock(impl.mutex);
    if (!has_homes)
      for (const auto& [name, home] : impl.homes) home->FallBehind();
  } else {
    shared_ = impl.LockToRead();
  }
}
HomeSlot* VariableAccess::Home(const std::string& name) const {
  std::unique_ptr<HomeSlot>& slot = store_.impl_->homes[name];
  if (!slot) slot = std::make_unique<HomeSlot>();
  return slot.get();
}
bool VariableAccess::IsAdopted(const std::string& name) const {
  return store_.impl_->adopted.count(name) > 0;
}
uint64_t VariableAccess::version() const { return store_.impl_->version; }
std::shared_ptr<Tensor> VariableAccess::Find(const std::string& name) const {
  const auto it = store_.impl_->tensors.find(name);
  return it == store_.impl_->tensors.end() ? nullptr : it->second;
}
std::shared_ptr<Tensor> VariableAccess::OnHost(const std::string& name) const {
  if (const auto it = store_.impl_->homes.find(name); it != store_.impl_->homes.end())
    it->second->ToHost();
  return Find(name);
}
void VariableAccess::Replace(const std::string& name, std::shared_ptr<Tensor> tensor) {
  VariableStore::Impl& impl = *store_.impl_;
  impl.homes.erase(name);
  impl.tensors[name] = std::move(tensor);
  ++impl.version;
}
std::optional<int64_t> VariableAccess::Rows(const std::string& name) const {
  const auto it = store_.impl_->rows.find(name);
  return it == store_.impl_->rows.end() ? std::nullopt : std::optional(it->second);
}
void VariableAccess::SetRows(const std::string& name, int64_t rows) {
  store_.impl_->rows[name] = rows;
}
std::vector<std::string> VariableAccess::Names() const { return store_.impl_->Names(); }

void CheckVariable(const IoSpec& spec, const Tensor* t, const VariableAccess& access) {
  if (!t)
    ThrowError(ErrorCode::kBadBinding, fmt::format("variable '{}' has no value", spec.name), "",
               DidYouMean(spec.name, access.Names()));
  WEFT_CHECK(spec.dtype == DType::kUnknown || t->dtype() == spec.dtype, kBadBinding,
             "variable '{}': expected dtype {}, the store has {}", spec.name, DTypeName(spec.dtype),
             DTypeName(t->dtype()));
  WEFT_CHECK(FitsShape(spec, *t), kBadBinding, "variable '{}': expected shape {}, the store has {}",
             spec.name, spec.shape.ToString(), t->shape().ToString());
}

}  // namespace weft
