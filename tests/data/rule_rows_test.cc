#include "calyrex/data/rule_rows.h"

#include <cctype>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/data/grader.h"
#include "calyrex/data/rule.h"
#include "calyrex/data/rule_texts.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;

RuleDataOptions small_options(uint64_t seed = 0) {
  RuleDataOptions options;
  options.seed = seed;
  options.train_rows = 1500;
  options.dev_rows_per_rule = 8;
  options.test_rows_per_rule = 12;
  return options;
}

template <typename Visit>
void for_rows(const RuleData& data, Visit visit) {
  for (const auto* rows : {&data.train, &data.dev, &data.test}) {
    for (const RuleRow& row : *rows) visit(row);
  }
}

bool states_rule(const RuleRow& row) { return row.sort == RowSort::kRule || row.sort == RowSort::kOverrule; }

TEST(RuleRequests, AreNoPartOfAHeldOutWording) {
  const auto lower = [](std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
  };
  size_t requests = 0;
  for (const Rule& rule : all_rules()) {
    for (const std::string_view request : rule_requests(rule.name)) {
      ++requests;
      EXPECT_TRUE(rule.trained()) << rule.name;
      for (const auto* held_out : {&rule.wordings.dev, &rule.wordings.test}) {
        for (const std::string_view wording : *held_out) {
          EXPECT_EQ(lower(wording).find(lower(request)), std::string::npos) << rule.name << ": " << request;
        }
      }
    }
  }
  EXPECT_GT(requests, 100u);
}

TEST(RuleCatalogue, HasEnoughRulesAndWordings) {
  size_t trained = 0;
  size_t never_trained = 0;
  for (const Rule& rule : all_rules()) {
    std::set<std::string_view> wordings;
    for (const Split split : {Split::kTrain, Split::kDev, Split::kTest}) {
      wordings.insert(rule.wordings.of(split).begin(), rule.wordings.of(split).end());
    }
    EXPECT_GE(wordings.size(), 6u) << rule.name;
    EXPECT_EQ(wordings.size(),
              rule.wordings.train.size() + rule.wordings.dev.size() + rule.wordings.test.size())
        << rule.name << ": a wording stands twice";
    EXPECT_GE(rule.wordings.test.size(), 3u) << rule.name;
    ++(rule.trained() ? trained : never_trained);
  }
  EXPECT_GE(trained, 20u);
  EXPECT_GE(never_trained, 4u);
}

TEST(RuleRows, ReferenceKeepsTheRuleAndHoldsTheContent) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for_rows(build_rule_data(small_options(seed)), [&](const RuleRow& row) {
      EXPECT_EQ(grade_answer(row, row.answer), (Verdict{true, true})) << row.id << " " << row.wording << "\n"
                                                                      << row.system << "\n"
                                                                      << row.user << "\n"
                                                                      << row.answer;
    });
  }
}

TEST(RuleRows, PlainAnswerBreaksEveryRule) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for_rows(build_rule_data(small_options(seed)), [&](const RuleRow& row) {
      EXPECT_EQ(grade_answer(row, row.plain).rule_kept, !states_rule(row))
          << row.id << " " << row.wording << "\n"
          << row.system << "\n"
          << row.user << "\n"
          << row.plain;
    });
  }
}

TEST(RuleRows, NothingCheapScores) {
  for_rows(build_rule_data(small_options()), [&](const RuleRow& row) {
    for (const char* answer : {"", ".", "OK", "ok", "{}", "- \n- ", "I cannot help with that request!"}) {
      EXPECT_FALSE(states_rule(row) && grade_answer(row, answer).joint()) << row.id << " by " << answer;
    }
  });
}

TEST(RuleRows, SystemMessageStatesWhatTheCheckerNeeds) {
  for_rows(build_rule_data(small_options()), [&](const RuleRow& row) {
    for (const char* name :
         {"phrase", "key", "tag", "word", "code", "unit", "separator", "signature", "marker"}) {
      if (!row.checker.params.contains(name)) continue;
      EXPECT_THAT(row.system, HasSubstr(row.checker.params[name].get<std::string>())) << row.wording;
    }
  });
}

TEST(RuleRows, HeldOutRowsShareNothingWithTraining) {
  const RuleData data = build_rule_data(small_options());
  std::set<std::string> questions;
  std::set<std::string> systems;
  for (const RuleRow& row : data.train) {
    questions.insert(row.question);
    systems.insert(row.system);
    EXPECT_TRUE(row.rule == "none" || find_rule(row.rule)->trained()) << row.rule;
  }
  for (const auto* rows : {&data.dev, &data.test}) {
    for (const RuleRow& row : *rows) {
      EXPECT_EQ(questions.count(row.question), 0u) << row.question;
      EXPECT_TRUE(row.system.empty() || systems.count(row.system) == 0) << row.system;
    }
  }
}

TEST(RuleRows, TextsAroundRulesAreSplitToo) {
  for (const auto texts : {persona_texts, overrule_texts, secret_requests}) {
    std::set<std::string_view> seen;
    size_t total = 0;
    for (const Split split : {Split::kTrain, Split::kDev, Split::kTest}) {
      seen.insert(texts(split).begin(), texts(split).end());
      total += texts(split).size();
    }
    EXPECT_EQ(seen.size(), total);
  }
}

