/// l3.cc: see l3.h. The attributes of the level with their texts, and its operators.
#include "l3.h"

#include <algorithm>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {

using namespace weft;

std::string PrintPlace(const ValuePlace& place) {
  const std::string at = place.base < 0 ? "" : "[" + std::to_string(place.base) + "]";
  return place.memory + at + " " + PrintLayout(place.layout);
}

ValuePlace ParsePlace(const std::string& text) {
  const size_t space = text.find(' ');
  WEFT_CHECK(space != std::string::npos && space > 0, kSyntax,
             "place '{}': expected a memory and a layout, as in 'LM0[128] (4,6)/((4_PE:1), (6:1))'",
             text);
  ValuePlace place;
  place.memory = text.substr(0, space);
  if (const size_t open = place.memory.find('['); open != std::string::npos) {
    const std::string digits = place.memory.substr(open + 1);
    char* end = nullptr;
    place.base = std::strtoll(digits.c_str(), &end, 10);
    WEFT_CHECK(end != digits.c_str() && std::string(end) == "]" && place.base >= 0, kSyntax,
               "place '{}': '[{}' is no address", text, digits);
    place.memory.resize(open);
  }
  place.layout = ParseLayout(std::string_view(text).substr(space + 1));
  return place;
}

bool operator==(const ValuePlace& a, const ValuePlace& b) {
  return a.memory == b.memory && a.base == b.base && a.layout == b.layout;
}

bool MovesOnly(const NodePtr& node) {
  return IsOp(node, kLoad) || IsOp(node, kSwitch) || IsOp(node, kStore);
}

bool LiesOffChip(const NodePtr& node) {
  return node->is_variable() || IsOp(node, kSlice) || IsOp(node, kJoin) ||
         bool(Graph::ConstantOf(NodeEntry(node)));
}

Layout PartLayout(const std::vector<int64_t>& whole, int64_t axis, int64_t start, int64_t size) {
  Layout part = RowMajor(whole);
  int64_t step = 1;
  for (size_t d = whole.size(); d-- > size_t(axis) + 1;) step *= whole[d];
  part.shape[size_t(axis)] = size;
  part.axes[size_t(axis)] = {{size, kAddress, step}};
  if (start > 0) part.offset[kAddress] = start * step;
  return part;
}

NodePtr JoinOf(const NodePtr& store) {
  if (IsOp(store, kStore))
    for (const Use& use : store->uses())
      if (!use.control && IsOp(use.user, kJoin)) return use.user;
  return nullptr;
}

NodeEntry WrittenBy(const NodePtr& store) {
  if (!IsOp(store, kStore)) return {};
  for (const Use& use : store->uses())
    if (!use.control && IsOp(use.user, builtin::kAssign)) return use.user->inputs[0];
  return {};
}

NodeEntry Whole(NodeEntry e) {
  while (IsView(e.node) || IsOp(e.node, kSlice)) e = e.node->inputs[0];
  const NodePtr join = JoinOf(e.node);
  if (join) return NodeEntry(join);
  const NodeEntry variable = WrittenBy(e.node);
  return variable ? variable : e;
}

bool Runs(const NodePtr& node) {
  return !LiesOffChip(node) && !IsView(node) && !IsOp(node, builtin::kAssign);
}

MachinePtr MachineOf(const Graph& graph) { return graph.GetAttr<MachinePtr>("hsimd_machine"); }

namespace {

/// Of an operation of the ALU.
constexpr int kMostOperands = 3;

/// Whether links and an ALU read and write a memory of the PEs.
bool Reached(const Machine& machine, int memory) {
  const auto names = [memory](const std::vector<int>& memories) {
    return memories.empty() || std::count(memories.begin(), memories.end(), memory) > 0;
  };
  bool down = false, up = false, alu = false;
  for (const Unit& unit : machine.units) {
    if (unit.child == machine.pe() && unit.kind == UnitKind::kDown) down |= names(unit.targets);
    if (unit.child == machine.pe() && unit.kind == UnitKind::kUp) up |= names(unit.sources);
    if (unit.kind == UnitKind::kAlu) alu |= names(unit.sources) && names(unit.targets);
  }
  return down && up && alu;
}

}  // namespace

