/* Which values of a graph hold the rows of a cache. */
#ifndef IOBIND_SESSION_SPREAD_H
#define IOBIND_SESSION_SPREAD_H

#include "session/topology.h"

typedef enum iobind__spread {
  IOBIND__SPREAD_NONE,
  IOBIND__SPREAD_ROWS, /* the cache's rows from the first one on, perhaps laid out in another way */
  IOBIND__SPREAD_MIXED /* something that was computed from them: which rows it holds is unknown */
} iobind__spread;

/* `spread` has an element for each wire. Those from which the search begins are set, all others are NONE. */
void iobind__spread_find(const iobind__topology *graph, uint8_t *spread);

/* Do graphs of control flow read a value that is set, and contain an attention? Its lengths are unknown. */
bool iobind__spread_is_attended_inside(const iobind__topology *graph, const uint8_t *spread);

#endif
