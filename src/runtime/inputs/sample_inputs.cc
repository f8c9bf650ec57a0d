/// sample_inputs.cc: see sample_inputs.h.
#include "weft/runtime/inputs/sample_inputs.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/flops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/inputs/input_role.h"
#include "weft/support/check.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr int64_t kImage = 224, kSequence = 128;

using Words = std::set<std::string>;

/// "encoder_seqLen.2" -> encoder, seq, len.
Words WordsOf(const std::string& name) {
  Words words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.insert(ToLower(word));
    word.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (!std::isalpha(c)) {
      end();
      continue;
    }
    if (std::isupper(c) && i > 0 && std::islower(static_cast<unsigned char>(name[i - 1]))) end();
    word += name[i];
  }
  end();
  return words;
}
bool HasWord(const Words& words, std::initializer_list<const char*> any) {
  return std::any_of(any.begin(), any.end(), [&](const char* w) { return words.count(w) > 0; });
}

bool IsPast(const Words& w) { return HasWord(w, {"past", "cache", "cached"}); }

/// By the words of its name.
std::optional<int64_t> NamedPreset(const Words& w, bool has_past) {
  if (HasWord(w, {"batch", "batchsize", "bs", "bsz", "b", "n", "beams"})) return 1;
  if (HasWord(w, {"channel", "channels", "ch", "c"})) return 3;
  if (HasWord(w, {"total"})) return kSequence;
  if (IsPast(w)) return kSequence - 1;
  if (HasWord(w, {"height", "width", "h", "w", "image", "img", "imgsz"})) return kImage;
  if (HasWord(w, {"samples", "audio", "waveform"})) return 16000;
  if (HasWord(w, {"encoder", "enc", "source", "src", "frames", "time"})) return kSequence;
  if (HasWord(w, {"seq", "sequence", "length", "len", "seqlen", "tokens", "token", "text", "s", "t",
                  "l", "decoder", "dec", "target", "tgt"}))
    return has_past ? 1 : kSequence;
  return std::nullopt;
}

/// By the place where a symbol stands in the shape of an input.
int64_t PlacePreset(const Shape& shape, int axis, DType dtype) {
  const auto extent = [&](int d) {
    return shape[d].known() ? shape[d].try_value() : std::optional<int64_t>();
  };
  /// Are these the axes of channels, rows and columns of an image?
  const auto is_image = [&](int channels, int rows) {
    const std::optional<int64_t> c = extent(channels);
    return c && (*c == 3 || ((*c == 1 || *c == 4) && !extent(rows) && !extent(rows + 1)));
  };
  const int first = shape.rank() - 3;
  if ((IsFloat(dtype) || dtype == DType::kU8) && (first == 0 || first == 1)) {
    if (is_image(first, first + 1) && axis > first) return kImage;
    if (is_image(first + 2, first) && axis >= first && axis < first + 2) return kImage;
  }
  return axis == 0 ? 1 : kSequence;
}

/// The preset, moved to what is known.
int64_t Fit(int64_t preset, SymInt symbol, const Facts& facts) {
  const Range r = facts.RangeOf(symbol);
  const int64_t d = std::max<int64_t>(facts.DivisorOf(symbol), 1);
  int64_t v = std::max(preset, r.lo);
  const int64_t up = v % d ? d - v % d : 0;
  v = up <= INT64_MAX - v ? v + up : v - v % d;
  return v <= r.hi ? v : std::max(r.lo, r.hi - r.hi % d);
}

class Chooser {
 public:
  Chooser(const Graph& graph, const SymBindings& given, const InputDims& dims)
      : graph_(graph), dims_(dims) {
    result_.bindings = given;
    for (const std::string& s : InputSymbols(graph))
      if (!given.count(s)) result_.chosen.push_back(s);
  }

  ChosenDims Choose(const DimWishes& wishes) {
    for (const std::string& s : result_.chosen) {
      const auto wish = wishes.presets.find(s);
      presets_[s] = wishes.every                   ? *wishes.every
                    : wish != wishes.presets.end() ? wish->second
                                                   : PresetOf(s);
    }
    if (result_.chosen.empty()) return result_;
    ApplyFacts(wishes.every.has_value());
    if (wishes.every) return result_;
    Search();
    const std::vector<NodePtr> nodes = graph_.TopoOrder();
    const bool branches =
        std::any_of(nodes.begin(), nodes.end(), [](const NodePtr& n) { return IsOp(n, "If"); });
    if (!result_.failure.empty() || !branches) return result_;
    // Better still are dimensions at which every branch fits.
    const ChosenDims one_fits = result_;
    all_branches_ = true;
    Search();
    return result_.failure.empty() ? result_ : one_fits;
  }

