/*-------------------------------------------------------------------------
 *
 * fetch.c
 *	  The rows of an answer, over several links, into the output.
 *
 * The answer is divided into chunks of neighbouring rows, a chunk is fetched
 * by one link at a time, page by page, and the chunks make a queue:
 *
 *		| chunk | chunk | chunk | not begun yet ...
 *		  head
 *
 * Rows of the head go right to the output, as they come.  Those of the others
 * are held in memory until their chunk is the head.  What is held altogether
 * is limited; a link that would hold more is not read from, until there is
 * room or its chunk is the head.  The head is never stopped, so there is
 * always progress.
 *
 * Behind a pooler that is not enough: stopped links may have all of its
 * server connections, and the head waits for one.  So if the head gets
 * nothing for a while and others are stopped, the last of them is closed.
 *
 * A COPY message is one row; the protocol promises it.  So rows can be counted
 * as they come, and whatever breaks off, the next page begins with the next
 * row.  At the end of a page the server says how many it sent, and the two
 * must agree.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/fetch.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include "peekget/answer.h"
#include "peekget/fetch.h"
#include "peekget/output.h"
#include "peekget/progress.h"

#define STALL_TIME 1.0			/* seconds that the head may get nothing */
#define BLOCK_BYTES (64 * 1024)

/* A binary COPY begins with this and four bytes each of flags and length. */
static const char signature[11] = "PGCOPY\n\377\r\n";

#define BINARY_HEADER 19

