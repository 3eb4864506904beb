/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  The answer: submitted, waited for, described, released.
 *
 * The handle is of our own making and in the state file before it is
 * submitted.  So whatever is lost on the way, the same submit can be sent
 * again: the server returns the answer it has, or walks.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/answer.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include "peekget/answer.h"
#include "peekget/output.h"
#include "peekget/progress.h"

/* Settings that decide how values look; all pages are read with the same. */
static const char *const pinned[] = {
	"search_path", "DateStyle", "IntervalStyle", "TimeZone",
	"extra_float_digits", "bytea_output", "xmlbinary", "lc_monetary"
};

/* A second link, that looks while the first one waits. */
static Link watcher;
static const char *watched_schema;
static double watch_from;		/* the next look; 0 = none */
static char watched[128];		/* what it has seen */

/*
 * A uuid of version 7, which the server makes too: by its time the server can
 * say of an unknown handle when it was made.
 */
char *
make_handle(void)
{
	unsigned char bytes[16];
	char		text[37];
	struct timeval now;
	uint64		ms;
	int			fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC, 0);
	char	   *to = text;

	if (fd < 0 || read(fd, bytes, sizeof(bytes)) != sizeof(bytes))
	{
		say("error: could not read \"/dev/urandom\": %m");
		exit(EXIT_USAGE);
	}
	close(fd);
	gettimeofday(&now, NULL);
	ms = (uint64) now.tv_sec * 1000 + now.tv_usec / 1000;
	for (int i = 0; i < 6; i++)
		bytes[i] = (ms >> (8 * (5 - i))) & 0xff;
	bytes[6] = (bytes[6] & 0x0f) | 0x70;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	for (int i = 0; i < 16; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		to += sprintf(to, "%02x", bytes[i]);
	}
	return pg_strdup(text);
}

/* A name as an identifier; no client encoding hides a quote in a letter. */
char *
quote_name(const char *name)
{
	char	   *quoted = pg_malloc(2 * strlen(name) + 3);
	char	   *to = quoted;

	*to++ = '"';
	for (; *name != '\0'; name++)
	{
		if (*name == '"')
			*to++ = '"';
		*to++ = *name;
	}
	*to++ = '"';
	*to = '\0';
	return quoted;
}

static void
append_literal(PQExpBuffer text, Link *link, const char *value)
{
	char	   *literal = PQescapeLiteral(link->conn, value, strlen(value));

	if (literal == NULL)
	{
		say("error: \"%s\" is no text: %s", value,
			PQerrorMessage(link->conn));
		exit(EXIT_USAGE);
	}
	appendPQExpBufferStr(text, literal);
	PQfreemem(literal);
}

/* The server has refused something. */
static int
refused(const PGresult *result)
{
	char	   *text = server_message(result);

	say("error: %s", text);
	free(text);
	return EXIT_SERVER;
}

/*
 * Where the functions are, and what the session is like.  They need not be in
 * the search path.
 */
int
answer_find_functions(Link *link, Answer *answer)
{
	PQExpBufferData text;
	PGresult   *result;
	Reply		reply;
	int			status = EXIT_DONE;

	initPQExpBuffer(&text);
	appendPQExpBufferStr(&text,
						 "SELECT pg_catalog.quote_ident(n.nspname), "
						 "extract(epoch FROM pg_catalog.pg_postmaster_start_time())");
	for (int i = 0; i < (int) lengthof(pinned); i++)
		appendPQExpBuffer(&text, ", pg_catalog.current_setting('%s')",
						  pinned[i]);
	appendPQExpBufferStr(&text,
						 " FROM pg_catalog.pg_extension e "
						 "JOIN pg_catalog.pg_namespace n "
						 "ON n.oid OPERATOR(pg_catalog.=) e.extnamespace "
						 "WHERE e.extname OPERATOR(pg_catalog.=) 'peekstash'");
	reply = link_query(link, text.data, 0, NULL, &result);
	if (reply == REPLY_STOP)
		status = link_status;
	else if (reply == REPLY_ERROR)
		status = refused(result);
	else if (PQntuples(result) == 0)
	{
		say("error: database \"%s\" does not have the extension peekstash",
			PQdb(link->conn));
		status = EXIT_SERVER;
	}
	if (status != EXIT_DONE)
	{
		if (reply != REPLY_STOP)
			PQclear(result);
		termPQExpBuffer(&text);
		return status;
	}
	answer->schema = pg_strdup(PQgetvalue(result, 0, 0));
	if (state.server_start == NULL || state.phase == PHASE_SUBMIT)
		state.server_start = pg_strdup(PQgetvalue(result, 0, 1));
	if (state.settings.count == 0)
	{
		for (int i = 0; i < (int) lengthof(pinned); i++)
			words_add(&state.settings, pinned[i],
					  PQgetvalue(result, 0, 2 + i));
	}
	PQclear(result);
	if (state.encoding == NULL)
		state.encoding =
			pg_strdup(PQparameterStatus(link->conn, "client_encoding"));

	/*
	 * In front of a statement, in one message with it, this is one
	 * transaction, and local to it: nothing is left in a backend of a pooler.
	 * A page is spooled by the server; work_mem makes sure that this takes no
	 * file.
	 */
	resetPQExpBuffer(&text);
	appendPQExpBuffer(&text, "SELECT pg_catalog.set_config('work_mem', "
					  "'" INT64_FORMAT "kB', true)",
					  Max(4 * options.page_bytes / 1024, INT64CONST(4096)));
	for (int i = 0; i < state.settings.count; i++)
	{
		appendPQExpBufferStr(&text, ", pg_catalog.set_config(");
		append_literal(&text, link, state.settings.names[i]);
		appendPQExpBufferStr(&text, ", ");
		append_literal(&text, link, state.settings.values[i]);
		appendPQExpBufferStr(&text, ", true)");
	}
	appendPQExpBufferStr(&text, "; ");
	answer->pin = pg_strdup(text.data);
	termPQExpBuffer(&text);
	return EXIT_DONE;
}


