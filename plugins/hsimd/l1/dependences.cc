/// dependences.cc: executes the blocks one after another on histories of words: who wrote each
/// last, and who has read it since.
#include "dependences.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "weft/support/check.h"

namespace hsimd {
namespace {

constexpr int64_t kMostCycles = int64_t{1} << 40;
constexpr size_t kPage = 1024;

/// The last write of a word in a set of places, and the reads since.
struct Record {
  int places = 0;
  int writer = -1;
  int64_t done = 0;  ///< cycles from the writer's start until the word can be touched
  int readers = -1;  ///< in the pool
  int next = -1;
};

struct ReaderNode {
  int instruction = 0;
  int64_t released = 0;  ///< cycles from its start until the word can be written
  int next = -1;
};

/// Nodes in a vector, with a list of free ones.
template <class Node>
class Pool {
 public:
  int New(const Node& node) {
    if (free_ < 0) {
      nodes_.push_back(node);
      return int(nodes_.size()) - 1;
    }
    const int at = free_;
    free_ = nodes_[size_t(at)].next;
    nodes_[size_t(at)] = node;
    return at;
  }
  void Free(int at) {
    nodes_[size_t(at)].next = free_;
    free_ = at;
  }
  Node& operator[](int at) { return nodes_[size_t(at)]; }

 private:
  std::vector<Node> nodes_;
  int free_ = -1;
};

class History {
 public:
  History(const Machine& machine, const PlaceTable& places, size_t instructions)
      : places_(places), pages_(machine.memories.size()), into_(instructions) {}

  void Read(int memory, int64_t word, int places, int instruction, int64_t offset) {
    int& head = Head(memory, word);
    int own = -1;
    for (int r = head; r >= 0; r = records_[r].next) {
      if (!places_.Meet(records_[r].places, places)) continue;
      if (records_[r].writer >= 0) Add(records_[r].writer, instruction, records_[r].done - offset);
      if (records_[r].places == places) own = r;
    }
    if (own < 0) own = head = records_.New({places, -1, 0, -1, head});
    Record& record = records_[own];
    if (record.readers >= 0 && readers_[record.readers].instruction == instruction) {
      int64_t& released = readers_[record.readers].released;
      released = std::max(released, offset + 1);
    } else {
      record.readers = readers_.New({instruction, offset + 1, record.readers});
    }
  }

  void Write(int memory, int64_t word, int places, int instruction, int64_t offset, int64_t done) {
    int& head = Head(memory, word);
    int* link = &head;
    while (*link >= 0) {
      const int r = *link;
      Record& record = records_[r];
      if (!places_.Meet(record.places, places)) {
        link = &record.next;
        continue;
      }
      if (record.writer >= 0) Add(record.writer, instruction, record.done - offset);
      for (int k = record.readers; k >= 0; k = readers_[k].next)
        Add(readers_[k].instruction, instruction, readers_[k].released - offset);
      if (!places_.Within(record.places, places)) {
        link = &record.next;
        continue;
      }
      while (record.readers >= 0) {
        const int k = record.readers;
        record.readers = readers_[k].next;
        readers_.Free(k);
      }
      *link = record.next;
      records_.Free(r);
    }
    head = records_.New({places, instruction, done, -1, head});
  }

  /// By instruction: the distances that end there.
  std::vector<std::vector<Distance>>& into() { return into_; }

 private:
  int& Head(int memory, int64_t word) {
    auto& pages = pages_[size_t(memory)];
    const size_t page = size_t(word) / kPage;
    if (page >= pages.size()) pages.resize(page + 1);
    if (pages[page].empty()) pages[page].assign(kPage, -1);
    return pages[page][size_t(word) % kPage];
  }

  void Add(int from, int to, int64_t distance) {
    if (from == to) return;
    std::vector<Distance>& into = into_[size_t(to)];
    // Elements that follow one another mostly meet the same instruction.
    for (size_t k = into.size(); k > 0 && k + 4 > into.size(); --k)
      if (into[k - 1].from == from) {
        into[k - 1].distance = std::max(into[k - 1].distance, distance);
        return;
      }
    const uint64_t key = uint64_t(from) << 32 | uint32_t(to);
    const auto [it, is_new] = numbers_.emplace(key, into.size());
    if (is_new)
      into.push_back({from, to, distance});
    else
      into[it->second].distance = std::max(into[it->second].distance, distance);
  }

