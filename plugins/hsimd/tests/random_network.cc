/// random_network.cc: see random_network.h.
#include "random_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "../machine/alu_ops.h"

namespace hsimd {
namespace {

int64_t Pick(std::mt19937* random, int64_t least, int64_t most) {
  return least + int64_t((*random)() % uint64_t(most - least + 1));
}

class MachineMaker {
 public:
  explicit MachineMaker(std::mt19937* random) : random_(random) {}

  Machine Run() {
    m_.name = "random";
    m_.levels.push_back({"CHIP", 1});
    int64_t places = 1;
    for (int64_t l = 1, n = Pick(1, 3); l <= n && places * 2 <= 64; ++l) {
      m_.levels.push_back({"L" + std::to_string(l), Pick(2, std::min<int64_t>(8, 64 / places))});
      places *= m_.levels.back().count;
    }
    AddMemory("DRAM", 0, 1 << 18, {0, 0, 0}).off_chip = true;
    std::vector<int> levels{0};  // with a memory of parents
    for (int l = 1; l < m_.pe(); ++l)
      if (Chance(3)) levels.push_back(l);
    for (const int l : levels)
      AddMemory("SHARED" + std::to_string(l), l, 4096 << Pick(0, 2), {0, 0, 0});
    const std::vector<std::string> banks = AddBanks();
    slots_ = int(Pick(1, 6));
    AddAlu(banks);
    if (Chance(2)) AddMatrix(banks);
    for (size_t i = 0; i < levels.size(); ++i) {
      const bool last = i + 1 == levels.size();
      AddLinks(levels[i], last ? m_.pe() : levels[i + 1],
               last ? banks : std::vector<std::string>());
    }
    AddDma();
    if (Chance(2)) AddRing(banks);
    return std::move(m_);
  }

 private:
  struct Ports {
    int reads, writes, accesses;
  };
  int64_t Pick(int64_t least, int64_t most) { return hsimd::Pick(random_, least, most); }
  bool Chance(int64_t of) { return Pick(1, of) > 1; }  ///< but for one in `of`

  Memory& AddMemory(const std::string& name, int level, int64_t words, Ports ports) {
    Memory memory;
    memory.name = name;
    memory.level = level;
    memory.words = words;
    memory.reads = ports.reads;
    memory.writes = ports.writes;
    memory.accesses = ports.accesses;
    m_.memories.push_back(memory);
    return m_.memories.back();
  }
  /// Memories that values and what is computed on the way lie in.
  std::vector<std::string> AddBanks() {
    std::vector<std::string> banks;
    const auto add = [&](int64_t words, Ports ports) {
      banks.push_back("M" + std::to_string(banks.size()));
      AddMemory(banks.back(), m_.pe(), words, ports);
    };
    switch (Pick(0, 2)) {
      case 0:  // one access a cycle, and register files
        add(4096, {0, 0, 1});
        add(4096, {0, 0, 1});
        add(Pick(256, 512), {1, 1, 0});
        add(Pick(256, 512), {1, 1, 0});
        break;
      case 1:
        add(4096, {2, 1, 0});
        add(Pick(1024, 4096), {2, 1, 0});
        break;
      default:
        add(4096, {3, 1, 0});
        add(Pick(512, 1024), {3, 2, 0});
        break;
    }
    return banks;
  }

