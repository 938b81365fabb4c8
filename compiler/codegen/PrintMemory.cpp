// Loads, stores, copies, rings.
#include "compiler/codegen/Printer.h"

namespace m3c::codegen {

std::string Printer::address(Value view, ValueRange indices) {
  auto type = cast<ViewType>(view.getType());
  std::string text = name(view);
  for (auto [dim, index] : llvm::enumerate(indices)) {
    APInt constant;
    int64_t stride = type.getStride(dim);
    if (matchPattern(index, m_ConstantInt(&constant))) {
      if (int64_t offset = constant.getSExtValue() * stride)
        text += formatv(" + {0}", offset);
      continue;
    }
    text += stride == 1 ? formatv(" + {0}", name(index)).str()
                        : formatv(" + {0} * {1}", name(index), stride).str();
  }
  return text;
}

LogicalResult Printer::place(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](BlockIdOp op) {
        names[op.getResult()] = ("block" + stringifyAxis(op.getAxis()).upper());
        return success();
      })
      .Case([&](WarpIdOp op) {
        line("i64 " + fresh(op.getResult(), "warp") + " = warpId();" + origin(op));
        return success();
      })
      .Case([&](ClusterRankOp op) {
        line("i64 " + fresh(op.getResult(), "rank") + " = clusterRank();" + origin(op));
        return success();
      })
      .Case([&](PeerOp op) {
        define(op, "peer", formatv("peer({0}, {1})", name(op.getSource()), name(op.getRank())));
        return success();
      })
      .Case([&](AllocOp op) -> LogicalResult {
        if (!op.getOffset())
          return op.emitOpError("has no offset; run tile-assign-shared");
        std::string type = elementType(op.getView().getType().getElement());
        define(op, "buf", formatv("({0} *)((u8 *)shared + {1})", type, *op.getOffset()));
        return success();
      })
      .Case([&](RingOp op) -> LogicalResult {
        if (!op.getOffset())
          return op.emitOpError("has no offset; run tile-assign-shared");
        RingType type = op.getRing().getType();
        int64_t elements = type.getByteSize() / type.getStages() / elementBytes(type.getElement());
        std::string drained = op.getAsync() ? formatv(", {0}", *op.getAsync()).str() : "";
        if (op.getTurns())
          drained += formatv(", {0}", *op.getTurns()).str();
        define(op, "ring",
               formatv("{0}Ring<{1}, {2}, {3}{4}>(({1} *)((u8 *)shared + {5}))",
                       op.getAsync() ? "Async" : "", elementType(type.getElement()),
                       type.getStages(), elements, drained, *op.getOffset()));
        return success();
      })
      .Case([&](RingMemoryOp op) {
        define(op, "buf",
               formatv("({0} *){1}.base", elementType(op.getView().getType().getElement()),
                       name(op.getRing())));
        return success();
      })
      .Case([&](ReinterpretOp op) {
        define(op, "view",
               formatv("({0} *)({1} + {2})", elementType(op.getView().getType().getElement()),
                       name(op.getSource()), name(op.getByteOffset())));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::synchronisation(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AwaitLaunchOp op) {
        line(atomCall(op.getAtom(), "awaitLaunch") + "();" + origin(op));
        return success();
      })
      .Case([&](AllowLaunchOp op) {
        line(atomCall(op.getAtom(), "allowLaunch") + "();" + origin(op));
        return success();
      })
      .Case([&](ClusterArriveOp op) {
        line("clusterArrive();" + origin(op));
        return success();
      })
      .Case([&](ClusterWaitOp op) {
        line("clusterWait();" + origin(op));
        return success();
      })
      .Case([&](ClusterBarrierOp op) {
        line("clusterBarrier();" + origin(op));
        return success();
      })
      .Case([&](ArriveOp op) {
        line(formatv("bool {0} = arriveLast({1}, {2});", fresh(op.getResult(), "last"),
                     address(op.getView(), op.getIndices()), name(op.getExpected())) +
             origin(op));
        return success();
      })
      .Case([&](BarrierOp op) {
        auto role = op->getParentOfType<RoleOp>();
        if (role && isa<RolesOp>(role->getParentOp()) && !op.getWhole()) {
          auto roles = role->getBlock()->getOps<RoleOp>();
          int64_t number = 1 + std::distance(roles.begin(), llvm::find(roles, role));
          line(formatv("barrierOf({0}, {1});", number, 32 * *role.getWarps()) + origin(op));
          return success();
        }
        line("barrier();" + origin(op));
        return success();
      })
      .Case([&](FillStageOp op) {
        line(formatv("{0}.fill({1}, {2});", name(op.getRing()), name(op.getUse()),
                     address(op.getView(), op.getIndices())) +
             origin(op));
        return success();
      })
      .Case([&](AcquireOp op) {
        define(op, "stage", name(op.getRing()) + ".acquire(" + use(op.getUse()) + ")");
        return success();
      })
      .Case([&](WaitOp op) {
        define(op, "stage", name(op.getRing()) + ".wait(" + use(op.getUse()) + ")");
        return success();
      })
      .Case([&](CommitOp op) {
        line(name(op.getRing()) + ".commit(" + use(op.getUse()) + ");" + origin(op));
        return success();
      })
      .Case([&](ReleaseOp op) {
        line(name(op.getRing()) + ".release(" + use(op.getUse()) + ");" + origin(op));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::tileAccess(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](LoadOp op) {
        TileType type = op.getResult().getType();
        if (inRegisterOrder(type, op.getSizes())) {
          define(op, "t",
                 formatv("loadRegisters<{0}>({1})", tileType(type),
                         address(op.getView(), op.getIndices())));
          return success();
        }
        if (type.getLayout() != Layout::Lanes) {
          ViewType view = op.getView().getType();
          size_t rank = view.getShape().size();
          std::string rows;
          if (op.getLimit())
            rows = formatv(", {0} - {1}", name(op.getLimit()), name(op.getIndices()[0]));
          define(op, "t",
                 formatv("load<{0}>({1}, {2}{3})", tileType(type),
                         address(op.getView(), op.getIndices()),
                         rank > 1 ? view.getStride(unsigned(rank) - 2) : 0, rows));
          return success();
        }
        BoxLayout box = *boxLayout(op.getView().getType(), op.getSizes());
        define(op, "t",
               formatv("load<{0}, {1}>({2}, {3})", tileArguments(op.getResult().getType()),
                       box.length, address(op.getView(), op.getIndices()), box.stride));
        return success();
      })
      .Case([&](LoadRowsOp op) {
        std::string count = formatv("{0} - {1}", name(op.getLimit()), name(op.getPlace()));
        define(op, "t",
               formatv("loadRows<{0}, {1}>({2}, {3}, {4}, {5})", tileType(op.getResult().getType()),
                       op.getPer(), name(op.getView()) + " + " + name(op.getColumn()),
                       op.getView().getType().getStride(0), address(op.getList(), op.getPlace()),
                       count));
        return success();
      })
      .Case([&](StoreOp op) {
        TileType type = op.getValue().getType();
        if (inRegisterOrder(type, op.getSizes()) || type.getLayout() == Layout::MmaRows) {
          line(formatv("storeRegisters({0}, {1});", name(op.getValue()),
                       address(op.getView(), op.getIndices())) +
               origin(op));
          return success();
        }
        BoxLayout box = *boxLayout(op.getView().getType(), op.getSizes(), bool(op.getLimit()));
        std::string rows;
        if (op.getLimit())
          rows = formatv(", {0} - {1}", name(op.getLimit()), name(op.getIndices()[0]));
        line(formatv("store<{0}>({1}, {2}, {3}{4});", box.length, name(op.getValue()),
                     address(op.getView(), op.getIndices()), box.stride, rows) +
             origin(op));
        return success();
      })
      .Case([&](LoadScalarOp op) {
        line(formatv("{0} {1} = loadScalar({2});", elementType(op.getResult().getType()),
                     fresh(op.getResult(), "e"), address(op.getView(), op.getIndices())) +
             origin(op));
        return success();
      })
      .Case([&](StoreScalarOp op) {
        line(formatv("storeScalar({0}, {1});", address(op.getView(), op.getIndices()),
                     name(op.getValue())) +
             origin(op));
        return success();
      })
      .Case([&](CopyOp op) {
        line(
            formatv("copyAhead<{0}>({1});", op.getBytes(), address(op.getView(), op.getIndices())) +
            origin(op));
        return success();
      })
      .Case([&](StoreTransposedOp op) {
        std::string across = op.getAcross() ? formatv("Across<{0}>", *op.getAcross()).str() : "";
        line(formatv("storeTransposed{0}({1}, {2}, {3});", across, name(op.getValue()),
                     address(op.getView(), op.getIndices()),
                     op.getView().getType().getStride(op.getIndices().size() - 2)) +
             origin(op));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::matrixAccess(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ScatterOp op) {
        line(formatv("scatter({0}, {1}, {2});", name(op.getValue()), name(op.getPlaces()),
                     address(op.getView(), op.getIndices())) +
             origin(op));
        return success();
      })
      .Case([&](GatherOp op) {
        define(op, "t",
               formatv("gatherAt({0}, {1})", address(op.getView(), op.getIndices()),
                       name(op.getNumbers())));
        return success();
      })
      .Case([&](CompactOp op) {
        line(formatv("compact({0}, {1}, {2}, {3});", name(op.getValue()),
                     address(op.getView(), op.getIndices()), name(op.getTakes()),
                     name(op.getLimit())) +
             origin(op));
        return success();
      })
      .Case([&](CountOp op) {
        line("i64 " + fresh(op.getResult(), "count") + " = countOf(" + name(op.getTakes()) + ");" +
             origin(op));
        return success();
      })
      .Case([&](StoreColumnsOp op) {
        line(formatv("storeColumns({0}, {1}, {2}, {3});", name(op.getValue()),
                     address(op.getView(), op.getIndices()), name(op.getStride()),
                     name(op.getLimit())) +
             origin(op));
        return success();
      })
      .Case([&](StoreSpreadOp op) {
        line(formatv("storeSpread<{0}>({1}, {2}, {3}, {4});", op.getSpread(), name(op.getValue()),
                     address(op.getView(), op.getIndices()), op.getView().getType().getStride(0),
                     name(op.getLimit())) +
             origin(op));
        return success();
      })
      .Case([&](CodeTableOp op) {
        auto role = op->getParentOfType<RoleOp>();
        int64_t first = role ? role.firstWarp() : 0;
        int64_t warps = int64_t(role ? *role.getWarps() : kernel.getWarps().value_or(1));
        line(formatv("fillCodeTable<{0}, {1}>({2});", first, warps, address(op.getView(), {})) +
             origin(op));
        return success();
      })
      .Case([&](LoadCachedOp op) {
        std::string plain = formatv("cached_{0}", stringifyFormat(op.getFormat()));
        std::string arguments = address(op.getCodes(), op.getToken());
        if (op.getScales()) {
          int64_t groups =
              op.getScales().getType().getShape()[0] / op.getCodes().getType().getShape()[0];
          arguments +=
              formatv(", {0} + {1} * {2}", name(op.getScales()), name(op.getToken()), groups);
        }
        if (op.getTable())
          arguments += ", " + name(op.getTable());
        if (op.getLimit())
          arguments += ", " + name(op.getLimit());
        define(op, "b",
               formatv("{0}<{1}>({2})", atomCall(op.getAtom(), plain),
                       tileType(op.getResult().getType()), arguments));
        return success();
      })
      .Case([&](LoadGroupsOp op) {
        ViewType view = op.getView().getType();
        define(op, "b",
               formatv("loadGroups<{0}>({1}, {2}, {3} - {4})", tileType(op.getResult().getType()),
                       address(op.getView(), op.getIndices()), view.getStride(0),
                       name(op.getLimit()), name(op.getIndices()[0])));
        return success();
      })
      .Case([&](PackRowsOp op) {
        int64_t stride = op.getX().getType().getStride(0);
        line(formatv("{0}<{1}>({2}, {3}, {4} - {5}, {6});", atomCall(op.getAtom(), "packRows"),
                     op.getCount(), address(op.getX(), {op.getRow(), op.getColumn()}), stride,
                     name(op.getLimit()), name(op.getRow()),
                     address(op.getStages(), {op.getStage(), op.getFirst()})) +
             origin(op));
        return success();
      })
      .Case([&](MmaSharedOp op) {
        define(op, "acc",
               formatv("{0}({1})", atomCall(op.getAtom(), "mmaShared"),
                       list({op.getA(), op.getRight(), op.getAcc()})));
        return success();
      })
      .Case([&](MmaWaitOp op) {
        define(op, "acc",
               formatv("{0}<{1}>({2})", atomCall(op.getAtom(), "awaitShared"), op.getLeaves(),
                       name(op.getSums())));
        return success();
      })
      .Case([&](MmaGroupsOp op) {
        int64_t groups =
            op.getScales().getType().getShape()[0] / op.getCodes().getType().getShape()[0];
        define(op, "acc",
               formatv("{0}({1}, {2} + {3} * {4}, {5})", atomCall(op.getAtom(), "mmaGroups"),
                       address(op.getCodes(), op.getToken()), name(op.getScales()),
                       name(op.getToken()), groups, name(op.getQueries())));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

} // namespace m3c::codegen
