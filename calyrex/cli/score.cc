// calyrex score: log-probabilities of given answers, row by row.
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
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
#include "calyrex/cli/commands.h"
#include "calyrex/cli/model_flags.h"
#include "calyrex/text/message.h"

namespace calyrex::cli {
namespace {

/// Rows in the model's hands at a time: enough to batch rows of like lengths.
constexpr size_t kRowsUnderWay = 1024;

struct ScoreFlags {
  ModelFlags model;
  std::string input;
  std::string output;
};

struct ScoreRow {
  Json id;
  std::string source;  // file:line
  lm::ScoreRequest request;
};

std::string string_field(const Json& json, const char* key, const std::string& source) {
  if (!json.contains(key) || !json[key].is_string()) {
    fail(ErrorCode::kInvalidArgument, "{}: expected a string \"{}\"", source, key);
  }
  return json[key].get<std::string>();
}

TokenSpans parse_spans(const Json& json, const std::string& source) {
  const auto refuse = [&] {
    fail(ErrorCode::kInvalidArgument, "{}: \"spans\" must be a list of [begin, end] token positions", source);
  };
  TokenSpans spans;
  if (!json.is_array()) refuse();
  for (const Json& pair : json) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() || !pair[1].is_number_integer())
      refuse();
    spans.push_back({pair[0].get<int64_t>(), pair[1].get<int64_t>()});
  }
  return spans;
}

ScoreRow parse_row(const Json& json, const std::filesystem::path& file, int64_t line) {
  ScoreRow row{.id = fmt::format("{}:{}", file.filename().string(), line),
               .source = fmt::format("{}:{}", file.string(), line),
               .request = {}};
  if (!json.is_object()) fail(ErrorCode::kInvalidArgument, "{}: expected a JSON object", row.source);
  if (json.contains("id")) row.id = json["id"];
  lm::Prompt& prompt = row.request.prompt;
  if (json.contains("messages")) {
    prompt.messages = text::parse_messages(json["messages"], row.source);
    if (prompt.messages.empty() || prompt.messages.back().role != "assistant") {
      fail(ErrorCode::kInvalidArgument, "{}: the last message must be the assistant's, which is scored",
           row.source);
    }
    if (json.contains("tools")) prompt.tools = text::parse_tools(json["tools"], row.source);
    for (const char* key : {"prompt", "completion", "spans"}) {
      if (json.contains(key)) {
        fail(ErrorCode::kInvalidArgument, "{}: \"messages\" and \"{}\" in one row; leave one of them out",
             row.source, key);
      }
    }
    return row;
  }
  if (!json.contains("prompt")) {
    fail(ErrorCode::kInvalidArgument, "{}: expected \"messages\", or \"prompt\" and \"completion\"",
         row.source);
  }
  prompt.text = string_field(json, "prompt", row.source);
  row.request.completion = string_field(json, "completion", row.source);
  if (row.request.completion.empty())
    fail(ErrorCode::kInvalidArgument, "{}: \"completion\" is empty", row.source);
  if (json.contains("spans")) prompt.system_spans = parse_spans(json["spans"], row.source);
  return row;
}

std::vector<ScoreRow> read_rows(const std::filesystem::path& path) {
  std::vector<ScoreRow> rows;
  for_each_json_line(path, [&](int64_t line, Json json) { rows.push_back(parse_row(json, path, line)); });
  if (rows.empty()) fail(ErrorCode::kInvalidArgument, "{}: no rows", path.string());
  return rows;
}

Json to_json(const Json& id, const lm::ScoreResult& result) {
  Json spans = Json::array();
  for (const TokenSpan& span : result.system_spans) spans.push_back({span.begin, span.end});
  Json json;
  json["id"] = id;
  json["token_ids"] = result.token_ids;
  json["system_spans"] = std::move(spans);
  json["score_from"] = result.score_from;
  json["logprobs"] = result.logprobs;
  return json;
}

void run_score(const ScoreFlags& flags) {
  const std::filesystem::path input = stream_path(flags.input, "/dev/stdin");
  const std::filesystem::path target = stream_path(flags.output, "/dev/stdout");
  std::error_code absent;
  if (std::filesystem::equivalent(input, target, absent) && std::filesystem::is_regular_file(target)) {
    fail(ErrorCode::kInvalidArgument, "--output {} is the input; choose another file", flags.output);
  }
  std::vector<ScoreRow> rows = read_rows(input);
  const OpenedModel opened = open_model(flags.model);
  for (ScoreRow& row : rows) {
    row.request.adapter = opened.adapter;
    row.request = with_context(row.source, [&] { return opened.model->tokenize(row.request); });
  }
  LineWriter output(target, LineWriter::Mode::kTruncate);
  ProgressLine progress;
  std::deque<std::future<lm::ScoreResult>> under_way;
  size_t submitted = 0;
  for (size_t done = 0; done < rows.size(); ++done) {
    while (submitted < rows.size() && under_way.size() < kRowsUnderWay) {
      under_way.push_back(opened.model->score(std::move(rows[submitted++].request)));
    }
    const lm::ScoreResult result = with_context(rows[done].source, [&] { return under_way.front().get(); });
    under_way.pop_front();
    output.write_line(to_json_line(to_json(rows[done].id, result)));
    progress.show(fmt::format("scored {} of {} rows", done + 1, rows.size()));
  }
}

}  // namespace

void add_score_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("score", "Log-probabilities of given answers");
  auto flags = std::make_shared<ScoreFlags>();
  add_model_flags(*command, flags->model);
  command
      ->add_option("--input", flags->input,
                   R"(JSONL rows: {"id", "messages"}, or {"id", "prompt", "completion", "spans"}; - = stdin)")
      ->required();
  command->add_option("--output", flags->output, "JSONL file to write; - = stdout")->required();
  command->callback([flags, &run] { run = [flags] { run_score(*flags); }; });
}

}  // namespace calyrex::cli
