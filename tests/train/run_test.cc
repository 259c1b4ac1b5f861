// Whole runs on a tiny model: what they leave behind, continuing, refusing, and what must not change.
#include "calyrex/train/run.h"

#include <csignal>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/weights/adapter_folder.h"
#include "tests/train/training_runs.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {
namespace fs = std::filesystem;

/// Trains with a stop signal sent once metrics.jsonl has `lines` lines; returns the error's code.
ErrorCode train_and_interrupt(const fs::path& config, const fs::path& output, size_t lines, int signal) {
  std::atomic<bool> over = false;
  std::thread watcher([&] {
    while (!over) {
      std::ifstream file(output / "metrics.jsonl");
      const auto count = static_cast<size_t>(
          std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
      if (count >= lines) {
        ::kill(::getpid(), signal);
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  ErrorCode code = ErrorCode::kInternal;
  try {
    run_training({.config_path = config});
  } catch (const Error& error) {
    code = error.code();
  }
  over = true;
  watcher.join();
  return code;
}

std::string failure_message(const RunRequest& request, ErrorCode expected) {
  try {
    run_training(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(TrainingRun, LeavesAnAdapterItsRecordAndItsMetrics) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(
      folder.path(),
      {"data.eval=[{path: tests/golden/training/rows.jsonl}]", "train.eval_every=3", "train.epochs=1"});
  run_training({.config_path = config});
  const fs::path output = folder / "run";
  const auto model = weights::open_model("tests/golden/models/llama");
  const auto adapter = weights::open_adapter(output, *model, weights::BaseMismatch::kReject);
  EXPECT_EQ(adapter.config.placement, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(adapter.chat_template, model->tokenizer().chat_template);
  EXPECT_NE(file_bytes(output / "README.md").find("not a security boundary"), std::string::npos);
  const Json record = read_json_file(output / "training.json");
  EXPECT_EQ(record["status"], "finished");
  EXPECT_EQ(record["steps"], 8);
  EXPECT_EQ(record["seed"], 0);
  EXPECT_EQ(record["data"]["train"][0]["rows"], 32);
  EXPECT_EQ(record["curve"]["loss"].size(), 8u);
  EXPECT_EQ(record["curve"]["eval_loss"].size(), 3u);
  const std::vector<Json> metrics = read_metrics(output);
  ASSERT_EQ(metrics.size(), 8u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : metrics[2].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"step", "loss", "tokens", "label_tokens", "grad_norm",
                                            "learning_rate", "seconds", "block_grad_norms", "eval_loss"}));
  EXPECT_LT(metrics[7]["eval_loss"].get<double>(), metrics[2]["eval_loss"].get<double>());
}

TEST(TrainingRun, InterruptedAndContinuedIsTheSameBits) {
  const test::TempFolder whole, parts;
  const std::vector<std::string> settings = {"train.epochs=6", "train.shuffle=true", "train.batch_tokens=150",
                                             "train.batch_examples=null", "train.checkpoint_every=4"};
  run_training({.config_path = write_tiny_config(whole.path(), settings)});
  const auto config = write_tiny_config(parts.path(), settings);
  int interruptions = 0;
  for (const auto& [lines, signal] : {std::pair<size_t, int>{3, SIGINT}, {9, SIGTERM}, {17, SIGUSR1}}) {
    if (train_and_interrupt(config, parts / "run", lines, signal) == ErrorCode::kCancelled) ++interruptions;
  }
  EXPECT_GE(interruptions, 1) << "the run was over before any signal came";
  run_training({.config_path = config});
  EXPECT_EQ(file_bytes(whole / "run/adapter_model.safetensors"),
            file_bytes(parts / "run/adapter_model.safetensors"));
  EXPECT_EQ(timeless(read_metrics(whole / "run")), timeless(read_metrics(parts / "run")));
}

TEST(TrainingRun, AnotherConfigurationIsRefusedWithItsKeys) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"train.max_steps=2"});
  run_training({.config_path = config});
  const std::string before = file_bytes(folder / "run/adapter_model.safetensors");
  const std::string message =
      failure_message({.config_path = config, .overrides = {"train.seed=1"}}, ErrorCode::kInvalidArgument);
  EXPECT_NE(message.find("train.seed: 0 -> 1"), std::string::npos) << message;
  EXPECT_NE(message.find("--restart"), std::string::npos) << message;
  EXPECT_EQ(file_bytes(folder / "run/adapter_model.safetensors"), before);
  run_training({.config_path = config, .overrides = {"train.seed=1"}, .existing = Existing::kRestart});
  EXPECT_NE(file_bytes(folder / "run/adapter_model.safetensors"), before);
}

TEST(TrainingRun, ChangedDataIsRefusedToo) {
  const test::TempFolder folder;
  fs::copy_file("tests/golden/training/rows.jsonl", folder / "rows.jsonl");
  const std::string path = (folder / "rows.jsonl").string();
  const auto config =
      write_tiny_config(folder.path(), {"train.max_steps=2", "data.train=[{path: " + path + "}]"});
  run_training({.config_path = config});
  std::ofstream(path, std::ios::app) << "{\"messages\": []}\n";
  EXPECT_NE(failure_message({.config_path = config}, ErrorCode::kInvalidArgument), "");
}

TEST(TrainingRun, AFinishedRunIsLeftAlone) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"train.max_steps=2"});
  run_training({.config_path = config});
  const auto time = fs::last_write_time(folder / "run/adapter_model.safetensors");
  run_training({.config_path = config});
  EXPECT_EQ(fs::last_write_time(folder / "run/adapter_model.safetensors"), time);
}

