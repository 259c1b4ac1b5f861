#include "calyrex/weights/hub.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/weights/hub_download.h"
#include "calyrex/weights/shard_index.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";
constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// Small files that a model may have beside its weights.
constexpr std::array<std::string_view, 6> kOptionalFiles = {
    "generation_config.json",  "tokenizer.json",      "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja", "tokenizer.model"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

fs::path cache_folder() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string home = environment("HOME");
  if (home.empty()) fail(ErrorCode::kNotFound, "no cache for models: set HF_HOME or HOME");
  return fs::path(home) / ".cache" / "huggingface" / "hub";
}

/// models--org--name in the cache.
fs::path repository_folder(const HubName& name) {
  std::string folder = "models--" + name.repository;
  folder.replace(folder.find('/'), 1, "--");
  return cache_folder() / folder;
}

bool is_name(std::string_view text) {
  constexpr size_t kMaxBytes = 96;
  const bool letters = std::all_of(text.begin(), text.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
  });
  return letters && !text.empty() && text.size() <= kMaxBytes && text.front() != '.' && text.front() != '-' &&
         text.find("..") == std::string_view::npos && text.find("--") == std::string_view::npos;
}

/// A branch, tag or commit; branches may have slashes ("refs/pr/1").
bool is_revision(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!is_name(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

/// Names of the weight files in a folder that holds either model.safetensors or the index; empty when neither
/// is there.
std::vector<std::string> weight_files(const fs::path& folder) {
  if (path_exists(folder / kSingleFile)) return {std::string(kSingleFile)};
  std::vector<std::string> names;
  if (path_exists(folder / kIndexFile)) {
    for (const auto& [shard, tensors] : read_shard_index(folder / kIndexFile)) names.push_back(shard);
  }
  return names;
}

bool is_complete(const fs::path& snapshot) {
  const std::vector<std::string> weights = weight_files(snapshot);
  return path_exists(snapshot / kConfigFile) && !weights.empty() &&
         std::all_of(weights.begin(), weights.end(),
                     [&](const std::string& name) { return path_exists(snapshot / name); });
}

/// The commit that the cache knows for a revision: what refs/<revision> says, or the revision itself.
std::string cached_commit(const fs::path& repository, const std::string& revision) {
  constexpr size_t kMaxRefBytes = 200;
  const fs::path ref = repository / "refs" / revision;
  if (!fs::is_regular_file(ref)) return revision;
  std::string commit = read_file(ref, kMaxRefBytes);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
  return is_name(commit) ? commit : revision;
}

/// Held while files are fetched, so that two processes do not write one download.
class RepositoryLock {
 public:
  explicit RepositoryLock(const fs::path& folder) {
    make_directories(folder);
    const fs::path path = folder / "calyrex.lock";
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail(ErrorCode::kIo, "cannot create {}", path.string());
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    log_info("waiting for another process that downloads the same model");
    ::flock(descriptor_, LOCK_EX);
  }
  RepositoryLock(const RepositoryLock&) = delete;
  RepositoryLock& operator=(const RepositoryLock&) = delete;
  ~RepositoryLock() { ::close(descriptor_); }

 private:
  int descriptor_ = -1;
};

HubEndpoint endpoint() {
  HubEndpoint result{.url = environment("HF_ENDPOINT"), .token = environment("HF_TOKEN")};
  if (result.url.empty()) result.url = kDefaultEndpoint;
  while (result.url.ends_with('/')) result.url.pop_back();
  return result;
}

fs::path download_model(const HubName& name, const fs::path& repository) {
  HubDownload download(endpoint(), name.repository, name.revision);
  // The first file tells the commit that the revision stands for; all others are fetched from that commit.
  const fs::path snapshots = repository / "snapshots";
  const std::string commit = download.resolve_commit(std::string(kConfigFile));
  if (!is_name(commit)) fail(ErrorCode::kUnavailable, "{}: the hub names no commit", name.repository);
  const fs::path snapshot = snapshots / commit;
  make_directories(snapshot);
  download.fetch(snapshot, std::string(kConfigFile), HubFile::kRequired);
  for (const std::string_view file : kOptionalFiles)
    download.fetch(snapshot, std::string(file), HubFile::kOptional);
  if (weight_files(snapshot).empty() &&
      !download.fetch(snapshot, std::string(kIndexFile), HubFile::kOptional) &&
      !download.fetch(snapshot, std::string(kSingleFile), HubFile::kOptional)) {
    fail(ErrorCode::kUnsupported, "{} has no safetensors weights", name.repository);
  }
  for (const std::string& file : weight_files(snapshot)) download.fetch(snapshot, file, HubFile::kRequired);
  const fs::path ref = repository / "refs" / name.revision;
  make_directories(ref.parent_path());
  if (commit != name.revision) write_file_atomically(ref, commit);
  return snapshot;
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = text.substr(at + 1);
    text = text.substr(0, at);
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || !is_name(text.substr(0, slash)) ||
      !is_name(text.substr(slash + 1)) || !is_revision(name.revision)) {
    return std::nullopt;
  }
  name.repository = text;
  return name;
}

fs::path fetch_hub_model(const HubName& name) {
  const fs::path repository = repository_folder(name);
  const auto cached = [&] { return repository / "snapshots" / cached_commit(repository, name.revision); };
  if (const fs::path snapshot = cached(); is_complete(snapshot)) return snapshot;
  if (environment("HF_HUB_OFFLINE") == "1") {
    fail(ErrorCode::kNotFound, "{} is not whole in the cache {}, and HF_HUB_OFFLINE forbids to fetch it",
         name.repository, cache_folder().string());
  }
  const RepositoryLock lock(cache_folder() / ".locks" / repository.filename());
  if (const fs::path snapshot = cached(); is_complete(snapshot)) return snapshot;
  log_info("downloading {} ({}) into {}", name.repository, name.revision, repository.string());
  return with_context(fmt::format("downloading {}", name.repository),
                      [&] { return download_model(name, repository); });
}

}  // namespace calyrex::weights
