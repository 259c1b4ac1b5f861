// Fetching single files of one hub repository.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace calyrex::weights {

struct HubEndpoint {
  std::string url;    // without a final slash
  std::string token;  // empty: none
};

enum class HubFile { kRequired, kOptional };

/// Not thread-safe. Errors as fetch_hub_model().
class HubDownload {
 public:
  HubDownload(HubEndpoint endpoint, std::string repository, std::string revision);

  /// Asks for a file and learns which commit the revision stands for (a hub that does not say: the revision
  /// itself).
  std::string resolve_commit(const std::string& file);

  /// Makes `folder`/`file` complete; false when the repository has no such optional file. What came before a
  /// break is kept as "<file>.incomplete" and continued by the next attempt or the next run.
  bool fetch(const std::filesystem::path& folder, const std::string& file, HubFile need);

 private:
  struct Expected {
    std::optional<uint64_t> size;
    std::optional<std::string> sha256;
  };
  enum class Step { kDone, kAbsent, kAgain };

  std::string url(const std::string& file) const;
  Step attempt(const std::filesystem::path& partial, const std::string& file, HubFile need,
               Expected& expected);
  void finish(const std::filesystem::path& partial, const std::filesystem::path& target,
              const Expected& expected);
  [[noreturn]] void fail_status(int64_t status, const std::string& file) const;

  HubEndpoint endpoint_;
  std::string repository_;
  std::string revision_;
};

}  // namespace calyrex::weights
