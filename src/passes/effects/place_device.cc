/// place_device.cc: PlaceDevice. Gives every node a device and inserts copies where an
/// edge crosses between two.
///   needs      -
///   provides   device
///   preserves  rows of what no copy feeds; inference gives the others theirs
///   never      copies a tensor twice to one device, or the target of a write
///   cost       linear
///   source     NNVM PlaceDevice: device_group_attr_key, device_assign_map, device_copy_op are the
///              options key, groups, copy_op
///
///   %a = Neg(%x) #device_hint = "gpu"   %b = Abs(%a)   %c = Exp(%b) #device_hint = "cpu"
///     ->  %a, %b on gpu   %0 = weft::CopyTo(%b) {device = "cpu"}   %c = Exp(%0) on cpu
///
/// A node with a hint goes where the hint says. An operator without one follows the variable that
/// it writes, else the first of its inputs that has a place; then, backwards, what still has none
/// goes where its readers are; the rest goes to the default device. Hints are rows of
/// `device_hint`, or the node attribute `key` (a variable's, or in dictionaries of 2016). They name
/// devices, or groups that the option `groups` maps to devices.
///
/// A variable that some operator writes goes where its first writer is and stays whole: all writers
/// must be there, and each reader elsewhere has its own copy, made when that reader might have read
/// (after the writes that it waits for). So OrderMutation comes first.
#include <algorithm>
#include <map>
#include <tuple>

#include "weft/core/graph/device.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// "a=cpu;b=cuda:0" as a map.
std::map<std::string, std::string> ParseGroups(const std::string& text) {
  std::map<std::string, std::string> groups;
  for (const std::string& item : Split(text, ';')) {
    if (Trim(item).empty()) continue;
    const size_t eq = item.find('=');
    WEFT_CHECK(eq != std::string::npos, kUnknownOption, "groups: expected NAME=DEVICE, got '{}'",
               item);
    const std::string name(Trim(std::string_view(item).substr(0, eq)));
    const std::string device(Trim(std::string_view(item).substr(eq + 1)));
    WEFT_CHECK(!name.empty() && !device.empty(), kUnknownOption,
               "groups: expected NAME=DEVICE, got '{}'", item);
    WEFT_CHECK(groups.emplace(name, device).second, kUnknownOption, "groups: '{}' is given twice",
               name);
  }
  return groups;
}

