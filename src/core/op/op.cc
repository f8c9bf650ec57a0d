/// op.cc: the operator registry: dmlc::Registry as storage, columns of
/// attributes, provenance and staging.
#include "weft/core/op/op.h"

#include <dmlc/registry.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "op_registry_access.h"
#include "registry_lock.h"
#include "weft/core/op/op_param.h"
#include "weft/core/op/staging.h"
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

Owner Owner::At(std::string module, std::string_view file, int line) {
  static std::mutex* mutex = new std::mutex;
  static std::set<std::string>* files = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  return {std::move(module), files->emplace(file).first->c_str(), line};
}

namespace detail {

/// One attribute of all ops. Slots live in chunks that never move; a value is published by its
/// pointer, never changes and lives for ever, so references stay valid while others register.
class OpAttrColumn {
 public:
  static constexpr uint32_t kChunk = 256, kChunks = 256;  // 65,536 ops
  struct Slot {
    std::atomic<const std::any*> value{nullptr};
    int plevel = 0;
    Owner owner;
    bool from_group = false;
  };
  std::string name;
  std::type_index type = typeid(void);
  std::shared_ptr<void> map;  // the OpMap<T> given out
  OpAttrColumn() = default;
  ~OpAttrColumn() {  // of a column that was taken back; all others live for ever
    for (auto& chunk : chunks_) delete[] chunk.load();
  }
  OpAttrColumn(const OpAttrColumn&) = delete;
  OpAttrColumn& operator=(const OpAttrColumn&) = delete;
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
    return base && base[op % kChunk].value.load(std::memory_order_acquire) ? &base[op % kChunk]
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
  std::map<std::string, Op*> aliases;
  std::deque<Op> overriding;                            // definitions that replaced others
  std::map<std::string, std::vector<Op*>> definitions;  // name -> those of it, in order
  std::set<std::string> withdrawn;  // in dmlc's table, which forgets nothing, but taken back
  std::deque<std::any> values;      // of attributes; handed out by reference, so never dropped
};
OpTable& Table() {
  static OpTable* table = new OpTable;
  return *table;
}

OpAttrColumn& Column(const std::string& name, std::type_index type) {
  auto& columns = Table().columns;
  if (!columns.count(name)) {
    auto column = std::make_unique<OpAttrColumn>();
    column->name = name;
    column->type = type;
    if (InRegistryTransaction()) OnRollback([name] { Table().columns.erase(name); });
    columns.emplace(name, std::move(column));
  }
  auto& slot = columns[name];
  WEFT_CHECK(slot->type == type, kTypeConflict,
             "operator attribute '{}' is used with two C++ types: {} and {}", name,
             slot->type.name(), type.name());
  return *slot;
}

/// Does `s` win over what the slot holds? Group values lose against explicit ones;
/// equal priority is refused.
bool Wins(const OpAttrColumn::Slot& slot, const Op& op, const AttrSetting& s, bool from_group) {
  if (!slot.value.load()) return true;
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
  Table().values.push_back(s.value);
  const std::any* value = &Table().values.back();
  OnRollback([&slot, old = slot.value.load(), plevel = slot.plevel, owner = slot.owner,
              group = slot.from_group]() mutable {
    slot.plevel = plevel;
    slot.owner = std::move(owner);
    slot.from_group = group;
    slot.value.store(old, std::memory_order_release);
  });
  slot.plevel = s.plevel;
  slot.owner = s.owner;
  slot.from_group = from_group;
  slot.value.store(value, std::memory_order_release);
}

/// The op of that key or alias; null where there is none.
Op* Lookup(const std::string& name) {
  if (auto it = Table().definitions.find(name); it != Table().definitions.end())
    return it->second.back();
  const Op* op = dmlc::Registry<Op>::Find(name);
  if (op && !Table().withdrawn.count(name)) return const_cast<Op*>(op);
  auto it = Table().aliases.find(name);
  return it == Table().aliases.end() ? nullptr : it->second;
}

/// What a statement may change of an op, to be put back.
auto StateOf(Op& op) {
  return std::tie(op.description, op.inputs, op.outputs, op.examples, op.support_level,
                  op.num_inputs, op.num_outputs, op.min_inputs, op.max_inputs, op.get_num_inputs,
                  op.get_num_outputs, op.attr_parser, op.param_schema, op.aliases, op.owners);
}
template <class... T>
std::tuple<T...> CopyOf(const std::tuple<T&...>& state) {
  return state;
}
void SaveState(Op* op) {
  OnRollback([op, before = CopyOf(StateOf(*op))]() mutable { StateOf(*op) = std::move(before); });
}

}  // namespace

