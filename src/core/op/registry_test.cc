/// registry_test.cc: operators: many files, priorities, groups, duplicates, lasting references.
#include <doctest/doctest.h>

#include <algorithm>
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

TEST_CASE("define refuses a name that is taken, naming both; override_op replaces it") {
  const auto define = [](const char* name, const char* module, int line) {
    OpBuilder b(name, Owner::At(module, std::string("/some/where/") + module + ".py", line));
    b.define();
    return b;
  };
  define("RegDefine", "one", 7)
      .input("x", "T")
      .output("y", "T")
      .set_attr<int>("TDefine", 1)
      .Commit();
  const Op* first = Op::Get("RegDefine");
  CHECK(first->owners[0].ToString() == "one (one.py:7)");
  // By whomever, with or without define.
  const std::string text =
      Fails([&] { define("RegDefine", "two", 8).Commit(); }, ErrorCode::kDuplicate);
  CHECK(text.find("one (one.py:7)") != std::string::npos);
  CHECK(text.find("two (two.py:8)") != std::string::npos);
  CHECK(text.find("override_op()") != std::string::npos);
  Fails([&] { define("RegDefine", "one", 9).Commit(); }, ErrorCode::kDuplicate);
  CHECK(Op::Get("RegDefine") == first);
  CHECK(first->owners.size() == 1);

  Graph g;
  const NodePtr before = g.AddNode("RegDefine", {g.AddInput("x")});
  OpBuilder two("RegDefine", Owner::At("two", "two.py", 10));
  two.override_op()
      .input("a", "T")
      .input("b", "T")
      .output("y", "T")
      .set_attr<int>("TDefine", 2)
      .Commit();
  const Op* second = Op::Get("RegDefine");
  CHECK(second != first);
  CHECK(second->index() != first->index());
  CHECK(second->name == "RegDefine");
  CHECK(second->num_inputs == 2);
  CHECK(second->owners.size() == 1);
  CHECK(second->owners[0].module == "two");
  // What was made before keeps its definition; columns tell both apart, references stay.
  const auto& column = Op::GetAttr<int>("TDefine");
  CHECK(before->op() == first);
  CHECK(first->num_inputs == 1);
  CHECK(column[before->op()] == 1);
  CHECK(column[second] == 2);
  CHECK(second->attr_owner("TDefine").module == "two");
  const std::vector<const Op*> all = Op::List();
  CHECK(std::count(all.begin(), all.end(), second) == 1);
  CHECK(std::count(all.begin(), all.end(), first) == 0);
  // Others add to what they were written for; its owner adds to the new one.
  Build("RegDefine", "backend", 1).set_attr<int>("TLater", 3).Commit();
  CHECK(Op::GetAttr<int>("TLater").find(first) != nullptr);
  CHECK(Op::GetAttr<int>("TLater").find(second) == nullptr);
  Build("RegDefine", "two", 11).set_attr<int>("TOwn", 4).Commit();
  CHECK(Op::GetAttr<int>("TOwn").find(second) != nullptr);
  // Once more, by whoever replaced it; and again a mere definition is refused.
  OpBuilder again("RegDefine", Owner::At("two", "two.py", 12));
  again.override_op().set_num_inputs(3).Commit();
  CHECK(Op::Get("RegDefine")->num_inputs == 3);
  CHECK(second->num_inputs == 2);
  CHECK(Fails([&] { define("RegDefine", "three", 1).Commit(); }, ErrorCode::kDuplicate)
            .find("two (two.py:12)") != std::string::npos);
}

TEST_CASE("override_op of what is not there defines it; an alias follows its name") {
  OpBuilder fresh("RegFresh", Owner::At("one", "one.py", 1));
  fresh.override_op().add_alias("RegFreshAlias").set_num_inputs(1).Commit();
  CHECK(Op::Get("RegFreshAlias")->num_inputs == 1);
  OpBuilder other("RegFresh", Owner::At("two", "two.py", 1));
  other.override_op().set_num_inputs(2).Commit();
  CHECK(Op::Get("RegFreshAlias")->num_inputs == 2);
  OpBuilder alias("RegFreshAlias", Owner::At("two", "two.py", 2));
  alias.override_op();
  CHECK(Fails([&] { alias.Commit(); }, ErrorCode::kDuplicate).find("alias") != std::string::npos);
}

TEST_CASE("an override that fails is taken back whole") {
  OpBuilder fresh("RegBack", Owner::At("one", "one.py", 1));
  fresh.define().add_alias("RegBackAlias").set_attr<int>("TBack", 1).Commit();
  const Op* first = Op::Get("RegBack");
  const size_t count = Op::List().size();
  for (int i = 0; i < 2; ++i) {
    OpBuilder bad("RegBack", Owner::At("two", "two.py", 1));
    bad.override_op().set_attr<int>("TBack", 2).add_alias("RegFresh");
    Fails([&] { bad.Commit(); }, ErrorCode::kDuplicate);
    CHECK(Op::Get("RegBack") == first);
    CHECK(Op::Get("RegBackAlias") == first);
    CHECK(Op::List().size() == count);
    CHECK(Op::GetAttr<int>("TBack")[first] == 1);
  }
  // The place of what was taken back is free: it is another operator's now, with nothing of it.
  OpBuilder next("RegBackNext", Owner::At("one", "one.py", 2));
  next.define().Commit();
  CHECK(Op::GetAttr<int>("TBack").find(Op::Get("RegBackNext")) == nullptr);
  CHECK(Op::GetAttr<int>("TBack")[first] == 1);
}

TEST_CASE("RegisterNow: statements of several registries, all or nothing, errors at once") {
  const auto body = [](Graph g) { return g; };
  const auto register_all = [&](const char* op) {
    return RegisterNow(
        [&] {
          static_cast<void>(Registered(Build("RegNowOne", "host", 1)));
          static_cast<void>(
              RegisteredPass(PassBuilder("RegNowPass", {"host", "h.py", 2}).set_body(body)));
          static_cast<void>(Registered(Build(op, "host", 3).define()));
        },
        "host");
  };
  const std::string text = Fails([&] { register_all("RegDefine"); }, ErrorCode::kDuplicate);
  CHECK(text.find("host (a.cc:3)") != std::string::npos);
  CHECK(Op::Find("RegNowOne") == nullptr);
  CHECK(PassEntry::Find("RegNowPass") == nullptr);
  const std::vector<RegisteredItem> items = register_all("RegNowTwo");
  CHECK(items == std::vector<RegisteredItem>{
                     {"op", "RegNowOne"}, {"pass", "RegNowPass"}, {"op", "RegNowTwo"}});
  CHECK(Op::Find("RegNowTwo") != nullptr);
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
