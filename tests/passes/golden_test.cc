/// golden_test.cc: runs the golden tests: every .weft file under tests/ says what is to be done
/// with it and what comes out.
///
///   // test passes Simplify,Fusion{max_ops=8}  runs the pipeline and compares the resulting text
///   // test equiv [Op,Op]                      also compares results on random inputs; names
///                                              operators that may be left out
///   // test cat                                parses and prints
///   // test verify                             parses and verifies; expects an error
///   // test target cuda:sm_90                  the target of the passes; "golden": see below
///   // test fuel 1                             the number of rewrites that are allowed
///   // test print origins,hidden,inline        what else the printed text shows
///   // test print kernel,order                 attributes by name, as comments behind the graph
///                                              (tests/support/attr_text.h)
///   // test needs kernels cpu                  skips the case where nothing compiles for cpu
///   // test needs library cpu                  skips it where cpu has no library
///   weft 1
///   graph ...
///   // -----
///   the exact text that is expected
///
/// `// error: text` anywhere in the input says that an error whose text holds `text` is expected
/// instead of a result; behind something on a line it is expected on that line. `// =====` ends a
/// case; a file may hold several. Every result must also survive printing, parsing and printing.
/// With WEFT_BLESS=1 what came out is written into the file: read it before you commit it.
///
/// The target `golden` exists on every machine. Its kernels compile to a stub; golden:N refuses
/// those of N buffers, golden:0 misses what it compiles with. Its library has the calls that passes
/// make: weft::Attention, weft::TransposedMatMul, Gemm. So do the delegates of
/// tests/delegates/test_delegate.h.
///
/// golden_test [--list] [--plugin F]... [part of a path]...
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/delegates/test_delegate.h"
#include "tests/support/attr_text.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/json/json.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/runtime/backend/compute.h"
#include "weft/support/error.h"
#include "weft/support/file.h"
#include "weft/support/log.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr std::string_view kResultMark = "// -----";
constexpr std::string_view kCaseMark = "// =====";
constexpr std::string_view kErrorMark = "// error:";
constexpr std::string_view kTestMark = "// test ";

struct ExpectedError {
  std::string text;
  int line = 0;  ///< 1-based line of the file; 0: anywhere
};

/// One test: a part of a file.
struct Case {
  int line = 1;  ///< where it starts in the file
  std::string input, expected;
  bool has_result = false;  ///< there was a result mark
  std::vector<std::string> directives;
  std::optional<ExpectedError> error;
};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<Case> ReadCases(const std::string& content) {
  std::vector<Case> cases(1);
  int number = 0;
  for (const std::string& line : Lines(content)) {
    ++number;
    Case& c = cases.back();
    if (StartsWith(line, kCaseMark)) {
      cases.emplace_back().line = number + 1;
    } else if (!c.has_result && StartsWith(line, kResultMark)) {
      c.has_result = true;
    } else if (c.has_result) {
      c.expected += line + "\n";
    } else {
      c.input += line + "\n";
      if (StartsWith(line, kTestMark))
        c.directives.emplace_back(Trim(std::string_view(line).substr(kTestMark.size())));
      const size_t at = line.find(kErrorMark);
      if (at != std::string::npos) {
        const bool own_line = Trim(line.substr(0, at)).empty();
        c.error = ExpectedError{std::string(Trim(line.substr(at + kErrorMark.size()))),
                                own_line ? 0 : number};
      }
    }
  }
  return cases;
}

