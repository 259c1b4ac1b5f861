#include "calyrex/text/tokenizer.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "calyrex/base/error.h"
#include "tests/text/text_support.h"

namespace calyrex::text {
namespace {

using ::testing::HasSubstr;

enum class Format { kJson, kGguf };

struct FamilyCase {
  std::string family;
  Format format;
};

std::string case_name(const ::testing::TestParamInfo<FamilyCase>& info) {
  std::string name = info.param.family + (info.param.format == Format::kJson ? "_json" : "_gguf");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class TokenizerFamilies : public ::testing::TestWithParam<FamilyCase> {
 protected:
  weights::TokenizerSource source() const {
    return GetParam().format == Format::kJson ? hf_source(GetParam().family) : gguf_source(GetParam().family);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Text, TokenizerFamilies,
    ::testing::Values(FamilyCase{"smollm", Format::kJson}, FamilyCase{"smollm", Format::kGguf},
                      FamilyCase{"qwen2", Format::kJson}, FamilyCase{"qwen2", Format::kGguf},
                      FamilyCase{"llama-bpe", Format::kJson}, FamilyCase{"llama-bpe", Format::kGguf},
                      FamilyCase{"gpt-2", Format::kJson}, FamilyCase{"gpt-2", Format::kGguf},
                      FamilyCase{"default", Format::kJson}, FamilyCase{"default", Format::kGguf},
                      FamilyCase{"mistral", Format::kJson}, FamilyCase{"mistral", Format::kGguf}),
    case_name);

TEST_P(TokenizerFamilies, GivesTheIdsOfHuggingFace) {
  const auto tokenizer = Tokenizer::create(source());
  const Json rows = read_json_file(golden_folder() / GetParam().family / "encode.json");
  ASSERT_GT(rows.size(), 20u);
  for (const Json& row : rows) {
    const auto text = row["text"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, AddedTokens::kAll).ids, row["ids"].get<std::vector<TokenId>>()) << text;
    const Encoding plain = tokenizer->encode(text, AddedTokens::kNone);
    EXPECT_EQ(plain.ids, row["plain_ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(tokenizer->decode(plain.ids, Tokenizer::SpecialTokens::kKeep),
              row["decoded"].get<std::string>());
    std::vector<TokenId> raw = tokenizer->encode(text, AddedTokens::kAll).ids;
    if (const auto bos = tokenizer->bos_to_add()) raw.insert(raw.begin(), *bos);
    EXPECT_EQ(raw, row["raw_ids"].get<std::vector<TokenId>>()) << text;
  }
}

TEST_P(TokenizerFamilies, OffsetsCoverTheTextInOrder) {
  const auto tokenizer = Tokenizer::create(source());
  for (const Json& row : read_json_file(golden_folder() / GetParam().family / "encode.json")) {
    const auto text = row["text"].get<std::string>();
    // NFC composes: a combining mark is covered by no token then.
    if (GetParam().family == "qwen2" && text.find("\u0301") != std::string::npos) continue;
    const Encoding encoding = tokenizer->encode(text, AddedTokens::kNone);
    int64_t reached = 0;
    for (size_t index = 0; index < encoding.ids.size(); ++index) {
      EXPECT_LE(encoding.byte_begin[index], reached) << text;
      EXPECT_GE(encoding.byte_end[index], reached) << text;
      reached = std::max(reached, encoding.byte_end[index]);
    }
    EXPECT_EQ(reached, static_cast<int64_t>(text.size())) << text;
  }
}

TEST_P(TokenizerFamilies, DescribesItsTokens) {
  const auto tokenizer = Tokenizer::create(source());
  EXPECT_FALSE(tokenizer->added_tokens().empty());
  for (const AddedToken& token : tokenizer->added_tokens()) {
    EXPECT_EQ(tokenizer->token_to_id(token.content), token.id);
    EXPECT_EQ(tokenizer->id_to_token(token.id), token.content);
    EXPECT_EQ(tokenizer->is_special(token.id), token.special);
    EXPECT_LT(token.id, tokenizer->vocab_size());
  }
  ASSERT_TRUE(tokenizer->eos_token().has_value());
  EXPECT_TRUE(tokenizer->is_special(tokenizer->token_to_id(*tokenizer->eos_token()).value()));
  EXPECT_EQ(tokenizer->token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->id_to_token(1 << 20), "");
  EXPECT_FALSE(tokenizer->is_special(1 << 20));
}

TEST(Tokenizer, RecognisesAddedTokensOnlyWhereAllowed) {
  const auto tokenizer = hf_tokenizer("qwen2");
  const auto id = [&](const char* token) { return tokenizer->token_to_id(token).value(); };
  const std::string text = "<|im_end|><think>a";
  EXPECT_THAT(tokenizer->encode(text, AddedTokens::kAll).ids,
              ::testing::ElementsAre(id("<|im_end|>"), id("<think>"), id("a")));
  const std::vector<TokenId> some = tokenizer->encode(text, AddedTokens::kNonSpecial).ids;
  EXPECT_THAT(some, ::testing::Contains(id("<think>")));
  EXPECT_THAT(some, ::testing::Not(::testing::Contains(id("<|im_end|>"))));
  const std::vector<TokenId> none = tokenizer->encode(text, AddedTokens::kNone).ids;
  EXPECT_THAT(none, ::testing::Not(::testing::Contains(id("<think>"))));
  EXPECT_EQ(tokenizer->decode(none, Tokenizer::SpecialTokens::kSkip), text);
}

TEST(Tokenizer, ATokenAcrossTheEdgeOfARangeIsPlainText) {
  const auto tokenizer = hf_tokenizer("qwen2");
  const TokenId end = tokenizer->token_to_id("<|im_end|>").value();
  const std::string text = "<|im_end|><|im_end|>";
  // The first token straddles the edge; the second is inside although the first swallowed nothing.
  const AddedTokenRange range = {1, 20, AddedTokens::kAll};
  const Encoding encoding = tokenizer->encode(text, std::span(&range, 1));
  EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), end), 1);
  EXPECT_EQ(encoding.ids.back(), end);
  EXPECT_EQ(encoding.byte_begin.back(), 10);
  // Two ranges that touch allow it together.
  const AddedTokenRange touching[] = {{0, 4, AddedTokens::kAll}, {4, 20, AddedTokens::kAll}};
  EXPECT_EQ(tokenizer->encode(text, touching).ids, (std::vector<TokenId>{end, end}));
}

/// A WordLevel-like vocabulary in which plain merges spell a special token.
weights::TokenizerSource source_with(const std::string& name, const Json& tokenizer) {
  weights::TokenizerSource source;
  source.name = name;
  source.tokenizer_json = std::filesystem::temp_directory_path() / ("calyrex_" + name + ".json");
  write_file_atomically(*source.tokenizer_json, to_json_line(tokenizer));
  return source;
}

Json small_bpe() {
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Fuse"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"<", 0}, {"s", 1}, {">", 2}, {"s>", 3}, {"<s>", 4}, {"a", 5}, {" ", 6}}},
            {"merges", Json::parse(R"([["s", ">"], ["<", "s>"]])")}}}};
}

