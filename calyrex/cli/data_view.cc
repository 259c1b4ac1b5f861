// calyrex data stats, data preview: what training files hold.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/data_commands.h"
#include "calyrex/cli/terminal.h"
#include "calyrex/cli/value_name.h"
#include "calyrex/data/layout.h"
#include "calyrex/data/row_stats.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/text/render_view.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::cli {
namespace {

struct FileFlags {
  std::string model;
  std::string chat_template;
  std::string instructions;
  data::LayoutOptions layout;
};

void add_file_flags(CLI::App& command, FileFlags& flags) {
  command.add_option("--model", flags.model, "Model whose template and tokens are used")->check(not_empty());
  command.add_option("--chat-template", flags.chat_template, "Template file, chatml or llama3");
  command.add_option("--layout", flags.layout.layout, "Layout of the rows; told by their keys unless given")
      ->transform(value_name<data::Layout>())
      ->default_str("auto");
  command.add_option("--instructions", flags.instructions,
                     "Wordings of the tasks of instruction-induction rows: JSON {task: [instruction, ...]}");
}

data::LayoutOptions layout_options(const FileFlags& flags) {
  data::LayoutOptions options = flags.layout;
  if (!flags.instructions.empty()) options.instructions = data::read_instructions(flags.instructions);
  return options;
}

std::unique_ptr<text::ChatEncoder> open_encoder(const FileFlags& flags) {
  if (flags.model.empty()) return nullptr;
  const auto model = weights::open_model(flags.model);
  text::ChatOptions options;
  if (!flags.chat_template.empty()) options.chat_template = text::resolve_chat_template(flags.chat_template);
  return std::make_unique<text::ChatEncoder>(model->tokenizer(), text::Tokenizer::create(model->tokenizer()),
                                             std::move(options));
}

struct StatsOptions : FileFlags {
  std::vector<std::string> files;
  bool json = false;
};

void show_stats(const StatsOptions& options) {
  const auto encoder = open_encoder(options);
  const data::LayoutOptions layout = layout_options(options);
  Json result = Json::array();
  for (const std::string& path : options.files) {
    data::RowStatistics statistics(encoder.get());
    const int64_t unusable = data::for_each_laid_out_row(
        path, layout, [&](const data::LaidOutRow& row) { statistics.add(row.row); });
    Json entry = {{"file", path}, {"unusable", unusable}};
    entry.update(statistics.to_json());
    result.push_back(std::move(entry));
  }
  if (options.json) {
    fmt::print("{}", to_json_text(result));
    return;
  }
  for (const Json& entry : result) {
    fmt::print("{}", data::format_row_statistics(entry["file"].get<std::string>(), entry));
    if (entry["unusable"] != 0) fmt::print("  {:<18}{}\n", "no chat in", entry["unusable"].get<int64_t>());
  }
}

struct PreviewOptions : FileFlags {
  std::string file;
  int64_t row = 1;
};

data::ChatRow find_row(const PreviewOptions& options) {
  int64_t number = 0;
  std::optional<data::ChatRow> found;
  data::for_each_laid_out_row(options.file, layout_options(options), [&](data::LaidOutRow row) {
    if (++number == options.row) found = std::move(row.row);
  });
  if (!found) {
    fail(ErrorCode::kInvalidArgument, "{}: there is no row {}; it has {}", options.file, options.row, number);
  }
  return *found;
}

/// The chat as a rendering without a template: each message is one piece.
text::EncodedChat plain_chat(const data::ChatRow& row) {
  using Origin = text::EncodedChat::Piece::Origin;
  static const std::map<std::string, Origin> kOrigins = {{"system", Origin::kSystem},
                                                         {"developer", Origin::kSystem},
                                                         {"user", Origin::kUser},
                                                         {"assistant", Origin::kAssistant},
                                                         {"tool", Origin::kTool}};
  text::EncodedChat chat;
  const auto add = [&](const std::string& text, Origin origin) {
    const auto begin = static_cast<int64_t>(chat.text.size());
    chat.text += text;
    const auto end = static_cast<int64_t>(chat.text.size());
    chat.pieces.push_back({.byte_begin = begin, .byte_end = end, .origin = origin});
    chat.token_ids.push_back(0);
    chat.token_byte_begin.push_back(begin);
    chat.token_byte_end.push_back(end);
  };
  if (row.tools.is_array() && !row.tools.empty()) add(to_json_line(row.tools) + "\n", Origin::kOperator);
  for (const text::Message& message : row.messages) {
    add(message.role + ": ", Origin::kTemplate);
    add((message.has_content ? message.content : to_json_line(message.extra)) + "\n",
        kOrigins.at(message.role));
  }
  return chat;
}

void preview(const PreviewOptions& options) {
  const data::ChatRow row = find_row(options);
  const auto encoder = open_encoder(options);
  const text::EncodedChat chat =
      encoder ? with_context(
                    row.source,
                    [&] { return encoder->encode(row.messages, text::GenerationPrompt::kNone, row.tools); })
              : plain_chat(row);
  const text::Colour colour = output_colour();
  fmt::print("row {}, {} ({})\n", options.row, row.id, row.source);
  if (colour == text::Colour::kAnsi) {
    fmt::print(
        "\x1b[33msystem\x1b[0m \x1b[36muser\x1b[0m \x1b[32massistant\x1b[0m \x1b[35mtools\x1b[0m "
        "\x1b[90mtemplate\x1b[0m; \x1b[1mbold\x1b[0m = span, \x1b[4munderlined\x1b[0m = trained\n");
  }
  fmt::print("{}\n", text::render_chat_text(chat, colour));
  if (!row.fields.empty()) fmt::print("fields: {}\n", to_json_line(row.fields));
}

}  // namespace

void add_data_stats_command(CLI::App& data_group, Run& run) {
  CLI::App* command =
      data_group.add_subcommand("stats", "Count rows, roles, lengths and duplicates of files");
  const auto options = std::make_shared<StatsOptions>();
  command->add_option("files", options->files, "Files of rows (.jsonl or .json)")->required();
  add_file_flags(*command, *options);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &run] { run = [options] { show_stats(*options); }; });
}

void add_data_preview_command(CLI::App& data_group, Run& run) {
  CLI::App* command = data_group.add_subcommand(
      "preview", "Show one row as a chat; with --model as the template renders it, with span and labels");
  const auto options = std::make_shared<PreviewOptions>();
  command->add_option("file", options->file, "File of rows (.jsonl or .json)")->required();
  command->add_option("--row", options->row, "Which row, from 1")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  add_file_flags(*command, *options);
  command->callback([options, &run] { run = [options] { preview(*options); }; });
}

}  // namespace calyrex::cli
