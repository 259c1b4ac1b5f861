#include "calyrex/eval/run/run_folder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"
#include "calyrex/eval/run/lines.h"

namespace calyrex::eval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDigestKey = "samples_sha256";  // of results.json

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
    if (path_exists(folder / kSamplesFile)) {
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

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
}

void remove_run(const fs::path& folder) {
  for (const char* name : {kResultsFile, kSamplesFile, "run.json"}) remove_file(folder / name);
}

std::optional<std::string> text_of(const Json& results, const char* key) {
  if (!results.is_object() || !results.contains(key) || !results[key].is_string()) return std::nullopt;
  return results[key].get<std::string>();
}

/// Whether the samples are whole as far as their results tell.
bool samples_match(const fs::path& samples, const Json& results) {
  const MappedFile file = MappedFile::open(samples);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (const auto digest = text_of(results, kDigestKey)) return sha256_hex(text) == *digest;
  const bool ends_whole = text.empty() || text.back() == '\n';
  const bool counted = results.contains("samples") && results["samples"].is_number_unsigned();
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  return ends_whole && (!counted || lines == results["samples"].get<size_t>());
}

void check_samples(const fs::path& folder, const Json& results, std::string_view remedy) {
  const fs::path samples = folder / kSamplesFile;
  if (!path_exists(samples)) fail(ErrorCode::kNotFound, "{}: no such file; {}", samples.string(), remedy);
  if (samples_match(samples, results)) return;
  fail(ErrorCode::kCorruptData, "{}: cut or changed since the results were made of it; {}", samples.string(),
       remedy);
}

std::map<std::string, Outcome> read_lines(const fs::path& path) {
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

std::map<std::string, Outcome> read_outcomes(const fs::path& folder, const Json& results,
                                             std::string_view remedy) {
  check_samples(folder, results, remedy);
  return read_lines(folder / kSamplesFile);
}

RunFolder::RunFolder(fs::path path, const Json& configuration, Reopen reopen) : path_(std::move(path)) {
  make_directories(path_);
  if (reopen == Reopen::kReplace) remove_run(path_);
  check_configuration(path_, configuration);
  finished_ = read_lines(samples_path());
  drop_foreign_samples();
  std::erase_if(finished_, [](const auto& entry) { return entry.second.verdict.ungraded.has_value(); });
}

/// Samples that are not those of the results beside them would make other results; the replies are kept
/// elsewhere. Older results have no digest: of them, missing lines are asked again.
void RunFolder::drop_foreign_samples() {
  if (!path_exists(results_path()) || !path_exists(samples_path())) return;
  Json results;
  try {
    results = read_json_file(results_path());
  } catch (const Error&) {
    return;  // damaged ones tell nothing; they are written anew
  }
  if (!text_of(results, kDigestKey) || samples_match(samples_path(), results)) return;
  log_warning("{}: cut or changed since the results were made of it; its samples are worked out again",
              samples_path().string());
  remove_file(results_path());
  remove_file(samples_path());
  finished_.clear();
}

void RunFolder::append(const std::string& id, const Json& line) {
  if (!writer_) {
    // Results of fewer samples would stand beside more of them.
    remove_file(results_path());
    writer_.emplace(samples_path(), LineWriter::Mode::kAppend);
  }
  CALYREX_CHECK(line.value("id", "") == id);
  writer_->write_line(to_json_line(line));
}

Json RunFolder::complete(const std::vector<std::string>& ids, Json results) {
  writer_.reset();
  std::map<std::string, std::string> lines;  // the last of an id counts
  read_appended_lines(samples_path(), [&](int64_t, const Json& line) {
    lines.insert_or_assign(line.value("id", ""), to_json_line(line));
  });
  AtomicFile samples(samples_path());
  Sha256 digest;
  for (const std::string& id : ids) {
    const auto found = lines.find(id);
    CALYREX_CHECK(found != lines.end(), "{}: no line of sample {}", samples_path().string(), id);
    const std::string line = found->second + "\n";
    samples.write(line);
    digest.update(line);
  }
  results[kDigestKey] = digest.hex_digest();
  samples.commit();
  write_file_atomically(results_path(), to_json_text(results));
  return results;
}

void copy_results(const fs::path& from, const fs::path& to) {
  constexpr size_t kMaxBytes = size_t{16} << 30;
  for (const char* name : {kSamplesFile, kResultsFile}) {
    write_file_atomically(to / name, read_file(from / name, kMaxBytes));
  }
}

}  // namespace calyrex::eval
