// A mixture on disk.
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"
#include "calyrex/data/mix.h"

namespace calyrex::data {
namespace {

Json describe_source(const MixSource& source, const MixSourceCounts& counts) {
  return {{"name", counts.name},
          {"path", source.path},
          {"sha256", file_sha256(source.path)},
          {"weight", source.weight},
          {"read", counts.read},
          {"unusable", counts.unusable},
          {"unanswered", counts.unanswered},
          {"too_long", counts.too_long},
          {"contaminated", counts.contaminated},
          {"duplicates", counts.duplicates},
          {"available", counts.available},
          {"taken", counts.taken}};
}

Json describe_decontamination(const MixConfig& config, const Mix& mix) {
  Json files = Json::array();
  for (const EvaluationFile& file : mix.evaluation_files) {
    files.push_back({{"path", file.path},
                     {"sha256", file_sha256(file.path)},
                     {"texts", file.texts},
                     {"rows_removed", file.rows_removed}});
  }
  return {{"ngram", config.decontaminate.ngram},
          {"rows_removed", mix.contaminated.size()},
          {"files", std::move(files)}};
}

Json write_rows(const std::vector<ChatRow>& rows, size_t begin, size_t end,
                const std::filesystem::path& path) {
  AtomicFile file(path);
  Sha256 digest;
  for (size_t i = begin; i < end; ++i) {
    const std::string line = to_json_line(row_to_json(rows[i], RowFormat::kMessages)) + "\n";
    file.write(line);
    digest.update(line);
  }
  file.commit();
  return {{"rows", end - begin}, {"sha256", digest.hex_digest()}};
}

}  // namespace

Json write_mix(const MixConfig& config, const Mix& mix, const std::filesystem::path& folder) {
  AtomicDirectory directory(folder);
  Json manifest = {{"kind", "mix"}, {"seed", config.seed}, {"rows", mix.rows.size()}};
  manifest["sources"] = Json::array();
  for (size_t i = 0; i < mix.sources.size(); ++i) {
    manifest["sources"].push_back(describe_source(config.sources[i], mix.sources[i]));
  }
  const MixSystemCounts& system = mix.system;
  const int64_t with_system = system.own + system.moved + system.added;
  manifest["system"] = {{"own", system.own},
                        {"moved", system.moved},
                        {"added", system.added},
                        {"share", static_cast<double>(with_system) / static_cast<double>(mix.rows.size())}};
  manifest["decontamination"] = describe_decontamination(config, mix);
  const auto dev = static_cast<size_t>(config.dev_rows);
  if (2 * dev > mix.rows.size()) {
    fail(ErrorCode::kInvalidArgument,
         "dev_rows {} is more than half of the {} rows that there are; take fewer", dev, mix.rows.size());
  }
  const size_t train = mix.rows.size() - dev;
  manifest["files"]["train.jsonl"] = write_rows(mix.rows, 0, train, directory.staging() / "train.jsonl");
  if (dev > 0) {
    manifest["files"]["dev.jsonl"] =
        write_rows(mix.rows, train, mix.rows.size(), directory.staging() / "dev.jsonl");
  }
  if (!mix.evaluation_files.empty()) {
    std::string report;
    for (const ContaminatedRow& row : mix.contaminated) {
      report += to_json_line({{"row", row.source}, {"found_in", row.place}, {"words", row.words}}) + "\n";
    }
    write_file_atomically(directory.staging() / "contaminated.jsonl", report);
  }
  manifest["configuration"] = write_fields(config);
  write_file_atomically(directory.staging() / "manifest.json", to_json_text(manifest));
  directory.commit_files("manifest.json");
  return manifest;
}

}  // namespace calyrex::data
