#include "calyrex/text/tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/text/bridge_call.h"

namespace calyrex::text {
namespace {

constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
constexpr size_t kMaxTextBytes = size_t{16} << 20;  // the library takes some 240 bytes of memory a byte

struct HandleDeleter {
  void operator()(CalyrexTokenizer* handle) const { calyrex_tokenizer_free(handle); }
};
using Handle = std::unique_ptr<CalyrexTokenizer, HandleDeleter>;

/// BOS and EOS as the model's files name them, and whether they ask for a BOS before plain text.
struct NamedTokens {
  std::optional<std::string> bos, eos;
  std::optional<bool> add_bos;  // absent: as the tokenizer's own post-processor does
};

/// A token in tokenizer_config.json: a string, or an object with "content".
std::optional<std::string> token_text(const Json& config, std::string_view key) {
  const auto value = config.find(key);
  if (value == config.end()) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (value->is_object() && value->contains("content") && (*value)["content"].is_string()) {
    return (*value)["content"].get<std::string>();
  }
  return std::nullopt;
}

Json added_token(const std::string& content, const Json& flags) {
  const auto flag = [&](std::string_view name, bool otherwise) {
    const auto value = flags.is_object() ? flags.find(name) : flags.end();
    return value != flags.end() && value->is_boolean() ? value->get<bool>() : otherwise;
  };
  const bool special = flag("special", true);
  return {{"content", content},
          {"special", special},
          {"lstrip", flag("lstrip", false)},
          {"rstrip", flag("rstrip", false)},
          {"single_word", flag("single_word", false)},
          {"normalized", flag("normalized", !special)}};
}

/// The tokens that tokenizer_config.json adds to tokenizer.json (transformers' TokenizersBackend.__init__).
Json extra_tokens(const Json& config) {
  std::map<int64_t, Json> declared;
  if (const auto decoder = config.find("added_tokens_decoder");
      decoder != config.end() && decoder->is_object()) {
    for (const auto& [key, value] : decoder->items()) {
      const auto content = value.is_object() ? value.find("content") : value.end();
      if (content == value.end() || !content->is_string() || key.empty() || key.size() > 9 ||
          key.find_first_not_of("0123456789") != std::string::npos) {
        fail(ErrorCode::kCorruptData, "tokenizer_config.json: added_tokens_decoder[\"{}\"] is no token", key);
      }
      declared[std::stoll(key)] = added_token(content->get<std::string>(), value);
    }
  }
  Json named = Json::array();
  const auto add_named = [&](const Json& value) {
    if (value.is_string()) named.push_back(added_token(value.get<std::string>(), Json()));
    if (value.is_object() && value.contains("content") && value["content"].is_string()) {
      named.push_back(added_token(value["content"].get<std::string>(), value));
    }
  };
  for (const auto* key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (config.contains(key)) add_named(config[key]);
  }
  for (const auto* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!config.contains(key) || !config[key].is_structured()) continue;
    for (const Json& value : config[key]) add_named(value);
  }
  Json list = Json::array();
  for (auto& [id, token] : declared) list.push_back(std::move(token));
  return {{"declared", std::move(list)}, {"named", std::move(named)}};
}

NamedTokens named_tokens(const Json& config) {
  NamedTokens special = {token_text(config, "bos_token"), token_text(config, "eos_token"), std::nullopt};
  if (const auto add = config.find("add_bos_token"); add != config.end()) special.add_bos = *add == true;
  return special;
}

std::optional<std::string> token_of(const weights::GgufTokenizer& gguf, std::optional<TokenId> id,
                                    const char* key) {
  if (!id) return std::nullopt;
  if (*id < 0 || static_cast<size_t>(*id) >= gguf.tokens.size()) {
    fail(ErrorCode::kCorruptData, "tokenizer.ggml.{} is {}, but there are {} tokens", key, *id,
         gguf.tokens.size());
  }
  return gguf.tokens[static_cast<size_t>(*id)];
}

/// llama.cpp's defaults where the file has no add_bos_token.
NamedTokens named_tokens(const weights::GgufTokenizer& gguf) {
  const bool usual = gguf.model == "llama" || gguf.pre == "llama-bpe";
  return {token_of(gguf, gguf.bos_id, "bos_token_id"), token_of(gguf, gguf.eos_id, "eos_token_id"),
          gguf.add_bos.value_or(usual)};
}

Handle load_json(const weights::TokenizerSource& source) {
  const std::string json = read_file(*source.tokenizer_json, kMaxTokenizerBytes);
  const std::string extra = to_json_line(extra_tokens(source.tokenizer_config));
  CalyrexTokenizer* handle = nullptr;
  BridgeBytes error;
  const auto status =
      calyrex_tokenizer_from_json(bridge_view(json), bridge_view(extra), &handle, error.out());
  check_bridge(status, error, source.tokenizer_json->string());
  return Handle(handle);
}

std::vector<CalyrexView> views(const std::vector<std::string>& strings) {
  std::vector<CalyrexView> result(strings.size());
  std::transform(strings.begin(), strings.end(), result.begin(),
                 [](const auto& text) { return bridge_view(text); });
  return result;
}

Handle load_gguf(const weights::GgufTokenizer& gguf, const std::string& name) {
  if (gguf.token_types.size() != gguf.tokens.size()) {
    fail(ErrorCode::kCorruptData, "{}: tokenizer.ggml.token_type has {} entries for {} tokens", name,
         gguf.token_types.size(), gguf.tokens.size());
  }
  token_of(gguf, gguf.unknown_id, "unknown_token_id");
  const std::vector<CalyrexView> tokens = views(gguf.tokens);
  const std::vector<CalyrexView> merges = views(gguf.merges);
  CalyrexGguf description = {};
  description.model = bridge_view(gguf.model);
  description.pre = bridge_view(gguf.pre);
  description.tokens = tokens.data();
  description.num_tokens = tokens.size();
  description.scores = gguf.scores.data();
  description.num_scores = gguf.scores.size();
  description.types = gguf.token_types.data();
  description.num_types = gguf.token_types.size();
  description.merges = merges.data();
  description.num_merges = merges.size();
  description.unknown_id = gguf.unknown_id.value_or(-1);
  description.space_prefix = gguf.add_space_prefix.value_or(true) ? 1 : 0;
  CalyrexTokenizer* handle = nullptr;
  BridgeBytes error;
  check_bridge(calyrex_tokenizer_from_gguf(&description, &handle, error.out()), error, name);
  return Handle(handle);
}

class BridgeTokenizer final : public Tokenizer {
 public:
  BridgeTokenizer(Handle handle, NamedTokens special)
      : handle_(std::move(handle)), special_(std::move(special)) {
    BridgeBytes json, error;
    check_bridge(calyrex_tokenizer_describe(handle_.get(), json.out(), error.out()), error, "tokenizer");
    const Json description = parse_json(json.view(), "tokenizer");
    vocab_size_ = description["vocab_size"].get<int64_t>();
    for (const Json& token : description["added_tokens"]) {
      added_.push_back({token[0].get<TokenId>(), token[1].get<std::string>(), token[2].get<bool>()});
      if (added_.back().special) special_ids_.insert(added_.back().id);
    }
    if (!special_.add_bos) {
      if (!description["leading_id"].is_null()) bos_to_add_ = description["leading_id"].get<TokenId>();
    } else if (*special_.add_bos && special_.bos) {
      bos_to_add_ = token_to_id(*special_.bos);
    }
  }

