# What `cmake --install` puts in place. Nothing in it depends on the prefix, so that the whole can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS iobind EXPORT iobind)
install(DIRECTORY include/iobind TYPE INCLUDE FILES_MATCHING PATTERN *.h)
if(IOBIND_BUILD_TOOL)
  install(TARGETS iobind_tool)
endif()

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/iobind.pc.in iobind.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/iobind.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/iobind)
install(EXPORT iobind NAMESPACE iobind:: FILE iobindConfig.cmake DESTINATION ${package_folder})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/iobindConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/iobindConfigVersion.cmake DESTINATION ${package_folder})
