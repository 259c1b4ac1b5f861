// Lists of samples and what a run may ask of them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/eval/core/task.h"
#include "calyrex/eval/tasks/row_fields.h"

namespace calyrex::eval {

/// A row's identifier, which files have as text or as a whole number.
std::string row_id(const RowFields& row, std::string_view name);

/// kInvalidArgument, naming the data, when two samples have one id.
void check_unique_ids(const Samples& samples, const std::filesystem::path& data);

/// One of each list in turn, so that the first N samples hold some of every part.
Samples take_turns(std::vector<Samples> parts);

/// kUnsupported when examples are asked of a task that is run without.
void require_no_shots(const TaskInfo& info, const LoadOptions& options);

/// --shots, or the usual number; kInvalidArgument outside 0..most.
int shots_of(const TaskInfo& info, const LoadOptions& options, int usual, int most);

}  // namespace calyrex::eval