 private:
  int64_t PresetOf(const std::string& symbol) const {
    bool has_past = false;
    for (const std::string& s : InputSymbols(graph_)) has_past |= IsPast(WordsOf(s));
    if (const auto named = NamedPreset(WordsOf(symbol), has_past)) return *named;
    std::optional<int64_t> at;
    for (const NodePtr& p : graph_.AllInputs()) {
      const std::optional<Shape> shape = DeclaredShape(p);
      if (!shape || !shape->has_rank()) continue;
      for (int d = 0; d < shape->rank(); ++d) {
        const std::vector<SymInt> in =
            (*shape)[d].known() ? (*shape)[d].Symbols() : std::vector<SymInt>();
        if (std::none_of(in.begin(), in.end(), [&](SymInt s) { return s.symbol_name() == symbol; }))
          continue;
        const Type type = DeclaredType(p);
        const int64_t v =
            PlacePreset(*shape, d, type.known() && type.is_tensor() ? type.dtype : DType::kF32);
        at = std::max(at.value_or(v), v);
      }
    }
    return at.value_or(1);
  }

  /// Gives every chosen symbol its preset, moved to what the facts say of it and the others.
  void ApplyFacts(bool as_they_are) {
    Facts facts;
    if (!as_they_are) facts = KnownFacts();
    for (const auto& [name, value] : result_.bindings)
      facts.AddEqual(SymInt::Symbol(name), value, false);
    // What others are measured against comes first.
    std::vector<std::string> order = result_.chosen;
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto& a, const auto& b) { return presets_.at(a) > presets_.at(b); });
    for (const std::string& name : order) {
      const SymInt s = SymInt::Symbol(name);
      int64_t v = presets_.at(name);
      if (!as_they_are) {
        const SymInt known = facts.Simplify(s);
        v = known.known() && known.is_const() ? known.value() : Fit(v, s, facts);
        v = std::max<int64_t>(v, 0);
        facts.AddEqual(s, v, false);
      }
      result_.bindings[name] = v;
    }
  }
  /// Of the graph; and no dimension is 0 where it need not be.
  Facts KnownFacts() const {
    Facts facts;
    try {
      facts = ProvideTypes(graph_).AttrOr<Facts>("facts");
    } catch (const UserError&) {
      return facts;  // whoever uses the graph will say so
    }
    for (const std::string& name : result_.chosen) {
      try {
        facts.SetRange(SymInt::Symbol(name), {1, INT64_MAX});
      } catch (const UserError&) {
      }
    }
    return facts;
  }

  /// What comes of a choice.
  struct Outcome {
    std::string failure;  ///< empty: it fits
    /// How far inference or a run came: numbers of nodes, of the graph and of bodies in it.
    std::vector<int64_t> reached;
  };
  /// "pass InferShape > %6 'conv' (Conv)" -> 6.
  static std::vector<int64_t> NodesOf(const std::string& place) {
    std::vector<int64_t> numbers;
    for (size_t at = 0; (at = place.find('%', at)) != std::string::npos; ++at)
      if (at == 0 || place[at - 1] == ' ')
        numbers.push_back(std::strtoll(place.c_str() + at + 1, nullptr, 10));
    return numbers;
  }
  Outcome Try(const SymBindings& bindings) const {
    try {
      const Graph g = AtDims(graph_, bindings, dims_);
      g.AttrOr<Facts>("facts").CheckHolds(bindings);
      if (all_branches_) CheckBranches(g);
      if (IsOpen(g) && IsSmall(g)) TryRun(g, bindings);
      return {};
    } catch (const UserError& e) {
      return {e.what(), NodesOf(e.place())};
    }
  }
  /// Those whose branch a run decides.
  static std::vector<NodePtr> OpenBranches(const Graph& g) {
    const ValueMap* values = g.HasAttr("value") ? &g.GetAttr<ValueMap>("value") : nullptr;
    std::vector<NodePtr> open;
    for (const NodePtr& n : g.TopoOrder()) {
      const SymTensorPtr* cond = IsOp(n, "If") && values ? values->find(n->inputs[0]) : nullptr;
      if (IsOp(n, "If") && !(cond && *cond && (*cond)->is_const())) open.push_back(n);
    }
    return open;
  }
  /// Throws what inference says of a branch that a run may take: of an If that is open it asks for
  /// one that fits.
  static void CheckBranches(const Graph& g) {
    const std::vector<NodePtr> open = OpenBranches(g);
    for (const bool taken : {true, false}) {
      if (open.empty()) return;
      Graph decided = g;
      const NodePtr cond = decided.AddParam("taken", Tensor::Scalar(DType::kBool, taken));
      for (const NodePtr& n : open) decided.SetInput(decided.at(n), 0, NodeEntry(cond));
      ProvideTypes(std::move(decided));
    }
  }
  /// Some dimension is known in a run only.
  static bool IsOpen(const Graph& g) {
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    const TypeMap& types = g.GetAttr<TypeMap>("dtype");
    for (const NodePtr& n : g.TopoOrder())
      for (uint32_t i = 0; i < n->num_outputs(); ++i)
        if (const NodeEntry e(n, i); types[e].is_tensor() && !shapes[e].is_static()) return true;
    return false;
  }
  /// The evaluator, which is slow, has done in a second or two.
  static bool IsSmall(const Graph& g) {
    constexpr int64_t kMostBytes = int64_t{16} << 20, kMostFlops = 100'000'000;
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    int64_t bytes = 0, flops = 0;
    for (const NodePtr& n : g.TopoOrder()) {
      if (const TensorPtr c = Graph::ConstantOf(NodeEntry(n))) bytes += c->num_bytes();
      const std::optional<SymInt> cost = FlopsOf(n, shapes);
      if (cost && cost->known() && cost->is_const()) flops += cost->value();
      if (bytes > kMostBytes || flops > kMostFlops) return false;
    }
    return true;
  }
  static void TryRun(const Graph& g, const SymBindings& bindings) {
    const Evaluator* evaluator = GetEvaluator();
    if (!evaluator) return;
    Limits limits;
    limits.deadline_s = 4;
    const RequestScope scope(limits);
    try {
      evaluator->Eval(g, SampleInputs(g, 1, bindings));
    } catch (const UserError& e) {
      const bool tells = e.code() == ErrorCode::kShapeMismatch ||
                         e.code() == ErrorCode::kIndexRange || e.code() == ErrorCode::kBadAttribute;
      if (tells) throw;
    } catch (const DeviceError&) {  // memory
    }
  }

  /// Other values, where those at hand do not fit: of single symbols, and of all with one value
  /// together. A choice that comes further is where it goes on.
  void Search() {
    Outcome best = Try(result_.bindings);
    result_.failure = best.failure;
    constexpr int64_t kMostNodes = 100'000, kMostTries = 64, kFewestTries = 8;
    int64_t tries =
        std::clamp(kMostNodes / std::max<int64_t>(graph_.num_nodes(), 1), kFewestTries, kMostTries);
    SymBindings base = result_.bindings;
    for (bool further = true; further && !best.failure.empty();) {
      further = false;
      for (const SymBindings& b : Others(base)) {
        if (tries-- <= 0) return;
        Outcome o = Try(b);
        further = o.failure.empty() || o.reached > best.reached;
        if (!further) continue;
        base = b;
        best = std::move(o);
        break;
      }
    }
    if (!best.failure.empty()) return;
    result_.bindings = base;
    result_.failure.clear();
  }
  std::vector<SymBindings> Others(const SymBindings& base) const {
    std::vector<SymBindings> out;
    // The largest first: a batch stays 1.
    std::vector<std::string> order = result_.chosen;
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto& a, const auto& b) { return base.at(a) > base.at(b); });
    for (const std::string& name : order)
      for (const int64_t v : Combined(name, base)) {
        out.push_back(base);
        out.back()[name] = v;
      }
    std::map<int64_t, std::vector<std::string>> groups;
    for (const std::string& name : result_.chosen) groups[base.at(name)].push_back(name);
    for (const int64_t v : {256, 512, 384, 320, 640, 299, 64, 48, 32, 16, 8, 4, 2, 1})
      for (const auto& [value, names] : groups) {
        if (value == 1 || value == v) continue;
        out.push_back(base);
        for (const std::string& name : names) out.back()[name] = v;
      }
    return out;
  }
  /// What a symbol may be to the others: their sum, their difference, the same.
  std::vector<int64_t> Combined(const std::string& name, const SymBindings& bindings) const {
    std::set<int64_t> values;
    for (const auto& [a, x] : bindings) {
      if (a == name) continue;
      values.insert(x);
      for (const auto& [b, y] : bindings) {
        if (b == name || b == a) continue;
        values.insert(x + y);
        if (x > y) values.insert(x - y);
      }
    }
    values.erase(bindings.at(name));
    return {values.rbegin(), values.rend()};
  }

  const Graph& graph_;
  const InputDims& dims_;
  ChosenDims result_;
  std::map<std::string, int64_t> presets_;
  bool all_branches_ = false;
};

