/// export_opset.cc: see export_opset.h.
#include "export_opset.h"

#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "onnx/lift/lift.h"
#include "weft/support/check.h"

namespace weft::onnx_export {
namespace {

/// From 22 on a window of a pool that would start in the padding is dropped when extents round up;
/// before, ONNX's own inference of shapes counted it.
constexpr int64_t kRoundedPools = 22;
bool RoundsUp(const pb::NodeProto& n) {
  return std::any_of(n.attribute().begin(), n.attribute().end(),
                     [](const auto& a) { return a.name() == "ceil_mode" && a.i() != 0; });
}

template <class F>
void ForEachLift(F f) {
  for (const auto& rules :
       {onnx_import::OpsetSixLifts(), onnx_import::ShapeOpLifts(), onnx_import::NnOpLifts()})
    for (const onnx_import::LiftRule& r : rules) f(r);
}

/// Operator sets before this one write the operator otherwise.
int64_t FirstUnlifted(const pb::NodeProto& n) {
  static const std::multimap<std::string_view, onnx_import::LiftRule> table = [] {
    std::multimap<std::string_view, onnx_import::LiftRule> t;
    const int64_t newest = onnx_import::NewestOpset();
    ForEachLift([&](const onnx_import::LiftRule& r) {
      if (r.last < newest) t.emplace(r.op, r);
    });
    return t;
  }();
  int64_t first = RoundsUp(n) ? kRoundedPools : 0;
  const auto [begin, end] = table.equal_range(n.op_type());
  for (auto it = begin; it != end; ++it) {
    const onnx_import::LiftRule& r = it->second;
    if (r.operand_1 && n.input_size() < 2) continue;
    if (n.output_size() >= r.least_results) first = std::max(first, r.last + 1);
  }
  return first;
}

/// "tensor(float)", as the schemas spell types.
std::string TypeText(Type t) {
  pb::TypeProto proto;
  if (!WriteType(t, Shape(), &proto)) return {};
  return *pb::Utils::DataTypeUtils::ToType(proto);
}

bool Allows(const std::vector<pb::OpSchema::FormalParameter>& formals,
            const std::vector<std::string>& types) {
  for (size_t i = 0; i < types.size() && !formals.empty(); ++i) {
    if (types[i].empty()) continue;
    const auto& formal = formals[std::min(i, formals.size() - 1)];
    const auto& allowed = formal.GetTypes();
    if (std::none_of(allowed.begin(), allowed.end(), [&](const auto* t) { return *t == types[i]; }))
      return false;
  }
  return true;
}

/// Parameters of one type variable have one type; what it would be. `bound`
/// spans operands and results.
bool Binds(const std::vector<pb::OpSchema::FormalParameter>& formals,
           const std::vector<std::string>& types, std::map<std::string, std::string>* bound) {
  for (size_t i = 0; i < types.size() && !formals.empty(); ++i) {
    const auto& formal = formals[std::min(i, formals.size() - 1)];
    const bool each_its_own =
        formal.GetOption() == pb::OpSchema::Variadic && !formal.GetIsHomogeneous();
    if (types[i].empty() || each_its_own) continue;
    if (bound->try_emplace(formal.GetTypeStr(), types[i]).first->second != types[i]) return false;
  }
  return true;
}

/// Why the operator of that version does not take the node; empty: it does.
std::string Misfit(const pb::NodeProto& n, const std::vector<std::string>& in,
                   const std::vector<std::string>& out, int64_t version) {
  const auto* schema = pb::OpSchemaRegistry::Schema(n.op_type(), int(version), "");
  if (!schema || schema->Deprecated())
    return fmt::format("operator set {} has no {}", version, n.op_type());
  if (n.input_size() < schema->min_input() || n.input_size() > schema->max_input())
    return fmt::format("ONNX's {} does not take {} inputs", n.op_type(), n.input_size());
  if (n.output_size() < schema->min_output() || n.output_size() > schema->max_output())
    return fmt::format("ONNX's {} does not have {} outputs", n.op_type(), n.output_size());
  for (const auto& a : n.attribute()) {
    const auto it = schema->attributes().find(a.name());
    if (it == schema->attributes().end() || it->second.type != a.type())
      return fmt::format("ONNX's {} has no such attribute '{}'", n.op_type(), a.name());
  }
  if (!Allows(schema->inputs(), in))
    return fmt::format("ONNX's {} does not take {}", n.op_type(), fmt::join(in, ", "));
  if (!Allows(schema->outputs(), out))
    return fmt::format("ONNX's {} does not give {}", n.op_type(), fmt::join(out, ", "));
  std::map<std::string, std::string> bound;
  if (!Binds(schema->inputs(), in, &bound) || !Binds(schema->outputs(), out, &bound))
    return fmt::format("ONNX's {} does not take ({}) and give ({})", n.op_type(),
                       fmt::join(in, ", "), fmt::join(out, ", "));
  return {};
}

}  // namespace

const char* OpsetChooser::AttributeForOperand1(const std::string& op, Type type) const {
  static const std::map<std::string, onnx_import::LiftRule> table = [] {
    std::map<std::string, onnx_import::LiftRule> t;
    ForEachLift([&](const onnx_import::LiftRule& r) {
      if (r.operand_1) t.emplace(r.op, r);
    });
    return t;
  }();
  const auto it = table.find(op);
  if (it == table.end() || oldest_ > it->second.last) return nullptr;
  const auto* schema = pb::OpSchemaRegistry::Schema(op, int(oldest_), "");
  return schema && Allows(schema->inputs(), {TypeText(type)}) ? it->second.operand_1 : nullptr;
}

void OpsetChooser::Add(const pb::NodeProto& n, const std::vector<Type>& inputs,
                       const std::vector<Type>& outputs) {
  std::vector<std::string> in, out;
  for (const Type& t : inputs) in.push_back(TypeText(t));
  for (const Type& t : outputs) out.push_back(TypeText(t));
  std::string key = fmt::format("{} {} {} {} {}", n.op_type(), n.input_size(), n.output_size(),
                                fmt::join(in, ","), fmt::join(out, ","));
  for (const auto& a : n.attribute()) key += " " + a.name();
  if (RoundsUp(n)) key += " up";
  const auto [it, fresh] = known_.try_emplace(key, 0);
  if (fresh) {
    const int64_t newest = onnx_import::NewestOpset();
    const std::string why = Misfit(n, in, out, newest);
    if (!why.empty()) {
      known_.erase(it);
      WEFT_THROW(kUnsupported, "{}", why);
    }
    it->second = newest;
    const int64_t oldest = std::max(oldest_, FirstUnlifted(n));
    while (it->second > oldest && Misfit(n, in, out, it->second - 1).empty()) --it->second;
  }
  version_ = std::max(version_, it->second);
}

void OpsetChooser::AddBody(const pb::FunctionProto& f) {
  for (const auto& n : f.node()) {
    if (n.domain().empty()) Add(n, {}, {});
  }
}

int64_t IrVersionOf(int64_t opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 23) return 11;
  return opset == 24 ? 12 : 13;
}

}  // namespace weft::onnx_export
