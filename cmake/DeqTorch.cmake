# deq_torch::torch: libtorch, CPU part, as an imported target of our own.
#
# find_package(Torch) is not used: with nvcc installed and no GPU it does not configure, and it
# links libtorch_cuda.so, whose own libraries a CPU set-up does not have.
#
# Input:  DEQ_LIBTORCH (cache), else $DEQ_LIBTORCH, else DEQ_SETUP_LIBTORCH (scripts/setup.sh or
#         the installed deqConfig.cmake)
# Output: DEQ_TORCH_DIR, DEQ_TORCH_LIBRARY_DIR, DEQ_TORCH_VERSION, deq_torch::torch
# This file is installed too: deqConfig.cmake includes it.

set(DEQ_LIBTORCH "" CACHE PATH "A libtorch, 2.8 or newer: the folder with include/ and lib/")
set(DEQ_MIN_TORCH 2.8)

if(DEQ_LIBTORCH)
  set(DEQ_TORCH_DIR "${DEQ_LIBTORCH}")
elseif(DEFINED ENV{DEQ_LIBTORCH} AND NOT "$ENV{DEQ_LIBTORCH}" MATCHES "^(wheel)?$")
  set(DEQ_TORCH_DIR "$ENV{DEQ_LIBTORCH}")
elseif(DEQ_SETUP_LIBTORCH)
  set(DEQ_TORCH_DIR "${DEQ_SETUP_LIBTORCH}")
else()
  message(FATAL_ERROR "No libtorch: run scripts/setup.sh, or give -DDEQ_LIBTORCH=/path/to/libtorch "
                      "(version ${DEQ_MIN_TORCH} or newer, the folder with include/ and lib/).")
endif()
get_filename_component(DEQ_TORCH_DIR "${DEQ_TORCH_DIR}" ABSOLUTE)
set(DEQ_TORCH_LIBRARY_DIR "${DEQ_TORCH_DIR}/lib")

foreach(file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS "${DEQ_TORCH_DIR}/${file}")
    message(FATAL_ERROR "No libtorch in ${DEQ_TORCH_DIR}: ${file} is missing there. Run "
                        "scripts/setup.sh, or give -DDEQ_LIBTORCH=/path/to/libtorch.")
  endif()
endforeach()

set(DEQ_TORCH_VERSION unknown)
foreach(file include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
  if(DEQ_TORCH_VERSION STREQUAL "unknown" AND EXISTS "${DEQ_TORCH_DIR}/${file}")
    file(STRINGS "${DEQ_TORCH_DIR}/${file}" deq_lines
         REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
    if(deq_lines)
      string(REGEX REPLACE "#define TORCH_VERSION_[A-Z]+ +" "" deq_lines "${deq_lines}")
      string(REPLACE ";" "." DEQ_TORCH_VERSION "${deq_lines}")
    endif()
  endif()
endforeach()
# An installed libdeq was built with one release, DEQ_BUILT_WITH_TORCH, and works only with that
# one.
if(DEQ_BUILT_WITH_TORCH AND NOT DEQ_TORCH_VERSION STREQUAL DEQ_BUILT_WITH_TORCH)
  message(FATAL_ERROR "The libtorch in ${DEQ_TORCH_DIR} is version ${DEQ_TORCH_VERSION}; this libdeq was "
                      "built with ${DEQ_BUILT_WITH_TORCH}.")
elseif(DEQ_TORCH_VERSION VERSION_LESS DEQ_MIN_TORCH)
  message(FATAL_ERROR "The libtorch in ${DEQ_TORCH_DIR} is version ${DEQ_TORCH_VERSION}; libdeq needs "
                      "${DEQ_MIN_TORCH} or newer.")
endif()

if(NOT TARGET deq_torch::torch)
  # Which std::string the libraries were built with shows in their symbols.
  file(STRINGS "${DEQ_TORCH_LIBRARY_DIR}/libc10.so" deq_abi LIMIT_COUNT 1
       REGEX "NSt7__cxx1112basic_string")
  if(deq_abi)
    set(deq_abi 1)
  else()
    set(deq_abi 0)
  endif()

  add_library(deq_torch::torch INTERFACE IMPORTED GLOBAL)
  set_target_properties(deq_torch::torch PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${deq_abi}"
    INTERFACE_INCLUDE_DIRECTORIES
      "${DEQ_TORCH_DIR}/include;${DEQ_TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
      "${DEQ_TORCH_DIR}/include;${DEQ_TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES
      "${DEQ_TORCH_LIBRARY_DIR}/libtorch_cpu.so;${DEQ_TORCH_LIBRARY_DIR}/libc10.so;-lgomp;-pthread")
  message(STATUS "libtorch ${DEQ_TORCH_VERSION}: ${DEQ_TORCH_DIR}")
endif()
