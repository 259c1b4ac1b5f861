// The Berkeley Function-Calling Leaderboard (Patil et al. 2025), single-turn parts graded by their syntax
// tree.
#include <array>
#include <map>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/scorers/call_match.h"
#include "calyrex/eval/scorers/calls.h"
#include "calyrex/eval/tasks/call_prompt.h"
#include "calyrex/eval/tasks/prompt_sample.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

struct Category {
  std::string_view name;
  std::string_view file;
  bool has_answers = true;
};

constexpr std::array<Category, 6> kCategories = {{
    {"simple", "BFCL_v4_simple_python.json"},
    {"multiple", "BFCL_v4_multiple.json"},
    {"parallel", "BFCL_v4_parallel.json"},
    {"parallel_multiple", "BFCL_v4_parallel_multiple.json"},
    {"live_simple", "BFCL_v4_live_simple.json"},
    {"irrelevance", "BFCL_v4_irrelevance.json", false},
}};

constexpr std::string_view kOwnRows =
    R"({"category": "simple", "id": "own_simple", "question": [[{"role": "user", "content": "How long is a fence around a 12 by 7 metre garden?"}]], "function": [{"name": "fence_length", "description": "Length of a fence around a rectangle.", "parameters": {"type": "dict", "properties": {"width": {"type": "float", "description": "metres"}, "depth": {"type": "float", "description": "metres"}, "unit": {"type": "string", "description": "of the result; metres when absent"}}, "required": ["width", "depth"]}}], "ground_truth": [{"fence_length": {"width": [12, 7], "depth": [7, 12], "unit": ["metres", "m", ""]}}]}
{"category": "multiple", "id": "own_multiple", "question": [[{"role": "user", "content": "Play the song Blue Harbour quietly."}]], "function": [{"name": "player.stop", "description": "Stops the music.", "parameters": {"type": "dict", "properties": {}, "required": []}}, {"name": "player.play", "description": "Plays a song.", "parameters": {"type": "dict", "properties": {"title": {"type": "string", "description": "the song"}, "volume": {"type": "string", "description": "loud or quiet", "enum": ["loud", "quiet"]}}, "required": ["title"]}}], "ground_truth": [{"player.play": {"title": ["Blue Harbour"], "volume": ["quiet"]}}]}
{"category": "parallel", "id": "own_parallel", "question": [[{"role": "user", "content": "Book a table for 2 on Monday and one for 5 on Friday."}]], "function": [{"name": "book_table", "description": "Books a table.", "parameters": {"type": "dict", "properties": {"day": {"type": "string", "description": "day of the week"}, "guests": {"type": "integer", "description": "number of guests"}}, "required": ["day", "guests"]}}], "ground_truth": [{"book_table": {"day": ["Monday"], "guests": [2]}}, {"book_table": {"day": ["Friday"], "guests": [5]}}]}
{"category": "irrelevance", "id": "own_irrelevance", "question": [[{"role": "user", "content": "Who painted the ceiling of the town hall?"}]], "function": [{"name": "book_table", "description": "Books a table.", "parameters": {"type": "dict", "properties": {"day": {"type": "string", "description": "day of the week"}}, "required": ["day"]}}]})";

using Expected = std::vector<ExpectedCall>;

Expected read_expected(const RowFields& row) {
  const Json& list = row.json("ground_truth");
  if (!list.is_array() || list.empty() || list.size() > kMaxCalls) {
    row.fail_field("ground_truth", "a list of expected calls");
  }
  Expected expected;
  for (const Json& call : list) {
    expected.push_back(parse_expected_call(call, fmt::format("{}: field 'ground_truth'", row.source())));
  }
  return expected;
}

std::vector<FunctionSchema> read_schemas(const RowFields& row) {
  constexpr size_t kMaxFunctions = 256;
  const Json& list = row.json("function");
  if (!list.is_array() || list.empty() || list.size() > kMaxFunctions) {
    row.fail_field("function", fmt::format("a list of 1 to {} functions", kMaxFunctions));
  }
  std::vector<FunctionSchema> schemas;
  for (const Json& function : list) {
    schemas.push_back(parse_function_schema(function, fmt::format("{}: field 'function'", row.source())));
  }
  return schemas;
}

/// The chat of a row: "question" is a list of turns, of which single-turn rows have one.
text::Messages read_chat(const RowFields& row) {
  const Json& turns = row.json("question");
  if (!turns.is_array() || turns.size() != 1) row.fail_field("question", "a list of one turn");
  text::Messages chat = text::parse_messages(turns[0], fmt::format("{}: field 'question'", row.source()));
  if (chat.empty() || chat.back().role != "user")
    row.fail_field("question", "a turn that ends with the user");
  return chat;
}

