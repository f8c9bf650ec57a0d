/// inputs.cc: see inputs.h. Everything is checked before a model is compiled: a wrong name, dtype
/// or shape should not cost the time of a compilation.
#include "inputs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

/// The declared shape; of unknown rank where none is declared.
Shape ShapeOf(NodePtr input) { return DeclaredShape(input).value_or(Shape()); }

/// The tensor as the model wants it. What NumPy does not have comes as unsigned integers of its
/// bits.
TensorPtr Accept(NodePtr input, const std::string& source, TensorPtr t) {
  if (!t->is_tensor()) return t;  // its file was read as what the model wants
  const DType want = DeclaredType(input).dtype;
  if (want != t->dtype() && IsUnsigned(t->dtype()) && !TraitsOf(want).numpy.empty() &&
      TraitsOf(want).numpy == TraitsOf(t->dtype()).numpy) {
    auto owner = std::const_pointer_cast<Tensor>(t);
    t = std::make_shared<Tensor>(want, t->dims(), owner->mutable_data(), owner);
  }
  if (want != DType::kUnknown && t->dtype() != want)
    ThrowError(ErrorCode::kBadInput,
               fmt::format("expected dtype {}, got {}", DTypeName(want), DTypeName(t->dtype())),
               fmt::format("input '{}' from {}", input->attrs.name, source));
  return t;
}

