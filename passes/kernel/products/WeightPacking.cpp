// Weight buffers and the recipes that fill them (runtime/plan/plan.fbs, Recipe).
#include "passes/kernel/StepLowering.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace m3c::kernel {

int64_t PackedWeight::group() const {
  switch (encoding) {
  case m3::Encoding::MXFP8:
    return 32;
  case m3::Encoding::NVFP4:
  case m3::Encoding::NVFP4Packed:
    return 16;
  default:
    return 0;
  }
}

tile::Format PackedWeight::format() const {
  switch (encoding) {
  case m3::Encoding::F32:
    return tile::Format::F32;
  case m3::Encoding::BF16:
    return tile::Format::BF16;
  case m3::Encoding::MXFP8:
    return tile::Format::E4M3;
  default:
    return tile::Format::E2M1;
  }
}

static int64_t bitsOf(tile::Format format) {
  switch (format) {
  case tile::Format::F32:
    return 32;
  case tile::Format::BF16:
    return 16;
  case tile::Format::E2M1:
    return 4;
  default:
    return 8;
  }
}

int64_t PackedWeight::perWord() const { return 32 / bitsOf(format()); }

std::string spell(const PackedWeight &weight) {
  std::string stack = weight.matrices > 1 ? llvm::formatv("{0}x", weight.matrices).str() : "";
  return llvm::formatv("{0}_{1}{2}x{3}", m3::stringifyEncoding(weight.encoding), stack,
                       weight.outputs, weight.k);
}

static m3::PartAttr partOf(m3::WeightOp weight, m3::PartRole role) {
  for (auto part : weight.getParts().getAsRange<m3::PartAttr>())
    if (part.getRole() == role)
      return part;
  return {};
}

namespace {
/// Where a piece lands in its buffer.
struct Place {
  int64_t firstPanel = 0, panelStep = 1, destOffset = 0;
};
} // namespace

static Attribute pieceAttr(m3::PartAttr part, int64_t expert, const Place &place) {
  Builder b(part.getContext());
  std::string name = part.getName().str();
  if (size_t at = name.find("{e}"); at != std::string::npos)
    name.replace(at, 3, std::to_string(expert));
  return b.getDictionaryAttr(
      {b.getNamedAttr("tensor", b.getStringAttr(name)),
       b.getNamedAttr("dtype", b.getStringAttr(part.getDtype())),
       b.getNamedAttr("shape", b.getDenseI64ArrayAttr(part.getShape())),
       b.getNamedAttr("first_panel", b.getI64IntegerAttr(place.firstPanel)),
       b.getNamedAttr("panel_step", b.getI64IntegerAttr(place.panelStep)),
       b.getNamedAttr("dest_offset", b.getI64IntegerAttr(place.destOffset))});
}

void StepLowering::addWeightBuffer(StringRef symbol, planir::Recipe recipe, int64_t bits,
                                   int64_t rowLength, int64_t panels, int64_t abreast,
                                   int64_t bytes, ArrayRef<Attribute> pieces) {
  if (module.lookupSymbol(symbol))
    return;
  OpBuilder builder(module.getContext());
  // Buffers stand before kernels and the program.
  Operation *program = nullptr;
  for (Operation &op : *module.getBody())
    if (isa<tile::KernelOp, planir::ProgramOp>(op)) {
      program = &op;
      break;
    }
  if (program)
    builder.setInsertionPoint(program);
  else
    builder.setInsertionPointToEnd(module.getBody());
  planir::WeightBufferOp::create(builder, loc(), symbol, recipe, bits, rowLength, panels, abreast,
                                 bytes, builder.getArrayAttr(pieces));
}

