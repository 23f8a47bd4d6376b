# deq_embed(<target> NAME <name> FILE <file>): puts a file into the target's read-only data.
#
#   extern "C" const char deq_asset_<name>_begin[];
#   extern "C" const char deq_asset_<name>_end[];
#
# The bytes are [begin, end); a zero byte follows them. The object is made again when the file
# changes.
function(deq_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;FILE" "")
  get_filename_component(file "${arg_FILE}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "The asset ${arg_NAME} is missing: ${file}\n"
                        "(plotly.min.js comes from scripts/setup.sh, or -DDEQ_PLOTLY_JS=FILE; "
                        "the others are part of the source tree.)")
  endif()
  set(symbol "deq_asset_${arg_NAME}")
  set(source "${PROJECT_BINARY_DIR}/embed/${arg_NAME}.S")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [[
    .section .rodata
    .balign 16
    .globl @symbol@_begin
    .hidden @symbol@_begin
    .type @symbol@_begin, @object
    .globl @symbol@_end
    .hidden @symbol@_end
    .type @symbol@_end, @object
@symbol@_begin:
    .incbin "@file@"
@symbol@_end:
    .byte 0
    .size @symbol@_begin, @symbol@_end - @symbol@_begin
    .size @symbol@_end, 1
    .section .note.GNU-stack, "", @progbits
]])
  set_source_files_properties("${source}" PROPERTIES LANGUAGE ASM OBJECT_DEPENDS "${file}")
  target_sources(${target} PRIVATE "${source}")
endfunction()
