// IFEval (Zhou et al. 2023): answers to prompts whose constraints a program can verify; and the same prompts
// with the constraints in a system message (RealGuardrails, Mu et al. 2025), or apart but in one user
// message.
#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/tasks/ifeval_rows.h"
#include "calyrex/eval/tasks/prompt_sample.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

/// What the user says when the whole prompt is the system message.
constexpr std::string_view kGoAhead = "Please do that now.";

enum class Layout { kWhole, kSystem, kOneMessage };

/// The chat of a row, by the layout of its task and the form of the run.
text::Messages chat_of(Layout layout, const RowFields& row, const IfevalRow& parsed,
                       const LoadOptions& options) {
  if (layout == Layout::kSystem) return dialogue_in_form(options, split_messages(row, parsed));
  if (layout == Layout::kWhole) {
    const bool system = options.form == Form::kSystem;
    return form_messages(options, system ? parsed.prompt : "", system ? kGoAhead : parsed.prompt);
  }
  if (options.sample) {  // the own rows have the constraints apart: they follow the task
    const text::Messages& split = split_messages(row, parsed);
    return form_messages(options, split[1].content, split[0].content);
  }
  if (parsed.messages.size() != 1) row.fail_field("messages", "one user message");
  return form_messages(options, "", parsed.messages[0].content);
}

class IfevalTask final : public Task {
 public:
  IfevalTask(Layout layout, std::string_view file, TaskInfo info)
      : layout_(layout), file_(file), info_(std::move(info)) {
    info_.scorer_version = "1";
    info_.headline = {"prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc",
                      "inst_level_loose_acc"};
  }

  const TaskInfo& info() const override { return info_; }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    require_no_shots(info(), options);
    Samples samples;
    const auto read = [&](const RowFields& row) {
      const IfevalRow parsed = read_ifeval_row(row);
      GenerateAsk ask{.messages = chat_of(layout_, row, parsed, options), .max_new_tokens = kIfevalTokens};
      samples.push_back(std::make_unique<PromptSample>(
          parsed.id, std::move(ask), [instructions = parsed.instructions](const std::string& answer) {
            return grade_ifeval(instructions, answer);
          }));
    };
    for_each_row(options, own_ifeval_rows(), info().name, {file_}, read);
    check_unique_ids(samples, options.data);
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics = ifeval_metrics(graded);
    metrics.merge(ifeval_metrics_by_instruction(graded));
    return metrics;
  }

 private:
  Layout layout_;
  std::string_view file_;
  TaskInfo info_;
};

}  // namespace

const Task& ifeval_task() {
  static const IfevalTask task(
      Layout::kWhole, "input_data.jsonl",
      {.name = "ifeval",
       .measures =
           "verifiable instructions followed (25 kinds), by prompt and by instruction, strict and loose",
       .source =
           "github.com/google-research/google-research, instruction_following_eval/data: input_data.jsonl",
       .licence = "Apache-2.0",
       .forms = {Form::kUser, Form::kNeutral, Form::kSystem, Form::kFile}});
  return task;
}

const Task& sys_ifeval_task() {
  static const IfevalTask task(
      Layout::kSystem, "sys_ifeval.jsonl",
      {.name = "sys_ifeval",
       .measures = "IFEval with the constraints in the system message and the task in the user's",
       .source = "github.com/normster/RealGuardrails, evals/ifeval/inputs: sys_ifeval.jsonl",
       .licence = "MIT, the prompts Apache-2.0",
       .forms = {Form::kSystem, Form::kUser}});
  return task;
}

const Task& ifeval_sep_task() {
  static const IfevalTask task(
      Layout::kOneMessage, "ifeval_sep.jsonl",
      {.name = "ifeval_sep",
       .measures = "control of sys_ifeval: constraints and task apart, but both in the user message",
       .source = "github.com/normster/RealGuardrails, evals/ifeval/inputs: ifeval_sep.jsonl",
       .licence = "MIT, the prompts Apache-2.0",
       .forms = {Form::kUser, Form::kNeutral, Form::kFile}});
  return task;
}

}  // namespace calyrex::eval
