#include <algorithm>

#include "model/tokenizer_data.h"

namespace elastiq {
namespace {

void keep(std::string_view text, std::size_t first, std::size_t last,
          std::vector<std::string_view>& out) {
  if (last > first) out.push_back(text.substr(first, last - first));
}

void cut_by_regex(const PieceStep& step, std::string_view text, PieceScratch& scratch) {
  std::size_t at = 0;
  while (at < text.size()) {
    const RegexSpan span = step.regex.find(text, at, scratch.regex);
    if (step.kind != PieceStep::Kind::kDropRest) keep(text, at, span.first, scratch.next);
    if (step.kind != PieceStep::Kind::kDropMatches) {
      keep(text, span.first, span.last, scratch.next);
    }
    at = span.last;
  }
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    out.append(text.substr(at, found - at));
    if (found == text.size()) break;
    out.append(to);
    at = found + from.size();
  }
  return out;
}

void cut_spaces(const PieceStep& step, std::string_view text, TextPlace place,
                PieceScratch& scratch) {
  const bool prefix = step.prefix == PieceStep::Prefix::kAlways ||
                      (step.prefix == PieceStep::Prefix::kFirst && place == TextPlace::kStart);
  std::string changed = replace_all(text, " ", kMetaspace);
  if (prefix && !changed.starts_with(kMetaspace)) changed.insert(0, kMetaspace);
  const std::string_view whole = scratch.storage.emplace_back(std::move(changed));
  if (!step.split) {
    scratch.next.push_back(whole);
    return;
  }
  std::size_t at = 0;
  while (at < whole.size()) {
    const std::size_t end = std::min(whole.find(kMetaspace, at + 1), whole.size());
    keep(whole, at, end, scratch.next);
    at = end;
  }
}

void apply_step(const PieceStep& step, TextPlace place, PieceScratch& scratch) {
  scratch.next.clear();
  for (std::size_t i = 0; i < scratch.pieces.size(); ++i) {
    const std::string_view piece = scratch.pieces[i];
    switch (step.kind) {
      case PieceStep::Kind::kPrefixSpace:
        scratch.next.push_back(piece);
        if (piece.starts_with(' ')) break;
        scratch.next.back() = scratch.storage.emplace_back(" ").append(piece);
        break;
      case PieceStep::Kind::kSpaces:
        cut_spaces(step, piece, i == 0 ? place : TextPlace::kLater, scratch);
        break;
      default:
        cut_by_regex(step, piece, scratch);
        break;
    }
  }
  scratch.pieces.swap(scratch.next);
}

}  // namespace

void cut_pieces(const std::vector<PieceStep>& steps, std::string_view text, TextPlace place,
                PieceScratch& scratch) {
  scratch.storage.clear();
  scratch.pieces.assign(1, text);
  for (const PieceStep& step : steps) apply_step(step, place, scratch);
}

std::string normalize(const std::vector<NormalizerStep>& steps, std::string_view text) {
  std::string out(text);
  for (const NormalizerStep& step : steps) {
    if (!step.pattern.empty()) {
      out = replace_all(out, step.pattern, step.content);
    } else if (!out.empty()) {
      out.insert(0, step.content);
    }
  }
  return out;
}

// ---------------------------------------------------------------- added tokens

void AddedTokenFinder::add(std::string pattern, const AddedToken& token) {
  if (!pattern.empty()) entries_.push_back(Entry{std::move(pattern), token});
}

Status AddedTokenFinder::prepare(const std::string& subject) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.pattern.size() > b.pattern.size();
  });
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    by_first_byte_[static_cast<unsigned char>(entries_[i].pattern[0])].push_back(i);
  }
  ELQ_TRY(word, Regex::compile("\\w", subject));
  word_ = std::move(word);
  return ok_status();
}

namespace {

// Start of the character that ends before `end`.
std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

std::size_t character_after(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

bool is_space(std::string_view character) {
  constexpr std::array<std::string_view, 25> kSpaces = {
      "\t",           "\n",           "\v",
      "\f",           "\r",           " ",
      "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
      "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82",
      "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85",
      "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
      "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
      "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
      "\xe3\x80\x80"};
  return std::find(kSpaces.begin(), kSpaces.end(), character) != kSpaces.end();
}

}  // namespace

const AddedTokenFinder::Entry* AddedTokenFinder::match(std::string_view text, std::size_t at,
                                                       RegexScratch& scratch) const {
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[at])]) {
    const Entry& entry = entries_[i];
    if (!text.substr(at).starts_with(entry.pattern)) continue;
    if (!entry.token.single_word) return &entry;
    const auto is_word = [&](std::size_t first, std::size_t last) {
      return word_.find(text.substr(first, last - first), 0, scratch).last > 0 &&
             word_.find(text.substr(first, last - first), 0, scratch).first == 0;
    };
    const std::size_t end = at + entry.pattern.size();
    const bool before = at > 0 && is_word(character_before(text, at), at);
    const bool after = end < text.size() && is_word(end, character_after(text, end));
    return before || after ? nullptr : &entry;
  }
  return nullptr;
}

void AddedTokenFinder::split(std::string_view text, std::vector<TextPart>& parts,
                             RegexScratch& scratch) const {
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool possible = !by_first_byte_[static_cast<unsigned char>(text[at])].empty();
    const Entry* entry = possible ? match(text, at, scratch) : nullptr;
    if (entry == nullptr) {
      ++at;
      continue;
    }
    std::size_t first = at;
    std::size_t last = at + entry->pattern.size();
    while (entry->token.lstrip && first > begin) {
      const std::size_t previous = character_before(text, first);
      if (!is_space(text.substr(previous, first - previous))) break;
      first = previous;
    }
    while (entry->token.rstrip && last < text.size()) {
      const std::size_t following = character_after(text, last);
      if (!is_space(text.substr(last, following - last))) break;
      last = following;
    }
    if (first > begin)
      parts.push_back(TextPart{text.substr(begin, first - begin), kNoToken, begin});
    parts.push_back(TextPart{text.substr(first, last - first),
                             static_cast<std::int32_t>(entry->token.id), first});
    begin = at = last;
  }
  if (begin < text.size()) parts.push_back(TextPart{text.substr(begin), kNoToken, begin});
}

}  // namespace elastiq
