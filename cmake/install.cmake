# What `cmake --install` puts in place. Nothing in it depends on the prefix, so that the whole can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS iobind EXPORT iobind)
install(DIRECTORY include/iobind TYPE INCLUDE FILES_MATCHING PATTERN *.h PATTERN *.hpp)
if(TARGET iobind_vdev) # for the tests of those who use the library, as iobind::vdev
  install(TARGETS iobind_vdev EXPORT iobind-vdev)
  install(FILES vdev/vdev.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/iobind)
endif()
install(TARGETS iobind_java) # for the Java package, where it takes an installed libiobind
if(IOBIND_BUILD_TOOL)
  install(TARGETS iobind_tool)
  if(NOT WIN32)
    install(FILES docs/iobind.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
endif()
install(FILES LICENSE NOTICE CHANGELOG.md TYPE DOC)

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(prefix_in_pc \${pcfiledir}/${prefix_from_pc})
if(CMAKE_INSTALL_PREFIX STREQUAL /usr) # pkg-config omits the directories that the compiler knows, if they are written so
  set(prefix_in_pc ${CMAKE_INSTALL_PREFIX})
endif()
configure_file(cmake/iobind.pc.in iobind.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/iobind.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET iobind_vdev)
  configure_file(cmake/iobind-vdev.pc.in iobind-vdev.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/iobind-vdev.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/iobind)
install(EXPORT iobind NAMESPACE iobind:: FILE iobind-targets.cmake DESTINATION ${package_folder})
if(TARGET iobind_vdev) # in a file of its own: a distribution may leave the accelerator out, or pack it apart
  install(EXPORT iobind-vdev NAMESPACE iobind:: FILE iobind-vdev.cmake DESTINATION ${package_folder})
endif()
install(FILES cmake/iobindConfig.cmake DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/iobindConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/iobindConfigVersion.cmake DESTINATION ${package_folder})