TEST(TrainingRun, RestartRemovesItsOwnFilesOnly) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"train.max_steps=3", "train.checkpoint_every=1"});
  run_training({.config_path = config});
  std::ofstream(folder / "run/notes.txt") << "mine";
  run_training({.config_path = config, .overrides = {"train.max_steps=1"}, .existing = Existing::kRestart});
  EXPECT_EQ(file_bytes(folder / "run/notes.txt"), "mine");
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000001"));
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints/step-00000003"));
  EXPECT_EQ(read_metrics(folder / "run").size(), 1u);
}

TEST(TrainingRun, ARestartThatCannotBeginLeavesTheRunAsItWas) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"train.max_steps=1"});
  run_training({.config_path = config});
  const std::string adapter = file_bytes(folder / "run/adapter_model.safetensors");
  const std::string record = file_bytes(folder / "run/training.json");
  for (const std::string mistake : {"data.train=[{path: no/such.jsonl}]", "model=no/such.gguf",
                                    "adapter.init_from=no/such", "chat.template=no/such.jinja"}) {
    EXPECT_THROW(
        run_training({.config_path = config, .overrides = {mistake}, .existing = Existing::kRestart}), Error)
        << mistake;
    EXPECT_EQ(file_bytes(folder / "run/adapter_model.safetensors"), adapter) << mistake;
    EXPECT_EQ(file_bytes(folder / "run/training.json"), record) << mistake;
    EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000001")) << mistake;
  }
}

TEST(TrainingRun, ARunFromBeforeASettingCameCountsAsItsDefault) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"train.max_steps=1"});
  run_training({.config_path = config});
  const fs::path path = folder / "run/training.json";
  Json record = read_json_file(path);
  ASSERT_EQ(record["config"]["adapter"]["span"].erase("role"), 1u);
  write_file_atomically(path, to_json_text(record));
  run_training({.config_path = config});
  EXPECT_EQ(read_json_file(path), record) << "a finished run is left alone";
  EXPECT_NE(failure_message({.config_path = config, .overrides = {"adapter.span.role=user"}},
                            ErrorCode::kInvalidArgument)
                .find("(adapter.span.role: \"system\" -> \"user\")"),
            std::string::npos);
}

