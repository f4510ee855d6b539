#define _POSIX_C_SOURCE 200809L /* scandir */

#include "commands/gpus.h"

#if !defined(__linux__)

void gpus_report(tool_report *report) {
  (void)report;
}

#else

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ONNX Runtime asks no driver which GPUs there are. It lists the cards of the first directory; if there is none, the display
 * controllers of the second. */
static const char cards[] = "/sys/class/drm";
static const char controllers[] = "/sys/bus/pci/devices";

enum { TEXT = 512 };

static bool exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

/* "card0", and neither "card0-HDMI-A-1" nor "renderD128". A card that is not on the PCI bus has no vendor, and is not counted. */
static bool is_card(const char *name) {
  char path[TEXT];
  char *end = NULL;
  if (strncmp(name, "card", 4) != 0 || !isdigit((unsigned char)name[4])) return false;
  (void)strtoul(name + 4, &end, 10);
  snprintf(path, sizeof path, "%s/%s/device/vendor", cards, name);
  return *end == 0 && exists(path);
}

/* The class of a PCI device: 0x0300 is a VGA controller, 0x0302 a 3D controller. */
static bool is_controller(const char *name) {
  char path[TEXT];
  char text[16] = "";
  snprintf(path, sizeof path, "%s/%s/class", controllers, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  bool read = fgets(text, sizeof text, file) != NULL;
  (void)fclose(file);
  return read && (strncmp(text, "0x0300", 6) == 0 || strncmp(text, "0x0302", 6) == 0);
}

/* What a driver has put into /dev for a GPU. */
static bool is_nvidia(const char *name) {
  return strncmp(name, "nvidia", 6) == 0 && isdigit((unsigned char)name[6]);
}

static bool is_render(const char *name) {
  return strncmp(name, "renderD", 7) == 0;
}

/* The number of names of this kind in a directory. If `first` is not NULL, it receives the path of the first one by name. */
static size_t count(const char *directory, bool (*is_one)(const char *name), char first[TEXT]) {
  struct dirent **entries = NULL;
  int number = scandir(directory, &entries, NULL, alphasort);
  size_t found = 0;
  for (int i = 0; i < number; i++) {
    const char *name = entries[i]->d_name;
    bool counts = is_one(name);
    if (counts && found++ == 0 && first != NULL) snprintf(first, TEXT, "%s/%s", directory, name);
    free(entries[i]);
  }
  free(entries);
  return found;
}

static void find_cure(const char *device, char cure[TEXT]) {
  if (strstr(device, "nvidia") != NULL) {
    snprintf(
        cure, TEXT,
        "NVIDIA's driver has created %s: load its module nvidia-drm (modprobe nvidia-drm, on the host of a container), and let a "
        "container see the host's /sys",
        device);
  } else if (device[0] != 0) {
    snprintf(cure, TEXT, "a driver has created %s: let the container see the host's /sys", device);
  } else if (!exists("/sys/class")) {
    snprintf(cure, TEXT, "/sys is hidden: let the container see the host's");
  }
}

void gpus_report(tool_report *report) {
  char device[TEXT] = "";
  char reason[TEXT] = "";
  char cure[TEXT] = "";
  size_t listed = count(cards, is_card, NULL);
  if (listed == 0) listed = count(controllers, is_controller, NULL);
  if (count("/dev", is_nvidia, device) == 0) (void)count("/dev/dri", is_render, device);
  if (listed == 0) {
    snprintf(reason, sizeof reason, "ONNX Runtime looks in %s (%s) and %s (%s), and nowhere else", cards,
             exists(cards) ? "no card of the PCI bus" : "does not exist", controllers,
             exists(controllers) ? "no display controller" : "does not exist");
    find_cure(device, cure);
    report_note(report, "no GPU is listed: %s%s%s", reason, cure[0] == 0 ? "" : "; ", cure);
  }
  json_t *gpus = json_object();
  json_object_set_new(gpus, "listed", json_integer((json_int_t)listed));
  json_object_set_new(gpus, "device_file", device[0] == 0 ? json_null() : report_string(device));
  json_object_set_new(gpus, "reason", reason[0] == 0 ? json_null() : report_string(reason));
  json_object_set_new(gpus, "cure", cure[0] == 0 ? json_null() : report_string(cure));
  report_field(report, "gpus", NULL, gpus, NULL);
}

#endif