  UnitOp MakeOp(const std::string& name) {
    UnitOp op;
    op.name = name;
    op.latency = Pick(1, 8);
    return op;
  }
  /// `wide`: the memories at both ends have ports for several words a cycle.
  UnitOp MakeLinkOp(const std::string& name, bool wide) {
    UnitOp op = MakeOp(name);
    if (const int64_t kind = Pick(0, 5); kind == 0 && wide)
      op.rate = {Pick(2, 8), 1};
    else if (kind == 1)
      op.rate = {1, Pick(2, 3)};
    return op;
  }
  Unit& AddUnit(const std::string& name, UnitKind kind, int parent, int child,
                const std::vector<std::string>& sources, const std::vector<std::string>& targets) {
    Unit unit;
    unit.name = name;
    unit.kind = kind;
    unit.slot = "S" + std::to_string(Pick(1, slots_));
    unit.parent = parent;
    unit.child = child;
    for (const std::string& s : sources) unit.sources.push_back(m_.MemoryNamed(s));
    for (const std::string& t : targets) unit.targets.push_back(m_.MemoryNamed(t));
    m_.units.push_back(unit);
    return m_.units.back();
  }
  void AddAlu(const std::vector<std::string>& banks) {
    Unit& alu = AddUnit("ALU", UnitKind::kAlu, -1, -1, banks, banks);
    const int64_t latency = Pick(1, 8);
    for (const AluOpInfo& info : AluOps()) {
      UnitOp op;
      op.name = info.name;
      op.latency = latency;
      alu.ops.push_back(op);
    }
  }
  void AddMatrix(const std::vector<std::string>& banks) {
    const int fan = int(m_.levels.back().count);
    AddMemory("A", m_.pe(), 2 * fan, {fan, 1, 0});
    AddUnit("MATL", UnitKind::kAlu, -1, -1, {banks[1]}, {"A"}).ops.push_back(MakeOp("copy"));
    m_.units.back().slot = "MATL";
    std::vector<std::string> sources = banks;
    sources.push_back("A");
    AddUnit("MAT", UnitKind::kMatrix, -1, -1, sources, banks).ops.push_back(MakeOp("mul"));
    m_.units.back().slot = "MAT";
  }
  /// Every subset of the levels between: the full one always, others by chance.
  void AddLinks(int parent, int child, const std::vector<std::string>& banks) {
    const std::vector<std::string> above{"SHARED" + std::to_string(parent)};
    const std::vector<std::string> below =
        banks.empty() ? std::vector<std::string>{"SHARED" + std::to_string(child)} : banks;
    const std::string name = std::to_string(parent);
    AddUnit("DOWN" + name, UnitKind::kDown, parent, child, above, below);
    AddUnit("UP" + name, UnitKind::kUp, parent, child, below, above);
    m_.units.back().slot = m_.units[m_.units.size() - 2].slot;
    const int all = (1 << (child - parent)) - 1;
    for (int subset = 0; subset <= all; ++subset) {
      std::vector<int> indexed;
      for (int b = 0; b < child - parent; ++b)
        if (subset >> b & 1) indexed.push_back(parent + 1 + b);
      const std::string mode = "mode" + std::to_string(subset);
      for (const int up : {0, 1}) {
        if (subset != all && subset != 0 && !Chance(2)) continue;
        Unit& unit = m_.units[m_.units.size() - 2 + size_t(up)];
        unit.ops.push_back(MakeLinkOp(mode, banks.empty()));
        unit.ops.back().indexed = indexed;
        if (!up || subset == all || !Chance(3)) continue;
        for (const char* how : {"sum", "max", "min", "isum", "imax", "imin"}) {
          UnitOp reduce = MakeLinkOp(mode + how, banks.empty());
          reduce.indexed = indexed;
          reduce.reduce = how;
          unit.ops.push_back(reduce);
        }
      }
    }
  }
  void AddDma() {
    const int64_t words = Pick(1, 8), latency = Pick(1, 64);
    AddUnit("LOAD", UnitKind::kDown, 0, 0, {"DRAM"}, {"SHARED0"}).ops.push_back(MakeOp("load"));
    AddUnit("STORE", UnitKind::kUp, 0, 0, {"SHARED0"}, {"DRAM"}).ops.push_back(MakeOp("store"));
    for (size_t u = m_.units.size() - 2; u < m_.units.size(); ++u) {
      m_.units[u].slot = "DMA";
      m_.units[u].ops[0].rate = {words, 1};
      m_.units[u].ops[0].latency = latency;
    }
  }
  void AddRing(const std::vector<std::string>& banks) {
    Unit& ring = AddUnit("RING", UnitKind::kRing, -1, m_.pe(), banks, banks);
    for (const int shift : {1, -1}) {
      ring.ops.push_back(MakeOp(shift > 0 ? "left" : "right"));
      ring.ops.back().shift = shift;
    }
  }

