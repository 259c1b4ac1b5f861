#include "calyrex/weights/printable.h"

#include <algorithm>

namespace calyrex::weights {

std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 100;
  std::string result(text.substr(0, kMaxBytes));
  std::replace_if(
      result.begin(), result.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  if (text.size() > kMaxBytes) result += "...";
  return result;
}

}  // namespace calyrex::weights