std::unique_ptr<Sample> make_sample(const RowFields& row, const Category& category, Expected expected,
                                    const LoadOptions& options) {
  std::vector<FunctionSchema> schemas = read_schemas(row);
  const auto grade = [name = category.name, schemas = std::move(schemas),
                      expected = std::move(expected)](const std::string& answer) {
    const std::vector<FunctionCall> calls = parse_calls(answer);
    const std::string fault = calls_fault(calls, schemas, expected);
    Verdict verdict;
    verdict.scores["acc"] = fault.empty() ? 1.0 : 0.0;
    verdict.detail = {{"category", name}, {"calls", calls_to_json(calls)}, {"fault", fault}};
    return verdict;
  };
  return std::make_unique<PromptSample>(row.filled_text("id"),
                                        call_ask(options, row.json("function"), read_chat(row)), grade);
}

/// Expected calls by id.
std::map<std::string, Expected> read_answers(const std::filesystem::path& path) {
  std::map<std::string, Expected> answers;
  for_each_json_line(path, [&](int64_t line, const Json& json) {
    const RowFields row(json, fmt::format("{}:{}", path.string(), line));
    answers[row.filled_text("id")] = read_expected(row);
  });
  return answers;
}

Samples read_category(const std::filesystem::path& path, const Category& category,
                      const LoadOptions& options) {
  std::map<std::string, Expected> answers;
  if (category.has_answers) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path() / "possible_answer";
    answers = read_answers(folder / path.filename());
  }
  Samples samples;
  for_each_json_line(path, [&](int64_t line, const Json& json) {
    const RowFields row(json, fmt::format("{}:{}", path.string(), line));
    Expected expected;
    if (category.has_answers) {
      const auto found = answers.find(row.filled_text("id"));
      if (found == answers.end()) row.fail_field("id", "an id that possible_answer holds too");
      expected = found->second;
    }
    samples.push_back(make_sample(row, category, std::move(expected), options));
  });
  return samples;
}

class BfclTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info{
        .name = "bfcl",
        .measures =
            "function calls: right function, parameters, types and values (one, several, none to make)",
        .source =
            "github.com/ShishirPatil/gorilla, berkeley-function-call-leaderboard/bfcl_eval/data: "
            "BFCL_v4_{simple_python,multiple,parallel,parallel_multiple,live_simple,irrelevance}.json (each "
            "optional) with possible_answer/ beside them; or one of them",
        .licence = "Apache-2.0",
        .forms = {Form::kSystem, Form::kTools, Form::kUser},
        .scorer_version = "1",
        .headline = {"acc_macro", "acc"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    require_no_shots(info(), options);
    if (options.sample) return own_samples(options);
    std::vector<Samples> parts;
    for (const Category& category : kCategories) {
      const std::filesystem::path path = category_file(category, options.data);
      if (!path.empty()) parts.push_back(read_category(path, category, options));
    }
    if (parts.empty()) {
      fail(ErrorCode::kNotFound, "{}: holds no BFCL_v4_CATEGORY.json ('calyrex eval info bfcl' lists them)",
           options.data.string());
    }
    Samples samples = take_turns(std::move(parts));
    check_unique_ids(samples, options.data);
    return samples;
  }

  /// acc: of all rows; acc_macro: mean of the categories; acc_CATEGORY.
  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    metrics["acc"] = share_of(graded, "acc");
    std::map<std::string, data::GroupCount> categories;
    for (const Graded& entry : graded) {
      data::GroupCount& count = categories[entry.verdict.detail.at("category").get<std::string>()];
      count.passed += entry.verdict.scores.at("acc") != 0.0;
      ++count.total;
    }
    std::vector<data::GroupCount> counts;
    for (const auto& [name, count] : categories) {
      metrics["acc_" + name] = data::wilson_share(count.passed, count.total);
      counts.push_back(count);
    }
    metrics["acc_macro"] = data::mean_of_shares(counts);
    return metrics;
  }

 private:
  Samples own_samples(const LoadOptions& options) const {
    Samples samples;
    for_each_sample_row(kOwnRows, info().name, [&](const RowFields& row) {
      const std::string name = row.text("category");
      for (const Category& category : kCategories) {
        if (category.name != name) continue;
        samples.push_back(
            make_sample(row, category, category.has_answers ? read_expected(row) : Expected(), options));
      }
    });
    return samples;
  }

  /// The file of a category, or nothing when the data holds none.
  static std::filesystem::path category_file(const Category& category, const std::filesystem::path& data) {
    if (std::filesystem::is_directory(data) && !path_exists(data / category.file)) return {};
    const std::filesystem::path path = find_data_file(data, {category.file});
    return path.filename() == category.file ? path : std::filesystem::path();
  }
};

}  // namespace

const Task& bfcl_task() {
  static const BfclTask task;
  return task;
}

}  // namespace calyrex::eval
