/// export_extents.cc: symbolic extents as values. ONNX has no tensor of extents
/// (weft::ShapeTensor): expressions over symbols become integer arithmetic, each step written once,
/// neighbours that are made alike as one vector. What takes several steps is read off a shape that
/// has it, of an input or of what was written last, which is likely still alive:
///   [n, 7*((h + 27)//28), 7*((w + 27)//28), 96]   ->   Shape(padded image)
///   [6*(h//4) % 7, 6*(w//4) % 7]   ->   Mod(Mul(Shape(patches) {start = 1, end = 3}, 6), 7)
/// Values here are i64 vectors.
#include <algorithm>

#include "exporter.h"
#include "weft/support/check.h"
#include "weft/sym/apply.h"

namespace weft::onnx_export {
namespace {

/// Values that have a size among their dimensions, of which the last ones are looked at.
constexpr size_t kPlacesLookedAt = 8;

}  // namespace

void GraphWriter::NoteExtents(const NodeEntry& e) {
  // The same function serves bodies whose values differ in shape.
  if (kind_ == Kind::kFunction || !IsUsed(e) || !TypeOf(e).is_tensor()) return;
  const Shape shape = ShapeOf(e);
  for (int k = 0; shape.has_rank() && k < shape.rank(); ++k)
    if (shape[k].known() && !shape[k].is_const()) places_[shape[k]].push_back({e, k});
}

std::string GraphWriter::Extents(const NodeEntry& e, int axis, size_t count,
                                 const std::string& base) {
  std::string& known = steps_[fmt::format("Shape({},{},{})", NameOf(e), axis, count)];
  if (!known.empty()) return known;
  pb::NodeProto* n = Add("", "Shape");
  n->add_input(NameOf(e));
  WriteAttribute("start", int64_t{axis}, pb::AttributeProto::INT, n->add_attribute());
  WriteAttribute("end", int64_t{axis} + int64_t(count), pb::AttributeProto::INT,
                 n->add_attribute());
  known = names_->Unique(base);
  n->add_output(known);
  model_.opset().Add(*n, {TypeOf(e)}, {});
  return known;
}

std::string GraphWriter::Concatenated(const std::vector<std::string>& vectors) {
  if (vectors.size() == 1) return vectors[0];
  std::string& known = steps_[fmt::format("Concat({})", fmt::join(vectors, ","))];
  if (!known.empty()) return known;
  pb::NodeProto* n = Add("", "Concat");
  for (const std::string& v : vectors) n->add_input(v);
  WriteAttribute("axis", int64_t{0}, pb::AttributeProto::INT, n->add_attribute());
  known = names_->Unique("extent.values");
  n->add_output(known);
  model_.opset().Add(*n, {}, {});
  return known;
}

/// The longest part of `sizes` around number `at` that is a part of a shape as well.
GraphWriter::Run GraphWriter::RunAround(const std::vector<SymInt>& sizes, size_t at) {
  Run best;
  const auto found = places_.find(sizes[at]);
  if (found == places_.end()) return best;
  const std::vector<Place>& places = found->second;
  const auto consider = [&](const Place& place) {
    const Shape shape = ShapeOf(place.entry);
    const auto& dims = shape.dims();
    const auto same = [&](size_t size, int axis) {
      return axis >= 0 && axis < shape.rank() && size < sizes.size() &&
             dims[size_t(axis)] == sizes[size];
    };
    Run run{at, at, place.entry, place.axis};
    while (same(run.end, run.axis + int(run.end - run.begin))) ++run.end;
    for (; run.begin > 0 && same(run.begin - 1, run.axis - 1); --run.axis) --run.begin;
    if (run.size() > best.size()) best = run;
  };
  if (places[0].entry.node->is_variable()) consider(places[0]);  // an input lives anyway
  for (size_t i = places.size(), least = i - std::min(i, kPlacesLookedAt); i-- > least;)
    consider(places[i]);
  return best;
}

/// Sizes that are read off one shape, once.
std::string GraphWriter::RunValue(const std::vector<SymInt>& sizes, const Run& run) {
  std::string& known = steps_[Shape(sizes).ToString()];
  if (known.empty()) known = Extents(run.entry, run.axis, run.size(), "extent.values");
  return known;
}

/// The part that stands for `size`, behind those that it is made of.
size_t GraphWriter::PartOf(SymInt size) {
  struct Lower : SymVisitor {
    std::vector<SizePart>* parts;
    std::vector<size_t> stack;
    void Push(SizePart part) {
      stack.push_back(parts->size());
      parts->push_back(part);
    }
    void Const(int64_t v) override { Push({v}); }
    void Sym(SymInt s) override { Push({s}); }
    void Op(char op) override {
      const size_t b = stack.back(), a = stack[stack.size() - 2];
      stack.resize(stack.size() - 2);
      Push({ApplySymOp(op, (*parts)[a].size, (*parts)[b].size), op, a, b});
    }
  } lower;
  const auto [it, fresh] = part_of_.try_emplace(size);
  if (!fresh) return it->second;
  lower.parts = &parts_;
  VisitPostfix(size, lower);
  WEFT_ICHECK(lower.stack.size() == 1);
  return it->second = lower.stack[0];
}

bool GraphWriter::AreMadeAlike(size_t a, size_t b) const {
  const SizePart &x = parts_[a], &y = parts_[b];
  if (x.op != y.op || x.size.is_const() != y.size.is_const()) return false;
  return x.op == 0 || (AreMadeAlike(x.a, y.a) && AreMadeAlike(x.b, y.b));
}

/// How many nodes it takes that have not been written yet, at most.
int GraphWriter::StepsLeft(size_t part) const {
  const SizePart& p = parts_[part];
  if (p.size.is_const() || made_.count(p.size)) return 0;
  return p.op == 0 ? values_.count(p.size.symbol_name()) == 0 : 1 + StepsLeft(p.a) + StepsLeft(p.b);
}

/// The vector of these sizes, which are made alike. Equal ones are one element, which broadcasts.
std::string GraphWriter::SizesValue(std::vector<size_t> parts) {
  const auto size_of = [&](size_t p) { return parts_[p].size; };
  const SymInt first = size_of(parts[0]);
  if (std::all_of(parts.begin(), parts.end(), [&](size_t p) { return size_of(p) == first; }))
    parts.resize(1);
  if (first.is_const()) {
    std::vector<int64_t> values;
    for (size_t p : parts) values.push_back(size_of(p).value());
    return IntsValue(values);
  }
  const bool one = parts.size() == 1;
  if (const auto made = made_.find(first); one && made != made_.end()) return made->second;
  std::vector<SymInt> sizes;
  int steps = 0;
  for (size_t p : parts) sizes.push_back(size_of(p)), steps += StepsLeft(p);
  const auto remember = [&](std::string name) {
    return one ? made_.emplace(first, std::move(name)).first->second : name;
  };
  if (const Run run = RunAround(sizes, 0); steps > 1 && run.size() == sizes.size())
    return remember(RunValue(sizes, run));
  const SizePart p = parts_[parts[0]];
  if (p.op == 0) {
    std::vector<std::string> symbols;
    for (SymInt s : sizes) symbols.push_back(SymbolValue(s.symbol_name()));
    return Concatenated(symbols);
  }
  std::vector<size_t> as, bs;
  bool natural = true;
  for (size_t i : parts) {
    as.push_back(parts_[i].a), bs.push_back(parts_[i].b);
    natural = natural && facts_.RangeOf(size_of(parts_[i].a)).lo >= 0 &&
              facts_.RangeOf(size_of(parts_[i].b)).lo >= 0;
  }
  const std::string a = SizesValue(std::move(as)), b = SizesValue(std::move(bs));
  return remember(Operation(p.op, natural, a, b));
}

/// `natural`: no operand is negative.
std::string GraphWriter::Operation(char op, bool natural, const std::string& a,
                                   const std::string& b) {
  const auto make = [&](const char* name, const std::string& x, const std::string& y) {
    return Step("extent.value", name, {x, y});
  };
  switch (op) {
    case '+':
      return make("Add", a, b);
    case '-':
      return make("Sub", a, b);
    case '*':
      return make("Mul", a, b);
    case '/':
      // ONNX's division truncates, which differs below 0; without the remainder of the divisor's
      // sign it is exact.
      return make("Div", natural ? a : make("Sub", a, make("Mod", a, b)), b);
    case '%':
      return make("Mod", a, b);
    case 'm':
      return make("Min", a, b);
    case 'M':
      return make("Max", a, b);
    case 'b':
      return Step("extent.value", "Where", {make("Equal", a, IntsValue({1})), b, a});
    default:
      WEFT_THROW(kInternal, "operation '{}' on a dimension", op);
  }
}

/// Vectors that are `sizes` one after the other.
std::vector<std::string> GraphWriter::ExtentParts(const std::vector<SymInt>& sizes) {
  std::vector<std::string> out;
  Run run;
  int saved = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_const()) continue;
    const Run r = RunAround(sizes, i);
    int steps = 0;
    for (size_t k = r.begin; k < r.end; ++k) steps += StepsLeft(PartOf(sizes[k]));
    // All of them need no Concat.
    if (steps > (r.size() == sizes.size() ? 0 : 1) && r.size() > 1 && steps > saved)
      run = r, saved = steps;
  }
  if (saved > 0) {
    const auto at = [&](size_t i) { return sizes.begin() + ptrdiff_t(i); };
    out = ExtentParts({sizes.begin(), at(run.begin)});
    out.push_back(RunValue({at(run.begin), at(run.end)}, run));
    for (std::string& part : ExtentParts({at(run.end), sizes.end()}))
      out.push_back(std::move(part));
    return out;
  }
  for (size_t i = 0, end; i < sizes.size(); i = end) {
    std::vector<size_t> parts;
    std::vector<int64_t> constants;  // neighbours are one value
    for (end = i; end < sizes.size(); ++end) {
      if (sizes[end].is_const() != sizes[i].is_const()) break;
      if (sizes[i].is_const()) {
        constants.push_back(sizes[end].value());
        continue;
      }
      parts.push_back(PartOf(sizes[end]));
      const bool joins = end == i || (StepsLeft(parts[0]) > 0 && StepsLeft(parts.back()) > 0 &&
                                      parts_[parts[0]].op != 0 && sizes[end] != sizes[i] &&
                                      AreMadeAlike(parts[0], parts.back()));
      if (joins) continue;
      parts.pop_back();
      break;
    }
    out.push_back(parts.empty() ? IntsValue(constants) : SizesValue(std::move(parts)));
  }
  return out;
}

}  // namespace weft::onnx_export
