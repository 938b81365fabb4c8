# Helpers that every folder's CMakeLists.txt uses.

# Flags of our own code; system headers (LLVM, MLIR) are not held to them.
add_library(m3c_options INTERFACE)
target_compile_options(m3c_options INTERFACE -Wall -Wextra -Werror)
target_include_directories(m3c_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}>)
if(M3C_SANITIZE)
  add_compile_options(-fsanitize=${M3C_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${M3C_SANITIZE})
endif()
if(M3C_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link) # counters that guide libFuzzer
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(M3C_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()

find_program(M3C_CCACHE ccache)
if(M3C_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${M3C_CCACHE})
endif()

# m3c_library(NAME SOURCES a.cpp… [DEPS lib…] [PRIVATE_DEPS lib…]): a static library under our flags.
function(m3c_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE m3c_options ${ARG_PRIVATE_DEPS})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}>)
endfunction()

# m3c_tool(NAME SOURCES a.cpp… [DEPS lib…]): a program in build/bin.
function(m3c_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE m3c_options ${ARG_DEPS})
endfunction()
