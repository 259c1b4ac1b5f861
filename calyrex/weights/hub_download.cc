#include "calyrex/weights/hub_download.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"
#include "calyrex/weights/http_client.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kOk = 200;
constexpr int64_t kPartialContent = 206;
constexpr int64_t kUnauthorized = 401;
constexpr int64_t kForbidden = 403;
constexpr int64_t kNotFound = 404;
constexpr int64_t kRangeNotSatisfiable = 416;
constexpr int64_t kTooManyRequests = 429;
constexpr int kMaxFailures = 3;  // in a row, without one byte received between them
constexpr uint64_t kMaxSmallFileBytes = 256 << 20;

std::optional<std::string> header(const HttpResponse& response, const std::string& name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t size = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), size);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? std::optional(size)
                                                                             : std::nullopt;
}

/// Size of the whole file: what the hub states of large files, or what "Content-Range: bytes */123" tells.
std::optional<uint64_t> whole_size(const HttpResponse& response) {
  if (const auto size = header(response, "x-linked-size")) return parse_size(*size);
  const std::optional<std::string> range = header(response, "content-range");
  return range ? parse_size(std::string_view(*range).substr(range->find('/') + 1)) : std::nullopt;
}

/// The hub gives weights an entity tag that is their SHA-256; other tags say nothing about the bytes.
std::optional<std::string> parse_digest(std::string text) {
  constexpr size_t kDigits = 64;
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  const bool digits = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return digits && text.size() == kDigits ? std::optional(text) : std::nullopt;
}

uint64_t bytes_on_disk(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

/// A download in progress on disk.
class PartialFile {
 public:
  PartialFile(const fs::path& path, uint64_t keep) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(keep)) != 0 ||
        ::lseek(descriptor_, 0, SEEK_END) < 0) {
      fail(ErrorCode::kIo, "cannot write {}", path.string());
    }
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() { ::close(descriptor_); }

  void sync() {
    if (::fsync(descriptor_) != 0) fail(ErrorCode::kIo, "cannot write {}", path_.string());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(ErrorCode::kIo, "cannot write {}: free some space and try again", path_.string());
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
};

/// "model.safetensors: 35 % of 271 MB, 12 MB/s".
class DownloadProgress {
 public:
  DownloadProgress(std::string file, uint64_t done) : file_(std::move(file)), begin_(done), done_(done) {}

  void add(uint64_t bytes, std::optional<uint64_t> total) {
    constexpr double kMegabyte = 1e6;
    done_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    const double seconds = std::max(0.1, std::chrono::duration<double>(now - start_).count());
    const std::string part =
        total && *total > 0
            ? fmt::format("{} % of {:.0f} MB", done_ * 100 / *total, static_cast<double>(*total) / kMegabyte)
            : fmt::format("{:.0f} MB", static_cast<double>(done_) / kMegabyte);
    line_.show(fmt::format("{}: {}, {:.1f} MB/s", file_, part,
                           static_cast<double>(done_ - begin_) / seconds / kMegabyte));
  }

 private:
  std::string file_;
  uint64_t begin_;
  uint64_t done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = start_;
  ProgressLine line_;
};

std::string escape_slashes(const std::string& text) {
  std::string result;
  for (const char letter : text) result += letter == '/' ? std::string("%2F") : std::string(1, letter);
  return result;
}

}  // namespace

HubDownload::HubDownload(HubEndpoint endpoint, std::string repository, std::string revision)
    : endpoint_(std::move(endpoint)), repository_(std::move(repository)), revision_(std::move(revision)) {}

std::string HubDownload::url(const std::string& file) const {
  return fmt::format("{}/{}/resolve/{}/{}", endpoint_.url, repository_, escape_slashes(revision_), file);
}

