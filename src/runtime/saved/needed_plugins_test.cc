/// needed_plugins_test.cc: a compiled program says which plugin is missing where something that it
/// needs is not registered.
#include "needed_plugins.h"

#include <doctest/doctest.h>

#include <string>

#include "weft/core/op/op.h"
#include "weft/support/error.h"

using namespace weft;

namespace {

struct Thrown {
  ErrorCode code = ErrorCode(0);
  std::string text;
};
Thrown Check(const std::string& text) {
  try {
    CheckPlugins(text);
    return {};
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
}

WEFT_REGISTER_OP(needed_plugins_test::There);

}  // namespace

TEST_CASE("what is registered needs no plugin of that name") {
  CHECK(Check("").text.empty());
  CHECK(Check("lost\t1.0\top\tneeded_plugins_test::There\tgraph attribute\tshape\n").text.empty());
  // Kinds of later versions are not judged here.
  CHECK(Check("lost\t1.0\tkind of item\tanything\n").text.empty());
}

TEST_CASE("what is missing is told with its plugin") {
  const Thrown op =
      Check("here\t1\tgraph attribute\tshape\nnpu\t0.3\top\tnpu::Load\top\tnpu::Store\n");
  CHECK(op.code == ErrorCode::kPlugin);
  CHECK(op.text.find("the program needs plugin 'npu' 0.3 (op 'npu::Load')") != op.text.npos);
  CHECK(op.text.find("here") == op.text.npos);
  CHECK(op.text.find("--plugin") != op.text.npos);
  for (const char* kind : {"graph attribute", "backend", "delegate"})
    CHECK(Check("npu\t0.3\t" + std::string(kind) + "\tno_such_thing\n").code == ErrorCode::kPlugin);
  const Thrown two = Check("a\t1\top\ta::A\nb\t2\top\tb::B\n");
  CHECK(two.text.find("plugin 'a' 1 (op 'a::A'), plugin 'b' 2 (op 'b::B')") != two.text.npos);
}

TEST_CASE("a damaged list of plugins is no crash") {
  for (const char* text : {"npu", "npu\t1", "npu\t1\top", "npu\t1\top\tA\top"})
    CHECK(Check(text).code == ErrorCode::kInvalidModel);
}

TEST_CASE("a program of built-in parts needs no plugin") {
  NeededPlugins needed;
  needed.AddBackend("ref+nothing:streams=2");
  CHECK(needed.empty());
  CHECK(needed.ToText().empty());
}
