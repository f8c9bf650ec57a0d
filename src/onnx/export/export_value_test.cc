/// export_value_test.cc: values as messages of their own, read back.
#include <doctest/doctest.h>

#include "tests/support/temp_folder.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/support/error.h"

namespace weft {
namespace {

TensorPtr StringsOf(std::vector<std::string> v) {
  auto t = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{int64_t(v.size())});
  t->mutable_strings() = std::move(v);
  return t;
}

}  // namespace

TEST_CASE("a value written as its message reads back equal, whatever its type") {
  const e2e::TempFolder folder;
  auto four = std::make_shared<Tensor>(DType::kI4, std::vector<int64_t>{3});
  for (int i = 0; i < 3; ++i) four->set_int(i, i - 2);
  const TensorPtr f = Tensor::FromDoubles(DType::kF32, {2, 1}, {1, -2});
  const TensorPtr pair = Tensor::List(Type(TypeKind::kSequence, DType::kF32), {f, f});
  const Type of_sequence(TypeKind::kOptionalSequence, DType::kF32);
  const TensorPtr map = Tensor::Map(StringsOf({"b", "a"}),
                                    Tensor::FromDoubles(DType::kF32, {2}, {1, 2})),
                  texts = Tensor::Map(Tensor::Ints({-3}), StringsOf({"x"}));
  for (const TensorPtr& v :
       {map, texts,
        Tensor::List(Type(TypeKind::kMapSequence, DType::kF32, DType::kString), {map, map}), f,
        TensorPtr(four), StringsOf({"a", "", "\xff"}), pair,
        Tensor::List(Type(TypeKind::kSequence, DType::kString), {StringsOf({"b"})}),
        Tensor::List(Type(TypeKind::kSequence, DType::kI64), {}),
        Tensor::List(Type(TypeKind::kOptional, DType::kF32), {f}),
        Tensor::List(Type(TypeKind::kOptional, DType::kF32), {}), Tensor::List(of_sequence, {pair}),
        Tensor::List(of_sequence, {})}) {
    CAPTURE(v->type().ToString());
    const std::string path = folder.Write("v.pb", FormatValueProto(*v, "v"));
    CHECK(ReadValueProto(path, v->type())->Equals(*v));
  }
}

TEST_CASE("a sequence of another type than the one asked for is refused") {
  const e2e::TempFolder folder;
  const TensorPtr f = Tensor::FromDoubles(DType::kF32, {1}, {1});
  const TensorPtr s = Tensor::List(Type(TypeKind::kSequence, DType::kF32), {f});
  const std::string path = folder.Write("v.pb", FormatValueProto(*s, "v"));
  try {
    ReadValueProto(path, Type(TypeKind::kSequence, DType::kI64));
    FAIL("it was read");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kBadTensorFile);
  }
  const TensorPtr map = Tensor::Map(Tensor::Ints({1}), f);
  const std::string file = folder.Write("m.pb", FormatValueProto(*map, "m"));
  for (const Type other : {Type(TypeKind::kMap, DType::kF32, DType::kString),
                           Type(TypeKind::kMap, DType::kF64, DType::kI64)})
    CHECK_THROWS_AS(ReadValueProto(file, other), UserError);
  CHECK_THROWS_AS(Tensor::List(Type(DType::kF32), {f}), UserError);
  CHECK_THROWS_AS(Tensor::List(Type(TypeKind::kOptional, DType::kF32), {f, f}), UserError);
}

}  // namespace weft
