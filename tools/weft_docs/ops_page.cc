/// ops_page.cc: ops.md: a support matrix over all operators, then what each of them declares.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "pages.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_param.h"
#include "weft/core/target.h"
#include "weft/runtime/backend/backend.h"

namespace weft::docs {
namespace {

constexpr const char* kIntro =
    "# Operators\n\n"
    "Written by `weft_docs` from the operator registry; do not edit.\n\n"
    "An operator without a domain is ONNX's, in the newest form of its standard; domain `weft` "
    "holds\n"
    "what passes and gradients need besides. Operands that do not fit what an operator declares "
    "are\n"
    "`kArity`, `kTypeMismatch` or `kShapeMismatch`; what else it throws stands with it. Types are\n"
    "`dtype[dimensions]`: `n` is a symbolic dimension,\n"
    "`[]` a scalar.\n\n"
    "## Support\n\n"
    "| column | means |\n"
    "|---|---|\n"
    "| types, shapes | `FInferType`, `FInferShape` |\n"
    "| code | form of `FCodeGen`: it runs on `ref`, folds, and generates kernels |\n"
    "| gradient | `FGradient` (it may say that there is none for some inputs) |\n"
    "| simplify | `FSimplify`: rewrites of its own |\n"
    "| fusion | told by `FFuseKind` where it does not follow from the code |\n"
    "| cpu library | `FCompute.cpu`: the backend `cpu` has a library call; where it refuses a "
    "request the interpreter runs |\n\n";

std::string Mark(bool yes) { return yes ? "yes" : "-"; }

std::string CodeForm(const Op* op) {
  static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen* code = codegen.find(op);
  if (!code || !*code) return "-";
  return code->elementwise ? "element-wise" : "general";
}

std::string FuseKindName(const Op* op) {
  static const auto& kinds = Op::GetAttr<FFuseKind>("FFuseKind");
  const FFuseKind* kind = kinds.find(op);
  if (!kind) return "-";
  static constexpr const char* kNames[] = {"opaque", "element-wise", "injective", "reduction",
                                           "anchor"};
  return kNames[size_t(*kind)];
}

std::string Arity(int fixed, int min, int max, bool computed) {
  if (computed) return "by its attributes";
  if (fixed >= 0 && min == max) return std::to_string(fixed);
  return max < 0 ? fmt::format("{} or more", min) : fmt::format("{} to {}", min, max);
}

std::string Arguments(const char* title, const std::vector<ArgDoc>& args) {
  if (args.empty()) return "";
  std::string out = fmt::format("\n| {} | type | |\n|---|---|---|\n", title);
  for (const ArgDoc& a : args) {
    std::string doc = a.doc;
    if (a.optional) doc = doc.empty() ? "optional" : "optional; " + doc;
    if (a.variadic) doc = doc.empty() ? "any number" : "any number; " + doc;
    out += fmt::format("| {} | {} | {} |\n", Code(a.name), Cell(a.type), Cell(doc));
  }
  return out;
}

std::string Attributes(const ParamSchema* schema) {
  if (!schema) return "\nTakes any attribute.\n";
  if (schema->fields.empty()) return "";
  std::string out = "\n| attribute | type | default | |\n|---|---|---|---|\n";
  for (const ParamField& f : schema->fields) {
    const std::string otherwise = f.required               ? "required"
                                  : f.default_text.empty() ? "absent"
                                                           : Code(f.default_text);
    out +=
        fmt::format("| {} | {} | {} | {} |\n", Code(f.name), Cell(f.type), otherwise, Cell(f.doc));
  }
  return out;
}

std::string Examples(const Op* op) {
  if (op->examples.empty()) return "";
  std::string out = "\nExamples:\n";
  for (const OpExample& e : op->examples) {
    std::string inputs;
    for (const std::string& i : e.inputs) inputs += (inputs.empty() ? "" : ", ") + i;
    out += fmt::format("- `{}({}){}`\n", op->name, inputs,
                       e.attrs.empty() ? "" : " {" + e.attrs + "}");
  }
  return out;
}

std::string Entry(const Op* op) {
  std::string out = fmt::format("\n### {}\n\n{}\n", op->name, op->description);
  out += fmt::format(
      "\nInputs: {}. Outputs: {}.",
      Arity(op->num_inputs, op->min_inputs, op->max_inputs, bool(op->get_num_inputs)),
      Arity(op->num_outputs, op->num_outputs, op->num_outputs, bool(op->get_num_outputs)));
  if (!op->aliases.empty()) out += fmt::format(" Also called {}.", fmt::join(op->aliases, ", "));
  if (!op->owners.empty())
    out += fmt::format(" Registered in `{}`.",
                       std::filesystem::path(op->owners[0].file).filename().string());
  out += "\n" + Arguments("input", op->inputs) + Arguments("output", op->outputs);
  return out + Attributes(op->param_schema) + Examples(op);
}

}  // namespace

std::string Cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|')
      out += "\\|";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string Code(const std::string& text) { return text.empty() ? "-" : "`" + Cell(text) + "`"; }

std::string OpsPage() {
  const std::vector<const Op*> ops = Op::List();
  const Target cpu_target("cpu");
  size_t inference = 0, code = 0, gradient = 0, library = 0;
  std::string rows, entries;
  for (const Op* op : ops) {
    const bool types = op->has("FInferType"), shapes = op->has("FInferShape");
    const bool has_gradient = op->has("FGradient");
    const bool has_library = cpu_target.compute(op) || op->has("FSizedCompute.cpu");
    const std::string form = CodeForm(op);
    inference += types && shapes;
    code += form != "-";
    gradient += has_gradient;
    library += has_library;
    rows += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", Code(op->name), Mark(types),
                        Mark(shapes), form, Mark(has_gradient), Mark(op->has("FSimplify")),
                        FuseKindName(op), Mark(has_library));
    entries += Entry(op);
  }
  const std::vector<std::string> backends = ListBackendModules();
  const bool cpu = std::find(backends.begin(), backends.end(), "cpu") != backends.end();
  std::string out = kIntro;
  out += fmt::format("{} operators: {} infer types and shapes, {} have code, {} a gradient, ",
                     ops.size(), inference, code, gradient);
  out += cpu ? fmt::format("{} a library call on `cpu`.\n\n", library)
             : "library calls are unknown: this build has no backend `cpu`.\n\n";
  out += "| operator | types | shapes | code | gradient | simplify | fusion | cpu library |\n";
  out += "|---|---|---|---|---|---|---|---|\n" + rows + "\n## Reference\n" + entries;
  return out;
}

}  // namespace weft::docs
