#include "calyrex/study/results/stored.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;

/// What a field may hold, as bits.
enum Holds : unsigned {
  kText = 1,
  kNumber = 2,
  kCount = 4,  // a whole number of at least 0
  kMap = 8,
  kList = 16,
  kNull = 32,
  kAbsent = 64,
  kName = 128,  // a text that names one file or folder
};

constexpr std::array<std::pair<Holds, const char*>, 7> kWords = {{{kText, "a text"},
                                                                  {kNumber, "a number"},
                                                                  {kCount, "a whole number of at least 0"},
                                                                  {kMap, "an object"},
                                                                  {kList, "a list"},
                                                                  {kNull, "null"},
                                                                  {kName, "the name of a file or folder"}}};

/// What mends a file that a study writes at each start.
constexpr std::string_view kRewritten = "remove it, and 'calyrex study run' writes it anew";

/// Beyond this a figure is none of this program's, and whole numbers lose digits.
constexpr double kLargest = 9e15;

bool is_file_name(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos &&
         text.find('\0') == std::string::npos;
}

bool holds(const Json& value, unsigned kinds) {
  if (value.is_string()) return (kinds & kText) != 0 || ((kinds & kName) != 0 && is_file_name(value));
  if (value.is_null()) return (kinds & kNull) != 0;
  if (value.is_object()) return (kinds & kMap) != 0;
  if (value.is_array()) return (kinds & kList) != 0;
  if (value.is_number_integer() && (kinds & kNumber) != 0) return true;  // a seed may be of any size
  if (!value.is_number() || !(std::abs(value.get<double>()) <= kLargest)) return false;
  return (kinds & kNumber) != 0 || ((kinds & kCount) != 0 && value.is_number_unsigned());
}

std::string expected(unsigned kinds) {
  std::string text;
  for (const auto& [bit, word] : kWords) {
    if ((kinds & bit) != 0) text += fmt::format("{}{}", text.empty() ? "" : " or ", word);
  }
  return text;
}

/// A value of a file with its place in it; the file and the remedy outlive it.
class Field {
 public:
  Field(const Json& value, const fs::path& file, std::string_view remedy)
      : value_(value), file_(file), remedy_(remedy) {}

  const Json& json() const { return value_; }

  /// The entry of that name, which must be one of `kinds`.
  Field at(const std::string& key, unsigned kinds) const {
    static const Json kNothing;
    require(kMap);
    const auto found = value_.find(key);
    if (found == value_.end() && (kinds & kAbsent) != 0) return Field(kNothing, *this, key);
    if (found == value_.end()) refuse(fmt::format("'{}' is missing", join(key)));
    const Field field(*found, *this, key);
    field.require(kinds);
    return field;
  }

  void require(unsigned kinds) const {
    if (holds(value_, kinds)) return;
    refuse(fmt::format("{} must be {}", place_.empty() ? "the whole" : fmt::format("'{}'", place_),
                       expected(kinds)));
  }

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kCorruptData, "{}: {}; {}", file_.string(), what, remedy_);
  }

  /// Calls `entry(Field)` for each entry of a list or object; none for null.
  template <typename Function>
  void each(unsigned kinds, Function&& entry) const {
    for (const auto& item : value_.items()) {
      const Field field(item.value(), *this, item.key());
      field.require(kinds);
      entry(field);
    }
  }
  void each(unsigned kinds) const {
    each(kinds, [](const Field&) {});
  }

 private:
  Field(const Json& value, const Field& parent, const std::string& key)
      : value_(value), file_(parent.file_), remedy_(parent.remedy_), place_(parent.join(key)) {}

  std::string join(const std::string& key) const { return place_.empty() ? key : place_ + "." + key; }

  const Json& value_;
  const fs::path& file_;
  std::string_view remedy_;
  std::string place_;
};

void require_format(const Field& file, std::string_view format) {
  file.require(kMap);
  if (file.at("format", kText).json() != format) file.refuse(fmt::format("the format is not '{}'", format));
}

/// Reads a file and lets `check(Field)` look at it.
template <typename Check>
Json read_checked(const fs::path& file, std::string_view remedy, Check&& check,
                  const JsonLimits& limits = {}) {
  Json json;
  try {
    json = read_json_file(file, limits);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData) throw;
    fail(ErrorCode::kCorruptData, "{}; {}", error.what(), remedy);
  }
  check(Field(json, file, remedy));
  return json;
}

void check_training(const Field& training) {
  if (training.json().is_null()) return;
  for (const char* key : {"learning_rate", "final_loss", "seconds"}) training.at(key, kNumber | kAbsent);
  for (const char* key : {"steps", "tokens"}) training.at(key, kCount | kAbsent);
  training.at("dtype", kText | kAbsent);
  if (const Field cache = training.at("prefix_cache", kMap | kAbsent); cache.json().is_object()) {
    for (const char* key : {"hits", "misses"}) cache.at(key, kCount);
  }
  if (const Field curve = training.at("curve", kMap | kAbsent); curve.json().is_object())
    curve.at("loss", kList | kAbsent);
}

