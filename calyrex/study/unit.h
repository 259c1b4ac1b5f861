// One unit of a study: train, then evaluate, with a result on disk at the end and nothing done twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/config_node.h"
#include "calyrex/base/json.h"
#include "calyrex/study/config.h"
#include "calyrex/train/shared_work.h"

namespace calyrex::study {

/// An evaluation with the digest of its rows.
struct CheckedEval {
  EvalEntry entry;
  std::string data_sha256;
};

/// What a unit does. Its folder holds identity.json, config.yaml, adapter/ (the training output), eval/NAME/
/// and, at the very end, result.json.
struct Unit {
  std::string name;
  std::filesystem::path folder;
  std::string backbone;  // digest of the model's tensors
  ConfigNode tree;       // training configuration without output; for the base: its model and chat settings
  bool trains = true;    // false: the untouched base model
  bool is_full = false;  // kind full: the output is a model of its own
  std::vector<const CheckedEval*> evals;
  std::optional<train::PrefixStates> states;
  std::string dtype = "auto";  // of evaluation
  bool is_candidate = false;   // training that fails is kept in failed.json, and not tried again
  std::filesystem::path twin;  // a unit whose adapter is this one's where their configurations agree
};

/// The result of a unit that is finished; none otherwise. Throws kInvalidArgument, naming what differs, when
/// the folder holds a unit of another configuration, kCorruptData when its files are damaged.
std::optional<Json> finished_result(const Unit& unit);

/// Why a candidate's training failed, where failed.json keeps it.
std::optional<std::string> kept_failure(const Unit& unit);

/// The learning rate that the unit in a folder is of; none where there is no trained unit.
std::optional<double> trained_rate(const std::filesystem::path& folder);

/// The unit's result, `rows` being shared by the units of this process: read where it is finished, else
/// worked out, going on where an earlier process ended. None when another process works on the unit. Throws
/// kCancelled when a signal asks to stop (what was done is kept), and what training and evaluation throw.
std::optional<Json> run_unit(const Unit& unit, train::EncodedRowsCache& rows);

}  // namespace calyrex::study
