// Sentences around the rules: who the assistant is, and how users try to overrule it. Internal to data.
#pragma once

#include <string_view>
#include <vector>

#include "calyrex/data/question.h"

namespace calyrex::data {

/// Ordinary system messages without any rule; other ones for each split.
const std::vector<std::string_view>& persona_texts(Split split);

/// What users say to get rid of a rule; other ones for each split.
const std::vector<std::string_view>& overrule_texts(Split split);

/// A question in a message that pretends to bring a new system message; "{question}" is its place. Other ones
/// for each split.
const std::vector<std::string_view>& fake_headers(Split split);

/// What a system message says against attempts to get rid of its rules; other ones for each split.
const std::vector<std::string_view>& defence_texts(Split split);

/// How users ask for a secret code; other ones for each split.
const std::vector<std::string_view>& secret_requests(Split split);

}  // namespace calyrex::data
