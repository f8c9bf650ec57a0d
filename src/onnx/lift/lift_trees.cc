/// lift_trees.cc: TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor of ai.onnx.ml as
/// weft::TreeEnsemble, which knows one kind of decision.
///
/// Every comparison is said with x <= split and where NaN goes:
///
///   x < t           x <= below(t)                        below(t): the next number towards -inf
///   x > t, x >= t   x <= t, x <= below(t), with the branches exchanged
///   x == t          x <= t, and behind it x <= below(t) with the branches exchanged
///   x in {a, b}     x == a, else x == b
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "lift_ml.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

enum Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };
constexpr const char* kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                  "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

constexpr int64_t kMostNodes = std::numeric_limits<int32_t>::max() / 4;

/// The nodes of all trees, by number; leaves are nodes.
struct Trees {
  std::vector<uint8_t> modes, missing_yes;
  std::vector<int32_t> features, yes, no, roots;
  std::vector<double> splits;
  std::vector<std::vector<double>> members;  ///< of each node with kMember, by `member_of`
  std::unordered_map<int32_t, size_t> member_of;
  // The weights of node k are [starts[k], starts[k + 1]).
  std::vector<int32_t> starts, targets;
  std::vector<double> weights;
  int32_t size() const { return int32_t(modes.size()); }
};

/// A list of numbers that is a tensor since version 3.
std::vector<double> TakeNumbers(Lift* l, const std::string& name) {
  const TensorPtr t = l->Take<TensorPtr>(name + "_as_tensor", nullptr);
  const Floats floats = l->Take<Floats>(name, {});
  WEFT_CHECK(!t || floats.empty(), kBadAttribute,
             "attributes '{}' and '{}_as_tensor' are both given", name, name);
  if (!t) return floats;
  std::vector<double> all;
  for (int64_t i = 0; i < t->num_elements(); ++i) all.push_back(t->at(i));
  return all;
}
void CheckLength(const std::string& attr, size_t given, const char* of, size_t wanted) {
  if (given == wanted) return;
  ThrowError(ErrorCode::kBadAttribute,
             fmt::format("attribute '{}' has {} elements, '{}' has {}", attr, given, of, wanted),
             {}, "these lists have one element for each node, or for each weight");
}
int32_t ToInt32(int64_t v, const char* attr, int64_t least = 0) {
  WEFT_CHECK(v >= least && v <= std::numeric_limits<int32_t>::max(), kBadAttribute,
             "attribute '{}' holds {}", attr, v);
  return int32_t(v);
}

/// Numbers of nodes by what a model calls them: a tree and a node of it.
class NodeNumbers {
 public:
  NodeNumbers(const Ints& trees, const Ints& nodes) : trees_(trees), nodes_(nodes) {
    for (size_t i = 0; i < trees.size(); ++i) first_.emplace(trees[i], i);
    // Few files are out of order, and need a look-up.
    for (size_t i = 0; i < trees.size() && in_order_; ++i) {
      const int64_t at = int64_t(first_[trees[i]]);
      in_order_ = nodes[i] >= 0 && nodes[i] <= int64_t(i) && at + nodes[i] == int64_t(i);
    }
    if (in_order_) return;
    order_.resize(trees.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(),
              [&](size_t a, size_t b) { return KeyOf(a) < KeyOf(b); });
    for (size_t i = 1; i < order_.size(); ++i)
      WEFT_CHECK(KeyOf(order_[i - 1]) != KeyOf(order_[i]), kBadAttribute,
                 "tree {} has two nodes {}", trees[order_[i]], nodes[order_[i]]);
  }
  int32_t Of(int64_t tree, int64_t node, const char* attr) const {
    if (in_order_) {
      const auto it = first_.find(tree);
      const int64_t at = it == first_.end() || node < 0 || node >= int64_t(trees_.size())
                             ? int64_t(trees_.size())
                             : int64_t(it->second) + node;
      if (at < int64_t(trees_.size()) && trees_[size_t(at)] == tree) return int32_t(at);
    } else {
      const auto it = std::lower_bound(
          order_.begin(), order_.end(), std::make_pair(tree, node),
          [&](size_t a, const std::pair<int64_t, int64_t>& key) { return KeyOf(a) < key; });
      if (it != order_.end() && KeyOf(*it) == std::make_pair(tree, node)) return int32_t(*it);
    }
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("attribute '{}' names node {} of tree {}, which is not there", attr,
                           node, tree),
               {}, "the children of a node are nodes of its own tree");
  }
  /// The first node of each tree.
  std::vector<int32_t> Roots() const {
    std::vector<int32_t> roots;
    for (const auto& [tree, i] : first_) roots.push_back(int32_t(i));
    std::sort(roots.begin(), roots.end());
    return roots;
  }

 private:
  std::pair<int64_t, int64_t> KeyOf(size_t i) const { return {trees_[i], nodes_[i]}; }
  const Ints &trees_, &nodes_;
  std::unordered_map<int64_t, size_t> first_;
  bool in_order_ = true;
  std::vector<size_t> order_;
};

