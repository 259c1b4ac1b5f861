#include "calyrex/cli/model_flags.h"

#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::cli {
namespace {

TEST(AdapterArgument, FolderAndScale) {
  EXPECT_EQ(parse_adapter_argument("runs/demo").path, "runs/demo");
  EXPECT_EQ(parse_adapter_argument("runs/demo").scale, 1.0);
  EXPECT_EQ(parse_adapter_argument("runs/demo@0.5").path, "runs/demo");
  EXPECT_EQ(parse_adapter_argument("runs/demo@0.5").scale, 0.5);
  EXPECT_EQ(parse_adapter_argument("runs/demo@-1").scale, -1.0);
  EXPECT_EQ(parse_adapter_argument("a@b/demo@2e0").path, "a@b/demo");
  for (const char* bad : {"runs/demo@", "runs/demo@x", "runs/demo@1x", "runs/demo@nan", "runs/demo@inf"}) {
    try {
      parse_adapter_argument(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << bad;
    }
  }
}

TEST(ModelFlags, ValuesAreChecked) {
  ModelFlags flags;
  flags.chat_kwargs = R"({"enable_thinking": false})";
  flags.dtype = "float32";
  const lm::LocalModelOptions options = local_model_options(flags);
  EXPECT_EQ(options.dtype, lm::Precision::kFloat32);
  EXPECT_EQ(options.chat_kwargs["enable_thinking"], false);
  const auto code_of = [](const ModelFlags& bad) {
    try {
      local_model_options(bad);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code_of({.dtype = "float16"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.chat_kwargs = "{"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.chat_kwargs = "[1]"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.chat_template = "no/such/file.jinja"}), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace calyrex::cli
