// RUN: m3-opt %s --m3-to-tile="chip=x86-avx2 buckets=1" --split-input-file --verify-diagnostics

// expected-error@+1 {{has no parts: the recipe of a weight buffer needs the checkpoint tensors}}
m3.weight @embed : !m3.weight<16x32, bf16>
func.func @step(%b: !m3.batch) -> tensor<?x32xf32> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x32xf32>
  return %h : tensor<?x32xf32>
}

// -----

// expected-error@+1 {{argument 1 of the step is a tensor: a step takes its batch and a cache}}
func.func @step(%b: !m3.batch, %x: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {m3.step} {
  return %x : tensor<?x32xf32>
}

// -----

// expected-error@+1 {{the step has 0 results, one is needed: the logits}}
func.func @step(%b: !m3.batch) attributes {m3.step} {
  return
}

// -----

// expected-error@+1 {{the step has no body}}
func.func private @step(!m3.batch) -> tensor<?x32xf32> attributes {m3.step}