/// The attributes of the classifier (`of` is "class") and of the regressor ("target").
Trees TakeOldTrees(Lift* l, const std::string& of, int64_t targets) {
  const Ints trees = l->Take<Ints>("nodes_treeids", {}), nodes = l->Take<Ints>("nodes_nodeids", {});
  const Ints yes = l->Take<Ints>("nodes_truenodeids", {}),
             no = l->Take<Ints>("nodes_falsenodeids", {}),
             features = l->Take<Ints>("nodes_featureids", {}),
             missing = l->Take<Ints>("nodes_missing_value_tracks_true", {});
  const Strings modes = l->Take<Strings>("nodes_modes", {});
  l->Take("nodes_hitrates");
  l->Take("nodes_hitrates_as_tensor");
  Trees t;
  t.splits = TakeNumbers(l, "nodes_values");
  const size_t count = nodes.size();
  WEFT_CHECK(count > 0, kBadAttribute, "attribute 'nodes_nodeids' has no elements");
  WEFT_CHECK(int64_t(count) <= kMostNodes, kLimit, "{} nodes", count);
  CheckLength("nodes_treeids", trees.size(), "nodes_nodeids", count);
  CheckLength("nodes_truenodeids", yes.size(), "nodes_nodeids", count);
  CheckLength("nodes_falsenodeids", no.size(), "nodes_nodeids", count);
  CheckLength("nodes_featureids", features.size(), "nodes_nodeids", count);
  CheckLength("nodes_modes", modes.size(), "nodes_nodeids", count);
  CheckLength("nodes_values", t.splits.size(), "nodes_nodeids", count);
  if (!missing.empty())
    CheckLength("nodes_missing_value_tracks_true", missing.size(), "nodes_nodeids", count);
  const NodeNumbers numbers(trees, nodes);
  t.roots = numbers.Roots();
  for (size_t i = 0; i < count; ++i) {
    const auto mode = std::find(std::begin(kModes), std::end(kModes), modes[i]);
    if (mode == std::end(kModes) || mode == kModes + kMember)
      ThrowError(ErrorCode::kBadAttribute,
                 fmt::format("attribute 'nodes_modes' holds \"{}\"", modes[i]), {},
                 "expected BRANCH_LEQ, _LT, _GTE, _GT, _EQ, _NEQ or LEAF");
    const bool leaf = mode == kModes + kLeaf;
    t.modes.push_back(uint8_t(mode - kModes));
    t.features.push_back(leaf ? 0 : ToInt32(features[i], "nodes_featureids"));
    t.yes.push_back(leaf ? 0 : numbers.Of(trees[i], yes[i], "nodes_truenodeids"));
    t.no.push_back(leaf ? 0 : numbers.Of(trees[i], no[i], "nodes_falsenodeids"));
    t.missing_yes.push_back(!missing.empty() && missing[i] == 1);
  }
  const Ints w_trees = l->Take<Ints>(of + "_treeids", {}),
             w_nodes = l->Take<Ints>(of + "_nodeids", {}), ids = l->Take<Ints>(of + "_ids", {});
  const std::vector<double> weights = TakeNumbers(l, of + "_weights");
  const std::string name = of + "_ids";
  CheckLength(of + "_treeids", w_trees.size(), name.c_str(), ids.size());
  CheckLength(of + "_nodeids", w_nodes.size(), name.c_str(), ids.size());
  CheckLength(of + "_weights", weights.size(), name.c_str(), ids.size());
  WEFT_CHECK(int64_t(ids.size()) <= kMostNodes, kLimit, "{} weights", ids.size());
  t.starts.assign(count + 1, 0);
  std::vector<int32_t> at;
  for (size_t i = 0; i < ids.size(); ++i) {
    WEFT_CHECK(ids[i] >= 0 && ids[i] < targets, kBadAttribute,
               "attribute '{}' holds {}, there are {} of them", name, ids[i], targets);
    at.push_back(numbers.Of(w_trees[i], w_nodes[i], "weights"));
    ++t.starts[size_t(at.back()) + 1];
  }
  std::partial_sum(t.starts.begin(), t.starts.end(), t.starts.begin());
  t.targets.resize(ids.size());
  t.weights.resize(ids.size());
  std::vector<int32_t> next(t.starts.begin(), t.starts.end() - 1);
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t to = size_t(next[size_t(at[i])]++);
    t.targets[to] = int32_t(ids[i]);
    t.weights[to] = weights[i];
  }
  return t;
}