namespace detail {
OpAttrColumn* FindColumn(const std::string& name) {
  RegistryRead lock;
  auto it = Table().columns.find(name);
  return it == Table().columns.end() ? nullptr : it->second.get();
}
const std::any* ColumnGet(const OpAttrColumn* column, uint32_t op) {
  const OpAttrColumn::Slot* s = column->Find(op);
  return s ? s->value.load(std::memory_order_acquire) : nullptr;
}
}  // namespace detail

const void* Op::MapFor(const std::string& name, std::type_index type,
                       std::shared_ptr<void> (*make)(OpAttrColumn*)) {
  CheckRegistrations();
  {
    RegistryRead lock;
    auto it = Table().columns.find(name);
    if (it != Table().columns.end() && it->second->map && it->second->type == type)
      return it->second->map.get();
  }
  std::unique_lock lock(RegistryMutex(), std::defer_lock);
  if (!InRegistryTransaction()) lock.lock();
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
  RegistryRead lock;
  return Lookup(std::string(name));
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
  RegistryRead lock;
  std::vector<const Op*> list;
  for (const Op* op : dmlc::Registry<Op>::List())
    if (!Table().withdrawn.count(op->name)) list.push_back(Lookup(op->name));
  std::sort(list.begin(), list.end(), [](const Op* a, const Op* b) { return a->name < b->name; });
  return list;
}
bool Op::has(const std::string& attr) const {
  const OpAttrColumn* c = detail::FindColumn(attr);
  return c && c->Find(index_);
}
Owner Op::attr_owner(const std::string& attr) const {
  RegistryRead lock;
  auto it = Table().columns.find(attr);
  const OpAttrColumn::Slot* s = it == Table().columns.end() ? nullptr : it->second->Find(index_);
  return s ? s->owner : Owner{};
}

// ---- registration statements ----

struct OpBuilder::Impl {
  std::string name;
  Owner owner;
  bool group;
  std::vector<std::function<void(Op&)>> edits;   // everything but attributes and counts
  std::vector<std::function<void(Op&)>> counts;  // set_num_*, which win over what is listed
  std::vector<AttrSetting> attrs;
  std::vector<std::string> includes, aliases;
  bool declares = false;  // says what the op is, not only how something is done with it
  enum class Known { kAddTo, kRefuse, kReplace } known = Known::kAddTo;
  void CommitNow();
};

