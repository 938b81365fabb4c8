#include "runtime/checkpoint/Checkpoint.h"

#include "tests/unit/base/TempFolder.h"

using namespace m3c;
using test::expectError;
using test::TempFolder;
namespace fs = std::filesystem;

namespace {

/// Writes a shard with one U8 tensor of 4 elements per name.
void writeShard(const fs::path &path, std::initializer_list<const char *> names) {
  SafetensorsWriter writer;
  std::vector<uint8_t> bytes{1, 2, 3, 4};
  for (const char *name : names)
    writer.add(name, Dtype::U8, {4}, std::span<const uint8_t>(bytes));
  writer.write(path);
}

class CheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directory(folder.path("model"));
    writeShard(model("one.safetensors"), {"a", "b"});
    writeShard(model("two.safetensors"), {"c"});
    index(R"({"metadata":{"total_size":12},
              "weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})");
  }
  fs::path model(std::string_view name) const { return folder.path("model") / name; }
  void index(std::string_view text) const {
    folder.write("model/model.safetensors.index.json", text);
  }
  void refused(std::initializer_list<const char *> parts) const {
    expectError([&] { Checkpoint::open(folder.path("model")); }, parts);
  }

  TempFolder folder;
};

} // namespace

TEST_F(CheckpointTest, FindsTensorsInTheirShards) {
  Checkpoint checkpoint = Checkpoint::open(folder.path("model"));
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  const Checkpoint::Tensor *c = checkpoint.find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->shard->name, "two.safetensors");
  EXPECT_EQ(uint8_t(checkpoint.data(*c)[3]), 4);
  EXPECT_TRUE(checkpoint.fileOf(*c).ends_with("model/two.safetensors"));
  EXPECT_EQ(checkpoint.find("d"), nullptr);
  EXPECT_TRUE(checkpoint.warnings().empty());
  EXPECT_TRUE(checkpoint.indexDigest().has_value());
  Checkpoint moved = std::move(checkpoint);
  EXPECT_EQ(uint8_t(moved.data(*moved.find("a"))[0]), 1);
}

TEST_F(CheckpointTest, ReadsASingleFile) {
  TempFolder single;
  writeShard(single.path("model.safetensors"), {"x"});
  Checkpoint checkpoint = Checkpoint::open(single.path());
  EXPECT_NE(checkpoint.find("x"), nullptr);
  EXPECT_FALSE(checkpoint.indexDigest().has_value());
}

TEST_F(CheckpointTest, AFolderWithoutTensorsIsLegal) {
  TempFolder empty;
  EXPECT_FALSE(Checkpoint::open(empty.path()).hasTensors());
}

TEST_F(CheckpointTest, RefusesShardsWithoutAnIndex) {
  fs::remove(model("model.safetensors.index.json"));
  refused({"model.safetensors.index.json", "2 safetensors files", "one.safetensors"});
}

TEST_F(CheckpointTest, WarnsOfAWrongTotal) {
  index(R"({"metadata":{"total_size":13},"weight_map":{"c":"two.safetensors"}})");
  Checkpoint checkpoint = Checkpoint::open(folder.path("model"));
  ASSERT_EQ(checkpoint.warnings().size(), 1u);
  EXPECT_NE(checkpoint.warnings()[0].find("13"), std::string::npos);
}

TEST_F(CheckpointTest, TensorsThatTheIndexDoesNotNameAreListedAndNotRead) {
  index(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})");
  Checkpoint checkpoint = Checkpoint::open(folder.path("model"));
  EXPECT_EQ(checkpoint.find("b"), nullptr);
  EXPECT_EQ(checkpoint.unindexed().at("b"), "one.safetensors");
}

TEST_F(CheckpointTest, RefusesATensorInTwoShards) {
  writeShard(model("two.safetensors"), {"c", "a"});
  refused({"two.safetensors", "tensor a", "one.safetensors", "duplicate"});
}

TEST_F(CheckpointTest, RefusesATensorThatItsShardLacks) {
  writeShard(model("one.safetensors"), {"a"});
  refused({"one.safetensors", "tensor b", "does not have it"});
}

TEST_F(CheckpointTest, RefusesWrongIndexes) {
  index("[]");
  refused({"index.json", "an object"});
  index(R"({"weight_map":[]})");
  refused({"weight_map"});
  index(R"({"weight_map":{}})");
  refused({"weight_map"});
  index(R"({"weight_map":{"a":7}})");
  refused({"tensor a", "7", "a string"});
  index(R"({"weight_map":{"a":"three.safetensors"}})");
  refused({"three.safetensors", "does not exist", "model.safetensors.index.json"});
}

TEST_F(CheckpointTest, RefusesNamesThatLeaveTheFolderWithoutOpeningThem) {
  folder.write("secret.safetensors", "do not read");
  for (const char *name : {"../secret.safetensors", "/etc/passwd", "x/../../secret.safetensors", "",
                           "./one.safetensors", "sub//x", "..", "a\\\\b", "nul\\u0000"}) {
    index(std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    refused({"index.json", "not a plain path", "was not opened"});
  }
}

TEST_F(CheckpointTest, RefusesLinksThatLeaveTheFolderAndLoops) {
  folder.write("secret", "do not read");
  fs::remove(model("two.safetensors"));
  fs::create_symlink("../secret", model("two.safetensors"));
  refused({"two.safetensors", "outside the model folder"});
  fs::remove(model("two.safetensors"));
  fs::create_directory_symlink("..", model("up"));
  index(R"({"weight_map":{"a":"up/secret"}})");
  refused({"up/secret", "outside the model folder"});
  index(R"({"weight_map":{"a":"loop"}})");
  fs::create_symlink("loop", model("loop"));
  refused({"loop", "loop of symbolic links"});
}

TEST_F(CheckpointTest, FollowsLinksThatStayInside) {
  fs::create_directory(model("blobs"));
  fs::rename(model("two.safetensors"), model("blobs/2"));
  fs::create_symlink("blobs/2", model("two.safetensors"));
  EXPECT_NE(Checkpoint::open(folder.path("model")).find("c"), nullptr);
}

TEST_F(CheckpointTest, TheFolderItselfMayBeALink) {
  fs::create_directory_symlink("model", folder.path("link"));
  EXPECT_NE(Checkpoint::open(folder.path("link")).find("c"), nullptr);
}

TEST_F(CheckpointTest, RefusesAFolderThatIsNone) {
  expectError([&] { Checkpoint::open(folder.path("absent")); }, {"absent"});
  expectError([&] { Checkpoint::open(model("one.safetensors")); }, {"not a folder"});
}