/// What weft::TreeEnsemble has: a number >= 0 is a node, else it is that of leaf ~number; children
/// come after their parents.
class TreeBuilder {
 public:
  TreeBuilder(const Trees& trees, DType dtype) : t_(trees), dtype_(dtype) {}

  AttrDict Build() {
    Visit();
    AttrDict attrs;
    std::vector<int32_t> roots;
    for (const int32_t r : t_.roots) roots.push_back(code_[size_t(r)]);
    const auto rename = [&](std::vector<int32_t>* list) {
      for (int32_t& v : *list)
        if (v < kOwn) v = code_[size_t(v - kForeign)];
    };
    rename(&yes_);
    rename(&no_);
    attrs["roots"] = Int32s(roots);
    attrs["features"] = Int32s(features_);
    attrs["splits"] = Numbers(splits_);
    attrs["nan_true"] = Bytes(nan_yes_);
    attrs["true_children"] = Int32s(yes_);
    attrs["false_children"] = Int32s(no_);
    attrs["leaf_starts"] = Int32s(starts_);
    attrs["leaf_targets"] = Int32s(targets_);
    attrs["leaf_weights"] = Numbers(weights_);
    return attrs;
  }

 private:
  // While nodes are made, a child is a node of the source (from kForeign on), or has its code.
  static constexpr int32_t kForeign = std::numeric_limits<int32_t>::min();
  static constexpr int32_t kOwn = kForeign / 2;

  /// Parents first: a node is made when all that point to it have been.
  void Visit() {
    const size_t n = size_t(t_.size());
    std::vector<int32_t> parents(n, 0), stack;
    std::vector<uint8_t> seen(n, 0);
    const auto start = [&](auto wanted) {
      std::fill(seen.begin(), seen.end(), 0);
      for (auto r = t_.roots.rbegin(); r != t_.roots.rend(); ++r)
        if (wanted(*r) && !std::exchange(seen[size_t(*r)], 1)) stack.push_back(*r);
    };
    start([](int32_t) { return true; });
    const auto children = [&](int32_t k, auto f) {
      if (t_.modes[size_t(k)] == kLeaf) return;
      f(t_.no[size_t(k)]);
      f(t_.yes[size_t(k)]);
    };
    size_t reached = 0;
    while (!stack.empty()) {
      const int32_t k = stack.back();
      stack.pop_back();
      ++reached;
      children(k, [&](int32_t c) {
        ++parents[size_t(c)];
        if (!std::exchange(seen[size_t(c)], 1)) stack.push_back(c);
      });
    }
    code_.assign(n, 0);
    starts_.push_back(0);
    size_t made = 0;
    start([&](int32_t r) { return parents[size_t(r)] == 0; });
    while (!stack.empty()) {
      const int32_t k = stack.back();
      stack.pop_back();
      ++made;
      Make(k);
      children(k, [&](int32_t c) {
        if (--parents[size_t(c)] == 0) stack.push_back(c);
      });
    }
    if (made != reached)
      ThrowError(ErrorCode::kBadAttribute,
                 fmt::format("{} of {} nodes are on or behind a cycle", reached - made, t_.size()),
                 {}, "a child of a node must not lead back to it");
  }