  const PlaceTable& places_;
  std::vector<std::vector<std::vector<int>>> pages_;
  Pool<Record> records_;
  Pool<ReaderNode> readers_;
  std::vector<std::vector<Distance>> into_;
  std::unordered_map<uint64_t, size_t> numbers_;
};

/// An instruction that has elements left to execute.
struct Running {
  int instruction = 0;
  int64_t element = 0;
  std::array<int64_t, 3> digits{0, 0, 0};
};

/// Executes instructions [first, last), which are in the order of their starts, on the history.
void Execute(const Machine& machine, const Dependences& all, int first, int last,
             History* history) {
  std::vector<Running> running;
  int next = first;
  int64_t cycle = 0;
  const auto issue_of = [&](const Running& r) {
    const Instruction& in = all.instructions[size_t(r.instruction)];
    return in.start + machine.units[size_t(in.unit)].ops[size_t(in.op)].rate.StartOf(r.element);
  };
  while (next < last || !running.empty()) {
    int64_t soonest = next < last ? all.instructions[size_t(next)].start : INT64_MAX;
    for (const Running& r : running) soonest = std::min(soonest, issue_of(r));
    cycle = soonest;
    while (next < last && all.instructions[size_t(next)].start == cycle)
      running.push_back({next++, 0, {0, 0, 0}});
    for (size_t k = 0; k < running.size();) {
      Running& r = running[k];
      const Instruction& in = all.instructions[size_t(r.instruction)];
      const Footprint& footprint = all.footprints[size_t(r.instruction)];
      const int64_t latency = machine.units[size_t(in.unit)].ops[size_t(in.op)].latency;
      const int64_t n = in.elements();
      while (r.element < n && issue_of(r) == cycle) {
        const int64_t offset = cycle - in.start;
        for (const Touch& touch : footprint.reads)
          VisitWords(touch, r.digits, [&](int64_t word) {
            history->Read(touch.memory, word, touch.places, r.instruction, offset);
          });
        for (const Touch& touch : footprint.writes)
          VisitWords(touch, r.digits, [&](int64_t word) {
            history->Write(touch.memory, word, touch.places, r.instruction, offset,
                           offset + latency);
          });
        ++r.element;
        for (size_t d = 3; d-- > 0 && ++r.digits[d] == in.count[d];) r.digits[d] = 0;
      }
      if (r.element < n) {
        ++k;
      } else {
        running.erase(running.begin() + long(k));
      }
    }
  }
}

/// Instructions that depend on each other both ways, by Tarjan's algorithm over the distances that
/// end in each; components come out in an order in which what a distance starts from is first.
std::vector<int> Components(const std::vector<std::vector<Distance>>& into, int* count) {
  const int n = int(into.size());
  std::vector<int> component(into.size(), -1), index(into.size(), -1), low(into.size(), 0);
  std::vector<int> stack;
  struct Frame {
    int node;
    size_t edge;
  };
  std::vector<Frame> frames;
  int visited = 0;
  *count = 0;
  for (int root = 0; root < n; ++root) {
    if (index[size_t(root)] >= 0) continue;
    frames.push_back({root, 0});
    while (!frames.empty()) {
      const int v = frames.back().node;
      if (frames.back().edge == 0 && index[size_t(v)] < 0) {
        index[size_t(v)] = low[size_t(v)] = visited++;
        stack.push_back(v);
      }
      if (frames.back().edge < into[size_t(v)].size()) {
        const int w = into[size_t(v)][frames.back().edge++].from;
        if (index[size_t(w)] < 0)
          frames.push_back({w, 0});
        else if (component[size_t(w)] < 0)
          low[size_t(v)] = std::min(low[size_t(v)], index[size_t(w)]);
        continue;
      }
      frames.pop_back();
      if (!frames.empty()) {
        int& above = low[size_t(frames.back().node)];
        above = std::min(above, low[size_t(v)]);
      }
      if (low[size_t(v)] != index[size_t(v)]) continue;
      int w = -1;
      do {
        w = stack.back();
        stack.pop_back();
        component[size_t(w)] = *count;
      } while (w != v);
      ++*count;
    }
  }
  return component;
}

void MakeGroups(std::vector<std::vector<Distance>>& into, Dependences* out) {
  int count = 0;
  const std::vector<int> component = Components(into, &count);
  out->groups.resize(size_t(count));
  std::vector<int64_t> start(size_t(count), INT64_MAX);
  for (size_t i = 0; i < component.size(); ++i)
    start[size_t(component[i])] = std::min(start[size_t(component[i])], out->instructions[i].start);
  for (size_t i = 0; i < component.size(); ++i) {
    Group& group = out->groups[size_t(component[i])];
    const int64_t offset = out->instructions[i].start - start[size_t(component[i])];
    group.members.push_back({int(i), offset});
    group.finished = std::max(group.finished, offset + out->footprints[i].finished);
  }
  std::unordered_map<uint64_t, size_t> numbers;
  for (const auto& distances : into)
    for (const Distance& d : distances) {
      const int from = component[size_t(d.from)], to = component[size_t(d.to)];
      if (from == to) continue;
      const int64_t from_offset = out->instructions[size_t(d.from)].start - start[size_t(from)];
      const int64_t to_offset = out->instructions[size_t(d.to)].start - start[size_t(to)];
      const int64_t distance = d.distance + from_offset - to_offset;
      const auto [it, is_new] =
          numbers.emplace(uint64_t(from) << 32 | uint32_t(to), out->distances.size());
      if (is_new)
        out->distances.push_back({from, to, distance});
      else
        out->distances[it->second].distance =
            std::max(out->distances[it->second].distance, distance);
    }
}

}  // namespace

Dependences FindDependences(const Machine& machine, const std::vector<Block>& blocks,
                            PlaceTable* places) {
  Dependences out;
  std::vector<int> block_begins;
  int64_t begin = 0;
  for (const Block& block : blocks) {
    block_begins.push_back(int(out.instructions.size()));
    std::vector<size_t> order(block.instructions.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&block](size_t a, size_t b) {
      return block.instructions[a].start < block.instructions[b].start;
    });
    int64_t end = begin;
    for (size_t i : order) {
      out.footprints.push_back(FootprintOf(machine, block.instructions[i], places));
      out.instructions.push_back(block.instructions[i]);
      out.instructions.back().start += begin;
      WEFT_CHECK(out.instructions.back().start < kMostCycles - out.footprints.back().finished,
                 kOverflow, "block '{}' goes beyond 2^40 cycles", block.name);
      const Footprint& footprint = out.footprints.back();
      const int64_t start = out.instructions.back().start;
      end = std::max(end, start + std::max(footprint.finished, footprint.held));
      out.sequence_cycles = std::max(out.sequence_cycles, start + footprint.finished);
    }
    begin = end;
  }
  block_begins.push_back(int(out.instructions.size()));
  History history(machine, *places, out.instructions.size());
  for (size_t b = 0; b + 1 < block_begins.size(); ++b)
    Execute(machine, out, block_begins[b], block_begins[b + 1], &history);
  MakeGroups(history.into(), &out);
  return out;
}

}  // namespace hsimd
