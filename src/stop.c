/*-------------------------------------------------------------------------
 *
 * stop.c
 *	  Named places where a test can make a process throw, wait or die.
 *
 * Stop points are armed by advisory locks, because these work across
 * sessions and workers, need no shared memory of ours, vanish with the
 * session that holds them, and show in pg_locks who waits.  A test takes
 * pg_advisory_lock(class, hashtext(name)) in a session of its own; the class
 * says what shall happen:
 *
 *		1886545771	an ERROR is thrown
 *		1886545772	the process waits until the lock is released; the wait
 *					can be cancelled
 *		1886545773	the process ends with FATAL
 *		1886545774	the process is killed with SIGKILL
 *		1886545775	a protection is left out
 *
 * A session does not stop at points that it has armed itself: it could not
 * get out of a wait.  The whole file is empty in a normal build.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stop.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stop.h"

#ifdef PEEKSTASH_STOP_POINTS

#include <signal.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"

#define STOP_ERROR	1886545771
#define STOP_WAIT	1886545772
#define STOP_FATAL	1886545773
#define STOP_KILL	1886545774
#define STOP_SKIP	1886545775

/* Does another session hold the lock that arms this? */
static bool
stop_armed(LOCKTAG *tag)
{
	if (LockAcquire(tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(tag, ShareLock, false);
	return false;
}

/* As hashtext() does it. */
static uint32
stop_key(const char *name)
{
	return DatumGetUInt32(hash_any((const unsigned char *) name,
								   strlen(name)));
}

/* Shall the protection of this name be left out? */
bool
stop_point_skipped(const char *name)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, STOP_SKIP, stop_key(name), 2);
	return stop_armed(&tag);
}

void
stop_point_reached(const char *name)
{
	uint32		hash = stop_key(name);
	LOCKTAG		tag;

	/* the same tag as pg_advisory_lock(int4, int4) */
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, STOP_WAIT, hash, 2);
	if (stop_armed(&tag))
	{
		int			lock_timeout = LockTimeout;

		/* how long this waits is the test's business */
		LockTimeout = 0;
		PG_TRY();
		{
			(void) LockAcquire(&tag, ShareLock, false, false);
		}
		PG_FINALLY();
		{
			LockTimeout = lock_timeout;
		}
		PG_END_TRY();
		LockRelease(&tag, ShareLock, false);
	}

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, STOP_ERROR, hash, 2);
	if (stop_armed(&tag))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("stop point \"%s\" threw", name)));

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, STOP_FATAL, hash, 2);
	if (stop_armed(&tag))
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("stop point \"%s\" ended the process", name)));

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, STOP_KILL, hash, 2);
	if (stop_armed(&tag))
		kill(getpid(), SIGKILL);
}

#endif							/* PEEKSTASH_STOP_POINTS */
