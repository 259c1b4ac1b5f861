#include "calyrex/cli/info_table.h"

#include <algorithm>
#include <array>
#include <iostream>

#include <fmt/core.h>

namespace calyrex::cli {
namespace {

struct Unit {
  double size;
  std::string_view name;
};

std::string with_unit(int64_t value, const std::array<Unit, 3>& units, std::string_view plain) {
  for (const Unit& unit : units) {
    const double scaled = static_cast<double>(value) / unit.size;
    if (scaled >= 100) return fmt::format("{:.1f} {}", scaled, unit.name);
    if (scaled >= 1) return fmt::format("{:.{}f} {}", scaled, scaled >= 10 ? 1 : 2, unit.name);
  }
  return fmt::format("{}{}", value, plain);
}

}  // namespace

std::string format_count(int64_t count) {
  constexpr std::array kUnits = {Unit{1e9, "B"}, Unit{1e6, "M"}, Unit{1e3, "k"}};
  return with_unit(count, kUnits, "");
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array kUnits = {Unit{1e9, "GB"}, Unit{1e6, "MB"}, Unit{1e3, "kB"}};
  return with_unit(bytes, kUnits, " bytes");
}

std::vector<std::string> format_types(const Json& types) {
  std::vector<std::string> lines;
  for (const auto& [name, total] : types.items()) {
    const auto tensors = total["tensors"].get<int64_t>();
    lines.push_back(fmt::format("{}: {} {}, {} values, {}", name, tensors,
                                tensors == 1 ? "tensor" : "tensors", format_count(total["parameters"]),
                                format_bytes(total["bytes"])));
  }
  return lines;
}

void InfoTable::add(std::string name, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) rows_.emplace_back(std::exchange(name, ""), text);
}

void InfoTable::print() const {
  size_t width = 0;
  for (const auto& [name, text] : rows_) width = std::max(width, name.size());
  for (const auto& [name, text] : rows_) std::cout << fmt::format("{:<{}}  {}\n", name, width, text);
}

}  // namespace calyrex::cli
