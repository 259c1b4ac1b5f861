#include "calyrex/data/layout.h"

#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"
#include "calyrex/data/layout_internal.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

bool has_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string();
}

std::string text_or_empty(const Json& json, const char* name) {
  return has_text(json, name) ? json[name].get<std::string>() : std::string();
}

Layout detect_layout(const Json& json, std::string_view source) {
  if (json.contains("messages")) return Layout::kMessages;
  if (json.contains("conversations")) return Layout::kShareGpt;
  if (json.contains("prompt") && json["prompt"].is_object()) return Layout::kOasst;
  if (has_text(json, "prompt") && has_text(json, "completion")) return Layout::kCompletion;
  if (has_text(json, "question") && has_text(json, "answer")) return Layout::kGsm8k;
  if (has_text(json, "chat")) return Layout::kGlaive;
  if (json.contains("instances")) return Layout::kSelfInstruct;
  if (has_text(json, "instruction")) return json.contains("context") ? Layout::kDolly : Layout::kAlpaca;
  if (has_text(json, "task")) return Layout::kInduction;
  if (json.contains("message_id") && json.contains("parent_id")) {
    fail(ErrorCode::kInvalidArgument, "{}: single messages of OpenAssistant; give the file of its trees",
         source);
  }
  fail(ErrorCode::kInvalidArgument, "{}: none of the known layouts (docs/data-formats.md lists them)",
       source);
}

LaidOutRow instruction_row(std::string instruction, std::string input, std::string answer) {
  LaidOutRow result;
  const std::string user = input.empty() ? instruction : instruction + "\n\n" + input;
  result.row.messages = {make_message("user", user), make_message("assistant", std::move(answer))};
  if (!input.empty() && !instruction.empty()) {
    result.instruction = std::move(instruction);
    result.input = std::move(input);
  }
  return result;
}

std::vector<LaidOutRow> read_alpaca(const Json& json, std::string_view source) {
  Json copy = json;
  if (!copy.contains("output") && copy.contains("response")) copy["output"] = copy["response"];
  if (has_text(copy, "chosen")) copy["output"] = copy["chosen"];
  copy.erase("messages");
  copy.erase("conversations");
  LaidOutRow result{.row = parse_row(copy, source)};
  const std::string input = text_or_empty(copy, "input");
  if (!input.empty() && result.row.messages.size() == 2) {
    result.instruction = copy["instruction"].get<std::string>();
    result.input = input;
  }
  return {std::move(result)};
}

std::vector<LaidOutRow> read_dolly(const Json& json, std::string_view source) {
  return {instruction_row(layout_text(json, "instruction", source, Layout::kDolly),
                          text_or_empty(json, "context"),
                          layout_text(json, "response", source, Layout::kDolly))};
}

/// Without the calculator's marks: "48/2 = <<48/2=24>>24" -> "48/2 = 24".
std::string without_calculations(const std::string& answer) {
  std::string result;
  for (size_t at = 0; at < answer.size();) {
    const size_t begin = answer.find("<<", at);
    const size_t end = begin == std::string::npos ? begin : answer.find(">>", begin);
    if (end == std::string::npos) return result + answer.substr(at);
    result += answer.substr(at, begin - at);
    at = end + 2;
  }
  return result;
}

std::vector<LaidOutRow> read_gsm8k(const Json& json, std::string_view source) {
  LaidOutRow result;
  const std::string& answer = layout_text(json, "answer", source, Layout::kGsm8k);
  result.row.messages = {make_message("user", layout_text(json, "question", source, Layout::kGsm8k)),
                         make_message("assistant", without_calculations(answer))};
  return {std::move(result)};
}

std::vector<LaidOutRow> read_induction(const Json& json, std::string_view source,
                                       const LayoutOptions& options) {
  const std::string& task = layout_text(json, "task", source, Layout::kInduction);
  if (!has_text(json, "input") || !has_text(json, "output")) return {};
  const auto found = options.instructions.find(task);
  if (found == options.instructions.end() || found->second.empty()) {
    fail_layout(source, Layout::kInduction,
                fmt::format("no wording of the task \"{}\": name the file of instructions", task));
  }
  RandomStream random(options.seed, source);
  const std::string& wording = found->second[random.below(found->second.size())];
  return {instruction_row(wording, json["input"].get<std::string>(), json["output"].get<std::string>())};
}

