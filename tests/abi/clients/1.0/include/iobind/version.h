/** @file version.h
 *  The version of these headers. The version of the library that was loaded: iobind_get_version(). */
#ifndef IOBIND_VERSION_H
#define IOBIND_VERSION_H

#define IOBIND_VERSION_MAJOR 1
#define IOBIND_VERSION_MINOR 0
#define IOBIND_VERSION_PATCH 0

/** 0x00MMmmpp: compares as a number. */
#define IOBIND_VERSION_NUMBER ((IOBIND_VERSION_MAJOR << 16) | (IOBIND_VERSION_MINOR << 8) | IOBIND_VERSION_PATCH)

#endif
