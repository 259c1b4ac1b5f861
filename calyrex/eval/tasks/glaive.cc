// Glaive function calling: dialogues with functions at hand; each turn of the assistant is one sample.
#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/scorers/call_match.h"
#include "calyrex/eval/scorers/calls.h"
#include "calyrex/eval/tasks/call_prompt.h"
#include "calyrex/eval/tasks/prompt_sample.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

constexpr std::string_view kOwnRows =
    R"({"conversations": [{"from": "human", "value": "What is the weather in Oslo?"}, {"from": "function_call", "value": "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}"}, {"from": "observation", "value": "{\"sky\": \"snow\", \"celsius\": -3}"}, {"from": "gpt", "value": "It snows in Oslo at -3 degrees."}], "tools": "[{\"name\": \"get_weather\", \"description\": \"Weather of a city\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"description\": \"The city\"}}, \"required\": [\"city\"]}}]"}
{"conversations": [{"from": "human", "value": "Could you order me a pizza?"}, {"from": "gpt", "value": "I am sorry, but I cannot order food. I can tell you the weather of a city."}], "tools": "[{\"name\": \"get_weather\", \"description\": \"Weather of a city\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"description\": \"The city\"}}, \"required\": [\"city\"]}}]"}
{"conversations": [{"from": "human", "value": "Remind me to water 3 plants at 18:30."}, {"from": "function_call", "value": "{\"name\": \"add_reminder\", \"arguments\": {\"text\": \"water 3 plants\", \"time\": \"18:30\"}}"}], "tools": "[{\"name\": \"add_reminder\", \"description\": \"Adds a reminder\", \"parameters\": {\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}, \"time\": {\"type\": \"string\", \"description\": \"hh:mm\"}}, \"required\": [\"text\", \"time\"]}}]"})";

/// The JSON that stands as text in a field.
Json nested_json(const RowFields& row, std::string_view name, const std::string& text) {
  try {
    return parse_json(text, row.source(), {.max_bytes = RowFields::kMaxText, .max_depth = 64});
  } catch (const Error& error) {
    row.fail_field(name, fmt::format("JSON ({})", error.message()));
  }
}

Json read_tools(const RowFields& row) {
  const std::string text = row.has("tools") ? row.text("tools") : std::string();
  Json tools = text.empty() ? Json::array() : nested_json(row, "tools", text);
  if (!tools.is_array()) row.fail_field("tools", "a list of functions as JSON text");
  for (const Json& tool : tools) {
    if (!tool.is_object() || !tool.contains("name") || !tool["name"].is_string()) {
      row.fail_field("tools", "functions with \"name\"");
    }
  }
  return tools;
}

FunctionCall read_call(const RowFields& turn) {
  const std::string text = turn.filled_text("value");
  const Json json = nested_json(turn, "value", text);
  const bool whole = json.is_object() && json.contains("name") && json["name"].is_string() &&
                     json.contains("arguments") && json["arguments"].is_object();
  if (!whole) turn.fail_field("value", "a call: {\"name\": ..., \"arguments\": {...}}");
  return {.name = json["name"].get<std::string>(), .arguments = json["arguments"]};
}

Verdict grade_call(const FunctionCall& reference, const std::string& answer) {
  const std::vector<FunctionCall> calls = parse_calls(answer);
  const CallAgreement agreement = compare_calls(calls, reference);
  Verdict verdict;
  verdict.scores = {{"exact_match", agreement.name && agreement.arguments ? 1.0 : 0.0},
                    {"call_parsed", agreement.parsed ? 1.0 : 0.0},
                    {"name_match", agreement.name ? 1.0 : 0.0},
                    {"arguments_match", agreement.arguments ? 1.0 : 0.0}};
  verdict.detail = {{"calls", calls_to_json(calls)}, {"reference", calls_to_json({reference})}};
  return verdict;
}

