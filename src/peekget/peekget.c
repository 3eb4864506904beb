/*-------------------------------------------------------------------------
 *
 * peekget.c
 *	  Fetches an answer of peekstash into a file, and picks up where it broke
 *	  off.
 *
 * A download goes through the phases of the state file:
 *
 *		SUBMIT		the handle is made; whether the server has the answer
 *					is not known
 *		FETCH		it has; rows are fetched
 *		COMPLETE	all rows are in the file; the answer is released, the
 *					state file removed
 *
 * Each phase can be gone through again: a submit under the same handle returns
 * the answer that is there, rows can be fetched again by number, a release of
 * what is released does nothing.  So a later run takes up the phase it finds.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/peekget.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include <time.h>
#include <unistd.h>

#include "peekget/answer.h"
#include "peekget/fetch.h"
#include "peekget/output.h"
#include "peekget/progress.h"

#define RELEASE_TIME 10			/* seconds */
#define LEAVE_TIME 3			/* the same, when everything else failed */
#define MIN_SEGMENT_BYTES (4 * 1024 * 1024)
#define NUM_SEGMENTS 512		/* about; text is longer than the ruler says */

Options		options;
State		state;
volatile sig_atomic_t interrupted;

static Answer answer;
static Link link0;				/* the first one */
static bool begun;				/* the output is where the state says */
static int64 all_bytes = -1;	/* of the output, once that is known */
static char *old_handle;		/* of a download that is given up by --force */

