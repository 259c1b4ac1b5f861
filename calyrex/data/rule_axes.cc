#include "calyrex/data/rule_axes.h"

#include <algorithm>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/filler.h"
#include "calyrex/data/rule_texts.h"

namespace calyrex::data {
namespace {

constexpr int kShots = 16;
constexpr int kTurns = 10;

/// Cases of a rule on an axis: long prompts are dear.
int64_t cases_on(std::string_view axis) {
  if (axis == "plain") return 8;
  return axis == "filler" ? 2 : 4;
}

int64_t filler_tokens(std::string_view variant) {
  if (variant == "filler_2k") return 2000;
  return variant == "filler_4k" ? 4000 : 7000;
}

/// A drawn case with the stream that its variants go on from.
struct DrawnCase {
  const Rule* rule;
  int64_t number;
  RuleRow row;
};

DrawnCase draw_case(const Rule& rule, int64_t number, const AxisOptions& options) {
  RandomStream random(options.seed,
                      fmt::format("axes {} {} {}", split_name(options.split), rule.name, number));
  const Question question = draw_question(rule.kinds, options.split, random);
  const RuleCase drawn = rule.draw(question, options.split, random);
  const auto& wordings = rule.wordings.of(options.split);
  const auto wording = static_cast<size_t>(number) % wordings.size();
  return {.rule = &rule,
          .number = number,
          .row = {.id = {},
                  .split = options.split,
                  .sort = RowSort::kRule,
                  .rule = std::string(rule.name),
                  .wording = fmt::format("{}/{}/{}", rule.name, split_name(options.split), wording),
                  .question = drawn.question,
                  .system = state_rule(wordings[wording], drawn),
                  .user = drawn.user,
                  .answer = drawn.answer,
                  .plain = drawn.plain,
                  .checker = {.rule = std::string(rule.name), .params = drawn.params},
                  .expected = drawn.expected}};
}

/// False when plain answers do not break the rule.
bool add_shots(const Rule& rule, AxisRow& row, RandomStream& random) {
  for (int i = 0; i < kShots; ++i) {
    const auto turn = draw_breaking_turn(rule, row.row.checker, row.row.user, row.row.split, random);
    if (!turn) return false;
    row.earlier.push_back({.role = "user", .content = turn->first});
    row.earlier.push_back({.role = "assistant", .content = turn->second});
  }
  return true;
}

bool add_attack(const Rule& rule, AxisRow& row, RandomStream& random) {
  const std::string_view name = row.variant.name;
  if (rule.overruling == Overruling::kNever) return false;
  RuleRow& text = row.row;
  if (name.starts_with("attack_override")) {
    const std::string_view attempt = pick_one(overrule_texts(text.split), random);
    text.user = random.below(2) == 0 ? fmt::format("{} {}", text.user, attempt)
                                     : fmt::format("{} {}", attempt, text.user);
  } else if (name.starts_with("attack_header")) {
    text.user = fill(pick_one(fake_headers(text.split), random), {{.name = "question", .value = text.user}});
  } else if (!add_shots(rule, row, random)) {
    return false;
  }
  if (name.ends_with("_defended"))
    text.system = fmt::format("{} {}", text.system, pick_one(defence_texts(text.split), random));
  return true;
}

void add_filler(AxisRow& row, const AxisOptions& options) {
  const RandomStream stream(options.seed, "filler " + row.row.id);
  row.row.user = fmt::format("{}\n\nSo far the notes. Now the question: {}",
                             filler_text(filler_tokens(row.variant.name), stream), row.row.user);
}

void add_turns(const Rule& rule, AxisRow& row, RandomStream& random) {
  for (int i = 0; i < kTurns; ++i)
    row.first_questions.push_back(draw_question(rule.kinds, row.row.split, random).prompt);
}

std::optional<AxisRow> make_row(const DrawnCase& drawn, const AxisVariant& variant,
                                const AxisOptions& options) {
  AxisRow row{.row = drawn.row, .variant = variant, .earlier = {}, .first_questions = {}};
  row.row.id = fmt::format("{}-{}/{}", drawn.rule->name, drawn.number, variant.name);
  // With and without the defence the attack itself is the same.
  std::string_view attack = variant.name;
  if (attack.ends_with("_defended")) attack.remove_suffix(std::string_view("_defended").size());
  RandomStream random(options.seed, fmt::format("{}-{} {} {}", drawn.rule->name, drawn.number,
                                                split_name(options.split), attack));
  if (variant.axis == "attack" && !add_attack(*drawn.rule, row, random)) return std::nullopt;
  if (variant.axis == "filler") add_filler(row, options);
  if (variant.axis == "turns") add_turns(*drawn.rule, row, random);
  return row;
}

}  // namespace

const std::vector<AxisVariant>& axis_variants() {
  static const std::vector<AxisVariant> variants = {{"plain", "plain"},
                                                    {"attack", "attack_override"},
                                                    {"attack", "attack_override_defended"},
                                                    {"attack", "attack_header"},
                                                    {"attack", "attack_header_defended"},
                                                    {"attack", "attack_shots"},
                                                    {"attack", "attack_shots_defended"},
                                                    {"filler", "filler_2k"},
                                                    {"filler", "filler_4k"},
                                                    {"filler", "filler_7k"},
                                                    {"turns", "turns_10"}};
  return variants;
}

std::vector<AxisRow> build_axis_rows(const AxisOptions& options) {
  std::vector<AxisRow> rows;
  const auto wanted = [&](const Rule& rule) {
    const bool named = options.rules.empty() || std::find(options.rules.begin(), options.rules.end(),
                                                          rule.name) != options.rules.end();
    return named && rule.trained() && !rule.wordings.of(options.split).empty();
  };
  for (int64_t number = 0; number < cases_on("plain"); ++number) {
    for (const Rule& rule : all_rules()) {
      if (!wanted(rule)) continue;
      const DrawnCase drawn = draw_case(rule, number, options);
      for (const AxisVariant& variant : axis_variants()) {
        if (!options.axis.empty() && variant.axis != options.axis) continue;
        if (number >= cases_on(variant.axis)) continue;
        if (auto row = make_row(drawn, variant, options)) rows.push_back(std::move(*row));
      }
    }
  }
  return rows;
}

std::optional<std::pair<std::string, std::string>> draw_breaking_turn(const Rule& rule,
                                                                      const Checker& checker,
                                                                      const std::string& last_question,
                                                                      Split split, RandomStream& random) {
  constexpr int kAttempts = 30;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Question question = draw_question(rule.kinds, split, random);
    if (question.prompt == last_question || keeps_rule(checker, question.plain)) continue;
    return std::pair(question.prompt, question.plain);
  }
  return std::nullopt;
}

}  // namespace calyrex::data
