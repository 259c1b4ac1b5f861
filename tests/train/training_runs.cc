#include "tests/train/training_runs.h"

#include <fmt/format.h>

#include "calyrex/base/config_node.h"
#include "calyrex/base/file.h"

namespace calyrex::train {

std::filesystem::path write_tiny_config(const std::filesystem::path& folder,
                                        const std::vector<std::string>& settings) {
  ConfigNode tree;
  for (const std::string& assignment :
       {std::string("model=tests/golden/models/llama"), std::string("adapter.placement=[1, 2]"),
        std::string("data.train=[{path: tests/golden/training/rows.jsonl}]"),
        std::string("train.batch_examples=4"), std::string("train.shuffle=false"),
        std::string("train.dtype=float32"), std::string("train.save_dtype=f32"),
        std::string("train.learning_rate=1e-3"), "output=" + (folder / "run").string()}) {
    apply_override(tree, assignment);
  }
  for (const std::string& assignment : settings) apply_override(tree, assignment);
  // JSON is YAML too.
  const std::filesystem::path path = folder / "config.yaml";
  write_file_atomically(path, to_json_text(config_to_json(tree)));
  return path;
}

std::vector<Json> read_metrics(const std::filesystem::path& output) {
  std::vector<Json> rows;
  for_each_json_line(output / "metrics.jsonl", [&](int64_t, Json row) { rows.push_back(std::move(row)); });
  return rows;
}

std::vector<Json> timeless(std::vector<Json> metrics) {
  for (Json& row : metrics) row.erase("seconds");
  return metrics;
}

std::string file_bytes(const std::filesystem::path& path) { return read_file(path, size_t{1} << 30); }

}  // namespace calyrex::train
