#include "calyrex/eval/run/runner.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/folder_lock.h"
#include "calyrex/base/sha256.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/run/ask.h"
#include "calyrex/eval/run/results.h"
#include "calyrex/eval/run/sample_work.h"

namespace calyrex::eval {
namespace {

constexpr std::chrono::milliseconds kGlance{200};  // how often interrupts are looked for

/// One task with one subject on its way.
struct TaskRun {
  const LoadedTask* task = nullptr;
  const Subject* subject = nullptr;
  std::string identity_sha256;
  std::unique_ptr<RunFolder> folder;
  std::vector<std::optional<Outcome>> outcomes;
  int64_t missing = 0;
  std::optional<Json> results;

  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const auto& sample : task->samples) ids.push_back(sample->id());
    return ids;
  }
};

/// How the task's first answer is written; null for tasks that only score.
Json decoding_of(const LoadedTask& task, const RunOptions& options) {
  for (const Ask& ask : task.samples.front()->next({})) {
    const auto* generate = std::get_if<GenerateAsk>(&ask);
    if (generate == nullptr) continue;
    Json json;
    json["temperature"] = generate->temperature;
    json["max_new_tokens"] =
        std::min(generate->max_new_tokens, options.max_new_tokens.value_or(generate->max_new_tokens));
    json["stop"] = generate->stop;
    return json;
  }
  return nullptr;
}

/// What tells a run from another; results.json repeats it.
Json run_configuration(const LoadedTask& task, const Subject& subject, const RunOptions& options) {
  Json json;
  json["form"] = form_name(task.options.form);
  if (task.options.form == Form::kFile) json["form_sha256"] = sha256_hex(task.options.form_text);
  json["seed"] = task.options.seed;
  json["shots"] = task.options.shots ? Json(*task.options.shots) : Json();
  json["limit"] = options.limit ? Json(*options.limit) : Json();
  json["sample"] = task.options.sample;
  if (!task.options.split.empty()) json["split"] = task.options.split;
  if (!task.options.axis.empty()) json["axis"] = task.options.axis;
  json["decoding"] = decoding_of(task, options);
  json["max_new_tokens"] = options.max_new_tokens ? Json(*options.max_new_tokens) : Json();
  json["judge"] = options.judge_identity;
  json["data_sha256"] = task.data_sha256;
  json["identity"] = subject.identity;
  return json;
}

bool has_span(const LoadedTask& task) {
  return std::ranges::any_of(task.samples, [](const auto& sample) {
    const std::vector<Ask> asks = sample->next({});
    return std::ranges::any_of(asks, has_system_message);
  });
}

class Runner {
 public:
  Runner(const std::vector<LoadedTask>& tasks, const std::vector<Subject>& subjects,
         const RunOptions& options)
      : options_(options),
        lock_(FolderLock::lock_output(options.output, "is evaluating into")),
        cache_(options.output / "responses.jsonl") {
    for (const LoadedTask& task : tasks) {
      for (const Subject& subject : subjects) open(task, subject);
    }
  }

  std::vector<Finished> run() {
    plan();
    for (TaskRun& run : runs_) complete_if_done(run);
    report();
    while (true) {
      if (options_.interrupted && options_.interrupted()) fail(ErrorCode::kCancelled, "interrupted");
      start_work();
      if (under_way_.empty()) break;
      for (Arrival& arrival : dispatcher_.wait(kGlance)) take(arrival);
    }
    std::vector<Finished> finished;
    for (TaskRun& run : runs_) {
      CALYREX_CHECK(run.results, "{} is not complete", run.folder->path().string());
      finished.push_back({.folder = run.folder->path(), .results = std::move(*run.results)});
    }
    return finished;
  }

 private:
  /// Where an ask's reply belongs.
  struct Place {
    std::shared_ptr<SampleWork> work;
    size_t index = 0;
    std::string key;
  };