FailureOr<PackedWeight> StepLowering::pack(StringRef name, ArrayRef<m3::WeightOp> sources,
                                           bool interleave, bool fragments) {
  m3::WeightOp leader = sources.front();
  m3::WeightType first = leader.weightType();
  PackedWeight packed;
  packed.encoding = first.getEncoding();
  packed.k = first.cols();
  packed.matrices = std::max<int64_t>(1, first.experts());
  int64_t perWord = packed.perWord();
  for (m3::WeightOp weight : sources) {
    m3::WeightType type = weight.weightType();
    if (type.getEncoding() != packed.encoding || type.cols() != packed.k ||
        std::max<int64_t>(1, type.experts()) != packed.matrices)
      return weight.emitError("cannot share a buffer with @")
             << leader.getSymName()
             << ", one kernel reads both: storage, inputs and experts must agree, "
             << "but they are " << type << " and " << first;
    if (type.cols() % perWord)
      return weight.emitError("has ") << type.cols() << " inputs, a multiple of " << perWord
                                      << " is needed to pack its encoding in 32-bit words";
    if (weight.getParts().empty())
      return weight.emitError("names no checkpoint tensors to make a weight buffer from");
    packed.outputs += type.rows();
    packed.panels += llvm::divideCeil(type.rows(), panelOutputs);
  }

  packed.fragments = fragments;
  packed.abreast = fragments || packed.panels % panelsAbreast ? 1 : panelsAbreast;

  SmallVector<Attribute> words, scales, globals;
  bool divisor = packed.encoding == m3::Encoding::NVFP4Packed;
  for (int64_t e = 0; e < packed.matrices; ++e) {
    int64_t panel = e * packed.panels;
    for (size_t i = 0; i < sources.size(); ++i) {
      m3::WeightOp weight = sources[i];
      Place place{panel, 1, 0};
      if (interleave)
        place = {e * packed.panels + int64_t(i), int64_t(sources.size()), 0};
      words.push_back(pieceAttr(partOf(weight, m3::PartRole::Values), e, place));
      if (auto part = partOf(weight, m3::PartRole::BlockScale))
        scales.push_back(pieceAttr(part, e, place));
      if (auto part = partOf(weight, m3::PartRole::GlobalScale))
        globals.push_back(
            pieceAttr(part, e, {0, 1, 4 * (e * int64_t(sources.size()) + int64_t(i))}));
      panel += llvm::divideCeil(weight.weightType().rows(), panelOutputs);
    }
  }
  int64_t panels = packed.panels * packed.matrices, bits = 32 / perWord;
  packed.words = (name + (fragments ? ".fragments" : ".words")).str();
  addWeightBuffer(
      packed.words, fragments ? planir::Recipe::FragmentWords : planir::Recipe::PanelWords, bits,
      packed.k, panels, packed.abreast, panels * panelOutputs * packed.k * bits / 8, words);
  if (!scales.empty()) {
    packed.scales = (name + (fragments ? ".fragment_scales" : ".scales")).str();
    int64_t groups = packed.k / packed.group();
    addWeightBuffer(packed.scales,
                    fragments ? planir::Recipe::FragmentScales : planir::Recipe::PanelScales,
                    fragments ? packed.group() : 8, groups, panels, packed.abreast,
                    panels * panelOutputs * groups, scales);
  }
  if (!globals.empty()) {
    packed.global = (name + ".global").str();
    addWeightBuffer(packed.global, divisor ? planir::Recipe::Reciprocal : planir::Recipe::Scalar,
                    32, 1, 0, 1, 4 * int64_t(globals.size()), globals);
  }
  return packed;
}

std::string StepLowering::vector(m3::WeightOp weight) {
  std::string symbol = (weight.getSymName() + ".f32").str();
  m3::WeightType type = weight.weightType();
  int64_t elements = 1;
  for (int64_t size : type.getShape())
    elements *= size;
  addWeightBuffer(symbol, planir::Recipe::ToF32, 32, elements, 0, 1, 4 * elements,
                  {pieceAttr(partOf(weight, m3::PartRole::Values), 0, {})});
  return symbol;
}

std::string StepLowering::raw(m3::WeightOp weight) {
  std::string symbol = (weight.getSymName() + ".raw").str();
  m3::WeightType type = weight.weightType();
  int64_t bits = type.getEncoding() == m3::Encoding::F32 ? 32 : 16;
  addWeightBuffer(symbol, planir::Recipe::Raw, bits, type.cols(), 0, 1,
                  type.rows() * type.cols() * bits / 8,
                  {pieceAttr(partOf(weight, m3::PartRole::Values), 0, {})});
  return symbol;
}

} // namespace m3c::kernel
