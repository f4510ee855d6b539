/* cuDNN and cuFFT on the virtual GPU's streams: order, delays, the race detector, captures, failures and
 * counters, as for kernels. */
#include "device.h"

#include "cufft.h"
#include "dnn_filter.h"

enum { SIDE = 8, COUNT = SIDE * SIDE, BYTES = COUNT * 4 };

/* A convolution of one image with a filter of one number: y = 3 * x. */
typedef struct fixture {
  vcuda_dnn *handle;
  vcuda_dnn_tensor *picture, *filter;
  vcuda_dnn_mover *mover;
  float *x, *w, *y, *workspace;
} fixture;

static void put(float *to, float number, int count) {
  float data[COUNT];
  for (int i = 0; i < count; i++) data[i] = number;
  OK(cudaMemcpy(to, data, (size_t)count * sizeof *to, CUDA_COPY_UP));
}

static float last_of(const float *from) {
  float number = 0;
  OK(cudaMemcpy(&number, from + COUNT - 1, sizeof number, CUDA_COPY_DOWN));
  return number;
}

static fixture open_fixture(cuda_stream stream) {
  fixture f = {.x = make_memory(BYTES), .w = make_memory(4), .y = make_memory(BYTES), .workspace = make_memory(4)};
  const int dims[] = {1, 1, SIDE, SIDE}, strides[] = {COUNT, COUNT, SIDE, 1}, ones[] = {1, 1, 1, 1}, none[] = {0, 0};
  OK(cudnnCreate(&f.handle));
  OK(cudnnSetStream(f.handle, stream));
  OK(cudnnCreateTensorDescriptor(&f.picture));
  OK(cudnnSetTensorNdDescriptor(f.picture, 0, 4, dims, strides));
  OK(cudnnCreateFilterDescriptor(&f.filter));
  OK(cudnnSetFilterNdDescriptor(f.filter, 0, 0, 4, ones));
  OK(cudnnCreateConvolutionDescriptor(&f.mover));
  OK(cudnnSetConvolutionNdDescriptor(f.mover, 2, none, ones, ones, 1, 0));
  put(f.x, 1, COUNT);
  put(f.w, 3, 1);
  put(f.y, 0, COUNT);
  put(f.workspace, 0, 1);
  return f;
}

static void close_fixture(fixture *f) {
  OK(cudnnDestroyConvolutionDescriptor(f->mover));
  OK(cudnnDestroyFilterDescriptor(f->filter));
  OK(cudnnDestroyTensorDescriptor(f->picture));
  OK(cudnnDestroy(f->handle));
  (void)cudaFree(f->x), (void)cudaFree(f->w), (void)cudaFree(f->y), (void)cudaFree(f->workspace);
}

static int convolve(const fixture *f, const float *x, float *y) {
  const float one = 1, zero = 0;
  return cudnnConvolutionForward(f->handle, &one, f->picture, x, f->filter, f->w, f->mover, 1, f->workspace, 4, &zero,
                                 f->picture, y);
}

static int find(const fixture *f) {
  vcuda_dnn_found found;
  int count = 0;
  return cudnnFindConvolutionForwardAlgorithmEx(f->handle, f->picture, f->x, f->filter, f->w, f->mover, f->picture, f->y, 1,
                                                &count, &found, f->workspace, 4);
}

