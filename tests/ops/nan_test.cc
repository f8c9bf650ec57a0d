/// nan_test.cc: one NaN through every pair of a producer and a follower
/// (nan/cases.txt): library calls with what joins them, generated kernels, pooling,
/// normalisation, reductions, soft-max, attention.
///
/// The backend cpu must make NaN of the same elements as the reference, with all passes and without
/// fusion, and both of those that ONNX Runtime makes NaN (nan/table.txt, by nan/make_table.py),
/// except in the rows of kExceptions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "tests/support/e2e_util.h"
#include "tests/support/training_networks.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;

struct Part {
  std::string name, nodes;
};
struct Family {
  std::string name, extents;
  std::vector<Part> producers, followers;
};

std::ifstream Open(const char* file) {
  std::ifstream in(std::string("tests/nan/") + file);
  REQUIRE(in.good());
  return in;
}

std::vector<Family> ReadFamilies() {
  std::vector<Family> families;
  std::ifstream in = Open("cases.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.find(' '), bar = line.find(" | ");
    const std::string kind = line.substr(0, space);
    if (kind == "family") {
      const size_t last = line.rfind(' ');
      families.push_back({line.substr(space + 1, last - space - 1), line.substr(last + 1), {}, {}});
      continue;
    }
    Part part{line.substr(space + 1, bar - space - 1), line.substr(bar + 3)};
    (kind == "produce" ? families.back().producers : families.back().followers).push_back(part);
  }
  return families;
}

/// How many elements are NaN, and the hash of where, as make_table.py has them.
struct Mask {
  int64_t count = 0;
  uint64_t hash = 0xcbf29ce484222325;
  bool operator==(const Mask& o) const { return count == o.count && hash == o.hash; }
};
Mask MaskOf(const Tensor& t) {
  Mask m;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const bool nan = std::isnan(t.at(i));
    m.count += nan;
    m.hash = (m.hash ^ uint64_t(nan)) * 0x100000001b3;
  }
  return m;
}

using Table = std::map<std::string, Mask>;
Table ReadTable() {
  Table table;
  std::ifstream in = Open("table.txt");
  for (std::string family, producer, follower, count, hash;
       in >> family >> producer >> follower >> count;) {
    if (count == "refused") continue;
    in >> hash;
    table[family + " " + producer + " " + follower] = {std::stoll(count),
                                                       std::stoull(hash, nullptr, 16)};
  }
  return table;
}

Graph MakeGraph(const Family& f, const Part& producer, const Part& follower) {
  std::string header = "%x: f32[" + f.extents + "]", body;
  std::string nodes = producer.nodes + "; ";
  for (size_t i = 0; i < follower.nodes.size(); ++i) {
    const std::string two = follower.nodes.substr(i, 2);
    const bool last = i + 2 >= follower.nodes.size() || !std::isalnum(follower.nodes[i + 2]);
    if (last && (two == "%a" || two == "%b")) {
      nodes += two == "%a" ? "%d" : "%e";
      ++i;
    } else {
      nodes += follower.nodes[i];
    }
  }
  int number = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] == ';') {
      body += "\n ";
      continue;
    }
    if (nodes[i] != '@') {
      body += nodes[i];
      continue;
    }
    const char kind = nodes[i + 1];
    const size_t end = nodes.find(kind == 'f' ? ']' : ')', i);
    const std::string inside = nodes.substr(i + 3, end - i - 3),
                      name = "%w" + std::to_string(++number);
    body += name;
    header += ", " + name + ": ";
    const int64_t numbers = 1 + std::count(inside.begin(), inside.end(), ',');
    if (kind == 'f') {
      int64_t count = 1;
      std::istringstream in(inside);
      for (std::string extent; std::getline(in, extent, ',');) count *= std::stoll(extent);
      header += "f32[" + inside + "] param = [";
      for (int64_t k = 0; k < count; ++k)
        header += (k ? ", " : "") + std::to_string(0.0625 * double(1 + k % 7));
      header += "]";
    } else if (kind == 's') {
      header += "f32[] param = [" + inside + "]";
    } else {
      header += "i64[" + std::to_string(numbers) + "] param = [" + inside + "]";
    }
    i = end;
  }
  return e2e::FromText("graph (" + header + ") -> (%z) {\n  " + body + "\n}\n");
}

