// MMLU (Hendrycks et al. 2021): multiple choice over 57 subjects, by the likeliest letter.
#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/tasks/mmlu_csv.h"
#include "calyrex/eval/tasks/mmlu_subjects.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"
#include "calyrex/text/utf8.h"

namespace calyrex::eval {
namespace {

constexpr int kUsualShots = 5;
constexpr int kMaxShots = 5;  // a subject has five worked questions
constexpr std::string_view kLetters = "ABCD";

constexpr std::string_view kOwnDev =
    R"(question,A,B,C,D,answer
What is 3 * 4?,7,12,34,1,B
Which of these is a mammal?,trout,newt,otter,wren,C
Water freezes at sea level at how many degrees Celsius?,0,32,100,-40,A
"Which word means ""very small""?",vast,loud,swift,tiny,D
How many sides has a hexagon?,6,5,7,8,A
)";
constexpr std::string_view kOwnTest =
    R"(question,A,B,C,D,answer
What is 15 - 6?,8,9,10,21,B
Which of these is a metal?,iron,oxygen,neon,sulfur,A
Which planet is nearest to the Sun?,Venus,Mars,Mercury,Earth,C
"In ""the old red barn"", which word is a noun?",the,old,red,barn,D
)";
constexpr std::string_view kOwnSubject = "miscellaneous";

struct Subject {
  std::string name;
  std::string category;
  /// Description and worked questions, which every prompt of the subject begins with.
  std::string preamble;
};

