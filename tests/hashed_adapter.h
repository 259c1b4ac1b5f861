// Adapters whose weights follow from a formula (tests/golden/README.md, "score/"), so that no large file is
// stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/config_node.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::test {

inline std::vector<float> hashed_values(std::string_view name, int64_t count, double amplitude) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::vector<float> values(static_cast<size_t>(count));
  for (uint64_t i = 0; i < values.size(); ++i) {
    uint64_t z = hash + (i + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    values[i] = (static_cast<float>(z >> 40) - 8388608.0F) * static_cast<float>(amplitude / 8388608.0);
  }
  return values;
}

/// Writes an adapter folder from {"placement": [...], "cal": {...}}; every tensor is hashed, norms around 1.
inline void write_hashed_adapter(const std::filesystem::path& folder, const Json& description,
                                 const weights::ModelSource& model, double amplitude) {
  weights::AdapterConfig config;
  config.placement = description.at("placement").get<std::vector<int64_t>>();
  read_fields(config_from_json(description.value("cal", Json::object()), "cal"), config.cal);
  config.base = weights::base_identity(model);
  config = weights::resolve_adapter_config(std::move(config), model.config());
  const std::vector<weights::ExpectedTensor> expected = weights::expected_adapter_tensors(config);
  std::vector<std::vector<float>> values;
  std::vector<weights::TensorToWrite> tensors;
  values.reserve(expected.size());
  for (const weights::ExpectedTensor& tensor : expected) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    values.push_back(hashed_values(tensor.name, count, amplitude));
    if (tensor.name.ends_with("norm.weight")) {
      for (float& value : values.back()) value += 1.0F;
    }
    tensors.push_back({.name = tensor.name,
                       .dtype = weights::DType::kF32,
                       .shape = tensor.shape,
                       .data = std::as_bytes(std::span(values.back()))});
  }
  weights::write_adapter(folder, config, tensors, {});
}

}  // namespace calyrex::test
