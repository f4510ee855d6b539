/* Which copy of ORT an EP library serves. The library has one set of global variables: if a second copy of ORT in the process
 * registers the same file, the devices of the first one break. */
#ifndef IOBIND_RUNTIME_CLAIM_H
#define IOBIND_RUNTIME_CLAIM_H

#include "runtime/runtime.h"

/* Claim a file for the runtime's ORT, before ORT loads it. NOT_SUPPORTED: it serves another copy, where iobind or other code
 * registered it. The message does not name the file. */
iobind_status iobind__ep_claim(const iobind_runtime *runtime, const char *path, iobind_error *reason);
void iobind__ep_unclaim(const iobind_runtime *runtime, const char *path);
void iobind__ep_unclaim_all(const iobind_runtime *runtime);

/* The file has been registered: the table that it stores now is this runtime's. */
void iobind__ep_claimed(const iobind_runtime *runtime, const char *path);

#endif
