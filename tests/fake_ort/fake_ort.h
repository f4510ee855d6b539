/** @file fake_ort.h
 *  A library with ONNX Runtime's (ORT) entry point that forwards every call to the real one, counts the calls and the objects that they
 *  return, and fails the n-th call of a slot on request. The real ORT is the file or directory that FAKE_ORT_REAL names. A program
 *  loads this library as its ORT; a test links it as well and steers it with the functions below.
 *
 *  A slot has the name of its member in ORT's tables: "CreateSession", and "CreateNotification", "Activate", "WaitOnHost" and
 *  "WaitOnDevice" for what the EP's streams and notifications offer. */
#ifndef TESTS_FAKE_ORT_H
#define TESTS_FAKE_ORT_H

#include <stdbool.h>
#include <stddef.h>

#define FAKE_ORT_API __attribute__((visibility("default")))

/** The name of slot `index`; NULL behind the last one. */
FAKE_ORT_API const char *fake_ort_slot(size_t index);

/** Calls of a slot since fake_ort_reset. */
FAKE_ORT_API size_t fake_ort_count(const char *slot);

/** Whether a slot can fail: it returns an OrtStatus, or a pointer, which then is NULL. */
FAKE_ORT_API bool fake_ort_can_fail(const char *slot);
FAKE_ORT_API bool fake_ort_returns_status(const char *slot);

/** Fail the n-th call of a slot (from 1 on, counted since fake_ort_reset), once: the call does not reach the real ORT, and what it
 *  would have returned is not touched. A call that releases something (AllocatorFree) nevertheless does so, and BindInput
 *  leaves the binding as one of ORT's own failures does. Up to four failures can be asked for; of two for the same call the first
 *  counts.
 *  @param code  an OrtErrorCode; 0: the call succeeds and returns NULL, if it returns a pointer, and Run outputs without elements
 *  @return whether there is such a slot, it can fail like that, and there is room */
FAKE_ORT_API bool fake_ort_fail(const char *slot, size_t nth, int code, const char *text);

/** The n-th call of a slot that returns an OrtStatus says OK and does nothing else. */
FAKE_ORT_API bool fake_ort_leave_out(const char *slot, size_t nth);

/** Call a function on each call of a slot, before it reaches the real ORT: what another thread would do in the midst of it. NULL
 *  ends that. */
FAKE_ORT_API void fake_ort_hook(const char *slot, void (*function)(void *context), void *context);

/** Give another name to every EP but the CPU's, so that its capabilities are unknown; NULL: their own. It remains after fake_ort_reset. */
FAKE_ORT_API void fake_ort_name_eps(const char *name);

/** Whether the first failure that was asked for has happened. */
FAKE_ORT_API bool fake_ort_has_failed(void);

/** Set the counts to 0, fail nothing, and end the hook. */
FAKE_ORT_API void fake_ort_reset(void);

/** The name of a kind of object that ORT returns and the caller must release, such as "OrtSession"; NULL behind the last one. */
FAKE_ORT_API const char *fake_ort_kind(size_t index);

/** How many objects of that kind were returned and not released. */
FAKE_ORT_API long fake_ort_alive(size_t index);

#endif