/// "1,2.5,true"; nothing where a part is no number.
std::optional<std::vector<double>> ParseNumbers(const std::string& text) {
  std::vector<double> out;
  for (const std::string& part : Split(text, ',')) {
    const std::string word = ToLower(std::string(Trim(part)));
    std::optional<double> v = TryParseDouble(word);
    if (word == "true" || word == "false") v = word == "true";
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

/// A tensor of numbers of the command line.
TensorPtr TensorOf(NodePtr input, const std::string& text, const std::vector<double>& numbers,
                   const std::vector<int64_t>& dims) {
  const Type declared = DeclaredType(input);
  const DType dtype = declared.known() ? declared.dtype : DType::kF32;
  const std::string place = fmt::format("input '{}' from --input", input->attrs.name);
  WEFT_CHECK(IsComputable(dtype), kUnsupported, "{}: {} is not given by numbers", place,
             DTypeName(dtype));
  auto t = std::make_shared<Tensor>(dtype, dims);
  if (numbers.size() > 1 && int64_t(numbers.size()) != t->num_elements())
    ThrowError(ErrorCode::kBadInput,
               fmt::format("{} numbers for shape {}", numbers.size(), t->shape().ToString()), place,
               "--bind or --shape gives other dimensions; one number fills the input");
  const std::vector<std::string> parts = Split(text, ',');
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    const size_t k = numbers.size() > 1 ? size_t(i) : 0;
    const auto whole = TryParseInt64(Trim(parts[k]));  // exact beyond 2^53
    if (IsFloat(dtype))
      t->set(i, numbers[k]);
    else
      t->set_int(i, whole ? *whole : int64_t(numbers[k]));
    const bool exact =
        IsFloat(dtype) || (whole ? t->at_int(i) == *whole : double(t->at_int(i)) == numbers[k]);
    if (!exact)
      ThrowError(ErrorCode::kBadInput,
                 fmt::format("'{}' is not a value of dtype {}", parts[k], DTypeName(dtype)), place);
  }
  return t;
}

/// What is known of the dimensions of a model's inputs, and where it comes from.
class Dims {
 public:
  /// Begins with what --bind and --shape say.
  Dims(const Graph& graph, const InputArgs& args) : graph_(graph), symbols_(InputSymbols(graph)) {
    for (NodePtr p : graph.AllInputs()) names_.push_back(p->attrs.name);
    Bind(args.binds);
    SetShapes(args.shapes);
  }
  GivenDims given;

  const std::vector<std::string>& names() const { return names_; }
  /// The input of that name; `option` named it.
  NodePtr Input(const std::string& name, const std::string& option) const {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it != names_.end()) return graph_.AllInputs()[size_t(it - names_.begin())];
    const std::string near = DidYouMean(name, names_);
    ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no input '{}'", name), option,
               near.empty() ? ListNames(names_) : near);
  }

  /// The input has these dimensions, says `source`.
  void Set(NodePtr input, const std::vector<int64_t>& dims, const std::string& source) {
    const Shape shape = ShapeOf(input);
    const std::string place = fmt::format("input '{}' from {}", input->attrs.name, source);
    bool fits = !shape.has_rank() || shape.rank() == int(dims.size());
    for (int d = 0; fits && shape.has_rank() && d < shape.rank(); ++d)
      if (shape[d].known() && shape[d].is_const()) fits = shape[d].value() == dims[size_t(d)];
    if (!fits)
      ThrowError(ErrorCode::kBadInput,
                 fmt::format("expected shape {}, got {}", shape.ToString(),
                             Shape::OfInts(dims).ToString()),
                 place);
    given.shapes[input->attrs.name] = dims;
    for (int d = 0; shape.has_rank() && d < shape.rank(); ++d) {
      if (!shape[d].known() || !shape[d].is_symbol()) continue;
      const auto [it, fresh] = given.bindings.emplace(shape[d].symbol_name(), dims[size_t(d)]);
      if (!fresh && it->second != dims[size_t(d)])
        ThrowError(ErrorCode::kBadInput,
                   fmt::format("axis {} has size {}, but '{}' is {} by another input or --bind", d,
                               dims[size_t(d)], it->first, it->second),
                   place);
    }
  }

 private:
  void Bind(const std::vector<std::string>& options) {
    std::vector<std::string> parts;
    for (const std::string& o : options)
      for (const std::string& part : Split(o, ',')) parts.push_back(part);
    for (const auto& [text, number] : SplitAssignments(parts, "--bind")) {
      const auto value = TryParseInt64(number);
      if (!value || *value < 0)
        ThrowError(ErrorCode::kUsage,
                   fmt::format("expected an integer >= 0 for '{}', got '{}'", text, number),
                   "--bind");
      const std::string name = Symbol(text);
      if (!given.bindings.emplace(name, *value).second)
        ThrowError(ErrorCode::kUsage, fmt::format("'{}' is given twice", name), "--bind");
    }
  }
  void SetShapes(const std::vector<std::string>& options) {
    for (const auto& [name, text] : SplitAssignments(options, "--shape")) {
      const NodePtr p = Input(name, "--shape");
      std::vector<int64_t> dims;
      for (const std::string& part :
           text == "scalar" ? std::vector<std::string>() : Split(text, 'x')) {
        const auto v = TryParseInt64(part);
        if (!v || *v < 0)
          ThrowError(ErrorCode::kUsage,
                     fmt::format("expected dimensions as in 1x3x224x224, got '{}'", text),
                     "--shape");
        dims.push_back(*v);
      }
      Set(p, dims, "--shape");
    }
  }
  /// The symbol whose name begins so, where there is one.
  std::string Symbol(const std::string& text) const {
    if (std::find(symbols_.begin(), symbols_.end(), text) != symbols_.end()) return text;
    std::vector<std::string> begins;
    for (const std::string& s : symbols_)
      if (StartsWith(s, text)) begins.push_back(s);
    if (begins.size() == 1) return begins[0];
    if (begins.size() > 1)
      ThrowError(ErrorCode::kUsage, fmt::format("'{}' may be each of {}", text, Join(begins, ", ")),
                 "--bind");
    const std::string near = DidYouMean(text, symbols_);
    ThrowError(ErrorCode::kBadBinding,
               fmt::format("the inputs of the model have no symbol '{}'", text), "--bind",
               near.empty() ? ListNames(symbols_) : near);
  }

  const Graph& graph_;
  std::vector<std::string> names_, symbols_;
};

void SayChosen(const ChosenDims& dims) {
  if (dims.chosen.empty()) return;
  PrintNote(fmt::format("dimensions {} are chosen; --bind SYM=N gives others",
                        DimsText(dims.bindings, dims.chosen)));
  if (!dims.failure.empty())
    PrintNote(fmt::format("none that were tried fit the model: {}", dims.failure));
}

