#include "calyrex/data/rule_rows.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/checker_table.h"
#include "calyrex/data/rule.h"
#include "calyrex/data/rule_texts.h"

namespace calyrex::data {
namespace {

constexpr int64_t kMaxRows = 1'000'000;

/// Shares of the training rows, in percent; what is left states a rule.
constexpr int64_t kOverrulePercent = 12;
constexpr int64_t kOrdinaryPercent = 9;
constexpr int64_t kNoSystemPercent = 4;
/// Of a rule's rows, where it has idle cases.
constexpr uint64_t kIdleOneIn = 4;

struct RowPlan {
  RowSort sort = RowSort::kRule;
  const Rule* rule = nullptr;
  size_t wording = 0;
};

std::string system_text(const std::string& statement, Split split, RandomStream& random) {
  const auto& personas = persona_texts(split);
  switch (random.below(5)) {
    case 0:
    case 1:
      return fmt::format("{} {}", pick_one(personas, random), statement);
    case 2:
      return fmt::format("{} {}", statement, pick_one(personas, random));
    default:
      return statement;
  }
}

std::string overrule(const std::string& user, Split split, RandomStream& random) {
  const std::string_view attempt = pick_one(overrule_texts(split), random);
  return random.below(2) == 0 ? fmt::format("{} {}", user, attempt) : fmt::format("{} {}", attempt, user);
}

RuleRow draw_rule_row(const RowPlan& plan, Split split, RandomStream& random) {
  const Rule& rule = *plan.rule;
  const Question question = draw_question(rule.kinds, split, random);
  const bool idle = plan.sort == RowSort::kIdle;
  const RuleCase drawn = (idle ? rule.draw_idle : rule.draw)(question, split, random);
  const auto& wordings = rule.wordings.of(split);
  const size_t wording = plan.wording % wordings.size();
  RuleRow row{.id = {},
              .split = split,
              .sort = plan.sort,
              .rule = std::string(rule.name),
              .wording = fmt::format("{}/{}/{}", rule.name, split_name(split), wording),
              .question = drawn.question,
              .system = system_text(state_rule(wordings[wording], drawn), split, random),
              .user = drawn.user,
              .answer = drawn.answer,
              .plain = drawn.plain,
              .checker = {.rule = std::string(rule.name), .params = drawn.params},
              .expected = drawn.expected};
  if (plan.sort == RowSort::kOverrule) row.user = overrule(drawn.user, split, random);
  return row;
}

RuleRow draw_plain_row(RowSort sort, Split split, RandomStream& random) {
  using enum QuestionKind;
  const Question question = draw_question({kWord, kPhrase, kSentence, kNumber, kList}, split, random);
  RuleRow row{.id = {},
              .split = split,
              .sort = sort,
              .question = question.id,
              .system = {},
              .user = question.prompt,
              .answer = question.plain,
              .plain = question.plain,
              .expected = question.expected};
  if (sort == RowSort::kOrdinary) row.system = pick_one(persona_texts(split), random);
  return row;
}

/// Draws until the row's chat is new, so that no row stands twice in a split.
RuleRow draw_row(const RowPlan& plan, Split split, std::set<std::string>& seen, RandomStream& random) {
  constexpr int kAttempts = 200;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RuleRow row =
        plan.rule != nullptr ? draw_rule_row(plan, split, random) : draw_plain_row(plan.sort, split, random);
    if (seen.insert(row.system + '\n' + row.user).second || attempt + 1 == kAttempts) return row;
  }
  CALYREX_CHECK(false, "no row drawn");
}

std::vector<const Rule*> select_rules(const std::vector<std::string>& names) {
  std::vector<const Rule*> selected;
  std::vector<std::string> known;
  for (const Rule& rule : all_rules()) {
    known.emplace_back(rule.name);
    if (names.empty() || std::count(names.begin(), names.end(), rule.name) > 0) selected.push_back(&rule);
  }
  for (const std::string& name : names) {
    if (find_rule(name) == nullptr) fail_unknown_rule("--rules: ", name, known);
  }
  if (std::none_of(selected.begin(), selected.end(), [](const Rule* rule) { return rule->trained(); })) {
    fail(ErrorCode::kInvalidArgument, "none of the rules is ever trained; add one that is, e.g. upper_case");
  }
  return selected;
}

std::vector<RowPlan> plan_training(const std::vector<const Rule*>& rules, int64_t rows,
                                   RandomStream& random) {
  std::vector<const Rule*> trained;
  std::vector<const Rule*> overrulable;
  for (const Rule* rule : rules) {
    if (!rule->trained()) continue;
    trained.push_back(rule);
    if (rule->overruling == Overruling::kPossible) overrulable.push_back(rule);
  }
  std::vector<RowPlan> plans;
  const auto spread = [&](int64_t count, RowSort sort, const std::vector<const Rule*>& over) {
    for (int64_t i = 0; i < count; ++i) {
      RowPlan plan{.sort = sort};
      if (!over.empty()) {
        plan.rule = over[static_cast<size_t>(i) % over.size()];
        plan.wording = random.below(plan.rule->wordings.train.size());
        if (sort == RowSort::kRule && plan.rule->draw_idle != nullptr && random.below(kIdleOneIn) == 0) {
          plan.sort = RowSort::kIdle;
        }
      }
      plans.push_back(plan);
    }
  };
  const int64_t overruled = overrulable.empty() ? 0 : rows * kOverrulePercent / 100;
  const int64_t ordinary = rows * kOrdinaryPercent / 100;
  const int64_t without = rows * kNoSystemPercent / 100;
  spread(rows - overruled - ordinary - without, RowSort::kRule, trained);
  spread(overruled, RowSort::kOverrule, overrulable);
  spread(ordinary, RowSort::kOrdinary, {});
  spread(without, RowSort::kNoSystem, {});
  random.shuffle(plans);
  return plans;
}

std::vector<RowPlan> plan_held_out(const std::vector<const Rule*>& rules, Split split, int64_t per_rule,
                                   int64_t overrule_per_rule) {
  std::vector<RowPlan> plans;
  const auto add = [&](RowSort sort, const Rule* rule, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      plans.push_back({.sort = sort, .rule = rule, .wording = static_cast<size_t>(i)});
    }
  };
  for (const Rule* rule : rules) {
    if (rule->wordings.of(split).empty()) continue;
    add(RowSort::kRule, rule, per_rule);
    if (rule->trained() && rule->overruling == Overruling::kPossible) {
      add(RowSort::kOverrule, rule, overrule_per_rule);
    }
    if (rule->draw_idle != nullptr) add(RowSort::kIdle, rule, per_rule / 2);
  }
  add(RowSort::kOrdinary, nullptr, 2 * per_rule);
  add(RowSort::kNoSystem, nullptr, per_rule);
  return plans;
}

