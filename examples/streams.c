/* streams MODEL [DEVICE]: two bindings that alternate on one stream. While the device works on one frame, the host creates the
 * next one, and waits only for memory that it is about to reuse. The model is tests/models' "scale": y = 2 x. */
#include <iobind/iobind.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "%s\n", error.message), 1

enum { FRAMES = 10, PIXELS = 4096 };

typedef struct turn {
  iobind_binding *binding;
  iobind_tensor *x, *y; /* where the session reads its input and leaves its output */
  iobind_event *done;   /* recorded after the turn's last copy */
  float pixels[PIXELS]; /* the stream reads and writes it: do not access it before `done` is signaled */
  float result[PIXELS];
} turn;

static iobind_error error = IOBIND_ERROR_INIT; /* details of the last failure */

/* Wait for the turn's last frame, and check it. */
static int finish(const turn *self, int frame) {
  TRY(iobind_event_wait(self->done, IOBIND_NO_TIMEOUT, &error)); /* also returns a failure of its work */
  if (self->result[PIXELS - 1] != 2 * (float)frame) return fprintf(stderr, "frame %d is wrong\n", frame), 1;
  return 0;
}

int main(int argc, char **argv) {
  static turn turns[2];
  const int64_t dims[] = {PIXELS};
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime;
  iobind_device *device;
  iobind_session *session;
  iobind_stream *stream;
  if (argc < 2) return fprintf(stderr, "usage: streams MODEL [DEVICE]\n"), 2;
  TRY(iobind_runtime_create(NULL, &runtime, &error));
  TRY(iobind_runtime_find_device(runtime, argc > 2 ? argv[2] : "gpu,cpu", &device, NULL, &error));
  options.devices = &device;
  options.device_count = 1;
  TRY(iobind_session_create(runtime, argv[1], &options, &session, &error));
  TRY(iobind_stream_create(device, NULL, &stream, &error));
  for (int i = 0; i < 2; i++) {
    turn *self = &turns[i];
    TRY(iobind_event_create(device, &self->done, &error));
    TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &self->x, &error));
    TRY(iobind_tensor_create(device, IOBIND_MEMORY_DEFAULT, IOBIND_DTYPE_FLOAT32, dims, 1, &self->y, &error));
    TRY(iobind_binding_create(session, &self->binding, &error));
    TRY(iobind_binding_set_input(self->binding, 0, IOBIND_INPUT_RESIDENT, self->x, NULL, &error));
    TRY(iobind_binding_set_output(self->binding, 0, self->y, 0, &error));
  }

  for (int frame = 0; frame < FRAMES; frame++) {
    turn *self = &turns[frame % 2];
    if (frame >= 2 && finish(self, frame - 2) != 0) return 1;
    for (int i = 0; i < PIXELS; i++) self->pixels[i] = (float)frame; /* the other turn's run goes on meanwhile */
    TRY(iobind_tensor_write(self->x, 0, self->pixels, sizeof self->pixels, stream, &error));
    TRY(iobind_binding_run(self->binding, stream, &error));
    TRY(iobind_tensor_read(self->y, 0, self->result, sizeof self->result, stream, &error));
    TRY(iobind_event_record(self->done, stream, &error));
  }
  for (int frame = FRAMES - 2; frame < FRAMES; frame++)
    if (finish(&turns[frame % 2], frame) != 0) return 1;
  printf("%d frames on one stream, right\n", FRAMES);

  for (int i = 0; i < 2; i++) {
    iobind_binding_destroy(turns[i].binding);
    iobind_tensor_release(turns[i].x);
    iobind_tensor_release(turns[i].y);
    iobind_event_destroy(turns[i].done);
  }
  iobind_stream_destroy(stream);
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
  return 0;
}
