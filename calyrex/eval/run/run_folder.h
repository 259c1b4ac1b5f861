// What one task with one model leaves on disk: run.json (its configuration), samples.jsonl (a line a finished
// sample), results.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

inline constexpr const char* kSamplesFile = "samples.jsonl";
inline constexpr const char* kResultsFile = "results.json";

/// How a sample ended: with a verdict (which may be "ungraded"), or not applicable to this model.
struct Outcome {
  Verdict verdict;
  std::optional<std::string> not_applicable;  // why
  bool truncated = false;                     // an answer of the model ended at its limit

  bool graded() const { return !not_applicable && !verdict.ungraded; }
};

/// A line of samples.jsonl: {"id", "prompt", "response", ..., "scores", detail...}. `head` holds the keys
/// before the verdict.
Json outcome_to_json(Json head, const Outcome& outcome);
/// Throws kCorruptData naming `source`.
Outcome outcome_from_json(const Json& line, std::string_view source);

/// The outcomes of a finished run by sample id: FOLDER/samples.jsonl, which must be what `results` were made
/// of (their digest; results without one tell the number of lines). kNotFound or kCorruptData, ending in
/// `remedy`, when it is absent, cut or edited.
std::map<std::string, Outcome> read_outcomes(const std::filesystem::path& folder, const Json& results,
                                             std::string_view remedy);

/// Whether a run that is there already is gone on with.
enum class Reopen { kContinue, kReplace };

class RunFolder {
 public:
  /// Opens or creates. A folder with another configuration throws kInvalidArgument that names what differs.
  /// Samples that are not those of the results beside them are dropped, with a warning.
  RunFolder(std::filesystem::path path, const Json& configuration, Reopen reopen = Reopen::kContinue);

  /// Samples that are finished already. Ungraded ones are not: they are asked again.
  const std::map<std::string, Outcome>& finished() const { return finished_; }
  void append(const std::string& id, const Json& line);
  /// Writes results.json last, after samples.jsonl in the order of `ids`. Returns the results, with the
  /// digest of the samples.
  Json complete(const std::vector<std::string>& ids, Json results);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path samples_path() const { return path_ / kSamplesFile; }
  void drop_foreign_samples();
  std::filesystem::path results_path() const { return path_ / kResultsFile; }

  std::filesystem::path path_;
  std::map<std::string, Outcome> finished_;
  std::optional<LineWriter> writer_;  // opened by the first append()
};

/// Copies samples.jsonl and results.json to another folder.
void copy_results(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace calyrex::eval
