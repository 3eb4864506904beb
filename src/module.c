/*-------------------------------------------------------------------------
 *
 * module.c
 *	  What the server needs to load the library.
 *
 * The library may be loaded by shared_preload_libraries, by any other preload
 * setting, or by the first call of one of its functions.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/module.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/permits.h"
#include "drive/quota.h"
#include "drive/reclaim.h"
#include "drive/registry.h"
#include "fmgr.h"
#include "knobs.h"
#include "stat.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "peekstash", .version = PEEKSTASH_VERSION);
#else
PG_MODULE_MAGIC;
#endif

void		_PG_init(void);

void
_PG_init(void)
{
	knobs_define();
	stat_init();
	registry_init();
	permits_init();
	quota_init();
	reclaim_init();
}
