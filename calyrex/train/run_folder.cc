#include "calyrex/train/run_folder.h"

#include <utility>

#include <fmt/format.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/train/model_card.h"

namespace calyrex::train {
namespace {
namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr const char* kRecordFile = "training.json";
/// Everything a run writes, in the order of removal: what makes it an adapter folder first, the record last.
constexpr std::array<const char*, 9> kOwnFiles = {"adapter_config.json",
                                                  "adapter_model.safetensors",
                                                  "calyrex.json",
                                                  "chat_template.jinja",
                                                  "README.md",
                                                  "metrics.jsonl",
                                                  "prefix_cache",
                                                  "checkpoints",
                                                  kRecordFile};

Json files_to_json(const std::vector<DataFile>& files) {
  Json list = Json::array();
  for (const DataFile& file : files) {
    list.push_back({{"path", file.path}, {"sha256", file.sha256}, {"rows", file.num_rows}});
  }
  return list;
}

std::vector<DataFile> files_from_json(const Json& json) {
  std::vector<DataFile> files;
  for (const Json& entry : json) {
    files.push_back({.path = entry.at("path").get<std::string>(),
                     .sha256 = entry.at("sha256").get<std::string>(),
                     .num_rows = entry.at("rows").get<int64_t>()});
  }
  return files;
}

void add_file_differences(const std::vector<DataFile>& before, const std::vector<DataFile>& after,
                          std::string_view key, std::vector<std::string>& differences) {
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (before[i].path == after[i].path && before[i].sha256 != after[i].sha256) {
      differences.push_back(fmt::format("{}[{}]: the content of {} has changed", key, i, after[i].path));
    }
  }
}

/// Whether a run of kind full wrote into the folder, so that the model's files are its own.
bool holds_trained_model(const fs::path& folder) {
  if (!fs::exists(folder / kRecordFile)) return false;
  const Json record = read_json_file(folder / kRecordFile);
  return record.is_object() && record.value("/config/adapter/kind"_json_pointer, Json()) == "full";
}

}  // namespace

Json record_to_json(const RunRecord& record) {
  Json json = {
      {"format", "calyrex-training"},
      {"version", kVersion},
      {"status", std::string(to_string(record.status))},
      {"config", record.config},
      {"seed", record.config.value("/train/seed"_json_pointer, Json(nullptr))},
      {"chat_date", record.chat_date ? Json(*record.chat_date) : Json(nullptr)},
      {"data", {{"train", files_to_json(record.train_files)}, {"eval", files_to_json(record.eval_files)}}}};
  for (const auto& [key, value] : record.results.items()) json[key] = value;
  return json;
}

RunRecord record_from_json(const Json& json, std::string_view source) {
  try {
    if (json.at("format") != "calyrex-training" || json.at("version") != kVersion) {
      fail(ErrorCode::kUnsupported, "{}: not a training record of version {}", source, kVersion);
    }
    RunRecord record;
    record.status =
        json.at("status") == "finished" ? RunRecord::Status::kFinished : RunRecord::Status::kRunning;
    record.config = json.at("config");
    if (!record.config.is_object()) fail(ErrorCode::kCorruptData, "{}: \"config\" is no object", source);
    if (!json.at("chat_date").is_null()) record.chat_date = json.at("chat_date").get<std::string>();
    record.train_files = files_from_json(json.at("data").at("train"));
    record.eval_files = files_from_json(json.at("data").at("eval"));
    return record;
  } catch (const Json::exception& error) {
    fail(ErrorCode::kCorruptData, "{}: not a whole training record ({}); --restart begins anew", source,
         error.what());
  }
}

void check_same_run(const RunRecord& existing, const RunRecord& wanted, const fs::path& folder) {
  Json before = write_fields(TrainConfig{});  // for keys that came after that run
  before.update(existing.config, /*merge_objects=*/true);
  std::vector<std::string> differences = config_differences(before, wanted.config);
  add_file_differences(existing.train_files, wanted.train_files, "data.train", differences);
  add_file_differences(existing.eval_files, wanted.eval_files, "data.eval", differences);
  if (differences.empty()) return;
  fail(ErrorCode::kInvalidArgument,
       "{} holds {} run of another configuration ({}); give the old settings to continue it, another output, "
       "or "
       "--restart to begin anew",
       folder.string(), existing.status == RunRecord::Status::kFinished ? "a finished" : "an unfinished",
       fmt::join(differences, "; "));
}

RunFolder::RunFolder(fs::path path)
    : path_(std::move(path)), lock_(FolderLock::lock_output(path_, "is training into")) {}

std::optional<RunRecord> RunFolder::read_record() const {
  const fs::path file = path_ / kRecordFile;
  if (!fs::exists(file)) return std::nullopt;
  return record_from_json(read_json_file(file), file.string());
}

void RunFolder::write_record(const RunRecord& record) const {
  write_file_atomically(path_ / kRecordFile, to_json_text(record_to_json(record)));
}

void RunFolder::restart() const {
  if (holds_trained_model(path_)) {
    for (const std::string& name : weights::model_folder_files()) fs::remove(path_ / name);
  }
  for (const char* name : kOwnFiles) {
    std::error_code error;
    fs::remove_all(path_ / name, error);
    if (error) fail(ErrorCode::kIo, "cannot remove {}: {}", (path_ / name).string(), error.message());
  }
}

void RunFolder::remove_prefix_cache() const {
  std::error_code ignored;
  fs::remove_all(path_ / "prefix_cache", ignored);
}

void RunFolder::clean_up() const {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    for (const char* own : kOwnFiles) {
      if (name.starts_with(std::string(own) + ".tmp-")) leftovers.push_back(entry.path());
    }
  }
  std::error_code ignored;
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

void RunFolder::write_adapter(const weights::AdapterConfig& config, const model::Adapter& adapter,
                              weights::DType dtype, const std::string& chat_template,
                              const RunRecord& record) const {
  with_context("saving the adapter", [&] {
    const model::AdapterTensors exported = model::export_tensors(adapter, dtype);
    weights::write_adapter(path_, config, exported.tensors,
                           {{"chat_template.jinja", chat_template},
                            {"README.md", adapter_card(config, record, adapter.num_parameters())}});
    write_record(record);
  });
}

void RunFolder::write_model(const weights::ModelSource& source, const model::Adapter& trained,
                            weights::DType dtype, const std::optional<weights::TokenizerFiles>& tokenizer,
                            const std::string& chat_template, const RunRecord& record) const {
  with_context("saving the model", [&] {
    const model::AdapterTensors exported = model::export_tensors(trained, dtype);
    const std::string card = full_model_card(source.name(), record, trained.num_parameters());
    weights::write_model_folder(path_, source, exported.tensors, tokenizer, chat_template,
                                {{"README.md", card}});
    write_record(record);
  });
}

}  // namespace calyrex::train
