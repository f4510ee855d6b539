# What find_package(iobind) reads: iobind::iobind, and iobind::vdev where the virtual accelerator is installed.
include(${CMAKE_CURRENT_LIST_DIR}/iobind-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/iobind-vdev.cmake OPTIONAL)
