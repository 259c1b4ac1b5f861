#include "calyrex/data/mix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/base/random.h"
#include "calyrex/base/sha256.h"
#include "calyrex/data/contamination.h"
#include "calyrex/data/mix_system.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace fs = std::filesystem;
namespace {

std::string source_name(const MixSource& source) {
  return source.name.value_or(fs::path(source.path).stem().string());
}

/// The files that `against` names, folders taken apart in order of name.
std::vector<fs::path> evaluation_paths(const std::vector<std::string>& against) {
  static constexpr std::array<std::string_view, 5> kEndings = {".jsonl", ".json", ".csv", ".tsv", ".txt"};
  std::vector<fs::path> paths;
  for (const std::string& name : against) {
    if (!fs::is_directory(name)) {
      paths.emplace_back(name);
      continue;
    }
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(name)) {
      const std::string ending = entry.path().extension().string();
      const bool text = std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
      if (entry.is_regular_file() && text) found.push_back(entry.path());
    }
    if (found.empty()) fail(ErrorCode::kNotFound, "{}: no .jsonl, .json, .csv, .tsv or .txt file", name);
    std::sort(found.begin(), found.end());
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

/// Lets rows through that keep to limits, are in no evaluation file and were not seen before.
class RowFilter {
 public:
  RowFilter(const MixConfig& config, const text::ChatEncoder* encoder)
      : config_(config), encoder_(encoder), index_(config.decontaminate.ngram) {
    for (const fs::path& path : evaluation_paths(config.decontaminate.against)) index_.add_file(path);
  }

  bool admits(const ChatRow& row, MixSourceCounts& counts, Mix& mix) {
    if (row.messages.back().role != "assistant" || answer_bytes(row) < config_.limits.min_answer_chars) {
      ++counts.unanswered;
      return false;
    }
    if (!fits(row)) {
      ++counts.too_long;
      return false;
    }
    if (const auto match = find_evaluation_text(row)) {
      ++counts.contaminated;
      ++mix.evaluation_files[match->file].rows_removed;
      mix.contaminated.push_back({.source = row.source, .place = match->place, .words = match->words});
      return false;
    }
    if (config_.deduplicate != Deduplicate::kNone &&
        !seen_.insert(sha256_hex(row_key(row, config_.deduplicate))).second) {
      ++counts.duplicates;
      return false;
    }
    return true;
  }

  bool fits(const ChatRow& row) const {
    int64_t bytes = 0;
    for (const text::Message& message : row.messages) bytes += static_cast<int64_t>(message.content.size());
    if (bytes > config_.limits.max_chars) return false;
    if (!config_.limits.max_tokens) return true;
    CALYREX_CHECK(encoder_ != nullptr, "max_tokens without an encoder");
    const auto chat = with_context(
        row.source, [&] { return encoder_->encode(row.messages, text::GenerationPrompt::kNone, row.tools); });
    return static_cast<int64_t>(chat.token_ids.size()) <= *config_.limits.max_tokens;
  }

  const ContaminationIndex& index() const { return index_; }

  /// A text that is not of a source; says where it stands in an evaluation file.
  bool admits(const std::string& system_text) const {
    const auto match = index_.find(system_text);
    if (match) log_warning("system message left out, it stands in {}: {}", match->place, match->words);
    return !match;
  }

 private:
  /// In contents, tool calls and tools.
  std::optional<ContaminationIndex::Match> find_evaluation_text(const ChatRow& row) const {
    for (const text::Message& message : row.messages) {
      if (auto match = index_.find(message.content)) return match;
      if (auto match = index_.find_in(message.extra)) return match;
    }
    return index_.find_in(row.tools);
  }

  static int64_t answer_bytes(const ChatRow& row) {
    const text::Message& answer = row.messages.back();
    return static_cast<int64_t>(answer.has_content ? trim(answer.content).size()
                                                   : answer.extra.dump().size());
  }

  const MixConfig& config_;
  const text::ChatEncoder* encoder_;
  ContaminationIndex index_;
  std::unordered_set<std::string> seen_;
};

/// Rows of one source that the filter lets through, in an order drawn by seed.
std::vector<LaidOutRow> read_source(const MixConfig& config, const MixSource& source, RowFilter& filter,
                                    MixSourceCounts& counts, Mix& mix) {
  LayoutOptions options{.layout = source.layout,
                        .tools = config.tools,
                        .language = source.language.value_or(""),
                        .seed = static_cast<uint64_t>(config.seed)};
  if (source.instructions) options.instructions = read_instructions(*source.instructions);
  std::vector<LaidOutRow> rows;
  counts.unusable = for_each_laid_out_row(source.path, options, [&](LaidOutRow row) {
    ++counts.read;
    if (!filter.admits(row.row, counts, mix)) return;
    row.row.id = fmt::format("{}/{}", counts.name, row.row.id);
    row.row.fields = Json::object({{"source", counts.name}});
    rows.push_back(std::move(row));
  });
  RandomStream random(static_cast<uint64_t>(config.seed), "mix " + counts.name);
  random.shuffle(rows);
  if (source.max_rows && static_cast<int64_t>(rows.size()) > *source.max_rows) {
    rows.resize(static_cast<size_t>(*source.max_rows));
  }
  counts.available = static_cast<int64_t>(rows.size());
  return rows;
}

}  // namespace

void check_mix_config(const MixConfig& config) {
  const auto refuse = [](std::string_view what) {
    fail(ErrorCode::kInvalidArgument, "data build mix: {}", what);
  };
  if (config.sources.empty())
    refuse("no sources: name a configuration file with `sources`, or --source FILE");
  if (config.rows < 1) refuse("rows: expected at least 1");
  if (config.dev_rows < 0 || config.dev_rows >= config.rows)
    refuse("dev_rows: expected 0 or more, below rows");
  if (config.system.share < 0 || config.system.share > 1) refuse("system.share: expected 0 to 1");
  if (config.decontaminate.ngram < 3) refuse("decontaminate.ngram: expected at least 3 words");
  if (config.limits.max_chars < 1) refuse("limits.max_chars: expected at least 1");
  if (config.limits.max_tokens && *config.limits.max_tokens < 1)
    refuse("limits.max_tokens: expected at least 1");
  constexpr double kMostWeight = 1e6;
  std::unordered_set<std::string> names;
  for (const MixSource& source : config.sources) {
    if (source.path.empty()) refuse("sources: one has no path");
    if (!(source.weight > 0 && source.weight <= kMostWeight)) {
      refuse(fmt::format("sources: weight of {}: expected a number above 0, at most {}", source.path,
                         kMostWeight));
    }
    if (source.max_rows && *source.max_rows < 1) {
      refuse(fmt::format("sources: max_rows of {}: expected at least 1, or null for no limit", source.path));
    }
    if (!path_exists(source.path)) fail(ErrorCode::kNotFound, "sources: no file {}", source.path);
    if (!names.insert(source_name(source)).second) {
      refuse(fmt::format("sources: two are named {}: give one another name", source_name(source)));
    }
  }
  for (const std::string& path : config.decontaminate.against) {
    if (!path_exists(path)) fail(ErrorCode::kNotFound, "decontaminate.against: no file {}", path);
  }
}

std::vector<int64_t> share_rows(int64_t total, const std::vector<double>& weights,
                                const std::vector<int64_t>& available) {
  std::vector<int64_t> taken(weights.size(), 0);
  std::vector<bool> open(weights.size(), true);
  int64_t left = std::min(total, std::accumulate(available.begin(), available.end(), int64_t{0}));
  // Sources that cannot give their share give all; each round may make others fall short.
  for (bool changed = true; changed;) {
    changed = false;
    double weight = 0.0;
    for (size_t i = 0; i < weights.size(); ++i) weight += open[i] ? weights[i] : 0.0;
    const int64_t round = left;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!open[i] || static_cast<double>(round) * weights[i] / weight < static_cast<double>(available[i]))
        continue;
      taken[i] = available[i];
      left -= available[i];
      open[i] = false;
      changed = true;
    }
    if (changed) continue;
    std::vector<std::pair<double, size_t>> fractions;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!open[i]) continue;
      const double share = static_cast<double>(round) * weights[i] / weight;
      taken[i] = static_cast<int64_t>(share);
      left -= taken[i];
      fractions.emplace_back(taken[i] - share, i);
    }
    std::sort(fractions.begin(), fractions.end());
    for (size_t i = 0; left > 0; ++i, --left) ++taken[fractions[i].second];
  }
  return taken;
}

