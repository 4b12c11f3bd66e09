# SPDX-License-Identifier: GPL-3.0-or-later
#
# Looks for a CUDA toolkit that can build the CUDA backend and enables the language. Sets KVLOUPE_CUDA_FOUND. Included from
# the top level, because a language belongs to every folder below. Absent without harm: one status line says why.
#
# CMake 3.25 knows no C++20 for nvcc, so its flag is set by hand; check_language() looks at PATH alone, so nvcc is looked for.
option(KVLOUPE_CUDA "Build the CUDA backend where a toolkit is found" ON)
set(KVLOUPE_CUDA_FOUND FALSE)
set(KVLOUPE_CUDA_OLDEST 12.4)

function(kvloupe_no_cuda reason)
  message(STATUS "No CUDA backend is built: ${reason}")
endfunction()

if(NOT KVLOUPE_CUDA)
  kvloupe_no_cuda("KVLOUPE_CUDA is off")
  return()
endif()
if(KVLOUPE_SANITIZE OR KVLOUPE_FUZZ)
  kvloupe_no_cuda("the host's sanitizers do not reach into it; tests/emulation runs its sources under them")
  return()
endif()

set(kvloupe_cuda_hints "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
if(DEFINED ENV{CUDACXX})
  get_filename_component(kvloupe_cuda_own "$ENV{CUDACXX}" DIRECTORY)
  list(PREPEND kvloupe_cuda_hints "${kvloupe_cuda_own}")
endif()
find_program(KVLOUPE_NVCC nvcc HINTS ${kvloupe_cuda_hints})
if(NOT KVLOUPE_NVCC)
  kvloupe_no_cuda("nvcc was not found (set CUDACXX or CUDA_HOME where it lies elsewhere)")
  return()
endif()

execute_process(COMMAND "${KVLOUPE_NVCC}" --version OUTPUT_VARIABLE kvloupe_nvcc_says ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" kvloupe_nvcc_release "${kvloupe_nvcc_says}")
set(kvloupe_nvcc_version "${CMAKE_MATCH_1}")
if(NOT kvloupe_nvcc_version OR kvloupe_nvcc_version VERSION_LESS KVLOUPE_CUDA_OLDEST)
  kvloupe_no_cuda("${KVLOUPE_NVCC} is of release '${kvloupe_nvcc_version}', ${KVLOUPE_CUDA_OLDEST} is the oldest that does")
  return()
endif()

set(CMAKE_CUDA_COMPILER "${KVLOUPE_NVCC}")
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90")  # machine code for both, PTX of the newer for what comes after
endif()
if(KVLOUPE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${KVLOUPE_CCACHE}")
endif()
enable_language(CUDA)
foreach(kind STANDARD EXTENSION)
  if(NOT DEFINED CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit ${KVLOUPE_CUDA_OLDEST})
if(NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublas)
  kvloupe_no_cuda("the toolkit of ${KVLOUPE_NVCC} lacks the static runtime or cuBLAS")
  return()
endif()
set(KVLOUPE_CUDA_FOUND TRUE)
message(STATUS "The CUDA backend is built with nvcc ${kvloupe_nvcc_version} for ${CMAKE_CUDA_ARCHITECTURES}")
