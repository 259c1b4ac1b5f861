#include "calyrex/weights/hub.h"

#include "calyrex/base/json.h"
#include "calyrex/base/sha256.h"
#include "calyrex/weights/model_source.h"
#include "tests/weights/loopback_server.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::LoopbackServer;
using test::TempFolder;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

TEST(HubName, Forms) {
  EXPECT_EQ(parse_hub_name("org/name")->repository, "org/name");
  EXPECT_EQ(parse_hub_name("org/name")->revision, "main");
  EXPECT_EQ(parse_hub_name("Qwen/Qwen2.5-1.5B-Instruct@refs/pr/3")->revision, "refs/pr/3");
  for (const char* text : {"name", "/name", "org/", "a/b/c", "./a", "../a", "a/..", "a/b@", "a/b@../x",
                           "a/b@x/../y", "a b/c", "a/b@-x", "org--x/name", "a/b@/x"}) {
    EXPECT_FALSE(parse_hub_name(text)) << text;
  }
}

/// A server, an empty cache, and the environment that points to both.
class Hub : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HF_ENDPOINT", (server_.url() + "/").c_str(), 1);
    ::setenv("HF_HOME", cache_.path().c_str(), 1);
    ::setenv("NO_PROXY", "127.0.0.1", 1);
    for (const char* name : {"HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"}) ::unsetenv(name);
  }
  void TearDown() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE"}) ::unsetenv(name);
  }

  static std::string path_of(const std::string& revision, const std::string& file) {
    return "/org/name/resolve/" + revision + "/" + file;
  }

  /// Serves a golden model's files as the hub does: by branch name and by commit.
  void serve(const char* model) {
    for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
      LoopbackServer::Answer answer{.body = test::read_bytes(entry.path()),
                                    .headers = {{"X-Repo-Commit", kCommit}}};
      const std::string file = entry.path().filename().string();
      if (file.ends_with(".safetensors")) {
        answer.headers["X-Linked-Etag"] = fmt::format("\"{}\"", sha256_hex(answer.body));
        answer.headers["X-Linked-Size"] = std::to_string(answer.body.size());
      }
      server_.set(path_of("main", file), answer);
      server_.set(path_of(kCommit, file), answer);
    }
  }

  fs::path snapshot() const { return cache_.path() / "hub" / "models--org--name" / "snapshots" / kCommit; }

  LoopbackServer server_;
  TempFolder cache_;
};

const char* const kLlama = "tests/golden/models/llama";

TEST_F(Hub, DownloadsOnceAndThenReadsTheCache) {
  serve(kLlama);
  const auto model = open_model("org/name");
  EXPECT_EQ(model->name(), "org/name");
  EXPECT_EQ(norms_sha256(*model), norms_sha256(*open_model(kLlama)));
  EXPECT_EQ(test::read_bytes(cache_.path() / "hub/models--org--name/refs/main"), kCommit);
  EXPECT_TRUE(fs::exists(snapshot() / "tokenizer.json"));
  EXPECT_TRUE(fs::exists(snapshot() / "generation_config.json"));
  EXPECT_FALSE(fs::exists(snapshot() / "model.safetensors.incomplete"));
  const size_t requests = server_.requests().size();
  open_model("org/name");
  open_model(std::string("org/name@") + kCommit);
  EXPECT_EQ(server_.requests().size(), requests);
}

TEST_F(Hub, DownloadsShards) {
  serve("tests/golden/models/mistral");
  EXPECT_EQ(open_model("org/name")->describe()["files"].size(), 2u);
}

TEST_F(Hub, ContinuesABrokenDownload) {
  serve(kLlama);
  LoopbackServer::Answer answer{.body = test::read_bytes(fs::path(kLlama) / "model.safetensors"),
                                .headers = {}};
  answer.headers["X-Linked-Etag"] = sha256_hex(answer.body);
  answer.break_after = 5000;
  server_.set(path_of(kCommit, "model.safetensors"), answer);
  open_model("org/name");
  const auto requests = server_.requests(path_of(kCommit, "model.safetensors"));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].range, "");
  EXPECT_EQ(requests[1].range, "bytes=5000-");
}

TEST_F(Hub, ContinuesThePartOfAnEarlierRun) {
  serve(kLlama);
  const std::string whole = test::read_bytes(fs::path(kLlama) / "model.safetensors");
  test::write_bytes(snapshot() / "model.safetensors.incomplete", whole.substr(0, 777));
  test::write_bytes(snapshot() / "tokenizer.json.incomplete",
                    test::read_bytes(fs::path(kLlama) / "tokenizer.json"));
  open_model("org/name");
  EXPECT_EQ(server_.requests(path_of(kCommit, "model.safetensors")).front().range, "bytes=777-");
  EXPECT_EQ(test::read_bytes(snapshot() / "model.safetensors"), whole);
  EXPECT_EQ(test::read_bytes(snapshot() / "tokenizer.json"),
            test::read_bytes(fs::path(kLlama) / "tokenizer.json"));
}

TEST_F(Hub, StartsAnewWhereTheServerKnowsNoRanges) {
  serve(kLlama);
  LoopbackServer::Answer answer{.body = test::read_bytes(fs::path(kLlama) / "model.safetensors"),
                                .headers = {}};
  answer.ranges = false;
  server_.set(path_of(kCommit, "model.safetensors"), answer);
  test::write_bytes(snapshot() / "model.safetensors.incomplete", "something else");
  open_model("org/name");
  EXPECT_EQ(test::read_bytes(snapshot() / "model.safetensors"), answer.body);
}

