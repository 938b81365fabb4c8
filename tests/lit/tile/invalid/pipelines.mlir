// Rules of rings, pipelines and roles.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{T-R1: a ring has at least one stage}}
func.func private @bad() -> !tile.ring<0, 4x16xf32>

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  // expected-error@+1 {{T-R2: a stage of}}
  %s = tile.acquire %ring : !tile.ring<2, 4xf32> -> !tile.view<5xf32, shared>
  tile.return
}

// -----

// A stage that nothing waits for: the copy would never be seen to arrive.
tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  // expected-error@+1 {{T-P1: a ring needs acquire, commit, wait and release}}
  tile.pipeline %k = %n to %n step %n {
    tile.role "fill" {
      %stage = tile.acquire %ring : !tile.ring<2, 4xf32> -> !tile.view<4xf32, shared>
      tile.commit %ring : !tile.ring<2, 4xf32>
    }
  }
  tile.return
}

// -----

// A consumer before its producer waits for ever.
tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  // expected-error@+1 {{T-P1: a ring is drained by a later role than the one that fills it}}
  tile.pipeline %k = %n to %n step %n {
    tile.role "use" {
      %stage = tile.wait %ring : !tile.ring<2, 4xf32> -> !tile.view<4xf32, shared>
      tile.release %ring : !tile.ring<2, 4xf32>
    }
    tile.role "fill" {
      %stage = tile.acquire %ring : !tile.ring<2, 4xf32> -> !tile.view<4xf32, shared>
      tile.commit %ring : !tile.ring<2, 4xf32>
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  tile.pipeline %k = %n to %n step %n {
    tile.role "fill" {
      tile.commit %ring : !tile.ring<2, 4xf32>
      // expected-error@+1 {{T-P2: a second one for the same ring}}
      tile.commit %ring : !tile.ring<2, 4xf32>
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  tile.pipeline %k = %n to %n step %n {
    // expected-error@+1 {{T-P3: only roles stand in a pipeline}}
    %c = arith.constant 0 : index
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 3} {
  // expected-error@+1 {{T-S1: the roles have 2 warps, the kernel has 3}}
  tile.roles {
    tile.role "a" warps = 1 {
    }
    tile.role "b" warps = 1 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 1} {
  tile.roles {
    // expected-error@+1 {{T-S2: registers are multiples of 8 from 24 to 256, found 30}}
    tile.role "a" warps = 1 registers = 30 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 8, residents = 1} {
  // expected-error@+1 {{T-S2: registers stand on every role or on none}}
  tile.roles {
    tile.role "a" warps = 4 registers = 256 {
    }
    tile.role "b" warps = 4 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 4} {
  // expected-error@+1 {{T-S2: the kernel has no 'residents'}}
  tile.roles {
    tile.role "a" warps = 4 registers = 24 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}, warps = 4, residents = 1} {
  scf.for %i = %n to %n step %n {
    // expected-error@+1 {{T-S4: registers are given once, not in a loop}}
    tile.roles {
      tile.role "a" warps = 4 registers = 24 {
      }
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 4, residents = 1} {
  // expected-error@+1 {{T-S4: other roles of the kernel are given registers as well}}
  tile.roles {
    tile.role "a" warps = 4 registers = 24 {
    }
  }
  tile.roles {
    tile.role "a" warps = 4 registers = 24 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}, warps = 2} {
  %ring = tile.ring async 1 : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-S3: a ring is filled by one role and drained by one other}}
  tile.roles {
    tile.role "a" warps = 1 {
      %stage = tile.acquire %ring[%i] : !tile.ring<2, 16xi8> -> !tile.view<16xi8, shared>
      tile.commit %ring[%i] : !tile.ring<2, 16xi8>
    }
    tile.role "b" warps = 1 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-R3: stages of an asynchronous ring are multiples of 16 bytes}}
  %ring = tile.ring async 1 : !tile.ring<2, 17xi8>
  tile.return
}

// -----

tile.kernel @ring_of_turns(%i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-R8: 3 groups wait for the uses of an asynchronous ring in turn, so it has as many stages or more, not 2}}
  %ring = tile.ring async 1 turns 3 : !tile.ring<2, 16xi8>
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring async 1 : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-R4: the uses of a ring are numbered if it is asynchronous}}
  tile.release %ring : !tile.ring<2, 16xi8>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xi8>, %i: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-R5: only the stages of an asynchronous ring are filled by copies}}
  tile.fill_stage %ring[%i] from %x[%i] : !tile.ring<2, 16xi8>, !tile.view<?xi8>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %ring = tile.ring async 1 : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-R7: '!tile.view<33xi8, shared>' does not fit the memory of}}
  %m = tile.ring_memory %ring : !tile.ring<2, 16xi8> -> !tile.view<33xi8, shared>
  tile.return
}
