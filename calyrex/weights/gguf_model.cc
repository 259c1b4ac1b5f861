// A backbone in a GGUF file (architectures llama, qwen2, qwen3), single or split.
#include <algorithm>
#include <charconv>

#include "calyrex/base/error.h"
#include "calyrex/weights/gguf.h"
#include "calyrex/weights/gguf_config.h"
#include "calyrex/weights/gguf_names.h"
#include "calyrex/weights/model_files.h"
#include "calyrex/weights/printable.h"
#include "calyrex/weights/tensor_faults.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";
constexpr int64_t kMaxParts = 10'000;

class GgufModel : public ModelSource {
 public:
  const ModelConfig& config() const override { return config_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TokenizerSource& tokenizer() const override { return tokenizer_; }
  const std::string& name() const override { return name_; }
  std::string_view format() const override { return "gguf"; }

  Json describe() const override {
    Json files = Json::array();
    size_t bytes = 0;
    for (const GgufFile& file : files_) {
      files.push_back({{"name", file.path().filename().string()}, {"bytes", file.size_bytes()}});
      bytes += file.size_bytes();
    }
    return {{"bytes", bytes},
            {"files", files},
            {"types", describe_types(tensors_)},
            {"gguf_version", files_.front().version()},
            {"metadata", files_.front().summary()}};
  }

  std::string name_;
  ModelConfig config_;
  std::vector<GgufFile> files_;
  std::vector<TensorView> tensors_;
  TokenizerSource tokenizer_;
};

/// "model-00002-of-00003.gguf" is part 1 (from 0) of 3 named "model".
struct PartName {
  std::string stem;
  int64_t index = 0;
  int64_t count = 0;

  fs::path path(const fs::path& folder, int64_t part) const {
    return folder / fmt::format("{}-{:05}-of-{:05}.gguf", stem, part + 1, count);
  }
};

std::optional<PartName> parse_part_name(std::string_view name) {
  constexpr size_t kDigits = 5;
  constexpr std::string_view kMiddle = "-of-";
  constexpr std::string_view kEnd = ".gguf";
  constexpr size_t kTail = 1 + kDigits + kMiddle.size() + kDigits + kEnd.size();
  if (name.size() <= kTail || !name.ends_with(kEnd)) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kMiddle.size()) != kMiddle) return std::nullopt;
  const auto number = [&](size_t begin) {
    int64_t value = -1;
    const char* first = tail.data() + begin;
    const auto parsed = std::from_chars(first, first + kDigits, value);
    return parsed.ptr == first + kDigits ? value : -1;
  };
  const int64_t index = number(1) - 1;
  const int64_t count = number(1 + kDigits + kMiddle.size());
  if (index < 0 || count < 1 || index >= count) return std::nullopt;
  return PartName{std::string(name.substr(0, name.size() - kTail)), index, count};
}

std::vector<GgufFile> open_parts(const fs::path& path) {
  std::vector<GgufFile> files;
  files.push_back(GgufFile::open(path));
  const int64_t count = files.front().find_int("split.count").value_or(1);
  if (count <= 1) return files;
  const std::optional<PartName> name = parse_part_name(path.filename().string());
  if (!name || name->count != count || count > kMaxParts) {
    files.front().fail_corrupt(fmt::format(
        "split.count is {0}, but the file is not named like one of {0} parts (name-00001-of-{0:05}.gguf)",
        count));
  }
  files.clear();
  int64_t tensors = 0;
  for (int64_t part = 0; part < count; ++part) {
    files.push_back(GgufFile::open(name->path(path.parent_path(), part)));
    const GgufFile& file = files.back();
    if (file.find_int("split.count") != count || file.find_int("split.no") != part) {
      file.fail_corrupt(fmt::format(
          "split.no and split.count must be {} and {}; the part is of another model", part, count));
    }
    tensors += static_cast<int64_t>(file.tensors().size());
  }
  const std::optional<int64_t> total = files.front().find_int("split.tensors.count");
  if (total && *total != tensors) {
    files.front().fail_corrupt(
        fmt::format("the parts hold {} tensors, split.tensors.count is {}", tensors, *total));
  }
  return files;
}

