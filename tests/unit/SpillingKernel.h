// A CUDA kernel `k` that cannot do without its stack: 64 live values in at most 32 registers.
#pragma once

inline const char *const spillingCudaKernel = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) k(float *x, int n) {
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; ++i)
    a[i] = x[i * 1024 + threadIdx.x];
  for (int j = 0; j < n; ++j)
#pragma unroll
    for (int i = 0; i < 64; ++i)
      a[i] = a[i] * a[(i + 7) % 64] + a[(i + 13) % 64];
#pragma unroll
  for (int i = 0; i < 64; ++i)
    x[i * 1024 + threadIdx.x] = a[i];
})";
