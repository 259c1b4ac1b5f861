// GSM8K (Cobbe et al. 2021): grade-school word problems, answered by a worked solution.
#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/scorers/final_number.h"
#include "calyrex/eval/tasks/prompt_sample.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

constexpr int kUsualShots = 5;
constexpr int kMaxShots = 64;

constexpr std::string_view kInstruction =
    "Solve the problem step by step. End with a line that holds #### and then the number alone, such as #### "
    "42.";

constexpr std::string_view kOwnShots =
    R"({"question": "A box holds 6 jars. How many jars do 4 boxes hold?", "answer": "Each box holds 6 jars.\n4 boxes hold 4 * 6 = 24 jars.\n#### 24"}
{"question": "Mara has 15 stamps and gives 4 to Ben. How many has she left?", "answer": "She gives away 4 of 15.\n15 - 4 = 11 stamps are left.\n#### 11"}
{"question": "A train rides 80 km an hour. How far does it ride in 3 hours?", "answer": "It rides 3 * 80 = 240 km.\n#### 240"}
{"question": "Tea costs $3 and cake $4. What do two teas and one cake cost?", "answer": "Two teas cost 2 * 3 = $6.\nWith the cake it is 6 + 4 = $10.\n#### 10"}
{"question": "Half of 36 children wear hats. How many wear none?", "answer": "Half of 36 is 18 with hats.\n36 - 18 = 18 wear none.\n#### 18"})";

constexpr std::string_view kOwnRows =
    R"({"question": "A shelf has 5 rows of 8 books. 7 books are lent. How many are on the shelf?", "answer": "There are 5 * 8 = 40 books.\n40 - 7 = 33 are on the shelf.\n#### 33"}
{"question": "Oli runs 2 km on each of 5 days and 6 km on Sunday. How many km is that?", "answer": "2 * 5 = 10 km.\n10 + 6 = 16 km.\n#### 16"}
{"question": "Twelve eggs cost $3.60. What do four eggs cost in dollars?", "answer": "One egg costs 3.60 / 12 = $0.30.\nFour cost 4 * 0.30 = $1.20.\n#### 1.20"}
{"question": "A farm sells 1,200 apples in bags of 24. How many bags is that?", "answer": "1200 / 24 = 50 bags.\n#### 50"})";

Verdict grade(const std::string& reference, const std::string& answer) {
  const std::optional<std::string> marked = marked_number(answer);
  const std::optional<std::string> last = last_number(answer);
  Verdict verdict;
  verdict.scores["exact_match"] = marked == marked_number("#### " + reference) ? 1.0 : 0.0;
  verdict.scores["exact_match_strict"] = same_number(strict_number(answer), reference) ? 1.0 : 0.0;
  verdict.scores["exact_match_flexible"] = same_number(last, reference) ? 1.0 : 0.0;
  verdict.detail = {{"reference", reference}, {"marked", nullptr}, {"last", nullptr}};
  if (marked) verdict.detail["marked"] = *marked;
  if (last) verdict.detail["last"] = *last;
  return verdict;
}

std::string read_reference(const RowFields& row) {
  std::optional<std::string> number = strict_number(row.filled_text("answer"));
  if (!number) row.fail_field("answer", "a solution that ends in \"#### NUMBER\"");
  return *number;
}

class Gsm8kTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info{
        .name = "gsm8k",
        .measures =
            "grade-school maths: the final number of a worked solution (5-shot, or 0-shot with --shots 0)",
        .source =
            "github.com/openai/grade-school-math, grade_school_math/data: test.jsonl, and train.jsonl for "
            "the "
            "examples (its first rows)",
        .licence = "MIT",
        .forms = {Form::kNeutral, Form::kUser, Form::kSystem, Form::kFile},
        .scorer_version = "1",
        .headline = {"exact_match_strict", "exact_match_flexible", "exact_match"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    const std::string examples = read_examples(options);
    // The format is shown by the examples; without them it is said.
    const bool say_format = examples.empty() || options.form == Form::kSystem;
    Samples samples;
    read_rows(options, "test.jsonl", kOwnRows, [&](const RowFields& row) {
      const std::string question =
          fmt::format("{}Question: {}\nAnswer:", examples, row.filled_text("question"));
      GenerateAsk ask{.messages = form_messages(options, say_format ? kInstruction : "", question),
                      .max_new_tokens = 256,
                      .stop = {"Question:", "</s>", "<|im_end|>"}};
      samples.push_back(std::make_unique<PromptSample>(
          fmt::format("{}", samples.size()), std::move(ask),
          [reference = read_reference(row)](const std::string& answer) { return grade(reference, answer); }));
    });
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    for (const std::string& name : info().headline) metrics[name] = share_of(graded, name);
    return metrics;
  }

 private:
  void read_rows(const LoadOptions& options, std::string_view name, std::string_view own,
                 const std::function<void(const RowFields&)>& read) const {
    if (options.sample) return for_each_sample_row(own, info().name, read);
    for_each_data_row(find_data_file(options.data, {name}), read);
  }

  /// The first rows of the training file, solutions and all.
  std::string read_examples(const LoadOptions& options) const {
    const int shots = shots_of(info(), options, kUsualShots, kMaxShots);
    if (shots == 0) return {};
    LoadOptions train = options;
    if (std::filesystem::is_regular_file(options.data)) {
      train.data = std::filesystem::absolute(options.data).parent_path();
    }
    std::string examples;
    int found = 0;
    read_rows(train, "train.jsonl", kOwnShots, [&](const RowFields& row) {
      if (found == shots) return;
      read_reference(row);
      examples +=
          fmt::format("Question: {}\nAnswer: {}\n\n", row.filled_text("question"), row.text("answer"));
      ++found;
    });
    if (found < shots) fail(ErrorCode::kInvalidArgument, "--shots {}: train.jsonl has {} rows", shots, found);
    return examples;
  }
};

}  // namespace

const Task& gsm8k_task() {
  static const Gsm8kTask task;
  return task;
}

}  // namespace calyrex::eval