Json added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

TEST(Tokenizer, MergesCannotSpellASpecialToken) {
  Json json = small_bpe();
  json["added_tokens"].push_back(added(4, "<s>", true));
  const auto tokenizer = Tokenizer::create(source_with("merges", json));
  EXPECT_EQ(tokenizer->encode("a<s>", AddedTokens::kAll).ids, (std::vector<TokenId>{5, 4}));
  const Encoding plain = tokenizer->encode("a<s>", AddedTokens::kNone);
  EXPECT_EQ(plain.ids, (std::vector<TokenId>{5, 0, 3}));
  EXPECT_EQ(plain.byte_begin, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(plain.byte_end, (std::vector<int64_t>{1, 2, 4}));
}

TEST(Tokenizer, StripsAndSingleWordsAsTheCrateDoes) {
  Json json = small_bpe();
  json["added_tokens"].push_back(added(7, "<l>", true));
  json["added_tokens"].back()["lstrip"] = true;
  json["added_tokens"].push_back(added(8, "<r>", true));
  json["added_tokens"].back()["rstrip"] = true;
  json["added_tokens"].push_back(added(9, "as", true));
  json["added_tokens"].back()["single_word"] = true;
  json["added_tokens"].push_back(added(10, "assa", true));
  const auto tokenizer = Tokenizer::create(source_with("flags", json));
  EXPECT_EQ(tokenizer->encode("a  <l> a", AddedTokens::kAll).ids, (std::vector<TokenId>{5, 7, 6, 5}));
  EXPECT_EQ(tokenizer->encode("a <r>  a", AddedTokens::kAll).ids, (std::vector<TokenId>{5, 6, 8, 5}));
  EXPECT_EQ(tokenizer->encode("as asa as", AddedTokens::kAll).ids,
            (std::vector<TokenId>{9, 6, 5, 1, 5, 6, 9}));
  EXPECT_EQ(tokenizer->encode("assa", AddedTokens::kAll).ids, (std::vector<TokenId>{10}));
}

TEST(Tokenizer, TakesAddedTokensAndBosFromItsConfiguration) {
  weights::TokenizerSource source = hf_source("gpt-2");
  source.tokenizer_config = Json::parse(R"({
    "bos_token": {"content": "<|endoftext|>", "__type": "AddedToken"}, "eos_token": "<|new|>", "add_bos_token": true,
    "added_tokens_decoder": {"900": {"content": "<tool>", "special": false}, "901": {"content": "<|x|>", "special": true}}
  })");
  const auto tokenizer = Tokenizer::create(source);
  EXPECT_EQ(tokenizer->bos_to_add(), tokenizer->token_to_id("<|endoftext|>"));
  EXPECT_EQ(tokenizer->bos_token(), "<|endoftext|>");
  for (const char* token : {"<tool>", "<|x|>", "<|new|>"}) {
    const TokenId id = tokenizer->token_to_id(token).value();
    EXPECT_EQ(tokenizer->encode(token, AddedTokens::kAll).ids, std::vector<TokenId>{id});
    EXPECT_EQ(tokenizer->is_special(id), std::string(token) != "<tool>");
  }
}