namespace {

void CommitGroup(const std::string& name, const std::vector<AttrSetting>& attrs) {
  OpTable& table = Table();
  auto& group = table.groups[name];
  OnRollback([name, size = group.size()] {
    auto& g = Table().groups[name];
    g.erase(g.begin() + std::ptrdiff_t(size), g.end());
    if (g.empty()) Table().groups.erase(name);
  });
  group.insert(group.end(), attrs.begin(), attrs.end());
  if (auto it = table.included.find(name); it != table.included.end())
    for (Op* op : it->second)
      for (const AttrSetting& s : attrs) SetAttr(*op, s, true);
  NoteRegistration("op group", name);
}

/// Ops so far, replaced ones included: their indices are the numbers below.
uint32_t NumDefinitions() {
  return uint32_t(dmlc::Registry<Op>::List().size() + Table().overriding.size());
}

/// The op of that name, made where there is none.
Op& OpenOp(const std::string& name) {
  if (Op* known = Lookup(name)) return *known;
  const bool again = dmlc::Registry<Op>::Find(name) != nullptr;
  // The entry of `withdrawn` is made beforehand, so that taking back needs no memory.
  std::set<std::string> entry = {name};
  auto node = std::make_shared<std::set<std::string>::node_type>(entry.extract(entry.begin()));
  OnRollback([node] { Table().withdrawn.insert(std::move(*node)); });
  Table().withdrawn.erase(name);
  Op& op = dmlc::Registry<Op>::Get()->__REGISTER_OR_GET__(name);
  if (!again) OpRegistryAccess::SetIndex(op, NumDefinitions() - 1);
  return op;
}

/// Another op in the place of `old`, which stays what it is for the nodes that have it.
Op& ReplaceOp(Op* old) {
  OpTable& t = Table();
  OnRollback([name = old->name, old] {
    OpTable& table = Table();
    std::vector<Op*>& known = table.definitions[name];
    for (auto& [alias, op] : table.aliases)
      if (op == known.back()) op = old;
    known.pop_back();
    if (known.size() <= 1) table.definitions.erase(name);
    table.overriding.pop_back();
  });
  t.overriding.emplace_back();
  Op& op = t.overriding.back();
  op.name = old->name;
  OpRegistryAccess::SetIndex(op, NumDefinitions() - 1);
  std::vector<Op*>& known = t.definitions[op.name];
  if (known.empty()) known.push_back(old);
  known.push_back(&op);
  for (auto& [alias, aliased] : t.aliases)
    if (aliased == old) aliased = &op;
  return op;
}

/// What a statement of `module` adds to: of an operator that was replaced its own definition, or
/// the first, which it was written for.
Op& OpenFor(const std::string& name, const std::string& module) {
  const auto it = Table().definitions.find(name);
  if (it == Table().definitions.end()) return OpenOp(name);
  const std::vector<Op*>& known = it->second;
  for (size_t i = known.size(); i-- > 0;)
    if (!known[i]->owners.empty() && known[i]->owners[0].module == module) return *known[i];
  return *known.front();
}

void AddAlias(Op* op, const std::string& alias) {
  const Op* other = Lookup(alias);
  WEFT_CHECK(!other || other == op, kDuplicate,
             "alias '{}' of operator '{}' is taken by operator '{}' of {}", alias, op->name,
             other->name, other->owners.empty() ? "?" : other->owners[0].ToString());
  op->aliases.push_back(alias);
  if (other) return;
  OnRollback([alias] { Table().aliases.erase(alias); });
  Table().aliases[alias] = op;
}

void Include(Op* op, const std::string& group) {
  OnRollback([group, size = Table().included[group].size()] {
    auto& ops = Table().included[group];
    ops.resize(size);
    if (ops.empty()) Table().included.erase(group);
  });
  Table().included[group].push_back(op);
  if (auto it = Table().groups.find(group); it != Table().groups.end())
    for (const AttrSetting& s : it->second) SetAttr(*op, s, true);
}

void ListInput(Op& op, const ArgDoc& input) {
  op.inputs.push_back(input);
  const auto required = [](const ArgDoc& a) { return !a.optional && !a.variadic; };
  const bool any =
      std::any_of(op.inputs.begin(), op.inputs.end(), [](const ArgDoc& a) { return a.variadic; });
  op.min_inputs = int(std::count_if(op.inputs.begin(), op.inputs.end(), required));
  op.max_inputs = any ? kVarg : int(op.inputs.size());
  op.num_inputs = op.min_inputs == op.max_inputs ? op.min_inputs : kVarg;
}
void ListOutput(Op& op, const ArgDoc& output) {
  op.outputs.push_back(output);
  op.num_outputs = int(op.outputs.size());
}

}  // namespace

/// In a transaction: whatever throws here is taken back by it.
void OpBuilder::Impl::CommitNow() {
  const std::string module = RegisteringModule({});
  if (!module.empty()) owner.module = module;
  for (AttrSetting& s : attrs) s.owner.module = owner.module;
  for (const AttrSetting& s : attrs) Column(s.name, s.type);  // type conflicts first
  if (group) return CommitGroup(name, attrs);
  Op* const old = Lookup(name);
  // A plugin may say more about an op of others, not something else about what it is.
  const bool foreign =
      declares && !module.empty() && old && !old->owners.empty() && old->owners[0].module != module;
  if (old && known != Known::kReplace && (foreign || known == Known::kRefuse))
    ThrowError(ErrorCode::kDuplicate,
               fmt::format("operator '{}' is registered twice: by {} and by {}", name,
                           old->owners.empty() ? "?" : old->owners[0].ToString(), owner.ToString()),
               "",
               "attributes alone (set_attr) may be added to an operator of others; a definition "
               "that means to replace another declares override_op()");
  const bool replaces = old && known == Known::kReplace;
  WEFT_CHECK(!replaces || old->name == name, kDuplicate,
             "'{}' is an alias of operator '{}' of {}, which is not replaced by that name", name,
             old->name, old->owners.empty() ? "?" : old->owners[0].ToString());
  const bool fresh = !old || replaces;
  Op& op = replaces ? ReplaceOp(old) : OpenFor(name, owner.module);
  SaveState(&op);
  op.owners.push_back(owner);
  for (const auto& edit : edits) edit(op);
  for (const auto& count : counts) count(op);
  for (const std::string& alias : aliases) AddAlias(&op, alias);
  for (const std::string& g : includes) Include(&op, g);
  for (const AttrSetting& s : attrs) SetAttr(op, s, false);
  NoteRegistration(fresh ? "op" : "op attributes", op.name);
}

