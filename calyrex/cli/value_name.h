// Options whose values have names.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/fields.h"

namespace calyrex::cli {

/// Takes the names of an enum's values; for an option of that enum's type, with transform().
template <NamedEnum Enum>
CLI::Validator value_name() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::string known;
        for (const auto& entry : enum_names(Enum{})) {
          if (text == entry.name) {
            text = std::to_string(static_cast<int>(entry.value));  // what CLI11 makes an enum of
            return {};
          }
          known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
        }
        return fmt::format("'{}' is none of {}", text, known);
      },
      "");
}

}  // namespace calyrex::cli
