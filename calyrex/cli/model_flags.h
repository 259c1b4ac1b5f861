// Flags of every command that runs a model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "calyrex/lm/language_model.h"
#include "calyrex/lm/local_model.h"

namespace CLI {
class App;
}  // namespace CLI

namespace calyrex::cli {

/// DIR or DIR@SCALE. A folder whose whole name exists is taken as it is.
struct AdapterArgument {
  std::filesystem::path path;
  double scale = 1.0;
};
AdapterArgument parse_adapter_argument(const std::string& argument);

struct ModelFlags {
  std::string model = "default";
  std::string adapter;  // DIR[@SCALE]; empty = the base model
  std::string dtype = "auto";
  std::string adapter_dtype = "auto";
  std::string device = "auto";
  std::string chat_template;  // FILE, "chatml" or "llama3"; empty = the model's own
  std::string chat_kwargs;    // JSON object
  bool allow_base_mismatch = false;
};
void add_model_flags(CLI::App& command, ModelFlags& flags);
/// The same without --adapter.
void add_backbone_flags(CLI::App& command, ModelFlags& flags);

/// How many new tokens, and how they are chosen.
struct GenerationFlags {
  lm::Sampling sampling;
  int64_t max_new_tokens = 256;
};
void add_generation_flags(CLI::App& command, GenerationFlags& flags);

/// "float32", "bfloat16", "auto".
lm::Precision parse_precision(const std::string& name);

/// "int8", "model", "auto".
lm::AdapterPrecision parse_adapter_precision(const std::string& name);

/// The flags as options of a local model; reads the template and checks the JSON.
lm::LocalModelOptions local_model_options(const ModelFlags& flags);

struct OpenedModel {
  std::unique_ptr<lm::LanguageModel> model;
  lm::AdapterChoice adapter;  // name empty without --adapter
};
/// Checks what can be checked without torch, then opens model and adapter for so many sequences at a time.
OpenedModel open_model(const ModelFlags& flags,
                       int64_t max_batch_sequences = lm::LocalModelOptions{}.max_batch_sequences);

}  // namespace calyrex::cli
