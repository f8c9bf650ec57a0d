/// dequantized_matmul_test.cc: weft::DequantizedMatMul as a library call: its forms, what joins it,
/// and what it leaves to others.
#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"
#include "weft/runtime/backend/packing_call.h"

namespace weft::cpu {
namespace {

constexpr int64_t kDepth = 50, kColumns = 37, kBlock = 16, kBlocks = 4;

struct Operands {
  TensorPtr a, codes, scale, zero;
};
Operands Random(const Ns& front, bool transposed) {
  const auto integers = [](const Ns& dims, uint32_t seed) {
    std::vector<double> values;
    std::mt19937 random(seed);
    for (int64_t i = 0; i < CheckedProduct(dims); ++i) values.push_back(double(random() % 16));
    return Tensor::FromDoubles(DType::kU4, dims, values);
  };
  const Ns own = transposed ? Ns{kColumns, kDepth} : Ns{kDepth, kColumns},
           blocks = transposed ? Ns{kColumns, kBlocks} : Ns{kBlocks, kColumns};
  Ns dims = front;
  dims.push_back(kDepth);
  return {RandomTensor(dims, 1), integers(own, 2), RandomTensor(blocks, 3), integers(blocks, 4)};
}
std::vector<double> Sums(const Operands& o, bool transposed) {
  std::vector<double> y;
  for (int64_t i = 0; i < o.a->num_elements() / kDepth; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        const int64_t b = k / kBlock, s = transposed ? j * kBlocks + b : b * kColumns + j;
        const double q = o.codes->at(transposed ? j * kDepth + k : k * kColumns + j);
        sum += o.a->at(i * kDepth + k) * (q - o.zero->at(s)) * o.scale->at(s);
      }
      y.push_back(sum);
    }
  return y;
}
Case CaseOf(const Operands& o, Ns out, bool transposed) {
  return Case("weft::DequantizedMatMul", {o.a, o.codes, o.scale, o.zero},
              {{"block_size", kBlock}, {"transB", int64_t(transposed)}}, std::move(out),
              {false, true, true, true});
}

TEST_CASE("rows in any number of axes, both ways that a weight lies, blocks that do not divide") {
  for (const bool transposed : {false, true})
    for (const Ns& front : std::vector<Ns>{{}, {1}, {3}, {2, 5}, {2, 1, 9}}) {
      const Operands o = Random(front, transposed);
      Ns out = front;
      out.push_back(kColumns);
      const auto y = CaseOf(o, out, transposed).Run();
      REQUIRE(y);
      CHECK(Difference(*y, Sums(o, transposed)) < 2e-5);
    }
}

TEST_CASE("the call reads no constant, and says what it keeps") {
  const auto call = CaseOf(Random({1}, true), {1, kColumns}, true).Make();
  REQUIRE(call);
  CHECK(call->description().find("matmul of u4, packed") != std::string::npos);
  const auto* packing = dynamic_cast<const PackingCall*>(call.get());
  REQUIRE(packing);
  CHECK(packing->reads(0));
  for (const size_t i : {1, 2, 3}) CHECK(!packing->reads(i));
  std::map<const void*, int64_t> bytes;
  packing->AddPacked(&bytes);
  REQUIRE(bytes.size() == 1);
  // 48 columns of 4 blocks of 16 numbers, scales and zeros.
  CHECK(bytes.begin()->second == 48 * 4 * (8 + 4 + 1));
}

TEST_CASE("a row, a residual and an activation join") {
  for (const int64_t rows : {1, 6, 11}) {
    const Operands o = Random({rows}, true);
    Case c = CaseOf(o, {rows, kColumns}, true);
    const auto row = RandomTensor({kColumns}, 7), residual = RandomTensor({rows, kColumns}, 8);
    const auto follow = [&](const char* op, const TensorPtr& operand) {
      CallStep step;
      std::vector<NodeEntry> in{NodeEntry(c.request.node)};
      if (operand) {
        step.operand = int(c.operands.size());
        step.operand_dims = operand->dims();
        step.operand_type = DType::kF32;
        in.push_back(NodeEntry(
            c.graph.AddInput("o" + std::to_string(step.operand), DType::kF32, operand->shape())));
        c.operands.push_back(operand);
      }
      step.node = c.graph.AddNode(op, in);
      c.request.epilogue.push_back(step);
    };
    follow("Add", row);
    follow("Add", residual);
    follow("Relu", nullptr);
    const auto y = c.Run();
    REQUIRE(y);
    std::vector<double> want = Sums(o, true);
    for (size_t i = 0; i < want.size(); ++i)
      want[i] = std::max(0., want[i] + row->at(int64_t(i) % kColumns) + residual->at(int64_t(i)));
    CHECK(Difference(*y, want) < 2e-5);
  }
}

TEST_CASE("rows and results of f16: the weight is read by the call alone as well") {
  Operands o = Random({3}, true);
  std::vector<double> rows;
  for (int64_t i = 0; i < o.a->num_elements(); ++i) rows.push_back(o.a->at(i));
  o.a = Tensor::FromDoubles(DType::kF16, o.a->dims(), rows);
  Case c = CaseOf(o, {3, kColumns}, true);
  c.request.output_types = {DType::kF16};
  const auto call = c.Make();
  REQUIRE(call);
  const auto* packing = dynamic_cast<const PackingCall*>(call.get());
  REQUIRE(packing);
  CHECK(packing->reads(0));
  CHECK(!packing->reads(1));
  std::vector<uint8_t> scratch(size_t(call->scratch_bytes()) + 64);
  std::vector<const void*> in;
  for (const TensorPtr& t : c.operands) in.push_back(t->data());
  Tensor y(DType::kF16, {3, kColumns});
  void* out = y.mutable_data();
  const auto at = reinterpret_cast<uintptr_t>(scratch.data());
  call->Run(in.data(), &out, scratch.data() + (64 - at % 64) % 64);
  const std::vector<double> want = Sums(o, true);
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(std::abs(y.at(int64_t(i)) - want[i]) <= 2e-5 + std::abs(want[i]) * 0x1p-11);
}

TEST_CASE("what the call does not take") {
  Operands o = Random({2}, false);
  Case c = CaseOf(o, {2, kColumns}, false);
  for (const size_t i : {1, 2, 3}) {  // not constant
    Case open = CaseOf(o, {2, kColumns}, false);
    open.request.constants[i] = nullptr;
    CHECK(!open.Make());
  }
  c.request.output_types = {DType::kF64};
  CHECK(!c.Make());
  std::vector<double> scales(size_t(kBlocks * kColumns), 1);
  scales[5] = NAN;
  o.scale = Tensor::FromDoubles(DType::kF32, {kBlocks, kColumns}, scales);
  CHECK(!CaseOf(o, {2, kColumns}, false).Make());
}

TEST_CASE("no rows, and a sum of nothing") {
  Operands o = Random({0}, false);
  const auto none = CaseOf(o, {0, kColumns}, false).Run();
  REQUIRE(none);
  CHECK(none->num_elements() == 0);
}

}  // namespace
}  // namespace weft::cpu
