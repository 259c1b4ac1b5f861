// Long-IFEval: the constraints in the system message, the task behind thousands of tokens of prose. No public
// set of that name is known; this is a stand-in built from sys_ifeval and public-domain speeches.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/random.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/tasks/ifeval_rows.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

const std::initializer_list<std::string_view> kFiles = {"sys_ifeval.jsonl", "sys_ifeval/sys_ifeval.jsonl"};

namespace fs = std::filesystem;

/// Without a tokenizer: 2.2 MB of the speeches are about 480,000 tokens of common vocabularies, so 4.5
/// characters make a token of such prose.
constexpr double kCharactersPerToken = 4.5;
constexpr size_t kMaxHaystackBytes = size_t{64} << 20;

struct Length {
  int64_t tokens = 0;
  std::string_view name;
};
/// 0: the bare task, to compare with.
constexpr std::array<Length, 5> kLengths = {
    {{0, "0"}, {4000, "4k"}, {8000, "8k"}, {16000, "16k"}, {32000, "32k"}}};

constexpr std::string_view kOwnProse =
    R"(The ferry leaves the lower harbour at six and again at nine. Most mornings it carries crates of onions, two bicycles and the schoolteacher of the far island, who reads on deck whatever the weather.
In spring the river rises over the meadows. The farmers move their sheep to the chapel hill, and for three weeks the road to the mill is travelled by boat.
Grandfather kept his tools in the order of their use: the saw first, then the plane, then a row of chisels that nobody else was allowed to sharpen.
The library of the town holds nine thousand volumes. A third of them concern the sea, though the sea is two days away and few readers have seen it.
When the clockmaker retired, the tower kept the wrong time for a year. People grew used to it, arrived late together, and found that nothing was lost.
Bread is best on the second day. The crust has softened, the crumb has settled, and butter no longer sinks into it.
A letter took four days then. One wrote what would still be true on arrival, and left out the rest.
At the edge of the quarry stand three pines which the mapmakers use as a mark. From the north they look like one tree.)";

/// Prose without system messages in it, and where to take a piece of it.
struct Haystack {
  std::string text;

  /// About `characters` bytes of it, in whole words, from a place that `stream` draws.
  std::string_view piece(size_t characters, RandomStream stream) const;
};

bool is_gap(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string_view Haystack::piece(size_t characters, RandomStream stream) const {
  if (characters == 0) return {};
  CALYREX_CHECK(characters < text.size());
  size_t begin = stream.below(text.size() - characters);
  while (begin > 0 && !is_gap(text[begin - 1])) --begin;
  size_t end = begin + characters;
  while (end > begin && !is_gap(text[end])) --end;
  return std::string_view(text).substr(begin, end - begin);
}

size_t characters_of(const Length& length) {
  return static_cast<size_t>(static_cast<double>(length.tokens) * kCharactersPerToken);
}

/// Every .txt of the folder in order of name, but for notes on where they come from.
Haystack read_haystack(const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".txt" && entry.path().stem() != "PROVENANCE")
        files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  Haystack haystack;
  for (const fs::path& file : files) {
    haystack.text += read_file(file, kMaxHaystackBytes);
    haystack.text += "\n\n";
    if (haystack.text.size() > kMaxHaystackBytes) {
      fail(ErrorCode::kInvalidArgument, "{}: more than {} bytes of text", folder.string(), kMaxHaystackBytes);
    }
  }
  const size_t needed = characters_of(kLengths.back());
  if (haystack.text.size() <= needed) {
    fail(haystack.text.empty() ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
         "{}: holds {} bytes of .txt files; more than {} are needed to fill 32k tokens", folder.string(),
         haystack.text.size(), needed);
  }
  return haystack;
}