  void Make(int32_t k) {
    const size_t i = size_t(k);
    if (t_.modes[i] == kLeaf) {
      code_[i] = ~int32_t(starts_.size() - 1);
      for (int32_t w = t_.starts[i]; w < t_.starts[i + 1]; ++w) {
        targets_.push_back(t_.targets[size_t(w)]);
        weights_.push_back(t_.weights[size_t(w)]);
      }
      starts_.push_back(int32_t(targets_.size()));
      return;
    }
    code_[i] = int32_t(features_.size());
    const int32_t yes = kForeign + t_.yes[i], no = kForeign + t_.no[i];
    const bool nan_yes = t_.missing_yes[i] != 0;
    const double t = t_.splits[i];
    switch (Mode(t_.modes[i])) {
      case kLeq:
        return Add(i, t, yes, no, nan_yes);
      case kLt:
        return Add(i, Below(t), yes, no, nan_yes);
      case kGte:
      case kGt:
        if (std::isnan(t)) return Add(i, t, yes, no, nan_yes);  // never, but for NaN
        return Add(i, t_.modes[i] == kGt ? t : Below(t), no, yes, !nan_yes);
      case kEq:
        return AddEqual(i, t, yes, no, nan_yes);
      case kNeq:
        return AddEqual(i, t, no, yes, false);  // NaN differs from everything
      case kMember: {
        const std::vector<double>& members = t_.members[t_.member_of.at(k)];
        for (size_t m = 0; m < members.size(); ++m) {
          const int32_t next = m + 1 == members.size() ? no : int32_t(features_.size()) + 2;
          AddEqual(i, members[m], yes, next, nan_yes && m == 0);
        }
        return;
      }
      case kLeaf:
        return;
    }
  }
  void Add(size_t of, double split, int32_t yes, int32_t no, bool nan_yes) {
    features_.push_back(t_.features[of]);
    splits_.push_back(split);
    yes_.push_back(yes);
    no_.push_back(no);
    nan_yes_.push_back(nan_yes);
    WEFT_CHECK(int64_t(features_.size()) <= kMostNodes, kLimit, "{} nodes", features_.size());
  }
  void AddEqual(size_t of, double v, int32_t yes, int32_t no, bool nan_yes) {
    Add(of, v, int32_t(features_.size()) + 1, no, nan_yes);
    Add(of, Below(v), no, yes, false);
  }
  /// x < v is x <= Below(v); NaN: no x is.
  double Below(double v) const {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (v == -kInf) return std::numeric_limits<double>::quiet_NaN();
    return dtype_ == DType::kF64 ? std::nextafter(v, -kInf)
                                 : double(std::nextafter(float(v), -float(kInf)));
  }

  static TensorPtr Int32s(const std::vector<int32_t>& v) {
    auto t = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{int64_t(v.size())});
    std::copy(v.begin(), v.end(), t->mutable_data_as<int32_t>());
    return t;
  }
  static TensorPtr Bytes(const std::vector<uint8_t>& v) {
    auto t = std::make_shared<Tensor>(DType::kU8, std::vector<int64_t>{int64_t(v.size())});
    std::copy(v.begin(), v.end(), t->mutable_data_as<uint8_t>());
    return t;
  }
  TensorPtr Numbers(const std::vector<double>& v) const {
    return Tensor::FromDoubles(dtype_, {int64_t(v.size())}, v);
  }

  const Trees& t_;
  DType dtype_;
  std::vector<int32_t> code_, features_, yes_, no_, starts_, targets_;
  std::vector<double> splits_, weights_;
  std::vector<uint8_t> nan_yes_;
};

/// f64 for f64, else f32, as ONNX Runtime computes.
DType ComputeTypeOf(const Lift& l) {
  const DType t = l.dtype_of(l.node.inputs[0]);
  if (t == DType::kUnknown) l.Unsupported("the dtype of X is not known");
  return t == DType::kF64 ? t : DType::kF32;
}