TensorPtr Source(const Graph& g) {
  const Shape s = g.inputs()[0]->attrs.dict.at("shape").get<Shape>();
  auto x = std::make_shared<Tensor>(DType::kF32, s.ints());
  const int64_t n = x->num_elements();
  for (int64_t i = 0; i < n; ++i) x->set(i, double(i * 7919 % 23 - 11) / 8);
  x->set(n * 5 / 8, std::numeric_limits<double>::quiet_NaN());
  return x;
}

/// Rows in which ONNX Runtime 1.31 makes something else of a NaN; `producer` or `follower`
/// empty: all of them.
struct Exception {
  const char *family, *producer, *follower;
  const char* why;  ///< what Weft does, and with whom it agrees
};
const std::vector<Exception> kExceptions{
    {"image", "MaxPool", "",
     "a window with a NaN gives NaN, as in PyTorch; ONNX Runtime passes over it"},
    {"image", "", "MaxPool", "the same"},
    {"image", "GlobalMaxPool", "", "the same"},
    {"image", "LRN", "", "NaN only where the window of channels holds it, as the formula says"},
    {"rows", "ReduceMin", "", "NaN, as in numpy and PyTorch; ONNX Runtime drops it on some axes"},
    {"rows", "", "ReduceMax", "the same"},
    {"rows", "", "TopK", "NaN is larger than every number, as in numpy's order and PyTorch"},
};

const Exception* ExceptionFor(const Family& f, const Part& producer, const Part& follower) {
  for (const Exception& e : kExceptions)
    if (f.name == e.family && (!*e.producer || producer.name == e.producer) &&
        (!*e.follower || follower.name == e.follower))
      return &e;
  return nullptr;
}

TEST_CASE("one NaN through every producer and every follower") {
  const Table table = ReadTable();
  const bool cpu = e2e::HasCpu();
  int64_t pairs = 0, compared = 0;
  std::map<const Exception*, int> differs;
  for (const Family& f : ReadFamilies())
    for (const Part& producer : f.producers)
      for (const Part& follower : f.followers) {
        const std::string row = f.name + " " + producer.name + " " + follower.name;
        CAPTURE(row);
        ++pairs;
        const Graph g = MakeGraph(f, producer, follower);
        const std::vector<TensorPtr> in{Source(g)};
        const TensorPtr ref = Session(e2e::CompileFor(g, "ref")).Run(in)[0];
        const Mask mask = MaskOf(*ref);
        if (const auto known = table.find(row); known != table.end()) {
          ++compared;
          const bool same = mask == known->second;
          if (const Exception* e = ExceptionFor(f, producer, follower))
            differs[e] += !same;
          else if (!same)
            FAIL_CHECK("ref has " << mask.count << " NaN, ONNX Runtime " << known->second.count);
        }
        if (!cpu) continue;
        const TensorPtr got = Session(e2e::CompileFor(g, "cpu")).Run(in)[0];
        if (!(MaskOf(*got) == mask))
          FAIL_CHECK("cpu has " << MaskOf(*got).count << " NaN, ref " << mask.count);
        for (int64_t i = 0; i < got->num_elements(); ++i) {
          const double a = got->at(i), b = ref->at(i);
          if (!(std::isnan(a) && std::isnan(b)) &&
              !(std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)))) {
            FAIL_CHECK("element " << i << " is " << a << " on cpu, " << b << " on ref");
            break;
          }
        }
      }
  CHECK(pairs >= 800);
  CHECK(compared >= 800);
  for (const Exception& e : kExceptions) CHECK_MESSAGE(differs[&e] > 0, e.why);
}

/// As at the end of a residual block; `counts`: the program writes a variable, too, so that no run
/// of it may begin again.
Graph ResidualBlock(bool counts) {
  const std::string text =
      "graph (%x: f32[1,16,12,12], %y: f32[1,16,12,12], %w: f32[16,16,3,3] param = [" +
      [] {
        std::string w;
        for (int i = 0; i < 16 * 16 * 9; ++i)
          w += (i ? ", " : "") + std::to_string(double(i * 7919 % 23 - 11) / 64);
        return w;
      }() +
      "]" + (counts ? ", %n: f32[] {state = 1}, %one: f32[] param = [1]" : "") + ") -> (%z" +
      (counts ? ", %m" : "") +
      ") {\n"
      "  %a = Conv(%x, %w) {pads=[1,1,1,1]}\n"
      "  %c = Conv(%y, %w) {pads=[1,1,1,1]}\n"
      "  %s = Add(%c, %a)\n"
      "  %t = Relu(%s)\n"
      "  %z = Conv(%t, %w) {pads=[1,1,1,1]}\n" +
      (counts ? "  %p = Add(%n, %one)\n  %m = weft::Assign(%n, %p)\n" : "") + "}\n";
  return e2e::FromText(text);
}

