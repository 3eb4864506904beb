/*-------------------------------------------------------------------------
 *
 * knobs.c
 *	  Every setting, and the same settings as options of one call.
 *
 * One table describes each knob; the server's settings and the options of a
 * call are both made from it, so that they cannot differ in unit or range.
 * Options exist because SET does not survive a connection pooler.
 *
 * Guards are the knobs that protect the server from its users.  An option
 * may only tighten them, unless a superuser gives it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/knobs.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <unistd.h>

#include "knobs.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/numeric.h"

#define MB	(1024 * 1024)

/* A label is for people, and is stored beside the quotas. */
#define MAX_LABEL	256

typedef enum KnobKind
{
	KNOB_INT,
	KNOB_BOOL,					/* bool in PeekKnobs */
	KNOB_ENUM					/* int in PeekKnobs */
} KnobKind;

typedef struct Knob
{
	const char *name;			/* without the prefix */
	KnobKind	kind;
	const struct config_enum_entry *names;	/* of KNOB_ENUM */
	const char *short_desc;
	const char *long_desc;
	size_t		offset;			/* in PeekKnobs */
	int			boot_value;
	int			min;
	int			max;
	GucContext	context;
	int			unit;			/* GUC_UNIT_* or 0 */
	bool		guard;			/* may only be tightened by an option */
	int			none;			/* of a guard: the value for no limit */
} Knob;

static PeekKnobs settings;

static const struct config_enum_entry compression_names[] = {
	{"none", STASH_COMPRESSION_NONE, false},
#ifdef USE_LZ4
	{"lz4", STASH_COMPRESSION_LZ4, false},
#endif
	{NULL, 0, false}
};

#ifdef USE_LZ4
#define DEFAULT_COMPRESSION	STASH_COMPRESSION_LZ4
#else
#define DEFAULT_COMPRESSION	STASH_COMPRESSION_NONE
#endif

#define KNOB(field)	offsetof(PeekKnobs, field)

