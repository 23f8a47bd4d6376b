# deq_images::libraries: libjpeg-turbo, libpng and zlib as archives, so that a program built on
# libdeq can be copied to a machine that has none of them.
#
# This file is installed too: deqConfig.cmake includes it, since an archive such as libdeq.a does
# not hold what it uses.

function(deq_find_archive variable archive package)
  find_library(${variable} NAMES ${archive})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "${archive} is missing (Debian and Ubuntu: ${package}).")
  endif()
endfunction()

deq_find_archive(DEQ_JPEG_ARCHIVE libjpeg.a libjpeg-dev)
deq_find_archive(DEQ_PNG_ARCHIVE libpng.a libpng-dev)
deq_find_archive(DEQ_ZLIB_ARCHIVE libz.a zlib1g-dev)
if(NOT TARGET deq_images::libraries)
  add_library(deq_images::libraries INTERFACE IMPORTED GLOBAL)
  set_target_properties(deq_images::libraries PROPERTIES INTERFACE_LINK_LIBRARIES
    "${DEQ_JPEG_ARCHIVE};${DEQ_PNG_ARCHIVE};${DEQ_ZLIB_ARCHIVE};m")
endif()
