/// passes_page.cc: passes.md: every pass, graph attribute and rewrite rule; math.md: the generated
/// functions.
#include <fmt/format.h>

#include <algorithm>

#include "pages.h"
#include "weft/codegen/expr/math.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/pass.h"

namespace weft::docs {
namespace {

std::string List(const std::vector<std::string>& names) {
  if (names.empty()) return "-";
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + Code(n);
  return out;
}

std::string ValueText(const OptionValue& v) {
  if (const bool* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&v)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&v)) return fmt::format("{}", *d);
  return "\"" + std::get<std::string>(v) + "\"";
}

const char* ResultText(PassResult result) {
  switch (result) {
    case PassResult::kSame:
      return "the same outputs";
    case PassResult::kAppends:
      return "the same outputs, and further ones after them";
    case PassResult::kDiffers:
      return "other outputs";
  }
  return "";
}

std::string Entry(const PassEntry& p) {
  std::string out = fmt::format("\n### {}\n\n{}\n\n", p.name, p.description);
  out += "| | |\n|---|---|\n";
  out += fmt::format("| needs | {} |\n", List(p.depends));
  if (!p.depends_op.empty())
    out += fmt::format("| needs of every operator | {} |\n", List(p.depends_op));
  out += fmt::format("| provides | {} |\n", List(p.provides));
  out += fmt::format("| preserves | {} |\n", p.preserves_all ? "everything" : List(p.preserves));
  out += fmt::format("| keeps ONNX | {} |\n", p.keeps_onnx ? "yes" : "no");
  out += fmt::format("| runs in bodies of If, Loop, Scan | {} |\n", p.enters_bodies ? "yes" : "no");
  out += fmt::format("| changes the graph | {} |\n", p.changes_graph ? "yes" : "no");
  out += fmt::format("| computes | {} |\n", ResultText(p.result));
  if (!p.options.empty()) out += "\n| option | default | |\n|---|---|---|\n";
  for (const auto& [option, doc] : p.options)
    out += fmt::format("| {} | {} | {} |\n", Code(option.name), Code(ValueText(option.value)),
                       Cell(doc));
  if (!p.statistics.empty()) out += "\n| statistic | counts |\n|---|---|\n";
  for (const auto& [name, doc] : p.statistics)
    out += fmt::format("| {} | {} |\n", Code(name), Cell(doc));
  if (!p.report.empty()) out += "\n| column of the report | |\n|---|---|\n";
  for (const auto& [name, doc] : p.report)
    out += fmt::format("| {} | {} |\n", Code(name), Cell(doc));
  if (!p.rewrites.empty()) out += "\n| rewrite, as fuel names it | |\n|---|---|\n";
  for (const auto& [name, doc] : p.rewrites)
    out += fmt::format("| {} | {} |\n", Code(name), Cell(doc));
  return out;
}

std::string Rules() {
  std::vector<RewriteRule> rules = ListRewriteRules();
  std::stable_sort(rules.begin(), rules.end(),
                   [](const RewriteRule& a, const RewriteRule& b) { return a.group < b.group; });
  std::string out =
      "\n## Rewrite rules\n"
      "\n"
      "`Simplify` tries a rule on the nodes of its operators, and counts and asks fuel for its "
      "rewrites\n"
      "by its name. Operators have rewrites of their own besides (`op-rule`); ops.md marks them.\n"
      "\n"
      "| group | rule | tried on | |\n|---|---|---|---|\n";
  for (const RewriteRule& r : rules)
    out += fmt::format("| {} | {} | {} | {} |\n", r.group, Code(r.name),
                       r.any_root ? "any node" : List(r.roots), Cell(r.doc));
  return out;
}

}  // namespace

std::string PassesPage() {
  std::string out =
      "# Passes, graph attributes and rewrite rules\n"
      "\n"
      "Written by `weft_docs` from the registries; do not edit.\n"
      "\n"
      "Pipelines are text, `Simplify,Fusion{max_ops=64}`; a pass that needs an attribute which "
      "the\n"
      "graph lacks makes the manager run the pass that provides it first.\n"
      "\n"
      "## Graph attributes\n"
      "\n"
      "*Given* attributes are carried through every rewrite. *Derived* ones are computed from the "
      "graph:\n"
      "an edit clears the rows that depend on it.\n"
      "\n"
      "| attribute | per | kind | in text | |\n|---|---|---|---|---|\n";
  static constexpr const char* kScopes[] = {"graph", "node", "entry"};
  for (const AttrType* t : ListAttrTypes())
    out += fmt::format("| {} | {} | {} | {} | {} |\n", Code(t->name), kScopes[size_t(t->scope)],
                       t->kind == AttrKind::kGiven ? "given" : "derived",
                       !t->format   ? "no"
                       : t->printed ? "yes"
                                    : "on request",
                       Cell(t->doc));
  out += "\n## Passes\n";
  for (const PassEntry* p : PassEntry::List()) out += Entry(*p);
  return out + Rules();
}

std::string MathPage() {
  std::string out =
      "# Generated math functions\n"
      "\n"
      "Written by `weft_docs`; do not edit.\n"
      "\n"
      "Every function below is expanded into basic operations, the same ones on every target; no "
      "math\n"
      "library computes it. A bound is the largest |computed - exact| in units in the last place "
      "of\n"
      "the exact result.\n"
      "\n"
      "| function | f32, ulp | f64, ulp | |\n|---|---|---|---|\n";
  for (const MathFunction& f : MathFunctions())
    out += fmt::format("| {} | {} | {} | {} |\n", Code(f.name), f.f32_ulp, f.f64_ulp, Cell(f.note));
  return out;
}

}  // namespace weft::docs