/// Sums (or what `aggregate` says) over the trees, [N, targets].
std::string Scores(Lift* l, const Trees& trees, int64_t targets, const std::string& aggregate) {
  const DType t = ComputeTypeOf(*l);
  AttrDict attrs = TreeBuilder(trees, t).Build();
  attrs["targets"] = targets;
  attrs["aggregate"] = aggregate;
  const std::string x = RowsOf(l, CastTo(l, l->input(0), t));
  return l->Before("weft::TreeEnsemble", {x}, std::move(attrs));
}
std::string Plus(Lift* l, const std::string& y, const std::vector<double>& values, DType t) {
  return l->Before("Add",
                   {y, l->Constant(Tensor::FromDoubles(t, {int64_t(values.size())}, values))});
}
int64_t TakeTargets(Lift* l) {
  const int64_t targets = l->Take<int64_t>("n_targets", 1);
  WEFT_CHECK(targets > 0 && targets <= kMostNodes, kBadAttribute, "attribute 'n_targets' is {}",
             targets);
  return targets;
}

}  // namespace

void LiftTreeEnsembleRegressor(Lift* l) {
  const int64_t targets = TakeTargets(l);
  const std::string aggregate = l->Take<std::string>("aggregate_function", "SUM");
  const PostTransform transform = TakePostTransform(l);
  const std::vector<double> base = TakeNumbers(l, "base_values");
  WEFT_CHECK(base.size() <= 1 || int64_t(base.size()) == targets, kBadAttribute,
             "attribute 'base_values' has {} elements for {} targets", base.size(), targets);
  const Trees trees = TakeOldTrees(l, "target", targets);
  std::string y = Scores(l, trees, targets, aggregate);
  // ONNX Runtime adds a single one to a single target only.
  if (!base.empty() && int64_t(base.size()) == targets) y = Plus(l, y, base, ComputeTypeOf(*l));
  y = CastTo(l, y, DType::kF32, ComputeTypeOf(*l));
  // It leaves a single target as it is, but for PROBIT.
  const bool as_it_is = targets == 1 && transform != PostTransform::kProbit;
  l->Replace({as_it_is ? y : Transformed(l, y, transform)});
}

namespace {

/// The rules of ONNX Runtime, which differ by whether there are two classes, whether all weights
/// are of one of them, and how many base values there are.
class ClassifierScores {
 public:
  ClassifierScores(Lift* l, const Trees& trees, const ClassLabels& labels, std::vector<double> base,
                   PostTransform transform)
      : l_(l), labels_(labels), base_(std::move(base)), transform_(transform) {
    std::vector<int32_t> used = trees.targets;
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    used_ = used;
    positive_ =
        std::all_of(trees.weights.begin(), trees.weights.end(), [](double w) { return w >= 0; });
    y_ = Scores(l, trees, labels.size(), "SUM");
    type_ = ComputeTypeOf(*l);
  }

  void Replace() {
    if (labels_.size() > 2) return Many();
    if (labels_.size() == 1) return One();
    Two();
  }

 private:
  void Many() {
    const std::string scores = base_.empty() ? y_ : Plus(l_, y_, base_, type_);
    std::string label;
    if (base_.empty() && int64_t(used_.size()) < labels_.size() && !used_.empty()) {
      // A class without weights is never the greatest.
      std::vector<int64_t> used(used_.begin(), used_.end());
      const std::string columns = l_->Before("Gather", {scores, l_->Ints(used)}, {{"axis", 1}});
      const std::string top = l_->Before("ArgMax", {columns}, {{"axis", -1}, {"keepdims", 0}});
      label = labels_.Of(l_, l_->Before("Gather", {l_->Ints(used), top}, {{"axis", 0}}));
    } else {
      label = labels_.OfGreatest(l_, scores);
    }
    l_->Replace({label, Transformed(l_, CastTo(l_, scores, DType::kF32, type_), transform_)});
  }
  void One() {
    const std::string score = base_.empty() ? y_ : Plus(l_, y_, base_, type_);
    const std::string zero = l_->Before("Greater", {score, Number(0)});
    const std::string label = l_->Before("Cast", {zero}, {{"to", DType::kI64}});
    const std::string s = CastTo(l_, score, DType::kF32, type_);
    l_->Replace({l_->Before("Reshape", {label, l_->Ints({-1})}),
                 transform_ == PostTransform::kProbit ? Transformed(l_, s, transform_) : s});
  }
  void Two() {
    const bool first = Uses(0), second = Uses(1);
    if (!second && base_.size() < 2) {
      // One score, which is that of the second class.
      const std::string score = Plus(l_, Column(0), {base_.empty() ? 0 : base_[0]}, type_);
      return l_->Replace({Label(score, true), BothClasses(l_, CastTo(l_, score, DType::kF32, type_),
                                                          !positive_, transform_)});
    }
    std::string low = Column(0), high = Column(1);
    if (base_.size() == 2 && second) {
      high = Plus(l_, low, {base_[1]}, type_);
      low = first ? l_->Before("Neg", {high}) : low;
    } else if (!base_.empty()) {
      low = first ? Plus(l_, low, {base_[0]}, type_) : low;
    }
    const std::string label = Label(second ? high : low, first != second);
    const std::string both = l_->Before("Concat", {low, high}, {{"axis", 1}});
    l_->Replace({label, Transformed(l_, CastTo(l_, both, DType::kF32, type_), transform_)});
  }
  std::string Label(const std::string& score, bool one_class) {
    const double bound = one_class && positive_ ? 0.5 : 0;
    return labels_.OfSecond(l_, l_->Before("Greater", {score, Number(bound)}));
  }

