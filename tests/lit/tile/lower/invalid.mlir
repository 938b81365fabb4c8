// RUN: m3-opt %s --m3-to-tile="chip=x86-avx2 buckets=1" --verify-diagnostics

// expected-error@+1 {{has no parts: the recipe of a weight buffer needs the checkpoint tensors}}
m3.weight @embed : !m3.weight<16x32, bf16>
func.func @step(%b: !m3.batch) -> tensor<?x32xf32> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x32xf32>
  return %h : tensor<?x32xf32>
}
