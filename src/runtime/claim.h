/* Which copy of ORT an EP library serves. It has one set of its own globals: a second copy of ORT in the process that registers the
 * same file breaks the devices of the first. */
#ifndef IOBIND_RUNTIME_CLAIM_H
#define IOBIND_RUNTIME_CLAIM_H

#include "runtime/runtime.h"

/* Claim a file for the runtime's ORT, before ORT loads it. NOT_SUPPORTED: it serves another copy, whoever has registered it there.
 * The reason of a failure does not name the file. */
iobind_status iobind__ep_claim(const iobind_runtime *runtime, const char *path, iobind_error *reason);
void iobind__ep_unclaim(const iobind_runtime *runtime, const char *path);
void iobind__ep_unclaim_all(const iobind_runtime *runtime);

/* The file has been registered: what it knows of ORT now is this runtime's. */
void iobind__ep_claimed(const iobind_runtime *runtime, const char *path);

#endif