  void open(const LoadedTask& task, const Subject& subject);
  void plan();
  void start_work();
  void advance(const std::shared_ptr<SampleWork>& work);
  /// Looks replies up, and sends what is not known; says whether all were known.
  bool send(const std::shared_ptr<SampleWork>& work);
  void submit(const std::shared_ptr<SampleWork>& work, size_t index, std::string key);
  void take(Arrival& arrival);
  void end(SampleWork& work, Outcome outcome);
  void complete_if_done(TaskRun& run);
  void report() const;
  std::string key_of(const SampleWork& work, size_t index) const;
  bool stops_run(const Error& error) const;

  const RunOptions& options_;
  FolderLock lock_;  // two processes that append to the same files would drop each other's lines
  ResponseCache cache_;
  std::deque<TaskRun> runs_;
  std::deque<std::shared_ptr<SampleWork>> generate_queue_;
  std::deque<std::shared_ptr<SampleWork>> score_queue_;
  std::map<int64_t, Place> under_way_;  // by ticket
  int64_t next_ticket_ = 0;
  int64_t total_ = 0;
  int64_t done_ = 0;
  int64_t done_before_ = 0;
  Dispatcher dispatcher_;
};

void Runner::open(const LoadedTask& task, const Subject& subject) {
  TaskRun run;
  run.task = &task;
  run.subject = &subject;
  run.identity_sha256 = sha256_hex(to_json_line(subject.identity));
  run.folder = std::make_unique<RunFolder>(options_.output / task.task->info().name / subject.name,
                                           run_configuration(task, subject, options_),
                                           task.answers ? Reopen::kReplace : Reopen::kContinue);
  const auto& finished = run.folder->finished();
  for (const auto& sample : task.samples) {
    const auto found = finished.find(sample->id());
    run.outcomes.push_back(found == finished.end() ? std::nullopt : std::optional(found->second));
    if (!run.outcomes.back()) ++run.missing;
  }
  total_ += static_cast<int64_t>(task.samples.size());
  done_ += static_cast<int64_t>(task.samples.size()) - run.missing;
  runs_.push_back(std::move(run));
}

/// Longest first: sequences of like length score together, and no long answer is left for the end.
void Runner::plan() {
  done_before_ = done_;
  std::vector<std::pair<size_t, std::shared_ptr<SampleWork>>> generate;
  std::vector<std::pair<size_t, std::shared_ptr<SampleWork>>> score;
  for (size_t r = 0; r < runs_.size(); ++r) {
    for (size_t s = 0; s < runs_[r].outcomes.size(); ++s) {
      if (runs_[r].outcomes[s]) continue;
      auto work = std::make_shared<SampleWork>(r, s, *runs_[r].task->samples[s]);
      size_t bytes = 0;
      bool writes = false;
      for (const Ask& ask : work->first_asks()) {
        bytes += ask_bytes(ask);
        writes = writes || ask_kind(ask) != AskKind::kScore;
      }
      (writes ? generate : score).emplace_back(bytes, std::move(work));
    }
  }
  const auto fill = [](auto& sorted, auto& queue) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [bytes, work] : sorted) queue.push_back(std::move(work));
  };
  fill(generate, generate_queue_);
  fill(score, score_queue_);
}

/// Scores fill up the batch once the last answers are being written.
void Runner::start_work() {
  const auto start = [this](auto& queue) {
    const std::shared_ptr<SampleWork> work = std::move(queue.front());
    queue.pop_front();
    advance(work);
  };
  while (!generate_queue_.empty() && dispatcher_.generating() < options_.max_generating) {
    start(generate_queue_);
  }
  while (generate_queue_.empty() && !score_queue_.empty() && dispatcher_.scoring() < options_.max_scoring) {
    start(score_queue_);
  }
}

void Runner::advance(const std::shared_ptr<SampleWork>& work) {
  do {
    if (!work->begin_step(options_.max_new_tokens)) {
      end(*work, work->grade());
      return;
    }
  } while (send(work));
}