static void the_stream_of_the_handle(void **state) {
  (void)state;
  cuda_stream one = make_stream(), other = make_stream(), asked = NULL;
  fixture f = open_fixture(one);
  gate g;
  close_gate(&g, one);
  OK(vcuda_reset(0));
  OK(convolve(&f, f.x, f.y));
  assert_int_equal(vcuda_get(0, "launches"), 1);
  assert_int_equal(vcuda_get(0, "syncs"), 0);
  OK(cudnnSetStream(f.handle, other));
  OK(cudnnGetStream(f.handle, (void **)&asked));
  assert_ptr_equal(asked, other);
  OK(cudaStreamSynchronize(other)); /* it has no work */
  int early = cudaStreamQuery(one);
  float before = last_of(f.y); /* the NULL stream does not wait for this one */
  open_gate(&g);
  OK(cudaStreamSynchronize(one));
  assert_int_equal(early, CUDA_NOT_READY);
  assert_true(before == 0);
  assert_true(last_of(f.y) == 3);
  close_fixture(&f);
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

/* Work runs in the order of the stream, whatever its delay. The search blocks. */
static void delays(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  fixture f = open_fixture(stream);
  OK(vcuda_set(0, "delay_compute", "every:1,us:2000,random"));
  OK(convolve(&f, f.x, f.y));
  OK(convolve(&f, f.y, f.x));
  OK(convolve(&f, f.x, f.y));
  OK(vcuda_reset(0));
  OK(find(&f)); /* y = 3 * x again */
  assert_int_equal(vcuda_get(0, "sync_stream"), 1);
  OK(cudaStreamQuery(stream));
  assert_true(last_of(f.y) == 27);
  OK(vcuda_set(0, "delay_compute", "0"));
  close_fixture(&f);
  OK(cudaStreamDestroy(stream));
}

/* wrong_compute changes the result, not the workspace. */
static void wrong_results(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  fixture f = open_fixture(stream);
  float y[COUNT];
  int wrong = 0;
  OK(vcuda_set(0, "wrong_compute", "1,name:cudnnConvolutionForward"));
  OK(convolve(&f, f.x, f.y));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(y, f.y, sizeof y, CUDA_COPY_DOWN));
  for (int i = 0; i < COUNT; i++) wrong += y[i] != 3;
  assert_int_equal(wrong, 1);
  OK(vcuda_set(0, "wrong_compute", "0"));
  close_fixture(&f);
  OK(cudaStreamDestroy(stream));
}

static void races(void **state) {
  (void)state;
  skip_under_thread_sanitizer();
  cuda_stream one = make_stream(), other = make_stream();
  fixture f = open_fixture(one);
  float *y = make_memory(BYTES);
  OK(cudaDeviceSynchronize());
  OK(vcuda_set(0, "race", "count"));
  OK(vcuda_reset(0));
  OK(convolve(&f, f.x, f.y));
  OK(convolve(&f, f.x, f.y)); /* ordered by the stream */
  OK(cudaStreamSynchronize(one));
  assert_int_equal(vcuda_get(0, "races"), 0);
  OK(convolve(&f, f.x, f.y));
  OK(cudaMemsetAsync(f.y, 0, BYTES, other));
  OK(cudaDeviceSynchronize());
  assert_int_equal(vcuda_get(0, "races"), 1);
  assert_non_null(strstr(vcuda_last_race(), "cudnnConvolutionForward"));
  OK(convolve(&f, f.x, f.y));
  OK(cudnnSetStream(f.handle, other));
  OK(convolve(&f, f.x, y)); /* another result with the same workspace: a race */
  OK(cudaDeviceSynchronize());
  assert_int_equal(vcuda_get(0, "races"), 2);
  OK(cudaFree(y));
  close_fixture(&f);
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(other));
}

