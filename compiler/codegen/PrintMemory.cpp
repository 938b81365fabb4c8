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
        return statement(op, "i64 " + fresh(op.getResult(), "warp") + " = warpId();");
      })
      .Case([&](ClusterRankOp op) {
        return statement(op, "i64 " + fresh(op.getResult(), "rank") + " = clusterRank();");
      })
      .Case([&](PeerOp op) {
        return define(op, "peer",
                      formatv("peer({0}, {1})", name(op.getSource()), name(op.getRank())));
      })
      .Case([&](AllocOp op) -> LogicalResult {
        if (!op.getOffset())
          return op.emitOpError("has no offset; run tile-assign-shared");
        std::string type = elementType(op.getView().getType().getElement());
        return define(op, "buf", formatv("({0} *)((u8 *)shared + {1})", type, *op.getOffset()));
      })
      .Case([&](RingOp op) -> LogicalResult {
        if (!op.getOffset())
          return op.emitOpError("has no offset; run tile-assign-shared");
        RingType type = op.getRing().getType();
        int64_t elements = type.getByteSize() / type.getStages() / elementBytes(type.getElement());
        std::string drained = op.getAsync() ? formatv(", {0}", *op.getAsync()).str() : "";
        if (op.getTurns())
          drained += formatv(", {0}", *op.getTurns()).str();
        return define(op, "ring",
                      formatv("{0}Ring<{1}, {2}, {3}{4}>(({1} *)((u8 *)shared + {5}))",
                              op.getAsync() ? "Async" : "", elementType(type.getElement()),
                              type.getStages(), elements, drained, *op.getOffset()));
      })
      .Case([&](RingMemoryOp op) {
        return define(op, "buf",
                      formatv("({0} *){1}.base", elementType(op.getView().getType().getElement()),
                              name(op.getRing())));
      })
      .Case([&](ReinterpretOp op) {
        return define(op, "view",
                      formatv("({0} *)({1} + {2})",
                              elementType(op.getView().getType().getElement()),
                              name(op.getSource()), name(op.getByteOffset())));
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::synchronisation(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AwaitLaunchOp op) {
        return statement(op, atomCall(op.getAtom(), "awaitLaunch") + "();");
      })
      .Case([&](AllowLaunchOp op) {
        return statement(op, atomCall(op.getAtom(), "allowLaunch") + "();");
      })
      .Case([&](ClusterArriveOp op) { return statement(op, "clusterArrive();"); })
      .Case([&](ClusterWaitOp op) { return statement(op, "clusterWait();"); })
      .Case([&](ClusterBarrierOp op) { return statement(op, "clusterBarrier();"); })
      .Case([&](ArriveOp op) {
        return statement(op,
                         formatv("bool {0} = arriveLast({1}, {2});", fresh(op.getResult(), "last"),
                                 address(op.getView(), op.getIndices()), name(op.getExpected())));
      })
      .Case([&](BarrierOp op) {
        auto role = op->getParentOfType<RoleOp>();
        if (role && isa<RolesOp>(role->getParentOp()) && !op.getWhole()) {
          auto roles = role->getBlock()->getOps<RoleOp>();
          int64_t number = 1 + std::distance(roles.begin(), llvm::find(roles, role));
          return statement(op, formatv("barrierOf({0}, {1});", number, 32 * *role.getWarps()));
        }
        return statement(op, "barrier();");
      })
      .Case([&](FillStageOp op) {
        return statement(op, formatv("{0}.fill({1}, {2});", name(op.getRing()), name(op.getUse()),
                                     address(op.getView(), op.getIndices())));
      })
      .Case([&](AcquireOp op) {
        return define(op, "stage", name(op.getRing()) + ".acquire(" + use(op.getUse()) + ")");
      })
      .Case([&](WaitOp op) {
        return define(op, "stage", name(op.getRing()) + ".wait(" + use(op.getUse()) + ")");
      })
      .Case([&](CommitOp op) {
        return statement(op, name(op.getRing()) + ".commit(" + use(op.getUse()) + ");");
      })
      .Case([&](ReleaseOp op) {
        return statement(op, name(op.getRing()) + ".release(" + use(op.getUse()) + ");");
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::tileAccess(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](LoadOp op) {
        TileType type = op.getResult().getType();
        if (inRegisterOrder(type, op.getSizes())) {
          return define(op, "t",
                        formatv("loadRegisters<{0}>({1})", tileType(type),
                                address(op.getView(), op.getIndices())));
        }
        if (type.getLayout() != Layout::Lanes) {
          ViewType view = op.getView().getType();
          size_t rank = view.getShape().size();
          std::string rows;
          if (op.getLimit())
            rows = formatv(", {0} - {1}", name(op.getLimit()), name(op.getIndices()[0]));
          std::string load = "load<";
          if (op.getPart())
            load = formatv("loadHalf<{0}, ", *op.getPart());
          return define(op, "t",
                        formatv("{0}{1}>({2}, {3}{4})", load, tileType(type),
                                address(op.getView(), op.getIndices()),
                                rank > 1 ? view.getStride(unsigned(rank) - 2) : 0, rows));
        }
        BoxLayout box = *boxLayout(op.getView().getType(), op.getSizes());
        return define(op, "t",
                      formatv("load<{0}, {1}>({2}, {3})", tileArguments(op.getResult().getType()),
                              box.length, address(op.getView(), op.getIndices()), box.stride));
      })
      .Case([&](LoadRowsOp op) {
        std::string count = formatv("{0} - {1}", name(op.getLimit()), name(op.getPlace()));
        return define(op, "t",
                      formatv("loadRows<{0}, {1}>({2}, {3}, {4}, {5})",
                              tileType(op.getResult().getType()), op.getPer(),
                              name(op.getView()) + " + " + name(op.getColumn()),
                              op.getView().getType().getStride(0),
                              address(op.getList(), op.getPlace()), count));
      })
      .Case([&](StoreOp op) {
        TileType type = op.getValue().getType();
        if (inRegisterOrder(type, op.getSizes()) || type.getLayout() == Layout::MmaRows) {
          return statement(op, formatv("storeRegisters({0}, {1});", name(op.getValue()),
                                       address(op.getView(), op.getIndices())));
        }
        BoxLayout box = *boxLayout(op.getView().getType(), op.getSizes(), bool(op.getLimit()));
        std::string rows;
        if (op.getLimit())
          rows = formatv(", {0} - {1}", name(op.getLimit()), name(op.getIndices()[0]));
        return statement(op,
                         formatv("store<{0}>({1}, {2}, {3}{4});", box.length, name(op.getValue()),
                                 address(op.getView(), op.getIndices()), box.stride, rows));
      })
      .Case([&](LoadScalarOp op) {
        return statement(
            op, formatv("{0} {1} = loadScalar({2});", elementType(op.getResult().getType()),
                        fresh(op.getResult(), "e"), address(op.getView(), op.getIndices())));
      })
      .Case([&](StoreScalarOp op) {
        return statement(op, formatv("storeScalar({0}, {1});",
                                     address(op.getView(), op.getIndices()), name(op.getValue())));
      })
      .Case([&](CopyOp op) {
        return statement(op, formatv("copyAhead<{0}>({1});", op.getBytes(),
                                     address(op.getView(), op.getIndices())));
      })
      .Case([&](StoreTransposedOp op) {
        std::string across = op.getAcross() ? formatv("Across<{0}>", *op.getAcross()).str() : "";
        return statement(op, formatv("store{0}Transposed{1}({2}, {3}, {4});",
                                     op.getPairs() ? "Pairs" : "", across, name(op.getValue()),
                                     address(op.getView(), op.getIndices()),
                                     op.getView().getType().getStride(op.getIndices().size() - 2)));
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::listAccess(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ScatterOp op) {
        return statement(op, formatv("scatter({0}, {1}, {2});", name(op.getValue()),
                                     name(op.getPlaces()), address(op.getView(), op.getIndices())));
      })
      .Case([&](GatherOp op) {
        return define(op, "t",
                      formatv("gatherAt({0}, {1})", address(op.getView(), op.getIndices()),
                              name(op.getNumbers())));
      })
      .Case([&](CompactOp op) {
        return statement(op, formatv("compact({0}, {1}, {2}, {3});", name(op.getValue()),
                                     address(op.getView(), op.getIndices()), name(op.getTakes()),
                                     name(op.getLimit())));
      })
      .Case([&](CountOp op) {
        return statement(op, "i64 " + fresh(op.getResult(), "count") + " = countOf(" +
                                 name(op.getTakes()) + ");");
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::shareSlot(ShareSlotOp op) {
  std::string arguments = address(op.getCodes(), {});
  if (op.getScales())
    arguments += ", " + list({op.getScales(), op.getTable()});
  if (op.getLimit())
    arguments += ", " + name(op.getLimit());
  std::string plain = formatv("slot_{0}", stringifyFormat(op.getFormat()));
  return statement(op, formatv("{0}<{1}>({2}, {3});", atomCall(op.getAtom(), plain),
                               kernel.getWarps().value_or(1), arguments, name(op.getOperand())));
}

LogicalResult Printer::matrixAccess(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](StoreColumnsOp op) {
        return statement(op, formatv("storeColumns({0}, {1}, {2}, {3});", name(op.getValue()),
                                     address(op.getView(), op.getIndices()), name(op.getStride()),
                                     name(op.getLimit())));
      })
      .Case([&](StoreSpreadOp op) {
        return statement(op, formatv("storeSpread<{0}>({1}, {2}, {3}, {4});", op.getSpread(),
                                     name(op.getValue()), address(op.getView(), op.getIndices()),
                                     op.getView().getType().getStride(0), name(op.getLimit())));
      })
      .Case([&](CodeTableOp op) {
        auto role = op->getParentOfType<RoleOp>();
        int64_t first = role ? role.firstWarp() : 0;
        int64_t warps = int64_t(role ? *role.getWarps() : kernel.getWarps().value_or(1));
        return statement(
            op, formatv("fillCodeTable<{0}, {1}>({2});", first, warps, address(op.getView(), {})));
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
        return define(op, "b",
                      formatv("{0}<{1}>({2})", atomCall(op.getAtom(), plain),
                              tileType(op.getResult().getType()), arguments));
      })
      .Case([&](LoadGroupsOp op) {
        ViewType view = op.getView().getType();
        return define(op, "b",
                      formatv("loadGroups<{0}>({1}, {2}, {3} - {4})",
                              tileType(op.getResult().getType()),
                              address(op.getView(), op.getIndices()), view.getStride(0),
                              name(op.getLimit()), name(op.getIndices()[0])));
      })
      .Case([&](PackRowsOp op) {
        int64_t stride = op.getX().getType().getStride(0);
        std::string count = formatv("{0} - {1}", name(op.getLimit()), name(op.getRow()));
        std::string to = address(op.getStages(), {op.getStage(), op.getFirst()});
        std::string rows =
            op.getList() ? formatv("ListedRows<{0}>{{{1} + {2}, {3}, {4} + {5}}", *op.getPer(),
                                   name(op.getX()), name(op.getColumn()), stride,
                                   address(op.getList(), op.getPlace()), name(op.getRow()))
                               .str()
                         : formatv("RowsInTurn{{{0}, {1}}",
                                   address(op.getX(), {op.getRow(), op.getColumn()}), stride)
                               .str();
        return statement(op, formatv("{0}<{1}>({2}, {3}, {4});", atomCall(op.getAtom(), "packRows"),
                                     op.getCount(), rows, count, to));
      })
      .Case([&](ShareSlotOp op) { return shareSlot(op); })
      .Case([&](MmaSharedOp op) {
        // Sums that begin with nothing need not be read.
        auto fill = op.getAcc().getDefiningOp<FillOp>();
        if (op.isOfSlot() && fill && matchPattern(fill.getValue(), m_PosZeroFloat()))
          return define(op, "acc",
                        formatv("startShared<{0}>({1})", op.getAcc().getType().getCols(),
                                list({op.getA(), op.getRight()})));
        return define(op, "acc",
                      formatv("{0}({1})", atomCall(op.getAtom(), "mmaShared"),
                              list({op.getA(), op.getRight(), op.getAcc()})));
      })
      .Case([&](MmaWaitOp op) {
        return define(op, "acc",
                      formatv("{0}<{1}>({2})", atomCall(op.getAtom(), "awaitShared"),
                              op.getLeaves(), name(op.getSums())));
      })
      .Case([&](MmaGroupsOp op) {
        int64_t groups =
            op.getScales().getType().getShape()[0] / op.getCodes().getType().getShape()[0];
        return define(op, "acc",
                      formatv("{0}({1}, {2} + {3} * {4}, {5})", atomCall(op.getAtom(), "mmaGroups"),
                              address(op.getCodes(), op.getToken()), name(op.getScales()),
                              name(op.getToken()), groups, name(op.getQueries())));
      })
      .Default([](Operation *) { return failure(); });
}

} // namespace m3c::codegen
