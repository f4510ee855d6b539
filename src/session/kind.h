/* The kind of the state that an output leaves for an input, found in the model's graph. */
#ifndef IOBIND_SESSION_KIND_H
#define IOBIND_SESSION_KIND_H

#include "session/protobuf.h"

enum { IOBIND__LENGTH_INPUTS = 4 };

typedef struct iobind__kind {
  iobind_state_kind kind;
  size_t input; /* of the session: the kind is for this one alone */
  size_t axis;  /* SIZE_MAX: not known */
  size_t rows;  /* the axis of the batch whose rows have a length each; SIZE_MAX: the state has none, or it is not known */
  size_t length_count;
  size_t lengths[IOBIND__LENGTH_INPUTS]; /* CAPACITY: the session's inputs that its lengths come from, the first ones */
  iobind_length_role roles[IOBIND__LENGTH_INPUTS]; /* UNNAMED: the model computes a length from the input */
  const char *doubt; /* CAPACITY: why there may be other lengths, for a message; NULL: these are all */
  bool
      is_shareable; /* CAPACITY: the operator may write into the input's memory: no other operator reads it, and there is none in between */
  bool is_grouped;    /* it is GroupQueryAttention's */
  size_t tokens;      /* CAPACITY: the session's input that has what a run adds; SIZE_MAX: not known */
  size_t tokens_axis; /* of its dims: how many rows these are */
} iobind__kind;

/* The kind of each output of the session, which the caller frees. */
iobind_status iobind__kinds_read(iobind__model_bytes *model, const iobind_session *session, iobind__kind **kinds,
                                 iobind_error *error);

/* UNKNOWN if the pair fits no pattern. */
iobind_status iobind__session_find_kind(iobind_session *session, size_t output, size_t input, iobind__kind *out,
                                        iobind_error *error);

/* The same. UNKNOWN also if the model's file no longer exists. */
iobind_status iobind__session_known_kind(iobind_session *session, size_t output, size_t input, iobind__kind *out,
                                         iobind_error *error);

/* How such a state of the session is carried if the caller leaves it open. */
iobind_carry_mode iobind__kind_mode(const iobind__kind *self, const iobind_session *session);

/* A value of an input that has lengths. */
typedef struct iobind__length_value {
  size_t element;
  int64_t value;
} iobind__length_value;

/* Can values of this type be lengths: int32 or int64? */
bool iobind__length_has_type(int32_t dtype);
/* *found: the first of a tensor's values, which are at `data`, that is not a length of 0 to `most`. False: all are. */
bool iobind__length_find_wrong(const iobind_tensor *values, const void *data, int64_t most, iobind__length_value *found);

/* The word for messages, such as "recurrent". */
const char *iobind__kind_word(iobind_state_kind kind);

#endif
