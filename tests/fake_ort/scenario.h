/* One call of a public function, and what it stands on: the driver, fail_each.c, makes it with nothing failing, then once for each
 * call of ORT and each allocation that it made, with that one failing. */
#ifndef TESTS_FAKE_ORT_SCENARIO_H
#define TESTS_FAKE_ORT_SCENARIO_H

#include "rig.h"

struct scenario {
  const char *function; /* of the public interface */
  const char *variant;  /* of what it does; "" if there is only one */
  rig_place places;
  bool bare;                        /* makes its own runtime */
  void (*prepare)(struct rig *rig); /* may be NULL */
  iobind_status (*call)(struct rig *rig);
  size_t out;                     /* offset in the rig of the pointer that the call returns: NULL after a failure; 0: none */
  void (*right)(struct rig *rig); /* after success; may be NULL */
  bool last;                      /* the call ends what it is made on: it cannot be made again */
};

#define OUT(field) offsetof(struct rig, field)

/* The groups, each ended by a row without a function. */
extern const struct scenario runtime_scenarios[];
extern const struct scenario stream_scenarios[];
extern const struct scenario tensor_scenarios[];
extern const struct scenario session_scenarios[];
extern const struct scenario binding_scenarios[];
extern const struct scenario carry_scenarios[];
extern const struct scenario state_scenarios[];
extern const struct scenario batch_scenarios[];
extern const struct scenario graph_scenarios[];
extern const struct scenario audit_scenarios[];
extern const struct scenario busy_scenarios[];
extern const struct scenario pipeline_scenarios[];
extern const struct scenario external_scenarios[];

/* busy.c: the rig's binding is run by another thread, which stands within ORT's call until the end; what the run returns. */
void busy_begin(struct rig *rig);
iobind_status busy_end(struct rig *rig);

/* Functions of the public interface that no scenario calls yet, each with the reason. */
typedef struct without_scenario {
  const char *function;
  const char *reason;
} without_scenario;
extern const without_scenario without_scenarios[]; /* ended by a row without a function */

/* What is expected where not the rule holds, that the status is RUNTIME with ORT's code and text, or OUT_OF_MEMORY. */
enum outcome {
  OUTCOME_RULE,
  OUTCOME_STATUS,  /* another status; but the same code and text */
  OUTCOME_REASON,  /* another status, with ORT's text among other reasons, but not its code */
  OUTCOME_IGNORED, /* the call succeeds, and its result is right nevertheless */
  OUTCOME_LESS,    /* the call succeeds, with less than all, as the header says */
  OUTCOME_EITHER,  /* by the rule, or as LESS: the same function is called for several ends */
  OUTCOME_ANY,     /* ORT cannot fail there: no crash and no leak is all that is asked for */
  OUTCOME_NEVER,   /* ORT's pointer is part of an object that is there, so never NULL: not tried */
};

typedef struct expectation {
  const char *function; /* "" is any */
  const char *variant;  /* "" is any */
  const char *failing;  /* slot or allocation; "" is any */
  enum outcome outcome;
  iobind_status status;
  bool dead; /* the same call fails again afterwards, as the header says */
  const char *reason;
  size_t nth; /* only where this call fails; 0: whichever */
} expectation;

/* NULL: the rule holds. */
const expectation *expectation_of(const struct scenario *scenario, const char *failing, size_t nth);

/* Each expectation has been met by a failure at least once. False, with a line for each that was not, otherwise. */
bool expectations_all_used(void);

#endif
