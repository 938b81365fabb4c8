// Everything that the tools which read IR text know: m3c's dialects and passes, and the upstream
// ones that they use.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace m3c {

/// Adds m3c's dialects and the upstream dialects that stand beside them in a module.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Adds m3c's passes and pipelines, and the upstream canonicalizer, CSE and symbol passes, to
/// MLIR's global pass registry.
void registerAllPasses();

} // namespace m3c
