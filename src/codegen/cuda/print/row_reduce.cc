/// row_reduce.cc: how the threads that share a row bring their accumulators together.
///
/// Lanes of a warp exchange by shuffles, warps of a block and columns through shared memory, slices
/// of a row through the workspace, always in an order that extents alone decide. All meetings of a
/// kernel use one piece of shared memory: each ends with a barrier.
#include <algorithm>

#include "row.h"
#include "weft/support/check.h"

namespace weft::cuda {
namespace {

constexpr const char* kNoPosition = "0x7fffffffffffffffll";

std::string Shuffle(const std::string& type, const std::string& v) {
  const bool native = type == "f32" || type == "f64" || type == "i32" || type == "u32" ||
                      type == "i64" || type == "u64";
  return fmt::format("({})__shfl_xor_sync(mask, ({}){}, o)", type, native ? type : "i32", v);
}

}  // namespace

int RowPrinter::words() const {
  int n = 0;
  for (const ctext::RowReduce& r : reduces_) n += Emitter::IsArg(*r.node) ? 2 : 1;
  return n;
}

RowPrinter::Accumulators RowPrinter::Declare(size_t first, size_t end) {
  Accumulators accs;
  int word = 0;
  for (size_t i = 0; i < first; ++i) word += Emitter::IsArg(*reduces_[i].node) ? 2 : 1;
  for (size_t i = first; i < end; ++i) {
    const ExprNode& n = *reduces_[i].node;
    Accumulator a{&n, e_.Fresh("r"), "", ctext::ValueType(Emitter::Accumulator(n)), word};
    if (Emitter::IsArg(n)) a.position = a.value + "_at";
    word += Emitter::IsArg(n) ? 2 : 1;
    e_.Line(fmt::format("{} {} = {};", a.type, a.value, e_.Neutral(n)));
    if (Emitter::IsArg(n)) e_.Line(fmt::format("i64 {} = {};", a.position, kNoPosition));
    accs.push_back(a);
  }
  return accs;
}

void RowPrinter::Accumulate(const Accumulators& accs, size_t first, size_t end) {
  OpenChunk(size_t(reduces_[first].stage));
  OpenElement(size_t(reduces_[first].stage));
  for (size_t i = first; i < end; ++i) {
    const std::string value = e_.Value(reduces_[i].body, true);
    const Accumulator& a = accs[i - first];
    if (a.position.empty()) {
      e_.Line(fmt::format("{} = {};", a.value, e_.Combine(*a.node, a.value, value)));
    } else {
      e_.Line(TakeBetter(a, value, plan_.width > 1 ? "(i64)(r + v)" : "(i64)r"));
    }
  }
  CloseElement();
  CloseChunk();
}

/// Word `word` of slice `slice` of the row. Consecutive lanes touch consecutive words.
std::string RowPrinter::Partial(const std::string& type, int word, const std::string& slice) const {
  return plan_.mode == RowMode::kColumn
             ? fmt::format("*({}*)&workspace[((u64){}u * slices + {}) * (u64)total + row]", type,
                           word, slice)
             : fmt::format("*({}*)&workspace[((u64){}u * (u64)total + row) * slices + {}]", type,
                           word, slice);
}

void RowPrinter::WritePartials(const Accumulators& accs) {
  e_.Line(std::string("if (lane == 0u") + (plan_.mode == RowMode::kColumn ? " && live) {" : ") {"));
  for (const Accumulator& a : accs) {
    e_.Line(fmt::format("{} = {};", Partial(a.type, a.word, "slice"), a.value));
    if (!a.position.empty())
      e_.Line(fmt::format("{} = {};", Partial("i64", a.word + 1, "slice"), a.position));
  }
  e_.Line("}");
}

void RowPrinter::ReadPartials(const Accumulators& accs) {
  e_.Push();
  for (const Accumulator& a : accs) {
    const std::string v = e_.Fresh("p");
    e_.Line(fmt::format("const {} {} = {};", a.type, v, Partial(a.type, a.word, "o")));
    e_.Line(a.position.empty() ? fmt::format("{} = {};", a.value, e_.Combine(*a.node, a.value, v))
                               : TakeBetter(a, v, Partial("i64", a.word + 1, "o")));
  }
  e_.PopInto(
      fmt::format("#pragma unroll 1\nfor (u32 o = lane; o < slices; o += {}u)", plan_.lanes));
}

/// The more extreme pair; of equals the first.
std::string RowPrinter::TakeBetter(const Accumulator& a, const std::string& value,
                                   const std::string& position) {
  return fmt::format("if ({} || (!({}) && {} < {})) {{ {} = {}; {} = {}; }}",
                     e_.Better(*a.node, value, a.value), e_.Better(*a.node, a.value, value),
                     position, a.position, a.value, value, a.position, position);
}

void RowPrinter::Butterfly(const Accumulators& accs, int lanes) {
  if (lanes == 1) return;
  e_.Push();
  for (const Accumulator& a : accs) {
    const std::string t = e_.Fresh("t"), at = t + "_at";
    e_.Line(fmt::format("const {} {} = {};", a.type, t, Shuffle(a.type, a.value)));
    if (a.position.empty()) {
      e_.Line(fmt::format("{} = {};", a.value, e_.Combine(*a.node, a.value, t)));
    } else {
      e_.Line(fmt::format("const i64 {} = {};", at, Shuffle("i64", a.position)));
      e_.Line(TakeBetter(a, t, at));
    }
  }
  // A block has a long row: the loop costs it nothing, and its text is what takes time to compile.
  e_.PopInto(fmt::format("#pragma unroll{}\nfor (int o = {}; o > 0; o /= 2)",
                         plan_.mode == RowMode::kBlock ? " 1" : "", lanes / 2));
}

/// A member of the shared memory of the present meeting.
std::string RowPrinter::Shared(const std::string& type, const std::string& extents) {
  const std::string name = e_.Fresh("s");
  meetings_.back() += fmt::format("{} {}{}; ", type, name, extents);
  return fmt::format("meeting.at{}.{}", meetings_.size() - 1, name);
}

std::string RowPrinter::SharedMemory() const {
  std::string text;
  for (size_t i = 0; i < meetings_.size(); ++i)
    text += fmt::format("struct {{ {}}} at{};\n", meetings_[i], i);
  if (text.empty()) return text;
  return fmt::format(
      "__shared__ union {{\n{}}} meeting;\nstatic_assert(sizeof meeting <= {}, \"\");\n", text,
      kMaxSharedBytes);
}

/// So many at a time as shared memory has room for.
void RowPrinter::Meet(const Accumulators& accs) {
  const int64_t bytes = 8 * (plan_.mode == RowMode::kColumn ? plan_.lanes * 32 : plan_.block / 32);
  for (size_t begin = 0; begin < accs.size();) {
    size_t end = begin;
    for (int64_t left = kMaxSharedBytes; end < accs.size(); ++end) {
      left -= bytes * (accs[end].position.empty() ? 1 : 2);
      if (left < 0 && end > begin) break;
    }
    const Accumulators together(accs.begin() + std::ptrdiff_t(begin),
                                accs.begin() + std::ptrdiff_t(end));
    plan_.mode == RowMode::kColumn ? MeetInColumns(together) : MeetInWarps(together);
    begin = end;
  }
}

void RowPrinter::MeetInWarps(const Accumulators& accs) {
  Butterfly(accs, std::min(plan_.lanes, 32));
  if (plan_.mode != RowMode::kBlock) return;
  const int warps = plan_.block / 32;
  meetings_.emplace_back();
  std::string writes, reads;
  const auto exchange = [&](const std::string& type, const std::string& v,
                            const std::string& neutral) {
    const std::string shared = Shared(type, fmt::format("[{}]", warps));
    writes += fmt::format("{}[lane / 32u] = {};\n", shared, v);
    reads +=
        fmt::format("{} = lane % 32u < {}u ? {}[lane % 32u] : {};\n", v, warps, shared, neutral);
  };
  for (const Accumulator& a : accs) {
    exchange(a.type, a.value, e_.Neutral(*a.node));
    if (!a.position.empty()) exchange("i64", a.position, kNoPosition);
  }
  e_.Line("if (lane % 32u == 0u) {\n" + writes + "}\n__syncthreads();\n" + reads +
          "__syncthreads();");
  Butterfly(accs, 32);
}

void RowPrinter::MeetInColumns(const Accumulators& accs) {
  meetings_.emplace_back();
  const std::string extents = fmt::format("[{}][32]", plan_.lanes);
  std::vector<std::pair<std::string, std::string>> shared;
  for (const Accumulator& a : accs) {
    shared.emplace_back(Shared(a.type, extents), "");
    e_.Line(fmt::format("{}[lane][column] = {};", shared.back().first, a.value));
    if (a.position.empty()) continue;
    shared.back().second = Shared("i64", extents);
    e_.Line(fmt::format("{}[lane][column] = {};", shared.back().second, a.position));
  }
  e_.Line("__syncthreads();");
  for (const Accumulator& a : accs) e_.Line(fmt::format("{} = {};", a.value, e_.Neutral(*a.node)));
  e_.Push();
  for (size_t i = 0; i < accs.size(); ++i) {
    const std::string v = shared[i].first + "[o][column]";
    e_.Line(accs[i].position.empty() ? fmt::format("{} = {};", accs[i].value,
                                                   e_.Combine(*accs[i].node, accs[i].value, v))
                                     : TakeBetter(accs[i], v, shared[i].second + "[o][column]"));
  }
  e_.PopInto(fmt::format("for (int o = 0; o < {}; ++o)", plan_.lanes));
  e_.Line("__syncthreads();");
}

}  // namespace weft::cuda