template <typename Function>
std::string error_of(ErrorCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Tokenizer, UnknownGgufKindsAreUnsupportedByName) {
  weights::TokenizerSource source = gguf_source("smollm");
  auto changed = std::make_shared<weights::GgufTokenizer>(*source.gguf);
  changed->pre = "deepseek-v3";
  source.gguf = changed;
  EXPECT_THAT(error_of(ErrorCode::kUnsupported, [&] { Tokenizer::create(source); }),
              ::testing::AllOf(HasSubstr("smollm"), HasSubstr("tokenizer.ggml.pre \"deepseek-v3\"")));
  changed = std::make_shared<weights::GgufTokenizer>(*changed);
  changed->model = "t5";
  source.gguf = changed;
  EXPECT_THAT(error_of(ErrorCode::kUnsupported, [&] { Tokenizer::create(source); }),
              HasSubstr("tokenizer.ggml.model \"t5\""));
}

TEST(Tokenizer, DamagedGgufVocabulariesAreCorrupt) {
  const auto corrupt = [](const std::string& family, auto&& change) {
    weights::TokenizerSource source = gguf_source(family);
    auto changed = std::make_shared<weights::GgufTokenizer>(*source.gguf);
    change(*changed);
    source.gguf = changed;
    return error_of(ErrorCode::kCorruptData, [&] { Tokenizer::create(source); });
  };
  EXPECT_THAT(corrupt("smollm", [](auto& gguf) { gguf.tokens[5] = gguf.tokens[6]; }),
              HasSubstr("tokens 5 and 6"));
  EXPECT_THAT(corrupt("smollm", [](auto& gguf) { gguf.merges[3] = "nospace"; }), HasSubstr("\"nospace\""));
  EXPECT_THAT(corrupt("smollm", [](auto& gguf) { gguf.merges[3] = "\xe2\x98\x83 x"; }), HasSubstr("smollm"));
  EXPECT_THAT(corrupt("smollm", [](auto& gguf) { gguf.token_types.pop_back(); }), HasSubstr("token_type"));
  EXPECT_THAT(corrupt("smollm", [](auto& gguf) { gguf.eos_id = 1 << 20; }), HasSubstr("eos_token_id"));
  EXPECT_THAT(corrupt("mistral", [](auto& gguf) { gguf.scores.pop_back(); }), HasSubstr("scores"));
  EXPECT_THAT(corrupt("mistral", [](auto& gguf) { gguf.scores[300] = std::nanf(""); }),
              HasSubstr("not a number"));
}

