# Installs the libraries, their headers, what find_package(deq) reads, and the configurations.
include(CMakePackageConfigHelpers)

# deq_install(component library...): one export set per component, so that find_package(deq
# COMPONENTS …) brings what is asked for.
set(deq_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/deq")
function(deq_install component library)
  install(TARGETS ${library} EXPORT deq_${component}
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT deq_${component} FILE deq-${component}.cmake NAMESPACE deq::
          DESTINATION "${deq_config_dir}")
endfunction()
deq_install(library libdeq)
deq_install(models libdeq_models)
deq_install(lab libdeq_lab)

install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_BINARY_DIR}/include/deq/version.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/deq")
install(DIRECTORY configs DESTINATION "${CMAKE_INSTALL_DATADIR}/deq")

configure_package_config_file(cmake/deqConfig.cmake.in "${PROJECT_BINARY_DIR}/deqConfig.cmake"
                              INSTALL_DESTINATION "${deq_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/deqConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/deqConfig.cmake" "${PROJECT_BINARY_DIR}/deqConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/DeqTorch.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/DeqImageLibraries.cmake"
        DESTINATION "${deq_config_dir}")
