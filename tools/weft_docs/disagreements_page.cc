/// disagreements_page.cc: disagreements.md: where other
/// engines disagree, from tools/weft_docs/disagreements.cc.
#include <fmt/format.h>

#include <algorithm>

#include "pages.h"
#include "tools/weft_docs/disagreements.h"

namespace weft::docs {
namespace {

constexpr const char* kIntro =
    "# Where engines disagree\n"
    "\n"
    "Written by `weft_docs` from `tools/weft_docs/disagreements.cc`; do not edit. A test runs "
    "every row.\n"
    "\n"
    "The standard leaves cases open, and its text, its tests, its reference evaluator and the "
    "engines "
    "in use\n"
    "answer some of them in different ways. This page says what Weft gives, on every backend, and "
    "with "
    "whom it\n"
    "agrees. Asked were ONNX Runtime 1.31, the evaluator of ONNX 1.22 and PyTorch 2.15.\n"
    "\n"
    "What decides: NaN stays NaN, nothing traps, and all targets give the same; then the text and "
    "the "
    "tests of\n"
    "the standard; then what most engines do.\n"
    "\n";

std::string Call(const ops::Disagreement& d) {
  std::string operands = d.operands;
  for (size_t at; (at = operands.find(";")) != std::string::npos;) operands.replace(at, 1, ",");
  return d.op + "(" + operands + ")" + (d.attrs.empty() ? "" : " {" + d.attrs + "}");
}

}  // namespace

std::string DisagreementsPage() {
  std::vector<ops::Disagreement> rows = ops::Disagreements();
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.op < b.op; });
  std::string table = "| operator | case | Weft agrees with | others |\n|---|---|---|---|\n",
              entries;
  std::string op;
  for (const ops::Disagreement& d : rows) {
    const std::string agrees = d.agrees.empty() ? "no engine asked" : d.agrees;
    table += fmt::format("| {} | {} | {} | {} |\n", Code(d.op), Cell(d.what), Cell(agrees),
                         Cell(d.others.empty() ? "-" : d.others));
    if (d.op != op) entries += fmt::format("\n## {}\n", d.op);
    op = d.op;
    entries += fmt::format("\n**{}.** {}\n\n    {}\n    -> {}\n", d.what, d.why, Call(d), d.result);
  }
  return kIntro + table + entries;
}

}  // namespace weft::docs