OpBuilder::OpBuilder(std::string name, Owner owner, bool group) : impl_(new Impl) {
  impl_->name = std::move(name);
  impl_->owner = std::move(owner);
  impl_->group = group;
}
OpBuilder::~OpBuilder() = default;
OpBuilder::OpBuilder(OpBuilder&&) noexcept = default;

#define WEFT_OP_KEEP(List, ...)                        \
  impl_->declares = true;                              \
  impl_->List.push_back([=](Op& op) { __VA_ARGS__; }); \
  return *this
#define WEFT_OP_EDIT(...) WEFT_OP_KEEP(edits, __VA_ARGS__)
#define WEFT_OP_COUNT(...) WEFT_OP_KEEP(counts, __VA_ARGS__)

OpBuilder& OpBuilder::describe(std::string doc) { WEFT_OP_EDIT(op.description = doc); }
OpBuilder& OpBuilder::input(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(ListInput(op, {n, t, d}));
}
OpBuilder& OpBuilder::add_argument(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(op.inputs.push_back({n, t, d}));
}
OpBuilder& OpBuilder::optional_input(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(ListInput(op, {n, t, d, true}));
}
OpBuilder& OpBuilder::variadic_input(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(ListInput(op, {n, t, d, false, true}));
}
OpBuilder& OpBuilder::output(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(ListOutput(op, {n, t, d}));
}
OpBuilder& OpBuilder::optional_output(std::string n, std::string t, std::string d) {
  WEFT_OP_EDIT(ListOutput(op, {n, t, d, true}));
}
OpBuilder& OpBuilder::example(std::vector<std::string> in, std::string a) {
  WEFT_OP_EDIT(op.examples.push_back({in, a}));
}
OpBuilder& OpBuilder::set_num_inputs(int n) {
  WEFT_OP_COUNT(op.num_inputs = n; op.min_inputs = n < 0 ? 0 : n; op.max_inputs = n);
}
OpBuilder& OpBuilder::set_num_inputs(int min, int max) {
  WEFT_OP_COUNT(op.num_inputs = min == max ? min : -1; op.min_inputs = min; op.max_inputs = max);
}
OpBuilder& OpBuilder::set_num_inputs(std::function<uint32_t(const NodeAttrs&)> f) {
  WEFT_OP_COUNT(op.num_inputs = -1; op.get_num_inputs = f);
}
OpBuilder& OpBuilder::set_num_outputs(int n) { WEFT_OP_COUNT(op.num_outputs = n); }
OpBuilder& OpBuilder::set_num_outputs(std::function<uint32_t(const NodeAttrs&)> f) {
  WEFT_OP_COUNT(op.num_outputs = -1; op.get_num_outputs = f);
}
OpBuilder& OpBuilder::set_attr_parser(std::function<void(NodeAttrs*)> f) {
  WEFT_OP_EDIT(op.attr_parser = f);
}
OpBuilder& OpBuilder::set_support_level(int level) { WEFT_OP_EDIT(op.support_level = level); }
OpBuilder& OpBuilder::set_schema(const ParamSchema* schema) {
  WEFT_OP_EDIT(op.param_schema = schema);
}
#undef WEFT_OP_COUNT
#undef WEFT_OP_EDIT
#undef WEFT_OP_KEEP
OpBuilder& OpBuilder::add_alias(std::string alias) {
  impl_->aliases.push_back(std::move(alias));
  return *this;
}
OpBuilder& OpBuilder::include(std::string group) {
  impl_->includes.push_back(std::move(group));
  return *this;
}
OpBuilder& OpBuilder::define() {
  impl_->known = Impl::Known::kRefuse;
  return *this;
}
OpBuilder& OpBuilder::override_op() {
  impl_->known = Impl::Known::kReplace;
  return *this;
}
OpBuilder& OpBuilder::set_any(std::string attr, std::type_index type, std::any value, int plevel) {
  impl_->attrs.push_back({std::move(attr), type, std::move(value), plevel, impl_->owner});
  return *this;
}

void OpBuilder::Commit() {
  RegistryTransaction([this] { impl_->CommitNow(); });
}

Registered::Registered(OpBuilder& builder) {
  // The builder is moved into shared hands: a staged commit runs later.
  auto kept = std::make_shared<OpBuilder>(std::move(builder));
  CommitRegistration([kept] { kept->Commit(); });
}

}  // namespace weft
