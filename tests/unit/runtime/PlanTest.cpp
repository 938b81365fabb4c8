// The plan container: what is written is read back, equal input gives equal bytes, every damaged
// byte is found, and inconsistent tables are refused.
#include "runtime/base/Error.h"
#include "runtime/plan/Checksum.h"
#include "runtime/plan/Objects.h"
#include "runtime/plan/PlanCheck.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <fstream>

using namespace m3c;
using namespace m3c::plan;

namespace {

std::vector<std::byte> toyBytes() {
  PlanWriter writer = test::toyPlan();
  writer.addSection(SectionKind::Source, "// text");
  return writer.bytes();
}

/// The error that opening and verifying these bytes gives; empty when there is none.
std::string problemOf(std::vector<std::byte> bytes) {
  try {
    PlanFile::fromBytes(std::move(bytes), "x.m3plan").verify();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

/// The error of a plan whose tables `change` has altered.
std::string tablesProblem(const std::function<void(TablesT &)> &change) {
  PlanWriter writer;
  TablesT tables = test::toyTables(writer.addSection(SectionKind::Code, "code"));
  change(tables);
  writer.setTables(tables);
  writer.setManifest("{}");
  try {
    writer.bytes();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

std::filesystem::path freshFolder(const std::string &name) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

} // namespace

TEST(PlanFile, ReadsBackWhatWasWritten) {
  PlanWriter writer = test::toyPlan();
  uint32_t source = writer.addSection(SectionKind::Source, "int main() {}");
  EXPECT_EQ(source, 3u);
  std::filesystem::path path = freshFolder("plan_roundtrip") / "toy.m3plan";
  writer.publish(path);
  PlanFile plan = PlanFile::open(path);
  plan.verify();
  EXPECT_EQ(plan.manifest(), R"({"model": "toy"})");
  EXPECT_EQ(plan.tables().model()->vocab(), test::toyVocab);
  EXPECT_EQ(plan.tables().kernels()->Get(2)->name()->str(), "toy_logits");
  std::vector<std::byte> code = test::testKernelCode();
  std::span<const std::byte> stored = plan.sectionBytes(2);
  ASSERT_EQ(stored.size(), code.size());
  EXPECT_EQ(std::memcmp(stored.data(), code.data(), code.size()), 0);
  EXPECT_EQ(plan.section(2).offset % 4096, 0u);
  EXPECT_EQ(plan.sectionBytes(source).size(), 13u);
}

TEST(PlanFile, EqualInputGivesEqualBytes) { EXPECT_EQ(toyBytes(), toyBytes()); }

TEST(PlanFile, FindsADamagedByteAnywhere) {
  std::vector<std::byte> good = toyBytes();
  ASSERT_EQ(problemOf(good), "");
  // Every byte of the small parts, and a stride through the machine code.
  size_t tablesEnd = 8192;
  for (size_t at = 0; at < good.size(); at += at < tablesEnd ? 1 : 97) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte(0x10);
    EXPECT_NE(problemOf(std::move(bad)), "") << "byte " << at << " of " << good.size();
  }
}

TEST(PlanFile, FindsCutAndGrownFiles) {
  std::vector<std::byte> good = toyBytes();
  for (size_t length :
       {size_t(0), size_t(10), size_t(63), size_t(64), size_t(200), good.size() - 1}) {
    std::vector<std::byte> cut(good.begin(), good.begin() + ptrdiff_t(length));
    EXPECT_NE(problemOf(cut), "") << length;
  }
  good.push_back(std::byte(0));
  EXPECT_NE(problemOf(good).find("the file has"), std::string::npos);
}

TEST(PlanFile, RefusesOtherVersionsWithTheRemedy) {
  std::vector<std::byte> bytes = toyBytes();
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.version = 9;
  header.minimumReader = 8;
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::string problem = problemOf(bytes);
  EXPECT_NE(problem.find("plan format 9"), std::string::npos) << problem;
  EXPECT_NE(problem.find("reads formats 1 to 1"), std::string::npos) << problem;
  EXPECT_NE(problem.find("compile it again"), std::string::npos) << problem;
}

TEST(PlanFile, NamesTextThatIsNoPlan) {
  std::string text(200, 'x');
  std::vector<std::byte> bytes(200);
  std::memcpy(bytes.data(), text.data(), 200);
  EXPECT_NE(problemOf(bytes).find("is not a plan file"), std::string::npos);
}

TEST(PlanFile, OverlappingSectionsAreRefused) {
  std::vector<std::byte> bytes = toyBytes();
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<SectionEntry> entries(header.sectionCount);
  std::memcpy(entries.data(), bytes.data() + 64, entries.size() * sizeof(SectionEntry));
  entries[1].offset = entries[0].offset;
  storeDigest(header.checksum, headerChecksum(header, entries));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + 64, entries.data(), entries.size() * sizeof(SectionEntry));
  EXPECT_NE(problemOf(bytes).find("does not fit"), std::string::npos);
}

TEST(PlanTables, IndicesOutOfRangeAreRefused) {
  ASSERT_EQ(tablesProblem([](TablesT &) {}), "");
  using Change = std::function<void(TablesT &)>;
  std::vector<std::pair<std::string, Change>> cases = {
      {"kernel exists", [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->kernel = 3; }},
      {"takes 7 parameters",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->args.pop_back(); }},
      {"batch array",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->args[0]->index = 7; }},
      {"weight buffer exists",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[2]->args[9]->index = 1; }},
      {"lie within the arena",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[1]->args[7]->offset = 1 << 30; }},
      {"lie within the arena",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[1]->args[7]->row_bytes = 1 << 30; }},
      {"lie within the arena",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[1]->args[7]->block_bytes = 1 << 30; }},
      {"lie within the arena",
       [](TablesT &t) {
         t.targets[0]->buckets[1]->launches[1]->args[7]->row_bytes = UINT64_MAX / 2 + 1;
       }},
      {"lie within it",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[2]->args[9]->fixed_bytes = 1 << 20; }},
      {"within one page",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->args[5]->fixed_bytes = 4096; }},
      {"access of an argument",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->args[5]->access = Access(4); }},
      {"grow with rows",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->args[5]->row_bytes = 4; }},
      {"of all parameters or of none",
       [](TablesT &t) { t.kernels[0]->objects[0]->elements = {Element::F32}; }},
      {"is a known one",
       [](TablesT &t) {
         t.kernels[0]->objects[0]->elements.assign(t.kernels[0]->params, Element(17));
       }},
      {"within one page",
       [](TablesT &t) { t.targets[0]->buckets[0]->launches[0]->args[5]->offset = 4096; }},
      {"logits lie within",
       [](TablesT &t) { t.targets[0]->buckets[0]->logits_offset = UINT64_MAX - 3; }},
      {"aligned to 4", [](TablesT &t) { t.targets[0]->buckets[0]->logits_offset -= 2; }},
      {"4-byte values", [](TablesT &t) { t.targets[0]->buckets[0]->taps[0]->row_bytes -= 2; }},
      {"ascending rows",
       [](TablesT &t) { std::swap(t.targets[0]->buckets[0], t.targets[0]->buckets[1]); }},
      {"at least one", [](TablesT &t) { t.targets[0]->buckets.clear(); }},
      {"a tap names", [](TablesT &t) { t.targets[0]->buckets[0]->taps[0]->after_launch = 3; }},
      {"of the kind", [](TablesT &t) { t.kernels[0]->objects[0]->section = 1; }},
      {"of the kind", [](TablesT &t) { t.kernels[0]->objects[0]->section = 77; }},
      {"within the page", [](TablesT &t) { t.cache->layers[0]->index_offset = 900; }},
      {"within the page", [](TablesT &t) { t.cache->layers[0]->kv_offset = -8; }},
      {"one entry a layer", [](TablesT &t) { t.model->moe_layers.clear(); }},
      {"are required", [](TablesT &t) { t.model = nullptr; }},
      {"fit the buffer", [](TablesT &t) { t.weights[0]->bytes = 16; }},
      {"fit the buffer", [](TablesT &t) { t.weights[0]->pieces[0]->shape = {-1}; }},
      {"safetensors dtype", [](TablesT &t) { t.weights[0]->pieces[0]->dtype = "F33"; }},
  };
  for (auto &[expected, change] : cases) {
    std::string problem = tablesProblem(change);
    EXPECT_NE(problem.find(expected), std::string::npos) << expected << " / " << problem;
  }
}