static const Knob knob_table[] = {
	{
		"enable_stash", KNOB_BOOL, NULL,
		"Lets large answers be stashed.",
		"If off, a large answer is held in a temporary file of the session until it has been read.",
		KNOB(enable_stash), true, false, true,
		PGC_USERSET, 0, false, 0
	},
	{
		"stash_threshold", KNOB_INT, NULL,
		"Sets the size up to which an answer is held in memory.",
		"An answer that grows larger is stashed, batch by batch, while it is walked. 0 stashes every answer that is not empty.",
		KNOB(stash_threshold), 1 * MB, 0, 512 * MB,
		PGC_USERSET, GUC_UNIT_BYTE, false, 0
	},
	{
		"stash_batch_size", KNOB_INT, NULL,
		"Sets the size of the batches in which an answer is stashed.",
		"What has been held when stash_threshold is exceeded is cut up into batches of this size, too.",
		KNOB(stash_batch_size), 64 * 1024, 1, 512 * MB,
		PGC_USERSET, GUC_UNIT_BYTE, false, 0
	},
	{
		"stash_compression", KNOB_ENUM, compression_names,
		"Sets the compression of stashed batches.",
		NULL,
		KNOB(stash_compression), DEFAULT_COMPRESSION, 0, 0,
		PGC_USERSET, 0, false, 0
	},
	{
		"read_batch_size", KNOB_INT, NULL,
		"Sets how much of a stashed answer its reader holds in memory.",
		"The rows after the last batch are held, too, so they are limited by the same setting.",
		KNOB(read_batch_size), 1 * MB, 1, 512 * MB,
		PGC_USERSET, GUC_UNIT_BYTE, false, 0
	},
	{
		"max_result_size", KNOB_INT, NULL,
		"Sets the maximum size of one answer.",
		"A larger answer is an error. -1 means no limit.",
		KNOB(max_result_size), 1024 * 1024, -1, INT_MAX,
		PGC_SUSET, GUC_UNIT_KB, true, -1
	},
	{
		"row_iteration_limit", KNOB_INT, NULL,
		"Sets the maximum number of index positions that one peek may look at.",
		"0 means no limit.",
		KNOB(row_iteration_limit), 0, 0, INT_MAX,
		PGC_SUSET, 0, true, 0
	},
	{
		"yield_granularity", KNOB_INT, NULL,
		"Sets the number of index positions between two looks at cancellation.",
		NULL,
		KNOB(yield_granularity), 10000, 1, 1000000,
		PGC_USERSET, 0, false, 0
	},
	{
		"enable_offload", KNOB_BOOL, NULL,
		"Lets long submitted walks go on in a background worker.",
		"If off, a submitted walk leaves its backend only if the call asks for it.",
		KNOB(enable_offload), false, false, true,
		PGC_SUSET, 0, true, -1
	},
	{
		"inline_budget", KNOB_INT, NULL,
		"Sets the number of index positions that a submitted walk looks at before it is offloaded.",
		NULL,
		KNOB(inline_budget), 1024, 1, INT_MAX,
		PGC_USERSET, 0, false, 0
	},
	{
		"workers", KNOB_INT, NULL,
		"Sets the number of background workers that share an offloaded walk.",
		"With more than one, rows come in no order. No more than max_workers are started.",
		KNOB(workers), 1, 1, MAX_WALK_WORKERS,
		PGC_USERSET, 0, false, 0
	},
	{
		"max_workers", KNOB_INT, NULL,
		"Sets the maximum number of background workers that share an offloaded walk.",
		NULL,
		KNOB(max_workers), 4, 1, MAX_WALK_WORKERS,
		PGC_SUSET, 0, true, -1
	},
	{
		"notify", KNOB_BOOL, NULL,
		"Sends a notification on channel \"peekstash\" when a submitted peek ends.",
		NULL,
		KNOB(notify), false, false, true,
		PGC_USERSET, 0, false, 0
	},
	{
		"ttl", KNOB_INT, NULL,
		"Sets how long an answer is kept after it was made.",
		NULL,
		KNOB(ttl), 60 * 60, 1, INT_MAX,
		PGC_USERSET, GUC_UNIT_S, false, 0
	},
	{
		"max_ttl", KNOB_INT, NULL,
		"Sets how long an answer may be kept at most.",
		NULL,
		KNOB(max_ttl), 7 * 24 * 60 * 60, 1, INT_MAX,
		PGC_SUSET, GUC_UNIT_S, true, -1
	},
	{
		"max_stash_size", KNOB_INT, NULL,
		"Sets the maximum size of all stashed answers of a database.",
		"New answers are refused beyond it.",
		KNOB(max_stash_size), 10 * 1024 * 1024, 0, INT_MAX,
		PGC_SUSET, GUC_UNIT_KB, true, -1
	},
	{
		"max_role_stash_size", KNOB_INT, NULL,
		"Sets the maximum size of all stashed answers of a session user.",
		"0 means no limit.",
		KNOB(max_role_stash_size), 0, 0, INT_MAX,
		PGC_SUSET, GUC_UNIT_KB, true, 0
	},
	{
		"max_role_peeks", KNOB_INT, NULL,
		"Sets the maximum number of answers that a session user keeps.",
		"0 means no limit.",
		KNOB(max_role_peeks), 10000, 0, INT_MAX,
		PGC_SUSET, 0, true, 0
	},
};

StaticAssertDecl(lengthof(knob_table) <= 64,
				 "PeekKnobs.given has a bit for each knob");

/* Settings of the server, which no call can have otherwise. */
static int	slots = 64;
static int	sweep_interval = 60;
static int	permits = 0;

static inline void *
knob_place(PeekKnobs *knobs, const Knob *knob)
{
	return (char *) knobs + knob->offset;
}

static int
knob_get(PeekKnobs *knobs, const Knob *knob)
{
	return knob->kind == KNOB_BOOL ? *(bool *) knob_place(knobs, knob) :
		*(int *) knob_place(knobs, knob);
}

static void
knob_set(PeekKnobs *knobs, const Knob *knob, int value)
{
	if (knob->kind == KNOB_BOOL)
		*(bool *) knob_place(knobs, knob) = value != 0;
	else
		*(int *) knob_place(knobs, knob) = value;
}

/*
 * Define the server's settings.  All of them can be defined late, when the
 * library is loaded by its first use.
 */
