/// options.h: the words of a command line: how commands declare the options that they take.
/// options.cc alone sees CLI11, which reads them: its headers cost more to compile than a command.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft::tool {

/// One option; each call says one thing more about it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option Required();
  /// The help shows the value that the variable has now.
  Option ShowDefault();
  Option WholeNumber(int64_t lowest, int64_t highest = std::numeric_limits<int64_t>::max());
  Option NonNegative();
  Option Positive();
  Option OneOf(const std::vector<std::string>& values);
  Option Excludes(const Option& other);
  Option Describe(const std::string& doc);

 private:
  CLI::Option* option_;
};

/// What a command takes: options, and commands of its own.
class Options {
 public:
  explicit Options(CLI::App* app) : app_(app) {}

  /// `name` as the help shows it: "MODEL", "--seed N", "-o,--output OUT". *value is filled when the
  /// line is parsed; a list has one value each time that the option is given.
  template <class T>
  Option Add(const std::string& name, T* value, const std::string& doc);
  Option AddFlag(const std::string& name, bool* value, const std::string& doc);
  /// Calls `read` with each value while the line is parsed. It may throw Answered.
  Option AddAction(const std::string& name, std::function<void(const std::string&)> read,
                   const std::string& doc);
  Option Find(const std::string& name);

  Options AddCommand(const std::string& name, const std::string& doc);
  /// One of its commands has to follow it.
  void RequireCommand();
  std::string name() const;
  /// The line names it.
  bool chosen() const;

 private:
  CLI::App* app_;
};

/// Thrown by an action that has printed what was asked for; nothing else is done then.
struct Answered {};

/// A program's command line.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& doc, const std::string& version,
              const std::string& footer);
  ~CommandLine();
  Options options() { return Options(app_.get()); }
  /// Throws kUsage, and Answered where help or the version was asked for, which it prints.
  void Parse(const std::vector<std::string>& words);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace weft::tool