void check_metric(const Field& metric) {
  for (const char* key : {"value", "low", "high"}) metric.at(key, kNumber | kNull);
}

void check_evaluation(const Field& entry) {
  entry.at("name", kName);
  entry.at("task", kText);
  const fs::path folder = entry.at("folder", kText).json().get<std::string>();
  if (folder.is_absolute() || folder.lexically_normal().string().starts_with(".."))
    entry.refuse(fmt::format("the folder {} of '{}' is not the run's own", folder.string(),
                             entry.json()["name"].get<std::string>()));
  const Field results = entry.at("results", kMap);
  results.at("n", kCount);
  results.at("headline", kList).each(kText);
  results.at("metrics", kMap).each(kMap, check_metric);
}

void check_planned_run(const Field& run) {
  run.at("name", kName);
  for (const char* key : {"setting", "kind"}) run.at(key, kText);
  for (const char* key : {"placement", "arm", "not_applicable"}) run.at(key, kText | kNull);
  run.at("same_as", kName | kNull);
  run.at("seed", kNumber | kNull);
  run.at("parameters", kCount);
}

void check_comparison(const Field& comparison) {
  for (const char* key :
       {"setting", "kind", "baseline", "baseline_kind", "evaluation", "score", "axis", "word"})
    comparison.at(key, kText);
  for (const char* key : {"seeds", "baseline_seeds"}) comparison.at(key, kList);
  comparison.at("p_holm", kNumber);
  const Field difference = comparison.at("difference", kMap);
  for (const char* key : {"value", "low", "high"}) difference.at(key, kNumber);
}

}  // namespace

Json read_stored_plan(const fs::path& output) {
  const fs::path file = output / "study.json";
  if (!path_exists(file)) {
    fail(ErrorCode::kNotFound, "{}: no study.json; name the output folder of 'calyrex study run'",
         output.string());
  }
  return read_checked(file, kRewritten, [](const Field& plan) {
    require_format(plan, "calyrex-study-plan");
    for (const char* key : {"name", "model"}) plan.at(key, kText);
    plan.at("backbone", kMap).at("parameters", kCount);
    plan.at("settings", kMap).at("baselines", kList | kAbsent).each(kText);
    plan.at("eval", kList).each(kMap, [](const Field& evaluation) {
      evaluation.at("name", kName);
      evaluation.at("task", kText);
      evaluation.at("measures", kText | kAbsent);
      evaluation.at("headline", kList).each(kText);
    });
    plan.at("runs", kList).each(kMap, check_planned_run);
  });
}

Json read_stored_result(const fs::path& file) {
  constexpr std::string_view kRemedy =
      "remove it, and 'calyrex study run' works it out again from what the run's folder holds";
  return read_checked(file, kRemedy, [](const Field& result) {
    require_format(result, "calyrex-study-run");
    check_training(result.at("training", kMap | kNull));
    result.at("evaluation_seconds", kNumber | kAbsent);
    result.at("eval", kList).each(kMap, check_evaluation);
  });
}

Json read_stored_identity(const fs::path& file) {
  constexpr std::string_view kRemedy =
      "remove it and the result.json beside it, and 'calyrex study run' works the run out again";
  return read_checked(file, kRemedy, [](const Field& identity) {
    identity.require(kMap);
    for (const char* key : {"model", "backbone", "dtype"}) identity.at(key, kText);
    for (const char* key : {"adapter", "data", "train"}) identity.at(key, kMap | kAbsent);
    identity.at("eval", kMap).each(kMap);
  });
}

Json read_stored_failure(const fs::path& file) {
  constexpr std::string_view kRemedy = "remove it, and the candidate is tried again";
  return read_checked(file, kRemedy, [](const Field& failure) {
    require_format(failure, "calyrex-study-failure");
    failure.at("error", kText);
  });
}

Json read_stored_selection(const fs::path& file) {
  return read_checked(file, kRewritten, [](const Field& selection) {
    selection.require(kMap);
    for (const char* key : {"kind", "metric"}) selection.at(key, kText);
    selection.at("chosen", kNumber);
    selection.at("tried", kList).each(kMap, [](const Field& tried) {
      tried.at("learning_rate", kNumber);
      tried.at("value", kNumber | kNull);
    });
  });
}

Json read_stored_study(const fs::path& output) {
  const fs::path file = output / "results.json";
  if (!path_exists(file)) {
    fail(ErrorCode::kNotFound, "{}: no results.json; 'calyrex study report {}' writes it", output.string(),
         output.string());
  }
  const std::string remedy = fmt::format("'calyrex study report {}' writes it anew", output.string());
  constexpr JsonLimits kLimits{.max_bytes = size_t{512} << 20};
  const auto check = [](const Field& study) {
    require_format(study, "calyrex-study");
    for (const char* key : {"name", "model"}) study.at(key, kText);
    study.at("backbone", kMap).at("parameters", kCount);
    study.at("comparisons", kList).each(kMap, check_comparison);
  };
  return read_checked(file, remedy, check, kLimits);
}

}  // namespace calyrex::study
