# What `cpack` packs: an archive that can be unpacked anywhere (.tar.gz, on Windows .zip), or, where IOBIND_PACKAGE is DEB, a package for
# Debian. `make package` makes both for the machine it runs on. ONNX Runtime is in neither.
set(CPACK_GENERATOR TGZ)
if(WIN32)
  set(CPACK_GENERATOR ZIP)
endif()
set(CPACK_PACKAGE_VENDOR "the iobind authors")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
string(TOLOWER ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR} platform)
set(CPACK_PACKAGE_FILE_NAME iobind-${PROJECT_VERSION}-${platform})

if(IOBIND_PACKAGE STREQUAL DEB)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_NAME iobind)
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${IOBIND_MAINTAINER}")
  set(CPACK_DEBIAN_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libstdc++6) # what ONNX Runtime is linked to
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # packages built with the library learn from it which one they need
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  # dpkg brings the loader's list up to date.
  file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
      "iobind binds the inputs and outputs of ONNX models to memory on the device of
any execution provider, finds mistakes when they are made, and measures what
binding saves. This package has the library with its header, the tool iobind,
and a virtual accelerator for tests.

ONNX Runtime is not in this package, nor in Debian: any copy from version 1.24
on is loaded at run time, and ORT_NATIVE_LIB_PATH names it.")
endif()
include(CPack)