std::string spoken(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// The question with its choices, up to where the letter follows.
std::string question_text(const MmluQuestion& question) {
  return fmt::format(
      "{}\nA. {}\nB. {}\nC. {}\nD. {}\nAnswer:", text::trim_end(text::trim_start(question.question)),
      question.choices[0], question.choices[1], question.choices[2], question.choices[3]);
}

class MmluSample final : public Sample {
 public:
  MmluSample(std::shared_ptr<const Subject> subject, size_t row, const MmluQuestion& question,
             const LoadOptions& options)
      : subject_(std::move(subject)),
        row_(row),
        question_(question_text(question)),
        answer_(question.answer) {
    form_.form = options.form;
    form_.form_text = options.form_text;
  }

  std::string id() const override { return fmt::format("{}/{}", subject_->name, row_); }

  Json prompt() const override {
    if (form_.form == Form::kRaw) return prompt_text();
    return text::messages_to_json(form_messages(form_, "", prompt_text()));
  }

  std::vector<Ask> next(std::span<const Reply> replies) const override {
    std::vector<Ask> asks;
    if (!replies.empty()) return asks;
    ScoreAsk ask;
    if (form_.form == Form::kRaw) {
      ask.prompt = prompt_text();
    } else {
      ask.messages = form_messages(form_, "", prompt_text());
    }
    for (const char letter : kLetters) {
      ask.completion = {' ', letter};
      asks.push_back(ask);
    }
    return asks;
  }

  Verdict grade(std::span<const Reply> replies) const override {
    if (replies.size() != kLetters.size()) return {.ungraded = "not one score a choice"};
    std::vector<double> sums;
    for (const Reply& reply : replies) {
      sums.push_back(std::accumulate(reply.logprobs.begin(), reply.logprobs.end(), 0.0));
    }
    const auto choice = static_cast<size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
    Verdict verdict;
    verdict.scores["acc"] = choice == static_cast<size_t>(answer_) ? 1.0 : 0.0;
    verdict.detail = {{"subject", subject_->name},
                      {"category", subject_->category},
                      {"choice", std::string(1, kLetters[choice])},
                      {"answer", std::string(1, kLetters[static_cast<size_t>(answer_)])}};
    return verdict;
  }

 private:
  std::string prompt_text() const { return subject_->preamble + question_; }

  std::shared_ptr<const Subject> subject_;
  size_t row_;
  std::string question_;
  int answer_;
  LoadOptions form_;
};

std::string category_of(const std::string& name, const std::filesystem::path& path) {
  for (const MmluSubject& subject : kMmluSubjects) {
    if (subject.name == name) return std::string(subject.category);
  }
  fail(ErrorCode::kInvalidArgument, "{}: '{}' is none of MMLU's 57 subjects; take the file out",
       path.string(), name);
}

class MmluTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info{.name = "mmlu",
                               .measures =
                                   "knowledge: multiple choice in 57 subjects (5-shot). Scored are the "
                                   "continuations \" A\" to \" D\" "
                                   "behind \"Answer:\" (form raw, as lm-evaluation-harness without a chat "
                                   "template) or at the start of "
                                   "the assistant's turn (other forms)",
                               .source =
                                   "github.com/hendrycks/test: dev/SUBJECT_dev.csv and "
                                   "test/SUBJECT_test.csv, with or without header, "
                                   "answers as letters or indices; or one SUBJECT_test.csv",
                               .licence = "MIT",
                               .forms = {Form::kNeutral, Form::kUser, Form::kRaw, Form::kFile},
                               .scorer_version = "1",
                               .headline = {"acc", "acc_macro"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    const int shots = shots_of(info(), options, kUsualShots, kMaxShots);
    std::vector<Samples> parts;
    if (options.sample) {
      parts.push_back(read_subject(std::string(kOwnSubject), "other", parse_mmlu_csv(kOwnDev, "own dev rows"),
                                   parse_mmlu_csv(kOwnTest, "own test rows"), shots, options));
    } else {
      for (const std::filesystem::path& path : test_files(options.data)) {
        parts.push_back(read_subject_file(path, shots, options));
      }
    }
    return take_turns(std::move(parts));
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    metrics["acc"] = share_of(graded, "acc");
    std::map<std::string, data::GroupCount> subjects;
    std::map<std::string, std::vector<Graded>> categories;
    for (const Graded& entry : graded) {
      data::GroupCount& count = subjects[entry.verdict.detail.at("subject").get<std::string>()];
      count.passed += entry.verdict.scores.at("acc") != 0.0;
      ++count.total;
      categories[entry.verdict.detail.at("category").get<std::string>()].push_back(entry);
    }
    std::vector<data::GroupCount> counts;
    for (const auto& [name, count] : subjects) counts.push_back(count);
    metrics["acc_macro"] = data::mean_of_shares(counts);
    for (const auto& [name, entries] : categories) metrics["acc_" + name] = share_of(entries, "acc");
    return metrics;
  }

 private:
  static constexpr std::string_view kTestEnd = "_test.csv";

  static bool is_test_file(const std::filesystem::path& path) {
    return path.filename().string().ends_with(kTestEnd);
  }

  /// In alphabetical order, so that ids and order do not depend on the file system.
  static std::vector<std::filesystem::path> test_files(const std::filesystem::path& data) {
    const std::filesystem::path folder = find_data_file(data, {"test"});
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(folder)) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (is_test_file(entry.path())) files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
    } else if (is_test_file(folder)) {
      files.push_back(folder);
    }
    if (files.empty()) fail(ErrorCode::kNotFound, "{}: holds no SUBJECT_test.csv", folder.string());
    return files;
  }

  static Samples read_subject_file(const std::filesystem::path& path, int shots, const LoadOptions& options) {
    const std::string file = path.filename().string();
    const std::string name = file.substr(0, file.size() - kTestEnd.size());
    const std::string category = category_of(name, path);
    std::vector<MmluQuestion> worked;
    if (shots > 0) {
      const std::filesystem::path root = std::filesystem::absolute(path).parent_path().parent_path();
      worked = read_mmlu_csv(root / "dev" / fmt::format("{}_dev.csv", name));
    }
    return read_subject(name, category, worked, read_mmlu_csv(path), shots, options);
  }

  static Samples read_subject(const std::string& name, const std::string& category,
                              const std::vector<MmluQuestion>& worked,
                              const std::vector<MmluQuestion>& questions, int shots,
                              const LoadOptions& options) {
    if (worked.size() < static_cast<size_t>(shots)) {
      fail(ErrorCode::kInvalidArgument, "--shots {}: {} has {} worked questions", shots, name, worked.size());
    }
    auto subject = std::make_shared<Subject>(Subject{
        .name = name,
        .category = category,
        .preamble = fmt::format("The following are multiple choice questions (with answers) about {}.\n\n",
                                spoken(name))});
    for (int i = 0; i < shots; ++i) {
      const MmluQuestion& question = worked[static_cast<size_t>(i)];
      subject->preamble +=
          fmt::format("{} {}\n\n", question_text(question), kLetters[static_cast<size_t>(question.answer)]);
    }
    Samples samples;
    for (const MmluQuestion& question : questions) {
      samples.push_back(std::make_unique<MmluSample>(subject, samples.size(), question, options));
    }
    return samples;
  }
};

}  // namespace

const Task& mmlu_task() {
  static const MmluTask task;
  return task;
}

}  // namespace calyrex::eval
