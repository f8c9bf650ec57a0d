/// session_reuse_test.cc: one session, many runs, as callers make them: other content at the
/// same address, other extents, the content of before at another address, memory that is reused
/// or gone after the run. Every result is that of a program made for it alone, bit by bit, and
/// stays what it was.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=1000 weft_tests -tc='a session*'
#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/lender.h"
#include "tests/support/random/random_control_flow.h"
#include "tests/support/random/random_extents.h"
#include "tests/support/random/random_graph.h"

namespace weft::e2e {
namespace {

using Inputs = std::vector<TensorPtr>;

struct Case {
  Graph graph;
  std::vector<Inputs> contents;  ///< of each run, in the order of graph.AllInputs()
  bool exact = false;            ///< the interpreter gives the same bits
};

bool AllEqual(const Inputs& a, const Inputs& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = a[i]->Equals(*b[i]);
  return same;
}

/// Contents by number: 0 and 2 are of the first extents. Says what went wrong.
std::string CheckReuse(const Case& c, const std::string& backend) {
  std::vector<Inputs> want;
  for (const Inputs& in : c.contents) {
    const auto program = CompileFor(c.graph, backend);
    want.push_back(Session(program).Run(Ordered(*program, c.graph, in)));
    if (c.exact && !AllEqual(want.back(), GetEvaluator()->Eval(c.graph, in)))
      return "contents " + std::to_string(want.size() - 1) + ": a new program is wrong";
  }
  const auto program = CompileFor(c.graph, backend);
  Session session(program);
  Lender lender;
  std::vector<std::pair<size_t, Inputs>> kept;
  const auto run = [&](size_t which, bool bind) -> std::string {
    const Inputs in = lender.Lend(Ordered(*program, c.graph, c.contents[which]));
    Inputs out;
    if (bind) {
      std::vector<std::shared_ptr<Tensor>> bound;
      for (const TensorPtr& t : want[which])
        bound.push_back(std::make_shared<Tensor>(t->dtype(), t->dims()));
      const auto got = session.RunBound(in, bound);
      out.assign(got.begin(), got.end());
    } else {
      out = session.Run(in);
    }
    lender.Overwrite();
    if (!AllEqual(out, want[which])) return "contents " + std::to_string(which) + " differ";
    kept.emplace_back(which, std::move(out));
    return "";
  };
  // Of each: contents, whether memory is elsewhere from here on, whether outputs are the caller's.
  struct Step {
    size_t which;
    bool moves, binds;
  };
  constexpr Step kSteps[] = {{0, false, false}, {1, false, false}, {2, false, false},
                             {0, true, false},  {3, true, true},   {2, false, true},
                             {1, false, false}, {0, false, false}};
  for (const Step& s : kSteps) {
    if (s.moves) lender.MoveAway();
    if (std::string wrong = run(s.which, s.binds); !wrong.empty())
      return "run " + std::to_string(&s - kSteps) + ": " + wrong;
  }
  for (size_t i = 0; i < kept.size(); ++i)
    if (!AllEqual(kept[i].second, want[kept[i].first]))
      return "the results of run " + std::to_string(i) + " changed afterwards";
  return "";
}

void CheckSeed(uint64_t seed, const Case& c) {
  CAPTURE(seed);
  std::string wrong;
  const std::string backend = HasCpu() ? "cpu" : "ref";
  const auto caught = Catch([&] { wrong = CheckReuse(c, backend); });
  if (caught) wrong = caught->text;
  if (wrong.empty()) return;
  PrintOptions print;
  print.inline_all = true;
  FAIL_CHECK("seed " << seed << " on " << backend << ": " << wrong << "\n"
                     << PrintGraph(c.graph, print));
}

}  // namespace

TEST_CASE("a session of a random graph gives what a new program gives") {
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 60);
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    fuzz::RandomGraph g = fuzz::MakeRandomGraph(seed);
    Case c;
    const size_t bindings = g.bindings.size();
    for (const auto& [binding, round] : {std::pair(0, 0), {1, 0}, {0, 1}, {2, 0}}) {
      g.seed = seed + 1000003 * uint64_t(round);
      c.contents.push_back(fuzz::MakeInputs(g, size_t(binding) % bindings));
    }
    c.graph = g.graph;
    CheckSeed(seed, c);
  }
}

TEST_CASE("a session of random control flow gives what a new program gives") {
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 25);
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    const fuzz::ControlFlowGraph g = fuzz::MakeControlFlowGraph(seed, false);
    Case c;
    for (const auto& [binding, round] : {std::pair(0, 0), {1, 0}, {0, 1}, {2, 0}})
      c.contents.push_back(fuzz::MakeInputs(g, size_t(binding), uint64_t(round)));
    c.graph = g.graph;
    CheckSeed(seed, c);
  }
}

TEST_CASE("a session of random graphs whose inputs decide extents gives what new programs give") {
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 25);
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    const fuzz::ExtentGraph g = fuzz::MakeExtentGraph(seed);
    Case c;
    // Of each: extents, data, what decides. The third has the first's extents and other values, or
    // its values and other data.
    const uint64_t other = seed % 4 != 0;
    for (const auto& [binding, data, values] :
         {std::tuple(0, 0, uint64_t{0}), {1, 0, 0}, {0, 1, other}, {2, 0, 0}})
      c.contents.push_back(fuzz::MakeInputs(g, size_t(binding), uint64_t(data), values));
    c.graph = g.graph;
    c.exact = true;
    CheckSeed(seed, c);
  }
}

}  // namespace weft::e2e