/// Stands in for a compiler where the machine must not matter.
class GoldenCompiler final : public KernelCompiler {
 public:
  explicit GoldenCompiler(const std::string& target) : target_(target) {
    const size_t colon = target.find(':');
    if (colon != std::string::npos) refused_ = std::atoi(target.c_str() + colon + 1);
  }
  std::string target() const override { return target_; }
  std::string Source(const Kernel& kernel) const override { return kernel.CanonicalText(); }
  std::string source_extension() const override { return ".txt"; }
  std::string WhyUnavailable() const override { return refused_ == 0 ? "no library" : ""; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override {
    std::vector<std::string> binaries;
    for (const KernelPtr& k : kernels) {
      const bool made = refused_ != 0 && int(k->buffers.size()) != refused_;
      binaries.emplace_back(made ? "code" : "");
      errors->emplace_back(made ? "" : refused_ == 0 ? "no library" : "too many buffers");
    }
    return binaries;
  }
  KernelStats Stats(const Kernel&, const std::string&) const override { return {}; }

 private:
  std::string target_;
  int refused_ = -1;
};

constexpr const char* kGoldenLibrary = "FCompute.golden";
// That there are calls is all that passes ask.
const FCompute kGoldenCall = [](const ComputeRequest&) -> std::unique_ptr<PreparedCall> {
  return nullptr;
};
WEFT_REGISTER_OP_IN(weft, Attention).set_attr<FCompute>(kGoldenLibrary, kGoldenCall);
WEFT_REGISTER_OP_IN(weft, TransposedMatMul).set_attr<FCompute>(kGoldenLibrary, kGoldenCall);
WEFT_REGISTER_OP(Gemm).set_attr<FCompute>(kGoldenLibrary, kGoldenCall);

/// What a case asks for.
struct Plan {
  bool verify = false, cat = false;
  std::optional<std::string> passes;
  std::vector<std::string> attributes;       ///< printed behind the graph
  std::string needs_kernels, needs_library;  ///< targets
  PassOptions options;
  PrintOptions print;
};

/// Throws std::string with what is wrong with the directives.
Plan ReadDirectives(const Case& c) {
  Plan plan;
  plan.options.checks.preserved = plan.options.checks.changed = plan.options.checks.deterministic =
      true;
  for (const std::string& directive : c.directives) {
    const size_t space = directive.find(' ');
    const std::string word = directive.substr(0, space);
    const std::string rest =
        space == std::string::npos ? "" : std::string(Trim(directive.substr(space)));
    const std::vector<std::string> items =
        rest.empty() ? std::vector<std::string>() : Split(rest, ',');
    if (word == "passes") {
      plan.passes = rest;
    } else if (word == "equiv") {
      plan.options.checks.equivalent = true;
      for (const std::string& op : items)
        plan.options.checks.equivalence_unavailable.emplace_back(Trim(op));
    } else if (word == "verify") {
      plan.verify = true;
    } else if (word == "cat") {
      plan.cat = true;
    } else if (word == "target") {
      plan.options.target = rest;
    } else if (word == "fuel") {
      plan.options.fuel = std::atoi(rest.c_str());
    } else if (word == "needs") {
      const bool library = StartsWith(rest, "library ");
      if (!library && !StartsWith(rest, "kernels "))
        throw fmt::format("'// test needs' is followed by 'kernels' or 'library', not '{}'", rest);
      (library ? plan.needs_library : plan.needs_kernels) = rest.substr(rest.find(' ') + 1);
    } else if (word == "print") {
      for (const std::string& item : items) {
        if (item == "origins")
          plan.print.origins = true;
        else if (item == "hidden")
          plan.print.hidden_attributes = true;
        else if (item == "inline")
          plan.print.inline_all = true;
        else
          plan.attributes.emplace_back(Trim(item));
      }
    } else {
      throw fmt::format("unknown directive '// test {}'", word);
    }
  }
  if (!plan.verify && !plan.cat && !plan.passes)
    throw std::string("no '// test passes', '// test cat' or '// test verify' line");
  if (plan.verify && !c.error) throw std::string("'// test verify' needs an '// error: text'");
  return plan;
}

/// Line of an error whose place is "file:line:column" or starts so; 0 where there is none.
int LineOf(const std::string& place, const std::string& file) {
  const size_t at = place.find(file + ":");
  return at == std::string::npos ? 0 : std::atoi(place.c_str() + at + file.size() + 1);
}

/// The lines that differ, with what is common before and after cut down to two lines.
std::string Difference(const std::string& expected, const std::string& got) {
  constexpr size_t kContext = 2, kMost = 60;
  const std::vector<std::string> a = Lines(expected), b = Lines(got);
  size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  std::string out;
  const auto show = [&out](char mark, const std::vector<std::string>& lines, size_t from,
                           size_t to) {
    for (size_t i = from; i < to && i < from + kMost; ++i)
      out += fmt::format("    {} {}\n", mark, lines[i]);
    if (to > from + kMost)
      out += fmt::format("    {} ... {} lines more\n", mark, to - from - kMost);
  };
  show(' ', a, head - std::min(head, kContext), head);
  show('-', a, head, a.size() - tail);
  show('+', b, head, b.size() - tail);
  show(' ', a, a.size() - tail, a.size() - tail + std::min(tail, kContext));
  return out;
}

/// Printing, parsing and printing gives the same text; attributes without a text form are exempt.
void CheckLaw(const std::string& text, const SideData& side, const PrintOptions& print) {
  if (text.find("<opaque>") != std::string::npos) return;
  ParseOptions parse;
  parse.side_data = &side;
  parse.source_name = "<the result>";
  const std::string again = PrintGraph(ParseGraph(text, parse), print);
  if (again != text)
    throw "the result does not survive parsing and printing:\n" + Difference(text, again);
}

/// A graph comes back from JSON as it was.
void CheckJson(const Graph& g, const std::string& text, const PrintOptions& print) {
  if (text.find("<opaque>") != std::string::npos) return;
  const Graph back = LoadJson(SaveJson(g));
  VerifyGraph(back);
  PrintOptions own = print;
  own.side_data = nullptr;
  own.hidden_attributes = false;  // JSON leaves its own attribute out
  const std::string before = PrintGraph(g, own), again = PrintGraph(back, own);
  if (again != before) throw "the result does not survive JSON:\n" + Difference(before, again);
}

/// The text of the result. Throws weft::Error, or std::string for a law that was broken.
std::string Run(const Case& c, const Plan& plan, const std::string& file) {
  ParseOptions parse;
  parse.source_name = file;
  // Empty lines in front keep the numbers of lines those of the file.
  Graph g = ParseGraph(std::string(size_t(c.line - 1), '\n') + c.input, parse);
  VerifyGraph(g);
  if (plan.verify) return {};
  if (plan.passes) g = ApplyPasses(std::move(g), plan.passes->c_str(), plan.options);
  SideData side;
  PrintOptions print = plan.print;
  print.side_data = &side;
  const std::string text = PrintGraph(g, print);
  CheckLaw(text, side, print);
  CheckJson(g, text, print);
  std::string attributes;
  for (const std::string& name : plan.attributes) attributes += e2e::AttrText(g, name);
  return text + attributes;
}

/// What the case needs of the build.
bool IsThere(const Plan& plan) {
  std::string why;
  if (!plan.needs_kernels.empty() && !FindKernelCompiler(plan.needs_kernels, &why)) return false;
  const std::string& library = plan.needs_library;
  return library.empty() || Target(library).compute(Op::Find("MatMul"));
}

struct Runner {
  bool bless = false;
  int files = 0, cases = 0, failed = 0, blessed = 0, skipped = 0;

