// calyrex eval compare: two runs over the same samples.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/json.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/eval.h"
#include "calyrex/eval/run/compare.h"

namespace calyrex::cli {
namespace {

struct CompareOptions {
  std::string first;
  std::string second;
  size_t flips = 20;
  bool json = false;
};

void run_compare(const CompareOptions& options) {
  const auto comparisons = eval::compare_runs(options.first, options.second);
  if (options.json) {
    Json list = Json::array();
    for (const auto& comparison : comparisons) list.push_back(eval::comparison_to_json(comparison));
    fmt::print("{}", to_json_text(list));
    return;
  }
  for (const auto& comparison : comparisons) {
    fmt::print("{}\n", eval::format_comparison(comparison, options.flips));
  }
}

}  // namespace

void add_eval_compare_command(CLI::App& eval, Run& run) {
  CLI::App* command = eval.add_subcommand(
      "compare", "Paired differences of two runs with intervals and McNemar tests; lists what flipped");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("first", options->first, "Folder with results.json, or one that holds such folders")
      ->required();
  command->add_option("second", options->second, "The other one; differences are second minus first")
      ->required();
  command->add_option("--flips", options->flips, "Samples listed a direction")
      ->check(whole_number<size_t>())
      ->capture_default_str();
  command->add_flag("--json", options->json, "A list of comparisons as JSON, with all flipped samples");
  command->callback([options, &run] { run = [options] { run_compare(*options); }; });
}

}  // namespace calyrex::cli