TEST(TrainingRun, KeepsTheNewestCheckpointsAndDropsLeftovers) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(
      folder.path(), {"train.max_steps=5", "train.checkpoint_every=1", "train.keep_checkpoints=2"});
  fs::create_directories(folder / "run/checkpoints/step-00000002.tmp-99-0");
  run_training({.config_path = config});
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000004", "step-00000005"}));
}

TEST(TrainingRun, ADamagedCheckpointIsNamedAndTheOneBeforeServes) {
  const test::TempFolder whole, parts;
  const std::vector<std::string> settings = {"train.max_steps=6", "train.checkpoint_every=1",
                                             "train.keep_checkpoints=9"};
  run_training({.config_path = write_tiny_config(whole.path(), settings)});
  const auto config = write_tiny_config(parts.path(), settings);
  run_training({.config_path = config});
  // As if the process had died after step 4.
  Json record = read_json_file(parts / "run/training.json");
  record["status"] = "running";
  write_file_atomically(parts / "run/training.json", to_json_text(record));
  for (const char* step : {"5", "6"})
    fs::remove_all(parts / ("run/checkpoints/step-0000000" + std::string(step)));
  const fs::path damaged = parts / "run/checkpoints/step-00000004";
  std::string bytes = file_bytes(damaged / "optimizer.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(damaged / "optimizer.safetensors", bytes);
  const std::string message = failure_message({.config_path = config}, ErrorCode::kCorruptData);
  EXPECT_NE(message.find("step-00000004/optimizer.safetensors"), std::string::npos) << message;
  fs::remove_all(damaged);
  run_training({.config_path = config});
  EXPECT_EQ(file_bytes(whole / "run/adapter_model.safetensors"),
            file_bytes(parts / "run/adapter_model.safetensors"));
}

TEST(TrainingRun, ALossThatIsNotFiniteStopsWithStepAndRowsAndKeepsTheCheckpoint) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(
      folder.path(),
      {"train.max_steps=3000", "train.checkpoint_every=100", "train.learning_rate=9.9", "train.grad_clip=0",
       "train.schedule=constant", "train.eps=1e-30", "adapter.init_std=9.0"});
  const std::string message = failure_message({.config_path = config}, ErrorCode::kInvalidArgument);
  EXPECT_NE(message.find("is not finite"), std::string::npos) << message;
  EXPECT_NE(message.find("step "), std::string::npos) << message;
  EXPECT_NE(message.find("row"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder / "run/adapter_config.json"));
}

TEST(TrainingRun, OneProcessAtATime) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"train.epochs=50"});
  const ErrorCode code = [&] {
    std::atomic<bool> over = false;
    std::string second;
    std::thread other([&] {
      while (!over && !fs::exists(folder / "run/metrics.jsonl")) std::this_thread::yield();
      if (over) return;
      second = failure_message({.config_path = config}, ErrorCode::kResourceExhausted);
      ::kill(::getpid(), SIGTERM);
    });
    ErrorCode result = ErrorCode::kInternal;
    try {
      run_training({.config_path = config});
    } catch (const Error& error) {
      result = error.code();
    }
    over = true;
    other.join();
    EXPECT_NE(second.find("another process is training into"), std::string::npos) << second;
    return result;
  }();
  EXPECT_EQ(code, ErrorCode::kCancelled);
}

TEST(TrainingRun, MicroBatchesChangeNothingButRounding) {
  const test::TempFolder folder;
  const auto run = [&](const std::string& name, const std::string& micro) {
    const fs::path own = folder / name;
    fs::create_directories(own);
    run_training({.config_path = write_tiny_config(
                      own, {"train.batch_examples=8", "train.micro_batch_tokens=" + micro})});
    return read_metrics(own / "run");
  };
  const std::vector<Json> one = run("one", "100000"), many = run("many", "1");
  ASSERT_EQ(one.size(), many.size());
  for (size_t step = 0; step < one.size(); ++step) {
    for (const char* key : {"loss", "grad_norm"}) {
      EXPECT_NEAR(one[step][key].get<double>(), many[step][key].get<double>(),
                  1e-4 * one[step][key].get<double>());
    }
    EXPECT_EQ(one[step]["tokens"], many[step]["tokens"]);
  }
}

