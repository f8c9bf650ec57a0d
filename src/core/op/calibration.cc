/// calibration.cc: registration of the attributes of calibration.h, and their text.
#include "weft/core/op/calibration.h"

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

float ParseNumber(std::string_view text, const std::string& whole) {
  const auto v = TryParseFloat(Trim(text));
  WEFT_CHECK(v.has_value(), kSyntax, "expected a number, got '{}' in '{}'", text, whole);
  return *v;
}

std::string RangeText(const ValueRange& r) {
  return FormatFloat(r.low) + ", " + FormatFloat(r.high);
}
ValueRange ParseRange(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  WEFT_CHECK(parts.size() == 2, kSyntax, "a range is two numbers, as in '-1.5, 2', got '{}'", text);
  return {ParseNumber(parts[0], text), ParseNumber(parts[1], text)};
}

std::string ChannelsText(const ChannelStats& c) {
  std::string out = std::to_string(c.axis) + ":";
  for (size_t k = 0; k < c.low.size(); ++k)
    out += fmt::format("{}{} {} {}", k == 0 ? " " : "; ", FormatFloat(c.low[k]),
                       FormatFloat(c.high[k]), FormatFloat(c.mean[k]));
  return out;
}
ChannelStats ParseChannels(const std::string& text) {
  const size_t colon = text.find(':');
  WEFT_CHECK(colon != text.npos, kSyntax,
             "channels are an axis and numbers, as in '1: -1 1 0; -2 2 0.5', got '{}'", text);
  ChannelStats c;
  c.axis = ParseInt64(Trim(text.substr(0, colon)), "the axis of channels");
  for (const std::string& channel : Split(text.substr(colon + 1), ';')) {
    std::vector<std::string> numbers;
    for (const std::string& part : Split(Trim(channel), ' '))
      if (!part.empty()) numbers.push_back(part);
    WEFT_CHECK(numbers.size() == 3, kSyntax, "a channel has three numbers, got '{}'", channel);
    c.low.push_back(ParseNumber(numbers[0], text));
    c.high.push_back(ParseNumber(numbers[1], text));
    c.mean.push_back(ParseNumber(numbers[2], text));
  }
  return c;
}

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(range, kGiven, RangeMap)
    .describe("between which numbers a value is rounded, as calibration has seen it")
    .text(RangeText, ParseRange);

WEFT_REGISTER_GRAPH_ATTR(channels, kGiven, ChannelMap)
    .describe("least, greatest and mean number of each channel, as calibration has seen them")
    .text(ChannelsText, ParseChannels);

}  // namespace weft
