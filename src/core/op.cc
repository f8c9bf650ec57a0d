/// op.cc: the operator registry: dmlc::Registry as storage, columns of attributes, provenance and staging.
#include "weft/core/op.h"

#include <dmlc/registry.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "registry_lock.h"
#include "weft/core/op_param.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace dmlc {
DMLC_REGISTRY_ENABLE(::weft::Op);
}

namespace weft {

std::string Owner::ToString() const {
  std::string_view path = file;
  if (auto slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return fmt::format("{} ({}:{})", module, path, line);
}

namespace detail {

/// One attribute of all ops. Slots live in chunks that never move, so references stay valid while others register;
/// a slot is published by its flag.
class OpAttrColumn {
 public:
  static constexpr uint32_t kChunk = 256, kChunks = 256;  // 65,536 ops
  struct Slot {
    std::atomic<bool> set{false};
    std::any value;
    int plevel = 0;
    Owner owner;
    bool from_group = false;
    std::vector<std::unique_ptr<std::any>> replaced;  // values once handed out by reference live on
  };
  std::string name;
  std::type_index type = typeid(void);
  std::shared_ptr<void> map;  // the OpMap<T> given out
  Slot& At(uint32_t op) {
    WEFT_CHECK(op < kChunk * kChunks, kLimit, "more than {} operators", kChunk * kChunks);
    auto& chunk = chunks_[op / kChunk];
    Slot* base = chunk.load(std::memory_order_acquire);
    if (!base) chunk.store(base = new Slot[kChunk], std::memory_order_release);
    return base[op % kChunk];
  }
  const Slot* Find(uint32_t op) const {
    const Slot* base =
        op < kChunk * kChunks ? chunks_[op / kChunk].load(std::memory_order_acquire) : nullptr;
    return base && base[op % kChunk].set.load(std::memory_order_acquire) ? &base[op % kChunk]
                                                                         : nullptr;
  }

 private:
  std::atomic<Slot*> chunks_[kChunks] = {};
};

}  // namespace detail

using detail::OpAttrColumn;

namespace {

/// Statement recorded by a builder, replayed on an op.
struct AttrSetting {
  std::string name;
  std::type_index type = typeid(void);
  std::any value;
  int plevel;
  Owner owner;
};

struct OpTable {
  std::map<std::string, std::unique_ptr<OpAttrColumn>> columns;
  std::map<std::string, std::vector<AttrSetting>> groups;  // group -> what it sets
  std::map<std::string, std::vector<Op*>> included;        // group -> ops that include it
};
OpTable& Table() {
  static OpTable* table = new OpTable;
  return *table;
}

OpAttrColumn& Column(const std::string& name, std::type_index type) {
  auto& slot = Table().columns[name];
  if (!slot) {
    slot = std::make_unique<OpAttrColumn>();
    slot->name = name;
    slot->type = type;
  }
  WEFT_CHECK(slot->type == type, kTypeConflict,
             "operator attribute '{}' is used with two C++ types: {} and {}", name,
             slot->type.name(), type.name());
  return *slot;
}

/// Does `s` win over what the slot holds? Group values lose against explicit ones; equal priority is refused.
bool Wins(const OpAttrColumn::Slot& slot, const Op& op, const AttrSetting& s, bool from_group) {
  if (!slot.set.load()) return true;
  if (slot.from_group != from_group) return slot.from_group;
  const bool same_statement = slot.owner.line == s.owner.line &&
                              slot.owner.module == s.owner.module &&
                              std::strcmp(slot.owner.file, s.owner.file) == 0;
  if (slot.plevel == s.plevel && !(from_group && same_statement))
    ThrowError(
        ErrorCode::kDuplicate,
        fmt::format(
            "attribute '{}' of operator '{}' is registered twice with priority {}: by {} and by {}",
            s.name, op.name, s.plevel, slot.owner.ToString(), s.owner.ToString()),
        "", "give the one that shall win a higher plevel");
  return slot.plevel < s.plevel;
}

void SetAttr(Op& op, const AttrSetting& s, bool from_group) {
  OpAttrColumn::Slot& slot = Column(s.name, s.type).At(op.index());
  if (!Wins(slot, op, s, from_group)) return;
  const bool taken = slot.set.load();
  if (taken) slot.replaced.push_back(std::make_unique<std::any>(std::move(slot.value)));
  slot.value = s.value;
  slot.plevel = s.plevel;
  slot.owner = s.owner;
  slot.from_group = from_group;
  slot.set.store(true, std::memory_order_release);
}

}  // namespace

/// Access to what only the registry may write.
struct OpRegistryAccess {
  static void SetIndex(Op& op, uint32_t i) { op.index_ = i; }
};

namespace detail {
OpAttrColumn* FindColumn(const std::string& name) {
  std::shared_lock lock(RegistryMutex());
  auto it = Table().columns.find(name);
  return it == Table().columns.end() ? nullptr : it->second.get();
}
const std::any* ColumnGet(const OpAttrColumn* column, uint32_t op) {
  const OpAttrColumn::Slot* s = column->Find(op);
  return s ? &s->value : nullptr;
}
}  // namespace detail

const void* Op::MapFor(const std::string& name, std::type_index type,
                       std::shared_ptr<void> (*make)(OpAttrColumn*)) {
  CheckRegistrations();
  {
    std::shared_lock lock(RegistryMutex());
    auto it = Table().columns.find(name);
    if (it != Table().columns.end() && it->second->map && it->second->type == type)
      return it->second->map.get();
  }
  std::unique_lock lock(RegistryMutex());
  OpAttrColumn& c = Column(name, type);
  if (!c.map) c.map = make(&c);
  return c.map.get();
}

void ThrowMissingOpAttr(const OpAttrColumn* column, const Op* op) {
  ThrowError(ErrorCode::kMissingOpAttr, fmt::format("operator '{}' has no attribute '{}'",
                                                    op ? op->name : "(variable)", column->name));
}

const Op* Op::Find(std::string_view name) {
  CheckRegistrations();
  std::shared_lock lock(RegistryMutex());
  return dmlc::Registry<Op>::Find(std::string(name));
}
const Op* Op::Get(std::string_view name) {
  if (const Op* op = Find(name)) return op;
  std::vector<std::string> names;
  for (const Op* op : List()) names.push_back(op->name);
  std::string near;
  for (const std::string& n : NearestNames(std::string(name), names))
    near += (near.empty() ? "did you mean " : " or ") + n;
  ThrowError(ErrorCode::kUnknownOp, fmt::format("no operator '{}' is registered", name), "", near);
}
std::vector<const Op*> Op::List() {
  std::shared_lock lock(RegistryMutex());
  std::vector<const Op*> list = dmlc::Registry<Op>::List();
  std::sort(list.begin(), list.end(), [](const Op* a, const Op* b) { return a->name < b->name; });
  return list;
}
bool Op::has(const std::string& attr) const {
  const OpAttrColumn* c = detail::FindColumn(attr);
  return c && c->Find(index_);
}
Owner Op::attr_owner(const std::string& attr) const {
  const OpAttrColumn* c = detail::FindColumn(attr);
  const OpAttrColumn::Slot* s = c ? c->Find(index_) : nullptr;
  return s ? s->owner : Owner{};
}

// ---- registration statements ----

struct OpBuilder::Impl {
  std::string name;
  Owner owner;
  bool group;
  std::vector<std::function<void(Op&)>> edits;  // everything but attributes
  std::vector<AttrSetting> attrs;
  std::vector<std::string> includes, aliases;
};

OpBuilder::OpBuilder(std::string name, Owner owner, bool group) : impl_(new Impl) {
  impl_->name = std::move(name);
  impl_->owner = std::move(owner);
  impl_->group = group;
}
OpBuilder::~OpBuilder() = default;
OpBuilder::OpBuilder(OpBuilder&&) noexcept = default;

#define WEFT_OP_EDIT(...)                               \
  impl_->edits.push_back([=](Op& op) { __VA_ARGS__; }); \
  return *this

OpBuilder& OpBuilder::describe(std::string doc) { WEFT_OP_EDIT(op.description = doc); }
OpBuilder& OpBuilder::input(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(op.inputs.push_back({n, t, d}));
}
OpBuilder& OpBuilder::add_argument(std::string n, std::string t, std::string d) {
  return input(n, t, d);
}
OpBuilder& OpBuilder::optional_input(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(op.inputs.push_back({n, t, d, true}));
}
OpBuilder& OpBuilder::variadic_input(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(op.inputs.push_back({n, t, d, false, true}));
}
OpBuilder& OpBuilder::output(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(op.outputs.push_back({n, t, d}));
}
OpBuilder& OpBuilder::optional_output(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(op.outputs.push_back({n, t, d, true}));
}
OpBuilder& OpBuilder::example(std::vector<std::string> in, std::string a) {
  WEFT_OP_EDIT(op.examples.push_back({in, a}));
}
OpBuilder& OpBuilder::set_num_inputs(int n) {
  WEFT_OP_EDIT(op.num_inputs = n; op.min_inputs = n < 0 ? 0 : n; op.max_inputs = n);
}
OpBuilder& OpBuilder::set_num_inputs(int min, int max) {
  WEFT_OP_EDIT(op.num_inputs = min == max ? min : -1; op.min_inputs = min; op.max_inputs = max);
}
OpBuilder& OpBuilder::set_num_inputs(std::function<uint32_t(const NodeAttrs&)> f) {
  WEFT_OP_EDIT(op.num_inputs = -1; op.get_num_inputs = f);
}
OpBuilder& OpBuilder::set_num_outputs(int n) { WEFT_OP_EDIT(op.num_outputs = n); }
OpBuilder& OpBuilder::set_num_outputs(std::function<uint32_t(const NodeAttrs&)> f) {
  WEFT_OP_EDIT(op.num_outputs = -1; op.get_num_outputs = f);
}
OpBuilder& OpBuilder::set_attr_parser(std::function<void(NodeAttrs*)> f) {
  WEFT_OP_EDIT(op.attr_parser = f);
}
OpBuilder& OpBuilder::set_support_level(int level) { WEFT_OP_EDIT(op.support_level = level); }
OpBuilder& OpBuilder::set_schema(const ParamSchema* schema) {
  WEFT_OP_EDIT(op.param_schema = schema);
}
#undef WEFT_OP_EDIT
OpBuilder& OpBuilder::add_alias(std::string alias) {
  impl_->aliases.push_back(std::move(alias));
  return *this;
}
OpBuilder& OpBuilder::include(std::string group) {
  impl_->includes.push_back(std::move(group));
  return *this;
}
OpBuilder& OpBuilder::set_any(std::string attr, std::type_index type, std::any value, int plevel) {
  impl_->attrs.push_back({std::move(attr), type, std::move(value), plevel, impl_->owner});
  return *this;
}

void OpBuilder::Commit() {
  std::unique_lock lock(RegistryMutex());
  OpTable& table = Table();
  for (const AttrSetting& s : impl_->attrs)
    Column(s.name, s.type);  // type conflicts first: nothing half done
  if (impl_->group) {
    auto& group = table.groups[impl_->name];
    group.insert(group.end(), impl_->attrs.begin(), impl_->attrs.end());
    for (Op* op : table.included[impl_->name])
      for (const AttrSetting& s : impl_->attrs) SetAttr(*op, s, true);
    return;
  }
  auto* registry = dmlc::Registry<Op>::Get();
  for (const std::string& alias : impl_->aliases) {
    const Op* other = dmlc::Registry<Op>::Find(alias);
    WEFT_CHECK(!other || other->name == impl_->name, kDuplicate,
               "alias '{}' of operator '{}' is taken by operator '{}' of {}", alias, impl_->name,
               other->name, other->owners.empty() ? "?" : other->owners[0].ToString());
  }
  const Op* known = dmlc::Registry<Op>::Find(impl_->name);
  if (known)
    for (const AttrSetting& s : impl_->attrs)
      Wins(Column(s.name, s.type).At(known->index()), *known, s, false);
  const bool fresh = !known;
  Op& op = registry->__REGISTER_OR_GET__(impl_->name);
  if (fresh) OpRegistryAccess::SetIndex(op, uint32_t(dmlc::Registry<Op>::List().size() - 1));
  op.owners.push_back(impl_->owner);
  for (const auto& edit : impl_->edits) edit(op);
  for (const std::string& alias : impl_->aliases) {
    registry->AddAlias(impl_->name, alias);
    op.aliases.push_back(alias);
  }
  for (const std::string& group : impl_->includes) {
    table.included[group].push_back(&op);
    for (const AttrSetting& s : table.groups[group]) SetAttr(op, s, true);
  }
  for (const AttrSetting& s : impl_->attrs) SetAttr(op, s, false);
}

Registered::Registered(OpBuilder& builder) {
  // The builder is moved into shared hands: a staged commit runs later.
  auto kept = std::make_shared<OpBuilder>(std::move(builder));
  CommitRegistration([kept] { kept->Commit(); });
}

}  // namespace weft
