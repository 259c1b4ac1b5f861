#include "calyrex/eval/tasks/row_fields.h"

#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/unicode.h"
#include "calyrex/eval/core/form.h"

namespace calyrex::eval {
namespace {

constexpr size_t kMaxMessages = 2000;
constexpr JsonLimits kFileLimits = {.max_bytes = size_t{256} << 20, .max_depth = 64};

}  // namespace

RowFields::RowFields(const Json& row, std::string source, std::string path)
    : row_(&row), source_(std::move(source)), path_(std::move(path)) {
  if (!row.is_object()) {
    if (path_.empty()) fail(ErrorCode::kInvalidArgument, "{}: expected an object", source_);
    fail(ErrorCode::kInvalidArgument, "{}: field '{}': expected an object", source_,
         std::string_view(path_).substr(0, path_.size() - 1));
  }
}

std::string RowFields::path_of(std::string_view name) const { return path_ + std::string(name); }

void RowFields::fail_field(std::string_view name, std::string_view expected) const {
  fail(ErrorCode::kInvalidArgument, "{}: field '{}': expected {}", source_, path_of(name), expected);
}

bool RowFields::has(std::string_view name) const {
  const auto found = row_->find(name);
  return found != row_->end() && !found->is_null();
}

const Json& RowFields::json(std::string_view name) const {
  const auto found = row_->find(name);
  if (found == row_->end()) {
    fail(ErrorCode::kInvalidArgument, "{}: field '{}' is missing", source_, path_of(name));
  }
  return *found;
}

std::string RowFields::text(std::string_view name, size_t max_bytes) const {
  const Json& value = json(name);
  if (!value.is_string()) fail_field(name, "text");
  if (value.get_ref<const std::string&>().size() > max_bytes) {
    fail_field(name, fmt::format("at most {} bytes", max_bytes));
  }
  return value.get<std::string>();
}

std::string RowFields::filled_text(std::string_view name, size_t max_bytes) const {
  std::string value = text(name, max_bytes);
  if (data::trim(value).empty()) fail_field(name, "text that is not blank");
  return value;
}

std::optional<std::string> RowFields::optional_text(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

int64_t RowFields::integer(std::string_view name, int64_t low, int64_t high) const {
  const Json& value = json(name);
  if (!value.is_number_integer() || value < low || value > high) {
    fail_field(name, fmt::format("a whole number from {} to {}", low, high));
  }
  return value.get<int64_t>();
}

bool RowFields::flag(std::string_view name) const {
  const Json& value = json(name);
  if (!value.is_boolean()) fail_field(name, "true or false");
  return value.get<bool>();
}

std::vector<std::string> RowFields::texts(std::string_view name, size_t max_items) const {
  const Json& value = json(name);
  if (!value.is_array()) fail_field(name, "a list of texts");
  if (value.size() > max_items) fail_field(name, fmt::format("at most {} entries", max_items));
  std::vector<std::string> result;
  for (const Json& item : value) {
    if (!item.is_string() || item.get_ref<const std::string&>().size() > kMaxText) {
      fail_field(fmt::format("{}[{}]", name, result.size()),
                 fmt::format("text of at most {} bytes", kMaxText));
    }
    result.push_back(item.get<std::string>());
  }
  return result;
}

RowFields RowFields::object(std::string_view name) const {
  return RowFields(json(name), source_, path_of(name) + ".");
}

std::vector<RowFields> RowFields::objects(std::string_view name, size_t max_items) const {
  const Json& value = json(name);
  if (!value.is_array()) fail_field(name, "a list of objects");
  if (value.size() > max_items) fail_field(name, fmt::format("at most {} entries", max_items));
  std::vector<RowFields> result;
  for (const Json& item : value) {
    result.emplace_back(item, source_, fmt::format("{}[{}].", path_of(name), result.size()));
  }
  return result;
}

text::Messages RowFields::chat(std::string_view name) const {
  const Json& value = json(name);
  if (!value.is_array() || value.empty() || value.size() > kMaxMessages) {
    fail_field(name, fmt::format("a list of 1 to {} messages", kMaxMessages));
  }
  text::Messages messages =
      text::parse_messages(value, fmt::format("{}: field '{}'", source_, path_of(name)));
  if (messages.back().role != "user" && messages.back().role != "tool") {
    fail_field(name, "a chat that ends with the user's message");
  }
  return messages;
}

std::filesystem::path find_data_file(const std::filesystem::path& data,
                                     std::initializer_list<std::string_view> names) {
  if (data.empty()) fail(ErrorCode::kInvalidArgument, "name the data with --data, or use --sample");
  if (!path_exists(data)) fail(ErrorCode::kNotFound, "{}: no such file or folder", data.string());
  if (!std::filesystem::is_directory(data)) return data;
  std::string wanted;
  for (const std::string_view name : names) {
    if (path_exists(data / name)) return data / name;
    wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", name);
  }
  fail(ErrorCode::kNotFound, "{}: holds no {}", data.string(), wanted);
}

void for_each_data_row(const std::filesystem::path& path, const std::function<void(const RowFields&)>& row) {
  if (path.extension() == ".jsonl") {
    for_each_json_line(path, [&](int64_t line, const Json& json) {
      row(RowFields(json, fmt::format("{}:{}", path.string(), line)));
    });
    return;
  }
  Json list;
  try {
    list = read_json_file(path, kFileLimits);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData) throw;
    fail(ErrorCode::kInvalidArgument, "{}", error.what());  // rows are the user's, as in a .jsonl file
  }
  if (!list.is_array()) fail(ErrorCode::kInvalidArgument, "{}: expected a list of rows", path.string());
  int64_t entry = 0;
  for (const Json& json : list) row(RowFields(json, fmt::format("{}: entry {}", path.string(), ++entry)));
}

void for_each_sample_row(std::string_view lines, std::string_view name,
                         const std::function<void(const RowFields&)>& row) {
  int64_t number = 0;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (line.empty()) continue;
    const std::string source = fmt::format("sample rows of {}:{}", name, ++number);
    const Json json = parse_json(line, source);
    row(RowFields(json, source));
  }
}

void for_each_row(const LoadOptions& options, std::string_view lines, std::string_view name,
                  std::initializer_list<std::string_view> files,
                  const std::function<void(const RowFields&)>& row) {
  if (options.sample) {
    for_each_sample_row(lines, name, row);
  } else {
    for_each_data_row(find_data_file(options.data, files), row);
  }
}

text::Messages dialogue_in_form(const LoadOptions& options, const text::Messages& dialogue) {
  const bool has_instruction =
      dialogue.size() > 1 && dialogue[0].role == "system" && dialogue[1].role == "user";
  if (options.form == Form::kSystem || !has_instruction) return dialogue;
  text::Messages messages = form_messages(options, dialogue[0].content, dialogue[1].content);
  messages.insert(messages.end(), dialogue.begin() + 2, dialogue.end());
  return messages;
}

}  // namespace calyrex::eval