/* Submitting and waiting */

/* Looks once a second how far it is, as far as that is to be seen. */
static void
watch(void)
{
	struct pollfd ready;
	double		now = now_seconds();
	static double begun;

	if (begun == 0)
		begun = now;
	progress_note("waiting for the answer, %.0f s%s", now - begun, watched);
	if (options.quiet || watch_from == 0 || now < watch_from)
		return;

	switch (watcher.state)
	{
		case LINK_DOWN:
			if (!link_start(&watcher))
				watch_from = 0;
			return;
		case LINK_READY:
			{
				char	   *sql = psprintf("SELECT phase, positions, num_rows "
										   "FROM %s.peek_status('%s')",
										   watched_schema, state.handle);

				if (!PQsendQuery(watcher.conn, sql))
					watch_from = 0;
				free(sql);
				watcher.state = LINK_BUSY;
			}
			return;
		case LINK_CONNECTING:
		case LINK_BUSY:
			break;
	}

	ready.fd = PQsocket(watcher.conn);
	ready.events = link_events(&watcher);
	if (poll(&ready, 1, 0) <= 0)
		return;
	if (watcher.state == LINK_CONNECTING)
	{
		link_advance(&watcher);
		if (watcher.polling == PGRES_POLLING_FAILED)
			watch_from = 0;
	}
	else if (!PQconsumeInput(watcher.conn))
		watch_from = 0;
	else
	{
		while (!PQisBusy(watcher.conn))
		{
			PGresult   *result = PQgetResult(watcher.conn);

			if (result == NULL)
			{
				watcher.state = LINK_READY;
				watch_from = now + 1;
				break;
			}
			/* An unknown handle is no error here: not everybody can look. */
			if (PQresultStatus(result) == PGRES_TUPLES_OK &&
				PQntuples(result) == 1 && !PQgetisnull(result, 0, 0))
				snprintf(watched, sizeof(watched),
						 ": %s, %s positions, %s rows",
						 PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1),
						 PQgetvalue(result, 0, 2));
			PQclear(result);
		}
	}
	if (watch_from == 0)
		link_close(&watcher);
}

static void
watch_begin(const Answer *answer)
{
	watched_schema = answer->schema;
	/* most answers are there before it is worth another connection */
	watch_from = now_seconds() + 1;
	link_tick = watch;
}

static void
watch_end(void)
{
	link_tick = NULL;
	link_close(&watcher);
}

/* Words as the text of an array; NULL if there are none. */
static char *
array_of(const Words *words)
{
	PQExpBufferData text;

	if (words->count == 0)
		return NULL;
	initPQExpBuffer(&text);
	for (int i = 0; i < words->count; i++)
	{
		appendPQExpBufferStr(&text, i == 0 ? "{\"" : ",\"");
		for (const char *c = words->values[i]; *c != '\0'; c++)
		{
			if (*c == '"' || *c == '\\')
				appendPQExpBufferChar(&text, '\\');
			appendPQExpBufferChar(&text, *c);
		}
		appendPQExpBufferChar(&text, '"');
	}
	appendPQExpBufferChar(&text, '}');
	return text.data;
}

static void
append_json(PQExpBuffer text, const char *name, const char *value)
{
	if (value == NULL)
		return;
	appendPQExpBuffer(text, "%s\"%s\": \"", text->len > 1 ? ", " : "", name);
	for (; *value != '\0'; value++)
	{
		if (*value == '"' || *value == '\\')
			appendPQExpBuffer(text, "\\%c", *value);
		else if ((unsigned char) *value < ' ')
			appendPQExpBuffer(text, "\\u%04x", *value);
		else
			appendPQExpBufferChar(text, *value);
	}
	appendPQExpBufferChar(text, '"');
}

/* The server shall not go on with what nobody waits for. */
static void
cancel_submit(Link *link)
{
	double		until = now_seconds() + 3;

	link_cancel(link);
	while (link->state == LINK_BUSY && PQisBusy(link->conn) &&
		   now_seconds() < until)
	{
		struct pollfd ready = {PQsocket(link->conn), POLLIN, 0};

		(void) poll(&ready, 1, 100);
		if (!PQconsumeInput(link->conn))
			break;
	}
	link_close(link);
}

/*
 * Submits the request under our handle; returns when the answer is there, or
 * on its way.
 */
int
answer_submit(Link *link, Answer *answer)
{
	const Request *request = &state.request;
	PQExpBufferData json;
	const char *params[7];
	int			nparams = 0;
	char	   *args = array_of(&request->args);
	char	   *columns = array_of(&request->columns);
	char	   *sql;
	PGresult   *result;
	Reply		reply;
	int			status = EXIT_DONE;

	initPQExpBuffer(&json);
	appendPQExpBufferChar(&json, '{');
	append_json(&json, "handle", state.handle);
	append_json(&json, "label", request->label);
	append_json(&json, "ttl", request->ttl);
	appendPQExpBufferChar(&json, '}');

	if (request->query != NULL)
	{
		sql = psprintf("SELECT %s.peek_query($1::pg_catalog.text, "
					   "$2::pg_catalog.text[], $3::pg_catalog.jsonb)",
					   answer->schema);
		params[nparams++] = request->query;
		params[nparams++] = args;
		params[nparams++] = json.data;
	}
	else
	{
		sql = psprintf("SELECT %s.peek_submit("
					   "$1::pg_catalog.text::pg_catalog.regclass, "
					   "columns => $2::pg_catalog.text[], "
					   "filter => $3::pg_catalog.text, "
					   "args => $4::pg_catalog.text[], "
					   "row_limit => $5::pg_catalog.int8, "
					   "backward => $6::pg_catalog.bool, "
					   "options => $7::pg_catalog.jsonb)", answer->schema);
		params[nparams++] = request->index;
		params[nparams++] = columns;
		params[nparams++] = request->filter;
		params[nparams++] = args;
		params[nparams++] = request->limit;
		params[nparams++] = request->backward ? "true" : "false";
		params[nparams++] = json.data;
	}

	watch_begin(answer);
	reply = link_query(link, sql, nparams, params, &result);
	watch_end();
	if (reply == REPLY_STOP)
	{
		if (interrupted)
			cancel_submit(link);
		status = link_status;
	}
	else
	{
		if (reply == REPLY_ERROR)
		{
			status = refused(result);
			if (request->query != NULL && is_sqlstate(result, "42883") &&
				strstr(PQresultErrorMessage(result), "peek_query") != NULL)
				fprintf(stderr, "The extension in this database does not know "
						"queries; try --index.\n");
		}
		PQclear(result);
	}
	termPQExpBuffer(&json);
	free(args);
	free(columns);
	free(sql);
	return status;
}

/*
 * The server says that it does not know the handle, or not any more.  Says
 * why, as far as that is known, and what to do.
 */
int
answer_is_gone(Link *link, const PGresult *error)
{
	char	   *text = server_message(error);
	PGresult   *result;
	bool		restarted = false;

	say("error: %s", text);
	if (link_try_query(link, "SELECT extract(epoch FROM "
					   "pg_catalog.pg_postmaster_start_time())", 10, &result))
	{
		restarted = PQresultStatus(result) == PGRES_TUPLES_OK &&
			state.server_start != NULL &&
			strcmp(PQgetvalue(result, 0, 0), state.server_start) != 0;
		PQclear(result);
	}
	if (strstr(text, "expired\n") != NULL || strstr(text, "has expired") != NULL)
		fprintf(stderr, "The life of the answer is over.\n");
	else if (restarted || link_saw_crash)
		fprintf(stderr, "The answer was lost in a crash of the server, which "
				"has been restarted since: answers\ndo not survive a crash.\n");
	else
		fprintf(stderr, "The answer has expired, was released, or was lost in "
				"a crash of the server.\n");
	if (!state.own)
		fprintf(stderr, "A new submit is needed: another handle.\n");
	else if (!output_is_resumable())
		fprintf(stderr, "A new submit is needed: run peekget again.\n");
	else
		fprintf(stderr, "A new submit is needed: run peekget with --force in "
				"place of --resume.  It begins with\nthe first row, as the new "
				"answer may have other rows.\n");
	free(text);
	return EXIT_GONE;
}

