# cmake -DIN=raw.inc -DOUT=Passes.h.inc -P PassStatistics.cmake
# Copies what mlir-tblgen made of Passes.td, with our class of statistics (passes/statistics).
file(READ ${IN} text)
string(REPLACE "::mlir::Pass::Statistic " "::m3c::PassStatistic " text "${text}")
file(WRITE ${OUT} "${text}")
