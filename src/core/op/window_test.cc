/// window_test.cc: padding and output extents of sliding windows against their definitions, at
/// fixed and at symbolic extents.
#include "weft/core/op/window.h"

#include <doctest/doctest.h>

#include "weft/core/op/op.h"

namespace weft {
namespace {

using Dims = std::vector<int64_t>;

WEFT_REGISTER_OP(TestWindow).set_num_inputs(0);

struct Axis {
  int64_t kernel, stride, dilation, begin, end;
  bool ceil;
  AttrDict attrs() const {
    return {{"strides", Ints{stride}},
            {"dilations", Ints{dilation}},
            {"pads", Ints{begin, end}},
            {"ceil_mode", int64_t(ceil)}};
  }
};

template <class F>
void ForAxes(F&& f) {
  for (int64_t kernel : {1, 2, 3})
    for (int64_t stride : {1, 2, 3})
      for (int64_t dilation : {1, 2})
        for (int64_t begin : {0, 1, 2})
          for (int64_t end : {0, 1, 3})
            for (const bool ceil : {false, true})
              f(Axis{kernel, stride, dilation, begin, end, ceil});
}

/// Windows over `extent` by the words of the standard; 0: not even the first one has a place.
int64_t CountOf(const Axis& a, int64_t extent) {
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  int64_t count = 0;
  for (;; ++count) {
    const int64_t at = count * a.stride;
    const bool inside = at + reach <= extent + a.begin + a.end,
               hangs = a.ceil && at < extent + a.begin &&
                       at + reach < extent + a.begin + a.end + a.stride;
    if (!inside && !hangs) return count;
    // In ceil mode a window that would start in the end padding is dropped.
    if (a.ceil && at >= extent + a.begin) return count;
  }
}

TEST_CASE("windows: padding given, at fixed and at symbolic extents") {
  Graph g;
  const SymInt n = SymInt::Symbol("n");
  ForAxes([&](const Axis& a) {
    const NodePtr node = g.AddNode("TestWindow", {}, a.attrs());
    WindowAttrs attrs = WindowAttrsOf(node);
    REQUIRE(!CompleteWindowAttrs(&attrs, 1));
    const SymWindow symbolic = ResolveWindow(attrs, {n}, {a.kernel}, nullptr);
    for (int64_t extent = 1; extent < 9; ++extent) {
      CAPTURE(extent);
      const int64_t count = CountOf(a, extent);
      const bool fits = Evaluate(symbolic.room[0], {{"n", extent}}) >= 0;
      CHECK(fits == (count > 0));
      if (!fits) continue;
      CHECK(Evaluate(symbolic.out[0], {{"n", extent}}) == count);
      const auto fixed = WindowShapeOf(node, {extent}, {a.kernel}, {count});
      REQUIRE(fixed);
      CHECK(fixed->begin == Dims{a.begin});
      CHECK(fixed->end[0] - fixed->overhang[0] == a.end);
      CHECK(extent + fixed->begin[0] + fixed->end[0] >= fixed->covered(0));
      CHECK(fixed->hangs_over() == (fixed->covered(0) > extent + a.begin + a.end));
    }
  });
}

TEST_CASE("windows: of a derived padding SAME_UPPER puts the larger half at the end") {
  Graph g;
  struct Row {
    const char* mode;
    int64_t in, kernel, stride, out, begin, end;
  };
  for (const Row& r : std::vector<Row>{{"SAME_UPPER", 5, 3, 2, 3, 1, 1},
                                       {"SAME_UPPER", 5, 2, 2, 3, 0, 1},
                                       {"SAME_LOWER", 5, 2, 2, 3, 1, 0},
                                       {"SAME_LOWER", 7, 4, 1, 7, 2, 1},
                                       {"SAME_UPPER", 4, 1, 3, 2, 0, 0},
                                       {"VALID", 5, 2, 2, 2, 0, 0}}) {
    CAPTURE(r.mode);
    CAPTURE(r.kernel);
    const NodePtr node =
        g.AddNode("TestWindow", {}, {{"auto_pad", r.mode}, {"strides", Ints{r.stride}}});
    WindowAttrs attrs = WindowAttrsOf(node);
    REQUIRE(!CompleteWindowAttrs(&attrs, 1));
    CHECK(ResolveWindow(attrs, {r.in}, {r.kernel}, nullptr).out[0].is(r.out));
    const auto w = WindowShapeOf(node, {r.in}, {r.kernel}, {r.out});
    REQUIRE(w);
    CHECK(w->begin == Dims{r.begin});
    CHECK(w->end == Dims{r.end});
    CHECK(!w->hangs_over());
  }
}

TEST_CASE("windows: of a ConvTranspose they are those of the Conv that it is the transpose of") {
  Graph g;
  struct Row {
    AttrDict attrs;
    int64_t x, kernel, y, begin, end;
  };
  const Ints two{2};
  for (const Row& r : std::vector<Row>{
           {{{"strides", two}}, 3, 3, 7, 0, 0},
           {{{"strides", two}, {"pads", Ints{1, 0}}}, 3, 3, 6, 1, 0},
           {{{"strides", two}, {"output_padding", Ints{1}}}, 3, 3, 8, 0, -1},
           {{{"strides", two}, {"auto_pad", "SAME_UPPER"}}, 3, 3, 6, 0, 1},
           {{{"strides", two}, {"auto_pad", "SAME_LOWER"}}, 3, 3, 6, 1, 0},
           {{{"strides", two}, {"auto_pad", "VALID"}, {"pads", Ints{1, 1}}}, 3, 3, 7, 0, 0},
           {{{"strides", two}, {"output_shape", Ints{4}}}, 3, 3, 4, 2, 1},
           {{{"strides", two}, {"output_shape", Ints{1, 8, 4}}}, 3, 3, 4, 2, 1},
           {{{"strides", two}, {"output_shape", Ints{9}}}, 3, 3, 9, 0, -2}}) {
    CAPTURE(r.y);
    const NodePtr node = g.AddNode("TestWindow", {}, r.attrs);
    WindowAttrs attrs = WindowAttrsOf(node);
    REQUIRE(!CompleteWindowAttrs(&attrs, 1));
    CHECK(ResolveTransposedWindow(attrs, {r.x}, {r.kernel}, nullptr).in[0].is(r.y));
    const auto w = TransposedWindowShapeOf(node, {r.x}, {r.kernel}, {r.y});
    REQUIRE(w);
    CHECK(w->in == Dims{r.y});
    CHECK(w->out == Dims{r.x});
    CHECK(w->begin == Dims{r.begin});
    CHECK(w->end == Dims{r.end});
    CHECK(w->covered(0) == r.y + r.begin + r.end);
  }
}

TEST_CASE("windows: what is wrong with attributes") {
  Graph g;
  struct Row {
    AttrDict attrs;
    const char* fault;
  };
  for (const Row& r : std::vector<Row>{
           {{{"auto_pad", "SAME"}}, "auto_pad 'SAME'"},
           {{{"strides", Ints{1}}}, "1 strides for 2 spatial axes"},
           {{{"dilations", Ints{1, 0}}}, "dilations must be positive, got 0"},
           {{{"pads", Ints{1, 1}}}, "2 pads for 2 spatial axes"},
           {{{"pads", Ints{0, 0, -1, 0}}}, "pads must be 0 or more, got -1"},
           {{{"output_padding", Ints{0, 1}}},
            "output_padding 1 is not less than stride 1 or dilation 1"},
           {{{"output_shape", Ints{1, 2, 3}}}, "output_shape of length 3 for 2 spatial axes"}}) {
    const NodePtr node = g.AddNode("TestWindow", {}, r.attrs);
    WindowAttrs attrs = WindowAttrsOf(node);
    const auto fault = CompleteWindowAttrs(&attrs, 2);
    REQUIRE(fault);
    CHECK(*fault == r.fault);
    CHECK(!WindowShapeOf(node, {4, 4}, {1, 1}, {4, 4}));
    CHECK(!TransposedWindowShapeOf(node, {4, 4}, {1, 1}, {4, 4}));
  }
  const NodePtr node = g.AddNode("TestWindow", {}, {});
  CHECK(!WindowShapeOf(node, {4, 4}, {1}, {4, 4}));
  CHECK(WindowShapeOf(node, {4, 4}, {1, 1}, {4, 4}));
}

TEST_CASE("windows: an average over nothing") {
  WindowShape w{{5}, {3}, {5}, {1}, {1}, {1}, {1}};
  CHECK(!w.may_miss());
  w.begin = {3};
  CHECK(w.may_miss());
  w = {{1}, {2}, {1}, {1}, {2}, {1}, {1}};
  CHECK(w.may_miss());
}

}  // namespace
}  // namespace weft
