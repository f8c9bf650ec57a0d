/// bank.h: one memory in all its places while a program runs, and the hazards of its words.
///
/// Words lie address by address, the places of an address next to each other. Addresses are equal
/// in all places, so what is known of the past of a word is kept by address, with the set of places
/// that it holds for; only where instructions under different masks meet at one address are places
/// looked at.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "link_plan.h"
#include "simulator.h"

namespace hsimd {

/// Who does something to a bank, and when.
struct Access {
  int64_t instruction, element, cycle;
};

class Bank {
 public:
  /// `horizon`: for how many cycles from the last one on the use of ports must be remembered.
  Bank(int index, const Memory& memory, int64_t places, int64_t words, int64_t horizon,
       PlaceSets* sets);

  static int64_t BytesFor(int64_t places, int64_t words);

  int64_t places() const { return places_; }
  int64_t words() const { return words_; }
  /// Addresses touched since Reset, and the largest of them + 1.
  std::pair<int64_t, int64_t> CountTouched() const;
  uint32_t* Row(int64_t address) { return data_.get() + address * places_; }
  bool has_ports() const { return has_ports_; }

  /// More words, 0 and never written.
  void Grow(int64_t words);
  void MarkWritten(int64_t first, int64_t end);
  bool IsWritten(int64_t place, int64_t address) const {
    return address < words_ && (written_.get()[address * row_ + place / 64] >> (place % 64) & 1);
  }
  /// Forgets the past of words; also which are written, unless they are to be kept.
  void Reset(bool keep_written);
  /// Words and which of them are written, for putting them back.
  struct Saved {
    std::vector<uint32_t> data;
    std::vector<uint64_t> written;
  };
  Saved Save() const;
  void Restore(const Saved& saved);

  /// For instructions that are in nobody's way: m addresses `stride` apart, n words from each on.
  /// Throws a hazard where a word was never written.
  void ReadAll(int64_t address, int64_t stride, int64_t m, int64_t n, int set, const Access& a);
  void WriteAll(int64_t address, int64_t stride, int64_t m, int64_t n, int set);

  /// The first hazard of reading an address in a set of places, if any.
  void CheckRead(int64_t address, int set, const Access& a) {
    const History& h = history_[address];
    if (__builtin_expect(h.busy_until > a.cycle, 0)) ThrowIfBusy(address, set, a);
    const uint64_t* w = written_.get() + address * row_;
    const uint64_t* want = sets_->At(set).bits.data();
    for (int64_t k = 0; k < row_; ++k) {
      if (__builtin_expect((w[k] & want[k]) != want[k], 0)) ThrowNeverWritten(address, set, a);
    }
  }
  /// The same of a write; to be called before the reads of the same element are noted.
  void CheckWrite(int64_t address, int set, const Access& a) {
    const History& h = history_[address];
    if (__builtin_expect(h.busy_until > a.cycle, 0)) ThrowIfBusy(address, set, a);
    if (__builtin_expect(h.read_end == a.cycle + 1, 0)) ThrowIfRead(address, set, a);
  }
  void NoteRead(int64_t address, int set, const Access& a) {
    History& h = history_[address];
    touched_[address] = 1;
    if (h.read_end == a.cycle + 1 && h.read_set != set) {
      h.read_set = sets_->Union(h.read_set, set);
    } else {
      h.read_end = a.cycle + 1;
      h.read_set = set;
    }
    h.reader = int32_t(a.instruction);
  }
  void NoteWrite(int64_t address, int set, const Access& a, int64_t until) {
    History& h = history_[address];
    touched_[address] = 1;
    if (__builtin_expect(h.busy_until > a.cycle, 0)) {
      NoteSecondWrite(address, set, a, until);
    } else {
      h.busy_until = until;
      h.busy_set = set;
      h.writer = int32_t(a.instruction);
    }
    uint64_t* w = written_.get() + address * row_;
    const uint64_t* want = sets_->At(set).bits.data();
    for (int64_t k = 0; k < row_; ++k) w[k] |= want[k];
  }
  /// Reads or writes in a cycle and a set of places; `address` is for the message.
  void UsePorts(int64_t cycle, int reads, int writes, int64_t address, int set, const Access& a) {
    PortCycle& p = ports_[size_t(cycle) & (ports_.size() - 1)];
    if (p.cycle != cycle) {
      p.cycle = cycle;
      p.reads = p.writes = 0;
      p.users.clear();
    }
    p.reads += reads;
    p.writes += writes;
    if (!p.users.empty() && p.users.back().instruction == a.instruction &&
        p.users.back().set == set) {
      p.users.back().reads += reads;
      p.users.back().writes += writes;
    } else {
      p.users.push_back({a.instruction, set, reads, writes});
    }
    if (__builtin_expect(
            p.reads > max_reads_ || p.writes > max_writes_ || p.reads + p.writes > max_accesses_,
            0))
      ThrowIfCrowded(p, address, set, a);
  }

 private:
  struct History {
    int64_t busy_until;  ///< 0: nothing was ever written
    int64_t read_end;    ///< the cycle after the last read; 0: none
    int32_t busy_set, read_set, writer, reader;
  };
  struct PendingWrite {
    int64_t address, until, instruction;
    int set;
  };
  struct PortUser {
    int64_t instruction;
    int set, reads, writes;
  };
  struct PortCycle {
    int64_t cycle = -1;
    int64_t reads = 0, writes = 0;
    std::vector<PortUser> users;
  };
  struct Freed {
    void operator()(void* p) const { std::free(p); }
  };
  template <class T>
  using Array = std::unique_ptr<T[], Freed>;
  static constexpr int32_t kSeveral = -1;  ///< several writes under way: `pending_` has them

  [[gnu::cold]] void ThrowIfBusy(int64_t address, int set, const Access& a) const;
  [[gnu::cold]] void ThrowIfRead(int64_t address, int set, const Access& a) const;
  [[gnu::cold]] void ThrowNeverWritten(int64_t address, int set, const Access& a) const;
  [[gnu::cold]] void ThrowIfCrowded(const PortCycle& p, int64_t address, int set,
                                    const Access& a) const;
  void NoteSecondWrite(int64_t address, int set, const Access& a, int64_t until);
  Hazard MakeHazard(HazardKind kind, int64_t place, int64_t address, const Access& a,
                    int64_t other) const;

  int index_;
  int64_t places_, words_ = 0, row_;
  bool has_ports_, off_chip_;
  int64_t max_reads_, max_writes_, max_accesses_;
  PlaceSets* sets_;
  Array<uint32_t> data_;
  Array<uint64_t> written_;
  Array<uint8_t> touched_;
  Array<History> history_;
  std::vector<PendingWrite> pending_;
  std::vector<PortCycle> ports_;
};

}  // namespace hsimd
