/// registry_test.cc: operators: many files, priorities, groups, duplicates, lasting references.
#include <doctest/doctest.h>

#include <thread>

#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using FCost = std::function<int(int)>;

std::string Fails(const std::function<void()>& f, ErrorCode code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  CHECK(false);
  return "";
}
OpBuilder Build(const std::string& name, const char* module, int line, bool group = false) {
  return OpBuilder(name, Owner{module, "a.cc", line}, group);
}

TEST_CASE("attributes of one op come from several statements; the highest priority wins") {
  Build("RegA", "one", 1).set_attr<FCost>("FCost", [](int i) { return i; }).Commit();
  const FCost& first = Op::GetAttr<FCost>("FCost")[Op::Get("RegA")];
  Build("RegA", "two", 2)
      .set_attr<FCost>(
          "FCost", [](int i) { return 2 * i; }, 11)
      .set_attr<int>("TOther", 7)
      .Commit();
  CHECK(Op::GetAttr<FCost>("FCost")[Op::Get("RegA")](21) == 42);
  CHECK(Op::GetAttr<int>("TOther")[Op::Get("RegA")] == 7);
  CHECK(Op::Get("RegA")->attr_owner("FCost").module == "two");
  (void)first;
  const std::string text = Fails(
      [&] {
        Build("RegA", "three", 3)
            .set_attr<FCost>(
                "FCost", [](int) { return 0; }, 11)
            .Commit();
      },
      ErrorCode::kDuplicate);
  CHECK(text.find("two (a.cc:2)") != std::string::npos);
  CHECK(text.find("three (a.cc:3)") != std::string::npos);
}

TEST_CASE("one attribute name has one C++ type") {
  Build("RegB", "one", 1).set_attr<int>("TTyped", 1).Commit();
  Fails([&] { Build("RegB2", "one", 2).set_attr<double>("TTyped", 1.0).Commit(); },
        ErrorCode::kTypeConflict);
  Fails([&] { Op::GetAttr<double>("TTyped"); }, ErrorCode::kTypeConflict);
  CHECK(Op::Find("RegB2") == nullptr);
}

TEST_CASE("groups reach members before and after; an explicit value wins over the group") {
  Build("RegC1", "one", 1).include("RegGroup").Commit();
  Build("RegGroup", "one", 2, true).set_attr<int>("TGrouped", 5).Commit();
  Build("RegC2", "one", 3).include("RegGroup").Commit();
  Build("RegC3", "one", 4).include("RegGroup").set_attr<int>("TGrouped", 6).Commit();
  const auto& m = Op::GetAttr<int>("TGrouped");
  CHECK(m[Op::Get("RegC1")] == 5);
  CHECK(m[Op::Get("RegC2")] == 5);
  CHECK(m[Op::Get("RegC3")] == 6);
  CHECK(m.get(Op::Get("RegA"), -1) == -1);
  Fails([&] { m[Op::Get("RegA")]; }, ErrorCode::kMissingOpAttr);
}

TEST_CASE("aliases resolve, and a taken alias is refused") {
  Build("RegD", "one", 1).add_alias("RegDAlias").Commit();
  CHECK(Op::Get("RegDAlias")->name == "RegD");
  Fails([&] { Build("RegE", "one", 2).add_alias("RegDAlias").Commit(); }, ErrorCode::kDuplicate);
}

TEST_CASE("references stay valid while many ops register") {
  const auto& m = Op::GetAttr<int>("TMany");
  Build("RegMany0", "one", 1).set_attr<int>("TMany", 1).Commit();
  const int* p = &m[Op::Get("RegMany0")];
  for (int i = 1; i < 1000; ++i)
    Build("RegMany" + std::to_string(i), "one", i).set_attr<int>("TMany", i).Commit();
  CHECK(p == &m[Op::Get("RegMany0")]);
  CHECK(m[Op::Get("RegMany999")] == 999);
}

TEST_CASE("registration and look-up from several threads") {
  std::thread writer([] {
    for (int i = 0; i < 500; ++i)
      Build("RegT" + std::to_string(i), "one", i).set_attr<int>("TThread", i).Commit();
  });
  int seen = 0;
  for (int i = 0; i < 2000; ++i)
    if (const Op* op = Op::Find("RegT" + std::to_string(i % 500)))
      seen += Op::GetAttr<int>("TThread").get(op, 0) >= 0;
  writer.join();
  CHECK(Op::GetAttr<int>("TThread")[Op::Get("RegT499")] == 499);
  CHECK(seen >= 0);
}

TEST_CASE("a pass name registered twice is refused, naming both; override replaces") {
  auto body = [](Graph g) { return g; };
  PassBuilder("RegPass", Owner{"one", "p.cc", 1}).set_body(body).Commit();
  const std::string text = Fails(
      [&] {
        PassBuilder("RegPass", Owner{"two", "q.cc", 2}).set_body(body).Commit();
      },
      ErrorCode::kDuplicate);
  CHECK(text.find("one (p.cc:1)") != std::string::npos);
  CHECK(text.find("two (q.cc:2)") != std::string::npos);
  PassBuilder("RegPass", Owner{"two", "q.cc", 2}).set_body(body).override_pass().Commit();
  CHECK(PassEntry::Get("RegPass")->owner.module == "two");
}

TEST_CASE("a staged registration takes effect only when committed") {
  {
    StagingScope dropped;
    static_cast<void>(Registered(Build("RegStaged", "plugin", 1).set_attr<int>("TStaged", 1)));
    CHECK(dropped.size() == 1);
  }
  CHECK(Op::Find("RegStaged") == nullptr);
  StagingScope kept;
  static_cast<void>(Registered(Build("RegStaged", "plugin", 1).set_attr<int>("TStaged", 1)));
  kept.CommitAll();
  CHECK(Op::Find("RegStaged") != nullptr);
}

TEST_CASE("an error in a static registration is thrown by the next look-up") {
  static_cast<void>(Registered(Build("RegA", "static", 9).set_attr<int>("TOther", 8)));
  Fails([] { Op::Get("RegA"); }, ErrorCode::kDuplicate);
  CHECK(Op::Get("RegA") != nullptr);
}

TEST_CASE("all errors of static registrations are told at once, twenty of them in full") {
  const auto wrong = [](int i) {
    static_cast<void>(Registered(
        Build("RegA", ("module" + std::to_string(i)).c_str(), 9).set_attr<int>("TOther", 8)));
  };
  for (int i = 0; i < 3; ++i) wrong(i);
  try {
    Op::Get("RegA");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kDuplicate);
    CHECK(e.message().find("3 registrations failed:") == 0);
    for (const char* part : {"module0", "module1", "module2"})
      CHECK(e.message().find(part) != std::string::npos);
  }
  CHECK(Op::Get("RegA") != nullptr);
  for (int i = 0; i < 25; ++i) wrong(i);
  try {
    Op::Get("RegA");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.message().find("25 registrations failed:") == 0);
    CHECK(e.message().find("module19") != std::string::npos);
    CHECK(e.message().find("module20") == std::string::npos);
    CHECK(e.message().find("and 5 more") != std::string::npos);
  }
}

}  // namespace
}  // namespace weft
