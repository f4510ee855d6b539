# What holds where nothing else is asked for, in a tree that is built for itself and not as a part of another one.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING
      "Debug, Release, RelWithDebInfo, MinSizeRel, or None: the flags of a packager alone" FORCE)
endif()

# make_install_directories(COMPONENT DIRECTORY...): before files are installed there, so that everybody can read what is installed. CMake
# makes directories as the umask has it, in spite of CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS. One that is there stays as it is.
function(make_install_directories component)
  if(WIN32)
    return()
  endif()
  string(CONFIGURE [[
    foreach(directory IN ITEMS @ARGN@)
      cmake_path(ABSOLUTE_PATH directory BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
      file(REAL_PATH "$ENV{DESTDIR}${directory}" directory) # a prefix, or DESTDIR, may be relative
      set(missing "")
      while(NOT EXISTS "${directory}")
        list(PREPEND missing "${directory}")
        cmake_path(GET directory PARENT_PATH directory)
      endwhile()
      foreach(directory IN LISTS missing)
        file(MAKE_DIRECTORY "${directory}")
        file(CHMOD "${directory}" PERMISSIONS
             OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
      endforeach()
    endforeach()]] code @ONLY)
  if(component STREQUAL "")
    install(CODE "${code}")
  else()
    install(CODE "${code}" COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
endfunction()
