/// result_allocator_test.cc: results born as the caller's tensors, in every kind of program, and
/// what is refused of them.
#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/support/counting_device.h"
#include "tests/support/e2e_util.h"

namespace weft::e2e {
namespace {

/// A caller that gives memory of its own and remembers what it was asked for.
struct Caller {
  struct Asked {
    size_t index;
    DType dtype;
    std::vector<int64_t> dims;
    std::shared_ptr<Tensor> gave;
  };
  std::vector<Asked> asked;
  ResultAllocator allocator() {
    return [this](size_t index, DType dtype, const std::vector<int64_t>& dims) {
      // NaN: what a run leaves unwritten is seen.
      auto memory = std::make_shared<std::vector<char>>(
          size_t(DTypeBytes(dtype, NumElements(dims))) + 1, char(0xff));
      void* data = memory->data();
      auto t = std::make_shared<Tensor>(dtype, dims, data, std::move(memory));
      asked.push_back({index, dtype, dims, t});
      return t;
    };
  }
};

struct Kind {
  std::string name;
  const char* graph;
  std::string backend;
};
std::vector<Kind> Kinds() {
  static const char* const kPlain =
      "graph (%x: f32[n, 4], %k: f32[4]) -> (%y, %x, %i, %y) {\n"
      "  %s = Add(%x, %k) : ?\n  %y = Mul(%s, %s) : ?\n  %i = Shape(%x) : ?\n}\n";
  // Sizes that depend on data: regions, and routines between them that write outputs.
  static const char* const kRegions =
      "graph (%x: f32[n, 4], %k: f32[4]) -> (%z, %t, %b) {\n"
      "  %s = Add(%x, %k) : ?\n  %z = NonZero(%s) : ?\n  %f = Cast(%z) {to = f32} : ?\n"
      "  %t = Mul(%f, %f) : ?\n  %b = Relu(%x) : ?\n}\n";
  std::vector<Kind> kinds = {{"reference", kPlain, "ref"}, {"regions, reference", kRegions, "ref"}};
  if (StartCountingDevice())
    kinds.insert(kinds.end(), {{"plan", kPlain, "cpu"},
                               {"regions", kRegions, "cpu"},
                               {"device", kPlain, "counting"},
                               {"regions, device", kRegions, "counting"}});
  return kinds;
}

TEST_CASE("results are born in tensors of the caller, in every kind of program") {
  for (const Kind& kind : Kinds()) {
    CAPTURE(kind.name);
    const Graph g = FromText(kind.graph);
    const auto program = CompileFor(g, kind.backend);
    Session session(program);
    Caller caller;
    session.set_result_allocator(caller.allocator());
    for (const int n : {3, 5, 5}) {
      const Reference r = RunReference(g, uint64_t(n), {{"n", n}});
      caller.asked.clear();
      std::vector<TensorPtr> got = session.Run(r.inputs);
      CHECK(Difference(got, r.outputs) <= 1);
      REQUIRE(caller.asked.size() == got.size());
      for (const Caller::Asked& a : caller.asked) CHECK(got[a.index].get() == a.gave.get());
    }
    // Given tensors are written as ever; then nobody is asked.
    const Reference r = RunReference(g, 5, {{"n", 5}});
    std::vector<std::shared_ptr<Tensor>> bound;
    for (const TensorPtr& t : r.outputs)
      bound.push_back(std::make_shared<Tensor>(t->dtype(), t->dims()));
    CHECK((session.RunBound(r.inputs, bound) == bound));
    CHECK(Difference({bound.begin(), bound.end()}, r.outputs) <= 1);
    caller.asked.clear();
    session.set_result_allocator(nullptr);
    CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
    CHECK(caller.asked.empty());
  }
}

TEST_CASE("a tensor that cannot be the result is refused, and the session stays good") {
  for (const Kind& kind : Kinds()) {
    CAPTURE(kind.name);
    const Graph g = FromText(kind.graph);
    Session session(CompileFor(g, kind.backend));
    const Reference r = RunReference(g, 1, {{"n", 3}});
    const auto refused = [&](const ResultAllocator& make) {
      session.set_result_allocator(make);
      const auto caught = Catch([&] { session.Run(r.inputs); });
      session.set_result_allocator(nullptr);
      CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
      REQUIRE(caught);
      CHECK(caught->code == ErrorCode::kBadBinding);
      return caught->text;
    };
    using Dims = std::vector<int64_t>;
    const auto says = [](const std::string& text, const char* part) {
      CAPTURE(text);
      CHECK(text.find(part) != std::string::npos);
    };
    says(refused([](size_t, DType, const Dims&) { return nullptr; }), "gave nothing for output");
    says(refused(
             [](size_t, DType, const Dims& d) { return std::make_shared<Tensor>(DType::kI8, d); }),
         "and gave i8[");
    says(refused([](size_t, DType t, const Dims&) {
           return std::make_shared<Tensor>(t, Dims{7, 7, 7});
         }),
         "[7, 7, 7]");
    says(refused([](size_t, DType t, const Dims& d) {
           auto made = std::make_shared<Tensor>(t, d);
           made->set_read_only();
           return made;
         }),
         "read-only");
    says(refused([](size_t, DType t, const Dims& d) {
           return std::make_shared<Tensor>(t, d, nullptr, nullptr);
         }),
         "without memory");
    const auto input = std::const_pointer_cast<Tensor>(r.inputs[0]);
    says(refused([&](size_t, DType t, const Dims& d) {
           return std::make_shared<Tensor>(t, d, input->mutable_data(), input);
         }),
         "that an input");
    std::vector<char> shared(1 << 16);
    says(refused([&](size_t, DType t, const Dims& d) {
           return std::make_shared<Tensor>(t, d, shared.data(), nullptr);
         }),
         "another result");
  }
}

TEST_CASE("what an allocator throws goes through, and the session stays good") {
  struct Stop : std::runtime_error {
    Stop() : std::runtime_error("stop") {}
  };
  for (const Kind& kind : Kinds()) {
    CAPTURE(kind.name);
    const Graph g = FromText(kind.graph);
    Session session(CompileFor(g, kind.backend));
    const Reference r = RunReference(g, 1, {{"n", 3}});
    for (size_t last = 0; last < 3; ++last) {
      Caller caller;
      const ResultAllocator makes = caller.allocator();
      session.set_result_allocator(
          [&](size_t index, DType t, const std::vector<int64_t>& d) -> std::shared_ptr<Tensor> {
            if (caller.asked.size() == last) throw Stop();
            return makes(index, t, d);
          });
      CHECK_THROWS_AS(session.Run(r.inputs), Stop);
      session.set_result_allocator(
          [](size_t, DType, const std::vector<int64_t>&) -> std::shared_ptr<Tensor> {
            throw std::bad_alloc();
          });
      const auto caught = Catch([&] { session.Run(r.inputs); });
      REQUIRE(caught);
      CHECK(caught->code == ErrorCode::kOutOfMemory);
      session.set_result_allocator(makes);
      CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
    }
  }
}

TEST_CASE("strings and sequences are Weft's, whoever makes results") {
  const Graph g = FromText(
      "graph (%s: str[2], %x: f32[2]) -> (%t, %q, %y) {\n  %t = StringConcat(%s, %s) : ?\n"
      "  %q = SequenceConstruct(%x, %x) : ?\n  %y = Neg(%x) : ?\n}\n");
  auto words = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{2});
  words->mutable_strings() = {"ab", "c"};
  Reference r;
  r.inputs = {words, Tensor::FromDoubles(DType::kF32, {2}, {1, -2})};
  r.outputs = GetEvaluator()->Eval(g, r.inputs);
  for (const std::string backend : {"cpu", "ref"}) {
    if (backend == "cpu" && !HasCpu()) continue;
    CAPTURE(backend);
    Session session(CompileFor(g, backend));
    Caller caller;
    session.set_result_allocator(caller.allocator());
    const std::vector<TensorPtr> got = session.Run(r.inputs);
    REQUIRE(caller.asked.size() == 1);
    CHECK(caller.asked[0].index == 2);
    CHECK(got[2].get() == caller.asked[0].gave.get());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i]->Equals(*r.outputs[i]));
  }
}

}  // namespace
}  // namespace weft::e2e
