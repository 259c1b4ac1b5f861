# How targets are declared. tools/check_includes.py reads these calls, so their arguments are written out, not computed.
#
# calyrex_library(name SOURCES ... DEPS ... [LIBS ...] [TORCH])
#   One static library `calyrex_<name>` a folder. DEPS are other folders (public), LIBS third-party targets (public).
#   TORCH: may include torch headers; reuses the one precompiled header.
# calyrex_program(name SOURCES ... DEPS ... [LIBS ...])
#   The torch-free program build/<name>.
# calyrex_module(name SOURCES ... DEPS ... [LIBS ...] [TORCH])
#   A shared object build/lib<name>.so that a program loads with dlopen; with TORCH it brings libtorch along.
# calyrex_test(name SOURCES ... DEPS ... LABEL unit|torch|integration|slow [LIBS ...] [TORCH])
#   One GoogleTest program build/tests/<name>; every case becomes a ctest entry `<suite>.<case>`.

add_library(calyrex_options INTERFACE)
target_include_directories(calyrex_options INTERFACE "${CMAKE_SOURCE_DIR}")
# __FILE__ from the root: no machine's paths in messages, and the compiler cache serves every clone.
target_compile_options(calyrex_options INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=")
if(CALYREX_WERROR)
  target_compile_options(calyrex_options INTERFACE -Werror)
endif()
if(CALYREX_SANITIZE)
  target_compile_options(calyrex_options INTERFACE -fsanitize=${CALYREX_SANITIZE} -fno-omit-frame-pointer -g1)
  target_compile_options(calyrex_options INTERFACE -fno-sanitize-recover=all)
  target_link_options(calyrex_options INTERFACE -fsanitize=${CALYREX_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()

function(calyrex_apply_torch target)
  target_link_libraries(${target} PRIVATE calyrex_torch_headers)
  if(TARGET calyrex_torch_pch)
    target_precompile_headers(${target} REUSE_FROM calyrex_torch_pch)
  endif()
endfunction()

# Links DEPS (folders) and LIBS (targets) with the given visibility.
function(calyrex_link target visibility deps libs)
  target_link_libraries(${target} ${visibility} calyrex_options ${libs})
  foreach(dep IN LISTS deps)
    target_link_libraries(${target} ${visibility} calyrex_${dep})
  endforeach()
endfunction()

function(calyrex_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(calyrex_${name} STATIC ${ARG_SOURCES})
  calyrex_link(calyrex_${name} PUBLIC "${ARG_DEPS}" "${ARG_LIBS}")
  if(ARG_TORCH)
    calyrex_apply_torch(calyrex_${name})
  endif()
endfunction()

# Puts a file into a target as the function NAME(), declared in calyrex/cli/embedded.h.
function(calyrex_embed target name file)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cc")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND ${CMAKE_COMMAND} "-DINPUT=${file}" "-DOUTPUT=${source}" "-DNAME=${name}" -P "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
    DEPENDS "${file}" "${CMAKE_SOURCE_DIR}/cmake/embed.cmake")
  target_sources(${target} PRIVATE "${source}")
endfunction()

function(calyrex_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  calyrex_link(${name} PRIVATE "${ARG_DEPS}" "${ARG_LIBS}")
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

function(calyrex_module name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  calyrex_link(${name} PRIVATE "${ARG_DEPS}" "${ARG_LIBS}")
  if(ARG_TORCH)
    calyrex_apply_torch(${name})
    target_link_libraries(${name} PRIVATE calyrex_torch_runtime)
  endif()
endfunction()

# A program with torch code: compiled exactly as the precompiled header was (-fPIC), or the compiler ignores that.
function(calyrex_apply_torch_program target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  calyrex_apply_torch(${target})
  target_link_libraries(${target} PRIVATE calyrex_torch_runtime)
endfunction()

# Cases are listed when ctest starts, not while building: a build then runs nothing, and a missing program is a failed test.
# Torch tests wait passively like the program itself: spinning threads would starve the tests beside them.
function(calyrex_test name)
  cmake_parse_arguments(ARG "TORCH" "LABEL" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  calyrex_link(${name} PRIVATE "${ARG_DEPS}" "calyrex_test_support;GTest::gmock_main;GTest::gmock;GTest::gtest;${ARG_LIBS}")
  if(ARG_TORCH)
    calyrex_apply_torch_program(${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  # Names without printed parameters: for a struct those are its bytes, other ones in every run.
  gtest_discover_tests(${name} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" NO_PRETTY_VALUES
                       DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
                       PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 600 ENVIRONMENT OMP_WAIT_POLICY=passive)
endfunction()
