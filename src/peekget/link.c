/*-------------------------------------------------------------------------
 *
 * link.c
 *	  A connection that comes back, and statements over it.
 *
 * Nothing here blocks: not the making of a connection, which libpq can do
 * step by step, and no statement.  So a signal is seen at once, progress goes
 * on, and several links can be served side by side.
 *
 * A link that fails waits before it tries again, twice as long each time.
 * When there were nothing but failures for options.retry seconds, peekget
 * gives up; before the first connection at once, because then it is rather a
 * wrong name than a restart.
 *
 * A link has no state of its own in the server: no setting, no prepared
 * statement.  Each statement may run in another backend, as behind a pooler.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/link.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include "common/string.h"
#include "peekget/link.h"
#include "peekget/progress.h"

#define FIRST_DELAY 0.1			/* seconds */
#define LAST_DELAY 10.0
#define CONNECT_TIMEOUT 30		/* unless connect_timeout says otherwise */
#define TICK 100				/* milliseconds */

void		(*link_tick) (void) = NULL;
int			link_status;
bool		link_saw_crash;

/* A connection was made once: what fails from now on may come back. */
static bool was_connected;

/* Since when nothing but failures; 0 = all is well. */
static double failing_since;

static int
connect_timeout(void)
{
	const char *text = words_find(&state.connection, "connect_timeout");
	int			seconds;

	if (text == NULL)
		text = getenv("PGCONNECT_TIMEOUT");
	seconds = text != NULL ? atoi(text) : 0;
	/* libpq takes one second for two */
	return seconds <= 0 ? CONNECT_TIMEOUT : Max(seconds, 2);
}

/* Begins to connect.  False if that is impossible for now. */
bool
link_start(Link *link)
{
	const Words *given[] = {&state.connection, &options.secrets};
	const char **names;
	const char **values;
	int			n = 0;

	names = pg_malloc(sizeof(char *) *
					  (state.connection.count + options.secrets.count + 6));
	values = pg_malloc(sizeof(char *) *
					   (state.connection.count + options.secrets.count + 6));

	/*
	 * A line that has gone dead shall be noticed within minutes, not after
	 * the two hours of most systems.  What comes later in the list wins.
	 */
	names[n] = "keepalives_idle";
	values[n++] = "60";
	names[n] = "keepalives_interval";
	values[n++] = "10";
	names[n] = "keepalives_count";
	values[n++] = "6";
	names[n] = "fallback_application_name";
	values[n++] = "peekget";
	for (int i = 0; i < (int) lengthof(given); i++)
	{
		for (int j = 0; j < given[i]->count; j++)
		{
			names[n] = given[i]->names[j];
			values[n++] = given[i]->values[j];
		}
	}
	/* A file that is resumed has one encoding from beginning to end. */
	if (state.encoding != NULL)
	{
		names[n] = "client_encoding";
		values[n++] = state.encoding;
	}
	names[n] = values[n] = NULL;

	link->conn = PQconnectStartParams(names, values, 0);
	free(names);
	free(values);
	if (link->conn == NULL)
	{
		say("error: out of memory");
		exit(EXIT_SERVER);
	}
	link->state = LINK_CONNECTING;
	link->polling = PGRES_POLLING_WRITING;
	link->deadline = now_seconds() + connect_timeout();
	return PQstatus(link->conn) != CONNECTION_BAD;
}

/* What poll() is to wait for. */
short
link_events(Link *link)
{
	if (link->state == LINK_CONNECTING)
		return link->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;
	return link->state == LINK_BUSY ? POLLIN : 0;
}

/* "terminating connection because of crash of another server process" */
static void
hear_notice(void *arg, const PGresult *result)
{
	(void) arg;
	if (is_sqlstate(result, "57P02"))
		link_saw_crash = true;
}

/*
 * Goes on connecting, when poll() has seen what it waited for.  The state
 * afterwards is CONNECTING, READY, or still CONNECTING with a connection that
 * is bad: that is the caller's to report by link_failed().
 */
void
link_advance(Link *link)
{
	link->polling = PQconnectPoll(link->conn);
	if (link->polling == PGRES_POLLING_OK)
	{
		PQsetNoticeReceiver(link->conn, hear_notice, NULL);
		link->state = LINK_READY;
		was_connected = true;
	}
}

/*
 * The server did what it was asked for.  A connection alone does not tell:
 * a pooler lets everybody in.
 */
void
link_succeeded(Link *link)
{
	link->delay = 0;
	failing_since = 0;
}

void
link_close(Link *link)
{
	if (link->conn != NULL)
		PQfinish(link->conn);
	link->conn = NULL;
	PQclear(link->error);
	link->error = NULL;
	link->state = LINK_DOWN;
	link->in_copy = link->stalled = false;
	link->chunk = NULL;
}

/* A message of libpq or the server without its last line end. */
static char *
trimmed(const char *text)
{
	char	   *copy = pg_strdup(text);
	size_t		length = strlen(copy);

	while (length > 0 && isspace((unsigned char) copy[length - 1]))
		copy[--length] = '\0';
	return copy;
}