double
now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* A message, on a line of its own. */
void
say(const char *format,...)
{
	va_list		args;
	int			save_errno = errno;

	progress_clear();
	fprintf(stderr, "peekget: ");
	va_start(args, format);
	errno = save_errno;
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* The first signal is heeded; who sends a second one means it. */
static void
on_signal(int signal_number)
{
	struct sigaction action = {0};

	interrupted = signal_number;
	action.sa_handler = SIG_DFL;
	sigaction(signal_number, &action, NULL);
}

static void
set_signals(void)
{
	static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {0};

	/* no SA_RESTART: a write to a pipe that nobody reads must end */
	action.sa_handler = on_signal;
	for (int i = 0; i < (int) lengthof(stops); i++)
	{
		struct sigaction old;

		/* as with nohup: what is ignored stays so */
		if (sigaction(stops[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(stops[i], &action, NULL);
	}
	/* errors of write() say it better */
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	sigaction(SIGXFSZ, &action, NULL);
}

/*
 * What is in the output is made durable first, then the state that says so.
 */
int
checkpoint(void)
{
	int			status = output_make_durable();

	if (status == EXIT_DONE && output_is_resumable())
		status = state_write();
	return status;
}


/* What is to be done */

/* Options of this run come before those of the first one. */
static void
merge_connection(void)
{
	Words		merged = {0};

	for (int i = 0; i < state.connection.count; i++)
	{
		if (words_find(&options.connection, state.connection.names[i]) == NULL)
			words_add(&merged, state.connection.names[i],
					  state.connection.values[i]);
	}
	for (int i = 0; i < options.connection.count; i++)
		words_add(&merged, options.connection.names[i],
				  options.connection.values[i]);
	state.connection = merged;
}

static bool
differs(const char *given, const char *kept)
{
	return given != NULL && (kept == NULL || strcmp(given, kept) != 0);
}

static int
other_request(const char *option)
{
	say("error: the unfinished download has another %s", option);
	fprintf(stderr, "Without it, --resume goes on with what \"%s.peekget\" says.\n",
			options.file);
	return EXIT_MISMATCH;
}

/* Whoever repeats the whole command line must mean the same. */
static int
compare_request(void)
{
	const Request *given = &options.request;
	const Request *kept = &state.request;

	if (differs(given->query, kept->query))
		return other_request("--query");
	if (differs(given->index, kept->index))
		return other_request("--index");
	if (differs(given->handle, kept->handle))
		return other_request("--handle");
	if (differs(given->filter, kept->filter))
		return other_request("--filter");
	if (differs(given->limit, kept->limit))
		return other_request("--limit");
	if (given->args.count > 0 && !words_equal(&given->args, &kept->args))
		return other_request("--arg");
	if (given->columns.count > 0 &&
		!words_equal(&given->columns, &kept->columns))
		return other_request("--columns");
	if (given->backward && !kept->backward)
		return other_request("direction");
	if (options.format >= 0 && options.format != (int) state.format)
		return other_request("--format");
	if (options.header >= 0 && options.header != (int) state.header)
		return other_request("--header");
	return EXIT_DONE;
}

static void
new_state(void)
{
	memset(&state, 0, sizeof(State));
	state.request = options.request;
	state.own = options.request.handle == NULL;
	state.phase = state.own ? PHASE_SUBMIT : PHASE_FETCH;
	state.handle = state.own ? make_handle() : options.request.handle;
	state.format = options.format >= 0 ? options.format : FORMAT_TEXT;
	state.header = options.header > 0;
	state.connection = options.connection;
	state.num_rows = -1;
}

/*
 * Fills "state": from the state file, or anew.  The output is open, and so no
 * other peekget is at these files.
 */
static int
find_state(void)
{
	int			status;
	bool		asked = options.request.query != NULL ||
		options.request.index != NULL || options.request.handle != NULL;

	if (options.resume && !output_is_resumable())
	{
		say("error: \"%s\" is not a file, and cannot be resumed", options.file);
		return EXIT_USAGE;
	}
	if (output_is_resumable() && state_exists())
	{
		if (options.resume)
		{
			status = state_read(&state);
			if (status == EXIT_DONE)
				status = compare_request();
			if (status != EXIT_DONE)
				return status;
			merge_connection();
			if (options.request.ttl != NULL)
				state.request.ttl = options.request.ttl;
			state.keep = state.keep || options.keep;
			return output_verify();
		}
		if (!options.force)
		{
			say("error: \"%s\" is an unfinished download", options.file);
			fprintf(stderr, "To go on with it: --resume.  To start anew: --force.\n");
			return EXIT_MISMATCH;
		}
		/* what cannot be read has no answer that we know of */
		if (state_read(&state) == EXIT_DONE && state.own && !state.keep)
			old_handle = state.handle;
	}
	else if (options.resume && !(asked && output_is_empty()))
	{
		say("error: there is nothing to resume: \"%s.peekget\" does not exist",
			options.file);
		if (!output_is_empty())
			fprintf(stderr, "A download that is complete has none any more.\n");
		return EXIT_MISMATCH;
	}
	new_state();
	state.keep = options.keep;
	return output_is_resumable() ? state_write() : EXIT_DONE;
}


/* Doing it */

static int
download(void)
{
	int			status = answer_find_functions(&link0, &answer);

	if (status == EXIT_DONE && old_handle != NULL)
		answer_release(&answer, old_handle, RELEASE_TIME);
	if (status == EXIT_DONE && state.phase == PHASE_SUBMIT)
	{
		status = answer_submit(&link0, &answer);
		if (status == EXIT_DONE)
			state.phase = PHASE_FETCH;
	}
	if (status == EXIT_DONE)
		status = answer_wait(&link0, &answer);
	if (status == EXIT_DONE)
		status = answer_describe(&link0, &answer);
	if (status == EXIT_DONE && state.num_rows < 0)
	{
		int64		bytes = answer.answer_bytes / NUM_SEGMENTS;

		state.num_rows = answer.num_rows;
		state.segment_bytes = Max(bytes, MIN_SEGMENT_BYTES);
	}
	/* From here on the old content of the file is gone; the state says so. */
	if (status == EXIT_DONE && output_is_resumable())
		status = state_write();
	if (status == EXIT_DONE)
		status = output_begin();
	if (status == EXIT_DONE)
	{
		begun = true;
		status = fetch_rows(&link0, &answer);
	}
	if (status == EXIT_DONE)
	{
		all_bytes = output_bytes();
		state.phase = PHASE_COMPLETE;
		status = checkpoint();
		if (status != EXIT_DONE)
			state.phase = PHASE_FETCH;
	}
	return status;
}

/* All rows are there: nothing is left behind. */
static int
clear_up(void)
{
	fetch_stop();
	if (state.own && !state.keep)
	{
		/* a later run, too, must find the functions */
		if (answer.schema != NULL ||
			answer_find_functions(&link0, &answer) == EXIT_DONE)
			answer_release(&answer, state.handle, RELEASE_TIME);
	}
	else if (!options.quiet && state.own)
		say("the answer is kept, with the handle %s", state.handle);
	if (output_is_resumable())
		state_remove();
	return output_close(false);
}

/*
 * It did not come to its end.  A file keeps what it has, and the server the
 * answer, for a later run; without a file the answer is of no use to anybody.
 */
static int
leave(int status)
{
	bool		refused = status == EXIT_SERVER || status == EXIT_GONE;
	bool		discard = false;

	fetch_stop();
	link_close(&link0);
	if (!output_is_resumable())
	{
		if (state.own && !state.keep && answer.schema != NULL && !refused &&
			status != EXIT_CONNECTION)
			answer_release(&answer, state.handle, LEAVE_TIME);
	}
	else if ((refused && state.phase == PHASE_SUBMIT) ||
			 (!options.resume && (answer.schema == NULL ||
								  (refused && state.num_rows < 0))))
	{
		/* the server has nothing for us, and the file is as it was */
		discard = true;
		state_remove();
	}
	else if (begun)
	{
		if (status == EXIT_OUTPUT)
		{
			output_give_up();
			/* what the file ends with must not be written once more */
			if (all_bytes >= 0 && state.bytes == all_bytes)
				state.phase = PHASE_COMPLETE;
			(void) state_write();
		}
		else
			(void) checkpoint();
	}
	if (interrupted && status == EXIT_SIGNAL + interrupted)
		say("interrupted by a signal");
	if (output_is_resumable() && !discard && status != EXIT_GONE &&
		status != EXIT_MISMATCH)
	{
		say(INT64_FORMAT " rows are safe in \"%s\"", state.rows, options.file);
		fprintf(stderr, "To go on: peekget --resume -o %s\n", options.file);
	}
	(void) output_close(discard);
	return status;
}

int
main(int argc, char **argv)
{
	int			status;

	set_signals();
	status = options_parse(argc, argv);
	if (status != EXIT_DONE)
		return status;
	status = output_open();
	if (status != EXIT_DONE)
		return status;
	status = find_state();
	if (status != EXIT_DONE)
	{
		(void) output_close(true);
		return status;
	}
	if (state.phase != PHASE_COMPLETE)
	{
		status = download();
		if (status == EXIT_DONE)
			progress_end(state.num_rows, output_bytes());
	}
	if (status == EXIT_DONE)
		return clear_up();
	progress_clear();
	return leave(status);
}