TEST_F(Hub, ARemainderThatIsTooLongIsDropped) {
  serve(kLlama);
  const std::string whole = test::read_bytes(fs::path(kLlama) / "model.safetensors");
  test::write_bytes(snapshot() / "model.safetensors.incomplete", whole + "more");
  open_model("org/name");
  EXPECT_EQ(test::read_bytes(snapshot() / "model.safetensors"), whole);
}

TEST_F(Hub, WeightsOfAnotherDigestAreRejected) {
  serve(kLlama);
  LoopbackServer::Answer answer{.body = "other bytes", .headers = {{"X-Linked-Etag", std::string(64, 'a')}}};
  server_.set(path_of(kCommit, "model.safetensors"), answer);
  expect_error(ErrorCode::kCorruptData,
               "model.safetensors is not the file that the hub describes (11 bytes received)",
               [] { open_model("org/name"); });
  EXPECT_FALSE(fs::exists(snapshot() / "model.safetensors"));
  EXPECT_FALSE(fs::exists(snapshot() / "model.safetensors.incomplete"));
  EXPECT_FALSE(fs::exists(cache_.path() / "hub/models--org--name/refs/main"));
}

TEST_F(Hub, RedirectsAreFollowedWithoutTheToken) {
  serve(kLlama);
  LoopbackServer elsewhere;
  elsewhere.set("/blob", {.body = test::read_bytes(fs::path(kLlama) / "model.safetensors"), .headers = {}});
  server_.set(path_of(kCommit, "model.safetensors"),
              {.body = "moved", .status = 302, .headers = {{"Location", elsewhere.url() + "/blob"}}});
  ::setenv("HF_TOKEN", "hf_secret", 1);
  open_model("org/name");
  EXPECT_EQ(server_.requests().front().authorization, "Bearer hf_secret");
  ASSERT_EQ(elsewhere.requests().size(), 1u);
  EXPECT_EQ(elsewhere.requests().front().authorization, "");
}

TEST_F(Hub, RedirectsToOtherProtocolsAreRefused) {
  serve(kLlama);
  server_.set(path_of(kCommit, "model.safetensors"),
              {.body = "", .status = 302, .headers = {{"Location", "file:///etc/hostname"}}});
  expect_error(ErrorCode::kUnavailable, "Protocol \"file\"", [] { open_model("org/name"); });
}

TEST_F(Hub, UnknownModel) {
  expect_error(ErrorCode::kNotFound,
               "no file or folder org/name, so it is taken for a model of the hub: downloading org/name: "
               "org/name has no file "
               "config.json at main",
               [] { open_model("org/name"); });
}

TEST_F(Hub, PermissionAndServerErrors) {
  server_.set(path_of("main", "config.json"), {.body = "no", .status = 401, .headers = {}});
  expect_error(ErrorCode::kUnavailable,
               "needs permission (HTTP 401); accept its terms on the hub and set HF_TOKEN",
               [] { open_model("org/name"); });
  server_.set(path_of("main", "config.json"), {.body = "no", .status = 503, .headers = {}});
  expect_error(ErrorCode::kUnavailable, "HTTP 503", [] { open_model("org/name"); });
}

TEST_F(Hub, NobodyAnswers) {
  {
    const LoopbackServer gone;
    ::setenv("HF_ENDPOINT", gone.url().c_str(), 1);
  }
  expect_error(ErrorCode::kUnavailable,
               "/org/name/resolve/main/config.json: ", [] { open_model("org/name"); });
}

TEST_F(Hub, Offline) {
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  expect_error(ErrorCode::kNotFound, "HF_HUB_OFFLINE forbids", [] { open_model("org/name"); });
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Hub, AShardNameFromTheNetworkIsChecked) {
  serve("tests/golden/models/mistral");
  server_.set(path_of(kCommit, "model.safetensors.index.json"),
              {.body = R"({"weight_map": {"x": "../../../evil.safetensors"}})", .headers = {}});
  expect_error(ErrorCode::kCorruptData, "is no name of a safetensors file", [] { open_model("org/name"); });
}

TEST_F(Hub, ModelsWithoutSafetensors) {
  serve(kLlama);
  server_.set(path_of(kCommit, "model.safetensors"), {.body = "", .status = 404, .headers = {}});
  expect_error(ErrorCode::kUnsupported, "org/name has no safetensors weights",
               [] { open_model("org/name"); });
}

TEST_F(Hub, ReadsACacheOfLinksThatAnotherProgramWrote) {
  const fs::path repository = cache_.path() / "hub" / "models--org--name";
  fs::create_directories(repository / "blobs");
  fs::create_directories(snapshot());
  for (const fs::directory_entry& entry : fs::directory_iterator(kLlama)) {
    const std::string name = entry.path().filename().string();
    fs::copy(entry.path(), repository / "blobs" / ("blob-" + name));
    fs::create_symlink("../../blobs/blob-" + name, snapshot() / name);
  }
  test::write_bytes(repository / "refs" / "main", kCommit);
  EXPECT_EQ(open_model("org/name")->config().num_layers, 3);
  EXPECT_TRUE(server_.requests().empty());
}

}  // namespace
}  // namespace calyrex::weights
