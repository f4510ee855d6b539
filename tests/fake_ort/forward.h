/* What the forwarders, which forward.py writes, share with fake_ort.c. */
#ifndef TESTS_FAKE_ORT_FORWARD_H
#define TESTS_FAKE_ORT_FORWARD_H

#include "fake_slots.h"
#include "ort_ep.h"

#define FAKE__SLOT_NUMBER(name, returns, hands_out) SLOT_##name,
enum { FAKE__SLOTS(FAKE__SLOT_NUMBER) SLOT_COUNT };
#undef FAKE__SLOT_NUMBER

#define FAKE__KIND_NUMBER(name) KIND_##name,
enum { FAKE__KINDS(FAKE__KIND_NUMBER) KIND_COUNT };
#undef FAKE__KIND_NUMBER

extern const OrtApi *fake__real;

/* Count a call. False: it is not to reach the real ORT; `status`, where it is given, then has what to return. */
bool fake__enter(int slot, OrtStatus **status);

OrtStatus *fake__leave(OrtStatus *status); /* counts what the real ORT returned */

void fake__made(int kind, const void *object); /* NULL is none */
void fake__gone(int kind, const void *object);

/* A tensor without elements in place of an output. Who reads an element of it reads past the end of a variable, which a sanitizer sees. */
void fake__empty(OrtValue **output);

/* Put the forwarders into a copy of the table. */
void fake__fill(OrtApi *table);
void fake__fill_interop(OrtInteropApi *table);

#endif
