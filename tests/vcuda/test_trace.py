"""The trace has every call of every function that vcuda's libraries export, exactly once, with its name, stream and result.

usage: test_trace.py NM FOLDER_OF_VCUDA [unittest's arguments]"""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

NM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
OLDER = FOLDER / "older"
LIBRARIES = ["libcudart.so.13", "libcuda.so.1", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10"]
SAME = {"libcudart.so.12": "libcudart.so.13", "libcublas.so.12": "libcublas.so.13", "libcublasLt.so.12": "libcublasLt.so.13",
        "libcufft.so.11": "libcufft.so.12"}
REFUSING = ["libcudnn.so.9", "libcufft.so.12"]  # calls without arguments are all refused; only the records are checked

# These return neither an error nor a status.
WITHOUT_STATUS = re.compile(r"cuda(GetErrorName|GetErrorString)$|__cuda(Register|Unregister)"
                            r"|cublasGetStatus(Name|String)$|cudnnGet(Version|ErrorString|LastErrorString)$")


def exported(library):
    """The names of its functions, without their versions."""
    lines = subprocess.run([NM, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout.splitlines()
    names = (line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TW")
    return {name for name in names if not name.startswith("vcuda_")}


class Dim(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Calls:
    """Calls functions by name, and keeps the expected records of the trace."""

    def __init__(self):
        self.expected = []
        self.libraries = []

    def load(self, path):
        self.libraries.append(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))

    def __getattr__(self, name):
        function = next(getattr(library, name) for library in self.libraries if hasattr(library, name))

        def call(*arguments, stream=None):
            """Numbers are passed as 64 bits, which also works for an int. `stream` is the stream argument, or that of the handle."""
            wide = [ctypes.c_size_t(a) if isinstance(a, int) else a for a in arguments]
            given = [a for a in arguments if isinstance(a, Stream)] or ([stream] if stream is not None else [])
            result = function(*wide)
            self.expected.append((name, given[0].value if given else None, 0 if WITHOUT_STATUS.match(name) else result))
            return result
        return call


class Stream(ctypes.c_void_p):
    pass


def made(kind=ctypes.c_void_p):
    return kind(), ctypes.create_string_buffer(8192)


def call_runtime(cuda):
    out, text = made()
    number, size = ctypes.c_int(), ctypes.c_size_t()
    out_at, number_at = ctypes.byref(out), ctypes.byref(number)
    for name in ("cudaGetDeviceCount", "cudaGetDevice", "cudaDriverGetVersion", "cudaRuntimeGetVersion"):
        getattr(cuda, name)(number_at)
    cuda.cudaSetDevice(0)
    cuda.cudaSetDevice(99)  # an error
    cuda.cudaGetDeviceProperties(text, 0)
    cuda.cudaGetDeviceProperties_v2(text, 0)
    cuda.cudaDeviceGetAttribute(number_at, 1, 0)
    cuda.cudaDeviceGetPCIBusId(text, 32, 0)
    cuda.cudaDeviceGetStreamPriorityRange(number_at, number_at)
    cuda.cudaDeviceCanAccessPeer(number_at, 0, 1)
    cuda.cudaGetDriverEntryPointByVersion(b"cuInit", out_at, 13000, 0, None)
    for name in ("cudaGetErrorName", "cudaGetErrorString"):
        getattr(cuda, name)(1)
    cuda.cudaPeekAtLastError()  # that of cudaSetDevice
    cuda.cudaGetLastError()
    cuda.cudaThreadExchangeStreamCaptureMode(number_at)
    cuda.cudaMemGetInfo(ctypes.byref(size), ctypes.byref(size))
    call_streams(cuda)
    call_memory(cuda)
    call_kernels(cuda)
    cuda.cudaDeviceSynchronize()
    cuda.cudaDeviceReset()


def call_streams(cuda):
    stream, text = made(Stream)
    number = ctypes.c_int()
    event, graph, executable, memory, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(1)
    nodes = (ctypes.c_void_p * 1)()
    at = ctypes.byref
    for name, more in (("cudaStreamCreate", ()), ("cudaStreamCreateWithPriority", (1, 0)), ("cudaStreamCreateWithFlags", (1,))):
        other = ctypes.c_void_p()
        getattr(cuda, name)(at(other), *more)
        stream = Stream(other.value)
    cuda.cudaStreamGetFlags(stream, at(number))
    cuda.cudaStreamSetAttribute(stream, 8, text)
    cuda.cudaStreamGetPriority(stream, at(number))
    cuda.cudaStreamGetDevice(stream, at(number))
    cuda.cudaLaunchHostFunc(stream, ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p), None)
    cuda.cudaEventCreate(at(event))
    cuda.cudaEventRecord(event, stream)
    cuda.cudaStreamWaitEvent(stream, event, 0)
    cuda.cudaEventSynchronize(event)
    cuda.cudaEventQuery(event)
    cuda.cudaEventElapsedTime(text, event, event)
    cuda.cudaEventDestroy(event)
    cuda.cudaEventCreateWithFlags(at(event), 6)
    handle = IpcHandle()
    cuda.cudaIpcGetEventHandle(at(handle), event)
    cuda.cudaIpcOpenEventHandle(at(ctypes.c_void_p()), handle)  # refused in this process
    cuda.cudaEventRecordWithFlags(event, stream, 0)
    cuda.cudaEventDestroy(event)
    cuda.cudaMalloc(at(memory), 64)
    cuda.cudaStreamBeginCapture(stream, 2)
    cuda.cudaMemsetAsync(memory, 1, 64, stream)
    cuda.cudaStreamIsCapturing(stream, at(number))
    cuda.cudaStreamGetCaptureInfo(stream, at(number), None, None, None, None, None)
    cuda.cudaStreamEndCapture(stream, at(graph))
    cuda.cudaGraphGetNodes(graph, nodes, at(count))
    cuda.cudaGraphNodeGetType(nodes[0], at(number))
    cuda.cudaGraphInstantiate(at(executable), graph, 0)
    cuda.cudaGraphLaunch(executable, stream)
    cuda.cudaStreamQuery(stream)
    cuda.cudaStreamSynchronize(stream)
    cuda.cudaGraphExecDestroy(executable)
    cuda.cudaGraphDestroy(graph)
    cuda.cudaFree(memory)
    cuda.cudaStreamDestroy(stream)
    cuda.cudaStreamDestroy(stream)  # an error


def call_memory(cuda):
    pool, text = made()
    stream, memory, host = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    at = ctypes.byref
    cuda.cudaStreamCreate(at(stream))
    stream = Stream(stream.value)
    cuda.cudaDeviceGetDefaultMemPool(at(pool), 0)
    cuda.cudaMemPoolCreate(at(pool), (ctypes.c_int * 22)(1, 0, 1, 0))
    for name in ("cudaMemPoolGetAttribute", "cudaMemPoolSetAttribute"):
        getattr(cuda, name)(pool, 4, text)
    cuda.cudaMemPoolTrimTo(pool, 0)
    cuda.cudaMallocFromPoolAsync(at(memory), 64, pool, stream)
    cuda.cudaFreeAsync(memory, stream)
    cuda.cudaMallocAsync(at(memory), 64, stream)
    cuda.cudaFreeAsync(memory, stream)
    cuda.cudaMemPoolDestroy(pool)
    cuda.cudaMalloc(at(memory), 64)
    import_with(cuda, "cuda", stream)
    handle = IpcHandle()
    cuda.cudaIpcGetMemHandle(at(handle), memory)
    cuda.cudaIpcOpenMemHandle(at(host), handle, 1)  # refused in this process
    cuda.cudaIpcCloseMemHandle(memory)
    cuda.cudaPointerGetAttributes(text, memory)
    cuda.cudaMemset(memory, 1, 64)
    cuda.cudaMemcpy(memory, text, 64, 1)
    cuda.cudaMemcpyAsync(memory, text, 64, 1, stream)
    cuda.cudaMemcpy2DAsync(memory, 8, text, 8, 8, 8, 1, stream)
    cuda.cudaMemcpyPeerAsync(memory, 0, memory, 0, 8, stream)
    cuda.cudaMemcpyFromSymbol(text, text, 8, 0, 2)
    cuda.cudaFree(memory)
    cuda.cudaHostAlloc(at(host), 64, 0)
    cuda.cudaHostGetDevicePointer(at(memory), host, 0)
    cuda.cudaFreeHost(host)
    cuda.cudaMallocHost(at(host), 64)
    cuda.cudaFreeHost(host)
    cuda.cudaHostRegister(text, 64, 0)
    cuda.cudaHostUnregister(text)
    cuda.cudaStreamDestroy(stream)


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def import_with(cuda, prefix, stream):
    """Memory of a file, and a semaphore, by the functions of either interface."""
    def call(name, *arguments):
        getattr(cuda, prefix + name)(*arguments)
    memory, address, semaphore = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    at = ctypes.byref
    file = os.memfd_create("shared")
    os.ftruncate(file, 4096)
    call("ImportExternalMemory", at(memory), (ctypes.c_uint64 * 16)(1, file, 0, 4096))
    call("ExternalMemoryGetMappedBuffer", at(address), memory, (ctypes.c_uint64 * 16)(0, 4096))
    getattr(cuda, {"cuda": "cudaFree", "cu": "cuMemFree_v2"}[prefix])(address)
    call("DestroyExternalMemory", memory)
    file = cuda.libraries[0].vcuda_semaphore_create(ctypes.c_uint64(0))
    params = (ctypes.c_uint64 * 18)(1)
    call("ImportExternalSemaphore", at(semaphore), (ctypes.c_uint64 * 16)(9, file))
    call("SignalExternalSemaphoresAsync", at(semaphore), params, 1, stream)
    call("WaitExternalSemaphoresAsync", at(semaphore), params, 1, stream)
    call("DestroyExternalSemaphore", semaphore)


def call_kernels(cuda):
    """vcuda does not have a kernel of this name, so the launches fail."""
    kernel, text = made()
    stream = Stream()
    one = Dim(1, 1, 1)
    cuda.__cudaRegisterFatBinary(None)
    cuda.__cudaRegisterFunction(None, text, text, b"unheard_of", 0, None, None, None, None, None)
    cuda.__cudaRegisterVar(None, text, text, b"unheard_of", 0, 4, 0, 0)
    cuda.__cudaRegisterFatBinaryEnd(None)
    cuda.__cudaGetKernel(ctypes.byref(kernel), text)
    cuda.__cudaPushCallConfiguration(one, one, 0, stream)
    cuda.__cudaPopCallConfiguration(text, text, text, text)
    cuda.__cudaPopCallConfiguration(text, text, text, text)  # an error
    cuda.__cudaLaunchKernel(kernel, one, one, None, 0, stream)
    cuda.cudaLaunchKernel(text, one, one, None, 0, stream)
    cuda.cudaLaunchCooperativeKernel(text, one, one, None, 0, stream)
    cuda.cudaLaunchKernelExC(ctypes.create_string_buffer(64), text, None)
    cuda.cudaFuncGetAttributes(text, text)
    cuda.cudaFuncSetAttribute(text, 0, 0)
    cuda.cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(text, text, 64, 0, 0)
    cuda.cudaKernelSetAttributeForDevice(kernel, 0, 0, 0)
    cuda.cudaLibraryLoadData(text, None, None, None, 0, None, None, 0)
    cuda.cudaLibraryGetKernel(text, None, b"unheard_of")
    cuda.cudaLibraryUnload(None)
    cuda.__cudaUnregisterFatBinary(None)


def call_driver(cuda):
    context, text = made()
    number, size, memory, event, stream = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    at = ctypes.byref
    cuda.cuInit(0)
    cuda.cuDriverGetVersion(at(number))
    cuda.cuGetErrorName(1, text)
    cuda.cuGetErrorString(1, text)
    cuda.cuGetProcAddress_v2(b"cuInit", text, 13000, 0, None)
    cuda.cuDeviceGetCount(at(number))
    cuda.cuDeviceGet(at(number), 0)
    cuda.cuDeviceGetName(text, 64, 0)
    cuda.cuDeviceGetAttribute(at(number), 1, 0)
    cuda.cuDeviceTotalMem_v2(at(size), 0)
    cuda.cuDevicePrimaryCtxRetain(at(context), 0)
    cuda.cuCtxPushCurrent_v2(context)
    cuda.cuCtxGetCurrent(at(context))
    cuda.cuCtxGetDevice(at(number))
    cuda.cuCtxSetCurrent(context)
    cuda.cuCtxGetStreamPriorityRange(at(number), None)
    cuda.cuStreamCreate(at(stream), 1)
    stream = Stream(stream.value)
    cuda.cuStreamGetCtx(stream, at(context))
    cuda.cuStreamIsCapturing(stream, at(number))
    cuda.cuStreamSetAttribute(stream, 8, text)
    cuda.cuStreamGetPriority(stream, at(number))
    cuda.cuEventCreate(at(event), 2)
    cuda.cuEventRecord(event, stream)
    cuda.cuStreamWaitEvent(stream, event, 0)
    cuda.cuEventSynchronize(event)
    cuda.cuEventQuery(event)
    cuda.cuEventDestroy_v2(event)
    cuda.cuLaunchHostFunc(stream, ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p), None)
    import_with(cuda, "cu", stream)
    cuda.cuMemAlloc_v2(at(memory), 64)
    cuda.cuMemcpyHtoD_v2(memory, text, 64)
    cuda.cuMemcpyAsync(memory, memory, 64, stream)
    cuda.cuMemsetD8Async(memory, 1, 64, stream)
    cuda.cuMemcpyDtoH_v2(text, memory, 64)
    cuda.cuPointerGetAttribute(at(number), 2, memory)
    cuda.cuMemGetInfo_v2(at(size), at(size))
    cuda.cuMemFree_v2(memory)
    pool = ctypes.c_void_p()
    cuda.cuMemPoolCreate(at(pool), (ctypes.c_int * 22)(1, 0, 1, 0))
    cuda.cuMemPoolSetAttribute(pool, 4, at(ctypes.c_uint64(1)))
    cuda.cuMemAllocFromPoolAsync(at(memory), 64, pool, stream)
    cuda.cuMemPoolTrimTo(pool, 0)
    cuda.cuMemFreeAsync(memory, stream)
    cuda.cuMemPoolDestroy(pool)
    cuda.cuStreamQuery(stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuStreamDestroy_v2(stream)
    cuda.cuTensorMapEncodeTiled()
    cuda.cuCtxSynchronize()
    cuda.cuCtxPopCurrent_v2(at(context))
    cuda.cuCtxPopCurrent_v2(at(context))  # an error
    cuda.cuDevicePrimaryCtxRelease_v2(0)


def call_products(cuda):
    handle, text = made()
    number, stream = ctypes.c_int(), ctypes.c_void_p()
    cuda.cudaStreamCreate(ctypes.byref(stream))
    stream = Stream(stream.value)
    cuda.cublasCreate_v2(ctypes.byref(handle))
    cuda.cublasSetStream_v2(handle, stream)
    cuda.cublasSetMathMode(handle, 1)
    cuda.cublasGetMathMode(handle, ctypes.byref(number))
    for name in ("cublasSetStream_v2", "cublasSetMathMode", "cublasGetMathMode"):
        getattr(cuda, name)(None, None)  # an error
    cuda.cublasGetStatusName(0)
    cuda.cublasGetStatusString(0)
    for letter in "SD":  # empty matrices: no work
        for noun in ("gemm_v2", "gemmBatched", "gemmStridedBatched", "getrfBatched", "getriBatched"):
            getattr(cuda, f"cublas{letter}{noun}")(handle, *[0] * 17, stream=stream)
        getattr(cuda, f"cublas{letter}geam")(handle, 0, 0, 0, 0, text, text, 1, text, text, 1, text, 1, stream=stream)
        getattr(cuda, f"cublas{letter}copy_v2")(handle, 0, text, 1, text, 1, stream=stream)
    cuda.cublasSscal_v2(handle, 0, text, text, 1, stream=stream)
    for name in ("cublasGemmEx", "cublasGemmBatchedEx", "cublasGemmStridedBatchedEx"):
        getattr(cuda, name)(handle, *[0] * 22, stream=stream)
        getattr(cuda, name)(None, *[0] * 22)  # an error
    cuda.cublasDestroy_v2(handle)
    call_lt(cuda, stream, text)
    cuda.cudaStreamDestroy(stream)


def call_lt(cuda, stream, text):
    handle, layout, product, preference, transform = (ctypes.c_void_p() for _ in range(5))
    at = ctypes.byref
    cuda.cublasLtCreate(at(handle))
    cuda.cublasLtMatrixLayoutCreate(at(layout), 0, 0, 0, 1)
    cuda.cublasLtMatmulDescCreate(at(product), 68, 0)
    cuda.cublasLtMatmulPreferenceCreate(at(preference))
    cuda.cublasLtMatrixTransformDescCreate(at(transform), 0)
    for name, value in (("MatrixLayout", layout), ("MatmulDesc", product), ("MatmulPreference", preference)):
        getattr(cuda, f"cublasLt{name}SetAttribute")(value, 1, text, 4)
    cuda.cublasLtMatmulAlgoGetHeuristic(handle, product, *[layout] * 4, preference, 1, text, text)
    cuda.cublasLtMatmulAlgoInit(handle, *[0] * 7, text)
    cuda.cublasLtMatmulAlgoConfigSetAttribute(text, 0, text, 4)
    cuda.cublasLtMatmul(handle, product, text, text, layout, text, layout, text, text, layout, text, layout, text, None, 0, stream)
    cuda.cublasLtMatrixTransform(handle, transform, text, text, layout, text, text, layout, text, layout, stream)
    cuda.cublasLtMatrixTransformDescDestroy(transform)
    cuda.cublasLtMatmulPreferenceDestroy(preference)
    cuda.cublasLtMatmulDescDestroy(product)
    cuda.cublasLtMatrixLayoutDestroy(layout)
    cuda.cublasLtDestroy(handle)


class Trace(unittest.TestCase):
    def setUp(self):
        self.older = OLDER.is_dir()  # not built with every linker

    def test_every_call_of_every_function(self):
        os.environ.update(VCUDA_TRACE="1", VCUDA_LOG=os.devnull, VCUDA_DEVICES="1")
        cuda, names = Calls(), set()
        for path in [FOLDER / name for name in LIBRARIES + REFUSING]:
            cuda.load(path)
            names |= exported(path)
        call_runtime(cuda)
        call_driver(cuda)
        call_products(cuda)
        for name in REFUSING:
            for function in sorted(exported(FOLDER / name)):
                getattr(cuda, function)(*[0] * 8)
        with tempfile.NamedTemporaryFile() as file:
            cuda.libraries[0].vcuda_trace_write(file.name.encode())
            events = json.load(file)["traceEvents"]
        records = [event for event in events if event["tid"] == 0]
        self.assertEqual(names - {event["name"] for event in records}, set())
        self.assertEqual([event["name"] for event in records], [name for name, _, _ in cuda.expected])
        for event, (name, stream, result) in zip(records, cuda.expected):
            with self.subTest(name):
                if stream is not None:
                    self.assertEqual(event["args"]["stream"], hex(stream))
                self.assertEqual(event["args"]["error"], result)
        for kind in ["cuda", "cu[A-Z]", "cublas[A-Z]", "cublasLt", "cudnn", "cufft"]:
            with self.subTest(kind):  # each kind has failing calls, so that a trace with only zeros fails the test
                self.assertTrue(any(re.match(kind, name) and result != 0 for name, _, result in cuda.expected))

    def test_devices_are_made_at_load_only_for_a_trace(self):
        """Loading the libraries creates no devices: a program can set the environment before its first call."""
        program = """import ctypes, os, sys
library, count = ctypes.CDLL(sys.argv[1]), ctypes.c_int()
library.__cudaRegisterFatBinary(None)
os.environ["VCUDA_DEVICES"] = "3"
library.cudaGetDeviceCount(ctypes.byref(count))
print(count.value)"""
        given = {key: value for key, value in os.environ.items() if not key.startswith("VCUDA_")}
        with tempfile.NamedTemporaryFile() as file:
            for settings, expected in (({}, 3), ({"VCUDA_TRACE": "0"}, 3), ({"VCUDA_TRACE": ""}, 3), ({"VCUDA_TRACE_FILE": ""}, 3),
                                       ({"VCUDA_TRACE": "1"}, 1), ({"VCUDA_TRACE_FILE": file.name}, 1),
                                       ({"VCUDA_TRACE": "0", "VCUDA_TRACE_FILE": file.name}, 1)):
                with self.subTest(settings):
                    made = subprocess.run([sys.executable, "-c", program, FOLDER / LIBRARIES[0]], check=True, capture_output=True,
                                          text=True, env={**given, "VCUDA_LOG": os.devnull, **settings}).stdout
                    self.assertEqual(int(made), expected)

    def test_libraries_of_other_versions_have_the_same_functions(self):
        for name, like in SAME.items() if self.older else ():
            with self.subTest(name):
                self.assertEqual(exported(OLDER / name), exported(FOLDER / like))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
