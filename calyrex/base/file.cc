#include "calyrex/base/file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calyrex/base/error.h"

namespace calyrex {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_io(std::string_view action, const fs::path& path) {
  const int error = errno;
  const bool absent = error == ENOENT || error == ENOTDIR;
  const char* hint = error == ENOSPC ? "; free some space and try again" : "";
  fail(absent ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot {} {}: {}{}", action, path.string(),
       std::strerror(error), hint);
}

void write_all(int descriptor, const std::byte* data, size_t size, const fs::path& path) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io("write", path);
    data += written;
    size -= static_cast<size_t>(written);
  }
}

/// Makes a rename durable: syncs the folder that holds the name.
void sync_directory(const fs::path& path) {
  const fs::path folder = path.empty() ? fs::path(".") : path;
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

constexpr std::string_view kTemporaryMark = ".tmp-";

fs::path temporary_name(const fs::path& path) {
  static std::atomic<int> counter{0};
  fs::path name = path;
  name += fmt::format("{}{}-{}", kTemporaryMark, ::getpid(), counter.fetch_add(1));
  return name;
}

/// The process that a name of temporary_name() tells; none for other names.
std::optional<pid_t> temporary_writer(const std::string& name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string::npos) return std::nullopt;
  pid_t process = 0;
  int count = 0, length = 0;
  const std::string numbers = name.substr(mark + kTemporaryMark.size());
  const bool whole = std::sscanf(numbers.c_str(), "%9d-%9d%n", &process, &count, &length) == 2 &&
                     static_cast<size_t>(length) == numbers.size();
  return whole && process > 0 ? std::optional(process) : std::nullopt;
}

/// Held by whoever writes a temporary file or folder, and free once the process is gone.
bool lock_writer(int descriptor) { return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0; }

/// By its process, as far as this host knows it (a file is locked a moment after it appears), and by its
/// lock.
bool is_abandoned(const fs::path& path, pid_t writer) {
  if (::kill(writer, 0) == 0) return false;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool free = lock_writer(descriptor);
  ::close(descriptor);
  return free;
}

constexpr size_t kMaxStreamBytes = size_t{1} << 30;

/// What the process was started with (/dev/stdin, /dev/fd/N), where that is a pipe or terminal. A pipe with a
/// name of its own may never have a writer, and is no file to read twice.
bool is_stream(const fs::path& path) {
  if (!path.native().starts_with("/dev/") && !path.native().starts_with("/proc/self/fd/")) return false;
  std::error_code ignored;
  return fs::is_fifo(path, ignored) || fs::is_character_file(path, ignored);
}

/// Reads a pipe or terminal to its end.
std::string read_stream(const fs::path& path, size_t max_bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_io("open", path);
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || text.size() > max_bytes) {
      const int error = errno;
      ::close(descriptor);
      errno = error;
      if (count < 0) fail_io("read", path);
      break;
    }
    text.append(buffer, static_cast<size_t>(count));
  }
  if (text.size() > max_bytes) {
    fail(ErrorCode::kInvalidArgument, "{} has more than the {} bytes that are read here", path.string(),
         max_bytes);
  }
  return text;
}

}  // namespace

MappedFile MappedFile::open(const fs::path& path) {
  // Without O_NONBLOCK a pipe would wait here for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_io("open", path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    fail(ErrorCode::kInvalidArgument, "{} is not a regular file; name a file", path.string());
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(status.st_size);
  if (file.size_ > 0) {
    void* address = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(descriptor);
      errno = error;
      fail_io("map", path);
    }
    file.data_ = static_cast<const std::byte*>(address);
  }
  ::close(descriptor);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

bool path_exists(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
  fail_io("look at", path);
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_io("write", to);
}

