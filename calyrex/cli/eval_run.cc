// calyrex eval run: benchmarks over a model, its adapters, an endpoint, or answers that exist already.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/eval.h"
#include "calyrex/cli/eval_models.h"
#include "calyrex/cli/interrupts.h"
#include "calyrex/cli/page.h"
#include "calyrex/eval/run/answers.h"
#include "calyrex/eval/run/report.h"
#include "calyrex/eval/run/run_folder.h"
#include "calyrex/eval/run/runner.h"
#include "calyrex/eval/run/task_choice.h"
#include "calyrex/eval/tasks/registry.h"

namespace calyrex::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct EvalFlags {
  std::vector<std::string> tasks;
  ModelFlags model;
  std::vector<std::string> adapters;
  std::string chat_date;
  EndpointFlags endpoint;
  EndpointFlags judge;
  fs::path data;
  bool sample = false;
  std::string form;
  std::string split;
  std::string axis;
  std::optional<int> shots;
  std::optional<int64_t> limit;
  std::optional<int64_t> max_new_tokens;
  uint64_t seed = 0;
  fs::path responses;
  fs::path output;
  bool json = false;
};

void check_flags(const EvalFlags& flags) {
  const auto exclude = [](bool a, bool b, const char* text) {
    if (a && b) fail(ErrorCode::kInvalidArgument, "{}", text);
  };
  const bool endpoint = !flags.endpoint.url.empty();
  const bool responses = !flags.responses.empty();
  exclude(endpoint, responses, "--endpoint and --responses: answers come from one of them");
  exclude(endpoint || responses, !flags.adapters.empty(), "--adapter works on a local model (--model) only");
  exclude(responses, flags.tasks.size() > 1, "--responses grades one task at a time");
  exclude(flags.sample, !flags.data.empty(), "--sample takes the program's own rows, --data names others");
  for (size_t i = 0; i < flags.tasks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (flags.tasks[i] == flags.tasks[j])
        fail(ErrorCode::kInvalidArgument, "task {} is named twice", flags.tasks[i]);
    }
  }
}

std::vector<eval::LoadedTask> load_tasks(const EvalFlags& flags) {
  std::vector<eval::LoadedTask> loaded;
  for (const std::string& name : flags.tasks) {
    const eval::Task& task = eval::find_task(name);
    loaded.push_back(eval::load_task(task, eval::load_options(task, {.task = name,
                                                                     .data = flags.data,
                                                                     .sample = flags.sample,
                                                                     .form = flags.form,
                                                                     .shots = flags.shots,
                                                                     .split = flags.split,
                                                                     .axis = flags.axis,
                                                                     .seed = flags.seed,
                                                                     .judge = !flags.judge.url.empty()})));
  }
  return loaded;
}

eval::Subject responses_subject(const fs::path& responses, int64_t unanswered) {
  constexpr size_t kMaxBytes = size_t{8} << 30;
  eval::Subject subject;
  subject.identity["responses_sha256"] = sha256_hex(read_file(responses, kMaxBytes));
  subject.description["model"] = nullptr;
  subject.description["adapter"] = nullptr;
  subject.description["subject"] = subject.name;
  subject.description["responses"] = responses.string();
  subject.description["unanswered"] = unanswered;
  return subject;
}

/// Whose answers are graded, and the models behind them.
struct Models {
  std::unique_ptr<eval::LocalSubjects> local;
  std::unique_ptr<lm::LanguageModel> endpoint;
  std::unique_ptr<lm::LanguageModel> judge;
  std::vector<eval::Subject> subjects;
};

