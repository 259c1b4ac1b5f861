// Results of a hand-made study: means over seeds, words for differences, tables.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/file.h"
#include "calyrex/study/results/collect.h"
#include "calyrex/study/results/tables.h"
#include "tests/weights/test_files.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kSamples = 60;

/// Whether a run passes a sample of the given number on an axis.
using Passes = std::function<bool(int sample, const std::string& axis)>;

class HandMadeStudy {
 public:
  HandMadeStudy() {
    plan_ = {{"format", "calyrex-study-plan"},
             {"version", 1},
             {"name", "hand-made"},
             {"model", "tiny"},
             {"backbone", {{"parameters", 1000}}},
             {"settings", Json::object()}};
    plan_["eval"] = Json::array({{{"name", "rules"},
                                  {"task", "rule_axes"},
                                  {"measures", "rules"},
                                  {"headline", {"joint/plain", "joint/turns"}}}});
    plan_["runs"] = Json::array();
  }

  void add(const std::string& setting, const std::string& kind, const Json& seed, const Passes& passes) {
    const std::string name = seed.is_null() ? setting : setting + "-s" + seed.dump();
    plan_["runs"].push_back({{"name", name},
                             {"setting", setting},
                             {"kind", kind},
                             {"placement", kind == "cal" ? Json("[1,2]") : Json()},
                             {"layers", Json::array()},
                             {"arm", "equal_shape"},
                             {"seed", seed},
                             {"parameters", 10},
                             {"not_applicable", nullptr},
                             {"same_as", nullptr}});
    std::string lines;
    int64_t passed = 0;
    for (const std::string axis : {"plain", "turns"}) {
      for (int i = 0; i < kSamples; ++i) {
        const bool pass = passes(i, axis);
        passed += pass ? 1 : 0;
        lines += to_json_line({{"id", axis + std::to_string(i)},
                               {"prompt", ""},
                               {"response", ""},
                               {"scores", {{"joint", pass ? 1.0 : 0.0}, {"other", 0.5}}},
                               {"rule", i < kSamples / 2 ? "a" : "b"},
                               {"axis", axis}}) +
                 "\n";
      }
    }
    const fs::path folder = folder_ / ("runs/" + name);
    make_directories(folder / "eval");
    write_file_atomically(folder / "eval/samples.jsonl", lines);
    const double share = static_cast<double>(passed) / (2 * kSamples);
    const Json metric = {{"value", share}, {"low", 0.0}, {"high", 1.0}};
    const Json results = {
        {"n", 2 * kSamples}, {"metrics", {{"joint/plain", metric}}}, {"headline", {"joint/plain"}}};
    write_file_atomically(
        folder / "result.json",
        to_json_text(
            {{"format", "calyrex-study-run"},
             {"training", nullptr},
             {"eval",
              Json::array(
                  {{{"name", "rules"}, {"task", "rule_axes"}, {"folder", "eval"}, {"results", results}}})}}));
  }

  Json collect() {
    write_file_atomically(folder_ / "study.json", to_json_text(plan_));
    return collect_study(folder_.path(), Differences::kCompute);
  }

 private:
  test::TempFolder folder_;
  Json plan_;
};

Json find_comparison(const Json& study, const std::string& setting, const std::string& baseline,
                     const std::string& axis) {
  for (const Json& c : study["comparisons"]) {
    if (c["setting"] == setting && c["baseline"] == baseline && c["axis"] == axis) return c;
  }
  return nullptr;
}

Json make_study() {
  HandMadeStudy study;
  study.add("base", "base", nullptr, [](int i, const std::string&) { return i % 10 == 0; });
  // Three seeds that differ a little and are far above the base on the plain axis alone.
  for (int seed = 0; seed < 3; ++seed) {
    study.add("cal-late", "cal", seed, [seed](int i, const std::string& axis) {
      return axis == "plain" ? (i + seed) % 10 != 0 : i % 10 == 0;
    });
    study.add("lora", "lora", seed, [seed](int i, const std::string& axis) {
      return axis == "plain" ? (i + seed) % 10 != 1 : i % 10 == 0;
    });
  }
  study.add("cal-last", "cal", 0,
            [](int i, const std::string& axis) { return axis == "plain" && i % 10 < 8; });
  return study.collect();
}

TEST(StudyResults, WordsSayWhatADifferenceIsWorth) {
  const Json study = make_study();
  const Json high = find_comparison(study, "cal-late", "base", "plain");
  EXPECT_NEAR(high["difference"]["value"].get<double>(), 0.8, 1e-9);
  EXPECT_EQ(high["word"], "higher");
  EXPECT_LT(high["p_holm"].get<double>(), 0.05);
  EXPECT_EQ(high["seeds"], Json({0, 1, 2}));
  EXPECT_EQ(find_comparison(study, "cal-late", "lora", "plain")["word"], "within noise");
  EXPECT_EQ(find_comparison(study, "cal-last", "base", "plain")["word"], "higher, but from one seed");
  EXPECT_EQ(find_comparison(study, "cal-last", "lora", "turns")["word"], "lower, but from one seed");
  EXPECT_EQ(find_comparison(study, "cal-late", "base", "turns")["word"], "within noise") << "equal answers";
  EXPECT_TRUE(find_comparison(study, "lora", "cal-late", "plain").is_null()) << "baselines are compared with";
}

TEST(StudyResults, HolmRunsOverTheComparisonsOfAnAxis) {
  const Json study = make_study();
  double smallest = 1.0, corrected = 1.0;
  int count = 0;
  for (const Json& c : study["comparisons"]) {
    if (c["axis"] != "plain") continue;
    ++count;
    smallest = std::min(smallest, c["p"].get<double>());
    corrected = std::min(corrected, c["p_holm"].get<double>());
  }
  EXPECT_EQ(count, 5) << "cal-late and cal-last against base and lora, lora against base";
  EXPECT_NEAR(corrected, 5 * smallest, 1e-12);
}

TEST(StudyResults, MainScoresAreMeansOverSeedsAndRules) {
  const Json study = make_study();
  ASSERT_EQ(study["main_scores"].size(), 8u) << "four settings on two axes";
  const Json& first = study["main_scores"][0];
  EXPECT_EQ(first["setting"], "base");
  EXPECT_EQ(first["score"], "joint");
  EXPECT_NEAR(first["value"].get<double>(), 0.1, 1e-9);
  EXPECT_LT(first["low"].get<double>(), 0.1);
}

TEST(StudyResults, TablesHoldRunsThatAreMissingToo) {
  HandMadeStudy made;
  made.add("cal-late", "cal", 0, [](int, const std::string&) { return true; });
  Json study = made.collect();
  const std::string csv = study_csv(study);
  EXPECT_EQ(csv,
            "study,run,setting,kind,placement,arm,seed,parameters,learning_rate,evaluation,task,metric,axis,"
            "n,value,low,"
            "high\nhand-made,cal-late-s0,cal-late,cal,\"[1,2]\",equal_shape,0,10,,rules,rule_axes,joint,"
            "plain,120,1.0,"
            "0.0,1.0\n");
  EXPECT_TRUE(study["comparisons"].empty()) << "nothing to compare with";
  const std::string text = study_markdown(study);
  EXPECT_THAT(text, HasSubstr("| cal-late | 0 | 100.00 % [100.0, 100.0] | 100.00 % [100.0, 100.0] |"));
}

TEST(StudyResults, AFolderWithoutAStudyIsNamed) {
  const test::TempFolder folder;
  try {
    collect_study(folder.path(), Differences::kSkip);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("no study.json"));
  }
}

}  // namespace
}  // namespace calyrex::study