class Placer {
 public:
  Placer(Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        hints_(g.AttrOr<DeviceMap>("device_hint")),
        key_(ctx.option<std::string>("key")),
        groups_(ParseGroups(ctx.option<std::string>("groups"))),
        copy_op_(ctx.option<std::string>("copy_op")) {}

  void Run() {
    const std::vector<NodePtr> order = g_.TopoOrder();
    is_state_.assign(g_.id_bound(), 0);
    for (NodePtr n : order)
      for (int i : WrittenSlots(n))
        if (const NodePtr v = n->inputs.at(size_t(i)).node) is_state_[v->id()] = 1;
    Place(order);
    for (NodePtr v : g_.inputs())
      if (!device_.find(v)) device_.set(v, ctx_.option<std::string>("default"));
    for (NodePtr n : order) {
      const std::vector<int> written = WrittenSlots(n);
      for (size_t i = 0; i < n->num_inputs(); ++i) {
        const NodeEntry e = n->inputs[i];
        if (!e.node || On(e.node) == On(n)) continue;
        WEFT_CHECK(std::find(written.begin(), written.end(), int(i)) == written.end(), kUnsupported,
                   "{} on '{}' writes {} on '{}'; a write needs its variable on its own device",
                   n->Describe(), On(n), e.node->Describe(), On(e.node));
        g_.SetInput(n, i, CopyFor(n, e));
      }
    }
    g_.SetAttr("device", std::move(device_));
  }

 private:
  /// Where the user wants the node; empty where nothing is said.
  std::string Hint(NodePtr n) const {
    std::string hint;
    if (const std::string* row = hints_.find(n)) {
      hint = *row;
    } else if (const AttrValue* v = key_.empty() ? nullptr : n->attrs.dict.find(key_)) {
      WEFT_CHECK(v->is<std::string>(), kBadAttribute, "{}: '{}' names a group, it is a {}",
                 n->Describe(), key_, v->type_name());
      hint = v->get<std::string>();
    }
    if (hint.empty() || groups_.empty()) return hint;
    const auto it = groups_.find(hint);
    if (it == groups_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, device] : groups_) names.push_back(name);
      ThrowError(ErrorCode::kUnknownOption,
                 fmt::format("{} is in the group '{}', which has no device", n->Describe(), hint),
                 "", "the option `groups` knows: " + Join(names, ", "));
    }
    return it->second;
  }

  void Place(const std::vector<NodePtr>& order) {
    for (NodePtr n : order) {
      if (std::string hint = Hint(n); !hint.empty()) {
        device_.set(n, std::move(hint));
        ctx_.Count("hinted");
      }
    }
    const DeviceMap hinted = device_;
    GatherWrites(order, hinted);
    for (NodePtr n : order)
      for (const NodeEntry& e : n->inputs)
        if (e.node && !device_.find(n)) Follow(n, e.node);
    GatherWrites(order, hinted);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const std::string* p = device_.find(*it);
      if (!p) continue;
      const std::string device = *p;
      for (const NodeEntry& e : (*it)->inputs)
        if (e.node && !device_.find(e.node)) device_.set(e.node, device);
    }
    for (NodePtr n : order)
      if (!device_.find(n)) device_.set(n, ctx_.option<std::string>("default"));
  }
  void Follow(NodePtr n, NodePtr other) {
    if (const std::string* p = device_.find(other)) device_.set(n, std::string(*p));
  }
  /// A variable lies where it is written, and what writes it and has no hint goes there;
  /// readers come for it.
  void GatherWrites(const std::vector<NodePtr>& order, const DeviceMap& hinted) {
    std::vector<std::pair<NodePtr, NodePtr>> writes;  // (node, variable)
    for (NodePtr n : order)
      for (int i : WrittenSlots(n))
        if (const NodePtr v = n->inputs.at(size_t(i)).node) writes.emplace_back(n, v);
    for (const auto& [n, v] : writes)
      if (!device_.find(v)) Follow(v, n);
    for (const auto& [n, v] : writes)
      if (!hinted.find(n)) Follow(n, v);
  }
  const std::string& On(NodePtr n) const { return *device_.find(n); }

  std::vector<int> WrittenSlots(NodePtr n) const {
    const FMutateInputs* f = n->is_variable() ? nullptr : mutates_.find(n->op());
    return f ? (*f)(n) : std::vector<int>();
  }
  /// `e` on the device of its reader `n`.
  NodeEntry CopyFor(NodePtr n, const NodeEntry& e) {
    const bool state = is_state_[e.node->id()] != 0;
    const auto key = std::make_tuple(e.node->id(), e.index, On(n), state ? n->id() : ~NodeId{0});
    const auto [it, fresh] = copies_.try_emplace(key);
    if (!fresh) return it->second;
    const std::string name = e.node->attrs.name;
    const std::string device = On(n);
    const NodePtr copy =
        g_.AddNode(copy_op_, {e}, {{"device", device}}, name.empty() ? "" : name + "_on_" + device);
    if (state)
      for (Node* before : n->control_deps) copy->control_deps.push_back(before);
    device_.set(copy, device);
    g_.MergeOrigin(copy, e.node);
    ctx_.Count("copies");
    return it->second = NodeEntry(copy);
  }

  const OpMap<FMutateInputs>& mutates_ = Op::GetAttr<FMutateInputs>("FMutateInputs");
  Graph& g_;
  PassContext& ctx_;
  const DeviceMap hints_;
  const std::string key_;
  const std::map<std::string, std::string> groups_;
  const std::string copy_op_;
  DeviceMap device_;
  std::vector<uint8_t> is_state_;  // by id: some operator writes it
  std::map<std::tuple<NodeId, uint32_t, std::string, NodeId>, NodeEntry> copies_;
};

Graph PlaceDevice(Graph g, PassContext& ctx) {
  Placer(g, ctx).Run();
  return g;
}

std::string SameText(const std::string& s) { return s; }

WEFT_REGISTER_GRAPH_ATTR(device_hint, kGiven, DeviceMap)
    .describe("the device, or the name of a group, that the user wants a node on")
    .text(SameText, SameText);
WEFT_REGISTER_GRAPH_ATTR(device, kDerived, DeviceMap)
    .describe("the device of every node")
    .text(SameText, SameText);

WEFT_REGISTER_PASS(PlaceDevice)
    .describe("gives every node a device and inserts copies where an edge crosses between two")
    .set_body(PlaceDevice)
    .set_change_graph(true)
    .provide_graph_attr("device")
    .option("key", std::string("ctx_group"), "node attribute that names a group; empty: none")
    .option("groups", std::string(),
            "devices of groups, as in a=cpu;b=cuda:0; empty: names are devices")
    .option("default", std::string("cpu"), "device of what no hint reaches")
    .option("copy_op", std::string("weft::CopyTo"),
            "operator of copies; has the attribute `device`")
    .statistic("hinted", "nodes with a hint")
    .statistic("copies", "copies inserted");

}  // namespace
}  // namespace weft
