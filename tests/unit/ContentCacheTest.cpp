// The cache answers with exactly what was stored, or not at all.
#include "runtime/base/ContentCache.h"
#include "runtime/base/Log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>
#include <unistd.h>

using namespace m3c;
namespace fs = std::filesystem;

namespace {

class ContentCacheTest : public ::testing::Test {
protected:
  ContentCacheTest() {
    log::setLevel(log::Level::Silent); // damage is planted on purpose
    folder = fs::temp_directory_path() / ("m3c-cache-test-" + std::to_string(getpid()));
    fs::remove_all(folder);
  }
  ~ContentCacheTest() override { fs::remove_all(folder); }

  static std::vector<std::byte> bytesOf(char fill, size_t count) {
    return std::vector<std::byte>(count, std::byte(fill));
  }
  static CacheKey keyOf(const std::string &text) { return CacheKey("kernel").add("source", text); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto &entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file())
        found.push_back(entry.path());
    return found;
  }

  fs::path folder;
};

TEST_F(ContentCacheTest, LoadsWhatWasStored) {
  ContentCache cache(folder);
  EXPECT_FALSE(cache.load(keyOf("a")));
  cache.store(keyOf("a"), bytesOf(1, 100));
  cache.store(keyOf("b"), bytesOf(2, 0));
  EXPECT_EQ(cache.load(keyOf("a")), bytesOf(1, 100));
  EXPECT_EQ(cache.load(keyOf("b")), bytesOf(2, 0));
  EXPECT_FALSE(cache.load(CacheKey("plan").add("source", "a")));
  EXPECT_EQ(files().size(), 2u); // nothing unpublished stays
}

TEST_F(ContentCacheTest, KeysKeepFieldsApart) {
  auto digest = [](auto... fields) {
    CacheKey key("kernel");
    (key.add("x", fields), ...);
    return key.digest();
  };
  EXPECT_FALSE(digest("ab", "c") == digest("a", "bc"));
  EXPECT_FALSE(digest("a", "") == digest("a"));
  EXPECT_TRUE(digest("a", "b") == digest("a", "b"));
}

TEST_F(ContentCacheTest, EveryDamagedByteIsFound) {
  ContentCache cache(folder);
  cache.store(keyOf("a"), bytesOf(1, 40));
  fs::path entry = files().at(0);
  std::string good;
  {
    std::ifstream in(entry, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 4);
    std::ofstream(entry, std::ios::binary) << bad;
    EXPECT_FALSE(cache.load(keyOf("a"))) << "byte " << i;
    EXPECT_FALSE(fs::exists(entry));
  }
  for (size_t length : {size_t(0), size_t(7), good.size() - 1}) {
    std::ofstream(entry, std::ios::binary) << good.substr(0, length);
    EXPECT_FALSE(cache.load(keyOf("a"))) << "length " << length;
  }
  std::ofstream(entry, std::ios::binary) << good;
  EXPECT_TRUE(cache.load(keyOf("a")));
  // An entry under another key's name is not taken for it.
  CacheKey other = keyOf("b");
  cache.store(other, bytesOf(3, 4));
  for (const fs::path &path : files())
    if (path != entry)
      fs::copy_file(entry, path, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.load(other));
}

TEST_F(ContentCacheTest, RacingWritersAndReadersSeeWholeEntries) {
  ContentCache cache(folder);
  auto expected = bytesOf(7, 200000);
  auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      cache.store(keyOf("shared"), expected);
      auto loaded = cache.load(keyOf("shared"));
      ASSERT_TRUE(loaded);
      ASSERT_EQ(*loaded, expected);
    }
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ContentCacheTest, AbandonedFilesGoAndFreshOnesStay) {
  ContentCache cache(folder);
  cache.store(keyOf("a"), bytesOf(1, 10));
  fs::path beside = files().at(0).parent_path();
  std::ofstream(beside / "x.entry.OLD") << "half";
  std::ofstream(beside / "x.entry.NEW") << "half";
  fs::last_write_time(beside / "x.entry.OLD",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.store(keyOf("a"), bytesOf(1, 10));
  EXPECT_FALSE(fs::exists(beside / "x.entry.OLD"));
  EXPECT_TRUE(fs::exists(beside / "x.entry.NEW"));
}

TEST_F(ContentCacheTest, AFolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder.string()) << "a file where the folder should be";
  ContentCache cache(folder / "below");
  cache.store(keyOf("a"), bytesOf(1, 10));
  EXPECT_FALSE(cache.load(keyOf("a")));
  ContentCache none{fs::path()};
  none.store(keyOf("a"), bytesOf(1, 10));
  EXPECT_FALSE(none.load(keyOf("a")));
}

TEST(ProgramIdentity, IsStable) {
  EXPECT_EQ(programIdentity().size(), 32u);
  EXPECT_EQ(programIdentity(), programIdentity());
}

} // namespace