void HubDownload::fail_status(int64_t status, const std::string& file) const {
  if (status == kNotFound) {
    fail(ErrorCode::kNotFound, "{} has no file {} at {}", repository_, file, revision_);
  }
  if (status == kUnauthorized || status == kForbidden) {
    fail(ErrorCode::kUnavailable,
         "{} does not exist or needs permission (HTTP {}); accept its terms on the hub and set HF_TOKEN",
         repository_, status);
  }
  fail(ErrorCode::kUnavailable, "{}: HTTP {}", url(file), status);
}

std::string HubDownload::resolve_commit(const std::string& file) {
  const HttpResponse response = http_get({.url = url(file), .bearer_token = endpoint_.token},
                                         [](const HttpResponse&, std::span<const std::byte>) {});
  if (response.status != kOk) fail_status(response.status, file);
  revision_ = header(response, "x-repo-commit").value_or(revision_);
  return revision_;
}

bool HubDownload::fetch(const fs::path& folder, const std::string& file, HubFile need) {
  const fs::path target = folder / file;
  if (path_exists(target)) return true;
  fs::path partial = target;
  partial += ".incomplete";
  Expected expected;
  for (int failures = 0;;) {
    const uint64_t before = bytes_on_disk(partial);
    try {
      const Step step = attempt(partial, file, need, expected);
      if (step == Step::kDone) break;
      if (step == Step::kAbsent) return false;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      failures = bytes_on_disk(partial) > before ? 1 : failures + 1;
      if (failures >= kMaxFailures) throw;
      log_warning("{}; trying again", error.what());
      std::this_thread::sleep_for(std::chrono::milliseconds(500) * failures);
    }
  }
  finish(partial, target, expected);
  return true;
}

HubDownload::Step HubDownload::attempt(const fs::path& partial, const std::string& file, HubFile need,
                                       Expected& expected) {
  const uint64_t kept = bytes_on_disk(partial);
  std::optional<PartialFile> output;
  DownloadProgress progress(file, kept);
  const bool small = !file.ends_with(".safetensors");
  uint64_t received = 0;
  const auto take = [&](const HttpResponse& response, std::span<const std::byte> bytes) {
    if (response.status != kOk && response.status != kPartialContent) return;
    if (!output) {
      output.emplace(partial, response.status == kPartialContent ? kept : 0);
      received = response.status == kPartialContent ? kept : 0;
    }
    received += bytes.size();
    if (small && received > kMaxSmallFileBytes) {
      fail(ErrorCode::kUnsupported, "{} is larger than {} MB", file, kMaxSmallFileBytes >> 20);
    }
    output->write(bytes);
    progress.add(bytes.size(), expected.size);
  };
  const HttpResponse response =
      http_get({.url = url(file), .bearer_token = endpoint_.token, .first_byte = kept},
               [&](const HttpResponse& head, std::span<const std::byte> bytes) {
                 if (const auto size = whole_size(head)) expected.size = size;
                 take(head, bytes);
               });
  if (response.status ==
      kRangeNotSatisfiable) {  // nothing is left to send, or the kept part is not of this file
    if (whole_size(response) == kept) return Step::kDone;
    fs::remove(partial);
    return Step::kAgain;
  }
  if (response.status == kNotFound && need == HubFile::kOptional) return Step::kAbsent;
  if (response.status != kOk && response.status != kPartialContent) fail_status(response.status, file);
  if (!output) output.emplace(partial, kept);  // an empty body
  output->sync();
  if (const auto tag = header(response, "x-linked-etag")) expected.sha256 = parse_digest(*tag);
  return Step::kDone;
}

void HubDownload::finish(const fs::path& partial, const fs::path& target, const Expected& expected) {
  const uint64_t size = bytes_on_disk(partial);
  bool matches = !expected.size || size == *expected.size;
  if (matches && expected.sha256) {
    Sha256 hash;
    hash.update(MappedFile::open(partial).bytes());
    matches = hash.hex_digest() == *expected.sha256;
  }
  if (!matches) {
    fs::remove(partial);
    fail(ErrorCode::kCorruptData, "{} is not the file that the hub describes ({} bytes received); try again",
         target.filename().string(), size);
  }
  rename_path(partial, target);
}

}  // namespace calyrex::weights