/* What an error about the handle means. */
static int
handle_error(Link *link, const PGresult *error)
{
	if (is_sqlstate(error, "42704"))
		return answer_is_gone(link, error);
	return refused(error);
}

/* Waits until the answer is there. */
int
answer_wait(Link *link, Answer *answer)
{
	char	   *sql = psprintf("SELECT %s.peek_wait('%s', '500 ms')",
							   answer->schema, state.handle);
	int			status = EXIT_DONE;
	bool		waiting = true;

	watch_begin(answer);
	while (waiting && status == EXIT_DONE)
	{
		PGresult   *result;
		Reply		reply = link_query(link, sql, 0, NULL, &result);

		if (reply == REPLY_STOP)
		{
			status = link_status;
			break;
		}
		if (reply == REPLY_ERROR)
			status = handle_error(link, result);
		else
			waiting = strcmp(PQgetvalue(result, 0, 0), "running") == 0 ||
				strcmp(PQgetvalue(result, 0, 0), "queued") == 0;
		PQclear(result);
	}
	watch_end();
	free(sql);
	return status;
}

/* How many rows, of which columns.  Whether they can be read is known then. */
int
answer_describe(Link *link, Answer *answer)
{
	PGresult   *result;
	Reply		reply;
	char	   *sql;
	int			status = EXIT_DONE;

	/* Types are named as the pinned search_path wants them named. */
	sql = psprintf("%sSELECT name, pg_catalog.format_type(type, typmod) "
				   "FROM %s.peek_columns('%s') ORDER BY ordinal",
				   answer->pin, answer->schema, state.handle);
	reply = link_query(link, sql, 0, NULL, &result);
	free(sql);
	if (reply == REPLY_STOP)
		return link_status;
	if (reply == REPLY_ERROR)
	{
		status = handle_error(link, result);
		PQclear(result);
		return status;
	}
	answer->ncolumns = PQntuples(result);
	answer->columns = pg_malloc(sizeof(Column) * Max(answer->ncolumns, 1));
	for (int i = 0; i < answer->ncolumns; i++)
	{
		answer->columns[i].name = pg_strdup(PQgetvalue(result, i, 0));
		answer->columns[i].type = pg_strdup(PQgetvalue(result, i, 1));
	}
	PQclear(result);

	sql = psprintf("SELECT num_rows, answer_bytes, extract(epoch FROM "
				   "expires_at - pg_catalog.clock_timestamp()) "
				   "FROM %s.peek_status('%s')", answer->schema, state.handle);
	reply = link_query(link, sql, 0, NULL, &result);
	free(sql);
	if (reply == REPLY_STOP)
		return link_status;
	if (reply == REPLY_ERROR)
	{
		status = handle_error(link, result);
		PQclear(result);
		return status;
	}
	answer->num_rows = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	answer->answer_bytes = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
	/* An answer of somebody's is theirs to prolong, unless we are told to. */
	if (state.own || state.request.ttl != NULL)
		answer->lifetime = strtod(PQgetvalue(result, 0, 2), NULL);
	PQclear(result);

	if (state.num_rows >= 0 && state.num_rows != answer->num_rows)
	{
		say("error: the answer has " INT64_FORMAT " rows, and had "
			INT64_FORMAT, answer->num_rows, state.num_rows);
		status = EXIT_MISMATCH;
	}
	return status;
}

/* For a long download: the answer shall live on from now. */
char *
answer_touch_statement(Answer *answer)
{
	const char *ttl = state.request.ttl;
	PQExpBufferData text;

	initPQExpBuffer(&text);
	appendPQExpBuffer(&text, "SELECT extract(epoch FROM %s.peek_touch('%s'",
					  answer->schema, state.handle);
	if (ttl != NULL)
	{
		/* a dollar quote with a tag that it does not have */
		const char *tag = "$ttl$";

		if (strchr(ttl, '$') == NULL)
			appendPQExpBuffer(&text, ", %s%s%s", tag, ttl, tag);
	}
	appendPQExpBufferStr(&text, ") - pg_catalog.clock_timestamp())");
	return text.data;
}

/* Deletes an answer of ours; in vain at most for some seconds. */
void
answer_release(Answer *answer, const char *handle, double seconds)
{
	Link		link = {0};
	PGresult   *result;
	char	   *sql;

	if (answer->schema == NULL)
		return;
	sql = psprintf("SELECT %s.peek_release('%s')", answer->schema, handle);
	if (!link_try_query(&link, sql, seconds, &result))
		say("warning: answer %s could not be released; it will expire", handle);
	else
	{
		if (PQresultStatus(result) == PGRES_FATAL_ERROR)
		{
			char	   *text = server_message(result);

			say("warning: answer %s could not be released: %s", handle, text);
			free(text);
		}
		PQclear(result);
	}
	link_close(&link);
	free(sql);
}
