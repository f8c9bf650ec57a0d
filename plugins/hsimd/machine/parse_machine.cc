/// parse_machine.cc: a machine from JSON, every fault named by its path in the file.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "alu_ops.h"
#include "machine.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

using Json = nlohmann::ordered_json;

// Bounds that keep places, addresses and cycles far from the ends of 64 bits.
constexpr int64_t kMaxLevels = 16, kMaxPlaces = 1 << 20, kMaxWords = int64_t{1} << 40;
constexpr int64_t kMaxRate = 1 << 20, kMaxLatency = 1 << 20, kMaxEntries = 1 << 10;

std::vector<std::string> KeysOf(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

/// The hint where a name is not among those that are known.
std::string NearOrAll(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = weft::DidYouMean(name, known);
  return near.empty() ? "known are " + weft::Join(known, ", ") : near;
}

/// The text as JSON: kSyntax with line and column, also for a key that occurs twice.
Json ReadJson(std::string_view text, const std::string& source) {
  const auto fail = [&](size_t byte, const std::string& what) {
    const std::string_view before = text.substr(0, std::min(byte, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    weft::ThrowError(weft::ErrorCode::kSyntax, what, fmt::format("{}:{}:{}", source, line, column));
  };
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty()) {
      const std::string key = value.get<std::string>();
      if (!keys.back().insert(key).second && twice.empty()) twice = key;
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const nlohmann::json::exception& e) {
    const auto* at = dynamic_cast<const nlohmann::json::parse_error*>(&e);
    std::string what = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": its end says what.
    const size_t colon = what.find(": ");
    fail(at && at->byte > 0 ? at->byte - 1 : 0,
         colon == std::string::npos ? what : what.substr(colon + 2));
  }
  if (!twice.empty()) {
    const size_t second = text.rfind('"' + twice + '"');
    fail(second == std::string_view::npos ? 0 : second,
         fmt::format("key '{}' occurs twice", twice));
  }
  return json;
}

/// A value in the file and its path.
struct Place {
  const Json* json;
  std::string path;
  const std::string* source;

  [[noreturn]] void Fail(const std::string& what, const std::string& hint = {}) const {
    weft::ThrowError(weft::ErrorCode::kInvalidModel, fmt::format("{}: {}", path, what), *source,
                     hint);
  }
  std::string PathOf(const std::string& key) const { return path.empty() ? key : path + "." + key; }
  bool Has(const char* key) const { return json->contains(key); }
  /// What is under the key; nothing there fails.
  Place At(const std::string& key) const {
    const auto it = json->find(key);
    if (it == json->end()) Place{json, PathOf(key), source}.Fail("is missing");
    return {&*it, PathOf(key), source};
  }
  void WantObject() const {
    if (!json->is_object()) Fail(fmt::format("expected an object, got {}", json->type_name()));
    if (int64_t(json->size()) > kMaxEntries)
      Fail(fmt::format("has {} entries, at most {} are allowed", json->size(), kMaxEntries));
  }
  /// An object whose keys are among these.
  void WantKeys(const std::vector<std::string>& known) const {
    WantObject();
    for (const std::string& key : KeysOf(*json)) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      Place{json, PathOf(key), source}.Fail("is not a key that belongs here",
                                            NearOrAll(key, known));
    }
  }
  std::string Text() const {
    if (!json->is_string()) Fail(fmt::format("expected text, got {}", json->type_name()));
    return json->get<std::string>();
  }
  bool Flag() const {
    if (!json->is_boolean()) Fail(fmt::format("expected true or false, got {}", json->type_name()));
    return json->get<bool>();
  }
  /// Texts of a list.
  std::vector<std::string> Texts() const {
    if (!json->is_array()) Fail(fmt::format("expected a list, got {}", json->type_name()));
    if (int64_t(json->size()) > kMaxEntries)
      Fail(fmt::format("has {} entries, at most {} are allowed", json->size(), kMaxEntries));
    std::vector<std::string> texts;
    for (size_t i = 0; i < json->size(); ++i)
      texts.push_back(Place{&(*json)[i], fmt::format("{}[{}]", path, i), source}.Text());
    return texts;
  }
};

/// A number that the file may mark as assumed.
template <class T>
struct Marked {
  T value{};
  bool assumed = false;
};

class Reader {
 public:
  Reader(const Json& json, const std::string& source) : root_{&json, "", &source} {}

  Machine Read() {
    if (!root_.json->is_object())
      weft::ThrowError(weft::ErrorCode::kInvalidModel, "expected a JSON object, the machine",
                       *root_.source);
    root_.WantKeys({"name", "levels", "memories", "units"});
    m_.name = Name(root_.At("name"));
    ReadLevels(root_.At("levels"));
    ReadMemories(root_.At("memories"));
    const Place units = root_.At("units");
    units.WantObject();
    for (const std::string& key : KeysOf(*units.json)) ReadUnit(key, units.At(key));
    if (m_.units.empty()) units.Fail("a machine needs a unit");
    return std::move(m_);
  }

 private:
  static bool IsName(std::string_view s) {
    const auto letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    if (s.empty() || s.size() > 64 || !letter(s[0])) return false;
    return std::all_of(s.begin(), s.end(),
                       [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  }
  static constexpr const char* kNameHint =
      "letters, digits and _, no digit at the start, at most 64";

  std::string Name(const Place& p) const {
    std::string name = p.Text();
    if (!IsName(name)) p.Fail(fmt::format("{} is not a name", weft::Quote(name)), kNameHint);
    return name;
  }
  void CheckKey(const std::string& key, const Place& p) const {
    if (!IsName(key)) p.Fail(fmt::format("{} is not a name", weft::Quote(key)), kNameHint);
  }

  /// The value of `8` or {"value": 8, "assumed": true}.
  static Marked<Place> Unmark(const Place& p) {
    if (!p.json->is_object()) return {p, false};
    p.WantKeys({"value", "assumed"});
    return {p.At("value"), p.Has("assumed") && p.At("assumed").Flag()};
  }
  static int64_t Integer(const Place& p, int64_t least, int64_t most) {
    if (p.json->is_number_unsigned() && p.json->get<uint64_t>() > uint64_t(INT64_MAX))
      p.Fail(fmt::format("must be at most {}", most));
    if (!p.json->is_number_integer())
      p.Fail(fmt::format("expected a whole number, got {}", p.json->dump().substr(0, 40)));
    const int64_t v = p.json->get<int64_t>();
    if (v < least) p.Fail(fmt::format("must be at least {}, got {}", least, v));
    if (v > most) p.Fail(fmt::format("must be at most {}, got {}", most, v));
    return v;
  }
  Marked<int64_t> Number(const Place& p, int64_t least, int64_t most) const {
    const auto [value, assumed] = Unmark(p);
    return {Integer(value, least, most), assumed};
  }
  int64_t Noted(const Place& p, int64_t least, int64_t most) {
    const Marked<int64_t> n = Number(p, least, most);
    if (n.assumed) m_.assumed.push_back(p.path);
    return n.value;
  }
  Marked<Rate> ReadRate(const Place& p) const {
    const Marked<Place> marked = Unmark(p);
    const Place& value = marked.value;
    const bool assumed = marked.assumed;
    if (!value.json->is_string()) return {Rate{Integer(value, 1, kMaxRate), 1}, assumed};
    const std::vector<std::string> parts = weft::Split(value.Text(), '/');
    const auto part = [&](size_t i) {
      const std::optional<int64_t> n = weft::TryParseInt64(parts[i]);
      if (!n || *n < 1 || *n > kMaxRate)
        value.Fail(fmt::format("expected a rate, elements / cycles, got {}",
                               weft::Quote(value.Text().substr(0, 40))),
                   "as in 4 or \"1/8\", both at least 1");
      return *n;
    };
    if (parts.size() > 2) part(0), value.Fail("a rate has at most one /");
    Rate rate{part(0), parts.size() > 1 ? part(1) : 1};
    const int64_t divisor = std::gcd(rate.elements, rate.cycles);
    return {Rate{rate.elements / divisor, rate.cycles / divisor}, assumed};
  }

  void ReadLevels(const Place& p) {
    p.WantObject();
    int64_t places = 1;
    for (const std::string& key : KeysOf(*p.json)) {
      const Place at = p.At(key);
      CheckKey(key, at);
      if (key == "Time") at.Fail("'Time' is no level", "layouts name what is sliced in time so");
      const int64_t count = Noted(at, 1, kMaxPlaces);
      if (m_.levels.empty() && count != 1)
        at.Fail(fmt::format("the first level is the root and has one place, got {}", count));
      places *= count;
      if (places > kMaxPlaces) at.Fail(fmt::format("more than {} places in all", kMaxPlaces));
      m_.levels.push_back({key, count});
      if (int64_t(m_.levels.size()) > kMaxLevels)
        at.Fail(fmt::format("more than {} levels", kMaxLevels));
    }
    if (m_.levels.empty()) p.Fail("a machine needs a level", "as in {\"CHIP\": 1, \"PE\": 4}");
  }

  int LevelAt(const Place& p) const {
    const std::string name = p.Text();
    const int level = m_.LevelNamed(name);
    if (level >= 0) return level;
    std::vector<std::string> names;
    for (const Level& l : m_.levels) names.push_back(l.name);
    p.Fail(fmt::format("no level is named {}", weft::Quote(name)), NearOrAll(name, names));
  }

  void ReadMemories(const Place& p) {
    p.WantObject();
    for (const std::string& key : KeysOf(*p.json)) {
      const Place at = p.At(key);
      CheckKey(key, at);
      at.WantKeys({"level", "words", "reads", "writes", "accesses", "off_chip"});
      Memory memory;
      memory.name = key;
      memory.level = LevelAt(at.At("level"));
      memory.words = Noted(at.At("words"), 1, kMaxWords);
      const auto ports = [&](const char* name) {
        return at.Has(name) ? int(Noted(at.At(name), 0, kMaxRate)) : 0;
      };
      memory.reads = ports("reads");
      memory.writes = ports("writes");
      memory.accesses = ports("accesses");
      if (at.Has("off_chip")) memory.off_chip = at.At("off_chip").Flag();
      if (memory.off_chip && memory.level != 0)
        at.At("level").Fail("a memory off the chip lies at the root",
                            fmt::format("\"level\": \"{}\"", m_.levels[0].name));
      m_.memories.push_back(std::move(memory));
    }
    if (m_.memories.empty()) p.Fail("a machine needs a memory");
  }

  /// Memories by name, all of the level; where the key is missing, none, which says all that fit:
  /// then there must be some.
  std::vector<int> MemoriesAt(const Place& unit, const char* key, int level) const {
    std::vector<std::string> fitting;
    for (const Memory& m : m_.memories) {
      if (m.level == level) fitting.push_back(m.name);
    }
    const std::string& where = m_.levels[size_t(level)].name;
    if (!unit.Has(key)) {
      if (fitting.empty()) unit.Fail(fmt::format("level {} has no memory for its {}", where, key));
      return {};
    }
    const Place p = unit.At(key);
    std::vector<int> memories;
    for (const std::string& name : p.Texts()) {
      const int memory = m_.MemoryNamed(name);
      if (memory < 0 || m_.memories[size_t(memory)].level != level)
        p.Fail(memory < 0
                   ? fmt::format("no memory is named {}", weft::Quote(name))
                   : fmt::format("{} is a memory of level {}, not {}", name,
                                 m_.levels[size_t(m_.memories[size_t(memory)].level)].name, where),
               fitting.empty() ? fmt::format("level {} has no memory", where)
                               : NearOrAll(name, fitting));
      if (std::find(memories.begin(), memories.end(), memory) != memories.end())
        p.Fail(fmt::format("{} is listed twice", name));
      memories.push_back(memory);
    }
    if (memories.empty()) p.Fail("names no memory", "leave it out for all that fit");
    return memories;
  }

  void ReadUnit(const std::string& name, const Place& at) {
    CheckKey(name, at);
    at.WantKeys(
        {"kind", "slot", "parent", "child", "sources", "targets", "rate", "latency", "ops"});
    Unit unit;
    unit.name = name;
    unit.slot = at.Has("slot") ? Name(at.At("slot")) : name;
    unit.kind = KindAt(at.At("kind"));
    ReadEnds(at, &unit);
    const Place ops = at.At("ops");
    if (ops.json->is_string()) {
      if (ops.Text() != "all" || unit.kind != UnitKind::kAlu)
        ops.Fail("expected a list of names or an object", "\"all\" is for units of kind alu");
      for (const AluOpInfo& info : AluOps()) ReadOp(info.name, nullptr, at, ops, &unit);
    } else if (ops.json->is_array()) {
      for (const std::string& op : ops.Texts()) ReadOp(op, nullptr, at, ops, &unit);
    } else {
      ops.WantObject();
      for (const std::string& op : KeysOf(*ops.json)) {
        const Place own = ops.At(op);
        ReadOp(op, &own, at, ops, &unit);
      }
    }
    if (unit.ops.empty()) ops.Fail("a unit needs an operation");
    m_.units.push_back(std::move(unit));
  }

  static UnitKind KindAt(const Place& p) {
    const std::string kind = p.Text();
    const std::vector<std::string> kinds(kUnitKinds.begin(), kUnitKinds.end());
    const auto it = std::find(kinds.begin(), kinds.end(), kind);
    if (it == kinds.end())
      p.Fail(fmt::format("no kind of unit is named {}", weft::Quote(kind)), NearOrAll(kind, kinds));
    return UnitKind(it - kinds.begin());
  }

  /// Levels and memories that the unit joins.
  void ReadEnds(const Place& at, Unit* unit) const {
    const bool link = unit->kind == UnitKind::kDown || unit->kind == UnitKind::kUp;
    const bool ring = unit->kind == UnitKind::kRing;
    if (at.Has("parent") && !link) at.At("parent").Fail("belongs to units of kind down and up");
    if (at.Has("child") && !link && !ring)
      at.At("child").Fail("belongs to units of kind down, up and ring");
    int from = m_.pe(), to = m_.pe();
    if (link) {
      unit->parent = LevelAt(at.At("parent"));
      unit->child = LevelAt(at.At("child"));
      if (unit->parent > unit->child)
        at.At("parent").Fail(
            fmt::format("{} is not above {}", m_.levels[size_t(unit->parent)].name,
                        m_.levels[size_t(unit->child)].name),
            "a link joins a level and one that it is an ancestor of, or two memories of one level");
      from = unit->kind == UnitKind::kDown ? unit->parent : unit->child;
      to = unit->kind == UnitKind::kDown ? unit->child : unit->parent;
    } else if (ring) {
      unit->child = from = to = LevelAt(at.At("child"));
    } else if (unit->kind == UnitKind::kMatrix && m_.levels.size() < 2) {
      at.At("kind").Fail(
          "a matrix unit works on places under one parent, the machine has one level");
    }
    unit->sources = MemoriesAt(at, "sources", from);
    unit->targets = MemoriesAt(at, "targets", to);
  }

  void ReadOp(const std::string& name, const Place* own, const Place& at, const Place& ops,
              Unit* unit) {
    const Place place = own ? *own : Place{ops.json, ops.PathOf(name), ops.source};
    CheckKey(name, place);
    const bool link = unit->kind == UnitKind::kDown || unit->kind == UnitKind::kUp;
    if (unit->kind == UnitKind::kAlu && !AluOpNamed(name)) {
      std::vector<std::string> names;
      for (const AluOpInfo& info : AluOps()) names.emplace_back(info.name);
      const std::string near = weft::DidYouMean(name, names);
      place.Fail(fmt::format("no ALU operation is named {}", weft::Quote(name)),
                 near.empty() ? "see machine/alu_ops.h" : near);
    }
    for (const UnitOp& other : unit->ops) {
      if (other.name == name) place.Fail("the operation is listed twice");
    }
    std::vector<std::string> keys = {"rate", "latency"};
    if (link) keys.push_back("indexed");
    if (unit->kind == UnitKind::kUp) keys.push_back("reduce");
    if (unit->kind == UnitKind::kRing) keys.push_back("shift");
    if (own) own->WantKeys(keys);
    const auto has = [&](const char* key) { return own && own->Has(key); };

    UnitOp op;
    op.name = name;
    if (has("rate") || at.Has("rate")) {
      const Marked<Rate> rate = ReadRate(has("rate") ? own->At("rate") : at.At("rate"));
      op.rate = rate.value;
      if (rate.assumed) m_.assumed.push_back(OpPath(*unit, name, "rate"));
    }
    const Marked<int64_t> latency =
        Number(has("latency") ? own->At("latency") : at.At("latency"), 1, kMaxLatency);
    op.latency = latency.value;
    if (latency.assumed) m_.assumed.push_back(OpPath(*unit, name, "latency"));
    if (has("indexed")) op.indexed = IndexedAt(own->At("indexed"), *unit);
    if (has("reduce")) op.reduce = ReduceAt(own->At("reduce"), *unit, op);
    if (unit->kind == UnitKind::kRing) {
      const int64_t count = m_.levels[size_t(unit->child)].count;
      op.shift = int(Noted(place.At("shift"), 1 - count, count - 1));
      if (op.shift == 0) place.At("shift").Fail("0 moves nothing");
    }
    unit->ops.push_back(std::move(op));
  }
  static std::string OpPath(const Unit& unit, const std::string& op, const char* what) {
    return fmt::format("units.{}.ops.{}.{}", unit.name, op, what);
  }

  std::vector<int> IndexedAt(const Place& p, const Unit& unit) const {
    std::vector<int> levels;
    for (const std::string& name : p.Texts()) {
      const int level = m_.LevelNamed(name);
      if (level <= unit.parent || level > unit.child)
        p.Fail(fmt::format("{} is not a level below {} down to {}", weft::Quote(name),
                           m_.levels[size_t(unit.parent)].name,
                           m_.levels[size_t(unit.child)].name));
      if (!levels.empty() && level <= levels.back())
        p.Fail("levels are listed from the root down, each once");
      levels.push_back(level);
    }
    return levels;
  }
  std::string ReduceAt(const Place& p, const Unit& unit, const UnitOp& op) const {
    std::string reduce = p.Text();
    const std::vector<std::string> known = {"sum", "max", "min", "isum", "imax", "imin"};
    if (std::find(known.begin(), known.end(), reduce) == known.end())
      p.Fail(fmt::format("no reduction is named {}", weft::Quote(reduce)),
             NearOrAll(reduce, known));
    if (int(op.indexed.size()) == unit.child - unit.parent)
      p.Fail("every level is indexed, so there is nothing to combine");
    return reduce;
  }

  Place root_;
  Machine m_;
};

}  // namespace

Machine ParseMachine(std::string_view json, const std::string& source) {
  const Json parsed = ReadJson(json, source);
  return Reader(parsed, source).Read();
}

}  // namespace hsimd