TEST_CASE("NaN in an addend that the result overwrites") {
  if (!e2e::HasCpu()) return;
  for (bool counts : {false, true}) {
    CAPTURE(counts);
    const Graph g = ResidualBlock(counts);
    const auto program = e2e::CompileFor(g, "cpu");
    Session cpu(program), ref(e2e::CompileFor(g, "ref"));
    for (Session* s : {&cpu, &ref})
      if (counts) s->store()->Set("n", Tensor::FromDoubles(DType::kF32, {}, {0}));
    const auto make = [] {
      auto t = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1, 16, 12, 12});
      for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, double(i * 31 % 17 - 8) / 8);
      return t;
    };
    const auto y = make();
    auto x = make();
    int run = 0;
    const auto check = [&] {
      ++run;
      CAPTURE(run);
      std::vector<std::shared_ptr<Tensor>> got;
      const std::vector<StepTime> steps = cpu.Profile({x, y}, &got);
      // Begun again or not, each step is told once.
      CHECK(std::count_if(steps.begin(), steps.end(), [](const StepTime& t) {
              return t.how.find("Add + Relu") != std::string::npos;
            }) == 1);
      const std::vector<TensorPtr> want = ref.Run({x, y});
      CHECK(MaskOf(*got[0]) == MaskOf(*want[0]));
      for (size_t k = 0; k < want.size(); ++k)
        for (int64_t i = 0; i < want[k]->num_elements(); ++i) {
          const double a = got[k]->at(i), b = want[k]->at(i);
          if (!(std::isnan(a) && std::isnan(b)) && a != doctest::Approx(b).epsilon(1e-4))
            FAIL_CHECK("element " << i << " of " << k << " is " << a << ", on ref " << b);
        }
      return MaskOf(*got[0]).count;
    };
    CHECK(check() == 0);
    for (double special :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      x->set(500, special);
      check();  // sums with one infinity need not be NaN
      x->set(501, -special);
      CHECK(check() > 0);
      x = make();
      for (int i = 0; i < 70; ++i) CHECK(check() == 0);  // until runs are careless again
    }
  }
}

/// Of magnitudes.
std::shared_ptr<Tensor> Scaled(const Tensor& t, double factor) {
  auto out = std::make_shared<Tensor>(t.dtype(), t.dims());
  for (int64_t i = 0; i < t.num_elements(); ++i) out->set(i, factor * std::abs(t.at(i)));
  return out;
}

TEST_CASE("a training whose weights are NaN shows a loss that is NaN") {
  constexpr int64_t kBatch = 2;
  e2e::Network n(kBatch, 1, 28);
  const Graph step = n.Step(e2e::LeNet(&n));  // (x, labels, parameters) -> (loss, gradients)
  Graph forward = step;
  forward.outputs = {forward.at(step.outputs[0])};
  const std::vector<TensorPtr> inputs = n.Inputs(kBatch, 1, 28);
  for (const char* backend : {"ref", "cpu"}) {
    if (backend == std::string("cpu") && !e2e::HasCpu()) continue;
    CAPTURE(backend);
    Session train(e2e::CompileFor(step, backend)), infer(e2e::CompileFor(forward, backend));
    // One weight of any layer.
    for (size_t k = 2; k < inputs.size(); ++k) {
      CAPTURE(k);
      std::vector<TensorPtr> in = inputs;
      const auto p = Scaled(*in[k], 1);
      p->set(p->num_elements() / 2, std::numeric_limits<double>::quiet_NaN());
      in[k] = p;
      CHECK(std::isnan(infer.Run(in)[0]->at(0)));
      for (int i = 0; i < (k == 2 ? 3 : 1); ++i) CHECK(std::isnan(e2e::LearnStep(train, &in)));
    }
    // Sums that leave the range of floats: logits that are all infinite.
    std::vector<TensorPtr> in = inputs;
    in[0] = Scaled(*in[0], 1);
    for (size_t k = 2; k < in.size(); ++k) in[k] = Scaled(*in[k], 1e30);
    CHECK(std::isnan(infer.Run(in)[0]->at(0)));
    for (int i = 0; i < 3; ++i) CHECK(std::isnan(e2e::LearnStep(train, &in)));
    // The same sessions as before it happened.
    in = inputs;
    CHECK(std::isfinite(e2e::LearnStep(train, &in)));
  }
}

}  // namespace
