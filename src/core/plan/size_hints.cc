/// size_hints.cc: registration of the attribute `hint`: "m = 4, n = 100000".
#include "weft/core/plan/size_hints.h"

#include "weft/core/graph/graph_attr.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

std::string HintText(const SizeHints& hints) {
  std::vector<std::string> each;
  for (const auto& [symbol, value] : hints.values)
    each.push_back(symbol + " = " + std::to_string(value));
  return Join(each, ", ");
}

SizeHints ParseHint(const std::string& text) {
  SizeHints hints;
  for (const std::string& each : Split(text, ',')) {
    if (Trim(each).empty()) continue;
    const size_t equals = each.find('=');
    WEFT_CHECK(equals != each.npos, kSyntax, "a hint is a symbol = a number, got '{}'", each);
    const SymInt symbol = SymInt::Symbol(Trim(std::string_view(each).substr(0, equals)));
    const SymInt value = SymInt::Parse(Trim(std::string_view(each).substr(equals + 1)));
    WEFT_CHECK(value.known() && value.is_const() && value.value() >= 0, kSyntax,
               "the hint of {} is not a size: '{}'", symbol.ToString(), each);
    WEFT_CHECK(hints.values.emplace(symbol.symbol_name(), value.value()).second, kSyntax,
               "two hints of {}", symbol.ToString());
  }
  return hints;
}

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(hint, kGiven, SizeHints)
    .describe("sizes that plans are made for")
    .text(HintText, ParseHint);

}  // namespace weft