TEST(PlanTables, PanelBuffersHaveTheirSize) {
  auto piece = [](std::vector<int64_t> shape, const char *dtype, uint32_t first, uint32_t step) {
    auto result = std::make_unique<WeightPieceT>();
    result->tensor = "t";
    result->dtype = dtype;
    result->shape = std::move(shape);
    result->first_panel = first;
    result->panel_step = step;
    return result;
  };
  auto problem = [&](Recipe recipe, uint32_t bits, uint64_t length, uint32_t panels, uint64_t bytes,
                     std::unique_ptr<WeightPieceT> a, uint32_t abreast = 1) {
    return tablesProblem([&](TablesT &t) {
      auto buffer = std::make_unique<WeightBufferT>();
      buffer->symbol = "w";
      buffer->recipe = recipe;
      buffer->bits = bits;
      buffer->row_length = length;
      buffer->panels = panels;
      buffer->abreast = abreast;
      buffer->bytes = bytes;
      buffer->pieces.push_back(std::move(a));
      t.weights.push_back(std::move(buffer));
    });
  };
  // 40 rows are 3 panels; a row of 64 4-bit elements has 32 bytes, a panel 512.
  EXPECT_EQ(problem(Recipe::PanelWords, 4, 64, 3, 1536, piece({40, 32}, "U8", 0, 1)), "");
  EXPECT_EQ(problem(Recipe::PanelWords, 4, 64, 6, 3072, piece({40, 32}, "U8", 1, 2)), "");
  EXPECT_NE(problem(Recipe::PanelWords, 4, 64, 5, 2560, piece({40, 32}, "U8", 1, 2)), "");
  EXPECT_NE(problem(Recipe::PanelWords, 4, 64, 3, 1535, piece({40, 32}, "U8", 0, 1)), "");
  EXPECT_NE(problem(Recipe::PanelWords, 4, 64, 3, 1536, piece({40, 31}, "U8", 0, 1)), "");
  EXPECT_EQ(problem(Recipe::PanelWords, 16, 64, 3, 6144, piece({40, 64}, "BF16", 0, 1)), "");
  EXPECT_NE(problem(Recipe::PanelWords, 5, 64, 3, 6144, piece({40, 64}, "BF16", 0, 1)), "");
  EXPECT_EQ(problem(Recipe::PanelScales, 0, 4, 3, 192, piece({40, 4}, "F8_E4M3", 0, 1)), "");
  // Panels abreast come in whole blocks.
  EXPECT_EQ(problem(Recipe::PanelWords, 4, 64, 4, 2048, piece({64, 32}, "U8", 0, 1), 2), "");
  EXPECT_NE(problem(Recipe::PanelWords, 4, 64, 3, 1536, piece({40, 32}, "U8", 0, 1), 2), "");
  EXPECT_NE(problem(Recipe::PanelWords, 4, 64, 4, 2048, piece({64, 32}, "U8", 0, 1), 0), "");
}

