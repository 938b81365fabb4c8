// Work items of a cluster, and launches that overlap. Part of TileOps.td.
#ifndef M3C_DIALECTS_TILE_LAUNCH_OPS
#define M3C_DIALECTS_TILE_LAUNCH_OPS

def Tile_ClusterBarrierOp : Tile_Op<"cluster_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all threads of the cluster have reached this point";
  let description = [{
    Shared stores before it are seen through `tile.peer` after it. A work item must not end while others
    may still read its shared memory.
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tile_ClusterArriveOp : Tile_Op<"cluster_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the first half of a cluster's barrier: this thread has come";
  let description = [{
    Goes on at once; `tile.cluster_wait` is the other half, and comes before the next arrival. The two order no
    stores. Work items of a cluster begin one after the other: none may store to another's shared memory
    before both halves.
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_ClusterWaitOp : Tile_Op<"cluster_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the second half: all threads of the cluster have come to the first";
  let assemblyFormat = "attr-dict";
}

def Tile_AwaitLaunchOp : Tile_Op<"await_launch", [HasParent<"KernelOp">,
                                                 MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the launch before this one has ended, and its stores are seen";
  let description = [{
    A kernel with this operation may begin before the launch before it has ended. All work items come here
    before they read or write what another launch reads or writes. Set by `tile-overlap-launches` where a
    kernel has none.
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = "attr-dict";
}

def Tile_AllowLaunchOp : Tile_Op<"allow_launch", [HasParent<"KernelOp">,
                                                 MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the next launch may begin";
  let description = [{
    It does once every work item has come here or ended, if its kernel has a `tile.await_launch`; it waits
    there for the end of this launch.
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$atom);
  let assemblyFormat = "attr-dict";
}

def Tile_PeerOp : Tile_Op<"peer", [Pure, AllTypesMatch<["source", "view"]>]> {
  let summary = "the same shared buffer of another work item of the cluster";
  let arguments = (ins Tile_ViewType:$source, Index:$rank);
  let results = (outs Tile_ViewType:$view);
  let assemblyFormat = "$source `[` $rank `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

#endif
