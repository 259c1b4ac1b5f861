#include "calyrex/train/model_card.h"

#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "calyrex/weights/model_source.h"

namespace calyrex::train {
namespace {

std::string data_list(const RunRecord& record) {
  std::string data;
  for (const DataFile& file : record.train_files) {
    data += fmt::format("- `{}`: {} rows, SHA-256 `{}`\n",
                        std::filesystem::path(file.path).filename().string(), file.num_rows, file.sha256);
  }
  return data;
}

std::string training_text(const RunRecord& record) {
  if (!record.results.contains("steps")) {
    return "## Training\n\nNone yet: with this adapter the model is the base model bit for bit.\n\n";
  }
  const auto number = [&](const char* key) { return record.results.value(key, 0.0); };
  return fmt::format(
      "## Training\n\n"
      "{:.0f} steps over {:.0f} tokens, {:.0f} of them labels; last loss {:.4f}. `training.json` holds every "
      "setting, the seed and the loss curve.\n\n{}\n",
      number("steps"), number("tokens"), number("label_tokens"), number("final_loss"), data_list(record));
}

/// The model's name in the card's header, which the hub reads.
std::string hub_name(const std::string& model) {
  return model == "default" ? std::string(weights::kDefaultModelHubName) : model;
}

/// What the kind is called, and what it did to the backbone.
struct KindText {
  std::string_view title;
  std::string_view what;
  std::string_view unit;
};

KindText kind_text(weights::AdapterKind kind) {
  switch (kind) {
    case weights::AdapterKind::kCal:
      return {"System-prompt anchoring adapter", "CAL (cross-attention to the system prompt)", "blocks"};
    case weights::AdapterKind::kLora:
      return {"LoRA adapter", "LoRA", "linear layers"};
    case weights::AdapterKind::kParallelMlp:
    case weights::AdapterKind::kFull:
      break;
  }
  return {"ParallelMLP adapter", "ParallelMLP", "blocks"};
}

}  // namespace

std::string full_model_card(const std::string& base_model, const RunRecord& record, int64_t num_parameters) {
  return fmt::format(
      "---\nlibrary_name: transformers\nbase_model: {3}\ntags: [calyrex, full]\n---\n\n"
      "# Fine-tuned model\n\n"
      "All {1} parameters of `{0}` were trained.\n\n"
      "## Use\n\n"
      "    calyrex chat --model .\n\n{2}",
      base_model, num_parameters, training_text(record), hub_name(base_model));
}

std::string adapter_card(const weights::AdapterConfig& config, const RunRecord& record,
                         int64_t num_parameters) {
  const KindText text = kind_text(config.kind);
  const bool lora = config.kind == weights::AdapterKind::kLora;
  const size_t count = lora ? config.lora_modules.size() : config.placement.size();
  return fmt::format(
      "---\nlibrary_name: {library}\nbase_model: {hub}\ntags: [calyrex, {kind}]\n---\n\n"
      "# {title}\n\n"
      "{what} for `{base}`: {count} {unit}, {parameters} trained parameters, {where} layers {placement} "
      "(counted from 0). The backbone's own weights\nare untouched.\n\n"
      "## Use\n\n"
      "    calyrex chat --model {base} --adapter .\n"
      "    calyrex generate --model {base} --adapter .@0.5 --system \"Answer in French.\" --prompt "
      "\"Hello\"\n\n"
      "The number after `@` is the strength: 0 is the base model bit for bit, 1 is as trained. Chats are "
      "rendered with\n`chat_template.jinja`.{peft}\n\n"
      "{training}"
      "## Limits\n\n"
      "This is not a security boundary. User text still passes the backbone's self-attention, so rules that "
      "must hold need checks outside\nthe model; a system prompt that states explicit defensive rules helps. "
      "What it learnt is bounded by its training data.\n",
      fmt::arg("library", lora ? "peft" : "calyrex"), fmt::arg("base", config.base_model_name_or_path),
      fmt::arg("hub", hub_name(config.base_model_name_or_path)), fmt::arg("kind", to_string(config.kind)),
      fmt::arg("title", text.title), fmt::arg("what", text.what), fmt::arg("count", count),
      fmt::arg("unit", text.unit), fmt::arg("parameters", num_parameters),
      fmt::arg("where", lora ? "in" : "after"), fmt::arg("placement", fmt::join(config.placement, ", ")),
      fmt::arg("peft", lora ? " The files are PEFT's own; PEFT loads them too." : ""),
      fmt::arg("training", training_text(record)));
}

}  // namespace calyrex::train
