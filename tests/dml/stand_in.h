/* What the mocks have seen, and failures on request. */
#ifndef TESTS_DML_STAND_IN_H
#define TESTS_DML_STAND_IN_H

#include <stddef.h>

typedef struct stand_in_record {
  size_t calls;       /* that can fail */
  size_t copies;      /* regions, on queues for copies */
  size_t copy_waits;  /* of queues for copies, for fences */
  size_t run_waits;   /* of other queues */
  size_t early_waits; /* of any queue, for a value that was not signalled yet: on a system's queue it might never end */
  size_t handles;     /* of ORT's, that are alive */
  long objects;       /* of Direct3D's, that are alive */
} stand_in_record;

stand_in_record stand_in_read(void);

/* Let the n-th call from now fail, 1 being the next; 0: none. */
void stand_in_fail(size_t nth);

/* Remove the device: fences jump to the end. */
void stand_in_remove(void);

#endif
