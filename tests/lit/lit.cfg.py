# lit configuration. Parameters: bin = folder with m3-opt and m3c, llvm = folder with FileCheck and not.
import os

import lit.formats

config.name = "m3c"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["out"]

tools = [lit_config.params["bin"], lit_config.params["llvm"], os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(tools)
config.substitutions.append(("%root", os.path.dirname(os.path.dirname(config.test_source_root))))