/// Dimensions of what a sequence or an optional holds, and how much of it a sequence has.
constexpr int64_t kElements = 3, kElementRows = 2, kElementColumns = 3;

/// What is drawn for an input, from which its value is made: texts from bits, elements of a
/// sequence one behind the other.
Graph DrawnFrom(Graph g) {
  for (const NodePtr& p : g.AllInputs()) {
    const Type type = DeclaredType(p);
    const bool text = type.dtype == DType::kString;
    if (!text && type.is_tensor()) continue;
    if (!type.known() || type.kind == TypeKind::kOpaque) continue;
    g.SetAttr(p, "type", Type(text ? DType::kBool : type.dtype).ToString());
    if (!type.is_tensor()) g.SetAttr(p, "shape", Shape({kElements, kElementRows, kElementColumns}));
  }
  return g;
}

TensorPtr TextsOf(const Tensor& bits) {
  auto texts = std::make_shared<Tensor>(DType::kString, bits.dims());
  for (int64_t i = 0; i < texts->num_elements(); ++i)
    texts->mutable_strings()[size_t(i)] = bits.at_int(i) ? "yes" : "no";
  return texts;
}

/// A value of `type` of rows of `drawn`.
TensorPtr ListOf(Type type, const Tensor& drawn) {
  if (type.kind == TypeKind::kOptionalSequence)
    return Tensor::List(type, {ListOf(type.element(), drawn)});
  std::vector<TensorPtr> elements;
  const int64_t count = type.is_sequence() ? kElements : 1, each = kElementRows * kElementColumns;
  for (int64_t k = 0; k < count; ++k) {
    auto t = std::make_shared<Tensor>(drawn.dtype(),
                                      std::vector<int64_t>{kElementRows, kElementColumns});
    for (int64_t i = 0; i < each; ++i) t->set(i, drawn.at(k * each + i));
    elements.push_back(type.dtype == DType::kString ? TextsOf(*t) : t);
  }
  return Tensor::List(type, std::move(elements));
}

