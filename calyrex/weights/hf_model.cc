// A Hugging Face model folder.
#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/weights/model_files.h"
#include "calyrex/weights/printable.h"
#include "calyrex/weights/safetensors.h"
#include "calyrex/weights/shard_index.h"
#include "calyrex/weights/tensor_faults.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr size_t kMaxTemplateBytes = 256 << 10;

class HfModel : public ModelSource {
 public:
  const ModelConfig& config() const override { return config_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TokenizerSource& tokenizer() const override { return tokenizer_; }
  const std::string& name() const override { return name_; }
  std::optional<fs::path> folder() const override { return folder_; }
  std::string_view format() const override { return "safetensors"; }

  Json describe() const override {
    Json files = Json::array();
    size_t bytes = 0;
    for (const SafetensorsFile& file : files_) {
      files.push_back({{"name", file.path().filename().string()}, {"bytes", file.size_bytes()}});
      bytes += file.size_bytes();
    }
    return {{"bytes", bytes}, {"files", files}, {"types", describe_types(tensors_)}};
  }

  std::string name_;
  fs::path folder_;
  ModelConfig config_;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorView> tensors_;
  TokenizerSource tokenizer_;
};

/// Tensors that old checkpoints hold beside the weights and that transformers leaves out too.
bool is_leftover(const TensorView& tensor, const ModelConfig& config) {
  return tensor.name.ends_with(".rotary_emb.inv_freq") ||
         (config.tied_head && tensor.name == "lm_head.weight");
}

/// Opens every shard and checks that the index and the shards tell the same.
std::vector<SafetensorsFile> open_shards(const fs::path& folder, const fs::path& index_path) {
  std::vector<SafetensorsFile> files;
  TensorFaults faults;
  for (const auto& [shard, names] : read_shard_index(index_path)) {
    files.push_back(SafetensorsFile::open(folder / shard));
    for (const std::string& name : names) {
      if (files.back().find(name) == nullptr) faults.add("{} is missing from {}", printable(name), shard);
    }
    for (const TensorView& tensor : files.back().tensors()) {
      if (!std::binary_search(names.begin(), names.end(), tensor.name)) {
        faults.add("{} in {} is not listed for it", printable(tensor.name), shard);
      }
    }
  }
  faults.throw_if_any(index_path.string());
  return files;
}

std::vector<SafetensorsFile> open_weights(const fs::path& folder) {
  std::vector<SafetensorsFile> files;
  if (path_exists(folder / kSingleFile)) {
    files.push_back(SafetensorsFile::open(folder / kSingleFile));
    return files;
  }
  if (path_exists(folder / kIndexFile)) return open_shards(folder, folder / kIndexFile);
  for (const std::string_view other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (path_exists(folder / other)) {
      fail(ErrorCode::kUnsupported, "{} holds {}, which can run code; convert the model to safetensors",
           folder.string(), other);
    }
  }
  fail(ErrorCode::kNotFound, "{} has neither {} nor {}", folder.string(), kSingleFile, kIndexFile);
}

/// tokenizer_config.json's chat_template: text, or a list of {name, template} of which "default" counts.
std::optional<std::string> template_from_config(const Json& config, const fs::path& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const Json& entry : *found) {
      const bool named =
          entry.is_object() && entry.value("name", Json()) == "default" && entry.contains("template");
      if (named && entry["template"].is_string()) return entry["template"].get<std::string>();
    }
    return std::nullopt;
  }
  fail(ErrorCode::kCorruptData, "{}: \"chat_template\" must be text or a list of named templates",
       path.string());
}

/// eos_token_id as a number or a list; ids are bounded by the vocabulary.
std::vector<TokenId> read_eos_ids(const Json& config, const fs::path& path, int64_t vocab_size) {
  std::vector<TokenId> ids;
  if (!config.is_object()) fail(ErrorCode::kCorruptData, "{}: not a JSON object", path.string());
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab_size) {
      fail(ErrorCode::kCorruptData, "{}: \"eos_token_id\": {} is no token id", path.string(),
           printable(to_json_line(id)));
    }
    const auto token = id.get<TokenId>();
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  return ids;
}

TokenizerSource read_tokenizer(const fs::path& folder, const Json& config, int64_t vocab_size,
                               const std::string& name) {
  TokenizerSource source;
  source.name = name;
  const fs::path tokenizer = folder / "tokenizer.json";
  if (path_exists(tokenizer)) source.tokenizer_json = tokenizer;
  const fs::path config_path = folder / "tokenizer_config.json";
  if (path_exists(config_path)) {
    source.tokenizer_config = read_json_file(config_path);
    if (!source.tokenizer_config.is_object()) {
      fail(ErrorCode::kCorruptData, "{}: not a JSON object", config_path.string());
    }
  }
  const fs::path template_path = folder / "chat_template.jinja";
  if (path_exists(template_path)) {
    source.chat_template = read_file(template_path, kMaxTemplateBytes);
  } else {
    source.chat_template = template_from_config(source.tokenizer_config, config_path);
  }
  const fs::path generation_path = folder / "generation_config.json";
  if (path_exists(generation_path)) {
    source.stop_ids = read_eos_ids(read_json_file(generation_path), generation_path, vocab_size);
  }
  if (source.stop_ids.empty()) source.stop_ids = read_eos_ids(config, folder / "config.json", vocab_size);
  return source;
}

/// Says what a folder without config.json is, where that helps.
[[noreturn]] void fail_no_model(const fs::path& folder) {
  if (path_exists(folder / "adapter_config.json")) {
    fail(ErrorCode::kInvalidArgument,
         "{} has no config.json; it is an adapter: pass it with --adapter and a model with --model",
         folder.string());
  }
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".gguf") {
      fail(ErrorCode::kInvalidArgument, "{} has no config.json; give the .gguf file itself, e.g. {}",
           folder.string(), entry.path().string());
    }
  }
  fail(ErrorCode::kNotFound,
       "{} has no config.json; a model is a Hugging Face folder, a .gguf file, org/name or default",
       folder.string());
}

}  // namespace

std::shared_ptr<const ModelSource> open_hf_folder(const fs::path& folder, const std::string& name) {
  const fs::path config_path = folder / "config.json";
  if (!path_exists(config_path)) {
    fail_no_model(folder);
  }
  const Json config = read_json_file(config_path);
  auto model = std::make_shared<HfModel>();
  model->name_ = name;
  model->folder_ = folder;
  model->config_ = parse_hf_config(config, config_path.string());
  model->files_ = open_weights(folder);
  std::vector<TensorView> found;
  for (const SafetensorsFile& file : model->files_) {
    for (const TensorView& tensor : file.tensors()) {
      if (!is_leftover(tensor, model->config_)) found.push_back(tensor);
    }
  }
  model->tensors_ = match_tensors(folder.string(), expected_tensors(model->config_), std::move(found));
  model->tokenizer_ = read_tokenizer(folder, config, model->config_.vocab_size, name);
  return model;
}

}  // namespace calyrex::weights