TEST(TrainingRun, PrefixCacheHitsMissesAndContinuingAreTheSameBits) {
  const test::TempFolder folder;
  const std::vector<std::string> settings = {"train.epochs=3", "train.shuffle=true",
                                             "train.checkpoint_every=5"};
  const auto config_of = [&](const std::string& name, const std::string& gib) {
    const fs::path own = folder / name;
    fs::create_directories(own);
    std::vector<std::string> all = settings;
    all.push_back("train.prefix_cache_gib=" + gib);
    return write_tiny_config(own, all);
  };
  const auto bytes_of = [&](const std::string& name) {
    return file_bytes(folder / name / "run/adapter_model.safetensors");
  };
  run_training({.config_path = config_of("hits", "1")});
  run_training({.config_path = config_of("misses", "1e-9")});
  EXPECT_EQ(bytes_of("hits"), bytes_of("misses"));
  EXPECT_EQ(timeless(read_metrics(folder / "hits/run")), timeless(read_metrics(folder / "misses/run")));
  const auto config = config_of("parts", "1");
  EXPECT_EQ(train_and_interrupt(config, folder / "parts/run", 7, SIGINT), ErrorCode::kCancelled);
  run_training({.config_path = config});
  EXPECT_EQ(bytes_of("hits"), bytes_of("parts"));
  EXPECT_FALSE(fs::exists(folder / "parts/run/prefix_cache"));
}

TEST(TrainingRun, PrefixCacheChangesLossesByItsRoundingAlone) {
  const test::TempFolder folder;
  for (const std::string placement : {"[0]", "[1,2]", "last"}) {
    const auto losses = [&](const std::string& gib) {
      const fs::path own = folder / fmt::format("{}-{}", placement, gib);
      fs::create_directories(own);
      run_training({.config_path = write_tiny_config(own, {"train.epochs=2", "train.prefix_cache_gib=" + gib,
                                                           "adapter.placement=" + placement})});
      return read_metrics(own / "run");
    };
    const std::vector<Json> without = losses("0"), with = losses("1");
    ASSERT_EQ(without.size(), with.size());
    for (size_t step = 0; step < without.size(); ++step) {
      const auto loss = without[step]["loss"].get<double>();
      EXPECT_NEAR(with[step]["loss"].get<double>(), loss, 0.01 * loss) << placement << ", step " << step + 1;
    }
  }
}