MachineMemories MemoriesOf(const Machine& machine) {
  MachineMemories m;
  for (int i = 0; i < int(machine.memories.size()); ++i) {
    const Memory& memory = machine.memories[size_t(i)];
    if (memory.off_chip) {
      if (m.dram < 0) m.dram = i;
    } else if (memory.level < machine.pe()) {
      m.between.push_back(i);
    } else if (m.home < 0 || memory.words > machine.memories[size_t(m.home)].words) {
      m.home = i;
    }
  }
  WEFT_CHECK(m.dram >= 0, kUnsupported, "machine '{}' has no memory off the chip", machine.name);
  WEFT_CHECK(m.home >= 0, kUnsupported, "machine '{}' has no memory in its PEs", machine.name);
  m.banks.push_back({m.home, machine.memories[size_t(m.home)].words});
  for (int i = 0; i < int(machine.memories.size()); ++i) {
    const Memory& memory = machine.memories[size_t(i)];
    if (memory.off_chip || memory.level < machine.pe() || i == m.home) continue;
    // Half of another large one, where links and the ALU reach it; the rest is for emission.
    int64_t words = 0;
    if (2 * memory.words >= machine.memories[size_t(m.home)].words && Reached(machine, i))
      words = memory.words / 2;
    if (words > 0) m.banks.push_back({i, words});
    m.scratch.push_back({i, words, memory.words - words});
  }
  // An operation may have three operands that are computed on the way: where the ports of the other
  // memories do not suffice, a part of the first is for emission too.
  int reads = 0;
  for (const ScratchRange& range : m.scratch) {
    const Memory& memory = machine.memories[size_t(range.memory)];
    const int each = memory.accesses ? memory.accesses
                     : memory.reads  ? memory.reads
                                     : kMostOperands;
    if (range.words > 0 && Reached(machine, range.memory)) reads += each;
  }
  if (reads < kMostOperands) {
    const int64_t words = machine.memories[size_t(m.home)].words / 8;
    m.banks[0].words -= words;
    m.scratch.push_back({m.home, m.banks[0].words, words});
  }
  return m;
}

