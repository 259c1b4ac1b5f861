// `calyrex model info`: what a model is, without loading it.
#include <iostream>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/json.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/info_table.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::cli {
namespace {

struct ModelInfoOptions {
  std::string model = "default";
  bool json = false;
};

int64_t count_parameters(const weights::ModelSource& model) {
  int64_t total = 0;
  for (const weights::TensorView& tensor : model.tensors()) total += tensor.num_values();
  return total;
}

std::string_view scaling_name(weights::RopeConfig::Scaling scaling) {
  switch (scaling) {
    case weights::RopeConfig::Scaling::kNone:
      return "none";
    case weights::RopeConfig::Scaling::kLinear:
      return "linear";
    case weights::RopeConfig::Scaling::kLlama3:
      return "llama3";
    case weights::RopeConfig::Scaling::kFactors:
      return "factors";
  }
  return "?";
}

Json to_json(const weights::ModelSource& model) {
  const weights::ModelConfig& config = model.config();
  const weights::TokenizerSource& tokenizer = model.tokenizer();
  Json info = {{"name", model.name()},
               {"format", model.format()},
               {"model_type", weights::model_type(config.family)},
               {"parameters", count_parameters(model)},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"head_dim", config.head_dim},
               {"vocab_size", config.vocab_size},
               {"max_position_embeddings", config.max_positions},
               {"rms_norm_eps", config.rms_norm_eps},
               {"rope_theta", config.rope.theta},
               {"rope_scaling", scaling_name(config.rope.scaling)},
               {"attention_bias", config.attention_bias},
               {"qk_norm", config.qk_norm},
               {"tie_word_embeddings", config.tied_head},
               {"norms_sha256", weights::norms_sha256(model)},
               {"stop_ids", tokenizer.stop_ids},
               {"chat_template", tokenizer.chat_template.has_value()}};
  info.update(model.describe());
  return info;
}

void print_table(const Json& info) {
  const auto count = [&](const char* key) { return info[key].get<int64_t>(); };
  const size_t files = info["files"].size();
  InfoTable table;
  table.add("Model", info["name"].get<std::string>());
  table.add("Format", fmt::format("{}, {} in {} {}", info["format"].get<std::string>(),
                                  format_bytes(count("bytes")), files, files == 1 ? "file" : "files"));
  table.add("Family",
            fmt::format("{}: {} layers, hidden size {}, MLP {}", info["model_type"].get<std::string>(),
                        count("num_hidden_layers"), count("hidden_size"), count("intermediate_size")));
  table.add("Attention", fmt::format("{} heads of {}, {} key/value heads", count("num_attention_heads"),
                                     count("head_dim"), count("num_key_value_heads")));
  table.add("Vocabulary", fmt::format("{} tokens, {}", count("vocab_size"),
                                      info["tie_word_embeddings"].get<bool>() ? "head shares the embedding"
                                                                              : "head of its own"));
  table.add("Context",
            fmt::format("{} tokens, rope theta {}, scaling {}", count("max_position_embeddings"),
                        info["rope_theta"].get<double>(), info["rope_scaling"].get<std::string>()));
  table.add("Parameters", fmt::format("{} ({})", format_count(count("parameters")), count("parameters")));
  table.add("Types", format_types(info["types"]));
  table.add("Stop tokens", to_json_line(info["stop_ids"]));
  table.add("Chat template", info["chat_template"].get<bool>() ? "yes" : "none");
  table.add("Norms SHA-256", info["norms_sha256"].get<std::string>());
  table.print();
}

}  // namespace

void add_model_info_command(CLI::App& model, Run& run) {
  const auto options = std::make_shared<ModelInfoOptions>();
  CLI::App* command = model.add_subcommand("info", "Sizes, types and digest of a model");
  command->add_option("model", options->model, "Folder, .gguf file, org/name, or default")
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &run] {
    run = [options] {
      const Json info = to_json(*weights::open_model(options->model));
      if (options->json) {
        std::cout << to_json_line(info) << '\n';
      } else {
        print_table(info);
      }
    };
  });
}

}  // namespace calyrex::cli
