// Results of a hand-made study: means over seeds, words for differences, tables.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"
#include "calyrex/study/results/collect.h"
#include "calyrex/study/results/scale.h"
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
    const Json results = {{"n", 2 * kSamples},
                          {"metrics", {{"joint/plain", metric}}},
                          {"headline", {"joint/plain"}},
                          {"samples_sha256", sha256_hex(lines)}};
    write_file_atomically(
        folder / "result.json",
        to_json_text(
            {{"format", "calyrex-study-run"},
             {"training", nullptr},
             {"eval",
              Json::array(
                  {{{"name", "rules"}, {"task", "rule_axes"}, {"folder", "eval"}, {"results", results}}})}}));
  }

  void name_baselines(const Json& settings) { plan_["settings"]["baselines"] = settings; }

  const test::TempFolder& folder() const { return folder_; }

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

Json make_study(const Json& baselines = Json::array()) {
  HandMadeStudy study;
  study.name_baselines(baselines);
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

TEST(StudyResults, NamedBaselinesAreWhatAllElseIsComparedWith) {
  std::vector<std::string> pairs;
  const Json study = make_study({"cal-late", "base"});
  for (const Json& c : study["comparisons"]) {
    if (c["axis"] == "plain")
      pairs.push_back(c["setting"].get<std::string>() + " " + c["baseline"].get<std::string>());
  }
  EXPECT_THAT(pairs,
              testing::ElementsAre("lora base", "lora cal-late", "cal-last base", "cal-last cal-late"));
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

Json small_study(HandMadeStudy& made) {
  made.add("base", "base", nullptr, [](int i, const std::string&) { return i % 2 == 0; });
  made.add("cal-late", "cal", 0, [](int i, const std::string&) { return i % 3 == 0; });
  return made.collect();
}

TEST(StudyResults, SamplesThatWereCutOrEditedAreRefused) {
  HandMadeStudy made;
  small_study(made);
  const fs::path samples = made.folder() / "runs/cal-late-s0/eval/samples.jsonl";
  const std::string whole = test::read_bytes(samples);
  std::string edited = whole;
  edited.replace(edited.find("\"joint\":0.0"), 11, "\"joint\":1.0");
  for (const std::string& text : {edited, whole.substr(0, whole.size() / 2), std::string()}) {
    test::write_bytes(samples, text);
    test::expect_error(ErrorCode::kCorruptData, samples.string() + ": cut or changed",
                       [&] { made.collect(); });
    test::expect_error(ErrorCode::kCorruptData, "runs/cal-late-s0/result.json, and 'calyrex study run'",
                       [&] { made.collect(); });
  }
  fs::remove(samples);
  test::expect_error(ErrorCode::kNotFound, samples.string(), [&] { made.collect(); });
  test::write_bytes(samples, whole);
  EXPECT_FALSE(made.collect()["comparisons"].empty());
}

/// Reads with one field gone or of another kind: each is named with its file and what to do.
void expect_checked(const fs::path& file, const std::vector<std::pair<std::string, Json>>& fields,
                    const std::function<void()>& read) {
  const Json whole = read_json_file(file);
  const auto damage = [&](const std::string& pointer, const Json& value) {
    Json damaged = whole;
    const Json::json_pointer place(pointer);
    if (value.is_discarded()) {
      damaged.at(place.parent_pointer()).erase(place.back());
    } else {
      damaged.at(place) = value;
    }
    write_file_atomically(file, to_json_text(damaged));
    test::expect_error(ErrorCode::kCorruptData, file.string() + ": ", read);
  };
  for (const auto& [pointer, value] : fields) {
    SCOPED_TRACE(pointer);
    damage(pointer, value);
    damage(pointer, Json(Json::value_t::discarded));
  }
  write_file_atomically(file, "[1]");
  test::expect_error(ErrorCode::kCorruptData, "the whole must be an object", read);
  write_file_atomically(file, "{");
  test::expect_error(ErrorCode::kCorruptData, file.string(), read);
  write_file_atomically(file, to_json_text(whole));
  read();
}

TEST(StudyResults, DamagedFilesOfAStudyAreNamed) {
  HandMadeStudy made;
  const Json study = small_study(made);
  const auto collect = [&] { collect_study(made.folder().path(), Differences::kCompute); };
  expect_checked(made.folder() / "runs/cal-late-s0/result.json",
                 {{"/format", "other"},
                  {"/training", 3},
                  {"/eval", Json::object()},
                  {"/eval/0/name", 1},
                  {"/eval/0/folder", "../../other"},
                  {"/eval/0/results", nullptr},
                  {"/eval/0/results/n", 1e300},
                  {"/eval/0/results/headline", "acc"},
                  {"/eval/0/results/metrics", Json::array()},
                  {"/eval/0/results/metrics/joint~1plain/value", "high"}},
                 collect);
  expect_checked(made.folder() / "study.json",
                 {{"/name", 1},
                  {"/backbone/parameters", "many"},
                  {"/eval/0/headline", 1},
                  {"/runs", nullptr},
                  {"/runs/0/name", "../base"},
                  {"/runs/1/seed", "zero"},
                  {"/runs/1/same_as", 1},
                  {"/runs/1/parameters", -1}},
                 collect);
  Json plan = read_json_file(made.folder() / "study.json");
  plan["runs"][1]["seed"] = uint64_t{1} << 62;
  write_file_atomically(made.folder() / "study.json", to_json_text(plan));
  collect();
  make_directories(made.folder() / "select");
  write_file_atomically(
      made.folder() / "select/cal.json",
      R"({"kind": "cal", "metric": "acc", "chosen": 1, "tried": [{"learning_rate": 1, "value": null}]})");
  expect_checked(
      made.folder() / "select/cal.json",
      {{"/kind", 1}, {"/metric", nullptr}, {"/chosen", "1"}, {"/tried", 1}, {"/tried/0/value", "x"}},
      collect);
  write_file_atomically(made.folder() / "results.json", to_json_text(study));
  expect_checked(made.folder() / "results.json",
                 {{"/comparisons", 1}, {"/comparisons/0/difference/low", "x"}, {"/backbone", 1}},
                 [&] { collect_scale({made.folder().path()}, "cal-late"); });
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
