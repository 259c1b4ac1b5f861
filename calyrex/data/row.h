// Training and evaluation rows: chats from JSONL files in three public layouts.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/fields.h"
#include "calyrex/base/json.h"
#include "calyrex/text/message.h"

namespace calyrex::data {

/// One chat. `fields` holds what the row carries besides the chat (id, checker, expected, ...).
struct ChatRow {
  std::string id;      // the row's "id", or "<file name>:<line>"
  std::string source;  // <path>:<line>, for messages
  text::Messages messages;
  Json tools = nullptr;
  Json fields = Json::object();
};

enum class RowFormat { kMessages, kShareGpt, kAlpaca };
inline constexpr auto enum_names(RowFormat) {
  return std::to_array<EnumName<RowFormat>>({{RowFormat::kMessages, "messages"},
                                             {RowFormat::kShareGpt, "sharegpt"},
                                             {RowFormat::kAlpaca, "alpaca"}});
}

/// Reads one row; the format is told by its keys: "messages", "conversations", or "instruction". `source` is
/// file:line. A row that is no chat throws kInvalidArgument with `source` and what is missing.
ChatRow parse_row(const Json& json, std::string_view source);

/// Calls `value(number, json)` for each line of a .jsonl file or each element of a .json list, numbered
/// from 1.
void for_each_json_row(const std::filesystem::path& path, const std::function<void(int64_t, Json)>& value);

/// Rows of a .jsonl file, or of a .json file that holds a list. Calls `row` in file order.
void for_each_row(const std::filesystem::path& path, const std::function<void(ChatRow)>& row);
std::vector<ChatRow> read_rows(const std::filesystem::path& path);

/// The row in one of the layouts, "id" first, then the chat, then its fields. Alpaca holds an optional system
/// message and pairs of user and assistant; another chat throws kInvalidArgument naming the row.
Json row_to_json(const ChatRow& row, RowFormat format);

}  // namespace calyrex::data
