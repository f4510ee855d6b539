/* Quirks: what an EP does in some releases of ORT. This is the only file that compares a release. */
#include "ep/ep.h"

/* Quirks of every EP: ORT's behaviour. */
static const iobind__quirk common[] = {
    {.bit = IOBIND__QUIRK_EARLY_OUTPUT_COPIES, .last = 30},
    {.bit = IOBIND__QUIRK_HIDES_NODES, .last = 24},
    {0},
};

static bool holds(const iobind__quirk *quirk, uint32_t release, bool bridged) {
  return quirk->first <= release && (quirk->last == 0 || release <= quirk->last) && (bridged || !quirk->only_bridged);
}

static uint32_t sum_of(const iobind__quirk *quirks, uint32_t release, bool bridged) {
  uint32_t sum = 0;
  for (const iobind__quirk *quirk = quirks; quirk != NULL && quirk->bit != 0; quirk++) {
    sum |= holds(quirk, release, bridged) ? (uint32_t)quirk->bit : 0;
  }
  return sum;
}

uint32_t iobind__quirks_of(const iobind__ep *ep, uint32_t release, bool bridged) {
  /* an unknown EP may queue: an unnecessary wait gives right results, a missing one does not */
  uint32_t own = ep == NULL ? (uint32_t)IOBIND__QUIRK_QUEUES : sum_of(ep->quirks, release, bridged);
  return own | sum_of(common, release, bridged);
}

uint32_t iobind__quirk_ends(const iobind__ep *ep, iobind__quirk_bit bit) {
  for (const iobind__quirk *quirk = ep->quirks; quirk != NULL && quirk->bit != 0; quirk++) {
    if (quirk->bit == bit) {
      return quirk->last == 0 ? 0 : quirk->last + 1;
    }
  }
  return 0;
}
