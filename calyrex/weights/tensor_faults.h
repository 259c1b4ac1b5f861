// Strict loading: all faults of a file's tensors are collected and reported at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "calyrex/weights/model_source.h"
#include "calyrex/weights/tensor.h"

namespace calyrex::weights {

/// Collects faults; the message shows the first 20 and the count.
class TensorFaults {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (count_++ >= kShown) return;
    if (count_ > 1) text_ += "; ";
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }
  /// Throws kCorruptData naming `source` unless there are none.
  void throw_if_any(std::string_view source) const;

 private:
  static constexpr int64_t kShown = 20;
  int64_t count_ = 0;
  std::string text_;
};

/// The tensors of `found` in the order of `expected`. Missing, unexpected, wrongly shaped and integer ones
/// throw kCorruptData together.
std::vector<TensorView> match_tensors(std::string_view source, const std::vector<ExpectedTensor>& expected,
                                      std::vector<TensorView> found);

}  // namespace calyrex::weights
