/// tensor_scatter_test.cc: rows into caches against their definition in the interpreter, and what
/// is left alone in the cache's own memory.
#include <doctest/doctest.h>

#include <cmath>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/pass/evaluator.h"

namespace weft::cpu {
namespace {

TensorPtr Begins(const std::vector<int64_t>& v) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(v.size())});
  for (size_t i = 0; i < v.size(); ++i) t->set_int(int64_t(i), v[i]);
  return t;
}

TEST_CASE("rows into a cache: every place that they can begin at") {
  for (const char* mode : {"linear", "circular"})
    for (int64_t axis : {1, 2, -1})
      for (int64_t a = -3; a < 8; ++a) {
        CAPTURE(mode);
        CAPTURE(axis);
        CAPTURE(a);
        Ns dims{2, 5, 6}, added = dims;
        added[size_t(axis < 0 ? axis + 3 : axis)] = 2;
        Case c("TensorScatter", {RandomTensor(dims, 1), RandomTensor(added, 2), Begins({a, 1})},
               {{"axis", axis}, {"mode", std::string(mode)}}, dims);
        const auto got = c.Run();
        REQUIRE(got);
        const TensorPtr want = GetEvaluator()->EvalNode(c.request.node, c.operands, {})[0];
        CHECK(CompareTensors(*got, *want, 0, 0) == 0);
      }
}

TEST_CASE("rows that begin far outside of a cache are none of it") {
  for (const int64_t begin : {INT64_MIN, INT64_MIN + 1, INT64_MAX}) {
    CAPTURE(begin);
    Case c("TensorScatter",
           {RandomTensor({1, 3, 2}, 1), RandomTensor({1, 5, 2}, 2), Begins({begin})},
           {{"axis", int64_t{1}}}, {1, 3, 2});
    CHECK(CompareTensors(*c.Run(), *c.operands[0], 0, 0) == 0);
  }
}

TEST_CASE("more rows than a circular cache has: the first of them stay") {
  Case c("TensorScatter", {RandomTensor({1, 3, 2}, 1), RandomTensor({1, 5, 2}, 2), Begins({2})},
         {{"axis", int64_t{1}}, {"mode", std::string("circular")}}, {1, 3, 2});
  const TensorPtr want = GetEvaluator()->EvalNode(c.request.node, c.operands, {})[0];
  CHECK(CompareTensors(*c.Run(), *want, 0, 0) == 0);
}

TEST_CASE("in its own memory nothing but the new rows is written") {
  Case c("TensorScatter",
         {RandomTensor({1, 2, 4, 3}, 1), RandomTensor({1, 2, 1, 3}, 2), Begins({2})},
         {{"axis", int64_t{2}}}, {1, 2, 4, 3});
  const TensorPtr want = GetEvaluator()->EvalNode(c.request.node, c.operands, {})[0];
  auto cache = std::make_shared<Tensor>(DType::kF32, Ns{1, 2, 4, 3});
  std::memcpy(cache->mutable_data(), c.operands[0]->data(), size_t(cache->num_bytes()));
  const auto call = c.Make();
  REQUIRE(call);
  const void* in[] = {cache->data(), c.operands[1]->data(), c.operands[2]->data()};
  void* out[] = {cache->mutable_data()};
  call->Run(in, out, nullptr);
  CHECK(CompareTensors(*cache, *want, 0, 0) == 0);
}

}  // namespace
}  // namespace weft::cpu