  bool Uses(int32_t k) const { return std::binary_search(used_.begin(), used_.end(), k); }
  std::string Number(double v) const { return l_->Constant(Tensor::Scalar(type_, v)); }
  std::string Column(int64_t k) const {
    return l_->Before("Slice", {y_, l_->Ints({k}), l_->Ints({k + 1}), l_->Ints({1})});
  }

  Lift* l_;
  const ClassLabels& labels_;
  std::vector<double> base_;
  PostTransform transform_;
  std::vector<int32_t> used_;  ///< classes that leaves have weights of
  bool positive_ = false;
  std::string y_;
  DType type_ = DType::kF32;
};

}  // namespace

void LiftTreeEnsembleClassifier(Lift* l) {
  const ClassLabels labels(l, "classlabels_int64s", "classlabels_strings");
  const PostTransform transform = TakePostTransform(l);
  const std::vector<double> base = TakeNumbers(l, "base_values");
  const bool fits = base.size() == 1 ? labels.size() <= 2 : int64_t(base.size()) == labels.size();
  WEFT_CHECK(base.empty() || fits, kBadAttribute,
             "attribute 'base_values' has {} elements for {} classes", base.size(), labels.size());
  const Trees trees = TakeOldTrees(l, "class", labels.size());
  ClassifierScores(l, trees, labels, base, transform).Replace();
}

namespace {

std::vector<int32_t> TakeInt32s(Lift* l, const char* attr) {
  std::vector<int32_t> all;
  for (const int64_t v : l->Take<Ints>(attr, {})) all.push_back(ToInt32(v, attr));
  return all;
}
std::vector<double> TakeTensor(Lift* l, const char* attr) {
  const TensorPtr t = l->Take<TensorPtr>(attr, nullptr);
  std::vector<double> all;
  for (int64_t i = 0; t && i < t->num_elements(); ++i) all.push_back(t->at(i));
  return all;
}

/// Members of the sets are in the order of their nodes, with a NaN behind each set.
void ReadMembers(const std::vector<double>& values, Trees* t) {
  size_t at = 0;
  for (int32_t k = 0; k < t->size(); ++k) {
    if (t->modes[size_t(k)] != kMember) continue;
    t->member_of[k] = t->members.size();
    std::vector<double>& set = t->members.emplace_back();
    while (at < values.size() && !std::isnan(values[at])) set.push_back(values[at++]);
    WEFT_CHECK(!set.empty(), kBadAttribute,
               "attribute 'membership_values' has no values for node {}", k);
    ++at;
  }
}

}  // namespace

