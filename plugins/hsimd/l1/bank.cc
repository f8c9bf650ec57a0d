/// bank.cc: allocation, and the paths that end in a hazard or meet several masks.
#include "bank.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "weft/support/check.h"

namespace hsimd {
namespace {

int64_t RowOf(int64_t places) { return (places + 63) / 64; }

/// Words that are 0; the system gives pages of them only when they are touched.
template <class T>
T* Zeroed(int64_t n) {
  T* p = static_cast<T*>(std::calloc(size_t(std::max<int64_t>(n, 1)), sizeof(T)));
  WEFT_CHECK(p != nullptr, kOutOfMemory,
             "{} bytes for the words of a memory could not be allocated", n * int64_t(sizeof(T)));
  return p;
}

}  // namespace

Bank::Bank(int index, const Memory& memory, int64_t places, int64_t words, int64_t horizon,
           PlaceSets* sets)
    : index_(index),
      places_(places),
      row_(RowOf(places)),
      has_ports_(memory.reads || memory.writes || memory.accesses),
      off_chip_(memory.off_chip),
      sets_(sets) {
  const auto most = [](int ports) {
    return ports ? int64_t(ports) : std::numeric_limits<int64_t>::max();
  };
  max_reads_ = most(memory.reads);
  max_writes_ = most(memory.writes);
  max_accesses_ = most(memory.accesses);
  int64_t cycles = 1;
  while (cycles < horizon) cycles *= 2;
  if (has_ports_) ports_.resize(size_t(cycles));
  Grow(words);
}

int64_t Bank::BytesFor(int64_t places, int64_t words) {
  const int64_t each = places * 4 + RowOf(places) * 8 + int64_t(sizeof(History)) + 1;
  return words > std::numeric_limits<int64_t>::max() / each ? std::numeric_limits<int64_t>::max()
                                                            : words * each;
}

void Bank::Grow(int64_t words) {
  if (words <= words_ && data_) return;
  Array<uint32_t> data(Zeroed<uint32_t>(words * places_));
  Array<uint64_t> written(Zeroed<uint64_t>(words * row_));
  if (data_) {
    std::memcpy(data.get(), data_.get(), size_t(words_ * places_) * sizeof(uint32_t));
    std::memcpy(written.get(), written_.get(), size_t(words_ * row_) * sizeof(uint64_t));
  }
  data_ = std::move(data);
  written_ = std::move(written);
  words_ = words;
  Reset(true);
}

void Bank::MarkWritten(int64_t first, int64_t end) {
  std::fill(written_.get() + first * row_, written_.get() + end * row_, ~uint64_t{0});
}

void Bank::Reset(bool keep_written) {
  history_.reset(Zeroed<History>(words_));
  touched_.reset(Zeroed<uint8_t>(words_));
  if (!keep_written) written_.reset(Zeroed<uint64_t>(words_ * row_));
  pending_.clear();
  for (PortCycle& p : ports_) p.cycle = -1;
}

std::pair<int64_t, int64_t> Bank::CountTouched() const {
  int64_t n = 0, end = 0;
  for (int64_t a = 0; a < words_; ++a) {
    n += touched_[a];
    if (touched_[a]) end = a + 1;
  }
  return {n, end};
}

void Bank::ReadAll(int64_t address, int64_t stride, int64_t m, int64_t n, int set,
                   const Access& a) {
  if (stride == n) n *= m, m = 1;  // neighbouring words
  const uint64_t* want = sets_->At(set).bits.data();
  uint64_t missing = 0;
  for (int64_t e = 0; e < m; ++e) {
    const int64_t first = address + e * stride;
    const uint64_t* w = written_.get() + first * row_;
    if (row_ == 1) {
      for (int64_t k = 0; k < n; ++k) missing |= want[0] & ~w[k];
    } else {
      for (int64_t k = 0; k < n * row_; ++k) missing |= want[k % row_] & ~w[k];
    }
    // On the chip what is read was written, and counts as touched by that.
    if (off_chip_) std::fill_n(touched_.get() + first, n, uint8_t{1});
  }
  if (!missing) return;
  for (int64_t e = 0; e < m; ++e) {
    for (int64_t k = 0; k < n; ++k) CheckRead(address + e * stride + k, set, a);
  }
}

void Bank::WriteAll(int64_t address, int64_t stride, int64_t m, int64_t n, int set) {
  if (stride == n) n *= m, m = 1;
  const uint64_t* want = sets_->At(set).bits.data();
  for (int64_t e = 0; e < m; ++e) {
    const int64_t first = address + e * stride;
    uint64_t* w = written_.get() + first * row_;
    if (row_ == 1) {
      for (int64_t k = 0; k < n; ++k) w[k] |= want[0];
    } else {
      for (int64_t k = 0; k < n * row_; ++k) w[k] |= want[k % row_];
    }
    std::fill_n(touched_.get() + first, n, uint8_t{1});
  }
}

Bank::Saved Bank::Save() const {
  return {{data_.get(), data_.get() + words_ * places_},
          {written_.get(), written_.get() + words_ * row_}};
}

void Bank::Restore(const Saved& saved) {
  std::copy(saved.data.begin(), saved.data.end(), data_.get());
  std::copy(saved.written.begin(), saved.written.end(), written_.get());
}

Hazard Bank::MakeHazard(HazardKind kind, int64_t place, int64_t address, const Access& a,
                        int64_t other) const {
  Hazard h;
  h.kind = kind;
  h.cycle = a.cycle;
  h.instruction = a.instruction;
  h.element = a.element;
  h.memory = index_;
  h.place = place;
  h.word = address;
  h.other = other;
  return h;
}

void Bank::ThrowIfBusy(int64_t address, int set, const Access& a) const {
  const History& h = history_[address];
  if (h.busy_set != kSeveral) {
    const int64_t place = sets_->FirstCommon(h.busy_set, set);
    if (place >= 0) throw MakeHazard(HazardKind::kUnderWay, place, address, a, h.writer);
    return;
  }
  int64_t first = -1, writer = -1;
  for (const PendingWrite& w : pending_) {
    if (w.address != address || w.until <= a.cycle) continue;
    const int64_t place = sets_->FirstCommon(w.set, set);
    if (place < 0 || (first >= 0 && place >= first)) continue;
    first = place;
    writer = w.instruction;
  }
  if (first >= 0) throw MakeHazard(HazardKind::kUnderWay, first, address, a, writer);
}

void Bank::ThrowIfRead(int64_t address, int set, const Access& a) const {
  const History& h = history_[address];
  const int64_t place = sets_->FirstCommon(h.read_set, set);
  if (place >= 0) throw MakeHazard(HazardKind::kUnderWay, place, address, a, h.reader);
}

void Bank::ThrowNeverWritten(int64_t address, int set, const Access& a) const {
  for (int64_t p = 0; p < places_; ++p) {
    if (sets_->At(set).Has(p) && !IsWritten(p, address))
      throw MakeHazard(HazardKind::kNeverWritten, p, address, a, -1);
  }
}

void Bank::ThrowIfCrowded(const PortCycle& p, int64_t address, int set, const Access& a) const {
  for (const auto& [first, end] : sets_->At(set).runs) {
    for (int64_t place = first; place < end; ++place) {
      int64_t reads = 0, writes = 0, other = -1;
      for (const PortUser& u : p.users) {
        if (!sets_->At(u.set).Has(place)) continue;
        reads += u.reads;
        writes += u.writes;
        if (u.instruction != a.instruction) other = u.instruction;
      }
      if (reads <= max_reads_ && writes <= max_writes_ && reads + writes <= max_accesses_) continue;
      Hazard h = MakeHazard(reads > max_reads_     ? HazardKind::kReadPort
                            : writes > max_writes_ ? HazardKind::kWritePort
                                                   : HazardKind::kAccessPort,
                            place, address, a, other);
      h.cycle = p.cycle;
      throw h;
    }
  }
}

void Bank::NoteSecondWrite(int64_t address, int set, const Access& a, int64_t until) {
  History& h = history_[address];
  const auto past = [&](const PendingWrite& w) { return w.until <= a.cycle; };
  if (pending_.size() >= 64)
    pending_.erase(std::remove_if(pending_.begin(), pending_.end(), past), pending_.end());
  if (h.busy_set != kSeveral) pending_.push_back({address, h.busy_until, h.writer, h.busy_set});
  pending_.push_back({address, until, a.instruction, set});
  h.busy_set = kSeveral;
  h.busy_until = std::max(h.busy_until, until);
}

}  // namespace hsimd