namespace {

MachinePtr ReadMachine(const std::string& text) {
  return std::make_shared<Machine>(text.find('{') == std::string::npos
                                       ? FindMachine(text)
                                       : ParseMachine(text, "hsimd_machine"));
}
/// Built-in ones by their name.
std::string WriteMachine(const MachinePtr& machine) {
  const std::vector<std::string> known = BuiltInMachines();
  if (std::find(known.begin(), known.end(), machine->name) != known.end() &&
      PrintMachine(FindMachine(machine->name)) == PrintMachine(*machine))
    return machine->name;
  return PrintMachine(*machine);
}

/// By the line "machine NAME" that the texts of l1 and l2 have.
MachinePtr MachineOfText(const std::string& text) {
  const size_t at = text.find("machine ");
  WEFT_CHECK(at != std::string::npos, kSyntax, "expected a line 'machine NAME' in '{}'",
             text.substr(0, 40));
  const size_t begin = at + 8;
  return std::make_shared<Machine>(FindMachine(text.substr(begin, text.find('\n', begin) - begin)));
}

/// Every block as a program, apart by lines "block NAME".
std::string WriteBlocks(const NodeBlocks& row) {
  std::string text;
  for (const Block& block : *row.blocks) {
    Program p;
    p.machine = row.machine->name;
    p.instructions = block.instructions;
    text += "block " + block.name + "\n" + PrintProgram(p, *row.machine);
  }
  return text;
}
NodeBlocks ReadBlocks(const std::string& text) {
  NodeBlocks row;
  auto blocks = std::make_shared<std::vector<Block>>();
  const std::string mark = "block ";
  for (size_t at = 0; at < text.size();) {
    WEFT_CHECK(text.compare(at, mark.size(), mark) == 0, kSyntax, "expected 'block NAME', got '{}'",
               text.substr(at, 20));
    const size_t line = std::min(text.find('\n', at), text.size());
    const size_t end = std::min(text.find("\n" + mark, line), text.size() - 1) + 1;
    const std::string body = text.substr(line + 1, end - line - 1);
    if (!row.machine) row.machine = MachineOfText(body);
    blocks->push_back({text.substr(at + mark.size(), line - at - mark.size()),
                       ParseProgram(body, *row.machine, "hsimd_blocks").instructions});
    at = end;
  }
  row.blocks = blocks;
  return row;
}

NodeTiles ReadTiles(const std::string& text) {
  const MachinePtr machine = MachineOfText(text);
  return {machine, std::make_shared<TileProgram>(ParseTiles(text, *machine, "hsimd_tiles"))};
}

MachineProgram ReadProgram(const std::string& text) {
  MachineProgram p;
  p.machine = MachineOfText(text);
  p.program = std::make_shared<Program>(ParseProgram(text, *p.machine, "hsimd_program"));
  p.cycles = PredictCycles(*p.program, *p.machine);
  return p;
}

WEFT_REGISTER_GRAPH_ATTR(hsimd_machine, kGiven, MachinePtr)
    .describe("the machine that the graph is laid out for")
    .text(WriteMachine, ReadMachine);
WEFT_REGISTER_GRAPH_ATTR(hsimd_place, kGiven, PlaceMap)
    .describe("memory, first word and layout of a value")
    .text(PrintPlace, ParsePlace);
WEFT_REGISTER_GRAPH_ATTR(hsimd_layout_costs, kGiven, LayoutCosts)
    .describe("cycles of the layouts that were chosen, and the least of any choice")
    .text([](const LayoutCosts& c) { return fmt::format("{} {}", c.cycles, c.bound); },
          [](const std::string& text) {
            LayoutCosts c;
            char* end = nullptr;
            c.cycles = std::strtoll(text.c_str(), &end, 10);
            c.bound = std::strtoll(end, &end, 10);
            WEFT_CHECK(*end == 0 && !text.empty(), kSyntax, "expected two numbers, got '{}'", text);
            return c;
          });
WEFT_REGISTER_GRAPH_ATTR(hsimd_cycles, kGiven, CyclesMap)
    .describe("cycles of a node by itself")
    .text([](const int64_t& v) { return std::to_string(v); },
          [](const std::string& text) { return int64_t(std::stoll(text)); });
WEFT_REGISTER_GRAPH_ATTR(hsimd_tiles, kDerived, TilesMap)
    .describe("a node as operations on tiles (l2)")
    .text([](const NodeTiles& row) { return PrintTiles(*row.program, *row.machine); }, ReadTiles)
    .hidden();
WEFT_REGISTER_GRAPH_ATTR(hsimd_blocks, kDerived, BlocksMap)
    .describe("a node as instructions (l1)")
    .text(WriteBlocks, ReadBlocks)
    .hidden();
WEFT_REGISTER_GRAPH_ATTR(hsimd_program, kDerived, MachineProgram)
    .describe("the graph as instructions (l1)")
    .text([](const MachineProgram& p) { return PrintProgram(*p.program, *p.machine); }, ReadProgram)
    .hidden();

void InferType(InferTypeContext& ctx) {
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void InferShape(InferShapeContext& ctx) { ctx.set_out(0, ctx.in(0)); }
Exprs Code(const NodePtr&, const Exprs& inputs) { return inputs; }
std::vector<NodeEntry> Gradient(const NodePtr&, const std::vector<NodeEntry>& ograds) {
  return {ograds[0]};
}

// Opaque to fusion: a place is what it makes.
#define HSIMD_REGISTER_MOVE(Name, doc)                     \
  WEFT_REGISTER_OP_IN(hsimd, Name)                         \
      .describe(doc)                                       \
      .input("x", "T, any")                                \
      .output("y", "T", "the shape of x")                  \
      .set_attr<FInferType>("FInferType", InferType)       \
      .set_attr<FInferShape>("FInferShape", InferShape)    \
      .set_attr<FCodeGen>("FCodeGen", Code)                \
      .set_attr<FFuseKind>("FFuseKind", FuseKind::kOpaque) \
      .set_attr<FGradient>("FGradient", Gradient)          \
      .example({"f32[2, 3]"})

HSIMD_REGISTER_MOVE(Load, "x, brought from off chip to the memories of the PEs.");
HSIMD_REGISTER_MOVE(Switch, "x, in another layout or memory of the PEs.");
HSIMD_REGISTER_MOVE(Store, "x, brought from the memories of the PEs off chip.");

struct SliceParam : OpParam<SliceParam> {
  int64_t axis, start, size;
  WEFT_OP_PARAM(SliceParam) {
    WEFT_FIELD(axis).set_range(0, 64).describe("that is cut");
    WEFT_FIELD(start).set_range(0, INT64_MAX).describe("first element along it");
    WEFT_FIELD(size).set_range(1, INT64_MAX).describe("elements along it");
  }
};
WEFT_REGISTER_OP_PARAM(SliceParam);

struct JoinParam : OpParam<JoinParam> {
  int64_t axis;
  WEFT_OP_PARAM(JoinParam) {
    WEFT_FIELD(axis).set_range(0, 64).describe("along which they follow");
  }
};
WEFT_REGISTER_OP_PARAM(JoinParam);

void CheckAxis(const NodePtr& n, const Shape& shape, int64_t axis) {
  WEFT_CHECK(axis < shape.rank(), kShapeMismatch, "{}: axis {} of a tensor of rank {}",
             n->Describe(), axis, shape.rank());
}

void SliceShape(InferShapeContext& ctx) {
  const SliceParam& p = ParamOf<SliceParam>(ctx.node());
  if (!ctx.in(0).is_static()) return;
  CheckAxis(ctx.node(), ctx.in(0), p.axis);
  std::vector<int64_t> dims = ctx.in(0).ints();
  WEFT_CHECK(p.start <= dims[size_t(p.axis)] - p.size, kShapeMismatch,
             "{}: elements {} to {} of {}", ctx.node()->Describe(), p.start, p.start + p.size,
             dims[size_t(p.axis)]);
  dims[size_t(p.axis)] = p.size;
  ctx.set_out(0, Shape::OfInts(dims));
}
Exprs SliceCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const SliceParam& p = ParamOf<SliceParam>(n);
  Indices from = at(0);
  from[size_t(p.axis)] = from[size_t(p.axis)] + Expr::Int(p.start);
  return {in[0](from)};
}

void JoinShape(InferShapeContext& ctx) {
  const int64_t axis = ParamOf<JoinParam>(ctx.node()).axis;
  std::vector<int64_t> dims;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.in(i).is_static()) return;
    CheckAxis(ctx.node(), ctx.in(i), axis);
    std::vector<int64_t> part = ctx.in(i).ints();
    if (i > 0) {
      WEFT_CHECK(part.size() == dims.size(), kShapeMismatch, "{}: parts of ranks {} and {}",
                 ctx.node()->Describe(), dims.size(), part.size());
      part[size_t(axis)] += dims[size_t(axis)];
      dims[size_t(axis)] = part[size_t(axis)];
      WEFT_CHECK(part == dims, kShapeMismatch, "{}: part {} has other dimensions off the axis",
                 ctx.node()->Describe(), i);
    }
    dims = std::move(part);
  }
  ctx.set_out(0, Shape::OfInts(dims));
}
/// Every part is read at an index that it has.
Exprs JoinCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const size_t axis = size_t(ParamOf<JoinParam>(n).axis);
  Expr value;
  int64_t start = 0;
  for (const TensorArg& part : in) {
    Indices from = at(0);
    const int64_t size = part.shape[int(axis)].value();
    const Expr shifted = from[axis] - Expr::Int(start);
    from[axis] = Expr::Binary(BinOp::kMax, Expr::Int(0),
                              Expr::Binary(BinOp::kMin, shifted, Expr::Int(size - 1)));
    value = value ? Expr::Select(Lt(shifted, Expr::Int(0)), value, part(from)) : part(from);
    start += size;
  }
  return {value};
}

WEFT_REGISTER_OP_IN(hsimd, Slice)
    .describe("Elements [start, start + size) of x along an axis, off chip where x is.")
    .input("x", "T, any")
    .output("y", "T")
    .param<SliceParam>()
    .set_attr<FInferType>("FInferType", InferType)
    .set_attr<FInferShape>("FInferShape", SliceShape)
    .set_attr<FCodeGen>("FCodeGen", SliceCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kOpaque)
    .example({"f32[6, 3]"}, "axis = 0, start = 2, size = 3");

WEFT_REGISTER_OP_IN(hsimd, Join)
    .describe("The parts one after the other along an axis; each is written where it lies in it.")
    .variadic_input("parts", "T, any")
    .output("y", "T")
    .set_num_inputs(1, INT32_MAX)
    .param<JoinParam>()
    .set_attr<FInferType>("FInferType", InferType)
    .set_attr<FInferShape>("FInferShape", JoinShape)
    .set_attr<FCodeGen>("FCodeGen", JoinCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kOpaque)
    .example({"f32[2, 3]", "f32[4, 3]"}, "axis = 0");

}  // namespace
}  // namespace hsimd
