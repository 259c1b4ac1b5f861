// What a benchmark is to the runner: samples that ask a model and judge its replies, and metrics over all of
// them. A task knows nothing of models, endpoints, files of results or progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/statistics.h"
#include "calyrex/text/message.h"

namespace calyrex::eval {

/// Who answers: the model under test, or the judge of `eval run --judge`.
enum class Recipient { kModel, kJudge };

/// An answer to be written: greedy unless the temperature says otherwise.
struct GenerateAsk {
  text::Messages messages;
  Json tools = nullptr;
  int64_t max_new_tokens = 512;
  std::vector<std::string> stop;
  double temperature = 0.0;
  Recipient recipient = Recipient::kModel;
};

/// Log-probabilities of a given answer. With `messages`, `completion` follows the rendered generation prompt;
/// without, it follows the plain text `prompt`. The two are tokenised as one text.
struct ScoreAsk {
  text::Messages messages;
  std::string prompt;
  std::string completion;
};

using Ask = std::variant<GenerateAsk, ScoreAsk>;

/// What came back for one Ask. `text` belongs to GenerateAsk, `logprobs` (one a token of the completion) to
/// ScoreAsk.
struct Reply {
  std::string text;
  bool truncated = false;  // the answer ended at max_new_tokens
  std::vector<double> logprobs;
  bool greedy = false;  // every scored token was the likeliest
};

/// The verdict of one sample. `scores` are numbers by name (0/1 for yes/no), which metrics and comparisons
/// use; `detail` is what samples.jsonl shows besides (strict, loose, extracted answer, ...).
struct Verdict {
  std::map<std::string, double> scores;
  Json detail = Json::object();
  /// Why the sample has no verdict (a judge that could not be read, ...): it is counted and listed, never 0.
  std::optional<std::string> ungraded;
};

/// One row of a benchmark. Immutable after loading; called from one thread at a time.
class Sample {
 public:
  virtual ~Sample() = default;

  /// Unique within its task and the same in every run; compared and resumed by it.
  virtual std::string id() const = 0;
  /// The prompt as samples.jsonl shows it: a string or a list of messages.
  virtual Json prompt() const = 0;
  /// The asks that follow, given every reply so far in order; none: the sample is complete. Most samples
  /// return their asks for no replies and none after.
  virtual std::vector<Ask> next(std::span<const Reply> replies) const = 0;
  /// Verdict from all replies in order. Answers are untrusted: never throws for what a reply holds.
  virtual Verdict grade(std::span<const Reply> replies) const = 0;
};

using Samples = std::vector<std::unique_ptr<Sample>>;

/// A sample's verdict with what it takes to group it.
struct Graded {
  const Sample* sample = nullptr;
  Verdict verdict;
};

using Metrics = std::map<std::string, data::Estimate>;

/// Which text is the system message (EVALUATION: forms). kTools: a neutral system message, and the function
/// schemas through the template's `tools`. kRaw: a plain prompt without chat template.
enum class Form { kUser, kNeutral, kSystem, kFile, kTools, kRaw };

struct LoadOptions {
  std::filesystem::path data;  // folder or file; empty with `sample`
  bool sample = false;         // the few rows of our own that the program carries
  Form form = Form::kUser;
  std::string form_text;     // the system message of Form::kFile
  std::optional<int> shots;  // absent: the task's usual number
  uint64_t seed = 0;         // of whatever the task draws
  std::string split;         // one of the task's splits; empty: the first, if it has any
  std::string axis;          // one of the task's axes alone; empty: all of them
  bool judge = false;        // asks to the judge will be answered
};

/// What `eval list` and `eval info` print.
struct TaskInfo {
  std::string name;
  std::string measures;  // one line: what is measured
  std::string source;    // where to get the data, which files the folder holds
  std::string licence;
  std::vector<Form> forms;  // the first is the default
  bool needs_judge = false;
  std::string scorer_version;            // changes when a verdict may change
  std::vector<std::string> headline;     // metrics that tables show, in order
  std::vector<std::string> splits = {};  // parts of the data that may be chosen; the first is the default
  std::vector<std::string> axes = {};    // parts of the measurement that may be run alone
};

class Task {
 public:
  virtual ~Task() = default;
  virtual const TaskInfo& info() const = 0;
  /// Reads and checks every row before any model runs. kNotFound names the missing file, kInvalidArgument
  /// file, line and field of a malformed row, kUnsupported a form that the task lacks.
  virtual Samples load(const LoadOptions& options) const = 0;
  /// Metrics over the graded samples, with 95 % intervals. Ungraded ones are left out by the runner, which
  /// reports their number.
  virtual Metrics metrics(std::span<const Graded> graded) const = 0;
};

}  // namespace calyrex::eval