void reject_bias(const TensorView& tensor, const ModelConfig& config, const GgufFile& file) {
  if (!tensor.name.ends_with(".bias")) return;
  const bool qkv = tensor.name.ends_with("attn_q.bias") || tensor.name.ends_with("attn_k.bias") ||
                   tensor.name.ends_with("attn_v.bias");
  if (config.attention_bias && qkv) return;
  fail(ErrorCode::kUnsupported, "{}: tensor {}: biases are supported on q, k and v of qwen2 only",
       file.path().string(), printable(tensor.name));
}

/// Tensors under Hugging Face names, with the row order that arch `llama` gives q and k.
std::vector<TensorView> rename_tensors(const std::vector<GgufFile>& files, const ModelConfig& config) {
  const bool interleaved = config.family == ModelFamily::kLlama;
  std::vector<TensorView> result;
  for (const GgufFile& file : files) {
    for (TensorView tensor : file.tensors()) {
      if (tensor.name == kRopeFactors) continue;
      reject_bias(tensor, config, file);
      const bool query = tensor.name.ends_with(".attn_q.weight");
      if (interleaved && (query || tensor.name.ends_with(".attn_k.weight"))) {
        tensor.row_order = RowOrder::kHeadInterleaved;
        tensor.num_heads = query ? config.num_heads : config.num_kv_heads;
      }
      if (std::optional<std::string> name = hugging_face_name(tensor.name)) tensor.name = *std::move(name);
      result.push_back(std::move(tensor));
    }
  }
  return result;
}

const TensorView* find_tensor(const std::vector<GgufFile>& files, std::string_view name) {
  for (const GgufFile& file : files) {
    for (const TensorView& tensor : file.tensors()) {
      if (tensor.name == name) return &tensor;
    }
  }
  return nullptr;
}

void check_distinct(const std::vector<GgufFile>& files) {
  std::vector<std::string_view> names;
  for (const GgufFile& file : files) {
    for (const TensorView& tensor : file.tensors()) names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    files.front().fail_corrupt(fmt::format("tensor {} is in more than one part", printable(*twice)));
  }
}

/// Factors that divide the rotary frequencies, as Llama 3.1 files carry them.
void read_rope_factors(const std::vector<GgufFile>& files, ModelConfig& config) {
  const TensorView* factors = find_tensor(files, kRopeFactors);
  if (factors == nullptr) return;
  const GgufFile& file = files.front();
  if (factors->dtype != DType::kF32 || factors->shape != std::vector<int64_t>{config.head_dim / 2}) {
    file.fail_corrupt(fmt::format("tensor {} must be F32 of shape [{}], not {} {}", kRopeFactors,
                                  config.head_dim / 2, dtype_name(factors->dtype),
                                  shape_text(factors->shape)));
  }
  if (config.rope.scaling != RopeConfig::Scaling::kNone) {
    fail(ErrorCode::kUnsupported, "{}: tensor {} beside another rope scaling", file.path().string(),
         kRopeFactors);
  }
  config.rope.scaling = RopeConfig::Scaling::kFactors;
  config.rope.frequency_factors = read_as_float(*factors);
  for (const float factor : config.rope.frequency_factors) {
    if (!(factor > 0)) file.fail_corrupt(fmt::format("tensor {} holds {}", kRopeFactors, factor));
  }
}

}  // namespace

std::shared_ptr<const ModelSource> open_gguf_model(const fs::path& path, const std::string& name) {
  auto model = std::make_shared<GgufModel>();
  model->name_ = name;
  model->files_ = open_parts(path);
  check_distinct(model->files_);
  const GgufFile& head = model->files_.front();
  const TensorView* embedding = find_tensor(model->files_, "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    head.fail_corrupt("tensor token_embd.weight is missing or not a matrix");
  }
  ModelConfig& config = model->config_;
  config = read_gguf_config(head, embedding->shape[0]);
  config.tied_head = find_tensor(model->files_, "output.weight") == nullptr;
  read_rope_factors(model->files_, config);
  model->tensors_ =
      match_tensors(head.path().string(), expected_tensors(config), rename_tensors(model->files_, config));
  model->tokenizer_ = read_gguf_tokenizer(head, name, config.vocab_size);
  return model;
}

}  // namespace calyrex::weights
