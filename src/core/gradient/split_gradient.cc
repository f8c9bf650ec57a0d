/// split_gradient.cc: SplitGradient. Cuts a graph with gradients into a forward
/// and a backward graph.
///
/// What a forward output needs is the forward part, effects included unless they need a gradient.
/// The rest of what the gradients need is the backward part. An edge from one to the other is a
/// retained value: an output of the one, an input of the other. Of a forward value that is constant
/// (a parameter, a Constant) both have their own.
///
/// The forward part runs first, whole. What the backward part reads of a variable before the
/// forward part writes it is therefore a retained value too: a weft::Read in front of the write, in
/// the forward part. The order of reads and writes is that of the program (ProgramOrder). A write
/// of the backward part that the forward part would have to see is an error.
///
///   %b = Mul(%gy, %v)   %w = weft::Assign(%v, %x)
///     ->  forward   %r = weft::Read(%v)   %w = weft::Assign(%v, %x) after(%r)   outputs .., %r
///         backward  %b = Mul(%gy, %r)
///
/// An extent vector (Shape) that only the backward part reads is computed there from what it reads
/// anyway; the forward part is never asked for values that the backward part can see for itself.
#include <algorithm>
#include <map>
#include <set>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/metadata.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {
namespace {

enum Part : uint8_t { kNeither, kForward, kBackward };

/// Both parts have their own copy of such a node.
bool IsFree(NodePtr n) { return n->is_variable() || Graph::ConstantOf(NodeEntry(n)) != nullptr; }

class Splitter {
 public:
  Splitter(const Graph& g, size_t forward_outputs)
      : whole_(g), g_(g), forward_outputs_(forward_outputs), part_(g.id_bound(), kNeither) {
    MarkState(g_);  // a part alone may not write what it reads
  }

  GradientSplit Run() {
    Assign();
    HoldContents();
    CheckOrder();
    FindRetained();
    GradientSplit split;
    std::vector<NodeEntry> outputs;
    for (size_t i = 0; i < g_.outputs.size(); ++i)
      if (i < forward_outputs_) outputs.push_back(g_.outputs[i]);
    std::set<std::string> taken;
    std::vector<std::string> names;
    for (size_t i = 0; i < forward_outputs_; ++i) {
      names.push_back(g_.OutputName(i));
      taken.insert(names.back());
    }
    std::vector<std::string> input_names;
    for (const NodeEntry& e : retained_) {
      const auto it = std::find(outputs.begin(), outputs.begin() + ptrdiff_t(forward_outputs_), e);
      if (it != outputs.begin() + ptrdiff_t(forward_outputs_)) {
        split.retained.push_back(size_t(it - outputs.begin()));
        input_names.push_back("");
        continue;
      }
      split.retained.push_back(outputs.size());
      names.push_back(NameOf(e, &taken));
      outputs.push_back(e);
      input_names.push_back(names.back());
    }
    split.forward = Build(kForward, outputs, {});
    for (size_t i = 0; i < names.size(); ++i) split.forward.SetOutputName(i, names[i]);
    std::set<std::string> inputs;
    for (NodePtr p : g_.AllInputs()) inputs.insert(p->attrs.name);
    for (size_t i = 0; i < retained_.size(); ++i) {
      // An output of the model that is retained comes back under its own name where that is free.
      std::string& name = input_names[i];
      if (name.empty()) name = g_.OutputName(split.retained[i]);
      const std::string base = name;
      for (int k = 2; !inputs.insert(name).second; ++k) name = fmt::format("{}_{}", base, k);
    }
    const std::vector<NodeEntry> all = g_.outputs;
    split.backward =
        Build(kBackward, {all.begin() + ptrdiff_t(forward_outputs_), all.end()}, input_names);
    for (size_t i = forward_outputs_; i < all.size(); ++i)
      split.backward.SetOutputName(i - forward_outputs_, g_.OutputName(i));
    return split;
  }

 private:
  /// Gives every node its part.
  void Assign() {
    const std::vector<NodeEntry> outputs = g_.outputs;
    const auto cut = outputs.begin() + ptrdiff_t(forward_outputs_);
    DFSVisit({outputs.begin(), cut}, [&](const NodePtr& n) { part_[n->id()] = kForward; });
    DFSVisit({cut, outputs.end()}, [&](const NodePtr& n) {
      if (part_[n->id()] == kNeither) part_[n->id()] = kBackward;
    });
    // What neither reaches is there for its effect: it goes with what it waits for, its own
    // operands forward if they can.
    order_ = ProgramOrder(g_);
    for (NodePtr n : order_) {
      if (part_[n->id()] != kNeither) continue;
      bool late = false;
      for (const NodeEntry& e : n->inputs) late = late || (e && part_[e.node->id()] == kBackward);
      for (Node* d : n->control_deps) late = late || part_[d->id()] == kBackward;
      part_[n->id()] = late ? kBackward : kForward;
    }
  }

