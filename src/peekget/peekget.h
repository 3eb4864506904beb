/*-------------------------------------------------------------------------
 *
 * peekget.h
 *	  What the files of peekget share.
 *
 * peekget is a client: it knows the SQL surface of the extension and libpq,
 * and includes nothing of the extension.
 *
 *		options		the command line
 *		state		FILE.peekget: what a later run must know
 *		output		the file or pipe: order, checksums, what is durable
 *		link		a connection that comes back, and statements over it
 *		answer		the answer: submitted, waited for, described, released
 *		fetch		its rows, over several links, into the output
 *		progress	what people see meanwhile
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/peekget.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKGET_H
#define PEEKGET_H

#include "postgres_fe.h"

#include <signal.h>

#include "libpq-fe.h"
#include "pqexpbuffer.h"

/*
 * Exit statuses, as documented.  Most functions return one of them; whatever
 * is not EXIT_DONE has been told to the user already.
 */
#define EXIT_DONE		0
#define EXIT_SERVER		1		/* the server refused, or cannot do it */
#define EXIT_USAGE		2
#define EXIT_CONNECTION 3		/* none, or lost for longer than --retry */
#define EXIT_OUTPUT		4		/* the output cannot be written */
#define EXIT_GONE		5		/* the server does not have the answer */
#define EXIT_MISMATCH	6		/* file and state do not fit together */
#define EXIT_PIPE		7		/* nobody reads the output any more */
#define EXIT_SIGNAL		128		/* and the number of the signal */

typedef enum Format
{
	FORMAT_TEXT,
	FORMAT_CSV,
	FORMAT_BINARY,
	FORMAT_JSONL
} Format;

/* Words by name, in the order in which they were given. */
typedef struct Words
{
	int			count;
	char	  **names;
	char	  **values;
} Words;

/* What to read.  One of the first three is set. */
typedef struct Request
{
	char	   *query;
	char	   *index;
	char	   *handle;
	char	   *filter;
	Words		args;			/* names are all "arg" */
	Words		columns;		/* "column"; none = all */
	bool		backward;
	char	   *limit;
	char	   *ttl;
	char	   *label;
} Request;

typedef struct Options
{
	Words		connection;		/* keywords of libpq */
	Words		secrets;		/* those that are never written anywhere */
	int			prompt;			/* 1 always, 0 if asked for, -1 never */
	Request		request;
	char	   *file;			/* NULL = standard output */
	int			format;			/* Format; -1 = not given */
	int			header;			/* -1 = not given */
	int			jobs;
	int64		page_bytes;
	int			retry;			/* seconds */
	double		checkpoint;		/* seconds */
	bool		keep;
	bool		resume;
	bool		force;
	bool		verify;
	bool		quiet;
} Options;

/*
 * What is known of a download.  Rows, bytes and checksums are what the output
 * had when it was last made durable.
 */
typedef enum Phase
{
	PHASE_SUBMIT,				/* does the server have an answer? */
	PHASE_FETCH,				/* it has one; the output may be begun */
	PHASE_COMPLETE				/* only the clearing up is left */
} Phase;

typedef struct State
{
	Phase		phase;
	char	   *handle;
	bool		own;			/* we made the answer */
	bool		keep;
	Format		format;
	bool		header;
	char	   *encoding;		/* client_encoding; NULL = not known yet */
	char	   *server_start;	/* when the server that has it was started */
	Request		request;
	Words		connection;
	Words		settings;		/* that decide how values look */
	int64		num_rows;		/* of the answer; -1 = not known yet */
	int64		rows;
	int64		bytes;
	int64		segment_bytes;
	int			nsegments;		/* whole segments */
	uint32	   *segments;		/* their checksums */
	uint32		rest;			/* the checksum of what follows them */
} State;

/* A column of the answer. */
typedef struct Column
{
	char	   *name;
	char	   *type;
} Column;

/* The answer as the server describes it. */
typedef struct Answer
{
	char	   *schema;			/* of the functions, quoted */
	char	   *pin;			/* makes values look as recorded */
	int64		num_rows;
	int64		answer_bytes;
	double		lifetime;		/* seconds; 0 = not ours to prolong */
	int			ncolumns;
	Column	   *columns;
} Answer;

extern Options options;
extern State state;
extern volatile sig_atomic_t interrupted;	/* number of the signal */

/* peekget.c */
extern double now_seconds(void);
extern void say(const char *format,...) pg_attribute_printf(1, 2);
extern int	checkpoint(void);

/* options.c */
extern int	options_parse(int argc, char **argv);
extern const char *format_name(Format format);
extern int	format_by_name(const char *name);
extern void words_add(Words *words, const char *name, const char *value);
extern const char *words_find(const Words *words, const char *name);
extern bool words_equal(const Words *a, const Words *b);

/* state.c */
extern char *state_file_name(const char *suffix);
extern bool state_exists(void);
extern int	state_read(State *into);
extern int	state_write(void);
extern void state_remove(void);

#endif							/* PEEKGET_H */