/* Part of what is held of a chunk. */
typedef struct Block
{
	struct Block *next;
	size_t		used;
	size_t		size;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Block;

typedef struct Chunk
{
	struct Chunk *next;
	int64		from;
	int64		rows;
	int64		got;			/* rows written or held */
	Link	   *link;			/* who fetches it just now */
	Block	   *first;			/* what is held */
	Block	   *last;
	int64		held_rows;
} Chunk;

static Answer *answer;
static Link links[64];			/* options.jobs of them */
static struct pollfd waits[64];
static Chunk *head;
static Chunk *tail;
static int64 next_row;			/* of the next chunk */
static size_t held;				/* bytes, of all chunks */
static size_t held_limit;
static double head_time;		/* when the head was last seen to get on */
static char *page_begin;		/* the statement of a page, in two parts */
static char *page_end;
static double row_bytes;		/* what a row is thought to need */

/* The answer's life is prolonged. */
static double touch_time;		/* next time; 0 = never */
static Link *touching;


/* Statements */

/* "t(c1 integer, ...)": names of our own, as the real ones may be the same */
static void
append_definition(PQExpBuffer text)
{
	for (int i = 0; i < answer->ncolumns; i++)
		appendPQExpBuffer(text, "%sc%d %s", i == 0 ? "t(" : ", ", i + 1,
						  answer->columns[i].type);
	appendPQExpBufferChar(text, ')');
}

static bool
name_is_taken(char **names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
	{
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/* Is it the name of another column of the answer? */
static bool
name_is_there(const char *name)
{
	for (int i = 0; i < answer->ncolumns; i++)
	{
		if (strcmp(answer->columns[i].name, name) == 0)
			return true;
	}
	return false;
}

/*
 * Keys of a JSON object must differ, or readers lose values: the second "a"
 * becomes "a_2".
 */
static char **
json_keys(void)
{
	char	  **keys = pg_malloc(sizeof(char *) * Max(answer->ncolumns, 1));

	for (int i = 0; i < answer->ncolumns; i++)
	{
		const char *name = answer->columns[i].name;

		keys[i] = pg_strdup(name);
		for (int n = 2; name_is_taken(keys, i, keys[i]); n++)
		{
			/* room for the number in what the server takes as a name */
			do
			{
				free(keys[i]);
				keys[i] = psprintf("%.50s_%d", name, n);
				n++;
			} while (name_is_there(keys[i]));
			n--;
		}
	}
	return keys;
}

static void
append_names(PQExpBuffer text, char **names)
{
	for (int i = 0; i < answer->ncolumns; i++)
	{
		char	   *name = quote_name(names[i]);

		appendPQExpBuffer(text, "%sc%d AS %s", i == 0 ? "" : ", ", i + 1, name);
		free(name);
	}
}

/* How COPY is told of the format; JSON travels in binary, without escapes */
static const char *
copy_options(void)
{
	switch (state.format)
	{
		case FORMAT_TEXT:
			return "FORMAT text";
		case FORMAT_CSV:
			return "FORMAT csv";
		case FORMAT_BINARY:
		case FORMAT_JSONL:
			break;
	}
	return "FORMAT binary";
}

static void
make_statements(void)
{
	PQExpBufferData text;

	initPQExpBuffer(&text);
	appendPQExpBuffer(&text, "%sCOPY (SELECT ", answer->pin);
	if (state.format == FORMAT_JSONL)
	{
		char	  **keys = json_keys();

		appendPQExpBufferStr(&text, "pg_catalog.row_to_json(r.*) FROM (SELECT ");
		append_names(&text, keys);
		for (int i = 0; i < answer->ncolumns; i++)
			free(keys[i]);
		free(keys);
	}
	else
		appendPQExpBufferChar(&text, '*');
	appendPQExpBuffer(&text, " FROM %s.peek_fetch_record('%s', ",
					  answer->schema, state.handle);
	page_begin = text.data;

	initPQExpBuffer(&text);
	appendPQExpBufferStr(&text, ") AS ");
	append_definition(&text);
	if (state.format == FORMAT_JSONL)
		appendPQExpBufferStr(&text, ") AS r");
	appendPQExpBuffer(&text, ") TO STDOUT (%s)", copy_options());
	page_end = text.data;
}

/* A letter of a name, as COPY writes text. */
static void
append_text(PQExpBuffer text, const char *c, int length)
{
	static const char control[] = "\b\f\n\r\t\v\\";
	static const char letters[] = "bfnrtv\\";
	const char *found = length == 1 ? strchr(control, *c) : NULL;

	if (found != NULL)
		appendPQExpBuffer(text, "\\%c", letters[found - control]);
	else
		appendBinaryPQExpBuffer(text, c, length);
}

/*
 * The line of names, as COPY writes it.
 */
static int
write_header(int encoding)
{
	PQExpBufferData text;
	int			status;

	initPQExpBuffer(&text);
	for (int i = 0; i < answer->ncolumns; i++)
	{
		const char *name = answer->columns[i].name;
		bool		csv = state.format == FORMAT_CSV;
		bool		quote = csv &&
			(strpbrk(name, ",\"\r\n") != NULL || *name == '\0' ||
			 (answer->ncolumns == 1 && strcmp(name, "\\.") == 0));
		int			length;

		if (i > 0)
			appendPQExpBufferChar(&text, csv ? ',' : '\t');
		if (quote)
			appendPQExpBufferChar(&text, '"');
		/* letter by letter: in some encodings letters end with a backslash */
		for (; *name != '\0'; name += length)
		{
			length = PQmblen(name, encoding);
			length = Min(length, (int) strlen(name));
			if (csv)
			{
				if (*name == '"')
					appendPQExpBufferChar(&text, '"');
				appendBinaryPQExpBuffer(&text, name, length);
			}
			else
				append_text(&text, name, length);
		}
		if (quote)
			appendPQExpBufferChar(&text, '"');
	}
	appendPQExpBufferChar(&text, '\n');
	status = output_write(text.data, text.len);
	if (status == EXIT_DONE)
		status = output_boundary(0);
	termPQExpBuffer(&text);
	return status;
}


/* Chunks */

static void
hold(Chunk *chunk, const char *data, size_t length)
{
	Block	   *block = chunk->last;

	if (block == NULL || block->size - block->used < length)
	{
		size_t		size = Max(BLOCK_BYTES, length);

		block = pg_malloc(offsetof(Block, data) + size);
		block->next = NULL;
		block->used = 0;
		block->size = size;
		if (chunk->last != NULL)
			chunk->last->next = block;
		else
			chunk->first = block;
		chunk->last = block;
	}
	memcpy(block->data + block->used, data, length);
	block->used += length;
	held += length;
}

/* What is held of the head goes to the output. */
static int
write_held(Chunk *chunk)
{
	int			status = EXIT_DONE;

	while (chunk->first != NULL && status == EXIT_DONE)
	{
		Block	   *block = chunk->first;

		status = output_write(block->data, block->used);
		held -= block->used;
		chunk->first = block->next;
		free(block);
	}
	if (chunk->first == NULL)
		chunk->last = NULL;
	if (status == EXIT_DONE && chunk->held_rows > 0)
	{
		status = output_boundary(chunk->held_rows);
		chunk->held_rows = 0;
	}
	return status;
}

/*
 * How many rows the next chunk shall have: such that it is one page, mostly.
 * A single link needs no chunks.
 */
static int64
chunk_rows(void)
{
	int64		left = answer->num_rows - next_row;
	int64		rows;

	if (options.jobs == 1)
		return left;
	rows = (int64) (0.9 * options.page_bytes / row_bytes);
	return Min(Max(rows, 1), left);
}

static Chunk *
new_chunk(void)
{
	Chunk	   *chunk = pg_malloc0(sizeof(Chunk));

	chunk->from = next_row;
	chunk->rows = chunk_rows();
	next_row += chunk->rows;
	if (head == NULL)
		head = chunk;
	else
		tail->next = chunk;
	tail = chunk;
	return chunk;
}

/*
 * Is there something to do for one more link, beside what "skip" others will
 * take that are still connecting?
 */
static Chunk *
next_work(int skip)
{
	int			waiting = 0;

	for (Chunk *chunk = head; chunk != NULL; chunk = chunk->next)
	{
		if (chunk->link == NULL && chunk->got < chunk->rows &&
			(chunk == head || held < held_limit) && skip-- == 0)
			return chunk;
		waiting++;
	}

	/* Whole chunks that wait are memory, too, soon. */
	if (next_row < answer->num_rows && held < held_limit &&
		waiting <= 2 * options.jobs)
		return new_chunk();
	return NULL;
}


/* Pages */

static bool
is_stopped(const Chunk *chunk)
{
	return chunk != head && held >= held_limit;
}

static bool
send_page(Link *link, Chunk *chunk)
{
	char	   *sql = psprintf("%s" INT64_FORMAT ", " INT64_FORMAT ", "
							   INT64_FORMAT "%s", page_begin,
							   chunk->from + chunk->got,
							   chunk->rows - chunk->got, options.page_bytes,
							   page_end);
	bool		sent = PQsendQuery(link->conn, sql);

	free(sql);
	if (!sent)
		return false;
	link->state = LINK_BUSY;
	link->chunk = chunk;
	link->in_copy = link->stalled = link->has_tag = false;
	link->page_rows = link->page_messages = link->page_bytes = 0;
	chunk->link = link;
	if (chunk == head)
		head_time = now_seconds();
	return true;
}

/* One row has come, or a frame of the binary format around rows. */
static int
take_row(Link *link, char *data, size_t length)
{
	Chunk	   *chunk = link->chunk;
	int			status = EXIT_DONE;

	if (state.format == FORMAT_BINARY || state.format == FORMAT_JSONL)
	{
		if (link->page_messages++ == 0)
		{
			if (length < BINARY_HEADER ||
				memcmp(data, signature, sizeof(signature)) != 0)
			{
				say("error: the server's binary COPY begins unlike any known one");
				return EXIT_SERVER;
			}
			data += BINARY_HEADER;
			length -= BINARY_HEADER;
		}
		/* the header alone, or the end: -1 for a number of fields */
		if (length == 0 ||
			(length == 2 && data[0] == '\377' && data[1] == '\377'))
			return EXIT_DONE;
	}
	if (state.format == FORMAT_JSONL)
	{
		/* a number of fields and a length, of two and four bytes */
		if (length < 6)
		{
			say("error: the server has sent a row without a value");
			return EXIT_SERVER;
		}
		data += 6;
		length -= 6;

		/*
		 * Values of type json keep the white space they were written with.
		 * Within strings there are no line ends, so any can become a space.
		 */
		for (char *c = data; (c = memchr(c, '\n', data + length - c)) != NULL;)
			*c = ' ';
		for (char *c = data; (c = memchr(c, '\r', data + length - c)) != NULL;)
			*c = ' ';
		/* libpq puts a zero after a row */
		data[length++] = '\n';
	}

	if (chunk->got >= chunk->rows)
	{
		say("error: the server has sent more rows than it was asked for");
		return EXIT_SERVER;
	}
	chunk->got++;
	link->page_rows++;
	link->page_bytes += length;
	if (chunk == head)
	{
		status = output_write(data, length);
		if (status == EXIT_DONE)
			status = output_boundary(1);
	}
	else
	{
		hold(chunk, data, length);
		chunk->held_rows++;
	}
	return status;
}

/* The link has nothing to do with its chunk any more. */
static void
leave_chunk(Link *link)
{
	if (link->chunk != NULL)
		link->chunk->link = NULL;
	link->chunk = NULL;
}

static int
link_lost(Link *link, const char *why)
{
	leave_chunk(link);
	if (touching == link)
		touching = NULL;
	return link_failed(link, why) ? EXIT_DONE : EXIT_CONNECTION;
}

/* The server says no to a page. */
static int
page_refused(Link *link)
{
	PGresult   *error = link->error;
	char	   *text;
	int			status;

	link->error = NULL;
	text = server_message(error);
	/* these may be otherwise in a moment; the link is made anew as well */
	if (is_connection_loss(error) || is_sqlstate(error, "57014") ||
		is_sqlstate(error, "53") || is_sqlstate(error, "55P03") ||
		is_sqlstate(error, "40"))
		status = link_lost(link, PQresultErrorField(error, PG_DIAG_SQLSTATE) ?
						   text : NULL);
	else if (is_sqlstate(error, "42704"))
		status = answer_is_gone(link, error);
	else
	{
		say("error: %s", text);
		status = EXIT_SERVER;
	}
	free(text);
	PQclear(error);
	return status;
}

/* The answer lives longer, or not: then it is tried again, there is time. */
static int
touch_ended(Link *link)
{
	static bool told = false;
	char	   *text;

	touching = NULL;
	if (link->error == NULL)
	{
		touch_time = now_seconds() + answer->lifetime / 3;
		link_succeeded(link);
		return EXIT_DONE;
	}
	if (is_connection_loss(link->error) || is_sqlstate(link->error, "42704"))
		return page_refused(link);
	text = server_message(link->error);
	if (!told)
		say("warning: the life of the answer could not be prolonged: %s", text);
	told = true;
	free(text);
	PQclear(link->error);
	link->error = NULL;
	return EXIT_DONE;
}

/* A page, or another statement, has ended. */
static int
statement_ended(Link *link)
{
	link->state = LINK_READY;
	if (touching == link)
		return touch_ended(link);

	if (link->error != NULL)
	{
		leave_chunk(link);
		return page_refused(link);
	}
	if (!link->has_tag || link->tag_rows != link->page_rows)
	{
		say("error: the server says that it sent " INT64_FORMAT
			" rows, and " INT64_FORMAT " have come",
			link->has_tag ? link->tag_rows : -1, link->page_rows);
		return EXIT_SERVER;
	}
	if (link->page_rows == 0)
	{
		say("error: the server has sent no rows where there must be some");
		return EXIT_SERVER;
	}
	link_succeeded(link);
	/* the next chunks by what rows are like here, in memory or by the ruler */
	row_bytes = Max((double) answer->answer_bytes / answer->num_rows,
					(double) link->page_bytes / link->page_rows);
	row_bytes = Max(row_bytes, 1);
	leave_chunk(link);
	return EXIT_DONE;
}

/*
 * Takes what has come over a link, as far as that is allowed.  "*rows" counts
 * what was taken.
 */
static int
drain(Link *link, int64 *rows)
{
	link->stalled = false;
	for (;;)
	{
		PGresult   *result;

		if (link->in_copy)
		{
			char	   *data;
			int			length;
			int			status;

			if (is_stopped(link->chunk))
			{
				link->stalled = true;
				return EXIT_DONE;
			}
			length = PQgetCopyData(link->conn, &data, 1);
			if (length == 0)
				return EXIT_DONE;
			if (length > 0)
			{
				(*rows)++;
				status = take_row(link, data, length);
				PQfreemem(data);
				if (status != EXIT_DONE)
					return status;
				continue;
			}
			/* the end, or an error: the result says which */
			link->in_copy = false;
		}
		if (PQisBusy(link->conn))
			return EXIT_DONE;
		result = PQgetResult(link->conn);
		if (result == NULL)
			return statement_ended(link);
		switch (PQresultStatus(result))
		{
			case PGRES_COPY_OUT:
				link->in_copy = true;
				break;
			case PGRES_COMMAND_OK:
				link->has_tag = true;
				link->tag_rows = strtoll(PQcmdTuples(result), NULL, 10);
				break;
			case PGRES_TUPLES_OK:
				if (touching == link)
					answer->lifetime = strtod(PQgetvalue(result, 0, 0), NULL);
				break;
			default:
				if (link->error == NULL)
				{
					link->error = result;
					result = NULL;
				}
				break;
		}
		PQclear(result);
	}
}

/*
 * Reads a link, until nothing more comes for now.  poll() does not know of
 * bytes that TLS has deciphered already, so an empty read is what tells.
 */
static int
read_link(Link *link)
{
	for (int i = 0; i < 64 && link->state == LINK_BUSY; i++)
	{
		int64		rows = 0;
		int			status;

		/* what is wrong with the connection will be a result */
		(void) PQconsumeInput(link->conn);
		status = drain(link, &rows);
		if (status != EXIT_DONE)
			return status;
		if (rows > 0 && (link->chunk == NULL || link->chunk == head))
			head_time = now_seconds();
		if (link->stalled || (rows == 0 && i > 0))
			break;
	}
	return EXIT_DONE;
}


/* The loop */

/* Chunks that are complete leave the queue. */
static int
advance_head(void)
{
	while (head != NULL)
	{
		Chunk	   *chunk = head;
		int			status = write_held(chunk);

		if (status != EXIT_DONE)
			return status;
		if (chunk->got < chunk->rows || chunk->link != NULL)
			break;
		head = chunk->next;
		head_time = now_seconds();
		free(chunk);
	}
	return EXIT_DONE;
}

/* Time to let the answer live on? */
static bool
send_touch(Link *link)
{
	double		now = now_seconds();
	char	   *sql;

	if (touch_time == 0 || now < touch_time || touching != NULL)
		return false;
	sql = answer_touch_statement(answer);
	if (PQsendQuery(link->conn, sql))
	{
		link->state = LINK_BUSY;
		touching = link;
	}
	free(sql);
	touch_time = now + answer->lifetime / 3;
	return touching == link;
}

/* Gives work to links, and starts those for which there is some. */
static int
assign(void)
{
	double		now = now_seconds();
	int			connecting = 0;
	int			status = EXIT_DONE;

	for (int i = 0; i < options.jobs && status == EXIT_DONE; i++)
	{
		Link	   *link = &links[i];
		Chunk	   *chunk;

		if (link->state == LINK_CONNECTING)
			connecting++;
		if (link->state != LINK_READY || send_touch(link))
			continue;
		chunk = next_work(0);
		if (chunk == NULL)
			break;
		if (!send_page(link, chunk))
			status = link_lost(link, NULL);
	}
	for (int i = 0; i < options.jobs && status == EXIT_DONE; i++)
	{
		Link	   *link = &links[i];

		if (link->state != LINK_DOWN || now < link->not_before)
			continue;
		if (next_work(connecting) == NULL)
			break;
		if (link_start(link))
			connecting++;
		else
			status = link_lost(link, NULL);
	}
	return status;
}

/*
 * The head waits, and others have what it waits for: lets the last of those
 * that are stopped go.  What is held of its chunk stays.
 */
static void
let_head_go_on(void)
{
	Chunk	   *last = NULL;

	if (now_seconds() - head_time < STALL_TIME)
		return;
	for (Chunk *chunk = head; chunk != NULL; chunk = chunk->next)
	{
		if (chunk->link != NULL && chunk->link->stalled)
			last = chunk;
	}
	if (last != NULL)
	{
		Link	   *link = last->link;

		leave_chunk(link);
		link_close(link);
		head_time = now_seconds();
	}
}

/* Waits until something comes; then takes it. */
static int
wait_and_read(void)
{
	int			nwaits = 0;
	Link	   *waiting[64];
	double		now = now_seconds();
	int			timeout = 100;

	for (int i = 0; i < options.jobs; i++)
	{
		Link	   *link = &links[i];

		if (link->state == LINK_BUSY && link->chunk != NULL &&
			is_stopped(link->chunk))
		{
			link->stalled = true;
			continue;
		}
		if (link->state == LINK_DOWN || link->state == LINK_READY)
			continue;
		/* what was held up in libpq does not wake poll() */
		if (link->stalled)
			timeout = 0;
		waits[nwaits].fd = PQsocket(link->conn);
		waits[nwaits].events = link_events(link);
		waits[nwaits].revents = 0;
		waiting[nwaits++] = link;
	}
	(void) poll(waits, nwaits, timeout);

	for (int i = 0; i < nwaits; i++)
	{
		Link	   *link = waiting[i];
		int			status = EXIT_DONE;

		if (link->state == LINK_CONNECTING)
		{
			if (waits[i].revents != 0)
				link_advance(link);
			if (link->polling == PGRES_POLLING_FAILED)
				status = link_lost(link, NULL);
			else if (link->state == LINK_CONNECTING && now > link->deadline)
				status = link_lost(link, "timeout expired");
		}
		/* now and then without being told: see read_link() */
		else if (waits[i].revents != 0 || link->stalled || timeout > 0)
			status = read_link(link);
		if (status != EXIT_DONE)
			return status;
	}
	return EXIT_DONE;
}

static int
write_binary(const char *data, size_t length)
{
	int			status = output_write(data, length);

	return status != EXIT_DONE ? status : output_boundary(0);
}

/* What comes before the first row. */
static int
write_beginning(Link *link)
{
	static const char zeroes[BINARY_HEADER - sizeof(signature)];
	int			status = EXIT_DONE;

	/* an output that is resumed has it */
	if (state.bytes > 0)
		return EXIT_DONE;
	if (state.format == FORMAT_BINARY)
	{
		status = output_write(signature, sizeof(signature));
		if (status == EXIT_DONE)
			status = write_binary(zeroes, sizeof(zeroes));
	}
	else if (state.header)
		status = write_header(PQclientEncoding(link->conn));
	return status;
}

/* Rows without columns: there is nothing to fetch but their number. */
static int
write_empty_rows(void)
{
	static const char *const rows[] = {"\n", "\n", "\0", "{}\n"};
	size_t		length = state.format == FORMAT_BINARY ? 2 :
		strlen(rows[state.format]);
	const char *row = state.format == FORMAT_BINARY ? "\0\0" :
		rows[state.format];

	while (output_rows() < answer->num_rows)
	{
		int			status = output_write(row, length);

		if (status == EXIT_DONE)
			status = output_boundary(1);
		if (status == EXIT_DONE && interrupted)
			status = EXIT_SIGNAL + interrupted;
		if (status != EXIT_DONE)
			return status;
	}
	return EXIT_DONE;
}

static int
fetch_loop(void)
{
	double		next_checkpoint = now_seconds() + options.checkpoint;
	int64		checked_bytes = output_bytes();

	while (output_rows() < answer->num_rows)
	{
		int			status = advance_head();

		if (status == EXIT_DONE && interrupted)
			status = EXIT_SIGNAL + interrupted;
		if (status == EXIT_DONE && output_rows() < answer->num_rows)
		{
			status = assign();
			if (status == EXIT_DONE)
				status = wait_and_read();
			let_head_go_on();
		}
		if (status == EXIT_DONE && now_seconds() >= next_checkpoint &&
			output_bytes() != checked_bytes)
		{
			status = checkpoint();
			next_checkpoint = now_seconds() + options.checkpoint;
			checked_bytes = output_bytes();
		}
		if (status != EXIT_DONE)
			return status;
		progress_rows(output_rows(), output_bytes());
	}
	return EXIT_DONE;
}

/*
 * Fetches what the output does not have yet.  "first" is a link that exists
 * already, and is ours from now on.
 */
int
fetch_rows(Link *first, Answer *which)
{
	int			status;

	answer = which;
	status = write_beginning(first);
	links[0] = *first;
	memset(first, 0, sizeof(Link));
	if (status != EXIT_DONE)
		return status;

	progress_begin(answer->num_rows, output_rows(), output_bytes());
	if (answer->ncolumns == 0)
		status = write_empty_rows();
	else
	{
		make_statements();
		next_row = output_rows();
		held_limit = (options.jobs + 1) * options.page_bytes;
		row_bytes = answer->num_rows == 0 ? 1 :
			Max((double) answer->answer_bytes / answer->num_rows, 1);
		if (answer->lifetime > 0)
			touch_time = now_seconds() +
				(options.resume ? 0 : answer->lifetime / 3);
		status = fetch_loop();
	}
	if (status == EXIT_DONE && state.format == FORMAT_BINARY)
		status = write_binary("\377\377", 2);
	return status;
}

/* Closes all links, whatever they are at. */
void
fetch_stop(void)
{
	for (int i = 0; i < options.jobs; i++)
		link_close(&links[i]);
}
