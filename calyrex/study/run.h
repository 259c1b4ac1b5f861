// A whole study: plan, checks, selection of learning rates, runs, and what remains to be said at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace calyrex::study {

struct StudyRequest {
  std::filesystem::path path;
  std::vector<std::string> overrides = {};  // key=value
  int64_t shard = 0;                        // this process's share of the runs: 0-based, of num_shards
  int64_t num_shards = 1;
  bool plan_only = false;  // check, print plan and estimate, and stop
  /// Called when a run has finished, to renew the reports in the study's folder.
  std::function<void(const std::filesystem::path& folder)> on_result = {};
};

/// Runs this process's share; returns the study's folder. Everything is checked before the first run:
/// kInvalidArgument, kNotFound and kUnsupported name file, place and remedy. Finished runs are not repeated.
/// A run that fails leaves the others alone: its error is thrown at the end, naming it. kCancelled when a
/// signal asks to stop; the same command goes on.
std::filesystem::path run_study(const StudyRequest& request);

}  // namespace calyrex::study