/* A graph keeps the arguments of the calls: descriptors and handles may be destroyed. */
static void captures(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  cuda_graph graph = NULL;
  cuda_exec exec = NULL;
  const float one = 1;
  int fft = 0;
  const long long length = COUNT;
  fixture f = open_fixture(stream);
  float *spectrum = make_memory((size_t)(COUNT / 2 + 1) * 8);
  OK(cufftCreate(&fft));
  OK(cufftXtMakePlanMany(fft, 1, &length, NULL, 1, COUNT, 0, NULL, 1, COUNT / 2 + 1, 4, 1, NULL, 4));
  OK(cufftSetStream(fft, stream));
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  OK(convolve(&f, f.x, f.y));
  OK(cudnnAddTensor(f.handle, &one, f.filter, f.w, &one, f.picture, f.y));
  OK(cufftXtExec(fft, f.y, spectrum, -1));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cufftDestroy(fft));
  assert_true(last_of(f.y) == 0);
  for (int i = 1; i <= 2; i++) {
    float first = 0;
    put(f.x, (float)i, COUNT);
    OK(vcuda_reset(0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(vcuda_get(0, "graph_kernels"), 3);
    assert_true(last_of(f.y) == (float)(3 * i + 3));
    OK(cudaMemcpy(&first, spectrum, sizeof first, CUDA_COPY_DOWN));
    assert_true(first == (float)(COUNT * (3 * i + 3)));
  }
  OK(cudaGraphExecDestroy(exec));
  OK(cudaFree(spectrum));
  close_fixture(&f);
  OK(cudaStreamDestroy(stream));
}

/* The search blocks, which a capture forbids. */
static void no_search_in_a_capture(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  cuda_graph graph = NULL;
  fixture f = open_fixture(stream);
  OK(cudaStreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  FAILS(DNN_EXECUTION_FAILED, find(&f));
  FAILS(CUDA_CAPTURE_INVALIDATED, cudaStreamEndCapture(stream, &graph));
  (void)cudaGetLastError();
  close_fixture(&f);
  OK(cudaStreamDestroy(stream));
}

static void failures(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  fixture f = open_fixture(stream);
  OK(vcuda_set(0, "fail_compute", "1,name:cudnnConvolutionForward"));
  FAILS(DNN_EXECUTION_FAILED, convolve(&f, f.x, f.y));
  OK(cudaStreamSynchronize(stream));
  assert_true(last_of(f.y) == 0);
  OK(convolve(&f, f.x, f.y));
  OK(cudaStreamSynchronize(stream));
  assert_true(last_of(f.y) == 3);
  OK(vcuda_set(0, "fail_compute", "1,late,name:cudnnConvolutionForward"));
  OK(convolve(&f, f.x, f.y));
  FAILS(CUDA_LAUNCH_FAILURE, cudaStreamSynchronize(stream));
  FAILS(DNN_EXECUTION_FAILED, find(&f)); /* the error is sticky */
  FAILS(CUDA_LAUNCH_FAILURE, vcuda_recover(0));
  OK(vcuda_set(0, "fail_compute", "0"));
  OK(convolve(&f, f.x, f.y + 1)); /* beyond the end */
  FAILS(CUDA_ILLEGAL_ADDRESS, cudaStreamSynchronize(stream));
  FAILS(CUDA_ILLEGAL_ADDRESS, vcuda_recover(0));
  close_fixture(&f);
  OK(cudaStreamDestroy(stream));
}

static void call_in_a_host_function(void *data) {
  fixture *f = data;
  vcuda_dnn *handle = NULL;
  int fft = 0;
  assert_int_equal(convolve(f, f->x, f->y), DNN_EXECUTION_FAILED);
  assert_int_equal(cudnnSetStream(f->handle, NULL), DNN_EXECUTION_FAILED);
  assert_int_equal(cudnnCreate(&handle), DNN_EXECUTION_FAILED);
  assert_int_equal(cufftCreate(&fft), FFT_EXEC_FAILED);
}

static void host_functions(void **state) {
  (void)state;
  cuda_stream stream = make_stream();
  fixture f = open_fixture(stream);
  OK(cudaLaunchHostFunc(stream, call_in_a_host_function, &f));
  OK(cudaStreamSynchronize(stream));
  assert_true(last_of(f.y) == 0);
  close_fixture(&f);
  OK(cudaStreamDestroy(stream));
}

/* A handle and a plan work only while their device is current. */
static void devices(void **state) {
  (void)state;
  fixture f = open_fixture(NULL);
  int fft = 0;
  const long long length = COUNT;
  OK(cufftCreate(&fft));
  OK(cufftXtMakePlanMany(fft, 1, &length, NULL, 1, 1, 4, NULL, 1, 1, 4, 1, NULL, 4));
  OK(cudaSetDevice(1));
  FAILS(DNN_EXECUTION_FAILED, convolve(&f, f.x, f.y));
  FAILS(FFT_EXEC_FAILED, cufftXtExec(fft, f.x, f.x, 1));
  OK(cudaSetDevice(0));
  OK(convolve(&f, f.x, f.y));
  OK(cudaDeviceSynchronize());
  assert_true(last_of(f.y) == 3);
  OK(cufftDestroy(fft));
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_stream_of_the_handle), TEST(delays),   TEST(races),          TEST(captures), TEST(wrong_results),
      TEST(no_search_in_a_capture),   TEST(failures), TEST(host_functions), TEST(devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
