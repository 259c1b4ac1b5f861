// SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): the span of a passage that answers a question.
#include "calyrex/eval/tasks/squad.h"

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/unicode.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/scorers/span_answer.h"
#include "calyrex/eval/tasks/prompt_sample.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

enum class Version { kOne, kTwo };

constexpr std::string_view kInstruction =
    "Answer the question with the shortest run of words from the passage that answers it. Copy the words "
    "exactly "
    "and write nothing else.";
constexpr std::string_view kUnanswerable = "unanswerable";

constexpr std::string_view kOwnRowsOne =
    R"({"data": [{"title": "Mills", "paragraphs": [{"context": "The mill at Arden was built in 1783 by Tobias Reed. It ground oats until a flood broke its wheel in 1851.", "qas": [
{"id": "own-1", "question": "Who built the mill?", "answers": [{"text": "Tobias Reed", "answer_start": 39}]},
{"id": "own-2", "question": "When did the flood break the wheel?", "answers": [{"text": "1851", "answer_start": 101}, {"text": "in 1851", "answer_start": 98}]},
{"id": "own-3", "question": "What did the mill grind?", "answers": [{"text": "oats", "answer_start": 62}]}]}]}]})";
constexpr std::string_view kOwnRowsTwo =
    R"({"data": [{"title": "Mills", "paragraphs": [{"context": "The mill at Arden was built in 1783 by Tobias Reed. It ground oats until a flood broke its wheel in 1851.", "qas": [
{"id": "own-1", "question": "Who built the mill?", "answers": [{"text": "Tobias Reed", "answer_start": 39}], "is_impossible": false},
{"id": "own-2", "question": "Who repaired the wheel?", "answers": [], "is_impossible": true},
{"id": "own-3", "question": "What did the mill grind?", "answers": [{"text": "oats", "answer_start": 62}], "is_impossible": false},
{"id": "own-4", "question": "When was the mill at Barrow built?", "answers": [], "is_impossible": true}]}]}]})";

Verdict grade(const std::vector<std::string>& accepted, Version version, const std::string& answer) {
  const std::string said = squad_prediction(answer);
  const SpanScore score = score_span(said, accepted);
  Verdict verdict;
  verdict.scores = {{"exact_match", score.exact_match}, {"f1", score.f1}};
  if (version == Version::kTwo) {
    const std::string part = accepted.empty() ? "NoAns" : "HasAns";
    verdict.scores[part + "_exact"] = score.exact_match;
    verdict.scores[part + "_f1"] = score.f1;
  }
  verdict.detail = {{"prediction", said}, {"accepted", accepted}};
  return verdict;
}

class SquadTask final : public Task {
 public:
  explicit SquadTask(Version version) : version_(version) {
    const bool two = version == Version::kTwo;
    info_ = {.name = two ? "squad2" : "squad",
             .measures = two ? "reading: the span that answers a question, or that none does (SQuAD 2.0)"
                             : "reading: the span of a passage that answers a question (SQuAD 1.1)",
             .source = fmt::format("rajpurkar.github.io/SQuAD-explorer: {}", file_name()),
             .licence = "CC BY-SA 4.0",
             .forms = {Form::kSystem, Form::kUser, Form::kNeutral, Form::kFile},
             .scorer_version = "1",
             .headline = two ? std::vector<std::string>{"exact_match", "f1", "HasAns_f1", "NoAns_f1"}
                             : std::vector<std::string>{"exact_match", "f1"}};
  }

  const TaskInfo& info() const override { return info_; }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    require_no_shots(info(), options);
    const std::string source = fmt::format("sample rows of {}", info().name);
    if (options.sample) {
      return read_document(parse_json(version_ == Version::kTwo ? kOwnRowsTwo : kOwnRowsOne, source), source,
                           options);
    }
    // The second task of one folder: beside the folders of other tasks it is found too.
    const std::filesystem::path path = find_data_file(options.data, {file_name(), "squad/" + file_name()});
    return read_document(read_json_file(path), path.string(), options);
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    for (const char* name : {"exact_match", "HasAns_exact", "NoAns_exact"}) {
      if (has_score(graded, name)) metrics[name] = share_of(graded, name);
    }
    for (const char* name : {"f1", "HasAns_f1", "NoAns_f1"}) {
      if (has_score(graded, name)) metrics[name] = mean_of(graded, name);
    }
    return metrics;
  }

 private:
  std::string file_name() const { return version_ == Version::kTwo ? "dev-v2.0.json" : "dev-v1.1.json"; }

  Samples read_document(const Json& document, const std::string& source, const LoadOptions& options) const {
    Samples samples;
    for (const RowFields& article : RowFields(document, source).objects("data")) {
      for (const RowFields& paragraph : article.objects("paragraphs")) {
        const std::string context = paragraph.filled_text("context");
        for (const RowFields& question : paragraph.objects("qas")) {
          samples.push_back(read_question(question, context, options));
        }
      }
    }
    check_unique_ids(samples, source);
    return samples;
  }

  std::unique_ptr<Sample> read_question(const RowFields& row, const std::string& context,
                                        const LoadOptions& options) const {
    std::vector<std::string> accepted;
    for (const RowFields& answer : row.objects("answers")) {
      std::string text = answer.filled_text("text");
      // An accepted answer of articles and punctuation alone can never be matched.
      if (!normal_answer(text).empty()) accepted.push_back(std::move(text));
    }
    if (version_ == Version::kOne && accepted.empty()) row.fail_field("answers", "at least one answer");
    if (version_ == Version::kTwo && row.flag("is_impossible") != accepted.empty()) {
      row.fail_field("is_impossible", "true when there is no answer, else false");
    }
    const std::string text = fmt::format("Passage: {}\n\nQuestion: {}", context, row.filled_text("question"));
    GenerateAsk ask{.messages = form_messages(options, instruction(), text), .max_new_tokens = 64};
    return std::make_unique<PromptSample>(row.filled_text("id"), std::move(ask),
                                          [accepted, version = version_](const std::string& answer) {
                                            return grade(accepted, version, answer);
                                          });
  }

  std::string instruction() const {
    if (version_ == Version::kOne) return std::string(kInstruction);
    return fmt::format("{} If the passage does not answer it, write {}.", kInstruction, kUnanswerable);
  }

  Version version_;
  TaskInfo info_;
};

}  // namespace

std::string squad_prediction(std::string_view answer) {
  const std::vector<std::string> lines = data::split_lines(answer);
  if (lines.empty() || normal_answer(lines.front()) == kUnanswerable) return {};
  return lines.front();
}

const Task& squad_task() {
  static const SquadTask task(Version::kOne);
  return task;
}

const Task& squad2_task() {
  static const SquadTask task(Version::kTwo);
  return task;
}

}  // namespace calyrex::eval
