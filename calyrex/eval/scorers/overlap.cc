#include "calyrex/eval/scorers/overlap.h"

#include <algorithm>
#include <unordered_map>

#include "calyrex/data/unicode.h"

namespace calyrex::eval {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kUnknown = -1;  // a word of the answer that the reference lacks

using Words = std::vector<std::u32string_view>;

/// Views of the words of a lower-cased text.
Words words_of(std::u32string_view text) {
  Words words;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const bool inside = at < text.size() && data::is_letter_digit_or_mark(text[at]);
    if (inside && !data::is_word_by_itself(text[at])) continue;
    if (at > begin) words.push_back(text.substr(begin, at - begin));
    if (inside) words.push_back(text.substr(at, 1));
    begin = at + 1;
  }
  return words;
}

/// The places of each word of the reference, as bits. Frequent words keep theirs; those of rare ones are set
/// for one use. Either way a word costs no more time than the reference has blocks, and all take linear
/// space.
class PlaceBits {
 public:
  PlaceBits(const Ids& reference, size_t num_ids) : places_(num_ids), kept_(num_ids) {
    for (size_t i = 0; i < reference.size(); ++i) places_[static_cast<size_t>(reference[i])].push_back(i);
    scratch_.assign((reference.size() + 63) / 64, 0);
    for (size_t id = 0; id < num_ids; ++id) {
      if (places_[id].size() <= scratch_.size()) continue;
      kept_[id].assign(scratch_.size(), 0);
      set_bits(id, kept_[id]);
    }
  }

  size_t num_blocks() const { return scratch_.size(); }

  /// Valid until the next call.
  const std::vector<uint64_t>& of(size_t id) {
    if (!kept_[id].empty()) return kept_[id];
    for (const size_t i : places_[set_]) scratch_[i / 64] = 0;
    set_bits(id, scratch_);
    set_ = id;
    return scratch_;
  }

 private:
  void set_bits(size_t id, std::vector<uint64_t>& bits) const {
    for (const size_t i : places_[id]) bits[i / 64] |= uint64_t{1} << (i % 64);
  }

  std::vector<std::vector<size_t>> places_;
  std::vector<std::vector<uint64_t>> kept_;
  std::vector<uint64_t> scratch_;
  size_t set_ = 0;  // whose bits the scratch holds
};

/// Length of the longest common subsequence. Bit i of `row` is 0 where the length grows at place i.
int64_t common_subsequence(const Ids& answer, const Ids& reference, size_t num_ids) {
  PlaceBits places(reference, num_ids);
  std::vector<uint64_t> row(places.num_blocks(), ~uint64_t{0});
  for (const int32_t id : answer) {
    if (id == kUnknown) continue;
    const std::vector<uint64_t>& matches = places.of(static_cast<size_t>(id));
    uint64_t carry = 0;
    for (size_t b = 0; b < row.size(); ++b) {
      const uint64_t sum = row[b] + (row[b] & matches[b]);
      const uint64_t with_carry = sum + carry;
      carry = (sum < row[b] || with_carry < sum) ? 1 : 0;
      row[b] = with_carry | (row[b] & ~matches[b]);
    }
  }
  int64_t length = 0;
  for (size_t i = 0; i < reference.size(); ++i) length += ((row[i / 64] >> (i % 64)) & 1) == 0;
  return length;
}

/// Suffix automaton of a text: recognises every run of its words, in linear space.
class RunFinder {
 public:
  explicit RunFinder(const Ids& reference) {
    states_.emplace_back();
    for (const int32_t id : reference) extend(id);
  }

  int64_t longest_in(const Ids& answer) const {
    int64_t best = 0;
    int64_t length = 0;
    size_t state = 0;
    for (const int32_t id : answer) {
      while (state != 0 && !states_[state].next.contains(id)) {
        state = static_cast<size_t>(states_[state].link);
        length = states_[state].length;
      }
      const auto found = states_[state].next.find(id);
      if (found != states_[state].next.end()) {
        state = found->second;
        ++length;
      }
      best = std::max(best, length);
    }
    return best;
  }

 private:
  struct State {
    int64_t length = 0;
    int64_t link = -1;
    std::unordered_map<int32_t, size_t> next;
  };

  void extend(int32_t id) {
    const size_t added = states_.size();
    states_.push_back({.length = states_[last_].length + 1, .link = 0, .next = {}});
    int64_t state = static_cast<int64_t>(last_);
    while (state != -1 && !at(state).next.contains(id)) {
      at(state).next[id] = added;
      state = at(state).link;
    }
    if (state != -1) states_[added].link = static_cast<int64_t>(target_of(state, id));
    last_ = added;
  }

  /// The state that `state` reaches by `id`, split when longer runs share it.
  size_t target_of(int64_t state, int32_t id) {
    const size_t target = at(state).next[id];
    if (at(state).length + 1 == states_[target].length) return target;
    const size_t copy = states_.size();
    State copied = states_[target];
    copied.length = at(state).length + 1;
    states_.push_back(std::move(copied));
    states_[target].link = static_cast<int64_t>(copy);
    for (int64_t from = state; from != -1; from = at(from).link) {
      const auto found = at(from).next.find(id);
      if (found == at(from).next.end() || found->second != target) break;
      found->second = copy;
    }
    return copy;
  }

  State& at(int64_t state) { return states_[static_cast<size_t>(state)]; }

  std::vector<State> states_;
  size_t last_ = 0;
};

}  // namespace

Overlap text_overlap(std::string_view answer, std::string_view reference) {
  const std::u32string wanted_text = data::code_points(data::to_lower(reference));
  const std::u32string said_text = data::code_points(data::to_lower(answer));
  std::unordered_map<std::u32string_view, int32_t> known;
  Ids wanted;
  for (const std::u32string_view word : words_of(wanted_text)) {
    wanted.push_back(known.emplace(word, known.size()).first->second);
  }
  if (wanted.empty()) return {};
  Ids said;
  for (const std::u32string_view word : words_of(said_text)) {
    const auto found = known.find(word);
    said.push_back(found == known.end() ? kUnknown : found->second);
  }
  const int64_t common = common_subsequence(said, wanted, known.size());
  return {.rouge_l_recall = static_cast<double>(common) / static_cast<double>(wanted.size()),
          .longest_run = RunFinder(wanted).longest_in(said),
          .reference_words = static_cast<int64_t>(wanted.size())};
}

}  // namespace calyrex::eval
