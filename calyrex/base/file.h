// Files: bounded reads, memory maps, and writes that are either whole or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace calyrex {

/// Read-only memory map of a whole file. Movable; unmapped on destruction.
class MappedFile {
 public:
  /// Throws kNotFound, kIo, and kInvalidArgument for what is no regular file.
  static MappedFile open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile() = default;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Whether something of that name is there (links followed). Throws kIo when the system forbids to look.
bool path_exists(const std::filesystem::path& path);

/// Renames or moves within a file system. Throws kIo.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Whole file, or /dev/stdin or /dev/fd/N up to its end, as a string. Throws kNotFound, kIo, and
/// kInvalidArgument when it is larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

/// Writes next to `path` under a temporary name, syncs, and renames on commit(). Without commit() nothing is
/// left. A failed write (disk full) throws kIo with the path and leaves an existing file as it was.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// A folder that appears whole: files are written into `staging()`, then one of the commits puts them at
/// `path`. Without a commit nothing is left.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(std::filesystem::path path);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  ~AtomicDirectory();

  const std::filesystem::path& staging() const { return staging_; }
  /// Renames the folder to `path`; an older one of that name is replaced with all that it holds.
  void commit();
  /// Moves the files into a folder that may hold others, which stay. `mark` is the file that makes the folder
  /// what it is: the old one goes first and the new one comes last, so that a stop in between leaves none
  /// rather than a mixture.
  void commit_files(std::string_view mark);

 private:
  std::filesystem::path path_;
  std::filesystem::path staging_;
  int descriptor_ = -1;  // of the staging folder, locked
  bool committed_ = false;
};

/// Removes temporary files and folders that AtomicFile and AtomicDirectory of ended processes left below a
/// folder; those of a living writer, on this host or another, stay.
void remove_abandoned_files(const std::filesystem::path& folder);

/// Appends whole lines to a log (metrics.jsonl, samples.jsonl). Each line reaches the file in one write.
/// /dev/stdout goes on behind what is there in either mode.
class LineWriter {
 public:
  enum class Mode { kTruncate, kAppend };
  LineWriter(std::filesystem::path path, Mode mode);
  LineWriter(LineWriter&& other) noexcept;
  LineWriter& operator=(LineWriter&& other) = delete;
  ~LineWriter();

  void write_line(std::string_view line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Calls `line(number, text)` for every line of a text file (or /dev/stdin, /dev/fd/N), numbered from 1,
/// without its line end. A line longer than `max_line_bytes` throws kInvalidArgument with file:line.
void for_each_line(const std::filesystem::path& path, size_t max_line_bytes,
                   const std::function<void(int64_t, std::string_view)>& line);

/// Creates a folder and its parents. Throws kIo.
void make_directories(const std::filesystem::path& path);

}  // namespace calyrex