/*
 * The link cannot be used any more, or the server said something that may be
 * otherwise in a moment.  Closes it; it may be started again when "not_before"
 * is over.  False if it is time to give up, which is told.
 */
bool
link_failed(Link *link, const char *why)
{
	double		now = now_seconds();
	char	   *text;

	if (why == NULL)
		why = link->conn != NULL ? PQerrorMessage(link->conn) : "";
	text = trimmed(why);
	link_close(link);
	if (!was_connected)
	{
		say("error: %s", text);
		free(text);
		return false;
	}
	if (failing_since == 0)
		failing_since = now;
	if (now - failing_since >= options.retry)
	{
		say("error: giving up after %d seconds: %s", options.retry, text);
		free(text);
		return false;
	}
	progress_note("trying again: %.200s", text);
	free(text);
	link->delay = link->delay == 0 ? FIRST_DELAY :
		Min(2 * link->delay, LAST_DELAY);
	link->not_before = now + link->delay;
	return true;
}

bool
is_sqlstate(const PGresult *result, const char *prefix)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return sqlstate != NULL &&
		strncmp(sqlstate, prefix, strlen(prefix)) == 0;
}

/*
 * Is this error one of the connection, so that the statement may succeed over
 * another?  Without SQLSTATE it is libpq's own.
 */
bool
is_connection_loss(const PGresult *result)
{
	if (PQresultStatus(result) != PGRES_FATAL_ERROR)
		return false;
	return PQresultErrorField(result, PG_DIAG_SQLSTATE) == NULL ||
		is_sqlstate(result, "08") || is_sqlstate(result, "57P") ||
		is_sqlstate(result, "53300");
}

/*
 * The server's words: SQLSTATE, message, detail, hint.  Where in
 * its source it stood is nobody's business.
 */
char *
server_message(const PGresult *result)
{
	char	   *full = PQresultVerboseErrorMessage(result, PQERRORS_VERBOSE,
												   PQSHOW_CONTEXT_NEVER);
	const char *words = full != NULL ? full : PQresultErrorMessage(result);
	char	   *text;
	char	   *location;

	/* that it is an error is said anyway */
	if (strncmp(words, "ERROR:  ", 8) == 0)
		words += 8;
	text = trimmed(words);
	location = strstr(text, "\nLOCATION:  ");
	while (location != NULL && strchr(location + 1, '\n') != NULL)
		location = strstr(location + 1, "\nLOCATION:  ");
	if (location != NULL)
		*location = '\0';
	if (full != NULL)
		PQfreemem(full);
	return text;
}

/* Waits for what the link waits for, or a tick. */
static void
wait_for(Link *link, double until)
{
	struct pollfd wait;
	int			timeout = TICK;
	double		left = (until - now_seconds()) * 1000;

	if (link != NULL)
	{
		wait.fd = PQsocket(link->conn);
		wait.events = link_events(link);
	}
	if (until > 0 && left < timeout)
		timeout = left > 0 ? (int) left + 1 : 0;
	(void) poll(&wait, link != NULL ? 1 : 0, timeout);
	if (link_tick != NULL)
		link_tick();
}

/* Asks for a password, if that may help.  True if there is a new one. */
static bool
ask_password(Link *link, bool needed)
{
	char	   *password;

	if (options.prompt < 0 || (!needed && options.prompt == 0))
		return false;
	if (link->conn != NULL && PQuser(link->conn) != NULL && needed)
	{
		char	   *prompt = psprintf("Password for user %s: ",
									  PQuser(link->conn));

		password = simple_prompt(prompt, false);
		free(prompt);
	}
	else
		password = simple_prompt("Password: ", false);
	words_add(&options.secrets, "password", password);
	free(password);
	return true;
}

/* Makes the link READY, however long that takes. */
static Reply
link_make_ready(Link *link)
{
	if (link->state == LINK_DOWN && options.prompt > 0)
	{
		ask_password(link, false);
		options.prompt = 0;
	}
	for (;;)
	{
		if (interrupted)
		{
			link_status = EXIT_SIGNAL + interrupted;
			return REPLY_STOP;
		}
		switch (link->state)
		{
			case LINK_READY:
			case LINK_BUSY:
				return REPLY_OK;
			case LINK_DOWN:
				if (now_seconds() < link->not_before)
					wait_for(NULL, link->not_before);
				else if (!link_start(link))
				{
					if (!link_failed(link, NULL))
					{
						link_status = EXIT_CONNECTION;
						return REPLY_STOP;
					}
				}
				break;
			case LINK_CONNECTING:
				{
					struct pollfd ready;

					wait_for(link, link->deadline);
					ready.fd = PQsocket(link->conn);
					ready.events = link_events(link);
					if (poll(&ready, 1, 0) > 0)
						link_advance(link);
					if (link->state == LINK_READY)
						break;
					if (link->polling == PGRES_POLLING_FAILED)
					{
						if (!was_connected &&
							PQconnectionNeedsPassword(link->conn) &&
							ask_password(link, true))
							link_close(link);
						else if (!link_failed(link, NULL))
						{
							link_status = EXIT_CONNECTION;
							return REPLY_STOP;
						}
					}
					else if (now_seconds() > link->deadline &&
							 !link_failed(link, "timeout expired"))
					{
						link_status = EXIT_CONNECTION;
						return REPLY_STOP;
					}
				}
				break;
		}
	}
}

