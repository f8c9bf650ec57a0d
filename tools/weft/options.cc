/// options.cc: see options.h.
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <optional>

#include "common.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr int kNameColumns = 34;  // of the help

/// "--seed N" as the name and what the help calls its value, which is not repeated in checks.
std::pair<std::string, std::string> SplitName(const std::string& name) {
  const size_t blank = name.find(' ');
  return {name.substr(0, blank), blank == name.npos ? "" : name.substr(blank + 1)};
}

/// A check with a message that says what was expected. Without a name: it would be part of the
/// option's type in the help.
CLI::Validator CheckBy(std::function<std::string(const std::string&)> check) {
  return CLI::Validator([check = std::move(check)](std::string& text) { return check(text); }, "");
}

std::vector<std::string> OptionNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app; app = app->get_parent())
    for (const CLI::Option* o : app->get_options())
      for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

[[noreturn]] void ThrowUsage(const CLI::App& app, const CLI::ParseError& e) {
  const auto chosen = app.get_subcommands();
  const CLI::App* at = chosen.empty() ? &app : chosen[0];
  std::string message = e.what(), hint;
  if (dynamic_cast<const CLI::ExtrasError*>(&e)) {
    // Left-over words end up with the parent; the option among them is the culprit.
    std::vector<std::string> words = app.remaining(true);
    std::stable_sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
      return StartsWith(a, "-") > StartsWith(b, "-");
    });
    if (!words.empty()) {
      message = fmt::format("unexpected argument '{}'", words[0]);
      if (StartsWith(words[0], "-"))
        hint = DidYouMean(words[0].substr(0, words[0].find('=')), OptionNames(at));
    }
  }
  // "weft cache foo": what is missing is a sub-command, and what is wrong is the word in its place.
  if (dynamic_cast<const CLI::RequiredError*>(&e)) {
    const std::vector<std::string> names = CommandNames(*at);
    const std::vector<std::string> words = app.remaining(true);
    if (!names.empty() && at != &app) {
      const std::string command = app.get_name() + " " + at->get_name();
      message = words.empty() ? fmt::format("{} needs a sub-command", command)
                              : fmt::format("{} has no sub-command '{}'", command, words[0]);
      hint = words.empty() ? std::string() : DidYouMean(words[0], names);
      if (hint.empty()) hint = ListNames(names);
    }
  }
  if (hint.empty())
    hint =
        fmt::format("see {}{} --help", app.get_name(), chosen.empty() ? "" : " " + at->get_name());
  ThrowError(ErrorCode::kUsage, message, "command line", hint);
}

}  // namespace

Option Option::Required() {
  option_->required();
  return *this;
}
Option Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}
Option Option::Excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}
Option Option::Describe(const std::string& doc) {
  option_->description(doc);
  return *this;
}
Option Option::OneOf(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::WholeNumber(int64_t lowest, int64_t highest) {
  option_->check(CheckBy([lowest, highest](const std::string& text) {
    const auto value = TryParseInt64(text);
    if (value && *value >= lowest && *value <= highest) return std::string();
    return highest == std::numeric_limits<int64_t>::max()
               ? fmt::format("expected a whole number >= {}, got '{}'", lowest, text)
               : fmt::format("expected a whole number from {} to {}, got '{}'", lowest, highest,
                             text);
  }));
  return *this;
}

Option Option::NonNegative() {
  option_->check(CheckBy([](const std::string& text) {
    const auto value = TryParseDouble(text);
    return value && std::isfinite(*value) && *value >= 0
               ? std::string()
               : fmt::format("expected a number >= 0, got '{}'", text);
  }));
  return *this;
}

Option Option::Positive() {
  option_->check(CheckBy([](const std::string& text) {
    const auto value = TryParseDouble(text);
    return value && std::isfinite(*value) && *value > 0
               ? std::string()
               : fmt::format("expected a number > 0, got '{}'", text);
  }));
  return *this;
}

template <class T>
Option Options::Add(const std::string& name, T* value, const std::string& doc) {
  const auto [spelling, type] = SplitName(name);
  CLI::Option* option = app_->add_option(spelling, *value, doc);
  if (!type.empty()) option->type_name(type);
  if constexpr (CLI::detail::is_mutable_container<T>::value)
    option->expected(1)->allow_extra_args(false)->take_all();
  return Option(option);
}
template Option Options::Add(const std::string&, std::string*, const std::string&);
template Option Options::Add(const std::string&, int*, const std::string&);
template Option Options::Add(const std::string&, int64_t*, const std::string&);
template Option Options::Add(const std::string&, uint64_t*, const std::string&);
template Option Options::Add(const std::string&, double*, const std::string&);
template Option Options::Add(const std::string&, std::optional<int64_t>*, const std::string&);
template Option Options::Add(const std::string&, std::vector<std::string>*, const std::string&);
template Option Options::Add(const std::string&, std::vector<int>*, const std::string&);

Option Options::AddFlag(const std::string& name, bool* value, const std::string& doc) {
  return Option(app_->add_flag(name, *value, doc));
}

Option Options::AddAction(const std::string& name, std::function<void(const std::string&)> read,
                          const std::string& doc) {
  const auto [spelling, type] = SplitName(name);
  if (type.empty())
    return Option(app_->add_flag_callback(
        spelling, [read = std::move(read)] { read(""); }, doc));
  const auto read_all = [read = std::move(read)](const std::vector<std::string>& values) {
    for (const std::string& v : values) read(v);
  };
  return Option(app_->add_option_function<std::vector<std::string>>(spelling, read_all, doc)
                    ->expected(1)
                    ->allow_extra_args(false)
                    ->take_all()
                    ->type_name(type));
}

Option Options::Find(const std::string& name) { return Option(app_->get_option(name)); }

Options Options::AddCommand(const std::string& name, const std::string& doc) {
  CLI::App* command = app_->add_subcommand(name, doc);
  command->footer("");  // it would have its parent's
  return Options(command);
}
void Options::RequireCommand() { app_->require_subcommand(1); }
std::string Options::name() const { return app_->get_name(); }
bool Options::chosen() const { return app_->parsed(); }

CommandLine::CommandLine(const std::string& name, const std::string& doc,
                         const std::string& version, const std::string& footer)
    : app_(std::make_unique<CLI::App>(doc, name)) {
  app_->set_version_flag("--version", version);
  app_->footer(footer);
  app_->fallthrough();  // commands inherit it: options of the program may stand behind them
  app_->get_formatter()->column_width(kNameColumns);
}

CommandLine::~CommandLine() = default;

void CommandLine::Parse(const std::vector<std::string>& words) {
  if (!words.empty() && !StartsWith(words[0], "-")) {
    const std::vector<std::string> names = CommandNames(*app_);
    if (std::find(names.begin(), names.end(), words[0]) == names.end()) {
      const std::string near = DidYouMean(words[0], names);
      ThrowError(ErrorCode::kUsage, fmt::format("there is no sub-command '{}'", words[0]),
                 "command line", near.empty() ? ListNames(names) : near);
    }
  }
  try {
    app_->parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // it takes them from the end
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) ThrowUsage(*app_, e);
    app_->exit(e);  // prints help or version
    throw Answered();
  }
}

}  // namespace weft::tool