  /// Accesses of one variable in the order of the program.
  struct Access {
    NodePtr node;
    size_t slot;
    bool writes;
  };
  /// What the backward part reads of a variable before the forward part writes it is read
  /// in the forward part.
  void HoldContents() {
    std::map<NodeId, std::vector<Access>> accesses;
    std::vector<NodeId> written;
    for (NodePtr n : order_) {
      std::vector<bool> writes(n->num_inputs(), false);
      for (auto [i, k] : WrittenInputs(n)) writes[size_t(i)] = true;
      for (size_t i = 0; i < n->num_inputs(); ++i) {
        const NodePtr v = n->inputs[i].node;
        if (!v || !v->is_variable() || !IsState(v)) continue;
        accesses[v->id()].push_back({n, i, writes[i]});
        if (writes[i]) written.push_back(v->id());
      }
    }
    std::sort(written.begin(), written.end());
    written.erase(std::unique(written.begin(), written.end()), written.end());
    for (NodeId v : written) HoldContentsOf(g_.node(v), accesses.at(v));
    if (read_) order_ = ProgramOrder(g_);
  }
  void HoldContentsOf(NodePtr v, const std::vector<Access>& accesses) {
    size_t forward_writes = 0;  // that are still to come
    for (const Access& a : accesses) forward_writes += a.writes && part_[a.node->id()] == kForward;
    NodePtr last_write, late_write;
    std::vector<Access> held;  // readers in the backward part since the last write
    for (const Access& a : accesses) {
      const bool forward = part_[a.node->id()] == kForward;
      WEFT_CHECK(!forward || !late_write, kUnsupported,
                 "{} belongs to the forward part and has to run after {}, which writes {} and does "
                 "not",
                 a.node->Describe(), late_write->Describe(), v->Describe());
      if (!a.writes) {
        if (!forward && forward_writes > 0) held.push_back(a);
        continue;
      }
      if (forward) {
        --forward_writes;
        Hold(v, held, last_write, a.node);
        held.clear();
        last_write = a.node;
      } else {
        late_write = a.node;
      }
    }
    for (size_t i = 0; late_write && i < forward_outputs_; ++i)
      WEFT_CHECK(g_.outputs[i].node != v, kUnsupported,
                 "output '{}' of the forward part is {}, which {} of the backward part writes",
                 g_.OutputName(i), v->Describe(), late_write->Describe());
  }
  /// `readers` read a variable between two writes.
  void Hold(NodePtr v, const std::vector<Access>& readers, NodePtr last_write, NodePtr next_write) {
    NodePtr read;
    for (const Access& a : readers) {
      if (IsOp(a.node, builtin::kRead)) {
        part_[a.node->id()] = kForward;
        continue;
      }
      if (!read) {
        read = g_.AddNode(builtin::kRead, {NodeEntry(v)});
        if (last_write) read->control_deps.push_back(last_write);
        next_write->control_deps.push_back(read);
        part_.resize(g_.id_bound(), kNeither);
        part_[read->id()] = kForward;
        read_ = true;
      }
      g_.SetInput(a.node, a.slot, NodeEntry(read));
      // Where the reader stood in front of the write, the Read does now.
      next_write->control_deps.remove(a.node);
    }
  }

  void CheckOrder() const {
    for (NodePtr n : order_) {
      if (part_[n->id()] != kForward) continue;
      for (Node* d : n->control_deps)
        WEFT_CHECK(part_[d->id()] == kForward || IsFree(d), kUnsupported,
                   "{} belongs to the forward part and has to run after {}, which does not",
                   n->Describe(), d->Describe());
    }
  }

  void FindRetained() {
    std::set<EntryRef> found;
    for (NodePtr n : order_)
      if (part_[n->id()] == kBackward)
        for (const NodeEntry& e : n->inputs)
          if (e && part_[e.node->id()] == kForward && !IsFree(e.node)) found.insert(e);
    for (size_t i = forward_outputs_; i < g_.outputs.size(); ++i) {
      const NodeEntry& e = g_.outputs[i];
      if (part_[e.node->id()] == kForward && !IsFree(e.node)) found.insert(e);
    }
    for (const EntryRef& r : found) retained_.push_back(r.in(g_));
  }

  static std::string NameOf(const NodeEntry& e, std::set<std::string>* taken) {
    std::string base = "retained_" + (e.node->attrs.name.empty() ? fmt::format("{}", e.node->id())
                                                                 : e.node->attrs.name);
    if (e.index > 0) base += fmt::format("_{}", e.index);
    std::string name = base;
    for (int k = 2; !taken->insert(name).second; ++k) name = fmt::format("{}_{}", base, k);
    return name;
  }

