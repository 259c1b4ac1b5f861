#include "calyrex/data/mix_system.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/layout_internal.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

/// Texts that fit any request, so that a row stays true with them.
constexpr std::array<std::string_view, 16> kSystemTexts = {
    "You are a helpful assistant.",
    "You are an assistant that answers with care and keeps to the question.",
    "Help the user as well as you can. Be honest about what you do not know.",
    "You answer questions and carry out tasks that are given to you in writing.",
    "Follow the user's request exactly and add nothing that was not asked for.",
    "You are a friendly assistant. Be clear and polite.",
    "You work as a general assistant. Read the request to its end before you answer.",
    "Give the user a correct and useful answer.",
    "You are an AI model that supports people in their daily work.",
    "Answer in the language that the user's task calls for.",
    "You are a careful assistant; where a task has steps, go through them in order.",
    "Be helpful, truthful and harmless.",
    "As an assistant you respond to what is asked, in a form that suits it.",
    "You help with writing, facts, language and reasoning.",
    "You are a knowledgeable assistant. Keep to the facts that the user gives you.",
    "Do what the user asks, and do it well."};

bool has_system(const ChatRow& row) {
  return std::any_of(row.messages.begin(), row.messages.end(), [](const text::Message& message) {
    return message.role == "system" || message.role == "developer";
  });
}

std::vector<std::string> system_texts(const MixSystem& config) {
  std::vector<std::string> texts;
  if (!config.texts) return {kSystemTexts.begin(), kSystemTexts.end()};
  constexpr size_t kMaxLine = size_t{1} << 20;
  for_each_line(*config.texts, kMaxLine, [&](int64_t, std::string_view line) {
    std::string text = trim(line);
    if (!text.empty()) texts.push_back(std::move(text));
  });
  if (texts.empty()) fail(ErrorCode::kInvalidArgument, "{}: no line of text", *config.texts);
  return texts;
}

}  // namespace

MixSystemCounts add_system_messages(const MixSystem& config, std::vector<LaidOutRow>& rows,
                                    RandomStream& random, const SystemMessageChecks& checks) {
  MixSystemCounts counts;
  std::vector<LaidOutRow*> candidates;
  for (LaidOutRow& row : rows) {
    if (has_system(row.row)) {
      ++counts.own;
    } else {
      candidates.push_back(&row);
    }
  }
  std::vector<std::string> texts = system_texts(config);
  std::erase_if(texts, [&](const std::string& text) { return !checks.admits(text); });
  if (texts.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: evaluation files hold every system message; name other texts",
         config.texts.value_or("system.texts"));
  }
  const auto wanted = static_cast<int64_t>(std::llround(config.share * static_cast<double>(rows.size())));
  random.shuffle(candidates);
  for (LaidOutRow* row : candidates) {
    if (counts.own + counts.moved + counts.added >= wanted) break;
    ChatRow changed = row->row;
    const bool move = config.move_instructions && !row->instruction.empty();
    if (move) changed.messages.front().content = row->input;
    const std::string& system = move ? row->instruction : texts[random.below(texts.size())];
    changed.messages.insert(changed.messages.begin(), make_message("system", system));
    if (!checks.fits(changed)) continue;
    row->row = std::move(changed);
    ++(move ? counts.moved : counts.added);
  }
  return counts;
}

}  // namespace calyrex::data
