// Models of the Hugging Face hub: found in its local cache, or downloaded into it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace calyrex::weights {

struct HubName {
  std::string repository;  // "org/name"
  std::string revision = "main";
};

/// "org/name" or "org/name@revision"; nothing when the text is not of that form.
std::optional<HubName> parse_hub_name(std::string_view text);

/// Folder that holds the model's files. The cache (HF_HUB_CACHE, else HF_HOME/hub, else
/// ~/.cache/huggingface/hub; layout of https://huggingface.co/docs/hub/local-cache) is used without network
/// when it holds the whole model. Otherwise missing files are fetched from HF_ENDPOINT (default: the public
/// hub) with HF_TOKEN, unless HF_HUB_OFFLINE is 1; a broken download is continued, and weights are checked
/// against the SHA-256 that the hub states. Throws kNotFound (no such model, or offline), kUnavailable (no
/// answer, or no permission), kCorruptData (another digest).
std::filesystem::path fetch_hub_model(const HubName& name);

}  // namespace calyrex::weights
