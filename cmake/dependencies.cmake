# Third-party libraries. Everything but libtorch comes from Debian; libtorch from a wheel unpacked by ./run
# (its own TorchConfig.cmake insists on CUDA, so the targets are written by hand), or from CALYREX_TORCH_ROOT.
find_package(Threads REQUIRED)
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
  add_library(calyrex_torch_headers INTERFACE)
  target_include_directories(calyrex_torch_headers SYSTEM INTERFACE
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