std::string row_key(const ChatRow& row, Deduplicate how) {
  std::string key;
  for (const text::Message& message : row.messages) {
    const std::string content = message.has_content ? message.content : message.extra.dump();
    key += message.role;
    key += '\0';
    key += how == Deduplicate::kNormalised ? letters_and_digits(fold_text(content)) : content;
    key += '\0';
  }
  return key;
}

Mix build_mix(const MixConfig& config, const text::ChatEncoder* encoder) {
  check_mix_config(config);
  RowFilter filter(config, encoder);
  Mix mix;
  for (const ContaminationIndex::File& file : filter.index().files()) {
    mix.evaluation_files.push_back({.path = file.path, .texts = file.texts});
  }
  std::vector<std::vector<LaidOutRow>> rows;
  std::vector<double> weights;
  std::vector<int64_t> available;
  for (const MixSource& source : config.sources) {
    MixSourceCounts& counts = mix.sources.emplace_back();
    counts.name = source_name(source);
    rows.push_back(read_source(config, source, filter, counts, mix));
    weights.push_back(source.weight);
    available.push_back(counts.available);
  }
  const std::vector<int64_t> taken = share_rows(config.rows, weights, available);
  std::vector<LaidOutRow> chosen;
  for (size_t i = 0; i < rows.size(); ++i) {
    mix.sources[i].taken = taken[i];
    std::move(rows[i].begin(), rows[i].begin() + taken[i], std::back_inserter(chosen));
  }
  if (chosen.empty()) fail(ErrorCode::kInvalidArgument, "data build mix: no row is left of any source");
  RandomStream random(static_cast<uint64_t>(config.seed), "mix");
  random.shuffle(chosen);
  mix.system = add_system_messages(config.system, chosen, random,
                                   {.fits = [&](const ChatRow& row) { return filter.fits(row); },
                                    .admits = [&](const std::string& text) { return filter.admits(text); }});
  for (LaidOutRow& row : chosen) mix.rows.push_back(std::move(row.row));
  return mix;
}

}  // namespace calyrex::data