std::string read_file(const fs::path& path, size_t max_bytes) {
  if (is_stream(path)) return read_stream(path, max_bytes);
  const MappedFile file = MappedFile::open(path);
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    fail(ErrorCode::kInvalidArgument, "{} has {} bytes; at most {} are read here", path.string(),
         bytes.size(), max_bytes);
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_io("create", temporary_);
  lock_writer(descriptor_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, bytes.data(), bytes.size(), path_);
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_io("sync", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_io("rename into place", path_);
  ::close(descriptor_);
  descriptor_ = -1;
  sync_directory(path_.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AtomicDirectory::AtomicDirectory(fs::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // "runs/demo/" names runs/demo
  if (path_.empty()) fail(ErrorCode::kInvalidArgument, "the name of the folder to write is empty");
  if (path_exists(path_) && !fs::is_directory(path_)) {
    fail(ErrorCode::kInvalidArgument, "{} exists and is no folder; choose another output", path_.string());
  }
  staging_ = temporary_name(path_);
  make_directories(staging_);
  descriptor_ = ::open(staging_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) fail_io("open", staging_);
  lock_writer(descriptor_);
}

AtomicDirectory::~AtomicDirectory() {
  ::close(descriptor_);
  std::error_code ignored;
  if (!committed_) fs::remove_all(staging_, ignored);
}

void AtomicDirectory::commit() {
  sync_directory(staging_);
  std::error_code error;
  if (fs::exists(path_)) {
    const fs::path old = temporary_name(path_);
    fs::rename(path_, old, error);
    if (!error) fs::rename(staging_, path_, error);
    if (error) fail(ErrorCode::kIo, "cannot replace {}: {}", path_.string(), error.message());
    fs::remove_all(old, error);
  } else {
    fs::rename(staging_, path_, error);
    if (error) fail(ErrorCode::kIo, "cannot create {}: {}", path_.string(), error.message());
  }
  committed_ = true;
  sync_directory(path_.parent_path());
}

void AtomicDirectory::commit_files(std::string_view mark) {
  if (!path_exists(path_)) return commit();
  if (path_exists(path_ / mark)) rename_path(path_ / mark, staging_ / (std::string(mark) + ".old"));
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(staging_)) {
    const fs::path name = entry.path().filename();
    if (name != mark && name != std::string(mark) + ".old") names.push_back(name);
  }
  names.emplace_back(mark);
  for (const fs::path& name : names) rename_path(staging_ / name, path_ / name);
  sync_directory(path_);
}

void remove_abandoned_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::optional<pid_t> writer = temporary_writer(entry->path().filename().string());
    if (!writer) continue;
    if (entry->is_directory(error)) entry.disable_recursion_pending();
    if (is_abandoned(entry->path(), *writer)) found.push_back(entry->path());
  }
  for (const fs::path& path : found) fs::remove_all(path, error);
}

LineWriter::LineWriter(fs::path path, Mode mode) : path_(std::move(path)) {
  const int how = mode == Mode::kAppend ? O_APPEND : O_TRUNC;
  // Opened anew, a file behind standard output would lose what stands in it already.
  descriptor_ = path_ == "/dev/stdout" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                       : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644);
  if (descriptor_ < 0) fail_io("open for writing", path_);
}

LineWriter::LineWriter(LineWriter&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

LineWriter::~LineWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineWriter::write_line(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  write_all(descriptor_, reinterpret_cast<const std::byte*>(whole.data()), whole.size(), path_);
}

void for_each_line(const fs::path& path, size_t max_line_bytes,
                   const std::function<void(int64_t, std::string_view)>& line) {
  std::optional<MappedFile> file;
  std::string stream;
  std::string_view rest;
  if (is_stream(path)) {
    rest = stream = read_stream(path, kMaxStreamBytes);
  } else {
    file = MappedFile::open(path);
    rest = {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
  }
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    std::string_view text = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.size() > max_line_bytes) {
      fail(ErrorCode::kInvalidArgument, "{}:{}: line of {} bytes; at most {} are read", path.string(), number,
           text.size(), max_line_bytes);
    }
    line(number, text);
  }
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorCode::kIo, "cannot create folder {}: {}", path.string(), error.message());
}

}  // namespace calyrex
