#include "calyrex/eval/run/run_folder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/lines.h"

namespace calyrex::eval {
namespace {

namespace fs = std::filesystem;

constexpr std::array kOwnKeys = {"id",        "prompt", "response", "choices",       "judgements",
                                 "truncated", "scores", "ungraded", "not_applicable"};

bool is_own_key(std::string_view key) { return std::ranges::find(kOwnKeys, key) != kOwnKeys.end(); }

std::string shown(const Json& configuration, const std::string& key) {
  return configuration.contains(key) ? to_json_line(configuration[key]) : "absent";
}

/// "form: \"user\" there, \"system\" now; ..."
std::string describe_differences(const Json& there, const Json& now) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : now.items()) keys.push_back(key);
  for (const auto& [key, value] : there.items()) {
    if (!now.contains(key)) keys.push_back(key);
  }
  std::string text;
  for (const std::string& key : keys) {
    if (shown(there, key) == shown(now, key)) continue;
    text += fmt::format("{}{}: {} there, {} now", text.empty() ? "" : "; ", key, shown(there, key),
                        shown(now, key));
  }
  return text;
}

void check_configuration(const fs::path& folder, const Json& configuration) {
  const fs::path file = folder / "run.json";
  if (!path_exists(file)) {
    if (path_exists(folder / "samples.jsonl")) {
      fail(ErrorCode::kInvalidArgument, "{}: holds samples.jsonl, but no run.json; choose another --output",
           folder.string());
    }
    write_file_atomically(file, to_json_text(configuration));
    return;
  }
  const Json there = read_json_file(file);
  const std::string differences = describe_differences(there, configuration);
  if (!differences.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "{}: holds a run of another configuration ({}); choose another --output, or delete that folder",
         folder.string(), differences);
  }
}

void remove_run(const fs::path& folder) {
  for (const char* name : {"results.json", "samples.jsonl", "run.json"}) {
    std::error_code error;
    fs::remove(folder / name, error);
    if (error) fail(ErrorCode::kIo, "{}: {}", (folder / name).string(), error.message());
  }
}

}  // namespace

Json outcome_to_json(Json head, const Outcome& outcome) {
  if (outcome.truncated) head["truncated"] = true;
  if (outcome.not_applicable) {
    head["not_applicable"] = *outcome.not_applicable;
    return head;
  }
  if (outcome.verdict.ungraded) head["ungraded"] = *outcome.verdict.ungraded;
  Json scores = Json::object();
  for (const auto& [name, value] : outcome.verdict.scores) scores[name] = value;
  head["scores"] = std::move(scores);
  for (const auto& [key, value] : outcome.verdict.detail.items()) {
    CALYREX_CHECK(!is_own_key(key), "a verdict's detail has the key {}", key);
    head[key] = value;
  }
  return head;
}

Outcome outcome_from_json(const Json& line, std::string_view source) {
  try {
    Outcome outcome;
    outcome.truncated = line.value("truncated", false);
    if (line.contains("not_applicable")) {
      outcome.not_applicable = line["not_applicable"].get<std::string>();
      return outcome;
    }
    if (line.contains("ungraded")) outcome.verdict.ungraded = line["ungraded"].get<std::string>();
    for (const auto& [name, value] : line.at("scores").items())
      outcome.verdict.scores[name] =
          value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    for (const auto& [key, value] : line.items()) {
      if (!is_own_key(key)) outcome.verdict.detail[key] = value;
    }
    return outcome;
  } catch (const Json::exception&) {
    fail(ErrorCode::kCorruptData, "{}: not a line of samples.jsonl", source);
  }
}

std::map<std::string, Outcome> read_outcomes(const fs::path& path) {
  std::map<std::string, Outcome> outcomes;
  read_appended_lines(path, [&](int64_t number, const Json& line) {
    const std::string place = fmt::format("{}:{}", path.string(), number);
    if (!line.contains("id") || !line["id"].is_string()) {
      fail(ErrorCode::kCorruptData, "{}: not a line of samples.jsonl", place);
    }
    outcomes.insert_or_assign(line["id"].get<std::string>(), outcome_from_json(line, place));
  });
  return outcomes;
}

RunFolder::RunFolder(fs::path path, const Json& configuration, Reopen reopen) : path_(std::move(path)) {
  make_directories(path_);
  if (reopen == Reopen::kReplace) remove_run(path_);
  check_configuration(path_, configuration);
  finished_ = read_outcomes(samples_path());
  std::erase_if(finished_, [](const auto& entry) { return entry.second.verdict.ungraded.has_value(); });
}

void RunFolder::append(const std::string& id, const Json& line) {
  if (!writer_) writer_.emplace(samples_path(), LineWriter::Mode::kAppend);
  CALYREX_CHECK(line.value("id", "") == id);
  writer_->write_line(to_json_line(line));
}

void RunFolder::complete(const std::vector<std::string>& ids, const Json& results) {
  writer_.reset();
  std::map<std::string, std::string> lines;  // the last of an id counts
  read_appended_lines(samples_path(), [&](int64_t, const Json& line) {
    lines.insert_or_assign(line.value("id", ""), to_json_line(line));
  });
  AtomicFile samples(samples_path());
  for (const std::string& id : ids) {
    const auto found = lines.find(id);
    CALYREX_CHECK(found != lines.end(), "{}: no line of sample {}", samples_path().string(), id);
    samples.write(found->second + "\n");
  }
  samples.commit();
  write_file_atomically(path_ / "results.json", to_json_text(results));
}

void copy_results(const fs::path& from, const fs::path& to) {
  constexpr size_t kMaxBytes = size_t{16} << 30;
  for (const char* name : {"samples.jsonl", "results.json"}) {
    write_file_atomically(to / name, read_file(from / name, kMaxBytes));
  }
}

}  // namespace calyrex::eval