Verdict grade_words(const std::string& answer) {
  const std::vector<FunctionCall> calls = parse_calls(answer);
  Verdict verdict;
  verdict.scores["no_call"] = calls.empty() ? 1.0 : 0.0;
  verdict.detail = {{"calls", calls_to_json(calls)}};
  return verdict;
}

/// Reads one dialogue and makes a sample of each turn of the assistant.
class Dialogue {
 public:
  Dialogue(const RowFields& row, size_t number, const LoadOptions& options)
      : row_(row), number_(number), options_(options), tools_(read_tools(row)) {}

  void append_samples(Samples& samples) {
    if (row_.has("system")) history_.push_back({.role = "system", .content = row_.text("system")});
    size_t turn_number = 0;
    for (const RowFields& turn : row_.objects("conversations", kMaxTurns)) {
      append_turn(turn, turn_number++, samples);
    }
    if (turn_number == 0) row_.fail_field("conversations", "at least one turn");
  }

 private:
  static constexpr size_t kMaxTurns = 1000;

  void append_turn(const RowFields& turn, size_t number, Samples& samples) {
    const std::string from = turn.text("from");
    if (from == "system") {
      if (!history_.empty()) turn.fail_field("from", "no system turn but the first");
      history_.push_back({.role = "system", .content = turn.text("value")});
    } else if (from == "human" || from == "user") {
      history_.push_back({.role = "user", .content = turn.text("value")});
    } else if (from == "observation") {
      history_.push_back(result_message(options_, turn.text("value")));
    } else if (from == "gpt" || from == "assistant") {
      append_sample(turn, number, grade_words, samples);
      history_.push_back({.role = "assistant", .content = turn.text("value")});
    } else if (from == "function_call") {
      const FunctionCall reference = read_call(turn);
      if (tools_.empty()) turn.fail_field("from", "no call, as \"tools\" is empty");
      append_sample(
          turn, number, [reference](const std::string& answer) { return grade_call(reference, answer); },
          samples);
      history_.push_back(call_message(options_, reference));
    } else {
      turn.fail_field("from", "system, human, gpt, function_call or observation");
    }
  }

  /// Dialogues without functions have nothing to measure.
  void append_sample(const RowFields& turn, size_t number, PromptSample::Grader grader, Samples& samples) {
    const bool asked =
        !history_.empty() && (history_.back().role == "user" || history_.back().role == "tool");
    if (!asked) turn.fail_field("from", "a turn of human or observation before the assistant's");
    if (tools_.empty()) return;
    samples.push_back(std::make_unique<PromptSample>(
        fmt::format("{}/{}", number_, number), call_ask(options_, tools_, history_), std::move(grader)));
  }

  const RowFields& row_;
  size_t number_;
  const LoadOptions& options_;
  Json tools_;
  text::Messages history_;
};

class GlaiveTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info{
        .name = "glaive",
        .measures =
            "function calls in dialogues: name and arguments equal to the reference; no call where the "
            "reference answers in words",
        .source =
            "huggingface.co/datasets/glaiveai/glaive-function-calling-v2 in ShareGPT form, as "
            "github.com/hiyouga/LLaMA-Factory, data/glaive_toolcall_en_demo.json has 300 of it",
        .licence = "Apache-2.0",
        .forms = {Form::kSystem, Form::kUser, Form::kTools},
        .scorer_version = "1",
        .headline = {"exact_match", "name_match", "no_call"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    require_no_shots(info(), options);
    Samples samples;
    size_t number = 0;
    const auto read = [&](const RowFields& row) { Dialogue(row, number++, options).append_samples(samples); };
    for_each_row(options, kOwnRows, info().name, {"glaive_toolcall_en_demo.json", "glaive_toolcall_en.json"},
                 read);
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    for (const char* name : {"exact_match", "call_parsed", "name_match", "arguments_match", "no_call"}) {
      if (has_score(graded, name)) metrics[name] = share_of(graded, name);
    }
    return metrics;
  }
};

}  // namespace

const Task& glaive_task() {
  static const GlaiveTask task;
  return task;
}

}  // namespace calyrex::eval
