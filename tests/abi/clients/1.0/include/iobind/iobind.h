/** @file iobind.h
 *  I/O binding for ONNX Runtime (ORT): keep tensors on the device, with any execution provider (EP). base.h has the rules that
 *  apply to every function. interop.h is not included here: it is for programs that share streams, tensors or memory with other
 *  libraries. */
#ifndef IOBIND_H
#define IOBIND_H

#include "base.h"
#include "runtime.h"
#include "device.h"
#include "stream.h"
#include "tensor.h"
#include "session.h"
#include "binding.h"
#include "states.h"
#include "batch.h"
#include "pipeline.h"
#include "audit.h"

#endif
