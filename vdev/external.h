/* Memory and semaphores of other libraries and processes, as ORT's interop interface brings them. */
#ifndef VDEV_EXTERNAL_H
#define VDEV_EXTERNAL_H

#include "device.h"
#include "status.h"

/* `info` describes the device's memory, and must remain valid as long as the importer and its tensors. */
OrtStatus *vdev_importer_create(vdev_device *device, const OrtEpDevice *ep_device, const OrtMemoryInfo *info,
                                OrtExternalResourceImporterImpl **out);

#endif
