/* The session on the CPU with which a session's first runs are verified. */
#ifndef IOBIND_SESSION_SHADOW_H
#define IOBIND_SESSION_SHADOW_H

#include "session/kind.h"
#include "support/hash.h"
#include "tensor/difference.h"

/* How many runs of each set of dims are still to be verified. A set that finds no room is not verified. */
enum { IOBIND__DIMS_SETS = 64 };
typedef struct iobind__verify_counts {
  pthread_mutex_t mutex; /* those of a session's requests are used by many threads */
  uint32_t runs;
  size_t count;
  struct {
    iobind__hash dims;
    uint32_t left;
  } sets[IOBIND__DIMS_SETS];
} iobind__verify_counts;

typedef struct iobind__shadow {
  iobind_verify verify;
  pthread_mutex_t mutex;         /* while the session is loaded: other runs that need it wait */
  struct iobind__recipe *recipe; /* from which it is loaded; NULL: it is */
  iobind_session *session;       /* NULL: no run has needed it yet */
  iobind__kind *kinds;           /* of the outputs; loaded with the session */
  iobind__verify_counts requests;
  atomic_bool is_random[]; /* outputs that the model makes at random */
} iobind__shadow;

/* Before each verified run: load the session, unless that was done; then it stays. `what` names the call. IO if the model's files are other
 * ones now; the next call tries again. */
iobind_status iobind__shadow_load(iobind_session *session, const char *what, iobind_error *error);

void iobind__verify_counts_open(iobind__verify_counts *self, uint32_t runs);
void iobind__verify_counts_close(iobind__verify_counts *self);

/* Is a run of this set to be verified? */
bool iobind__verify_counts_is_due(iobind__verify_counts *self, const iobind__hash *dims);

/* One was, and was right. Is the next one to be verified as well? */
bool iobind__verify_counts_note(iobind__verify_counts *self, const iobind__hash *dims);

/* The tolerance for an output. */
iobind_tolerance iobind__shadow_tolerance(const iobind__shadow *self, iobind_dtype dtype);

#endif
