#include "calyrex/cli/model_flags.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::cli {
namespace {

constexpr const char* kAdapterName = "adapter";

}  // namespace

AdapterArgument parse_adapter_argument(const std::string& argument) {
  std::error_code error;
  const size_t at = argument.rfind('@');
  if (at == std::string::npos || std::filesystem::exists(argument, error)) return {.path = argument};
  if (at == 0) fail(ErrorCode::kInvalidArgument, "--adapter {}: no folder before the @", argument);
  const std::string text = argument.substr(at + 1);
  double scale = 0.0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(scale)) {
    fail(ErrorCode::kInvalidArgument, "--adapter {}: '{}' is no scale; expected DIR or DIR@NUMBER", argument,
         text);
  }
  return {.path = argument.substr(0, at), .scale = scale};
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  add_backbone_flags(command, flags);
  command.add_option("--adapter", flags.adapter, "Adapter folder, with its strength after an @: DIR[@SCALE]")
      ->check(not_empty());
}

void add_backbone_flags(CLI::App& command, ModelFlags& flags) {
  command.add_option("--model", flags.model, "Model: a folder, a .gguf file, org/name, or default")
      ->capture_default_str();
  command.add_option("--dtype", flags.dtype, "auto, float32 or bfloat16")->capture_default_str();
  command
      .add_option("--adapter-dtype", flags.adapter_dtype,
                  "auto, int8 (beside a quantised model) or model (as the model without quantised products)")
      ->capture_default_str();
  command.add_option("--device", flags.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--chat-template", flags.chat_template,
                     "Replaces the model's chat template: a file, chatml or llama3");
  command.add_option("--chat-template-kwargs", flags.chat_kwargs,
                     R"(Variables for the template, as JSON: '{"enable_thinking": false}')");
  command.add_flag("--allow-base-mismatch", flags.allow_base_mismatch,
                   "Use an adapter that was trained on another model of the same shape");
}

void add_generation_flags(CLI::App& command, GenerationFlags& flags) {
  lm::Sampling& sampling = flags.sampling;
  command.add_option("--max-new-tokens", flags.max_new_tokens, "Longest answer")
      ->check(whole_number<int64_t>())
      ->capture_default_str();
  command.add_option("--temperature", sampling.temperature, "0 takes the likeliest token")
      ->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "Keep the likeliest tokens up to this mass")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "Keep so many of the likeliest tokens; 0 = all")
      ->capture_default_str();
  command
      .add_option("--min-p", sampling.min_p, "Drop tokens below this share of the likeliest's probability")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1: tokens seen before count less")
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "Same seed, same answer")->check(whole_number<uint64_t>());
}

lm::Precision parse_precision(const std::string& name) {
  if (name == "auto") return lm::Precision::kAuto;
  if (name == "float32") return lm::Precision::kFloat32;
  if (name == "bfloat16") return lm::Precision::kBFloat16;
  fail(ErrorCode::kInvalidArgument, "--dtype {}: expected auto, float32 or bfloat16", name);
}

lm::AdapterPrecision parse_adapter_precision(const std::string& name) {
  if (name == "auto") return lm::AdapterPrecision::kAuto;
  if (name == "int8") return lm::AdapterPrecision::kInt8;
  if (name == "model") return lm::AdapterPrecision::kModel;
  fail(ErrorCode::kInvalidArgument, "--adapter-dtype {}: expected auto, int8 or model", name);
}

lm::LocalModelOptions local_model_options(const ModelFlags& flags) {
  lm::LocalModelOptions options;
  options.model = flags.model;
  options.dtype = parse_precision(flags.dtype);
  options.adapter_dtype = parse_adapter_precision(flags.adapter_dtype);
  options.device = flags.device;
  options.allow_base_mismatch = flags.allow_base_mismatch;
  if (!flags.chat_template.empty()) options.chat_template = text::resolve_chat_template(flags.chat_template);
  if (!flags.chat_kwargs.empty()) {
    try {
      options.chat_kwargs = parse_json(flags.chat_kwargs, "--chat-template-kwargs");
    } catch (const Error& error) {
      fail(ErrorCode::kInvalidArgument, "{}", error.what());
    }
    if (!options.chat_kwargs.is_object()) {
      fail(ErrorCode::kInvalidArgument, "--chat-template-kwargs: expected a JSON object");
    }
  }
  return options;
}

OpenedModel open_model(const ModelFlags& flags, int64_t max_batch_sequences) {
  lm::LocalModelOptions options = local_model_options(flags);
  options.max_batch_sequences = max_batch_sequences;
  OpenedModel opened;
  if (flags.adapter.empty()) {
    opened.model = torch_part().open_language_model(options);
    return opened;
  }
  const AdapterArgument adapter = parse_adapter_argument(flags.adapter);
  const auto mismatch =
      options.allow_base_mismatch ? weights::BaseMismatch::kAllow : weights::BaseMismatch::kReject;
  weights::open_adapter(adapter.path, *weights::open_model(options.model), mismatch);
  opened.model = torch_part().open_language_model(options);
  opened.model->load_adapter(kAdapterName, adapter.path);
  opened.adapter = {.name = kAdapterName, .scale = adapter.scale};
  return opened;
}

}  // namespace calyrex::cli
