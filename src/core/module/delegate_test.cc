/// delegate_test.cc: how users name delegates and set their options.
#include "weft/core/module/delegate.h"

#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "weft/core/op/staging.h"

namespace weft {
namespace {

class Named final : public Delegate {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string doc() const override { return ""; }
  DelegateTraits traits() const override { return {}; }
  std::vector<DelegateOption> options() const override {
    using Type = DelegateOption::Type;
    if (name_ == "second") return {};
    return {{"exact", Type::kBool, "true", ""},
            {"streams", Type::kInt, "1", ""},
            {"scale", Type::kFloat, "0.5", ""},
            {"device", Type::kText, "CPU", ""}};
  }
  std::string Version() const override { return "1"; }
  std::string WhyNot(const Graph&, const NodePtr&, const DelegateOptions&) const override {
    return {};
  }
  std::shared_ptr<DelegateEngine> Compile(const DelegateRegion&) const override { return nullptr; }

 private:
  const std::string name_;
};

const bool registered = RegisterDelegate(std::make_shared<Named>("first")) &&
                        RegisterDelegate(std::make_shared<Named>("second"));

std::string Normal(const char* text) {
  std::string out;
  for (const DelegateSpec& s : ParseDelegates(text)) out += (out.empty() ? "" : " ") + s.ToString();
  return out;
}

TEST_CASE("names of delegates, with options") {
  REQUIRE(registered);
  CHECK(ParseDelegates("").empty());
  CHECK(Normal("first") == "first");
  for (const char* two : {"first,second", "first;second", "first+second", " first , second "})
    CHECK(Normal(two) == "first second");
  CHECK(Normal("second+first") == "second first");
  // What is the default is left out; values are complete.
  CHECK(Normal("first:streams=1,device=CPU") == "first");
  CHECK(Normal("first:streams=2,device=GPU,second") == "first:device=GPU,streams=2 second");
  CHECK(Normal("first:exact=no,scale=1e-3") == "first:exact=0,scale=1e-3");
  CHECK(Normal("first:exact=yes") == "first");
  CHECK(Normal("first:,second") == "first second");
  const DelegateOptions options = ParseDelegates("first:streams=2")[0].options;
  CHECK(options ==
        DelegateOptions{{"device", "CPU"}, {"exact", "1"}, {"scale", "0.5"}, {"streams", "2"}});
  // What is printed is read again.
  CHECK(Normal(Normal("first:exact=false,streams=7").c_str()) == "first:exact=0,streams=7");
}

TEST_CASE("names of delegates that are refused") {
  for (const char* text :
       {"first:streams=two", "first:exact=maybe", "first:scale=x", "first:threads=2", "first:fast",
        "second:streams=1", "first,first", "first+second+first", "streams=2"})
    CHECK(CodeOf([&] { ParseDelegates(text); }) == ErrorCode::kUsage);
  CHECK(CodeOf([] { ParseDelegates("frist"); }) == ErrorCode::kUnsupported);
  CHECK(CodeOf([] { GetDelegate("third"); }) == ErrorCode::kUnsupported);
  try {
    GetDelegate("frist");
  } catch (const Error& e) {
    CHECK(e.hint().find("first") != std::string::npos);
  }
}

TEST_CASE("engines with delegates behind a plus sign") {
  using Pair = std::pair<std::string, std::string>;
  CHECK(SplitDelegates("cpu") == Pair("cpu", ""));
  CHECK(SplitDelegates("cpu+first") == Pair("cpu", "first"));
  CHECK(SplitDelegates("cuda:1+first:streams=2+second") ==
        Pair("cuda:1", "first:streams=2+second"));
  CHECK(SplitDelegates("") == Pair("", ""));
}

TEST_CASE("two delegates of one name") {
  CHECK(CodeOf([] { RegisterNow([] { RegisterDelegate(std::make_shared<Named>("first")); }); }) ==
        ErrorCode::kDuplicate);
  CHECK(GetDelegate("first")->name() == "first");
  CHECK(ListDelegates() == std::vector<std::string>{"first", "second"});
}

}  // namespace
}  // namespace weft