/// The first number of elements along axis 1 of an input of two axes or more: how long the
/// sequences are that lengths are told of.
int64_t SequenceOf(const std::vector<TensorPtr>& tensors) {
  for (const TensorPtr& t : tensors)
    if (t->rank() >= 2) return t->dims()[1];
  return 1;
}

/// Values of an input of whole numbers; false where any will do.
bool FillByRole(const InputRole& role, const Words& words, int64_t sequence, uint64_t seed,
                Tensor* t) {
  const int64_t n = t->num_elements();
  const auto fill = [&](const std::function<int64_t(int64_t)>& value) {
    for (int64_t i = 0; i < n; ++i) t->set_int(i, value(i));
    return true;
  };
  const auto mixed = [&](int64_t i) {
    const uint64_t bits = (uint64_t(i) + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
    return int64_t((bits ^ bits >> 29) * 0x94d049bb133111ebu >> 33);
  };
  const int64_t extent = std::max<int64_t>(role.extent, 1);
  const bool positions = HasWord(words, {"position", "positions", "pos"});
  const int64_t last = t->rank() > 0 ? std::max<int64_t>(t->dims().back(), 1) : 1;
  if (n == 1 && !role.compared.empty() && !role.index)
    return fill([&](int64_t) { return role.compared.front(); });
  if (positions && !role.shape) return fill([&](int64_t i) { return i % last % extent; });
  if (role.index) return fill([&](int64_t i) { return mixed(i) % extent; });
  // One of the things that it may be: a one-hot encoding by comparison.
  constexpr size_t kFewestKinds = 3;
  if (role.compared.size() >= kFewestKinds)
    return fill([&](int64_t i) { return role.compared[size_t(mixed(i)) % role.compared.size()]; });
  if (role.shape && role.shaped) {
    const auto& dims = *role.shaped;
    return fill([&](int64_t i) {
      const int64_t k = int64_t(dims.size()) - n + i;
      return k >= 0 ? dims[size_t(k)] : 1;
    });
  }
  if (HasWord(words, {"length", "lengths", "len", "lens", "seqlen", "seqlens"}))
    return fill([&](int64_t) { return sequence; });
  constexpr int64_t kMostSizes = 16;  // more of them are data
  if (role.sizes) return fill([&](int64_t i) { return n <= kMostSizes ? 1 : mixed(i) % 3; });
  return false;
}

}  // namespace

