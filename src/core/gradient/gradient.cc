/// gradient.cc: the attributes of gradient.h: their text, and how they follow the
/// entries that they name.
#include "weft/core/gradient/gradient.h"

#include <algorithm>

#include "core/graph/attr_value.h"
#include "core/graph/entry_attrs.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

std::string RefText(const EntryRef& r) {
  if (!r) return "_";
  return r.index == 0 ? fmt::format("{}", r.node) : fmt::format("{}:{}", r.node, r.index);
}
uint32_t ParseNumber(std::string_view text, std::string_view all) {
  uint64_t v = 0;
  bool ok = !text.empty() && text.size() <= 10;
  for (char c : text) {
    ok = ok && c >= '0' && c <= '9';
    if (ok) v = v * 10 + uint64_t(c - '0');
  }
  WEFT_CHECK(ok && v < EntryRef::kAbsent, kSyntax,
             "expected an entry as NODE or NODE:INDEX or _, got '{}'", all);
  return uint32_t(v);
}
EntryRef ParseRef(std::string_view text) {
  text = Trim(text);
  if (text == "_") return {};
  const size_t colon = text.find(':');
  if (colon == text.npos) return {ParseNumber(text, text), 0};
  return {ParseNumber(text.substr(0, colon), text), ParseNumber(text.substr(colon + 1), text)};
}
/// GradientMap::kNone where there is none.
uint32_t SlotOf(const EntryMap<uint32_t>& slots, const EntryRef& e) {
  const uint32_t* slot = slots.find(e.node, e.index);
  return slot ? *slot : ~uint32_t{0};
}
EntryRef Remapped(const EntryRef& r, const std::vector<NodeId>& map) {
  return r && r.node < map.size() && map[r.node] != ~0u ? EntryRef(map[r.node], r.index)
                                                        : EntryRef();
}

}  // namespace

// ---- lists ----

EntryList::EntryList(const std::vector<NodeEntry>& entries) {
  for (const NodeEntry& e : entries) push_back(e);
}
std::vector<NodeEntry> EntryList::in(const Graph& g) const {
  std::vector<NodeEntry> out;
  for (const EntryRef& r : *this) out.push_back(r.in(g));
  return out;
}
std::string EntryList::ToString() const {
  std::string out;
  for (const EntryRef& r : *this) out += (out.empty() ? "" : ", ") + RefText(r);
  return out;
}
EntryList EntryList::Parse(std::string_view text) {
  EntryList out;
  if (Trim(text).empty()) return out;
  for (const std::string& item : Split(std::string(text), ',')) out.push_back(ParseRef(item));
  return out;
}

// ---- maps ----

