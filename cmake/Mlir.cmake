# LLVM, MLIR, clang and lld 22 as shared libraries. Debian's MLIR package has no version file, so
# the major version is checked by hand.
list(APPEND CMAKE_PREFIX_PATH /usr/lib/llvm-22)
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "LLVM ${LLVM_PACKAGE_VERSION} found in ${LLVM_DIR}; m3c needs LLVM/MLIR 22: "
    "install libmlir-22-dev, or pass -DMLIR_DIR=/usr/lib/llvm-22/lib/cmake/mlir")
endif()
list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR} ${MLIR_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(m3c_mlir INTERFACE)
# The build folder holds generated sources only; they are not held to our warnings either.
target_include_directories(m3c_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS}
  ${PROJECT_BINARY_DIR})
target_link_libraries(m3c_mlir INTERFACE MLIR LLVM)
# Debian's LLVM is built with RTTI and without assertions.
target_compile_definitions(m3c_mlir INTERFACE ${LLVM_DEFINITIONS_LIST})

# One precompiled header for every source that includes MLIR: parsing those headers is most of the
# cost of such a source.
file(WRITE ${PROJECT_BINARY_DIR}/m3c_mlir_pch.cpp "")
add_library(m3c_mlir_pch OBJECT ${PROJECT_BINARY_DIR}/m3c_mlir_pch.cpp)
target_link_libraries(m3c_mlir_pch PRIVATE m3c_options m3c_mlir)
target_precompile_headers(m3c_mlir_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/MlirPch.h)
target_compile_options(m3c_mlir_pch PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")

# m3c_mlir_library(NAME SOURCES … [DEPS …]): as m3c_library, with MLIR and its precompiled header.
function(m3c_mlir_library name)
  m3c_library(${name} ${ARGN})
  target_link_libraries(${name} PUBLIC m3c_mlir)
  target_precompile_headers(${name} REUSE_FROM m3c_mlir_pch)
  target_compile_options(${name} PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# m3c_tablegen(NAME TD FILE.td OUT file.inc ARGS --gen-… …): adds one mlir-tblgen step to target NAME.
function(m3c_tablegen target)
  cmake_parse_arguments(ARG "" "TD" "GEN" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${ARG_TD})
  list(LENGTH ARG_GEN count)
  math(EXPR last "${count} - 1")
  foreach(i RANGE 0 ${last} 2)
    math(EXPR j "${i} + 1")
    list(GET ARG_GEN ${i} out)
    list(GET ARG_GEN ${j} flags)
    string(REPLACE " " ";" flags "${flags}")
    mlir_tablegen(${out} ${flags} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  endforeach()
  add_public_tablegen_target(${target})
endfunction()

# m3c_pass_tablegen(TARGET NAME): Passes.h.inc of this folder's Passes.td, in the pipeline group NAME.
function(m3c_pass_tablegen target name)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.raw.inc -gen-pass-decls -name=${name} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  set(folder ${CMAKE_CURRENT_BINARY_DIR})
  set(script ${PROJECT_SOURCE_DIR}/cmake/PassStatistics.cmake)
  add_custom_command(OUTPUT ${folder}/Passes.h.inc
    COMMAND ${CMAKE_COMMAND} -DIN=${folder}/Passes.raw.inc -DOUT=${folder}/Passes.h.inc -P ${script}
    DEPENDS ${folder}/Passes.raw.inc ${script})
  list(APPEND TABLEGEN_OUTPUT ${folder}/Passes.h.inc)
  add_public_tablegen_target(${target})
endfunction()