/// A tensor as its input wants it.
void TakeTensor(NodePtr input, const std::string& source, const TensorPtr& t, Dims* dims,
                NamedTensors* out) {
  (*out)[input->attrs.name] = Accept(input, source, t);
  if (t->is_tensor()) dims->Set(input, t->dims(), source);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> SplitAssignments(
    const std::vector<std::string>& options, const std::string& option) {
  std::vector<std::pair<std::string, std::string>> out;
  std::set<std::string> seen;
  for (const std::string& text : options) {
    const size_t eq = text.find('=');
    if (eq == std::string::npos || eq == 0 || eq + 1 == text.size())
      ThrowError(ErrorCode::kUsage, fmt::format("expected NAME=VALUE, got '{}'", text), option);
    out.emplace_back(text.substr(0, eq), text.substr(eq + 1));
    if (!seen.insert(out.back().first).second)
      ThrowError(ErrorCode::kUsage, fmt::format("'{}' is given twice", out.back().first), option);
  }
  return out;
}

std::vector<std::string> GivenInputs(const InputArgs& args) {
  std::vector<std::string> names;
  for (const auto& [name, value] : SplitAssignments(args.values, "--input")) names.push_back(name);
  return names;
}

GivenDims ParseDims(const Graph& graph, const InputArgs& args) { return Dims(graph, args).given; }

ChosenDims CompleteDims(const Graph& graph, const GivenDims& given, const InputArgs& args) {
  DimWishes wishes;
  wishes.every = args.bind_all;
  if (args.smallest)
    for (const std::string& s : InputSymbols(graph)) wishes.presets[s] = 1;
  return ChooseDims(graph, given.bindings, given.shapes, wishes);
}

std::string DimsText(const SymBindings& bindings, const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& s : names)
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", s, bindings.at(s));
  return out;
}

RunInputs MakeInputs(const Graph& graph, const InputArgs& args, const Limits& limits) {
  Dims dims(graph, args);
  const std::vector<std::string>& names = dims.names();
  const auto values = SplitAssignments(args.values, "--input");
  for (const auto& [name, value] : values) dims.Input(name, "--input");  // before files are read
  RunInputs out;
  if (!args.load.empty()) {
    std::vector<Type> types;
    for (const std::string& n : names) types.push_back(DeclaredType(dims.Input(n, "")));
    const std::vector<std::string> given = GivenInputs(args);
    for (const auto& [name, t] : ReadTensors(args.load, names, types, limits))
      if (std::find(given.begin(), given.end(), name) == given.end())
        TakeTensor(dims.Input(name, ""), args.load, t, &dims, &out.tensors);
  }
  struct Numbers {
    std::string name, text;
    std::vector<double> values;
  };
  std::vector<Numbers> by_numbers;
  for (const auto& [name, value] : values) {
    const NodePtr p = dims.Input(name, "--input");
    const auto numbers =
        IsTensorFile(value) || FileExists(value) ? std::nullopt : ParseNumbers(value);
    if (!numbers) {
      TakeTensor(p, value, ReadTensor(value, limits, DeclaredType(p)), &dims, &out.tensors);
      continue;
    }
    by_numbers.push_back({name, value, *numbers});
    // A list says how long it is; one number fills what there is.
    const Shape shape = ShapeOf(p);
    if (numbers->size() > 1 && (!shape.has_rank() || shape.rank() == 1) &&
        !dims.given.shapes.count(name))
      dims.Set(p, {int64_t(numbers->size())}, "--input");
  }
  std::vector<std::string> missing;
  for (const std::string& n : names)
    if (!out.tensors.count(n) && std::none_of(by_numbers.begin(), by_numbers.end(),
                                              [&](const Numbers& x) { return x.name == n; }))
      missing.push_back("'" + n + "'");
  if (!missing.empty() && !args.random)
    ThrowError(ErrorCode::kBadBinding,
               fmt::format("no value for the input{} {}", missing.size() > 1 ? "s" : "",
                           Join(missing, ", ")),
               "", "give --input NAME=F for each, or --random");
  out.dims = CompleteDims(graph, dims.given, args);
  if (!missing.empty() || !by_numbers.empty()) {
    SayChosen(out.dims);
    const std::vector<TensorPtr> made =
        SampleInputs(graph, args.seed, out.dims.bindings, dims.given.shapes);
    for (const Numbers& x : by_numbers) {
      const size_t i = size_t(std::find(names.begin(), names.end(), x.name) - names.begin());
      out.tensors[x.name] = TensorOf(dims.Input(x.name, ""), x.text, x.values, made[i]->dims());
    }
    for (size_t i = 0; i < names.size(); ++i) out.tensors.emplace(names[i], made[i]);
  }
  if (!args.save.empty()) {
    std::vector<TensorPtr> all;
    for (const std::string& n : names) all.push_back(out.tensors.at(n));
    WriteTensors(args.save, TensorFiles(args.save, names, "--save-inputs"), names, all);
  }
  return out;
}

std::vector<TensorPtr> OrderInputs(const Program& program, const NamedTensors& inputs) {
  std::vector<TensorPtr> out;
  for (const IoSpec& spec : program.inputs()) {
    const auto it = inputs.find(spec.name);
    WEFT_CHECK(it != inputs.end(), kBadBinding, "input '{}' is not given", spec.name);
    out.push_back(it->second);
  }
  return out;
}

}  // namespace weft::tool
