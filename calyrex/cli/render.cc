// `calyrex render`: what a chat becomes, from messages to token ids, system span and labels.
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/base/log.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/terminal.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/text/render_view.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::cli {
namespace {

struct RenderOptions {
  std::string model = "default";
  std::string messages;
  std::string tools;
  std::string adapter;
  std::string chat_template;
  std::string kwargs;
  std::string date;
  std::string span_part;
  std::string default_text;
  bool json = false;
  bool generation_prompt = false;
};

/// The chat in a file: a list of messages, or an object with "messages" and perhaps "tools".
struct ChatFile {
  text::Messages messages;
  Json tools = nullptr;
};

ChatFile read_chat(const RenderOptions& options) {
  ChatFile chat;
  const Json document = read_json_file(stream_path(options.messages, "/dev/stdin"));
  const bool is_object = document.is_object() && document.contains("messages");
  chat.messages = text::parse_messages(is_object ? document["messages"] : document, options.messages);
  if (is_object && document.contains("tools"))
    chat.tools = text::parse_tools(document["tools"], options.messages);
  if (!options.tools.empty()) chat.tools = text::parse_tools(read_json_file(options.tools), options.tools);
  return chat;
}

text::ChatOptions chat_options(const RenderOptions& options, const weights::TokenizerSource& source) {
  text::ChatOptions chat;
  if (!options.adapter.empty()) {
    const weights::AdapterFolder adapter = weights::open_adapter(options.adapter);
    chat.chat_template = adapter.chat_template;
    if (chat.chat_template) chat.template_name = adapter.path.string();
    chat.date = adapter.config.chat_date;
    chat.span = adapter.config.span;
    if (chat.chat_template && source.chat_template && *chat.chat_template != *source.chat_template) {
      log_warning("{}: its chat template differs from the model's and is used", options.adapter);
    }
  }
  if (!options.chat_template.empty()) {
    chat.chat_template = text::resolve_chat_template(options.chat_template);
    chat.template_name.clear();
  }
  if (!options.date.empty()) chat.date = options.date;
  if (!options.span_part.empty()) {
    chat.span.part =
        options.span_part == "message" ? weights::SpanPart::kMessage : weights::SpanPart::kContent;
  }
  if (!options.default_text.empty()) {
    chat.span.default_text =
        options.default_text == "anchor" ? weights::DefaultText::kAnchor : weights::DefaultText::kIgnore;
  }
  if (!options.kwargs.empty()) {
    try {
      chat.kwargs = parse_json(options.kwargs, "--chat-template-kwargs");
    } catch (const Error& error) {
      fail(ErrorCode::kInvalidArgument, "{}", error.what());
    }
    if (!chat.kwargs.is_object())
      fail(ErrorCode::kInvalidArgument, "--chat-template-kwargs: not a JSON object");
  }
  return chat;
}

void render(const RenderOptions& options) {
  const ChatFile file = read_chat(options);
  const auto model = weights::open_model(options.model);
  const weights::TokenizerSource& source = model->tokenizer();
  const auto tokenizer = text::Tokenizer::create(source);
  const text::ChatEncoder encoder(source, tokenizer, chat_options(options, source));
  const auto prompt =
      options.generation_prompt ? text::GenerationPrompt::kAdd : text::GenerationPrompt::kNone;
  const text::EncodedChat chat =
      with_context(options.messages, [&] { return encoder.encode(file.messages, prompt, file.tools); });
  if (options.json) {
    std::cout << to_json_line(text::render_view_json(chat, *tokenizer)) << '\n';
  } else {
    std::cout << text::render_view_text(chat, *tokenizer, output_colour());
  }
}

}  // namespace

void add_render_command(CLI::App& app, Run& run) {
  const auto options = std::make_shared<RenderOptions>();
  CLI::App* command =
      app.add_subcommand("render", "Show what a chat becomes: text, token ids, system span, labels");
  command->add_option("--model", options->model, "Folder, .gguf file, org/name, or default")
      ->capture_default_str();
  command
      ->add_option("--messages", options->messages,
                   "JSON file: a list of messages, or {messages, tools}; - = stdin")
      ->required();
  command->add_option("--tools", options->tools, "JSON file: a list of tools as the OpenAI API has them");
  command->add_option("--adapter", options->adapter,
                      "Adapter folder whose template, date and span rules are used");
  command->add_option("--chat-template", options->chat_template, "Template file, chatml or llama3");
  command->add_option("--chat-template-kwargs", options->kwargs,
                      "JSON object the template sees (enable_thinking, ...)");
  command->add_option("--date", options->date, "What strftime_now sees, as 2026-11-29; otherwise today");
  command->add_option("--span-part", options->span_part, "Tokens of a system message that form the span")
      ->check(CLI::IsMember({"content", "message"}));
  command
      ->add_option("--default-text", options->default_text,
                   "Whether a system text of the template's own is a span")
      ->check(CLI::IsMember({"ignore", "anchor"}));
  command->add_flag("--add-generation-prompt", options->generation_prompt, "End with the assistant's header");
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &run] { run = [options] { render(*options); }; });
}

}  // namespace calyrex::cli
