#include "runtime/plan/PlanCheck.h"

#include "runtime/base/Error.h"
#include "runtime/checkpoint/Dtype.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>

#include <optional>

namespace m3c::plan {

namespace {

/// a + b·c, or nothing on overflow.
std::optional<uint64_t> addProduct(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t product, sum;
  if (__builtin_mul_overflow(b, c, &product) || __builtin_add_overflow(a, product, &sum))
    return std::nullopt;
  return sum;
}

bool fits(uint64_t offset, uint64_t count, uint64_t each, uint64_t limit) {
  std::optional<uint64_t> end = addProduct(offset, count, each);
  return end && *end <= limit;
}

std::string nameOf(const flatbuffers::String *text) { return text ? text->str() : "(unnamed)"; }

/// FlatBuffers' verifier looks at the place of a vector's length alone, which is aligned to 4
/// bytes.
bool isAligned(const flatbuffers::Vector<int64_t> *vector) {
  return !vector || reinterpret_cast<uintptr_t>(vector->Data()) % alignof(int64_t) == 0;
}

class Checker {
public:
  Checker(const Tables &tables, std::span<const SectionEntry> sections, const std::string &file)
      : tables(tables), sections(sections), file(file) {}

  void run() {
    need(tables.model() && tables.cache(), "tables", "model and cache are required");
    checkModel(*tables.model());
    checkCache(*tables.cache());
    for (const WeightBuffer *buffer : list(tables.weights()))
      checkWeight(*buffer);
    for (const Kernel *kernel : list(tables.kernels()))
      checkKernel(*kernel);
    for (const Target *target : list(tables.targets())) {
      need(target->name() && target->chip(), "target", "name and chip are required");
      checkBuckets(*target);
      for (const NamedSection *header : list(target->headers())) {
        need(header->name(), target->chip()->str(), "a header has a name");
        checkSection(header->section(), SectionKind::Extra, nameOf(header->name()));
      }
    }
    for (const NamedSection *extra : list(tables.extras()))
      checkSection(extra->section(), SectionKind::Extra, nameOf(extra->name()));
  }

private:
  void need(bool holds, const std::string &where, const std::string &rule) {
    if (!holds)
      throw Error(fmt::format("{} has inconsistent tables", file), where, rule,
                  "make the plan again with `m3c compile`");
  }

  void checkModel(const Model &model) {
    need(model.layers() > 0 && model.hidden() > 0 && model.vocab() > 0 && model.kv_heads() > 0 &&
             model.max_positions() > 0,
         "model", "layers, hidden, vocab, kv_heads and max_positions are positive");
    need(list(model.sparse_layers()).size() == model.layers() &&
             list(model.moe_layers()).size() == model.layers(),
         "model", "sparse_layers and moe_layers have one entry a layer");
    need(model.vocab() <= INT32_MAX && model.max_positions() <= INT32_MAX, "model",
         "token ids and positions fit 32 bits");
  }

  void checkCache(const Cache &cache) {
    need(cache.page_tokens() > 0 && cache.page_bytes() > 0 &&
             list(cache.layers()).size() == tables.model()->layers(),
         "cache", "page_tokens and page_bytes are positive, and every layer has an entry");
    for (const CacheLayer *layer : list(cache.layers())) {
      need(layer->kv_offset() >= 0 &&
               fits(uint64_t(layer->kv_offset()), 2ull * tables.model()->kv_heads(),
                    cache.slot_bytes(), cache.page_bytes()),
           "cache", "the K and V slots of a layer lie within the page");
      need(layer->index_offset() == -1 ||
               (layer->index_offset() >= 0 &&
                fits(uint64_t(layer->index_offset()), 1, cache.slot_bytes(), cache.page_bytes())),
           "cache", "the index-key slot of a layer lies within the page");
    }
  }

