// Facts about a file for people: aligned lines of a name and a text, and numbers with units.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::cli {

/// "3.54 M", "1.09 B", "640".
std::string format_count(int64_t count);
/// "98.4 MB" (10^6 bytes), "812 bytes".
std::string format_bytes(int64_t bytes);
/// "Q4_1: 210 tensors, 106.2 M values, 66.4 MB" for every entry of weights::describe_types().
std::vector<std::string> format_types(const Json& types);

class InfoTable {
 public:
  void add(std::string name, std::string text) { rows_.emplace_back(std::move(name), std::move(text)); }
  /// Several lines under one name.
  void add(std::string name, const std::vector<std::string>& texts);
  /// To stdout.
  void print() const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

}  // namespace calyrex::cli
