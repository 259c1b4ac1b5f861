// `calyrex adapter info`: what an adapter is, without loading it.
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/base/log.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/info_table.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_files.h"

namespace calyrex::cli {
namespace {

struct AdapterInfoOptions {
  std::string adapter;
  std::string model;
  bool allow_base_mismatch = false;
  bool json = false;
};

int64_t count_values(const std::vector<weights::TensorView>& tensors, std::string_view part) {
  int64_t total = 0;
  for (const weights::TensorView& tensor : tensors) {
    if (tensor.name.find(part) != std::string::npos) total += tensor.num_values();
  }
  return total;
}

/// Whether the adapter changes the layers themselves instead of following them.
bool is_inside(std::string_view kind) { return kind == "lora" || kind == "full"; }

/// The backbone: --model, or the one that the adapter names if it is on this machine. Never fetched for this.
std::shared_ptr<const weights::ModelSource> find_backbone(const AdapterInfoOptions& options,
                                                          const weights::AdapterConfig& config) {
  if (!options.model.empty()) return weights::open_model(options.model);
  const std::string& name = config.base_model_name_or_path;
  if (name != "default" && !path_exists(name)) return nullptr;
  try {
    return weights::open_model(name);
  } catch (const Error& error) {
    log_warning("the adapter's backbone cannot be read, so its share is left out: {}", error.what());
    return nullptr;
  }
}

weights::AdapterFolder open_folder(const AdapterInfoOptions& options) {
  if (options.model.empty()) return weights::open_adapter(options.adapter);
  const auto mismatch =
      options.allow_base_mismatch ? weights::BaseMismatch::kAllow : weights::BaseMismatch::kReject;
  return weights::open_adapter(options.adapter, *weights::open_model(options.model), mismatch);
}

Json section_json(const weights::AdapterConfig& config) {
  Json section = weights::adapter_section_to_json(config);
  for (auto& [key, value] : section.items()) {
    if (value.is_number() && value.get<double>() == weights::kAsBackbone) value = nullptr;
  }
  return section;
}

Json to_json(const AdapterInfoOptions& options) {
  const weights::AdapterFolder folder = open_folder(options);
  const weights::AdapterConfig& config = folder.config;
  const std::vector<weights::TensorView>& tensors = folder.weights->tensors();
  const int64_t parameters = count_values(tensors, "");
  Json blocks = Json::array();
  for (const int64_t layer : config.placement) {
    const std::string part =
        fmt::format("{}.{}.", is_inside(to_string(config.kind)) ? "layers" : "blocks", layer);
    blocks.push_back({{"layer", layer}, {"parameters", count_values(tensors, part)}});
  }
  Json info = {{"path", folder.path.string()},
               {"kind", to_string(config.kind)},
               {"placement", config.placement},
               {"base", write_fields(config.base)},
               {"base_model_name_or_path", config.base_model_name_or_path},
               {std::string(to_string(config.kind)), section_json(config)},
               {"span", write_fields(config.span)},
               {"parameters", parameters},
               {"blocks", blocks},
               {"bytes", folder.weights->size_bytes()},
               {"types", weights::describe_types(tensors)},
               {"chat_template", folder.chat_template.has_value()},
               {"content_sha256", folder.content_sha256}};
  if (const auto backbone = find_backbone(options, config)) {
    const int64_t whole = count_values(backbone->tensors(), "");
    info["backbone_parameters"] = whole;
    info["share_of_backbone"] = static_cast<double>(parameters) / static_cast<double>(whole);
  }
  return info;
}

std::string settings_text(const Json& section) {
  std::string text;
  for (const auto& [key, value] : section.items()) {
    const std::string shown = value.is_null()     ? "as the backbone"
                              : value.is_string() ? value.get<std::string>()
                                                  : to_json_line(value);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, shown);
  }
  return text;
}

void print_table(const Json& info) {
  const std::string kind = info["kind"];
  InfoTable table;
  table.add("Adapter", info["path"].get<std::string>());
  table.add("Kind", kind);
  const std::string_view where = is_inside(kind) ? "in" : "after";
  table.add("Placement", fmt::format("{} layers {}", where, to_json_line(info["placement"])));
  const auto size = [&](const char* key) { return info["base"][key].get<int64_t>(); };
  table.add("Base", size("hidden_size") == 0
                        ? "not stated"
                        : fmt::format("{}, hidden size {}, {} layers, {} tokens",
                                      info["base"]["model_type"].get<std::string>(), size("hidden_size"),
                                      size("num_hidden_layers"), size("vocab_size")));
  const Json& digest = info["base"]["norms_sha256"];
  table.add("Norms SHA-256", digest.is_string() ? digest.get<std::string>() : "not stated");
  if (!info[kind].empty()) table.add("Settings", settings_text(info[kind]));
  table.add("Span", settings_text(info["span"]));
  const auto parameters = info["parameters"].get<int64_t>();
  table.add("Parameters",
            info.contains("share_of_backbone")
                ? fmt::format("{} ({}) trained, {:.2f} % of the backbone's {}", format_count(parameters),
                              parameters, 100 * info["share_of_backbone"].get<double>(),
                              format_count(info["backbone_parameters"]))
                : fmt::format("{} ({}) trained", format_count(parameters), parameters));
  std::vector<std::string> blocks;
  for (const Json& block : info["blocks"]) {
    blocks.push_back(fmt::format("{} layer {}: {}", where, block["layer"].get<int64_t>(),
                                 format_count(block["parameters"])));
  }
  table.add(is_inside(kind) ? "Layers" : "Blocks", blocks);
  table.add("Types", format_types(info["types"]));
  table.add("Chat template", info["chat_template"].get<bool>() ? "yes" : "the model's own");
  table.add("Content SHA-256", info["content_sha256"].get<std::string>());
  table.print();
}

}  // namespace

void add_adapter_info_command(CLI::App& adapter, Run& run) {
  const auto options = std::make_shared<AdapterInfoOptions>();
  CLI::App* command = adapter.add_subcommand("info", "Sizes, settings and digests of an adapter");
  command->add_option("adapter", options->adapter, "Adapter folder")->required();
  command->add_option("--model", options->model, "Check that the adapter fits this model");
  command->add_flag("--allow-base-mismatch", options->allow_base_mismatch,
                    "Accept a model with other weights");
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &run] {
    run = [options] {
      const Json info = to_json(*options);
      if (options->json) {
        std::cout << to_json_line(info) << '\n';
      } else {
        print_table(info);
      }
    };
  });
}

}  // namespace calyrex::cli
