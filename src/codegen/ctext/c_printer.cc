/// c_printer.cc: kernels as plain C loops.
#include "weft/codegen/ctext/c_printer.h"

#include "emit.h"
#include "row_reduce.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using ctext::Emitter;

void EmitStore(Emitter* e, const KernelStore& s) {
  const std::string value = e->Stored(s.value), offset = e->Value(s.offset);
  if (s.flag)
    e->Line(fmt::format("if ({}) b{}[0] = 1;", value, s.buffer));
  else
    e->Line(fmt::format("b{}[{}] = {};", s.buffer, offset, value));
}

void PrintPoints(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores) {
  e->Push();
  e->BindFlat("p", 0, int(k.dims.size()));
  for (const KernelStore& s : stores) EmitStore(e, s);
  e->PopInto(fmt::format("for ({0} p = ({0})begin; p < ({0})end; ++p)", e->FlatType()));
}

/// Opens the loops over R and returns their heads, to be closed by CloseRow.
std::vector<std::string> OpenRow(Emitter* e, const Kernel& k) {
  std::vector<std::string> heads;
  for (int d = k.num_outer; d < int(k.dims.size()); ++d) {
    const std::string last = e->Dim(k.dims[d]), x = e->Fresh("x");
    heads.push_back(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", e->IndexType(d), x, last));
    e->Push(e->Nonempty({k.dims[d]}));
    e->BindIndex(d, x);
  }
  return heads;
}
void CloseRow(Emitter* e, const std::vector<std::string>& heads) {
  for (size_t i = heads.size(); i-- > 0;) e->PopInto(heads[i]);
}

void PrintRows(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores) {
  e->Push();
  e->BindRow();
  e->BindFlat("p", 0, k.num_outer);
  for (const ctext::RowReduce& r : ctext::FindRowReduces(e, k, stores)) {
    const ExprNode& n = *r.node;
    const std::string acc = e->Fresh("r"), best = Emitter::IsArg(n) ? acc + "_best" : acc,
                      at = acc + "_at";
    e->Line(
        fmt::format("{} {} = {};", ctext::ValueType(Emitter::Accumulator(n)), best, e->Neutral(n)));
    if (Emitter::IsArg(n)) e->Line(fmt::format("i64 {} = 0, {} = 0;", acc, at));
    const std::vector<std::string> heads = OpenRow(e, k);
    const std::string value = e->Value(r.body, true);
    if (Emitter::IsArg(n)) {
      e->Line(fmt::format("if ({}) {{ {} = {}; {} = {}; }}", e->Better(n, value, best), best, value,
                          acc, at));
      e->Line(fmt::format("++{};", at));
    } else {
      e->Line(fmt::format("{} = {};", acc, e->Combine(n, acc, value)));
    }
    CloseRow(e, heads);
    e->BindNode(r.node, acc);
  }
  const std::vector<std::string> heads = OpenRow(e, k);
  for (const KernelStore& s : stores) {
    if (!s.per_row) EmitStore(e, s);
  }
  CloseRow(e, heads);
  for (const KernelStore& s : stores) {
    if (s.per_row) EmitStore(e, s);
  }
  e->PopInto(fmt::format("for ({0} p = ({0})begin; p < ({0})end; ++p)", e->FlatType()));
}

}  // namespace

std::string PrintC(const Kernel& kernel) {
  ctext::Helpers helpers(ctext::Dialect::kC);
  Emitter e(&helpers, kernel);
  const std::vector<KernelStore> stores = ctext::ExpandStores(kernel);
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const char* qualifier = kernel.buffers[i].is_output ? "" : "const ";
    e.Line(fmt::format("{0}{1}* b{2} = ({0}{1}*)buffers[{2}];", qualifier,
                       ctext::StorageType(kernel.buffers[i].dtype), i));
  }
  for (int k = 0; k < kernel.num_symbols; ++k)
    e.Line(fmt::format("const i64 d{0} = dims[{0}];", k));
  e.Line("(void)dims; (void)scratch;");
  e.Line("if (begin >= end) return;");
  switch (kernel.tmpl) {
    case KernelTemplate::kElementwise:
      PrintPoints(&e, kernel, stores);
      break;
    case KernelTemplate::kRow:
      PrintRows(&e, kernel, stores);
      break;
  }
  const std::string body = e.Pop();
  return fmt::format(
             "{}\nvoid {}(void* const* buffers, const i64* dims, i64 begin, i64 end, void* "
             "scratch);\n",
             helpers.Text(), kernel.Name()) +
         ctext::Indent(fmt::format("void {}(void* const* buffers, const i64* dims, i64 begin, i64 "
                                   "end, void* scratch) {{\n{}}}\n",
                                   kernel.Name(), body));
}

}  // namespace weft