std::vector<RuleRow> draw_rows(const std::vector<RowPlan>& plans, Split split, uint64_t seed) {
  RandomStream random(seed, fmt::format("rule data {}", split_name(split)));
  std::set<std::string> seen;
  std::vector<RuleRow> rows;
  rows.reserve(plans.size());
  for (const RowPlan& plan : plans) {
    rows.push_back(draw_row(plan, split, seen, random));
    rows.back().id = fmt::format("{}-{:05}", split_name(split), rows.size());
  }
  return rows;
}

void check_count(std::string_view name, int64_t value, int64_t least) {
  if (value < least || value > kMaxRows) {
    fail(ErrorCode::kInvalidArgument, "{}: expected {} to {}, got {}", name, least, kMaxRows, value);
  }
}

}  // namespace

std::string_view sort_name(RowSort sort) {
  switch (sort) {
    case RowSort::kRule:
      return "rule";
    case RowSort::kOverrule:
      return "overrule";
    case RowSort::kIdle:
      return "idle";
    case RowSort::kOrdinary:
      return "ordinary";
    case RowSort::kNoSystem:
      return "no_system";
  }
  return "?";
}

RuleData build_rule_data(const RuleDataOptions& options) {
  check_count("--rows", options.train_rows, 1);
  check_count("--dev-rows", options.dev_rows_per_rule, 0);
  check_count("--test-rows", options.test_rows_per_rule, 1);
  check_count("--overrule-rows", options.test_overrule_rows_per_rule, 0);
  const auto rules = select_rules(options.rules);
  RandomStream random(options.seed, "rule data plan");
  RuleData data;
  data.train = draw_rows(plan_training(rules, options.train_rows, random), Split::kTrain, options.seed);
  data.dev = draw_rows(plan_held_out(rules, Split::kDev, options.dev_rows_per_rule, /*overrule_per_rule=*/0),
                       Split::kDev, options.seed);
  data.test = draw_rows(
      plan_held_out(rules, Split::kTest, options.test_rows_per_rule, options.test_overrule_rows_per_rule),
      Split::kTest, options.seed);
  return data;
}

