// What the metadata of a GGUF file say about the network and its tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "calyrex/weights/gguf.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::weights {

/// The network's shape; `vocab_size` is the number of rows of the embedding. Throws kUnsupported with the
/// key's name for another architecture or a setting this program lacks, kCorruptData for missing keys and
/// impossible sizes. tied_head and rope factors depend on tensors and are left to the caller.
ModelConfig read_gguf_config(const GgufFile& file, int64_t vocab_size);

/// Tokenizer, chat template and stop tokens. `name` is for messages.
TokenizerSource read_gguf_tokenizer(const GgufFile& file, const std::string& name, int64_t vocab_size);

}  // namespace calyrex::weights
