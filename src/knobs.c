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

#include "knobs.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/numeric.h"

#define MB	(1024 * 1024)

typedef struct Knob
{
	const char *name;			/* without the prefix */
	const char *short_desc;
	const char *long_desc;
	size_t		offset;			/* in PeekKnobs */
	int			boot_value;
	int			min;
	int			max;
	GucContext	context;
	int			unit;			/* GUC_UNIT_* or 0 */
	bool		guard;			/* may only be tightened by an option */
	int			none;			/* of a guard: the value that means no limit */
} Knob;

static PeekKnobs settings;

#define KNOB(field)	offsetof(PeekKnobs, field)

static const Knob knob_table[] = {
	{
		"stash_threshold",
		"Sets the size up to which an answer is held in memory.",
		"An answer that grows larger leaves memory batch by batch while it is walked. 0 lets every answer that is not empty do so.",
		KNOB(stash_threshold), 1 * MB, 0, 512 * MB,
		PGC_USERSET, GUC_UNIT_BYTE, false, 0
	},
	{
		"stash_batch_size",
		"Sets the size of the batches in which an answer leaves memory.",
		"Counts the batches after the first, which is cut when stash_threshold is exceeded.",
		KNOB(stash_batch_size), 128 * 1024, 1, 512 * MB,
		PGC_USERSET, GUC_UNIT_BYTE, false, 0
	},
	{
		"max_result_size",
		"Sets the maximum size of one answer.",
		"A larger answer is an error. -1 means no limit.",
		KNOB(max_result_size), 1024 * 1024, -1, INT_MAX,
		PGC_SUSET, GUC_UNIT_KB, true, -1
	},
	{
		"row_iteration_limit",
		"Sets the maximum number of index positions that one peek may look at.",
		"0 means no limit.",
		KNOB(row_iteration_limit), 0, 0, INT_MAX,
		PGC_SUSET, 0, true, 0
	},
	{
		"yield_granularity",
		"Sets the number of index positions between two looks at cancellation.",
		NULL,
		KNOB(yield_granularity), 10000, 1, 1000000,
		PGC_USERSET, 0, false, 0
	},
};

static inline int *
knob_value(PeekKnobs *knobs, const Knob *knob)
{
	return (int *) ((char *) knobs + knob->offset);
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

		DefineCustomIntVariable(psprintf("peekstash.%s", knob->name),
								knob->short_desc,
								knob->long_desc,
								knob_value(&settings, knob),
								knob->boot_value,
								knob->min,
								knob->max,
								knob->context,
								knob->unit,
								NULL,
								NULL,
								NULL);
	}
	MarkGUCPrefixReserved("peekstash");
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

/*
 * The value of an option as an integer in the knob's base unit: a JSON
 * number as it is, a string as SET parses it.
 */
static int
option_parse(const Knob *knob, const JsonbValue *value)
{
	int			result;

	if (value->type == jbvString)
	{
		const char *hint = NULL;
		char	   *text = pnstrdup(value->val.string.val,
									value->val.string.len);

		if (!parse_int(text, &result, knob->unit, &hint))
			option_error(knob->name, NULL, hint ? hint :
						 "A number, or a string as SET takes it, is wanted.");
	}
	else if (value->type == jbvNumeric)
	{
		bool		overflow;

		/* not numeric_int4: 1.5 kB shall be refused, not rounded */
		if (DatumGetInt32(DirectFunctionCall2(numeric_cmp,
											  NumericGetDatum(value->val.numeric),
											  DirectFunctionCall2(numeric_trunc,
																  NumericGetDatum(value->val.numeric),
																  Int32GetDatum(0)))) != 0)
			option_error(knob->name, "The number must be an integer.", NULL);
		result = numeric_int4_opt_error(value->val.numeric, &overflow);
		if (overflow)
			option_error(knob->name, "The number is out of range.", NULL);
	}
	else
	{
		option_error(knob->name, NULL,
					 "A number, or a string as SET takes it, is wanted.");
		pg_unreachable();
	}

	if (result < knob->min || result > knob->max)
		option_error(knob->name,
					 psprintf("%d is outside the valid range (%d .. %d).",
							  result, knob->min, knob->max), NULL);
	return result;
}

/* May the current role set this guard from one value to another? */
static bool
guard_allows(const Knob *knob, int from, int to)
{
	if (superuser() || from == to)
		return true;
	if (to == knob->none)
		return false;
	return from == knob->none || to < from;
}

static void
option_apply(PeekKnobs *knobs, const char *name, const JsonbValue *value)
{
	for (int i = 0; i < (int) lengthof(knob_table); i++)
	{
		const Knob *knob = &knob_table[i];
		int			number;

		if (strcmp(knob->name, name) != 0)
			continue;

		number = option_parse(knob, value);
		if (knob->guard && !guard_allows(knob, *knob_value(knobs, knob), number))
			option_error(name, "This limit can only be lowered by an option.",
						 psprintf("Ask a superuser to raise \"peekstash.%s\".",
								  name));
		*knob_value(knobs, knob) = number;
		return;
	}

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized option \"%s\"", name),
			 errhint("Options are the names of settings without the prefix \"peekstash.\".")));
}

/*
 * The settings in force for a call with these options (NULL = none).
 */
void
knobs_resolve(PeekKnobs *knobs, Jsonb *options)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;

	*knobs = settings;
	if (options == NULL)
		return;

	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("options must be a JSON object")));

	it = JsonbIteratorInit(&options->root);
	token = JsonbIteratorNext(&it, &value, true);	/* WJB_BEGIN_OBJECT */
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_KEY)
	{
		char	   *name = pnstrdup(value.val.string.val, value.val.string.len);

		(void) JsonbIteratorNext(&it, &value, true);	/* WJB_VALUE */
		option_apply(knobs, name, &value);
	}
}
