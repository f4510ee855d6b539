# What `cmake --install` puts in place. Nothing in it depends on the prefix, so that the whole can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS iobind EXPORT iobind)
install(DIRECTORY include/iobind TYPE INCLUDE FILES_MATCHING PATTERN *.h)
if(TARGET iobind_vdev) # for the tests of those who use the library, as iobind::vdev
  install(TARGETS iobind_vdev EXPORT iobind)
  install(FILES vdev/vdev.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/iobind)
endif()
if(IOBIND_BUILD_TOOL)
  install(TARGETS iobind_tool)
  if(NOT WIN32)
    set(page docs/iobind.1)
  endif()
endif()
if(IOBIND_PACKAGE STREQUAL DEB) # by Debian's rules these are compressed, or have another name
  find_program(GZIP gzip REQUIRED)
  foreach(compressed docs/iobind.1 CHANGELOG.md)
    get_filename_component(name ${compressed} NAME)
    execute_process(COMMAND ${GZIP} -9nc ${PROJECT_SOURCE_DIR}/${compressed} OUTPUT_FILE ${PROJECT_BINARY_DIR}/${name}.gz
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  set(page ${PROJECT_BINARY_DIR}/iobind.1.gz)
  install(FILES LICENSE TYPE DOC RENAME copyright)
  install(FILES ${PROJECT_BINARY_DIR}/CHANGELOG.md.gz TYPE DOC RENAME changelog.gz)
  install(FILES NOTICE TYPE DOC)
else()
  install(FILES LICENSE NOTICE CHANGELOG.md TYPE DOC)
endif()
if(page)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(prefix_in_pc \${pcfiledir}/${prefix_from_pc})
if(IOBIND_PACKAGE STREQUAL DEB) # pkg-config leaves the system's own folders away, where it sees that they are
  set(prefix_in_pc ${CMAKE_INSTALL_PREFIX})
endif()
configure_file(cmake/iobind.pc.in iobind.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/iobind.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/iobind)
install(EXPORT iobind NAMESPACE iobind:: FILE iobindConfig.cmake DESTINATION ${package_folder})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/iobindConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/iobindConfigVersion.cmake DESTINATION ${package_folder})