  void checkWeight(const WeightBuffer &buffer) {
    std::string where = fmt::format("weight buffer {}", nameOf(buffer.symbol()));
    need(buffer.symbol(), where, "a symbol is required");
    for (const WeightPiece *piece : list(buffer.pieces()))
      need(piece->tensor() && piece->dtype() && parseDtype(piece->dtype()->string_view()) &&
               isAligned(piece->shape()),
           where, "every piece names a tensor, a safetensors dtype and a shape");
    std::optional<uint64_t> bytes = weightBufferBytes(buffer);
    need(bytes && *bytes <= buffer.bytes() && buffer.bytes() <= uint64_t(1) << 48, where,
         "the pieces fit the buffer by the rule of its recipe");
  }

  void checkSection(uint32_t index, SectionKind kind, const std::string &where) {
    need(index < sections.size() && sections[index].kind == uint32_t(kind), where,
         fmt::format("section {} is not of the kind that is named", index));
  }

  void checkKernel(const Kernel &kernel) {
    std::string where = fmt::format("kernel {}", nameOf(kernel.name()));
    need(kernel.name(), where, "a name is required");
    need(kernel.params() <= 64, where, "a kernel has at most 64 parameters");
    for (const CodeObject *object : list(kernel.objects())) {
      need(object->chip() && object->symbol(), where, "every object has a chip and a symbol");
      need(object->shared_bytes() <= uint64_t(1) << 32, where, "shared memory is below 4 GiB");
      need(object->threads() > 0 && object->threads() <= 1024 && object->cluster() > 0 &&
               object->cluster() <= 16,
           where, "a work item has 1 to 1024 threads, a cluster 1 to 16 work items");
      need(list(object->elements()).empty() || list(object->elements()).size() == kernel.params(),
           where, "an object names the elements of all parameters or of none");
      for (Element element : list(object->elements()))
        need(element >= Element::MIN && element <= Element::MAX, where,
             "the element of a parameter is a known one");
      checkSection(object->section(), SectionKind::Code, where);
      if (object->source_section() != -1)
        checkSection(uint32_t(object->source_section()), SectionKind::Source, where);
    }
    if (kernel.source_section() != -1)
      checkSection(uint32_t(kernel.source_section()), SectionKind::Source, where);
  }

  void checkBuckets(const Target &target) {
    uint32_t rows = 0;
    for (const Bucket *bucket : list(target.buckets())) {
      std::string where =
          fmt::format("{}, bucket of {} rows", target.chip()->str(), bucket->rows());
      need(bucket->rows() > rows, where, "buckets are ordered by ascending rows");
      rows = bucket->rows();
      need(bucket->logit_rows() > 0 && bucket->logit_rows() <= rows, where,
           "logit_rows is between 1 and rows");
      need(bucket->arena_bytes() <= uint64_t(1) << 48 &&
               bucket->arena_bytes_per_block() <= uint64_t(1) << 32,
           where, "arena sizes are below 2^48 bytes, and 2^32 a block");
      need(fits(bucket->logits_offset(), bucket->logit_rows(), 4ull * tables.model()->vocab(),
                bucket->arena_bytes()),
           where, "the logits lie within the arena");
      need(bucket->logits_offset() % 4 == 0, where, "the logits are aligned to 4 bytes");
      for (const Launch *launch : list(bucket->launches()))
        checkLaunch(*launch, *bucket, where);
      for (const Tap *tap : list(bucket->taps()))
        need(tap->layer() < tables.model()->layers() &&
                 tap->after_launch() < list(bucket->launches()).size() &&
                 fits(tap->offset(), rows, tap->row_bytes(), bucket->arena_bytes()),
             where, "a tap names a layer and a launch, and lies within the arena");
      for (const Tap *tap : list(bucket->taps()))
        need(tap->offset() % 4 == 0 && tap->row_bytes() % 4 == 0, where,
             "taps are rows of 4-byte values");
    }
    need(rows > 0, "buckets of " + target.chip()->str(), "there is at least one");
  }