/// The own prose again and again, starting with another paragraph each time.
Haystack own_haystack() {
  std::vector<std::string_view> paragraphs;
  for (std::string_view rest = kOwnProse; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    paragraphs.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  Haystack haystack;
  for (size_t round = 0; haystack.text.size() <= characters_of(kLengths.back()); ++round) {
    for (size_t i = 0; i < paragraphs.size(); ++i) {
      haystack.text += paragraphs[(i * 3 + round) % paragraphs.size()];
      if (haystack.text.back() != '\n') haystack.text += '\n';
    }
  }
  return haystack;
}

std::string with_filler(std::string_view filler, const std::string& task) {
  if (filler.empty()) return task;
  return fmt::format("{}\n\nSo far the text above. {}", filler, task);
}

/// Builds its long message only when it is asked: hundreds of them would fill the memory.
class LongSample final : public Sample {
 public:
  LongSample(const IfevalRow& row, const Length& length, text::Messages messages,
             std::shared_ptr<const Haystack> haystack, const LoadOptions& options)
      : row_id_(row.id),
        length_(length),
        instructions_(row.instructions),
        messages_(std::move(messages)),
        haystack_(std::move(haystack)),
        form_(options.form),
        seed_(options.seed) {}

  std::string id() const override { return fmt::format("{}/{}", row_id_, length_.name); }

  /// The filler is named, not shown.
  Json prompt() const override {
    const std::string name =
        length_.tokens > 0 ? fmt::format("[{} bytes of filler]", filler().size()) : std::string();
    return text::messages_to_json(chat(name));
  }

  std::vector<Ask> next(std::span<const Reply> replies) const override {
    if (!replies.empty()) return {};
    return {GenerateAsk{.messages = chat(filler()), .max_new_tokens = kIfevalTokens}};
  }

  Verdict grade(std::span<const Reply> replies) const override {
    if (replies.empty()) return {.ungraded = "no answer"};
    Verdict verdict = grade_ifeval(instructions_, replies.front().text);
    verdict.detail["length"] = length_.name;
    return verdict;
  }

 private:
  text::Messages chat(std::string_view filler) const {
    text::Messages messages = messages_;
    messages.back().content = with_filler(filler, messages.back().content);
    return dialogue_in_form({.form = form_}, messages);
  }

  std::string_view filler() const {
    return haystack_->piece(characters_of(length_), RandomStream(seed_, id()));
  }

  std::string row_id_;
  Length length_;
  Instructions instructions_;
  text::Messages messages_;
  std::shared_ptr<const Haystack> haystack_;
  Form form_;
  uint64_t seed_;
};

class LongIfevalTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info{
        .name = "long_ifeval",
        .measures =
            "sys_ifeval with 0, 4k, 8k, 16k and 32k tokens of prose before the task (at 4.5 characters a "
            "token); "
            "a stand-in, as no set of that name is public",
        .source =
            "a folder with sys_ifeval.jsonl (github.com/normster/RealGuardrails, evals/ifeval/inputs; also "
            "in "
            "sys_ifeval/) and haystack/*.txt: plain prose, such as nltk_data's state_union",
        .licence = "MIT, the prompts Apache-2.0; the speeches are in the public domain",
        .forms = {Form::kSystem, Form::kUser},
        .scorer_version = "1",
        .headline = {"prompt_level_strict_acc/0", "prompt_level_strict_acc/4k", "prompt_level_strict_acc/8k",
                     "prompt_level_strict_acc/16k", "prompt_level_strict_acc/32k"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    require_no_shots(info(), options);
    if (!options.sample) find_data_file(options.data, kFiles);
    const auto haystack = std::make_shared<const Haystack>(
        options.sample ? own_haystack() : read_haystack(prose_folder(options.data)));
    Samples samples;
    const auto read = [&](const RowFields& row) {
      // To try it out, two rows at each length will do.
      if (options.sample && samples.size() >= 2 * kLengths.size()) return;
      const IfevalRow parsed = read_ifeval_row(row);
      const text::Messages& split = split_messages(row, parsed);
      for (const Length& length : kLengths) {
        samples.push_back(std::make_unique<LongSample>(parsed, length, split, haystack, options));
      }
    };
    for_each_row(options, own_ifeval_rows(), info().name, kFiles, read);
    check_unique_ids(samples, options.data);
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    for (const Length& length : kLengths) {
      std::vector<Graded> part;
      for (const Graded& entry : graded) {
        if (entry.verdict.detail.at("length") == length.name) part.push_back(entry);
      }
      if (part.empty()) continue;
      for (const auto& [name, value] : ifeval_metrics(part))
        metrics[fmt::format("{}/{}", name, length.name)] = value;
    }
    return metrics;
  }

 private:
  static fs::path prose_folder(const fs::path& data) {
    return (fs::is_directory(data) ? data : fs::absolute(data).parent_path()) / "haystack";
  }
};

}  // namespace

const Task& long_ifeval_task() {
  static const LongIfevalTask task;
  return task;
}

}  // namespace calyrex::eval
