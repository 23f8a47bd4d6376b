# Installs the library, its headers, what find_package(deq) reads, and the configurations.
include(CMakePackageConfigHelpers)

set(deq_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/deq")
install(TARGETS libdeq EXPORT deqTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(EXISTS "${PROJECT_SOURCE_DIR}/include")
  install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
endif()
install(DIRECTORY configs DESTINATION "${CMAKE_INSTALL_DATADIR}/deq")
install(FILES "${PROJECT_BINARY_DIR}/include/deq/version.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/deq")
install(EXPORT deqTargets NAMESPACE deq:: DESTINATION "${deq_config_dir}")

configure_package_config_file(cmake/deqConfig.cmake.in "${PROJECT_BINARY_DIR}/deqConfig.cmake"
                              INSTALL_DESTINATION "${deq_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/deqConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/deqConfig.cmake" "${PROJECT_BINARY_DIR}/deqConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/DeqTorch.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/DeqImageLibraries.cmake"
        DESTINATION "${deq_config_dir}")