void
knobs_define(void)
{
	for (int i = 0; i < (int) lengthof(knob_table); i++)
	{
		const Knob *knob = &knob_table[i];

		char	   *name = psprintf("peekstash.%s", knob->name);

		switch (knob->kind)
		{
			case KNOB_INT:
				DefineCustomIntVariable(name,
										knob->short_desc,
										knob->long_desc,
										knob_place(&settings, knob),
										knob->boot_value,
										knob->min,
										knob->max,
										knob->context,
										knob->unit,
										NULL,
										NULL,
										NULL);
				break;
			case KNOB_BOOL:
				DefineCustomBoolVariable(name,
										 knob->short_desc,
										 knob->long_desc,
										 knob_place(&settings, knob),
										 knob->boot_value != 0,
										 knob->context,
										 0,
										 NULL,
										 NULL,
										 NULL);
				break;
			case KNOB_ENUM:
				DefineCustomEnumVariable(name,
										 knob->short_desc,
										 knob->long_desc,
										 knob_place(&settings, knob),
										 knob->boot_value,
										 knob->names,
										 knob->context,
										 0,
										 NULL,
										 NULL,
										 NULL);
				break;
		}
	}

	/* the size of shared memory: only as long as that can still be chosen */
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("peekstash.slots",
								"Sets the number of submitted peeks that can be watched while they run.",
								NULL,
								&slots,
								64,
								1,
								65536,
								PGC_POSTMASTER,
								0,
								NULL,
								NULL,
								NULL);
	DefineCustomIntVariable("peekstash.sweep_interval",
							"Sets the time between two sweeps of expired answers by the launcher.",
							NULL,
							&sweep_interval,
							60,
							1,
							INT_MAX / 1000,
							PGC_SIGHUP,
							GUC_UNIT_S,
							NULL,
							NULL,
							NULL);
	DefineCustomIntVariable("peekstash.permits",
							"Sets the number of offloaded walks that run at once.",
							"Each worker of a shared walk counts. 0 means one for each processor core.",
							&permits,
							0,
							0,
							65536,
							PGC_SIGHUP,
							0,
							NULL,
							NULL,
							NULL);
	MarkGUCPrefixReserved("peekstash");
}

int
knobs_slots(void)
{
	return slots;
}

int
knobs_sweep_interval(void)
{
	return sweep_interval;
}

/* So many offloaded walks may run at once. */
int
knobs_permits(void)
{
	static long cores = 0;

	if (permits > 0)
		return permits;
	if (cores == 0)
		cores = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);
	return (int) cores;
}

/*
 * The server's settings may have changed: let a walk that goes on follow its
 * limits, where its call did not say otherwise.  Where the rows go, and how
 * they are cut, has been decided.
 */
void
knobs_follow(PeekKnobs *knobs)
{
	static const size_t followed[] = {
		KNOB(max_result_size),
		KNOB(row_iteration_limit),
		KNOB(yield_granularity)
	};

	for (int i = 0; i < (int) lengthof(knob_table); i++)
	{
		const Knob *knob = &knob_table[i];

		if ((knobs->given & (UINT64CONST(1) << i)) != 0)
			continue;
		for (int j = 0; j < (int) lengthof(followed); j++)
		{
			if (knob->offset == followed[j])
				knob_set(knobs, knob, knob_get(&settings, knob));
		}
	}
}

/* A lifetime must end, and not too late. */
void
knobs_check_ttl(const PeekKnobs *knobs, int64 seconds)
{
	if (seconds > 0 && seconds <= knobs->max_ttl)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("time to live must be between 1 and %d seconds",
					knobs->max_ttl),
			 errhint("The maximum is set by \"peekstash.max_ttl\".")));
}

static void
option_error(const char *name, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\"", name),
			 detail ? errdetail_internal("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0));
}

/* The value of an option that is a number, in the knob's base unit. */
static int
option_parse_number(const Knob *knob, const JsonbValue *value)
{
	Datum		number = NumericGetDatum(value->val.numeric);
	Datum		whole = DirectFunctionCall2(numeric_trunc, number,
											Int32GetDatum(0));
	bool		overflow;
	int			result;

	/* no silent rounding of 1.5 kB */
	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, number, whole)))
		option_error(knob->name, "The number must be an integer.", NULL);
	result = numeric_int4_opt_error(value->val.numeric, &overflow);
	if (overflow)
		option_error(knob->name, "The number is out of range.", NULL);
	return result;
}

/*
 * The value of an option as the knob holds it.  A JSON number is in the knob's
 * base unit; a string is parsed as SET parses it.
 */
