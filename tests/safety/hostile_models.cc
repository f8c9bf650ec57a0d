/// hostile_models.cc: sizes, attributes, graphs and headers. Files and functions are in
/// hostile_files.cc.
///
/// The tensor at fault, or the node and its result, is called "bad", so that the answer can be held
/// to name it.
#include "hostile_models.h"

#include <cmath>
#include <limits>

#include "hostile_parts.h"
#include "model_maker.h"

namespace weft::safety {
namespace {

constexpr int64_t kTera = int64_t{1} << 40;
constexpr int64_t kHuge = int64_t{1} << 62;
constexpr int64_t kSymbol = ModelMaker::kSymbol;

const std::vector<ErrorCode> kTooLarge = {ErrorCode::kLimit, ErrorCode::kOverflow};
const std::vector<ErrorCode> kRefused = {ErrorCode::kInvalidModel,  ErrorCode::kBadAttribute,
                                         ErrorCode::kShapeMismatch, ErrorCode::kTypeMismatch,
                                         ErrorCode::kLimit,         ErrorCode::kOverflow,
                                         ErrorCode::kArity};

using Table = std::vector<HostileModel>;

/// A model made by `fill`.
template <class F>
auto Made(F fill, int opset = 21) {
  return [fill, opset](const std::string&) {
    ModelMaker m(opset);
    fill(m);
    return m.Bytes();
  };
}

/// y = op(x, operands ...) with x of `dims`; `fill` adds operands and attributes.
template <class F>
auto OneNode(const char* op, Numbers dims, Names operands, F fill, int opset = 21) {
  return Made(
      [=](ModelMaker& m) {
        m.In("x", kF32, dims);
        m.Out("bad");
        Names inputs = {"x"};
        inputs.insert(inputs.end(), operands.begin(), operands.end());
        fill(m, Attrs(m.Node(op, inputs, {"bad"}, "bad")));
      },
      opset);
}

void AddGraphs(Table* t) {
  t->push_back({"cycle",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("y");
                  m.Node("Add", {"x", "c"}, {"a"}, "bad");
                  m.Node("Relu", {"a"}, {"b"});
                  m.Node("Neg", {"b"}, {"c"});
                  m.Node("Relu", {"c"}, {"y"});
                }),
                {ErrorCode::kCycle},
                "bad"});
  t->push_back({"self_loop",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("bad");
                  m.Node("Add", {"x", "bad"}, {"bad"}, "bad");
                }),
                {ErrorCode::kCycle},
                "bad"});
  t->push_back({"duplicate_name",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("bad");
                  m.Node("Relu", {"x"}, {"bad"});
                  m.Node("Neg", {"x"}, {"bad"}, "bad");
                }),
                {ErrorCode::kInvalidModel},
                "bad"});
  t->push_back({"undefined_input",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("bad");
                  m.Node("Add", {"x", "nowhere"}, {"bad"}, "bad");
                }),
                {ErrorCode::kInvalidModel},
                "bad"});
  t->push_back({"undefined_output",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("bad");
                  m.Node("Relu", {"x"}, {"y"});
                }),
                {ErrorCode::kInvalidModel},
                "bad"});
  t->push_back({"chain_200k",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("y");
                  constexpr int kNodes = 200'000;
                  for (int i = 0; i < kNodes; ++i)
                    m.Node("Relu", {i ? "t" + std::to_string(i) : "x"},
                           {i + 1 < kNodes ? "t" + std::to_string(i + 1) : "y"});
                }),
                {},
                "",
                true});
  t->push_back({"ten_thousand_inputs",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("bad");
                  m.Node("Sum", Names(10'000, "x"), {"bad"}, "bad");
                }),
                {ErrorCode::kLimit, ErrorCode::kUnsupported},
                "bad",
                true});
  t->push_back({"ten_thousand_inputs_of_two",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.Out("bad");
                  m.Node("Add", Names(10'000, "x"), {"bad"}, "bad");
                }),
                {ErrorCode::kArity},
                "bad"});
  t->push_back({"nested_if_30",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {2});
                  m.In("c", kBool, {});
                  m.Out("y");
                  pb::GraphProto body;
                  body.set_name("b");
                  ModelMaker::NodeOf(&body, "Relu", {"x"}, {"o"});
                  for (int i = 0; i < 30; ++i) {
                    body.clear_output();
                    body.add_output()->set_name("o");
                    pb::GraphProto other, outer;
                    other.set_name("e");
                    ModelMaker::NodeOf(&other, "Neg", {"x"}, {"p"});
                    other.add_output()->set_name("p");
                    outer.set_name("b");
                    Attrs(ModelMaker::NodeOf(&outer, "If", {"c"}, {"o"}, "bad"))
                        .Body("then_branch", body)
                        .Body("else_branch", other);
                    body = outer;
                  }
                  *m.graph->mutable_node() = body.node();
                  m.graph->mutable_node(0)->set_output(0, "y");
                }),
                {ErrorCode::kUnsupported, ErrorCode::kUnknownOp, ErrorCode::kInvalidModel},
                "",
                true});
  t->push_back({"names_with_code",
                Made([](ModelMaker& m) {
                  const std::string code = "*/ asm(\"hlt\"); /*\n#include \"/etc/passwd\"\n";
                  m.In(code, kF32, {2});
                  m.Out("y" + code);
                  m.Node("Relu", {code}, {code + "t"}, code);
                  m.Node("Exp", {code + "t"}, {"y" + code}, std::string("a\0b", 3));
                }),
                {},
                "",
                true});
  t->push_back({"strings_for_numbers",
                Made([](ModelMaker& m) {
                  m.In("x", kStr, {2});
                  m.Out("bad", kStr);
                  m.Node("Add", {"x", "x"}, {"bad"}, "bad");
                }),
                {ErrorCode::kTypeMismatch},
                "bad"});
  t->push_back({"deep_types",
                Made([](ModelMaker& m) {
                  auto* v = m.graph->add_input();
                  v->set_name("bad");
                  auto* type = v->mutable_type();
                  for (int i = 0; i < 40; ++i)
                    type = i % 2 ? type->mutable_optional_type()->mutable_elem_type()
                                 : type->mutable_sequence_type()->mutable_elem_type();
                  type->mutable_tensor_type()->set_elem_type(kF32);
                  m.Out("y");
                  m.Node("Identity", {"bad"}, {"y"});
                }),
                {ErrorCode::kInvalidModel, ErrorCode::kUnsupported, ErrorCode::kLimit,
                 ErrorCode::kTypeMismatch},
                "bad"});
  t->push_back({"zero_extents", Made([](ModelMaker& m) {
                  m.In("x", kF32, {0, 3, 0, 0});
                  m.In("w", kF32, {4, 3, 1, 1});
                  m.Out("y");
                  m.Out("s");
                  m.Out("p");
                  m.Node("Relu", {"x"}, {"r"});
                  m.Node("Conv", {"r", "w"}, {"y"});
                  m.Node("ReduceSum", {"r"}, {"s"});
                  Attrs(m.Node("Transpose", {"r"}, {"p"})).Ints("perm", {3, 2, 1, 0});
                }),
                kRefused, "", true});
  t->push_back({"zero_extents_matmul",
                Made([](ModelMaker& m) {
                  m.In("x", kF32, {3, 0});
                  m.In("w", kF32, {0, 5});
                  m.Out("y");
                  m.Out("z");
                  m.Node("MatMul", {"x", "w"}, {"y"});
                  m.Node("Softmax", {"x"}, {"z"});
                }),
                {},
                "",
                true});
}

void AddSizes(Table* t) {
  t->push_back({"negative_dim",
                OneNode("Relu", {-7}, {},
                        [](ModelMaker& m, Attrs) {
                          m.graph->mutable_input(0)->set_name("bad");
                          m.graph->mutable_node(0)->set_input(0, "bad");
                        }),
                {ErrorCode::kInvalidModel},
                "bad"});
  t->push_back({"input_of_2_to_80", OneNode("Relu", {kTera, kTera}, {}, [](ModelMaker&, Attrs) {}),
                kTooLarge, "x"});
  t->push_back({"lying_initializer",
                OneNode("Add", {3}, {"bad"},
                        [](ModelMaker& m, Attrs) {
                          m.Tensor("bad", kF32, {1000})->set_raw_data(std::string(12, '\0'));
                        }),
                {ErrorCode::kInvalidModel},
                "bad"});
  t->push_back({"constant_of_400_gb",
                OneNode("Add", {3}, {"bad"},
                        [](ModelMaker& m, Attrs) {
                          m.Tensor("bad", kF32, {100'000'000'000})->add_float_data(1);
                        }),
                {ErrorCode::kInvalidModel, ErrorCode::kLimit},
                "bad"});
  t->push_back(
      {"constant_of_2_to_64",
       OneNode("Add", {3}, {"bad"},
               [](ModelMaker& m, Attrs) {
                 m.Tensor("bad", kF32, {int64_t{1} << 32, int64_t{1} << 32})->set_raw_data("abcd");
               }),
       kTooLarge, "bad"});
  t->push_back(
      {"constant_node_of_400_gb",
       Made([](ModelMaker& m) {
         m.Out("bad");
         auto* a =
             Attrs(m.Node("Constant", {}, {"bad"}, "bad")).Add("value", pb::AttributeProto::TENSOR);
         a->mutable_t()->set_data_type(kF32);
         a->mutable_t()->add_dims(100'000'000'000);
         a->mutable_t()->add_float_data(1);
       }),
       {ErrorCode::kInvalidModel, ErrorCode::kLimit},
       "bad"});
  const auto constant_of_shape = [](Numbers shape) {
    return Made([=](ModelMaker& m) {
      m.Ints("s", shape);
      m.Out("bad");
      m.Node("ConstantOfShape", {"s"}, {"bad"}, "bad");
    });
  };
  t->push_back({"constant_of_shape_4_pb", constant_of_shape({kTera, 1024}), kTooLarge, "bad"});
  t->push_back({"constant_of_shape_overflow", constant_of_shape({kHuge, kHuge}), kTooLarge, "bad"});
  t->push_back({"constant_of_shape_negative", constant_of_shape({-5}), kRefused, "bad"});
  const auto tile = [](int64_t n) {
    return OneNode("Tile", {1024}, {"r"}, [=](ModelMaker& m, Attrs) { m.Ints("r", {n}); });
  };
  t->push_back({"tile_terabytes", tile(kTera), kTooLarge, "bad"});
  t->push_back({"tile_overflow", tile(kHuge), kTooLarge, "bad"});
  t->push_back({"tile_negative", tile(-1), kRefused, "bad"});
  t->push_back({"expand_terabytes",
                OneNode("Expand", {1}, {"s"},
                        [](ModelMaker& m, Attrs) {
                          m.Ints("s", {kTera, 4});
                        }),
                kTooLarge, "bad"});
  const auto pad = [](int64_t before, int64_t after) {
    return OneNode("Pad", {4}, {"p"}, [=](ModelMaker& m, Attrs) { m.Ints("p", {before, after}); });
  };
  t->push_back({"pad_terabytes", pad(kTera, kTera), kTooLarge, "bad"});
  t->push_back({"pad_overflow", pad(INT64_MAX, INT64_MAX), kTooLarge, "bad"});
  t->push_back({"pad_below_nothing", pad(-3, -3), kRefused, "bad"});
  t->push_back({"resize_terabytes",
                OneNode("Resize", {1, 1, 2, 2}, {"", "", "z"},
                        [](ModelMaker& m, Attrs) {
                          m.Ints("z", {1, 1, int64_t{1} << 21, kTera});
                        }),
                kTooLarge, "bad"});
  const auto scales = [](std::vector<float> values) {
    return OneNode("Resize", {1, 1, 2, 2}, {"", "s"},
                   [=](ModelMaker& m, Attrs) { m.Floats("s", values); });
  };
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  t->push_back({"resize_nan", scales({1, 1, nan, 1}), kRefused, "bad"});
  t->push_back({"resize_infinite", scales({1, 1, inf, 1}), kRefused, "bad"});
  t->push_back({"resize_negative", scales({1, 1, -2, 1}), kRefused, "bad"});
  t->push_back({"resize_1e30", scales({1, 1, 1e30F, 1e30F}), kRefused, "bad"});
  const auto range = [](int64_t limit, int64_t delta) {
    return Made([=](ModelMaker& m) {
      m.Scalar("a", 0);
      m.Scalar("b", limit);
      m.Scalar("d", delta);
      m.Out("bad", kI64);
      m.Node("Range", {"a", "b", "d"}, {"bad"}, "bad");
    });
  };
  t->push_back({"range_terabytes", range(kTera, 1), kTooLarge, "bad"});
  t->push_back({"range_step_0", range(10, 0), kRefused, "bad"});
  t->push_back({"range_of_int64_min", range(INT64_MIN, -1), kTooLarge, "bad"});
  t->push_back({"one_hot_terabytes", Made([](ModelMaker& m) {
                  m.In("x", kI64, {2});
                  m.Scalar("d", kTera);
                  m.Floats("v", {0, 1});
                  m.Out("bad");
                  m.Node("OneHot", {"x", "d", "v"}, {"bad"}, "bad");
                }),
                kTooLarge, "bad"});
  t->push_back({"concat_doubling", Made([](ModelMaker& m) {
                  m.Floats("t0", {1, 2, 3, 4});
                  m.Out("y");
                  for (int i = 0; i < 60; ++i) {
                    const std::string in = i == 0 ? "t0" : "bad" + std::to_string(i);
                    Attrs(m.Node("Concat", {in, in}, {i < 59 ? "bad" + std::to_string(i + 1) : "y"},
                                 "bad" + std::to_string(i)))
                        .Int("axis", 0);
                  }
                }),
                kTooLarge, "bad"});
  t->push_back({"matmul_terabytes", Made([](ModelMaker& m) {
                  m.In("x", kF32, {int64_t{1} << 24, 1});
                  m.In("w", kF32, {1, int64_t{1} << 24});
                  m.Out("bad");
                  m.Node("MatMul", {"x", "w"}, {"bad"}, "bad");
                }),
                kTooLarge, "bad"});
}

void AddAttributes(Table* t) {
  const auto pool = [](const char* attribute, Numbers values) {
    return OneNode("MaxPool", {1, 1, 8, 8}, {}, [=](ModelMaker&, Attrs a) {
      if (std::string(attribute) != "kernel_shape") a.Ints("kernel_shape", {2, 2});
      a.Ints(attribute, values);
    });
  };
  t->push_back({"kernel_negative", pool("kernel_shape", {-2, 2}), kRefused, "bad"});
  t->push_back({"kernel_huge", pool("kernel_shape", {kHuge, kHuge}), kRefused, "bad"});
  t->push_back({"kernel_of_rank_9", pool("kernel_shape", Numbers(9, 1)), kRefused, "bad"});
  t->push_back({"strides_0", pool("strides", {0, 0}), kRefused, "bad"});
  t->push_back({"dilations_2_to_62", pool("dilations", {kHuge, kHuge}), kRefused, "bad"});
  t->push_back({"pads_2_to_62", pool("pads", {kHuge, kHuge, kHuge, kHuge}), kRefused, "bad"});
  const auto conv = [](int64_t group) {
    return OneNode("Conv", {1, 4, 8, 8}, {"w"}, [=](ModelMaker& m, Attrs a) {
      m.In("w", kF32, {4, 4, 3, 3});
      a.Int("group", group);
    });
  };
  t->push_back({"group_0", conv(0), kRefused, "bad"});
  t->push_back({"group_huge", conv(kHuge), kRefused, "bad"});
  const auto attribute = [](const char* op, Numbers dims, const char* name, int64_t v) {
    return OneNode(op, std::move(dims), {}, [=](ModelMaker&, Attrs a) { a.Int(name, v); });
  };
  t->push_back({"axis_out_of_range", attribute("Softmax", {2, 3}, "axis", 2), kRefused, "bad"});
  t->push_back(
      {"axis_int64_min", attribute("Softmax", {2, 3}, "axis", INT64_MIN), kRefused, "bad"});
  t->push_back(
      {"blocksize_0", attribute("DepthToSpace", {1, 4, 2, 2}, "blocksize", 0), kRefused, "bad"});
  t->push_back({"perm_twice",
                OneNode("Transpose", {2, 3}, {},
                        [](ModelMaker&, Attrs a) {
                          a.Ints("perm", {0, 0});
                        }),
                kRefused, "bad"});
  t->push_back({"split_sum", Made([](ModelMaker& m) {
                  m.In("x", kF32, {8});
                  m.Ints("s", {kHuge, kHuge});
                  m.Out("bad");
                  m.Node("Split", {"x", "s"}, {"bad", "z"}, "bad");
                }),
                kRefused, "bad"});
  t->push_back({"gather_out_of_range",
                OneNode("Gather", {4}, {"i"},
                        [](ModelMaker& m, Attrs) {
                          m.Ints("i", {0, INT64_MAX});
                        }),
                {ErrorCode::kIndexRange, ErrorCode::kShapeMismatch, ErrorCode::kInvalidModel},
                "bad"});
  t->push_back({"slice_extremes",
                OneNode("Slice", {8}, {"b", "e", "a", "s"},
                        [](ModelMaker& m, Attrs) {
                          m.Ints("b", {INT64_MAX});
                          m.Ints("e", {INT64_MIN});
                          m.Ints("a", {-1});
                          m.Ints("s", {INT64_MIN});
                        }),
                kRefused, "bad", true});
  t->push_back({"slice_step_0",
                OneNode("Slice", {8}, {"b", "e", "a", "s"},
                        [](ModelMaker& m, Attrs) {
                          m.Ints("b", {0});
                          m.Ints("e", {8});
                          m.Ints("a", {0});
                          m.Ints("s", {0});
                        }),
                kRefused, "bad"});
  t->push_back({"top_k_huge", Made([](ModelMaker& m) {
                  m.In("x", kF32, {8});
                  m.Ints("k", {kTera});
                  m.Out("bad");
                  m.Node("TopK", {"x", "k"}, {"bad", "i"}, "bad");
                }),
                kRefused, "bad"});
  t->push_back({"reshape_overflow",
                OneNode("Reshape", {8}, {"s"},
                        [](ModelMaker& m, Attrs) {
                          m.Ints("s", {kHuge, kHuge, 4});
                        }),
                kRefused, "bad"});
  t->push_back({"einsum_garbage",
                OneNode("Einsum", {2, 2}, {},
                        [](ModelMaker&, Attrs a) { a.String("equation", "ij,,->((%s\n"); }),
                kRefused, "bad"});
  t->push_back({"space_of_symbol",
                OneNode("Tile", {kSymbol}, {"r"},
                        [](ModelMaker& m, Attrs) { m.Ints("r", {int64_t{1} << 50}); }),
                kTooLarge, "bad"});
}

void AddHeaders(Table* t) {
  t->push_back(
      {"empty", [](const std::string&) { return std::string(); }, {ErrorCode::kInvalidModel}, ""});
  t->push_back({"random",
                [](const std::string&) {
                  std::string bytes;
                  uint32_t x = 12345;
                  for (int i = 0; i < 4096; ++i)
                    bytes += char((x = x * 1664525 + 1013904223) >> 24);
                  return bytes;
                },
                {ErrorCode::kInvalidModel},
                ""});
  t->push_back({"truncated",
                [](const std::string&) {
                  ModelMaker m;
                  m.In("x", kF32, {2});
                  m.Out("y");
                  m.Node("Relu", {"x"}, {"y"});
                  const std::string bytes = m.Bytes();
                  return bytes.substr(0, bytes.size() - 7);
                },
                {ErrorCode::kInvalidModel},
                ""});
  t->push_back({"opset_of_the_future",
                Made([](ModelMaker& m) { m.Out("y"); }, 1'000'000),
                {ErrorCode::kUnsupported},
                "operator set 1000000"});
}

}  // namespace

const std::vector<HostileModel>& HostileModels() {
  static const Table table = [] {
    Table t;
    AddGraphs(&t);
    AddSizes(&t);
    AddAttributes(&t);
    AddHeaders(&t);
    AddFiles(&t);
    AddFunctions(&t);
    return t;
  }();
  return table;
}

}  // namespace weft::safety
