/* The catalogue's public queries: EPs, their options, and options that exclude each other. */
#include <string.h>

#include "ep/ep.h"
#include "iobind/device.h"
#include "support/options.h"

_Static_assert((int)IOBIND__OPTION_FLAG == (int)IOBIND_OPTION_FLAG && (int)IOBIND__OPTION_WHOLE == (int)IOBIND_OPTION_INTEGER &&
                   (int)IOBIND__OPTION_DECIMAL == (int)IOBIND_OPTION_NUMBER &&
                   (int)IOBIND__OPTION_WORD == (int)IOBIND_OPTION_WORD &&
                   (int)IOBIND__OPTION_ADDRESS == (int)IOBIND_OPTION_ADDRESS &&
                   (int)IOBIND__OPTION_TEXT == (int)IOBIND_OPTION_TEXT,
               "the kinds of options are the public ones");
_Static_assert(sizeof(((iobind_option_info *)NULL)->range) == IOBIND__OPTION_RANGE, "a range fits");

static const char *or_empty(const char *text) {
  return text == NULL ? "" : text;
}

iobind_status iobind_catalogue_get_ep(size_t index, iobind_catalogue_info *info, iobind_error *error) {
  static const char what[] = "catalogue_get_ep";
  iobind_catalogue_info full = IOBIND_CATALOGUE_INFO_INIT;
  IOBIND__TRY(IOBIND__INFO_WRITE(info, &full, what, error));
  size_t count = 0;
  while (count <= index && iobind__ep_at(count) != NULL) {
    count++;
  }
  if (count <= index) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an index below %zu, got %zu", what, count, index);
  }
  const iobind__ep *ep = iobind__ep_at(index);
  const iobind__option_table *table = ep->options;
  full.on_demand = ep->on_demand ? 1 : 0;
  full.name = ep->name;
  full.ep_name = ep->ep_name;
  full.source = table == NULL ? "" : or_empty(table->source);
  full.releases = table == NULL ? "" : or_empty(table->releases);
  full.option_count = table == NULL ? 0 : table->count;
  full.conflict_count = table == NULL ? 0 : table->pair_count;
  return IOBIND__INFO_WRITE(info, &full, what, error);
}

/* The options of an EP by its name; NULL if none are known. */
static iobind_status find_table(const char *name, const iobind__option_table **table, const char *what, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(name, "ep", what, error));
  const iobind__ep *ep = iobind__ep_by_name(name, strlen(name));
  if (ep == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: '%s' is no EP of the catalogue: iobind_catalogue_get_ep lists them",
                        what, name);
  }
  *table = ep->options;
  return IOBIND_OK;
}

static iobind_status check_index(const char *ep, size_t index, size_t count, const char *what, iobind_error *error) {
  return index < count ? IOBIND_OK
                       : iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: '%s': expected an index below %zu, got %zu", what, ep,
                                      count, index);
}

iobind_status iobind_catalogue_get_option(const char *ep, size_t index, iobind_option_info *info, iobind_error *error) {
  static const char what[] = "catalogue_get_option";
  iobind_option_info full = IOBIND_OPTION_INFO_INIT;
  const iobind__option_table *table = NULL;
  IOBIND__TRY(IOBIND__INFO_WRITE(info, &full, what, error));
  IOBIND__TRY(find_table(ep, &table, what, error));
  IOBIND__TRY(check_index(ep, index, table == NULL ? 0 : table->count, what, error));
  const iobind__option *option = &table->options[index];
  full.kind = (int32_t)option->kind;
  full.key = option->key;
  full.preset = option->preset;
  full.since = or_empty(option->since);
  full.text = or_empty(option->text);
  full.refused = or_empty(option->unused);
  full.needs = or_empty(option->needs);
  iobind__option_range(table, option, full.range);
  return IOBIND__INFO_WRITE(info, &full, what, error);
}

iobind_status iobind_catalogue_get_conflict(const char *ep, size_t index, iobind_conflict_info *info, iobind_error *error) {
  static const char what[] = "catalogue_get_conflict";
  iobind_conflict_info full = IOBIND_CONFLICT_INFO_INIT;
  const iobind__option_table *table = NULL;
  IOBIND__TRY(IOBIND__INFO_WRITE(info, &full, what, error));
  IOBIND__TRY(find_table(ep, &table, what, error));
  IOBIND__TRY(check_index(ep, index, table == NULL ? 0 : table->pair_count, what, error));
  const iobind__option_pair *pair = &table->pairs[index];
  full.key = pair->key;
  full.value = pair->value;
  full.other = pair->other;
  full.other_value = pair->other_value;
  full.reason = or_empty(pair->reason);
  return IOBIND__INFO_WRITE(info, &full, what, error);
}
