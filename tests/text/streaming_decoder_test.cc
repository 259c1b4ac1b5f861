#include <chrono>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "calyrex/text/tokenizer.h"
#include "calyrex/text/utf8.h"
#include "tests/text/text_support.h"

namespace calyrex::text {
namespace {

std::string streamed(StreamingDecoder& decoder, const std::vector<TokenId>& ids) {
  std::string all;
  for (const TokenId id : ids) {
    const std::string text = decoder.push(id);
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(text.find("\ufffd"), std::string::npos) << "half a character";
    all += text;
  }
  return all + decoder.finish();
}

TEST(StreamingDecoder, GivesWhatDecodingAllAtOnceGives) {
  for (const char* family : {"smollm", "qwen2", "mistral"}) {
    const auto tokenizer = hf_tokenizer(family);
    StreamingDecoder decoder(tokenizer);
    for (const Json& row : read_json_file(golden_folder() / family / "encode.json")) {
      if (row["text"].get<std::string>().find("\ufffd") != std::string::npos) continue;
      const auto ids = row["plain_ids"].get<std::vector<TokenId>>();
      EXPECT_EQ(streamed(decoder, ids), tokenizer->decode(ids, Tokenizer::SpecialTokens::kSkip)) << family;
    }
  }
}

TEST(StreamingDecoder, WaitsForWholeCharacters) {
  const auto tokenizer = hf_tokenizer("smollm");
  StreamingDecoder decoder(tokenizer);
  const std::vector<TokenId> ids = tokenizer->encode("\U0001f9ff", AddedTokens::kNone).ids;
  ASSERT_GT(ids.size(), 2u) << "the sample must be cut into bytes";
  for (size_t index = 0; index + 1 < ids.size(); ++index) EXPECT_EQ(decoder.push(ids[index]), "");
  EXPECT_EQ(decoder.push(ids.back()), "\U0001f9ff");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push(ids.front()), "");
  EXPECT_EQ(decoder.finish(), "\ufffd");
}

TEST(StreamingDecoder, LeavesSpecialTokensOut) {
  const auto tokenizer = hf_tokenizer("mistral");
  StreamingDecoder decoder(tokenizer);
  std::string text;
  for (const char* piece :
       {"\u2581hello", "</s>", "\u2581the", "</s>", "</s>", "</s>", "</s>", "</s>", "\u2581the"}) {
    for (const TokenId id : tokenizer->encode(piece, AddedTokens::kAll).ids) text += decoder.push(id);
  }
  EXPECT_EQ(text + decoder.finish(), "hello the the");
}

TEST(StreamingDecoder, AGarbageStreamStillFlows) {
  const auto tokenizer = hf_tokenizer("smollm");
  StreamingDecoder decoder(tokenizer);
  const TokenId half = tokenizer->encode("\U0001f9ff", AddedTokens::kNone).ids.front();
  std::string text;
  for (int count = 0; count < 100; ++count) text += decoder.push(half);
  EXPECT_GT(text.size(), 100u);
  text += decoder.finish();
  EXPECT_TRUE(is_utf8(text));
}

/// Counts the ids it is asked to decode.
class CountingTokenizer final : public Tokenizer {
 public:
  explicit CountingTokenizer(std::shared_ptr<const Tokenizer> inner) : inner_(std::move(inner)) {}
  Encoding encode(std::string_view text, AddedTokens added) const override {
    return inner_->encode(text, added);
  }
  Encoding encode(std::string_view text, std::span<const AddedTokenRange> ranges) const override {
    return inner_->encode(text, ranges);
  }
  std::string decode(const std::vector<TokenId>& ids, SpecialTokens special) const override {
    decoded += ids.size();
    return inner_->decode(ids, special);
  }
  int64_t vocab_size() const override { return inner_->vocab_size(); }
  std::optional<TokenId> token_to_id(std::string_view token) const override {
    return inner_->token_to_id(token);
  }
  std::string id_to_token(TokenId id) const override { return inner_->id_to_token(id); }
  bool is_special(TokenId id) const override { return inner_->is_special(id); }
  const std::vector<AddedToken>& added_tokens() const override { return inner_->added_tokens(); }
  std::optional<TokenId> bos_to_add() const override { return inner_->bos_to_add(); }
  std::optional<std::string> bos_token() const override { return inner_->bos_token(); }
  std::optional<std::string> eos_token() const override { return inner_->eos_token(); }
  std::string to_json() const override { return inner_->to_json(); }

  mutable size_t decoded = 0;

 private:
  std::shared_ptr<const Tokenizer> inner_;
};

TEST(StreamingDecoder, CostGrowsLinearly) {
  const auto tokenizer = std::make_shared<CountingTokenizer>(hf_tokenizer("smollm"));
  const auto ids = tokenizer->encode("the quick brown fox \u65e5\u672c \U0001f9ff ", AddedTokens::kNone).ids;
  StreamingDecoder decoder(tokenizer);
  for (int round = 0; round < 100; ++round) {
    for (const TokenId id : ids) decoder.push(id);
  }
  EXPECT_LT(tokenizer->decoded, 8 * 100 * ids.size());
}

}  // namespace
}  // namespace calyrex::text
