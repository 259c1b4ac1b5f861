// Texts and ids of transformers for every template of tests/golden/text/templates.
#include <map>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/text/chat_encoder.h"
#include "tests/text/text_support.h"

namespace calyrex::text {
namespace {

std::string template_text(const std::string& name) {
  return read_file(golden_folder() / "templates" / (name + ".jinja"), 1 << 20);
}

TEST(ChatGolden, TextsAndIdsEqualTransformers) {
  const Json golden = read_json_file(golden_folder() / "chats.json");
  ASSERT_GT(golden["rows"].size(), 80u);
  std::map<std::string, std::shared_ptr<const Tokenizer>> tokenizers;
  for (const Json& row : golden["rows"]) {
    const std::string family = row["tokenizer"];
    SCOPED_TRACE(row["template"].get<std::string>() + " / " + row["chat"].get<std::string>() +
                 (row["prompt"] == true ? " / prompt " : " ") + to_json_line(row["kwargs"]));
    const weights::TokenizerSource source = hf_source(family);
    auto& tokenizer = tokenizers[family];
    if (!tokenizer) tokenizer = Tokenizer::create(source);
    ChatOptions options;
    options.chat_template = template_text(row["template"]);
    options.kwargs = row["kwargs"];
    options.date = golden["now"].get<std::string>();
    const ChatEncoder encoder(source, tokenizer, options);
    const Messages messages = parse_messages(golden["chats"][row["chat"].get<std::string>()], "golden");
    const Json tools = row["tools"] == "none" ? Json() : golden["tools"][row["tools"].get<std::string>()];
    const auto prompt = row["prompt"] == true ? GenerationPrompt::kAdd : GenerationPrompt::kNone;
    try {
      const EncodedChat chat = encoder.encode(messages, prompt, tools);
      ASSERT_TRUE(row.contains("text")) << "an error was due: " << row["error"];
      EXPECT_EQ(chat.text, row["text"].get<std::string>());
      if (row.contains("ids")) {
        EXPECT_EQ(chat.token_ids, row["ids"].get<std::vector<TokenId>>());
      }
    } catch (const Error& error) {
      ASSERT_TRUE(row.contains("error")) << error.what();
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.what(),
                "chat template of " + family + " refuses these messages: " + row["error"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace calyrex::text
