#include <chrono>
#include <cstdio>
#include <string_view>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/text/chat_encoder.h"

namespace calyrex::text {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{256} << 10;

constexpr std::string_view kChatml =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

constexpr std::string_view kLlama3 =
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + (message.content or '') | trim + "
    "'<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

}  // namespace

bool is_date(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, date_length = 0, length = 0;
  const int fields = std::sscanf(text.c_str(), "%4d-%2d-%2d%nT%2d:%2d:%2d%n", &year, &month, &day,
                                 &date_length, &hour, &minute, &second, &length);
  if (fields != 3 && fields != 6) return false;
  const auto used = static_cast<size_t>(fields == 6 ? length : date_length);
  const bool time = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
  return used == text.size() && time && year > 0 &&
         std::chrono::year_month_day(std::chrono::year(year),
                                     std::chrono::month(static_cast<unsigned>(month)),
                                     std::chrono::day(static_cast<unsigned>(day)))
             .ok();
}

std::string resolve_chat_template(const std::string& name_or_path) {
  if (name_or_path == "chatml") return std::string(kChatml);
  if (name_or_path == "llama3") return std::string(kLlama3);
  return with_context("--chat-template (chatml, llama3 or a file)",
                      [&] { return read_file(name_or_path, kMaxTemplateBytes); });
}

}  // namespace calyrex::text