void LiftTreeEnsemble(Lift* l) {
  static constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const int64_t targets = TakeTargets(l);
  const int64_t aggregate = l->Take<int64_t>("aggregate_function", 1),
                transform = l->Take<int64_t>("post_transform", 0);
  WEFT_CHECK(aggregate >= 0 && aggregate < 4, kBadAttribute, "attribute 'aggregate_function' is {}",
             aggregate);
  WEFT_CHECK(transform >= 0 && transform < 5, kBadAttribute, "attribute 'post_transform' is {}",
             transform);
  Trees t;
  t.roots = TakeInt32s(l, "tree_roots");
  t.features = TakeInt32s(l, "nodes_featureids");
  t.yes = TakeInt32s(l, "nodes_truenodeids");
  t.no = TakeInt32s(l, "nodes_falsenodeids");
  t.splits = TakeTensor(l, "nodes_splits");
  l->Take("nodes_hitrates");
  const std::vector<int32_t> yes_leaf = TakeInt32s(l, "nodes_trueleafs"),
                             no_leaf = TakeInt32s(l, "nodes_falseleafs");
  const Ints missing = l->Take<Ints>("nodes_missing_value_tracks_true", {});
  const std::vector<double> modes = TakeTensor(l, "nodes_modes");
  const size_t count = t.features.size();
  WEFT_CHECK(int64_t(count) <= kMostNodes, kLimit, "{} nodes", count);
  CheckLength("nodes_truenodeids", t.yes.size(), "nodes_featureids", count);
  CheckLength("nodes_falsenodeids", t.no.size(), "nodes_featureids", count);
  CheckLength("nodes_splits", t.splits.size(), "nodes_featureids", count);
  CheckLength("nodes_trueleafs", yes_leaf.size(), "nodes_featureids", count);
  CheckLength("nodes_falseleafs", no_leaf.size(), "nodes_featureids", count);
  CheckLength("nodes_modes", modes.size(), "nodes_featureids", count);
  if (!missing.empty())
    CheckLength("nodes_missing_value_tracks_true", missing.size(), "nodes_featureids", count);
  t.targets = TakeInt32s(l, "leaf_targetids");
  t.weights = TakeTensor(l, "leaf_weights");
  const size_t leaves = t.targets.size();
  CheckLength("leaf_weights", t.weights.size(), "leaf_targetids", leaves);
  WEFT_CHECK(int64_t(leaves) <= kMostNodes, kLimit, "{} leaves", leaves);
  for (const int32_t target : t.targets)
    WEFT_CHECK(target < targets, kBadAttribute,
               "attribute 'leaf_targetids' holds {}, there are {} targets", target, targets);
  for (const int32_t r : t.roots)
    WEFT_CHECK(size_t(r) < count, kBadAttribute, "attribute 'tree_roots' holds {}, of {} nodes", r,
               count);
  // Leaves become nodes behind the others.
  const auto child = [&](int32_t* to, int32_t leaf, const char* attr) {
    WEFT_CHECK(size_t(*to) < (leaf ? leaves : count), kBadAttribute,
               "attribute '{}' holds {}, of {} {}", attr, *to, leaf ? leaves : count,
               leaf ? "leaves" : "nodes");
    if (leaf) *to += int32_t(count);
  };
  for (size_t i = 0; i < count; ++i) {
    WEFT_CHECK(modes[i] >= 0 && modes[i] < kLeaf, kBadAttribute, "attribute 'nodes_modes' holds {}",
               modes[i]);
    t.modes.push_back(uint8_t(modes[i]));
    t.missing_yes.push_back(!missing.empty() && missing[i] == 1);
    child(&t.yes[i], yes_leaf[i], "nodes_truenodeids");
    child(&t.no[i], no_leaf[i], "nodes_falsenodeids");
  }
  ReadMembers(TakeTensor(l, "membership_values"), &t);
  t.modes.resize(count + leaves, kLeaf);
  t.starts.assign(count + 1, 0);
  for (size_t i = 0; i < leaves; ++i) t.starts.push_back(int32_t(i) + 1);
  const DType given = l->dtype_of(l->input(0));
  const std::string y = Scores(l, t, targets, kAggregates[aggregate]);
  if (transform == int64_t(PostTransform::kNone) ||
      (targets == 1 && transform != int64_t(PostTransform::kProbit)))
    return l->Replace({CastTo(l, y, given, ComputeTypeOf(*l))});
  const std::string scores = CastTo(l, y, DType::kF32, ComputeTypeOf(*l));
  l->Replace({CastTo(l, Transformed(l, scores, PostTransform(transform)), given, DType::kF32)});
}

}  // namespace weft::onnx_import