/* Has the statement that is running a result?  Waits, but not for ever. */
static bool
wait_for_result(Link *link, double until, bool heed_signals)
{
	while (PQisBusy(link->conn))
	{
		if (interrupted && heed_signals)
			return false;
		if (until > 0 && now_seconds() > until)
			return false;
		wait_for(link, until);
		/* an error is a result, too */
		(void) PQconsumeInput(link->conn);
	}
	return true;
}

/*
 * The last result of what was sent, or the first error among them; NULL if a
 * signal came or the time was over.
 */
static PGresult *
collect(Link *link, double until, bool heed_signals)
{
	PGresult   *last = NULL;

	for (;;)
	{
		PGresult   *result;

		if (!wait_for_result(link, until, heed_signals))
		{
			PQclear(last);
			return NULL;
		}
		result = PQgetResult(link->conn);
		if (result == NULL)
			break;
		if (last != NULL && PQresultStatus(last) == PGRES_FATAL_ERROR)
			PQclear(result);
		else
		{
			PQclear(last);
			last = result;
		}
	}
	/* a connection that was lost before may leave nothing at all */
	if (last == NULL)
		last = PQmakeEmptyPGresult(link->conn, PGRES_FATAL_ERROR);
	return last;
}

/*
 * Runs a statement, or several without parameters, until a server has
 * answered: a lost connection is made anew and the statement sent again, so
 * it must be one that can be repeated.  The result, of the last statement, is
 * the caller's to clear unless the reply is REPLY_STOP.
 */
Reply
link_query(Link *link, const char *sql, int nparams,
		   const char *const *params, PGresult **result)
{
	for (;;)
	{
		int			sent;
		Reply		reply = link_make_ready(link);
		char	   *why;

		if (reply != REPLY_OK)
			return reply;
		if (nparams > 0)
			sent = PQsendQueryParams(link->conn, sql, nparams, NULL, params,
									 NULL, NULL, 0);
		else
			sent = PQsendQuery(link->conn, sql);
		if (sent)
		{
			link->state = LINK_BUSY;
			*result = collect(link, 0, true);
			if (*result == NULL)
			{
				link_status = EXIT_SIGNAL + interrupted;
				return REPLY_STOP;
			}
			link->state = LINK_READY;
			if (PQresultStatus(*result) != PGRES_FATAL_ERROR)
			{
				link_succeeded(link);
				return REPLY_OK;
			}
			if (!is_connection_loss(*result))
			{
				link_succeeded(link);
				return REPLY_ERROR;
			}
			why = PQresultErrorField(*result, PG_DIAG_SQLSTATE) != NULL ?
				server_message(*result) : trimmed(PQerrorMessage(link->conn));
			PQclear(*result);
		}
		else
			why = trimmed(PQerrorMessage(link->conn));
		if (!link_failed(link, why))
		{
			free(why);
			link_status = EXIT_CONNECTION;
			return REPLY_STOP;
		}
		free(why);
	}
}

/*
 * The same once, for so many seconds at most, and in silence: for what is
 * nice to have.  The link is closed if it did not work.  Signals do not
 * matter, as this is also for what is done after one.
 */
bool
link_try_query(Link *link, const char *sql, double seconds, PGresult **result)
{
	double		until = now_seconds() + seconds;

	*result = NULL;
	if (link->state == LINK_DOWN && !link_start(link))
	{
		link_close(link);
		return false;
	}
	while (link->state == LINK_CONNECTING)
	{
		struct pollfd ready;

		ready.fd = PQsocket(link->conn);
		ready.events = link_events(link);
		if (poll(&ready, 1, TICK) > 0)
			link_advance(link);
		if (link->polling == PGRES_POLLING_FAILED || now_seconds() > until)
		{
			link_close(link);
			return false;
		}
	}
	if (link->state != LINK_READY || !PQsendQuery(link->conn, sql))
	{
		link_close(link);
		return false;
	}
	link->state = LINK_BUSY;
	*result = collect(link, until, false);
	if (*result == NULL || is_connection_loss(*result))
	{
		PQclear(*result);
		*result = NULL;
		link_close(link);
		return false;
	}
	link->state = LINK_READY;
	return true;
}

/* Asks the server to stop what the link is busy with. */
void
link_cancel(Link *link)
{
	PGcancel   *cancel;
	char		error[256];

	if (link->state != LINK_BUSY)
		return;
	cancel = PQgetCancel(link->conn);
	if (cancel != NULL)
		(void) PQcancel(cancel, error, sizeof(error));
	PQfreeCancel(cancel);
}