TEST(RuleRows, EveryRuleHasItsRows) {
  const RuleData data = build_rule_data(small_options());
  std::map<std::string, int> test_rows;
  std::map<std::string, std::set<std::string>> test_wordings;
  for (const RuleRow& row : data.test) {
    if (row.sort != RowSort::kRule) continue;
    ++test_rows[row.rule];
    test_wordings[row.rule].insert(row.wording);
  }
  for (const Rule& rule : all_rules()) {
    EXPECT_EQ(test_rows[std::string(rule.name)], 12) << rule.name;
    EXPECT_EQ(test_wordings[std::string(rule.name)].size(), rule.wordings.test.size()) << rule.name;
  }
}

TEST(RuleRows, TrainingMixesEverySort) {
  const RuleData data = build_rule_data(small_options());
  ASSERT_EQ(data.train.size(), 1500u);
  std::map<RowSort, int> sorts;
  for (const RuleRow& row : data.train) {
    ++sorts[row.sort];
    EXPECT_EQ(row.sort == RowSort::kNoSystem, row.system.empty());
  }
  EXPECT_EQ(sorts[RowSort::kOverrule], 180);
  EXPECT_EQ(sorts[RowSort::kOrdinary], 135);
  EXPECT_EQ(sorts[RowSort::kNoSystem], 60);
  EXPECT_GT(sorts[RowSort::kIdle], 0);
  EXPECT_GT(sorts[RowSort::kRule], 1000);
}

TEST(RuleRows, NoChatStandsTwice) {
  const RuleData data = build_rule_data(small_options());
  std::set<std::string> chats;
  std::set<std::string> ids;
  for_rows(data, [&](const RuleRow& row) {
    EXPECT_TRUE(row.sort == RowSort::kNoSystem || chats.insert(row.system + "\n" + row.user).second)
        << row.id;
    EXPECT_TRUE(ids.insert(row.id).second);
  });
}

TEST(RuleRows, SameSeedSameRows) {
  const RuleData first = build_rule_data(small_options(7));
  const RuleData second = build_rule_data(small_options(7));
  const RuleData other = build_rule_data(small_options(8));
  ASSERT_EQ(first.train.size(), second.train.size());
  size_t different = 0;
  for (size_t i = 0; i < first.train.size(); ++i) {
    EXPECT_EQ(row_to_json(to_chat_row(first.train[i]), RowFormat::kMessages),
              row_to_json(to_chat_row(second.train[i]), RowFormat::kMessages));
    different += first.train[i].user != other.train[i].user;
  }
  EXPECT_GT(different, 1000u);
}

TEST(RuleRows, OnlyTheRulesAskedFor) {
  RuleDataOptions options = small_options();
  options.rules = {"upper_case", "hashtag"};
  for_rows(build_rule_data(options), [&](const RuleRow& row) {
    EXPECT_TRUE(row.rule == "none" || row.rule == "upper_case" || row.rule == "hashtag");
  });
}

TEST(RuleRows, RefusesBadOptions) {
  const auto error_of = [](auto change) {
    RuleDataOptions options;
    change(options);
    try {
      build_rule_data(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of([](auto& o) { o.rules = {"upper_cse"}; }),
            "--rules: unknown rule \"upper_cse\"; did you mean \"upper_case\"?");
  EXPECT_THAT(error_of([](auto& o) { o.rules = {"hashtag"}; }),
              HasSubstr("none of the rules is ever trained"));
  EXPECT_EQ(error_of([](auto& o) { o.train_rows = 0; }), "--rows: expected 1 to 1000000, got 0");
  EXPECT_EQ(error_of([](auto& o) { o.test_rows_per_rule = -3; }),
            "--test-rows: expected 1 to 1000000, got -3");
}

TEST(RuleRows, SurviveTheWayThroughAFile) {
  for_rows(build_rule_data(small_options()), [&](const RuleRow& row) {
    for (const RowFormat format : {RowFormat::kMessages, RowFormat::kShareGpt, RowFormat::kAlpaca}) {
      const ChatRow chat = to_chat_row(row);
      const RuleRow copy =
          from_chat_row(parse_row(Json::parse(row_to_json(chat, format).dump()), "rows.jsonl:1"));
      EXPECT_EQ(row_to_json(to_chat_row(copy), RowFormat::kMessages),
                row_to_json(chat, RowFormat::kMessages));
    }
  });
}

TEST(RuleRows, SayWhichFieldOfARowIsWrong) {
  ChatRow chat = to_chat_row(build_rule_data(small_options()).test.front());
  const auto error_of = [](const ChatRow& row) {
    try {
      from_chat_row(row);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  chat.fields["sort"] = "odd";
  EXPECT_EQ(error_of(chat), "row test-00001: unknown split \"test\" or sort \"odd\"");
  chat.fields.erase("sort");
  EXPECT_THAT(error_of(chat), HasSubstr("row test-00001: no text field \"sort\""));
}

}  // namespace
}  // namespace calyrex::data