  void Fail(const std::string& file, const Case& c, const std::string& why) {
    ++failed;
    fmt::print("FAILED {}:{}\n  {}\n", file, c.line, why);
  }

  void CheckError(const std::string& file, const Case& c, const Error& e) {
    if (!c.error) return Fail(file, c, e.what());
    if (std::string(e.what()).find(c.error->text) == std::string::npos) {
      return Fail(file, c,
                  fmt::format("expected an error with '{}', got: {}", c.error->text, e.what()));
    }
    const int line = LineOf(e.place(), file);
    if (c.error->line && line && line != c.error->line) {
      Fail(file, c,
           fmt::format("expected the error on line {}, got it on line {}: {}", c.error->line, line,
                       e.what()));
    }
  }

  void RunCase(const std::string& file, Case* c) {
    ++cases;
    try {
      const Plan plan = ReadDirectives(*c);
      if (!IsThere(plan)) {
        ++skipped;
        return;
      }
      const std::string got = Run(*c, plan, file);
      if (c->error)
        return Fail(file, *c,
                    fmt::format("expected an error with '{}', but there was none", c->error->text));
      if (got == c->expected) return;
      if (bless) {
        c->expected = got;
        c->has_result = true;
        ++blessed;
      } else if (!c->has_result) {
        Fail(file, *c,
             "there is no expected result; run with WEFT_BLESS=1 and read what is written\n" +
                 Difference("", got));
      } else {
        Fail(file, *c, "the result differs (- expected, + got):\n" + Difference(c->expected, got));
      }
    } catch (const Error& e) {
      CheckError(file, *c, e);
    } catch (const std::string& why) {
      Fail(file, *c, why);
    } catch (const std::exception& e) {
      Fail(file, *c, fmt::format("an exception that is no weft::Error: {}", e.what()));
    }
  }

