# Third-party libraries. Everything but libtorch comes from Debian; libtorch from a wheel unpacked by ./run
# (its own TorchConfig.cmake insists on CUDA, so the targets are written by hand), or from CALYREX_TORCH_ROOT.
find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc i18n data)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
if(CALYREX_TESTS)
  find_package(GTest REQUIRED)
endif()

if(CALYREX_TORCH)
  if(NOT EXISTS "${CALYREX_TORCH_ROOT}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "No libtorch in ${CALYREX_TORCH_ROOT} (lib/libtorch_cpu.so is missing). "
                        "Run ./run build, or set CALYREX_TORCH_ROOT to a libtorch or pip torch folder.")
  endif()
  foreach(header torch/csrc/api/include/torch/version.h torch/headeronly/version.h)
    if(EXISTS "${CALYREX_TORCH_ROOT}/include/${header}")
      file(STRINGS "${CALYREX_TORCH_ROOT}/include/${header}" torch_version_lines REGEX "VERSION_(MAJOR|MINOR) [0-9]+")
      string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" torch_version "${torch_version_lines}")
    endif()
  endforeach()
  if(NOT torch_version VERSION_GREATER_EQUAL 2.7)
    message(FATAL_ERROR "The libtorch in ${CALYREX_TORCH_ROOT} is '${torch_version}'; 2.7 or newer is needed.")
  endif()
  message(STATUS "libtorch ${torch_version} in ${CALYREX_TORCH_ROOT}")

  # libtorch ships headers of a newer fmt, which must not hide those of the fmt that we link.
  get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/include-first")
  file(CREATE_LINK "${fmt_include}/fmt" "${CMAKE_BINARY_DIR}/include-first/fmt" SYMBOLIC)

  add_library(calyrex_torch_headers INTERFACE)
  target_include_directories(calyrex_torch_headers SYSTEM INTERFACE "${CMAKE_BINARY_DIR}/include-first"
    "${CALYREX_TORCH_ROOT}/include" "${CALYREX_TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_options(calyrex_torch_headers INTERFACE -fopenmp -Winvalid-pch)

  set(torch_libraries torch_cpu c10)
  if(EXISTS "${CALYREX_TORCH_ROOT}/lib/libtorch_cuda.so")
    list(APPEND torch_libraries torch_cuda c10_cuda)
  endif()
  add_library(calyrex_torch_runtime INTERFACE)
  foreach(library IN LISTS torch_libraries)
    target_link_libraries(calyrex_torch_runtime INTERFACE "${CALYREX_TORCH_ROOT}/lib/lib${library}.so")
  endforeach()
  file(GLOB torch_gomp "${CALYREX_TORCH_ROOT}/lib/libgomp*.so*")
  # One OpenMP runtime in the process: the one libtorch brings, found through the run path.
  target_link_options(calyrex_torch_runtime INTERFACE
    "-Wl,--no-as-needed" "-Wl,-rpath,${CALYREX_TORCH_ROOT}/lib" "-Wl,-rpath-link,${CALYREX_TORCH_ROOT}/lib")
  target_link_libraries(calyrex_torch_runtime INTERFACE ${torch_gomp})

  add_library(calyrex_torch_pch STATIC "${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc")
  target_link_libraries(calyrex_torch_pch PUBLIC calyrex_options PRIVATE calyrex_torch_headers)
  target_precompile_headers(calyrex_torch_pch PRIVATE "${CMAKE_SOURCE_DIR}/cmake/torch_pch.h")
endif()
