#include "calyrex/eval/run/task_choice.h"

#include <algorithm>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/eval/core/form.h"

namespace calyrex::eval {
namespace {

namespace fs = std::filesystem;

/// The folder of a task: its own below the one that is named where there is one, else that itself.
fs::path task_data(const fs::path& data, const std::string& task) {
  if (data.empty()) return {};
  if (!path_exists(data)) fail(ErrorCode::kNotFound, "--data {}: no such file or folder", data.string());
  const fs::path own = data / task;
  return fs::is_directory(own) ? own : data;
}

void set_form(const std::string& form, const Task& task, LoadOptions& options) {
  constexpr size_t kMaxFormBytes = size_t{1} << 20;
  CALYREX_CHECK(!task.info().forms.empty(), "{} has no form", task.info().name);
  options.form = task.info().forms.front();
  if (form.empty()) return;
  if (!find_form(form) && path_exists(form)) {
    options.form = Form::kFile;
    options.form_text = read_file(form, kMaxFormBytes);
  } else {
    options.form = parse_form(form);
    if (options.form == Form::kFile) {
      fail(ErrorCode::kInvalidArgument, "--form file: name the file that holds the system message itself");
    }
  }
  require_form(task.info(), options.form);
}

void require_part(const std::string& part, const std::vector<std::string>& known, const std::string& task,
                  std::string_view what) {
  if (part.empty() || std::find(known.begin(), known.end(), part) != known.end()) return;
  fail(ErrorCode::kUnsupported, "{} has no {} '{}'; {}", task, what, part,
       known.empty() ? fmt::format("leave {} out", what) : fmt::format("it has {}", fmt::join(known, ", ")));
}

}  // namespace

LoadOptions load_options(const Task& task, const TaskChoice& choice) {
  require_part(choice.split, task.info().splits, task.info().name, "split");
  require_part(choice.axis, task.info().axes, task.info().name, "axis");
  LoadOptions options;
  options.data = task_data(choice.data, task.info().name);
  options.sample = choice.sample;
  options.shots = choice.shots;
  options.seed = choice.seed;
  options.judge = choice.judge;
  options.split = choice.split;
  options.axis = choice.axis;
  set_form(choice.form, task, options);
  return options;
}

}  // namespace calyrex::eval
