/// inputs.cc: see inputs.h. Everything is checked before a model is compiled: a wrong name, dtype
/// or shape should not cost the time of a compilation.
#include "inputs.h"

#include <algorithm>
#include <set>

#include "common.h"
#include "weft/core/graph/variable.h"
#include "weft/core/tensor/npy.h"
#include "weft/onnx/import.h"
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
TensorPtr Accept(NodePtr input, const std::string& file, TensorPtr t) {
  if (!t->is_tensor()) return t;  // its file was read as what the model wants
  const DType want = DeclaredType(input).dtype;
  if (want != t->dtype() && IsUnsigned(t->dtype()) && !TraitsOf(want).numpy.empty() &&
      TraitsOf(want).numpy == TraitsOf(t->dtype()).numpy) {
    auto owner = std::const_pointer_cast<Tensor>(t);
    t = std::make_shared<Tensor>(want, t->dims(), owner->mutable_data(), owner);
  }
  const Shape shape = ShapeOf(input);
  bool fits = !shape.has_rank() || shape.rank() == t->rank();
  for (int d = 0; fits && shape.has_rank() && d < t->rank(); ++d)
    if (shape[d].known() && shape[d].is_const()) fits = shape[d].value() == t->dims()[size_t(d)];
  const std::string place = fmt::format("input '{}' from {}", input->attrs.name, file);
  if (want != DType::kUnknown && t->dtype() != want)
    ThrowError(ErrorCode::kBadInput,
               fmt::format("expected dtype {}, got {}", DTypeName(want), DTypeName(t->dtype())),
               place);
  if (!fits)
    ThrowError(ErrorCode::kBadInput,
               fmt::format("expected shape {}, got {}", shape.ToString(), t->shape().ToString()),
               place);
  return t;
}

}  // namespace

TensorPtr ReadTensor(const std::string& path, const Limits& limits, Type type) {
  WEFT_CHECK(FileExists(path), kIo, "there is no file '{}'", path);
  if (EndsWith(path, ".pb")) return ReadValueProto(path, type, limits);
  WEFT_CHECK(type.is_tensor(), kUsage, "a value of type {} is read from a .pb file, not from '{}'",
             type.ToString(), path);
  if (EndsWith(path, ".npy")) return ReadNpy(path, limits.file_bytes);
  WEFT_THROW(kUsage, "'{}' is not a tensor file: expected .npy or .pb", path);
}

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

SymBindings ParseBindings(const std::vector<std::string>& binds) {
  SymBindings out;
  for (const auto& [name, text] : SplitAssignments(binds, "--bind")) {
    const auto value = TryParseInt64(text);
    if (!value || *value < 0)
      ThrowError(ErrorCode::kUsage,
                 fmt::format("expected an integer >= 0 for '{}', got '{}'", name, text), "--bind");
    out[name] = *value;
  }
  return out;
}

std::vector<std::string> InputSymbols(const Graph& graph) {
  std::set<std::string> names;
  for (NodePtr p : graph.AllInputs()) {
    const Shape declared = ShapeOf(p);
    for (SymInt d : declared.dims())
      if (d.known())
        for (SymInt s : d.Symbols()) names.insert(s.symbol_name());
  }
  return {names.begin(), names.end()};
}

SymBindings CompleteBindings(const Graph& graph, const SymBindings& given) {
  const std::vector<std::string> symbols = InputSymbols(graph);
  std::set<std::string> unknown;  // sorted: the same message every time
  for (const auto& [name, value] : given)
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end()) unknown.insert(name);
  if (!unknown.empty()) {
    const std::string near = DidYouMean(*unknown.begin(), symbols);
    ThrowError(ErrorCode::kBadBinding,
               fmt::format("the inputs of the model have no symbol '{}'", *unknown.begin()),
               "--bind", near.empty() ? ListNames(symbols) : near);
  }
  SymBindings out = given;
  for (const std::string& s : symbols) out.emplace(s, 1);
  return out;
}

NamedTensors MakeInputs(const Graph& graph, const InputArgs& args, const Limits& limits) {
  const std::vector<NodePtr> variables = graph.AllInputs();
  std::vector<std::string> names;
  for (NodePtr p : variables) names.push_back(p->attrs.name);
  const auto files = SplitAssignments(args.files, "--input");
  for (const auto& [name, file] : files) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = DidYouMean(name, names);
    ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no input '{}'", name), "--input",
               near.empty() ? ListNames(names) : near);
  }
  SymBindings bound = ParseBindings(args.binds);
  CompleteBindings(graph, bound);  // names first
  NamedTensors out;
  for (const auto& [name, file] : files) {
    const NodePtr p =
        variables[size_t(std::find(names.begin(), names.end(), name) - names.begin())];
    const TensorPtr t = out[name] = Accept(p, file, ReadTensor(file, limits, DeclaredType(p)));
    const Shape shape = ShapeOf(p);
    for (int d = 0; shape.has_rank() && d < t->rank(); ++d) {
      if (!shape[d].known() || !shape[d].is_symbol()) continue;
      const auto [it, fresh] = bound.emplace(shape[d].symbol_name(), t->dims()[size_t(d)]);
      if (!fresh && it->second != t->dims()[size_t(d)])
        ThrowError(ErrorCode::kBadInput,
                   fmt::format("axis {} has size {}, but '{}' is {} by another input or --bind", d,
                               t->dims()[size_t(d)], it->first, it->second),
                   fmt::format("input '{}' from {}", name, file));
    }
  }
  std::vector<std::string> missing;
  for (const std::string& n : names)
    if (!out.count(n)) missing.push_back("'" + n + "'");
  if (missing.empty()) return out;
  if (!args.random)
    ThrowError(ErrorCode::kBadBinding,
               fmt::format("no value for the input{} {}", missing.size() > 1 ? "s" : "",
                           Join(missing, ", ")),
               "", "give --input NAME=F for each, or --random");
  const RandomInputs random = MakeRandomInputs(graph, args.seed, CompleteBindings(graph, bound));
  for (size_t i = 0; i < names.size(); ++i) out.emplace(names[i], random.tensors[i]);
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