TEST(TrainingRun, RunsShareRowsAndStatesOfAnEarlierLayer) {
  const test::TempFolder folder;
  EncodedRowsCache rows;
  const auto run = [&](const std::string& name, const std::string& placement, const std::string& states) {
    const fs::path own = folder / name;
    fs::create_directories(own);
    run_training({.config_path = write_tiny_config(own, {"train.max_steps=8", "train.prefix_cache_gib=1",
                                                         "adapter.placement=" + placement}),
                  .shared = {.rows = &rows,
                             .prefix_states = PrefixStates{
                                 .folder = folder / states, .layer = 1, .budget_bytes = 1 << 20}}});
    return read_json_file(own / "run/training.json")["prefix_cache"];
  };
  const Json first = run("first", "[1,2]", "shared");
  EXPECT_EQ(first["misses"], 32);
  // The block after layer 2 starts from the states after layer 1, which the first run kept.
  const Json second = run("second", "[2]", "shared");
  EXPECT_EQ(second["layer"], 1);
  EXPECT_EQ(second["misses"], 0);
  run("alone", "[2]", "other");
  EXPECT_EQ(file_bytes(folder / "second/run/adapter_model.safetensors"),
            file_bytes(folder / "alone/run/adapter_model.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "shared")) << "shared states outlive a run";
}

TEST(EncodedRowsCache, KeepsWhatIsUsed) {
  EncodedRowsCache cache;
  int made = 0;
  const auto make = [&]() -> std::shared_ptr<const EncodedRows> {
    ++made;
    return nullptr;
  };
  for (const char* key : {"a", "b", "c", "a", "d", "e", "a"}) cache.get(key, make);
  EXPECT_EQ(made, 5) << "a stayed, as it was used again";
  cache.get("b", make);
  EXPECT_EQ(made, 6) << "b had to go";
}

TEST(TrainingRun, SameSeedSameBitsAnotherSeedOthers) {
  const test::TempFolder folder;
  const auto run = [&](const std::string& name, const std::string& seed) {
    const fs::path own = folder / name;
    fs::create_directories(own);
    run_training({.config_path = write_tiny_config(own, {"train.seed=" + seed, "train.shuffle=true"})});
    return file_bytes(own / "run/adapter_model.safetensors");
  };
  const std::string first = run("a", "5");
  EXPECT_EQ(first, run("b", "5"));
  EXPECT_NE(first, run("c", "6"));
}

TEST(TrainingRun, DataMistakesAreNamedBeforeTraining) {
  const test::TempFolder folder;
  const std::string path = (folder / "rows.jsonl").string();
  const auto message_for = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    std::ofstream(path, std::ios::trunc) << text;
    std::vector<std::string> settings = {"data.train=[{path: " + path + "}]"};
    settings.insert(settings.end(), more.begin(), more.end());
    return failure_message(
        {.config_path = write_tiny_config(folder.path(), settings), .existing = Existing::kRestart},
        ErrorCode::kInvalidArgument);
  };
  const std::string good =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  EXPECT_NE(message_for(good + "\n{\"text\": \"x\"}\n").find(path + ":2"), std::string::npos);
  EXPECT_NE(message_for("").find("holds no rows"), std::string::npos);
  EXPECT_NE(message_for(good, {"data.max_tokens=2"}).find("1 of 1 are longer than data.max_tokens (2)"),
            std::string::npos);
  const std::string tools = R"({"messages": [{"role": "user", "content": "a"}], "tools": 3})";
  EXPECT_NE(message_for(tools).find(path + ":1: tools must be"), std::string::npos);
  // Far too long to be tokenised: it would be refused for its size otherwise.
  const std::string huge = std::string(20'000'000, 'x');
  EXPECT_NE(message_for(R"({"messages": [{"role": "user", "content": ")" + huge +
                        R"("}, {"role": "assistant", "content": "b"}]})")
                .find("1 of 1 are longer than data.max_tokens (256)"),
            std::string::npos);
  EXPECT_NE(message_for(good, {"data.max_tokens=1000000"}).find("more than the model's context"),
            std::string::npos);
  EXPECT_NE(message_for(good, {"adapter.placement=[3]"}).find("adapter.placement"), std::string::npos);
  EXPECT_NE(message_for(R"({"messages": [{"role": "user", "content": "a"}]})").find("no assistant message"),
            std::string::npos);
}

TEST(TrainingRun, InitFromRefusesShapesThatContradictIt) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(
      folder.path(), {"adapter={init_from: tests/golden/model/llama.default}", "train.max_steps=1"});
  const std::string message = failure_message(
      {.config_path = config, .overrides = {"adapter.cal.intermediate_size=8"}}, ErrorCode::kInvalidArgument);
  EXPECT_NE(message.find("adapter.cal.intermediate_size: 8 contradicts adapter.init_from"), std::string::npos)
      << message;
  run_training(
      {.config_path = config, .overrides = {"adapter.placement=[1, 2]"}, .existing = Existing::kRestart});
}

}  // namespace
}  // namespace calyrex::train