TEST(Tokenizer, DamagedFilesAndTextsGiveOneLine) {
  weights::TokenizerSource source;
  source.name = "model";
  EXPECT_THAT(error_of(ErrorCode::kNotFound, [&] { Tokenizer::create(source); }),
              HasSubstr("no tokenizer.json"));
  source = source_with("damaged", Json{{"version", "1.0"}, {"model", "x"}});
  EXPECT_THAT(error_of(ErrorCode::kCorruptData, [&] { Tokenizer::create(source); }), HasSubstr("damaged"));
  write_file_atomically(*source.tokenizer_json, std::string(200000, '['));
  error_of(ErrorCode::kCorruptData, [&] { Tokenizer::create(source); });
  const auto tokenizer = hf_tokenizer("smollm");
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { tokenizer->encode("\xff", AddedTokens::kAll); }),
              HasSubstr("UTF-8"));
}

TEST(Tokenizer, HugeTextsAreRefusedBeforeTheyTakeMemory) {
  const auto tokenizer = hf_tokenizer("smollm");
  try {
    tokenizer->encode(std::string((size_t{16} << 20) + 1, 'x'), AddedTokens::kNone);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "a text of 16777217 bytes; at most 16777216 are tokenised at once");
  }
}

TEST(Tokenizer, ByteLevelRoundTripsAnyText) {
  const auto smollm = hf_tokenizer("smollm");
  const auto llama = Tokenizer::create(gguf_source("llama-bpe"));
  rc::check("decode(encode(text)) == text", [&](const std::vector<uint32_t>& codes) {
    std::string text;
    for (const uint32_t code : codes) {
      const uint32_t c = code % 0x110000;
      if (c >= 0xd800 && c < 0xe000) continue;
      Json unit = std::string();
      if (c < 0x80) {
        text += static_cast<char>(c);
      } else if (c < 0x800) {
        text += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
      } else if (c < 0x10000) {
        text += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                 static_cast<char>(0x80 | (c & 63))};
      } else {
        text += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                 static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
      }
    }
    for (const auto& tokenizer : {smollm, llama}) {
      const Encoding encoding = tokenizer->encode(text, AddedTokens::kAll);
      RC_ASSERT(tokenizer->decode(encoding.ids, Tokenizer::SpecialTokens::kKeep) == text);
    }
  });
}

TEST(Tokenizer, ThreadsShareOne) {
  const auto tokenizer = hf_tokenizer("qwen2");
  const Json rows = read_json_file(golden_folder() / "qwen2" / "encode.json");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        for (const Json& row : rows) {
          const auto ids = tokenizer->encode(row["text"].get<std::string>(), AddedTokens::kAll).ids;
          if (ids != row["ids"].get<std::vector<TokenId>>()) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace calyrex::text
