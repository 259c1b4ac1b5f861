#include "calyrex/eval/run/answers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/ask.h"

namespace calyrex::eval {
namespace {

/// Index of samples by what a line may name them by.
class SampleIndex {
 public:
  explicit SampleIndex(const Samples& samples) {
    for (size_t i = 0; i < samples.size(); ++i) {
      by_id_.emplace(samples[i]->id(), i);
      const Json prompt = samples[i]->prompt();
      if (prompt.is_string()) by_prompt_.emplace(prompt.get<std::string>(), i);
      if (const std::string* user = last_user_text(prompt)) by_prompt_.emplace(*user, i);
    }
  }

  size_t find(const Json& line, const std::string& place) const {
    std::string names;
    for (const char* name : {"id", "key", "prompt"}) {
      if (!line.contains(name)) continue;
      const std::string text =
          line[name].is_string() ? line[name].get<std::string>() : to_json_line(line[name]);
      const auto& index = std::string_view(name) == "prompt" ? by_prompt_ : by_id_;
      const size_t matches = index.count(text);
      if (matches == 1) return index.find(text)->second;
      if (matches > 1) {
        fail(ErrorCode::kInvalidArgument, "{}: the {} is that of {} samples; give the \"id\" of one", place,
             name, matches);
      }
      names += fmt::format("{}{} {}", names.empty() ? "" : ", ", name, shortened(text));
    }
    if (names.empty()) {
      fail(ErrorCode::kInvalidArgument, "{}: expected {{\"id\" or \"key\" or \"prompt\", \"response\"}}",
           place);
    }
    fail(ErrorCode::kInvalidArgument, "{}: matches no sample of the task ({})", place, names);
  }

 private:
  static const std::string* last_user_text(const Json& prompt) {
    const std::string* text = nullptr;
    if (!prompt.is_array()) return nullptr;
    for (const Json& message : prompt) {
      if (!message.is_object() || !message.contains("content") || !message["content"].is_string()) continue;
      if (message.value("role", "") == "user") text = &message["content"].get_ref<const std::string&>();
    }
    return text;
  }
  static std::string shortened(const std::string& text) {
    constexpr size_t kShown = 40;
    if (text.size() <= kShown) return to_json_line(text);
    size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a letter
    return to_json_line(text.substr(0, end) + "...");
  }

  std::multimap<std::string, size_t> by_id_;
  std::multimap<std::string, size_t> by_prompt_;
};

std::vector<std::string> parse_response(const Json& line, const std::string& place) {
  std::vector<std::string> answers;
  const Json response = line.contains("response") ? line["response"] : Json();
  if (response.is_string()) return {response.get<std::string>()};
  if (response.is_array() && !response.empty() &&
      std::ranges::all_of(response, [](const Json& answer) { return answer.is_string(); })) {
    return response.get<std::vector<std::string>>();
  }
  fail(ErrorCode::kInvalidArgument, "{}: \"response\" must be a string, or a list of strings", place);
}

}  // namespace

int64_t attach_answers(LoadedTask& task, const std::filesystem::path& path) {
  const SampleIndex index(task.samples);
  std::vector<std::vector<std::string>> answers(task.samples.size());
  for_each_json_line(path, [&](int64_t number, const Json& line) {
    const std::string place = fmt::format("{}:{}", path.string(), number);
    if (!line.is_object()) fail(ErrorCode::kInvalidArgument, "{}: expected a JSON object", place);
    std::vector<std::string>& answer = answers[index.find(line, place)];
    if (!answer.empty()) fail(ErrorCode::kInvalidArgument, "{}: this sample is answered twice", place);
    answer = parse_response(line, place);
  });
  Samples answered;
  task.answers.emplace();
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].empty()) continue;
    answered.push_back(std::move(task.samples[i]));
    task.answers->push_back(std::move(answers[i]));
  }
  if (answered.empty()) fail(ErrorCode::kInvalidArgument, "{}: no answers", path.string());
  const auto unanswered = static_cast<int64_t>(task.samples.size() - answered.size());
  task.samples = std::move(answered);
  return unanswered;
}

}  // namespace calyrex::eval
