# How our own targets are compiled and linked: deq_target_defaults, deq_add_library.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "libdeq needs g++ 12 or newer; ${CMAKE_CXX_COMPILER} is "
                      "${CMAKE_CXX_COMPILER_VERSION}. scripts/setup.sh finds or installs one.")
endif()

# ccache understands precompiled headers only when told which differences do not matter.
if(DEQ_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(DEQ_CCACHE_PROGRAM ccache)
  mark_as_advanced(DEQ_CCACHE_PROGRAM)
  get_filename_component(deq_real_cxx "${CMAKE_CXX_COMPILER}" REALPATH)
  if(DEQ_CCACHE_PROGRAM AND NOT deq_real_cxx MATCHES "ccache$")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        "${DEQ_CCACHE_PROGRAM}")
    set(deq_ccache_flags -fpch-preprocess)
  endif()
endif()

set(deq_warnings -Wall -Wextra -Wpedantic -Wshadow)
if(DEQ_WERROR)
  list(APPEND deq_warnings -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These follow the flow of inlined library code and are often wrong there; -Wrestrict is wrong
  # about std::string in g++ 12 altogether.
  list(APPEND deq_warnings -Wno-restrict -Wno-error=maybe-uninitialized -Wno-error=array-bounds
       -Wno-error=stringop-overflow -Wno-error=stringop-overread)
endif()

set(deq_sanitize "")
if(DEQ_SANITIZE)
  set(deq_sanitize "-fsanitize=${DEQ_SANITIZE}" -fno-omit-frame-pointer)
  if(DEQ_SANITIZE MATCHES "undefined")
    list(APPEND deq_sanitize -fno-sanitize-recover=undefined)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND deq_warnings -Wno-maybe-uninitialized)
  endif()
endif()

# One precompiled header serves all targets, so all share these flags: -fPIC by hand, because
# CMake would give -fPIE to programs and -fPIC to libraries. OpenMP is what makes
# at::parallel_for parallel in our code; its runtime is the one libtorch has loaded, g++'s. clang would
# bring another, so what it compiles (the fuzzers) does without.
# The two -fno- switches are libtorch's own: no errno from <cmath>, no floating-point traps, so
# that loops over mathematical functions vectorise; like the optimisation level they must be the same
# for a precompiled header and its users, so no file has flags of its own.
# NDEBUG always: some of libtorch's classes have other members without it than the library has.
set(deq_compile_options $<$<NOT:$<CONFIG:Release>>:-DNDEBUG> -fPIC
    $<$<CXX_COMPILER_ID:GNU>:-fopenmp> -fno-math-errno -fno-trapping-math ${deq_ccache_flags}
    ${deq_sanitize})

# In a wheel, lib/ and bin/ of the package deq lie two folders below that of torch.
function(deq_torch_rpath variable)
  if(DEQ_WHEEL)
    set(${variable} "$ORIGIN/../../torch/lib" PARENT_SCOPE)
  else()
    set(${variable} "${DEQ_TORCH_LIBRARY_DIR}" PARENT_SCOPE)
  endif()
endfunction()

# deq_target_defaults(target [PCH] [UNITY <files per unit>])
function(deq_target_defaults target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PCH" "UNITY" "")
  deq_torch_rpath(torch_rpath)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE OFF
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../lib;${torch_rpath}")
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${deq_compile_options};${deq_warnings}>")
  target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:deq_third_party>")
  target_link_options(${target} PRIVATE ${deq_sanitize} -Wl,--enable-new-dtags)
  if(arg_PCH)
    target_precompile_headers(${target} REUSE_FROM deq_pch)
  endif()
  if(DEQ_UNITY AND arg_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${arg_UNITY})
  endif()
endfunction()

# deq_add_library(target SHARED|STATIC OUTPUT <name> EXPORT <name> SOURCES <file> ... [USES <target> ...]
# UNITY <files per unit>): one of our libraries, deq::<export>. In a shared one only names of namespace deq
# are visible, and templates of std and torch over its types.
function(deq_add_library target kind)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "OUTPUT;EXPORT;UNITY" "SOURCES;USES")
  add_library(${target} ${kind} ${arg_SOURCES})
  add_library(deq::${arg_EXPORT} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${arg_OUTPUT} EXPORT_NAME ${arg_EXPORT} LINKER_LANGUAGE CXX
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(NOT DEQ_WHEEL)  # which cannot hold links
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION})
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
           "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${arg_USES} deq_torch::torch PRIVATE ${CMAKE_DL_LIBS})
  if(kind STREQUAL "SHARED")
    set(symbols "${PROJECT_SOURCE_DIR}/cmake/symbols.map")
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${symbols}")
    target_link_options(${target} PRIVATE "-Wl,--version-script=${symbols}" -Wl,--no-undefined)
  endif()
  deq_target_defaults(${target} PCH UNITY ${arg_UNITY})
endfunction()
