// The real program, killed without warning and short of disk: whatever happens, the next start goes on with
// the same bits.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/train/training_runs.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {
namespace fs = std::filesystem;

const std::vector<std::string>& settings() {
  static const std::vector<std::string> list = {"train.epochs=3", "train.shuffle=true",
                                                "train.checkpoint_every=1"};
  return list;
}

/// Starts `calyrex train CONFIG`, with files limited to `max_file_bytes` (0 = not), stderr into `log`.
pid_t start(const fs::path& config, const fs::path& log, rlim_t max_file_bytes = 0) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (max_file_bytes > 0) {
    // Without the signal a write beyond the limit fails, as on a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = max_file_bytes, .rlim_max = max_file_bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(99);
  ::execl(CALYREX_PROGRAM, CALYREX_PROGRAM, "train", config.c_str(), nullptr);
  ::_exit(99);
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool checkpoint_is_being_written(const fs::path& output) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output / "checkpoints", error)) {
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  }
  return false;
}

/// Kills the child in the middle of a checkpoint write, after letting `writes` of them pass. False when it
/// ended first.
bool kill_in_checkpoint(pid_t child, const fs::path& output, int writes) {
  bool before = false;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    const bool writing = checkpoint_is_being_written(output);
    if (writing && !before && writes-- == 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return true;
    }
    before = writing;
  }
  return false;
}

TEST(KilledRun, GoesOnWithTheSameBitsAfterKillsInTheMiddleOfCheckpoints) {
  const test::TempFolder whole, parts;
  ASSERT_EQ(wait_for(start(write_tiny_config(whole.path(), settings()), whole / "log")), 0);
  const auto config = write_tiny_config(parts.path(), settings());
  int kills = 0;
  for (const int writes : {0, 3, 5}) {
    if (kill_in_checkpoint(start(config, parts / "log"), parts / "run", writes)) ++kills;
  }
  EXPECT_GE(kills, 1);
  ASSERT_EQ(wait_for(start(config, parts / "log")), 0) << file_bytes(parts / "log");
  EXPECT_EQ(file_bytes(whole / "run/adapter_model.safetensors"),
            file_bytes(parts / "run/adapter_model.safetensors"));
  EXPECT_EQ(timeless(read_metrics(whole / "run")), timeless(read_metrics(parts / "run")));
  EXPECT_FALSE(checkpoint_is_being_written(parts / "run"));
}

TEST(KilledRun, AFullDiskIsOneClearErrorAndTheLastCheckpointStays) {
  const test::TempFolder folder;
  std::vector<std::string> first = settings();
  first.push_back("train.max_steps=40");
  const auto config = write_tiny_config(folder.path(), first);
  const pid_t child = start(config, folder / "log");
  ASSERT_TRUE(kill_in_checkpoint(child, folder / "run", 3));
  std::vector<std::string> before;
  for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints")) {
    if (entry.path().extension().empty()) before.push_back(entry.path().filename().string());
  }
  ASSERT_FALSE(before.empty());
  constexpr rlim_t kLimit = 16 << 10;  // metrics fit, tensors do not
  EXPECT_EQ(wait_for(start(config, folder / "log", kLimit)), 70);
  const std::string log = file_bytes(folder / "log");
  EXPECT_NE(log.find("error: saving the checkpoint of step"), std::string::npos) << log;
  EXPECT_NE(log.find("cannot write"), std::string::npos) << log;
  for (const std::string& name : before)
    EXPECT_TRUE(fs::exists(folder / "run/checkpoints" / name / "state.json")) << name;
  EXPECT_EQ(wait_for(start(config, folder / "log")), 0);
}

TEST(KilledRun, CtrlCEndsWithCode130AndAnotherConfigurationWith2) {
  const test::TempFolder folder;
  std::vector<std::string> endless = settings();
  endless.push_back("train.max_steps=100000");
  const auto config = write_tiny_config(folder.path(), endless);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const pid_t child = start(config, folder / "log");
    const auto lines = fs::exists(folder / "run/metrics.jsonl") ? read_metrics(folder / "run").size() : 0;
    for (int tries = 0; tries < 6000; ++tries) {
      std::ifstream file(folder / "run/metrics.jsonl");
      const auto count =
          std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n');
      if (static_cast<size_t>(count) > lines) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(child, signal);
    EXPECT_EQ(wait_for(child), 130) << file_bytes(folder / "log");
    EXPECT_NE(file_bytes(folder / "log").find("the same command continues"), std::string::npos);
  }
  const auto other = write_tiny_config(folder.path(), {"train.seed=9"});
  EXPECT_EQ(wait_for(start(other, folder / "log")), 2);
}

}  // namespace
}  // namespace calyrex::train
