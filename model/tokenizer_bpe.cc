#include <algorithm>
#include <bit>

#include "model/tokenizer_data.h"

namespace elastiq {

void MergeTable::resize(std::size_t rules) {
  slots_.assign(std::bit_ceil(2 * rules + 2), Slot{});
}

std::size_t MergeTable::slot_of(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  // Multiplicative hashing: the golden ratio in 64 bits; the high half is the well-mixed one.
  std::size_t slot = ((key * 0x9e3779b97f4a7c15u) >> 32) & mask;
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::insert(std::uint32_t left, std::uint32_t right, MergeRule rule) {
  const std::uint64_t key = (std::uint64_t{left} << 32) | right;
  slots_[slot_of(key)] = Slot{key, rule};
}

const MergeRule* MergeTable::find(std::uint32_t left, std::uint32_t right) const {
  const Slot& slot = slots_[slot_of((std::uint64_t{left} << 32) | right)];
  return slot.key == kEmpty ? nullptr : &slot.rule;
}

namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

void BpeMerger::offer(const MergeTable& table, const std::vector<std::uint32_t>& symbols,
                      std::uint32_t position) {
  if (position == kNone || next_[position] == kNone) return;
  const MergeRule* rule = table.find(symbols[position], symbols[next_[position]]);
  if (rule == nullptr) return;
  heap_.push_back(Candidate{rule->rank, position, rule->merged});
}

void BpeMerger::merge(const MergeTable& table, std::vector<std::uint32_t>& symbols) {
  const auto n = static_cast<std::uint32_t>(symbols.size());
  if (n < 2) return;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  next_.resize(n);
  previous_.resize(n);
  heap_.clear();
  for (std::uint32_t i = 0; i < n; ++i) {
    next_[i] = i + 1 < n ? i + 1 : kNone;
    previous_[i] = i > 0 ? i - 1 : kNone;
  }
  for (std::uint32_t i = 0; i + 1 < n; ++i) offer(table, symbols, i);
  std::make_heap(heap_.begin(), heap_.end(), later);

  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    const std::uint32_t left = best.position;
    const std::uint32_t right = next_[left];
    if (symbols[left] == kNone || right == kNone) continue;
    // The pair here may have changed since the candidate was offered.
    const MergeRule* rule = table.find(symbols[left], symbols[right]);
    if (rule == nullptr || rule->merged != best.merged || rule->rank != best.rank) continue;
    symbols[left] = rule->merged;
    symbols[right] = kNone;
    next_[left] = next_[right];
    if (next_[left] != kNone) previous_[next_[left]] = left;
    for (const std::uint32_t position : {previous_[left], left}) {
      const std::size_t before = heap_.size();
      offer(table, symbols, position);
      if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }
  std::erase(symbols, kNone);
}

}  // namespace elastiq
