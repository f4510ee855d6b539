# The version is said once, in the header that users compile against.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/iobind/version.h version_lines REGEX "^#define IOBIND_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]+" "" version_numbers "${version_lines}")
list(JOIN version_numbers . iobind_version)
