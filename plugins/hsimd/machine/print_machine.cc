/// print_machine.cc: a machine as JSON, every number written out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "machine.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using Json = nlohmann::ordered_json;

class Printer {
 public:
  explicit Printer(const Machine& m) : m_(m) {}

  std::string Print() const {
    Json levels = Json::object(), memories = Json::object(), units = Json::object();
    for (const Level& l : m_.levels) levels[l.name] = Number(l.count, "levels." + l.name);
    for (const Memory& m : m_.memories) memories[m.name] = MemoryJson(m);
    for (const Unit& u : m_.units) units[u.name] = UnitJson(u);
    Json json;
    json["name"] = m_.name;
    json["levels"] = std::move(levels);
    json["memories"] = std::move(memories);
    json["units"] = std::move(units);
    return json.dump(2) + "\n";
  }

 private:
  Json Number(Json value, const std::string& path) const {
    if (std::find(m_.assumed.begin(), m_.assumed.end(), path) == m_.assumed.end()) return value;
    Json marked;
    marked["value"] = std::move(value);
    marked["assumed"] = true;
    return marked;
  }

  Json MemoryJson(const Memory& m) const {
    const std::string path = "memories." + m.name + ".";
    Json json;
    json["level"] = m_.levels[size_t(m.level)].name;
    json["words"] = Number(m.words, path + "words");
    const auto ports = [&](const char* name, int n) {
      const Json value = Number(n, path + name);
      if (n != 0 || value.is_object()) json[name] = value;
    };
    ports("reads", m.reads);
    ports("writes", m.writes);
    ports("accesses", m.accesses);
    if (m.off_chip) json["off_chip"] = true;
    return json;
  }

  Json Names(const std::vector<int>& memories) const {
    Json names = Json::array();
    for (const int m : memories) names.push_back(m_.memories[size_t(m)].name);
    return names;
  }

  Json UnitJson(const Unit& u) const {
    Json json;
    json["kind"] = kUnitKinds[size_t(u.kind)];
    json["slot"] = u.slot;
    if (u.parent >= 0) json["parent"] = m_.levels[size_t(u.parent)].name;
    if (u.child >= 0) json["child"] = m_.levels[size_t(u.child)].name;
    if (!u.sources.empty()) json["sources"] = Names(u.sources);
    if (!u.targets.empty()) json["targets"] = Names(u.targets);
    Json ops = Json::object();
    for (const UnitOp& op : u.ops) {
      const std::string path = fmt::format("units.{}.ops.{}.", u.name, op.name);
      Json own;
      own["rate"] =
          Number(op.rate.cycles == 1 ? Json(op.rate.elements)
                                     : Json(fmt::format("{}/{}", op.rate.elements, op.rate.cycles)),
                 path + "rate");
      own["latency"] = Number(op.latency, path + "latency");
      if (!op.indexed.empty()) {
        Json indexed = Json::array();
        for (const int l : op.indexed) indexed.push_back(m_.levels[size_t(l)].name);
        own["indexed"] = std::move(indexed);
      }
      if (!op.reduce.empty()) own["reduce"] = op.reduce;
      if (u.kind == UnitKind::kRing) own["shift"] = Number(op.shift, path + "shift");
      ops[op.name] = std::move(own);
    }
    json["ops"] = std::move(ops);
    return json;
  }

  const Machine& m_;
};

}  // namespace

std::string PrintMachine(const Machine& machine) { return Printer(machine).Print(); }

}  // namespace hsimd