  /// The nodes of one part in a graph of their own.
  Graph Build(Part part, const std::vector<NodeEntry>& outputs,
              const std::vector<std::string>& retained_names) const {
    Graph out;
    out.set_name(g_.name());
    std::vector<NodePtr> twin(g_.id_bound());
    std::map<EntryRef, NodeEntry> inputs;
    const std::vector<uint8_t> read = ReadBy(part, outputs);
    const auto add_variable = [&](NodePtr n) {
      if (TensorPtr value = Graph::ConstantOf(NodeEntry(n)); value && n->is_variable()) {
        twin[n->id()] = out.AddParam(n->attrs.name, value);
        twin[n->id()]->attrs.dict = n->attrs.dict;
        return;
      }
      const bool fed = n->is_variable() && !IsState(n);
      twin[n->id()] = fed ? out.AddInput(n->attrs.name) : out.AddCopy(n, {});
      twin[n->id()]->attrs.dict = n->attrs.dict;
    };
    // The forward part keeps the declared inputs that the backward part alone does not need.
    for (NodePtr p : g_.AllInputs())
      if (read[p->id()] || (part == kForward && !OnlyRead(p, kBackward))) add_variable(p);
    if (part == kBackward) {
      const GradientScope known(
          g_, whole_.HasAttr("dtype") ? &whole_.GetAttr<TypeMap>("dtype") : nullptr,
          whole_.HasAttr("shape") ? &whole_.GetAttr<ShapeMap>("shape") : nullptr);
      for (size_t i = 0; i < retained_.size(); ++i) {
        const NodeEntry& e = retained_[i];
        // An added Read has what its variable has.
        const NodeEntry& of = e.node->id() < whole_.id_bound() ? e : e.node->inputs[0];
        inputs[e] = NodeEntry(out.AddInput(retained_names[i], KnownType(of), KnownShape(of)));
      }
    }
    const auto at = [&](const NodeEntry& e) -> NodeEntry {
      if (!e) return {};
      if (const auto it = inputs.find(e); it != inputs.end()) return it->second;
      return {twin[e.node->id()], e.index};
    };
    for (NodePtr n : order_) {
      if (twin[n->id()]) continue;
      if (IsFree(n)) {
        if (read[n->id()]) add_variable(n);
        continue;
      }
      if (part_[n->id()] != part) continue;
      std::vector<NodeEntry> in;
      for (const NodeEntry& e : n->inputs) in.push_back(at(e));
      const NodePtr c = out.AddCopy(n, in);
      for (Node* d : n->control_deps)
        if (twin[d->id()]) c->control_deps.push_back(twin[d->id()]);
      twin[n->id()] = c;
    }
    std::vector<NodeEntry> heads;
    for (const NodeEntry& e : outputs) heads.push_back(at(e));
    out.outputs = heads;
    if (g_.HasAttr("metadata")) SetMetadata(&out, Metadata(g_));
    if (g_.HasAttr("facts")) out.attrs["facts"] = g_.attrs.at("facts");
    return out;
  }

  /// By id: nodes that a node of the part, or one of `outputs`, reads.
  std::vector<uint8_t> ReadBy(Part part, const std::vector<NodeEntry>& outputs) const {
    std::vector<uint8_t> read(g_.id_bound(), 0);
    for (NodePtr n : order_)
      if (part_[n->id()] == part && !IsFree(n))
        for (const NodeEntry& e : n->inputs)
          if (e) read[e.node->id()] = 1;
    for (const NodeEntry& e : outputs) read[e.node->id()] = 1;
    return read;
  }
  /// Something reads `p`, and nothing outside `part` does.
  bool OnlyRead(NodePtr p, Part part) const {
    bool read = false;
    for (const Use& u : p->uses()) {
      const Part by = Part(part_[u.user->id()]);
      if (by == kNeither) continue;
      if (by != part) return false;
      read = true;
    }
    return read;
  }

  const Graph& whole_;
  Graph g_;  // gets Reads where they are missing
  const size_t forward_outputs_;
  bool read_ = false;          // some Read was added
  std::vector<uint8_t> part_;  // by id
  std::vector<NodePtr> order_;
  std::vector<NodeEntry> retained_;  // by id
};

}  // namespace

GradientSplit SplitGradient(const Graph& g, int64_t forward_outputs) {
  if (forward_outputs < 0) {
    WEFT_CHECK(g.HasAttr("gradient_of"), kDependency,
               "SplitGradient needs a graph that the pass Gradient has made, or the number of its "
               "forward outputs");
    forward_outputs = g.GetAttr<GradientMap>("gradient_of").forward_outputs;
  }
  WEFT_CHECK(size_t(forward_outputs) <= g.outputs.size(), kApiMisuse,
             "{} forward outputs of a graph that has {}", forward_outputs, g.outputs.size());
  return Splitter(g, size_t(forward_outputs)).Run();
}

}  // namespace weft
