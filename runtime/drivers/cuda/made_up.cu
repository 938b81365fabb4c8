// Source of made_up.ptx, which is in the driver as it is: tools/make-driver-kernels makes it anew.
#define M3C_MADE_UP __device__ __forceinline__
#include "MadeUp.h"

using namespace m3c::madeup;

extern "C" __global__ __launch_bounds__(threadsOfBlock) void
made_up(Long to, Long base, Long rule, Long low, Long range, Long withSign, Long scale, Long layout,
        Long bits, Long inverted, Long abreast, Long rows, Long rowBytes, Long firstPanel,
        Long panelStep, Long items) {
  Values values = {Word(rule),     Word(low), Word(range),
                   Word(withSign), __builtin_bit_cast(float, Word(scale)), base};
  Placement place = {Word(layout), Word(bits), Word(inverted), Word(abreast),
                     rows,         rowBytes,   firstPanel,     panelStep};
  Long begin = Long(blockIdx.x) * itemsOfBlock;
  for (Word i = threadIdx.x; i < itemsOfBlock; i += threadsOfBlock)
    if (begin + i < items)
      placeItem((unsigned char *)to, values, place, begin + i);
}