  void RunFile(const std::string& file) {
    ++files;
    std::vector<Case> all = ReadCases(ReadFile(file));
    const int before = blessed;
    for (Case& c : all) RunCase(file, &c);
    if (blessed == before) return;
    std::string content;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i) content += fmt::format("{}\n", kCaseMark);
      content += all[i].input;
      if (all[i].has_result) content += fmt::format("{}\n{}", kResultMark, all[i].expected);
    }
    WriteFileAtomic(file, content);
    fmt::print("wrote {}\n", file);
  }
};

std::vector<std::string> FindFiles(const std::vector<std::string>& filters) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("tests")) {
    // Examples of CONTRIBUTING hold in a tree that has their changes.
    if (StartsWith(entry.path().generic_string(), "tests/contributing/")) continue;
    const std::string path = entry.path().generic_string();
    if (!entry.is_regular_file() || entry.path().extension() != ".weft") continue;
    const auto matches = [&path](const std::string& f) {
      return path.find(f) != std::string::npos;
    };
    if (filters.empty() || std::any_of(filters.begin(), filters.end(), matches))
      files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

int Main(const std::vector<std::string>& args) {
  std::vector<std::string> filters;
  bool list = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--list")
      list = true;
    else if (args[i] == "--plugin" && i + 1 < args.size())
      LoadPlugin(args[++i]);
    else
      filters.push_back(args[i]);
  }
  if (!std::filesystem::is_directory("tests")) {
    fmt::print(
        stderr,
        "golden_test runs in the root of the source tree; there is no folder 'tests' here\n");
    return 2;
  }
  const std::vector<std::string> files = FindFiles(filters);
  if (files.empty() && !filters.empty()) {
    fmt::print(stderr, "no golden file matches\n");
    return 2;
  }
  const char* bless = std::getenv("WEFT_BLESS");
  Runner runner;
  runner.bless = bless && std::string_view(bless) == "1";
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& file : files) {
    if (list)
      fmt::print("{}\n", file);
    else
      runner.RunFile(file);
  }
  if (list) return 0;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("golden: {} files, {} cases, {} passed, {} failed", runner.files, runner.cases,
             runner.cases - runner.failed - runner.skipped, runner.failed);
  if (runner.skipped) fmt::print(", {} skipped", runner.skipped);
  if (runner.blessed) fmt::print(", {} written", runner.blessed);
  fmt::print(" ({:.2f} s)\n", seconds);
  return runner.failed ? 1 : 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  setenv("WEFT_FAULTS", "throw", 1);
  setenv("WEFT_CACHE", "off", 1);
  weft::SetLogSink([](weft::LogLevel, const char*, int, std::string_view) {});
  try {
    weft::RegisterBackendModule(
        weft::BackendModule("golden").set_compiler([](const weft::Target& target) {
          return std::make_shared<weft::GoldenCompiler>(target.name());
        }));
    weft::e2e::RegisterTestDelegates();
    return weft::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& e) {
    fmt::print(stderr, "golden_test: {}\n", e.what());
    return 70;
  }
}
