/*-------------------------------------------------------------------------
 *
 * state.c
 *	  FILE.peekget: what a later run must know to go on with FILE.
 *
 * It is there from before the server is asked for anything until everything
 * is done, so that whoever finds FILE without it has all of it.  It is
 * replaced as a whole: written under another name, made durable, renamed.
 * What it says of FILE is durable before it is: see checkpoint().
 *
 * It is text, a name and a value to a line, with a checksum as the last line.
 * It has no password in it; it may have values of the request, so only its
 * owner may read it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/state.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/pg_crc32c.h"

#include "peekget/output.h"

#define STATE_VERSION "1"

static const char *const phase_names[] = {"submit", "fetch", "complete"};

/* FILE.peekget, with a suffix of its own. */
char *
state_file_name(const char *suffix)
{
	return psprintf("%s.peekget%s", options.file, suffix);
}

bool
state_exists(void)
{
	struct stat st;
	char	   *name = state_file_name("");
	bool		exists = lstat(name, &st) == 0;

	free(name);
	return exists;
}

static uint32
checksum(const char *data, size_t length)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, length);
	FIN_CRC32C(crc);
	return crc;
}

/* Values may have line ends in them. */
static void
put(PQExpBuffer text, const char *prefix, const char *name, const char *value)
{
	if (value == NULL)
		return;
	appendPQExpBuffer(text, "%s%s ", prefix, name);
	for (; *value != '\0'; value++)
	{
		if (*value == '\\')
			appendPQExpBufferStr(text, "\\\\");
		else if (*value == '\n')
			appendPQExpBufferStr(text, "\\n");
		else if (*value == '\r')
			appendPQExpBufferStr(text, "\\r");
		else
			appendPQExpBufferChar(text, *value);
	}
	appendPQExpBufferChar(text, '\n');
}

static void
put_number(PQExpBuffer text, const char *name, int64 value)
{
	appendPQExpBuffer(text, "%s " INT64_FORMAT "\n", name, value);
}

static void
put_words(PQExpBuffer text, const char *prefix, const Words *words)
{
	for (int i = 0; i < words->count; i++)
		put(text, prefix, words->names[i], words->values[i]);
}

static void
put_state(PQExpBuffer text)
{
	const Request *request = &state.request;

	appendPQExpBufferStr(text, "peekget " STATE_VERSION "\n");
	put(text, "", "phase", phase_names[state.phase]);
	put(text, "", "handle", state.handle);
	put_number(text, "own", state.own);
	put_number(text, "keep", state.keep);
	put(text, "", "format", format_name(state.format));
	put_number(text, "header", state.header);
	put(text, "", "encoding", state.encoding);
	put(text, "", "server-start", state.server_start);
	put(text, "request.", "query", request->query);
	put(text, "request.", "index", request->index);
	put(text, "request.", "handle", request->handle);
	put(text, "request.", "filter", request->filter);
	put_words(text, "request.", &request->args);
	put_words(text, "request.", &request->columns);
	put_number(text, "request.backward", request->backward);
	put(text, "request.", "limit", request->limit);
	put(text, "request.", "ttl", request->ttl);
	put(text, "request.", "label", request->label);
	put_words(text, "connection.", &state.connection);
	put_words(text, "setting.", &state.settings);
	put_number(text, "num-rows", state.num_rows);
	put_number(text, "rows", state.rows);
	put_number(text, "bytes", state.bytes);
	put_number(text, "segment-bytes", state.segment_bytes);
	for (int i = 0; i < state.nsegments; i++)
		appendPQExpBuffer(text, "segment %08x\n", state.segments[i]);
	appendPQExpBuffer(text, "rest %08x\n", state.rest);
	appendPQExpBuffer(text, "check %08x\n", checksum(text->data, text->len));
}