static int
option_parse(const Knob *knob, const JsonbValue *value)
{
	char	   *string = value->type == jbvString ?
		pnstrdup(value->val.string.val, value->val.string.len) : NULL;
	int			result;
	bool		flag;
	const char *hint = NULL;

	switch (knob->kind)
	{
		case KNOB_INT:
			if (value->type == jbvNumeric)
				result = option_parse_number(knob, value);
			else if (string == NULL ||
					 !parse_int(string, &result, knob->unit, &hint))
				break;
			if (result < knob->min || result > knob->max)
				option_error(knob->name,
							 psprintf("%d is outside the valid range (%d .. %d).",
									  result, knob->min, knob->max), NULL);
			return result;
		case KNOB_BOOL:
			if (value->type == jbvBool)
				return value->val.boolean;
			if (string != NULL && parse_bool(string, &flag))
				return flag;
			hint = "A boolean is wanted.";
			break;
		case KNOB_ENUM:
			for (const struct config_enum_entry *entry = knob->names;
				 string != NULL && entry->name != NULL; entry++)
			{
				if (pg_strcasecmp(entry->name, string) == 0)
					return entry->val;
			}
			hint = "One of the names that SET takes is wanted.";
			break;
	}
	option_error(knob->name,
				 string ? psprintf("The value is \"%s\".", string) : NULL,
				 hint ? hint :
				 "A number, or a string as SET takes it, is wanted.");
	return 0;					/* keep compiler quiet */
}

/*
 * May the current role set this guard from one value to another?  An option
 * comes with the request, often from an application's user: the right to SET
 * a guard is not the right to raise it that way, only a superuser may.
 */
static bool
guard_allows(const Knob *knob, int from, int to)
{
	if (from == to || superuser())
		return true;
	if (to == knob->none)
		return false;
	return from == knob->none || to < from;
}

static void
option_apply(PeekKnobs *knobs, const char *name, const JsonbValue *value,
			 bool submits)
{
	for (int i = 0; i < (int) lengthof(knob_table); i++)
	{
		const Knob *knob = &knob_table[i];
		int			number;

		if (strcmp(knob->name, name) != 0)
			continue;

		number = option_parse(knob, value);
		if (knob->guard &&
			!guard_allows(knob, knob_get(knobs, knob), number))
			option_error(name, "This limit can only be lowered by an option.",
						 psprintf("Ask a superuser to raise \"peekstash.%s\".",
								  name));
		knob_set(knobs, knob, number);
		knobs->given |= UINT64CONST(1) << i;
		return;
	}

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized option \"%s\"", name),
			 submits ?
			 errhint("Options are \"handle\", \"label\", \"background\", and the names of settings without the prefix \"peekstash.\".") :
			 errhint("Options are the names of settings without the prefix \"peekstash.\".")));
}

/* The options of functions that submit; false if name is none of them. */
static bool
submit_option_apply(SubmitOptions *submit, const char *name,
					const JsonbValue *value)
{
	char	   *string = value->type == jbvString ?
		pnstrdup(value->val.string.val, value->val.string.len) : NULL;
	Datum		uuid;

	if (strcmp(name, "handle") == 0)
	{
		if (string == NULL)
			option_error(name, NULL, "A string that is a UUID is wanted.");
		uuid = DirectFunctionCall1(uuid_in, CStringGetDatum(string));
		submit->handle = *DatumGetUUIDP(uuid);
		submit->has_handle = true;
	}
	else if (strcmp(name, "label") == 0)
	{
		if (string == NULL && value->type != jbvNull)
			option_error(name, NULL, "A string is wanted.");
		if (string != NULL && strlen(string) > MAX_LABEL)
			option_error(name, "A label has at most 256 bytes.", NULL);
		submit->label = string;
	}
	else if (strcmp(name, "background") == 0)
	{
		if (value->type != jbvBool)
			option_error(name, NULL, "A boolean is wanted.");
		submit->background = value->val.boolean;
	}
	else
		return false;
	return true;
}

/*
 * The settings in force for a call with these options (NULL = none).  submit
 * is given by functions that submit, and NULL by others.
 */
void
knobs_resolve(PeekKnobs *knobs, Jsonb *options, SubmitOptions *submit)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;

	*knobs = settings;
	if (submit != NULL)
		memset(submit, 0, sizeof(*submit));
	if (options == NULL)
		return;

	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"options\" must be a JSON object")));

	it = JsonbIteratorInit(&options->root);
	token = JsonbIteratorNext(&it, &value, true);	/* WJB_BEGIN_OBJECT */
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_KEY)
	{
		char	   *name = pnstrdup(value.val.string.val,
									value.val.string.len);

		(void) JsonbIteratorNext(&it, &value, true);	/* WJB_VALUE */
		if (submit == NULL || !submit_option_apply(submit, name, &value))
			option_apply(knobs, name, &value, submit != NULL);
	}
	if (submit != NULL)
		knobs_check_ttl(knobs, knobs->ttl);
}
