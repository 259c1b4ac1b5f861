#include "calyrex/eval/tasks/sysbench_literal.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "calyrex/data/unicode.h"

namespace calyrex::eval {
namespace {

struct Quote {
  std::string_view before;
  std::string_view literal;
  std::string_view after;
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kQuotes = {
    {{"“", "”"}, {"\"", "\""}, {"「", "」"}, {"『", "』"}}};

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return text.ends_with(part); });
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.starts_with(part); });
}

/// The only quoted text of a criterion; nullopt when there is none, or more than one.
std::optional<Quote> only_quote(std::string_view criterion) {
  std::optional<Quote> found;
  for (const auto& [open, close] : kQuotes) {
    const size_t marks = count_of(criterion, open) + (open == close ? 0 : count_of(criterion, close));
    if (marks == 0) continue;
    if (marks != 2 || found) return std::nullopt;
    const size_t begin = criterion.find(open) + open.size();
    const size_t end = criterion.find(close, begin);
    if (end == std::string_view::npos) return std::nullopt;
    found = {.before = criterion.substr(0, begin - open.size()),
             .literal = criterion.substr(begin, end - begin),
             .after = criterion.substr(end + close.size())};
  }
  return found;
}

/// Text that stands for other text: "X、XX：XX", "功德+数字", "①、②……".
bool is_pattern(std::string_view literal) {
  return literal.empty() || has_any(literal, {"X", "xx", "……", "...", "…", "@", "+", "数字", "编号", "名称",
                                              "{", "【", "、", "＋", "○"});
}

/// Wordings that make a check depend on more than the literal: counts, examples, conditions on other places.
bool is_qualified(std::string_view criterion) {
  return has_any(criterion, {"如“",  "例如",   "比如", "类似", "代替", "替代",   "替换",  "之类",
                             "这类", "格式",   "每行", "每段", "每句", "首字母", "一次",  "次数",
                             "至少", "不超过", "标题", "字后", "前加", "前面",   "后面",  "指令",
                             "如果", "模块",   "分别", "之间", "其中", "开头和", "开头与"});
}

/// More than one demand in a sentence.
bool is_compound(std::string_view text) {
  return has_any(text, {"，", ",", "；", ";", "并", "且", "和", "各", "时候"});
}

/// Without the marks that a text may have around a required beginning or end: white space, Markdown, stops.
std::string_view strip_marks(std::string_view text) {
  constexpr std::array<std::string_view, 22> kMarks = {" ",  "\n", "\t", "\r", "*",  "#", "_",  "`",
                                                       ">",  "\"", "“",  "”",  "。", ".", "！", "!",
                                                       "？", "?",  "，", ",",  "：", ":"};
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view mark : kMarks) {
      if (text.starts_with(mark)) {
        text.remove_prefix(mark.size());
        found = true;
      }
      if (text.ends_with(mark)) {
        text.remove_suffix(mark.size());
        found = true;
      }
    }
  }
  return text;
}

std::string_view trim_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<LiteralCheck::Kind> kind_of(std::string_view before, std::string_view after) {
  using Kind = LiteralCheck::Kind;
  if (ends_with_any(before, {"不包含", "不能包含", "没有", "不出现", "不能出现", "不得出现", "不含",
                             "不能含有", "不提及", "不能提及", "避免出现", "不能使用", "不使用", "禁止出现",
                             "不可出现", "不要出现"})) {
    return Kind::kLacks;
  }
  if (has_any(before, {"不", "没", "勿", "禁止", "避免", "拒绝"})) return std::nullopt;
  if (ends_with_any(before, {"以", "用", "使用", "以 "})) {
    if (starts_with_any(after, {"开头", "为开头", "作为开头", "开始", "作为开始", "来开头"}))
      return Kind::kStarts;
    if (starts_with_any(after, {"结尾", "为结尾", "作为结尾", "结束", "作为结束", "来结尾", "收尾"}))
      return Kind::kEnds;
  }
  if (ends_with_any(before,
                    {"包含",   "出现",     "含有",       "提及",      "提到",   "带有", "带上",   "有",
                     "加上",   "回复",     "回复：",     "回答",      "回答：", "输出", "输出：", "表示",
                     "表示：", "告知用户", "告知用户：", "告知用户:", "告知",   "说"})) {
    return Kind::kContains;
  }
  return std::nullopt;
}

}  // namespace

std::optional<LiteralCheck> parse_literal_check(std::string_view criterion) {
  const std::optional<Quote> quote = only_quote(criterion);
  if (!quote || is_qualified(criterion)) return std::nullopt;
  if (is_compound(quote->before) || is_compound(quote->after)) return std::nullopt;
  const std::string literal = data::trim(quote->literal);
  if (is_pattern(literal) || strip_marks(literal).empty()) return std::nullopt;
  const auto kind = kind_of(trim_spaces(quote->before), trim_spaces(quote->after));
  if (!kind) return std::nullopt;
  return LiteralCheck{.kind = *kind, .literal = literal};
}

bool passes_literal(const LiteralCheck& check, std::string_view answer) {
  const std::string text = data::trim(answer);
  switch (check.kind) {
    case LiteralCheck::Kind::kContains:
      return text.find(check.literal) != std::string::npos;
    case LiteralCheck::Kind::kLacks:
      return !text.empty() && text.find(check.literal) == std::string::npos;
    case LiteralCheck::Kind::kStarts:
      return text.starts_with(check.literal) || strip_marks(text).starts_with(strip_marks(check.literal));
    case LiteralCheck::Kind::kEnds:
      return text.ends_with(check.literal) || strip_marks(text).ends_with(strip_marks(check.literal));
  }
  return false;
}

}  // namespace calyrex::eval