bool Runner::send(const std::shared_ptr<SampleWork>& work) {
  const TaskRun& run = runs_[work->run()];
  std::vector<size_t> unknown;
  std::vector<std::string> keys;
  for (size_t i = 0; i < work->asks().size(); ++i) {
    keys.push_back(key_of(*work, i));
    if (run.task->answers && ask_kind(work->asks()[i]) == AskKind::kAnswer) {
      const std::vector<std::string>& answers = (*run.task->answers)[work->sample_index()];
      if (work->num_answers() >= answers.size()) {
        end(*work, ungraded_outcome(fmt::format("only {} answers are given", answers.size())));
        return false;
      }
      work->set_reply(i, {.text = answers[work->num_answers()]});
    } else if (std::optional<Reply> reply = cache_.find(keys.back())) {
      work->set_reply(i, std::move(*reply));
    } else {
      unknown.push_back(i);
    }
  }
  if (unknown.empty()) return true;
  const auto asks_judge = [&](size_t i) { return ask_kind(work->asks()[i]) == AskKind::kJudgement; };
  if (!options_.judge && std::ranges::any_of(unknown, asks_judge)) {
    end(*work, ungraded_outcome("no judge was named (--judge URL)"));
    return false;
  }
  // Opened here: what goes wrong then says nothing of the sample.
  if (!std::ranges::all_of(unknown, asks_judge)) options_.model();
  try {
    for (const size_t i : unknown) {
      if (!options_.counts_tokens || asks_judge(i)) continue;
      if (const auto reason = work->tokenize(i, options_.model(), run.subject->adapter)) {
        end(*work, {.verdict = {}, .not_applicable = *reason});
        return false;
      }
    }
    for (const size_t i : unknown) submit(work, i, keys[i]);
  } catch (const Error& error) {
    if (stops_run(error)) throw;
    end(*work, ungraded_outcome(error.what()));
  }
  return false;
}

void Runner::submit(const std::shared_ptr<SampleWork>& work, size_t index, std::string key) {
  const int64_t ticket = next_ticket_++;
  const Ask& ask = work->asks()[index];
  const AskKind kind = ask_kind(ask);
  lm::LanguageModel& model = kind == AskKind::kJudgement ? options_.judge() : options_.model();
  const lm::AdapterChoice adapter =
      kind == AskKind::kJudgement ? lm::AdapterChoice{} : runs_[work->run()].subject->adapter;
  if (kind == AskKind::kScore) {
    dispatcher_.score(ticket, model, work->score_request(index, adapter));
  } else {
    // The request's own digest as its seed: the same in every run, whatever ran before.
    const uint64_t seed = std::stoull(key.substr(0, 15), nullptr, 16);
    dispatcher_.generate(ticket, model, work->generate_request(index, adapter, seed));
  }
  under_way_.emplace(ticket, Place{.work = work, .index = index, .key = std::move(key)});
}

void Runner::take(Arrival& arrival) {
  const auto found = under_way_.find(arrival.ticket);
  const Place place = std::move(found->second);
  under_way_.erase(found);
  if (arrival.error != nullptr) {
    try {
      std::rethrow_exception(arrival.error);
    } catch (const Error& error) {
      if (stops_run(error)) throw;
      if (!place.work->ended()) end(*place.work, ungraded_outcome(error.what()));
      return;
    }
  }
  cache_.add(place.key, arrival.reply);
  if (place.work->ended()) return;
  place.work->set_reply(place.index, std::move(arrival.reply));
  if (place.work->step_is_complete()) advance(place.work);
}

void Runner::end(SampleWork& work, Outcome outcome) {
  TaskRun& run = runs_[work.run()];
  work.mark_ended();
  run.folder->append(work.id(), outcome_to_json(work.to_json(), outcome));
  run.outcomes[work.sample_index()] = std::move(outcome);
  --run.missing;
  ++done_;
  complete_if_done(run);
  report();
}

