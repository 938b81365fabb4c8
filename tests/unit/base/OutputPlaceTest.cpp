#include "runtime/base/OutputPlace.h"

#include "tests/unit/base/TempFolder.h"

#include <sys/stat.h>

using namespace m3c;
using test::expectError;
using test::TempFolder;
namespace fs = std::filesystem;

TEST(OutputPlace, AnInputIsNoOutputByAnyName) {
  TempFolder folder;
  fs::path in = folder.write("in", "x");
  fs::create_symlink(in, folder.path("link"));
  fs::create_hard_link(in, folder.path("hard"));
  const fs::path inputs[] = {in, folder.path("absent")};
  for (const char *name : {"in", "./in", "link", "hard", "sub/../in"})
    expectError([&] { requireApart(folder.path(name), inputs); },
                {"is the input", "another place"});
  EXPECT_NO_THROW(requireApart(folder.path("in2"), inputs));
}

TEST(OutputPlace, NothingIsWrittenIntoAnInputFolder) {
  TempFolder folder;
  folder.write("model/config.json", "{}");
  fs::path blob = folder.write("blobs/config", "{}");
  fs::create_symlink(blob, folder.path("model/linked.json"));
  fs::create_directory_symlink(folder.path("model"), folder.path("other"));
  const fs::path inputs[] = {folder.path("model/")};
  for (const char *name :
       {"model/config.json", "model/new", "model/new/deep", "other/new", "model/linked.json"})
    expectError([&] { requireApart(folder.path(name), inputs); }, {"lies inside", "model"});
  expectError([&] { requireApart(folder.path("other"), inputs); }, {"is the input"});
  EXPECT_NO_THROW(requireApart(folder.path("model2/new"), inputs));
  EXPECT_NO_THROW(requireApart(folder.path("plan"), inputs));
}

TEST(OutputPlace, WhatCannotBeWrittenIsKnownBefore) {
  TempFolder folder;
  folder.write("in", "x");
  expectError([&] { requireWritable(folder.path("absent/out")); },
              {"there is no folder", "absent"});
  expectError([&] { requireWritable(folder.path("in/out")); }, {"there is no folder"});
  expectError([&] { requireWritable(folder.path()); }, {"it is a folder"});
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expectError([&] { requireWritable(folder.path("pipe")); }, {"not a regular file"});
  EXPECT_NO_THROW(requireWritable(folder.path("out")));
  EXPECT_NO_THROW(requireWritable(folder.path("in")));
  EXPECT_NO_THROW(requireWritable("out"));
}
