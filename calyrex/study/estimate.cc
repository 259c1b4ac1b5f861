#include "calyrex/study/estimate.h"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/rehearsal.h"
#include "calyrex/model/device.h"
#include "calyrex/train/dataset.h"

namespace calyrex::study {
namespace {

constexpr double kBytesPerToken = 4.0;    // English prose with common vocabularies
constexpr int64_t kTokensPerMessage = 6;  // what templates add
/// Shares of the speed of large products, as the default backbone reaches them: training leaves tokens out
/// that no label depends on, and answers come from 8-bit products.
constexpr double kTrainingShare = 0.8;
constexpr double kReadingShare = 1.0;
constexpr double kWritingShare = 0.35;
/// Expected length of an answer against what a task allows.
constexpr double kAnswerShare = 0.6;

int64_t tokens_of(size_t bytes) { return static_cast<int64_t>(static_cast<double>(bytes) / kBytesPerToken); }

size_t bytes_of(const text::Messages& messages) {
  size_t bytes = 0;
  for (const text::Message& message : messages) bytes += message.content.size();
  return bytes;
}

std::vector<std::string> paths_of(const train::TrainConfig& config) {
  std::vector<std::string> paths;
  for (const train::TrainFile& file : config.data.train) paths.push_back(file.path);
  return paths;
}

std::string key_of(const train::TrainConfig& config) {
  return fmt::format("{}", fmt::join(paths_of(config), "\n"));
}

DataSize measure(const train::TrainConfig& config) {
  DataSize size;
  for (const data::ChatRow& row : train::read_chat_files(paths_of(config)).rows) {
    ++size.rows;
    size.tokens +=
        tokens_of(bytes_of(row.messages)) + kTokensPerMessage * static_cast<int64_t>(row.messages.size());
  }
  return size;
}

/// Parameters of one layer, and of what stands outside the layers in each product with a token.
int64_t layer_parameters(const weights::ModelConfig& model) {
  const int64_t attention =
      model.hidden_size * model.head_dim * (2 * model.num_heads + 2 * model.num_kv_heads);
  return attention + 3 * model.hidden_size * model.intermediate_size;
}

bool trains_all_layers(const PlannedRun& run) { return run.kind == "lora" || run.kind == "full"; }

int64_t trained_tokens(const train::TrainConfig& config, const DataSize& data) {
  const train::TrainSettings& train = config.train;
  if (!train.max_steps) return train.epochs * data.tokens;
  const int64_t step =
      train.batch_examples
          ? *train.batch_examples * std::max<int64_t>(1, data.tokens / std::max<int64_t>(1, data.rows))
          : train.batch_tokens;
  return *train.max_steps * step;
}

/// Layers that run r runs below its first block when the states after layer `kept` are there.
int64_t layers_to_run(int64_t own, std::optional<int64_t> kept) { return own - kept.value_or(-1); }

std::optional<int64_t> latest_not_behind(const std::vector<int64_t>& layers, int64_t own) {
  std::optional<int64_t> best;
  for (const int64_t layer : layers) {
    if (layer <= own && (!best || layer > *best)) best = layer;
  }
  return best;
}

}  // namespace

DataSizes::DataSizes(const std::vector<PlannedRun>& runs) {
  for (const PlannedRun& run : runs) {
    if (!run.config) continue;
    const std::string key = key_of(*run.config);
    if (!sizes_.contains(key)) sizes_[key] = measure(*run.config);
  }
}

const DataSize& DataSizes::of(const train::TrainConfig& config) const { return sizes_.at(key_of(config)); }

std::optional<int64_t> own_states_layer(const PlannedRun& run) {
  if (!run.config || run.layers.empty() || trains_all_layers(run)) return std::nullopt;
  const bool reads_input =
      run.kind == "parallel_mlp" && run.adapter->parallel_mlp.input == weights::MlpInput::kParallel;
  const int64_t layer = run.layers.front() - (reads_input ? 1 : 0);
  return layer < 0 ? std::nullopt : std::optional(layer);
}

int64_t states_bytes(const std::vector<PlannedRun>& runs, const DataSizes& sizes,
                     const weights::ModelConfig& model) {
  constexpr int64_t kBytesPerValue = 2;  // bfloat16
  int64_t most = 0;
  for (const PlannedRun& run : runs) {
    if (!run.config) continue;
    const DataSize& data = sizes.of(*run.config);
    most = std::max(most, std::min(data.tokens, trained_tokens(*run.config, data)));
  }
  return most * model.hidden_size * kBytesPerValue;
}

std::vector<int64_t> share_states(std::vector<PlannedRun>& runs, const DataSizes& sizes,
                                  const weights::ModelConfig& model) {
  double gib = 0.0;
  std::vector<int64_t> wanted, owns;
  for (const PlannedRun& run : runs) {
    if (!run.runs() || !run.config || run.config->train.prefix_cache_gib <= 0.0) continue;
    const std::optional<int64_t> own = own_states_layer(run);
    if (!own) continue;
    gib = std::max(gib, run.config->train.prefix_cache_gib);
    owns.push_back(*own);
    if (std::find(wanted.begin(), wanted.end(), *own) == wanted.end()) wanted.push_back(*own);
  }
  if (owns.empty()) return {};
  const int64_t bytes = std::max<int64_t>(1, states_bytes(runs, sizes, model));
  const auto room = static_cast<size_t>(std::max(1.0, gib * (1 << 30) / static_cast<double>(bytes)));
  std::vector<int64_t> kept;
  while (kept.size() < std::min(room, wanted.size())) {
    int64_t best = -1, best_left = -1;
    for (const int64_t layer : wanted) {
      if (std::find(kept.begin(), kept.end(), layer) != kept.end()) continue;
      std::vector<int64_t> with = kept;
      with.push_back(layer);
      int64_t left = 0;
      for (const int64_t own : owns) left += layers_to_run(own, latest_not_behind(with, own));
      if (best < 0 || left < best_left) {
        best = layer;
        best_left = left;
      }
    }
    kept.push_back(best);
  }
  std::sort(kept.begin(), kept.end());
  for (PlannedRun& run : runs) {
    if (!run.config || run.config->train.prefix_cache_gib <= 0.0) continue;
    if (const auto own = own_states_layer(run)) run.states_layer = latest_not_behind(kept, *own);
  }
  return kept;
}

AskedTokens count_asked(const eval::LoadedTask& task, std::optional<int64_t> max_new_tokens) {
  AskedTokens asked;
  const auto add = [&](const eval::Ask& ask) {
    if (const auto* generate = std::get_if<eval::GenerateAsk>(&ask)) {
      asked.prompt_tokens += tokens_of(bytes_of(generate->messages));
      const int64_t most =
          std::min(generate->max_new_tokens, max_new_tokens.value_or(generate->max_new_tokens));
      asked.answer_tokens += static_cast<int64_t>(kAnswerShare * static_cast<double>(most));
    } else {
      const auto& score = std::get<eval::ScoreAsk>(ask);
      asked.prompt_tokens +=
          tokens_of(bytes_of(score.messages) + score.prompt.size() + score.completion.size());
    }
  };
  for (const auto& sample : task.samples) {
    ++asked.samples;
    eval::walk_blankly(*sample,
                       [&](const std::vector<eval::Ask>& asks) { std::ranges::for_each(asks, add); });
  }
  return asked;
}

double measure_flops(const std::string& dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSize = 1024;
  constexpr double kSeconds = 0.2;
  const at::Device device = model::resolve_device("auto");
  const lm::Precision precision = dtype == "float32"    ? lm::Precision::kFloat32
                                  : dtype == "bfloat16" ? lm::Precision::kBFloat16
                                                        : lm::Precision::kAuto;
  const at::ScalarType type = model::resolve_dtype(precision, device);
  return model::translate_torch_errors("measuring the processor", [&] {
    const at::Tensor a = at::ones({kSize, kSize}, at::TensorOptions(device).dtype(type));
    at::mm(a, a);  // warm-up
    int64_t products = 0;
    const Clock::time_point start = Clock::now();
    double seconds = 0.0;
    while (seconds < kSeconds) {
      at::mm(a, a).flatten()[0].item<float>();  // waits for the device
      ++products;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    const double size = kSize;
    return 2.0 * size * size * size * static_cast<double>(products) / seconds;
  });
}

RunEstimate estimate_run(const PlannedRun& run, const DataSizes& sizes, const weights::ModelConfig& model,
                         const std::vector<AskedTokens>& asked, double flops) {
  constexpr double kLabelShare = 0.2;
  constexpr int64_t kSavedBytes = 2, kCheckpointBytes = 12;  // bf16; weights and two moments in float32
  RunEstimate estimate;
  const auto layer = static_cast<double>(layer_parameters(model));
  const double layers = static_cast<double>(model.num_layers);
  const double head = static_cast<double>(model.vocab_size * model.hidden_size);
  const double trained = static_cast<double>(run.parameters);
  if (run.config) {
    const DataSize& data = sizes.of(*run.config);
    estimate.training_tokens = trained_tokens(*run.config, data);
    const auto tokens = static_cast<double>(estimate.training_tokens);
    const double first = trains_all_layers(run) ? 0.0 : static_cast<double>(run.layers.front());
    // Forward through all, backward through what lies above the first block, and both through the adapter.
    const double own =
        2 * layer * layers + 2 * layer * (layers - first) + 6 * trained + 4 * head * kLabelShare;
    double operations = tokens * own;
    if (run.states_layer && estimate.training_tokens > data.tokens) {
      const auto hits = static_cast<double>(estimate.training_tokens - data.tokens);
      operations -= hits * 2 * layer * static_cast<double>(*run.states_layer + 1);
    }
    estimate.training_seconds = operations / (kTrainingShare * flops);
    estimate.disk_bytes = run.parameters * kSavedBytes;
    estimate.checkpoint_bytes = run.parameters * kCheckpointBytes * (run.config->train.keep_checkpoints + 1);
  }
  const double token = 2 * (layer * layers + trained);
  for (const AskedTokens& entry : asked) {
    estimate.evaluation_seconds +=
        static_cast<double>(entry.prompt_tokens) * token / (kReadingShare * flops) +
        static_cast<double>(entry.answer_tokens) * (token + 2 * head) / (kWritingShare * flops);
    constexpr int64_t kTextBytes = 12;  // a token in samples.jsonl and responses.jsonl
    estimate.disk_bytes += (entry.prompt_tokens + 2 * entry.answer_tokens) * kTextBytes;
  }
  return estimate;
}

}  // namespace calyrex::study
