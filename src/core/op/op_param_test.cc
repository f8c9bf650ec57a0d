/// op_param_test.cc: attribute structs: typed assignment, defaults, ranges, enums, 2016
/// dictionaries, messages.
#include "weft/core/op/op_param.h"

#include <doctest/doctest.h>

#include <cmath>

#include "weft/support/error.h"

namespace weft {
namespace {

enum Mode { kConstant, kReflect };

struct EveryParam : OpParam<EveryParam> {
  int64_t axis;
  int mode;
  bool keep;
  double alpha;
  float beta;
  std::string text;
  DTypeField to;
  Shape dims;
  Ints pads;
  Floats scales;
  Strings names;
  TensorAttr value;
  GraphAttr body;
  WEFT_OP_PARAM(EveryParam) {
    WEFT_FIELD(axis).set_range(-4, 4).describe("axis of the sum");
    WEFT_FIELD(mode)
        .add_enum("constant", kConstant)
        .add_enum("reflect", kReflect)
        .set_default(kConstant);
    WEFT_FIELD(keep).set_default(true).describe("keeps the axis");
    WEFT_FIELD(alpha).set_default(0.5).set_lower_bound(0);
    WEFT_FIELD(beta).set_default(0.1f);
    WEFT_FIELD(text).set_default("NOTSET");
    WEFT_FIELD(to).set_default({DType::kF32});
    WEFT_FIELD(dims).set_default({});
    WEFT_FIELD(pads).set_default({1, 2});
    WEFT_FIELD(scales).set_default({0.5});
    WEFT_FIELD(names).set_default({"a", "b c"});
    WEFT_FIELD(value).set_default({});
    WEFT_FIELD(body).set_default({});
  }
};
WEFT_REGISTER_OP_PARAM(EveryParam);

struct NeedsTensor : OpParam<NeedsTensor> {
  TensorAttr value;
  DTypeField dtype;
  WEFT_OP_PARAM(NeedsTensor) {
    WEFT_FIELD(value).describe("the value");
    WEFT_FIELD(dtype);
  }
};
WEFT_REGISTER_OP_PARAM(NeedsTensor);

std::shared_ptr<const EveryParam> Parse(const AttrDict& d) {
  return std::static_pointer_cast<const EveryParam>(EveryParam::Schema()->Parse(d));
}

/// Code and message of what parsing throws; "" when it does not.
std::string Problem(const AttrDict& d) {
  try {
    Parse(d);
  } catch (const UserError& e) {
    CHECK(e.code() == ErrorCode::kBadAttribute);
    return e.what();
  }
  return "";
}
bool Has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

TEST_CASE("the schema describes its fields") {
  const ParamSchema* s = EveryParam::Schema();
  CHECK(s->name == "EveryParam");
  REQUIRE(s->fields.size() == 13);
  const auto row = [&](const char* name) {
    const ParamField* f = s->find(name);
    REQUIRE(f);
    return f->type + " = " + (f->required ? "required" : f->default_text);
  };
  CHECK(row("axis") == "int = required");
  CHECK(row("mode") == "{'constant', 'reflect'} = constant");
  CHECK(row("keep") == "bool = 1");
  CHECK(row("alpha") == "float = 0.5");
  CHECK(row("text") == "string = \"NOTSET\"");
  CHECK(row("to") == "dtype = f32");
  CHECK(row("dims") == "shape = ?");
  CHECK(row("pads") == "ints = [1, 2]");
  CHECK(row("scales") == "floats = [0.5]");
  CHECK(row("names") == "strings = [\"a\", \"b c\"]");
  CHECK(row("value") == "tensor = none");
  CHECK(row("body") == "graph = none");
  CHECK(s->find("axis")->doc == "axis of the sum");
  CHECK(s->fields[0].name == "axis");
  CHECK(s->find("nothing") == nullptr);
  CHECK(EveryParam::Schema() == s);
}

TEST_CASE("defaults, and values by type") {
  auto p = Parse({{"axis", 2}});
  CHECK(p->axis == 2);
  CHECK(p->mode == kConstant);
  CHECK(p->keep);
  CHECK(p->alpha == 0.5);
  CHECK(p->text == "NOTSET");
  CHECK(p->to.dtype == DType::kF32);
  CHECK(p->pads == Ints{1, 2});
  CHECK(p->names == Strings{"a", "b c"});
  CHECK(!p->value.tensor);
  const TensorPtr t = Tensor::Ints({3});
  p = Parse({{"axis", -1},
             {"mode", "reflect"},
             {"keep", false},
             {"alpha", 3},  // an integer where a float is wanted
             {"beta", 0.25},
             {"text", "[1, 2]"},
             {"to", DType::kBF16},
             {"dims", Shape{SymInt::Symbol("n")}},
             {"pads", Ints{}},
             {"scales", Ints{1, 2}},
             {"names", Ints{}},
             {"value", t}});
  CHECK(p->mode == kReflect);
  CHECK_FALSE(p->keep);
  CHECK(p->alpha == 3);
  CHECK(p->beta == 0.25f);
  CHECK(p->text == "[1, 2]");
  CHECK(p->to.dtype == DType::kBF16);
  CHECK(p->dims.rank() == 1);
  CHECK(p->pads.empty());
  CHECK(p->scales == Floats{1, 2});
  CHECK(p->names.empty());
  CHECK(p->value.tensor == t);
  for (const ParamField& f : EveryParam::Schema()->fields) {
    if (f.name == "pads") CHECK(f.read(p.get()) == AttrValue(Ints{}));
    if (f.name == "value") CHECK(f.read(p.get()) == AttrValue(t));
  }
}

TEST_CASE("strings of a 2016 dictionary") {
  auto p = Parse({{"axis", "3"},
                  {"keep", "False"},
                  {"alpha", "1e-3"},
                  {"beta", "2"},
                  {"to", "f16"},
                  {"pads", "(1,2)"},
                  {"scales", "[0.5, 2]"},
                  {"names", "[x, \"y, z\"]"},
                  {"dims", "[2, n]"},
                  {"__shape__", "(1,)"}});
  CHECK(p->axis == 3);
  CHECK_FALSE(p->keep);
  CHECK(p->alpha == 1e-3);
  CHECK(p->to.dtype == DType::kF16);
  CHECK(p->pads == Ints{1, 2});
  CHECK(p->scales == Floats{0.5, 2});
  CHECK(p->names == Strings{"x", "y, z"});
  CHECK(p->dims.ToString() == "[2, n]");
  CHECK(Parse({{"axis", "1"}, {"pads", "(3,)"}})->pads == Ints{3});
  CHECK(Parse({{"axis", "1"}, {"pads", "7"}})->pads == Ints{7});
  CHECK(Parse({{"axis", "1"}, {"pads", "()"}})->pads.empty());
  for (const char* bad : {"(1,x)", "[1", "(1]", "1 2"})
    CHECK(Has(Problem({{"axis", 1}, {"pads", bad}}), "pads"));
  CHECK(Has(Problem({{"axis", "two"}}), "axis"));
  CHECK(Has(Problem({{"axis", 1}, {"to", "float32"}}), "'to'"));
  CHECK(Has(Problem({{"axis", 1}, {"keep", "maybe"}}), "'keep'"));
}

TEST_CASE("what must fail says which attribute and why") {
  CHECK(Has(Problem({}), "attribute 'axis' of EveryParam: is required"));
  CHECK(Has(Problem({{"axis", 5}}), "axis"));
  CHECK(Has(Problem({{"axis", 5}}), "[-4,4]"));
  CHECK(Has(Problem({{"axis", 5}}), "axis of the sum"));
  CHECK(Has(Problem({{"axis", "5"}}), "[-4,4]"));
  CHECK(Has(Problem({{"axis", 1.5}}), "expected a value of type int, got float 1.5"));
  CHECK(Has(Problem({{"axis", Ints{1}}}), "expected a value of type int, got ints [1]"));
  CHECK(Has(Problem({{"axis", 1}, {"alpha", -1}}), "alpha"));
  CHECK(Has(Problem({{"axis", 1}, {"keep", 2}}), "out of range [0, 1]"));
  CHECK(Has(Problem({{"axis", 1}, {"mode", "edge"}}), "'constant', 'reflect'"));
  CHECK(Has(Problem({{"axis", 1}, {"mode", int64_t{1} << 40}}), "out of range"));
  CHECK(Has(Problem({{"axis", 1}, {"beta", 1e300}}), "32-bit"));
  CHECK(Has(Problem({{"axis", 1}, {"text", 1}}), "expected a value of type string"));
  CHECK(Has(Problem({{"axis", 1}, {"to", 1}}), "expected a value of type dtype"));
  CHECK(Has(Problem({{"axis", 1}, {"value", 1}}), "expected a value of type tensor"));
  CHECK(Has(Problem({{"axis", 1}, {"pad", 1}}), "did you mean 'pads'?"));
  CHECK(Has(Problem({{"axis", 1}, {"zzzzz", 1}}), "it takes axis, mode"));
}

TEST_CASE("a tensor or dtype without default is required") {
  const ParamSchema* s = NeedsTensor::Schema();
  CHECK(s->find("value")->required);
  CHECK(s->find("value")->type == "tensor");
  CHECK(s->find("dtype")->required);
  CHECK_THROWS_AS(s->Parse({{"dtype", DType::kF32}}), UserError);
  CHECK_NOTHROW(s->Parse({{"dtype", DType::kF32}, {"value", Tensor::Ints({1})}}));
}

TEST_CASE("attribute values compare by value and convert") {
  CHECK(AttrValue(1) != AttrValue(1.0));
  CHECK(AttrValue(Tensor::Ints({1})) == AttrValue(Tensor::Ints({1})));
  CHECK(AttrValue(Tensor::Ints({1})) != AttrValue(Tensor::Ints({2})));
  CHECK(AttrValue(std::nan("")) == AttrValue(std::nan("")));
  CHECK(AttrValue(0.0) != AttrValue(-0.0));
  CHECK(AttrValue(3).get<double>() == 3.0);
  CHECK(AttrValue(Ints{1}).get<Floats>() == Floats{1});
  CHECK(AttrValue(true).get<bool>());
  CHECK_THROWS_AS(AttrValue("x").get<double>(), UserError);
  CHECK_THROWS_AS(AttrValue().get<int64_t>(), UserError);
  CHECK(std::string(AttrValue(1e-5)) == "1e-05");
  CHECK(std::string(AttrValue(2.0)) == "2.0");
  CHECK(std::string(AttrValue("a b")) == "a b");
  CHECK(std::string(AttrValue(Shape{2, SymInt()})) == "[2, ?]");
  AttrDict d{{"b", 1}, {"a", 2}, {"c", 3}};
  d["b"] = 4;
  std::string order;
  for (const auto& [name, value] : d) order += name + std::string(value);
  CHECK(order == "a2b4c3");
  CHECK(d.erase("b"));
  CHECK_FALSE(d.erase("b"));
  CHECK(d.count("b") == 0);
  CHECK_THROWS_AS(d.at("b"), UserError);
  CHECK(d == AttrDict{{"c", 3}, {"a", 2}});
}

}  // namespace
}  // namespace weft
