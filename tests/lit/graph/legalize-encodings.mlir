// RUN: m3-opt %s --m3-legalize-encodings='supported=f32,bf16,nvfp4' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-legalize-encodings='supported=f32,bf16,nvfp4' | diff %t.once -
// RUN: m3-opt %s --m3-legalize-encodings='supported=f32' | FileCheck %s --check-prefix=ONLYF32
// RUN: m3-opt %t.once --m3-legalize-encodings | FileCheck %s --check-prefix=ALL
// RUN: not m3-opt %s --m3-legalize-encodings='supported=nvfp4,bf16' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not m3-opt %s --m3-legalize-encodings='supported=fp4' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: m3-opt %s --m3-legalize-encodings='supported=f32,bf16,nvfp4' --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-legalize-encodings.demoted = 2 (

// Basic: what is not supported is read as bf16 and says so; what is stays as it is.
// CHECK: m3.weight @a : !m3.weight<64x64, mxfp8> {demotion = #m3.demotion<"mxfp8" -> "bf16", "{{.*}}">}
// CHECK: m3.weight @b : !m3.weight<64x64, nvfp4>{{$}}
// CHECK: m3.weight @c : !m3.weight<64, f32>{{$}}
// CHECK: m3.weight @d : !m3.weight<4x64x64, nvfp4_packed> {demotion = #m3.demotion<"nvfp4_packed" -> "bf16"
// Edge: without bf16 the stand-in is f32, also for bf16 itself; with all supported a record goes away.
// ONLYF32: @a {{.*}}"mxfp8" -> "f32"
// ONLYF32: @e {{.*}}"bf16" -> "f32"
// ALL-NOT: demotion
// Negative: nothing can stand in for f32; a name that is no encoding.
// NONE: error: 'm3.weight' op is stored as f32, which the target takes neither as it is nor as bf16 or f32
// NAME: error: 'fp4' is no weight encoding
m3.weight @a : !m3.weight<64x64, mxfp8>
m3.weight @b : !m3.weight<64x64, nvfp4>
m3.weight @c : !m3.weight<64, f32>
m3.weight @d : !m3.weight<4x64x64, nvfp4_packed>
m3.weight @e : !m3.weight<64x64, bf16>