/* A renamed file is there after a crash only if its folder says so. */
static bool
sync_folder(const char *name)
{
	char	   *folder = pg_strdup(name);
	char	   *slash = strrchr(folder, '/');
	int			fd;
	bool		done;

	if (slash == NULL)
		strcpy(folder, ".");	/* a name has at least that much room */
	else if (slash == folder)
		folder[1] = '\0';
	else
		*slash = '\0';
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	free(folder);
	if (fd < 0)
		return false;
	/* not every file system can do that for a folder */
	done = fsync(fd) == 0 || errno == EINVAL || errno == EBADF;
	close(fd);
	return done;
}

static bool
write_all(int fd, const char *data, size_t length)
{
	while (length > 0)
	{
		ssize_t		written = write(fd, data, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return false;
		data += written;
		length -= written;
	}
	return true;
}

/*
 * Replaces the state file by what "state" says now.  After an error the old
 * one is there as it was.
 */
int
state_write(void)
{
	PQExpBufferData text;
	char	   *name = state_file_name("");
	char	   *temp = state_file_name(".tmp");
	int			fd;
	bool		done;
	int			error;

	initPQExpBuffer(&text);
	put_state(&text);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	done = fd >= 0 && !PQExpBufferDataBroken(text) &&
		write_all(fd, text.data, text.len) && fsync(fd) == 0;
	error = errno;
	if (fd >= 0 && close(fd) != 0 && done)
	{
		done = false;
		error = errno;
	}
	if (done && (rename(temp, name) != 0 || !sync_folder(name)))
	{
		done = false;
		error = errno;
	}
	if (!done)
	{
		say("error: could not write \"%s\": %s", name, strerror(error));
		unlink(temp);
	}
	termPQExpBuffer(&text);
	free(name);
	free(temp);
	return done ? EXIT_DONE : EXIT_OUTPUT;
}

/* Everything is done; or nothing was begun. */
void
state_remove(void)
{
	char	   *name = state_file_name("");
	char	   *temp = state_file_name(".tmp");

	unlink(temp);
	if (unlink(name) != 0 && errno != ENOENT)
		say("warning: could not remove \"%s\": %m", name);
	else
		sync_folder(name);
	free(name);
	free(temp);
}

static char *
read_all(const char *name, size_t *length)
{
	int			fd = open(name, O_RDONLY | O_CLOEXEC, 0);
	PQExpBufferData text;
	char		part[8192];
	ssize_t		n;

	if (fd < 0)
		return NULL;
	initPQExpBuffer(&text);
	while ((n = read(fd, part, sizeof(part))) > 0)
		appendBinaryPQExpBuffer(&text, part, n);
	close(fd);
	if (n < 0)
	{
		termPQExpBuffer(&text);
		return NULL;
	}
	*length = text.len;
	return text.data;
}

static char *
unescape(const char *value)
{
	char	   *copy = pg_malloc(strlen(value) + 1);
	char	   *to = copy;

	for (; *value != '\0'; value++)
	{
		if (*value == '\\' && value[1] != '\0')
		{
			value++;
			*to++ = *value == 'n' ? '\n' : *value == 'r' ? '\r' : *value;
		}
		else
			*to++ = *value;
	}
	*to = '\0';
	return copy;
}

/*
 * One line.  False if it is none that we write.  The value is a copy, which is
 * kept or freed here.
 */
static bool
take(State *into, const char *name, char *value)
{
	Request    *request = &into->request;
	const struct
	{
		const char *name;
		char	  **text;
	}			texts[] = {
		{"handle", &into->handle},
		{"encoding", &into->encoding},
		{"server-start", &into->server_start},
		{"request.query", &request->query},
		{"request.index", &request->index},
		{"request.handle", &request->handle},
		{"request.filter", &request->filter},
		{"request.limit", &request->limit},
		{"request.ttl", &request->ttl},
		{"request.label", &request->label}
	};
	const struct
	{
		const char *name;
		int64	   *number;
	}			numbers[] = {
		{"num-rows", &into->num_rows},
		{"rows", &into->rows},
		{"bytes", &into->bytes},
		{"segment-bytes", &into->segment_bytes}
	};
	const struct
	{
		const char *name;
		bool	   *flag;
	}			flags[] = {
		{"own", &into->own},
		{"keep", &into->keep},
		{"header", &into->header},
		{"request.backward", &request->backward}
	};
	bool		known = true;

	for (int i = 0; i < (int) lengthof(texts); i++)
	{
		if (strcmp(name, texts[i].name) == 0)
		{
			*texts[i].text = value;
			return true;
		}
	}

	if (strcmp(name, "phase") == 0)
	{
		known = false;
		for (int i = 0; i < (int) lengthof(phase_names); i++)
		{
			if (strcmp(value, phase_names[i]) == 0)
			{
				into->phase = i;
				known = true;
			}
		}
	}
	else if (strcmp(name, "format") == 0)
	{
		int			format = format_by_name(value);

		known = format >= 0;
		if (known)
			into->format = format;
	}
	else if (strcmp(name, "request.arg") == 0)
		words_add(&request->args, "arg", value);
	else if (strcmp(name, "request.column") == 0)
		words_add(&request->columns, "column", value);
	else if (strncmp(name, "connection.", 11) == 0)
		words_add(&into->connection, name + 11, value);
	else if (strncmp(name, "setting.", 8) == 0)
		words_add(&into->settings, name + 8, value);
	else if (strcmp(name, "segment") == 0)
	{
		into->segments = pg_realloc(into->segments,
									sizeof(uint32) * (into->nsegments + 1));
		into->segments[into->nsegments++] = strtoul(value, NULL, 16);
	}
	else if (strcmp(name, "rest") == 0)
		into->rest = strtoul(value, NULL, 16);
	else
	{
		known = false;
		for (int i = 0; i < (int) lengthof(numbers); i++)
		{
			if (strcmp(name, numbers[i].name) == 0)
			{
				*numbers[i].number = strtoll(value, NULL, 10);
				known = true;
			}
		}
		for (int i = 0; i < (int) lengthof(flags); i++)
		{
			if (strcmp(name, flags[i].name) == 0)
			{
				*flags[i].flag = atoi(value) != 0;
				known = true;
			}
		}
	}
	free(value);
	return known;
}

/*
 * Reads the state file, which exists.  The result lives as long as we do.
 */
int
state_read(State *into)
{
	char	   *name = state_file_name("");
	size_t		length;
	char	   *text = read_all(name, &length);
	const char *problem = NULL;
	char	   *check;
	char	   *line;

	memset(into, 0, sizeof(State));
	into->num_rows = -1;
	if (text == NULL)
	{
		say("error: could not read \"%s\": %m", name);
		return EXIT_MISMATCH;
	}

	/* "check 01234567\n" at the end, for all before it */
	check = length >= 15 ? text + length - 15 : NULL;
	if (strlen(text) != length || strncmp(text, "peekget ", 8) != 0)
		problem = "it is not a state file of peekget";
	else if (check == NULL || strncmp(check, "check ", 6) != 0 ||
			 strtoul(check + 6, NULL, 16) != checksum(text, check - text))
		problem = "it is damaged";
	else if (strncmp(text, "peekget " STATE_VERSION "\n",
					 strlen("peekget " STATE_VERSION "\n")) != 0)
		problem = "it was written by another version of peekget";
	else
	{
		*check = '\0';
		for (line = strchr(text, '\n') + 1; *line != '\0';)
		{
			char	   *end = strchr(line, '\n');
			char	   *space;

			*end = '\0';
			space = strchr(line, ' ');
			if (space == NULL)
				problem = "it is damaged";
			else
			{
				*space = '\0';
				if (!take(into, line, unescape(space + 1)))
					problem = "it is damaged";
			}
			line = end + 1;
		}
		if (problem == NULL &&
			(into->handle == NULL || into->rows < 0 || into->bytes < 0 ||
			 (into->bytes > 0 && into->segment_bytes <= 0) ||
			 (into->segment_bytes > 0 &&
			  into->nsegments != into->bytes / into->segment_bytes)))
			problem = "it is damaged";
	}
	free(text);
	if (problem != NULL)
		say("error: \"%s\" cannot be used: %s", name, problem);
	free(name);
	return problem == NULL ? EXIT_DONE : EXIT_MISMATCH;
}
