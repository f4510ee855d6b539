/** @file version.h
 *  The version of these headers. iobind_get_version() returns the version of the loaded library. */
#ifndef IOBIND_VERSION_H
#define IOBIND_VERSION_H

#define IOBIND_VERSION_MAJOR 1
#define IOBIND_VERSION_MINOR 0
#define IOBIND_VERSION_PATCH 0

/** 0x00MMmmpp: newer versions are greater numbers. */
#define IOBIND_VERSION_NUMBER ((IOBIND_VERSION_MAJOR << 16) | (IOBIND_VERSION_MINOR << 8) | IOBIND_VERSION_PATCH)

#endif