NodeEntry GradientMap::find(const Graph& g, const NodeEntry& forward) const {
  const uint32_t slot = SlotOf(slot_of_forward_, forward);
  return slot != kNone ? slots_[slot].in(g) : NodeEntry();
}
void GradientMap::set(EntryRef forward, EntryRef backward) {
  WEFT_CHECK(forward && backward, kApiMisuse, "a gradient maps an entry to an entry");
  uint32_t slot = SlotOf(slot_of_backward_, backward);
  if (slot == kNone) {
    slot = uint32_t(slots_.size());
    slots_.push_back(backward);
    next_.push_back(kNone);
    slot_of_backward_.set(backward.node, backward.index, slot);
  }
  slot_of_forward_.set(forward.node, forward.index, slot);
}
std::vector<std::pair<EntryRef, EntryRef>> GradientMap::pairs() const {
  std::vector<std::pair<EntryRef, EntryRef>> out;
  for (NodeId id = 0; id < slot_of_forward_.id_bound(); ++id)
    for (uint32_t i = 0; i < slot_of_forward_.num_outputs(id); ++i)
      if (const uint32_t slot = SlotOf(slot_of_forward_, {id, i}); slot != kNone)
        out.emplace_back(EntryRef(id, i), slots_[slot]);
  return out;
}
void GradientMap::Replace(EntryRef from, EntryRef to) {
  if (const uint32_t first = SlotOf(slot_of_backward_, from); first != kNone) {
    slot_of_backward_.set(from.node, from.index, kNone);
    uint32_t last = first;
    for (uint32_t s = first; s != kNone; s = next_[s]) slots_[last = s] = to;
    next_[last] = SlotOf(slot_of_backward_, to);
    slot_of_backward_.set(to.node, to.index, first);
  }
  if (const uint32_t slot = SlotOf(slot_of_forward_, from); slot != kNone) {
    slot_of_forward_.set(from.node, from.index, kNone);
    // What `to` stands for already keeps its own gradient.
    if (SlotOf(slot_of_forward_, to) == kNone) slot_of_forward_.set(to.node, to.index, slot);
  }
}
void GradientMap::Remap(const std::vector<NodeId>& map) {
  GradientMap fresh;
  fresh.forward_outputs = forward_outputs;
  for (const auto& [f, b] : pairs()) {
    const EntryRef to = Remapped(f, map), of = Remapped(b, map);
    if (to && of) fresh.set(to, of);
  }
  *this = std::move(fresh);
}
std::string GradientMap::ToString() const {
  std::string out = fmt::format("{} outputs", forward_outputs);
  for (const auto& [f, b] : pairs()) out += ", " + RefText(f) + " -> " + RefText(b);
  return out;
}
GradientMap GradientMap::Parse(std::string_view text) {
  GradientMap m;
  bool first = true;
  for (const std::string& item : Split(std::string(text), ',')) {
    if (first) {
      const std::string_view count = Trim(item);
      const size_t space = count.find(' ');
      WEFT_CHECK(space != count.npos && Trim(count.substr(space)) == "outputs", kSyntax,
                 "expected 'N outputs, FORWARD -> BACKWARD, ..', got '{}'", text);
      m.forward_outputs = ParseNumber(count.substr(0, space), count);
      first = false;
      continue;
    }
    const size_t arrow = item.find("->");
    WEFT_CHECK(arrow != item.npos, kSyntax, "expected FORWARD -> BACKWARD, got '{}'", item);
    const EntryRef f = ParseRef(std::string_view(item).substr(0, arrow)),
                   b = ParseRef(std::string_view(item).substr(arrow + 2));
    WEFT_CHECK(f && b, kSyntax, "expected FORWARD -> BACKWARD, got '{}'", item);
    m.set(f, b);
  }
  return m;
}

// ---- through edits ----

void FollowReplacement(GraphAttrMap& attrs, const NodeEntry& from, const NodeEntry& to) {
  for (auto& [name, value] : attrs) {
    if (!value) continue;
    if (const auto* list = std::any_cast<EntryList>(value.get())) {
      if (std::find(list->begin(), list->end(), EntryRef(from)) == list->end()) continue;
      EntryList& own = *std::any_cast<EntryList>(&OwnValue(value));
      std::replace(own.begin(), own.end(), EntryRef(from), EntryRef(to));
    } else if (std::any_cast<GradientMap>(value.get())) {
      std::any_cast<GradientMap>(&OwnValue(value))->Replace(from, to);
    }
  }
}

void ForEachAskedNode(const GraphAttrMap& attrs, const std::function<void(NodeId)>& f) {
  for (const auto& [name, value] : attrs)
    if (const auto* list = value ? std::any_cast<EntryList>(value.get()) : nullptr)
      for (const EntryRef& r : *list)
        if (r) f(r.node);
}