  Encoding encode(std::string_view text, AddedTokens added) const override {
    const AddedTokenRange whole = {0, static_cast<int64_t>(text.size()), added};
    return encode(text,
                  added == AddedTokens::kNone ? std::span<const AddedTokenRange>() : std::span(&whole, 1));
  }

  Encoding encode(std::string_view text, std::span<const AddedTokenRange> ranges) const override {
    if (text.size() > kMaxTextBytes) {
      fail(ErrorCode::kInvalidArgument, "a text of {} bytes; at most {} are tokenised at once", text.size(),
           kMaxTextBytes);
    }
    std::vector<CalyrexRange> allowed;
    allowed.reserve(ranges.size());
    for (const AddedTokenRange& range : ranges) {
      if (range.added == AddedTokens::kNone || range.begin >= range.end) continue;
      allowed.push_back({static_cast<size_t>(range.begin), static_cast<size_t>(range.end),
                         range.added == AddedTokens::kAll ? 2 : 1});
    }
    CalyrexEncoding raw = {};
    BridgeBytes error;
    const auto status = calyrex_tokenizer_encode(handle_.get(), bridge_view(text), allowed.data(),
                                                 allowed.size(), &raw, error.out());
    check_bridge(status, error, "tokenizer");
    Encoding encoding;
    encoding.ids.assign(raw.ids, raw.ids + raw.size);
    encoding.byte_begin.assign(raw.begin, raw.begin + raw.size);
    encoding.byte_end.assign(raw.end, raw.end + raw.size);
    calyrex_encoding_free(raw);
    return encoding;
  }

  std::string decode(const std::vector<TokenId>& ids, Tokenizer::SpecialTokens special) const override {
    BridgeBytes text, error;
    const auto status =
        calyrex_tokenizer_decode(handle_.get(), ids.data(), ids.size(),
                                 special == Tokenizer::SpecialTokens::kSkip, text.out(), error.out());
    check_bridge(status, error, "tokenizer");
    return std::string(text.view());
  }

  int64_t vocab_size() const override { return vocab_size_; }

  std::optional<TokenId> token_to_id(std::string_view token) const override {
    const int64_t id = calyrex_tokenizer_token_to_id(handle_.get(), bridge_view(token));
    return id < 0 ? std::nullopt : std::optional(static_cast<TokenId>(id));
  }

  std::string id_to_token(TokenId id) const override {
    const BridgeBytes token(calyrex_tokenizer_id_to_token(handle_.get(), id));
    return std::string(token.view());
  }

  bool is_special(TokenId id) const override { return special_ids_.contains(id); }
  const std::vector<AddedToken>& added_tokens() const override { return added_; }
  std::optional<TokenId> bos_to_add() const override { return bos_to_add_; }
  std::optional<std::string> bos_token() const override { return special_.bos; }
  std::optional<std::string> eos_token() const override { return special_.eos; }

  std::string to_json() const override {
    BridgeBytes json, error;
    check_bridge(calyrex_tokenizer_to_json(handle_.get(), json.out(), error.out()), error, "tokenizer");
    return std::string(json.view());
  }

 private:
  Handle handle_;
  NamedTokens special_;
  std::vector<AddedToken> added_;
  std::unordered_set<TokenId> special_ids_;
  std::optional<TokenId> bos_to_add_;
  int64_t vocab_size_ = 0;
};

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::create(const weights::TokenizerSource& source) {
  if (source.gguf) {
    return with_context(source.name, [&]() -> std::shared_ptr<const Tokenizer> {
      return std::make_shared<BridgeTokenizer>(load_gguf(*source.gguf, "tokenizer"),
                                               named_tokens(*source.gguf));
    });
  }
  if (!source.tokenizer_json) {
    fail(ErrorCode::kNotFound, "{}: the model has no tokenizer.json", source.name);
  }
  return std::make_shared<BridgeTokenizer>(load_json(source), named_tokens(source.tokenizer_config));
}

}  // namespace calyrex::text
