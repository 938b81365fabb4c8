#include "passes/targets/common/Emulated.h"

#include "passes/targets/gfx950/EmulatedHeaders.h"
#include "passes/targets/sm100/EmulatedHeaders.h"
#include "passes/targets/sm107/EmulatedHeaders.h"
#include "passes/targets/sm90/EmulatedHeaders.h"

namespace m3c {

static constexpr EmulatedTarget emulatedTable[] = {
    {"sm90", 32, 0, 65536, "cuda.h", sm90EmulatedHeaders},
    {"sm100", 32, 512, 65536, "cuda.h", sm100EmulatedHeaders},
    {"sm107", 32, 576, 65536, "cuda.h", sm107EmulatedHeaders},
    {"gfx950", 64, 0, 0, "hip.h", gfx950EmulatedHeaders},
};

const EmulatedTarget *findEmulatedTarget(std::string_view name) {
  for (const EmulatedTarget &target : emulatedTable)
    if (target.name == name)
      return &target;
  return nullptr;
}

std::vector<std::string_view> emulatedTargetNames() {
  std::vector<std::string_view> names;
  for (const EmulatedTarget &target : emulatedTable)
    names.push_back(target.name);
  return names;
}

} // namespace m3c
