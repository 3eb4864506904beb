/*-------------------------------------------------------------------------
 *
 * output.c
 *	  Where the rows go: a file that can be resumed, or anything else.
 *
 * Bytes are collected in a buffer and written in the order of the rows.
 * Checksums are of segments of the file, so that whoever resumes a very large
 * file need not read all of it to see whether it is the one we left.
 *
 * Three places in the output matter:
 *
 *		given		what output_write() was called with
 *		boundary	the last end of a row that is in the file
 *		durable		the last boundary that a state file may name
 *
 * A page may end anywhere in the buffer; a boundary is known when everything
 * up to it was written.  When a write fails, because the disk is full, the
 * file is cut back to the boundary, and not to what was durable: little is
 * lost, and room is made for the state file.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/output.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/pg_crc32c.h"

#include "peekget/output.h"
#include "peekget/progress.h"

#define BUFFER_BYTES (256 * 1024)

/* How far the kernel may be behind before it is told to start writing. */
#define WRITEBACK_BYTES (8 * 1024 * 1024)

/* Who resumes reads all of a file up to this size, and so much of others. */
#define VERIFY_BYTES (INT64CONST(1024) * 1024 * 1024)

/* A place in the output, with the checksum of its unfinished segment. */
typedef struct Place
{
	int64		rows;
	int64		bytes;
	int			nsegments;
	pg_crc32c	crc;
} Place;

static const char *name = "standard output";
static int	fd = STDOUT_FILENO;
static bool resumable = false;
static bool created = false;

static char buffer[BUFFER_BYTES];
static size_t used;

static int64 given_rows;		/* with the buffer */
static bool at_boundary = true;	/* do the given bytes end with a row? */
static Place written;			/* rows are not counted here */
static Place boundary;
static int	max_segments;		/* that state.segments has room for */
static int64 writeback;			/* bytes whose writing was begun */

/*
 * Opens the file, whose content stays as it is for the moment, and makes sure
 * that no other peekget is at it.
 */
int
output_open(void)
{
	struct stat st;

	if (options.file != NULL)
	{
		name = options.file;
		created = stat(name, &st) != 0;

		/*
		 * A file is read when it is resumed.  A pipe must not be open for
		 * reading: we would be the reader that never leaves.
		 */
		if (created || S_ISREG(st.st_mode))
			fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		else
			fd = open(name, O_WRONLY | O_CLOEXEC, 0);
		if (fd < 0 || fstat(fd, &st) != 0)
		{
			say("error: could not open \"%s\": %m", name);
			return EXIT_OUTPUT;
		}
		resumable = S_ISREG(st.st_mode);
		if (resumable && flock(fd, LOCK_EX | LOCK_NB) != 0 &&
			errno == EWOULDBLOCK)
		{
			say("error: another peekget is writing \"%s\"", name);
			return EXIT_OUTPUT;
		}
	}
	INIT_CRC32C(written.crc);
	boundary = written;
	return EXIT_DONE;
}

/* Can a later run go on with it? */
bool
output_is_resumable(void)
{
	return resumable;
}

bool
output_is_empty(void)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size == 0;
}

/* With what is in the buffer. */
int64
output_rows(void)
{
	return given_rows;
}

int64
output_bytes(void)
{
	return written.bytes + used;
}

static int
mismatch(const char *what)
{
	say("error: \"%s\" is not as it was left: %s", name, what);
	fprintf(stderr,
			"It cannot be resumed.  To start anew: --force, not --resume.\n");
	return EXIT_MISMATCH;
}