std::vector<LaidOutRow> read_self_instruct(const Json& json, std::string_view source) {
  const std::string& instruction = layout_text(json, "instruction", source, Layout::kSelfInstruct);
  if (!json.contains("instances") || !json["instances"].is_array()) {
    fail_layout(source, Layout::kSelfInstruct, "\"instances\" is no list");
  }
  std::vector<LaidOutRow> rows;
  for (const Json& instance : json["instances"]) {
    if (!instance.is_object()) fail_layout(source, Layout::kSelfInstruct, "an instance is no object");
    rows.push_back(instruction_row(instruction, text_or_empty(instance, "input"),
                                   layout_text(instance, "output", source, Layout::kSelfInstruct)));
  }
  return rows;
}

std::vector<LaidOutRow> read_completion(const Json& json, std::string_view source) {
  std::string answer = layout_text(json, "completion", source, Layout::kCompletion);
  constexpr std::string_view kEnd = "<|endoftext|>";
  if (answer.ends_with(kEnd)) answer.resize(answer.size() - kEnd.size());
  LaidOutRow result;
  result.row.messages = {make_message("user", trim(layout_text(json, "prompt", source, Layout::kCompletion))),
                         make_message("assistant", trim(answer))};
  return {std::move(result)};
}

std::vector<LaidOutRow> read_as(Layout layout, const Json& json, std::string_view source,
                                const LayoutOptions& options) {
  switch (layout) {
    case Layout::kShareGpt:
      return read_share_gpt(json, source, options);
    case Layout::kAlpaca:
      return read_alpaca(json, source);
    case Layout::kDolly:
      return read_dolly(json, source);
    case Layout::kOasst:
      return read_oasst(json, source, options);
    case Layout::kGsm8k:
      return read_gsm8k(json, source);
    case Layout::kInduction:
      return read_induction(json, source, options);
    case Layout::kGlaive:
      return read_glaive(json, source, options);
    case Layout::kSelfInstruct:
      return read_self_instruct(json, source);
    case Layout::kCompletion:
      return read_completion(json, source);
    default:
      return {{.row = parse_row(json, source)}};
  }
}

/// The row's own id where it has one, else its place.
std::string id_of(const Json& json, const std::string& place) {
  for (const char* name : {"id", "message_tree_id"}) {
    if (!json.contains(name)) continue;
    if (json[name].is_string()) return json[name].get<std::string>();
    if (json[name].is_number_integer()) return json[name].dump();
  }
  return place;
}

}  // namespace

void fail_layout(std::string_view source, Layout layout, std::string_view what) {
  fail(ErrorCode::kInvalidArgument, "{}: {} (layout {}; docs/data-formats.md describes it)", source, what,
       to_string(layout));
}

const std::string& layout_text(const Json& json, const char* name, std::string_view source, Layout layout) {
  if (!has_text(json, name)) fail_layout(source, layout, fmt::format("\"{}\" is no text", name));
  return json.find(name)->get_ref<const std::string&>();
}

text::Message make_message(std::string role, std::string content) {
  text::Message message;
  message.role = std::move(role);
  message.content = std::move(content);
  return message;
}

std::vector<LaidOutRow> parse_laid_out(const Json& json, std::string_view source,
                                       const LayoutOptions& options) {
  if (!json.is_object()) fail(ErrorCode::kInvalidArgument, "{}: no object", source);
  const Layout layout = options.layout == Layout::kAuto ? detect_layout(json, source) : options.layout;
  std::vector<LaidOutRow> rows = read_as(layout, json, source, options);
  for (LaidOutRow& row : rows) row.row.source = source;
  return rows;
}

int64_t for_each_laid_out_row(const std::filesystem::path& path, const LayoutOptions& options,
                              const std::function<void(LaidOutRow)>& row) {
  int64_t unusable = 0;
  const std::string name = path.filename().string();
  for_each_json_row(path, [&](int64_t number, const Json& json) {
    auto rows = parse_laid_out(json, fmt::format("{}:{}", path.string(), number), options);
    unusable += rows.empty() ? 1 : 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].row.id = id_of(json, fmt::format("{}:{}", name, number));
      if (rows.size() > 1) rows[i].row.id += fmt::format("/{}", i + 1);
      row(std::move(rows[i]));
    }
  });
  return unusable;
}

std::map<std::string, std::vector<std::string>> read_instructions(const std::filesystem::path& path) {
  const Json json = read_json_file(path);
  std::map<std::string, std::vector<std::string>> instructions;
  const auto refuse = [&] {
    fail(ErrorCode::kInvalidArgument, "{}: expected {{\"task\": [\"instruction\", ...], ...}}",
         path.string());
  };
  if (!json.is_object()) refuse();
  for (const auto& [task, wordings] : json.items()) {
    if (!wordings.is_array()) refuse();
    for (const Json& wording : wordings) {
      if (!wording.is_string()) refuse();
      instructions[task].push_back(wording.get<std::string>());
    }
  }
  return instructions;
}

}  // namespace calyrex::data
