# deq_cuda: the CUDA part of the library, lib/libdeq_cuda.so; deq_lab_cuda: that of the laboratory,
# which is NCCL and needs nccl.h.
#
# Nothing links them: libdeq.so loads libdeq_cuda.so from its own folder where there is an NVIDIA
# driver. Sources: *_cuda.cu (kernels: no torch headers) and *_cuda.cpp (torch's side: checks,
# streams, registration) in src.
#
# nvcc is called by custom commands: CMake's own CUDA language wants a GPU or a guess at one when
# it is enabled, and releases of CMake older than the toolkit guess wrong.

file(GLOB_RECURSE deq_cuda_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*_cuda.cu")
file(GLOB_RECURSE deq_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*_cuda.cpp")
list(FILTER deq_cuda_sources EXCLUDE REGEX "/src/lab/")
file(GLOB_RECURSE deq_lab_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/lab/*_cuda.cpp")

# deq_cuda_stop(reason): an error when CUDA was asked for, a line when it was only hoped for.
macro(deq_cuda_stop)
  if(DEQ_WITH_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA plugin: no (${ARGN})")
    return()
  endif()
  message(FATAL_ERROR "DEQ_WITH_CUDA=${DEQ_WITH_CUDA}, but ${ARGN}.")
endmacro()

if(NOT DEQ_WITH_CUDA)
  message(STATUS "CUDA plugin: no (DEQ_WITH_CUDA=${DEQ_WITH_CUDA})")
  return()
endif()

find_program(DEQ_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(DEQ_NVCC)
if(NOT DEQ_NVCC)
  deq_cuda_stop("nvcc is not found")
endif()
execute_process(COMMAND "${DEQ_NVCC}" --version OUTPUT_VARIABLE deq_nvcc_version ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" _ "${deq_nvcc_version}")
set(deq_nvcc_major "${CMAKE_MATCH_1}")
set(deq_nvcc_version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")

foreach(library torch_cuda c10_cuda)
  if(NOT EXISTS "${DEQ_TORCH_LIBRARY_DIR}/lib${library}.so")
    deq_cuda_stop("this libtorch is built without CUDA: lib${library}.so is missing")
  endif()
endforeach()

# Kernels and libtorch must share one CUDA runtime: the one libtorch loads.
file(STRINGS "${DEQ_TORCH_LIBRARY_DIR}/libc10_cuda.so" deq_torch_cudart
     REGEX "libcudart[-.a-z0-9]*\\.so")
string(REGEX MATCH "libcudart[-.a-z0-9]*\\.so\\.([0-9]+)" deq_torch_cudart "${deq_torch_cudart}")
set(deq_torch_cuda_major "${CMAKE_MATCH_1}")
if(deq_torch_cuda_major AND NOT deq_torch_cuda_major STREQUAL deq_nvcc_major)
  deq_cuda_stop("nvcc is ${deq_nvcc_version} and libtorch uses CUDA ${deq_torch_cuda_major}")
endif()

get_filename_component(deq_cuda_root "${DEQ_NVCC}" REALPATH)
get_filename_component(deq_cuda_root "${deq_cuda_root}" DIRECTORY)
get_filename_component(deq_cuda_root "${deq_cuda_root}" DIRECTORY)
find_path(DEQ_CUDA_INCLUDE cuda_runtime_api.h
          HINTS "${deq_cuda_root}" "${deq_cuda_root}/targets/x86_64-linux" PATH_SUFFIXES include)
find_library(DEQ_CUDART NAMES libcudart.so.${deq_nvcc_major} libcudart.so
             HINTS "${deq_cuda_root}" "${deq_cuda_root}/targets/x86_64-linux"
             PATH_SUFFIXES lib64 lib)
mark_as_advanced(DEQ_CUDA_INCLUDE DEQ_CUDART)
if(NOT DEQ_CUDA_INCLUDE OR NOT DEQ_CUDART)
  deq_cuda_stop("the CUDA toolkit of ${DEQ_NVCC} has no cuda_runtime_api.h or libcudart.so")
endif()

# NCCL's code is in libtorch; its header is in a toolkit, a package of the system, or its wheel.
get_filename_component(deq_wheels "${DEQ_TORCH_DIR}" DIRECTORY)
find_path(DEQ_NCCL_INCLUDE nccl.h HINTS "${DEQ_CUDA_INCLUDE}" "${deq_wheels}/nvidia/nccl/include")
mark_as_advanced(DEQ_NCCL_INCLUDE)
if(DEQ_NCCL_INCLUDE)
  message(STATUS "NCCL: yes (${DEQ_NCCL_INCLUDE}/nccl.h)")
else()
  message(STATUS "NCCL: no (nccl.h is not found); worlds of several GPUs are refused")
endif()

set(deq_nvcc_flags -std=c++20 -O3 --expt-relaxed-constexpr -lineinfo -Xcompiler=-fPIC,-Wall
    -cudart=shared)
set(deq_last_arch "")
foreach(arch IN LISTS DEQ_CUDA_ARCHITECTURES)
  list(APPEND deq_nvcc_flags -gencode=arch=compute_${arch},code=sm_${arch})
  set(deq_last_arch ${arch})
endforeach()
list(APPEND deq_nvcc_flags -gencode=arch=compute_${deq_last_arch},code=compute_${deq_last_arch})
if(DEQ_WERROR)
  list(APPEND deq_nvcc_flags -Werror=all-warnings)
endif()

set(deq_cuda_objects "")
foreach(source IN LISTS deq_cuda_kernels)
  get_filename_component(name "${source}" NAME)
  set(object "${PROJECT_BINARY_DIR}/cuda/${name}.o")
  set(own_flags "")
  if(name STREQUAL "decisions_cuda.cu")
    set(own_flags -fmad=false)  # to round as the host does
  endif()
  add_custom_command(
    OUTPUT "${object}"
    COMMAND "${DEQ_NVCC}" ${deq_nvcc_flags} ${own_flags} -ccbin "${CMAKE_CXX_COMPILER}"
            -I "${PROJECT_SOURCE_DIR}/include" -I "${PROJECT_SOURCE_DIR}/src"
            -MD -MT "cuda/${name}.o" -MF "${object}.d" -c "${source}" -o "${object}"
    DEPENDS "${source}" DEPFILE "${object}.d"
    COMMENT "nvcc ${name}" VERBATIM)
  list(APPEND deq_cuda_objects "${object}")
endforeach()
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/cuda")

# deq_add_plugin(target library source...): a shared library that uses ours and libtorch's CUDA part.
# --no-as-needed: libtorch_cuda registers itself when loaded, whether a symbol of it is used or not.
# Its own libraries need not be here: a shared library may have unresolved symbols. The runtime comes
# from libtorch at run time, not from the toolkit.
function(deq_add_plugin target library)
  add_library(${target} SHARED ${ARGN})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_include_directories(${target} SYSTEM PRIVATE "${DEQ_CUDA_INCLUDE}")
  target_link_libraries(${target} PRIVATE
    ${library}
    -Wl,--no-as-needed
    "${DEQ_TORCH_LIBRARY_DIR}/libtorch_cuda.so" "${DEQ_TORCH_LIBRARY_DIR}/libc10_cuda.so"
    -Wl,--as-needed
    "${DEQ_CUDART}")
  target_link_options(${target} PRIVATE -Wl,--allow-shlib-undefined)
  deq_target_defaults(${target} PCH UNITY 16)
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()

set_source_files_properties(${deq_cuda_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
deq_add_plugin(deq_cuda libdeq ${deq_cuda_sources} ${deq_cuda_objects})
if(DEQ_NCCL_INCLUDE)
  deq_add_plugin(deq_lab_cuda libdeq ${deq_lab_cuda_sources})
  target_include_directories(deq_lab_cuda SYSTEM PRIVATE "${DEQ_NCCL_INCLUDE}")
endif()
message(STATUS "CUDA plugin: yes (nvcc ${deq_nvcc_version}, architectures ${DEQ_CUDA_ARCHITECTURES})")