void CheckGradientRequest(const Graph& g, const std::vector<NodeEntry>& ys,
                          const std::vector<NodeEntry>& xs,
                          const std::vector<NodeEntry>& out_grads) {
  const auto check = [&](const std::vector<NodeEntry>& entries, const char* what, bool optional) {
    for (const NodeEntry& e : entries) {
      WEFT_CHECK(e.node || optional, kApiMisuse, "an entry among {} is null", what);
      WEFT_CHECK(!e.node || (g.owns(e.node) && e.index < e.node->num_outputs()), kApiMisuse,
                 "an entry among {} is of another graph or beyond the outputs of its node", what);
    }
  };
  check(ys, "ys", false);
  check(xs, "xs", false);
  check(out_grads, "out_grads", true);
  WEFT_CHECK(out_grads.empty() || out_grads.size() == ys.size(), kApiMisuse,
             "{} output gradients for {} ys", out_grads.size(), ys.size());
}

void SetGradient(Graph& g, const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& xs,
                 const std::vector<NodeEntry>& out_grads) {
  CheckGradientRequest(g, ys, xs, out_grads);
  g.SetAttr("grad_ys", EntryList(ys));
  g.SetAttr("grad_xs", EntryList(xs));
  g.DropAttr("grad_out");
  if (!out_grads.empty()) g.SetAttr("grad_out", EntryList(out_grads));
}

namespace {
/// Of the gradient that this thread is making.
thread_local GradientScope::Known t_known;
}  // namespace

GradientScope::GradientScope(const Graph& g, const TypeMap* types, const ShapeMap* shapes,
                             Graph* made_in)
    : outer_(t_known) {
  t_known = {g.store(), types, shapes, made_in};
}
GradientScope::~GradientScope() { t_known = outer_; }
Graph* GradientGraph() { return t_known.graph; }

bool KnownSameShape(const NodeEntry& a, const NodeEntry& b) {
  const auto& [store, types, shapes, graph] = t_known;
  if (!shapes || !a || !b || a.node->store() != store || b.node->store() != store) return false;
  const Shape *x = shapes->find(a), *y = shapes->find(b);
  return x && y && x->fully_known() && x->same(*y);
}
Type KnownType(const NodeEntry& e) {
  const auto& [store, types, shapes, graph] = t_known;
  if (!e) return {};
  if (types && e.node->store() == store)
    if (const Type* t = types->find(e)) return *t;
  if (const TensorPtr value = Graph::ConstantOf(e)) return value->dtype();
  return e.node->is_variable() ? DeclaredType(e.node) : Type();
}
Shape KnownShape(const NodeEntry& e) {
  const auto& [store, types, shapes, graph] = t_known;
  if (!e) return {};
  if (shapes && e.node->store() == store)
    if (const Shape* s = shapes->find(e)) return *s;
  if (const TensorPtr value = Graph::ConstantOf(e)) return value->shape();
  return e.node->is_variable() ? DeclaredShape(e.node).value_or(Shape()) : Shape();
}

namespace {
void RemapList(EntryList& list, const std::vector<NodeId>& map) {
  for (EntryRef& r : list) r = Remapped(r, map);
}
std::string ListText(const EntryList& list) { return list.ToString(); }
EntryList ParseList(const std::string& text) { return EntryList::Parse(text); }
}  // namespace

WEFT_REGISTER_GRAPH_ATTR(grad_ys, kGiven, EntryList)
    .describe("what the next run of the pass Gradient differentiates")
    .remap(RemapList)
    .text(ListText, ParseList);
WEFT_REGISTER_GRAPH_ATTR(grad_xs, kGiven, EntryList)
    .describe("with respect to what the next run of the pass Gradient differentiates")
    .remap(RemapList)
    .text(ListText, ParseList);
WEFT_REGISTER_GRAPH_ATTR(grad_out, kGiven, EntryList)
    .describe("gradients of grad_ys, one each; absent ones are ones")
    .remap(RemapList)
    .text(ListText, ParseList);
WEFT_REGISTER_GRAPH_ATTR(gradient_of, kGiven, GradientMap)
    .describe("the gradient of every entry that has one")
    .hidden()
    .remap([](GradientMap& m, const std::vector<NodeId>& map) { m.Remap(map); })
    .text([](const GradientMap& m) { return m.ToString(); },
          [](const std::string& s) { return GradientMap::Parse(s); });

}  // namespace weft
