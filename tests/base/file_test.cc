#include "calyrex/base/file.h"

#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calyrex/base/error.h"

namespace calyrex {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() : folder_(fs::temp_directory_path() / ("calyrex-file-test-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    make_directories(folder_);
  }
  ~File() override { fs::remove_all(folder_); }

  int64_t num_entries() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST_F(File, AtomicFileIsWholeOrAbsent) {
  const fs::path path = folder_ / "a.txt";
  {
    AtomicFile file(path);
    file.write("half");
  }
  EXPECT_EQ(num_entries(), 0);
  write_file_atomically(path, "first");
  write_file_atomically(path, "second");
  EXPECT_EQ(read_file(path, 100), "second");
  EXPECT_EQ(num_entries(), 1);
}

TEST_F(File, AFullDiskKeepsTheOldFile) {
  const fs::path path = folder_ / "a.txt";
  write_file_atomically(path, "old");
  // A limit on file size stands for a full disk: the write fails half way.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const ErrorCode code = code_of([&] { write_file_atomically(path, std::string(100'000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(code, ErrorCode::kIo);
  EXPECT_EQ(read_file(path, 100), "old");
  EXPECT_EQ(num_entries(), 1);
}

TEST_F(File, AtomicDirectoryReplacesAnOlderOne) {
  const fs::path path = folder_ / "run";
  for (const std::string name : {"one", "two"}) {
    AtomicDirectory directory(path);
    write_file_atomically(directory.staging() / name, name);
    directory.commit();
  }
  EXPECT_FALSE(fs::exists(path / "one"));
  EXPECT_EQ(read_file(path / "two", 100), "two");
  { AtomicDirectory abandoned(path); }
  EXPECT_EQ(num_entries(), 1);
}

TEST_F(File, AtomicDirectoryGivesItsFilesToAFolderThatHoldsOthers) {
  const fs::path path = folder_ / "run";
  make_directories(path);
  write_file_atomically(path / "mine", "kept");
  for (const std::string text : {"one", "two"}) {
    AtomicDirectory directory(path);
    write_file_atomically(directory.staging() / "data", text);
    write_file_atomically(directory.staging() / "manifest", text);
    directory.commit_files("manifest");
  }
  EXPECT_EQ(read_file(path / "mine", 100), "kept");
  EXPECT_EQ(read_file(path / "data", 100), "two");
  EXPECT_EQ(read_file(path / "manifest", 100), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 3);
  EXPECT_EQ(num_entries(), 1);
}

TEST_F(File, AtomicDirectoryTakesNoFilesPlaceAndNoEmptyName) {
  write_file_atomically(folder_ / "file", "kept");
  EXPECT_EQ(code_of([&] { AtomicDirectory directory(folder_ / "file"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { AtomicDirectory directory(""); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_file(folder_ / "file", 100), "kept");
}

TEST_F(File, ErrorsHaveTheirCodes) {
  EXPECT_EQ(code_of([&] { read_file(folder_ / "absent", 10); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile::open(folder_); }), ErrorCode::kInvalidArgument);
  write_file_atomically(folder_ / "big", "12345");
  EXPECT_EQ(code_of([&] { read_file(folder_ / "big", 4); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { write_file_atomically(folder_ / "no" / "file", ""); }), ErrorCode::kNotFound);
}

/// A pipe as a shell hands it over, with a writer at its other end.
class ShellPipe {
 public:
  explicit ShellPipe(std::string text) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    reader_ = ends[0];
    writer_ = std::thread([end = ends[1], text = std::move(text)] {
      std::signal(SIGPIPE, SIG_IGN);
      size_t written = 0;
      while (written < text.size()) {
        const ssize_t count = ::write(end, text.data() + written, text.size() - written);
        if (count < 0) break;
        written += static_cast<size_t>(count);
      }
      ::close(end);
    });
  }
  ~ShellPipe() {
    ::close(reader_);
    writer_.join();
  }
  fs::path path() const { return "/dev/fd/" + std::to_string(reader_); }

 private:
  int reader_ = -1;
  std::thread writer_;
};

TEST_F(File, APipeOfTheShellIsReadToItsEnd) {
  const std::string text(150'000, 'x');
  EXPECT_EQ(read_file(ShellPipe(text).path(), 200'000), text);
  const ShellPipe pipe(text);
  EXPECT_EQ(code_of([&] { read_file(pipe.path(), 1000); }), ErrorCode::kInvalidArgument);
}

TEST_F(File, WhatIsNoRegularFileIsRefusedAtOnce) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Nobody writes into the pipe: reading it would never end.
  for (const fs::path& path : {pipe, folder_}) {
    EXPECT_EQ(code_of([&] { MappedFile::open(path); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { read_file(path, 10); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { for_each_line(path, 10, [](int64_t, std::string_view) {}); }),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([&] { MappedFile::open("/dev/zero"); }), ErrorCode::kInvalidArgument);
}

TEST_F(File, OnlyFilesOfEndedWritersAreAbandoned) {
  // A process number that no process has: of a child that has ended.
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  const auto temporary = [&](const std::string& name, pid_t writer) {
    return folder_ / (name + ".tmp-" + std::to_string(writer) + "-0");
  };
  make_directories(folder_ / "deep");
  write_file_atomically(temporary("deep/left", ended), "");
  make_directories(temporary("folder", ended) / "inside");
  write_file_atomically(temporary("ours", ::getpid()), "");
  write_file_atomically(folder_ / "notes.tmp-old", "");
  const fs::path elsewhere = temporary("elsewhere", ended);  // written on another host
  write_file_atomically(elsewhere, "");
  const int lock = ::open(elsewhere.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  AtomicFile open_file(folder_ / "file");
  AtomicDirectory open_folder(folder_ / "directory");
  remove_abandoned_files(folder_);
  EXPECT_FALSE(fs::exists(temporary("deep/left", ended)));
  EXPECT_FALSE(fs::exists(temporary("folder", ended)));
  EXPECT_TRUE(fs::exists(temporary("ours", ::getpid())));
  EXPECT_TRUE(fs::exists(folder_ / "notes.tmp-old"));
  EXPECT_TRUE(fs::exists(elsewhere)) << "its writer holds it";
  ::close(lock);
  open_file.commit();
  open_folder.commit();
  EXPECT_TRUE(fs::exists(folder_ / "file"));
  remove_abandoned_files(folder_);
  EXPECT_FALSE(fs::exists(elsewhere));
}

TEST_F(File, WritersHoldTheirFiles) {
  AtomicFile file(folder_ / "file");
  const AtomicDirectory directory(folder_ / "directory");
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const int descriptor = ::open(entry.path().c_str(), O_RDONLY);
    EXPECT_NE(::flock(descriptor, LOCK_EX | LOCK_NB), 0) << entry.path();
    ::close(descriptor);
  }
}

TEST_F(File, LinesAreNumberedFromOneAndLoseTheirEnds) {
  const fs::path path = folder_ / "lines";
  write_file_atomically(path, "a\r\n\nb");
  std::vector<std::pair<int64_t, std::string>> lines;
  for_each_line(path, 100, [&](int64_t number, std::string_view line) { lines.emplace_back(number, line); });
  EXPECT_EQ(lines, (std::vector<std::pair<int64_t, std::string>>{{1, "a"}, {2, ""}, {3, "b"}}));
  EXPECT_EQ(code_of([&] { for_each_line(path, 0, [](int64_t, std::string_view) {}); }),
            ErrorCode::kInvalidArgument);
}

TEST_F(File, LinesOfAPipe) {
  const ShellPipe pipe("a\nb");
  std::string lines;
  for_each_line(pipe.path(), 100,
                [&](int64_t number, std::string_view line) { lines += std::to_string(number).append(line); });
  EXPECT_EQ(lines, "1a2b");
}

TEST_F(File, LineWriterAppendsOrStartsAnew) {
  const fs::path path = folder_ / "log";
  LineWriter(path, LineWriter::Mode::kTruncate).write_line("one");
  LineWriter(path, LineWriter::Mode::kAppend).write_line("two");
  EXPECT_EQ(read_file(path, 100), "one\ntwo\n");
  LineWriter(path, LineWriter::Mode::kTruncate).write_line("three");
  EXPECT_EQ(read_file(path, 100), "three\n");
}

TEST_F(File, LineWriterGoesOnInStandardOutput) {
  const fs::path path = folder_ / "redirected";
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::close(file);
  const bool written = ::write(STDOUT_FILENO, "one\n", 4) == 4;
  LineWriter("/dev/stdout", LineWriter::Mode::kTruncate).write_line("two");
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  EXPECT_TRUE(written);
  EXPECT_EQ(read_file(path, 100), "one\ntwo\n");
}

TEST_F(File, AnEmptyFileMapsToNothing) {
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder_ / "empty").bytes().empty());
}

}  // namespace
}  // namespace calyrex
