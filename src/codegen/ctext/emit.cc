/// emit.cc: frames, placement of statements, loops of reductions.
#include "emit.h"

#include <algorithm>

#include "codegen/expr/expr_pool.h"
#include "weft/support/check.h"

namespace weft::ctext {

Emitter::Emitter(Helpers* helpers, const Kernel& kernel) : helpers_(helpers), kernel_(kernel) {
  WEFT_CHECK(kernel.dims.size() < 60, kUnsupported, "a kernel of {} loops", kernel.dims.size());
  for (size_t k = 0; k < kernel.dims.size(); ++k) {
    const SymInt d = kernel.dims[k];
    loop_hi_[int(k)] = d.is_const() ? d.value() : kernel.small_index ? INT32_MAX : INT64_MAX;
  }
  frames_.emplace_back();
  // All variables are seen with their widest extents before anything is printed.
  for (const KernelStore& s : kernel.stores) {
    for (const Expr* root : {&s.offset, &s.value}) {
      for (const ExprNode* n : PostOrder({*root})) {
        if (n->kind() != ExprKind::kReduce) continue;
        for (size_t i = 0; i < n->extents().size(); ++i) {
          int64_t& hi = variable_hi_[{n->level(), int(i)}];
          const int64_t most = DimRange(n->extents()[i]).hi;
          hi = std::max(hi, kernel.small_index ? std::min<int64_t>(most, INT32_MAX) : most);
        }
      }
    }
  }
}

const ExprNode* Emitter::Keep(const Expr& e) {
  Analyze(e);
  return e.get();
}

void Emitter::Push(std::string nonempty) {
  frames_.emplace_back();
  frames_.back().conditional = !nonempty.empty();
  frames_.back().nonempty = std::move(nonempty);
}

std::string Emitter::Pop() {
  std::string text = std::move(frames_.back().text);
  frames_.pop_back();
  return text;
}

void Emitter::PopInto(const std::string& head) {
  const std::string text = Pop();
  frames_.back().text += head + " {\n" + text + "}\n";
}

void Emitter::BindIndex(int k, const std::string& name) {
  Frame& f = frames_.back();
  f.loops.set(k);
  f.names[Keep(Expr::Index(k))] = name;
}

std::string Emitter::FlatQuotient(const std::string& flat, SymInt extent) {
  for (size_t k = 0; k < multipliers_.size(); ++k) {
    if (multipliers_[k] == extent)
      return fmt::format("(u32)((u64){0} * (u32)m{1} >> (m{1} >> 32))", flat, k);
  }
  if (kernel_.small_index || extent.is_const())
    return fmt::format("{} / ({}){}", flat, FlatType(), Dim(extent));
  return fmt::format("{}({}, (u64){})", helpers_->Quotient(), flat, Dim(extent));
}

void Emitter::BindFlat(const std::string& flat, int first, int last) {
  std::string rest = flat;
  const std::string type = FlatType();
  for (int k = last - 1; k > first; --k) {
    const std::string extent = Dim(kernel_.dims[k]), q = Fresh("q"), x = Fresh("x");
    Line(fmt::format("const {} {} = {};", type, q, FlatQuotient(rest, kernel_.dims[k])));
    Line(fmt::format("const {0} {1} = ({0})({2} - {3} * ({4}){5});", IndexType(k), x, rest, q, type,
                     extent));
    BindIndex(k, x);
    rest = q;
  }
  if (first < last) {
    const std::string x = Fresh("x");
    Line(fmt::format("const {0} {1} = ({0}){2};", IndexType(first), x, rest));
    BindIndex(first, x);
  }
}

std::string Emitter::BindFlatBase(const std::string& flat, int first, int last, int base) {
  const std::string type = FlatType(), x = Fresh("x");
  if (last - first == 1) {
    Line(fmt::format("const {0} {1} = ({0}){2};", IndexType(first), x, flat));
  } else {
    const std::string extent = Dim(kernel_.dims[last - 1]), q = Fresh("q");
    Line(fmt::format("const {} {} = {};", type, q, FlatQuotient(flat, kernel_.dims[last - 1])));
    Line(fmt::format("const {0} {1} = ({0})({2} - {3} * ({4}){5});", IndexType(last - 1), x, flat,
                     q, type, extent));
    BindFlat(q, first, last - 1);
  }
  BindIndex(base, x);
  return x;
}

std::string Emitter::Nonempty(const std::vector<SymInt>& extents) {
  std::string all;
  for (SymInt d : extents) {
    if (d.is_const() && d.value() > 0) continue;
    all += (all.empty() ? "" : " && ") + Dim(d) + " > 0";
  }
  return all;
}

const std::string* Emitter::Find(const ExprNode* n) const {
  for (size_t f = frames_.size(); f-- > 0;) {
    const auto it = frames_[f].names.find(n);
    if (it != frames_[f].names.end()) return &it->second;
  }
  return nullptr;
}

size_t Emitter::Placement(const ExprNode& n) const {
  const NodeInfo& i = info(&n);
  for (size_t f = frames_.size(); f-- > 1;) {
    const Frame& frame = frames_[f];
    if (frame.rare) return f;
    if ((frame.loops & i.loops).any() || (frame.variables & i.variables).any()) return f;
    if (frame.conditional && i.reads) return f;
  }
  return 0;
}

std::string Emitter::Value(const Expr& root, bool wide) {
  Analyze(root);
  std::vector<const ExprNode*> work{root.get()};
  while (!work.empty()) {
    const ExprNode* n = work.back();
    if (Find(n) != nullptr) {
      work.pop_back();
      continue;
    }
    bool ready = true;
    if (n->kind() != ExprKind::kReduce) {
      for (size_t i = n->operands().size(); i-- > 0;) {
        if ((i == 1 && IsRareChoice(*n)) || Find(n->operands()[i].get()) != nullptr) continue;
        work.push_back(n->operands()[i].get());
        ready = false;
      }
    }
    if (!ready) continue;
    work.pop_back();
    if (n->kind() == ExprKind::kReduce)
      EmitReduce(n);
    else if (IsRareChoice(*n))
      EmitRareChoice(n);
    else
      EmitNode(n);
  }
  const std::string& name = *Find(root.get());
  return wide && info(root.get()).narrow ? "(i64)" + name : name;
}

std::string Emitter::Stored(const Expr& e) {
  const DType t = e->dtype();
  // The rounding of the cast is the rounding of the store.
  if (e->kind() == ExprKind::kCast && IsNarrowFloat(t) &&
      AccumulatorOf(e->operand(0)->dtype()) == DType::kF32)
    return ToMemory(t, Value(e->operand(0)));
  return ToMemory(t, Value(e));
}

void Emitter::EmitNode(const ExprNode* n) {
  if (n->kind() == ExprKind::kConst) {
    frames_[0].names[n] = helpers_->Literal(n->dtype(), n->bits());
    return;
  }
  const size_t f = Placement(*n);
  WEFT_ICHECK(n->kind() != ExprKind::kIndex && n->kind() != ExprKind::kReduceVar,
              "a loop variable is not bound");
  const std::string text = Text(*n), name = Fresh("t");
  frames_[f].text += fmt::format("const {} {} = {};\n", TypeOf(*n), name, text);
  frames_[f].names[n] = name;
}

void Emitter::EmitRareChoice(const ExprNode* n) {
  const size_t f = Placement(*n);
  std::vector<Frame> inner(std::make_move_iterator(frames_.begin() + int64_t(f) + 1),
                           std::make_move_iterator(frames_.end()));
  frames_.resize(f + 1);
  const std::string name = Fresh("t");
  const bool wide = n->dtype() == DType::kI64 && !info(n).narrow;
  Line(fmt::format("{} {} = {};", TypeOf(*n), name, Operand(*n, 2, wide)));
  Push();
  frames_.back().rare = true;
  Line(fmt::format("{} = {};", name, Value(n->operand(1), wide)));
  PopInto("if (" + Operand(*n, 0, false) + ")");
  frames_.back().names[n] = name;
  for (Frame& frame : inner) frames_.push_back(std::move(frame));
}

void Emitter::EmitReduce(const ExprNode* n) {
  const size_t f = Placement(*n);
  // Frames inside the one that holds the result do not exist for the body; where they might not run
  // at all, the body may not run either.
  std::vector<Frame> inner(std::make_move_iterator(frames_.begin() + int64_t(f) + 1),
                           std::make_move_iterator(frames_.end()));
  frames_.resize(f + 1);
  std::string condition;
  for (const Frame& frame : inner) {
    if (frame.nonempty.empty() || condition.find("(" + frame.nonempty + ")") != std::string::npos)
      continue;
    condition += (condition.empty() ? "(" : " && (") + frame.nonempty + ")";
  }

  const bool arg = IsArg(*n);
  const std::string acc = Fresh("r"), best = arg ? acc + "_best" : acc, position = acc + "_at";
  Line(fmt::format("{} {} = {};", ValueType(Accumulator(*n)), best, Neutral(*n)));
  if (arg) Line(fmt::format("i64 {} = 0, {} = 0;", acc, position));
  if (!condition.empty()) Push(condition);
  std::vector<std::string> heads;
  for (size_t i = 0; i < n->extents().size(); ++i) {
    const SymInt extent = n->extents()[i];
    const std::string last = Dim(extent), x = Fresh("k");
    const bool narrow = variable_hi_.at({n->level(), int(i)}) <= INT32_MAX;
    heads.push_back(
        fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", narrow ? "i32" : "i64", x, last));
    Push(Nonempty({extent}));
    frames_.back().variables.set(n->level() * 16 + i);
    const auto it = variables_.find({n->level(), int(i)});
    if (it != variables_.end()) frames_.back().names[it->second] = x;
  }
  const std::string value = Value(n->operand(0));
  if (arg) {
    const std::string v = info(n->operand(0).get()).narrow ? "(i64)" + value : value;
    Line(fmt::format("if ({}) {{ {} = {}; {} = {}; }}", Better(*n, v, best), best, v, acc,
                     position));
    Line(fmt::format("++{};", position));
  } else {
    Line(fmt::format("{} = {};", acc, Combine(*n, acc, value)));
  }
  for (size_t i = heads.size(); i-- > 0;) PopInto(heads[i]);
  if (!condition.empty()) PopInto("if (" + condition + ")");
  frames_.back().names[n] = acc;
  for (Frame& frame : inner) frames_.push_back(std::move(frame));
}

std::string Indent(const std::string& text) {
  std::string out;
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const auto open = std::count(line.begin(), line.end(), '{'),
               close = std::count(line.begin(), line.end(), '}');
    const int leading = !line.empty() && line[0] == '}' ? 1 : 0;
    const bool directive = !line.empty() && line[0] == '#';
    out +=
        (directive ? std::string() : std::string(2 * size_t(std::max(depth - leading, 0)), ' ')) +
        line + "\n";
    depth += int(open - close);
  }
  return out;
}

}  // namespace weft::ctext
