/* The execution provider of one session: what it claims, how it runs. */
#ifndef VDEV_EP_H
#define VDEV_EP_H

#include "device.h"
#include "status.h"

/* A test builds one of another name. */
#ifndef VDEV_EP_NAME
#define VDEV_EP_NAME "VirtualDeviceExecutionProvider"
#define VDEV_EP_PREFIX "ep.virtualdeviceexecutionprovider." /* of its options among a session's entries */
#endif

/* `captures`: its session captures graphs. */
OrtStatus *vdev_ep_create(vdev_device *device, bool captures, OrtEp **out);
void vdev_ep_release(OrtEp *ep);

OrtStatus *vdev_sync_stream_create(vdev_device *device, OrtSyncStreamImpl **out); /* sync.c */

#endif
