/*-------------------------------------------------------------------------
 *
 * handover.h
 *	  What a submitter and the workers of its walk share.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/handover.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_HANDOVER_H
#define PEEKSTASH_HANDOVER_H

#include "peekstash.h"

#include "drive/answer.h"
#include "drive/offload.h"
#include "errors.h"
#include "knobs.h"
#include "stash/upload.h"
#include "storage/condition_variable.h"
#include "storage/dsm.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"
#include "walk/arrangement.h"

/*
 * Of one worker:
 *
 *		STARTING --> READY --> WALKED --> COMMITTED
 *			`--> REFUSED
 *
 * and from each of them it may be gone without any further word.
 */
typedef enum WorkerState
{
	WORKER_STARTING,
	WORKER_REFUSED,
	WORKER_READY,				/* snapshot installed, locks held */
	WORKER_WALKED,				/* all that it has is in its transaction */
	WORKER_COMMITTED
} WorkerState;

/* Of the whole: only ever goes forward. */
typedef enum HandoverPhase
{
	HANDOVER_PREPARING,			/* the submitter waits for the workers */
	HANDOVER_STAY,				/* ... in vain: it walks itself */
	HANDOVER_GO,				/* the workers walk */
	HANDOVER_COMMIT,			/* all have walked: they may commit */
	HANDOVER_ABORT				/* something has failed */
} HandoverPhase;

/* How a shared walk fails: a higher one wins, whenever it comes. */
typedef enum WalkVerdict
{
	VERDICT_NONE,
	VERDICT_LIMIT,				/* of two see peek_limit_is_first() */
	VERDICT_ERROR,
	VERDICT_CANCELLED
} WalkVerdict;

#define HANDOVER_TEXT	1024

/* What a worker has come to. */
typedef struct WorkerResult
{
	WorkerState state;
	bool		left;			/* the process detaches, or never came */
	OffloadGate refusal;
	bool		stashed;
	UploadTotals totals;		/* written by it */
	int64		positions;
	int64		num_rows;
	int64		answer_bytes;
	double		write_seconds;
} WorkerResult;

typedef struct Handover
{
	/* constant once the first worker is registered */
	pg_uuid_t	handle;
	pg_uuid_t	stash;
	int			slot;
	uint64		generation;
	Oid			database;
	Oid			caller;			/* whom user code runs as */
	int			sec_context;
	Oid			session_user;	/* also charged */
	bool		session_is_superuser;
	bool		is_query;
	Oid			table;			/* of a walk */
	Oid			index;
	PGPROC	   *submitter;
	TimestampTz transaction_start;
	TimestampTz statement_start;
	PeekKnobs	knobs;
	PeekScanState state;
	bool		in_place;		/* is there a place to go on from? */
	int64		estimated_positions;
	UploadTotals submitter_totals;	/* what the submitter has stashed */
	bool		stashed;
	double		walk_seconds;	/* the submitter's */
	double		write_seconds;

	PeekSharedTotals totals;
	ConditionVariable changed;	/* of anything below */

	slock_t		mutex;			/* protects all below */
	HandoverPhase phase;
	int			num_workers;	/* that walk */
	int			finisher;		/* the one that writes the outcome */
	WorkerResult workers[MAX_WALK_WORKERS];
	WalkVerdict verdict;
	PeekLimit	limit;			/* of VERDICT_LIMIT */
	char		sqlstate[6];
	char		message[HANDOVER_TEXT];
	char		detail[HANDOVER_TEXT];	/* may be empty */
} Handover;

/* What a worker is started with. */
typedef struct WorkerStart
{
	int			slot;
	int			number;
	uint64		generation;
} WorkerStart;

/* Keys of what lies beside it in the segment. */
#define HANDOVER_MAGIC			0x7065656b
#define HANDOVER_KEY			UINT64CONST(1)
#define HANDOVER_KEY_SNAPSHOT	UINT64CONST(2)
#define HANDOVER_KEY_SETTINGS	UINT64CONST(3)
#define HANDOVER_KEY_REQUEST	UINT64CONST(4)	/* behind its size */
#define HANDOVER_KEY_HELD		UINT64CONST(5)	/* likewise */
#define HANDOVER_KEY_PLACE		UINT64CONST(6)

extern HandoverPhase handover_phase(Handover *handover);
extern void handover_sleep(Handover *handover, long timeout_ms);

/* For the submitter. */
extern void handover_set_left(Handover *handover, int number, bool left);
extern bool handover_is_answered(Handover *handover, int num_started,
								 OffloadGate *refusal);
extern int	handover_decide(Handover *handover, int num_started, bool *late);

/* For workers, by their number. */
extern bool handover_say_ready(Handover *handover, int number);
extern bool handover_refuse(Handover *handover, int number, OffloadGate gate);
extern void handover_set_state(Handover *handover, int number,
							   WorkerState state);
extern void handover_publish(Handover *handover, int number,
							 const PeekAnswer *answer,
							 const PeekScanState *state);
extern void handover_pronounce(Handover *handover, int number,
							   const ErrorData *error, int64 positions);
extern bool handover_leave(Handover *handover, int number, bool is_expected,
						   bool is_settled);

/* For the finisher. */
extern bool handover_others_are(Handover *handover, int number,
								WorkerState state, bool *lost);
extern void handover_allow_commit(Handover *handover);
extern void handover_add_up(const Handover *handover, PeekAnswer *answer);
extern int64 handover_stored_bytes(const Handover *handover);
extern int64 handover_positions(const Handover *handover);
extern bool handover_was_cancelled(Handover *handover);
pg_noreturn extern void error_worker_ended(void);

#endif							/* PEEKSTASH_HANDOVER_H */