  void checkLaunch(const Launch &launch, const Bucket &bucket, const std::string &bucketName) {
    std::string where = fmt::format("{}, launch {}", bucketName, nameOf(launch.label()));
    need(launch.kernel() < list(tables.kernels()).size(), where, "the kernel exists");
    const Kernel &kernel = *tables.kernels()->Get(launch.kernel());
    need(list(launch.args()).size() == kernel.params(), where,
         fmt::format("kernel {} takes {} parameters", kernel.name()->str(), kernel.params()));
    need(launch.grid_x() && launch.grid_y() && launch.grid_z(), where,
         "all grid dimensions are given");
    for (const Arg *arg : list(launch.args()))
      checkArg(*arg, bucket, where);
  }

  void checkArg(const Arg &arg, const Bucket &bucket, const std::string &where) {
    need(arg.access() >= Access::Unknown && arg.access() <= Access::ReadWrite, where,
         "the access of an argument is a known one");
    switch (arg.kind()) {
    case ArgKind::Arena:
      checkArenaRange(arg, bucket, where);
      return;
    case ArgKind::Weight:
      need(
          arg.index() < list(tables.weights()).size() &&
              fits(arg.offset(), 1, arg.fixed_bytes(), tables.weights()->Get(arg.index())->bytes()),
          where, "the weight buffer exists and the bytes from the offset on lie within it");
      checkNoRows(arg, where);
      return;
    case ArgKind::CachePool:
      need(fits(arg.offset(), 1, arg.fixed_bytes(), tables.cache()->page_bytes()), where,
           "cache offsets, and the bytes from there on, lie within one page");
      checkNoRows(arg, where);
      return;
    case ArgKind::Batch:
      need(arg.index() <= uint32_t(BatchArray::MAX), where, "the batch array is a known one");
      checkNoRows(arg, where);
      return;
    case ArgKind::Scalar:
      need(arg.access() <= Access::Read && arg.fixed_bytes() == 0, where,
           "a number has no bytes and is not written");
      checkNoRows(arg, where);
      return;
    }
    need(false, where, "the argument kind is a known one");
  }

  /// Within the arena for one block and growing no faster than it: within it for any count.
  void checkArenaRange(const Arg &arg, const Bucket &bucket, const std::string &where) {
    std::optional<uint64_t> end = addProduct(arg.offset(), bucket.rows(), arg.row_bytes());
    end = end ? addProduct(*end, 1, arg.fixed_bytes()) : end;
    std::optional<uint64_t> scale = addProduct(arg.blocks_scale(), 1, arg.block_bytes());
    need(end && scale && *scale <= bucket.arena_bytes_per_block() &&
             fits(*end, 1, *scale, bucket.arena_bytes() + bucket.arena_bytes_per_block()),
         where, "arena offsets, and the bytes from there on, lie within the arena");
  }

  void checkNoRows(const Arg &arg, const std::string &where) {
    need(arg.row_bytes() == 0 && arg.block_bytes() == 0, where,
         "only places in the arena grow with rows and blocks");
  }