TEST(PlanWriter, LeavesNothingBehindWhenTheDiskIsFull) {
  std::filesystem::path folder = freshFolder("plan_full");
  PlanWriter writer = test::toyPlan();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = {4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small); // a write past 4 KiB fails as on a full disk
  EXPECT_THROW(writer.publish(folder / "toy.m3plan"), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(PlanWriter, NeverReplacesADeviceOrAFolder) {
  std::filesystem::path folder = freshFolder("plan_device");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(test::toyPlan().publish(folder / "pipe"), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_THROW(test::toyPlan().publish(folder), Error);
}

TEST(PlanWriter, KeepsTheOldFileUntilTheNewOneIsWhole) {
  std::filesystem::path path = freshFolder("plan_old") / "toy.m3plan";
  std::ofstream(path) << "old";
  PlanWriter incomplete;
  EXPECT_THROW(incomplete.publish(path), Error);
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
  test::toyPlan().publish(path);
  PlanFile::open(path).verify();
}

/// The toy plan with a second target, "other" for chip "c2", for which generic code stands in.
PlanFile twoTargets() {
  PlanWriter writer;
  TablesT tables = test::toyTables(writer.addSection(SectionKind::Code, test::testKernelCode()));
  auto other = std::make_unique<TargetT>(*tables.targets[0]);
  other->name = "other";
  other->chip = "c2";
  other->fallback_chip = "generic";
  tables.targets.push_back(std::move(other));
  writer.setTables(tables);
  writer.setManifest("{}");
  return PlanFile::fromBytes(writer.bytes(), "two.m3plan");
}

TEST(Objects, TargetsAreFoundByNameAndByChip) {
  PlanFile file = twoTargets();
  const Tables &tables = file.tables();
  EXPECT_EQ(targetNames(tables), (std::vector<std::string>{"toy", "other"}));
  EXPECT_EQ(findTarget(tables, "other"), tables.targets()->Get(1));
  EXPECT_EQ(findTarget(tables, "c2"), tables.targets()->Get(1));
  EXPECT_EQ(findTarget(tables, "c3"), nullptr);
  try {
    refuseTarget(tables, file.name(), "c3", "--target");
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("it has code for toy, other"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.code(), ExitCode::Usage);
  }
}

TEST(Objects, AnotherChipStandsInOnlyWhereTheTargetSaysSo) {
  PlanFile file = twoTargets();
  const Tables &tables = file.tables();
  const Kernel &kernel = *tables.kernels()->Get(0);
  const Target &toy = *tables.targets()->Get(0), &other = *tables.targets()->Get(1);
  EXPECT_FALSE(isIncomplete(toy));
  EXPECT_TRUE(isIncomplete(other));
  EXPECT_EQ(&requireObject(file, kernel, other), &requireObject(file, kernel, toy));
  EXPECT_EQ(objectFor(kernel, "c2"), nullptr);
}

TEST(Objects, GridsFollowThePageTable) {
  GridDim fixed(12, 0), byBlocks(0, 4);
  EXPECT_EQ(itemsAlong(fixed, 9), 12u);
  EXPECT_EQ(itemsAlong(byBlocks, 8), 2u);
  EXPECT_EQ(itemsAlong(byBlocks, 9), 3u);
}
