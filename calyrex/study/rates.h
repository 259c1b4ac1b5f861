// Learning rates chosen on development data: each kind's first run is trained with every rate of the grid and
// evaluated, and the best rate is the kind's.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/study/config.h"
#include "calyrex/study/plan.h"
#include "calyrex/study/unit.h"
#include "calyrex/train/shared_work.h"

namespace calyrex::study {

class RateChoice {
 public:
  struct Options {
    SelectSettings settings;
    CheckedEval eval;                                                 // `settings.on`
    std::filesystem::path folder;                                     // of the candidates
    std::function<Unit(const PlannedRun& run, double rate)> unit_of;  // a run's own unit
  };
  /// `runs` outlive the object. Kinds are those of the runs that choose a rate.
  RateChoice(Options options, const std::vector<PlannedRun>& runs);
  RateChoice(const RateChoice&) = delete;
  RateChoice& operator=(const RateChoice&) = delete;

  /// Calls `candidate` with the run that each unfinished candidate is trained as. Throws what
  /// finished_result() throws for a folder of another configuration.
  void for_each_unfinished(const std::function<void(const PlannedRun& run)>& candidate) const;

  /// Works out every candidate and chooses. A candidate whose training fails is kept as failed and not
  /// chosen; kInvalidArgument when a kind has no other. kCancelled when a signal asks to stop.
  void choose(train::EncodedRowsCache& rows);

  /// The rate of the run's kind, once it is chosen; none for a run that has its own.
  std::optional<double> rate_of(const PlannedRun& run) const;

  /// Folder of the candidate that was trained as this very run with the rate that was chosen; empty: none.
  std::filesystem::path twin_of(const PlannedRun& run) const;

 private:
  struct Kind {
    std::string name;
    const PlannedRun* reference = nullptr;  // the kind's first run, whose settings the candidates have
    std::optional<double> chosen;
  };

  Unit candidate_of(const Kind& kind, double rate) const;
  Json metrics_of(const Unit& candidate, train::EncodedRowsCache& rows) const;
  double chosen_metric(const Json& metrics) const;
  void choose(Kind& kind, train::EncodedRowsCache& rows) const;

  Options options_;
  std::vector<Kind> kinds_;
};

}  // namespace calyrex::study
