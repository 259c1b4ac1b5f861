// calyrex generate: one answer to one chat.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/model_flags.h"
#include "calyrex/lm/answer_stream.h"
#include "calyrex/text/message.h"

namespace calyrex::cli {
namespace {

struct GenerateFlags {
  ModelFlags model;
  GenerationFlags generation;
  std::optional<std::string> system;
  std::optional<std::string> prompt;
  std::string messages_file;
  std::vector<std::string> stop;
  bool json = false;
};

/// The chat in a file: a list of messages, or an object with "messages" and perhaps "tools".
lm::Prompt read_prompt(const std::string& path) {
  const Json json = read_json_file(stream_path(path, "/dev/stdin"));
  const bool is_object = json.is_object() && json.contains("messages");
  lm::Prompt prompt;
  prompt.messages = text::parse_messages(is_object ? json["messages"] : json, path);
  if (is_object && json.contains("tools")) prompt.tools = text::parse_tools(json["tools"], path);
  return prompt;
}

lm::Prompt make_prompt(const GenerateFlags& flags) {
  if (!flags.messages_file.empty()) {
    if (flags.system || flags.prompt) {
      fail(ErrorCode::kInvalidArgument, "--messages holds the whole chat; leave out --system and --prompt");
    }
    return read_prompt(flags.messages_file);
  }
  if (!flags.prompt) fail(ErrorCode::kInvalidArgument, "give a --prompt or a --messages file");
  lm::Prompt prompt;
  if (flags.system) prompt.messages.push_back({.role = "system", .content = *flags.system});
  prompt.messages.push_back({.role = "user", .content = *flags.prompt});
  return prompt;
}

Json to_json(const lm::Completion& completion, const lm::Prompt& prompt, const GenerateFlags& flags,
             const lm::AdapterChoice& adapter) {
  Json spans = Json::array();
  for (const TokenSpan& span : prompt.system_spans) spans.push_back({span.begin, span.end});
  Json json;
  json["text"] = completion.text;
  json["finish_reason"] = lm::finish_reason_name(completion.reason);
  json["token_ids"] = completion.token_ids;
  json["logprobs"] = completion.logprobs;
  json["prompt_token_ids"] = prompt.token_ids;
  json["system_spans"] = std::move(spans);
  json["usage"] = {{"prompt_tokens", completion.usage.prompt_tokens},
                   {"span_tokens", completion.usage.span_tokens},
                   {"completion_tokens", completion.usage.completion_tokens}};
  json["model"] = flags.model.model;
  json["adapter"] = adapter.name.empty() ? Json(nullptr) : Json(flags.model.adapter);
  json["scale"] = adapter.name.empty() ? 0.0 : adapter.scale;
  return json;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void run_generate(const GenerateFlags& flags) {
  lm::GenerateRequest request;
  request.prompt = make_prompt(flags);
  request.sampling = flags.generation.sampling;
  request.max_new_tokens = flags.generation.max_new_tokens;
  request.stop = flags.stop;
  const OpenedModel opened = open_model(flags.model);
  request.adapter = opened.adapter;
  if (!flags.json) {
    lm::AnswerStream stream(*opened.model, std::move(request));
    while (!stream.done()) print(stream.read(std::chrono::milliseconds(100)));
    stream.finish();
    print("\n");
    return;
  }
  const lm::Prompt prompt = opened.model->tokenize(request.prompt, request.adapter);
  lm::AnswerStream stream(*opened.model, std::move(request));
  print(to_json_line(to_json(stream.finish(), prompt, flags, opened.adapter)) + "\n");
}

}  // namespace

void add_generate_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("generate", "Answer one chat");
  auto flags = std::make_shared<GenerateFlags>();
  add_model_flags(*command, flags->model);
  command->add_option("--system", flags->system, "System message");
  command->add_option("--prompt", flags->prompt, "User message");
  command->add_option("--messages", flags->messages_file,
                      "JSON file with the whole chat: a list of messages, or {messages, tools}; - = stdin");
  add_generation_flags(*command, flags->generation);
  command->add_option("--stop", flags->stop, "The answer ends before this text; may be given several times");
  command->add_flag("--json", flags->json,
                    "Print one JSON object with text, tokens, log-probabilities and spans");
  command->callback([flags, &run] { run = [flags] { run_generate(*flags); }; });
}

}  // namespace calyrex::cli
