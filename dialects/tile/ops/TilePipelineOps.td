// Rings of stages, the pipelines that go through them, and their roles. Part of TileOps.td.
#ifndef M3C_TILE_PIPELINE_OPS_TD
#define M3C_TILE_PIPELINE_OPS_TD

def Tile_RingOp : Tile_Op<"ring", [MemoryEffects<[MemAlloc]>]> {
  let summary = "allocates a ring";
  let description = [{
    With `async` its stages are filled by copies that run by themselves (`tile.fill_stage`) and drained by
    so many releases each; barriers in on-chip memory behind the stages tell when. Its uses are numbered:
    acquire, fill, commit, wait and release name the use, and use i is in stage i modulo the stages. All
    threads of the work item must pass a `tile.barrier` before the first.

    `turns`: so many groups of warps wait for its uses in turn, and no group for all uses of a stage.
    Barriers tell a phase from the one before alone, so these wait for the end of the use before as well.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$async, OptionalAttr<I64Attr>:$turns,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Tile_RingType:$ring);
  let assemblyFormat = "(`async` $async^)? (`turns` $turns^)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

class Tile_RingStageOp<string mnemonic> : Tile_Op<mnemonic> {
  let arguments = (ins Arg<Tile_RingType, "", [MemRead, MemWrite]>:$ring, Optional<Index>:$use);
  let results = (outs Tile_ViewType:$stage);
  let assemblyFormat = "$ring (`[` $use^ `]`)? attr-dict `:` type($ring) `->` type($stage)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$stage, "::mlir::Value":$ring),
                            [{ build($_builder, $_state, stage, ring, ::mlir::Value()); }]>];
}
class Tile_RingSignalOp<string mnemonic> : Tile_Op<mnemonic> {
  let arguments = (ins Arg<Tile_RingType, "", [MemRead, MemWrite]>:$ring, Optional<Index>:$use);
  let assemblyFormat = "$ring (`[` $use^ `]`)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$ring),
                            [{ build($_builder, $_state, ring, ::mlir::Value()); }]>];
}
def Tile_AcquireOp : Tile_RingStageOp<"acquire"> { let summary = "producer: the next free stage"; }
def Tile_CommitOp : Tile_RingSignalOp<"commit"> { let summary = "producer: the stage is filled"; }
def Tile_WaitOp : Tile_RingStageOp<"wait"> { let summary = "consumer: the next filled stage"; }
def Tile_ReleaseOp : Tile_RingSignalOp<"release"> { let summary = "consumer: the stage may be reused"; }

def Tile_PipelineOp : Tile_Op<"pipeline", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "a loop whose iterations pass through roles";
  let description = [{
    Every role runs for every value of the induction variable, in order; a producer may run ahead of its
    consumer by the ring's stages. Where roles are stages of one thread, iteration i runs all roles
    before iteration i+1.

    Constraint T-P1: each ring is filled (acquire, commit) by one role and drained (wait, release) by
    one later role. T-P2: each of the four stands once per role, in that order, not inside a loop.
  }];
  let arguments = (ins Index:$lower, Index:$upper, Index:$step);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$lower, "::mlir::Value":$upper,
                                 "::mlir::Value":$step)>];
  let skipDefaultBuilders = 1;
}

def Tile_RoleOp : Tile_Op<"role", [SingleBlock, NoTerminator,
                                   ParentOneOf<["PipelineOp", "RolesOp"]>, RecursiveMemoryEffects]> {
  let summary = "what one group of threads does in a pipeline";
  let description = [{
    `warps` and `registers` (per thread) are budgets for targets that have them. In `tile.roles` the atom
    that `tile-select-atoms` chooses takes or gives up registers when the role begins.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$warps, OptionalAttr<I64Attr>:$registers,
                       OptionalAttr<StrAttr>:$atom);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name (`warps` `=` $warps^)? (`registers` `=` $registers^)? attr-dict-with-keyword $body
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let extraClassDeclaration = [{
    /// Of a role of `tile.roles`: its first warp.
    int64_t firstWarp();
  }];
}

#endif
