// A local model, alone and with adapters, as subjects of an evaluation.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calyrex/eval/run/runner.h"
#include "calyrex/lm/local_model.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::eval {

/// What templates see as the date unless something says otherwise: the same in every run.
inline constexpr const char* kFixedDate = "2026-01-01";

struct AdapterSource {
  std::filesystem::path path;
  double scale = 1.0;
};

/// The base model and its adapters, with all that can be checked and known without torch.
class LocalSubjects {
 public:
  struct Options {
    lm::LocalModelOptions model;  // chat_date absent: the first adapter's, else kFixedDate
    std::string dtype = "auto";   // as the user named it
    std::vector<AdapterSource> adapters;
    std::function<std::unique_ptr<lm::LanguageModel>(const lm::LocalModelOptions&)> open;
  };
  /// Checks model and adapters. Throws what opening them throws.
  explicit LocalSubjects(Options options);

  /// The base model ("base") first, then the adapters, named as their folders.
  const std::vector<Subject>& subjects() const { return subjects_; }
  /// Opens the model and loads the adapters when first called.
  lm::LanguageModel& model();

 private:
  void add_adapter(const AdapterSource& source, const weights::ModelSource& model);

  Options options_;
  std::vector<Subject> subjects_;
  std::unique_ptr<lm::LanguageModel> model_;
};

}  // namespace calyrex::eval