std::vector<std::string> InputSymbols(const Graph& graph) {
  std::set<std::string> names;
  for (NodePtr p : graph.AllInputs()) {
    const std::optional<Shape> declared = DeclaredShape(p);
    if (!declared) continue;
    for (SymInt d : declared->dims())
      if (d.known())
        for (SymInt s : d.Symbols()) names.insert(s.symbol_name());
  }
  return {names.begin(), names.end()};
}

SymBindings ParseBindings(const std::vector<std::string>& texts, const std::string& option) {
  SymBindings out;
  for (const std::string& text : texts)
    for (const std::string& part : Split(text, ',')) {
      const size_t eq = part.find('=');
      const std::string name(Trim(std::string_view(part).substr(0, std::min(eq, part.size()))));
      const std::optional<int64_t> value =
          eq == std::string::npos ? std::nullopt
                                  : TryParseInt64(Trim(std::string_view(part).substr(eq + 1)));
      if (name.empty() || !value || *value < 0)
        ThrowError(ErrorCode::kUsage,
                   fmt::format("expected SYM=N with an integer >= 0, got '{}'", part), option);
      if (!out.emplace(name, *value).second)
        ThrowError(ErrorCode::kUsage, fmt::format("'{}' is given twice", name), option);
    }
  return out;
}

ChosenDims ChooseDims(const Graph& graph, const SymBindings& given, const InputDims& dims,
                      const DimWishes& wishes) {
  return Chooser(graph, given, dims).Choose(wishes);
}

std::vector<TensorPtr> SampleInputs(const Graph& graph, uint64_t seed, const SymBindings& bindings,
                                    const InputDims& dims) {
  Graph g = graph;
  try {
    g = AtDims(graph, bindings, dims);
  } catch (const UserError&) {  // these dimensions do not fit; a run will say so
    for (const NodePtr& p : g.AllInputs())
      if (const auto it = dims.find(p->attrs.name); it != dims.end())
        g.SetAttr(p, "shape", Shape::OfInts(it->second));
    g = ProvideTypes(std::move(g));
  }
  const std::vector<NodePtr> inputs = g.AllInputs();
  std::vector<TensorPtr> tensors = MakeRandomInputs(DrawnFrom(g), seed, bindings).tensors;
  const InputRoles roles(g);
  for (size_t k = 0; k < inputs.size(); ++k) {
    const DType type = tensors[k]->dtype();
    const Type declared = DeclaredType(inputs[k]);
    if (!declared.is_tensor() || declared.dtype == DType::kString) {
      tensors[k] = declared.is_tensor() ? TextsOf(*tensors[k]) : ListOf(declared, *tensors[k]);
      continue;
    }
    const Words words = WordsOf(inputs[k]->attrs.name);
    const bool mask = HasWord(words, {"mask", "masks"});
    if (!mask && (IsFloat(type) || type == DType::kBool)) continue;
    auto t = std::make_shared<Tensor>(type, tensors[k]->dims());
    const InputRole role = roles.Of(inputs[k]);
    if (mask && !role.index && !role.shape)
      for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, 1);
    else if (IsFloat(type) || type == DType::kBool ||
             !FillByRole(role, words, SequenceOf(tensors), seed, t.get()))
      continue;
    tensors[k] = t;
  }
  return tensors;
}

}  // namespace weft