void Runner::complete_if_done(TaskRun& run) {
  if (run.missing > 0 || run.results) return;
  Json description = run.subject->description;
  description.update(run_configuration(*run.task, *run.subject, options_));
  if (run.subject->anchored) description["unchanged_by_construction"] = !has_span(*run.task);
  std::vector<Outcome> outcomes;
  for (std::optional<Outcome>& outcome : run.outcomes) outcomes.push_back(std::move(*outcome));
  run.results = run.folder->complete(run.ids(),
                                     make_results(*run.task->task, run.task->samples, outcomes, description));
}

void Runner::report() const {
  if (options_.progress) options_.progress(done_, total_, done_before_);
}

std::string Runner::key_of(const SampleWork& work, size_t index) const {
  const TaskRun& run = runs_[work.run()];
  const Ask& ask = work.asks()[index];
  const std::string identity = ask_kind(ask) == AskKind::kJudgement
                                   ? "judge " + sha256_hex(to_json_line(options_.judge_identity))
                                   : run.identity_sha256;
  const std::string draw = fmt::format("{} {} {} {} {}", options_.seed, run.task->task->info().name,
                                       work.id(), work.num_replies(), index);
  return ask_digest(identity, ask, draw);
}

/// A request that is refused says something of its sample; any other error says it of the run.
bool Runner::stops_run(const Error& error) const {
  return error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kUnsupported;
}

}  // namespace

LoadedTask load_task(const Task& task, const LoadOptions& options) {
  LoadedTask loaded{.task = &task, .options = options, .samples = task.load(options), .data_sha256 = {}};
  std::set<std::string> ids;
  Sha256 digest;
  for (const auto& sample : loaded.samples) {
    if (!ids.insert(sample->id()).second) {
      fail(ErrorCode::kInvalidArgument, "{}: two rows have the id '{}'", task.info().name, sample->id());
    }
    digest.update(to_json_line(Json::array({sample->id(), sample->prompt()})));
  }
  if (loaded.samples.empty()) fail(ErrorCode::kInvalidArgument, "{}: the data has no rows", task.info().name);
  loaded.data_sha256 = digest.hex_digest();
  return loaded;
}

void limit_samples(LoadedTask& task, int64_t limit) {
  const size_t kept = std::min(static_cast<size_t>(limit), task.samples.size());
  task.samples.resize(kept);
  if (task.answers) task.answers->resize(kept);
}

void require_generation(const std::vector<LoadedTask>& tasks) {
  for (const LoadedTask& task : tasks) {
    for (const auto& sample : task.samples) {
      const std::vector<Ask> asks = sample->next({});
      if (std::ranges::none_of(asks, [](const Ask& ask) { return ask_kind(ask) == AskKind::kScore; }))
        continue;
      fail(ErrorCode::kUnsupported,
           "{} compares log-probabilities of given answers; this needs a local model (--model)",
           task.task->info().name);
    }
  }
}

namespace {

void require_tools(const std::vector<LoadedTask>& tasks, const std::vector<Subject>& subjects) {
  const auto deaf = std::ranges::find(subjects, false, &Subject::renders_tools);
  if (deaf == subjects.end()) return;
  for (const LoadedTask& task : tasks) {
    if (task.options.form != Form::kTools || task.answers) continue;
    fail(ErrorCode::kUnsupported,
         "{}: the chat template of {} writes no function schemas (tools); take --form system, or another "
         "--chat-template",
         task.task->info().name, deaf->name);
  }
}

}  // namespace

std::vector<Finished> run_tasks(std::vector<LoadedTask> tasks, const std::vector<Subject>& subjects,
                                const RunOptions& options) {
  require_tools(tasks, subjects);
  return Runner(tasks, subjects, options).run();
}

}  // namespace calyrex::eval
