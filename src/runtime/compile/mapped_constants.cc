/// mapped_constants.cc: see mapped_constants.h.
#include "mapped_constants.h"

#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/support/check.h"
#include "weft/support/log.h"
#include "weft/support/mapped_file.h"

namespace weft {
namespace {

/// Bytes of a constant that is moved, and of all that are worth a file.
constexpr int64_t kLeastEach = 1 << 14, kLeast = 1 << 20;

class Mapper {
 public:
  void Run(Graph* graph) {
    Count(*graph);
    if (held_.empty() || !WriteFile()) return;
    Replace(graph);
  }

 private:
  struct Held {
    TensorPtr tensor;
    long holds = 0;    ///< of nodes in bodies
    TensorPtr mapped;  ///< the same in the file
  };

  /// How often a node holds one value: as an attribute, and in what was parsed of them.
  static long Holds(const NodePtr& n) { return n->attrs.param ? 2 : 1; }
  static std::vector<std::string> Inner(const NodePtr& n) {
    const bool has = IsOp(n, builtin::kRegion) || HasControlBodies(n);
    return has ? BodyNames(n) : std::vector<std::string>();
  }
  void Count(const Graph& g) {
    for (const NodePtr& n : g.TopoOrder()) {
      for (const std::string& name : Inner(n)) Count(*n->attr<GraphPtr>(name));
      if (!IsOp(n, builtin::kDelegated)) continue;
      const auto body = n->attr<GraphPtr>("body");
      if (body.use_count() > 1 + Holds(n) || !seen_.insert(body.get()).second) continue;
      for (const NodePtr& p : body->TopoOrder()) {
        const TensorPtr t = Graph::ConstantOf(NodeEntry(p));
        if (!t || t->dtype() == DType::kString || !t->is_tensor() || !t->on_host() ||
            t->num_bytes() < kLeastEach)
          continue;
        const auto [it, is_new] = index_.try_emplace(t.get(), held_.size());
        if (is_new) held_.push_back({t, 0, nullptr});
        held_[it->second].holds += Holds(p);
      }
    }
  }
  bool WriteFile() {
    std::vector<Held*> moved;
    std::vector<std::string_view> pieces;
    int64_t bytes = 0, others = 0;
    for (Held& h : held_) {
      // What somebody else holds as well would stay in memory, what is mapped is in a file.
      if (h.tensor.use_count() > 1 + h.holds ||
          !MappedName(h.tensor->data(), h.tensor->num_bytes()).empty()) {
        others += h.tensor->num_bytes();
        continue;
      }
      moved.push_back(&h);
      pieces.emplace_back(static_cast<const char*>(h.tensor->data()),
                          size_t(h.tensor->num_bytes()));
      bytes += h.tensor->num_bytes();
    }
    WEFT_LOG(kInfo, "constants of delegated parts: {} bytes go to a file, {} are held or mapped",
             bytes, others);
    if (bytes < kLeast) return false;
    try {
      std::vector<const char*> places;
      const std::shared_ptr<void> file = MapUnnamed(pieces, &places);
      for (size_t k = 0; k < moved.size(); ++k) {
        const Tensor& t = *moved[k]->tensor;
        auto mapped =
            std::make_shared<Tensor>(t.dtype(), t.dims(), const_cast<char*>(places[k]), file);
        mapped->set_read_only();
        moved[k]->mapped = std::move(mapped);
      }
    } catch (const Error& e) {
      WEFT_LOG(kInfo, "constants of delegated parts stay in memory: {}", e.message());
      return false;
    }
    return true;
  }
  bool Replace(Graph* g) {
    bool changed = false;
    for (const NodePtr& n : g->TopoOrder()) {
      for (const std::string& name : Inner(n)) {
        Graph body = *n->attr<GraphPtr>(name);
        if (!Replace(&body)) continue;
        ReplaceBody(*g, n, name, std::move(body));
        changed = true;
      }
      if (!IsOp(n, builtin::kDelegated)) continue;
      if (const GraphPtr body = MappedBody(n->attr<GraphPtr>("body"))) {
        ReplaceBody(*g, n, "body", *body);
        changed = true;
      }
    }
    return changed;
  }
  /// Null where nothing of it was moved.
  GraphPtr MappedBody(const GraphPtr& body) {
    Graph g = *body;
    // What is known of the entries still holds.
    ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
    TypeMap types = g.GetAttr<TypeMap>("dtype");
    bool changed = false;
    for (const NodePtr& p : g.TopoOrder()) {
      const TensorPtr t = Graph::ConstantOf(NodeEntry(p));
      const auto it = t ? index_.find(t.get()) : index_.end();
      if (it == index_.end() || !held_[it->second].mapped) continue;
      g.SetAttr(p, "value", held_[it->second].mapped);
      changed = true;
    }
    if (!changed) return nullptr;
    g.SetAttr("shape", std::move(shapes));
    g.SetAttr("dtype", std::move(types));
    return std::make_shared<const Graph>(std::move(g));
  }

  std::vector<Held> held_;
  std::unordered_map<const Tensor*, size_t> index_;
  std::unordered_set<const Graph*> seen_;
};

}  // namespace

void MapDelegatedConstants(Graph* graph) { Mapper().Run(graph); }

}  // namespace weft
