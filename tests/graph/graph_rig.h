/* The rig of the tests of captured graphs: a device, sessions that capture, small tensors and models, and the device's count of
 * launches. */
#ifndef TESTS_GRAPH_GRAPH_RIG_H
#define TESTS_GRAPH_GRAPH_RIG_H

#include "stage.h"

/* A session of a test model, or of one node. `limit` 0: it captures nothing. */
iobind_status try_bytes(const void *bytes, size_t size, size_t limit, iobind_session **session);
iobind_status try_session(const char *model, size_t limit, iobind_session **session);
iobind_status try_node(const char *op, const char *domain, size_t inputs, size_t limit, iobind_session **session);
iobind_status try_size_of_data(size_t limit, iobind_session **session); /* y is as long as x says */
iobind_status try_shape_nodes(size_t limit, iobind_session **session); /* y = 2 x, and a node reads the dims of x on the host */
iobind_session *make_session(const char *model, size_t limit);

iobind_tensor *make_tensor(const int64_t *dims, size_t rank, const float *values);
iobind_tensor *make_filled(size_t count, float value);
iobind_tensor *make_on_host(size_t count, float value);
void fill(iobind_tensor *tensor, float value);
void expect_all(iobind_tensor *tensor, size_t count, float value); /* is the tensor that long, and each element this? */
void expect_output(iobind_binding *binding, size_t count, float value);

iobind_binding *make_binding(iobind_session *session, iobind_tensor *x, iobind_tensor *y); /* y NULL: the usual output */
void bind_x(iobind_binding *binding, iobind_tensor *x);
void bind_y(iobind_binding *binding, iobind_tensor *y);

bool is_hardware(void); /* a GPU of NVIDIA's, which neither counts nor fails on request */

/* What the device has done since it was asked last; -1: it does not count. */
typedef struct launched {
  int64_t graphs;
  int64_t kernels; /* not of graphs */
  int64_t copies;  /* on the device, to it and from it */
} launched;
launched count_launched(void);

int64_t read_counter(const char *name); /* of the device; -1: it has none of that name */

/* A semaphore of vdev's, whose count is 0, as a descriptor. */
int make_semaphore(void);

/* Set a setting of the device's; false: it has none of that name. */
bool set_device(const char *name, const char *value);

/* main: graph_test DEVICE [FILTER]. 77 without the device. */
int graph_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif
