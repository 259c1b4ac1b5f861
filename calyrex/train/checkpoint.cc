#include "calyrex/train/checkpoint.h"

#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"

namespace calyrex::train {
namespace {
namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr const char* kAdapterFile = "adapter_model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr const char* kPrefix = "step-";

Json state_to_json(const RunState& state) {
  return {{"format", "calyrex-checkpoint"},
          {"version", kVersion},
          {"step", state.step},
          {"cursor", {{"epoch", state.cursor.epoch}, {"position", state.cursor.position}}},
          {"seconds", state.seconds},
          {"tokens", state.tokens},
          {"label_tokens", state.label_tokens},
          {"seed", state.seed},
          {"config_sha256", state.config_sha256},
          {"dtype", state.dtype},
          {"threads", state.threads},
          {"optimizer_steps", state.optimizer_steps}};
}

RunState state_from_json(const Json& json, const fs::path& path) {
  try {
    if (json.at("format") != "calyrex-checkpoint" || json.at("version") != kVersion) {
      fail(ErrorCode::kUnsupported, "{}: not a checkpoint of version {}", path.string(), kVersion);
    }
    RunState state;
    state.step = json.at("step").get<int64_t>();
    state.cursor.epoch = json.at("cursor").at("epoch").get<int64_t>();
    state.cursor.position = json.at("cursor").at("position").get<int64_t>();
    state.seconds = json.at("seconds").get<double>();
    state.tokens = json.at("tokens").get<int64_t>();
    state.label_tokens = json.at("label_tokens").get<int64_t>();
    state.seed = json.at("seed").get<uint64_t>();
    state.config_sha256 = json.at("config_sha256").get<std::string>();
    state.dtype = json.at("dtype").get<std::string>();
    state.threads = json.at("threads").get<int64_t>();
    state.optimizer_steps = json.at("optimizer_steps");
    return state;
  } catch (const Json::exception& error) {
    fail(ErrorCode::kCorruptData, "{}: not a whole checkpoint state: {}", path.string(), error.what());
  }
}

void check_digests(const fs::path& folder, const Json& json) {
  const Json files = json.value("files", Json::object());
  for (const char* name : {kAdapterFile, kOptimizerFile}) {
    if (!files.is_object() || files.value(name, std::string()) != file_sha256(folder / name)) {
      fail(ErrorCode::kCorruptData,
           "{} does not match its digest; remove {} to continue from the checkpoint before",
           (folder / name).string(), folder.string());
    }
  }
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path output, int64_t keep)
    : folder_(std::move(output) / "checkpoints"), keep_(keep) {}

void CheckpointStore::save(const RunState& state, const weights::AdapterConfig& config,
                           const model::Adapter& adapter, const Optimizer& optimizer,
                           const std::string& chat_template) {
  with_context(fmt::format("saving the checkpoint of step {}", state.step), [&] {
    AtomicDirectory directory(folder_ / fmt::format("{}{:08}", kPrefix, state.step));
    const fs::path& staging = directory.staging();
    weights::write_safetensors(staging / kAdapterFile,
                               model::export_tensors(adapter, weights::DType::kF32).tensors);
    weights::write_safetensors(staging / kOptimizerFile, optimizer.export_moments().tensors);
    write_file_atomically(staging / "chat_template.jinja", chat_template);
    for (const auto& [name, text] : weights::adapter_config_files(config)) {
      write_file_atomically(staging / name, text);
    }
    Json json = state_to_json(state);
    for (const char* name : {kAdapterFile, kOptimizerFile}) json["files"][name] = file_sha256(staging / name);
    write_file_atomically(staging / kStateFile, to_json_text(json));
    directory.commit();
  });
  const std::vector<fs::path> all = list();
  for (size_t i = 0; i + static_cast<size_t>(keep_) < all.size(); ++i) {
    // Renamed first, so that an interrupted removal never looks like a checkpoint.
    const fs::path doomed = all[i].string() + ".tmp-old";
    std::error_code ignored;
    fs::rename(all[i], doomed, ignored);
    fs::remove_all(doomed, ignored);
  }
}

std::vector<fs::path> CheckpointStore::list() const {
  std::vector<fs::path> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.find('.') == std::string::npos) all.push_back(entry.path());
  }
  // Zero-padded, so the order of names is the order of steps.
  std::sort(all.begin(), all.end());
  return all;
}

bool CheckpointStore::empty() const { return list().empty(); }

std::optional<Checkpoint> CheckpointStore::newest() const {
  const std::vector<fs::path> all = list();
  if (all.empty()) return std::nullopt;
  const fs::path& path = all.back();
  Json json;
  Checkpoint checkpoint{.path = path, .state = {}};
  with_context(fmt::format("remove {} to continue from the checkpoint before", path.string()), [&] {
    json = read_json_file(path / kStateFile);
    checkpoint.state = state_from_json(json, path / kStateFile);
  });
  check_digests(path, json);
  return checkpoint;
}

void CheckpointStore::clean_up() const {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().find(".tmp-") != std::string::npos)
      leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

void CheckpointStore::remove_all() const {
  std::error_code error;
  fs::remove_all(folder_, error);
  if (error) fail(ErrorCode::kIo, "cannot remove {}: {}", folder_.string(), error.message());
}

}  // namespace calyrex::train
