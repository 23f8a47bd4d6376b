# deq_third_party: the headers our own sources use, none of them visible to users of the installed
# library. All are header-only except those of the image formats, whose archives are linked by
# deq_images::libraries.
#
# libtorch's include folder holds its own fmt (12.1 in 2.11.0), and comes first: that is the fmt
# everything here sees. Another fmt is looked for only where libtorch has none.

function(deq_find_headers variable header package)
  find_path(${variable} "${header}" HINTS ${ARGN})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "${header} is missing (Debian and Ubuntu: ${package}). Run scripts/setup.sh.")
  endif()
  target_include_directories(deq_third_party SYSTEM INTERFACE "${${variable}}")
endfunction()

add_library(deq_third_party INTERFACE)
deq_find_headers(DEQ_TOML_INCLUDE toml++/toml.h libtomlplusplus-dev "${DEQ_SETUP_TOML_INCLUDE}")
deq_find_headers(DEQ_JSON_INCLUDE nlohmann/json.hpp nlohmann-json3-dev)
deq_find_headers(DEQ_GLOO_INCLUDE gloo/algorithm.h libgloo-dev)
deq_find_headers(DEQ_JPEG_INCLUDE jpeglib.h libjpeg-dev)
deq_find_headers(DEQ_PNG_INCLUDE png.h libpng-dev)
include(DeqImageLibraries)
if(DEQ_BUILD_CLI)
  deq_find_headers(DEQ_CLI11_INCLUDE CLI/CLI.hpp libcli11-dev)
endif()
if(NOT EXISTS "${DEQ_TORCH_DIR}/include/fmt/format.h")
  deq_find_headers(DEQ_FMT_INCLUDE fmt/format.h libfmt-dev)
endif()
target_compile_definitions(deq_third_party INTERFACE FMT_HEADER_ONLY=1 TOML_HEADER_ONLY=1)
