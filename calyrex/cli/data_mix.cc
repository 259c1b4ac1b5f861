// calyrex data build mix: one training file from many.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/base/log.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/data_commands.h"
#include "calyrex/data/mix.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::cli {
namespace {

struct MixOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> sources;
  std::optional<int64_t> rows;
  std::optional<int64_t> seed;
  std::filesystem::path output;
  bool json = false;
};

data::MixConfig read_config(const MixOptions& options) {
  ConfigNode root{.kind = ConfigNode::Kind::kMap, .place = "command line"};
  std::vector<std::string> overrides = options.overrides;
  if (options.config.find('=') != std::string::npos) {
    overrides.insert(overrides.begin(), options.config);
  } else if (!options.config.empty()) {
    root = read_yaml_file(options.config);
  }
  for (const std::string& assignment : overrides) apply_override(root, assignment);
  data::MixConfig config;
  read_fields(root, config);
  for (const std::string& path : options.sources) config.sources.push_back({.path = path});
  if (options.rows) config.rows = *options.rows;
  if (options.seed) config.seed = *options.seed;
  return config;
}

void print_mix(const Json& manifest, const std::filesystem::path& output) {
  fmt::print("{:<28}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "source", "read", "unusable", "length", "in eval",
             "doubled", "taken");
  for (const Json& source : manifest["sources"]) {
    const auto count = [&](const char* name) { return source[name].get<int64_t>(); };
    fmt::print("{:<28}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", source["name"].get<std::string>(), count("read"),
               count("unusable") + count("unanswered"), count("too_long"), count("contaminated"),
               count("duplicates"), count("taken"));
  }
  const Json& system = manifest["system"];
  fmt::print("system message: {:.1f} % ({} came with one, {} instructions moved, {} texts added)\n",
             100.0 * system["share"].get<double>(), system["own"].get<int64_t>(),
             system["moved"].get<int64_t>(), system["added"].get<int64_t>());
  for (const auto& [name, file] : manifest["files"].items()) {
    fmt::print("{}: {} rows\n", (output / name).string(), file["rows"].get<int64_t>());
  }
}

/// The mixture's files must not be among those it is made of.
void check_output(const data::MixConfig& config, const std::filesystem::path& output) {
  std::vector<std::string> inputs = config.decontaminate.against;
  for (const data::MixSource& source : config.sources) inputs.push_back(source.path);
  std::error_code ignored;
  for (const std::string& input : inputs) {
    if (std::filesystem::equivalent(std::filesystem::path(input).parent_path() / ".", output, ignored)) {
      fail(ErrorCode::kInvalidArgument,
           "--output {}: {} lies there and might be replaced; choose another folder", output.string(), input);
    }
  }
}

void build_mix(const MixOptions& options) {
  const data::MixConfig config = read_config(options);
  data::check_mix_config(config);
  check_output(config, options.output);
  std::unique_ptr<text::ChatEncoder> encoder;
  if (config.limits.max_tokens) {
    const auto model = weights::open_model(config.limits.model);
    encoder = std::make_unique<text::ChatEncoder>(
        model->tokenizer(), text::Tokenizer::create(model->tokenizer()), text::ChatOptions{});
  }
  const data::Mix mix = data::build_mix(config, encoder.get());
  if (static_cast<int64_t>(mix.rows.size()) < config.rows) {
    log_warning("the sources have {} usable rows, not the {} asked for", mix.rows.size(), config.rows);
  }
  const Json manifest = data::write_mix(config, mix, options.output);
  if (options.json) {
    fmt::print("{}", to_json_text(manifest));
  } else {
    print_mix(manifest, options.output);
  }
}

}  // namespace

void add_mix_command(CLI::App& build, Run& run) {
  CLI::App* command = build.add_subcommand(
      "mix", "A mixture of chats from files in public layouts (docs/data-formats.md lists layouts and keys)");
  const auto options = std::make_shared<MixOptions>();
  command->add_option("config", options->config, "YAML file with sources and settings");
  command->add_option("overrides", options->overrides, "key=value, as system.share=0.3");
  command
      ->add_option("--source", options->sources, "A file of rows with weight 1 (may be given several times)")
      ->check(not_empty())
      ->allow_extra_args(false);
  command->add_option("--output", options->output, "Folder for train.jsonl and manifest.json")->required();
  command->add_option("--rows", options->rows, "Rows of the mixture (default 50000)")
      ->check(whole_number<int64_t>());
  command->add_option("--seed", options->seed, "Same files and seed, same bytes")
      ->check(whole_number<int64_t>());
  command->add_flag("--json", options->json, "Print the manifest");
  command->callback([options, &run] { run = [options] { build_mix(*options); }; });
}

}  // namespace calyrex::cli
