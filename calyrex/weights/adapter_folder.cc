#include "calyrex/weights/adapter_folder.h"

#include <algorithm>
#include <cstring>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"
#include "calyrex/weights/tensor_faults.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kConfigFile = "adapter_config.json";
constexpr std::string_view kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPickledFile = "adapter_model.bin";
constexpr std::string_view kCompanionFile = "calyrex.json";
constexpr std::string_view kTemplateFile = "chat_template.jinja";
constexpr size_t kMaxTemplateBytes = 256 << 10;

/// Configuration and weights of a folder, read but not yet compared with each other.
AdapterFolder read_adapter(const fs::path& path) {
  if (!path_exists(path / kConfigFile)) {
    fail(ErrorCode::kNotFound,
         "{} holds no {}; an adapter is a folder that calyrex train or adapter init wrote", path.string(),
         kConfigFile);
  }
  AdapterFolder folder;
  folder.path = path;
  folder.config = parse_adapter_config(read_json_file(path / kConfigFile), (path / kConfigFile).string());
  if (!path_exists(path / kWeightsFile) && path_exists(path / kPickledFile)) {
    fail(ErrorCode::kUnsupported, "{} holds {}, which can run code; save the adapter as safetensors",
         path.string(), kPickledFile);
  }
  const bool lora = folder.config.kind == AdapterKind::kLora;
  if (lora && path_exists(path / kCompanionFile)) {
    read_lora_companion(read_json_file(path / kCompanionFile), (path / kCompanionFile).string(),
                        folder.config);
  }
  folder.weights = std::make_shared<SafetensorsFile>(SafetensorsFile::open(path / kWeightsFile));
  if (path_exists(path / kTemplateFile))
    folder.chat_template = read_file(path / kTemplateFile, kMaxTemplateBytes);
  return folder;
}

/// Whether a value of a floating-point type of `Bits` has all bits of `exponent` set: infinite or no number.
template <typename Bits>
bool any_not_finite(std::span<const std::byte> bytes, Bits exponent) {
  bool found = false;
  for (size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    found |= (value & exponent) == exponent;
  }
  return found;
}

bool is_finite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
      return !any_not_finite<uint32_t>(tensor.data, 0x7f800000);
    case DType::kBF16:
      return !any_not_finite<uint16_t>(tensor.data, 0x7f80);
    case DType::kF16:
      return !any_not_finite<uint16_t>(tensor.data, 0x7c00);
    default:
      return true;
  }
}

void check_weights(const AdapterFolder& folder) {
  const std::string file = folder.weights->path().string();
  match_tensors(file, expected_adapter_tensors(folder.config), folder.weights->tensors());
  for (const TensorView& tensor : folder.weights->tensors()) {
    if (tensor.dtype == DType::kF64) {
      fail(ErrorCode::kUnsupported, "{}: tensor {} has type F64; adapters are F32, BF16 or F16", file,
           tensor.name);
    }
    if (!is_finite(tensor)) {
      fail(ErrorCode::kCorruptData,
           "{}: tensor {} holds infinite values or NaN; the file is damaged, or its training diverged", file,
           tensor.name);
    }
  }
}

std::string content_hash(const AdapterFolder& folder) {
  AdapterConfig config = folder.config;
  config.base_model_name_or_path.clear();
  Sha256 hash;
  if (is_resolved(config)) {
    for (const auto& [name, text] : adapter_config_files(config)) hash.update(text);
  } else {
    hash.update(read_file(folder.path / kConfigFile, SIZE_MAX));
  }
  for (const TensorView& tensor : folder.weights->tensors()) {
    hash.update(fmt::format("\n{} {} {}\n", tensor.name, dtype_name(tensor.dtype), shape_text(tensor.shape)));
    hash.update(tensor.data);
  }
  return hash.hex_digest();
}

/// Families whose layers compute the same.
bool is_llama_like(std::string_view model_type) { return model_type == "llama" || model_type == "mistral"; }

}  // namespace

BaseIdentity base_identity(const ModelSource& model) {
  const ModelConfig& config = model.config();
  return {.model_type = std::string(model_type(config.family)),
          .hidden_size = config.hidden_size,
          .num_hidden_layers = config.num_layers,
          .vocab_size = config.vocab_size,
          .norms_sha256 = norms_sha256(model)};
}

AdapterFolder open_adapter(const fs::path& path) {
  AdapterFolder folder = read_adapter(path);
  if (is_resolved(folder.config)) check_weights(folder);
  if (folder.config.kind == AdapterKind::kLora) {
    folder.config.placement = check_lora_tensors(folder.weights->path().string(), folder.weights->tensors());
  }
  folder.content_sha256 = content_hash(folder);
  return folder;
}

AdapterFolder open_adapter(const fs::path& path, const ModelSource& model, BaseMismatch mismatch) {
  AdapterFolder folder = read_adapter(path);
  with_context(path.string(), [&] {
    check_adapter_fits(folder.config, model, mismatch);
    folder.config = resolve_adapter_config(std::move(folder.config), model.config());
  });
  check_weights(folder);
  folder.content_sha256 = content_hash(folder);
  return folder;
}

void check_adapter_fits(const AdapterConfig& adapter, const ModelSource& model, BaseMismatch mismatch) {
  const BaseIdentity& base = adapter.base;
  const ModelConfig& config = model.config();
  std::string differences;
  const auto compare = [&](std::string_view what, const auto& wanted, const auto& found) {
    if (wanted == found) return;
    differences +=
        fmt::format("{}{} {} (the model has {})", differences.empty() ? "" : ", ", what, wanted, found);
  };
  if (base.hidden_size > 0) {
    compare("hidden_size", base.hidden_size, config.hidden_size);
    compare("num_hidden_layers", base.num_hidden_layers, config.num_layers);
  }
  if (base.vocab_size > 0) compare("vocab_size", base.vocab_size, config.vocab_size);
  const std::string_view family = model_type(config.family);
  if (!base.model_type.empty() && !(is_llama_like(base.model_type) && is_llama_like(family))) {
    compare("model_type", std::string_view(base.model_type), family);
  }
  if (!differences.empty()) {
    fail(ErrorCode::kCorruptData,
         "the adapter is for another model than {}: {}; use the model it was trained on", model.name(),
         differences);
  }
  if (!base.norms_sha256) {
    log_warning_once(
        "the adapter does not say which weights it was trained on (no norms_sha256); using it with {}",
        model.name());
  } else if (const std::string digest = norms_sha256(model); digest != *base.norms_sha256) {
    if (mismatch == BaseMismatch::kReject) {
      fail(ErrorCode::kCorruptData,
           "the adapter was trained on other weights than {} (norms_sha256 differs); use the model it was "
           "trained on, "
           "or --allow-base-mismatch",
           model.name());
    }
    log_warning_once("the adapter was trained on other weights than {} (norms_sha256 differs)", model.name());
  }
}

void write_adapter(const fs::path& path, const AdapterConfig& config,
                   const std::vector<TensorToWrite>& tensors,
                   const std::vector<std::pair<std::string, std::string>>& extra) {
  AtomicDirectory folder(path);
  const fs::path& staging = folder.staging();
  write_safetensors(staging / kWeightsFile, tensors, {{"format", "pt"}});
  for (const auto& [name, text] : extra) {
    CALYREX_CHECK(fs::path(name).filename() == name && name != kConfigFile && name != kWeightsFile, "{}",
                  name);
    write_file_atomically(staging / name, text);
  }
  for (const auto& [name, text] : adapter_config_files(config)) write_file_atomically(staging / name, text);
  folder.commit_files(kConfigFile);
}

}  // namespace calyrex::weights
