// Loads the golden tokenizers of tests/golden/text.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "calyrex/base/json.h"
#include "calyrex/text/tokenizer.h"
#include "calyrex/weights/gguf.h"
#include "calyrex/weights/gguf_config.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::text {

inline std::filesystem::path golden_folder() { return "tests/golden/text"; }

/// A family as a Hugging Face folder has it.
inline weights::TokenizerSource hf_source(const std::string& family) {
  weights::TokenizerSource source;
  source.name = family;
  source.tokenizer_json = golden_folder() / family / "tokenizer.json";
  source.tokenizer_config = read_json_file(golden_folder() / family / "tokenizer_config.json");
  return source;
}

/// The same family as a GGUF file has it.
inline weights::TokenizerSource gguf_source(const std::string& family) {
  const auto file = weights::GgufFile::open(golden_folder() / family / "tokenizer.gguf");
  return weights::read_gguf_tokenizer(file, family, 1 << 20);
}

inline std::shared_ptr<const Tokenizer> hf_tokenizer(const std::string& family) {
  return Tokenizer::create(hf_source(family));
}

}  // namespace calyrex::text