/* The checksum of a part of the file; false if it cannot be read. */
static bool
checksum_of(int64 from, int64 length, pg_crc32c *crc)
{
	INIT_CRC32C(*crc);
	while (length > 0)
	{
		ssize_t		n = pread(fd, buffer, Min(length, BUFFER_BYTES), from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		COMP_CRC32C(*crc, buffer, n);
		from += n;
		length -= n;
	}
	return true;
}

/*
 * Is the file what the state says of it?  Everything is read up to a gigabyte,
 * or with --verify.  Of a larger file: the first and last segments, and others
 * evenly between them, a gigabyte in all.
 */
int
output_verify(void)
{
	struct stat st;
	int			step = 1;
	pg_crc32c	crc;

	if (fstat(fd, &st) != 0)
	{
		say("error: could not look at \"%s\": %m", name);
		return EXIT_OUTPUT;
	}
	if (st.st_size < state.bytes)
	{
		char	   *what = psprintf("it has " INT64_FORMAT " bytes, and had "
									INT64_FORMAT,
									(int64) st.st_size, state.bytes);

		return mismatch(what);
	}

	if (!options.verify && state.bytes > VERIFY_BYTES)
		step = (int) (state.bytes / VERIFY_BYTES) + 1;
	for (int i = 0; i <= state.nsegments; i++)
	{
		bool		last = i == state.nsegments;
		int64		from = i * state.segment_bytes;

		if (i % step != 0 && i < state.nsegments - 1)
			continue;
		if (interrupted)
			return EXIT_SIGNAL + interrupted;
		progress_note("verifying what is there: " INT64_FORMAT " MB",
					  from >> 20);
		if (!checksum_of(from, last ? state.bytes - from : state.segment_bytes,
						 &crc))
		{
			say("error: could not read \"%s\": %m", name);
			return EXIT_OUTPUT;
		}
		if (last)
			written.crc = crc;
		FIN_CRC32C(crc);
		if (crc != (last ? state.rest : state.segments[i]))
		{
			char	   *what = psprintf("its content has changed, from byte "
										INT64_FORMAT " on", from);

			return mismatch(what);
		}
	}
	return EXIT_DONE;
}

/*
 * Writing begins, at the place that the state names; what follows it in the
 * file was never durable.
 */
int
output_begin(void)
{
	written.rows = given_rows = state.rows;
	written.bytes = state.bytes;
	written.nsegments = state.nsegments;
	boundary = written;
	writeback = state.bytes;
	if (resumable && (ftruncate(fd, state.bytes) != 0 ||
					  lseek(fd, state.bytes, SEEK_SET) < 0))
	{
		say("error: could not write to \"%s\": %m", name);
		return EXIT_OUTPUT;
	}
	return EXIT_DONE;
}

/* Bytes are in the file: counts them, and adds them to the checksums. */
static void
count_written(const char *data, size_t length)
{
	if (!resumable)
	{
		written.bytes += length;
		return;
	}
	while (length > 0)
	{
		int64		room = state.segment_bytes -
			written.bytes % state.segment_bytes;
		size_t		n = Min(length, (size_t) room);

		COMP_CRC32C(written.crc, data, n);
		written.bytes += n;
		data += n;
		length -= n;
		if (n == (size_t) room)
		{
			pg_crc32c	crc = written.crc;

			FIN_CRC32C(crc);
			if (written.nsegments >= max_segments)
			{
				max_segments = Max(16, 2 * written.nsegments);
				state.segments = pg_realloc(state.segments,
											sizeof(uint32) * max_segments);
			}
			state.segments[written.nsegments++] = crc;
			INIT_CRC32C(written.crc);
		}
	}

#ifdef HAVE_SYNC_FILE_RANGE
	/* Making it durable takes less long if it does not begin then. */
	if (written.bytes - writeback >= WRITEBACK_BYTES)
	{
		sync_file_range(fd, writeback, written.bytes - writeback,
						SYNC_FILE_RANGE_WRITE);
		writeback = written.bytes;
	}
#endif
}

static int
write_failed(int error)
{
	if (error == EPIPE)
	{
		/* as with any program at the left of a pipe: no complaint */
		return EXIT_PIPE;
	}
	say("error: could not write to \"%s\": %s", name, strerror(error));
	return EXIT_OUTPUT;
}

static int
write_now(const char *data, size_t length)
{
	while (length > 0)
	{
		ssize_t		n;

		/*
		 * A pipe may be full for as long as its reader likes.  A file is
		 * written to its next boundary first.
		 */
		if (interrupted && !resumable)
			return EXIT_SIGNAL + interrupted;
		n = write(fd, data, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return write_failed(errno);
		count_written(data, n);
		data += n;
		length -= n;
	}
	return EXIT_DONE;
}

static void
set_boundary(void)
{
	if (used == 0 && at_boundary)
	{
		boundary = written;
		boundary.rows = given_rows;
	}
}

static int
flush(void)
{
	size_t		length = used;
	int			status;

	used = 0;
	status = write_now(buffer, length);
	if (status == EXIT_DONE)
		set_boundary();
	return status;
}

/* The next bytes.  They may be a part of a row, or many. */
int
output_write(const char *data, size_t length)
{
	int			status;

	if (used + length > BUFFER_BYTES)
	{
		status = flush();
		if (status != EXIT_DONE)
			return status;
	}
	at_boundary = false;
	if (length > BUFFER_BYTES)
		return write_now(data, length);
	memcpy(buffer + used, data, length);
	used += length;
	return EXIT_DONE;
}

/* What was given since the last call is so many rows, and ends with one. */
int
output_boundary(int64 rows)
{
	given_rows += rows;
	at_boundary = true;
	set_boundary();
	return EXIT_DONE;
}

static void
boundary_to_state(void)
{
	pg_crc32c	crc = boundary.crc;

	FIN_CRC32C(crc);
	state.rows = boundary.rows;
	state.bytes = boundary.bytes;
	state.nsegments = boundary.nsegments;
	state.rest = crc;
}

static int
sync_now(void)
{
#ifdef HAVE_FDATASYNC
	int			failed = fdatasync(fd);
#else
	int			failed = fsync(fd);
#endif

	if (failed != 0)
	{
		say("error: could not write to \"%s\": %m", name);
		return EXIT_OUTPUT;
	}
	return EXIT_DONE;
}

/*
 * Everything up to the last boundary is made durable, and then "state" says
 * so; to write it is the caller's.
 */
int
output_make_durable(void)
{
	int			status = flush();

	if (status == EXIT_DONE && resumable)
	{
		status = sync_now();
		if (status == EXIT_DONE)
			boundary_to_state();
	}
	return status;
}

/*
 * A write has failed.  What is whole in the file is kept, if that is possible,
 * and what follows is cut off.
 */
void
output_give_up(void)
{
	if (!resumable || ftruncate(fd, boundary.bytes) != 0)
		return;
	if (sync_now() == EXIT_DONE)
		boundary_to_state();
}

/*
 * The last thing that is done with it; nothing is in the buffer.  A file that
 * is to be discarded is removed if it was not there before.
 */
int
output_close(bool discard)
{
	if (options.file == NULL)
		return EXIT_DONE;
	if (discard && created && resumable)
		unlink(name);
	if (close(fd) != 0 && resumable && !discard)
		return write_failed(errno);
	return EXIT_DONE;
}
