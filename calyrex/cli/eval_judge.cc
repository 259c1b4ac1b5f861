// calyrex eval judge-agreement: how far a judge agrees with SysBench's published verdicts.
#include <chrono>
#include <csignal>
#include <map>
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
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/eval.h"
#include "calyrex/cli/eval_models.h"
#include "calyrex/cli/info_table.h"
#include "calyrex/cli/interrupts.h"
#include "calyrex/data/grader.h"
#include "calyrex/eval/judge/agreement.h"
#include "calyrex/eval/judge/judge_ask.h"
#include "calyrex/eval/judge/verdict_file.h"
#include "calyrex/eval/run/ask.h"
#include "calyrex/eval/run/dispatcher.h"
#include "calyrex/eval/run/response_cache.h"
#include "calyrex/eval/tasks/sysbench.h"
#include "calyrex/eval/tasks/sysbench_data.h"

namespace calyrex::cli {
namespace {

constexpr int64_t kMaxUnderWay = 256;

struct JudgeOptions {
  std::string data;
  std::string verdicts;
  std::string against;
  EndpointFlags judge;
  std::string output;
  int64_t limit = 0;
  bool json = false;
};

/// One turn that the published judge decided and that the other is asked about.
struct JudgedTurn {
  std::pair<int64_t, int64_t> place;  // dialogue, turn
  eval::GenerateAsk ask;
  std::vector<std::string> criteria;
};

/// The turns of every dialogue whose answers the verdict file holds; the first `limit` dialogues (0: all).
std::vector<JudgedTurn> turns_to_judge(const std::vector<eval::SysbenchDialogue>& dialogues,
                                       const eval::VerdictTable& published, int64_t limit) {
  std::vector<JudgedTurn> turns;
  int64_t used = 0;
  for (const eval::SysbenchDialogue& dialogue : dialogues) {
    if (limit > 0 && used == limit) break;
    text::Messages history = {{.role = "system", .content = dialogue.system}};
    for (size_t turn = 0; turn < dialogue.turns.size(); ++turn) {
      const std::pair place(dialogue.system_id, static_cast<int64_t>(turn) + 1);
      const auto found = published.find(place);
      if (found == published.end() || !found->second.response) break;
      used += turn == 0;
      const std::vector<eval::Criterion> checklist = dialogue.turns[turn].checklist();
      history.push_back({.role = "user", .content = dialogue.turns[turn].user});
      turns.push_back({.place = place,
                       .ask = eval::sysbench_judge_ask(history, *found->second.response, checklist),
                       .criteria = eval::criterion_ids(checklist)});
      history.push_back({.role = "assistant", .content = *found->second.response});
    }
  }
  return turns;
}

/// Asks the judge about every turn that the cache lacks and returns its answers in order. What has come when
/// it fails, or when interrupted, stays in the cache.
std::vector<std::string> ask_judge(const std::vector<JudgedTurn>& turns, lm::LanguageModel& judge,
                                   const std::string& identity, eval::ResponseCache& cache) {
  std::vector<std::string> answers(turns.size());
  std::vector<std::string> keys;
  std::vector<size_t> missing;
  for (size_t i = 0; i < turns.size(); ++i) {
    keys.push_back(eval::ask_digest(identity, turns[i].ask, ""));
    if (const auto known = cache.find(keys[i])) {
      answers[i] = known->text;
    } else {
      missing.push_back(i);
    }
  }
  eval::Dispatcher dispatcher;
  ProgressLine progress;
  size_t sent = 0;
  size_t done = 0;
  while (done < missing.size()) {
    if (interrupted()) fail(ErrorCode::kCancelled, "interrupted; the same command goes on from here");
    for (; sent < missing.size() && dispatcher.generating() < kMaxUnderWay; ++sent) {
      const size_t turn = missing[sent];
      dispatcher.generate(static_cast<int64_t>(turn), judge,
                          eval::to_request(turns[turn].ask, {}, /*seed=*/0));
    }
    for (eval::Arrival& arrival : dispatcher.wait(std::chrono::milliseconds(200))) {
      if (arrival.error) std::rethrow_exception(arrival.error);
      const auto turn = static_cast<size_t>(arrival.ticket);
      cache.add(keys[turn], arrival.reply);
      answers[turn] = std::move(arrival.reply.text);
      progress.show(fmt::format("{} of {} turns judged", ++done, missing.size()));
    }
  }
  return answers;
}

/// The judge's decisions; unreadable ones are listed in `unread` and left out.
eval::VerdictTable read_answers(const std::vector<JudgedTurn>& turns, const std::vector<std::string>& answers,
                                Json& unread) {
  eval::VerdictTable table;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (auto decisions = eval::read_judgement(answers[i], turns[i].criteria)) {
      table[turns[i].place].decisions = std::move(*decisions);
    } else {
      unread.push_back({{"system_id", turns[i].place.first},
                        {"round_index", turns[i].place.second},
                        {"answer", answers[i].substr(0, 500)}});
    }
  }
  return table;
}

eval::VerdictTable judge_turns(const JudgeOptions& options,
                               const std::vector<eval::SysbenchDialogue>& dialogues,
                               const eval::VerdictTable& published, Json& unread) {
  const std::vector<JudgedTurn> turns = turns_to_judge(dialogues, published, options.limit);
  if (turns.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: holds no answers (field 'response') to judge", options.verdicts);
  }
  if (options.output.empty()) {
    fail(ErrorCode::kInvalidArgument, "--judge needs --output: the folder that keeps the judge's answers");
  }
  make_directories(options.output);
  eval::ResponseCache cache(std::filesystem::path(options.output) / "judgements.jsonl");
  const std::unique_ptr<lm::LanguageModel> judge = open_endpoint(options.judge);
  catch_interrupts({SIGINT, SIGTERM});
  const std::string identity = to_json_line(endpoint_identity(options.judge, *judge));
  return read_answers(turns, ask_judge(turns, *judge, identity, cache), unread);
}

/// Criteria that both tables decide.
std::vector<eval::DoubleVerdict> pair_up(const eval::VerdictTable& ours,
                                         const eval::VerdictTable& published) {
  std::vector<eval::DoubleVerdict> pairs;
  for (const auto& [place, turn] : ours) {
    const auto other = published.find(place);
    if (other == published.end()) continue;
    for (const auto& [id, decision] : turn.decisions) {
      const auto theirs = other->second.decisions.find(id);
      if (theirs == other->second.decisions.end()) continue;
      pairs.push_back({.cluster = std::to_string(place.first),
                       .first = decision == eval::Decision::kYes,
                       .second = theirs->second == eval::Decision::kYes});
    }
  }
  return pairs;
}

/// The benchmark's own metrics by either judge: {"judge": {...}, "published": {...}}.
Json metrics_json(const std::vector<eval::SysbenchDialogue>& dialogues, const eval::VerdictTable& ours,
                  const eval::VerdictTable& published) {
  Json json;
  for (const auto& [name, verdicts] : {std::pair("judge", &ours), std::pair("published", &published)}) {
    json[name] = Json::object();
    for (const auto& [metric, estimate] : eval::metrics_of_verdicts(dialogues, *verdicts))
      json[name][metric] = data::estimate_to_json(estimate);
  }
  return json;
}

/// "87.1 / 76.4 / 54.4 %"
std::string main_metrics(const Json& metrics) {
  if (!metrics.contains("csr")) return "no dialogue is decided in full";
  const auto percent = [&](const char* name) { return 100.0 * metrics[name]["value"].get<double>(); };
  return fmt::format("{:.1f} / {:.1f} / {:.1f} %", percent("csr"), percent("isr"), percent("ssr"));
}

void print_agreement(const eval::Agreement& agreement, const Json& metrics, const Json& unread) {
  const auto interval = [](const data::Estimate& estimate) {
    return fmt::format("{:.3f} [{:.3f}, {:.3f}]", estimate.value, estimate.low, estimate.high);
  };
  InfoTable table;
  table.add("Criteria", std::to_string(agreement.n));
  table.add("Raw agreement", interval(agreement.raw));
  table.add("Cohen's kappa", interval(agreement.kappa));
  table.add("Both satisfied", std::to_string(agreement.both_yes));
  table.add("Only this judge", std::to_string(agreement.only_first));
  table.add("Only published", std::to_string(agreement.only_second));
  table.add("Neither", std::to_string(agreement.both_no));
  if (!metrics.is_null()) {
    table.add("This judge: CSR / ISR / SSR", main_metrics(metrics["judge"]));
    table.add("Published: CSR / ISR / SSR", main_metrics(metrics["published"]));
  }
  table.add("Not readable", fmt::format("{} turns", unread.size()));
  table.print();
  for (const Json& turn : unread) fmt::print("not readable: {}\n", to_json_line(turn));
}

void run_judge_agreement(const JudgeOptions& options) {
  if (options.judge.url.empty() == options.against.empty()) {
    fail(ErrorCode::kInvalidArgument, "give either --judge URL or --against FILE");
  }
  if (options.against.empty() && options.data.empty()) {
    fail(ErrorCode::kInvalidArgument, "--judge needs --data: the folder with SysBench's dialogues");
  }
  const eval::VerdictTable published = eval::read_verdicts(options.verdicts);
  std::vector<eval::SysbenchDialogue> dialogues;
  if (!options.data.empty()) dialogues = eval::read_sysbench(eval::find_sysbench_file(options.data));
  Json unread = Json::array();
  const eval::VerdictTable ours = options.against.empty() ? judge_turns(options, dialogues, published, unread)
                                                          : eval::read_verdicts(options.against);
  const std::vector<eval::DoubleVerdict> pairs = pair_up(ours, published);
  if (pairs.empty() && unread.empty()) {
    fail(ErrorCode::kInvalidArgument, "{} and {} have no criterion in common", options.against,
         options.verdicts);
  }
  const eval::Agreement agreement = eval::measure_agreement(pairs, /*seed=*/0);
  const Json metrics = dialogues.empty() ? Json() : metrics_json(dialogues, ours, published);
  if (options.json) {
    Json json = eval::agreement_to_json(agreement);
    if (!metrics.is_null()) json["metrics"] = metrics;
    json["unreadable"] = std::move(unread);
    fmt::print("{}", to_json_text(json));
  } else {
    print_agreement(agreement, metrics, unread);
  }
}

}  // namespace

void add_eval_judge_command(CLI::App& eval, Run& run) {
  CLI::App* command = eval.add_subcommand(
      "judge-agreement",
      "How far a judge agrees with SysBench's published GPT-4o verdicts (raw, Cohen's kappa)");
  auto options = std::make_shared<JudgeOptions>();
  command
      ->add_option(
          "--verdicts", options->verdicts,
          "Published verdicts, one turn a line; with 'response' for --judge (verdicts_llama3_8b.jsonl)")
      ->required();
  command->add_option("--data", options->data,
                      "Folder with SysBench's dialogues; with --against: for its metrics");
  add_endpoint_flags(*command, "judge", "OpenAI-compatible endpoint that judges the answers anew",
                     options->judge);
  command->add_option("--against", options->against, "Verdicts that exist already, in the same layout");
  command->add_option("--output", options->output,
                      "Folder that keeps the judge's answers; a second run goes on");
  command->add_option("--limit", options->limit, "Judge the first N dialogues only")
      ->check(whole_number<int64_t>(1));
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &run] { run = [options] { run_judge_agreement(*options); }; });
}

}  // namespace calyrex::cli
