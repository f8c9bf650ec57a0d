/// pages.h: the reference pages that are written from the registries. Each function gives the whole
/// text of one Markdown page, equal for equal registries.
#pragma once

#include <string>

namespace weft::docs {

/// Every operator: support matrix, then one entry each; ops_page.cc.
std::string OpsPage();
/// Every pass, and the graph attributes that passes meet in; passes_page.cc.
std::string PassesPage();
/// The generated math functions and their error bounds; passes_page.cc.
std::string MathPage();
/// Where other engines disagree; disagreements_page.cc.
std::string DisagreementsPage();

/// Text of a table cell: one line, no bar that would end the cell.
std::string Cell(const std::string& text);
/// `text` in backquotes; "-" for nothing.
std::string Code(const std::string& text);

}  // namespace weft::docs