Models open_models(const EvalFlags& flags, std::vector<eval::LoadedTask>& tasks, eval::RunOptions& options) {
  Models models;
  if (!flags.responses.empty()) {
    eval::require_generation(tasks);
    const int64_t unanswered = eval::attach_answers(tasks.front(), flags.responses);
    if (unanswered > 0) {
      log_warning("{}: no response to {} of {} samples, which are left out", flags.responses.string(),
                  unanswered, unanswered + static_cast<int64_t>(tasks.front().samples.size()));
    }
    models.subjects.push_back(responses_subject(flags.responses, unanswered));
  } else if (!flags.endpoint.url.empty()) {
    eval::require_generation(tasks);
    models.endpoint = open_endpoint(flags.endpoint);
    eval::Subject subject;
    subject.identity = endpoint_identity(flags.endpoint, *models.endpoint);
    subject.description = subject.identity;
    subject.description["adapter"] = nullptr;
    subject.description["subject"] = subject.name;
    models.subjects.push_back(std::move(subject));
    options.model = [model = models.endpoint.get()]() -> lm::LanguageModel& { return *model; };
    options.counts_tokens = false;
  } else {
    models.local = local_subjects(flags.model, flags.adapters, flags.chat_date);
    models.subjects = models.local->subjects();
    options.model = [local = models.local.get()]() -> lm::LanguageModel& { return local->model(); };
  }
  if (!flags.judge.url.empty()) {
    models.judge = open_endpoint(flags.judge);
    options.judge_identity = endpoint_identity(flags.judge, *models.judge);
    options.judge = [model = models.judge.get()]() -> lm::LanguageModel& { return *model; };
  }
  return models;
}

/// "412 of 1082 samples, 3:05 left"
class Progress {
 public:
  void show(int64_t done, int64_t total, int64_t done_before) {
    constexpr std::chrono::milliseconds kInterval{200};
    const Clock::time_point now = Clock::now();
    if (now - shown_ < kInterval && done < total) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const int64_t new_ones = done - done_before;
    const double left =
        new_ones > 0 ? seconds / static_cast<double>(new_ones) * static_cast<double>(total - done) : -1;
    line_.show(fmt::format("{} of {} samples, {} left", done, total, format_duration(left)));
  }

 private:
  ProgressLine line_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = {};
};

/// This command line, to be typed again.
std::string own_command() {
  std::ifstream file("/proc/self/cmdline");  // claims to have no bytes, so read_file() finds none
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string command;
  for (size_t at = 0; at < text.size();) {
    const std::string word = text.c_str() + at;
    at += word.size() + 1;
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-_./,:=@%+") == std::string::npos;
    std::string quoted = word;
    if (!plain) {
      quoted = "'";
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      quoted += "'";
    }
    command += (command.empty() ? "" : " ") + quoted;
  }
  return command;
}

/// Runs, and tells how to go on when the run stops half-way.
std::vector<eval::Finished> run_or_explain(std::vector<eval::LoadedTask> tasks,
                                           const std::vector<eval::Subject>& subjects,
                                           const eval::RunOptions& options) {
  try {
    return eval::run_tasks(std::move(tasks), subjects, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled && error.code() != ErrorCode::kUnavailable) throw;
    fail(error.code() == ErrorCode::kCancelled ? ErrorCode::kCancelled : ErrorCode::kUnavailable,
         "{}; what was done is kept in {}; to go on: {}", error.what(), options.output.string(),
         own_command());
  }
}

/// A single adapter is also found under the name "adapter".
void link_single_adapter(const std::vector<eval::Finished>& finished,
                         const std::vector<eval::Subject>& subjects) {
  if (subjects.size() != 2 || subjects[1].name == "adapter") return;
  for (const eval::Finished& run : finished) {
    if (run.folder.filename() != subjects[1].name) continue;
    const fs::path link = run.folder.parent_path() / "adapter";
    std::error_code error;
    if (fs::is_symlink(fs::symlink_status(link, error))) fs::remove(link, error);
    if (!fs::exists(link, error)) fs::create_directory_symlink(subjects[1].name, link, error);
  }
}

/// A task without one graded sample has failed; ungraded samples beside graded ones are worth a warning.
void check_graded(const std::vector<eval::Finished>& finished) {
  std::string failed;
  for (const eval::Finished& run : finished) {
    const Json& results = run.results;
    const auto ungraded = results["ungraded"].get<int64_t>();
    std::string reason;
    if (ungraded > 0) reason = results["ungraded_samples"][0]["reason"].get<std::string>();
    if (results["n"] == 0) {
      if (reason.empty())
        reason = fmt::format("{} samples do not fit into the model's context",
                             results["not_applicable"].get<int64_t>());
      failed +=
          fmt::format("{}{} with {}: {}", failed.empty() ? "" : "; ", results["task"].get<std::string>(),
                      results["subject"].get<std::string>(), reason);
    } else if (ungraded > 0) {
      log_warning("{}: {} of {} samples are ungraded, first {}: {}", run.folder.string(), ungraded,
                  results["samples"].get<int64_t>(), results["ungraded_samples"][0]["id"].get<std::string>(),
                  reason);
    }
  }
  if (!failed.empty()) fail(ErrorCode::kGateFailed, "no sample could be graded: {}", failed);
}

