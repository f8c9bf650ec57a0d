/// delegate.cc: the table of delegates, and how users name them.
#include "weft/core/module/delegate.h"

#include <algorithm>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Table = std::map<std::string, std::shared_ptr<const Delegate>>;

Table& All() {
  static auto* table = new Table;  // a registry
  return *table;
}

/// `text` as its type is written; throws kUsage.
std::string Checked(const std::string& delegate, const DelegateOption& o, std::string_view text) {
  const auto wrong = [&](const char* expected) {
    WEFT_THROW(kUsage, "option '{}' of delegate '{}' is {}, not '{}'", o.name, delegate, expected,
               text);
  };
  switch (o.type) {
    case DelegateOption::Type::kBool:
      if (text == "true" || text == "1" || text == "yes") return "1";
      if (text == "false" || text == "0" || text == "no") return "0";
      wrong("true or false");
      break;
    case DelegateOption::Type::kInt:
      if (!TryParseInt64(text)) wrong("an integer");
      break;
    case DelegateOption::Type::kFloat:
      if (!TryParseDouble(text)) wrong("a number");
      break;
    case DelegateOption::Type::kText:
      break;
  }
  return std::string(text);
}

void SetOption(DelegateSpec* spec, std::string_view item) {
  const size_t equals = item.find('=');
  const std::string name(Trim(item.substr(0, equals)));
  const std::vector<DelegateOption> declared = spec->delegate->options();
  for (const DelegateOption& o : declared)
    if (o.name == name) {
      spec->options[name] = Checked(spec->delegate->name(), o, Trim(item.substr(equals + 1)));
      return;
    }
  std::vector<std::string> names;
  for (const DelegateOption& o : declared) names.push_back(o.name);
  ThrowError(ErrorCode::kUsage,
             fmt::format("delegate '{}' has no option '{}'", spec->delegate->name(), name), "",
             names.empty() ? "it takes none" : "its options are: " + Join(names, ", "));
}

}  // namespace

bool DelegateRegion::is_static() const {
  const ShapeMap& shapes = body->GetAttr<ShapeMap>("shape");
  const auto known = [&](const NodeEntry& e) { return shapes[e].is_static(); };
  return std::all_of(body->inputs().begin(), body->inputs().end(),
                     [&](const NodePtr& n) { return known(NodeEntry(n)); }) &&
         std::all_of(body->outputs.begin(), body->outputs.end(), known);
}

std::shared_ptr<DelegateEngine> Delegate::Import(const DelegateRegion&, std::string_view) const {
  WEFT_THROW(kUnsupported, "delegate '{}' keeps no engines", name());
}

bool RegisterDelegate(std::shared_ptr<const Delegate> delegate) {
  CommitRegistration([delegate = std::move(delegate)] {
    const std::string name = delegate->name();
    WEFT_CHECK(!All().count(name), kDuplicate, "delegate '{}' is registered twice", name);
    OnRollback([name] { All().erase(name); });
    All()[name] = delegate;
    NoteRegistration("delegate", name);
  });
  return true;
}

std::shared_ptr<const Delegate> GetDelegate(const std::string& name) {
  CheckRegistrations();
  {
    RegistryRead lock;
    if (const auto it = All().find(name); it != All().end()) return it->second;
  }
  const std::vector<std::string> names = ListDelegates();
  const std::string near = DidYouMean(name, names);
  ThrowError(ErrorCode::kUnsupported, fmt::format("there is no delegate '{}'", name), "",
             !near.empty()   ? near
             : names.empty() ? "a plugin brings one: --plugin FILE"
                             : "the delegates are: " + Join(names, ", "));
}

std::vector<std::string> ListDelegates() {
  RegistryRead lock;
  std::vector<std::string> names;
  for (const auto& [name, delegate] : All()) names.push_back(name);
  return names;
}

std::string DelegateSpec::ToString() const {
  std::map<std::string, std::string> defaults;
  for (const DelegateOption& o : delegate->options())
    defaults[o.name] = Checked(delegate->name(), o, o.default_value);
  std::string text = delegate->name();
  char before = ':';
  for (const auto& [name, value] : options) {
    if (defaults[name] == value) continue;
    text += fmt::format("{}{}={}", before, name, value);
    before = ',';
  }
  return text;
}

std::vector<DelegateSpec> ParseDelegates(std::string_view text) {
  std::vector<DelegateSpec> specs;
  while (!text.empty()) {
    const size_t end = text.find_first_of(",;+");
    std::string_view item = Trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (item.empty()) continue;
    const size_t equals = item.find('='), colon = item.find(':');
    if (equals == std::string_view::npos || colon < equals) {
      DelegateSpec spec;
      spec.delegate = GetDelegate(std::string(Trim(item.substr(0, colon))));
      for (const DelegateOption& o : spec.delegate->options())
        spec.options[o.name] = Checked(spec.delegate->name(), o, o.default_value);
      for (const DelegateSpec& s : specs)
        WEFT_CHECK(s.delegate != spec.delegate, kUsage, "delegate '{}' is named twice",
                   spec.delegate->name());
      specs.push_back(std::move(spec));
      if (colon == std::string_view::npos) continue;
      item = Trim(item.substr(colon + 1));
      if (item.empty()) continue;
      WEFT_CHECK(item.find('=') != std::string_view::npos, kUsage,
                 "delegate '{}': '{}' is not an option, as in name=value",
                 specs.back().delegate->name(), item);
    }
    WEFT_CHECK(!specs.empty(), kUsage, "'{}' is an option of no delegate", item);
    SetOption(&specs.back(), item);
  }
  return specs;
}

std::pair<std::string, std::string> SplitDelegates(std::string_view engine) {
  const size_t plus = engine.find('+');
  if (plus == std::string_view::npos) return {std::string(engine), {}};
  return {std::string(engine.substr(0, plus)), std::string(engine.substr(plus + 1))};
}

}  // namespace weft