  const Tables &tables;
  std::span<const SectionEntry> sections;
  const std::string &file;
};

/// Elements of a piece, or nothing for a negative dimension or an overflow.
std::optional<uint64_t> elementsOf(const WeightPiece &piece) {
  uint64_t count = 1;
  for (int64_t dimension : list(piece.shape()))
    if (dimension < 0 || __builtin_mul_overflow(count, uint64_t(dimension), &count))
      return std::nullopt;
  return count;
}

/// End of a row-major piece that starts at dest_offset with `bits` an element.
std::optional<uint64_t> flatEnd(const WeightPiece &piece, uint64_t bits) {
  std::optional<uint64_t> elements = elementsOf(piece);
  uint64_t all;
  if (!elements || __builtin_mul_overflow(*elements, bits, &all) || all % 8 != 0)
    return std::nullopt;
  return addProduct(piece.dest_offset(), 1, all / 8);
}

/// True when the rows of `piece` have `rowBits` bits and its panels end within the buffer.
bool panelsFit(const WeightBuffer &buffer, const WeightPiece &piece, uint64_t rowBits) {
  if (list(piece.shape()).size() != 2 || piece.panel_step() == 0)
    return false;
  int64_t rows = piece.shape()->Get(0), columns = piece.shape()->Get(1);
  uint64_t bits;
  if (rows <= 0 || columns <= 0 ||
      __builtin_mul_overflow(uint64_t(columns), dtypeBits(*parseDtype(piece.dtype()->str())),
                             &bits) ||
      bits != rowBits)
    return false;
  uint64_t panels = (uint64_t(rows) + 15) / 16;
  std::optional<uint64_t> last = addProduct(piece.first_panel(), panels - 1, piece.panel_step());
  return last && *last < buffer.panels();
}

std::optional<uint64_t> panelBytes(const WeightBuffer &buffer, uint64_t elementBits) {
  uint64_t rowBits;
  if (buffer.abreast() == 0 || buffer.panels() % buffer.abreast() != 0)
    return std::nullopt;
  if (__builtin_mul_overflow(buffer.row_length(), elementBits, &rowBits) || rowBits == 0)
    return std::nullopt;
  for (const WeightPiece *piece : list(buffer.pieces()))
    if (!panelsFit(buffer, *piece, rowBits))
      return std::nullopt;
  return addProduct(0, buffer.panels(), rowBits * 2); // 16 rows of rowBits / 8 bytes
}

} // namespace

std::optional<uint64_t> weightBufferBytes(const WeightBuffer &buffer) {
  switch (buffer.recipe()) {
  case Recipe::PanelWords: {
    uint32_t bits = buffer.bits();
    if ((bits != 4 && bits != 8 && bits != 16 && bits != 32) ||
        buffer.row_length() > uint64_t(1) << 32 || buffer.row_length() * bits % 32 != 0)
      return std::nullopt;
    return panelBytes(buffer, bits);
  }
  case Recipe::FragmentWords: {
    uint32_t bits = buffer.bits();
    if ((bits != 4 && bits != 8 && bits != 16 && bits != 32) || buffer.abreast() != 1 ||
        buffer.row_length() > uint64_t(1) << 32 || buffer.row_length() % 64 != 0)
      return std::nullopt;
    return panelBytes(buffer, bits);
  }
  case Recipe::FragmentScales: // two or four groups in 64 elements
    if (buffer.row_length() > uint64_t(1) << 32 || buffer.row_length() % 2 != 0 ||
        (buffer.bits() != 16 && buffer.bits() != 32) ||
        buffer.row_length() % (64 / buffer.bits()) || buffer.abreast() != 1)
      return std::nullopt;
    return panelBytes(buffer, 8);
  case Recipe::PanelScales:
    if (buffer.row_length() > uint64_t(1) << 32)
      return std::nullopt;
    return panelBytes(buffer, 8);
  case Recipe::Raw:
  case Recipe::ToF32:
  case Recipe::Scalar:
  case Recipe::Reciprocal: {
    uint64_t needed = 0;
    for (const WeightPiece *piece : list(buffer.pieces())) {
      Dtype dtype = *parseDtype(piece->dtype()->str());
      bool raw = buffer.recipe() == Recipe::Raw;
      if (!raw && dtype != Dtype::F32 && dtype != Dtype::Bf16)
        return std::nullopt;
      std::optional<uint64_t> end = flatEnd(*piece, raw ? dtypeBits(dtype) : 32);
      if (!end)
        return std::nullopt;
      needed = std::max(needed, *end);
    }
    return needed;
  }
  }
  return std::nullopt;
}

void checkTables(const Tables &tables, std::span<const SectionEntry> sections,
                 const std::string &file) {
  Checker(tables, sections, file).run();
}

} // namespace m3c::plan