ChatRow to_chat_row(const RuleRow& row) {
  ChatRow chat;
  chat.id = row.id;
  if (!row.system.empty()) chat.messages.push_back({.role = "system", .content = row.system});
  chat.messages.push_back({.role = "user", .content = row.user});
  chat.messages.push_back({.role = "assistant", .content = row.answer});
  chat.fields["split"] = split_name(row.split);
  chat.fields["sort"] = sort_name(row.sort);
  chat.fields["rule"] = row.rule;
  chat.fields["wording"] = row.wording;
  chat.fields["question"] = row.question;
  chat.fields["checker"] = checker_to_json(row.checker);
  chat.fields["expected"] = content_to_json(row.expected);
  chat.fields["plain_answer"] = row.plain;
  return chat;
}

RuleRow from_chat_row(const ChatRow& chat) {
  const auto text = [&](const char* name) {
    if (!chat.fields.contains(name) || !chat.fields[name].is_string()) {
      fail(ErrorCode::kInvalidArgument, "row {}: no text field \"{}\"; is this a file of `data build rules`?",
           chat.id, name);
    }
    return chat.fields[name].get<std::string>();
  };
  RuleRow row{.id = chat.id, .rule = text("rule"), .wording = text("wording"), .question = text("question")};
  row.plain = text("plain_answer");
  constexpr auto kSplits = std::to_array<Split>({Split::kTrain, Split::kDev, Split::kTest});
  constexpr auto kSorts = std::to_array<RowSort>(
      {RowSort::kRule, RowSort::kOverrule, RowSort::kIdle, RowSort::kOrdinary, RowSort::kNoSystem});
  const std::string split = text("split");
  const std::string sort = text("sort");
  const auto found_split =
      std::find_if(kSplits.begin(), kSplits.end(), [&](Split s) { return split_name(s) == split; });
  const auto found_sort =
      std::find_if(kSorts.begin(), kSorts.end(), [&](RowSort s) { return sort_name(s) == sort; });
  if (found_split == kSplits.end() || found_sort == kSorts.end()) {
    fail(ErrorCode::kInvalidArgument, "row {}: unknown split \"{}\" or sort \"{}\"", chat.id, split, sort);
  }
  row.split = *found_split;
  row.sort = *found_sort;
  const std::string source = fmt::format("row {}", chat.id);
  row.checker = parse_checker(chat.fields.value("checker", Json()), source);
  row.expected = parse_content(chat.fields.value("expected", Json()), source);
  for (const text::Message& message : chat.messages) {
    if (message.role == "system") row.system = message.content;
    if (message.role == "user") row.user = message.content;
    if (message.role == "assistant") row.answer = message.content;
  }
  return row;
}

}  // namespace calyrex::data
