// Which file a model's name means.
#include <array>
#include <map>

#include "calyrex/base/error.h"
#include "calyrex/base/fetched.h"
#include "calyrex/base/file.h"
#include "calyrex/weights/hub.h"
#include "calyrex/weights/model_files.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

/// The default backbone.
fs::path find_default_model() {
  return find_fetched("models/SmolLM2-135M-Instruct.Q4_1.gguf", "CALYREX_DEFAULT_MODEL", "the default model");
}

bool is_gguf(const fs::path& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view magic = "GGUF";
  const auto bytes = file.bytes();
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), reinterpret_cast<const char*>(bytes.data()));
}

std::shared_ptr<const ModelSource> open_path(const fs::path& path, const std::string& name) {
  if (fs::is_directory(path)) return open_hf_folder(path, name);
  if (path.extension() == ".gguf" || is_gguf(path)) return open_gguf_model(path, name);
  fail(ErrorCode::kInvalidArgument,
       "{} is no .gguf file; for safetensors give the folder that holds config.json", path.string());
}

}  // namespace

Json describe_types(const std::vector<TensorView>& tensors) {
  struct Total {
    int64_t tensors = 0;
    int64_t parameters = 0;
    size_t bytes = 0;
  };
  std::map<std::string_view, Total> totals;
  for (const TensorView& tensor : tensors) {
    Total& total = totals[dtype_name(tensor.dtype)];
    total.tensors += 1;
    total.parameters += tensor.num_values();
    total.bytes += tensor.data.size();
  }
  Json result = Json::object();
  for (const auto& [name, total] : totals) {
    result[std::string(name)] = {
        {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}};
  }
  return result;
}

std::shared_ptr<const ModelSource> open_model(const std::string& name) {
  if (name == "default") return open_path(find_default_model(), name);
  if (path_exists(name)) return open_path(name, name);
  const std::optional<HubName> hub = parse_hub_name(name);
  if (!hub || name.ends_with(".gguf")) {
    fail(ErrorCode::kNotFound,
         "no model {}: a model is a Hugging Face folder, a .gguf file, org/name or default", name);
  }
  const std::string context =
      fmt::format("no file or folder {}, so it is taken for a model of the hub", name);
  return open_hf_folder(with_context(context, [&] { return fetch_hub_model(*hub); }), name);
}

}  // namespace calyrex::weights
