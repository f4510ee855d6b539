#define _POSIX_C_SOURCE 200809L /* read-write locks */
#include "runtime/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "support/text.h"

struct iobind__log {
  pthread_rwlock_t lock; /* held for reading while a line is logged */
  iobind_log_function function;
  void *context;
  int32_t level;
  const OrtApi *api; /* a log is reused only for the same ORT, because a host program's environment may still write to it */
  struct iobind__log *next;
};

/* Logs are never freed (see iobind__log_close). The list keeps them reachable; a closed one is reused. */
static struct iobind__log *all_logs;
static pthread_mutex_t all_logs_mutex = PTHREAD_MUTEX_INITIALIZER;

iobind__log *iobind__log_create(const OrtApi *api, iobind_log_function function, void *context, int32_t level) {
  pthread_mutex_lock(&all_logs_mutex);
  iobind__log *log = all_logs;
  while (log != NULL && (log->level != 0 || log->api != api)) {
    log = log->next;
  }
  if (log == NULL) {
    log = calloc(1, sizeof *log);
    if (log != NULL) {
      pthread_rwlock_init(&log->lock, NULL);
      log->api = api;
      log->next = all_logs;
      all_logs = log;
    }
  }
  if (log != NULL) {
    pthread_rwlock_wrlock(&log->lock);
    log->function = function;
    log->context = context;
    log->level = level == IOBIND_LOG_DEFAULT ? IOBIND_LOG_WARNING : level;
    pthread_rwlock_unlock(&log->lock);
  }
  pthread_mutex_unlock(&all_logs_mutex);
  return log;
}

void iobind__log_close(iobind__log *log) {
  if (log == NULL) {
    return;
  }
  pthread_mutex_lock(&all_logs_mutex);
  pthread_rwlock_wrlock(&log->lock);
  log->function = NULL;
  log->context = NULL;
  log->level = 0;
  pthread_rwlock_unlock(&log->lock);
  pthread_mutex_unlock(&all_logs_mutex);
}

OrtLoggingLevel iobind__log_ort_level(int32_t level) {
  switch (level) {
    case IOBIND_LOG_VERBOSE: return ORT_LOGGING_LEVEL_VERBOSE;
    case IOBIND_LOG_INFO: return ORT_LOGGING_LEVEL_INFO;
    case IOBIND_LOG_ERROR: return ORT_LOGGING_LEVEL_ERROR;
    default: return ORT_LOGGING_LEVEL_WARNING;
  }
}

void iobind__log_line(iobind__log *log, int32_t level, const char *format, ...) {
  pthread_rwlock_rdlock(&log->lock);
  if (log->function != NULL && level >= log->level) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    iobind__text_print(message, sizeof message, format, arguments);
    va_end(arguments);
    log->function(log->context, level, message);
  }
  pthread_rwlock_unlock(&log->lock);
}

void ORT_CALL iobind__log_from_ort(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                                   const char *code_location, const char *message) {
  (void)logid;
  (void)code_location;
  static const int32_t levels[] = {IOBIND_LOG_VERBOSE, IOBIND_LOG_INFO, IOBIND_LOG_WARNING, IOBIND_LOG_ERROR, IOBIND_LOG_ERROR};
  int32_t level = (unsigned)severity < sizeof levels / sizeof levels[0] ? levels[severity] : IOBIND_LOG_ERROR;
  iobind__log_line(param, level, "%s: %s", category == NULL || category[0] == '\0' ? "onnxruntime" : category,
                   message == NULL ? "" : message);
}
