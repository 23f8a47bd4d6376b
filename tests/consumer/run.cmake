# One step of the consumer tests: cmake -DSTEP=install|build ... -P run.cmake

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${status}): ${command}")
  endif()
endfunction()

set(prefix "${WORK_DIR}/prefix")
if(STEP STREQUAL "install")
  file(REMOVE_RECURSE "${prefix}")
  run("${CMAKE_COMMAND}" --install "${DEQ_BUILD_DIR}" --prefix "${prefix}")
  # The installed program finds its own recipes, wherever it is called: this one is nowhere else.
  file(WRITE "${prefix}/share/deq/configs/reproduce/runs-small.toml" "installed")
  execute_process(COMMAND "${prefix}/bin/deq" reproduce fig5 --dry-run WORKING_DIRECTORY "/"
                  ERROR_VARIABLE complaint OUTPUT_QUIET)
  if(NOT complaint MATCHES "${prefix}/share/deq/configs/reproduce/runs-small.toml")
    message(FATAL_ERROR "the program did not read the installed recipes: ${complaint}")
  endif()
  file(COPY "${SOURCE_DIR}/../../configs/reproduce/runs-small.toml"
       DESTINATION "${prefix}/share/deq/configs/reproduce")
  return()
endif()

set(build "${WORK_DIR}/build")
run("${PYTHON}" "${SOURCE_DIR}/extract_readme.py" "${README}" "${WORK_DIR}/readme_example.cpp")
set(args -S "${SOURCE_DIR}" -B "${build}" -G "${GENERATOR}" "-DEXAMPLES=${EXAMPLES}"
    "-DREADME_EXAMPLE=${WORK_DIR}/readme_example.cpp"
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_PREFIX_PATH=${prefix}")
if(LAUNCHER)
  list(APPEND args "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
endif()
run("${CMAKE_COMMAND}" ${args})
run("${CMAKE_COMMAND}" --build "${build}")