void run_eval(const EvalFlags& flags) {
  check_flags(flags);
  std::vector<eval::LoadedTask> tasks = load_tasks(flags);
  eval::RunOptions options;
  options.output = flags.output;
  options.limit = flags.limit;
  options.max_new_tokens = flags.max_new_tokens;
  options.seed = flags.seed;
  options.interrupted = interrupted;
  const Models models = open_models(flags, tasks, options);
  if (flags.limit) {
    for (eval::LoadedTask& task : tasks) eval::limit_samples(task, *flags.limit);
  }
  catch_interrupts({SIGINT, SIGTERM});
  std::vector<eval::Finished> finished;
  {
    Progress progress;
    options.progress = [&](int64_t done, int64_t total, int64_t before) {
      progress.show(done, total, before);
    };
    finished = run_or_explain(std::move(tasks), models.subjects, options);
  }
  if (finished.size() == 1) eval::copy_results(finished.front().folder, flags.output);
  link_single_adapter(finished, models.subjects);
  const Json report = eval::make_report(finished);
  const std::string markdown = eval::report_markdown(report);
  write_file_atomically(flags.output / "report.md", markdown);
  write_file_atomically(flags.output / "report.html", make_evaluation_page(report));
  fmt::print("{}", flags.json ? to_json_text(report) : markdown);
  check_graded(finished);
}

void add_flags(CLI::App& command, EvalFlags& flags) {
  command.add_option("tasks", flags.tasks, "Benchmarks, by name (a,b,c); 'eval list' shows them")
      ->required()
      ->delimiter(',');
  add_backbone_flags(command, flags.model);
  command
      .add_option("--adapter", flags.adapters,
                  "Adapter folder, DIR[@SCALE]; may be repeated. The base model is always run too")
      ->check(not_empty());
  command.add_option(
      "--chat-date", flags.chat_date,
      "Date that chat templates see (2026-01-31); default: the first adapter's, else a fixed one");
  add_endpoint_flags(command, "endpoint", "OpenAI-compatible endpoint to grade instead of a local model",
                     flags.endpoint);
  add_endpoint_flags(command, "judge", "OpenAI-compatible endpoint of the judge, for tasks that need one",
                     flags.judge);
  command.add_option("--data", flags.data, "Folder or file of the benchmark; or a folder that holds TASK/")
      ->check(not_empty());
  command.add_flag("--sample", flags.sample, "The few rows that the program carries, to try a task out");
  command.add_option("--form", flags.form,
                     "Which text is the system message: user, neutral, system, ... or a file that holds it");
  command.add_option("--split", flags.split, "Which part of the data, for tasks that have splits")
      ->check(not_empty());
  command.add_option("--axis", flags.axis, "One axis alone, for tasks that measure along several")
      ->check(not_empty());
  command
      .add_option("--shots", flags.shots, "Examples before the question; default: the task's usual number")
      ->check(whole_number<int>(0));
  command.add_option("--limit", flags.limit, "Only the first so many rows of each task")
      ->check(whole_number<int64_t>(1));
  command.add_option("--max-new-tokens", flags.max_new_tokens, "No answer longer than this")
      ->check(whole_number<int64_t>(1));
  command.add_option("--seed", flags.seed, "Of whatever a task draws")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  command
      .add_option("--responses", flags.responses,
                  R"(JSONL answers to grade without a model: {"id" or "key" or "prompt", "response"})")
      ->check(not_empty());
  command.add_option("--output", flags.output, "Folder of the results; an unfinished run there goes on")
      ->required()
      ->check(not_empty());
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

}  // namespace

void add_eval_run_command(CLI::App& eval, Run& run) {
  CLI::App* command = eval.add_subcommand("run", "Run benchmarks and grade the answers");
  auto flags = std::make_shared<EvalFlags>();
  add_flags(*command, *flags);
  command->callback([flags, &run] { run = [flags] { run_eval(*flags); }; });
}

}  // namespace calyrex::cli
