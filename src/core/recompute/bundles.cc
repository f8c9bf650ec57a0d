/// bundles.cc: the account of bundles.h.
#include "bundles.h"

#include <algorithm>
#include <utility>

namespace weft::recompute {

PeakTree::PeakTree(int size) : size_(size) {
  while (leaves_ < size) leaves_ *= 2;
  max_.assign(size_t(leaves_) * 2, 0);
  add_.assign(size_t(leaves_) * 2, 0);
}

void PeakTree::Pull(int k) {
  max_[size_t(k)] = std::max(max_[size_t(2 * k)], max_[size_t(2 * k + 1)]) + add_[size_t(k)];
}

void PeakTree::Add(int begin, int end, int64_t bytes) {
  if (begin >= end || bytes == 0) return;
  int l = begin + leaves_, r = end + leaves_;
  const int l0 = l, r0 = r - 1;
  for (; l < r; l /= 2, r /= 2) {
    if (l & 1) max_[size_t(l)] += bytes, add_[size_t(l++)] += bytes;
    if (r & 1) --r, max_[size_t(r)] += bytes, add_[size_t(r)] += bytes;
  }
  for (int k = l0 / 2; k > 0; k /= 2) Pull(k);
  for (int k = r0 / 2; k > 0; k /= 2) Pull(k);
}

void PeakTree::Set(int at, int64_t own) {
  int k = at + leaves_;
  max_[size_t(k)] = add_[size_t(k)] + own;  // add_ of a leaf: what spans it directly
  for (k /= 2; k > 0; k /= 2) Pull(k);
}

int64_t PeakTree::At(int at) const {
  int64_t bytes = max_[size_t(at + leaves_)];
  for (int k = (at + leaves_) / 2; k > 0; k /= 2) bytes += add_[size_t(k)];
  return bytes;
}

int64_t PeakTree::Max(int begin, int end) const {
  int64_t most = 0;
  int64_t left = 0, right = 0;  // the best of each side so far, with what spans it added on the way
  int l = begin + leaves_, r = end + leaves_ - 1;
  if (begin >= end) return 0;
  left = max_[size_t(l)], right = max_[size_t(r)];
  while (l / 2 != r / 2) {
    if (l % 2 == 0) left = std::max(left, max_[size_t(l + 1)]);
    if (r % 2 == 1) right = std::max(right, max_[size_t(r - 1)]);
    l /= 2, r /= 2;
    left += add_[size_t(l)], right += add_[size_t(r)];
  }
  most = l == r ? left : std::max(left, right);
  for (l /= 2; l > 0; l /= 2) most += add_[size_t(l)];
  return most;
}

int PeakTree::First() const {
  int k = 1;
  while (k < leaves_) k = max_[size_t(2 * k)] >= max_[size_t(2 * k + 1)] ? 2 * k : 2 * k + 1;
  return std::min(k - leaves_, size_ - 1);
}

void PeakTree::Fill(std::vector<int64_t>* at) const {
  std::vector<int64_t> sum(add_.size(), 0);
  for (int k = 1; k < leaves_; ++k) {
    sum[size_t(2 * k)] = sum[size_t(2 * k + 1)] = sum[size_t(k)] + add_[size_t(k)];
  }
  at->resize(size_t(size_));
  for (int i = 0; i < size_; ++i)
    (*at)[size_t(i)] = sum[size_t(i + leaves_)] + max_[size_t(i + leaves_)];
}

Bundles::Bundles(const Steps& steps)
    : s_(steps),
      tree_(int(steps.steps.size()) + 1),
      bundle_(steps.steps.size() + 1),
      touches_(steps.bytes.size()),
      left_(steps.bytes.size(), 0),
      stamp_(steps.bytes.size(), 0),
      out_(steps.bytes.size(), 0),
      block_(steps.bytes.size(), 0) {
  const int end = int(s_.steps.size());
  for (size_t v = 0; v < s_.bytes.size(); ++v) {
    std::vector<Touch>& touches = touches_[v];
    touches.push_back({s_.maker[v], 0, true});
    for (int r : s_.readers[v]) touches.push_back({r, 1, false});
    if (s_.keep[v]) touches.push_back({end, 1, false}), kept_.push_back(int(v));
    for (size_t k = 1; k < touches.size(); ++k)
      tree_.Add(touches[k - 1].at + 1, touches[k].at, s_.bytes[v]);
  }
  for (int t = 0; t <= end; ++t) Evaluate(t);
}

size_t Bundles::FindTouch(int value, int at) const {
  const std::vector<Touch>& touches = touches_[size_t(value)];
  return size_t(std::lower_bound(touches.begin(), touches.end(), at,
                                 [](const Touch& t, int a) { return t.at < a; }) -
                touches.begin());
}

bool Bundles::Has(int at, int step) const {
  const std::vector<int>& copies = bundle_[size_t(at)];
  return std::binary_search(copies.begin(), copies.end(), step);
}

void Bundles::Carry(int value, int at, int sign) {
  const std::vector<Touch>& touches = touches_[size_t(value)];
  const size_t k = FindTouch(value, at);
  const bool here = k < touches.size() && touches[k].at == at;
  const int64_t bytes = sign * s_.bytes[size_t(value)];
  const auto stretch = [&](size_t from, size_t to) {
    if (to < touches.size() && !touches[to].made)
      tree_.Add(touches[from].at + 1, touches[to].at, bytes);
  };
  if (k > 0) {
    stretch(k - 1, k);
    dirty_.push_back(touches[k - 1].at);
  }
  if (here) stretch(k, k + 1);
}

void Bundles::Change(int at, int step) {
  const Step& s = s_.steps[size_t(step)];
  std::vector<int>& copies = bundle_[size_t(at)];
  const auto place = std::lower_bound(copies.begin(), copies.end(), step);
  const bool add = place == copies.end() || *place != step;
  if (add)
    copies.insert(place, step);
  else
    copies.erase(place);
  cost_ += add ? s.cost : -s.cost;
  dirty_.push_back(at);
  const auto change = [&](int v, bool made) {
    Carry(v, at, -1);
    std::vector<Touch>& touches = touches_[size_t(v)];
    const size_t k = FindTouch(v, at);
    if (k == touches.size() || touches[k].at != at)
      touches.insert(touches.begin() + std::ptrdiff_t(k), Touch{at, 0, false});
    if (made)
      touches[k].made = add;
    else
      touches[k].readers += add ? 1 : -1;
    if (!touches[k].made && touches[k].readers == 0)
      touches.erase(touches.begin() + std::ptrdiff_t(k));
    Carry(v, at, +1);
  };
  for (int v : s.outputs) change(v, true);
  for (int v : s.inputs) change(v, false);
}

void Bundles::Toggle(int at, int step) {
  dirty_.clear();
  Change(at, step);
  std::sort(dirty_.begin(), dirty_.end());
  dirty_.erase(std::unique(dirty_.begin(), dirty_.end()), dirty_.end());
  for (int t : dirty_) Evaluate(t);
}

void Bundles::ToggleAll(const Copies& copies) {
  dirty_.clear();
  for (const Copy& c : copies) Change(c.at, c.step);
  std::sort(dirty_.begin(), dirty_.end());
  dirty_.erase(std::unique(dirty_.begin(), dirty_.end()), dirty_.end());
  for (int t : dirty_) Evaluate(t);
}

void Bundles::Evaluate(int at) {
  const int end = int(s_.steps.size());
  const std::vector<int>& copies = bundle_[size_t(at)];
  ++now_;
  int64_t live = 0, most = 0;
  // What comes in: touched here, read before it is made.
  const auto meet = [&](int v) {
    if (stamp_[size_t(v)] == now_) return;
    stamp_[size_t(v)] = now_;
    const std::vector<Touch>& touches = touches_[size_t(v)];
    const size_t k = FindTouch(v, at);
    left_[size_t(v)] = touches[k].readers;
    out_[size_t(v)] = k + 1 < touches.size() && !touches[k + 1].made;
    block_[size_t(v)] = touches[k].made ? 0 : s_.bytes[size_t(v)];
    live += block_[size_t(v)];
  };
  const size_t runs = copies.size() + (at < end ? 1 : 0);
  const auto step_of = [&](size_t k) { return k < copies.size() ? copies[k] : at; };
  for (size_t k = 0; k < runs; ++k) {
    const Step& s = s_.steps[size_t(step_of(k))];
    for (int v : s.inputs) meet(v);
    for (int v : s.outputs) meet(v);
    work_ += 2 + int64_t(s.inputs.size() + s.outputs.size());
  }
  if (at == end) {
    for (int v : kept_) meet(v);
    work_ += int64_t(kept_.size());
    most = live;
  }
  for (size_t k = 0; k < runs; ++k) {
    const Step& s = s_.steps[size_t(step_of(k))];
    for (int v : s.outputs) {
      for (auto [in, out] : s.inplace) {
        if (out != v || left_[size_t(in)] != 1 || out_[size_t(in)] || block_[size_t(in)] == 0)
          continue;
        block_[size_t(v)] = std::exchange(block_[size_t(in)], 0);
        break;
      }
      if (block_[size_t(v)] > 0) continue;
      block_[size_t(v)] = s_.bytes[size_t(v)];
      live += block_[size_t(v)];
    }
    most = std::max(most, live + s.scratch);
    for (int v : s.inputs)
      if (--left_[size_t(v)] == 0 && !out_[size_t(v)]) live -= std::exchange(block_[size_t(v)], 0);
    for (int v : s.outputs)
      if (left_[size_t(v)] == 0 && !out_[size_t(v)]) live -= std::exchange(block_[size_t(v)], 0);
  }
  tree_.Set(at, most);
}

bool Bundles::Useless(int at, int step) const {
  for (int v : s_.steps[size_t(step)].outputs) {
    const std::vector<Touch>& touches = touches_[size_t(v)];
    const size_t k = FindTouch(v, at);
    if (touches[k].readers > 0 || (k + 1 < touches.size() && !touches[k + 1].made)) return false;
  }
  return true;
}

Copies Bundles::copies() const {
  Copies all;
  for (size_t t = 0; t < bundle_.size(); ++t)
    for (int step : bundle_[t]) all.push_back({int(t), step});
  return all;
}

}  // namespace weft::recompute