  std::mt19937* random_;
  Machine m_;
  int slots_ = 1;
};

using Dims = std::vector<int64_t>;

int64_t ElementsOf(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

class NetworkMaker {
 public:
  explicit NetworkMaker(std::mt19937* random) : random_(random) {}

  std::string Run() {
    const int64_t operators = Pick(2, 7);
    if (Pick(0, 1))
      NewInput({Pick(1, 3), Pick(1, 5), Pick(4, 9), Pick(4, 9)});
    else
      NewInput(RandomDims());
    for (int tries = 0; made_ < operators && tries < 100; ++tries) AddOperator();
    // What nobody reads is a result.
    std::string results;
    for (size_t v = 0; v < values_.size(); ++v)
      if (!values_[v].read && values_[v].made)
        results += (results.empty() ? "%" : ", %") + values_[v].name;
    return fmt::format("weft 1\ngraph @random({}) -> ({}) {{\n{}}}\n", fmt::join(inputs_, ", "),
                       results, body_);
  }

 private:
  struct Value {
    std::string name;
    Dims dims;
    bool made = false, read = false;
    double most = 1;  ///< values are within [-most, most]
  };

  int64_t Pick(int64_t least, int64_t most) { return hsimd::Pick(random_, least, most); }
  Dims RandomDims() {
    Dims dims(size_t(Pick(1, 3)));
    for (int64_t& d : dims) d = Pick(1, 12);
    return dims;
  }
  static std::string Text(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }
  size_t NewInput(const Dims& dims) {
    values_.push_back({"x" + std::to_string(inputs_.size()), dims, false, false, 1});
    inputs_.push_back(fmt::format("%{}: f32{}", values_.back().name, Text(dims)));
    return values_.size() - 1;
  }
  std::string Ints(const Dims& values) {
    const std::string name = "k" + std::to_string(constants_++);
    body_ += fmt::format("  %{} = Constant() {{value = tensor i64[{}] {}}} : ?\n", name,
                         values.size(), Text(values));
    return "%" + name;
  }
  /// "Op(%a, %b) {attributes}", and unused results after the first.
  void Make(const std::string& text, const Dims& dims, double most, int unused = 0) {
    const std::string name = "v" + std::to_string(made_++);
    std::string names = "%" + name, types = "?";
    for (int u = 0; u < unused; ++u) {
      names += fmt::format(", %{}u{}", name, u);
      types += ", ?";
    }
    body_ += fmt::format("  {} = {} : {}\n", names, text, types);
    values_.push_back({name, dims, true, false, most});
  }
  std::string Read(size_t v) {
    values_[v].read = true;
    return "%" + values_[v].name;
  }

  void AddOperator() {
    const size_t a = size_t(
        Pick(std::max<int64_t>(0, int64_t(values_.size()) - 3), int64_t(values_.size()) - 1));
    const size_t rank = values_[a].dims.size();
    switch (Pick(0, 9)) {
      case 0:
        return Unary(a);
      case 1:
      case 2:
        return Binary(a);
      case 3:
        return Reduce(a);
      case 4:
        if (rank >= 1) Softmax(a);
        return;
      case 5:
        if (rank >= 1) Product(a);
        return;
      case 6:
      case 7:
        if (rank == 4) Window(a);
        return;
      default:
        return View(a);
    }
  }
  void Unary(size_t a) {
    static const char* const kOps[] = {"Relu",    "Neg",  "Abs",  "Tanh",
                                       "Sigmoid", "Gelu", "Sign", "HardSwish"};
    const char* op = kOps[Pick(0, 7)];
    Make(fmt::format("{}({})", op, Read(a)), values_[a].dims, values_[a].most + 1);
  }
  void Binary(size_t a) {
    static const char* const kOps[] = {"Add", "Sub", "Mul", "Max", "Min"};
    const char* op = kOps[Pick(0, 4)];
    const Dims dims = values_[a].dims;
    size_t b = values_.size();
    for (size_t v = 0; v < values_.size(); ++v)
      if (values_[v].dims == dims && Pick(0, 2) == 0) b = v;
    if (b == values_.size()) {
      Dims other = dims;
      for (int64_t& d : other)
        if (Pick(0, 2) == 0) d = 1;
      while (!other.empty() && Pick(0, 3) == 0) other.erase(other.begin());
      b = NewInput(other);
    }
    const double x = values_[a].most, y = values_[b].most;
    const double most = *op == 'M' && op[1] == 'u' ? x * y : x + y;
    if (most > 1000) return;
    const std::string left = Read(a), right = Read(b);
    Make(Pick(0, 1) ? fmt::format("{}({}, {})", op, left, right)
                    : fmt::format("{}({}, {})", op, right, left),
         dims, most);
  }
  void Reduce(size_t a) {
    static const char* const kOps[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"};
    const char* op = kOps[Pick(0, 3)];
    const Dims dims = values_[a].dims;
    Dims axes, left;
    const bool keep = Pick(0, 1) == 0;
    double most = values_[a].most;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (Pick(0, 1)) {
        left.push_back(dims[d]);
        continue;
      }
      axes.push_back(int64_t(d));
      if (keep) left.push_back(1);
      most *= double(dims[d]);
    }
    if (axes.empty() || most > 1000) return;
    const std::string over = Ints(axes);
    Make(fmt::format("{}({}, {}) {{keepdims = {}}}", op, Read(a), over, keep ? 1 : 0), left, most);
  }
  void Softmax(size_t a) {
    Make(fmt::format("Softmax({}) {{axis = {}}}", Read(a),
                     Pick(0, int64_t(values_[a].dims.size()) - 1)),
         values_[a].dims, 1);
  }
  void Product(size_t a) {
    const Dims dims = values_[a].dims;
    const double most = values_[a].most * double(dims.back());
    if (most > 1000) return;
    Dims weight{dims.back(), Pick(1, 16)};
    if (dims.size() == 3 && Pick(0, 1)) weight.insert(weight.begin(), dims[0]);
    Dims out = dims;
    out.back() = weight.back();
    const size_t w = NewInput(weight);
    Make(fmt::format("MatMul({}, {})", Read(a), Read(w)), out, most);
  }
  void Window(size_t a) {
    const Dims dims = values_[a].dims;
    const int64_t kernel = Pick(1, 3), stride = Pick(1, 2), pad = Pick(0, kernel - 1);
    Dims out = dims;
    for (const size_t d : {2, 3}) {
      if (dims[d] + 2 * pad < kernel) return;
      out[d] = (dims[d] + 2 * pad - kernel) / stride + 1;
    }
    const std::string window =
        fmt::format("pads = [{0}, {0}, {0}, {0}], strides = [{1}, {1}]", pad, stride);
    if (Pick(0, 2)) {
      const double most = values_[a].most * double(dims[1] * kernel * kernel);
      if (most > 1000) return;
      out[1] = Pick(1, 6);
      const size_t w = NewInput({out[1], dims[1], kernel, kernel});
      Make(fmt::format("Conv({}, {}) {{{}}}", Read(a), Read(w), window), out, most);
      return;
    }
    const bool max = Pick(0, 1) == 0;
    Make(fmt::format("{}({}) {{kernel_shape = [{}, {}], {}}}", max ? "MaxPool" : "AveragePool",
                     Read(a), kernel, kernel, window),
         out, values_[a].most, max ? 1 : 0);
  }
  void View(size_t a) {
    const Dims dims = values_[a].dims;
    if (dims.empty()) return;
    const size_t axis = size_t(Pick(0, int64_t(dims.size()) - 1));
    switch (Pick(0, 3)) {
      case 0: {  // one axis cut in two, or everything in a row
        Dims to;
        for (int64_t n = 2; n <= dims[axis] && to.empty(); ++n)
          if (dims[axis] % n == 0) {
            to = dims;
            to[axis] = n;
            to.insert(to.begin() + std::ptrdiff_t(axis) + 1, dims[axis] / n);
          }
        if (to.empty() || to.size() > 4 || Pick(0, 1)) to = {ElementsOf(dims)};
        const std::string shape = Ints(to);
        return Make(fmt::format("Reshape({}, {})", Read(a), shape), to, values_[a].most);
      }
      case 1: {
        Dims perm(dims.size()), to;
        for (size_t d = 0; d < perm.size(); ++d) perm[d] = int64_t(d);
        std::shuffle(perm.begin(), perm.end(), *random_);
        for (const int64_t p : perm) to.push_back(dims[size_t(p)]);
        return Make(fmt::format("Transpose({}) {{perm = {}}}", Read(a), Text(perm)), to,
                    values_[a].most);
      }
      case 2: {
        const int64_t from = Pick(0, dims[axis] - 1), until = Pick(from + 1, dims[axis]);
        Dims to = dims;
        to[axis] = until - from;
        const std::string begin = Ints({from}), end = Ints({until}), axes = Ints({int64_t(axis)});
        return Make(fmt::format("Slice({}, {}, {}, {})", Read(a), begin, end, axes), to,
                    values_[a].most);
      }
      default: {
        Dims to = dims, other = dims;
        other[axis] = Pick(1, 4);
        to[axis] += other[axis];
        const size_t b = NewInput(other);
        return Make(fmt::format("Concat({}, {}) {{axis = {}}}", Read(a), Read(b), axis), to,
                    std::max(values_[a].most, 1.0));
      }
    }
  }

  std::mt19937* random_;
  std::vector<Value> values_;
  std::vector<std::string> inputs_;
  std::string body_;
  int64_t made_ = 0;
  int constants_ = 0;
};

}  // namespace

Machine RandomWholeMachine(std::mt19937* random) { return MachineMaker(random).Run(); }

std::string RandomNetwork(std::mt19937* random) { return NetworkMaker(random).Run(); }

}  // namespace hsimd
