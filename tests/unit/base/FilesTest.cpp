#include "runtime/base/FileWriter.h"
#include "runtime/base/Hash.h"
#include "runtime/base/MappedFile.h"

#include "tests/unit/base/TempFolder.h"

#include <sys/stat.h>
#include <unistd.h>

using namespace m3c;
using test::expectError;
using test::TempFolder;
namespace fs = std::filesystem;

TEST(MappedFile, MapsAndReads) {
  TempFolder folder;
  MappedFile file = MappedFile::open(folder.write("f", "hello world"));
  ASSERT_EQ(file.size(), 11u);
  EXPECT_EQ(char(file.bytes()[4]), 'o');
  char piece[5];
  file.read(6, std::as_writable_bytes(std::span(piece)));
  EXPECT_EQ(std::string_view(piece, 5), "world");
  MappedFile moved = std::move(file);
  EXPECT_EQ(char(moved.bytes()[0]), 'h');
}

TEST(MappedFile, AcceptsAnEmptyFile) {
  TempFolder folder;
  EXPECT_EQ(MappedFile::open(folder.write("f", "")).bytes().size(), 0u);
}

TEST(MappedFile, ReadingPastACutFileIsAnError) {
  TempFolder folder;
  fs::path path = folder.write("f", std::string(10000, 'x'));
  MappedFile file = MappedFile::open(path);
  fs::resize_file(path, 100);
  std::vector<std::byte> piece(200);
  expectError([&] { file.read(0, piece); }, {"ends at byte 100", "10000"});
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  TempFolder folder;
  expectError([&] { MappedFile::open(folder.path()); }, {"a folder"});
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expectError([&] { MappedFile::open(folder.path("pipe")); }, {"named pipe"});
  expectError([&] { MappedFile::open("/dev/zero"); }, {"a device"});
  expectError([&] { MappedFile::open(folder.path("absent")); }, {"does not exist"});
  fs::create_symlink("loop", folder.path("loop"));
  expectError([&] { MappedFile::open(folder.path("loop")); }, {"loop of links"});
}

TEST(FileWriter, PublishesWholeFilesOnly) {
  TempFolder folder;
  folder.write("out", "old");
  {
    FileWriter writer(folder.path("out"));
    writer.write("half");
  } // not published
  EXPECT_EQ(fs::file_size(folder.path("out")), 3u);
  FileWriter writer(folder.path("out"));
  writer.write("new content");
  writer.publish();
  EXPECT_EQ(fs::file_size(folder.path("out")), 11u);
  auto entries = fs::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "temporary files stay behind";
}

TEST(FileWriter, WritesThroughLinks) {
  TempFolder folder;
  folder.write("real/out", "old");
  fs::create_symlink("real/out", folder.path("link"));
  fs::create_symlink(folder.path("link"), folder.path("chain"));
  fs::create_symlink("real/new", folder.path("dangling"));
  for (const char *name : {"chain", "dangling"}) {
    FileWriter writer(folder.path(name));
    writer.write(name);
    writer.publish();
    EXPECT_TRUE(fs::is_symlink(folder.path(name))) << name;
  }
  EXPECT_EQ(fs::file_size(folder.path("real/out")), 5u);
  EXPECT_EQ(fs::file_size(folder.path("real/new")), 8u);
  fs::create_symlink("loop", folder.path("loop"));
  expectError([&] { FileWriter(folder.path("loop")); }, {"cannot write", "symbolic links"});
  fs::create_symlink("no/such", folder.path("nowhere"));
  expectError([&] { FileWriter(folder.path("nowhere")); }, {"cannot write", "make the folder"});
}

TEST(FileWriter, SaysWhyItCannotWrite) {
  TempFolder folder;
  expectError([&] { FileWriter(folder.path("no/such/folder")); },
              {"cannot write", "make the folder"});
  fs::create_directory(folder.path("taken"));
  folder.write("taken/file", "x");
  expectError([&] { FileWriter(folder.path("taken")); },
              {"cannot write", "taken", "it is a folder"});
}

TEST(Hash, AgreesWithTheLibrarysOwnVectors) {
  // XXH3_128bits of the empty input, seed 0: 99aa06d3014798d86001c324468d497f (xxHash's own
  // specification and `xxhsum -H2 /dev/null`).
  EXPECT_EQ(hash128(std::string_view("")).hex(), "99aa06d3014798d86001c324468d497f");
  Hasher128 hasher;
  hasher.add(std::string_view("hello "));
  hasher.add(std::string_view("world"));
  EXPECT_EQ(hasher.finish(), hash128(std::string_view("hello world")));
  EXPECT_NE(hasher.finish(), hash128(std::string_view("hello worle")));
}
